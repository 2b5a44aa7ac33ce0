/*
 * oneshot - the end of one call, told to its caller.
 *
 * A futex word on the caller's stack. `result` is written before the
 * exchange that makes the word DONE, and read after an acquiring load that
 * saw DONE. After the exchange the completing thread uses the word's address
 * only, to wake; a wake that hits whatever lies there by then is one of those
 * for no reason, which every futex waiter has to expect.
 */
#include "threads/oneshot.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "system/timer.h"

enum {
    PENDING = 0,
    WAITED_FOR = 1,
    DONE = 2,
};

/*
 * ThreadSanitizer puts a signal handler off until the thread calls something
 * that it knows; a system call made by hand is not. So its waits are short,
 * and the clock is looked at in between.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NIB__SHORT_WAITS 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define NIB__SHORT_WAITS 1
#endif
#ifdef NIB__SHORT_WAITS
#define LONGEST_WAIT_NS UINT64_C(50000000)
#else
#define LONGEST_WAIT_NS UINT64_MAX
#endif

/* ---- futex ------------------------------------------------------------- */

/* glibc has no function for it. Returns what the kernel does, or -errno. */
static long futex(_Atomic uint32_t *word, int op, uint32_t value,
                  const struct timespec *limit)
{
    long r = syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, limit,
                     NULL, 0);

    return r < 0 ? -errno : r;
}

int nib__futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t due_ns)
{
    struct timespec limit;
    uint64_t left = due_ns;
    bool cut;
    long r;

    if (due_ns != UINT64_MAX) {
        uint64_t now = nib__clock_ns();

        left = due_ns > now ? due_ns - now : 0;
    }
    cut = left > LONGEST_WAIT_NS;
    if (cut)
        left = LONGEST_WAIT_NS;
    /* Relative, so that a clock which a test has moved does not matter: this
       call never resumes a wait, hence nothing adds up. */
    limit.tv_sec = (time_t)(left / 1000000000);
    limit.tv_nsec = (long)(left % 1000000000);
    r = futex(word, FUTEX_WAIT, expected, left == UINT64_MAX ? NULL : &limit);
    assert(r == 0 || r == -EAGAIN || r == -EINTR || r == -ETIMEDOUT);
    return r == -ETIMEDOUT && !cut ? -ETIMEDOUT : 0;
}

void nib__futex_wake(_Atomic uint32_t *word, int count)
{
    futex(word, FUTEX_WAKE, (uint32_t)count, NULL);
}

/* ---- oneshot ----------------------------------------------------------- */

void nib__oneshot_init(struct nib__oneshot *o)
{
    atomic_init(&o->word, PENDING);
    o->result = 0;
}

void nib__oneshot_complete(struct nib__oneshot *o, int result)
{
    uint32_t old;

    o->result = result;
    old = atomic_exchange_explicit(&o->word, DONE, memory_order_acq_rel);
    assert(old != DONE);
    if (old == WAITED_FOR)
        nib__futex_wake(&o->word, 1);
}

int nib__oneshot_wait(struct nib__oneshot *o)
{
    uint32_t word = PENDING;

    /* Says that we wait; fails, and tells so, if it is DONE already. */
    atomic_compare_exchange_strong_explicit(&o->word, &word, WAITED_FOR,
                                            memory_order_acq_rel,
                                            memory_order_acquire);
    if (word == PENDING)
        word = WAITED_FOR;
    while (word != DONE) {
        nib__futex_wait(&o->word, WAITED_FOR, UINT64_MAX);
        word = atomic_load_explicit(&o->word, memory_order_acquire);
    }
    return o->result;
}

bool nib__oneshot_done(struct nib__oneshot *o)
{
    return atomic_load_explicit(&o->word, memory_order_acquire) == DONE;
}
