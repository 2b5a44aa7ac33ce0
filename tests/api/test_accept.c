/*
 * test_accept - deciding upgrades: every state, every thread, every end.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct site site;

/* Asks for an upgrade with further header lines; returns the request. */
static struct nib_request *ask(struct peer *p, const char *lines)
{
    char text[2048];
    int n = peer_upgrade_text(text, sizeof text, "/next", lines);

    peer_send(p, text, (size_t)n);
    return site_next(&site);
}

static int accept_with(struct nib_request *req, const char *subprotocol,
                       const struct nib_header *headers, size_t count)
{
    struct nib_accept_options options = {
        .subprotocol = subprotocol,
        .headers = headers,
        .header_count = count,
    };

    return nib_accept(req, &options, NULL);
}

START_TEST(a_wrong_subprotocol_leaves_it_undecided)
{
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "Sec-WebSocket-Protocol: a, b\r\n");
    ck_assert_int_eq(accept_with(req, "c", NULL, 0), -EINVAL);
    ck_assert_int_eq(accept_with(req, "", NULL, 0), -EINVAL);
    ck_assert_int_eq(accept_with(req, "A", NULL, 0), -EINVAL);
    ck_assert_int_eq(accept_with(req, "b", NULL, 0), 0);
    peer_expect_101(p, "Sec-WebSocket-Protocol: b\r\n");
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_wrong_header_leaves_it_undecided)
{
    static const struct nib_header wrong[] = {
        {"X", "a\r\nY: b"},          {"X", "a\nb"},
        {"X\r\nY", "a"},             {"", "a"},
        {"X Y", "a"},                {"Connection", "close"},
        {"upgrade", "a"},            {"Content-Length", "0"},
        {"transfer-encoding", "a"},  {"Sec-WebSocket-Accept", "a"},
        {"sec-websocket-anything", "a"}, {"X", NULL},
        {NULL, "a"},
    };
    static const struct nib_header good[] = {{"X-A", "1"}, {"Set-Cookie", "b=2"}};
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    for (size_t i = 0; i < COUNT(wrong); i++) {
        ck_assert_int_eq(accept_with(req, NULL, &wrong[i], 1), -EINVAL);
        ck_assert_int_eq(nib_reject(req, 403, &wrong[i], 1, NULL, 0),
                         -EINVAL);
    }
    ck_assert_int_eq(accept_with(req, NULL, good, 2), 0);
    peer_expect_101(p, "X-A: 1\r\nSet-Cookie: b=2\r\n");
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_wrong_status_leaves_it_undecided)
{
    static const int wrong[] = {-1, 0, 100, 101, 200, 299, 600, 1000};
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    for (size_t i = 0; i < COUNT(wrong); i++)
        ck_assert_int_eq(nib_reject(req, wrong[i], NULL, 0, NULL, 0),
                         -EINVAL);
    ck_assert_int_eq(nib_reject(req, 599, NULL, 0, NULL, 0), 0);
    peer_expect_text(p, "HTTP/1.1 599 \r\n"
                        "Content-Length: 0\r\n"
                        "Connection: close\r\n\r\n");
    peer_expect_end(p);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_reject_says_what_it_was_given)
{
    static const struct nib_header headers[] = {
        {"Content-Type", "application/json"}, {"X-Why", "no"}};
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_reject(req, 403, headers, 2, "{\"no\":1}", 8), 0);
    peer_expect_text(p, "HTTP/1.1 403 Forbidden\r\n"
                        "Content-Type: application/json\r\n"
                        "X-Why: no\r\n"
                        "Content-Length: 8\r\n"
                        "Connection: close\r\n\r\n"
                        "{\"no\":1}");
    peer_expect_end(p);
    ck_assert_uint_eq(site_stats(&site).rejected, 1);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

static void small_outbox(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 65536), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 131072), 0);
}

