/*
 * test_handshake_limits - sizes, memory, and looking things up.
 */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "heads.h"
#include "protocol/handshake.h"

/* ---- limits ------------------------------------------------------------ */

/* Feeds n bytes whole or one by one; returns the result or minus status. */
static int feed_limited(const char *bytes, size_t n, size_t limit_bytes,
                        unsigned limit_lines, bool each, size_t *used)
{
    struct nib__head h;
    struct nib__refusal why = {0};
    int result = 0;

    *used = 0;
    nib__head_init(&h, limit_bytes, limit_lines);
    while (*used < n && result == 0) {
        size_t taken;

        result = nib__head_feed(&h, bytes + *used, each ? 1 : n, &taken, &why);
        *used += taken;
        ck_assert_uint_le(h.capacity, 2 * limit_bytes + 512);
    }
    nib__head_free(&h);
    return result == -EPROTO ? -why.status : result;
}

static void check_limited(const char *bytes, size_t n, size_t limit_bytes,
                          unsigned limit_lines, int expected)
{
    size_t used;

    ck_assert_int_eq(
        feed_limited(bytes, n, limit_bytes, limit_lines, false, &used),
        expected);
    ck_assert_int_eq(
        feed_limited(bytes, n, limit_bytes, limit_lines, true, &used),
        expected);
}

START_TEST(request_line_limit)
{
    char bytes[4096];
    size_t used;

    /* The line alone: 1024 of 2048 bytes are right, 1025 too many. */
    for (size_t len = 1023; len <= 1026; len++) {
        int expected = len <= 1024 ? 1 : -414;
        size_t n = (size_t)sprintf(bytes, "GET /%*s HTTP/1.1\r\n", 0, "");

        ck_assert_uint_eq(n, 16);
        memset(bytes + 5, 'x', len);
        n = len - 9;
        n += (size_t)sprintf(bytes + n, " HTTP/1.1\r\n");
        ck_assert_uint_eq(n, len + 2);
        n += (size_t)sprintf(bytes + n, HOST END);
        check_limited(bytes, n, 2048, LIMIT_LINES, expected);
    }
    /* Known before its end comes. */
    memset(bytes, 'x', sizeof(bytes));
    ck_assert_int_eq(feed_limited(bytes, 4096, 2048, 100, true, &used), -414);
    ck_assert_uint_eq(used, 1025);
    ck_assert_int_eq(feed_limited(bytes, 1024, 2048, 100, true, &used), 0);
    ck_assert_int_eq(feed_limited(bytes, 4096, 2048, 100, false, &used), -414);
}
END_TEST

START_TEST(head_limit)
{
    char bytes[4096];
    size_t n = (size_t)sprintf(bytes, GET HOST "X: ");
    size_t used;

    memset(bytes + n, 'x', 2048);
    for (size_t total = 2046; total <= 2050; total++) {
        memset(bytes + n, 'x', 2048);
        memcpy(bytes + total - 4, "\r\n\r\n", 4);
        check_limited(bytes, total, 2048, LIMIT_LINES,
                      total <= 2048 ? 1 : -431);
        check_limited(bytes, total, total, LIMIT_LINES, 1);
        check_limited(bytes, total, total - 1, LIMIT_LINES, -431);
    }
    /* Known before its end comes, and not an LF too early. */
    memset(bytes + n, 'x', 2048);
    ck_assert_int_eq(feed_limited(bytes, 2048, 2048, 100, true, &used), 0);
    ck_assert_int_eq(feed_limited(bytes, 2049, 2048, 100, true, &used), -431);
    ck_assert_uint_eq(used, 2049);
}
END_TEST

START_TEST(line_limit)
{
    char bytes[4096];

    for (int lines = 1; lines <= 5; lines++) {
        size_t n = (size_t)sprintf(bytes, GET HOST);

        for (int i = 1; i < lines; i++)
            n += (size_t)sprintf(bytes + n, "X: y\r\n");
        n += (size_t)sprintf(bytes + n, END);
        check_limited(bytes, n, 4096, (unsigned)lines, 1);
        check_limited(bytes, n, 4096, (unsigned)lines + 1, 1);
        if (lines > 1)
            check_limited(bytes, n, 4096, (unsigned)lines - 1, -431);
        check_limited(bytes, n, 4096, 3, lines <= 3 ? 1 : -431);
    }
}
END_TEST

