/*
 * test_afterlife - what handles answer while the server stops, when it has
 * stopped, and when it has been freed.
 */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct site site;

enum {
    LONG_MS = 600000, /* a grace that no test lives to see the end of */
};

static unsigned ran, cancelled;

static void count_run(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    ran++;
}

static void count_cancel(struct nib_conn *conn, void *arg)
{
    must(conn == arg);
    cancelled++;
}

static void no_accept(int result, struct nib_conn *conn, void *arg)
{
    (void)result;
    (void)conn;
    (void)arg;
    must(!"an accept that was refused tells nobody");
}

static void no_reject(int result, void *arg)
{
    (void)result;
    (void)arg;
    must(!"a reject that was refused tells nobody");
}

/* A message for what is sent and published. */
static struct nib_message *text_message(void)
{
    struct nib_message *msg;

    ck_assert_int_eq(nib_message_new(NIB_TEXT, "x", 1, &msg), 0);
    return msg;
}

/* ---- what is answered at each stage ---- */

/* What does not depend on whether the end has come. */
static void check_conn(struct nib_conn *conn, bool callbacks)
{
    static char big[100000];
    struct nib_message *msg = text_message(), *got;

    ck_assert_int_eq(nib_send(conn, "x", 1, NIB_TEXT), -EPIPE);
    ck_assert_int_eq(nib_send(conn, "x", 1, NIB_TEXT | NIB_NOWAIT), -EPIPE);
    ck_assert_int_eq(nib_send(conn, big, sizeof big, NIB_BINARY), -EPIPE);
    ck_assert_int_eq(nib_send(conn, NULL, 0, NIB_BINARY), -EPIPE);
    ck_assert_int_eq(nib_send(conn, "x", 1, 0), -EINVAL);
    ck_assert_int_eq(nib_send(conn, "\xff", 1, NIB_TEXT), -EILSEQ);
    ck_assert_int_eq(nib_send_message(conn, msg, 0), -EPIPE);
    ck_assert_int_eq(nib_recv(conn, &got, -1),
                     callbacks ? NIB_ESTATE : -EPIPE);
    ck_assert_int_eq(nib_ping(conn, "x", 1), -EPIPE);
    ck_assert_int_eq(nib_subscribe(conn, "t"), -EPIPE);
    ck_assert_int_eq(nib_unsubscribe(conn, "t"), -EPIPE);
    ck_assert_int_eq(nib_conn_pause(conn), callbacks ? -EPIPE : NIB_ESTATE);
    ck_assert_int_eq(nib_conn_resume(conn), callbacks ? -EPIPE : NIB_ESTATE);
    ck_assert_int_eq(nib_flush(conn, -1), 0);
    ck_assert_int_eq(nib_close(conn, 999, NULL, -1), -EINVAL);
    ck_assert_int_eq(nib_close(conn, 4000, "late", 0), 0);
    ck_assert_uint_eq(nib_conn_buffered(conn), 0);
    ck_assert_str_eq(nib_conn_subprotocol(conn), "");
    ck_assert_ptr_eq(nib_conn_server(conn), site.srv);
    ck_assert_ptr_null(nib_conn_user(conn));
    ck_assert_uint_gt(nib_conn_id(conn), 0);
    nib_message_unref(msg);
}

/* After the join: the end is there, and no owner any more. */
static void check_ended(struct nib_conn *conn, bool callbacks)
{
    check_conn(conn, callbacks);
    ck_assert_int_eq(nib_conn_state(conn), NIB_CLOSED);
    ck_assert_int_eq(nib_close(conn, 4000, "late", -1), 0);
    nib_abort(conn);
    ran = cancelled = 0;
    ck_assert_int_eq(nib_post(conn, count_run, count_cancel, conn),
                     -ECANCELED);
    ck_assert_int_eq(nib_post(conn, count_run, NULL, conn), -ECANCELED);
    ck_assert_uint_eq(ran, 0);
    ck_assert_uint_eq(cancelled, 1);
    expect_info(conn, 1001, true, true, "");
}