START_TEST(a_reject_has_a_body_up_to_the_outbox)
{
    static char body[131073];
    static const char end[] = "Content-Length: 131072\r\n"
                              "Connection: close\r\n\r\n";
    struct nib_request *req;
    struct peer *p;

    memset(body, 'b', sizeof body);
    site_start(&site, small_outbox);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_reject(req, 500, NULL, 0, body, 131073), -EMSGSIZE);
    /* What the peer still sends must not cut the body off. */
    ck_assert_int_eq(nib_reject(req, 500, NULL, 0, body, 131072), 0);
    for (int i = 0; i < 10; i++)
        peer_send_frame(p, PEER_BINARY, body, 1000);
    ck_assert_ptr_nonnull(strstr(peer_read_head(p), end));
    peer_expect(p, body, 131072);
    peer_expect_end(p);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_decision_is_final)
{
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_accept(req, NULL, NULL), 0);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), NIB_ESTATE);
    ck_assert_int_eq(nib_reject(req, 403, NULL, 0, NULL, 0), NIB_ESTATE);
    ck_assert_int_eq(nib_accept_async(req, NULL, NULL, NULL), NIB_ESTATE);
    ck_assert_int_eq(nib_reject_async(req, 403, NULL, 0, NULL, 0, NULL, NULL),
                     NIB_ESTATE);
    nib_request_unref(req);
    peer_expect_101(p, "");
    peer_free(p);

    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_reject(req, 404, NULL, 0, NULL, 0), 0);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), NIB_ESTATE);
    ck_assert_int_eq(nib_reject(req, 403, NULL, 0, NULL, 0), NIB_ESTATE);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

/* Many threads that decide the same request. */
struct race {
    struct nib_request *req;
    pthread_barrier_t start;
    _Atomic unsigned number;
};

static int decide(void *arg)
{
    struct race *race = arg;
    unsigned number = atomic_fetch_add(&race->number, 1);

    pthread_barrier_wait(&race->start);
    return number % 2 == 0
               ? nib_accept(race->req, NULL, NULL)
               : nib_reject(race->req, 403, NULL, 0, "no", 2);
}

START_TEST(exactly_one_of_many_threads_decides)
{
    enum { THREADS = 8, ROUNDS = 50 };
    struct job jobs[THREADS];
    struct race race;

    site_start(&site, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        struct peer *p = site_connect(&site);
        int winners = 0;

        race.req = ask(p, "");
        race.number = 0;
        pthread_barrier_init(&race.start, NULL, THREADS);
        for (int i = 0; i < THREADS; i++)
            job_start(&jobs[i], decide, &race);
        for (int i = 0; i < THREADS; i++) {
            int result = job_wait(&jobs[i]);

            if (result == 0)
                winners++;
            else
                ck_assert_int_eq(result, NIB_ESTATE);
        }
        ck_assert_int_eq(winners, 1);
        pthread_barrier_destroy(&race.start);
        nib_request_unref(race.req);
        peer_free(p);
    }
    site_stop(&site);
}
END_TEST

/* The client leaves by FIN or RST, the server has seen it, then this. */
static void gone_before(bool reset, bool accept)
{
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    if (reset)
        peer_reset(p);
    else
        peer_free(p);
    site_await_connections(&site, 0);
    ck_assert_int_eq(accept ? nib_accept(req, NULL, NULL)
                            : nib_reject(req, 403, NULL, 0, NULL, 0),
                     -EPIPE);
    nib_request_unref(req);
    site_stop(&site);
}

START_TEST(a_client_gone_by_fin_is_not_accepted)
{
    gone_before(false, true);
}
END_TEST

START_TEST(a_client_gone_by_rst_is_not_accepted)
{
    gone_before(true, true);
}
END_TEST

START_TEST(a_client_gone_by_fin_is_not_rejected)
{
    gone_before(false, false);
}
END_TEST

START_TEST(a_client_gone_by_rst_is_not_rejected)
{
    gone_before(true, false);
}
END_TEST

