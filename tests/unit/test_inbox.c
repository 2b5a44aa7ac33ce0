/*
 * test_inbox - order, bounds, the end, the one receiver.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "server/inbox.h"
#include "system/timer.h"

static struct nib__inbox *in;

static void setup(void)
{
    nib__alloc_watch(true);
    in = nib__inbox_new(4, 1000);
    ck_assert_ptr_nonnull(in);
}

static void teardown(void)
{
    nib__inbox_free(in);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

/* Puts a message of len bytes, the first of which is its number. */
static bool put(unsigned number, size_t len)
{
    struct nib_message *msg;
    void *data;

    ck_assert_int_eq(nib_message_alloc(NIB_BINARY, len, &data, &msg), 0);
    *(uint8_t *)data = (uint8_t)number;
    return nib__inbox_put(in, msg);
}

/* Takes without waiting; its number, or the result. */
static int take(bool *more)
{
    struct nib_message *msg;
    int result = nib__inbox_take(in, 0, &msg, more);

    if (result == 0) {
        result = *(const uint8_t *)nib_message_data(msg, NULL);
        nib_message_unref(msg);
    }
    return result;
}

START_TEST(first_in_first_out)
{
    bool more;

    ck_assert_int_eq(take(&more), -ETIMEDOUT);
    ck_assert(put(1, 1));
    ck_assert(put(2, 1));
    ck_assert_int_eq(take(&more), 1);
    ck_assert_int_eq(take(&more), 2);
    ck_assert_int_eq(take(&more), -ETIMEDOUT);
}
END_TEST

START_TEST(full_by_number)
{
    bool more;

    ck_assert(put(1, 1));
    ck_assert(put(2, 1));
    ck_assert(put(3, 1));
    ck_assert(!put(4, 1));
    take(&more);
    ck_assert(!more); /* not yet fallen to half */
    take(&more);
    ck_assert(more);
    take(&more);
    ck_assert(!more); /* told once */
}
END_TEST

START_TEST(full_by_bytes)
{
    bool more;

    ck_assert(put(1, 999));
    ck_assert(!put(2, 1));
    take(&more);
    ck_assert(more);
    ck_assert(!put(3, 5000)); /* one message always fits */
    ck_assert_int_eq(take(&more), 2);
    ck_assert_int_eq(take(&more), 3);
    ck_assert(more);
}
END_TEST

START_TEST(the_end_comes_after_what_is_left)
{
    bool more;

    put(1, 1);
    nib__inbox_end(in, -EPIPE, false);
    nib__inbox_end(in, -ECANCELED, false);
    ck_assert(put(2, 1)); /* dropped */
    ck_assert_int_eq(take(&more), 1);
    ck_assert_int_eq(take(&more), -EPIPE);
    ck_assert_int_eq(take(&more), -EPIPE);
}
END_TEST

START_TEST(the_end_may_drop_what_is_left)
{
    bool more;

    put(1, 1);
    nib__inbox_end(in, -EPIPE, false);
    nib__inbox_end(in, -EPIPE, true);
    ck_assert_int_eq(take(&more), -EPIPE);
}
END_TEST

START_TEST(a_wait_has_a_deadline)
{
    struct nib_message *msg;
    bool more;
    uint64_t due = nib__clock_ns() + 2000000;

    ck_assert_int_eq(nib__inbox_take(in, due, &msg, &more), -ETIMEDOUT);
    ck_assert_uint_ge(nib__clock_ns(), due);
}
END_TEST

static void *take_one(void *arg)
{
    struct nib_message *msg;
    bool more;
    int *result = arg;

    *result = nib__inbox_take(in, UINT64_MAX, &msg, &more);
    if (*result == 0)
        nib_message_unref(msg);
    return NULL;
}

/* Until the other thread sleeps in its take. */
static void until_waiting(void)
{
    bool waiting = false;

    while (!waiting) {
        nib__lock_take(&in->lock);
        waiting = in->waiting;
        nib__lock_release(&in->lock);
    }
}

/* 0: woken by a message, 1: by the end. */
START_TEST(a_waiting_receiver_is_woken_and_is_the_only_one)
{
    pthread_t thread;
    int result;
    bool more;

    ck_assert_int_eq(pthread_create(&thread, NULL, take_one, &result), 0);
    until_waiting();
    ck_assert_int_eq(take(&more), -EBUSY);
    if (_i == 0)
        put(1, 1);
    else
        nib__inbox_end(in, -EPIPE, false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(result, _i == 0 ? 0 : -EPIPE);
    ck_assert_int_eq(take(&more), _i == 0 ? -ETIMEDOUT : -EPIPE);
}
END_TEST

static void *take_many(void *arg)
{
    unsigned count = *(unsigned *)arg;

    for (unsigned i = 0; i < count; i++) {
        struct nib_message *msg;
        bool more;

        if (nib__inbox_take(in, UINT64_MAX, &msg, &more) != 0 ||
            *(const uint8_t *)nib_message_data(msg, NULL) != (uint8_t)i)
            ck_abort_msg("message %u is not the next", i);
        nib_message_unref(msg);
    }
    return NULL;
}

START_TEST(no_wake_is_lost)
{
    unsigned count = 20000;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, take_many, &count), 0);
    for (unsigned i = 0; i < count; i++) {
        struct nib_message *msg;
        uint8_t byte = (uint8_t)i;

        if (nib_message_new(NIB_BINARY, &byte, 1, &msg) != 0)
            ck_abort_msg("no memory");
        nib__inbox_put(in, msg);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(no_memory)
{
    nib__alloc_fail_at(1);
    ck_assert_ptr_null(nib__inbox_new(1, 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inbox");
    TCase *tcase = tcase_create("inbox");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, first_in_first_out);
    tcase_add_test(tcase, full_by_number);
    tcase_add_test(tcase, full_by_bytes);
    tcase_add_test(tcase, the_end_comes_after_what_is_left);
    tcase_add_test(tcase, the_end_may_drop_what_is_left);
    tcase_add_test(tcase, a_wait_has_a_deadline);
    tcase_add_loop_test(tcase,
                        a_waiting_receiver_is_woken_and_is_the_only_one, 0,
                        2);
    tcase_add_test(tcase, no_wake_is_lost);
    tcase_add_test(tcase, no_memory);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
