/*
 * test_timer - order, changes within a run, room, and the clock.
 */

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "system/timer.h"

enum {
    TIMERS = 1000,
};

struct probe {
    struct nib__timer timer; /* first */
    uint64_t due_ms;         /* as armed; what the model knows */
    bool armed;
    unsigned fired;
    void (*then)(struct probe *self);
};

static struct nib__timers timers;
static struct probe probes[TIMERS];
static struct probe *log_of[2 * TIMERS]; /* in the order of firing */
static unsigned logged;

static void fire(struct nib__timer *timer)
{
    struct probe *p = (struct probe *)timer;

    ck_assert(!nib__timer_armed(timer));
    p->fired++;
    p->armed = false;
    log_of[logged++] = p;
    if (p->then)
        p->then(p);
}

static void setup(void)
{
    nib__timers_init(&timers);
    logged = 0;
    for (unsigned i = 0; i < TIMERS; i++) {
        probes[i] = (struct probe){.fired = 0};
        nib__timer_init(&probes[i].timer, fire);
        ck_assert_int_eq(nib__timers_reserve(&timers), 0);
    }
}

static void teardown(void)
{
    nib__timers_destroy(&timers);
    ck_assert_uint_eq(timers.capacity, 0);
}

static void arm(struct probe *p, uint64_t due_ms)
{
    p->due_ms = due_ms;
    p->armed = true;
    nib__timer_arm(&timers, &p->timer, due_ms);
    ck_assert(nib__timer_armed(&p->timer));
}

static void disarm(struct probe *p)
{
    p->armed = false;
    nib__timer_disarm(&timers, &p->timer);
    ck_assert(!nib__timer_armed(&p->timer));
}

START_TEST(nothing_is_armed_at_first)
{
    ck_assert(!nib__timer_armed(&probes[0].timer));
    ck_assert_uint_eq(nib__timers_next_ms(&timers), UINT64_MAX);
    nib__timers_run(&timers, 1000000);
    disarm(&probes[0]); /* allowed */
    ck_assert_uint_eq(logged, 0);
}
END_TEST

START_TEST(a_timer_fires_once_when_due)
{
    arm(&probes[0], 100);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), 100);
    nib__timers_run(&timers, 99);
    ck_assert_uint_eq(logged, 0);
    nib__timers_run(&timers, 100);
    ck_assert_uint_eq(logged, 1);
    nib__timers_run(&timers, 200);
    ck_assert_uint_eq(logged, 1);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), UINT64_MAX);
}
END_TEST

START_TEST(they_fire_in_order)
{
    static const unsigned due[] = {7, 3, 9, 1, 8, 2, 6, 4, 5};

    for (unsigned i = 0; i < 9; i++)
        arm(&probes[i], due[i]);
    nib__timers_run(&timers, 6);
    ck_assert_uint_eq(logged, 6);
    for (unsigned i = 0; i < 6; i++)
        ck_assert_uint_eq(log_of[i]->due_ms, i + 1);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), 7);
}
END_TEST

START_TEST(a_timer_can_be_moved)
{
    arm(&probes[0], 10);
    arm(&probes[1], 20);
    arm(&probes[0], 30);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), 20);
    arm(&probes[0], 5);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), 5);
    arm(&probes[0], 5);
    disarm(&probes[0]);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), 20);
    nib__timers_run(&timers, 100);
    ck_assert_uint_eq(logged, 1);
    ck_assert_ptr_eq(log_of[0], &probes[1]);
}
END_TEST

/* The earliest due time, by looking at all of them. */
static uint64_t model_next(void)
{
    uint64_t next = UINT64_MAX;

    for (unsigned i = 0; i < TIMERS; i++)
        if (probes[i].armed && probes[i].due_ms < next)
            next = probes[i].due_ms;
    return next;
}