/* A request that the stop has answered. */
static void check_undecided(struct nib_request *req)
{
    struct nib_accept_options wrong = {.subprotocol = "x"};
    struct nib_conn *conn = NULL;

    ck_assert_int_eq(nib_accept(req, NULL, &conn), -ECANCELED);
    ck_assert_int_eq(nib_accept(req, &wrong, &conn), -ECANCELED);
    ck_assert_int_eq(nib_accept_async(req, NULL, no_accept, NULL),
                     -ECANCELED);
    ck_assert_int_eq(nib_reject(req, 403, NULL, 0, "no", 2), -ECANCELED);
    ck_assert_int_eq(nib_reject_async(req, 403, NULL, 0, "no", 2, no_reject,
                                      NULL),
                     -ECANCELED);
    ck_assert_ptr_null(conn);
}

/* One that was accepted before. */
static void check_accepted(struct nib_request *req)
{
    ck_assert_int_eq(nib_accept(req, NULL, NULL), NIB_ESTATE);
    ck_assert_int_eq(nib_accept_async(req, NULL, no_accept, NULL),
                     NIB_ESTATE);
    ck_assert_int_eq(nib_reject(req, 403, NULL, 0, "no", 2), NIB_ESTATE);
    ck_assert_int_eq(nib_reject_async(req, 403, NULL, 0, "no", 2, no_reject,
                                      NULL),
                     NIB_ESTATE);
}

static void check_texts(struct nib_request *req)
{
    struct nib_header line;

    ck_assert_str_eq(nib_request_method(req), "GET");
    ck_assert_str_eq(nib_request_path(req), "/next");
    ck_assert_str_eq(nib_request_query(req), "");
    ck_assert_str_eq(nib_request_header(req, "upgrade", 0), "websocket");
    ck_assert(nib_request_header_at(req, 0, &line));
    ck_assert_str_eq(line.name, "Host");
    ck_assert_ptr_null(nib_request_subprotocol(req, 0));
    ck_assert(strncmp(nib_request_peer(req), "127.0.0.1:", 10) == 0);
    ck_assert_ptr_eq(nib_request_server(req), site.srv);
}

/* A connection of each kind, its request, and a request that is undecided. */
struct handles {
    struct link next;
    struct link callbacks;
    struct peer *peer;
    struct nib_request *accepted;
    struct nib_request *undecided;
};

static void handles_open(struct handles *h)
{
    h->next.peer = site_connect(&site);
    peer_ask(h->next.peer, "/next");
    h->accepted = site_next(&site);
    ck_assert_int_eq(nib_accept(h->accepted, NULL, &h->next.conn), 0);
    nib_conn_ref(h->next.conn);
    peer_expect_101(h->next.peer, "");
    h->callbacks = link_callbacks(&site);
    h->peer = site_connect(&site);
    peer_ask(h->peer, "/next");
    h->undecided = site_next(&site);
}

/* Each peer answers the stop as it should. */
static void handles_answer(struct handles *h)
{
    struct link *links[] = {&h->next, &h->callbacks};

    for (int i = 0; i < 2; i++) {
        peer_send_close(links[i]->peer, 1001, "");
        peer_expect_end(links[i]->peer);
        peer_free(links[i]->peer);
        links[i]->peer = NULL;
    }
    peer_free(h->peer);
}

static void handles_unref(struct handles *h)
{
    link_free(&h->next);
    link_free(&h->callbacks);
    nib_request_unref(h->accepted);
    nib_request_unref(h->undecided);
}

static int run_nothing(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return *(int *)arg;
}

/* While the server waits for its peers. */
static void check_stopping(struct handles *h)
{
    struct nib_publish_counts counts;
    struct nib_message *msg = text_message();
    struct nib_request *req;
    int seven = 7;

    check_conn(h->next.conn, false);
    check_conn(h->callbacks.conn, true);
    ck_assert_int_eq(nib_conn_state(h->next.conn), NIB_CLOSING_LOCAL);
    ck_assert_int_eq(nib_conn_state(h->callbacks.conn), NIB_CLOSING_LOCAL);
    ck_assert_int_eq(nib_close(h->next.conn, 4000, NULL, 1), -ETIMEDOUT);
    expect_info(h->next.conn, 1001, true, false, "");
    ck_assert_int_eq(on_owner(h->callbacks.conn, run_nothing, &seven), 7);
    check_undecided(h->undecided);
    check_accepted(h->accepted);
    ck_assert_int_eq(nib_publish(site.srv, "t", msg, NULL, 0), 0);
    ck_assert_int_eq(nib_publish_wait(site.srv, "t", msg, NULL, 0, &counts),
                     0);
    ck_assert_uint_eq(counts.queued, 0);
    ck_assert_int_eq(nib_server_next(site.srv, &req, -1), -ECANCELED);
    nib_message_unref(msg);
}

