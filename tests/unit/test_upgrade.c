/*
 * test_upgrade - the client's request, and its judgement on answers.
 */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upgrade.h"

static struct url url;
static struct upgrade upgrade;
static struct upgrade_answer answer;

static void setup(void)
{
    const char *expected;

    ck_assert_int_eq(url_parse("ws://h:8080/p?q", &url, &expected), 0);
    ck_assert_int_eq(upgrade_init(&upgrade, &url, "chat, log", NULL, 0), 0);
}

static void teardown(void)
{
    upgrade_free(&upgrade);
}

/* Judges an answer whose %s, if there is one, is the accept key. */
static const char *judge(const char *format)
{
    char head[1024] = "";
    const char *key = strstr(format, "%s"), *wrong = "";
    size_t before = key ? (size_t)(key - format) : strlen(format);
    int result;

    memcpy(head, format, before);
    if (key) {
        strcat(head, upgrade.accept);
        strcat(head, key + 2);
    }
    result = upgrade_check(&upgrade, head, strlen(head), &answer, &wrong);
    ck_assert_int_eq(result, wrong ? -EPROTO : 0);
    return wrong ? wrong : "";
}

START_TEST(request)
{
    const struct nib_header headers[] = {{"X-A", "1"}, {"host", "other"}};
    const char *key;

    ck_assert_ptr_nonnull(strstr(upgrade.request, "GET /p?q HTTP/1.1\r\n"
                                                  "Host: h:8080\r\n"));
    ck_assert_ptr_nonnull(
        strstr(upgrade.request, "\r\nSec-WebSocket-Protocol: chat, log\r\n"));
    ck_assert_uint_eq(strlen(upgrade.request), upgrade.request_len);
    ck_assert_str_eq(upgrade.request + upgrade.request_len - 4, "\r\n\r\n");
    key = strstr(upgrade.request, "Sec-WebSocket-Key: ");
    ck_assert_ptr_nonnull(key);
    ck_assert(nib__base64_decoded_length_is(key + 19, 24, 16));
    upgrade_free(&upgrade);

    ck_assert_int_eq(upgrade_init(&upgrade, &url, NULL, headers, 2), 0);
    ck_assert_ptr_nonnull(strstr(upgrade.request, "\r\nHost: other\r\n"));
    ck_assert_ptr_nonnull(strstr(upgrade.request, "\r\nX-A: 1\r\n"));
    ck_assert_ptr_null(strstr(upgrade.request, "h:8080"));
    ck_assert_ptr_null(strstr(upgrade.request, "Protocol"));
}
END_TEST

START_TEST(bad_subprotocols)
{
    upgrade_free(&upgrade);
    ck_assert_int_eq(upgrade_init(&upgrade, &url, "a b", NULL, 0), -EINVAL);
    ck_assert_int_eq(upgrade_init(&upgrade, &url, "a\r\n", NULL, 0), -EINVAL);
}
END_TEST

START_TEST(accepted)
{
    ck_assert_str_eq(judge("HTTP/1.1 101 Switching Protocols\r\n"
                           "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                           "Sec-WebSocket-Accept: %s\r\n\r\n"),
                     "");
    ck_assert_int_eq(answer.status, 101);
    ck_assert_str_eq(answer.reason, "Switching Protocols");
    ck_assert_str_eq(answer.subprotocol, "");
    /* Names and tokens without case, lists, white space, no phrase. */
    ck_assert_str_eq(judge("HTTP/1.1 101\r\nserver: x\r\n"
                           "UPGRADE:WebSocket\r\n"
                           "connection: keep-alive ,\tupgrade \r\n"
                           "sec-websocket-protocol: log\r\n"
                           "sec-websocket-accept: \t%s \r\n\r\n"),
                     "");
    ck_assert_str_eq(answer.reason, "");
    ck_assert_str_eq(answer.subprotocol, "log");
}
END_TEST

START_TEST(refused)
{
    ck_assert_str_eq(judge("HTTP/1.1 403 Forbidden: no\x1b[1m\r\n\r\n"),
                     "the upgrade was refused");
    ck_assert_int_eq(answer.status, 403);
    ck_assert_str_eq(answer.reason, "Forbidden: no?[1m");
    judge("HTTP/1.1 200 OK\r\nUpgrade: websocket\r\n\r\n");
    ck_assert_int_eq(answer.status, 200);
}
END_TEST

START_TEST(not_http)
{
    static const char *const all[] = {
        "\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 1\r\n\r\n",
        "HTTP/1.1  101 x\r\n\r\n",
        "HTTP/2 101 Switching\r\n\r\n",
    };

    ck_assert_str_eq(judge(all[_i]), "the answer is not HTTP/1.1");
    ck_assert_int_eq(answer.status, 0);
}
END_TEST

#define START "HTTP/1.1 101 Switching Protocols\r\n"
#define LINES START "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define RIGHT LINES "Sec-WebSocket-Accept: %s\r\n"

/* RFC 6455, 4.1: what a client has to check. */
START_TEST(faulty_101)
{
    static const struct {
        const char *head, *why;
    } all[] = {
        {START "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
         "Upgrade: websocket"},
        {START "Upgrade: h2c\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Accept: %s\r\n\r\n",
         "Upgrade: websocket"},
        {START "Upgrade: websocket\r\nConnection: upgraded\r\n"
               "Sec-WebSocket-Accept: %s\r\n\r\n",
         "Connection: Upgrade"},
        {LINES "\r\n", "Sec-WebSocket-Accept"},
        {LINES "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
         "Sec-WebSocket-Accept"},
        {RIGHT "Sec-WebSocket-Accept: x\r\n\r\n", "Sec-WebSocket-Accept"},
        {RIGHT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
         "extension"},
        {RIGHT "Sec-WebSocket-Protocol: other\r\n\r\n", "subprotocol"},
        {RIGHT "Sec-WebSocket-Protocol: chat, log\r\n\r\n", "subprotocol"},
        {RIGHT "Sec-WebSocket-Protocol: log\r\n"
               "Sec-WebSocket-Protocol: log\r\n\r\n",
         "subprotocol"},
    };
    const char *why = judge(all[_i].head);

    ck_assert_msg(strstr(why, all[_i].why) != NULL, "'%s', not '%s'", why,
                  all[_i].why);
    ck_assert_int_eq(answer.status, 101);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("upgrade");
    TCase *tcase = tcase_create("upgrade");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, request);
    tcase_add_test(tcase, bad_subprotocols);
    tcase_add_test(tcase, accepted);
    tcase_add_test(tcase, refused);
    tcase_add_loop_test(tcase, not_http, 0, 5);
    tcase_add_loop_test(tcase, faulty_101, 0, 10);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
