/*
 * test_lives - servers and connections that come and go in a hurry.
 *
 * Descriptors and threads must be as before after each test, every posted
 * function must end exactly once, and no moment may be a bad one for a peer
 * to vanish at.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* ---- posts ---- */

static atomic_uint runs, cancels;

static void count_run(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    atomic_fetch_add(&runs, 1);
}

static void count_cancel(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    atomic_fetch_add(&cancels, 1);
}

/* The same, but each must be the next. */
static void run_in_order(struct nib_conn *conn, void *arg)
{
    (void)conn;
    rig_check(atomic_fetch_add(&runs, 1) == (unsigned)(uintptr_t)arg);
}

START_TEST(a_million_posts)
{
    struct nib_server *srv;
    struct nib_config *cfg = rig_config(2);
    struct rig_peer peer;
    struct nib_conn *conn;
    struct nib_stats stats;
    unsigned count = rig_times(1000000);

    ck_assert_int_eq(nib_config_set_commands(cfg, 1000000), 0);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 0);
    conn = rig_meet(&meeting);
    runs = cancels = 0;
    for (unsigned i = 0; i < count; i++)
        rig_check(nib_post(conn, run_in_order, count_cancel,
                           (void *)(uintptr_t)i) == 0);
    nib_conn_unref(conn);
    rig_goodbye(&peer);
    nib_server_stop(srv, 1000);
    ck_assert_int_eq(nib_server_join(srv, -1, NULL), 0);
    nib_server_stats(srv, &stats);
    ck_assert_uint_eq(runs + cancels, count);
    ck_assert_uint_ge(stats.commands, count);
    ck_assert_uint_le(stats.wakes, stats.commands);
    nib_server_free(srv);
}
END_TEST

struct poster {
    struct nib_conn *conn;
    unsigned posted;
    atomic_bool *enough;
};

/* Posts and sends until the test has had enough, even after the end. */
static void *post_on(void *arg)
{
    struct poster *p = arg;

    while (!atomic_load(p->enough)) {
        nib_post(p->conn, count_run, count_cancel, NULL);
        p->posted++;
        nib_send(p->conn, "x", 1, NIB_TEXT);
        nib_ping(p->conn, "p", 1);
    }
    nib_conn_unref(p->conn);
    return NULL;
}

/* One life: connections, posters, a stop in the midst of it. */
static void live_once(unsigned round)
{
    enum { PEERS = 3 };
    struct nib_config *cfg = rig_config(1 + round % 3);
    struct nib_server *srv;
    struct rig_peer peers[PEERS];
    struct poster posters[PEERS];
    pthread_t threads[PEERS];
    atomic_bool enough = false;
    unsigned posted = 0;

    runs = cancels = 0;
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    for (unsigned i = 0; i < PEERS; i++) {
        rig_open(&peers[i], rig_port(srv), "/", 0);
        posters[i] = (struct poster){.conn = rig_meet(&meeting),
                                     .enough = &enough};
        threads[i] = rig_thread(post_on, &posters[i]);
    }
    if (round % 2 == 0)
        rig_close(&peers[0], round % 4 == 0);
    /* The threads outlive the server: their handles must answer. */
    rig_stop(srv, round % 3 == 0 ? 0 : 5);
    atomic_store(&enough, true);
    for (unsigned i = 0; i < PEERS; i++) {
        rig_thread_end(threads[i]);
        posted += posters[i].posted;
        if (peers[i].fd >= 0)
            rig_close(&peers[i], false);
    }
    ck_assert_uint_eq(runs + cancels, posted);
}

START_TEST(a_thousand_lives)
{
    for (unsigned i = 0; i < rig_times(1000); i++)
        live_once(i);
}
END_TEST

static void *stop_it(void *arg)
{
    nib_server_stop(arg, 0);
    ck_assert_int_eq(nib_server_join(arg, -1, NULL), 0);
    return NULL;
}

START_TEST(four_threads_stop_at_once)
{
    for (unsigned i = 0; i < rig_times(200); i++) {
        struct nib_config *cfg = rig_config(2);
        struct nib_server *srv;
        struct rig_peer peer;
        pthread_t threads[4];

        rig_meet_at(cfg, "/", &meeting);
        srv = rig_start(cfg);
        rig_open(&peer, rig_port(srv), "/", 0);
        nib_conn_unref(rig_meet(&meeting));
        for (unsigned k = 0; k < 4; k++)
            threads[k] = rig_thread(stop_it, srv);
        for (unsigned k = 0; k < 4; k++)
            rig_thread_end(threads[k]);
        nib_server_free(srv);
        rig_close(&peer, false);
    }
}
END_TEST

