/*
 * test_limits - every limit at n and at n + 1, and every setting's range.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct site site;

/* ---- heads ---- */

enum { HEAD_BYTES = 1024, HEAD_LINES = 5 };

static void small_head(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_head(cfg, HEAD_BYTES, HEAD_LINES), 0);
}

/* Sends a request for nothing whose head has this many bytes. */
static void ask_bytes(struct peer *p, size_t bytes)
{
    static const char begin[] = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
    char head[HEAD_BYTES + 16];

    memset(head, 'x', sizeof head);
    memcpy(head, begin, sizeof begin - 1);
    memcpy(head + bytes - 4, "\r\n\r\n", 4);
    peer_send(p, head, bytes);
}

/* The same with this many header lines. */
static void ask_lines(struct peer *p, unsigned lines)
{
    peer_send_text(p, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (unsigned i = 1; i < lines; i++)
        peer_send_text(p, "X: y\r\n");
    peer_send_text(p, "\r\n");
}

/* Expects an answer of the server's own. */
static void expect_answer(struct peer *p, const char *status,
                          const char *lines, const char *body,
                          const char *connection)
{
    char text[1024];

    snprintf(text, sizeof text,
             "HTTP/1.1 %s\r\n%sContent-Type: text/plain; charset=utf-8\r\n"
             "Content-Length: %zu\r\nConnection: %s\r\n\r\n%s",
             status, lines, strlen(body), connection, body);
    peer_expect_text(p, text);
}

static void expect_404(struct peer *p)
{
    expect_answer(p, "404 Not Found", "", "There is nothing at this path.\n",
                  "keep-alive");
}

START_TEST(a_head_has_so_many_bytes)
{
    struct peer *p;

    site_start(&site, small_head);
    p = site_connect(&site);
    for (int i = 0; i < 3; i++)
        ask_bytes(p, HEAD_BYTES);
    for (int i = 0; i < 3; i++)
        expect_404(p);
    ask_bytes(p, HEAD_BYTES + 1);
    expect_answer(p, "431 Request Header Fields Too Large", "",
                  "request head too large\n", "close");
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}
END_TEST

START_TEST(a_head_has_so_many_lines)
{
    struct peer *p;

    site_start(&site, small_head);
    p = site_connect(&site);
    ask_lines(p, HEAD_LINES);
    ask_lines(p, HEAD_LINES);
    expect_404(p);
    expect_404(p);
    ask_lines(p, HEAD_LINES + 1);
    expect_answer(p, "431 Request Header Fields Too Large", "",
                  "too many header lines\n", "close");
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}
END_TEST

/* ---- messages ---- */

enum { MESSAGE = 1000 };

static void small_message(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, MESSAGE), 0);
}

static void expect_length(struct nib_conn *conn, size_t len)
{
    struct nib_message *msg = NULL;
    size_t got;

    ck_assert_int_eq(nib_recv(conn, &msg, peer_patience_ms()), 0);
    nib_message_data(msg, &got);
    ck_assert_uint_eq(got, len);
    nib_message_unref(msg);
}

static void expect_too_big(struct link *l)
{
    struct nib_message *msg;
    struct nib_close_info info;

    peer_expect_close(l->peer, 1009, "message too big");
    ck_assert_int_eq(nib_recv(l->conn, &msg, peer_patience_ms()), -EPIPE);
    ck_assert_int_eq(nib_conn_close_info(l->conn, &info), 0);
    ck_assert_int_eq(info.code, 1009);
    ck_assert(info.local);
    link_free(l);
}

