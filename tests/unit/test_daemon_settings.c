/*
 * test_daemon_settings - what the command lines of nibd ask for.
 *
 * What is refused ends the process; tests/e2e/test_nibd.py has that.
 */

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>

#include "daemon/settings.h"
#include "nib.h"

enum { MIB = 1 << 20 };

/* Reads a command line, given without the command's name. */
static struct settings settings_of(enum settings_command command, ...)
    __attribute__((sentinel));

static struct settings settings_of(enum settings_command command, ...)
{
    struct settings out;
    static char name[] = "command";
    char *argv[40] = {name};
    int argc = 1;
    va_list words;

    va_start(words, command);
    while ((argv[argc] = va_arg(words, char *)) != NULL)
        argc++;
    va_end(words);
    settings_read(command, argc, argv, &out);
    return out;
}

#define HUB(...) settings_of(SETTINGS_HUB, __VA_ARGS__, (char *)NULL)
#define ECHO(...) settings_of(SETTINGS_ECHO, __VA_ARGS__, (char *)NULL)

START_TEST(defaults)
{
    struct settings s = HUB("8080");

    ck_assert_str_eq(s.listen, "tcp:[::]:8080");
    ck_assert_str_eq(s.path, "/");
    ck_assert_uint_eq(s.message_bytes, MIB);
    ck_assert_uint_eq(s.queue_bytes, 2 * MIB);
    ck_assert_uint_eq(s.reactors, 0);
    ck_assert_uint_eq(s.ping_ms, 25000);
    ck_assert_uint_eq(s.pong_ms, 10000);
    ck_assert_int_eq(s.log_level, NIB_LOG_WARN);
}
END_TEST

START_TEST(every_option)
{
    struct settings s =
        HUB("--path", "/chat", "--max-message", "64k", "--queue=1m",
            "--threads", "3", "--ping", "5s", "127.0.0.1:0");

    ck_assert_str_eq(s.listen, "tcp:127.0.0.1:0");
    ck_assert_str_eq(s.path, "/chat");
    ck_assert_uint_eq(s.message_bytes, 65536);
    ck_assert_uint_eq(s.queue_bytes, MIB);
    ck_assert_uint_eq(s.reactors, 3);
    ck_assert_uint_eq(s.ping_ms, 5000);
    ck_assert_uint_eq(s.pong_ms, 2500);
}
END_TEST

START_TEST(options_after_the_address)
{
    struct settings s = ECHO("[::1]:80", "--threads", "2", "-v");

    ck_assert_str_eq(s.listen, "tcp:[::1]:80");
    ck_assert_uint_eq(s.reactors, 2);
    ck_assert_int_eq(s.log_level, NIB_LOG_INFO);
    ck_assert_str_eq(ECHO("--threads", "2", "--", ":7").listen, "tcp:[::]:7");
}
END_TEST

START_TEST(log_levels)
{
    ck_assert_int_eq(ECHO("1", "--quiet").log_level, NIB_LOG_ERROR);
    ck_assert_int_eq(ECHO("1", "-q").log_level, NIB_LOG_ERROR);
    ck_assert_int_eq(ECHO("1", "--verbose").log_level, NIB_LOG_INFO);
    ck_assert_int_eq(ECHO("1", "--debug").log_level, NIB_LOG_DEBUG);
}
END_TEST

/* The queue holds two messages; what was not asked for gives way. */
START_TEST(sizes_fit_each_other)
{
    struct settings s = HUB("1", "--queue", "64k");

    ck_assert_uint_eq(s.message_bytes, 32768);
    ck_assert_uint_eq(s.queue_bytes, 65536);
    s = HUB("1", "--queue", "8m");
    ck_assert_uint_eq(s.message_bytes, MIB);
    ck_assert_uint_eq(s.queue_bytes, 8 * MIB);
    s = HUB("1", "--max-message", "4m");
    ck_assert_uint_eq(s.message_bytes, 4 * MIB);
    ck_assert_uint_eq(s.queue_bytes, 8 * MIB);
    s = HUB("1", "--max-message", "125");
    ck_assert_uint_eq(s.message_bytes, 125);
    ck_assert_uint_eq(s.queue_bytes, 2 * MIB);
    s = HUB("1", "--max-message", "1g");
    ck_assert_uint_eq(s.message_bytes, (size_t)1 << 30);
    ck_assert_uint_eq(s.queue_bytes, (size_t)1 << 31);
}
END_TEST

