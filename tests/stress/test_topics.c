/*
 * test_topics - publishing while subscribers come, go and fall behind.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static struct rig_census before;
static struct rig_meeting meeting;

static void setup(void)
{
    before = rig_census();
    rig_meeting_init(&meeting);
}

static void teardown(void)
{
    rig_settled(before);
}

static struct nib_message *message(const void *data, size_t len)
{
    struct nib_message *msg;

    rig_check(nib_message_new(NIB_BINARY, data, len, &msg) == 0);
    return msg;
}

static size_t topic_bytes(struct nib_server *srv)
{
    struct nib_stats stats;

    nib_server_stats(srv, &stats);
    return (size_t)stats.topic_bytes;
}

static bool topic_bytes_gone(void *arg)
{
    return topic_bytes(arg) == 0;
}

/* ---- one slow reader, several topics ---- */

/* Messages of a kind are filled with one letter; any other byte in them, or
   a frame that is none, is a message inside another. */
static void check_letters(const struct rig_frame *frame, char *letter,
                          unsigned *whole)
{
    if (frame->opcode != 0) {
        ck_assert_uint_eq(frame->opcode, RIG_BINARY);
        ck_assert_int_eq(*letter, '\0');
        *letter = frame->len > 0 ? (char)frame->data[0] : '?';
    }
    for (size_t i = 0; i < frame->len; i++)
        if (frame->data[i] != (uint8_t)*letter)
            rig_abort("byte %zu is %c in a message of %c", i,
                         frame->data[i], *letter);
    if (frame->fin) {
        whole[*letter - 'a']++;
        *letter = '\0';
    }
}

/*
 * Topic b is in the middle of a message that the peer does not take, when
 * topic a, which the connection joined first, and the connection itself get
 * messages as well.
 */
START_TEST(no_message_begins_inside_another)
{
    enum { BIG = 900000, SMALL = 500 };
    struct nib_config *cfg = rig_config(1);
    struct nib_server *srv;
    struct rig_peer peer;
    struct rig_frame frame;
    struct nib_conn *conn;
    struct nib_message *msgs[3];
    char *data = rig_alloc(BIG);
    char letter = '\0';
    unsigned whole[3] = {0};
    struct nib_publish_counts counts;

    nib_config_set_socket_buffers(cfg, 4096, 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 4096);
    conn = rig_meet(&meeting);
    ck_assert_int_eq(nib_subscribe(conn, "a"), 0);
    ck_assert_int_eq(nib_subscribe(conn, "b"), 0);
    memset(data, 'a', BIG);
    msgs[0] = message(data, SMALL);
    memset(data, 'b', BIG);
    msgs[1] = message(data, BIG);
    memset(data, 'c', BIG);
    msgs[2] = message(data, SMALL);
    ck_assert_int_eq(nib_publish(srv, "b", msgs[1], NULL, 0), 0);
    /* Once a part of b has arrived, the rest waits. */
    rig_check(rig_read(&peer, &frame));
    check_letters(&frame, &letter, whole);
    ck_assert_int_eq(nib_publish_wait(srv, "a", msgs[0], NULL, 0, &counts),
                     0);
    ck_assert_uint_eq(counts.queued, 1);
    ck_assert_int_eq(nib_send_message(conn, msgs[2], 0), 0);
    while (whole[0] + whole[1] + whole[2] < 3) {
        rig_check(rig_read(&peer, &frame));
        check_letters(&frame, &letter, whole);
    }
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(whole[i], 1);
        nib_message_unref(msgs[i]);
    }
    free(data);
    nib_conn_unref(conn);
    rig_goodbye(&peer);
    rig_stop(srv, 1000);
}
END_TEST

/* ---- many subscribers ---- */

/* Subscribes as soon as it is open. */
static void subscribe_all(struct nib_conn *conn, void *arg)
{
    (void)arg;
    ck_assert_int_eq(nib_subscribe(conn, "all"), 0);
}

struct readers {
    struct rig_peer *peers;
    unsigned count;
    unsigned messages; /* that each has to get */
};

/* Reads all peers by turns, each message the next of its peer. */
static void *read_all(void *arg)
{
    struct readers *r = arg;

    for (unsigned i = 0; i < r->messages; i++)
        for (unsigned k = 0; k < r->count; k++) {
            struct rig_frame frame;
            uint32_t number;

            rig_check(rig_read(&r->peers[k], &frame));
            rig_check(frame.opcode == RIG_BINARY);
            memcpy(&number, frame.data, sizeof number);
            rig_check(number == i);
        }
    return NULL;
}