/* More than http-parser's own limit of 80 KiB; it must not matter. */
START_TEST(large_heads)
{
    size_t size = 1024 * 1024;
    char *bytes = malloc(size);
    size_t n = (size_t)sprintf(bytes, "GET /");
    struct nib__head h;
    struct nib__refusal why;
    size_t used;

    memset(bytes + n, 'p', 200000);
    n += 200000;
    n += (size_t)sprintf(bytes + n, " HTTP/1.1\r\n" HOST);
    memset(bytes + n, 'N', 100000);
    n += 100000;
    n += (size_t)sprintf(bytes + n, ": ");
    memset(bytes + n, 'v', 300000);
    n += 300000;
    n += (size_t)sprintf(bytes + n, "\r\nA: b\r\n\r\n");

    nib__alloc_watch(true);
    nib__head_init(&h, size, LIMIT_LINES);
    for (size_t at = 0; at < n; at++) {
        int result = nib__head_feed(&h, bytes + at, 1, &used, &why);

        if (result != (at == n - 1))
            ck_abort_msg("%d at byte %zu", result, at);
    }
    ck_assert_int_lt(nib__alloc_count(), 20);
    ck_assert_uint_eq(strlen(h.path), 200001);
    ck_assert_uint_eq(strlen(h.lines[1].name), 100000);
    ck_assert_uint_eq(strlen(h.lines[1].value), 300000);
    ck_assert_str_eq(nib__head_value(&h, "a", 0), "b");
    nib__head_free(&h);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
    free(bytes);
}
END_TEST

/* ---- two heads, memory ------------------------------------------------- */

/* Nothing of one request on a connection is left for the next. */
START_TEST(requests_follow_each_other)
{
    static const char *const orders[2][2] = {
        {GET HOST "Content-Length: 3\r\n" END, GET WS END},
        {GET WS END, "HEAD /x?y HTTP/1.0\r\n" END},
    };
    const char *const *order = orders[_i];
    char bytes[1024];
    size_t n = (size_t)sprintf(bytes, "%s%s", order[0], order[1]);

    for (size_t cut = 0; cut <= n; cut++) {
        struct nib__head h;
        struct nib__refusal why;
        size_t at = 0;
        int found = 0;

        nib__head_init(&h, LIMIT_BYTES, LIMIT_LINES);
        while (at < n) {
            size_t end = at < cut ? cut : n;
            size_t used;

            if (nib__head_feed(&h, bytes + at, end - at, &used, &why) == 1) {
                found++;
                ck_assert_int_eq(h.upgrade, found == 2 - _i);
                ck_assert_uint_eq(h.content_length,
                                  found == 1 && _i == 0 ? 3U : 0U);
                ck_assert_int_eq(h.http_1_0, found == 2 && _i == 1);
                if (found == 2 && _i == 1) {
                    ck_assert_str_eq(h.method, "HEAD");
                    ck_assert_str_eq(h.query, "y");
                    ck_assert_uint_eq(h.line_count, 0);
                }
                nib__head_free(&h);
            }
            at += used;
        }
        ck_assert_int_eq(found, 2);
        nib__head_free(&h);
    }
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    char bytes[2048];
    size_t n = (size_t)sprintf(bytes, GET WS "X: ");
    bool failed = true;
    int runs = 0;

    memset(bytes + n, 'x', 1200); /* so that the buffer grows twice */
    n += 1200;
    n += (size_t)sprintf(bytes + n, "\r\n\r\n");
    while (failed) {
        struct nib__head h;
        struct nib__refusal why;
        size_t at = 0;
        int result = 0;

        nib__alloc_watch(true);
        nib__alloc_fail_at(++runs);
        nib__head_init(&h, LIMIT_BYTES, LIMIT_LINES);
        while (at < n && result == 0) {
            size_t piece = n - at < 100 ? n - at : 100;
            size_t used;

            result = nib__head_feed(&h, bytes + at, piece, &used, &why);
            at += used;
        }
        failed = !nib__alloc_fail_pending();
        nib__alloc_fail_at(0);
        ck_assert_int_eq(result, failed ? -ENOMEM : 1);
        nib__head_free(&h);
        ck_assert_int_eq(nib__alloc_live(), 0);
        nib__alloc_watch(false);
    }
    ck_assert_int_eq(runs, 5); /* 512, 1024, 2048 bytes, the lines; success */
}
END_TEST

/* ---- what is left of a refused head ---------------------------------- */

