/*
 * test_senders - many threads that send on one connection.
 *
 * Nothing may be lost, torn or reordered, no call may hang, and what a peer
 * does not read stays bounded.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum {
    SENDERS = 16,
    MEBIBYTE = 1 << 20,
};

static struct rig_meeting meeting;
static struct rig_census before;

static void setup(void)
{
    before = rig_census();
    rig_meeting_init(&meeting);
}

static void teardown(void)
{
    rig_settled(before);
}

/* What one sender thread does. */
struct sender {
    struct nib_conn *conn;
    unsigned number;
    unsigned count;
    size_t bytes;      /* of each message */
    bool shared;       /* by nib_send_message() */
    int result;        /* of the call that failed, or 0 */
    unsigned accepted; /* messages */
    pthread_t thread;
};

/* A message: sender and number, in eight digits each, then filling. */
static void compose(char *to, const struct sender *s, unsigned i)
{
    char text[24]; /* as the compiler counts: two numbers of ten digits */

    snprintf(text, sizeof text, "%08u%08u", s->number, i);
    memset(to, 'a' + (int)(i % 26), s->bytes);
    memcpy(to, text, 16);
}

static int send_one(const struct sender *s, const char *data)
{
    struct nib_message *msg;
    int err;

    if (!s->shared)
        return nib_send(s->conn, data, s->bytes, NIB_TEXT);
    rig_check(nib_message_new(NIB_TEXT, data, s->bytes, &msg) == 0);
    err = nib_send_message(s->conn, msg, 0);
    nib_message_unref(msg);
    return err;
}

static void *send_all(void *arg)
{
    struct sender *s = arg;
    char *data = rig_alloc(s->bytes);

    for (unsigned i = 0; i < s->count && s->result == 0; i++) {
        compose(data, s, i);
        s->result = send_one(s, data);
        if (s->result == 0)
            s->accepted++;
    }
    free(data);
    return NULL;
}

/* What a reader has seen of all senders. */
struct seen {
    unsigned next[SENDERS];
    unsigned total;
    char *message; /* being put together */
    size_t len;
    bool inside;
};

static unsigned number_at(const char *p)
{
    char digits[9] = "";

    memcpy(digits, p, 8);
    return (unsigned)strtoul(digits, NULL, 10);
}

/* A whole message: the next of its sender, with nothing else in it. */
static void check_message(struct seen *seen)
{
    unsigned sender, i;
    size_t same = 16;

    rig_check(seen->len >= 16);
    sender = number_at(seen->message);
    i = number_at(seen->message + 8);
    rig_check(sender < SENDERS);
    if (i != seen->next[sender])
        rig_abort("message %u of sender %u, expected %u", i, sender,
                     seen->next[sender]);
    while (same < seen->len && seen->message[same] == 'a' + (int)(i % 26))
        same++;
    rig_check(same == seen->len);
    seen->next[sender]++;
    seen->total++;
}

/* Puts messages together and checks each; true until a Close or the end. */
static bool see(struct rig_peer *peer, struct seen *seen,
                struct rig_frame *frame)
{
    if (!rig_read(peer, frame))
        return false;
    if (frame->opcode >= RIG_CLOSE)
        return frame->opcode != RIG_CLOSE;
    rig_check(frame->opcode == (seen->inside ? 0 : RIG_TEXT));
    if (!seen->inside)
        seen->len = 0;
    seen->message = realloc(seen->message, seen->len + frame->len);
    rig_check(seen->message != NULL);
    memcpy(seen->message + seen->len, frame->data, frame->len);
    seen->len += frame->len;
    seen->inside = !frame->fin;
    if (frame->fin)
        check_message(seen);
    return true;
}

static void senders_start(struct sender *senders, unsigned count,
                          struct nib_conn *conn, unsigned messages,
                          size_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        senders[i] = (struct sender){.conn = conn,
                                     .number = i,
                                     .count = messages,
                                     .bytes = bytes,
                                     .shared = i % 2 == 1};
        senders[i].thread = rig_thread(send_all, &senders[i]);
    }
}

static void senders_join(struct sender *senders, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        rig_thread_end(senders[i].thread);
}

