/*
 * timer - deadlines of one reactor, on the monotonic clock.
 *
 * A heap of timers that are embedded in what they belong to. Room for a
 * timer is reserved when its owner is made, so arming never allocates and
 * never fails. Owner-only, but for the clock.
 */
#ifndef NIB_SYSTEM_TIMER_H
#define NIB_SYSTEM_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/annotate.h"

/* UINT32_MAX in `place`: not armed. nib__timer_init sets that up. */
struct nib__timer {
    void (*fire)(struct nib__timer *timer);
    uint32_t place;
};

struct nib__timer_entry {
    uint64_t due_ms;
    struct nib__timer *timer;
};

struct nib__timers {
    struct nib__timer_entry *heap;
    size_t count;
    size_t capacity;
    size_t reserved;      /* timers that may be armed at once */
    uint64_t earliest_ms; /* nothing is armed for less; 0 outside a run */
};

/* Milliseconds of CLOCK_MONOTONIC, plus what a test has added. [any] */
uint64_t nib__clock_ms(void);

/* Nanoseconds of CLOCK_MONOTONIC, plus what a test has added. [any] */
uint64_t nib__clock_ns(void);

/* Seconds of CLOCK_REALTIME, plus what a test has added. [any] */
uint64_t nib__clock_wall_s(void);

/*
 * When a wait of timeout_ms ends, on nib__clock_ns()'s scale: UINT64_MAX for
 * -1 (never), 0, long past, for 0 (at once). [any]
 */
uint64_t nib__clock_due_ns(int timeout_ms);

/* For tests: moves the clocks of the process forward. [any] */
void nib__clock_advance_ms(uint64_t ms);

void nib__timers_init(struct nib__timers *t);

void nib__timers_destroy(struct nib__timers *t);

/* Makes room for one more timer. Returns 0 or -ENOMEM. */
int nib__timers_reserve(struct nib__timers *t) NIB__OWNER_ONLY;

/* Gives the room of one (disarmed) timer back. Does not allocate. */
void nib__timers_unreserve(struct nib__timers *t) NIB__OWNER_ONLY;

void nib__timer_init(struct nib__timer *timer,
                     void (*fire)(struct nib__timer *timer));

static inline bool nib__timer_armed(const struct nib__timer *timer)
{
    return timer->place != UINT32_MAX;
}

/* Arms a timer, or moves it, to due_ms on nib__clock_ms()'s scale. */
void nib__timer_arm(struct nib__timers *t, struct nib__timer *timer,
                    uint64_t due_ms) NIB__OWNER_ONLY;

/* Disarms a timer; allowed if it is not armed. */
void nib__timer_disarm(struct nib__timers *t, struct nib__timer *timer)
    NIB__OWNER_ONLY;

/*
 * Fires every timer that is due at now_ms, in order of their times; each is
 * disarmed before its `fire`, which may arm and disarm any. What is armed
 * meanwhile for now_ms or earlier is due at now_ms + 1, so that this returns
 * whatever the timers do.
 */
void nib__timers_run(struct nib__timers *t, uint64_t now_ms) NIB__OWNER_ONLY;

/* When the next timer is due; UINT64_MAX if none is armed. */
uint64_t nib__timers_next_ms(const struct nib__timers *t) NIB__OWNER_ONLY;

#endif
