/*
 * test_send - what a sender may rely on: kinds, limits, order, waiting.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct site site;

enum {
    LIMIT = 65536, /* of the outbox, in the tests that fill it */
    BIG = 10000,
};

/* Little room everywhere, so that an outbox is soon full. */
static void small(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, LIMIT / 2), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, LIMIT), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 4096, 0), 0);
    ck_assert_int_eq(nib_config_set_send_timeout_ms(cfg, -1), 0);
    /* No second gets in between: nothing but the test's own bytes. */
    ck_assert_int_eq(nib_config_set_ping(cfg, 0, 0), 0);
}

/* A peer that takes little before it is read. */
static struct peer *narrow(void)
{
    return peer_connect(site.address, 4096);
}

static int send_on(struct link *l, size_t len, unsigned flags)
{
    char *data = calloc(1, len + 1);
    int err = nib_send(l->conn, data, len, flags);

    free(data);
    return err;
}

START_TEST(a_message_is_of_one_kind)
{
    static const unsigned wrong[] = {
        0, NIB_TEXT | NIB_BINARY, NIB_NOWAIT, NIB_TRUSTED,
        NIB_TEXT | NIB_BINARY | NIB_NOWAIT,
    };
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    for (size_t i = 0; i < COUNT(wrong); i++)
        ck_assert_int_eq(nib_send(l.conn, "x", 1, wrong[i]), -EINVAL);
    ck_assert_int_eq(nib_send(l.conn, "x", 1, NIB_TEXT), 0);
    ck_assert_int_eq(nib_send(l.conn, "y", 1, NIB_BINARY), 0);
    ck_assert_int_eq(nib_send(l.conn, NULL, 0, NIB_TEXT), 0);
    ck_assert_int_eq(nib_send(l.conn, NULL, 0, NIB_BINARY | NIB_NOWAIT), 0);
    peer_expect_frame(l.peer, PEER_TEXT, "x", 1);
    peer_expect_frame(l.peer, PEER_BINARY, "y", 1);
    peer_expect_frame(l.peer, PEER_TEXT, "", 0);
    peer_expect_frame(l.peer, PEER_BINARY, "", 0);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(text_is_utf8_unless_trusted)
{
    static const char *const wrong[] = {"\xff", "a\xc0\x80", "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80", "\xe2\x82"};
    struct nib_message *msg;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        size_t len = strlen(wrong[i]);
        void *data;

        ck_assert_int_eq(nib_send(l.conn, wrong[i], len, NIB_TEXT), -EILSEQ);
        ck_assert_int_eq(nib_message_new(NIB_TEXT, wrong[i], len, &msg),
                         -EILSEQ);
        ck_assert_int_eq(nib_message_alloc(NIB_TEXT, len, &data, &msg), 0);
        memcpy(data, wrong[i], len);
        ck_assert_int_eq(nib_send_message(l.conn, msg, 0), -EILSEQ);
        ck_assert_int_eq(nib_send_message(l.conn, msg, NIB_TRUSTED), 0);
        peer_expect_frame(l.peer, PEER_TEXT, wrong[i], len);
        nib_message_unref(msg);
        ck_assert_int_eq(nib_send(l.conn, wrong[i], len,
                                  NIB_TEXT | NIB_TRUSTED),
                         0);
        peer_expect_frame(l.peer, PEER_TEXT, wrong[i], len);
        ck_assert_int_eq(nib_send(l.conn, wrong[i], len, NIB_BINARY), 0);
        peer_expect_frame(l.peer, PEER_BINARY, wrong[i], len);
    }
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- sizes ---- */

static void large(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 16 << 20), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 40 << 20), 0);
}

/* Bytes that show where they belong. */
static void pattern(uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16));
}

/* Reads one message cut into frames of at most 64 KiB, and compares. */
static void expect_cut(struct peer *p, const uint8_t *data, size_t len)
{
    size_t done = 0;

    do {
        size_t part = len - done < 65536 ? len - done : 65536;
        uint8_t first = (uint8_t)((done == 0 ? 0x02 : 0x00) |
                                  (done + part == len ? 0x80 : 0x00));

        peer_expect_frame(p, first, data + done, part);
        done += part;
    } while (done < len);
}

