/*
 * test_reactor - the order of a turn, and the end of the loop.
 *
 * What runs on the reactor appends a letter to a line; a wish, posted from
 * outside, says what a turn begins with.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "threads/oneshot.h"
#include "threads/reactor.h"

/* A call to the reactor's thread. */
struct call {
    struct nib__record record;
    struct nib__oneshot done;
    void (*run)(void);
};

static struct nib__reactor reactor;
static atomic_bool stop;
static char line[1024];
static unsigned turns;

static void say(char letter)
{
    size_t len = strlen(line);

    if (len + 1 < sizeof line)
        line[len] = letter;
}

static bool turn(struct nib__reactor *r)
{
    (void)r;
    turns++;
    return !atomic_load(&stop);
}

static bool say_slices;

static int64_t fan(struct nib__reactor *r)
{
    (void)r;
    if (say_slices)
        say('s');
    return -1;
}

static void set_up(void) NIB__NO_ANALYSIS
{
    nib__alloc_watch(true);
    memset(line, 0, sizeof line);
    ck_assert_int_eq(nib__reactor_init(&reactor, 7, 4096), 0);
    ck_assert_uint_eq(reactor.number, 7);
    ck_assert_int_eq(nib__timers_reserve(&reactor.timers), 0);
    reactor.turn = turn;
    reactor.fan = fan;
    atomic_store(&stop, false);
    ck_assert_int_eq(nib__reactor_start(&reactor), 0);
}