START_TEST(many_subscribers_share_the_memory)
{
    static const struct nib_callbacks callbacks = {.on_open = subscribe_all};
    unsigned peers = rig_times(1000), messages = rig_times(10000);
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    struct readers r = {.peers = rig_alloc(peers * sizeof(struct rig_peer)),
                        .count = peers,
                        .messages = messages};
    uint8_t data[200] = {0};
    pthread_t reader;
    struct nib_stats stats;

    rig_callbacks(cfg, "/", &callbacks, NULL);
    /* Nobody is slow here but the reader of the test. */
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 1 << 28), 0);
    srv = rig_start(cfg);
    for (unsigned i = 0; i < peers; i++)
        rig_open(&r.peers[i], rig_port(srv), "/", 0);
    reader = rig_thread(read_all, &r);
    for (uint32_t i = 0; i < messages; i++) {
        struct nib_message *msg;

        memcpy(data, &i, sizeof i);
        msg = message(data, sizeof data);
        rig_check(nib_publish(srv, "all", msg, NULL, 0) == 0);
        nib_message_unref(msg);
        /* Twice the log on two reactors, and a segment that is not full. */
        rig_check(topic_bytes(srv) <= 2 * ((4u << 20) + 65536));
    }
    rig_thread_end(reader);
    nib_server_stats(srv, &stats);
    ck_assert_uint_eq(stats.published, messages);
    ck_assert_uint_eq(stats.slow, 0);
    for (unsigned i = 0; i < peers; i++)
        rig_close(&r.peers[i], i % 2 == 0);
    rig_until(topic_bytes_gone, srv, "the topic's memory comes back");
    free(r.peers);
    rig_stop(srv, 1000);
}
END_TEST

/* ---- a subscriber that does not read ---- */

enum leaving {
    STAYS,        /* and is closed as slow */
    UNSUBSCRIBES, /* what was published before is still its own */
    CLOSES,
    LEAVINGS,
};

static atomic_uint arrived; /* at the good subscriber */

/* Reads a good subscriber's messages up to the last. */
static void *read_to_the_last(void *arg)
{
    struct readers *r = arg;

    for (unsigned i = 0; i < r->messages; i++) {
        struct rig_frame frame;

        rig_check(rig_read(&r->peers[0], &frame));
        rig_check(frame.opcode == RIG_BINARY);
        atomic_store(&arrived, i + 1);
    }
    return NULL;
}

/*
 * However a subscriber stops in the middle of its messages, the log of all
 * others stays within its bounds.
 */
START_TEST(who_does_not_read_holds_no_memory)
{
    enum { MESSAGE = 10000, BEFORE = 200, AFTER = 3000 };
    struct nib_config *cfg = rig_config(1);
    struct nib_server *srv;
    struct rig_peer slow, good;
    struct nib_conn *conns[2];
    struct readers r = {.peers = &good, .messages = BEFORE + AFTER};
    struct nib_message *msg;
    static const char data[MESSAGE];
    struct rig_frame frame;
    pthread_t reader;
    size_t most = 0;

    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 65536), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 1 << 20), 0);
    ck_assert_int_eq(nib_config_set_topic_bytes(cfg, 4 << 20, 0), 0);
    nib_config_set_socket_buffers(cfg, 65536, 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&slow, rig_port(srv), "/", 4096);
    conns[0] = rig_meet(&meeting);
    rig_open(&good, rig_port(srv), "/", 0);
    conns[1] = rig_meet(&meeting);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(nib_subscribe(conns[i], "t"), 0);
    atomic_store(&arrived, 0);
    reader = rig_thread(read_to_the_last, &r);
    msg = message(data, sizeof data);
    for (unsigned i = 0; i < BEFORE + AFTER; i++) {
        size_t bytes;

        if (i == BEFORE / 2 && _i == UNSUBSCRIBES)
            ck_assert_int_eq(nib_unsubscribe(conns[0], "t"), 0);
        if (i == BEFORE / 2 && _i == CLOSES)
            ck_assert_int_eq(nib_close(conns[0], 1000, NULL, 0), 0);
        rig_check(nib_publish(srv, "t", msg, NULL, 0) == 0);
        /* Not so fast that the good one is slow as well. */
        while (i + 1 - atomic_load(&arrived) > 20)
            sched_yield();
        bytes = topic_bytes(srv);
        most = bytes > most ? bytes : most;
    }
    rig_thread_end(reader);
    ck_assert_uint_le(most, 6u << 20);
    /* What was begun is whole, and then it is told why. */
    do {
        ck_assert(rig_read(&slow, &frame));
        if (frame.opcode != RIG_CLOSE)
            ck_assert_uint_eq(frame.len, MESSAGE);
    } while (frame.opcode != RIG_CLOSE);
    ck_assert_uint_eq(rig_close_code(&frame), _i == CLOSES ? 1000 : 1013);
    nib_message_unref(msg);
    for (unsigned i = 0; i < 2; i++)
        nib_conn_unref(conns[i]);
    rig_close(&slow, true);
    rig_goodbye(&good);
    rig_until(topic_bytes_gone, srv, "the topic's memory comes back");
    rig_stop(srv, 1000);
}
END_TEST