START_TEST(a_message_has_so_many_bytes)
{
    static char data[MESSAGE + 1];
    struct link l;

    site_start(&site, small_message);
    l = link_open(&site);
    peer_send_frame(l.peer, PEER_BINARY, data, MESSAGE);
    expect_length(l.conn, MESSAGE);
    peer_send_frame(l.peer, 0x02, data, 600);
    peer_send_frame(l.peer, PEER_CONTINUATION, data, MESSAGE - 600);
    expect_length(l.conn, MESSAGE);
    peer_send_frame(l.peer, PEER_BINARY, data, MESSAGE + 1);
    expect_too_big(&l);
    l = link_open(&site);
    peer_send_frame(l.peer, 0x02, data, 600);
    peer_send_frame(l.peer, PEER_CONTINUATION, data, MESSAGE + 1 - 600);
    expect_too_big(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_length_alone_is_too_big)
{
    struct link l;

    site_start(&site, small_message);
    l = link_open(&site);
    peer_send_hex(l.peer, "82 fe 03e9 00000000"); /* 1001 */
    expect_too_big(&l);
    l = link_open(&site);
    peer_send_hex(l.peer, "82 ff 7fffffffffffffff 00000000");
    expect_too_big(&l);
    site_stop(&site);
}
END_TEST

/* ---- handlers ---- */

enum { HANDLERS = 4, QUEUE = 2 };

static void few_handlers(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_handlers(cfg, HANDLERS, QUEUE, 65536), 0);
}

static bool queue_is_full(void *arg)
{
    return site_stats(arg).handlers_queued == QUEUE;
}

START_TEST(so_many_handlers_run_and_wait)
{
    struct peer *peers[HANDLERS + QUEUE], *p;
    struct held *held[HANDLERS + QUEUE];

    site_start(&site, few_handlers);
    for (int i = 0; i < HANDLERS; i++) {
        peers[i] = site_connect(&site);
        peer_ask(peers[i], "/hold");
        held[i] = held_next(&site);
    }
    ck_assert_uint_eq(site_stats(&site).handlers, HANDLERS);
    for (int i = HANDLERS; i < HANDLERS + QUEUE; i++) {
        peers[i] = site_connect(&site);
        peer_ask(peers[i], "/hold");
    }
    until(queue_is_full, &site, "a full queue");
    p = site_connect(&site);
    peer_ask(p, "/hold");
    expect_answer(p, "503 Service Unavailable", "Retry-After: 1\r\n",
                  "All handlers are busy.\n", "close");
    peer_expect_end(p);
    peer_free(p);
    ck_assert_uint_eq(site_stats(&site).refused, 1);
    /* Who waited comes next. */
    for (int i = 0; i < HANDLERS + QUEUE; i++) {
        if (i >= HANDLERS)
            held[i] = held_next(&site);
        ck_assert_int_eq(held_accept(held[i]), 0);
        held_return(held[i], 0);
    }
    for (int i = 0; i < HANDLERS + QUEUE; i++) {
        peer_expect_101(peers[i], "");
        peer_expect_close(peers[i], 1000, "");
        peer_free(peers[i]);
    }
    site_stop(&site);
}
END_TEST

/* ---- connections ---- */

/* An answer would have to be encrypted. */
static void expect_turned_away(struct peer *p)
{
    if (site_tls()) {
        peer_expect_reset(p);
    } else {
        peer_expect_text(p, "HTTP/1.1 503 Service Unavailable\r\n"
                            "Content-Length: 0\r\n"
                            "Retry-After: 1\r\n"
                            "Connection: close\r\n\r\n");
        peer_expect_end(p);
    }
    peer_free(p);
}

static void three_connections(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_max_connections(cfg, 3), 0);
}

START_TEST(there_are_so_many_connections)
{
    struct link links[3];

    site_start(&site, three_connections);
    for (int i = 0; i < 3; i++)
        links[i] = link_open(&site);
    expect_turned_away(site_connect(&site));
    expect_turned_away(site_connect(&site));
    ck_assert_uint_eq(site_stats(&site).refused, 2);
    ck_assert_uint_eq(site_stats(&site).connections, 3);
    site_await_log(&site, "too many connections");
    link_finish(&links[1]);
    site_await_connections(&site, 2);
    links[1] = link_open(&site);
    expect_turned_away(site_connect(&site));
    for (int i = 0; i < 3; i++)
        link_finish(&links[i]);
    site_stop(&site);
}
END_TEST

static char socket_path[64];

static void two_for_each_address(struct nib_config *cfg)
{
    char address[80];

    snprintf(socket_path, sizeof socket_path, "/tmp/nib-limits-%d.sock",
             (int)getpid());
    snprintf(address, sizeof address, "unix:%s", socket_path);
    ck_assert_int_eq(nib_config_listen(cfg, address), 0);
    ck_assert_int_eq(nib_config_set_max_per_address(cfg, 2), 0);
}