/* A stop right after the start, or in the midst of connecting. */
START_TEST(stop_before_anything)
{
    for (unsigned i = 0; i < rig_times(500); i++) {
        struct nib_config *cfg = rig_config(1 + i % 4);
        struct nib_server *srv;
        struct rig_peer peers[4];

        rig_meet_at(cfg, "/", &meeting);
        srv = rig_start(cfg);
        for (unsigned k = 0; k < i % 5; k++)
            if (rig_connect(&peers[k], rig_port(srv), 0) && k % 2 == 0)
                rig_write(&peers[k], "GET / HT", 8);
        rig_stop(srv, i % 2 * 50);
        for (unsigned k = 0; k < i % 5; k++)
            rig_close(&peers[k], false);
    }
}
END_TEST

/* ---- clients that come and go ---- */

/* The connection that the producer sends to, changed under its feet. */
static struct {
    pthread_mutex_t lock;
    struct nib_conn *conn;
} target = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void retarget(struct nib_conn *conn)
{
    struct nib_conn *old;

    pthread_mutex_lock(&target.lock);
    old = target.conn;
    target.conn = conn;
    pthread_mutex_unlock(&target.lock);
    nib_conn_unref(old);
}

static void *produce(void *arg)
{
    atomic_bool *enough = arg;
    static const char data[300];

    while (!atomic_load(enough)) {
        struct nib_conn *conn = NULL;

        pthread_mutex_lock(&target.lock);
        if (target.conn != NULL)
            conn = nib_conn_ref(target.conn);
        pthread_mutex_unlock(&target.lock);
        if (conn == NULL)
            continue;
        for (unsigned i = 0; i < 50; i++) {
            int err = nib_send(conn, data, sizeof data,
                               NIB_BINARY | NIB_NOWAIT);

            rig_check(err == 0 || err == -EAGAIN || err == -EPIPE);
        }
        nib_conn_unref(conn);
    }
    return NULL;
}

START_TEST(clients_come_and_go_under_a_producer)
{
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    struct rig_frame frame;
    atomic_bool enough = false;
    pthread_t producers[3];

    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    for (unsigned i = 0; i < 3; i++)
        producers[i] = rig_thread(produce, &enough);
    for (unsigned i = 0; i < rig_times(10000); i++) {
        struct rig_peer peer;

        rig_open(&peer, rig_port(srv), "/", 0);
        retarget(rig_meet(&meeting));
        if (i % 3 != 0)
            rig_check(rig_read(&peer, &frame));
        if (i % 4 == 0)
            rig_goodbye(&peer);
        else
            rig_close(&peer, i % 2 == 0);
    }
    atomic_store(&enough, true);
    for (unsigned i = 0; i < 3; i++)
        rig_thread_end(producers[i]);
    retarget(NULL);
    rig_all_closed(&meeting);
    rig_stop(srv, 0);
}
END_TEST

/* ---- peers that vanish before the accept ---- */

static atomic_uint accepts[2]; /* 0: opened, 1: the peer had gone */
static atomic_int reject_errors;

/* Accepts, or rejects, and takes what comes of it. */
static int decide_somehow(struct nib_request *req, void *arg)
{
    static atomic_uint turn;
    struct nib_conn *conn;
    int err;

    (void)arg;
    if (atomic_fetch_add(&turn, 1) % 4 == 3) {
        err = nib_reject(req, 403, NULL, 0, "no", 2);
        if (err != 0 && err != -EPIPE && err != -ECANCELED)
            atomic_store(&reject_errors, err);
        return 0;
    }
    err = nib_accept(req, NULL, &conn);
    if (err != 0) {
        rig_check(err == -EPIPE || err == -ECANCELED);
        rig_check(nib_accept(req, NULL, &conn) < 0);
        atomic_fetch_add(&accepts[1], 1);
        return 0;
    }
    atomic_fetch_add(&accepts[0], 1);
    err = nib_send(conn, "hello", 5, NIB_TEXT);
    rig_check(err == 0 || err == -EPIPE || err == -ECANCELED);
    err = nib_close(conn, 1000, NULL, -1);
    rig_check(err == 0 || err == -ECANCELED);
    return 0;
}