START_TEST(a_client_that_only_ends_its_half_is_gone)
{
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    peer_half_close(p);
    site_await_connections(&site, 0);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), -EPIPE);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_client_may_leave_at_any_moment)
{
    site_start(&site, NULL);
    for (int i = 0; i < 200; i++) {
        struct peer *p = site_connect(&site);
        struct nib_request *req = ask(p, "");
        struct nib_conn *conn = NULL;
        int result;

        if (i % 2 == 0)
            peer_reset(p);
        else
            peer_free(p);
        result = i % 4 < 2 ? nib_accept(req, NULL, &conn)
                           : nib_reject(req, 403, NULL, 0, "no", 2);
        if (result != 0)
            ck_assert_int_eq(result, -EPIPE);
        ck_assert_int_eq(nib_accept(req, NULL, NULL),
                         result == 0 ? NIB_ESTATE : -EPIPE);
        if (conn != NULL) {
            struct nib_message *msg;

            ck_assert_int_eq(nib_recv(conn, &msg, -1), -EPIPE);
            ck_assert_int_eq(nib_recv(conn, &msg, -1), -EPIPE);
            expect_info(conn, 1006, false, false, "");
        }
        nib_request_unref(req);
    }
    site_await_connections(&site, 0);
    site_stop(&site);
}
END_TEST

static void short_handshake(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_handshake_timeout_ms(
                         cfg, site_short_ms(100)), 0);
}

START_TEST(an_undecided_request_ends_at_its_deadline)
{
    struct nib_request *req;
    struct peer *p;

    site_start(&site, short_handshake);
    p = site_connect(&site);
    req = ask(p, "");
    peer_expect_text(p, "HTTP/1.1 503 Service Unavailable\r\n");
    peer_read_head(p);
    peer_expect_text(p, "The request was not decided in time.\n");
    peer_expect_end(p);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), -ETIMEDOUT);
    ck_assert_int_eq(nib_reject(req, 403, NULL, 0, NULL, 0), -ETIMEDOUT);
    ck_assert_int_eq(nib_accept_async(req, NULL, NULL, NULL), -ETIMEDOUT);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

static void expect_500(struct peer *p)
{
    peer_expect_text(p, "HTTP/1.1 500 Internal Server Error\r\n");
    peer_read_head(p);
    peer_expect_text(p, "The request was not decided.\n");
    peer_expect_end(p);
    peer_free(p);
}

START_TEST(a_dropped_request_is_answered_500)
{
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    nib_request_unref(ask(p, ""));
    expect_500(p);
    site_await_log(&site, "\"/next\": a request was dropped");
    site_stop(&site);
}
END_TEST

