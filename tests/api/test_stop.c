/*
 * test_stop - what an orderly stop does to requests, connections and those
 * who wait for its end.
 */
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct site site;

enum {
    LONG_MS = 600000, /* a grace that no test lives to see the end of */
    SHORT_MS = 50,
};

static int recv_result(struct nib_conn *conn)
{
    struct nib_message *msg = NULL;
    int err = nib_recv(conn, &msg, -1);

    if (err == 0)
        nib_message_unref(msg);
    return err;
}

struct number {
    size_t at;
    uint64_t value;
};

static bool is_number(void *arg)
{
    const struct number *n = arg;
    struct nib_stats stats = site_stats(&site);
    uint64_t value;

    memcpy(&value, (char *)&stats + n->at, sizeof value);
    return value == n->value;
}

/* Waits until the statistics have this number at this offset. */
static void await_number(size_t at, uint64_t value)
{
    struct number n = {at, value};

    until(is_number, &n, "a number in the statistics");
}

/* Answers the Close of a stop, which must come next, and leaves. */
static void answer_close(struct peer *p, unsigned code)
{
    peer_expect_close(p, code, "");
    peer_send_close(p, code, "");
    peer_expect_end(p);
    peer_free(p);
}

static void link_answer(struct link *l, unsigned code)
{
    answer_close(l->peer, code);
    l->peer = NULL;
}

/* Ends the test of a server that was stopped. */
static void finish(struct link *links, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        peer_free(links[i].peer);
        links[i].peer = NULL;
    }
    site_end(&site);
    for (size_t i = 0; i < count; i++)
        link_free(&links[i]);
    site_check_left(&site);
}

/* ---- requests ---- */

static void expect_503(struct peer *p)
{
    peer_expect_text(p, "HTTP/1.1 503 Service Unavailable\r\n");
    peer_read_head(p);
    peer_expect_text(p, "The server is stopping.\n");
    peer_expect_end(p);
    peer_free(p);
}

enum { MANY = 100 };

static void stop_undecided(unsigned grace_ms)
{
    struct nib_request *reqs[MANY];
    struct peer *peers[MANY];

    site_start(&site, NULL);
    for (int i = 0; i < MANY; i++) {
        peers[i] = site_connect(&site);
        peer_ask(peers[i], "/next");
        reqs[i] = site_next(&site);
    }
    ck_assert_uint_eq(site_stats(&site).handshakes, MANY);
    nib_server_stop(site.srv, grace_ms);
    for (int i = 0; i < MANY; i++)
        expect_503(peers[i]);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(nib_accept(reqs[i], NULL, NULL), -ECANCELED);
        ck_assert_int_eq(nib_reject(reqs[i], 403, NULL, 0, NULL, 0),
                         -ECANCELED);
        nib_request_unref(reqs[i]);
    }
    site_free(&site);
}

START_TEST(undecided_requests_are_answered_503)
{
    stop_undecided(LONG_MS);
}
END_TEST

START_TEST(undecided_requests_are_answered_503_without_a_grace)
{
    stop_undecided(0);
}
END_TEST

START_TEST(requests_that_nobody_has_taken_are_answered_503)
{
    struct peer *peers[MANY];
    struct nib_request *req;

    site_start(&site, NULL);
    for (int i = 0; i < MANY; i++) {
        peers[i] = site_connect(&site);
        peer_ask(peers[i], "/next");
    }
    await_number(offsetof(struct nib_stats, handlers_queued), MANY);
    nib_server_stop(site.srv, LONG_MS);
    for (int i = 0; i < MANY; i++)
        expect_503(peers[i]);
    ck_assert_int_eq(nib_server_next(site.srv, &req, -1), -ECANCELED);
    site_free(&site);
}
END_TEST

START_TEST(handlers_learn_that_the_server_stops)
{
    struct held *held[MANY];
    struct peer *peers[MANY];

    site_start(&site, NULL);
    for (int i = 0; i < MANY; i++) {
        peers[i] = site_connect(&site);
        peer_ask(peers[i], "/hold");
        held[i] = held_next(&site);
    }
    nib_server_stop(site.srv, LONG_MS);
    for (int i = 0; i < MANY; i++)
        expect_503(peers[i]);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(held_accept(held[i]), -ECANCELED);
    for (int i = 0; i < MANY; i++)
        held_return(held[i], 0);
    site_free(&site);
}
END_TEST

/* Begun, but with its last byte missing. */
START_TEST(a_request_that_is_not_whole_is_answered_503)
{
    char text[512];
    struct peer *begun, *silent;
    int len = peer_upgrade_text(text, sizeof text, "/next", "");

    site_start(&site, NULL);
    begun = site_connect(&site);
    silent = site_connect(&site);
    site_await_handshakes(&site);
    peer_send(begun, text, (size_t)len - 1);
    site_await_bytes_in(&site, (uint64_t)len - 1);
    site_await_connections(&site, 2);
    nib_server_stop(site.srv, LONG_MS);
    expect_503(begun);
    peer_expect_end(silent);
    peer_free(silent);
    site_free(&site);
}
END_TEST