/* When nib_server_join() has returned 0. */
static void check_joined(void)
{
    struct nib_publish_counts counts;
    struct nib_message *msg = text_message();
    struct nib_request *req;
    struct nib_stats stats;

    for (unsigned flags = 0; flags <= NIB_NOWAIT; flags += NIB_NOWAIT) {
        ck_assert_int_eq(nib_publish(site.srv, "t", msg, NULL, flags),
                         -ECANCELED);
        ck_assert_int_eq(nib_publish_wait(site.srv, "t", msg, NULL, flags,
                                          &counts),
                         -ECANCELED);
    }
    ck_assert_int_eq(nib_publish(site.srv, "", msg, NULL, 0), -EINVAL);
    ck_assert_int_eq(nib_server_next(site.srv, &req, -1), -ECANCELED);
    ck_assert_int_eq(nib_server_start(site.srv), NIB_ESTATE);
    stats = site_stats(&site);
    ck_assert_uint_eq(stats.accepted, 3);
    ck_assert_uint_eq(stats.upgraded, 2);
    ck_assert_uint_eq(stats.connections, 0);
    ck_assert_uint_eq(stats.handshakes, 0);
    ck_assert_uint_eq(stats.handlers, 0);
    ck_assert_uint_eq(stats.handlers_queued, 0);
    ck_assert_uint_eq(stats.outbox_bytes, 0);
    ck_assert_uint_eq(stats.topic_bytes, 0);
    nib_server_stop(site.srv, 0);
    nib_message_unref(msg);
}

START_TEST(every_call_has_its_answer)
{
    struct handles h;

    site_start(&site, NULL);
    handles_open(&h);
    nib_server_stop(site.srv, LONG_MS);
    peer_expect_text(h.peer, "HTTP/1.1 503 ");
    peer_expect_close(h.next.peer, 1001, "");
    peer_expect_close(h.callbacks.peer, 1001, "");
    check_stopping(&h);
    handles_answer(&h);
    ck_assert_int_eq(nib_server_join(site.srv, -1, NULL), 0);
    check_joined();
    check_ended(h.next.conn, false);
    check_ended(h.callbacks.conn, true);
    check_undecided(h.undecided);
    check_accepted(h.accepted);
    check_texts(h.undecided);
    site_end(&site);
    check_ended(h.next.conn, false);
    check_ended(h.callbacks.conn, true);
    check_undecided(h.undecided);
    check_accepted(h.accepted);
    check_texts(h.undecided);
    check_texts(h.accepted);
    handles_unref(&h);
    site_check_left(&site);
}
END_TEST

START_TEST(what_was_received_outlives_the_server)
{
    struct nib_message *msg, *kept;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    peer_send_frame(l.peer, PEER_TEXT, "one", 3);
    ck_assert_int_eq(nib_recv(l.conn, &kept, -1), 0);
    peer_send_frame(l.peer, PEER_TEXT, "two", 3);
    peer_send_frame(l.peer, PEER_TEXT, "three", 5);
    peer_send_close(l.peer, 4001, "bye");
    peer_expect_close(l.peer, 4001, "bye");
    peer_expect_end(l.peer);
    peer_free(l.peer);
    l.peer = NULL;
    nib_server_stop(site.srv, 0);
    site_end(&site);
    ck_assert(memcmp(nib_message_data(kept, NULL), "one", 3) == 0);
    nib_message_unref(kept);
    expect_recv(l.conn, NIB_TEXT, "two");
    expect_recv(l.conn, NIB_TEXT, "three");
    ck_assert_int_eq(nib_recv(l.conn, &msg, -1), -EPIPE);
    expect_info(l.conn, 4001, false, true, "bye");
    link_free(&l);
    site_check_left(&site);
}
END_TEST

/* ---- calls that do not stop for a stop ---- */

static _Atomic unsigned posts_ended;

static void post_ended(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    atomic_fetch_add(&posts_ended, 1);
}

