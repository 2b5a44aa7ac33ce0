/*
 * command - the commands of other threads that carry more than a bit.
 *
 * Pings, posted functions, and calls that wait in a connection.
 */
#ifndef NIB_SERVER_COMMAND_H
#define NIB_SERVER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/conn.h"

struct nib__ping;

/*
 * Does a pong answer nib_ping()? Then the next ping may come. [owner]
 */
bool nib__ping_answered(struct nib_conn *c, const void *data, size_t len)
    NIB__OWNER_ONLY;

/* Frees an unanswered ping; NULL is allowed. */
void nib__ping_free(struct nib__ping *ping);

/*
 * Waits in the connection: for `written` bytes to be in the kernel (flush),
 * or for the end. Off the reactors. Returns 0, -EPIPE, -ETIMEDOUT or
 * -ECANCELED.
 */
int nib__park(struct nib_conn *c, bool flush, uint64_t written,
              int timeout_ms);

#endif
