/*
 * test_ticket_keys - which key encrypts, and which still decrypt.
 */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "system/ticket_keys.h"
#include "system/timer.h"

enum { KEY = sizeof(struct nib__ticket_key) };

static char file[] = "/tmp/nib-keys-XXXXXX";
static char error[200];

static struct nib__ticket_keys *random_keys(void)
{
    struct nib__ticket_keys *keys;

    ck_assert_int_eq(nib__ticket_keys_new(NULL, &keys, error, sizeof error),
                     0);
    return keys;
}

/* A file of so many bytes, of which each tells which key it is of. */
static int file_keys(size_t bytes, struct nib__ticket_keys **keys)
{
    FILE *out = fopen(file, "wb");
    int err;

    ck_assert_ptr_nonnull(out);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(1 + i / KEY), out);
    ck_assert_int_eq(fclose(out), 0);
    error[0] = '\0';
    err = nib__ticket_keys_new(file, keys, error, sizeof error);
    return err;
}

static bool found(struct nib__ticket_keys *keys,
                  const struct nib__ticket_key *key, bool *current)
{
    struct nib__ticket_key copy;

    if (!nib__ticket_key_find(keys, key->name, &copy, current))
        return false;
    ck_assert_mem_eq(&copy, key, sizeof copy);
    return true;
}

START_TEST(random_keys_differ)
{
    struct nib__ticket_keys *a = random_keys(), *b = random_keys();
    struct nib__ticket_key first, second;
    bool current;

    nib__ticket_key_current(a, &first);
    nib__ticket_key_current(b, &second);
    ck_assert_mem_ne(first.name, second.name, sizeof first.name);
    ck_assert_mem_ne(first.secret, second.secret, sizeof first.secret);
    ck_assert_mem_ne(first.mac, second.mac, sizeof first.mac);
    ck_assert_mem_ne(first.secret, first.mac, sizeof first.mac);
    ck_assert(found(a, &first, &current));
    ck_assert(current);
    ck_assert(!found(a, &second, &current));
    nib__ticket_keys_unref(a);
    nib__ticket_keys_unref(b);
}
END_TEST

START_TEST(keys_change_twice_a_day_and_two_are_kept)
{
    struct nib__ticket_keys *keys = random_keys();
    struct nib__ticket_key made[5];
    bool current;

    for (int i = 0; i < 5; i++) {
        nib__ticket_key_current(keys, &made[i]);
        for (int j = 0; j <= i; j++) {
            ck_assert_int_eq(found(keys, &made[j], &current), i - j < 3);
            if (i - j < 3)
                ck_assert_int_eq(current, i == j);
        }
        nib__clock_advance_ms(NIB__TICKET_ROTATE_MS - 1000);
        ck_assert(found(keys, &made[i], &current));
        ck_assert(current);
        nib__clock_advance_ms(1000);
    }
    nib__ticket_keys_unref(keys);
}
END_TEST

START_TEST(looking_for_a_key_is_enough_to_change_it)
{
    struct nib__ticket_keys *keys = random_keys();
    struct nib__ticket_key first, second;
    bool current;

    nib__ticket_key_current(keys, &first);
    nib__clock_advance_ms(NIB__TICKET_ROTATE_MS);
    ck_assert(found(keys, &first, &current));
    ck_assert(!current);
    nib__ticket_key_current(keys, &second);
    ck_assert_mem_ne(first.name, second.name, sizeof first.name);
    nib__ticket_keys_unref(keys);
}
END_TEST

struct size {
    size_t bytes;
    unsigned keys; /* 0: refused */
};

static const struct size sizes[] = {
    {0, 0},   {1, 0},   {79, 0},  {80, 1},  {81, 0},
    {159, 0}, {160, 2}, {240, 3}, {241, 0}, {320, 0},
};

START_TEST(a_file_has_one_to_three_keys)
{
    struct nib__ticket_keys *keys;
    struct nib__ticket_key key;
    char text[100];
    bool current;

    if (sizes[_i].keys == 0) {
        ck_assert_int_eq(file_keys(sizes[_i].bytes, &keys), -EINVAL);
        snprintf(text, sizeof text, "%s: expected 1 to 3 keys of 80 bytes",
                 file);
        ck_assert_str_eq(error, text);
        return;
    }
    ck_assert_int_eq(file_keys(sizes[_i].bytes, &keys), 0);
    for (unsigned i = 1; i <= 4; i++) {
        memset(&key, (int)i, sizeof key);
        ck_assert_int_eq(found(keys, &key, &current), i <= sizes[_i].keys);
        if (i <= sizes[_i].keys)
            ck_assert_int_eq(current, i == 1);
    }
    nib__ticket_key_current(keys, &key);
    ck_assert_int_eq(key.name[0], 1);
    nib__ticket_keys_unref(keys);
}
END_TEST

START_TEST(keys_of_a_file_do_not_change)
{
    struct nib__ticket_keys *keys;
    struct nib__ticket_key key;

    ck_assert_int_eq(file_keys(KEY, &keys), 0);
    nib__clock_advance_ms(10 * (uint64_t)NIB__TICKET_ROTATE_MS);
    nib__ticket_key_current(keys, &key);
    ck_assert_int_eq(key.secret[31], 1);
    nib__ticket_keys_unref(keys);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named)
{
    struct nib__ticket_keys *keys;

    ck_assert_int_eq(
        nib__ticket_keys_new("/none/keys", &keys, error, sizeof error),
        -ENOENT);
    ck_assert_str_eq(error, "/none/keys: not found");
    ck_assert_int_eq(nib__ticket_keys_new("/tmp", &keys, error, sizeof error),
                     -EISDIR);
    ck_assert_str_eq(error, "/tmp: Is a directory");
}
END_TEST

START_TEST(no_memory_is_an_error)
{
    struct nib__ticket_keys *keys;

    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__ticket_keys_new(NULL, &keys, error, sizeof error),
                     -ENOMEM);
    ck_assert_str_ne(error, "");
}
END_TEST

START_TEST(the_last_reference_frees_them)
{
    struct nib__ticket_keys *keys;
    struct nib__ticket_key key;

    nib__alloc_watch(true);
    keys = random_keys();
    ck_assert_ptr_eq(nib__ticket_keys_ref(keys), keys);
    nib__ticket_keys_unref(keys);
    nib__ticket_key_current(keys, &key);
    ck_assert_int_eq(nib__alloc_live(), 1);
    nib__ticket_keys_unref(keys);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__ticket_keys_unref(NULL);
    nib__alloc_watch(false);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ticket_keys");
    TCase *tc = tcase_create("keys");

    tcase_add_test(tc, random_keys_differ);
    tcase_add_test(tc, keys_change_twice_a_day_and_two_are_kept);
    tcase_add_test(tc, looking_for_a_key_is_enough_to_change_it);
    tcase_add_loop_test(tc, a_file_has_one_to_three_keys, 0,
                        sizeof sizes / sizeof sizes[0]);
    tcase_add_test(tc, keys_of_a_file_do_not_change);
    tcase_add_test(tc, a_file_that_cannot_be_read_is_named);
    tcase_add_test(tc, no_memory_is_an_error);
    tcase_add_test(tc, the_last_reference_frees_them);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    int fd = mkstemp(file), failed;

    if (fd < 0)
        return EXIT_FAILURE;
    close(fd);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    unlink(file);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
