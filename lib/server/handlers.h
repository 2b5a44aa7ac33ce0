/*
 * handlers - the pool of threads that run blocking handlers.
 *
 * Reactors submit and never wait: a full queue is an answer. The pool grows
 * up to its limit when nobody is idle, and shrinks only at the end. Upgrades
 * for nib_server_next() wait in a queue of their own.
 */
#ifndef NIB_SERVER_HANDLERS_H
#define NIB_SERVER_HANDLERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "threads/lock.h"

struct nib_request;
struct nib_server;

struct nib__queue {
    struct nib_request *first;
    struct nib_request **last;
    unsigned count;
};

struct nib__handlers {
    struct nib__lock lock; /* for all that follows */
    pthread_cond_t work;   /* for threads without a handler */
    pthread_cond_t next;   /* for nib_server_next() */
    pthread_cond_t gone;   /* a thread has ended */
    struct nib__queue pool;
    struct nib__queue own; /* for nib_server_next() */
    struct nib__thread *threads; /* all that were started */
    unsigned alive;
    unsigned running; /* in a handler */
    unsigned limit;
    unsigned queue_limit;
    size_t stack_bytes;
    bool closed;
    struct nib_server *server;
};

void nib__handlers_init(struct nib__handlers *h, struct nib_server *srv);

/* All threads have been joined. */
void nib__handlers_destroy(struct nib__handlers *h);

/*
 * Queues an upgrade; the reference of the application goes with it. Returns
 * 0, -EAGAIN if the queue is full, -ECANCELED after the close, or the errno
 * of a thread that could not be started and none is there. [any]
 */
int nib__handlers_submit(struct nib__handlers *h, struct nib_request *req);

/*
 * Takes a withdrawn request out of the queue, if it still is in it, and
 * gives its reference back. [any]
 */
void nib__handlers_remove(struct nib__handlers *h, struct nib_request *req);

/* The next upgrade of nib_server_next(); see there. */
int nib__handlers_next(struct nib__handlers *h, struct nib_request **req,
                       uint64_t due_ns);

/* No more work: idle threads end, nib_server_next() gets -ECANCELED. */
void nib__handlers_close(struct nib__handlers *h);

/*
 * Waits until all threads have ended, then joins them. Returns 0, or
 * -ETIMEDOUT if some handlers still run.
 */
int nib__handlers_join(struct nib__handlers *h, uint64_t due_ns);

/* Does this thread belong to the pool of srv? */
bool nib__handlers_here(const struct nib_server *srv);

/* Numbers for the statistics. */
void nib__handlers_count(struct nib__handlers *h, uint64_t *running,
                         uint64_t *queued);

#endif