START_TEST(one_address_has_so_many_connections)
{
    struct link links[2], local[3];
    char address[80];

    site_start(&site, two_for_each_address);
    for (int i = 0; i < 2; i++)
        links[i] = link_open(&site);
    expect_turned_away(site_connect(&site));
    site_await_log(&site, "too many connections from one address");
    /* Those of a unix socket have none. */
    snprintf(address, sizeof address, "unix:%s", socket_path);
    for (int i = 0; i < 3; i++)
        local[i] = link_accept(&site, peer_connect(address, 0));
    for (int i = 0; i < 3; i++)
        link_finish(&local[i]);
    link_finish(&links[0]);
    site_await_connections(&site, 1);
    links[0] = link_open(&site);
    expect_turned_away(site_connect(&site));
    for (int i = 0; i < 2; i++)
        link_finish(&links[i]);
    site_stop(&site);
}
END_TEST

static void two_handshakes(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_max_handshakes(cfg, 2), 0);
}

static bool two_undecided(void *arg)
{
    return site_stats(arg).handshakes == 2;
}

static bool one_undecided(void *arg)
{
    return site_stats(arg).handshakes == 1;
}

START_TEST(so_many_requests_are_undecided)
{
    struct peer *silent[2];
    struct link links[4];

    site_start(&site, two_handshakes);
    /* What is decided does not count. */
    for (int i = 0; i < 3; i++)
        links[i] = link_open(&site);
    for (int i = 0; i < 2; i++)
        silent[i] = site_connect(&site);
    until(two_undecided, &site, "two handshakes");
    expect_turned_away(site_connect(&site));
    site_await_log(&site, "too many handshakes");
    peer_free(silent[0]);
    until(one_undecided, &site, "one handshake");
    links[3] = link_open(&site);
    for (int i = 0; i < 4; i++)
        link_finish(&links[i]);
    peer_free(silent[1]);
    site_stop(&site);
}
END_TEST

/* ---- control frames ---- */

START_TEST(a_rejected_request_is_no_handshake)
{
    struct peer *p;
    struct nib_request *req;

    site_start(&site, NULL);
    p = site_connect(&site);
    peer_ask(p, "/next");
    req = site_next(&site);
    ck_assert_uint_eq(site_stats(&site).handshakes, 1);
    ck_assert_int_eq(nib_reject(req, 403, NULL, 0, NULL, 0), 0);
    ck_assert_uint_eq(site_stats(&site).handshakes, 0);
    nib_request_unref(req);
    ck_assert_str_eq(strstr(peer_read_head(p), " 403 ") == NULL ? "" : "403",
                     "403");
    peer_free(p);
    site_stop(&site);
}
END_TEST

enum { RATE = 10 };

static void few_controls(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_control_rate(cfg, RATE), 0);
}

/* Sends one frame after the other until the answer is 1008. */
static void expect_policy(struct link *l, uint8_t first)
{
    uint8_t frame[32], burst[64 * 32];
    size_t len = peer_encode(frame, first, "", 0), all = 0;
    struct peer_frame f;

    for (int i = 0; i < 64; i++, all += len)
        memcpy(burst + all, frame, len);
    peer_send(l->peer, burst, all);
    do
        f = peer_read_frame(l->peer);
    while (f.first == PEER_PONG);
    ck_assert_uint_eq(f.first, PEER_CLOSE);
    ck_assert_uint_eq(f.len, 2 + strlen("too many control frames"));
    ck_assert_uint_eq(f.data[0] << 8 | f.data[1], 1008);
    link_free(l);
}

START_TEST(a_peer_may_send_so_many_control_frames)
{
    static const uint8_t kinds[] = {PEER_PING, PEER_PONG, PEER_CONTINUATION};
    struct link l;

    site_start(&site, few_controls);
    l = link_open(&site);
    for (int i = 0; i < RATE; i++)
        peer_send_frame(l.peer, PEER_PING, "p", 1);
    for (int i = 0; i < RATE; i++)
        peer_expect_frame(l.peer, PEER_PONG, "p", 1);
    link_finish(&l);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        l = link_open(&site);
        if (kinds[i] == PEER_CONTINUATION) {
            peer_send_frame(l.peer, 0x01, "", 0);
            expect_policy(&l, 0x00);
        } else {
            expect_policy(&l, kinds[i]);
        }
    }
    site_stop(&site);
}
END_TEST

