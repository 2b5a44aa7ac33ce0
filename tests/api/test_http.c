/*
 * test_http - plain requests: what nib_respond() writes, and what the server
 * answers by itself.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct site site;

enum { LARGE = 2 << 20 }; /* a body, as large as the outbox */

static char *large_body;

/* What the pages saw; written on the owner, before they answer. */
static _Atomic int results[32];
static _Atomic unsigned result_count;

static void note(int result)
{
    results[atomic_fetch_add(&result_count, 1)] = result;
}

static void expect_notes(int result, unsigned count)
{
    ck_assert_uint_eq(result_count, count);
    for (unsigned i = 0; i < count; i++)
        ck_assert_int_eq(results[i], result);
    result_count = 0;
}

/* ---- pages ---- */

/* Says what was asked. */
static void echo_page(struct nib_request *req, void *arg)
{
    char text[256];
    int len = snprintf(text, sizeof text, "%s %s %s", nib_request_method(req),
                       nib_request_path(req), nib_request_query(req));

    (void)arg;
    if (len > (int)sizeof text - 1)
        len = (int)sizeof text - 1;
    must(nib_respond(req, 200, NULL, 0, text, (size_t)len) == 0);
}

static void headers_page(struct nib_request *req, void *arg)
{
    static const struct nib_header headers[] = {
        {"Content-Type", "application/json"},
        {"X-One", "1"},
        {"X-One", ""},
    };

    (void)arg;
    must(nib_respond(req, 201, headers, COUNT(headers), "{}", 2) == 0);
}

/* The status is the query. */
static void status_page(struct nib_request *req, void *arg)
{
    int status = atoi(nib_request_query(req));

    (void)arg;
    must(nib_respond(req, status, NULL, 0, NULL, 0) == 0);
}

static void twice_page(struct nib_request *req, void *arg)
{
    (void)arg;
    must(nib_respond(req, 200, NULL, 0, "first", 5) == 0);
    note(nib_respond(req, 200, NULL, 0, "second", 6));
    note(nib_respond(req, 999, NULL, 0, NULL, 0));
}

static void silent_page(struct nib_request *req, void *arg)
{
    (void)req;
    (void)arg;
}

static void wrong_status_page(struct nib_request *req, void *arg)
{
    static const int wrong[] = {-1, 0, 99, 100, 101, 199, 600, 1000};

    (void)arg;
    for (size_t i = 0; i < COUNT(wrong); i++)
        note(nib_respond(req, wrong[i], NULL, 0, "x", 1));
    must(nib_respond(req, 599, NULL, 0, "x", 1) == 0);
}

static const struct nib_header wrong_headers[] = {
    {"", "no name"},
    {"two words", "x"},
    {"Colon:", "x"},
    {"X-Line", "a\r\nb: c"},
    {"X-Line", "a\rb"},
    {"X-Line", "a\nb"},
    {"X\r\nY", "x"},
    /* The server's own. */
    {"Connection", "close"},
    {"content-length", "0"},
    {"Transfer-Encoding", "chunked"},
    {"UPGRADE", "websocket"},
    {"Sec-WebSocket-Accept", "x"},
    {"sec-websocket-protocol", "x"},
};

static void wrong_header_page(struct nib_request *req, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < COUNT(wrong_headers); i++) {
        struct nib_header two[] = {{"X-Good", "x"}, wrong_headers[i]};

        note(nib_respond(req, 200, two, 2, "x", 1));
    }
    must(nib_respond(req, 200, NULL, 0, "x", 1) == 0);
}

static void large_page(struct nib_request *req, void *arg)
{
    (void)arg;
    note(nib_respond(req, 200, NULL, 0, large_body, LARGE + 1));
    must(nib_respond(req, 200, NULL, 0, large_body, LARGE) == 0);
}

static void pages(struct nib_config *cfg)
{
    static const struct {
        const char *pattern;
        nib_http_fn *page;
    } list[] = {
        {"/echo", echo_page},
        {"=/headers", headers_page},
        {"=/status", status_page},
        {"=/twice", twice_page},
        {"=/silent", silent_page},
        {"=/wrong-status", wrong_status_page},
        {"=/wrong-header", wrong_header_page},
        {"=/large", large_page},
    };

    for (size_t i = 0; i < COUNT(list); i++) {
        struct nib_route *route;

        ck_assert_int_eq(nib_config_route(cfg, list[i].pattern, &route), 0);
        ck_assert_int_eq(nib_route_set_http(route, list[i].page, NULL), 0);
    }
}