START_TEST(only_the_last_reference_drops)
{
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_ptr_eq(nib_request_ref(req), req);
    nib_request_unref(req);
    ck_assert_str_eq(nib_request_path(req), "/next");
    ck_assert(!peer_readable(p));
    nib_request_unref(req);
    expect_500(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_handler_without_a_decision_is_answered_500)
{
    struct peer *p;

    site_start(&site, NULL);
    for (int result = 0; result < 2; result++) {
        p = site_connect(&site);
        peer_ask(p, "/hold");
        held_return(held_next(&site), result);
        expect_500(p);
    }
    site_await_log(&site, "\"/hold\": a request was dropped");
    site_stop(&site);
}
END_TEST

static void handler_returns(int result, unsigned code)
{
    struct held *h;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    peer_ask(p, "/hold");
    h = held_next(&site);
    ck_assert_int_eq(held_accept(h), 0);
    peer_expect_101(p, "");
    held_return(h, result);
    peer_expect_close(p, code, "");
    peer_send_close(p, code, "");
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}

START_TEST(a_handler_that_returns_0_closes_1000)
{
    handler_returns(0, 1000);
}
END_TEST

START_TEST(a_handler_that_returns_an_error_closes_1011)
{
    handler_returns(-EIO, 1011);
}
END_TEST

START_TEST(a_handler_that_returns_1_closes_1011)
{
    handler_returns(1, 1011);
}
END_TEST

static int close_4000(struct held *h, void *arg)
{
    (void)arg;
    return nib_close(h->conn, 4000, "mine", 0);
}

START_TEST(a_handlers_own_close_stays)
{
    struct held *h;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    peer_ask(p, "/hold");
    h = held_next(&site);
    ck_assert_int_eq(held_accept(h), 0);
    peer_expect_101(p, "");
    ck_assert_int_eq(held_do(h, close_4000, NULL), 0);
    held_return(h, 1);
    peer_expect_close(p, 4000, "mine");
    peer_send_close(p, 4000, "mine");
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}
END_TEST

/* ---- on_request ---- */

START_TEST(on_request_may_reject_by_a_status)
{
    static const int statuses[] = {300, 403, 404, 599};

    site_start(&site, NULL);
    for (size_t i = 0; i < COUNT(statuses); i++) {
        struct peer *p = site_connect(&site);
        char text[64];

        site.verdict = statuses[i];
        peer_ask(p, "/cb");
        snprintf(text, sizeof text, "HTTP/1.1 %d ", statuses[i]);
        peer_expect_text(p, text);
        site_event(&site, EVENT_REQUEST);
        peer_free(p);
    }
    ck_assert_uint_eq(site_stats(&site).rejected, COUNT(statuses));
    ck_assert_uint_eq(site_events_left(&site), 0);
    site_stop(&site);
}
END_TEST

START_TEST(on_request_cannot_answer_any_status)
{
    static const int statuses[] = {-1, 2, 200, 299, 600};

    site_start(&site, NULL);
    for (size_t i = 0; i < COUNT(statuses); i++) {
        struct peer *p = site_connect(&site);

        site.verdict = statuses[i];
        peer_ask(p, "/cb");
        peer_expect_text(p, "HTTP/1.1 500 Internal Server Error\r\n");
        peer_free(p);
    }
    site_await_log(&site, "on_request returned -1");
    site_stop(&site);
}
END_TEST

START_TEST(on_request_that_forgets_is_answered_500)
{
    struct peer *p;

    site_start(&site, NULL);
    site.verdict = NIB_DECIDED;
    p = site_connect(&site);
    peer_ask(p, "/cb");
    expect_500(p);
    site_stop(&site);
}
END_TEST

static void keep_request(struct site *s, struct nib_request *req)
{
    s->user = nib_request_ref(req);
}

static void accept_here(struct site *s, struct nib_request *req)
{
    (void)s;
    must(nib_accept(req, NULL, NULL) == -EAGAIN);
    must(nib_accept(req, NULL, NULL) == NIB_ESTATE);
    must(nib_reject(req, 403, NULL, 0, NULL, 0) == NIB_ESTATE);
}

START_TEST(on_request_may_begin_an_accept)
{
    struct peer *p;

    site_start(&site, NULL);
    site.verdict = NIB_DECIDED;
    site.on_request = accept_here;
    p = site_connect(&site);
    peer_upgrade(p, "/cb");
    site_event(&site, EVENT_REQUEST);
    site_event(&site, EVENT_OPEN);
    peer_free(p);
    site_event(&site, EVENT_CLOSE);
    site_stop(&site);
}
END_TEST

static void reject_here(struct site *s, struct nib_request *req)
{
    (void)s;
    must(nib_reject(req, 418, NULL, 0, "tea", 3) == -EAGAIN);
    must(nib_accept(req, NULL, NULL) == NIB_ESTATE);
}

START_TEST(on_request_may_begin_a_reject)
{
    struct peer *p;

    site_start(&site, NULL);
    site.verdict = NIB_DECIDED;
    site.on_request = reject_here;
    p = site_connect(&site);
    peer_ask(p, "/cb");
    peer_expect_text(p, "HTTP/1.1 418 ");
    peer_read_head(p);
    peer_expect_text(p, "tea");
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}
END_TEST

/* ---- asynchronous forms ---- */

struct outcome {
    struct latch told;
    int result;
    struct nib_conn *conn;
    bool on_owner;
};

static void told_accept(int result, struct nib_conn *conn, void *arg)
{
    struct outcome *o = arg;
    struct nib_message *msg;

    o->result = result;
    o->conn = conn;
    /* On a reactor, so on the owner. */
    o->on_owner = conn != NULL && nib_recv(conn, &msg, 0) == -EDEADLK;
    latch_add(&o->told);
}

static void told_reject(int result, void *arg)
{
    struct outcome *o = arg;

    o->result = result;
    latch_add(&o->told);
}

START_TEST(an_asynchronous_accept_tells_once)
{
    struct outcome o = {.result = 99};
    struct nib_accept_options wrong = {.subprotocol = "x"};
    struct nib_accept_options mine = {.user = &o};
    struct nib_request *req;
    struct peer *p;

    latch_init(&o.told);
    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_accept_async(req, &wrong, told_accept, &o),
                     -EINVAL);
    ck_assert_int_eq(nib_accept_async(req, &mine, told_accept, &o), 0);
    ck_assert_int_eq(nib_accept_async(req, NULL, told_accept, &o),
                     NIB_ESTATE);
    latch_await(&o.told, 1);
    ck_assert_int_eq(o.result, 0);
    ck_assert(o.on_owner);
    ck_assert_ptr_eq(nib_conn_user(o.conn), &o);
    peer_expect_101(p, "");
    peer_send_frame(p, PEER_TEXT, "hello", 5);
    expect_recv(o.conn, NIB_TEXT, "hello");
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
    ck_assert_uint_eq(latch_count(&o.told), 1);
}
END_TEST

