/*
 * reactor - one thread, one epoll set, one mailbox, one timer store.
 *
 * Runs turns until it is told to end. It knows nothing of connections: what
 * they need is a source (a descriptor), a timer, a record (from other
 * threads) or a task (from this thread, once in this turn). Everything here
 * is for the reactor's own thread, unless a comment says [any].
 */
#ifndef NIB_THREADS_REACTOR_H
#define NIB_THREADS_REACTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/annotate.h"
#include "base/log.h"
#include "system/poller.h"
#include "system/timer.h"
#include "threads/mailbox.h"

/*
 * Work to be done later on this thread; embedded in what it is about. Listed
 * at most once at a time, in one list.
 */
struct nib__task {
    struct nib__task *next;
    void (*run)(struct nib__task *task);
    bool listed;
};

struct nib__task_list {
    struct nib__task *first;
    struct nib__task **last;
};

struct nib__reactor {
    struct nib__mailbox mailbox;
    struct nib__poller poller NIB__OWNED;
    struct nib__timers timers NIB__OWNED;
    struct nib__source wake NIB__OWNED;      /* the mailbox's eventfd */
    struct nib__task_list ready NIB__OWNED;  /* step 6: flushes */
    struct nib__task_list last NIB__OWNED;   /* step 7: deferred frees */
    uint64_t now_ms NIB__OWNED;              /* when this turn began */
    uint8_t *buffer NIB__OWNED;              /* what reads go into */
    size_t buffer_bytes;
    unsigned number;
    void *owner; /* the server's own structure for this reactor */

    /* Called at the start of each turn; false ends the loop. */
    bool (*turn)(struct nib__reactor *reactor);
    /* Fan-out, after the flushes: does one slice and returns in how many
       nanoseconds it wants the next; -1: there is nothing to do. */
    int64_t (*fan)(struct nib__reactor *reactor);

    pthread_t thread;
    bool started;

    /* For the watchdog: which callback runs (NULL: none), and when this turn
       began (0: it sleeps). [any] */
    _Atomic(const char *) callback;
    _Atomic uint64_t busy_since_ms;
};

/*
 * Prepares a reactor: opens its descriptors, takes its memory. `turn` and
 * `fan` are to be set by the caller before it starts.
 *
 * Returns 0, -ENOMEM, or the errno of what failed, with nothing held.
 */
int nib__reactor_init(struct nib__reactor *r, unsigned number,
                      size_t buffer_bytes);

/*
 * Frees what nib__reactor_init() took but for the mailbox, which lives until
 * nobody can post any more; after the thread has ended.
 */
void nib__reactor_destroy(struct nib__reactor *r);

/* Starts the thread, all signals blocked in it. Returns 0 or its errno. */
int nib__reactor_start(struct nib__reactor *r);

/* Waits for the end of the thread. */
void nib__reactor_join(struct nib__reactor *r);

/* The reactor whose thread this is; NULL on any other thread. [any] */
struct nib__reactor *nib__reactor_self(void);

/* Is this the thread of r? [any] */
static inline bool nib__reactor_here(const struct nib__reactor *r)
{
    return nib__reactor_self() == r;
}

/*
 * Lists a task for step 6 of this turn; of the next one if step 6 is going
 * on already. Nothing if it is listed.
 */
void nib__reactor_soon(struct nib__reactor *r, struct nib__task *task)
    NIB__OWNER_ONLY;

/*
 * Lists a task, listed nowhere else, for the end of this turn: when nothing
 * of this turn points at it any more.
 */
void nib__reactor_last(struct nib__reactor *r, struct nib__task *task)
    NIB__OWNER_ONLY;

/* In debug builds: aborts unless this is the thread of r. */
#ifdef NIB_DEBUG
void nib__assert_owner(const struct nib__reactor *r, const char *where);
#define NIB_ASSERT_OWNER(r) nib__assert_owner((r), __func__)
#else
#define NIB_ASSERT_OWNER(r) ((void)0)
#endif


#endif
