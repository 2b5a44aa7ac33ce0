/*
 * test_poller - registration, stale reports, waiting.
 */

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "deny.h"
#include "system/poller.h"
#include "system/timer.h"

enum {
    MANY = 300, /* more than a wait reports at once */
};

/* A source on an eventfd, with what its `ready` shall do. */
struct probe {
    struct nib__source source; /* first */
    int fd;
    unsigned calls;
    uint32_t events;
    void (*then)(struct probe *self);
};

static struct nib__poller poller;
static struct probe a, b, c;

static void ready(struct nib__source *source, uint32_t events)
{
    struct probe *p = (struct probe *)source;

    p->calls++;
    p->events = events;
    if (p->then)
        p->then(p);
}

/* An eventfd that is readable and writable, not registered yet. */
static void probe_init(struct probe *p)
{
    *p = (struct probe){.source = {.ready = ready, .fd = -1}};
    p->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(p->fd, 0);
}

static void probe_add(struct probe *p, uint32_t events)
{
    ck_assert_int_eq(nib__poller_add(&poller, &p->source, p->fd, events), 0);
    ck_assert_int_eq(p->source.fd, p->fd);
    ck_assert_uint_eq(p->source.events, events);
}

static void setup(void)
{
    ck_assert_int_eq(nib__poller_init(&poller), 0);
    probe_init(&a);
    probe_init(&b);
    probe_init(&c);
}

static void teardown(void)
{
    struct probe *all[] = {&a, &b, &c};

    for (unsigned i = 0; i < 3; i++) {
        nib__poller_remove(&poller, &all[i]->source);
        close(all[i]->fd);
    }
    nib__poller_destroy(&poller);
    ck_assert_int_eq(poller.fd, -1);
}

/* One wait that does not wait, and its dispatch. Returns the events. */
static int turn(void)
{
    int count = nib__poller_wait(&poller, 0);

    nib__poller_dispatch(&poller, count);
    return count;
}

START_TEST(events_reach_their_source)
{
    ck_assert_int_eq(turn(), 0);
    probe_add(&a, EPOLLIN);
    probe_add(&b, EPOLLOUT);
    probe_add(&c, 0);
    ck_assert_int_eq(turn(), 2);
    ck_assert_uint_eq(a.calls, 1);
    ck_assert_uint_eq(a.events, EPOLLIN);
    ck_assert_uint_eq(b.calls, 1);
    ck_assert_uint_eq(b.events, EPOLLOUT);
    ck_assert_uint_eq(c.calls, 0);
}
END_TEST

START_TEST(the_set_is_close_on_exec)
{
    ck_assert_int_eq(fcntl(poller.fd, F_GETFD), FD_CLOEXEC);
}
END_TEST

START_TEST(removed_is_silent)
{
    probe_add(&a, EPOLLIN);
    nib__poller_remove(&poller, &a.source);
    ck_assert_int_eq(a.source.fd, -1);
    ck_assert_int_eq(turn(), 0);
    nib__poller_remove(&poller, &a.source); /* allowed */
    probe_add(&a, EPOLLIN);
    ck_assert_int_eq(turn(), 1);
    ck_assert_uint_eq(a.calls, 1);
}
END_TEST

START_TEST(a_closed_descriptor_can_be_removed)
{
    probe_add(&a, EPOLLIN);
    close(a.fd);
    nib__poller_remove(&poller, &a.source);
    ck_assert_int_eq(a.source.fd, -1);
    probe_add(&b, EPOLLIN);
    ck_assert_uint_eq(b.source.slot, a.source.slot);
}
END_TEST

static void remove_others(struct probe *self)
{
    struct probe *all[] = {&a, &b, &c};

    for (unsigned i = 0; i < 3; i++)
        if (all[i] != self)
            nib__poller_remove(&poller, &all[i]->source);
}

/* Whichever is reported first ends the others, which were reported, too. */
START_TEST(a_stale_report_is_dropped)
{
    a.then = b.then = c.then = remove_others;
    probe_add(&a, EPOLLIN);
    probe_add(&b, EPOLLIN);
    probe_add(&c, EPOLLIN);
    ck_assert_int_eq(turn(), 3);
    ck_assert_uint_eq(a.calls + b.calls + c.calls, 1);
}
END_TEST

/* Gives the slot of one that is still to be delivered to c. */
static void reuse_slot(struct probe *self)
{
    struct probe *other = self == &a ? &b : &a;
    uint32_t slot = other->source.slot;

    nib__poller_remove(&poller, &other->source);
    if (c.source.fd < 0)
        probe_add(&c, EPOLLIN);
    ck_assert_uint_eq(c.source.slot, slot);
}

START_TEST(a_slot_taken_again_is_another)
{
    a.then = b.then = reuse_slot;
    probe_add(&a, EPOLLIN);
    probe_add(&b, EPOLLIN);
    ck_assert_int_eq(turn(), 2);
    ck_assert_uint_eq(a.calls + b.calls, 1);
    ck_assert_uint_eq(c.calls, 0);

    a.then = b.then = NULL;
    ck_assert_int_eq(turn(), 2);
    ck_assert_uint_eq(a.calls + b.calls, 2);
    ck_assert_uint_eq(c.calls, 1);
}
END_TEST