START_TEST(an_asynchronous_accept_needs_nobody_to_tell)
{
    struct nib_request *req;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_accept_async(req, NULL, NULL, NULL), 0);
    peer_expect_101(p, "");
    nib_request_unref(req);
    peer_free(p);

    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_reject_async(req, 410, NULL, 0, NULL, 0, NULL, NULL),
                     0);
    peer_expect_text(p, "HTTP/1.1 410 Gone\r\n");
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(an_asynchronous_reject_tells_once)
{
    struct outcome o = {.result = 99};
    struct nib_request *req;
    struct peer *p;

    latch_init(&o.told);
    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_reject_async(req, 200, NULL, 0, NULL, 0,
                                      told_reject, &o),
                     -EINVAL);
    ck_assert_int_eq(nib_reject_async(req, 401, NULL, 0, "who", 3,
                                      told_reject, &o),
                     0);
    latch_await(&o.told, 1);
    ck_assert_int_eq(o.result, 0);
    peer_expect_text(p, "HTTP/1.1 401 Unauthorized\r\n");
    peer_read_head(p);
    peer_expect_text(p, "who");
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
    ck_assert_uint_eq(latch_count(&o.told), 1);
}
END_TEST

START_TEST(a_decision_after_the_stop_fails)
{
    struct outcome o = {.result = 99};
    struct nib_request *req;
    struct peer *p;

    latch_init(&o.told);
    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    nib_server_stop(site.srv, 10000);
    peer_expect_text(p, "HTTP/1.1 503 Service Unavailable\r\n");
    peer_free(p);
    site_end(&site);
    ck_assert_int_eq(nib_accept_async(req, NULL, told_accept, &o),
                     -ECANCELED);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), -ECANCELED);
    ck_assert_int_eq(nib_reject(req, 403, NULL, 0, NULL, 0), -ECANCELED);
    nib_request_unref(req);
    ck_assert_uint_eq(latch_count(&o.told), 0);
    site_check_left(&site);
}
END_TEST

