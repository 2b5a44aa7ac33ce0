/*
 * request - a request that waits for its decision.
 *
 * References of the application are counted apart (`users`): when the last
 * of them goes and nothing was decided, the answer is 500. The decision is
 * one atomic word: whoever takes it from OPEN decides, all others learn why
 * not. From then on only the command that carries the decision, and the
 * owner, use the connection's HTTP state.
 */
#ifndef NIB_SERVER_REQUEST_H
#define NIB_SERVER_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "protocol/handshake.h"
#include "server/conn.h"
#include "system/tls_engine.h"

/* A decision: one of these, or the negative result that withdrew it. */
enum {
    NIB__UNDECIDED = 0,
    NIB__DECIDED = 1, /* NIB_ESTATE for others */
};

struct nib_request {
    _Atomic unsigned refs;  /* of the memory */
    _Atomic unsigned users; /* of those, the application's */
    _Atomic int decision;
    bool answered;          /* a plain request: nib_respond() was called */
    bool queued;            /* in the handlers' queue, under its lock */
    uint64_t body_left;     /* of a plain request, to be skipped */
    struct nib_conn *conn;  /* referenced */
    struct nib_server *server;
    const struct nib_route *route;
    struct nib__head head;
    struct nib_request *next; /* in the handlers' queue */
    struct nib__record drop;  /* posts the 500 */
    char *subprotocols;     /* offered, each with a NUL; NULL: none */
    struct nib__tls_info *tls; /* NULL: plain */
    char peer[NIB__ADDRESS_TEXT];
};

/* Makes the request whose head is to be read. NULL: no memory. */
struct nib_request *nib__request_new(struct nib_conn *c) NIB__OWNER_ONLY;

/* Gives the owner's own reference back. */
void nib__request_release(struct nib_request *req);

/* Gives the application its first reference: before it sees the request. */
void nib__request_hand_out(struct nib_request *req);

/*
 * Hands an upgrade whose head is whole to its route: callbacks, the handler
 * pool or nib_server_next().
 */
void nib__request_dispatch(struct nib_request *req) NIB__OWNER_ONLY;

/* Was it decided or withdrawn? */
static inline bool nib__request_decided(const struct nib_request *req)
{
    return atomic_load_explicit(&req->decision, memory_order_acquire) !=
           NIB__UNDECIDED;
}

#endif
