/*
 * test_log - filter, length, rate limit and escapes of log lines.
 */

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* What the callback got last, and how often it was called. */
static struct {
    atomic_int lines;
    int level;
    void *arg;
    char text[2 * NIB__LOG_LINE_BYTES];
} got;

static int marker;

static void collect(int level, const char *text, void *arg)
{
    atomic_fetch_add(&got.lines, 1);
    got.level = level;
    got.arg = arg;
    ck_assert_uint_lt(strlen(text), sizeof(got.text));
    memcpy(got.text, text, strlen(text) + 1);
}

static struct nib__log logger;

static void reset(void)
{
    memset(&got, 0, sizeof(got));
    logger = (struct nib__log){collect, &marker, NIB__LOG_INFO};
}

START_TEST(a_line_reaches_the_callback)
{
    errno = EXDEV;
    nib__log(&logger, NIB__LOG_WARN, "%s %d%%", "at", 50);
    ck_assert_int_eq(errno, EXDEV);
    ck_assert_int_eq(got.lines, 1);
    ck_assert_int_eq(got.level, 1);
    ck_assert_ptr_eq(got.arg, &marker);
    ck_assert_str_eq(got.text, "at 50%");
}
END_TEST

START_TEST(levels_filter)
{
    for (int limit = NIB__LOG_ERROR; limit <= NIB__LOG_DEBUG; limit++) {
        reset();
        logger.level = limit;
        for (int level = NIB__LOG_ERROR; level <= NIB__LOG_DEBUG; level++)
            nib__log(&logger, level, "line");
        ck_assert_int_eq(got.lines, limit + 1);
        ck_assert_int_eq(got.level, limit);
    }
}
END_TEST

START_TEST(no_log_no_line)
{
    struct nib__log none = {0};
    struct nib__log_limit limit = {0};

    nib__log(NULL, NIB__LOG_ERROR, "line");
    nib__log(&none, NIB__LOG_ERROR, "line");
    nib__log_limited(NULL, &limit, NIB__LOG_ERROR, 0, "line");
    nib__log_limited(&none, &limit, NIB__LOG_ERROR, 0, "line");
    ck_assert_uint_eq(limit.dropped, 0);
    ck_assert_uint_eq(limit.quiet_until, 0);
}
END_TEST

/* Fills text with n letters and a NUL. */
static void letters(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i % 26);
    text[n] = '\0';
}

START_TEST(a_long_line_is_cut)
{
    char text[1001];
    char expected[NIB__LOG_LINE_BYTES];

    letters(text, 511);
    nib__log(&logger, NIB__LOG_INFO, "%s", text);
    ck_assert_str_eq(got.text, text);

    letters(expected, 508);
    memcpy(expected + 508, "...", 4);
    letters(text, 512);
    nib__log(&logger, NIB__LOG_INFO, "%s", text);
    ck_assert_str_eq(got.text, expected);
    letters(text, 1000);
    nib__log(&logger, NIB__LOG_INFO, "%s", text);
    ck_assert_str_eq(got.text, expected);
}
END_TEST

START_TEST(one_line_in_a_period)
{
    struct nib__log_limit limit = {.period_ms = 1000};

    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 5000, "n=%d", 1);
    ck_assert_str_eq(got.text, "n=1");
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 5000, "n=%d", 2);
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 5999, "n=%d", 3);
    ck_assert_int_eq(got.lines, 1);
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 6000, "n=%d", 4);
    ck_assert_int_eq(got.lines, 2);
    ck_assert_str_eq(got.text, "n=4 (2 more like this)");
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 7000, "n=%d", 5);
    ck_assert_int_eq(got.lines, 3);
    ck_assert_str_eq(got.text, "n=5");
}
END_TEST

START_TEST(the_default_period)
{
    struct nib__log_limit limit = {0};

    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 0, "a");
    ck_assert_int_eq(got.lines, 1);
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 9999, "b");
    ck_assert_int_eq(got.lines, 1);
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 10000, "c");
    ck_assert_int_eq(got.lines, 2);
    ck_assert_str_eq(got.text, "c (1 more like this)");
}
END_TEST

START_TEST(limits_are_apart)
{
    struct nib__log_limit one = {0};
    struct nib__log_limit two = {0};

    nib__log_limited(&logger, &one, NIB__LOG_INFO, 7, "one");
    nib__log_limited(&logger, &two, NIB__LOG_INFO, 7, "two");
    ck_assert_int_eq(got.lines, 2);
    ck_assert_str_eq(got.text, "two");
}
END_TEST

START_TEST(filtered_lines_are_not_counted)
{
    struct nib__log_limit limit = {.period_ms = 10};

    nib__log_limited(&logger, &limit, NIB__LOG_DEBUG, 0, "debug");
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 0, "info");
    ck_assert_str_eq(got.text, "info");
    nib__log_limited(&logger, &limit, NIB__LOG_DEBUG, 1, "debug");
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 10, "info");
    ck_assert_str_eq(got.text, "info");
    ck_assert_int_eq(got.lines, 2);
}
END_TEST

