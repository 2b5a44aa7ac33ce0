/*
 * pair - a client's session and a server's, with a wire between them.
 *
 * The wire is memory: nothing moves but by these functions, so a test decides
 * who sees how many bytes when. For whichever TLS library is in.
 */
#ifndef TESTS_TLS_PAIR_H
#define TESTS_TLS_PAIR_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "system/tls_engine.h"

enum { PIPE = 512 * 1024, WHOLE = PIPE };

/* One end: its session, and what it has received. */
struct peer {
    struct nib__session *session;
    struct peer *other;
    size_t in_off;
    size_t in_len;  /* behind it */
    size_t arrived; /* of them; the rest is on its way */
    bool eof;       /* behind the rest */
    int result;     /* of the handshake */
    uint8_t in[PIPE];
};

struct pair {
    struct peer client;
    struct peer server;
};

/* The folder of certs.sh; made by the first call, for the process. Also
   pair_file()'s. */
const char *pair_folder(void);

/* Removes it. */
void pair_remove(void);

/* The path of a file in it. One of eight that are remembered. */
const char *pair_file(const char *name);

/* A certificate of it, NAME.pem and NAME.key. One of eight. */
const struct nib__tls_cert *pair_cert(const char *name);

/* Engines; a failure ends the test. server_engine takes NULL for `localhost`
   and nothing else, client_engine for the CA and nothing else. */
struct nib__engine *server_engine(const struct nib__tls_server_settings *s);
struct nib__engine *client_engine(const struct nib__tls_client_settings *s);

/* Two new sessions. The pair is large: static. */
void pair_open(struct pair *pair, struct nib__engine *client,
               struct nib__engine *server, const char *name);
void pair_close(struct pair *pair);

/* Hands up to n bytes of what is on its way to the peer. Was there one? */
bool arrive(struct peer *peer, size_t n);

/* Calls of a session; what it sends is on its way to the other. */
int shake(struct peer *peer);
ssize_t hear(struct peer *peer, void *p, size_t cap);
ssize_t say(struct peer *peer, const void *p, size_t len);
int hang_up(struct peer *peer);

/* Hears until there is no more: bytes, or what there is instead. */
ssize_t hear_all(struct peer *peer, void *p, size_t cap);

/* Lets both go on, n bytes at a time, until they are done or one fails. True
   if both are done. */
bool shake_hands(struct pair *pair, size_t n);

/* Opens a pair, shakes hands, exchanges "ping" and "pong" (which brings TLS
   1.3's tickets), and tells what the server knows. Leaves it open. */
struct nib__tls_info meet(struct pair *pair, struct nib__engine *client,
                          struct nib__engine *server);

/* Runs a suite, as main(); does not return. */
void pair_run(Suite *s) __attribute__((noreturn));

#endif
