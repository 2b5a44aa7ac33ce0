/*
 * test_oneshot - completion on the caller's stack, and the futex below it.
 */

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sanitized.h"
#include "system/timer.h"
#include "threads/oneshot.h"

enum {
    CALLS = SANITIZED ? 50000 : 1000000,
    SIGNALS = 200,
    POISON = 0xa5,
    END = -1,
};

START_TEST(completed_before_the_wait)
{
    struct nib__oneshot o;

    nib__oneshot_init(&o);
    ck_assert(!nib__oneshot_done(&o));
    nib__oneshot_complete(&o, -42);
    ck_assert(nib__oneshot_done(&o));
    ck_assert_int_eq(nib__oneshot_wait(&o), -42);
    ck_assert_int_eq(nib__oneshot_wait(&o), -42);
}
END_TEST

/* ---- a million calls --------------------------------------------------- */

struct call {
    struct nib__oneshot done;
    int question;
};

/* From the caller to the owner, one at a time. */
static _Atomic(struct call *) slot;

static struct call *next_call(void)
{
    struct call *c = atomic_exchange(&slot, NULL);

    while (c == NULL) {
        sched_yield();
        c = atomic_exchange(&slot, NULL);
    }
    return c;
}

static void *owner(void *arg)
{
    (void)arg;
    for (;;) {
        struct call *c = next_call();
        int question = c->question;

        nib__oneshot_complete(&c->done, question ^ 0x55);
        if (question == END)
            return NULL;
    }
}

static int ask(struct call *c, int question)
{
    nib__oneshot_init(&c->done);
    c->question = question;
    atomic_store(&slot, c);
    return nib__oneshot_wait(&c->done);
}

/*
 * Two frames take turns. What a call left is overwritten when it has
 * returned, and must still be so when its turn comes again: the owner does
 * not touch a record that it has completed.
 */
START_TEST(short_calls)
{
    struct call frames[2];
    uint8_t poison[sizeof(struct call)];
    pthread_t thread;

    memset(poison, POISON, sizeof(poison));
    memset(frames, POISON, sizeof(frames));
    ck_assert_int_eq(pthread_create(&thread, NULL, owner, NULL), 0);
    for (int i = 0; i < CALLS; i++) {
        struct call *c = &frames[i % 2];
        int answer;

        if (memcmp(c, poison, sizeof(poison)) != 0)
            ck_abort_msg("call %d: touched after its completion", i - 2);
        answer = ask(c, i);
        if (answer != (i ^ 0x55))
            ck_abort_msg("call %d: answer %d", i, answer);
        memset(c, POISON, sizeof(*c));
    }
    ck_assert_int_eq(ask(&frames[0], END), END ^ 0x55);
    pthread_join(thread, NULL);
}
END_TEST

/* ---- a waiter that is disturbed ---------------------------------------- */

static struct nib__oneshot disturbed;
static atomic_int signals_seen, returned, result_seen;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

static void *waiter(void *arg)
{
    (void)arg;
    atomic_store(&result_seen, nib__oneshot_wait(&disturbed));
    atomic_store(&returned, 1);
    pthread_testcancel();
    return NULL;
}

static pthread_t start_waiter(void)
{
    pthread_t thread;

    atomic_store(&signals_seen, 0);
    atomic_store(&returned, 0);
    atomic_store(&result_seen, 0);
    nib__oneshot_init(&disturbed);
    ck_assert_int_eq(pthread_create(&thread, NULL, waiter, NULL), 0);
    /* 1: it says that it waits. */
    while (atomic_load(&disturbed.word) != 1)
        sched_yield();
    return thread;
}

START_TEST(signals_do_not_end_the_wait)
{
    struct sigaction action, old;
    pthread_t thread;

    memset(&action, 0, sizeof(action)); /* without SA_RESTART */
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, &old);
    thread = start_waiter();
    for (int i = 1; i <= SIGNALS; i++) {
        pthread_kill(thread, SIGUSR1);
        /* ThreadSanitizer holds handlers back until the wait is over. */
        while (!THREAD_SANITIZED && atomic_load(&signals_seen) < i)
            sched_yield();
    }
    ck_assert_int_eq(atomic_load(&returned), 0);
    ck_assert(!nib__oneshot_done(&disturbed));
    nib__oneshot_complete(&disturbed, 7);
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &old, NULL);
    ck_assert_int_eq(atomic_load(&result_seen), 7);
}
END_TEST