/* ---- a storm ---- */

static struct {
    struct nib_server *srv;
    atomic_bool enough; /* for all but publishers, */
    atomic_bool quiet;  /* who go on until nobody waits for a message */
    atomic_uint published;
} storm;

static const char *const names[] = {"a", "b", "c"};

static void *publish_on(void *arg)
{
    static const char data[3000];
    struct nib_message *msg = message(data, (size_t)(uintptr_t)arg);

    for (unsigned i = 0; !atomic_load(&storm.quiet); i++) {
        struct nib_publish_counts counts;
        int err = i % 16 == 0
                      ? nib_publish_wait(storm.srv, names[i % 3], msg, NULL,
                                         0, &counts)
                      : nib_publish(storm.srv, names[i % 3], msg, NULL,
                                    i % 2 == 0 ? NIB_NOWAIT : 0);

        rig_check(err == 0 || err == -EAGAIN || err == -ECANCELED);
        atomic_fetch_add(&storm.published, 1);
    }
    nib_message_unref(msg);
    return NULL;
}

/* What a peer sends is published, from the owner. */
static void pass_on(struct nib_conn *conn, struct nib_message *msg, void *arg)
{
    int err = nib_publish(nib_conn_server(conn), "a", msg, conn, 0);

    (void)arg;
    rig_check(err == 0 || err == -EAGAIN || err == -ECANCELED);
}

static void join_some(struct nib_conn *conn, void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 3; i++)
        if (nib_conn_id(conn) % (i + 1) == 0)
            nib_subscribe(conn, names[i]);
}

/* A client: comes, reads some, says something, goes; some never read. */
static void *come_and_go(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; !atomic_load(&storm.enough); i++) {
        struct rig_peer peer;
        struct rig_frame frame;

        rig_open(&peer, rig_port(storm.srv), "/", 0);
        for (unsigned k = 0; k < 20 && (number + i) % 3 != 0; k++)
            if (!rig_read(&peer, &frame))
                break;
        rig_send(&peer, RIG_BINARY, "hello", 5);
        rig_close(&peer, i % 2 == 0);
    }
    return NULL;
}

static void come_through(struct nib_conn *conn, void *arg)
{
    (void)conn;
    atomic_store((atomic_bool *)arg, true);
}

/*
 * Joins and leaves topics with a connection that stays. Neither waits, so
 * now and then this does, or commands would pile up without a bound.
 */
static void *join_and_leave(void *arg)
{
    struct nib_conn *conn = arg;

    for (unsigned i = 0; !atomic_load(&storm.enough); i++) {
        int err = i % 2 == 0 ? nib_subscribe(conn, names[i / 2 % 3])
                             : nib_unsubscribe(conn, names[i / 2 % 3]);
        atomic_bool through = false;

        if (err != 0 && err != -EPIPE && err != -ECANCELED)
            rig_abort("join or leave: %s", nib_strerror(err));
        if (i % 16 != 0)
            continue;
        nib_post(conn, come_through, come_through, &through);
        while (!atomic_load(&through))
            sched_yield();
    }
    return NULL;
}

static void *read_on(void *arg)
{
    struct rig_peer *peer = arg;
    struct rig_frame frame;

    while (rig_read(peer, &frame) && frame.opcode != RIG_CLOSE)
        ;
    return NULL;
}

