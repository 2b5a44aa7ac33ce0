/*
 * test_reset - peers that go at every byte of a request and of a frame, by
 * RST and by FIN.
 *
 * Another connection is open all the time, and answers after each of them.
 * What is left behind would be seen by site_stop().
 */
#include "fixture.h"

#include <errno.h>
#include <string.h>

static struct site site;
static struct link other;

/* How a peer goes. */
enum going {
    RST,       /* when the server has read what was sent */
    FIN,
    RST_BEHIND, /* right behind what was sent */
    FIN_BEHIND,
    GOINGS,
};

static void echo(struct site *s, struct nib_conn *conn,
                 struct nib_message *msg)
{
    (void)s;
    must(nib_send_message(conn, msg, 0) == 0);
}

static void start(void)
{
    site_start(&site, NULL);
    site.on_message = echo;
    other = link_callbacks(&site);
}

/* The other connection is as it was. */
static void check_other(void)
{
    peer_send_frame(other.peer, PEER_TEXT, "still here", 10);
    peer_expect_message(other.peer, "still here");
    site_event(&site, EVENT_MESSAGE);
}

static void stop(void)
{
    check_other();
    ck_assert_uint_eq(site_events_left(&site), 0);
    link_finish(&other);
    site_event(&site, EVENT_CLOSE);
    site_await_connections(&site, 0);
    ck_assert_uint_eq(site_stats(&site).handshakes, 0);
    ck_assert_uint_eq(site_stats(&site).handlers_queued, 0);
    site_stop(&site);
}

/* Sends bytes and goes. */
static void send_and_go(struct peer *p, const void *data, size_t len,
                        enum going how)
{
    uint64_t before = site_stats(&site).bytes_in;

    peer_send(p, data, len);
    if (how == RST || how == FIN)
        site_await_bytes_in(&site, before + len);
    if (how == RST || how == RST_BEHIND)
        peer_reset(p);
    else
        peer_free(p);
}

/* The request is whole at its last byte, and nobody has decided it. */
static void requests(const char *path, enum going how)
{
    char text[512];
    size_t len = (size_t)peer_upgrade_text(text, sizeof text, path, "");

    start();
    for (size_t n = 0; n <= len; n++) {
        send_and_go(site_connect(&site), text, n, how);
        check_other();
    }
    site_await_connections(&site, 1);
    stop();
}

START_TEST(at_every_byte_of_a_request)
{
    for (enum going how = RST; how < GOINGS; how++)
        requests("/next", how);
}
END_TEST

/* A handler may have begun before its client went. */
static int decide(struct nib_request *req, void *arg)
{
    struct nib_message *msg;
    struct nib_conn *conn;
    int err = nib_accept(req, NULL, &conn);

    (void)arg;
    if (err < 0) {
        must(err == -EPIPE);
        return err;
    }
    must(nib_recv(conn, &msg, -1) == -EPIPE);
    return 0;
}

static void add_decide(struct nib_config *cfg)
{
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, "=/decide", &route), 0);
    ck_assert_int_eq(nib_route_set_handler(route, decide, NULL), 0);
}

/* The handler decides while the client goes. */
START_TEST(while_it_is_accepted)
{
    char text[512];
    size_t len = (size_t)peer_upgrade_text(text, sizeof text, "/decide", "");

    site_start(&site, add_decide);
    site.on_message = echo;
    other = link_callbacks(&site);
    for (int i = 0; i < 200; i++) {
        struct peer *p = site_connect(&site);

        send_and_go(p, text, len, i % GOINGS);
        check_other();
    }
    site_await_connections(&site, 1);
    stop();
}
END_TEST

START_TEST(between_the_request_and_the_accept)
{
    start();
    for (int i = 0; i < 40; i++) {
        struct peer *p = site_connect(&site);
        struct nib_request *req;

        peer_ask(p, "/next");
        req = site_next(&site);
        if (i % 2 == 0)
            peer_reset(p);
        else
            peer_free(p);
        site_await_connections(&site, 1);
        ck_assert_int_eq(i % 4 < 2 ? nib_accept(req, NULL, NULL)
                                   : nib_reject(req, 403, NULL, 0, "no", 2),
                         -EPIPE);
        nib_request_unref(req);
        check_other();
    }
    stop();
}
END_TEST

