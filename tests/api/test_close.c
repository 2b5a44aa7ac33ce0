/*
 * test_close - how connections end, from both sides.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct site site;

static int recv_result(struct nib_conn *conn)
{
    struct nib_message *msg = NULL;
    int err = nib_recv(conn, &msg, -1);

    if (err == 0)
        nib_message_unref(msg);
    return err;
}

static void close_quickly(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_close_timeout_ms(cfg, 100), 0);
}

/* ---- what a Close may say ---- */

START_TEST(only_codes_for_the_wire_are_sent)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    for (unsigned code = 1; code <= 5000; code++) {
        bool good = (code >= 1000 && code <= 1003) ||
                    (code >= 1007 && code <= 1014) ||
                    (code >= 3000 && code <= 4999);

        if (!good)
            ck_assert_int_eq(nib_close(l.conn, code, NULL, 0), -EINVAL);
    }
    ck_assert_int_eq(nib_close(l.conn, 66536, NULL, 0), -EINVAL);
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_OPEN);
    ck_assert(!peer_readable(l.peer));
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(every_code_for_the_wire_is_sent)
{
    static const unsigned codes[] = {1000, 1001, 1002, 1003, 1007, 1008,
                                     1009, 1010, 1011, 1012, 1013, 1014,
                                     3000, 3999, 4000, 4999};

    site_start(&site, NULL);
    for (size_t i = 0; i < COUNT(codes); i++) {
        struct link l = link_open(&site);

        ck_assert_int_eq(nib_close(l.conn, codes[i], "why", 0), 0);
        peer_expect_close(l.peer, codes[i], "why");
        peer_send_close(l.peer, codes[i], "");
        peer_expect_end(l.peer);
        peer_half_close(l.peer);
        await_closed(l.conn);
        expect_info(l.conn, (int)codes[i], true, true, "why");
        link_free(&l);
    }
    site_stop(&site);
}
END_TEST

START_TEST(a_reason_is_short_utf8_and_needs_a_code)
{
    char reason[125];
    struct link l;

    memset(reason, 'r', sizeof reason);
    reason[124] = '\0';
    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_close(l.conn, 1000, reason, 0), -EINVAL);
    ck_assert_int_eq(nib_close(l.conn, 1000, "\xff", 0), -EINVAL);
    ck_assert_int_eq(nib_close(l.conn, 1000, "\xc3", -1), -EINVAL);
    ck_assert_int_eq(nib_close(l.conn, 0, "why", 0), -EINVAL);
    reason[123] = '\0';
    ck_assert_int_eq(nib_close(l.conn, 1000, reason, 0), 0);
    peer_expect_close(l.peer, 1000, reason);
    peer_send_close(l.peer, 1000, "");
    peer_half_close(l.peer);
    await_closed(l.conn);
    expect_info(l.conn, 1000, true, true, reason);
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_close_without_a_code_is_empty)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_close(l.conn, 0, NULL, 0), 0);
    peer_expect_close(l.peer, 0, "");
    peer_send_close(l.peer, 0, "");
    peer_expect_end(l.peer);
    peer_half_close(l.peer);
    await_closed(l.conn);
    expect_info(l.conn, 1005, true, true, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* ---- the peer's Close ---- */

START_TEST(the_peers_code_is_echoed)
{
    static const unsigned codes[] = {1000, 1001, 1002, 1003, 1007, 1008,
                                     1009, 1010, 1011, 1012, 1013, 1014,
                                     3000, 4999};

    site_start(&site, NULL);
    for (size_t i = 0; i < COUNT(codes); i++) {
        struct link l = link_open(&site);

        peer_send_close(l.peer, codes[i], "bye");
        peer_expect_close(l.peer, codes[i], "bye");
        peer_expect_end(l.peer);
        peer_half_close(l.peer);
        ck_assert_int_eq(recv_result(l.conn), -EPIPE);
        await_closed(l.conn);
        expect_info(l.conn, (int)codes[i], false, true, "bye");
        link_free(&l);
    }
    site_stop(&site);
}
END_TEST

START_TEST(a_close_that_may_not_be_is_a_protocol_error)
{
    static const char *const wrong[] = {
        "\x03\xe7",         /* 999 */
        "\x00\x01",         /* 1 */
        "\x03\xec",         /* 1004 */
        "\x03\xed",         /* 1005 */
        "\x03\xee",         /* 1006 */
        "\x03\xf7",         /* 1015 */
        "\x07\xcf",         /* 1999 */
        "\x0b\xb7",         /* 2999 */
        "\x13\x88",         /* 5000 */
        "\xff\xff",
    };

    site_start(&site, NULL);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct link l = link_open(&site);

        peer_send_frame(l.peer, PEER_CLOSE, wrong[i], 2);
        peer_expect_hex(l.peer, "88");
        peer_read(l.peer, (char[1]){0}, 1);
        peer_expect_hex(l.peer, "03ea");
        ck_assert_int_eq(recv_result(l.conn), -EPIPE);
        link_free(&l);
    }
    for (int i = 0; i < 2; i++) {
        struct link l = link_open(&site);

        if (i == 0)
            peer_send_frame(l.peer, PEER_CLOSE, "\x03", 1);
        else
            peer_send_frame(l.peer, PEER_CLOSE, "\x03\xe8\xff", 3);
        peer_expect_hex(l.peer, "88");
        peer_read(l.peer, (char[1]){0}, 1);
        peer_expect_hex(l.peer, i == 0 ? "03ea" : "03ef");
        link_free(&l);
    }
    site_stop(&site);
}
END_TEST