static const size_t sizes[] = {
    0,     1,     125,    126,     127,     4086,    4087,        65535,
    65536, 65537, 131072, 1000000, 1 << 20, 3 << 20, (16 << 20) - 1, 16 << 20,
};

START_TEST(every_size_arrives_byte_by_byte)
{
    uint8_t *data = malloc(16 << 20);
    struct link l;

    pattern(data, 16 << 20);
    site_start(&site, large);
    l = link_open(&site);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        ck_assert_int_eq(nib_send(l.conn, data, sizes[i], NIB_BINARY), 0);
        expect_cut(l.peer, data, sizes[i]);
    }
    link_finish(&l);
    site_stop(&site);
    free(data);
}
END_TEST

START_TEST(every_size_arrives_from_a_shared_message)
{
    uint8_t *data = malloc(16 << 20);
    struct link l;

    pattern(data, 16 << 20);
    site_start(&site, large);
    l = link_open(&site);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct nib_message *msg;

        ck_assert_int_eq(nib_message_new(NIB_BINARY, data, sizes[i], &msg),
                         0);
        ck_assert_int_eq(nib_send_message(l.conn, msg, 0), 0);
        ck_assert_int_eq(nib_send_message(l.conn, msg, 0), 0);
        nib_message_unref(msg);
        expect_cut(l.peer, data, sizes[i]);
        expect_cut(l.peer, data, sizes[i]);
    }
    link_finish(&l);
    site_stop(&site);
    free(data);
}
END_TEST

START_TEST(one_byte_too_many_is_refused)
{
    struct nib_message *msg;
    struct link l;
    void *data;

    site_start(&site, small);
    l = link_open(&site);
    ck_assert_int_eq(send_on(&l, LIMIT / 2 + 1, NIB_BINARY), -EMSGSIZE);
    ck_assert_int_eq(nib_message_alloc(NIB_BINARY, LIMIT / 2 + 1, &data,
                                       &msg),
                     0);
    memset(data, 0, LIMIT / 2 + 1);
    ck_assert_int_eq(nib_send_message(l.conn, msg, 0), -EMSGSIZE);
    nib_message_unref(msg);
    ck_assert_int_eq(send_on(&l, LIMIT / 2, NIB_BINARY), 0);
    ck_assert_uint_eq(peer_read_frame(l.peer).len, LIMIT / 2);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

static void frames_of_1024(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_frame_bytes(cfg, 1024), 0);
}

START_TEST(a_large_message_is_cut_where_it_was_set)
{
    static const struct {
        size_t len;
        size_t count;
    } cases[] = {{1023, 1}, {1024, 1}, {1025, 2}, {2048, 2}, {2049, 3},
                 {10240, 10}};
    static char text[10240];
    struct link l;

    memset(text, 't', sizeof text);
    site_start(&site, frames_of_1024);
    l = link_open(&site);
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t left = cases[i].len;

        ck_assert_int_eq(nib_send(l.conn, text, left, NIB_TEXT), 0);
        for (size_t k = 0; k < cases[i].count; k++) {
            size_t part = left < 1024 ? left : 1024;

            left -= part;
            peer_expect_frame(l.peer,
                              (uint8_t)((k == 0) | (left == 0 ? 0x80 : 0)),
                              text, part);
        }
        ck_assert_uint_eq(left, 0);
    }
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- the limit ---- */

