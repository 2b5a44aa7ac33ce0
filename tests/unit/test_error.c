/*
 * test_error - the texts of result codes.
 */

#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

START_TEST(own_codes)
{
    ck_assert_int_eq(NIB_EPROTO, -1000);
    ck_assert_int_eq(NIB_ESTATE, -1001);
    ck_assert_int_eq(NIB_ECONFIG, -1002);
    ck_assert_str_eq(nib_strerror(0), "success");
    ck_assert_str_eq(nib_strerror(-1000), "the peer broke the protocol");
    ck_assert_str_eq(nib_strerror(-1001), "call not allowed in this state");
    ck_assert_str_eq(nib_strerror(-1002), "settings contradict each other");
}
END_TEST

START_TEST(errnos_with_a_meaning_here)
{
    ck_assert_str_eq(nib_strerror(-EAGAIN), "not possible without waiting");
    ck_assert_str_eq(nib_strerror(-EBUSY), "in use by another call");
    ck_assert_str_eq(nib_strerror(-ECANCELED), "cancelled, the server stops");
    ck_assert_str_eq(nib_strerror(-EDEADLK), "must not wait on this thread");
    ck_assert_str_eq(nib_strerror(-EEXIST), "exists already");
    ck_assert_str_eq(nib_strerror(-EILSEQ), "text is not UTF-8");
    ck_assert_str_eq(nib_strerror(-EINVAL), "invalid argument");
    ck_assert_str_eq(nib_strerror(-EMSGSIZE), "larger than the limit");
    ck_assert_str_eq(nib_strerror(-ENOENT), "not found");
    ck_assert_str_eq(nib_strerror(-ENOMEM), "out of memory");
    ck_assert_str_eq(nib_strerror(-EPIPE), "connection is closing or closed");
    ck_assert_str_eq(nib_strerror(-ETIMEDOUT), "timed out");
}
END_TEST

START_TEST(other_errnos)
{
    ck_assert_str_eq(nib_strerror(-EADDRINUSE), "Address already in use");
    ck_assert_str_eq(nib_strerror(-ECONNRESET), "Connection reset by peer");
    ck_assert_str_eq(nib_strerror(-EMFILE), "Too many open files");
}
END_TEST

START_TEST(unknown_codes)
{
    static const int codes[] = {1, EINVAL, INT_MAX, -999, -1003, INT_MIN};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        ck_assert_str_eq(nib_strerror(codes[i]), "unknown error");
}
END_TEST

START_TEST(texts_are_static)
{
    const char *first = nib_strerror(-ECONNRESET);

    for (int code = 10; code >= -1100; code--) {
        ck_assert_ptr_nonnull(nib_strerror(code));
        ck_assert_str_ne(nib_strerror(code), "");
    }
    ck_assert_ptr_eq(nib_strerror(-ECONNRESET), first);
    ck_assert_str_eq(first, "Connection reset by peer");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *tc = tcase_create("error");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, own_codes);
    tcase_add_test(tc, errnos_with_a_meaning_here);
    tcase_add_test(tc, other_errnos);
    tcase_add_test(tc, unknown_codes);
    tcase_add_test(tc, texts_are_static);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