/* All that `count` senders send arrives, in each one's order. */
static void all_arrives(struct nib_config *cfg, unsigned count,
                        unsigned messages, size_t bytes)
{
    struct nib_server *srv;
    struct sender senders[SENDERS];
    struct rig_peer peer;
    struct rig_frame frame;
    struct seen seen = {.total = 0};
    struct nib_conn *conn;

    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 4096);
    conn = rig_meet(&meeting);
    senders_start(senders, count, conn, messages, bytes);
    while (seen.total < count * messages)
        rig_check(see(&peer, &seen, &frame));
    senders_join(senders, count);
    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(senders[i].result, 0);
        ck_assert_uint_eq(seen.next[i], messages);
    }
    free(seen.message);
    nib_conn_unref(conn);
    rig_goodbye(&peer);
    rig_stop(srv, 1000);
}

START_TEST(sixteen_senders_and_a_slow_reader)
{
    struct nib_config *cfg = rig_config(1);

    nib_config_set_socket_buffers(cfg, 4096, 0);
    nib_config_set_outbox_bytes(cfg, 2 * MEBIBYTE);
    all_arrives(cfg, SENDERS, rig_times(10000), 40);
}
END_TEST

START_TEST(a_small_outbox_makes_all_of_them_wait)
{
    struct nib_config *cfg = rig_config(1);

    nib_config_set_socket_buffers(cfg, 4096, 0);
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 8192), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 20000), 0);
    all_arrives(cfg, SENDERS, rig_times(200), 3000);
}
END_TEST

START_TEST(a_million_tiny_sends)
{
    all_arrives(rig_config(4), 1, rig_times(1000000), 16);
}
END_TEST

START_TEST(fragmented_messages_do_not_mix)
{
    struct nib_config *cfg = rig_config(2);

    nib_config_set_socket_buffers(cfg, 4096, 0);
    ck_assert_int_eq(nib_config_set_frame_bytes(cfg, 1024), 0);
    all_arrives(cfg, 4, rig_times(200), 10000);
}
END_TEST

struct pinger {
    struct nib_conn *conn;
    atomic_bool enough;
};

/* A ping whenever the one before is answered. */
static void *ping_on(void *arg)
{
    struct pinger *p = arg;

    while (!atomic_load(&p->enough)) {
        int err = nib_ping(p->conn, "ping", 4);

        rig_check(err == 0 || err == -EBUSY);
        sched_yield();
    }
    return NULL;
}

START_TEST(pings_go_between_messages)
{
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    struct sender senders[4];
    struct rig_peer peer;
    struct rig_frame frame;
    struct seen seen = {.total = 0};
    struct pinger pinger = {.enough = false};
    unsigned messages = rig_times(5000), pings = 0;
    pthread_t thread;

    nib_config_set_socket_buffers(cfg, 4096, 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 4096);
    pinger.conn = rig_meet(&meeting);
    thread = rig_thread(ping_on, &pinger);
    senders_start(senders, 4, pinger.conn, messages, 1000);
    while (seen.total < 4 * messages || pings == 0) {
        rig_check(see(&peer, &seen, &frame));
        if (frame.opcode == RIG_PING) {
            ck_assert_uint_eq(frame.len, 4);
            pings++;
            rig_check(rig_send(&peer, RIG_PONG, frame.data, frame.len));
        }
    }
    atomic_store(&pinger.enough, true);
    rig_thread_end(thread);
    senders_join(senders, 4);
    free(seen.message);
    nib_conn_unref(pinger.conn);
    rig_goodbye(&peer);
    rig_stop(srv, 1000);
}
END_TEST