START_TEST(a_full_outbox_takes_nothing_more_without_waiting)
{
    struct link l;
    unsigned count;
    size_t before;

    site_start(&site, small);
    l = link_accept(&site, narrow());
    count = fill_outbox(l.conn, BIG);
    before = nib_conn_buffered(l.conn);
    ck_assert_uint_le(before, LIMIT);
    ck_assert_uint_gt(before, LIMIT - BIG - 4);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(send_on(&l, BIG, NIB_BINARY | NIB_NOWAIT), -EAGAIN);
    ck_assert_uint_eq(nib_conn_buffered(l.conn), before);
    /* What is smaller than the room that is left is still taken. */
    ck_assert_int_eq(send_on(&l, LIMIT - before - 4, NIB_BINARY | NIB_NOWAIT),
                     0);
    ck_assert_uint_eq(nib_conn_buffered(l.conn), LIMIT);
    ck_assert_int_eq(send_on(&l, 0, NIB_BINARY | NIB_NOWAIT), -EAGAIN);
    for (unsigned i = 0; i < count; i++)
        ck_assert_uint_eq(peer_read_frame(l.peer).len, BIG);
    ck_assert_uint_eq(peer_read_frame(l.peer).len, LIMIT - before - 4);
    await_written(l.conn);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

enum { SENDERS = 6, EACH = 300 };

struct sender {
    struct nib_conn *conn;
    uint8_t number;
    unsigned flags;
    size_t len;
};

/* Sends numbered messages; with NIB_NOWAIT, tries each until it is taken. */
static int send_many(void *arg)
{
    const struct sender *s = arg;
    uint8_t *data = calloc(1, s->len);
    int err = 0;

    data[0] = s->number;
    for (unsigned i = 0; i < EACH && err == 0; i++) {
        data[1] = (uint8_t)(i >> 8);
        data[2] = (uint8_t)i;
        do
            err = nib_send(s->conn, data, s->len, NIB_BINARY | s->flags);
        while (err == -EAGAIN);
    }
    free(data);
    return err;
}

static _Atomic bool watching;

/* Samples what waits for as long as it is told to. */
static int watch_limit(void *arg)
{
    size_t most = 0;

    while (atomic_load(&watching)) {
        size_t now = nib_conn_buffered(arg);

        most = now > most ? now : most;
    }
    return (int)most;
}

/* Reads what the senders sent, each one's in order. */
static void expect_many(struct peer *p, unsigned senders)
{
    unsigned next[SENDERS] = {0};

    for (unsigned i = 0; i < senders * EACH; i++) {
        struct peer_frame f = peer_read_frame(p);
        unsigned number = (unsigned)f.data[1] << 8 | f.data[2];

        ck_assert_uint_eq(f.first, PEER_BINARY);
        ck_assert_uint_lt(f.data[0], senders);
        ck_assert_uint_eq(number, next[f.data[0]]);
        next[f.data[0]]++;
    }
}

static void many_senders(unsigned flags, size_t step)
{
    struct sender senders[SENDERS];
    struct job jobs[SENDERS], watcher;
    struct link l;

    site_start(&site, small);
    l = link_accept(&site, narrow());
    atomic_store(&watching, true);
    job_start(&watcher, watch_limit, l.conn);
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){l.conn, (uint8_t)i, flags,
                                     3 + i * step};
        job_start(&jobs[i], send_many, &senders[i]);
    }
    expect_many(l.peer, SENDERS);
    for (unsigned i = 0; i < SENDERS; i++)
        ck_assert_int_eq(job_wait(&jobs[i]), 0);
    atomic_store(&watching, false);
    ck_assert_int_le(job_wait(&watcher), LIMIT);
    link_finish(&l);
    site_stop(&site);
}

START_TEST(many_senders_that_wait_stay_in_order)
{
    many_senders(0, 2000);
}
END_TEST

START_TEST(many_senders_that_try_stay_in_order)
{
    many_senders(NIB_NOWAIT, 2000);
}
END_TEST

START_TEST(many_senders_of_small_messages_stay_in_order)
{
    many_senders(0, 10);
}
END_TEST

/* ---- waiting for room ---- */

struct one_send {
    struct nib_conn *conn;
    size_t len;
    uint8_t mark;
    unsigned flags;
};

static int send_one(void *arg)
{
    const struct one_send *s = arg;
    uint8_t *data = calloc(1, s->len + 1);
    int err;

    data[0] = s->mark;
    err = nib_send(s->conn, data, s->len, NIB_BINARY | s->flags);
    free(data);
    return err;
}

