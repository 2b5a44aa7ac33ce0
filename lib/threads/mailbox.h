/*
 * mailbox - command records from any thread to one reactor.
 *
 * Any thread posts; only the reactor that owns the mailbox takes, sleeps and
 * closes. The word `head` holds the newest record of a LIFO list, or EMPTY
 * (the owner is awake), ARMED (the owner sleeps or is about to) or CLOSED
 * (for ever). Because sleeping and content are one word, no wake can be lost
 * and no full fence is needed. Invariant: a record ends exactly once, by run
 * or by cancel.
 */
#ifndef NIB_THREADS_MAILBOX_H
#define NIB_THREADS_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/annotate.h"

/*
 * A command record, embedded in its command. `run` and `cancel` are called on
 * the owner; the record may be gone when they return, so its `next` is read
 * before. `cancel` is called instead of `run` when the mailbox closes first.
 */
struct nib__record {
    struct nib__record *next;
    void (*run)(struct nib__record *record);
    void (*cancel)(struct nib__record *record);
};

struct nib__mailbox {
    _Atomic(struct nib__record *) head;
    int eventfd; /* nonblocking, never read: an edge is all it is for */
    _Atomic uint64_t wakes; /* eventfd writes; statistics */
    /* What the owner writes for each record must not take the line of `head`
       from those who post. */
    char apart[64];
    _Atomic uint64_t posts; /* records taken or cancelled; statistics */
    /* The owner's own: taken, not yet run, in order. */
    struct nib__record *first NIB__OWNED;
    struct nib__record **last NIB__OWNED;
};

/* Opens the eventfd. Returns 0 or its errno. The mailbox is EMPTY. */
int nib__mailbox_init(struct nib__mailbox *m);

/*
 * Closes the eventfd; only when no thread can post any more, which is when
 * nobody holds a reference to what the mailbox is part of. The mailbox must
 * have been closed, or never posted to.
 */
void nib__mailbox_destroy(struct nib__mailbox *m);

/*
 * Posts a record; it stays the caller's if this fails. Lock-free; writes the
 * eventfd only if the owner sleeps. Keeps errno. Async-signal-safe.
 *
 * Returns 0, or -ECANCELED if the mailbox is closed: then neither run nor
 * cancel is called.
 *
 * [any]
 */
int nib__mailbox_post(struct nib__mailbox *m, struct nib__record *record);

/*
 * Wakes the owner without a record. Async-signal-safe, keeps errno. [any]
 */
void nib__mailbox_wake(struct nib__mailbox *m);

/*
 * Moves what was posted to the backlog, in order; the mailbox is EMPTY
 * after. Right after the poller's wait, so that posts during the turn do not
 * write the eventfd.
 */
void nib__mailbox_take(struct nib__mailbox *m) NIB__OWNER_ONLY;

/*
 * Runs at most `limit` records of the backlog. Returns how many ran.
 */
unsigned nib__mailbox_run(struct nib__mailbox *m, unsigned limit)
    NIB__OWNER_ONLY;

/* Is something taken but not run? */
static inline bool nib__mailbox_backlog(const struct nib__mailbox *m)
    NIB__OWNER_ONLY;
static inline bool nib__mailbox_backlog(const struct nib__mailbox *m)
{
    return m->first != NULL;
}

/*
 * Before the owner sleeps: true if it may, because nothing was posted; from
 * then on a post writes the eventfd. False: do not sleep. Must not be called
 * with a backlog.
 */
bool nib__mailbox_arm(struct nib__mailbox *m) NIB__OWNER_ONLY;

/*
 * Closes the mailbox for ever: later posts are refused; what was posted and
 * the backlog are cancelled, in order.
 */
void nib__mailbox_close(struct nib__mailbox *m) NIB__OWNER_ONLY;

#endif
