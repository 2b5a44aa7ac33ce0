/*
 * secure - what a wss:// URL adds to a target.
 *
 * The library's own engine and transport, from the client's side. One is made
 * for a target and serves all its connections, from any thread; what it counts
 * lies in memory that a process shares with its children.
 */
#ifndef NIB_TOOLS_SECURE_H
#define NIB_TOOLS_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "system/transport.h"

/* What the command line may ask for; a zeroed one asks for nothing. */
struct secure_options {
    const char *ca; /* a PEM file; NULL: the system's */
    bool insecure;  /* take any certificate */
    bool resume;    /* resume the session of the connection before */
    int max_word;   /* the highest version: 1 for 1.2, else what there is */
};

struct secure;

/* What the handshakes agreed on so far. */
struct secure_facts {
    uint64_t full, resumed; /* handshakes */
    char version[16];       /* of the first one; "" without any */
    char cipher[64];
};

/* Can this build speak TLS? */
bool secure_built(void);

/*
 * Makes what the connections to `host` have in common.
 *
 * Returns 0 and sets *out, to be freed by secure_free(); or a negative code
 * with a text in error, which names the file if it is one's fault.
 */
int secure_new(const struct secure_options *options, const char *host,
               struct secure **out, char *error, size_t cap);

/*
 * For a child process, before its first connection: makes the engine anew, or
 * parent and children would draw the same random numbers. Returns as
 * secure_new().
 */
int secure_forked(struct secure *s, char *error, size_t cap);

/* Frees it, when its connections are gone; NULL is allowed. */
void secure_free(struct secure *s);

/*
 * Shakes hands on a connected socket, blocking or not, and waits for it.
 *
 * timeout_ms  for each wait for the server; 0: as long as it takes
 *
 * Returns 0 and sets *out, to be freed by nib__transport_free(); -ETIMEDOUT;
 * -EPROTO with a text in error; or a negative errno. The socket remains the
 * caller's.
 */
int secure_open(struct secure *s, int fd, uint64_t timeout_ms,
                struct nib__transport **out, char *error, size_t cap);

/* Fills in the facts; between rounds, when nobody shakes hands. */
void secure_facts(struct secure *s, struct secure_facts *out);

#endif
