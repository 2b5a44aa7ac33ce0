/*
 * test_tokens - words and lists.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "protocol/tokens.h"

START_TEST(bytes_of_a_token)
{
    static const char all[] = "!#$%&'*+-.^_`|~0123456789"
                              "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (int c = 0; c < 256; c++) {
        char s[1] = {(char)c};
        bool expected = c != 0 && strchr(all, c) != NULL;

        ck_assert_msg(nib__token_valid(s, 1) == expected, "byte %d", c);
        ck_assert_uint_eq(nib__token_span(s, 1), expected);
    }
    ck_assert(!nib__token_valid("", 0));
    ck_assert(nib__token_valid("a b", 1));
    ck_assert(!nib__token_valid("a b", 3));
    ck_assert_uint_eq(nib__token_span("ab:c", 4), 2);
    ck_assert_uint_eq(nib__token_span("abcd", 3), 3);
}
END_TEST

START_TEST(bytes_of_a_value)
{
    for (int c = 0; c < 256; c++) {
        char s[3] = {'x', (char)c, 'y'};
        bool expected = c == '\t' || (c >= 0x20 && c != 0x7F);

        ck_assert_msg(nib__field_valid(s, 3) == expected, "byte %d", c);
    }
    ck_assert(nib__field_valid("", 0));
}
END_TEST

START_TEST(words_without_case)
{
    ck_assert(nib__same_word("uPgRaDe", 7, "Upgrade"));
    ck_assert(nib__same_word("upgrade, x", 7, "UPGRADE"));
    ck_assert(nib__same_word("", 0, ""));
    ck_assert(!nib__same_word("upgrade", 6, "upgrade"));
    ck_assert(!nib__same_word("upgrade", 7, "upgrad"));
    ck_assert(!nib__same_word("upgrade", 7, "upgrades"));
    ck_assert(!nib__same_word("xupgrade", 8, "upgrade"));
    ck_assert(!nib__same_word("a", 1, ""));
    ck_assert(!nib__same_word("", 0, "a"));
    ck_assert(!nib__same_word("a\0b", 3, "a"));
    /* Only letters have a case: '@' and '`', '[' and '{' differ by the bit. */
    ck_assert(!nib__same_word("@[", 2, "`{"));
    ck_assert(!nib__same_word("\xc4", 1, "\xe4"));
}
END_TEST

START_TEST(elements_of_a_list)
{
    static const struct {
        const char *list;
        const char *elements[4];
    } table[] = {
        {"", {NULL}},
        {" \t ", {NULL}},
        {",", {NULL}},
        {" , ,\t,", {NULL}},
        {"a", {"a"}},
        {" a ", {"a"}},
        {"a,b", {"a", "b"}},
        {"a , \tb\t ,c", {"a", "b", "c"}},
        {",,a,,b,,", {"a", "b"}},
        {"a b , c", {"a b", "c"}},
        {"keep-alive, Upgrade", {"keep-alive", "Upgrade"}},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const char *list = table[i].list;
        const char *element;

        for (size_t k = 0; k < 4 && table[i].elements[k]; k++) {
            size_t len = nib__list_next(&list, &element);

            ck_assert_uint_eq(len, strlen(table[i].elements[k]));
            ck_assert_mem_eq(element, table[i].elements[k], len);
        }
        ck_assert_uint_eq(nib__list_next(&list, &element), 0);
        ck_assert_uint_eq(nib__list_next(&list, &element), 0);
        ck_assert_str_eq(list, "");
    }
}
END_TEST

START_TEST(lists_of_tokens)
{
    ck_assert(nib__token_list_valid(""));
    ck_assert(nib__token_list_valid("chat"));
    ck_assert(nib__token_list_valid("chat, v2.chat ,,x"));
    ck_assert(!nib__token_list_valid("a b"));
    ck_assert(!nib__token_list_valid("a, b/c"));
    ck_assert(!nib__token_list_valid("a; q=1"));
    ck_assert(!nib__token_list_valid("\"a\""));
    ck_assert(!nib__token_list_valid("a,\xc3\xa9"));
    ck_assert(!nib__token_list_valid("a\n"));

    ck_assert(nib__token_list_has("base64, binary", "binary", 6));
    ck_assert(nib__token_list_has("base64,binary", "base64", 6));
    ck_assert(nib__token_list_has(" binary ", "binary, x", 6));
    ck_assert(!nib__token_list_has("base64, binary", "Binary", 6));
    ck_assert(!nib__token_list_has("base64, binary", "bin", 3));
    ck_assert(!nib__token_list_has("base64, binary", "binaryx", 7));
    ck_assert(!nib__token_list_has("foo,binary", "oo,b", 4));
    ck_assert(!nib__token_list_has("", "", 0));
    ck_assert(!nib__token_list_has("a,,b", "", 0));
}
END_TEST

START_TEST(no_byte_outside_is_read)
{
    struct guard g = guard_new();

    for (size_t len = 0; len < 20; len++) {
        char *s = (char *)g.end - len;

        memset(s, 'a', len);
        ck_assert_uint_eq(nib__token_span(s, len), len);
        ck_assert(nib__field_valid(s, len));
        ck_assert(!nib__same_word(s, len, "aaaaaaaaaaaaaaaaaaaaaaaa"));
    }
    guard_free(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokens");
    TCase *tc = tcase_create("tokens");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, bytes_of_a_token);
    tcase_add_test(tc, bytes_of_a_value);
    tcase_add_test(tc, words_without_case);
    tcase_add_test(tc, elements_of_a_list);
    tcase_add_test(tc, lists_of_tokens);
    tcase_add_test(tc, no_byte_outside_is_read);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