START_TEST(a_close_may_come_byte_by_byte)
{
    uint8_t frame[32];
    size_t n = peer_encode(frame, PEER_CLOSE, "\x0f\xa1" "end", 5);

    site_start(&site, NULL);
    for (size_t at = 1; at < n; at++) {
        struct link l = link_open(&site);
        uint64_t before = site_stats(&site).bytes_in;

        peer_send(l.peer, frame, at);
        site_await_bytes_in(&site, before + at);
        ck_assert(!peer_readable(l.peer));
        peer_send(l.peer, frame + at, n - at);
        peer_expect_close(l.peer, 4001, "end");
        peer_expect_end(l.peer);
        link_free(&l);
    }
    site_stop(&site);
}
END_TEST

START_TEST(what_follows_the_peers_close_is_ignored)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    peer_send_close(l.peer, 1000, "");
    peer_send_frame(l.peer, PEER_TEXT, "late", 4);
    peer_send_hex(l.peer, "ffffffff");
    peer_expect_close(l.peer, 1000, "");
    peer_expect_end(l.peer);
    ck_assert_int_eq(recv_result(l.conn), -EPIPE);
    expect_info(l.conn, 1000, false, true, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_close_may_come_between_fragments)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    peer_send_frame(l.peer, 0x01, "half", 4);
    peer_send_close(l.peer, 1001, "");
    peer_expect_close(l.peer, 1001, "");
    peer_expect_end(l.peer);
    ck_assert_int_eq(recv_result(l.conn), -EPIPE);
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* ---- states ---- */

/* Everything that can be called on a connection that is closing or closed. */
static void check_closing(struct nib_conn *conn, int state)
{
    ck_assert_int_eq(nib_conn_state(conn), state);
    ck_assert_int_eq(nib_send(conn, "x", 1, NIB_TEXT), -EPIPE);
    ck_assert_int_eq(nib_ping(conn, "x", 1), -EPIPE);
    ck_assert_int_eq(recv_result(conn), -EPIPE);
    ck_assert_int_eq(nib_subscribe(conn, "t"), -EPIPE);
    ck_assert_int_eq(nib_unsubscribe(conn, "t"), -EPIPE);
    ck_assert_int_eq(nib_close(conn, 999, NULL, 0), -EINVAL);
    ck_assert_int_eq(nib_close(conn, 4003, "other", 0), 0);
}

