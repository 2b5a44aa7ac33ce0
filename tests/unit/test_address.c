/*
 * test_address - what the address of the command line becomes.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"

static const struct {
    const char *text;
    const char *listen;
} taken[] = {
    {"8080", "tcp:[::]:8080"},
    {":8080", "tcp:[::]:8080"},
    {"*:8080", "tcp:[::]:8080"},
    {"0", "tcp:[::]:0"},
    {"65535", "tcp:[::]:65535"},
    {"127.0.0.1:8080", "tcp:127.0.0.1:8080"},
    {"0.0.0.0:80", "tcp:0.0.0.0:80"},
    {"localhost:8080", "tcp:localhost:8080"},
    {"my-host_1.example.org:1", "tcp:my-host_1.example.org:1"},
    {"[::1]:8080", "tcp:[::1]:8080"},
    {"[::]:0", "tcp:[::]:0"},
    {"[fe80::1%eth0]:8080", "tcp:[fe80::1%eth0]:8080"},
    {"[::ffff:127.0.0.1]:8080", "tcp:[::ffff:127.0.0.1]:8080"},
};

/* With a word of what is expected. */
static const struct {
    const char *text;
    const char *expected;
} refused[] = {
    {"", "[addr:]port"},
    {":", "[addr:]port"},
    {"localhost", "[addr:]port"},
    {"localhost:", "[addr:]port"},
    {"8080x", "[addr:]port"},
    {"-1", "[addr:]port"},
    {"+80", "[addr:]port"},
    {" 80", "[addr:]port"},
    {"127.0.0.1:http", "[addr:]port"},
    {"host/x:80", "[addr:]port"},
    {"http://host:80", "brackets"},
    {"[::1]", "[addr:]port"},
    {"65536", "65535"},
    {"99999999999999999999", "65535"},
    {"::1:8080", "brackets"},
    {"2001:db8::1:8080", "brackets"},
    {"[]:80", "brackets"},
    {"[127.0.0.1]:80", "brackets"},
    {"[::1:80", "brackets"},
    {"[::1/x]:80", "brackets"},
};

START_TEST(forms_are_translated)
{
    char listen[ADDRESS_BYTES];

    ck_assert_ptr_null(address_parse(taken[_i].text, listen));
    ck_assert_str_eq(listen, taken[_i].listen);
}
END_TEST

START_TEST(others_are_refused)
{
    char listen[ADDRESS_BYTES] = "untouched";
    const char *expected = address_parse(refused[_i].text, listen);

    ck_assert_ptr_nonnull(expected);
    ck_assert_msg(strstr(expected, refused[_i].expected) != NULL, "'%s': %s",
                  refused[_i].text, expected);
    ck_assert_str_eq(listen, "untouched");
}
END_TEST

START_TEST(a_host_has_255_characters_at_most)
{
    char listen[ADDRESS_BYTES];
    char text[300];

    memset(text, 'a', 256);
    memcpy(text + 255, ":65535", 7);
    ck_assert_ptr_null(address_parse(text, listen));
    ck_assert_uint_eq(strlen(listen), 4 + 255 + 6);
    memcpy(text + 256, ":65535", 7);
    text[255] = 'a';
    ck_assert_str_eq(address_parse(text, listen),
                     "a host of at most 255 characters");
}
END_TEST

START_TEST(the_url_can_be_opened)
{
    char url[ADDRESS_URL_BYTES];

    address_url("127.0.0.1:8080", false, "/", url);
    ck_assert_str_eq(url, "http://127.0.0.1:8080/");
    address_url("[::1]:80", false, "/chat", url);
    ck_assert_str_eq(url, "http://[::1]:80/chat");
    address_url("[::]:8080", false, "/", url);
    ck_assert_str_eq(url, "http://localhost:8080/");
    address_url("0.0.0.0:1", false, "/", url);
    ck_assert_str_eq(url, "http://localhost:1/");
    address_url("10.0.0.0:1", false, "/", url);
    ck_assert_str_eq(url, "http://10.0.0.0:1/");
    address_url("[::]:443", true, "/chat", url);
    ck_assert_str_eq(url, "https://localhost:443/chat");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("address");
    TCase *tc = tcase_create("address");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tc, forms_are_translated, 0,
                        sizeof(taken) / sizeof(taken[0]));
    tcase_add_loop_test(tc, others_are_refused, 0,
                        sizeof(refused) / sizeof(refused[0]));
    tcase_add_test(tc, a_host_has_255_characters_at_most);
    tcase_add_test(tc, the_url_can_be_opened);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