/* Uses a connection until a post is refused, and gives it back. */
static int use_conn(void *arg)
{
    struct nib_conn *conn = arg;
    struct nib_message *msg;
    unsigned posts = 0;
    int err;

    do {
        err = nib_send(conn, "x", 1, NIB_TEXT | NIB_NOWAIT);
        must(err == 0 || err == -EPIPE || err == -EAGAIN);
        err = nib_ping(conn, NULL, 0);
        must(err == 0 || err == -EPIPE || err == -EBUSY ||
             err == -ECANCELED);
        err = nib_subscribe(conn, "t");
        must(err == 0 || err == -EPIPE || err == -EAGAIN ||
             err == -ECANCELED);
        err = nib_unsubscribe(conn, "t");
        must(err == 0 || err == -EPIPE || err == -EAGAIN ||
             err == -ECANCELED);
        err = nib_recv(conn, &msg, 0);
        must(err == -ETIMEDOUT || err == -EPIPE);
        must(nib_conn_id(conn) > 0);
        must(nib_conn_subprotocol(conn)[0] == '\0');
        err = nib_post(conn, post_ended, post_ended, NULL);
        must(err == 0 || err == -EAGAIN || err == -ECANCELED);
        posts++;
    } while (err != -ECANCELED);
    must(nib_flush(conn, -1) <= 0);
    must(nib_close(conn, 1000, NULL, -1) == 0);
    nib_abort(conn);
    must(nib_send(conn, "x", 1, NIB_TEXT) == -EPIPE);
    nib_conn_unref(conn);
    return (int)posts;
}

/* Decides a request at some moment of the stop. */
static int use_request(void *arg)
{
    struct nib_request *req = arg;
    int err = nib_accept(req, NULL, NULL);

    must(err == 0 || err == -ECANCELED);
    must(nib_accept(req, NULL, NULL) == (err == 0 ? NIB_ESTATE : -ECANCELED));
    nib_request_unref(req);
    return 0;
}

static unsigned rounds(void)
{
    const char *sanitizers = getenv("NIB_SANITIZERS");

    /* Certificates are read for every server, too. */
    if (site_tls())
        return 50;
    return sanitizers == NULL || strcmp(sanitizers, "no") == 0 ? 1000 : 200;
}

START_TEST(a_handle_may_be_used_while_the_server_is_freed)
{
    for (unsigned i = rounds(); i > 0; i--) {
        struct job conn_job, request_job;
        struct nib_request *req;
        struct peer *undecided;
        struct link l;
        int posts;

        atomic_store(&posts_ended, 0);
        site_start(&site, NULL);
        l = link_open(&site);
        undecided = site_connect(&site);
        peer_ask(undecided, "/next");
        req = site_next(&site);
        job_start(&conn_job, use_conn, l.conn);
        job_start(&request_job, use_request, req);
        if (i % 2 == 0)
            peer_read_frame(l.peer); /* of those, whichever */
        nib_server_free(site.srv);
        posts = job_wait(&conn_job);
        job_wait(&request_job);
        /* Each was run or cancelled once. */
        ck_assert_uint_eq(atomic_load(&posts_ended), (unsigned)posts);
        peer_free(l.peer);
        peer_free(undecided);
        site_check_left(&site);
    }
}
END_TEST

/* The handles are all that is left, and go in every order. */
START_TEST(the_last_handle_frees_the_rest)
{
    for (int order = 0; order < 4; order++) {
        struct nib_request *undecided, *accepted;
        struct nib_conn *conn;
        struct peer *peers[2];

        site_start(&site, NULL);
        peers[0] = site_connect(&site);
        peer_ask(peers[0], "/next");
        accepted = site_next(&site);
        ck_assert_int_eq(nib_accept(accepted, NULL, &conn), 0);
        if (order < 2)
            nib_conn_ref(conn);
        peers[1] = site_connect(&site);
        peer_ask(peers[1], "/next");
        undecided = site_next(&site);
        nib_server_free(site.srv);
        if (order % 2 == 0)
            nib_request_unref(accepted);
        nib_request_unref(undecided);
        if (order < 2) {
            ck_assert_int_eq(nib_conn_state(conn), NIB_CLOSED);
            nib_conn_unref(conn);
        }
        if (order % 2 != 0)
            nib_request_unref(accepted);
        peer_free(peers[0]);
        peer_free(peers[1]);
        site_check_left(&site);
    }
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(every_call_has_its_answer),
        TEST(what_was_received_outlives_the_server),
        TEST(a_handle_may_be_used_while_the_server_is_freed),
        TEST(the_last_handle_frees_the_rest),
    };

    return run_tests("afterlife", tests, COUNT(tests));
}
