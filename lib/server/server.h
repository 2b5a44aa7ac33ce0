/*
 * server - what all connections of a server share.
 *
 * The server's memory is referenced by every connection, request and
 * reactor, and goes with the last of them, so that a handle that outlives
 * nib_server_free() still finds a closed mailbox instead of freed memory.
 */
#ifndef NIB_SERVER_SERVER_H
#define NIB_SERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nib.h"
#include "server/addresses.h"
#include "server/config.h"
#include "server/handlers.h"
#include "server/listener.h"
#include "server/outbox.h"
#include "server/tls_context.h"
#include "server/workers.h"
#include "threads/reactor.h"

struct nib__topics;
struct nib__fan;

/*
 * A server's life. Only nib_server_start, _stop and _join move it on.
 *
 *   NEW -start-> RUNNING -stop-> DRAINING -grace over, or all closed->
 *   STOPPING -handlers gone-> ENDED (mailboxes closed, threads joined)
 */
enum nib__life {
    NIB__NEW,
    NIB__RUNNING,
    NIB__DRAINING,
    NIB__STOPPING,
    NIB__ENDED,
};

/* Counters that only one reactor writes; others read them at any time. */
struct nib__counters {
    _Atomic uint64_t accepted;
    _Atomic uint64_t refused;
    _Atomic uint64_t upgraded;
    _Atomic uint64_t rejected;
    _Atomic uint64_t requests;
    _Atomic uint64_t messages_in;
    _Atomic uint64_t messages_out;
    _Atomic uint64_t bytes_in;
    _Atomic uint64_t bytes_out;
    _Atomic uint64_t writes;
    _Atomic uint64_t reads;
    _Atomic uint64_t slow;
    _Atomic uint64_t tls_full;
    _Atomic uint64_t tls_resumed;
    _Atomic uint64_t tls_failed;
};

/* Adds to a counter of this thread's own: no read-modify-write. */
static inline void nib__count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
        memory_order_relaxed);
}

/* A reactor and what the server keeps for it. */
struct nib__shard {
    struct nib__reactor reactor;
    struct nib_server *server;
    struct nib__listener *listeners NIB__OWNED; /* one for each address */
    struct nib_conn *conns NIB__OWNED;          /* all that it owns */
    struct nib__timer tick NIB__OWNED;          /* watchdog, draining */
    struct nib__chunk_pool pool;
    struct nib__fan *fan; /* topics that have subscribers here */
    bool draining NIB__OWNED;
    int reserve_fd NIB__OWNED; /* given up to refuse when none is left */
    _Atomic unsigned count; /* connections, for placement */
    struct nib__counters counters;
};

struct nib_server {
    _Atomic unsigned refs;
    struct nib_config *config;
    _Atomic unsigned life; /* enum nib__life */
    _Atomic uint64_t stop_at_ms; /* end of the grace; UINT64_MAX: none */
    _Atomic uint32_t stop_word;  /* futex: changes with `life`, `drained` */
    _Atomic unsigned drained;    /* shards that have no connection left */
    _Atomic bool joining;
    struct nib__shard *shards;
    unsigned shard_count;
    int *listen_fds; /* one for each address, -1: closed */
    char (*listen_names)[NIB__ADDRESS_TEXT];
    unsigned name_count; /* 0 until it is started */
    struct nib__handlers handlers;
    struct nib__tls_slot tls;
    struct nib__workers workers; /* none without TLS */
    struct nib__topics *topics;
    struct nib__addresses addresses; /* connections of each peer */
    _Atomic unsigned connections;
    _Atomic unsigned handshakes;
    _Atomic unsigned tls_connections;
    _Atomic unsigned tls_handshakes;
    _Atomic size_t outbox_total;
    _Atomic uint64_t published;
    _Atomic size_t topic_total;
    struct nib__log_limit log_limit_limits; /* refusals by a limit */
    struct nib__log_limit log_limit_files;  /* out of descriptors */
    struct nib__log_limit log_limit_peers;  /* faults of peers */
    struct nib__log_limit log_limit_stuck;  /* the watchdog's */
    char error[256];
};

static inline const struct nib__limits *
nib__limits(const struct nib_server *srv)
{
    return &srv->config->limits;
}

/* The shard of a reactor. */
static inline struct nib__shard *nib__shard_of(struct nib__reactor *r)
{
    return r->owner;
}

/* Is this thread a reactor of any server? */
static inline bool nib__on_reactor(void)
{
    return nib__reactor_self() != NULL;
}

struct nib_server *nib__server_ref(struct nib_server *srv);

/* Gives a reference back; the last frees the server. [any] */
void nib__server_unref(struct nib_server *srv);

/* The life that the server is in. [any] */
static inline enum nib__life nib__server_life(const struct nib_server *srv)
{
    return (enum nib__life)atomic_load_explicit(&srv->life,
                                                memory_order_acquire);
}

/*
 * Tells a shard that one of its connections is gone; a draining server may
 * be done by that. [owner]
 */
void nib__shard_left(struct nib__shard *shard) NIB__OWNER_ONLY;

#endif
