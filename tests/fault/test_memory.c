/*
 * test_memory - every single allocation fails once.
 *
 * A scenario runs again and again; each time the next of its allocations
 * fails, whichever thread makes it, until a run is through before its turn
 * has come. Nothing may crash, nothing may stay allocated, and a bystander's
 * connection goes on.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "rig.h"

static struct rig_census before;

static void setup(void)
{
    before = rig_census();
}

static void teardown(void)
{
    nib__alloc_fail_at(0);
    nib__alloc_watch(false);
    rig_settled(before);
}

/* Runs a scenario with the first, second, ... allocation failing. */
static void fail_each(void (*scenario)(void))
{
    enum { MOST = 5000 }; /* no scenario needs as many */

    for (long n = 1; n < MOST; n++) {
        bool pending;

        nib__alloc_watch(true);
        nib__alloc_fail_at(n);
        scenario();
        pending = nib__alloc_fail_pending();
        nib__alloc_fail_at(0);
        ck_assert_msg(nib__alloc_live() == 0,
                      "failing allocation %ld leaves %ld blocks", n,
                      nib__alloc_live());
        if (pending)
            return;
    }
    rig_abort("the scenario has no end");
}

/* ---- configuration and server, without a peer ---- */

static bool ok_or_no_memory(int err)
{
    ck_assert_msg(err == 0 || err == -ENOMEM, "%s", nib_strerror(err));
    return err == 0;
}

static int refuse(struct nib_request *req, void *arg)
{
    (void)arg;
    return nib_reject(req, 403, NULL, 0, NULL, 0);
}

static void configure(void)
{
    static const struct nib_callbacks callbacks;
    struct nib_config *cfg = NULL;
    struct nib_route *route;
    struct nib_server *srv = NULL;

    if (!ok_or_no_memory(nib_config_new(&cfg)))
        return;
    if (ok_or_no_memory(nib_config_listen(cfg, "tcp:127.0.0.1:0")) &&
        ok_or_no_memory(nib_config_listen(cfg, "unix:@nib-test")) &&
        ok_or_no_memory(nib_config_route(cfg, "/a", &route)) &&
        ok_or_no_memory(nib_route_set_subprotocols(route, "a, b")) &&
        ok_or_no_memory(nib_route_set_handler(route, refuse, NULL)) &&
        ok_or_no_memory(nib_config_route(cfg, "=/", &route)) &&
        ok_or_no_memory(nib_route_set_callbacks(route, &callbacks, NULL)) &&
        ok_or_no_memory(nib_config_set_max_per_address(cfg, 10)) &&
        ok_or_no_memory(nib_config_set_reactors(cfg, 2)) &&
        ok_or_no_memory(nib_server_new(cfg, &srv)))
        ok_or_no_memory(nib_server_start(srv));
    nib_config_free(cfg);
    nib_server_free(srv);
}

START_TEST(setting_up)
{
    fail_each(configure);
}
END_TEST

/* ---- a whole life ---- */

/* An echo by a blocking handler, which goes on as long as it can. */
static int echo(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    struct nib_message *msg;
    int err = nib_accept(req, NULL, &conn);

    (void)arg;
    while (err == 0 && (err = nib_recv(conn, &msg, -1)) == 0) {
        err = nib_send_message(conn, msg, 0);
        nib_message_unref(msg);
    }
    return err;
}

static void subscribe(struct nib_conn *conn, void *arg)
{
    (void)arg;
    if (nib_subscribe(conn, "t") < 0)
        nib_close(conn, 1011, "no memory", 0);
}

static void publish(struct nib_conn *conn, struct nib_message *msg, void *arg)
{
    (void)arg;
    if (nib_publish(nib_conn_server(conn), "t", msg, conn, 0) < 0)
        nib_close(conn, 1011, "no memory", 0);
    nib_ping(conn, "p", 1);
}

static void page(struct nib_request *req, void *arg)
{
    (void)arg;
    nib_respond(req, 200, NULL, 0, "page", 4);
}

/* Sends what it says and reads until the answer, a Close or the end. */
static void talk(int port, const char *path, const void *data, size_t len)
{
    struct rig_peer peer;
    struct rig_frame frame;
    size_t got = 0;

    ck_assert(rig_connect(&peer, port, 0));
    rig_request(&peer, path);
    if (rig_status(&peer) == 101) {
        rig_send(&peer, RIG_PING, "ping", 4);
        rig_send(&peer, RIG_BINARY, data, len);
        while (got < len && rig_read(&peer, &frame) &&
               frame.opcode != RIG_CLOSE)
            if (frame.opcode <= RIG_BINARY)
                got += frame.len;
        rig_send(&peer, RIG_CLOSE, "\x03\xe8" "bye", 5);
    }
    rig_drain(&peer);
    rig_close(&peer, false);
}

static void fetch(int port)
{
    static const char text[] = "GET /page HTTP/1.1\r\nHost: rig\r\n"
                               "Connection: close\r\n\r\n";
    struct rig_peer peer;

    ck_assert(rig_connect(&peer, port, 0));
    rig_write(&peer, text, sizeof text - 1);
    rig_drain(&peer);
    rig_close(&peer, false);
}

