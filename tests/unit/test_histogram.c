/*
 * test_histogram - percentiles against sorted values.
 */

#include <check.h>
#include <stdlib.h>

#include "histogram.h"

static struct histogram h, other;

static void setup(void)
{
    histogram_clear(&h);
    histogram_clear(&other);
}

START_TEST(empty)
{
    ck_assert_uint_eq(histogram_percentile(&h, 0), 0);
    ck_assert_uint_eq(histogram_percentile(&h, 50), 0);
    ck_assert_uint_eq(histogram_percentile(&h, 100), 0);
    ck_assert_uint_eq(h.count, 0);
    ck_assert_uint_eq(h.max, 0);
}
END_TEST

/* Up to 255 each value has its bucket: percentiles are exact. */
START_TEST(small_values_are_exact)
{
    for (uint64_t v = 1; v <= 200; v++)
        histogram_add(&h, v);
    for (unsigned p = 1; p <= 100; p++)
        ck_assert_uint_eq(histogram_percentile(&h, p), 2 * p);
    ck_assert_uint_eq(histogram_percentile(&h, 0), 1);
    ck_assert_uint_eq(histogram_percentile(&h, 99.5), 199);
    ck_assert_uint_eq(h.count, 200);
}
END_TEST

/* Around each power of two: never too small, and by 1/128 too large. */
START_TEST(error_is_bounded)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int d = -1; d <= 1; d++) {
            uint64_t v = ((uint64_t)1 << bit) + (uint64_t)(int64_t)d;
            uint64_t got;

            histogram_clear(&h);
            histogram_add(&h, v);
            histogram_add(&h, UINT64_MAX);
            got = histogram_percentile(&h, 50);
            ck_assert_uint_ge(got, v);
            ck_assert_uint_le(got - v, v / 128);
            ck_assert_uint_eq(histogram_percentile(&h, 100), UINT64_MAX);
        }
    }
}
END_TEST

/* The maximum limits what the top bucket answers. */
START_TEST(maximum_is_exact)
{
    for (int i = 0; i < 1000; i++)
        histogram_add(&h, 1000001);
    ck_assert_uint_eq(h.max, 1000001);
    ck_assert_uint_eq(histogram_percentile(&h, 50), 1000001);
    ck_assert_uint_eq(histogram_percentile(&h, 100), 1000001);
}
END_TEST

START_TEST(ranks)
{
    for (int i = 0; i < 99; i++)
        histogram_add(&h, 10);
    histogram_add(&h, 200);
    ck_assert_uint_eq(histogram_percentile(&h, 50), 10);
    ck_assert_uint_eq(histogram_percentile(&h, 99), 10);
    ck_assert_uint_eq(histogram_percentile(&h, 99.1), 200);
}
END_TEST

START_TEST(merging)
{
    for (uint64_t v = 1; v <= 50; v++)
        histogram_add(&h, v);
    for (uint64_t v = 51; v <= 100; v++)
        histogram_add(&other, v);
    histogram_merge(&h, &other);
    ck_assert_uint_eq(h.count, 100);
    ck_assert_uint_eq(h.max, 100);
    ck_assert_uint_eq(histogram_percentile(&h, 50), 50);
    ck_assert_uint_eq(histogram_percentile(&h, 90), 90);
    histogram_merge(&other, &h); /* the smaller maximum gives way */
    ck_assert_uint_eq(other.count, 150);
    ck_assert_uint_eq(other.max, 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("histogram");
    TCase *tcase = tcase_create("histogram");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, empty);
    tcase_add_test(tcase, small_values_are_exact);
    tcase_add_test(tcase, error_is_bounded);
    tcase_add_test(tcase, maximum_is_exact);
    tcase_add_test(tcase, ranks);
    tcase_add_test(tcase, merging);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