static void any_controls(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_control_rate(cfg, 0), 0);
}

START_TEST(a_rate_of_0_is_no_limit)
{
    struct link l;

    site_start(&site, any_controls);
    l = link_open(&site);
    for (int i = 0; i < 3000; i++)
        peer_send_frame(l.peer, PEER_PONG, "", 0);
    peer_send_frame(l.peer, PEER_PING, "last", 4);
    peer_expect_frame(l.peer, PEER_PONG, "last", 4);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- settings ---- */

/* Fails unless a call was refused with a text that begins like this. */
static void expect_text(const struct nib_config *cfg, int result, int code,
                        const char *text)
{
    const char *got = nib_config_error(cfg);

    ck_assert_int_eq(result, code);
    if (strncmp(got, text, strlen(text)) != 0)
        ck_abort_msg("\"%s\" is told as \"%s\"", text, got);
}

#define REFUSED(call, text) expect_text(cfg, (call), -EINVAL, (text))
#define TAKEN(call) ck_assert_int_eq((call), 0)

/* A setting of one number: its ends, and what is beyond them. */
#define RANGE(name, least, most)                                             \
    do {                                                                     \
        TAKEN(nib_config_set_##name(cfg, (least)));                          \
        TAKEN(nib_config_set_##name(cfg, (most)));                           \
        if ((least) > 0)                                                     \
            REFUSED(nib_config_set_##name(cfg, (least) - 1), #name " ");     \
        if ((most) < UINT32_MAX)                                             \
            REFUSED(nib_config_set_##name(cfg, (most) + 1), #name " ");      \
    } while (0)

START_TEST(a_setting_has_a_range)
{
    struct nib_config *cfg;

    TAKEN(nib_config_new(&cfg));
    ck_assert_str_eq(nib_config_error(cfg), "");
    REFUSED(nib_config_set_reactors(cfg, 257),
            "reactors 257: expected 0 to 256");
    RANGE(reactors, 0u, 256u);
    RANGE(message_bytes, (size_t)125, (size_t)1 << 30);
    RANGE(outbox_bytes, (size_t)1024, (size_t)UINT32_MAX);
    REFUSED(nib_config_set_outbox_bytes(cfg, SIZE_MAX), "outbox_bytes ");
    RANGE(outbox_total_bytes, (size_t)0, (size_t)UINT32_MAX);
    REFUSED(nib_config_set_outbox_total_bytes(cfg, SIZE_MAX),
            "outbox_total_bytes ");
    RANGE(stash_bytes, (size_t)1024, (size_t)16 << 20);
    RANGE(frame_bytes, (size_t)1024, (size_t)1 << 30);
    RANGE(handshake_timeout_ms, 1u, 24u * 3600 * 1000);
    RANGE(close_timeout_ms, 1u, 3600u * 1000);
    RANGE(idle_timeout_ms, 0u, UINT32_MAX);
    RANGE(write_timeout_ms, 1u, 24u * 3600 * 1000);
    RANGE(max_connections, 0u, UINT32_MAX);
    RANGE(max_per_address, 0u, UINT32_MAX);
    RANGE(max_handshakes, 0u, UINT32_MAX);
    RANGE(control_rate, 0u, 1000000u);
    RANGE(commands, 1u, 1000000u);
    REFUSED(nib_config_set_send_timeout_ms(cfg, -2),
            "send_timeout_ms -2: expected -1 or more");
    TAKEN(nib_config_set_send_timeout_ms(cfg, -1));
    REFUSED(nib_config_set_stop_code(cfg, 1000),
            "stop_code 1000: expected 1001 or 1012");
    TAKEN(nib_config_set_stop_code(cfg, 1012));
    REFUSED(nib_config_set_log(cfg, NULL, NULL, 4), "log level 4: ");
    REFUSED(nib_config_set_log(cfg, NULL, NULL, -1), "log level -1: ");
    nib_config_free(cfg);
}
END_TEST

START_TEST(a_setting_of_several_numbers_has_ranges)
{
    struct nib_config *cfg;

    TAKEN(nib_config_new(&cfg));
    REFUSED(nib_config_set_handlers(cfg, 0, 1, 65536), "handlers max 0: ");
    REFUSED(nib_config_set_handlers(cfg, 100001, 1, 65536),
            "handlers max 100001: expected 1 to 100000");
    REFUSED(nib_config_set_handlers(cfg, 1, 1000001, 65536),
            "handlers queue 1000001: ");
    REFUSED(nib_config_set_handlers(cfg, 1, 1, 65535),
            "handlers stack_bytes 65535: expected 65536 to ");
    TAKEN(nib_config_set_handlers(cfg, 1, 0, 65536));
    TAKEN(nib_config_set_handlers(cfg, 100000, 1000000, 65536));
    REFUSED(nib_config_set_head(cfg, 1023, 1),
            "head bytes 1023: expected 1024 to 1048576");
    REFUSED(nib_config_set_head(cfg, 1048577, 1), "head bytes 1048577: ");
    REFUSED(nib_config_set_head(cfg, 1024, 0),
            "head lines 0: expected 1 to 1000");
    REFUSED(nib_config_set_head(cfg, 1024, 1001), "head lines 1001: ");
    TAKEN(nib_config_set_head(cfg, 1024, 1));
    TAKEN(nib_config_set_head(cfg, 1048576, 1000));
    REFUSED(nib_config_set_inbox(cfg, 0, 1), "inbox messages 0: ");
    REFUSED(nib_config_set_inbox(cfg, 1, 0), "inbox bytes 0: ");
    TAKEN(nib_config_set_inbox(cfg, 1, 1));
    REFUSED(nib_config_set_ping(cfg, 86400001, 1), "ping interval_ms ");
    REFUSED(nib_config_set_ping(cfg, 1000, 0), "ping wait_ms 0: ");
    TAKEN(nib_config_set_ping(cfg, 0, 0));
    REFUSED(nib_config_set_topic_bytes(cfg, 1023, 0),
            "topic each_bytes 1023: expected 1024 to ");
    TAKEN(nib_config_set_topic_bytes(cfg, 1024, 0));
    REFUSED(nib_config_set_topic_bytes(cfg, 0, 65535),
            "topic total_bytes 65535: expected 65536 to ");
    TAKEN(nib_config_set_topic_bytes(cfg, 0, 65536));
    TAKEN(nib_config_set_topic_bytes(cfg, 0, 0));
    REFUSED(nib_config_set_socket_buffers(cfg, UINT32_MAX, 0),
            "socket send_bytes 4294967295: ");
    REFUSED(nib_config_set_socket_buffers(cfg, 0, UINT32_MAX),
            "socket receive_bytes 4294967295: ");
    TAKEN(nib_config_set_socket_buffers(cfg, INT32_MAX, INT32_MAX));
    nib_config_free(cfg);
}
END_TEST

START_TEST(addresses_and_routes_are_checked)
{
    static const char *const patterns[] = {"", "=", "a", "=a", "/a?b",
                                           "/a#b", "/a b"};
    struct nib_route *route, *other;
    struct nib_config *cfg;
    char text[64];

    TAKEN(nib_config_new(&cfg));
    REFUSED(nib_config_listen(cfg, "nonsense"), "address \"nonsense\": ");
    REFUSED(nib_config_listen(cfg, "tcp:h:65536"),
            "address \"tcp:h:65536\": ");
    for (size_t i = 0; i < COUNT(patterns); i++) {
        snprintf(text, sizeof text, "route \"%s\": ", patterns[i]);
        REFUSED(nib_config_route(cfg, patterns[i], &route), text);
    }
    TAKEN(nib_config_route(cfg, "/a", &route));
    TAKEN(nib_config_route(cfg, "=/a", &other));
    expect_text(cfg, nib_config_route(cfg, "/a", &other), -EEXIST,
                "route \"/a\": given twice");
    REFUSED(nib_route_set_subprotocols(route, "a b"),
            "subprotocols \"a b\": ");
    REFUSED(nib_route_set_send_timeout_ms(route, -2), "send_timeout_ms -2: ");
    nib_config_free(cfg);
}
END_TEST

/* Fails unless a server is made of it. */
static void expect_server(struct nib_config *cfg)
{
    struct nib_server *srv = NULL;

    ck_assert_int_eq(nib_server_new(cfg, &srv), 0);
    nib_server_free(srv);
}

static struct nib_config *fresh(struct nib_config *cfg)
{
    nib_config_free(cfg);
    TAKEN(nib_config_new(&cfg));
    TAKEN(nib_config_listen(cfg, "tcp:127.0.0.1:0"));
    return cfg;
}

#define CONTRADICTS(text)                                                    \
    expect_text(cfg, nib_server_new(cfg, &srv), NIB_ECONFIG, (text))

START_TEST(settings_must_not_contradict_each_other)
{
    struct nib_config *cfg = fresh(NULL);
    struct nib_server *srv;
    struct rlimit files;
    char text[64];

    TAKEN(nib_config_set_message_bytes(cfg, 1000));
    TAKEN(nib_config_set_outbox_bytes(cfg, 1999));
    CONTRADICTS("outbox_bytes 1999: expected at least twice message_bytes, "
                "2000");
    TAKEN(nib_config_set_outbox_bytes(cfg, 2000));
    expect_server(cfg);
    TAKEN(nib_config_set_outbox_total_bytes(cfg, 1999));
    CONTRADICTS("outbox_total_bytes 1999: expected at least outbox_bytes, "
                "2000");
    TAKEN(nib_config_set_outbox_total_bytes(cfg, 2000));
    expect_server(cfg);
    TAKEN(nib_config_set_topic_bytes(cfg, 1999, 0));
    CONTRADICTS("topic each_bytes 1999: expected at least twice "
                "message_bytes, 2000");
    TAKEN(nib_config_set_topic_bytes(cfg, 2000, 0));
    expect_server(cfg);
    TAKEN(nib_config_set_message_bytes(cfg, 40000));
    TAKEN(nib_config_set_outbox_bytes(cfg, 80000));
    TAKEN(nib_config_set_outbox_total_bytes(cfg, 0));
    TAKEN(nib_config_set_topic_bytes(cfg, 0, 79999));
    CONTRADICTS("topic total_bytes 79999: expected at least twice "
                "message_bytes, 80000");
    TAKEN(nib_config_set_topic_bytes(cfg, 0, 80000));
    expect_server(cfg);
    TAKEN(nib_config_set_ping(cfg, 10, 10));
    CONTRADICTS("ping interval_ms 10: expected more than its wait_ms, 10");
    TAKEN(nib_config_set_ping(cfg, 11, 10));
    expect_server(cfg);
    TAKEN(nib_config_set_ping(cfg, 0, 10));
    expect_server(cfg);
    cfg = fresh(cfg);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < UINT32_MAX) {
        unsigned most = (unsigned)files.rlim_max - 64;

        TAKEN(nib_config_set_max_connections(cfg, most + 1));
        snprintf(text, sizeof text, "max_connections %u: ", most + 1);
        CONTRADICTS(text);
        TAKEN(nib_config_set_max_connections(cfg, most));
        expect_server(cfg);
    }
    nib_config_free(cfg);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(a_head_has_so_many_bytes),
        TEST(a_head_has_so_many_lines),
        TEST(a_message_has_so_many_bytes),
        TEST(a_length_alone_is_too_big),
        TEST(so_many_handlers_run_and_wait),
        TEST(there_are_so_many_connections),
        TEST(one_address_has_so_many_connections),
        TEST(so_many_requests_are_undecided),
        TEST(a_rejected_request_is_no_handshake),
        TEST(a_peer_may_send_so_many_control_frames),
        TEST(a_rate_of_0_is_no_limit),
        TEST(a_setting_has_a_range),
        TEST(a_setting_of_several_numbers_has_ranges),
        TEST(addresses_and_routes_are_checked),
        TEST(settings_must_not_contradict_each_other),
    };

    return run_tests("limits", tests, COUNT(tests));
}
