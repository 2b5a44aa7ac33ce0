/*
 * signals - SIGTERM and SIGINT end a server in order, a second one at once.
 *
 * One server for the process. The server must live until signals_forget()
 * has returned.
 */
#ifndef NIB_DAEMON_SIGNALS_H
#define NIB_DAEMON_SIGNALS_H

struct nib_server;

/*
 * From now on the first SIGTERM or SIGINT begins an orderly stop of `srv`
 * with `grace_ms`, and the next one ends the process at once with status 1.
 * SIGPIPE is ignored. Call it once, from the main thread.
 */
void signals_stop(struct nib_server *srv, unsigned grace_ms);

/*
 * Lets go of the server: from now on the first of these signals, too, ends
 * the process at once.
 */
void signals_forget(void);

#endif