START_TEST(strings_are_safe_after_a_refusal)
{
    struct nib__head h;
    struct nib__refusal why;
    const char *token;
    size_t used;

    nib__head_init(&h, LIMIT_BYTES, LIMIT_LINES);
    ck_assert_str_eq(h.method, "");
    ck_assert_str_eq(h.path, "");
    ck_assert_str_eq(h.query, "");
    ck_assert_ptr_null(nib__head_value(&h, "Host", 0));

    /* Refused by http-parser, with lines half made. */
    ck_assert_int_eq(nib__head_feed(&h, GET HOST "Content-Length: x\r\n\r\n",
                                    sizeof(GET HOST "Content-Length: x\r\n"
                                                    "\r\n") - 1,
                                    &used, &why),
                     -EPROTO);
    ck_assert_str_eq(h.method, "");
    ck_assert_str_eq(h.path, "");
    ck_assert_uint_eq(h.line_count, 0);
    ck_assert_ptr_null(nib__head_value(&h, "Host", 0));
    ck_assert_uint_eq(nib__head_token(&h, "Host", 0, &token), 0);
    nib__head_free(&h);
    nib__head_free(&h);

    /* Refused when judged: what it asked for can be logged. */
    ck_assert_int_eq(nib__head_feed(&h, "POST /p?q HTTP/1.1\r\n" WS END,
                                    sizeof("POST /p?q HTTP/1.1\r\n" WS END) -
                                        1,
                                    &used, &why),
                     -EPROTO);
    ck_assert_str_eq(h.method, "POST");
    ck_assert_str_eq(h.path, "/p");
    ck_assert_str_eq(h.query, "q");
    ck_assert(!h.upgrade);
    nib__head_free(&h);
}
END_TEST

/* ---- looking things up ------------------------------------------------- */

static void parse_good(struct nib__head *h, const char *bytes)
{
    struct nib__refusal why;
    size_t used;

    nib__head_init(h, LIMIT_BYTES, LIMIT_LINES);
    ck_assert_int_eq(nib__head_feed(h, bytes, strlen(bytes), &used, &why), 1);
}

START_TEST(values_and_tokens)
{
    struct nib__head h;
    const char *token;

    parse_good(&h, GET WS "Sec-WebSocket-Protocol: chat,  super.chat\r\n"
                          "X: 1\r\nsec-websocket-protocol:,\t,x ,\r\n"
                          "SEC-WEBSOCKET-PROTOCOL: last\r\nx: 2\r\n" END);
    ck_assert_str_eq(nib__head_value(&h, "X", 0), "1");
    ck_assert_str_eq(nib__head_value(&h, "x", 1), "2");
    ck_assert_ptr_null(nib__head_value(&h, "x", 2));
    ck_assert_ptr_null(nib__head_value(&h, "", 0));
    ck_assert_ptr_null(nib__head_value(&h, "xx", 0));
    ck_assert_str_eq(nib__head_value(&h, "hOST", 0), "example.org");

    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 0, &token), 4);
    ck_assert_mem_eq(token, "chat", 4);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 1, &token), 10);
    ck_assert_mem_eq(token, "super.chat", 10);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 2, &token), 1);
    ck_assert_mem_eq(token, "x", 1);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 3, &token), 4);
    ck_assert_mem_eq(token, "last", 4);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 4, &token), 0);
    ck_assert_uint_eq(nib__head_token(&h, "Nothing", 0, &token), 0);

    ck_assert(nib__head_has_token(&h, "Sec-WebSocket-Protocol", "LAST"));
    ck_assert(nib__head_has_token(&h, "Sec-WebSocket-Protocol", "super.Chat"));
    ck_assert(!nib__head_has_token(&h, "Sec-WebSocket-Protocol", "super"));
    ck_assert(!nib__head_has_token(&h, "Sec-WebSocket-Protocol", "chats"));
    ck_assert(!nib__head_has_token(&h, "Sec-WebSocket-Protocol", ""));
    ck_assert(!nib__head_has_token(&h, "Nothing", "x"));
    nib__head_free(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handshake_limits");
    TCase *tc = tcase_create("handshake_limits");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, request_line_limit);
    tcase_add_test(tc, head_limit);
    tcase_add_test(tc, line_limit);
    tcase_add_test(tc, large_heads);
    tcase_add_loop_test(tc, requests_follow_each_other, 0, 2);
    tcase_add_test(tc, every_allocation_fails_once);
    tcase_add_test(tc, strings_are_safe_after_a_refusal);
    tcase_add_test(tc, values_and_tokens);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
