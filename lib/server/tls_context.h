/*
 * tls_context - the certificates that new connections get.
 *
 * One engine for each handshake worker, so that workers do not wait for one
 * another, all made of the same settings. A context never changes: a reload
 * makes another one and swaps it in; the old one goes with the last
 * connection that was made of it. Any thread may use what is here.
 */
#ifndef NIB_SERVER_TLS_CONTEXT_H
#define NIB_SERVER_TLS_CONTEXT_H

#include <stdatomic.h>
#include <stddef.h>

#include "server/config.h"
#include "system/tls_engine.h"
#include "threads/lock.h"

struct nib__tls_context {
    _Atomic unsigned refs;
    unsigned engine_count;
    struct nib__ticket_keys *keys;
    struct nib__engine *engines[];
};

/* Where a server keeps the current one. */
struct nib__tls_slot {
    struct nib__lock lock;
    struct nib__tls_context *context; /* under the lock; NULL: no TLS */
};

void nib__tls_slot_init(struct nib__tls_slot *slot);

/* Gives the context back. */
void nib__tls_slot_destroy(struct nib__tls_slot *slot);

/*
 * Makes a context of the configuration's files and swaps it in. Keys of
 * tickets that are the server's own stay.
 *
 * Returns 0, or, with a text and nothing changed, as nib__engine_server().
 */
int nib__tls_slot_load(struct nib__tls_slot *slot,
                       const struct nib_config *cfg, char *error, size_t cap);

/* The current context, with a reference; NULL: none. */
struct nib__tls_context *nib__tls_slot_get(struct nib__tls_slot *slot);

/* Gives a reference back. */
void nib__tls_context_unref(struct nib__tls_context *context);

#endif
