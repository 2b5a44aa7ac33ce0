/*
 * test_mailbox - order, wakes, closing, and four threads that post.
 */

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sanitized.h"
#include "system/poller.h"
#include "threads/mailbox.h"
#include "threads/oneshot.h"

enum {
    PRODUCERS = 4,
    POSTS = SANITIZED ? 10000 : 250000, /* of each producer */
    RECORDS_A_TURN = 256,
    CALL_EVERY = 512, /* so many posts, then a call that waits */
    STOPS = SANITIZED ? 100 : 1000,
};

static struct nib__mailbox box;

/* ---- one thread -------------------------------------------------------- */

struct note {
    struct nib__record record; /* first */
    int number;
};

static struct note notes[16];
static int ran[32], cancelled[32];
static unsigned ran_count, cancelled_count;

static void run_note(struct nib__record *record)
{
    ran[ran_count++] = ((struct note *)record)->number;
}

static void cancel_note(struct nib__record *record)
{
    cancelled[cancelled_count++] = ((struct note *)record)->number;
}

static void setup(void)
{
    ck_assert_int_eq(nib__mailbox_init(&box), 0);
    ran_count = cancelled_count = 0;
    for (int i = 0; i < 16; i++)
        notes[i] = (struct note){{NULL, run_note, cancel_note}, i};
}

static void teardown(void)
{
    nib__mailbox_close(&box);
    nib__mailbox_destroy(&box);
    ck_assert_int_eq(box.eventfd, -1);
}

static void post(int number)
{
    ck_assert_int_eq(nib__mailbox_post(&box, &notes[number].record), 0);
}

/* Has anybody written the eventfd since this was last called? */
static bool rung(void)
{
    uint64_t count;

    return read(box.eventfd, &count, sizeof(count)) == sizeof(count);
}