START_TEST(a_stop_without_grace_still_answers)
{
    enum { UNDECIDED = 100 };
    struct nib_request *reqs[UNDECIDED];
    struct peer *peers[UNDECIDED];

    site_start(&site, NULL);
    for (int i = 0; i < UNDECIDED; i++) {
        peers[i] = site_connect(&site);
        reqs[i] = ask(peers[i], "");
    }
    nib_server_stop(site.srv, 0);
    for (int i = 0; i < UNDECIDED; i++) {
        peer_expect_text(peers[i], "HTTP/1.1 503 Service Unavailable\r\n");
        peer_free(peers[i]);
    }
    site_end(&site);
    for (int i = 0; i < UNDECIDED; i++)
        nib_request_unref(reqs[i]);
    site_check_left(&site);
}
END_TEST

START_TEST(a_request_kept_by_a_callback_is_decided_later)
{
    struct nib_request *req;
    struct nib_conn *conn;
    struct peer *p;

    site_start(&site, NULL);
    site.verdict = NIB_DECIDED;
    site.on_request = keep_request;
    p = site_connect(&site);
    peer_ask(p, "/cb");
    site_event(&site, EVENT_REQUEST);
    req = site.user;
    ck_assert(!peer_readable(p));
    /* The waiting form is allowed on any thread but a reactor's. */
    ck_assert_int_eq(nib_accept(req, NULL, &conn), 0);
    peer_expect_101(p, "");
    ck_assert_ptr_eq(site_event(&site, EVENT_OPEN).conn, conn);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

/* ---- what comes before the accept ---- */

START_TEST(frames_sent_before_the_accept_are_kept)
{
    char request[512];
    uint8_t bytes[1024];
    size_t n;
    struct nib_request *req;
    struct nib_conn *conn;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    /* The first in the request's own segment. */
    n = (size_t)peer_upgrade_text(request, sizeof request, "/next", "");
    memcpy(bytes, request, n);
    n += peer_encode(bytes + n, PEER_TEXT, "one", 3);
    peer_send(p, bytes, n);
    req = site_next(&site);
    for (int i = 0; i < 100; i++)
        peer_send_frame(p, PEER_BINARY, "two", 3);
    peer_send_frame(p, PEER_TEXT, "three", 5);
    peer_send_frame(p, PEER_PING, "p", 1);
    ck_assert(!peer_readable(p));
    ck_assert_int_eq(nib_accept(req, NULL, &conn), 0);
    peer_expect_101(p, "");
    expect_recv(conn, NIB_TEXT, "one");
    for (int i = 0; i < 100; i++)
        expect_recv(conn, NIB_BINARY, "two");
    expect_recv(conn, NIB_TEXT, "three");
    peer_expect_frame(p, PEER_PONG, "p", 1);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_close_before_the_accept_is_answered_after_it)
{
    struct nib_request *req;
    struct nib_conn *conn;
    struct nib_message *msg;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    peer_send_frame(p, PEER_TEXT, "last", 4);
    peer_send_close(p, 4001, "bye");
    ck_assert_int_eq(nib_accept(req, NULL, &conn), 0);
    peer_expect_101(p, "");
    peer_expect_close(p, 4001, "bye");
    peer_expect_end(p);
    expect_recv(conn, NIB_TEXT, "last");
    ck_assert_int_eq(nib_recv(conn, &msg, -1), -EPIPE);
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

/* ---- subprotocols ---- */

static void speaks_b_c(struct nib_config *cfg)
{
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, "=/bc", &route), 0);
    ck_assert_int_eq(nib_route_set_subprotocols(route, "b, c"), 0);
    ck_assert_int_eq(nib_route_set_subprotocols(route, "b,,\"c"), -EINVAL);
}