/* One thread, big and small messages by turns. */
START_TEST(small_messages_do_not_overtake_big_ones)
{
    enum { BIG = 8 * MEBIBYTE };
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    struct rig_peer peer;
    struct rig_frame frame;
    struct seen seen = {.total = 0};
    struct nib_conn *conn;
    unsigned rounds = rig_times(30);
    struct sender s = {.number = 0, .bytes = BIG};
    struct sender *both[2] = {&s, &s};
    char *data = rig_alloc(BIG);

    ck_assert_int_eq(nib_config_set_message_bytes(cfg, BIG), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 3 * (size_t)BIG), 0);
    nib_config_set_socket_buffers(cfg, 65536, 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 0);
    conn = rig_meet(&meeting);
    for (unsigned i = 0; i < rounds; i++) {
        for (unsigned k = 0; k < 2; k++) {
            both[k]->bytes = k == 0 ? BIG : 16;
            compose(data, both[k], 2 * i + k);
            ck_assert_int_eq(nib_send(conn, data, both[k]->bytes,
                                      NIB_TEXT | NIB_TRUSTED),
                             0);
        }
        while (seen.total < 2 * i + 2)
            rig_check(see(&peer, &seen, &frame));
    }
    free(seen.message);
    free(data);
    nib_conn_unref(conn);
    rig_goodbye(&peer);
    rig_stop(srv, 1000);
}
END_TEST

/* ---- senders against the end ---- */

enum way {
    BY_CLOSE,
    BY_ABORT,
    BY_STOP,
    BY_PEER_CLOSE,
    BY_PEER_RESET,
    WAYS,
};

static void end_by(enum way way, struct nib_conn *conn,
                   struct nib_server *srv, struct rig_peer *peer)
{
    switch (way) {
    case BY_CLOSE:
        ck_assert_int_eq(nib_close(conn, 1000, "enough", 0), 0);
        break;
    case BY_ABORT:
        nib_abort(conn);
        break;
    case BY_STOP:
        nib_server_stop(srv, RIG_PATIENCE_MS);
        break;
    case BY_PEER_CLOSE:
        rig_send(peer, RIG_CLOSE, "\x03\xe8", 2);
        break;
    default:
        rig_close(peer, true);
    }
}

/* Nothing that was accepted before an orderly close may be missing. */
static void check_end(enum way way, const struct sender *senders,
                      const struct seen *seen)
{
    for (unsigned i = 0; i < SENDERS; i++) {
        ck_assert_int_eq(senders[i].result, -EPIPE);
        if (way == BY_CLOSE || way == BY_STOP)
            ck_assert_uint_eq(seen->next[i], senders[i].accepted);
        else
            ck_assert_uint_le(seen->next[i], senders[i].accepted);
    }
}

/* Reads what is left; returns the Close's code, 1006 without one. */
static unsigned read_out(struct rig_peer *peer, struct seen *seen)
{
    struct rig_frame frame = {.opcode = 0};
    unsigned code = 1006;

    if (peer->fd < 0)
        return code;
    while (see(peer, seen, &frame))
        ;
    if (frame.opcode == RIG_CLOSE)
        code = rig_close_code(&frame);
    return code;
}

static void race(enum way way)
{
    static const unsigned codes[WAYS] = {1000, 1006, 1001, 1000, 1006};
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    struct sender senders[SENDERS];
    struct rig_peer peer;
    struct rig_frame frame;
    struct seen seen = {.total = 0};
    struct nib_conn *conn;
    struct nib_close_info info;

    nib_config_set_socket_buffers(cfg, 4096, 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 4096);
    conn = rig_meet(&meeting);
    senders_start(senders, SENDERS, conn, 1000000, 200);
    while (seen.total < 500)
        rig_check(see(&peer, &seen, &frame));
    end_by(way, conn, srv, &peer);
    if (peer.fd >= 0)
        ck_assert_uint_eq(read_out(&peer, &seen), codes[way]);
    senders_join(senders, SENDERS);
    check_end(way, senders, &seen);
    free(seen.message);
    if (peer.fd >= 0)
        rig_goodbye(&peer);
    rig_all_closed(&meeting);
    ck_assert_int_eq(nib_conn_close_info(conn, &info), 0);
    ck_assert_int_eq(info.code, (int)codes[way]);
    ck_assert_uint_eq(nib_conn_buffered(conn), 0);
    nib_conn_unref(conn);
    rig_stop(srv, 0);
}

START_TEST(senders_against_the_end)
{
    for (unsigned i = 0; i < rig_times(50); i++)
        race((enum way)_i);
}
END_TEST

