/*
 * timer - deadlines of one reactor, on the monotonic clock.
 *
 * A heap with four children to a node: flatter than a binary one, and the
 * four entries that are compared lie side by side. The due times stand in
 * the heap, so that sifting does not touch the timers themselves, except to
 * tell each that moves its new place.
 */
#include "system/timer.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"

enum {
    CHILDREN = 4,
    FIRST_TIMERS = 16,
};

#define NOT_ARMED UINT32_MAX

/* ---- clock ------------------------------------------------------------- */

static _Atomic uint64_t advanced_ms; /* by tests; 0 in production */

uint64_t nib__clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 +
           atomic_load_explicit(&advanced_ms, memory_order_relaxed);
}

uint64_t nib__clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
           atomic_load_explicit(&advanced_ms, memory_order_relaxed) * 1000000;
}

uint64_t nib__clock_wall_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec +
           atomic_load_explicit(&advanced_ms, memory_order_relaxed) / 1000;
}

uint64_t nib__clock_due_ns(int timeout_ms)
{
    if (timeout_ms < 0)
        return UINT64_MAX;
    return timeout_ms == 0
               ? 0
               : nib__clock_ns() + (uint64_t)timeout_ms * 1000000u;
}

void nib__clock_advance_ms(uint64_t ms)
{
    atomic_fetch_add_explicit(&advanced_ms, ms, memory_order_relaxed);
}

/* ---- store ------------------------------------------------------------- */

void nib__timers_init(struct nib__timers *t)
{
    *t = (struct nib__timers){.heap = NULL};
}

void nib__timers_destroy(struct nib__timers *t)
{
    nib__free(t->heap);
    nib__timers_init(t);
}

int nib__timers_reserve(struct nib__timers *t)
{
    if (t->reserved == t->capacity) {
        size_t capacity = t->capacity ? t->capacity * 2 : FIRST_TIMERS;
        struct nib__timer_entry *heap;
        size_t bytes;

        /* A place is 32 bits, and the last of them means "none". */
        if (capacity > NOT_ARMED ||
            __builtin_mul_overflow(capacity, sizeof(*heap), &bytes))
            return -ENOMEM;
        heap = nib__realloc(t->heap, bytes);
        if (!heap)
            return -ENOMEM;
        t->heap = heap;
        t->capacity = capacity;
    }
    t->reserved++;
    return 0;
}

void nib__timers_unreserve(struct nib__timers *t)
{
    assert(t->reserved > t->count);
    t->reserved--;
}

/* ---- heap -------------------------------------------------------------- */

static void put(struct nib__timers *t, size_t place,
                struct nib__timer_entry entry)
{
    t->heap[place] = entry;
    entry.timer->place = (uint32_t)place;
}

/* Fills the hole at `place` with entry, or moves the hole up to fit. */
static void sift_up(struct nib__timers *t, size_t place,
                    struct nib__timer_entry entry)
{
    while (place > 0) {
        size_t parent = (place - 1) / CHILDREN;

        if (t->heap[parent].due_ms <= entry.due_ms)
            break;
        put(t, place, t->heap[parent]);
        place = parent;
    }
    put(t, place, entry);
}

/* The earliest child of `place`, or `place` itself if it has none. */
static size_t earliest_child(const struct nib__timers *t, size_t place)
{
    size_t first = place * CHILDREN + 1;
    size_t end = first + CHILDREN < t->count ? first + CHILDREN : t->count;
    size_t best = first;

    if (first >= t->count)
        return place;
    for (size_t i = first + 1; i < end; i++)
        if (t->heap[i].due_ms < t->heap[best].due_ms)
            best = i;
    return best;
}

static void sift_down(struct nib__timers *t, size_t place,
                      struct nib__timer_entry entry)
{
    for (;;) {
        size_t child = earliest_child(t, place);

        if (child == place || entry.due_ms <= t->heap[child].due_ms)
            break;
        put(t, place, t->heap[child]);
        place = child;
    }
    put(t, place, entry);
}

/* Fills the hole at `place`, wherever entry then belongs. */
static void settle(struct nib__timers *t, size_t place,
                   struct nib__timer_entry entry)
{
    size_t parent = place > 0 ? (place - 1) / CHILDREN : 0;

    if (place > 0 && entry.due_ms < t->heap[parent].due_ms)
        sift_up(t, place, entry);
    else
        sift_down(t, place, entry);
}

/* ---- timers ------------------------------------------------------------ */

void nib__timer_init(struct nib__timer *timer,
                     void (*fire)(struct nib__timer *timer))
{
    timer->fire = fire;
    timer->place = NOT_ARMED;
}

void nib__timer_arm(struct nib__timers *t, struct nib__timer *timer,
                    uint64_t due_ms)
{
    struct nib__timer_entry entry = {due_ms, timer};

    /* Within a run: see nib__timers_run(). */
    if (entry.due_ms < t->earliest_ms)
        entry.due_ms = t->earliest_ms;

    if (nib__timer_armed(timer)) {
        settle(t, timer->place, entry);
    } else {
        assert(t->count < t->reserved);
        sift_up(t, t->count++, entry);
    }
}

void nib__timer_disarm(struct nib__timers *t, struct nib__timer *timer)
{
    size_t place = timer->place;

    if (!nib__timer_armed(timer))
        return;
    timer->place = NOT_ARMED;
    t->count--;
    if (place < t->count)
        settle(t, place, t->heap[t->count]);
}

/* An indirect call, which the capability analysis cannot look into. */
static void call_fire(struct nib__timer *timer) NIB__OWNER_ONLY;
static void call_fire(struct nib__timer *timer)
{
    timer->fire(timer);
}

void nib__timers_run(struct nib__timers *t, uint64_t now_ms)
{
    /* A timer that arms itself for the past must not keep us here. */
    t->earliest_ms = now_ms + 1;
    while (t->count > 0 && t->heap[0].due_ms <= now_ms) {
        struct nib__timer *timer = t->heap[0].timer;

        nib__timer_disarm(t, timer);
        call_fire(timer);
    }
    t->earliest_ms = 0;
}

uint64_t nib__timers_next_ms(const struct nib__timers *t)
{
    return t->count > 0 ? t->heap[0].due_ms : UINT64_MAX;
}