static bool is_closing(void *arg)
{
    return nib_conn_state(arg) != NIB_OPEN;
}

START_TEST(a_connection_that_we_close_takes_nothing)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_close(l.conn, 4002, "first", 0), 0);
    ck_assert_int_eq(nib_send(l.conn, "x", 1, NIB_TEXT), -EPIPE);
    peer_expect_close(l.peer, 4002, "first");
    until(is_closing, l.conn, "a connection that closes");
    check_closing(l.conn, NIB_CLOSING_LOCAL);
    expect_info(l.conn, 4002, true, false, "first");
    peer_send_close(l.peer, 4002, "");
    peer_expect_end(l.peer);
    peer_half_close(l.peer);
    await_closed(l.conn);
    check_closing(l.conn, NIB_CLOSED);
    nib_abort(l.conn);
    ck_assert_int_eq(nib_close(l.conn, 1000, NULL, -1), 0);
    expect_info(l.conn, 4002, true, true, "first");
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* Nothing can be written, so that the echo of the peer's Close waits. */
static void small(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 65536), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 131072), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 4096, 0), 0);
}

START_TEST(a_connection_that_the_peer_closes_takes_nothing)
{
    struct peer_frame f;
    struct link l;

    site_start(&site, small);
    l = link_accept(&site, peer_connect(site.address, 4096));
    fill_outbox(l.conn, 60000);
    peer_send_close(l.peer, 4001, "theirs");
    until(is_closing, l.conn, "a connection that closes");
    check_closing(l.conn, NIB_CLOSING_PEER);
    expect_info(l.conn, 4001, false, false, "theirs");
    /* The unfinished frame comes to its end, then the echo. */
    while ((f = peer_read_frame(l.peer)).first == PEER_BINARY)
        ck_assert_uint_eq(f.len, 60000);
    ck_assert_uint_eq(f.first, PEER_CLOSE);
    ck_assert_uint_eq(f.len, 8);
    peer_expect_end(l.peer);
    peer_half_close(l.peer);
    await_closed(l.conn);
    check_closing(l.conn, NIB_CLOSED);
    expect_info(l.conn, 4001, false, true, "theirs");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(an_open_connection_has_no_close_info)
{
    struct nib_close_info info;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_conn_close_info(l.conn, &info), NIB_ESTATE);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- waiting ---- */

struct closing {
    struct nib_conn *conn;
    unsigned code;
    int timeout_ms;
};

static int close_job(void *arg)
{
    const struct closing *c = arg;

    return nib_close(c->conn, c->code, NULL, c->timeout_ms);
}

START_TEST(a_waiting_close_waits_for_the_peer)
{
    struct closing c;
    struct job job;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    c = (struct closing){l.conn, 1000, -1};
    job_start(&job, close_job, &c);
    peer_expect_close(l.peer, 1000, "");
    job_await_sleep(&job);
    peer_send_close(l.peer, 1000, "");
    /* The server waits for our last byte. */
    peer_expect_end(l.peer);
    job_await_sleep(&job);
    peer_half_close(l.peer);
    ck_assert_int_eq(job_wait(&job), 0);
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_CLOSED);
    expect_info(l.conn, 1000, true, true, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(closes_join_the_first)
{
    enum { CLOSERS = 6 };
    struct closing c[CLOSERS];
    struct job jobs[CLOSERS];
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_close(l.conn, 4000, "first", 0), 0);
    for (unsigned i = 0; i < CLOSERS; i++) {
        c[i] = (struct closing){l.conn, 4001 + i, -1};
        job_start(&jobs[i], close_job, &c[i]);
    }
    for (unsigned i = 0; i < CLOSERS; i++)
        job_await_sleep(&jobs[i]);
    ck_assert_int_eq(nib_close(l.conn, 4010, NULL, 10), -ETIMEDOUT);
    peer_expect_close(l.peer, 4000, "first");
    peer_send_close(l.peer, 4000, "");
    peer_expect_end(l.peer);
    peer_free(l.peer);
    l.peer = NULL;
    for (unsigned i = 0; i < CLOSERS; i++)
        ck_assert_int_eq(job_wait(&jobs[i]), 0);
    expect_info(l.conn, 4000, true, true, "first");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_peer_that_ignores_close_is_cut_off)
{
    struct link l;

    site_start(&site, close_quickly);
    l = link_open(&site);
    ck_assert_int_eq(nib_close(l.conn, 1000, "go", -1), 0);
    peer_expect_close(l.peer, 1000, "go");
    expect_info(l.conn, 1000, true, false, "go");
    link_free(&l);
    site_stop(&site);
}
END_TEST

static int talk(void *arg)
{
    struct link *l = arg;
    int frames = 0;

    while (nib_conn_state(l->conn) != NIB_CLOSED) {
        uint8_t frame[32];
        size_t n = peer_encode(frame, PEER_TEXT, "still here", 10);

        if (!peer_try_send(l->peer, frame, n))
            break;
        frames++;
    }
    return frames;
}

START_TEST(a_peer_that_talks_on_does_not_put_the_end_off)
{
    struct job job;
    struct link l;

    site_start(&site, close_quickly);
    l = link_open(&site);
    job_start(&job, talk, &l);
    ck_assert_int_eq(nib_close(l.conn, 1000, NULL, -1), 0);
    ck_assert_int_gt(job_wait(&job), 0);
    expect_info(l.conn, 1000, true, false, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* A waiting close and a sender that waits for room: both come back. */
static int send_big(void *arg)
{
    static char data[60000];

    return nib_send(arg, data, sizeof data, NIB_BINARY);
}

static void small_and_quick(struct nib_config *cfg)
{
    small(cfg);
    close_quickly(cfg);
    ck_assert_int_eq(nib_config_set_write_timeout_ms(cfg, 200), 0);
    ck_assert_int_eq(nib_config_set_send_timeout_ms(cfg, -1), 0);
}

START_TEST(a_close_and_a_waiting_sender_both_return)
{
    struct job sender;
    struct link l;

    site_start(&site, small_and_quick);
    l = link_accept(&site, peer_connect(site.address, 4096));
    fill_outbox(l.conn, 60000);
    job_start(&sender, send_big, l.conn);
    job_await_sleep(&sender);
    ck_assert_int_eq(nib_close(l.conn, 1000, NULL, -1), 0);
    ck_assert_int_eq(job_wait(&sender), -EPIPE);
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_CLOSED);
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* ---- order ---- */

enum { MESSAGES = 1000, LEN = 65536 };

/* What message number i begins with. */
static void number_message(uint8_t *data, unsigned i)
{
    data[0] = (uint8_t)(i >> 8);
    data[1] = (uint8_t)i;
}

/* Reads all of them, in order. */
static void expect_messages(struct peer *p)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct peer_frame f = peer_read_frame(p);

        ck_assert_uint_eq(f.first, PEER_BINARY);
        ck_assert_uint_eq(f.len, LEN);
        ck_assert_uint_eq((unsigned)f.data[0] << 8 | f.data[1], i);
    }
}

/* Sends more than the outbox takes, and returns at once. */
static int send_thousand(struct nib_request *req, void *arg)
{
    static uint8_t data[LEN];
    struct nib_conn *conn;
    bool closes = arg != NULL;

    must(nib_accept(req, NULL, &conn) == 0);
    for (unsigned i = 0; i < MESSAGES; i++) {
        number_message(data, i);
        must(nib_send(conn, data, LEN, NIB_BINARY) == 0);
    }
    if (closes)
        must(nib_close(conn, 4000, arg, 0) == 0);
    return 0;
}

static void add_senders(struct nib_config *cfg)
{
    static char reason[] = "all";
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, "=/returns", &route), 0);
    ck_assert_int_eq(nib_route_set_handler(route, send_thousand, NULL), 0);
    ck_assert_int_eq(nib_config_route(cfg, "=/closes", &route), 0);
    ck_assert_int_eq(nib_route_set_handler(route, send_thousand, reason), 0);
}

