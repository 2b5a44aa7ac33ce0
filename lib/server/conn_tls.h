/*
 * conn_tls - a connection's TLS handshake, and what it keeps of it.
 *
 * While the transport is lent to a worker the owner touches neither it nor
 * the socket; whatever would end the connection meanwhile is noted, and done
 * when the loan comes back.
 */
#ifndef NIB_SERVER_CONN_TLS_H
#define NIB_SERVER_CONN_TLS_H

#include "server/conn.h"
#include "server/tls_context.h"
#include "server/workers.h"

struct nib__conn_tls {
    struct nib__loan loan; /* first */
    struct nib_conn *conn;
    struct nib__tls_context *context; /* referenced */
    unsigned worker;
    bool lent NIB__OWNED;
    bool end NIB__OWNED;     /* wanted while it was lent */
    bool shaking NIB__OWNED; /* counted in server->tls_handshakes */
};

/* Sets a new connection's first phase, by what its address speaks. */
void nib__conn_tls_expect(struct nib_conn *c, enum nib_tls_mode mode)
    NIB__OWNER_ONLY;

/* The socket is ready in NIB__FIRST or NIB__SHAKING. */
void nib__conn_tls_ready(struct nib_conn *c) NIB__OWNER_ONLY;

/* Is the connection lent? Then its end is put off. */
bool nib__conn_tls_hold(struct nib_conn *c) NIB__OWNER_ONLY;

/* Frees what the connection keeps; its transport is gone. */
void nib__conn_tls_free(struct nib_conn *c) NIB__OWNER_ONLY;

#endif
