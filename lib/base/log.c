/*
 * log - lines to the application's callback, filtered and limited.
 *
 * A line is made on the caller's stack and handed over; the log keeps
 * nothing. The limit is lock-free: of the threads that find a period over,
 * the one that opens the next period writes, the others count as dropped.
 */

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "nib.h"

_Static_assert((int)NIB__LOG_ERROR == (int)NIB_LOG_ERROR &&
                   (int)NIB__LOG_WARN == (int)NIB_LOG_WARN &&
                   (int)NIB__LOG_INFO == (int)NIB_LOG_INFO &&
                   (int)NIB__LOG_DEBUG == (int)NIB_LOG_DEBUG,
               "callbacks get the public levels");

static bool wanted(const struct nib__log *log, int level)
{
    return log && log->fn && level <= log->level;
}

/*
 * Formats into line, cuts what does not fit and appends the suffix, for
 * which there is always room.
 */
static void format_line(char line[NIB__LOG_LINE_BYTES], const char *suffix,
                        const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

static void format_line(char line[NIB__LOG_LINE_BYTES], const char *suffix,
                        const char *fmt, va_list args)
{
    size_t suffix_bytes = strlen(suffix) + 1;
    size_t room = NIB__LOG_LINE_BYTES - suffix_bytes;
    int n = vsnprintf(line, room + 1, fmt, args);
    size_t len;

    if (n < 0) {
        /* Only a bad conversion gets here; say so rather than nothing. */
        memcpy(line, "(no text)", sizeof("(no text)"));
        len = sizeof("(no text)") - 1;
    } else if ((size_t)n <= room) {
        len = (size_t)n;
    } else {
        len = room;
        memcpy(line + room - 3, "...", 3);
    }
    memcpy(line + len, suffix, suffix_bytes);
}

static void emit(struct nib__log *log, int level, const char *suffix,
                 const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));

static void emit(struct nib__log *log, int level, const char *suffix,
                 const char *fmt, va_list args)
{
    char line[NIB__LOG_LINE_BYTES];
    int saved = errno;

    format_line(line, suffix, fmt, args);
    errno = saved;
    log->fn(level, line, log->arg);
}

void nib__log(struct nib__log *log, int level, const char *fmt, ...)
{
    va_list args;

    if (!wanted(log, level))
        return;
    va_start(args, fmt);
    emit(log, level, "", fmt, args);
    va_end(args);
}

/* Whether a line may pass now; if so, *dropped says how many could not. */
static bool passes(struct nib__log_limit *limit, uint64_t now_ms,
                   uint32_t *dropped)
{
    uint32_t period_ms =
        limit->period_ms ? limit->period_ms : NIB__LOG_PERIOD_MS;
    uint64_t until = atomic_load(&limit->quiet_until);

    if (now_ms >= until &&
        atomic_compare_exchange_strong(&limit->quiet_until, &until,
                                       now_ms + period_ms)) {
        *dropped = atomic_exchange(&limit->dropped, 0);
        return true;
    }
    atomic_fetch_add(&limit->dropped, 1);
    return false;
}

void nib__log_limited(struct nib__log *log, struct nib__log_limit *limit,
                      int level, uint64_t now_ms, const char *fmt, ...)
{
    char suffix[sizeof(" (4294967295 more like this)")] = "";
    uint32_t dropped;
    va_list args;

    if (!wanted(log, level) || !passes(limit, now_ms, &dropped))
        return;
    if (dropped > 0)
        snprintf(suffix, sizeof(suffix), " (%" PRIu32 " more like this)",
                 dropped);
    va_start(args, fmt);
    emit(log, level, suffix, fmt, args);
    va_end(args);
}

/* Writes what stands for byte c in a line to text; returns its length. */
static size_t escape_byte(char text[4], unsigned char c)
{
    static const char digits[] = "0123456789abcdef";

    if (c >= 0x20 && c <= 0x7e && c != '\\') {
        text[0] = (char)c;
        return 1;
    }
    text[0] = '\\';
    text[1] = 'x';
    text[2] = digits[c >> 4];
    text[3] = digits[c & 15];
    return 4;
}

size_t nib__log_escape(char *out, size_t cap, const char *in, size_t len)
{
    size_t used = 0; /* bytes written */
    size_t fits = 0; /* the most of them that "..." can follow */
    size_t room;

    if (cap == 0)
        return 0;
    room = cap - 1;
    for (size_t i = 0; i < len; i++) {
        char text[4];
        size_t n = escape_byte(text, (unsigned char)in[i]);

        if (n > room - used) {
            size_t dots = room - fits < 3 ? room - fits : 3;

            memcpy(out + fits, "...", dots);
            used = fits + dots;
            break;
        }
        memcpy(out + used, text, n);
        used += n;
        if (room - used >= 3)
            fits = used;
    }
    out[used] = '\0';
    return used;
}