/* The same source, registered anew within the batch that reported it. */
static void register_other_anew(struct probe *self)
{
    struct probe *other = self == &a ? &b : &a;

    nib__poller_remove(&poller, &other->source);
    probe_add(other, EPOLLOUT);
}

START_TEST(a_report_of_the_last_registration_is_stale)
{
    a.then = b.then = register_other_anew;
    probe_add(&a, EPOLLIN);
    probe_add(&b, EPOLLIN);
    ck_assert_int_eq(turn(), 2);
    ck_assert_uint_eq(a.calls + b.calls, 1);
}
END_TEST

static void free_self(struct probe *self)
{
    nib__poller_remove(&poller, &self->source);
    close(self->fd);
    free(self);
}

START_TEST(a_source_may_free_itself)
{
    for (unsigned i = 0; i < 10; i++) {
        struct probe *p = malloc(sizeof(*p));

        ck_assert_ptr_nonnull(p);
        probe_init(p);
        p->then = free_self;
        probe_add(p, EPOLLIN);
    }
    ck_assert_int_eq(turn(), 10);
    ck_assert_int_eq(turn(), 0);
}
END_TEST

static struct probe many[MANY];

static void add_many(struct probe *self)
{
    self->then = NULL;
    for (unsigned i = 0; i < MANY; i++)
        probe_add(&many[i], EPOLLIN | EPOLLET);
}

/* The table moves while a batch is being delivered. */
START_TEST(the_table_grows)
{
    unsigned calls = 0;

    for (unsigned i = 0; i < MANY; i++)
        probe_init(&many[i]);
    a.then = add_many;
    probe_add(&a, EPOLLIN | EPOLLET);
    probe_add(&b, EPOLLIN | EPOLLET);
    ck_assert_int_eq(turn(), 2);
    ck_assert_uint_eq(a.calls, 1);
    ck_assert_uint_eq(b.calls, 1);

    /* More than one wait takes; each edge is reported once. */
    while (turn() > 0)
        ;
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_uint_eq(many[i].calls, 1);
        nib__poller_remove(&poller, &many[i].source);
        close(many[i].fd);
        calls += many[i].calls;
    }
    ck_assert_uint_eq(calls, MANY);
    ck_assert_uint_eq(poller.slot_count, 512);
}
END_TEST

START_TEST(bits_can_be_changed)
{
    probe_add(&a, EPOLLIN);
    ck_assert_int_eq(nib__poller_set(&poller, &a.source, EPOLLOUT), 0);
    ck_assert_uint_eq(a.source.events, EPOLLOUT);
    ck_assert_int_eq(turn(), 1);
    ck_assert_uint_eq(a.events, EPOLLOUT);
    ck_assert_int_eq(nib__poller_set(&poller, &a.source, 0), 0);
    ck_assert_int_eq(turn(), 0);
    ck_assert_int_eq(nib__poller_set(&poller, &a.source, EPOLLIN | EPOLLOUT),
                     0);
    ck_assert_int_eq(turn(), 1);
    ck_assert_uint_eq(a.events, EPOLLIN | EPOLLOUT);
    ck_assert_uint_eq(a.calls, 2);
}
END_TEST

/* With the descriptor gone, a call would fail. */
START_TEST(the_same_bits_make_no_call)
{
    probe_add(&a, EPOLLIN);
    close(a.fd);
    ck_assert_int_eq(nib__poller_set(&poller, &a.source, EPOLLIN), 0);
    ck_assert_int_eq(nib__poller_set(&poller, &a.source, EPOLLOUT), -EBADF);
    ck_assert_uint_eq(a.source.events, EPOLLIN);
    ck_assert_int_ge(a.source.fd, 0);
}
END_TEST

START_TEST(an_exclusive_source_can_be_changed)
{
    probe_add(&a, EPOLLIN | EPOLLEXCLUSIVE);
    ck_assert_int_eq(turn(), 1);
    ck_assert_int_eq(nib__poller_set(&poller, &a.source, 0), 0);
    ck_assert_int_eq(turn(), 0);
    ck_assert_int_eq(
        nib__poller_set(&poller, &a.source, EPOLLIN | EPOLLEXCLUSIVE), 0);
    ck_assert_int_eq(turn(), 1);
    ck_assert_int_eq(
        nib__poller_set(&poller, &a.source, EPOLLOUT | EPOLLEXCLUSIVE), 0);
    ck_assert_int_eq(turn(), 1);
    ck_assert_uint_eq(a.events, EPOLLOUT);
    ck_assert_uint_eq(a.calls, 3);
}
END_TEST