static bool no_connections(void *arg)
{
    struct nib_stats stats;

    nib_server_stats(arg, &stats);
    return stats.connections == 0 && stats.handshakes == 0 &&
           stats.handlers == 0 && stats.handlers_queued == 0;
}

/* The request and what follows it, cut at every byte by a FIN or RST. */
START_TEST(vanishing_at_every_byte)
{
    static const char text[] = "GET /h HTTP/1.1\r\nHost: rig\r\n"
                               "Upgrade: websocket\r\n"
                               "Connection: Upgrade\r\n"
                               "Sec-WebSocket-Key: "
                               "dGhlIHNhbXBsZSBub25jZQ==\r\n"
                               "Sec-WebSocket-Version: 13\r\n\r\n"
                               "\x81\x82\0\0\0\0hi\x88\x82\0\0\0\0\x03\xe8";
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    unsigned step = RIG_SANITIZED ? 7 : 1;

    rig_handler(cfg, "/h", decide_somehow, NULL);
    srv = rig_start(cfg);
    for (size_t cut = 0; cut < sizeof text; cut += step)
        for (unsigned way = 0; way < 4; way++) {
            struct rig_peer peer;

            rig_check(rig_connect(&peer, rig_port(srv), 0));
            /* Also in two pieces, at that place. */
            rig_write(&peer, text, cut);
            if (way == 2)
                rig_write(&peer, text + cut, sizeof text - 1 - cut);
            if (way == 3)
                shutdown(peer.fd, SHUT_WR);
            rig_close(&peer, way != 0);
        }
    rig_until(no_connections, srv, "no connection is left");
    ck_assert_int_eq(reject_errors, 0);
    rig_stop(srv, 1000);
}
END_TEST

/* The peer vanishes while the accept is under way, at many moments. */
START_TEST(vanishing_during_the_accept)
{
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;

    rig_handler(cfg, "/h", decide_somehow, NULL);
    srv = rig_start(cfg);
    for (unsigned i = 0; i < rig_times(5000); i++) {
        struct rig_peer peer;

        rig_check(rig_connect(&peer, rig_port(srv), 0));
        rig_request(&peer, "/h");
        for (volatile unsigned spin = 0; spin < i % 100 * 200; spin++)
            ;
        rig_close(&peer, i % 3 != 0);
    }
    rig_until(no_connections, srv, "no connection is left");
    ck_assert_int_eq(reject_errors, 0);
    rig_stop(srv, 1000);
}
END_TEST

/* ---- a stop while requests wait ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned waiting;
    bool go;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER};

/* Waits at the gate and then accepts, into the stop. */
static int wait_then_accept(struct nib_request *req, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&gate.lock);
    gate.waiting++;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.go)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), -ECANCELED);
    return 0;
}

START_TEST(stop_while_a_hundred_wait_for_their_decision)
{
    enum { WAITING = 100 };
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    static struct rig_peer peers[WAITING];

    gate.waiting = 0;
    gate.go = false;
    rig_handler(cfg, "/w", wait_then_accept, NULL);
    srv = rig_start(cfg);
    for (unsigned i = 0; i < WAITING; i++) {
        rig_check(rig_connect(&peers[i], rig_port(srv), 0));
        rig_request(&peers[i], "/w");
    }
    pthread_mutex_lock(&gate.lock);
    while (gate.waiting < WAITING)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    nib_server_stop(srv, 5000);
    for (unsigned i = 0; i < WAITING; i++) {
        ck_assert_int_eq(rig_status(&peers[i]), 503);
        rig_drain(&peers[i]);
        rig_close(&peers[i], false);
    }
    pthread_mutex_lock(&gate.lock);
    gate.go = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    rig_stop(srv, 5000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lives");
    TCase *tcase = tcase_create("lives");

    tcase_set_timeout(tcase, 600);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_million_posts);
    tcase_add_test(tcase, a_thousand_lives);
    tcase_add_test(tcase, four_threads_stop_at_once);
    tcase_add_test(tcase, stop_before_anything);
    tcase_add_test(tcase, clients_come_and_go_under_a_producer);
    tcase_add_test(tcase, vanishing_at_every_byte);
    tcase_add_test(tcase, vanishing_during_the_accept);
    tcase_add_test(tcase, stop_while_a_hundred_wait_for_their_decision);
    suite_add_tcase(suite, tcase);
    return rig_run(suite);
}