/* ---- asking ---- */

static void ask(struct peer *p, const char *method, const char *target,
                const char *lines)
{
    char text[1024];
    int len = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: h\r\n%s\r\n",
                       method, target, lines);

    peer_send(p, text, (size_t)len);
}

/* Expects an answer with a body of text; `lines` are before Content-Type. */
static void expect(struct peer *p, const char *status, const char *lines,
                   const char *body, const char *connection)
{
    static char text[64 * 1024];

    snprintf(text, sizeof text,
             "HTTP/1.1 %s\r\n%sContent-Type: text/plain; charset=utf-8\r\n"
             "Content-Length: %zu\r\nConnection: %s\r\n\r\n%s",
             status, lines, strlen(body), connection, body);
    peer_expect_text(p, text);
}

static void start(void)
{
    result_count = 0;
    site_start(&site, pages);
}

static void finish(struct peer *p)
{
    peer_free(p);
    site_await_connections(&site, 0);
    site_stop(&site);
}

START_TEST(an_answer_has_status_headers_and_body)
{
    struct peer *p;

    start();
    p = site_connect(&site);
    ask(p, "GET", "/headers", "");
    peer_expect_text(p, "HTTP/1.1 201 Created\r\n"
                        "Content-Type: application/json\r\n"
                        "X-One: 1\r\nX-One: \r\n"
                        "Content-Length: 2\r\n"
                        "Connection: keep-alive\r\n\r\n{}");
    ask(p, "GET", "/echo/a%20b?c=d?e", "");
    expect(p, "200 OK", "", "GET /echo/a%20b c=d?e", "keep-alive");
    ask(p, "GET", "/status?200", "");
    peer_expect_text(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
                        "Connection: keep-alive\r\n\r\n");
    ask(p, "GET", "/status?404", "");
    peer_expect_text(p, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n"
                        "Connection: keep-alive\r\n\r\n");
    ask(p, "GET", "/status?204", "");
    peer_expect_text(p, "HTTP/1.1 204 No Content\r\n"
                        "Connection: keep-alive\r\n\r\n");
    ask(p, "GET", "/status?304", "");
    peer_expect_text(p, "HTTP/1.1 304 Not Modified\r\n"
                        "Connection: keep-alive\r\n\r\n");
    ck_assert_uint_eq(site_stats(&site).requests, 6);
    ck_assert_uint_eq(site_stats(&site).accepted, 1);
    finish(p);
}
END_TEST

START_TEST(a_head_request_gets_no_body)
{
    struct peer *p;

    start();
    p = site_connect(&site);
    ask(p, "HEAD", "/echo", "");
    ask(p, "HEAD", "/nothing", "");
    ask(p, "HEAD", "/silent", "");
    ask(p, "GET", "/echo", "");
    peer_expect_text(p, "HTTP/1.1 200 OK\r\n"
                        "Content-Type: text/plain; charset=utf-8\r\n"
                        "Content-Length: 11\r\n"
                        "Connection: keep-alive\r\n\r\n");
    peer_expect_text(p, "HTTP/1.1 404 Not Found\r\n"
                        "Content-Type: text/plain; charset=utf-8\r\n"
                        "Content-Length: 31\r\n"
                        "Connection: keep-alive\r\n\r\n");
    peer_expect_text(p, "HTTP/1.1 500 Internal Server Error\r\n"
                        "Content-Type: text/plain; charset=utf-8\r\n"
                        "Content-Length: 11\r\n"
                        "Connection: keep-alive\r\n\r\n");
    expect(p, "200 OK", "", "GET /echo ", "keep-alive");
    finish(p);
}
END_TEST

START_TEST(a_connection_ends_when_the_client_wants_that)
{
    static const char *const requests[] = {
        "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n",
        "GET /echo HTTP/1.0\r\nHost: h\r\n\r\n",
    };
    struct peer *p = NULL;

    start();
    for (size_t i = 0; i < COUNT(requests); i++) {
        peer_free(p);
        p = site_connect(&site);
        peer_send_text(p, requests[i]);
        expect(p, "200 OK", "", "GET /echo ", "close");
        peer_expect_end(p);
    }
    finish(p);
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order)
{
    enum { MANY = 500 };
    char *text = malloc(MANY * 64);
    struct peer *p;
    size_t len = 0;

    start();
    p = site_connect(&site);
    for (int i = 0; i < MANY; i++)
        len += (size_t)sprintf(text + len,
                               "GET /echo?%d HTTP/1.1\r\nHost: h\r\n\r\n", i);
    peer_send(p, text, len);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, 64, "GET /echo %d", i);
        expect(p, "200 OK", "", text, "keep-alive");
    }
    ck_assert_uint_eq(site_stats(&site).requests, MANY);
    finish(p);
    free(text);
}
END_TEST

