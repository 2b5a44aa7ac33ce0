/*
 * oneshot - the end of one call, told to its caller.
 *
 * Lies on the caller's stack. The completing thread writes the result and
 * then the word, and never touches the record again: the caller may have
 * returned already. The caller waits without limit: whoever was given a
 * oneshot completes it, so a call that needs a deadline gets it from a timer
 * of the owner. No spinning.
 */
#ifndef NIB_THREADS_ONESHOT_H
#define NIB_THREADS_ONESHOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nib__oneshot {
    _Atomic uint32_t word; /* 0: pending, 1: pending with a waiter, 2: done */
    int result;
};

/* Ready to be handed out. */
void nib__oneshot_init(struct nib__oneshot *o);

/*
 * Completes; exactly once. The record may be gone when this returns. [any]
 */
void nib__oneshot_complete(struct nib__oneshot *o, int result);

/* Waits for the completion and returns its result. Signals do not end it. */
int nib__oneshot_wait(struct nib__oneshot *o);

/* Is it completed? For asserts and tests. */
bool nib__oneshot_done(struct nib__oneshot *o);

/*
 * Waits while *word is `expected`, until due_ns on nib__clock_ns()'s scale
 * (UINT64_MAX: no limit); a timed wait for words that lie under a lock.
 *
 * Returns 0 if woken, changed or interrupted, -ETIMEDOUT at the deadline. May
 * wake for no reason: the caller looks at its condition again.
 */
int nib__futex_wait(_Atomic uint32_t *word, uint32_t expected,
                    uint64_t due_ns);

/* Wakes up to `count` waiters of an address, which need not be valid memory
   any more. */
void nib__futex_wake(_Atomic uint32_t *word, int count);

#endif