START_TEST(the_first_offered_subprotocol_that_the_route_speaks_is_taken)
{
    static const struct {
        const char *lines;
        const char *chosen;
    } cases[] = {
        {"", NULL},
        {"Sec-WebSocket-Protocol: a\r\n", NULL},
        {"Sec-WebSocket-Protocol: b\r\n", "b"},
        {"Sec-WebSocket-Protocol: a, c, b\r\n", "c"},
        {"Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol:  b \r\n", "b"},
        {"Sec-WebSocket-Protocol: B\r\n", NULL},
        {"Sec-WebSocket-Protocol: bb, c\r\n", "c"},
    };

    site_start(&site, speaks_b_c);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct peer *p = site_connect(&site);
        struct nib_request *req;
        struct nib_conn *conn;
        char text[1024], line[128] = "";

        peer_upgrade_text(text, sizeof text, "/bc", cases[i].lines);
        peer_send_text(p, text);
        req = site_next(&site);
        ck_assert_int_eq(nib_accept(req, NULL, &conn), 0);
        if (cases[i].chosen != NULL)
            snprintf(line, sizeof line, "Sec-WebSocket-Protocol: %s\r\n",
                     cases[i].chosen);
        peer_expect_101(p, line);
        ck_assert_str_eq(nib_conn_subprotocol(conn),
                         cases[i].chosen == NULL ? "" : cases[i].chosen);
        nib_request_unref(req);
        peer_free(p);
    }
    site_stop(&site);
}
END_TEST

START_TEST(an_accept_may_name_any_offered_subprotocol)
{
    struct nib_request *req;
    struct peer *p;
    char text[1024];

    site_start(&site, speaks_b_c);
    p = site_connect(&site);
    peer_upgrade_text(text, sizeof text, "/bc",
                      "Sec-WebSocket-Protocol: a, b\r\n");
    peer_send_text(p, text);
    req = site_next(&site);
    ck_assert_str_eq(nib_request_subprotocol(req, 0), "a");
    ck_assert_str_eq(nib_request_subprotocol(req, 1), "b");
    ck_assert_ptr_null(nib_request_subprotocol(req, 2));
    ck_assert_int_eq(accept_with(req, "c", NULL, 0), -EINVAL);
    ck_assert_int_eq(accept_with(req, "a", NULL, 0), 0);
    peer_expect_101(p, "Sec-WebSocket-Protocol: a\r\n");
    nib_request_unref(req);
    peer_free(p);
    site_stop(&site);
}
END_TEST

/* ---- what a request tells ---- */

START_TEST(a_request_tells_what_was_sent)
{
    struct nib_request *req;
    struct nib_header line;
    struct peer *p;
    char text[1024];

    site_start(&site, NULL);
    p = site_connect(&site);
    peer_upgrade_text(text, sizeof text, "/next?a=%20&b",
                      "X-Two:  first \r\nCookie: c=1\r\nx-two: second\r\n");
    peer_send_text(p, text);
    req = site_next(&site);
    ck_assert_str_eq(nib_request_method(req), "GET");
    ck_assert_str_eq(nib_request_path(req), "/next");
    ck_assert_str_eq(nib_request_query(req), "a=%20&b");
    ck_assert_str_eq(nib_request_header(req, "X-TWO", 0), "first");
    ck_assert_str_eq(nib_request_header(req, "x-two", 1), "second");
    ck_assert_ptr_null(nib_request_header(req, "x-two", 2));
    ck_assert_ptr_null(nib_request_header(req, "x-tw", 0));
    ck_assert(nib_request_header_at(req, 0, &line));
    ck_assert_str_eq(line.name, "Host");
    ck_assert_str_eq(line.value, "test");
    ck_assert(nib_request_header_at(req, 6, &line));
    ck_assert_str_eq(line.name, "Cookie");
    ck_assert(nib_request_header_at(req, 7, &line));
    ck_assert(!nib_request_header_at(req, 8, &line));
    ck_assert_str_eq(nib_request_peer(req), peer_name(p));
    ck_assert_ptr_eq(nib_request_server(req), site.srv);
    ck_assert_ptr_null(nib_request_subprotocol(req, 0));
    /* It all lives on after the connection. */
    peer_reset(p);
    site_await_connections(&site, 0);
    ck_assert_str_eq(nib_request_query(req), "a=%20&b");
    nib_request_unref(req);
    site_stop(&site);
}
END_TEST