static struct latch gate_entered, gate_open;

static void stand(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    latch_add(&gate_entered);
    latch_await(&gate_open, 1);
}

static void told(int result, struct nib_conn *conn, void *arg)
{
    must(conn == NULL);
    *(int *)arg = result;
}

static void one_reactor(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_reactors(cfg, 1), 0);
}

/* The accept is on its way to the owner when the stop begins. */
START_TEST(an_accept_that_a_stop_overtakes_is_answered_503)
{
    struct nib_request *req;
    struct peer *p;
    struct link l;
    int result = 99;

    latch_init(&gate_entered);
    latch_init(&gate_open);
    site_start(&site, one_reactor);
    l = link_open(&site);
    p = site_connect(&site);
    peer_ask(p, "/next");
    req = site_next(&site);
    ck_assert_int_eq(nib_post(l.conn, stand, NULL, NULL), 0);
    latch_await(&gate_entered, 1);
    ck_assert_int_eq(nib_accept_async(req, NULL, told, &result), 0);
    nib_server_stop(site.srv, LONG_MS);
    latch_add(&gate_open);
    expect_503(p);
    link_answer(&l, 1001);
    link_free(&l);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), -ECANCELED);
    nib_request_unref(req);
    site_end(&site);
    ck_assert_int_eq(result, -ECANCELED);
    site_check_left(&site);
}
END_TEST

/* ---- open connections ---- */

static void small(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 4096, 0), 0);
}

START_TEST(what_was_sent_comes_before_the_close)
{
    enum { LINKS = 20, MESSAGES = 10, LEN = 50000 };
    char *data = calloc(1, LEN);
    struct link links[LINKS];

    site_start(&site, small);
    for (int i = 0; i < LINKS; i++) {
        links[i] = link_accept(&site, peer_connect(site.address, 4096));
        for (int k = 0; k < MESSAGES; k++) {
            data[0] = (char)k;
            ck_assert_int_eq(nib_send(links[i].conn, data, LEN, NIB_BINARY),
                             0);
        }
    }
    nib_server_stop(site.srv, LONG_MS);
    for (int i = 0; i < LINKS; i++) {
        for (int k = 0; k < MESSAGES; k++) {
            data[0] = (char)k;
            peer_expect_frame(links[i].peer, PEER_BINARY, data, LEN);
        }
        link_answer(&links[i], 1001);
        await_closed(links[i].conn);
        expect_info(links[i].conn, 1001, true, true, "");
    }
    free(data);
    finish(links, LINKS);
}
END_TEST

static void restarts(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_stop_code(cfg, 1012), 0);
}

START_TEST(the_code_of_a_stop_can_be_set)
{
    struct link links[2];
    struct event e;

    site_start(&site, restarts);
    links[0] = link_open(&site);
    links[1] = link_callbacks(&site);
    nib_server_stop(site.srv, LONG_MS);
    for (int i = 0; i < 2; i++) {
        link_answer(&links[i], 1012);
        await_closed(links[i].conn);
        expect_info(links[i].conn, 1012, true, true, "");
    }
    e = site_event(&site, EVENT_CLOSE);
    ck_assert_int_eq(e.code, 1012);
    ck_assert(e.local);
    ck_assert(e.clean);
    ck_assert_uint_eq(e.unsent_bytes, 0);
    finish(links, 2);
}
END_TEST

/* A close that was begun before goes on under its own code. */
START_TEST(a_close_that_was_begun_keeps_its_code)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_close(l.conn, 4000, "mine", 0), 0);
    nib_server_stop(site.srv, LONG_MS);
    peer_expect_close(l.peer, 4000, "mine");
    peer_send_close(l.peer, 4000, "");
    peer_expect_end(l.peer);
    peer_free(l.peer);
    l.peer = NULL;
    await_closed(l.conn);
    expect_info(l.conn, 4000, true, true, "mine");
    finish(&l, 1);
}
END_TEST

static int recv_job(struct held *h, void *arg)
{
    (void)arg;
    return recv_result(h->conn);
}

static int expect_queue(struct held *h, void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        struct nib_message *msg;
        char text[32];
        size_t len;
        const void *data;

        snprintf(text, sizeof text, "message %d", i);
        must(nib_recv(h->conn, &msg, 0) == 0);
        data = nib_message_data(msg, &len);
        must(len == strlen(text) && memcmp(data, text, len) == 0);
        nib_message_unref(msg);
    }
    return recv_result(h->conn);
}

