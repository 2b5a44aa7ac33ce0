/*
 * test_client_url - the addresses that the tools are given.
 */

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "url.h"

static struct url url;
static const char *expected;

static void reads(const char *text, const char *host, const char *port,
                  const char *authority, const char *target)
{
    ck_assert_msg(url_parse(text, &url, &expected) == 0, "'%s': %s", text,
                  expected);
    ck_assert_str_eq(url.host, host);
    ck_assert_str_eq(url.port, port);
    ck_assert_str_eq(url.authority, authority);
    ck_assert_str_eq(url.target, target);
}

static void refuses(const char *text, int code, const char *why)
{
    expected = NULL;
    ck_assert_msg(url_parse(text, &url, &expected) == code, "'%s': not %d",
                  text, code);
    ck_assert_ptr_nonnull(expected);
    ck_assert_msg(strstr(expected, why) != NULL, "'%s': '%s', not '%s'", text,
                  expected, why);
}

START_TEST(whole_urls)
{
    reads("ws://example.org:8080/chat?room=1", "example.org", "8080",
          "example.org:8080", "/chat?room=1");
    reads("ws://127.0.0.1:9/a/b", "127.0.0.1", "9", "127.0.0.1:9", "/a/b");
    reads("WS://Host/%C3%A9", "Host", "80", "Host", "/%C3%A9");
}
END_TEST

START_TEST(parts_left_out)
{
    reads("ws://h", "h", "80", "h", "/");
    reads("ws://h/", "h", "80", "h", "/");
    reads("ws://h?q", "h", "80", "h", "/?q");
    reads("ws://h:8080", "h", "8080", "h:8080", "/");
    reads("ws://h:8080?q=/x", "h", "8080", "h:8080", "/?q=/x");
}
END_TEST

/* RFC 9110, 7.2: the default port is left out of Host. */
START_TEST(port_in_authority)
{
    reads("ws://h:80/", "h", "80", "h", "/");
    reads("ws://h:0080/", "h", "80", "h", "/");
    reads("ws://h:65535/", "h", "65535", "h:65535", "/");
}
END_TEST

START_TEST(ipv6)
{
    reads("ws://[::1]:8080/x", "::1", "8080", "[::1]:8080", "/x");
    reads("ws://[fe80::1]", "fe80::1", "80", "[fe80::1]", "/");
    refuses("ws://[::1:8080/", -EINVAL, "]");
    refuses("ws://[::1]8080/", -EINVAL, ":PORT");
    refuses("ws://[]/", -EINVAL, "host");
    refuses("ws://::1/", -EINVAL, "host");
}
END_TEST

START_TEST(encrypted)
{
    reads("wss://h", "h", "443", "h", "/");
    ck_assert(url.tls);
    reads("WSS://h:443/x", "h", "443", "h", "/x");
    ck_assert(url.tls);
    reads("wss://h:80/", "h", "80", "h:80", "/");
    reads("wss://[::1]:8443/", "::1", "8443", "[::1]:8443", "/");
    reads("ws://h:443/", "h", "443", "h:443", "/");
    ck_assert(!url.tls);
    refuses("wss://h:0/", -EINVAL, "1 to 65535");
    refuses("wss:///", -EINVAL, "host");
}
END_TEST

START_TEST(other_schemes)
{
    refuses("https://h/", -EINVAL, "wss://");
    refuses("http://h/", -EINVAL, "ws://HOST[:PORT][/PATH]");
    refuses("h:80", -EINVAL, "ws://HOST[:PORT][/PATH]");
    refuses("ws:/h", -EINVAL, "ws://HOST[:PORT][/PATH]");
    refuses("", -EINVAL, "ws://HOST[:PORT][/PATH]");
}
END_TEST

START_TEST(bad_ports)
{
    refuses("ws://h:0/", -EINVAL, "1 to 65535");
    refuses("ws://h:65536/", -EINVAL, "1 to 65535");
    refuses("ws://h:/", -EINVAL, "1 to 65535");
    refuses("ws://h:80x/", -EINVAL, "1 to 65535");
    refuses("ws://h:+80/", -EINVAL, "1 to 65535");
    refuses("ws://h:999999999/", -EINVAL, "1 to 65535");
    refuses("ws://a:b:80/", -EINVAL, "1 to 65535");
}
END_TEST

/* Nothing may end the request line early, or stand in no such URL. */
START_TEST(bad_bytes)
{
    refuses("ws:///x", -EINVAL, "host");
    refuses("ws://h/a b", -EINVAL, "percent-encoded");
    refuses("ws://h/\r\nX: y", -EINVAL, "percent-encoded");
    refuses("ws://h/\xc3\xa9", -EINVAL, "percent-encoded");
    refuses("ws://h/\x7f", -EINVAL, "percent-encoded");
    refuses("ws://h\r\n/", -EINVAL, "host");
    refuses("ws://h h/", -EINVAL, "host");
    refuses("ws://h/#part", -EINVAL, "#fragment");
    refuses("ws://me:secret@h/", -EINVAL, "user name");
}
END_TEST

START_TEST(lengths)
{
    char text[2200] = "ws://h/";
    char *path = text + 6;

    memset(path + 1, 'p', 2046);
    reads(text, "h", "80", "h", path);
    path[2047] = 'p';
    refuses(text, -ENAMETOOLONG, "2047");

    memset(text, 0, sizeof(text));
    memcpy(text, "ws://", 5);
    memset(text + 5, 'h', 255);
    ck_assert_int_eq(url_parse(text, &url, &expected), 0);
    ck_assert_uint_eq(strlen(url.host), 255);
    text[260] = 'h';
    refuses(text, -ENAMETOOLONG, "255");
}
END_TEST

START_TEST(raw_addresses)
{
    ck_assert_int_eq(url_parse_raw("127.0.0.1:80", &url, &expected), 0);
    ck_assert_str_eq(url.host, "127.0.0.1");
    ck_assert_str_eq(url.port, "80");
    ck_assert(!url.tls);
    ck_assert_int_eq(url_parse_raw("[::1]:7", &url, &expected), 0);
    ck_assert_str_eq(url.host, "::1");
    ck_assert_int_eq(url_parse_raw("tls://h:7", &url, &expected), 0);
    ck_assert_str_eq(url.host, "h");
    ck_assert(url.tls);
    ck_assert_int_eq(url_parse_raw("h", &url, &expected), -EINVAL);
    ck_assert_str_eq(expected, "expected HOST:PORT");
    ck_assert_int_eq(url_parse_raw("ws://h:80/", &url, &expected), -EINVAL);
    ck_assert_str_eq(expected, "expected HOST:PORT or tls://HOST:PORT");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_url");
    TCase *tcase = tcase_create("client_url");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, whole_urls);
    tcase_add_test(tcase, parts_left_out);
    tcase_add_test(tcase, port_in_authority);
    tcase_add_test(tcase, ipv6);
    tcase_add_test(tcase, encrypted);
    tcase_add_test(tcase, other_schemes);
    tcase_add_test(tcase, bad_ports);
    tcase_add_test(tcase, bad_bytes);
    tcase_add_test(tcase, lengths);
    tcase_add_test(tcase, raw_addresses);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