START_TEST(a_connection_lives_as_long_as_its_request)
{
    struct nib_request *req;
    struct nib_conn *conn;
    struct peer *p;

    site_start(&site, NULL);
    p = site_connect(&site);
    req = ask(p, "");
    ck_assert_int_eq(nib_accept(req, NULL, &conn), 0);
    peer_reset(p);
    site_await_connections(&site, 0);
    ck_assert_int_eq(nib_conn_state(conn), NIB_CLOSED);
    nib_conn_ref(conn);
    nib_request_unref(req);
    ck_assert_int_eq(nib_conn_state(conn), NIB_CLOSED);
    expect_info(conn, 1006, false, false, "");
    nib_conn_unref(conn);
    site_stop(&site);
}
END_TEST

START_TEST(numbers_of_connections_differ)
{
    struct link a, b;

    site_start(&site, NULL);
    a = link_open(&site);
    b = link_open(&site);
    ck_assert_uint_ne(nib_conn_id(a.conn), nib_conn_id(b.conn));
    ck_assert_ptr_eq(nib_conn_server(a.conn), site.srv);
    link_free(&a);
    link_free(&b);
    site_stop(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(a_wrong_subprotocol_leaves_it_undecided),
        TEST(a_wrong_header_leaves_it_undecided),
        TEST(a_wrong_status_leaves_it_undecided),
        TEST(a_reject_says_what_it_was_given),
        TEST(a_reject_has_a_body_up_to_the_outbox),
        TEST(a_decision_is_final),
        TEST(exactly_one_of_many_threads_decides),
        TEST(a_client_gone_by_fin_is_not_accepted),
        TEST(a_client_gone_by_rst_is_not_accepted),
        TEST(a_client_gone_by_fin_is_not_rejected),
        TEST(a_client_gone_by_rst_is_not_rejected),
        TEST(a_client_that_only_ends_its_half_is_gone),
        TEST(a_client_may_leave_at_any_moment),
        TEST(an_undecided_request_ends_at_its_deadline),
        TEST(a_dropped_request_is_answered_500),
        TEST(only_the_last_reference_drops),
        TEST(a_handler_without_a_decision_is_answered_500),
        TEST(a_handler_that_returns_0_closes_1000),
        TEST(a_handler_that_returns_an_error_closes_1011),
        TEST(a_handler_that_returns_1_closes_1011),
        TEST(a_handlers_own_close_stays),
        TEST(on_request_may_reject_by_a_status),
        TEST(on_request_cannot_answer_any_status),
        TEST(on_request_that_forgets_is_answered_500),
        TEST(on_request_may_begin_an_accept),
        TEST(on_request_may_begin_a_reject),
        TEST(an_asynchronous_accept_tells_once),
        TEST(an_asynchronous_accept_needs_nobody_to_tell),
        TEST(an_asynchronous_reject_tells_once),
        TEST(a_decision_after_the_stop_fails),
        TEST(a_stop_without_grace_still_answers),
        TEST(a_request_kept_by_a_callback_is_decided_later),
        TEST(frames_sent_before_the_accept_are_kept),
        TEST(a_close_before_the_accept_is_answered_after_it),
        TEST(the_first_offered_subprotocol_that_the_route_speaks_is_taken),
        TEST(an_accept_may_name_any_offered_subprotocol),
        TEST(a_request_tells_what_was_sent),
        TEST(a_connection_lives_as_long_as_its_request),
        TEST(numbers_of_connections_differ),
    };

    return run_tests("accept", tests, COUNT(tests));
}