START_TEST(a_handler_receives_what_is_queued_and_then_the_end)
{
    int count = 20;
    struct peer *p;
    struct held *h;

    site_start(&site, NULL);
    p = site_connect(&site);
    peer_ask(p, "/hold");
    h = held_next(&site);
    ck_assert_int_eq(held_accept(h), 0);
    peer_expect_101(p, "");
    for (int i = 0; i < count; i++) {
        char text[32];

        snprintf(text, sizeof text, "message %d", i);
        peer_send_frame(p, PEER_TEXT, text, strlen(text));
    }
    await_number(offsetof(struct nib_stats, messages_in), (uint64_t)count);
    nib_server_stop(site.srv, LONG_MS);
    peer_expect_close(p, 1001, "");
    /* What comes now is not received any more. */
    peer_send_frame(p, PEER_TEXT, "late", 4);
    peer_send_close(p, 1001, "");
    peer_expect_end(p);
    peer_free(p);
    await_closed(h->conn);
    ck_assert_int_eq(held_do(h, expect_queue, &count), -EPIPE);
    ck_assert_int_eq(held_do(h, recv_job, NULL), -EPIPE);
    expect_info(h->conn, 1001, true, true, "");
    held_return(h, 0);
    site_free(&site);
}
END_TEST

START_TEST(a_handler_that_waits_is_woken)
{
    struct peer *p;
    struct held *h;

    site_start(&site, NULL);
    p = site_connect(&site);
    peer_ask(p, "/hold");
    h = held_next(&site);
    ck_assert_int_eq(held_accept(h), 0);
    peer_expect_101(p, "");
    held_start(h, recv_job, NULL);
    nib_server_stop(site.srv, LONG_MS);
    /* Before the peer has answered. */
    ck_assert_int_eq(held_wait(h), -EPIPE);
    expect_info(h->conn, 1001, true, false, "");
    answer_close(p, 1001);
    held_return(h, 0);
    site_free(&site);
}
END_TEST

/* ---- the grace ---- */

START_TEST(the_grace_ends_for_who_ignores_the_close)
{
    struct link links[2];
    struct event e;

    site_start(&site, NULL);
    links[0] = link_open(&site);
    links[1] = link_callbacks(&site);
    nib_server_stop(site.srv, SHORT_MS);
    site_end(&site);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(nib_conn_state(links[i].conn), NIB_CLOSED);
        expect_info(links[i].conn, 1001, true, false, "");
        peer_expect_close(links[i].peer, 1001, "");
        peer_expect_reset(links[i].peer);
        link_free(&links[i]);
    }
    e = site_event(&site, EVENT_CLOSE);
    ck_assert_int_eq(e.code, 1001);
    ck_assert(!e.clean);
    site_check_left(&site);
}
END_TEST

START_TEST(the_grace_ends_for_who_does_not_read)
{
    struct nib_close_info info;
    struct link l;

    site_start(&site, small);
    l = link_accept(&site, peer_connect(site.address, 4096));
    fill_outbox(l.conn, 60000);
    nib_server_stop(site.srv, SHORT_MS);
    site_end(&site);
    ck_assert_int_eq(nib_conn_close_info(l.conn, &info), 0);
    ck_assert_int_eq(info.code, 1006); /* no Close was written */
    ck_assert(info.local);
    ck_assert(!info.clean);
    ck_assert_uint_gt(info.unsent_bytes, 0);
    ck_assert_int_eq(nib_flush(l.conn, -1), -EPIPE);
    link_free(&l);
    site_check_left(&site);
}
END_TEST

START_TEST(a_second_stop_shortens_the_grace)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    nib_server_stop(site.srv, LONG_MS);
    peer_expect_close(l.peer, 1001, "");
    ck_assert_int_eq(nib_server_join(site.srv, 0, NULL), -ETIMEDOUT);
    nib_server_stop(site.srv, 0);
    peer_expect_reset(l.peer);
    finish(&l, 1);
}
END_TEST

START_TEST(a_second_stop_does_not_lengthen_the_grace)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    nib_server_stop(site.srv, SHORT_MS);
    nib_server_stop(site.srv, LONG_MS);
    nib_server_stop(site.srv, LONG_MS);
    peer_expect_close(l.peer, 1001, "");
    peer_expect_reset(l.peer);
    finish(&l, 1);
}
END_TEST

/* ---- where it is stopped ---- */

static void stop_in_callback(struct site *s)
{
    nib_server_stop(s->srv, LONG_MS);
}

static void stop_in_request(struct site *s, struct nib_request *req)
{
    (void)req;
    stop_in_callback(s);
}

static void stop_in_open(struct site *s, struct nib_conn *conn)
{
    (void)conn;
    stop_in_callback(s);
}

