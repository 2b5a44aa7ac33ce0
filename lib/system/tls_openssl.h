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
    bool verifies;                 /* client certificates */
    bool resume;                   /* as a client */

    pthread_mutex_t lock; /* of what follows, a client's */
    SSL_SESSION *last;    /* to be offered again, or NULL */
    char last_name[256];  /* whose it is */
};

struct nib__session {
    struct nib__engine *engine;
    SSL *ssl;
    struct nib__tls_io *io; /* of the call that runs */
    char *server_name;      /* a client's; NULL for a server */
    bool failed;            /* OpenSSL must not be called any more */
    bool ended;             /* each read from now on returns `end` */
    int end;
    char error[128];
};

/* Where the text of an engine's error goes. */
struct nib__openssl_text {
    char *p;
    size_t cap;
};

/* Writes "file: what"; returns err. */
int nib__openssl_complain(const struct nib__openssl_text *text, int err,
                          const char *file, const char *what);

/* Writes what OpenSSL has against a file, or a setting; returns -EINVAL. */
int nib__openssl_refused(const struct nib__openssl_text *text,
                         const char *file);

/* Writes that there is no memory; returns -ENOMEM. */
int nib__openssl_no_memory(const struct nib__openssl_text *text);

/* OpenSSL's words for one of its errors. */
const char *nib__openssl_reason(unsigned long code);

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

/* A client's callback: keeps the session that came last. */
int nib__openssl_keep(SSL *ssl, SSL_SESSION *state);

/* Offers a client's last session, if it was with the server of that name. */
void nib__openssl_offer(struct nib__engine *engine, SSL *ssl,
                        const char *server_name);

/* How sessions read and write; NULL without memory. */
BIO_METHOD *nib__openssl_bio(void);

#endif