START_TEST(the_pong_is_due_before_the_next_ping)
{
    struct settings s = HUB("1", "--ping", "0");

    ck_assert_uint_eq(s.ping_ms, 0);
    s = HUB("1", "--ping", "100ms");
    ck_assert_uint_eq(s.ping_ms, 100);
    ck_assert_uint_eq(s.pong_ms, 50);
    s = HUB("1", "--ping", "24h");
    ck_assert_uint_eq(s.ping_ms, 24 * 3600 * 1000);
    ck_assert_uint_eq(s.pong_ms, 10000);
}
END_TEST

/* ---- TLS --------------------------------------------------------------- */

START_TEST(no_tls_by_default)
{
    struct settings s = HUB("1");

    ck_assert_int_eq(s.tls.mode, NIB_TLS_OFF);
    ck_assert_uint_eq(s.tls.cert_count, 0);
    ck_assert_int_eq(s.tls.verify, NIB_VERIFY_NONE);
    ck_assert_uint_eq(s.tls_watch_ms, 0);
    s = HUB("1", "--tls", "off");
    ck_assert_int_eq(s.tls.mode, NIB_TLS_OFF);
}
END_TEST

/* A key and a password belong to the certificate before them. */
START_TEST(keys_follow_their_certificates)
{
    struct settings s =
        HUB("--cert", "a", "--cert=b", "--key", "bk", "1", "--key-password",
            "@bp", "--cert", "c", "--key-password=cp", "--key", "ck");
    const struct tls_cert *certs = s.tls.certs;

    ck_assert_uint_eq(s.tls.cert_count, 3);
    ck_assert_str_eq(certs[0].chain, "a");
    ck_assert_ptr_null(certs[0].key);
    ck_assert_ptr_null(certs[0].password);
    ck_assert_str_eq(certs[1].chain, "b");
    ck_assert_str_eq(certs[1].key, "bk");
    ck_assert_str_eq(certs[1].password, "@bp");
    ck_assert_str_eq(certs[2].chain, "c");
    ck_assert_str_eq(certs[2].key, "ck");
    ck_assert_str_eq(certs[2].password, "cp");
    ck_assert_int_eq(s.tls.mode, NIB_TLS_ON);
    ck_assert_int_eq(s.tls.verify, NIB_VERIFY_NONE);
}
END_TEST

START_TEST(tls_on_auto_off)
{
    ck_assert_int_eq(ECHO("1", "--cert", "a").tls.mode, NIB_TLS_ON);
    ck_assert_int_eq(ECHO("1", "--cert", "a", "--tls", "on").tls.mode,
                     NIB_TLS_ON);
    ck_assert_int_eq(ECHO("1", "--tls", "auto", "--cert", "a").tls.mode,
                     NIB_TLS_AUTO);
    ck_assert_int_eq(ECHO("1", "--cert", "a", "--tls=off").tls.mode,
                     NIB_TLS_OFF);
}
END_TEST

START_TEST(client_certificates)
{
    struct settings s = HUB("1", "--cert", "a", "--client-ca", "ca");

    ck_assert_str_eq(s.tls.client_ca, "ca");
    ck_assert_int_eq(s.tls.verify, NIB_VERIFY_REQUIRED);
    s = HUB("1", "--cert", "a", "--client-ca", "ca", "--verify-client",
            "optional");
    ck_assert_int_eq(s.tls.verify, NIB_VERIFY_OPTIONAL);
    s = HUB("1", "--cert", "a", "--verify-client", "none", "--client-ca", "ca",
            "--tls", "auto");
    ck_assert_int_eq(s.tls.verify, NIB_VERIFY_NONE);
}
END_TEST

START_TEST(other_tls_options)
{
    struct settings s =
        HUB("1", "--cert", "a", "--ticket-keys", "tk", "--handshake-threads",
            "3", "--tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256",
            "--tls-watch", "2");

    ck_assert_str_eq(s.tls.ticket_keys, "tk");
    ck_assert_uint_eq(s.tls.handshake_threads, 3);
    ck_assert_str_eq(s.tls.ciphers, "ECDHE-ECDSA-AES128-GCM-SHA256");
    ck_assert_uint_eq(s.tls_watch_ms, 2000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("daemon_settings");
    TCase *tc = tcase_create("settings");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, defaults);
    tcase_add_test(tc, every_option);
    tcase_add_test(tc, options_after_the_address);
    tcase_add_test(tc, log_levels);
    tcase_add_test(tc, sizes_fit_each_other);
    tcase_add_test(tc, the_pong_is_due_before_the_next_ping);
    tcase_add_test(tc, no_tls_by_default);
    tcase_add_test(tc, keys_follow_their_certificates);
    tcase_add_test(tc, tls_on_auto_off);
    tcase_add_test(tc, client_certificates);
    tcase_add_test(tc, other_tls_options);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