START_TEST(the_suffix_survives_a_long_line)
{
    struct nib__log_limit limit = {.period_ms = 1, .dropped = UINT32_MAX};
    static const char suffix[] = " (4294967295 more like this)";
    char text[1001];
    char expected[NIB__LOG_LINE_BYTES];
    size_t room = sizeof(expected) - sizeof(suffix);

    letters(text, 1000);
    nib__log_limited(&logger, &limit, NIB__LOG_INFO, 0, "%s", text);
    letters(expected, room - 3);
    snprintf(expected + room - 3, sizeof(suffix) + 3, "...%s", suffix);
    ck_assert_uint_eq(strlen(expected), 511);
    ck_assert_str_eq(got.text, expected);
}
END_TEST

enum {
    THREADS = 4,
    CALLS = 5000,
};

static struct nib__log_limit shared_limit;

static void *log_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++)
        nib__log_limited(&logger, &shared_limit, NIB__LOG_INFO, 1, "x");
    return NULL;
}

START_TEST(threads_share_a_limit)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, log_often, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    /* The winner may have taken drops of others into its own line. */
    ck_assert_int_eq(got.lines, 1);
    ck_assert_uint_le(shared_limit.dropped, THREADS * CALLS - 1);
    nib__log_limited(&logger, &shared_limit, NIB__LOG_INFO, 10001, "x");
    ck_assert_int_eq(got.lines, 2);
    ck_assert_uint_eq(shared_limit.dropped, 0);
}
END_TEST

START_TEST(every_byte_is_escaped_or_kept)
{
    for (int c = 0; c < 256; c++) {
        char in = (char)c;
        char out[8];
        char expected[8];
        bool plain = c >= ' ' && c <= '~' && c != '\\';

        snprintf(expected, sizeof(expected), plain ? "%c" : "\\x%02x", c);
        ck_assert_uint_eq(nib__log_escape(out, sizeof(out), &in, 1),
                          strlen(expected));
        ck_assert_str_eq(out, expected);
    }
}
END_TEST

/* Escapes with room for cap bytes; a byte behind must stay. */
static void check_escape(const char *in, size_t cap, const char *expected)
{
    char out[64];

    memset(out, '#', sizeof(out));
    ck_assert_uint_eq(nib__log_escape(out, cap, in, strlen(in)),
                      strlen(expected));
    ck_assert_str_eq(out, expected);
    ck_assert_int_eq(out[cap], '#');
}

START_TEST(escapes_are_cut_whole)
{
    check_escape("", 1, "");
    check_escape("a", 1, "");
    check_escape("a", 2, "a");
    check_escape("ab", 2, ".");
    check_escape("abc", 3, "..");
    check_escape("abcd", 4, "...");
    check_escape("abc", 4, "abc");
    check_escape("abcde", 5, "a...");
    check_escape("abcde", 6, "abcde");

    check_escape("\n", 4, "...");
    check_escape("\n", 5, "\\x0a");
    check_escape("a\nb", 7, "a\\x0ab");
    check_escape("a\nb", 6, "a...");
    check_escape("a\nbc", 7, "a...");
    check_escape("a\nbc", 8, "a\\x0abc");
    check_escape("a\nbcde", 9, "a\\x0a...");
    check_escape("\xc3\xa4\\", 13, "\\xc3\\xa4\\x5c");
    check_escape("\xc3\xa4\\", 12, "\\xc3\\xa4...");
    check_escape("\xc3\xa4\\", 11, "\\xc3...");
}
END_TEST

START_TEST(escape_without_room_writes_nothing)
{
    char out[1] = {'#'};

    ck_assert_uint_eq(nib__log_escape(out, 0, "abc", 3), 0);
    ck_assert_int_eq(out[0], '#');
}
END_TEST

START_TEST(a_nul_does_not_end_the_text)
{
    char out[16];

    ck_assert_uint_eq(nib__log_escape(out, sizeof(out), "a\0b", 3), 6);
    ck_assert_str_eq(out, "a\\x00b");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tc = tcase_create("log");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, reset, NULL);
    tcase_add_test(tc, a_line_reaches_the_callback);
    tcase_add_test(tc, levels_filter);
    tcase_add_test(tc, no_log_no_line);
    tcase_add_test(tc, a_long_line_is_cut);
    tcase_add_test(tc, one_line_in_a_period);
    tcase_add_test(tc, the_default_period);
    tcase_add_test(tc, limits_are_apart);
    tcase_add_test(tc, filtered_lines_are_not_counted);
    tcase_add_test(tc, the_suffix_survives_a_long_line);
    tcase_add_test(tc, threads_share_a_limit);
    tcase_add_test(tc, every_byte_is_escaped_or_kept);
    tcase_add_test(tc, escapes_are_cut_whole);
    tcase_add_test(tc, escape_without_room_writes_nothing);
    tcase_add_test(tc, a_nul_does_not_end_the_text);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
