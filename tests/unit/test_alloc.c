/*
 * test_alloc - the allocator's limits, hooks, counts and failures.
 */

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "nib.h"

/* Calls that the hooks below saw, and what they were given. */
static struct {
    int mallocs;
    int reallocs;
    int frees;
    size_t last_bytes;
    void *last_pointer;
} seen;

static int marker;

static void *seen_malloc(size_t bytes, void *arg)
{
    ck_assert_ptr_eq(arg, &marker);
    seen.mallocs++;
    seen.last_bytes = bytes;
    return malloc(bytes);
}

static void *seen_realloc(void *p, size_t bytes, void *arg)
{
    ck_assert_ptr_eq(arg, &marker);
    seen.reallocs++;
    seen.last_bytes = bytes;
    seen.last_pointer = p;
    return realloc(p, bytes);
}

static void seen_free(void *p, void *arg)
{
    ck_assert_ptr_eq(arg, &marker);
    seen.frees++;
    seen.last_pointer = p;
    free(p);
}

static const struct nib__alloc_hooks seen_hooks = {
    seen_malloc,
    seen_realloc,
    seen_free,
    &marker,
};

static void reset(void)
{
    nib__alloc_set_hooks(NULL);
    nib__alloc_fail_at(0);
    nib__alloc_watch(true);
    nib__alloc_watch(false);
    memset(&seen, 0, sizeof(seen));
}

START_TEST(zero_bytes_give_a_block)
{
    void *p = nib__alloc(0);
    void *z = nib__alloc_zero(0);
    void *a = nib__alloc_array(0, 8);
    void *r = nib__realloc(NULL, 0);

    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_nonnull(z);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(r);
    r = nib__realloc(r, 0);
    ck_assert_ptr_nonnull(r);
    nib__free(p);
    nib__free(z);
    nib__free(a);
    nib__free(r);
    nib__free(NULL);
}
END_TEST

START_TEST(zero_is_zeroed)
{
    static const unsigned char zero[1000];

    /* Once each by calloc and by the counting half. */
    for (int watch = 0; watch < 2; watch++) {
        unsigned char *p = nib__alloc(sizeof(zero));

        nib__alloc_watch(watch == 1);
        ck_assert_ptr_nonnull(p);
        memset(p, 0xff, sizeof(zero));
        nib__free(p);
        p = nib__alloc_zero(sizeof(zero));
        ck_assert_ptr_nonnull(p);
        ck_assert_mem_eq(p, zero, sizeof(zero));
        nib__free(p);
    }
}
END_TEST

START_TEST(realloc_keeps_the_bytes)
{
    char *p = nib__realloc(NULL, 6);

    ck_assert_ptr_nonnull(p);
    memcpy(p, "hello", 6);
    p = nib__realloc(p, 100000);
    ck_assert_ptr_nonnull(p);
    ck_assert_str_eq(p, "hello");
    p = nib__realloc(p, 3);
    ck_assert_ptr_nonnull(p);
    ck_assert_mem_eq(p, "hel", 3);
    nib__free(p);
}
END_TEST

START_TEST(array_is_checked_for_overflow)
{
    volatile size_t half = SIZE_MAX / 2 + 1;
    void *p;

    nib__alloc_watch(true);
    ck_assert_ptr_null(nib__alloc_array(half, 2));
    ck_assert_ptr_null(nib__alloc_array(2, half));
    ck_assert_ptr_null(nib__alloc_array(half, half));
    ck_assert_int_eq(nib__alloc_count(), 0);

    p = nib__alloc_array(7, 9);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(nib__alloc_count(), 1);
    ck_assert_uint_eq(nib__alloc_largest(), 63);
    nib__free(p);
}
END_TEST

START_TEST(add_overflow_at_the_edge)
{
    size_t sum = 0;

    ck_assert(!nib__add_overflow(SIZE_MAX - 1, 1, &sum));
    ck_assert_uint_eq(sum, SIZE_MAX);
    ck_assert(!nib__add_overflow(0, 0, &sum));
    ck_assert_uint_eq(sum, 0);
    ck_assert(nib__add_overflow(SIZE_MAX, 1, &sum));
    ck_assert(nib__add_overflow(SIZE_MAX, SIZE_MAX, &sum));
}
END_TEST

