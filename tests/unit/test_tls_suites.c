/*
 * test_tls_suites - names and numbers of cipher suites.
 */

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "system/tls_engine.h"
#include "system/tls_suites.h"

static const uint16_t all[] = {
    0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xc02f, 0xc030, 0xcca8, 0xcca9,
};

enum { ALL = sizeof all / sizeof all[0] };

static int parse(const char *list, uint16_t *numbers, char *wrong)
{
    const char *at = "";
    size_t len = 0;
    int n = nib__tls_suites_parse(list, numbers, NIB__TLS_SUITES, &at, &len);

    memcpy(wrong, at, len);
    wrong[len] = '\0';
    return n;
}

START_TEST(each_has_two_names)
{
    const struct nib__tls_suite *suite = nib__tls_suite(all[_i]);
    uint16_t numbers[NIB__TLS_SUITES];
    char wrong[100];

    ck_assert_ptr_nonnull(suite);
    ck_assert_uint_eq(suite->number, all[_i]);
    ck_assert_int_eq(parse(suite->name, numbers, wrong), 1);
    ck_assert_uint_eq(numbers[0], all[_i]);
    ck_assert_int_eq(parse(suite->openssl, numbers, wrong), 1);
    ck_assert_uint_eq(numbers[0], all[_i]);
}
END_TEST

START_TEST(there_are_no_others)
{
    unsigned count = 0;

    for (unsigned number = 0; number <= 0xffff; number++)
        if (nib__tls_suite((uint16_t)number) != NULL)
            count++;
    ck_assert_uint_eq(count, NIB__TLS_SUITES);
    ck_assert_uint_eq(count, ALL);
}
END_TEST

START_TEST(a_list_keeps_its_order)
{
    uint16_t numbers[NIB__TLS_SUITES];
    char wrong[100];

    ck_assert_int_eq(parse(" ecdhe-rsa-aes128-gcm-sha256:,"
                           "TLS_AES_128_GCM_SHA256 "
                           "tls_ecdhe_ecdsa_with_chacha20_poly1305_sha256:",
                           numbers, wrong),
                     3);
    ck_assert_uint_eq(numbers[0], NIB__RSA_AES_128_GCM);
    ck_assert_uint_eq(numbers[1], NIB__TLS13_AES_128_GCM);
    ck_assert_uint_eq(numbers[2], NIB__ECDSA_CHACHA20);
    ck_assert_str_eq(wrong, "");
    ck_assert_int_eq(parse("", numbers, wrong), 0);
    ck_assert_int_eq(parse(" :, ", numbers, wrong), 0);
}
END_TEST

struct mistake {
    const char *list;
    const char *wrong;
};

static const struct mistake mistakes[] = {
    {"AES128-SHA", "AES128-SHA"},
    {"TLS_AES_128_GCM_SHA256:DHE-RSA-AES128-GCM-SHA256, none",
     "DHE-RSA-AES128-GCM-SHA256"},
    {"TLS_AES_128_GCM_SHA25", "TLS_AES_128_GCM_SHA25"},
    {"TLS_AES_128_GCM_SHA2566", "TLS_AES_128_GCM_SHA2566"},
    {"HIGH:!aNULL", "HIGH"},
};

START_TEST(the_first_wrong_name_is_told)
{
    uint16_t numbers[NIB__TLS_SUITES];
    char wrong[100];

    ck_assert_int_eq(parse(mistakes[_i].list, numbers, wrong), -EINVAL);
    ck_assert_str_eq(wrong, mistakes[_i].wrong);
}
END_TEST

START_TEST(a_list_has_no_more_than_its_room)
{
    static const char two[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
    uint16_t numbers[2] = {0, 0};
    const char *wrong;
    size_t len;

    ck_assert_int_eq(nib__tls_suites_parse(two, numbers, 1, &wrong, &len),
                     -EINVAL);
    ck_assert_ptr_eq(wrong, two + 23);
    ck_assert_uint_eq(len, 22);
    ck_assert_uint_eq(numbers[1], 0);
    ck_assert_int_eq(nib__tls_suites_parse(two, numbers, 2, &wrong, &len), 2);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tls_suites");
    TCase *tc = tcase_create("suites");

    tcase_add_loop_test(tc, each_has_two_names, 0, ALL);
    tcase_add_test(tc, there_are_no_others);
    tcase_add_test(tc, a_list_keeps_its_order);
    tcase_add_loop_test(tc, the_first_wrong_name_is_told, 0,
                        sizeof mistakes / sizeof mistakes[0]);
    tcase_add_test(tc, a_list_has_no_more_than_its_room);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