static bool outbox_is_full(void *arg)
{
    (void)arg;
    /* No two messages more, of the 2 MiB that an outbox holds. */
    return site_stats(&site).outbox_bytes > (2 << 20) - 2 * LEN;
}

/* The reader comes late, and takes little at a time. */
static void read_slowly(const char *path, unsigned code, const char *reason)
{
    struct peer *p;

    site_start(&site, add_senders);
    p = peer_connect(site.address, 16384);
    peer_upgrade(p, path);
    until(outbox_is_full, NULL, "a full outbox");
    expect_messages(p);
    peer_expect_close(p, code, reason);
    peer_send_close(p, code, "");
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}

START_TEST(a_handler_that_returns_loses_nothing)
{
    read_slowly("/returns", 1000, "");
}
END_TEST

START_TEST(a_handler_that_closes_loses_nothing)
{
    read_slowly("/closes", 4000, "all");
}
END_TEST

static void room_for_all(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 80 << 20), 0);
}

START_TEST(a_thousand_messages_and_a_close_at_once_arrive)
{
    uint8_t *data = calloc(1, LEN);
    struct link l;

    site_start(&site, room_for_all);
    l = link_accept(&site, peer_connect(site.address, 65536));
    for (unsigned i = 0; i < MESSAGES; i++) {
        number_message(data, i);
        ck_assert_int_eq(nib_send(l.conn, data, LEN, NIB_BINARY), 0);
    }
    ck_assert_int_eq(nib_close(l.conn, 1000, "all", 0), 0);
    expect_messages(l.peer);
    peer_expect_close(l.peer, 1000, "all");
    peer_send_close(l.peer, 1000, "");
    peer_expect_end(l.peer);
    peer_half_close(l.peer);
    await_closed(l.conn);
    expect_info(l.conn, 1000, true, true, "all");
    link_free(&l);
    site_stop(&site);
    free(data);
}
END_TEST