START_TEST(an_upgrade_may_follow_plain_requests)
{
    struct link l = {0};
    struct nib_request *req;

    start();
    l.peer = site_connect(&site);
    ask(l.peer, "GET", "/echo", "");
    peer_ask(l.peer, "/next");
    expect(l.peer, "200 OK", "", "GET /echo ", "keep-alive");
    req = site_next(&site);
    ck_assert_int_eq(nib_accept(req, NULL, &l.conn), 0);
    nib_conn_ref(l.conn);
    nib_request_unref(req);
    peer_expect_101(l.peer, "");
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_body_is_skipped)
{
    char *body = calloc(1, 1 << 20);
    struct peer *p;

    start();
    p = site_connect(&site);
    ask(p, "POST", "/echo?a", "Content-Length: 9\r\n");
    peer_send_text(p, "GET / HTT");
    ask(p, "PUT", "/echo?b", "Content-Length: 0\r\n");
    /* In two pieces, the second together with what follows. */
    ask(p, "POST", "/echo?c", "Content-Length: 4\r\n");
    peer_send_text(p, "1");
    expect(p, "200 OK", "", "POST /echo a", "keep-alive");
    expect(p, "200 OK", "", "PUT /echo b", "keep-alive");
    peer_send_text(p, "234GET /echo?d HTTP/1.1\r\nHost: h\r\n\r\n");
    expect(p, "200 OK", "", "POST /echo c", "keep-alive");
    expect(p, "200 OK", "", "GET /echo d", "keep-alive");
    ask(p, "POST", "/echo?e", "Content-Length: 1048576\r\n");
    peer_send(p, body, 1 << 20);
    expect(p, "200 OK", "", "POST /echo e", "keep-alive");
    ask(p, "POST", "/echo?f", "Content-Length: 1048577\r\n");
    expect(p, "413 Content Too Large", "", "The body is too large.\n",
           "close");
    peer_expect_end(p);
    finish(p);
    free(body);
}
END_TEST

START_TEST(what_is_not_there_is_404)
{
    struct peer *p;

    start();
    p = site_connect(&site);
    ask(p, "GET", "/", "");
    ask(p, "GET", "/echoes", "");
    ask(p, "GET", "/headers/below", "");
    ask(p, "GET", "/echo/", "");
    for (int i = 0; i < 3; i++)
        expect(p, "404 Not Found", "", "There is nothing at this path.\n",
               "keep-alive");
    expect(p, "200 OK", "", "GET /echo/ ", "keep-alive");
    peer_ask(p, "/nothing");
    expect(p, "404 Not Found", "", "There is nothing at this path.\n",
           "close");
    peer_expect_end(p);
    ck_assert_uint_eq(site_stats(&site).rejected, 1);
    finish(p);
}
END_TEST

START_TEST(a_websocket_without_a_page_is_426)
{
    static const char *const paths[] = {"/next", "/hold", "/cb"};
    struct peer *p;

    start();
    p = site_connect(&site);
    for (size_t i = 0; i < COUNT(paths); i++) {
        ask(p, "GET", paths[i], "");
        expect(p, "426 Upgrade Required",
               "Upgrade: websocket\r\nConnection: Upgrade\r\n",
               "This is a WebSocket; upgrade to talk to it.\n", "keep-alive");
    }
    ck_assert_uint_eq(site_events_left(&site), 0);
    finish(p);
}
END_TEST

START_TEST(a_long_request_line_is_414)
{
    static char target[8300];
    struct peer *p;

    memset(target, 'a', sizeof target);
    memcpy(target, "GET /echo?", 10);
    start();
    p = site_connect(&site);
    /* With its method and version as long as half of the head. */
    peer_send(p, target, 8192 - 9);
    peer_send_text(p, " HTTP/1.1\r\nHost: h\r\n\r\n");
    ck_assert(strncmp(peer_read_head(p), "HTTP/1.1 200 OK\r\n", 17) == 0);
    peer_free(p);
    p = site_connect(&site);
    peer_send(p, target, 8193 - 9);
    peer_send_text(p, " HTTP/1.1\r\nHost: h\r\n\r\n");
    expect(p, "414 URI Too Long", "", "request line too long\n", "close");
    peer_expect_end(p);
    finish(p);
}
END_TEST

