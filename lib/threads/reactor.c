/*
 * reactor - the loop.
 *
 * One turn: wait, take the mailbox, run records, deliver events, fire timers,
 * run ready tasks (flushes) and a slice of fan-out, run last tasks (frees).
 * It sleeps only if the backlog and the ready list are empty and the mailbox
 * can be armed; so no work waits for a wake that never comes.
 */
#include "threads/reactor.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/alloc.h"

enum {
    RECORDS_PER_TURN = 256, /* then descriptors get their turn */
};

/* Access through __tls_get_addr would cost each nib_send a call. */
static _Thread_local struct nib__reactor *self
    __attribute__((tls_model("initial-exec")));

struct nib__reactor *nib__reactor_self(void)
{
    return self;
}

#ifdef NIB_DEBUG
void nib__assert_owner(const struct nib__reactor *r, const char *where)
{
    if (self == r)
        return;
    fprintf(stderr, "nib: %s called by a thread that is not the owner\n",
            where);
    abort();
}
#endif

/* The eventfd's edge is all that it has to tell. */
static void woken(struct nib__source *source, uint32_t events)
{
    (void)source;
    (void)events;
}

static void list_init(struct nib__task_list *list)
{
    list->first = NULL;
    list->last = &list->first;
}

static void list_add(struct nib__task_list *list, struct nib__task *task)
{
    task->next = NULL;
    task->listed = true;
    *list->last = task;
    list->last = &task->next;
}

int nib__reactor_init(struct nib__reactor *r, unsigned number,
                      size_t buffer_bytes) NIB__NO_ANALYSIS
{
    int err;

    *r = (struct nib__reactor){.number = number,
                               .buffer_bytes = buffer_bytes};
    list_init(&r->ready);
    list_init(&r->last);
    nib__timers_init(&r->timers);
    err = nib__mailbox_init(&r->mailbox);
    if (err < 0)
        return err;
    err = nib__poller_init(&r->poller);
    if (err < 0)
        goto close_mailbox;
    err = -ENOMEM;
    r->buffer = nib__alloc(buffer_bytes);
    if (r->buffer == NULL)
        goto destroy_poller;
    r->wake.fd = -1;
    r->wake.ready = woken;
    err = nib__poller_add(&r->poller, &r->wake, r->mailbox.eventfd,
                          EPOLLIN | EPOLLET);
    if (err < 0)
        goto free_buffer;
    return 0;

free_buffer:
    nib__free(r->buffer);
    r->buffer = NULL;
destroy_poller:
    nib__poller_destroy(&r->poller);
close_mailbox:
    nib__mailbox_destroy(&r->mailbox);
    return err;
}

void nib__reactor_destroy(struct nib__reactor *r) NIB__NO_ANALYSIS
{
    nib__poller_remove(&r->poller, &r->wake);
    nib__poller_destroy(&r->poller);
    nib__timers_destroy(&r->timers);
    nib__free(r->buffer);
    r->buffer = NULL;
}

void nib__reactor_soon(struct nib__reactor *r, struct nib__task *task)
{
    NIB_ASSERT_OWNER(r);
    if (!task->listed)
        list_add(&r->ready, task);
}

void nib__reactor_last(struct nib__reactor *r, struct nib__task *task)
{
    NIB_ASSERT_OWNER(r);
    list_add(&r->last, task);
}

/* Runs what is listed now; what is listed meanwhile waits for the next. */
static void run_list(struct nib__task_list *list) NIB__OWNER_ONLY;
static void run_list(struct nib__task_list *list)
{
    struct nib__task *task = list->first;

    list_init(list);
    while (task != NULL) {
        struct nib__task *next = task->next;

        task->listed = false;
        task->run(task);
        task = next;
    }
}

/* How long this turn may sleep: until the next timer or slice. */
static int64_t sleep_ns(struct nib__reactor *r, int64_t fan_ns)
    NIB__OWNER_ONLY;
static int64_t sleep_ns(struct nib__reactor *r, int64_t fan_ns)
{
    uint64_t due = nib__timers_next_ms(&r->timers);
    int64_t timeout = fan_ns;

    if (due != UINT64_MAX) {
        uint64_t now = nib__clock_ms();
        uint64_t left = due > now ? due - now : 0;
        int64_t ns = left > INT64_MAX / 1000000
                         ? INT64_MAX
                         : (int64_t)left * 1000000;

        if (timeout < 0 || ns < timeout)
            timeout = ns;
    }
    if (timeout != 0 &&
        (nib__mailbox_backlog(&r->mailbox) || r->ready.first != NULL ||
         !nib__mailbox_arm(&r->mailbox)))
        timeout = 0;
    return timeout;
}

static void loop(struct nib__reactor *r) NIB__OWNER_ONLY;
static void loop(struct nib__reactor *r)
{
    int64_t fan_ns = -1;

    r->now_ms = nib__clock_ms();
    while (r->turn(r)) {
        int events;

        atomic_store_explicit(&r->busy_since_ms, 0, memory_order_relaxed);
        events = nib__poller_wait(&r->poller, sleep_ns(r, fan_ns));
        nib__mailbox_take(&r->mailbox);
        r->now_ms = nib__clock_ms();
        atomic_store_explicit(&r->busy_since_ms, r->now_ms,
                              memory_order_relaxed);
        nib__mailbox_run(&r->mailbox, RECORDS_PER_TURN);
        nib__poller_dispatch(&r->poller, events);
        nib__timers_run(&r->timers, r->now_ms);
        run_list(&r->ready);
        fan_ns = r->fan(r);
        run_list(&r->last);
    }
    nib__mailbox_close(&r->mailbox);
    run_list(&r->ready);
    run_list(&r->last);
}

static void *thread_main(void *arg)
{
    struct nib__reactor *r = arg;

    self = r;
    nib__owner_enter();
    loop(r);
    nib__owner_leave();
    self = NULL;
    return NULL;
}

int nib__reactor_start(struct nib__reactor *r)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&r->thread, NULL, thread_main, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err == 0) {
        char name[16];

        snprintf(name, sizeof name, "nib-reactor-%u", r->number % 1000);
        pthread_setname_np(r->thread, name);
        r->started = true;
    }
    return -err;
}

void nib__reactor_join(struct nib__reactor *r)
{
    if (!r->started)
        return;
    pthread_join(r->thread, NULL);
    r->started = false;
}
