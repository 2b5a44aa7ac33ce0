/*
 * tls - the transport that encrypts, over whichever TLS library is in.
 *
 * One recv feeds as many records as it holds, one send carries as many as
 * were made: what the library wants to send goes into a buffer first, so it
 * never has to wait in the middle of a record. An idle connection holds no
 * buffer but the library's own; what the kernel did not take, and received
 * bytes for which the caller had no room, are kept until they are used.
 */
#ifndef NIB_SYSTEM_TLS_H
#define NIB_SYSTEM_TLS_H

#include "system/tls_engine.h"
#include "system/transport.h"

/*
 * Makes a transport with a session of its own on this engine, which must live
 * as long as it does. server_name as for nib__session_new().
 *
 * Returns 0 and sets *out, to be freed by nib__transport_free(); or -ENOMEM.
 */
int nib__tls_new(struct nib__engine *engine, const char *server_name,
                 struct nib__transport **out);

/* What the finished handshake of this transport agreed on. */
void nib__tls_info(const struct nib__transport *t,
                   struct nib__tls_info *info) NIB__OWNER_ONLY;

/* Why the last call of this transport failed; lives until the next. */
const char *nib__tls_error(const struct nib__transport *t) NIB__OWNER_ONLY;

#endif