static void stop_in_message(struct site *s, struct nib_conn *conn,
                            struct nib_message *msg)
{
    must(nib_send_message(conn, msg, 0) == 0);
    stop_in_callback(s);
    must(nib_send_message(conn, msg, 0) == 0);
}

START_TEST(a_callback_may_stop_the_server)
{
    struct peer *p;

    site_start(&site, NULL);
    site.on_request = stop_in_request;
    p = site_connect(&site);
    peer_upgrade(p, "/cb");
    answer_close(p, 1001);
    site_free(&site);

    site_start(&site, NULL);
    site.on_open = stop_in_open;
    p = site_connect(&site);
    peer_upgrade(p, "/cb");
    answer_close(p, 1001);
    site_free(&site);

    site_start(&site, NULL);
    site.on_message = stop_in_message;
    p = site_connect(&site);
    peer_upgrade(p, "/cb");
    peer_send_frame(p, PEER_TEXT, "stop", 4);
    peer_expect_message(p, "stop");
    peer_expect_message(p, "stop");
    answer_close(p, 1001);
    site_free(&site);

    site_start(&site, NULL);
    site.on_close = stop_in_open;
    p = site_connect(&site);
    peer_upgrade(p, "/cb");
    peer_reset(p);
    site_free(&site);
}
END_TEST

static int stop_in_handler(struct held *h, void *arg)
{
    (void)arg;
    nib_server_stop(h->site->srv, LONG_MS);
    return recv_result(h->conn);
}

START_TEST(a_handler_may_stop_the_server)
{
    struct peer *p;
    struct held *h;

    site_start(&site, NULL);
    p = site_connect(&site);
    peer_ask(p, "/hold");
    h = held_next(&site);
    ck_assert_int_eq(held_accept(h), 0);
    peer_expect_101(p, "");
    held_start(h, stop_in_handler, NULL);
    answer_close(p, 1001);
    ck_assert_int_eq(held_wait(h), -EPIPE);
    held_return(h, 0);
    site_free(&site);
}
END_TEST

static void stop_in_signal(int number)
{
    int saved = errno;

    (void)number;
    errno = EXDEV;
    nib_server_stop(site.srv, LONG_MS);
    must(errno == EXDEV);
    errno = saved;
}

/* Sends until it is refused: signals find this thread anywhere. */
static int send_until_refused(void *arg)
{
    int err;

    while ((err = nib_send(arg, "x", 1, NIB_TEXT | NIB_NOWAIT)) == 0 ||
           err == -EAGAIN)
        continue;
    return err;
}

START_TEST(a_signal_handler_may_stop_the_server)
{
    struct sigaction action = {.sa_handler = stop_in_signal}, old;
    struct peer_frame f;
    struct job job;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, &old), 0);
    job_start(&job, send_until_refused, l.conn);
    peer_expect_message(l.peer, "x");
    for (int i = 0; i < 100 && !atomic_load(&job.ended); i++)
        ck_assert_int_eq(pthread_kill(job.thread, SIGUSR1), 0);
    while ((f = peer_read_frame(l.peer)).first == PEER_TEXT)
        ck_assert_uint_eq(f.len, 1);
    ck_assert_uint_eq(f.first, PEER_CLOSE);
    ck_assert_uint_eq(f.data[0] << 8 | f.data[1], 1001);
    peer_send_close(l.peer, 1001, "");
    peer_expect_end(l.peer);
    ck_assert_int_eq(job_wait(&job), -EPIPE);
    ck_assert_int_eq(sigaction(SIGUSR1, &old, NULL), 0);
    finish(&l, 1);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(undecided_requests_are_answered_503),
        TEST(undecided_requests_are_answered_503_without_a_grace),
        TEST(requests_that_nobody_has_taken_are_answered_503),
        TEST(handlers_learn_that_the_server_stops),
        TEST(a_request_that_is_not_whole_is_answered_503),
        TEST(an_accept_that_a_stop_overtakes_is_answered_503),
        TEST(what_was_sent_comes_before_the_close),
        TEST(the_code_of_a_stop_can_be_set),
        TEST(a_close_that_was_begun_keeps_its_code),
        TEST(a_handler_receives_what_is_queued_and_then_the_end),
        TEST(a_handler_that_waits_is_woken),
        TEST(the_grace_ends_for_who_ignores_the_close),
        TEST(the_grace_ends_for_who_does_not_read),
        TEST(a_second_stop_shortens_the_grace),
        TEST(a_second_stop_does_not_lengthen_the_grace),
        TEST(a_callback_may_stop_the_server),
        TEST(a_handler_may_stop_the_server),
        TEST(a_signal_handler_may_stop_the_server),
    };

    return run_tests("stop", tests, COUNT(tests));
}