/* Arms, moves and disarms at random, and runs now and then. */
START_TEST(a_thousand_against_a_list)
{
    uint64_t now = 0;

    srandom(1);
    for (unsigned step = 0; step < 20000; step++) {
        struct probe *p = &probes[random() % TIMERS];

        if (random() % 4 == 0)
            disarm(p);
        else
            arm(p, now + 1 + (uint64_t)random() % 500);
        if (step % 20 == 0) {
            now += (uint64_t)random() % 50;
            logged = 0;
            nib__timers_run(&timers, now);
            for (unsigned i = 1; i < logged; i++)
                ck_assert_uint_le(log_of[i - 1]->due_ms, log_of[i]->due_ms);
            ck_assert_uint_gt(model_next(), now);
            ck_assert_uint_eq(nib__timers_next_ms(&timers), model_next());
        }
    }
    logged = 0;
    nib__timers_run(&timers, now + 1000);
    ck_assert_uint_gt(logged, 0);
    ck_assert_uint_eq(model_next(), UINT64_MAX);
    ck_assert_uint_eq(timers.count, 0);
}
END_TEST

static void arm_for_the_past(struct probe *self)
{
    arm(self, 3);
}

/* It cannot keep the run going, nor is it lost. */
START_TEST(armed_for_the_past_within_a_run)
{
    probes[0].then = arm_for_the_past;
    arm(&probes[0], 10);
    arm(&probes[1], 15);
    nib__timers_run(&timers, 20);
    ck_assert_uint_eq(logged, 2);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), 21);
    nib__timers_run(&timers, 20);
    ck_assert_uint_eq(logged, 2);
    nib__timers_run(&timers, 21);
    ck_assert_uint_eq(logged, 3);
    ck_assert_ptr_eq(log_of[2], &probes[0]);

    /* Outside a run the past is due at once. */
    arm(&probes[1], 3);
    ck_assert_uint_eq(nib__timers_next_ms(&timers), 3);
}
END_TEST

static void move_others(struct probe *self)
{
    (void)self;
    disarm(&probes[1]);
    arm(&probes[2], 100);
    arm(&probes[3], 12);
}

START_TEST(a_run_obeys_what_its_timers_change)
{
    probes[0].then = move_others;
    for (unsigned i = 0; i < 4; i++)
        arm(&probes[i], 10 + i);
    arm(&probes[4], 20);
    nib__timers_run(&timers, 20);
    ck_assert_uint_eq(probes[0].fired, 1);
    ck_assert_uint_eq(probes[1].fired, 0);
    ck_assert_uint_eq(probes[2].fired, 0);
    ck_assert_uint_eq(probes[3].fired, 0); /* due at 21 now */
    ck_assert_uint_eq(probes[4].fired, 1);
    nib__timers_run(&timers, 21);
    ck_assert_uint_eq(probes[3].fired, 1);
    nib__timers_run(&timers, 100);
    ck_assert_uint_eq(probes[2].fired, 1);
    ck_assert_uint_eq(logged, 4);
}
END_TEST

static void free_self(struct probe *self)
{
    nib__timers_unreserve(&timers);
    free(self);
}

START_TEST(a_timer_may_free_itself)
{
    for (unsigned i = 0; i < 10; i++) {
        struct probe *p = calloc(1, sizeof(*p));

        ck_assert_ptr_nonnull(p);
        nib__timer_init(&p->timer, fire);
        p->then = free_self;
        ck_assert_int_eq(nib__timers_reserve(&timers), 0);
        arm(p, i);
    }
    nib__timers_run(&timers, 10);
    ck_assert_uint_eq(logged, 10);
    ck_assert_uint_eq(timers.reserved, TIMERS);
}
END_TEST

static void reserve_more(struct probe *self)
{
    (void)self;
    for (unsigned i = 0; i < 2 * TIMERS; i++)
        ck_assert_int_eq(nib__timers_reserve(&timers), 0);
}

START_TEST(the_heap_moves_within_a_run)
{
    probes[0].then = reserve_more;
    arm(&probes[0], 1);
    arm(&probes[1], 2);
    nib__timers_run(&timers, 2);
    ck_assert_uint_eq(logged, 2);
    ck_assert_uint_eq(timers.reserved, 3 * TIMERS);
}
END_TEST

