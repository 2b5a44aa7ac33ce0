/*
 * test_response - answers, byte by byte.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "protocol/response.h"

/* The key and its answer of RFC 6455, 1.3. */
#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

#define SWITCHING                                                            \
    "HTTP/1.1 101 Switching Protocols\r\n"                                   \
    "Upgrade: websocket\r\n"                                                 \
    "Connection: Upgrade\r\n"                                                \
    "Sec-WebSocket-Accept: " ACCEPT "\r\n"

static const struct nib_header lines[] = {
    {"X-One", "1"},
    {"Set-Cookie", "a=b; Path=/"},
    {"content-type", "text/html"},
};

/* One call to be measured and written, of either function. */
struct call {
    int status; /* 101: nib__write_101() */
    const char *subprotocol;
    size_t count; /* of `lines` */
    const char *extra;
    uint64_t content_length;
    bool keep;
};

static size_t write_it(const struct call *c, char *out, size_t cap)
{
    if (c->status == 101)
        return nib__write_101(out, cap, KEY, c->subprotocol, lines, c->count);
    return nib__write_response(out, cap, c->status, lines, c->count, c->extra,
                               c->content_length, c->keep);
}

/* Measured and written with every size of room, the text is the same. */
static void check(struct call c, const char *expected)
{
    struct guard g = guard_new();
    size_t len = strlen(expected);

    if (!c.extra)
        c.extra = "";
    ck_assert_uint_eq(write_it(&c, NULL, 0), len);
    for (size_t cap = 1; cap <= len + 2; cap++) {
        char *out = (char *)g.end - cap;
        size_t fits = cap <= len ? cap - 1 : len;

        memset(out, 'U', cap);
        ck_assert_uint_eq(write_it(&c, out, cap), len);
        ck_assert_mem_eq(out, expected, fits);
        ck_assert_int_eq(out[fits], '\0');
    }
    guard_free(&g);
}

START_TEST(switching_protocols)
{
    check((struct call){.status = 101}, SWITCHING "\r\n");
    check((struct call){.status = 101, .subprotocol = "chat"},
          SWITCHING "Sec-WebSocket-Protocol: chat\r\n\r\n");
    check((struct call){.status = 101, .subprotocol = "chat", .count = 2},
          SWITCHING "Sec-WebSocket-Protocol: chat\r\n"
                    "X-One: 1\r\nSet-Cookie: a=b; Path=/\r\n\r\n");
}
END_TEST

START_TEST(responses)
{
    check((struct call){.status = 404},
          "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n"
          "Connection: close\r\n\r\n");
    check((struct call){.status = 200, .content_length = 5, .keep = true},
          "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
          "Content-Length: 5\r\nConnection: keep-alive\r\n\r\n");
    check((struct call){.status = 200, .content_length = UINT64_MAX,
                        .count = 3},
          "HTTP/1.1 200 OK\r\nX-One: 1\r\nSet-Cookie: a=b; Path=/\r\n"
          "content-type: text/html\r\nContent-Length: 18446744073709551615\r\n"
          "Connection: close\r\n\r\n");
    check((struct call){.status = 405, .extra = "Allow: GET\r\n"},
          "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\n"
          "Content-Length: 0\r\nConnection: close\r\n\r\n");
    check((struct call){.status = 599, .count = 1},
          "HTTP/1.1 599 \r\nX-One: 1\r\nContent-Length: 0\r\n"
          "Connection: close\r\n\r\n");
}
END_TEST

START_TEST(without_a_body)
{
    check((struct call){.status = 204, .keep = true},
          "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
    check((struct call){.status = 304, .count = 1, .content_length = 9},
          "HTTP/1.1 304 Not Modified\r\nX-One: 1\r\n"
          "Connection: close\r\n\r\n");
}
END_TEST

START_TEST(phrases)
{
    ck_assert_str_eq(nib__status_phrase(101), "Switching Protocols");
    ck_assert_str_eq(nib__status_phrase(200), "OK");
    ck_assert_str_eq(nib__status_phrase(426), "Upgrade Required");
    ck_assert_str_eq(nib__status_phrase(431),
                     "Request Header Fields Too Large");
    ck_assert_str_eq(nib__status_phrase(503), "Service Unavailable");
    ck_assert_str_eq(nib__status_phrase(511),
                     "Network Authentication Required");
    ck_assert_str_eq(nib__status_phrase(599), "");
    ck_assert_str_eq(nib__status_phrase(0), "");
    ck_assert_str_eq(nib__status_phrase(-1), "");
}
END_TEST

START_TEST(headers_that_may_be_sent)
{
    static const struct {
        struct nib_header header;
        bool valid;
    } table[] = {
        {{"X", ""}, true},
        {{"X", "a\tb \x80\xff"}, true},
        {{"Sec-WebSocket", "x"}, true},
        {{"Sec-WebSocke-Key", "x"}, true},
        {{"X-Upgrade", "x"}, true},
        {{"Upgrade-Insecure-Requests", "1"}, true},
        {{"Content-Type", "text/html"}, true},
        {{"", "x"}, false},
        {{NULL, "x"}, false},
        {{"X", NULL}, false},
        {{"X Y", "x"}, false},
        {{"X:", "x"}, false},
        {{"X\r\nY", "x"}, false},
        {{"X\xc3\xa9", "x"}, false},
        {{"X", "a\r\nY: b"}, false},
        {{"X", "a\nb"}, false},
        {{"X", "a\r"}, false},
        {{"X", "\x01"}, false},
        {{"X", "\x7f"}, false},
        {{"Connection", "close"}, false},
        {{"connection", "close"}, false},
        {{"Upgrade", "x"}, false},
        {{"CONTENT-LENGTH", "0"}, false},
        {{"Transfer-encoding", "chunked"}, false},
        {{"Sec-WebSocket-Accept", "x"}, false},
        {{"sec-websocket-protocol", "x"}, false},
        {{"Sec-WebSocket-", "x"}, false},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        ck_assert_msg(nib__header_valid(&table[i].header) == table[i].valid,
                      "row %zu", i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("response");
    TCase *tc = tcase_create("response");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, switching_protocols);
    tcase_add_test(tc, responses);
    tcase_add_test(tc, without_a_body);
    tcase_add_test(tc, phrases);
    tcase_add_test(tc, headers_that_may_be_sent);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
