/*
 * workers - threads that run TLS handshakes, a step at a time.
 *
 * A full handshake costs milliseconds of arithmetic, so it does not run on a
 * reactor: the reactor lends the connection's transport, the worker runs one
 * step and posts it back. Between the two posts the worker is the one that
 * owns the transport and its socket, and nobody else touches them. Workers
 * run at the lowest priority, and every one has an engine of its own; a
 * connection always goes to the same worker.
 */
#ifndef NIB_SERVER_WORKERS_H
#define NIB_SERVER_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "system/transport.h"
#include "threads/lock.h"
#include "threads/mailbox.h"

/* What is lent. */
struct nib__loan {
    struct nib__record back; /* posted to `mailbox` after the step */
    struct nib__loan *next;
    struct nib__mailbox *mailbox;
    struct nib__transport *transport;
    int fd;
    int result; /* of the step; -ECANCELED if none was made */
};

struct nib__worker {
    struct nib__lock lock;
    pthread_cond_t work;
    struct nib__loan *first; /* these under the lock */
    struct nib__loan **last;
    unsigned count;
    bool closed;
    _Atomic bool *hurry;
    pthread_t thread;
};

struct nib__workers {
    struct nib__worker *workers;
    unsigned count;
    unsigned queue; /* loans that may wait for one worker */
    _Atomic unsigned next; /* the worker of the next connection */
    _Atomic bool hurry;    /* the server stops: no more steps */
};

/* Starts them. Returns 0, -ENOMEM or the errno of a thread, none left. */
int nib__workers_start(struct nib__workers *w, unsigned count,
                       unsigned queue);

/* The worker for a new connection; every one gets its turn. [any] */
unsigned nib__workers_pick(struct nib__workers *w);

/*
 * Lends; from here on the loan is the worker's until `back` runs or is
 * cancelled. Returns 0, or -EAGAIN if too many wait: nothing was lent. [any]
 */
int nib__workers_lend(struct nib__workers *w, unsigned number,
                      struct nib__loan *loan);

/* From now on loans come back without a step. Async-signal-safe. [any] */
void nib__workers_hurry(struct nib__workers *w);

/* Gives back what is lent, ends the threads and joins them. Idempotent. */
void nib__workers_stop(struct nib__workers *w);

#endif