START_TEST(a_long_head_is_431)
{
    static char value[16384];
    struct peer *p;

    memset(value, 'v', sizeof value);
    start();
    p = site_connect(&site);
    peer_send_text(p, "GET /echo HTTP/1.1\r\nHost: h\r\nX: ");
    peer_send(p, value, sizeof value);
    peer_send_text(p, "\r\n\r\n");
    expect(p, "431 Request Header Fields Too Large", "",
           "request head too large\n", "close");
    peer_expect_end(p);
    finish(p);
}
END_TEST

START_TEST(an_answer_that_cannot_be_sent_is_refused)
{
    struct peer *p;

    start();
    p = site_connect(&site);
    ask(p, "GET", "/wrong-status", "");
    expect(p, "599 ", "", "x", "keep-alive");
    expect_notes(-EINVAL, 8);
    ask(p, "GET", "/wrong-header", "");
    expect(p, "200 OK", "", "x", "keep-alive");
    expect_notes(-EINVAL, COUNT(wrong_headers));
    finish(p);
}
END_TEST

/* In on_request: an upgrade is no plain request. */
static void respond_to_upgrade(struct site *s, struct nib_request *req)
{
    (void)s;
    note(nib_respond(req, 200, NULL, 0, "x", 1));
}

START_TEST(there_is_one_answer)
{
    struct link l;
    struct peer *p;

    start();
    p = site_connect(&site);
    ask(p, "GET", "/twice", "");
    ask(p, "GET", "/echo", "");
    expect(p, "200 OK", "", "first", "keep-alive");
    expect(p, "200 OK", "", "GET /echo ", "keep-alive");
    expect_notes(NIB_ESTATE, 2);
    site.on_request = respond_to_upgrade;
    l = link_callbacks(&site);
    expect_notes(NIB_ESTATE, 1);
    link_finish(&l);
    finish(p);
}
END_TEST

START_TEST(no_answer_is_500)
{
    struct peer *p;

    start();
    p = site_connect(&site);
    ask(p, "GET", "/silent", "");
    ask(p, "GET", "/echo", "");
    expect(p, "500 Internal Server Error", "", "No answer.\n", "keep-alive");
    expect(p, "200 OK", "", "GET /echo ", "keep-alive");
    site_await_log(&site, "route \"/silent\"");
    finish(p);
}
END_TEST

static void narrow_pages(struct nib_config *cfg)
{
    pages(cfg);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 4096, 0), 0);
}

START_TEST(a_slow_reader_gets_all_of_a_large_body)
{
    char head[256];
    struct peer *slow, *other;

    large_body = malloc(LARGE + 1);
    for (size_t i = 0; i <= LARGE; i++)
        large_body[i] = (char)(i * 7 + (i >> 8) * 3 + (i >> 16));
    result_count = 0;
    site_start(&site, narrow_pages);
    slow = peer_connect(site.address, 4096);
    ask(slow, "GET", "/large", "");
    ask(slow, "GET", "/echo?next", "");
    snprintf(head, sizeof head,
             "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
             "Content-Length: %d\r\nConnection: keep-alive\r\n\r\n",
             LARGE);
    peer_expect_text(slow, head);
    expect_notes(-EMSGSIZE, 1);
    /* It holds nobody up. */
    for (int i = 0; i < 4; i++) {
        other = site_connect(&site);
        ask(other, "GET", "/echo", "Connection: close\r\n");
        expect(other, "200 OK", "", "GET /echo ", "close");
        peer_expect_end(other);
        peer_free(other);
    }
    peer_expect(slow, large_body, LARGE);
    expect(slow, "200 OK", "", "GET /echo next", "keep-alive");
    finish(slow);
    free(large_body);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(an_answer_has_status_headers_and_body),
        TEST(a_head_request_gets_no_body),
        TEST(a_connection_ends_when_the_client_wants_that),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(an_upgrade_may_follow_plain_requests),
        TEST(a_body_is_skipped),
        TEST(what_is_not_there_is_404),
        TEST(a_websocket_without_a_page_is_426),
        TEST(a_long_request_line_is_414),
        TEST(a_long_head_is_431),
        TEST(an_answer_that_cannot_be_sent_is_refused),
        TEST(there_is_one_answer),
        TEST(no_answer_is_500),
        TEST(a_slow_reader_gets_all_of_a_large_body),
    };

    return run_tests("http", tests, COUNT(tests));
}