START_TEST(an_exclusive_source_that_cannot_be_changed_is_out)
{
    uint32_t slot;

    probe_add(&a, EPOLLIN | EPOLLEXCLUSIVE);
    slot = a.source.slot;
    close(a.fd);
    ck_assert_int_eq(nib__poller_set(&poller, &a.source, EPOLLIN), -EBADF);
    ck_assert_int_eq(a.source.fd, -1);
    probe_add(&b, EPOLLIN);
    ck_assert_uint_eq(b.source.slot, slot);
}
END_TEST

START_TEST(a_refused_descriptor_takes_no_slot)
{
    FILE *file = tmpfile(); /* epoll does not take files */

    ck_assert_ptr_nonnull(file);
    a.source.fd = 0;
    ck_assert_int_eq(nib__poller_add(&poller, &a.source, fileno(file), EPOLLIN),
                     -EPERM);
    ck_assert_int_eq(a.source.fd, -1);
    ck_assert_int_eq(nib__poller_add(&poller, &a.source, -1, EPOLLIN), -EBADF);
    ck_assert_int_eq(a.source.fd, -1);
    probe_add(&b, EPOLLIN);
    ck_assert_uint_eq(b.source.slot, 0);
    fclose(file);
}
END_TEST

START_TEST(without_memory)
{
    struct nib__poller p;

    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__poller_init(&p), -ENOMEM);
    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__poller_add(&poller, &a.source, a.fd, EPOLLIN),
                     -ENOMEM);
    ck_assert_int_eq(a.source.fd, -1);
    probe_add(&a, EPOLLIN);
    ck_assert_int_eq(turn(), 1);
}
END_TEST

/* Never shorter than asked for; how much longer, nobody promises. */
static int waits_long_enough(void)
{
    static const int64_t times_ns[] = {1, 400000, 999999, 1500000, 3000000};

    for (unsigned i = 0; i < sizeof(times_ns) / sizeof(times_ns[0]); i++) {
        uint64_t start = nib__clock_ns();

        if (nib__poller_wait(&poller, times_ns[i]) != 0 ||
            nib__clock_ns() - start < (uint64_t)times_ns[i])
            return 1;
    }
    return 0;
}

START_TEST(a_wait_is_long_enough)
{
    ck_assert_int_eq(waits_long_enough(), 0);
}
END_TEST

static int without_nanoseconds(int err)
{
    int count;

    deny(SYS_epoll_pwait2, DENY_ANY, err);
    if (waits_long_enough() != 0)
        return 1;
    if (nib__poller_add(&poller, &a.source, a.fd, EPOLLIN) != 0)
        return 2;
    count = nib__poller_wait(&poller, 1000000000);
    nib__poller_remove(&poller, &a.source); /* the set is the parent's, too */
    return count == 1 ? 0 : 3;
}

static int old_kernel(void)
{
    return without_nanoseconds(ENOSYS);
}

static int old_filter(void)
{
    return without_nanoseconds(EPERM);
}

START_TEST(an_old_kernel_counts_milliseconds)
{
    int status = in_child(old_kernel);

    ck_assert_int_eq(status == DENY_NOT_POSSIBLE ? 0 : status, 0);
    status = in_child(old_filter);
    ck_assert_int_eq(status == DENY_NOT_POSSIBLE ? 0 : status, 0);
}
END_TEST

START_TEST(a_wait_without_limit_ends_with_an_event)
{
    probe_add(&a, EPOLLIN);
    ck_assert_int_eq(nib__poller_wait(&poller, -1), 1);
    ck_assert_int_eq(nib__poller_wait(&poller, INT64_MAX), 1);
}
END_TEST

static void on_alarm(int number)
{
    (void)number;
}

START_TEST(an_interrupted_wait_is_no_event)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    struct sigaction action, old;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &often, NULL);
    ck_assert_int_eq(nib__poller_wait(&poller, -1), 0);
    ck_assert_int_eq(nib__poller_wait(&poller, INT64_MAX), 0);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("poller");
    TCase *tc = tcase_create("poller");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, events_reach_their_source);
    tcase_add_test(tc, the_set_is_close_on_exec);
    tcase_add_test(tc, removed_is_silent);
    tcase_add_test(tc, a_closed_descriptor_can_be_removed);
    tcase_add_test(tc, a_stale_report_is_dropped);
    tcase_add_test(tc, a_slot_taken_again_is_another);
    tcase_add_test(tc, a_report_of_the_last_registration_is_stale);
    tcase_add_test(tc, a_source_may_free_itself);
    tcase_add_test(tc, the_table_grows);
    tcase_add_test(tc, bits_can_be_changed);
    tcase_add_test(tc, the_same_bits_make_no_call);
    tcase_add_test(tc, an_exclusive_source_can_be_changed);
    tcase_add_test(tc, an_exclusive_source_that_cannot_be_changed_is_out);
    tcase_add_test(tc, a_refused_descriptor_takes_no_slot);
    tcase_add_test(tc, without_memory);
    tcase_add_test(tc, a_wait_is_long_enough);
    tcase_add_test(tc, an_old_kernel_counts_milliseconds);
    tcase_add_test(tc, a_wait_without_limit_ends_with_an_event);
    tcase_add_test(tc, an_interrupted_wait_is_no_event);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
