/*
 * test_units - sizes and durations as people write them.
 */

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "units.h"

typedef int parse_fn(const char *text, uint64_t *out);

static void reads(parse_fn *parse, const char *text, uint64_t expected)
{
    uint64_t value = 77;

    ck_assert_msg(parse(text, &value) == 0, "'%s' is refused", text);
    ck_assert_msg(value == expected, "'%s' is %ju", text, (uintmax_t)value);
}

static void refuses(parse_fn *parse, const char *text, int code)
{
    uint64_t value = 77;

    ck_assert_msg(parse(text, &value) == code, "'%s': not %d", text, code);
    ck_assert_uint_eq(value, 77);
}

START_TEST(counts)
{
    reads(units_count, "0", 0);
    reads(units_count, "007", 7);
    reads(units_count, "10000", 10000);
    reads(units_count, "18446744073709551615", UINT64_MAX);
    refuses(units_count, "18446744073709551616", -ERANGE);
    refuses(units_count, "99999999999999999999", -ERANGE);
    refuses(units_count, "1k", -EINVAL);
    refuses(units_count, "1s", -EINVAL);
}
END_TEST

START_TEST(sizes)
{
    reads(units_size, "0", 0);
    reads(units_size, "512", 512);
    reads(units_size, "64k", 65536);
    reads(units_size, "2m", 2097152);
    reads(units_size, "3g", 3221225472);
    reads(units_size, "17179869183g", 18446744072635809792u);
    refuses(units_size, "17179869184g", -ERANGE);
    refuses(units_size, "64K", -EINVAL);
    refuses(units_size, "64kb", -EINVAL);
    refuses(units_size, "k", -EINVAL);
    refuses(units_size, "1s", -EINVAL);
}
END_TEST

START_TEST(durations)
{
    reads(units_duration_ms, "0", 0);
    reads(units_duration_ms, "250ms", 250);
    reads(units_duration_ms, "25s", 25000);
    reads(units_duration_ms, "10m", 600000);
    reads(units_duration_ms, "2h", 7200000);
    reads(units_duration_ms, "1d", 86400000);
    reads(units_duration_ms, "0s", 0);
    refuses(units_duration_ms, "30", -EINVAL); /* 30 what? */
    refuses(units_duration_ms, "00", -EINVAL);
    refuses(units_duration_ms, "s", -EINVAL);
    refuses(units_duration_ms, "1M", -EINVAL);
    refuses(units_duration_ms, "1min", -EINVAL);
    refuses(units_duration_ms, "213503982335d", -ERANGE);
}
END_TEST

/* What strtoull() would take. */
START_TEST(loose_numbers)
{
    static parse_fn *const all[] = {units_count, units_size, units_duration_ms};
    static const char *const texts[] = {
        "",     " 1",  "1 ",  "+1",  "-1",    "-0",
        "0x10", "1.5", "1e3", "one", "1,000", "99999999999999999999x",
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
            refuses(all[i], texts[k], -EINVAL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("units");
    TCase *tcase = tcase_create("units");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, counts);
    tcase_add_test(tcase, sizes);
    tcase_add_test(tcase, durations);
    tcase_add_test(tcase, loose_numbers);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
