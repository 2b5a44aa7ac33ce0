/*
 * test_handlers - the pool's growth, its queues, its end.
 *
 * The requests are made up: no connection is behind them, and a handler
 * decides by taking the decision word.
 */
#include <check.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "server/handlers.h"
#include "server/request.h"
#include "system/timer.h"

enum { REQUESTS = 16 };

static struct nib_config config;
static struct nib_server server;
static struct nib__handlers *handlers;
static struct nib_route route, own_route;
static struct nib_conn conn;
static struct nib_request requests[REQUESTS];
static sem_t begun;    /* counts handlers that have begun */
static sem_t may_end;  /* and those that may return */
static _Atomic unsigned order[REQUESTS], ran; /* in the order they began */

static int hold(struct nib_request *req, void *arg)
{
    (void)arg;
    req->decision = NIB__DECIDED;
    order[atomic_fetch_add(&ran, 1)] = (unsigned)(req - requests);
    sem_post(&begun);
    sem_wait(&may_end);
    return 0;
}

static void set_up(unsigned max, unsigned queue)
{
    nib__alloc_watch(true);
    config.limits.handlers = max;
    config.limits.handler_queue = queue;
    config.limits.handler_stack_bytes = 256 * 1024;
    server.config = &config;
    handlers = &server.handlers;
    route.handler = hold;
    memset(requests, 0, sizeof requests);
    ran = 0;
    for (unsigned i = 0; i < REQUESTS; i++) {
        requests[i].server = &server;
        requests[i].route = &route;
        requests[i].conn = &conn;
        requests[i].refs = requests[i].users = 2;
    }
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    nib__handlers_init(handlers, &server);
}

static void let_go(unsigned count)
{
    while (count-- > 0)
        sem_post(&may_end);
}

static void await_begun(unsigned count)
{
    while (count-- > 0)
        while (sem_wait(&begun) != 0)
            ;
}

static void tear_down(void)
{
    nib__handlers_close(handlers);
    ck_assert_int_eq(nib__handlers_join(handlers, UINT64_MAX), 0);
    nib__handlers_destroy(handlers);
    sem_destroy(&begun);
    sem_destroy(&may_end);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

static int submit(unsigned number)
{
    return nib__handlers_submit(handlers, &requests[number]);
}

static void expect_count(uint64_t running, uint64_t queued)
{
    uint64_t r, q;

    nib__handlers_count(handlers, &r, &q);
    ck_assert_uint_eq(r, running);
    ck_assert_uint_eq(q, queued);
}

START_TEST(so_many_run_and_so_many_wait)
{
    set_up(3, 2);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(submit(i), 0);
    await_begun(3);
    ck_assert_int_eq(submit(3), 0);
    ck_assert_int_eq(submit(4), 0);
    ck_assert_int_eq(submit(5), -EAGAIN);
    expect_count(3, 2);
    let_go(1);
    await_begun(1);
    ck_assert_int_eq(submit(5), 0);
    ck_assert_int_eq(submit(6), -EAGAIN);
    let_go(5);
    await_begun(2);
    for (unsigned i = 3; i < 6; i++)
        ck_assert_uint_eq(order[i], i);
    tear_down();
}
END_TEST

/* Requests that the threads are about to take do not wait. */
START_TEST(a_burst_needs_no_queue)
{
    set_up(REQUESTS, 0);
    for (unsigned i = 0; i < REQUESTS; i++)
        ck_assert_int_eq(submit(i), 0);
    ck_assert_uint_eq(handlers->alive, REQUESTS);
    await_begun(REQUESTS);
    requests[0].decision = NIB__UNDECIDED;
    ck_assert_int_eq(submit(0), -EAGAIN);
    let_go(REQUESTS);
    tear_down();
}
END_TEST

static bool none_runs(void)
{
    uint64_t running, queued;

    nib__handlers_count(handlers, &running, &queued);
    return running == 0;
}

START_TEST(a_thread_is_used_again)
{
    set_up(4, 4);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_int_eq(submit(i), 0);
        await_begun(1);
        let_go(1);
        while (!none_runs())
            sched_yield();
    }
    ck_assert_uint_eq(handlers->alive, 1);
    tear_down();
}
END_TEST

