/*
 * alloc - the one door to the heap.
 *
 * `mode` says whether anything but libc's plain functions is wanted: it is 0
 * in production, and every function then is libc's behind one branch.
 * Otherwise the call goes through the slow half, which counts, fails on
 * demand and calls the hooks. There is no second build for tests, so what is
 * tested is what ships.
 */

#include "base/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nib.h"

enum {
    MODE_HOOKS = 1, /* `hooks` is set */
    MODE_WATCH = 2, /* count */
    MODE_FAIL = 4,  /* `countdown` runs */
};

static _Atomic unsigned mode;
static struct nib__alloc_hooks hooks;

static _Atomic long requests;
static _Atomic long live;
static _Atomic size_t largest;
static _Atomic long countdown;

/* Relaxed will do: modes change only when the caller's threads agree. */
static inline unsigned current_mode(void)
{
    return atomic_load_explicit(&mode, memory_order_relaxed);
}

/* ---- the slow half ----------------------------------------------------- */

static void count_request(size_t bytes)
{
    size_t seen = atomic_load(&largest);

    atomic_fetch_add(&requests, 1);
    while (seen < bytes &&
           !atomic_compare_exchange_weak(&largest, &seen, bytes)) {
        /* `seen` is fresh: look again */
    }
}

/* Counts one request down; true for the one that has to fail. */
static bool fails_now(void)
{
    if (atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    atomic_fetch_and(&mode, ~(unsigned)MODE_FAIL);
    return true;
}

static void count_live(unsigned m, long change)
{
    if (m & MODE_WATCH)
        atomic_fetch_add(&live, change);
}

/* Allocates (p NULL) or reallocates, by the rules of mode m. */
static void *slow_realloc(unsigned m, void *p, size_t bytes)
{
    void *q;

    if (m & MODE_WATCH)
        count_request(bytes);
    if ((m & MODE_FAIL) && fails_now())
        return NULL;

    if (bytes == 0)
        bytes = 1;
    if (!(m & MODE_HOOKS))
        q = realloc(p, bytes);
    else if (!p)
        q = hooks.malloc_fn(bytes, hooks.arg);
    else
        q = hooks.realloc_fn(p, bytes, hooks.arg);

    if (q && !p)
        count_live(m, 1);
    return q;
}

static void slow_free(unsigned m, void *p)
{
    count_live(m, -1);
    if (m & MODE_HOOKS)
        hooks.free_fn(p, hooks.arg);
    else
        free(p);
}

/* ---- allocation -------------------------------------------------------- */

void *nib__alloc(size_t bytes)
{
    unsigned m = current_mode();

    /* Not every libc gives a block for 0 bytes; the sum costs no branch. */
    if (__builtin_expect(m == 0, 1))
        return malloc(bytes + (bytes == 0));
    return slow_realloc(m, NULL, bytes);
}

void *nib__alloc_zero(size_t bytes)
{
    unsigned m = current_mode();
    void *p;

    if (__builtin_expect(m == 0, 1))
        return calloc(1, bytes + (bytes == 0));
    p = slow_realloc(m, NULL, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *nib__alloc_array(size_t n, size_t bytes)
{
    size_t total;

    if (__builtin_mul_overflow(n, bytes, &total))
        return NULL;
    return nib__alloc(total);
}

void *nib__realloc(void *p, size_t bytes)
{
    unsigned m = current_mode();

    /* realloc(p, 0) would free p and look like a failure. */
    if (__builtin_expect(m == 0, 1))
        return realloc(p, bytes + (bytes == 0));
    return slow_realloc(m, p, bytes);
}

void nib__free(void *p)
{
    unsigned m = current_mode();

    if (__builtin_expect(m == 0, 1))
        free(p);
    else if (p)
        slow_free(m, p);
}

char *nib__strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = nib__alloc(bytes);

    return copy ? memcpy(copy, s, bytes) : NULL;
}

char *nib__strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy;
    size_t bytes;

    if (nib__add_overflow(len, 1, &bytes))
        return NULL;
    copy = nib__alloc(bytes);
    if (!copy)
        return NULL;
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

/* ---- hooks and test aids ----------------------------------------------- */

void nib__alloc_set_hooks(const struct nib__alloc_hooks *wanted)
{
    if (wanted) {
        hooks = *wanted;
        atomic_fetch_or(&mode, MODE_HOOKS);
    } else {
        atomic_fetch_and(&mode, ~(unsigned)MODE_HOOKS);
    }
}

int nib_set_allocator(void *(*alloc)(size_t bytes, void *arg),
                      void *(*resize)(void *p, size_t bytes, void *arg),
                      void (*release)(void *p, void *arg), void *arg)
{
    struct nib__alloc_hooks given = {alloc, resize, release, arg};

    if (!alloc != !resize || !alloc != !release)
        return -EINVAL;
    nib__alloc_set_hooks(alloc ? &given : NULL);
    return 0;
}

void nib__alloc_watch(bool on)
{
    if (!on) {
        atomic_fetch_and(&mode, ~(unsigned)MODE_WATCH);
        return;
    }
    atomic_store(&requests, 0);
    atomic_store(&live, 0);
    atomic_store(&largest, 0);
    atomic_fetch_or(&mode, MODE_WATCH);
}

long nib__alloc_count(void)
{
    return atomic_load(&requests);
}

long nib__alloc_live(void)
{
    return atomic_load(&live);
}

size_t nib__alloc_largest(void)
{
    return atomic_load(&largest);
}

void nib__alloc_fail_at(long n)
{
    atomic_fetch_and(&mode, ~(unsigned)MODE_FAIL);
    atomic_store(&countdown, n);
    if (n > 0)
        atomic_fetch_or(&mode, MODE_FAIL);
}

bool nib__alloc_fail_pending(void)
{
    return (current_mode() & MODE_FAIL) != 0;
}