START_TEST(wakes_for_no_reason_do_not_end_the_wait)
{
    pthread_t thread = start_waiter();

    for (int i = 0; i < SIGNALS; i++) {
        nib__futex_wake(&disturbed.word, 1);
        sched_yield();
    }
    ck_assert_int_eq(atomic_load(&returned), 0);
    nib__oneshot_complete(&disturbed, 8);
    pthread_join(thread, NULL);
    ck_assert_int_eq(atomic_load(&result_seen), 8);
}
END_TEST

/* A cancelled thread would take its stack, with the record, away. */
START_TEST(cancellation_does_not_end_the_wait)
{
    pthread_t thread = start_waiter();
    void *end;

    pthread_cancel(thread);
    nib__oneshot_complete(&disturbed, 9);
    pthread_join(thread, &end);
    ck_assert_ptr_eq(end, PTHREAD_CANCELED);
    ck_assert_int_eq(atomic_load(&returned), 1);
    ck_assert_int_eq(atomic_load(&result_seen), 9);
}
END_TEST

/* ---- futex ------------------------------------------------------------- */

START_TEST(a_word_that_has_changed)
{
    _Atomic uint32_t word = 1;

    ck_assert_int_eq(nib__futex_wait(&word, 0, UINT64_MAX), 0);
    ck_assert_int_eq(nib__futex_wait(&word, 0, nib__clock_ns() + 1000000000),
                     0);
}
END_TEST

/* Waits for a deadline; interruptions are allowed before it only. */
static void wait_until(uint64_t due_ns)
{
    _Atomic uint32_t word = 1;

    while (nib__futex_wait(&word, 1, due_ns) == 0)
        ;
    ck_assert_uint_ge(nib__clock_ns(), due_ns);
}

START_TEST(a_deadline)
{
    _Atomic uint32_t word = 1;

    ck_assert_int_eq(nib__futex_wait(&word, 1, 0), -ETIMEDOUT);
    ck_assert_int_eq(nib__futex_wait(&word, 1, nib__clock_ns()), -ETIMEDOUT);
    wait_until(nib__clock_ns() + 1);
    wait_until(nib__clock_ns() + 3000000);
}
END_TEST

/* The kernel does not know that we moved our clock. */
START_TEST(a_deadline_on_a_moved_clock)
{
    nib__clock_advance_ms(1000000000);
    wait_until(nib__clock_ns() + 3000000);
}
END_TEST

static _Atomic uint32_t gate = 1;
static atomic_int through;

static void *pass_gate(void *arg)
{
    (void)arg;
    while (atomic_load(&gate) == 1)
        nib__futex_wait(&gate, 1, UINT64_MAX);
    atomic_fetch_add(&through, 1);
    return NULL;
}

START_TEST(one_wake_for_many)
{
    pthread_t threads[4];

    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, pass_gate, NULL), 0);
    atomic_store(&gate, 2);
    nib__futex_wake(&gate, 4);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&through), 4);
}
END_TEST

START_TEST(an_address_that_is_gone)
{
    nib__futex_wake((_Atomic uint32_t *)4096, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oneshot");
    TCase *tc = tcase_create("oneshot");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, completed_before_the_wait);
    tcase_add_test(tc, short_calls);
    tcase_add_test(tc, signals_do_not_end_the_wait);
    tcase_add_test(tc, wakes_for_no_reason_do_not_end_the_wait);
    tcase_add_test(tc, cancellation_does_not_end_the_wait);
    tcase_add_test(tc, a_word_that_has_changed);
    tcase_add_test(tc, a_deadline);
    tcase_add_test(tc, a_deadline_on_a_moved_clock);
    tcase_add_test(tc, one_wake_for_many);
    tcase_add_test(tc, an_address_that_is_gone);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