START_TEST(what_is_reserved_can_be_armed_without_memory)
{
    nib__alloc_watch(true);
    for (unsigned i = 0; i < TIMERS; i++)
        arm(&probes[i], TIMERS - i);
    nib__timers_run(&timers, TIMERS);
    nib__timers_unreserve(&timers);
    ck_assert_int_eq(nib__timers_reserve(&timers), 0);
    ck_assert_int_eq(nib__alloc_count(), 0);
    nib__alloc_watch(false);
    ck_assert_uint_eq(logged, TIMERS);
}
END_TEST

START_TEST(without_memory)
{
    struct nib__timers t;
    struct probe p = {.fired = 0};

    nib__timers_init(&t);
    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__timers_reserve(&t), -ENOMEM);
    ck_assert_uint_eq(t.reserved, 0);
    ck_assert_int_eq(nib__timers_reserve(&t), 0);
    nib__timer_init(&p.timer, fire);
    nib__timer_arm(&t, &p.timer, 1);
    while (t.reserved < t.capacity)
        ck_assert_int_eq(nib__timers_reserve(&t), 0);
    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__timers_reserve(&t), -ENOMEM);
    nib__timers_run(&t, 1);
    ck_assert_uint_eq(p.fired, 1);
    nib__timers_destroy(&t);
}
END_TEST

static uint64_t system_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Reads of the system's clock on either side leave no room for doubt. */
START_TEST(the_clock_is_the_monotonic_one)
{
    uint64_t before, ns, ms, after;

    before = system_ns();
    ns = nib__clock_ns();
    ms = nib__clock_ms();
    after = system_ns();
    ck_assert_uint_le(before, ns);
    ck_assert_uint_le(ns, after);
    ck_assert_uint_le(before / 1000000, ms);
    ck_assert_uint_le(ms, after / 1000000);
}
END_TEST

START_TEST(a_test_can_move_the_clock)
{
    const uint64_t hour_ms = 3600000;
    uint64_t before, ns, ms, after;

    nib__clock_advance_ms(hour_ms - 1);
    nib__clock_advance_ms(1);
    before = system_ns();
    ns = nib__clock_ns();
    ms = nib__clock_ms();
    after = system_ns();
    ck_assert_uint_le(before + hour_ms * 1000000, ns);
    ck_assert_uint_le(ns, after + hour_ms * 1000000);
    ck_assert_uint_le(before / 1000000 + hour_ms, ms);
    ck_assert_uint_le(ms, after / 1000000 + hour_ms);
}
END_TEST

START_TEST(a_wait_has_its_end)
{
    uint64_t before = nib__clock_ns(), due = nib__clock_due_ns(1500);

    ck_assert_uint_ge(due, before + 1500000000u);
    ck_assert_uint_le(due, nib__clock_ns() + 1500000000u);
    ck_assert_uint_eq(nib__clock_due_ns(0), 0);
    ck_assert_uint_eq(nib__clock_due_ns(-1), UINT64_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timer");
    TCase *tc = tcase_create("timer");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nothing_is_armed_at_first);
    tcase_add_test(tc, a_wait_has_its_end);
    tcase_add_test(tc, a_timer_fires_once_when_due);
    tcase_add_test(tc, they_fire_in_order);
    tcase_add_test(tc, a_timer_can_be_moved);
    tcase_add_test(tc, a_thousand_against_a_list);
    tcase_add_test(tc, armed_for_the_past_within_a_run);
    tcase_add_test(tc, a_run_obeys_what_its_timers_change);
    tcase_add_test(tc, a_timer_may_free_itself);
    tcase_add_test(tc, the_heap_moves_within_a_run);
    tcase_add_test(tc, what_is_reserved_can_be_armed_without_memory);
    tcase_add_test(tc, without_memory);
    tcase_add_test(tc, the_clock_is_the_monotonic_one);
    tcase_add_test(tc, a_test_can_move_the_clock); /* last: it stays */
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