/* The 101 is on its way, or has arrived unread. */
START_TEST(when_the_101_has_come)
{
    start();
    for (int i = 0; i < 40; i++) {
        struct peer *p = site_connect(&site);
        struct nib_conn *conn;
        struct nib_message *msg;
        struct nib_request *req;

        peer_ask(p, "/next");
        req = site_next(&site);
        ck_assert_int_eq(nib_accept(req, NULL, &conn), 0);
        if (i % 4 < 2)
            peer_expect_101(p, "");
        if (i % 2 == 0)
            peer_reset(p);
        else
            peer_free(p);
        ck_assert_int_eq(nib_recv(conn, &msg, -1), -EPIPE);
        await_closed(conn);
        expect_info(conn, 1006, false, false, "");
        ck_assert_int_eq(nib_send(conn, "x", 1, NIB_TEXT), -EPIPE);
        nib_request_unref(req);
        check_other();
    }
    site_await_connections(&site, 1);
    stop();
}
END_TEST

/* Nothing but the last byte of a whole frame makes a message. */
static void frames(uint8_t first, size_t payload, enum going how)
{
    static char data[400];
    static uint8_t frame[414];
    size_t len;

    ck_assert_uint_le(payload, sizeof data);
    memset(data, 'd', sizeof data);
    len = peer_encode(frame, first, data, payload);
    start();
    for (size_t n = 0; n <= len; n++) {
        struct link l = link_open(&site);
        struct nib_message *msg;

        send_and_go(l.peer, frame, n, how);
        l.peer = NULL;
        if (n == len && first == PEER_BINARY) {
            ck_assert_int_eq(nib_recv(l.conn, &msg, -1), 0);
            nib_message_unref(msg);
        }
        ck_assert_int_eq(nib_recv(l.conn, &msg, -1), -EPIPE);
        await_closed(l.conn);
        expect_info(l.conn, 1006, false, false, "");
        link_free(&l);
        check_other();
    }
    site_await_connections(&site, 1);
    stop();
}

START_TEST(at_every_byte_of_a_frame)
{
    for (enum going how = RST; how < RST_BEHIND; how++) {
        frames(PEER_BINARY, 20, how);
        frames(PEER_BINARY, 126, how);
        frames(0x02, 20, how);
        frames(PEER_PING, 20, how);
    }
}
END_TEST

/* RST right behind a frame may eat it, so nothing is said of messages. */
START_TEST(right_behind_every_byte_of_a_frame)
{
    static char data[126];
    uint8_t frame[140];
    size_t len = peer_encode(frame, PEER_BINARY, data, sizeof data);

    start();
    for (size_t n = 0; n <= len; n++) {
        struct link l = link_callbacks(&site);

        send_and_go(l.peer, frame, n, n % 2 == 0 ? RST_BEHIND : FIN_BEHIND);
        l.peer = NULL;
        await_closed(l.conn);
        expect_info(l.conn, 1006, false, false, "");
        /* Returns when on_close has. */
        ck_assert_int_eq(nib_close(l.conn, 1000, NULL, -1), 0);
        if (n < len)
            ck_assert_int_eq(site_event(&site, EVENT_CLOSE).code, 1006);
        link_free(&l);
        if (n < len)
            check_other();
    }
    /* The last one was whole: a message, if the reset did not eat it. */
    ck_assert_uint_eq(len % 2, 0);
    while (site_events_left(&site) > 1)
        site_event(&site, EVENT_MESSAGE);
    site_event(&site, EVENT_CLOSE);
    stop();
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(at_every_byte_of_a_request),
        TEST(between_the_request_and_the_accept),
        TEST(while_it_is_accepted),
        TEST(when_the_101_has_come),
        TEST(at_every_byte_of_a_frame),
        TEST(right_behind_every_byte_of_a_frame),
    };

    return run_tests("reset", tests, COUNT(tests));
}
