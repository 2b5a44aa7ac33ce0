/*
 * signals - SIGTERM and SIGINT end nibd in order, a second one at once.
 *
 * They are blocked in every thread; the main thread waits for the first one
 * as for anything else, so that nothing runs inside a handler but the end of
 * the process. All of it belongs to the main thread.
 */
#ifndef NIB_DAEMON_SIGNALS_H
#define NIB_DAEMON_SIGNALS_H

/*
 * Blocks SIGTERM and SIGINT, also in threads that are made from now on, and
 * ignores SIGPIPE. Those that come before signals_wait() are kept for it.
 */
void signals_block(void);

/*
 * Waits for SIGTERM or SIGINT. From then on the next one ends the process at
 * once with status 1.
 */
void signals_wait(void);

#endif