/* ---- waiting for room ---- */

START_TEST(a_hundred_waiters_return)
{
    enum { WAITERS = 100 };
    struct nib_config *cfg = rig_config(1);
    struct nib_server *srv;
    static struct sender senders[WAITERS];
    struct rig_peer peer;
    struct nib_conn *conn;
    unsigned full = 0;

    nib_config_set_socket_buffers(cfg, 4096, 0);
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 4096), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 16384), 0);
    ck_assert_int_eq(nib_config_set_send_timeout_ms(cfg, -1), 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 4096);
    conn = rig_meet(&meeting);
    senders_start(senders, WAITERS, conn, 1000000, 3000);
    /* The kernel takes no more when the same bytes wait twice in a row. */
    while (full < 50) {
        size_t bytes = nib_conn_buffered(conn);

        rig_check(bytes <= 16384);
        full = bytes > 12000 ? full + 1 : 0;
        sched_yield();
    }
    end_by((enum way)_i, conn, srv, &peer);
    if (_i == BY_CLOSE)
        ck_assert_int_eq(nib_flush(conn, 0), -ETIMEDOUT);
    senders_join(senders, WAITERS);
    for (unsigned i = 0; i < WAITERS; i++)
        ck_assert_int_eq(senders[i].result, -EPIPE);
    if (peer.fd >= 0)
        rig_goodbye(&peer);
    nib_conn_unref(conn);
    rig_stop(srv, 0);
}
END_TEST

/* ---- memory ---- */

static size_t outbox_memory(struct nib_server *srv)
{
    struct nib_stats stats;

    nib_server_stats(srv, &stats);
    return (size_t)stats.outbox_bytes;
}

static bool outbox_memory_gone(void *arg)
{
    return outbox_memory(arg) == 0;
}

START_TEST(clients_that_do_not_read)
{
    enum { CLIENTS = 100, LIMIT = 65536, MESSAGE = 1000 };
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    static struct rig_peer peers[CLIENTS];
    static struct nib_conn *conns[CLIENTS];
    static const char data[MESSAGE];
    unsigned refused = 0;

    nib_config_set_socket_buffers(cfg, 4096, 0);
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 16384), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, LIMIT), 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    for (unsigned i = 0; i < CLIENTS; i++) {
        rig_open(&peers[i], rig_port(srv), "/", 4096);
        conns[i] = rig_meet(&meeting);
    }
    while (refused < 20 * CLIENTS)
        for (unsigned i = 0; i < CLIENTS; i++) {
            int err = nib_send(conns[i], data, MESSAGE,
                               NIB_BINARY | NIB_NOWAIT);

            rig_check(err == 0 || err == -EAGAIN);
            refused += err == -EAGAIN;
            rig_check(nib_conn_buffered(conns[i]) <= LIMIT);
        }
    /* Chunks have capacity to spare, but not more than bytes wait. */
    ck_assert_uint_le(outbox_memory(srv), 2 * (size_t)CLIENTS * LIMIT);
    for (unsigned i = 0; i < CLIENTS; i++) {
        nib_conn_unref(conns[i]);
        rig_close(&peers[i], true);
    }
    rig_all_closed(&meeting);
    rig_until(outbox_memory_gone, srv, "the outboxes' memory comes back");
    rig_stop(srv, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("senders");
    TCase *tcase = tcase_create("senders");

    tcase_set_timeout(tcase, 600);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, sixteen_senders_and_a_slow_reader);
    tcase_add_test(tcase, a_small_outbox_makes_all_of_them_wait);
    tcase_add_test(tcase, a_million_tiny_sends);
    tcase_add_test(tcase, fragmented_messages_do_not_mix);
    tcase_add_test(tcase, pings_go_between_messages);
    tcase_add_test(tcase, small_messages_do_not_overtake_big_ones);
    tcase_add_loop_test(tcase, senders_against_the_end, 0, WAYS);
    tcase_add_loop_test(tcase, a_hundred_waiters_return, 0, WAYS);
    tcase_add_test(tcase, clients_that_do_not_read);
    suite_add_tcase(suite, tcase);
    return rig_run(suite);
}