static bool enough_published(void *arg)
{
    return atomic_load(&storm.published) > *(unsigned *)arg;
}

START_TEST(a_storm_of_joins_leaves_and_publishes)
{
    static const struct nib_callbacks callbacks = {.on_open = join_some,
                                                   .on_message = pass_on};
    struct nib_config *cfg = rig_config(3);
    struct rig_peer peer;
    struct nib_conn *conn;
    pthread_t threads[9], publishers[3];
    unsigned wanted = rig_times(100000), n = 0;

    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 4096), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 30000), 0);
    ck_assert_int_eq(nib_config_set_topic_bytes(cfg, 200000, 0), 0);
    nib_config_set_socket_buffers(cfg, 8192, 0);
    rig_callbacks(cfg, "/", &callbacks, NULL);
    rig_meet_at(cfg, "=/meet", &meeting);
    storm.srv = rig_start(cfg);
    storm.enough = storm.quiet = false;
    storm.published = 0;
    rig_open(&peer, rig_port(storm.srv), "/meet", 0);
    conn = rig_meet(&meeting);
    threads[n++] = rig_thread(read_on, &peer);
    threads[n++] = rig_thread(join_and_leave, conn);
    threads[n++] = rig_thread(join_and_leave, conn);
    for (uintptr_t i = 0; i < 3; i++)
        publishers[i] = rig_thread(publish_on, (void *)(1 + i * 1000));
    for (uintptr_t i = 0; i < 6; i++)
        threads[n++] = rig_thread(come_and_go, (void *)i);
    rig_until(enough_published, &wanted, "many publishes");
    atomic_store(&storm.enough, true);
    nib_close(conn, 1000, NULL, 0);
    for (unsigned i = 0; i < n; i++)
        rig_thread_end(threads[i]);
    atomic_store(&storm.quiet, true);
    for (unsigned i = 0; i < 3; i++)
        rig_thread_end(publishers[i]);
    nib_conn_unref(conn);
    rig_close(&peer, false);
    nib_server_stop(storm.srv, 0);
    ck_assert_int_eq(nib_server_join(storm.srv, -1, NULL), 0);
    ck_assert_uint_eq(topic_bytes(storm.srv), 0);
    nib_server_free(storm.srv);
}
END_TEST

/* Publishers that wait for room, and a stop. */
START_TEST(publishers_that_wait_return_at_the_stop)
{
    struct nib_config *cfg = rig_config(2);
    struct rig_peer peers[4];
    struct nib_conn *conns[4];
    pthread_t threads[8];
    unsigned wanted = 200;

    ck_assert_int_eq(nib_config_set_topic_bytes(cfg, 3u << 20, 0), 0);
    nib_config_set_socket_buffers(cfg, 4096, 0);
    rig_meet_at(cfg, "/", &meeting);
    storm.srv = rig_start(cfg);
    storm.enough = storm.quiet = false;
    storm.published = 0;
    for (unsigned i = 0; i < 4; i++) {
        rig_open(&peers[i], rig_port(storm.srv), "/", 4096);
        conns[i] = rig_meet(&meeting);
        ck_assert_int_eq(nib_subscribe(conns[i], "a"), 0);
    }
    for (unsigned i = 0; i < 8; i++)
        threads[i] = rig_thread(publish_on, (void *)(uintptr_t)3000);
    rig_until(enough_published, &wanted, "some publishes");
    nib_server_stop(storm.srv, 0);
    ck_assert_int_eq(nib_server_join(storm.srv, -1, NULL), 0);
    atomic_store(&storm.quiet, true);
    for (unsigned i = 0; i < 8; i++)
        rig_thread_end(threads[i]);
    for (unsigned i = 0; i < 4; i++) {
        nib_conn_unref(conns[i]);
        rig_close(&peers[i], false);
    }
    nib_server_free(storm.srv);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topics");
    TCase *tcase = tcase_create("topics");

    tcase_set_timeout(tcase, 600);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, no_message_begins_inside_another);
    tcase_add_test(tcase, many_subscribers_share_the_memory);
    tcase_add_loop_test(tcase, who_does_not_read_holds_no_memory, 0,
                        LEAVINGS);
    tcase_add_test(tcase, a_storm_of_joins_leaves_and_publishes);
    tcase_add_test(tcase, publishers_that_wait_return_at_the_stop);
    suite_add_tcase(suite, tcase);
    return rig_run(suite);
}