START_TEST(a_withdrawn_request_leaves_the_queue)
{
    set_up(1, 3);
    ck_assert_int_eq(submit(0), 0);
    await_begun(1);
    for (unsigned i = 1; i < 4; i++)
        ck_assert_int_eq(submit(i), 0);
    for (unsigned i = 3; i > 1; i--) {
        nib__handlers_remove(handlers, &requests[i]);
        ck_assert_uint_eq(requests[i].refs, 1);
        nib__handlers_remove(handlers, &requests[i]);
        ck_assert_uint_eq(requests[i].refs, 1);
    }
    expect_count(1, 1);
    ck_assert_int_eq(submit(4), 0);
    let_go(3);
    await_begun(2);
    ck_assert_uint_eq(order[1], 1);
    ck_assert_uint_eq(order[2], 4);
    tear_down();
}
END_TEST

/* One that was decided while it waited is given back, and not run. */
START_TEST(a_decided_request_is_not_run)
{
    set_up(1, 1);
    requests[0].decision = NIB__DECIDED;
    ck_assert_int_eq(submit(0), 0);
    ck_assert_int_eq(submit(1), 0);
    await_begun(1);
    ck_assert_uint_eq(order[0], 1);
    ck_assert_uint_eq(requests[0].refs, 1);
    let_go(1);
    tear_down();
}
END_TEST

START_TEST(own_threads_take_in_order)
{
    struct nib_request *req = NULL;

    set_up(1, 2);
    for (unsigned i = 0; i < REQUESTS; i++)
        requests[i].route = &own_route;
    ck_assert_int_eq(nib__handlers_next(handlers, &req, 0), -ETIMEDOUT);
    ck_assert_int_eq(nib__handlers_next(handlers, &req,
                                        nib__clock_due_ns(1)), -ETIMEDOUT);
    ck_assert_int_eq(submit(0), 0);
    ck_assert_int_eq(submit(1), 0);
    ck_assert_int_eq(submit(2), -EAGAIN);
    expect_count(0, 2);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(nib__handlers_next(handlers, &req, 0), 0);
        ck_assert_ptr_eq(req, &requests[i]);
    }
    ck_assert_int_eq(submit(3), 0);
    nib__handlers_close(handlers);
    ck_assert_int_eq(nib__handlers_next(handlers, &req, UINT64_MAX), 0);
    ck_assert_ptr_eq(req, &requests[3]);
    ck_assert_int_eq(nib__handlers_next(handlers, &req, UINT64_MAX),
                     -ECANCELED);
    ck_assert_uint_eq(handlers->alive, 0);
    tear_down();
}
END_TEST

START_TEST(the_end_waits_for_handlers)
{
    set_up(2, 0);
    ck_assert_int_eq(submit(0), 0);
    await_begun(1);
    nib__handlers_close(handlers);
    ck_assert_int_eq(submit(1), -ECANCELED);
    ck_assert_int_eq(nib__handlers_join(handlers, 0), -ETIMEDOUT);
    ck_assert_int_eq(nib__handlers_join(handlers, nib__clock_due_ns(1)),
                     -ETIMEDOUT);
    let_go(1);
    tear_down();
}
END_TEST

/* Without memory for a thread a request waits for those that are there. */
START_TEST(no_memory)
{
    set_up(2, 1);
    nib__alloc_fail_at(1);
    ck_assert_int_eq(submit(0), -ENOMEM);
    nib__alloc_fail_at(0);
    ck_assert_int_eq(submit(0), 0);
    await_begun(1);
    nib__alloc_fail_at(1);
    ck_assert_int_eq(submit(1), 0);
    nib__alloc_fail_at(0);
    ck_assert_uint_eq(handlers->alive, 1);
    let_go(2);
    await_begun(1);
    tear_down();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handlers");
    TCase *tc = tcase_create("handlers");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, so_many_run_and_so_many_wait);
    tcase_add_test(tc, a_burst_needs_no_queue);
    tcase_add_test(tc, a_thread_is_used_again);
    tcase_add_test(tc, a_withdrawn_request_leaves_the_queue);
    tcase_add_test(tc, a_decided_request_is_not_run);
    tcase_add_test(tc, own_threads_take_in_order);
    tcase_add_test(tc, the_end_waits_for_handlers);
    tcase_add_test(tc, no_memory);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
