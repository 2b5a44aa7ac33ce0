/*
 * listener - accepting, and which reactor gets a new connection.
 *
 * Each listening socket is in the epoll set of every reactor (with
 * EPOLLEXCLUSIVE, so that one connection wakes few); who accepts keeps the
 * connection if it has no more than its share, and hands it to the least
 * loaded otherwise. Out of descriptors, a reserve is spent to answer 503 and
 * the listener pauses, instead of spinning.
 */
#ifndef NIB_SERVER_LISTENER_H
#define NIB_SERVER_LISTENER_H

#include <stdbool.h>

#include "base/annotate.h"
#include "nib.h"
#include "system/poller.h"
#include "system/timer.h"

struct nib__shard;

struct nib__listener {
    struct nib__source source;
    struct nib__timer pause; /* until accepting goes on */
    struct nib__shard *shard;
    int fd; /* shared by all reactors; the server's */
    enum nib_tls_mode mode;
};

/*
 * Makes a shard's listeners, one for each of the server's sockets, before its
 * thread starts. Returns 0, -ENOMEM or the errno of epoll, with nothing held.
 */
int nib__listeners_open(struct nib__shard *shard);

/* Stops accepting; the sockets are closed by the server. */
void nib__listeners_stop(struct nib__shard *shard) NIB__OWNER_ONLY;

/* Frees them; after the reactor has ended, or never started. */
void nib__listeners_free(struct nib__shard *shard);

#endif
