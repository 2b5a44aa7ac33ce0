/*
 * signals - SIGTERM and SIGINT end nibd in order, a second one at once; SIGHUP
 * is for reading files again.
 *
 * They are blocked in every thread; the main thread waits for the first one
 * as for anything else, so that nothing runs inside a handler but the end of
 * the process. All of it belongs to the main thread.
 */
#ifndef NIB_DAEMON_SIGNALS_H
#define NIB_DAEMON_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

enum signals_event {
    SIGNALS_STOP,   /* SIGTERM or SIGINT: end in order */
    SIGNALS_RELOAD, /* SIGHUP */
    SIGNALS_TIME,   /* the time is over */
};

/*
 * Blocks SIGTERM and SIGINT, also in threads that are made from now on, and
 * ignores SIGPIPE. Those that come before signals_wait() are kept for it.
 *
 * reload  whether SIGHUP is wanted; else it does what it did before
 */
void signals_block(bool reload);

/*
 * Waits for a signal, but not longer than wait_ms (0: as long as it takes).
 * After SIGNALS_STOP the next SIGTERM or SIGINT ends the process at once with
 * status 1, and a SIGHUP changes nothing.
 */
enum signals_event signals_wait(uint64_t wait_ms);

#endif