START_TEST(strings_are_copied)
{
    static const char unterminated[3] = {'a', 'b', 'c'};
    char *s = nib__strdup("text");
    char *empty = nib__strdup("");
    char *cut = nib__strndup("text", 2);
    char *whole = nib__strndup("text", SIZE_MAX);
    char *raw = nib__strndup(unterminated, sizeof(unterminated));
    char *none = nib__strndup(unterminated, 0);

    ck_assert_str_eq(s, "text");
    ck_assert_str_eq(empty, "");
    ck_assert_str_eq(cut, "te");
    ck_assert_str_eq(whole, "text");
    ck_assert_str_eq(raw, "abc");
    ck_assert_str_eq(none, "");
    nib__free(s);
    nib__free(empty);
    nib__free(cut);
    nib__free(whole);
    nib__free(raw);
    nib__free(none);
}
END_TEST

START_TEST(hooks_get_every_call)
{
    void *p;
    void *q;

    nib__alloc_set_hooks(&seen_hooks);
    p = nib__alloc(10);
    ck_assert_int_eq(seen.mallocs, 1);
    ck_assert_uint_eq(seen.last_bytes, 10);
    q = nib__realloc(NULL, 20);
    ck_assert_int_eq(seen.mallocs, 2);
    ck_assert_int_eq(seen.reallocs, 0);
    p = nib__realloc(p, 30);
    ck_assert_int_eq(seen.reallocs, 1);
    ck_assert_uint_eq(seen.last_bytes, 30);
    nib__free(p);
    ck_assert_int_eq(seen.frees, 1);
    nib__free(NULL);
    ck_assert_int_eq(seen.frees, 1);
    q = nib__realloc(q, 0);
    ck_assert_uint_eq(seen.last_bytes, 1);
    nib__free(q);
    nib__free(nib__alloc_zero(0));
    ck_assert_uint_eq(seen.last_bytes, 1);
    nib__free(nib__strdup("abc"));
    ck_assert_uint_eq(seen.last_bytes, 4);
    ck_assert_int_eq(seen.mallocs, 4);
    ck_assert_int_eq(seen.frees, 4);

    nib__alloc_set_hooks(NULL);
    nib__free(nib__alloc(1));
    ck_assert_int_eq(seen.mallocs, 4);
    ck_assert_int_eq(seen.frees, 4);
}
END_TEST

