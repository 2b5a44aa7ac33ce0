/*
 * log - lines to the application's callback, filtered and limited.
 *
 * Nothing is printed here: a line goes to the callback of its log or nowhere.
 * A log's fields are set before the first other thread sees it and stay; its
 * functions may then be called from any thread, and so may the callback, also
 * at the same time. Text from a peer goes through nib__log_escape() first.
 */

#ifndef NIB__BASE_LOG_H
#define NIB__BASE_LOG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The same numbers as the public NIB_LOG_*; a larger one says more. */
enum nib__log_level {
    NIB__LOG_ERROR = 0,
    NIB__LOG_WARN = 1,
    NIB__LOG_INFO = 2,
    NIB__LOG_DEBUG = 3,
};

/* Longest line, with its NUL; what is longer ends in "...". */
#define NIB__LOG_LINE_BYTES 512

/* Period of a nib__log_limit that names none. */
#define NIB__LOG_PERIOD_MS 10000

/* One for each server; all zero is a log that goes nowhere. */
struct nib__log {
    /* Gets one line without newline, valid until it returns. NULL: none. */
    void (*fn)(int level, const char *text, void *arg);
    void *arg;
    int level; /* lines above this level are dropped */
};

/*
 * Limits the lines of one kind; all zero is ready for use. Static, or inside
 * whatever the lines are about. Only nib__log_limited() touches the atomics.
 */
struct nib__log_limit {
    uint32_t period_ms;           /* 0 stands for NIB__LOG_PERIOD_MS */
    _Atomic uint32_t dropped;     /* lines since the last one let through */
    _Atomic uint64_t quiet_until; /* in the caller's milliseconds */
};

/*
 * Writes one line, formatted as by printf, with no newline at its end. Does
 * nothing when `log` is NULL or has no callback, or filters the level. No
 * allocation; errno is kept unless the callback changes it.
 */
void nib__log(struct nib__log *log, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * As nib__log(), but writes at most one line in each period of `limit`; the
 * first after dropped ones ends in " (N more like this)". Lines that the
 * level filters are not counted.
 *
 * now_ms  monotonic milliseconds, from one clock for each limit
 */
void nib__log_limited(struct nib__log *log, struct nib__log_limit *limit,
                      int level, uint64_t now_ms, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/*
 * Writes in[0..len) to out so that it can stand in a log line: a control
 * byte, a byte above 0x7e and a backslash become \xNN (two lower-case digits).
 * out holds cap bytes and is always NUL-terminated (unless cap is 0); if the
 * whole does not fit, it ends in "..." behind the last byte that does, and no
 * escape is cut. Returns the bytes written without the NUL.
 */
size_t nib__log_escape(char *out, size_t cap, const char *in, size_t len);

#endif