START_TEST(the_eventfd_does_not_block_and_is_not_inherited)
{
    ck_assert_int_eq(fcntl(box.eventfd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    ck_assert_int_eq(fcntl(box.eventfd, F_GETFD), FD_CLOEXEC);
}
END_TEST

START_TEST(no_descriptor_left)
{
    struct nib__mailbox m;
    struct rlimit old, none;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){0, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    ck_assert_int_eq(nib__mailbox_init(&m), -EMFILE);
    setrlimit(RLIMIT_NOFILE, &old);
}
END_TEST

START_TEST(records_run_in_order)
{
    for (int i = 0; i < 3; i++)
        post(i);
    ck_assert(!nib__mailbox_backlog(&box));
    nib__mailbox_take(&box);
    ck_assert(nib__mailbox_backlog(&box));
    /* Later ones go behind the backlog. */
    for (int i = 3; i < 6; i++)
        post(i);
    nib__mailbox_take(&box);
    ck_assert_uint_eq(nib__mailbox_run(&box, 100), 6);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(ran[i], i);
    ck_assert(!nib__mailbox_backlog(&box));
    ck_assert_uint_eq(nib__mailbox_run(&box, 100), 0);
    ck_assert_uint_eq(atomic_load(&box.posts), 6);
}
END_TEST

START_TEST(a_run_has_a_limit)
{
    for (int i = 0; i < 5; i++)
        post(i);
    ck_assert_uint_eq(nib__mailbox_run(&box, 1), 0); /* nothing taken */
    nib__mailbox_take(&box);
    ck_assert_uint_eq(nib__mailbox_run(&box, 0), 0);
    ck_assert_uint_eq(nib__mailbox_run(&box, 2), 2);
    ck_assert(nib__mailbox_backlog(&box));
    ck_assert_uint_eq(nib__mailbox_run(&box, 2), 2);
    ck_assert_uint_eq(nib__mailbox_run(&box, 2), 1);
    ck_assert_uint_eq(ran_count, 5);
}
END_TEST

START_TEST(only_a_sleeping_owner_is_woken)
{
    post(0);
    ck_assert(!rung());
    ck_assert(!nib__mailbox_arm(&box)); /* there is something to take */
    nib__mailbox_take(&box);
    nib__mailbox_run(&box, 1);
    ck_assert(nib__mailbox_arm(&box));
    ck_assert(nib__mailbox_arm(&box)); /* still */
    post(1);
    ck_assert(rung());
    post(2);
    ck_assert(!rung());
    ck_assert(!nib__mailbox_arm(&box));
    nib__mailbox_take(&box);
    ck_assert_uint_eq(nib__mailbox_run(&box, 9), 2);
    post(3); /* awake since it took */
    ck_assert(!rung());
    ck_assert_uint_eq(atomic_load(&box.wakes), 1);
}
END_TEST

START_TEST(woken_by_something_else)
{
    ck_assert(nib__mailbox_arm(&box));
    nib__mailbox_take(&box);
    post(0);
    ck_assert(!rung());
    nib__mailbox_take(&box);
    ck_assert_uint_eq(nib__mailbox_run(&box, 9), 1);
}
END_TEST

START_TEST(a_wake_without_a_record)
{
    ck_assert(nib__mailbox_arm(&box));
    errno = EXDEV;
    nib__mailbox_wake(&box);
    ck_assert_int_eq(errno, EXDEV);
    ck_assert(rung());
    nib__mailbox_take(&box);
    ck_assert(!nib__mailbox_backlog(&box));
    nib__mailbox_wake(&box); /* awake or not */
    ck_assert(rung());
    ck_assert_uint_eq(atomic_load(&box.wakes), 2);
}
END_TEST

/* Nobody reads the counter; when it is full, a wake must still be one. */
START_TEST(a_full_counter)
{
    const uint64_t full = UINT64_MAX - 1;
    uint64_t count;

    ck_assert_int_eq(write(box.eventfd, &full, sizeof(full)), sizeof(full));
    ck_assert(nib__mailbox_arm(&box));
    errno = EXDEV;
    post(0);
    ck_assert_int_eq(errno, EXDEV);
    ck_assert_int_eq(read(box.eventfd, &count, sizeof(count)), sizeof(count));
    ck_assert_uint_eq(count, 1);
}
END_TEST

static void run_and_post(struct nib__record *record)
{
    run_note(record);
    post(((struct note *)record)->number + 1);
}

START_TEST(a_run_may_post)
{
    notes[0].record.run = run_and_post;
    post(0);
    nib__mailbox_take(&box);
    ck_assert_uint_eq(nib__mailbox_run(&box, 9), 1);
    ck_assert(!nib__mailbox_backlog(&box));
    ck_assert(!nib__mailbox_arm(&box)); /* so it will not be slept on */
    nib__mailbox_take(&box);
    ck_assert_uint_eq(nib__mailbox_run(&box, 9), 1);
    ck_assert_int_eq(ran[1], 1);
    ck_assert(!rung());
}
END_TEST

static void run_and_post_itself(struct nib__record *record)
{
    if (ran_count < 3)
        ck_assert_int_eq(nib__mailbox_post(&box, record), 0);
    run_note(record);
}

START_TEST(a_run_may_post_its_own_record)
{
    notes[0].record.run = run_and_post_itself;
    post(0);
    post(1);
    for (int i = 0; i < 5; i++) {
        nib__mailbox_take(&box);
        nib__mailbox_run(&box, 9);
    }
    ck_assert_uint_eq(ran_count, 4); /* 0 1 0 0 */
    ck_assert_int_eq(ran[1], 1);
    ck_assert_int_eq(ran[3], 0);
}
END_TEST

static void run_and_free(struct nib__record *record)
{
    run_note(record);
    free(record);
}

static void cancel_and_free(struct nib__record *record)
{
    cancel_note(record);
    free(record);
}

static void post_new(int number)
{
    struct note *note = malloc(sizeof(*note));

    ck_assert_ptr_nonnull(note);
    *note = (struct note){{NULL, run_and_free, cancel_and_free}, number};
    ck_assert_int_eq(nib__mailbox_post(&box, &note->record), 0);
}

START_TEST(a_record_may_be_gone_after_its_end)
{
    for (int i = 0; i < 4; i++)
        post_new(i);
    nib__mailbox_take(&box);
    ck_assert_uint_eq(nib__mailbox_run(&box, 2), 2);
    post_new(4);
    nib__mailbox_close(&box);
    ck_assert_uint_eq(cancelled_count, 3);
}
END_TEST

START_TEST(close_cancels_all_in_order)
{
    for (int i = 0; i < 4; i++)
        post(i);
    nib__mailbox_take(&box);
    nib__mailbox_run(&box, 1);
    for (int i = 4; i < 6; i++)
        post(i);
    nib__mailbox_close(&box);
    ck_assert_uint_eq(ran_count, 1);
    ck_assert_uint_eq(cancelled_count, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(cancelled[i], i + 1);
    ck_assert_uint_eq(atomic_load(&box.posts), 6);
    ck_assert(!nib__mailbox_backlog(&box));
}
END_TEST

START_TEST(nothing_happens_after_close)
{
    ck_assert(nib__mailbox_arm(&box));
    nib__mailbox_close(&box);
    ck_assert_int_eq(nib__mailbox_post(&box, &notes[0].record), -ECANCELED);
    ck_assert(!rung());
    /* It is for ever, whatever the owner still does. */
    nib__mailbox_take(&box);
    ck_assert(!nib__mailbox_arm(&box));
    nib__mailbox_close(&box);
    ck_assert_int_eq(nib__mailbox_post(&box, &notes[0].record), -ECANCELED);
    ck_assert_uint_eq(nib__mailbox_run(&box, 9), 0);
    ck_assert_uint_eq(ran_count + cancelled_count, 0);
}
END_TEST

static int refused;

static void cancel_and_post(struct nib__record *record)
{
    cancel_note(record);
    refused = nib__mailbox_post(&box, &notes[15].record);
}

START_TEST(a_cancel_cannot_post)
{
    notes[0].record.cancel = cancel_and_post;
    post(0);
    post(1);
    nib__mailbox_close(&box);
    ck_assert_int_eq(refused, -ECANCELED);
    ck_assert_uint_eq(cancelled_count, 2);
}
END_TEST

/* ---- many threads ------------------------------------------------------ */

/* How the owner listens to the eventfd. */
enum mode {
    EDGE,       /* edge-triggered, never read: as the reactor does */
    LEVEL_READ, /* level-triggered, read each time */
};

struct item {
    struct nib__record record; /* first */
    struct nib__oneshot done;  /* of a call */
    struct producer *producer;
    unsigned number;
    bool call;
};

struct producer {
    pthread_t thread;
    struct item *items;
    unsigned wanted;   /* posts to make */
    unsigned accepted; /* posts made; the rest was refused */
    /* The owner's: */
    unsigned next; /* number of the item that has to end next */
    unsigned runs; /* how many ran */
    bool reordered;
};

static struct producer producers[PRODUCERS];
static struct nib__poller poller;
static struct nib__source bell;
static enum mode mode;
static atomic_int posting; /* producers that are not done */

/* Called by the owner for each item, run or cancelled. */
static void end_item(struct item *item, int result)
{
    struct producer *p = item->producer;

    if (item->number != p->next)
        p->reordered = true;
    p->next = item->number + 1;
    if (item->call)
        nib__oneshot_complete(&item->done, result);
}

static void run_item(struct nib__record *record)
{
    ((struct item *)record)->producer->runs++;
    end_item((struct item *)record, 1);
}

static void cancel_item(struct nib__record *record)
{
    end_item((struct item *)record, -ECANCELED);
}

static void *produce(void *arg)
{
    struct producer *p = arg;

    for (unsigned i = 0; i < p->wanted; i++) {
        struct item *item = &p->items[i];

        item->record.run = run_item;
        item->record.cancel = cancel_item;
        item->producer = p;
        item->number = i;
        item->call = i % CALL_EVERY == CALL_EVERY - 1;
        if (item->call)
            nib__oneshot_init(&item->done);
        if (nib__mailbox_post(&box, &item->record) < 0)
            break;
        p->accepted++;
        if (item->call && nib__oneshot_wait(&item->done) < 0)
            break;
    }
    atomic_fetch_sub(&posting, 1);
    nib__mailbox_wake(&box); /* perhaps this was what the owner waits for */
    return NULL;
}

static void rings(struct nib__source *source, uint32_t events)
{
    uint64_t count;

    (void)events;
    if (mode == LEVEL_READ)
        (void)!read(source->fd, &count, sizeof(count));
}

static void start(unsigned wanted)
{
    uint32_t events = mode == EDGE ? EPOLLIN | EPOLLET : EPOLLIN;

    ck_assert_int_eq(nib__poller_init(&poller), 0);
    bell = (struct nib__source){.ready = rings, .fd = -1};
    ck_assert_int_eq(nib__poller_add(&poller, &bell, box.eventfd, events), 0);
    atomic_store(&posting, PRODUCERS);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        struct producer *p = &producers[i];

        *p = (struct producer){.wanted = wanted};
        p->items = calloc(wanted, sizeof(*p->items));
        ck_assert_ptr_nonnull(p->items);
        ck_assert_int_eq(pthread_create(&p->thread, NULL, produce, p), 0);
    }
}

/* One turn as the reactor makes it; without any limit to its sleep. */
static void turn(void)
{
    bool sleep = !nib__mailbox_backlog(&box) && nib__mailbox_arm(&box);
    int count = nib__poller_wait(&poller, sleep ? -1 : 0);

    nib__mailbox_take(&box);
    nib__mailbox_run(&box, RECORDS_A_TURN);
    nib__poller_dispatch(&poller, count);
}

/* Joins the producers; each of their accepted records has ended once. */
static void finish(void)
{
    for (unsigned i = 0; i < PRODUCERS; i++) {
        struct producer *p = &producers[i];

        pthread_join(p->thread, NULL);
        ck_assert(!p->reordered);
        ck_assert_uint_eq(p->next, p->accepted);
        free(p->items);
    }
    nib__poller_remove(&poller, &bell);
    nib__poller_destroy(&poller);
}

/*
 * Every post is a run, in each producer's order, and wakes are fewer. The
 * calls let the owner fall asleep again and again.
 */
START_TEST(a_million_posts)
{
    uint64_t total = 0;

    mode = (enum mode)_i;
    start(POSTS);
    while (atomic_load(&posting) > 0)
        turn();
    nib__mailbox_take(&box);
    while (nib__mailbox_backlog(&box))
        nib__mailbox_run(&box, RECORDS_A_TURN);
    finish();
    for (unsigned i = 0; i < PRODUCERS; i++) {
        ck_assert_uint_eq(producers[i].runs, POSTS);
        total += producers[i].runs;
    }
    ck_assert_uint_eq(total, (uint64_t)PRODUCERS * POSTS);
    ck_assert_uint_eq(atomic_load(&box.posts), total);
    /* Each producer also wakes the owner once, at its end. */
    ck_assert_uint_le(atomic_load(&box.wakes), total + PRODUCERS);
}
END_TEST

/* Closing while all post: what was accepted ends, what comes later does not
   begin, and no call waits for ever. */
START_TEST(a_thousand_stops)
{
    uint64_t runs = 0;

    for (unsigned round = 0; round < STOPS; round++) {
        mode = EDGE;
        start(CALL_EVERY * 4);
        /* Too few turns for the producers to get done, so each comes back. */
        for (unsigned i = 0; i < round % 16; i++)
            turn();
        nib__mailbox_close(&box);
        finish();
        for (unsigned i = 0; i < PRODUCERS; i++)
            runs += producers[i].runs;
        nib__mailbox_destroy(&box);
        ck_assert_int_eq(nib__mailbox_init(&box), 0);
    }
    ck_assert_uint_gt(runs, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox");
    TCase *tc = tcase_create("one thread");
    TCase *threads = tcase_create("threads");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_eventfd_does_not_block_and_is_not_inherited);
    tcase_add_test(tc, no_descriptor_left);
    tcase_add_test(tc, records_run_in_order);
    tcase_add_test(tc, a_run_has_a_limit);
    tcase_add_test(tc, only_a_sleeping_owner_is_woken);
    tcase_add_test(tc, woken_by_something_else);
    tcase_add_test(tc, a_wake_without_a_record);
    tcase_add_test(tc, a_full_counter);
    tcase_add_test(tc, a_run_may_post);
    tcase_add_test(tc, a_run_may_post_its_own_record);
    tcase_add_test(tc, a_record_may_be_gone_after_its_end);
    tcase_add_test(tc, close_cancels_all_in_order);
    tcase_add_test(tc, nothing_happens_after_close);
    tcase_add_test(tc, a_cancel_cannot_post);
    suite_add_tcase(suite, tc);

    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_set_timeout(threads, 300);
    tcase_add_loop_test(threads, a_million_posts, EDGE, LEVEL_READ + 1);
    tcase_add_test(threads, a_thousand_stops);
    suite_add_tcase(suite, threads);

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