/* ---- abort ---- */

START_TEST(an_abort_resets)
{
    struct nib_close_info info;
    struct link l;

    site_start(&site, small);
    l = link_accept(&site, peer_connect(site.address, 4096));
    fill_outbox(l.conn, 60000);
    nib_abort(l.conn);
    nib_abort(l.conn);
    await_closed(l.conn);
    ck_assert_int_eq(nib_conn_close_info(l.conn, &info), 0);
    ck_assert_int_eq(info.code, 1006);
    ck_assert(info.local);
    ck_assert(!info.clean);
    ck_assert_uint_gt(info.unsent_bytes, 0);
    ck_assert_int_eq(recv_result(l.conn), -EPIPE);
    link_free(&l);

    l = link_open(&site);
    nib_abort(l.conn);
    peer_expect_reset(l.peer);
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(an_abort_cuts_a_close_short)
{
    struct closing c;
    struct job job;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    c = (struct closing){l.conn, 1000, -1};
    job_start(&job, close_job, &c);
    peer_expect_close(l.peer, 1000, "");
    job_await_sleep(&job);
    nib_abort(l.conn);
    ck_assert_int_eq(job_wait(&job), 0);
    peer_expect_reset(l.peer);
    expect_info(l.conn, 1000, true, false, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* ---- callbacks ---- */

START_TEST(on_close_tells_how_it_ended)
{
    struct event e;
    struct link l;

    site_start(&site, NULL);
    l = link_callbacks(&site);
    peer_send_close(l.peer, 4001, "bye");
    peer_expect_close(l.peer, 4001, "bye");
    peer_expect_end(l.peer);
    link_free(&l);
    e = site_event(&site, EVENT_CLOSE);
    ck_assert_int_eq(e.code, 4001);
    ck_assert(!e.local);
    ck_assert(e.clean);
    ck_assert_str_eq(e.text, "bye");

    l = link_callbacks(&site);
    peer_reset(l.peer);
    l.peer = NULL;
    link_free(&l);
    e = site_event(&site, EVENT_CLOSE);
    ck_assert_int_eq(e.code, 1006);
    ck_assert(!e.local);
    ck_assert(!e.clean);

    l = link_callbacks(&site);
    peer_send_hex(l.peer, "8100");
    peer_expect_hex(l.peer, "88");
    link_free(&l);
    e = site_event(&site, EVENT_CLOSE);
    ck_assert_int_eq(e.code, 1002);
    ck_assert(e.local);

    l = link_callbacks(&site);
    nib_abort(l.conn);
    peer_expect_reset(l.peer);
    link_free(&l);
    e = site_event(&site, EVENT_CLOSE);
    ck_assert_int_eq(e.code, 1006);
    ck_assert(e.local);
    ck_assert_uint_eq(site_events_left(&site), 0);
    site_stop(&site);
}
END_TEST

static int close_here(struct nib_conn *conn, void *arg)
{
    const struct closing *c = arg;

    return nib_close(conn, c->code, NULL, c->timeout_ms);
}

START_TEST(the_owner_only_begins_a_close)
{
    struct closing wait = {NULL, 1000, -1}, post = {NULL, 1000, 0};
    struct link l;

    site_start(&site, NULL);
    l = link_callbacks(&site);
    ck_assert_int_eq(on_owner(l.conn, close_here, &wait), -EAGAIN);
    peer_expect_close(l.peer, 1000, "");
    peer_send_close(l.peer, 1000, "");
    peer_expect_end(l.peer);
    link_free(&l);
    site_event(&site, EVENT_CLOSE);

    l = link_callbacks(&site);
    ck_assert_int_eq(on_owner(l.conn, close_here, &post), 0);
    peer_expect_close(l.peer, 1000, "");
    link_free(&l);
    site_event(&site, EVENT_CLOSE);
    site_stop(&site);
}
END_TEST

static struct latch in_callback, let_go;

static void close_slowly(struct site *s, struct nib_conn *conn)
{
    (void)s;
    must(nib_send(conn, "x", 1, NIB_TEXT) == -EPIPE);
    latch_add(&in_callback);
    latch_await(&let_go, 1);
}

START_TEST(a_waiting_close_returns_after_on_close)
{
    struct closing c;
    struct job before, meanwhile;
    struct link l;

    latch_init(&in_callback);
    latch_init(&let_go);
    site_start(&site, NULL);
    site.on_close = close_slowly;
    l = link_callbacks(&site);
    c = (struct closing){l.conn, 1000, -1};
    job_start(&before, close_job, &c);
    peer_expect_close(l.peer, 1000, "");
    job_await_sleep(&before);
    peer_send_close(l.peer, 1000, "");
    peer_free(l.peer);
    l.peer = NULL;
    latch_await(&in_callback, 1);
    job_start(&meanwhile, close_job, &c);
    job_await_sleep(&meanwhile);
    job_await_sleep(&before);
    latch_add(&let_go);
    ck_assert_int_eq(job_wait(&before), 0);
    ck_assert_int_eq(job_wait(&meanwhile), 0);
    site_event(&site, EVENT_CLOSE);
    link_free(&l);
    site_stop(&site);
}
END_TEST

static void close_in_message(struct site *s, struct nib_conn *conn,
                             struct nib_message *msg)
{
    (void)s;
    must(nib_send_message(conn, msg, 0) == 0);
    must(nib_close(conn, 4000, "enough", 0) == 0);
    must(nib_send_message(conn, msg, 0) == -EPIPE);
}

START_TEST(no_message_follows_a_close_in_a_callback)
{
    uint8_t bytes[64];
    struct link l;
    size_t n;

    site_start(&site, NULL);
    site.on_message = close_in_message;
    l = link_callbacks(&site);
    n = peer_encode(bytes, PEER_TEXT, "one", 3);
    n += peer_encode(bytes + n, PEER_TEXT, "two", 3);
    peer_send(l.peer, bytes, n);
    peer_expect_message(l.peer, "one");
    peer_expect_close(l.peer, 4000, "enough");
    peer_send_close(l.peer, 4000, "");
    peer_expect_end(l.peer);
    site_event(&site, EVENT_MESSAGE);
    link_free(&l);
    site_event(&site, EVENT_CLOSE);
    site_stop(&site);
}
END_TEST

static void abort_in_message(struct site *s, struct nib_conn *conn,
                             struct nib_message *msg)
{
    (void)s;
    (void)msg;
    nib_abort(conn);
}

START_TEST(a_callback_may_abort_its_connection)
{
    struct link l;

    site_start(&site, NULL);
    site.on_message = abort_in_message;
    l = link_callbacks(&site);
    peer_send_frame(l.peer, PEER_TEXT, "one", 3);
    site_event(&site, EVENT_MESSAGE);
    peer_expect_reset(l.peer);
    link_free(&l);
    ck_assert_int_eq(site_event(&site, EVENT_CLOSE).code, 1006);
    site_stop(&site);
}
END_TEST

static int on_another(struct nib_conn *conn, void *arg)
{
    const struct closing *c = arg;

    (void)conn;
    return nib_close(c->conn, c->code, NULL, c->timeout_ms);
}

START_TEST(another_reactor_does_not_wait_for_a_close)
{
    struct link links[8];
    struct closing wait;
    int dead = 0;

    site_start(&site, NULL);
    for (int i = 0; i < 8; i++)
        links[i] = link_callbacks(&site);
    /* A code that is refused in any case tells owner from other reactor. */
    wait = (struct closing){links[0].conn, 1000, -1};
    for (int i = 1; i < 8 && dead == 0; i++) {
        int result = on_owner(links[i].conn, on_another, &wait);

        if (result == -EDEADLK) {
            dead++;
            ck_assert_int_eq(nib_conn_state(links[0].conn), NIB_OPEN);
        } else {
            /* It was the owner: begun. Another connection is next. */
            ck_assert_int_eq(result, -EAGAIN);
            wait.conn = links[i].conn;
        }
    }
    ck_assert_int_eq(dead, 1);
    for (int i = 0; i < 8; i++)
        link_free(&links[i]);
    site_await_connections(&site, 0);
    site_stop(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(only_codes_for_the_wire_are_sent),
        TEST(every_code_for_the_wire_is_sent),
        TEST(a_reason_is_short_utf8_and_needs_a_code),
        TEST(a_close_without_a_code_is_empty),
        TEST(the_peers_code_is_echoed),
        TEST(a_close_that_may_not_be_is_a_protocol_error),
        TEST(a_close_may_come_byte_by_byte),
        TEST(what_follows_the_peers_close_is_ignored),
        TEST(a_close_may_come_between_fragments),
        TEST(a_connection_that_we_close_takes_nothing),
        TEST(a_connection_that_the_peer_closes_takes_nothing),
        TEST(an_open_connection_has_no_close_info),
        TEST(a_waiting_close_waits_for_the_peer),
        TEST(closes_join_the_first),
        TEST(a_peer_that_ignores_close_is_cut_off),
        TEST(a_peer_that_talks_on_does_not_put_the_end_off),
        TEST(a_close_and_a_waiting_sender_both_return),
        TEST(a_handler_that_returns_loses_nothing),
        TEST(a_handler_that_closes_loses_nothing),
        TEST(a_thousand_messages_and_a_close_at_once_arrive),
        TEST(an_abort_resets),
        TEST(an_abort_cuts_a_close_short),
        TEST(on_close_tells_how_it_ended),
        TEST(the_owner_only_begins_a_close),
        TEST(a_waiting_close_returns_after_on_close),
        TEST(no_message_follows_a_close_in_a_callback),
        TEST(a_callback_may_abort_its_connection),
        TEST(another_reactor_does_not_wait_for_a_close),
    };

    return run_tests("close", tests, COUNT(tests));
}