START_TEST(public_allocator)
{
    ck_assert_int_eq(nib_set_allocator(seen_malloc, NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(nib_set_allocator(NULL, seen_realloc, seen_free, NULL),
                     -EINVAL);
    ck_assert_int_eq(nib_set_allocator(seen_malloc, seen_realloc, NULL, NULL),
                     -EINVAL);
    nib__free(nib__alloc(1));
    ck_assert_int_eq(seen.mallocs, 0);

    ck_assert_int_eq(nib_set_allocator(seen_malloc, seen_realloc, seen_free,
                                       &marker),
                     0);
    nib__free(nib__alloc(1));
    ck_assert_int_eq(seen.mallocs, 1);
    ck_assert_int_eq(seen.frees, 1);

    ck_assert_int_eq(nib_set_allocator(NULL, NULL, NULL, NULL), 0);
    nib__free(nib__alloc(1));
    ck_assert_int_eq(seen.mallocs, 1);
    ck_assert_int_eq(seen.frees, 1);
}
END_TEST

START_TEST(counts_are_exact)
{
    void *before = nib__alloc(5000);
    void *p;
    void *q;

    nib__free(nib__alloc(9000)); /* not watched yet */
    nib__alloc_watch(true);
    ck_assert_int_eq(nib__alloc_count(), 0);
    ck_assert_int_eq(nib__alloc_live(), 0);
    ck_assert_uint_eq(nib__alloc_largest(), 0);

    p = nib__alloc(10);
    q = nib__alloc_zero(300);
    ck_assert_int_eq(nib__alloc_count(), 2);
    ck_assert_int_eq(nib__alloc_live(), 2);
    ck_assert_uint_eq(nib__alloc_largest(), 300);
    p = nib__realloc(p, 200);
    ck_assert_int_eq(nib__alloc_count(), 3);
    ck_assert_int_eq(nib__alloc_live(), 2);
    ck_assert_uint_eq(nib__alloc_largest(), 300);
    nib__free(p);
    nib__free(q);
    nib__free(NULL);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__free(before);
    ck_assert_int_eq(nib__alloc_live(), -1);

    nib__alloc_watch(false);
    nib__free(nib__alloc(9000));
    ck_assert_int_eq(nib__alloc_count(), 3);
    ck_assert_uint_eq(nib__alloc_largest(), 300);
    nib__alloc_watch(true);
    ck_assert_int_eq(nib__alloc_count(), 0);
    ck_assert_uint_eq(nib__alloc_largest(), 0);
}
END_TEST

START_TEST(the_nth_fails_and_no_other)
{
    /* Each kind of request, once as the one that fails. */
    for (long n = 1; n <= 6; n++) {
        void *p[6];

        nib__alloc_watch(true);
        nib__alloc_fail_at(n);
        p[0] = nib__alloc(1);
        p[1] = nib__alloc_zero(1);
        p[2] = nib__alloc_array(1, 1);
        p[3] = nib__realloc(NULL, 1);
        p[4] = nib__strdup("s");
        ck_assert_int_eq(nib__alloc_fail_pending(), n == 6);
        p[5] = nib__strndup("s", 1);
        ck_assert(!nib__alloc_fail_pending());
        ck_assert_int_eq(nib__alloc_count(), 6);
        ck_assert_int_eq(nib__alloc_live(), 5);
        for (long i = 0; i < 6; i++) {
            ck_assert_int_eq(p[i] == NULL, i == n - 1);
            nib__free(p[i]);
        }
        ck_assert_int_eq(nib__alloc_live(), 0);
    }
}
END_TEST

START_TEST(a_failed_realloc_leaves_the_block)
{
    char *p = nib__strdup("still here");
    char *q;

    nib__alloc_fail_at(1);
    q = nib__realloc(p, 100000);
    ck_assert_ptr_null(q);
    ck_assert_str_eq(p, "still here");
    nib__free(p);
}
END_TEST

START_TEST(failure_can_be_withdrawn)
{
    void *p;

    ck_assert(!nib__alloc_fail_pending());
    nib__alloc_fail_at(1);
    ck_assert(nib__alloc_fail_pending());
    nib__alloc_fail_at(0);
    ck_assert(!nib__alloc_fail_pending());
    p = nib__alloc(1);
    ck_assert_ptr_nonnull(p);
    nib__free(p);
}
END_TEST

static void *no_memory(size_t bytes, void *arg)
{
    (void)bytes;
    (void)arg;
    return NULL;
}

START_TEST(an_allocator_without_memory)
{
    struct nib__alloc_hooks hooks = seen_hooks;

    hooks.malloc_fn = no_memory;
    nib__alloc_set_hooks(&hooks);
    nib__alloc_watch(true);
    ck_assert_ptr_null(nib__alloc(70));
    ck_assert_ptr_null(nib__alloc_zero(1));
    ck_assert_ptr_null(nib__alloc_array(1, 1));
    ck_assert_ptr_null(nib__realloc(NULL, 1));
    ck_assert_ptr_null(nib__strdup("s"));
    ck_assert_ptr_null(nib__strndup("s", 1));
    ck_assert_int_eq(nib__alloc_count(), 6);
    ck_assert_int_eq(nib__alloc_live(), 0);
    ck_assert_uint_eq(nib__alloc_largest(), 70);
}
END_TEST

enum {
    THREADS = 4,
    ROUNDS = 5000,
};

static void *allocate_often(void *arg)
{
    long *failures = arg;

    for (size_t i = 1; i <= ROUNDS; i++) {
        void *p = nib__alloc(i);

        *failures += p == NULL;
        nib__free(p);
    }
    return NULL;
}

START_TEST(threads_lose_no_count)
{
    pthread_t threads[THREADS];
    long failures[THREADS] = {0};
    long sum = 0;

    nib__alloc_watch(true);
    nib__alloc_fail_at(THREADS * ROUNDS / 2);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_often,
                                        &failures[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        sum += failures[i];
    }
    ck_assert_int_eq(sum, 1);
    ck_assert(!nib__alloc_fail_pending());
    ck_assert_int_eq(nib__alloc_count(), THREADS * ROUNDS);
    ck_assert_int_eq(nib__alloc_live(), 0);
    ck_assert_uint_eq(nib__alloc_largest(), ROUNDS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alloc");
    TCase *tc = tcase_create("alloc");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, reset, reset);
    tcase_add_test(tc, zero_bytes_give_a_block);
    tcase_add_test(tc, zero_is_zeroed);
    tcase_add_test(tc, realloc_keeps_the_bytes);
    tcase_add_test(tc, array_is_checked_for_overflow);
    tcase_add_test(tc, add_overflow_at_the_edge);
    tcase_add_test(tc, strings_are_copied);
    tcase_add_test(tc, hooks_get_every_call);
    tcase_add_test(tc, public_allocator);
    tcase_add_test(tc, counts_are_exact);
    tcase_add_test(tc, the_nth_fails_and_no_other);
    tcase_add_test(tc, a_failed_realloc_leaves_the_block);
    tcase_add_test(tc, failure_can_be_withdrawn);
    tcase_add_test(tc, an_allocator_without_memory);
    tcase_add_test(tc, threads_lose_no_count);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