/* The bystander was there before anything failed. */
static void check_bystander(struct rig_peer *peer)
{
    struct rig_frame frame;

    ck_assert(rig_send(peer, RIG_TEXT, "still here", 10));
    ck_assert(rig_read(peer, &frame));
    ck_assert_uint_eq(frame.len, 10);
    ck_assert_int_eq(memcmp(frame.data, "still here", 10), 0);
}

/* n: which allocation fails, counted from the bystander's arrival on. */
static bool life(long n)
{
    static const struct nib_callbacks callbacks = {.on_open = subscribe,
                                                   .on_message = publish};
    static const char data[70000];
    struct nib_config *cfg = rig_config(1);
    struct nib_server *srv;
    struct nib_route *route;
    struct rig_peer bystander;
    bool pending;
    int port;

    ck_assert_int_eq(nib_config_set_frame_bytes(cfg, 4096), 0);
    ck_assert_int_eq(nib_config_set_max_per_address(cfg, 1000), 0);
    rig_handler(cfg, "/echo", echo, NULL);
    rig_callbacks(cfg, "/topic", &callbacks, NULL);
    ck_assert_int_eq(nib_config_route(cfg, "/page", &route), 0);
    ck_assert_int_eq(nib_route_set_http(route, page, NULL), 0);
    srv = rig_start(cfg);
    port = rig_port(srv);
    rig_open(&bystander, port, "/echo", 0);
    check_bystander(&bystander);
    nib__alloc_fail_at(n);
    talk(port, "/echo", "hello", 5);
    talk(port, "/echo", data, sizeof data);
    talk(port, "/topic", "hello", 5);
    talk(port, "/topic", data, sizeof data);
    fetch(port);
    pending = nib__alloc_fail_pending();
    nib__alloc_fail_at(0);
    check_bystander(&bystander);
    rig_goodbye(&bystander);
    rig_stop(srv, 1000);
    return pending;
}

START_TEST(a_whole_life)
{
    bool through = false;

    for (long n = 1; !through; n++) {
        ck_assert_int_lt(n, 5000);
        nib__alloc_watch(true);
        through = life(n);
        ck_assert_msg(nib__alloc_live() == 0,
                      "failing allocation %ld leaves %ld blocks", n,
                      nib__alloc_live());
    }
}
END_TEST

/* ---- the calls of any thread ---- */

static struct rig_meeting meeting;

static atomic_int ended;

static void count_end(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    atomic_fetch_add(&ended, 1);
}

/* Each call once, with allocation n failing; each says so, and only that. */
static bool calls(long n)
{
    static const char data[10000];
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    struct rig_peer peer;
    struct nib_conn *conn;
    struct nib_message *msg = NULL;
    struct nib_publish_counts counts;
    bool pending;

    rig_meeting_init(&meeting);
    rig_meet_at(cfg, "/", &meeting);
    srv = rig_start(cfg);
    rig_open(&peer, rig_port(srv), "/", 0);
    conn = rig_meet(&meeting);
    ended = 0;
    nib__alloc_fail_at(n);
    ok_or_no_memory(nib_send(conn, "x", 1, NIB_TEXT));
    ok_or_no_memory(nib_send(conn, data, sizeof data, NIB_BINARY));
    ok_or_no_memory(nib_ping(conn, "x", 1));
    ok_or_no_memory(nib_post(conn, count_end, count_end, NULL));
    if (ok_or_no_memory(nib_message_new(NIB_BINARY, data, sizeof data,
                                        &msg))) {
        int err = nib_subscribe(conn, "t");

        ck_assert(err == 0 || err == -ENOMEM || err == -EPIPE);
        ok_or_no_memory(nib_publish(srv, "t", msg, NULL, 0));
        ok_or_no_memory(nib_publish_wait(srv, "t", msg, NULL, 0, &counts));
        err = nib_send_message(conn, msg, 0);
        ck_assert(err == 0 || err == -ENOMEM || err == -EPIPE);
        err = nib_unsubscribe(conn, "t");
        ck_assert(err == 0 || err == -ENOMEM || err == -EPIPE);
    }
    nib_message_unref(msg);
    /* Closing needs no memory. */
    ck_assert_int_eq(nib_close(conn, 1000, "a reason", 0), 0);
    rig_goodbye(&peer);
    pending = nib__alloc_fail_pending();
    nib__alloc_fail_at(0);
    nib_conn_unref(conn);
    rig_stop(srv, 0);
    ck_assert_int_eq(ended, 1);
    return pending;
}

START_TEST(every_call)
{
    bool through = false;

    for (long n = 1; !through; n++) {
        ck_assert_int_lt(n, 5000);
        nib__alloc_watch(true);
        through = calls(n);
        ck_assert_msg(nib__alloc_live() == 0,
                      "failing allocation %ld leaves %ld blocks", n,
                      nib__alloc_live());
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");

    tcase_set_timeout(tcase, 600);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, setting_up);
    tcase_add_test(tcase, every_call);
    tcase_add_test(tcase, a_whole_life);
    suite_add_tcase(suite, tcase);
    return rig_run(suite);
}
