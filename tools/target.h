/*
 * target - the server that a client's connections go to.
 *
 * A URL taken apart, its host resolved, its request written, its certificates
 * read: once, for any number of connections. After target_init() only
 * target_connect() changes it, and that from any thread.
 */
#ifndef NIB_TOOLS_TARGET_H
#define NIB_TOOLS_TARGET_H

#include <netdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nib.h"
#include "secure.h"
#include "upgrade.h"
#include "url.h"

/* What to ask for beside the URL; a zeroed one asks for nothing. */
struct target_options {
    const char *subprotocols;         /* as upgrade_init() */
    const struct nib_header *headers; /* as upgrade_init() */
    size_t header_count;
    uint64_t timeout_ms; /* of each wait for the server; 0: none */
    bool raw;            /* the address is HOST:PORT, and there is no upgrade */
    struct secure_options secure; /* for wss:// */
};

struct target {
    struct url url;
    struct upgrade upgrade;
    struct addrinfo *addresses;     /* owned */
    const struct addrinfo *address; /* the one of them that answers */
    struct secure *secure;          /* owned; NULL: without TLS */
    uint64_t timeout_ms;
    _Atomic unsigned source; /* 127.0.0.(1 + source), 0: as the kernel likes */
    char error[192];         /* why target_init() failed */
};

/*
 * Sets up a target: resolves the name and, if it has several addresses,
 * takes the first that accepts a connection.
 *
 * Returns 0, to be freed by target_free(); or a negative code with a text in
 * t->error, and nothing to free: -EINVAL and its like for an address that is
 * not one, or one with TLS where that is not built in (-EPROTONOSUPPORT); or
 * -ENOENT for a name that does not resolve, the errno of the connection, or
 * -EKEYREJECTED for a file with certificates.
 */
int target_init(struct target *t, const char *address,
                const struct target_options *options);

/*
 * For a child process, before its first connection. Returns 0, or a negative
 * code with a text in t->error.
 */
int target_forked(struct target *t);

/* Frees what a target holds. */
void target_free(struct target *t);

/*
 * Opens a TCP connection, and waits until it stands. The target's timeout
 * holds for this and for every later wait on the socket. When the ports of one
 * source address are used up, and the target is on this machine, goes on
 * with 127.0.0.2 and so on.
 *
 * Returns the descriptor, blocking and close-on-exec, which the caller owns;
 * or a negative errno, -ETIMEDOUT among them.
 */
int target_connect(struct target *t);

#endif