START_TEST(waiting_senders_are_served_in_order)
{
    enum { WAITERS = 8 };
    struct one_send sends[WAITERS];
    struct job jobs[WAITERS];
    struct link l;
    unsigned count;

    site_start(&site, small);
    l = link_accept(&site, narrow());
    count = fill_outbox(l.conn, BIG);
    /* The first is large, the others would fit by themselves. */
    for (unsigned i = 0; i < WAITERS; i++) {
        sends[i] = (struct one_send){l.conn, i == 0 ? BIG : 10,
                                     (uint8_t)(i + 1), 0};
        job_start(&jobs[i], send_one, &sends[i]);
        job_await_sleep(&jobs[i]);
    }
    ck_assert_int_eq(send_on(&l, 1, NIB_BINARY | NIB_NOWAIT), -EAGAIN);
    for (unsigned i = 0; i < count; i++)
        ck_assert_uint_eq(peer_read_frame(l.peer).data[0], 0);
    for (unsigned i = 0; i < WAITERS; i++)
        ck_assert_uint_eq(peer_read_frame(l.peer).data[0], i + 1);
    for (unsigned i = 0; i < WAITERS; i++)
        ck_assert_int_eq(job_wait(&jobs[i]), 0);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

static void times_out(struct nib_config *cfg)
{
    struct nib_route *route;

    small(cfg);
    ck_assert_int_eq(nib_config_set_send_timeout_ms(cfg, 30), 0);
    ck_assert_int_eq(nib_config_route(cfg, "=/patient", &route), 0);
    ck_assert_int_eq(nib_route_set_send_timeout_ms(route, -1), 0);
    ck_assert_int_eq(nib_config_route(cfg, "=/never", &route), 0);
    ck_assert_int_eq(nib_route_set_send_timeout_ms(route, 0), 0);
}

START_TEST(a_send_that_times_out_leaves_nothing)
{
    struct link l;
    unsigned count;
    size_t before;

    site_start(&site, times_out);
    l = link_accept(&site, narrow());
    count = fill_outbox(l.conn, BIG);
    before = nib_conn_buffered(l.conn);
    ck_assert_int_eq(send_on(&l, BIG + 1, NIB_BINARY), -ETIMEDOUT);
    ck_assert_uint_eq(nib_conn_buffered(l.conn), before);
    for (unsigned i = 0; i < count; i++)
        ck_assert_uint_eq(peer_read_frame(l.peer).len, BIG);
    ck_assert_int_eq(nib_send(l.conn, "after", 5, NIB_TEXT), 0);
    peer_expect_message(l.peer, "after");
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(who_stands_behind_one_that_gives_up_is_served)
{
    struct one_send large_one, small_one;
    struct job first, second;
    struct link l;

    site_start(&site, times_out);
    l = link_accept(&site, narrow());
    fill_outbox(l.conn, BIG);
    /* Room for a little is left, but the first in line needs more. */
    large_one = (struct one_send){l.conn, BIG, 1, 0};
    small_one = (struct one_send){l.conn, 1, 2, 0};
    job_start(&first, send_one, &large_one);
    job_await_sleep(&first);
    job_start(&second, send_one, &small_one);
    ck_assert_int_eq(job_wait(&first), -ETIMEDOUT);
    ck_assert_int_eq(job_wait(&second), 0);
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* A connection of another route of the test's own. */
static struct link open_at(const char *path)
{
    struct link l = {.peer = narrow()};
    struct nib_request *req;

    peer_ask(l.peer, path);
    req = site_next(&site);
    ck_assert_int_eq(nib_accept(req, NULL, &l.conn), 0);
    nib_conn_ref(l.conn);
    nib_request_unref(req);
    peer_expect_101(l.peer, "");
    return l;
}

START_TEST(a_route_has_its_own_send_timeout)
{
    struct one_send s;
    struct job job;
    struct link l;

    site_start(&site, times_out);
    l = open_at("/never");
    fill_outbox(l.conn, BIG);
    ck_assert_int_eq(send_on(&l, BIG, NIB_BINARY), -ETIMEDOUT);
    link_free(&l);
    l = open_at("/patient");
    fill_outbox(l.conn, BIG);
    s = (struct one_send){l.conn, BIG, 1, 0};
    job_start(&job, send_one, &s);
    job_await_sleep(&job);
    while (peer_read_frame(l.peer).data[0] != 1)
        ;
    ck_assert_int_eq(job_wait(&job), 0);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* Ways to end a connection on which senders wait. */
static void end_by_close(struct link *l)
{
    ck_assert_int_eq(nib_close(l->conn, 1000, NULL, 0), 0);
}

static void end_by_abort(struct link *l)
{
    nib_abort(l->conn);
}

static void end_by_reset(struct link *l)
{
    peer_reset(l->peer);
    l->peer = NULL;
}

static void end_by_peers_close(struct link *l)
{
    peer_send_close(l->peer, 1000, "");
}

static void end_by_protocol_error(struct link *l)
{
    peer_send_hex(l->peer, "8100");
}

static void end_by_stop(struct link *l)
{
    (void)l;
    nib_server_stop(site.srv, 0);
}

static void end_by_orderly_stop(struct link *l)
{
    (void)l;
    nib_server_stop(site.srv, 60000);
}

static void waiters_end(void (*end)(struct link *l))
{
    enum { WAITERS = 20 };
    struct one_send s;
    struct job jobs[WAITERS];
    struct link l;

    site_start(&site, small);
    l = link_accept(&site, narrow());
    fill_outbox(l.conn, BIG);
    s = (struct one_send){l.conn, BIG, 1, 0};
    for (unsigned i = 0; i < WAITERS; i++)
        job_start(&jobs[i], send_one, &s);
    for (unsigned i = 0; i < WAITERS; i++)
        job_await_sleep(&jobs[i]);
    end(&l);
    for (unsigned i = 0; i < WAITERS; i++)
        ck_assert_int_eq(job_wait(&jobs[i]), -EPIPE);
    ck_assert_int_eq(send_on(&l, 1, NIB_BINARY), -EPIPE);
    ck_assert_int_eq(send_on(&l, 1, NIB_BINARY | NIB_NOWAIT), -EPIPE);
    link_free(&l);
    site_stop(&site);
}

START_TEST(a_close_ends_waiting_senders)
{
    waiters_end(end_by_close);
}
END_TEST

START_TEST(an_abort_ends_waiting_senders)
{
    waiters_end(end_by_abort);
}
END_TEST

START_TEST(a_reset_ends_waiting_senders)
{
    waiters_end(end_by_reset);
}
END_TEST

START_TEST(the_peers_close_ends_waiting_senders)
{
    waiters_end(end_by_peers_close);
}
END_TEST

START_TEST(a_protocol_error_ends_waiting_senders)
{
    waiters_end(end_by_protocol_error);
}
END_TEST

START_TEST(a_stop_ends_waiting_senders)
{
    waiters_end(end_by_stop);
}
END_TEST

START_TEST(an_orderly_stop_ends_waiting_senders)
{
    waiters_end(end_by_orderly_stop);
}
END_TEST

/* ---- on the owner ---- */

static int fill_here(struct nib_conn *conn, void *arg)
{
    static char data[BIG];
    unsigned *count = arg;
    int err;

    while ((err = nib_send(conn, data, sizeof data, NIB_BINARY)) == 0)
        ++*count;
    return err;
}

START_TEST(on_room_follows_when_half_is_free)
{
    struct link l = {.peer = NULL};
    unsigned count = 0;

    site_start(&site, small);
    l.peer = narrow();
    peer_upgrade(l.peer, "/cb");
    site_event(&site, EVENT_REQUEST);
    l.conn = nib_conn_ref(site_event(&site, EVENT_OPEN).conn);
    /* Again after what fitted into the kernel's buffers has left. */
    count = fill_outbox(l.conn, BIG);
    ck_assert_int_eq(on_owner(l.conn, fill_here, &count), -EAGAIN);
    ck_assert_uint_eq(site_events_left(&site), 0);
    for (; site_events_left(&site) == 0; count--)
        peer_read_frame(l.peer);
    ck_assert_uint_gt(count, 0);
    site_event(&site, EVENT_ROOM);
    ck_assert_uint_le(nib_conn_buffered(l.conn), LIMIT / 2);
    for (; count > 0; count--)
        peer_read_frame(l.peer);
    await_written(l.conn);
    ck_assert_uint_eq(site_events_left(&site), 0);
    peer_reset(l.peer);
    l.peer = NULL;
    site_event(&site, EVENT_CLOSE);
    link_free(&l);
    site_stop(&site);
}
END_TEST

static void echo(struct site *s, struct nib_conn *conn,
                 struct nib_message *msg)
{
    (void)s;
    must(nib_send_message(conn, msg, 0) == 0);
}

START_TEST(the_message_of_a_callback_can_be_sent_back)
{
    static char data[100000];
    struct link l;

    memset(data, 'e', sizeof data);
    site_start(&site, NULL);
    site.on_message = echo;
    l = link_callbacks(&site);
    peer_send_frame(l.peer, PEER_TEXT, data, 10);
    peer_send_frame(l.peer, PEER_BINARY, data, 5000);
    peer_send_frame(l.peer, PEER_TEXT, data, 60000);
    peer_expect_frame(l.peer, PEER_TEXT, data, 10);
    peer_expect_frame(l.peer, PEER_BINARY, data, 5000);
    peer_expect_frame(l.peer, PEER_TEXT, data, 60000);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

static int send_hello(struct nib_conn *conn, void *arg)
{
    return nib_send(conn, arg, strlen(arg), NIB_TEXT);
}

START_TEST(the_owner_does_not_overtake_other_threads)
{
    char text[16];
    struct link l;

    site_start(&site, NULL);
    l = link_callbacks(&site);
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "a%d", i);
        ck_assert_int_eq(nib_send(l.conn, text, strlen(text), NIB_TEXT), 0);
        text[0] = 'b';
        ck_assert_int_eq(on_owner(l.conn, send_hello, text), 0);
    }
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "a%d", i);
        peer_expect_message(l.peer, text);
        text[0] = 'b';
        peer_expect_message(l.peer, text);
    }
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- shared messages ---- */

START_TEST(a_message_is_shared_by_many_connections)
{
    enum { LINKS = 5, LEN = 5000 };
    struct link links[LINKS];
    struct nib_message *msg;
    char *data;
    void *place;
    size_t len;

    site_start(&site, NULL);
    for (int i = 0; i < LINKS; i++)
        links[i] = link_open(&site);
    ck_assert_int_eq(nib_message_alloc(NIB_TEXT, LEN, &place, &msg), 0);
    data = place;
    memset(data, 's', LEN);
    ck_assert_ptr_eq(nib_message_data(msg, &len), data);
    ck_assert_uint_eq(len, LEN);
    ck_assert_uint_eq(nib_message_kind(msg), NIB_TEXT);
    ck_assert_ptr_eq(nib_message_ref(msg), msg);
    nib_message_unref(msg);
    for (int i = 0; i < LINKS; i++)
        ck_assert_int_eq(nib_send_message(links[i].conn, msg, 0), 0);
    data = memset(malloc(LEN), 's', LEN);
    nib_message_unref(msg);
    for (int i = 0; i < LINKS; i++) {
        peer_expect_frame(links[i].peer, PEER_TEXT, data, LEN);
        link_finish(&links[i]);
    }
    free(data);
    nib_message_unref(NULL);
    site_stop(&site);
}
END_TEST

/* ---- control frames beside data ---- */

START_TEST(a_pong_does_not_wait_for_a_large_message)
{
    enum { LEN = 8 << 20 };
    uint8_t *data = calloc(1, LEN);
    struct link l;
    size_t done = 0, before_pong = LEN;

    site_start(&site, large);
    l = link_open(&site);
    ck_assert_int_eq(nib_send(l.conn, data, LEN, NIB_BINARY), 0);
    peer_read(l.peer, data, 2); /* the message has begun */
    ck_assert_uint_eq(data[0], 0x02);
    peer_read(l.peer, data, 8);
    peer_read(l.peer, data, 65536);
    done = 65536;
    peer_send_frame(l.peer, PEER_PING, "in between", 10);
    while (done < LEN) {
        struct peer_frame f = peer_read_frame(l.peer);

        if (f.first == PEER_PONG) {
            ck_assert_uint_eq(f.len, 10);
            ck_assert(memcmp(f.data, "in between", 10) == 0);
            before_pong = done;
        } else {
            done += f.len;
            ck_assert_uint_eq(f.first, done == LEN ? 0x80 : 0x00);
        }
    }
    ck_assert_uint_eq(done, LEN);
    ck_assert_uint_lt(before_pong, LEN);
    link_finish(&l);
    site_stop(&site);
    free(data);
}
END_TEST

START_TEST(a_pong_overtakes_a_full_outbox)
{
    struct link l;
    unsigned count, before_pong = 0;
    struct peer_frame f;

    site_start(&site, small);
    l = link_accept(&site, narrow());
    count = fill_outbox(l.conn, 100);
    peer_send_frame(l.peer, PEER_PING, "x", 1);
    while ((f = peer_read_frame(l.peer)).first != PEER_PONG) {
        ck_assert_uint_eq(f.first, PEER_BINARY);
        ck_assert_uint_eq(f.len, 100);
        before_pong++;
    }
    ck_assert_uint_lt(before_pong, count);
    for (unsigned i = before_pong; i < count; i++)
        ck_assert_uint_eq(peer_read_frame(l.peer).len, 100);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(ten_pings_get_ten_pongs)
{
    struct link l;
    char text[32];

    site_start(&site, NULL);
    l = link_open(&site);
    for (int i = 0; i < 10; i++) {
        snprintf(text, sizeof text, "ping %d", i);
        peer_send_frame(l.peer, PEER_PING, text, strlen(text));
    }
    for (int i = 0; i < 10; i++) {
        snprintf(text, sizeof text, "ping %d", i);
        peer_expect_frame(l.peer, PEER_PONG, text, strlen(text));
    }
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- flush ---- */

struct flushing {
    struct nib_conn *conn;
    int timeout_ms;
};

static int flush_job(void *arg)
{
    const struct flushing *f = arg;

    return nib_flush(f->conn, f->timeout_ms);
}

static int flush_here(struct nib_conn *conn, void *arg)
{
    (void)arg;
    return nib_flush(conn, -1);
}

START_TEST(a_flush_waits_until_all_is_in_the_kernel)
{
    struct flushing f;
    struct job job;
    struct link l;
    unsigned count;

    site_start(&site, small);
    l = link_accept(&site, narrow());
    ck_assert_int_eq(nib_flush(l.conn, -1), 0);
    ck_assert_int_eq(nib_send(l.conn, "a", 1, NIB_TEXT), 0);
    ck_assert_int_eq(nib_flush(l.conn, -1), 0);
    ck_assert_uint_eq(nib_conn_buffered(l.conn), 0);
    count = fill_outbox(l.conn, BIG);
    ck_assert_int_eq(nib_flush(l.conn, 0), -ETIMEDOUT);
    ck_assert_int_eq(nib_flush(l.conn, 20), -ETIMEDOUT);
    ck_assert_int_eq(on_owner(l.conn, flush_here, NULL), -EDEADLK);
    f = (struct flushing){l.conn, -1};
    job_start(&job, flush_job, &f);
    job_await_sleep(&job);
    peer_expect_message(l.peer, "a");
    for (unsigned i = 0; i < count; i++)
        peer_read_frame(l.peer);
    ck_assert_int_eq(job_wait(&job), 0);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_flush_tells_that_bytes_are_lost)
{
    struct nib_close_info info;
    struct flushing f;
    struct job job;
    struct link l;

    site_start(&site, small);
    l = link_accept(&site, narrow());
    fill_outbox(l.conn, BIG);
    f = (struct flushing){l.conn, -1};
    job_start(&job, flush_job, &f);
    job_await_sleep(&job);
    peer_reset(l.peer);
    l.peer = NULL;
    ck_assert_int_eq(job_wait(&job), -EPIPE);
    ck_assert_int_eq(nib_flush(l.conn, -1), -EPIPE);
    ck_assert_int_eq(nib_conn_close_info(l.conn, &info), 0);
    ck_assert_uint_gt(info.unsent_bytes, 0);
    /* TLS holds eight encrypted records at the most. */
    ck_assert_uint_le(info.unsent_bytes,
                      LIMIT + (site_tls() ? 8 * 16896 : 0));
    ck_assert_uint_eq(nib_conn_buffered(l.conn), 0);
    link_free(&l);
    site_stop(&site);
}
END_TEST

static void small_total(struct nib_config *cfg)
{
    small(cfg);
    ck_assert_int_eq(nib_config_set_outbox_total_bytes(cfg, 300000), 0);
}

START_TEST(all_outboxes_together_have_a_limit)
{
    enum { LINKS = 16 };
    static char data[BIG];
    struct link links[LINKS];
    unsigned first = 0;
    int err = 0;

    site_start(&site, small_total);
    for (int i = 0; i < LINKS; i++)
        links[i] = link_accept(&site, narrow());
    for (int i = 0; i < LINKS && err != -ENOMEM; i++) {
        while ((err = nib_send(links[i].conn, data, BIG,
                               NIB_BINARY | NIB_NOWAIT)) == 0)
            first += i == 0;
        if (err != -ENOMEM)
            ck_assert_int_eq(err, -EAGAIN);
        ck_assert_uint_le(site_stats(&site).outbox_bytes, 300000);
    }
    ck_assert_int_eq(err, -ENOMEM);
    /* Nobody is hurt: what the peer reads makes room again. */
    for (; first > 0; first--)
        peer_read_frame(links[0].peer);
    await_written(links[0].conn);
    ck_assert_int_eq(nib_send(links[0].conn, "a", 1, NIB_TEXT), 0);
    for (int i = 0; i < LINKS; i++)
        link_free(&links[i]);
    site_await_connections(&site, 0);
    site_stop(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(a_message_is_of_one_kind),
        TEST(text_is_utf8_unless_trusted),
        TEST(every_size_arrives_byte_by_byte),
        TEST(every_size_arrives_from_a_shared_message),
        TEST(one_byte_too_many_is_refused),
        TEST(a_large_message_is_cut_where_it_was_set),
        TEST(a_full_outbox_takes_nothing_more_without_waiting),
        TEST(many_senders_that_wait_stay_in_order),
        TEST(many_senders_that_try_stay_in_order),
        TEST(many_senders_of_small_messages_stay_in_order),
        TEST(waiting_senders_are_served_in_order),
        TEST(a_send_that_times_out_leaves_nothing),
        TEST(who_stands_behind_one_that_gives_up_is_served),
        TEST(a_route_has_its_own_send_timeout),
        TEST(a_close_ends_waiting_senders),
        TEST(an_abort_ends_waiting_senders),
        TEST(a_reset_ends_waiting_senders),
        TEST(the_peers_close_ends_waiting_senders),
        TEST(a_protocol_error_ends_waiting_senders),
        TEST(a_stop_ends_waiting_senders),
        TEST(an_orderly_stop_ends_waiting_senders),
        TEST(on_room_follows_when_half_is_free),
        TEST(the_message_of_a_callback_can_be_sent_back),
        TEST(the_owner_does_not_overtake_other_threads),
        TEST(a_message_is_shared_by_many_connections),
        TEST(a_pong_does_not_wait_for_a_large_message),
        TEST(a_pong_overtakes_a_full_outbox),
        TEST(ten_pings_get_ten_pongs),
        TEST(a_flush_waits_until_all_is_in_the_kernel),
        TEST(a_flush_tells_that_bytes_are_lost),
        TEST(all_outboxes_together_have_a_limit),
    };

    return run_tests("send", tests, COUNT(tests));
}
