/*
 * test_hash - base/hash: the published values of FNV-1a.
 */
#include "base/hash.h"

#include <check.h>
#include <stdlib.h>

START_TEST(published_values)
{
    ck_assert_uint_eq(nib__hash("", 0), 0x811c9dc5u);
    ck_assert_uint_eq(nib__hash("a", 1), 0xe40c292cu);
    ck_assert_uint_eq(nib__hash("foobar", 6), 0xbf9cf968u);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash");
    TCase *tc = tcase_create("hash");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, published_values);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