static void tear_down(void) NIB__NO_ANALYSIS
{
    atomic_store(&stop, true);
    nib__mailbox_wake(&reactor.mailbox);
    nib__reactor_join(&reactor);
    nib__timers_unreserve(&reactor.timers);
    nib__reactor_destroy(&reactor);
    nib__mailbox_destroy(&reactor.mailbox);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

static void call_run(struct nib__record *record)
{
    struct call *call = (struct call *)record;

    call->run();
    nib__oneshot_complete(&call->done, 0);
}

static void call_cancel(struct nib__record *record)
{
    nib__oneshot_complete(&((struct call *)record)->done, -ECANCELED);
}

/* Runs a function on the reactor's thread and waits for it. */
static void on_reactor(void (*run)(void))
{
    struct call call = {.run = run};

    call.record.run = call_run;
    call.record.cancel = call_cancel;
    nib__oneshot_init(&call.done);
    ck_assert_int_eq(nib__mailbox_post(&reactor.mailbox, &call.record), 0);
    ck_assert_int_eq(nib__oneshot_wait(&call.done), 0);
}

/* ---- the order of a turn ---- */

static struct nib__task ready, ready_again, last;
static struct nib__timer timer;
static struct nib__source source;
static int pipe_fds[2];
static struct nib__record posted;

static void posted_run(struct nib__record *record)
{
    (void)record;
    say('m');
}

static void ready_again_run(struct nib__task *task)
{
    (void)task;
    say('a');
    say_slices = false;
}

static void ready_run(struct nib__task *task) NIB__NO_ANALYSIS
{
    (void)task;
    say('r');
    nib__reactor_soon(&reactor, &ready_again);
    nib__reactor_soon(&reactor, &ready_again);
}

static void last_run(struct nib__task *task)
{
    (void)task;
    say('l');
}

static void timer_fired(struct nib__timer *t)
{
    (void)t;
    say('t');
}

static void source_ready(struct nib__source *s, uint32_t events)
    NIB__NO_ANALYSIS
{
    (void)events;
    say('f');
    nib__poller_remove(&reactor.poller, s);
}

/* Everything that a turn does, asked for in the wrong order. */
static void ask_for_all(void) NIB__NO_ANALYSIS
{
    ck_assert(nib__reactor_here(&reactor));
    last.run = last_run;
    nib__reactor_last(&reactor, &last);
    ready.run = ready_run;
    ready_again.run = ready_again_run;
    nib__reactor_soon(&reactor, &ready);
    nib__reactor_soon(&reactor, &ready);
    nib__timer_init(&timer, timer_fired);
    nib__timer_arm(&reactor.timers, &timer, 0);
    posted.run = posted_run;
    nib__mailbox_post(&reactor.mailbox, &posted);
    source.fd = -1;
    source.ready = source_ready;
    nib__poller_add(&reactor.poller, &source, pipe_fds[0], EPOLLIN);
    say_slices = true;
}

static void nothing(void)
{
}

START_TEST(a_turn_has_an_order)
{
    ck_assert_ptr_null(nib__reactor_self());
    ck_assert_int_eq(pipe(pipe_fds), 0);
    ck_assert_int_eq(write(pipe_fds[1], "x", 1), 1);
    set_up();
    on_reactor(ask_for_all);
    /* The turn after the one that the wish came in is over after two. */
    on_reactor(nothing);
    on_reactor(nothing);
    tear_down();
    ck_assert_str_eq(line, "trslmfa");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}
END_TEST

/* ---- records ---- */

enum { RECORDS = 1000 };

static struct nib__record many[RECORDS];
static unsigned ran, first_turn, in_turn[8];

static void many_run(struct nib__record *record)
{
    ck_assert_ptr_eq(record, &many[ran]);
    ran++;
    in_turn[turns - first_turn]++;
}

/* Posted during a turn, they come in the next ones. */
static void post_many(void)
{
    first_turn = turns + 1;
    for (unsigned i = 0; i < RECORDS; i++) {
        many[i].run = many_run;
        nib__mailbox_post(&reactor.mailbox, &many[i]);
    }
}

START_TEST(a_turn_runs_so_many_records)
{
    set_up();
    on_reactor(post_many);
    on_reactor(nothing);
    tear_down();
    ck_assert_uint_eq(ran, RECORDS);
    ck_assert_uint_eq(in_turn[0], 256);
    ck_assert_uint_eq(in_turn[1], 256);
    ck_assert_uint_eq(in_turn[2], 256);
    ck_assert_uint_eq(in_turn[3], RECORDS - 3 * 256);
}
END_TEST

/* ---- the end ---- */

static unsigned cancelled;

static void never(struct nib__record *record)
{
    (void)record;
    abort();
}

static void count_cancel(struct nib__record *record)
{
    (void)record;
    cancelled++;
}

static void post_and_stop(void)
{
    for (unsigned i = 0; i < 10; i++) {
        many[i].run = never;
        many[i].cancel = count_cancel;
        nib__mailbox_post(&reactor.mailbox, &many[i]);
    }
    atomic_store(&stop, true);
}

static void stop_and_list(void) NIB__NO_ANALYSIS
{
    post_and_stop();
    last.run = last_run;
    nib__reactor_last(&reactor, &last);
}

START_TEST(the_end_cancels_what_is_left)
{
    struct nib__record late = {.run = never, .cancel = never};

    set_up();
    on_reactor(stop_and_list);
    nib__reactor_join(&reactor);
    ck_assert_uint_eq(cancelled, 10);
    ck_assert_str_eq(line, "l");
    ck_assert_int_eq(nib__mailbox_post(&reactor.mailbox, &late), -ECANCELED);
    tear_down();
}
END_TEST

START_TEST(no_memory)
{
    nib__alloc_watch(true);
    for (unsigned n = 1;; n++) {
        int err;

        nib__alloc_fail_at(n);
        err = nib__reactor_init(&reactor, 0, 4096);
        nib__alloc_fail_at(0);
        if (err == 0)
            break;
        ck_assert_int_eq(err, -ENOMEM);
        ck_assert_int_eq(nib__alloc_live(), 0);
    }
    nib__reactor_destroy(&reactor);
    nib__mailbox_destroy(&reactor.mailbox);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reactor");
    TCase *tc = tcase_create("reactor");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_turn_has_an_order);
    tcase_add_test(tc, a_turn_runs_so_many_records);
    tcase_add_test(tc, the_end_cancels_what_is_left);
    tcase_add_test(tc, no_memory);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
