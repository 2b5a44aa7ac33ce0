/*
 * tls_openssl - what the parts of the OpenSSL engine share.
 *
 * Included by them alone: nothing else knows OpenSSL's names.
 */
#ifndef NIB_SYSTEM_TLS_OPENSSL_H
#define NIB_SYSTEM_TLS_OPENSSL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "system/tls_engine.h"

struct nib__engine {
    SSL_CTX **ctx; /* one for each certificate; new sessions get the first */
    unsigned count;
    BIO_METHOD *bio;
    struct nib__ticket_keys *keys; /* a server's, or NULL */
    uint8_t rules[32];             /* about client certificates, hashed */
    bool server;
    bool verifies; /* the peer's certificate */
    bool resume;   /* as a client */

    pthread_mutex_t lock; /* of what follows, a client's */
    SSL_SESSION *last;    /* to be offered again, or NULL */
    char last_name[256];  /* whose it is */
};

struct nib__session {
    struct nib__engine *engine;
    SSL *ssl;
    struct nib__tls_io *io; /* of the call that runs */
    char *server_name;      /* a client's; NULL for a server */
    bool done;              /* the handshake is */
    bool failed;            /* OpenSSL must not be called any more */
    bool ended;             /* each read from now on returns `end` */
    bool told;              /* and one did */
    int end;
    char error[128];
};

enum { NIB__OPENSSL_FILE = 200 }; /* bytes of a file's name in a text */

/* Where the text of an engine's error goes. */
struct nib__openssl_text {
    char *p;
    size_t cap;
};

/* Writes "what: fault"; `what` is a file, or "TLS". Returns err. */
int nib__openssl_complain(const struct nib__openssl_text *text, int err,
                          const char *what, const char *fault);

/* Writes what OpenSSL has against it; returns -EINVAL. */
int nib__openssl_refused(const struct nib__openssl_text *text,
                         const char *what);

/* Writes that there is no memory; returns -ENOMEM. */
int nib__openssl_no_memory(const struct nib__openssl_text *text);

/* Writes a session's error, of the call that just failed. */
void nib__openssl_explain(struct nib__session *session);

/*
 * Loads a certificate, its chain and its key, and checks that they belong
 * together and are valid now. Returns 0; -EINVAL, -ENOMEM or the errno of a
 * file, with a text.
 */
int nib__openssl_cert(SSL_CTX *ctx, const struct nib__tls_cert *cert,
                      const struct nib__openssl_text *text);

/*
 * Trusts those who stand in a file, an intermediate as well. With a hash,
 * they are also what a server names to its clients, and go into the hash.
 * Returns as above.
 */
int nib__openssl_trust(SSL_CTX *ctx, const char *file, EVP_MD_CTX *hash,
                       const struct nib__openssl_text *text);

/* Lets a server's SSL_CTX issue and take tickets, if the engine has keys. */
void nib__openssl_tickets(struct nib__engine *engine, SSL_CTX *ctx);

/* Lets a client's SSL_CTX keep each new session, the last one. */
void nib__openssl_resume(SSL_CTX *ctx);

/* Keeps a copy of this one. */
void nib__openssl_keep(struct nib__session *session, SSL_SESSION *state);

/* Offers a copy of the last, if it was with the server of the same name. */
void nib__openssl_offer(struct nib__session *session);

/* How sessions read and write; NULL without memory. */
BIO_METHOD *nib__openssl_bio(void);

#endif
