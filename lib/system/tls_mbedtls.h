/*
 * tls_mbedtls - what the files tls_mbedtls*.c share.
 *
 * They alone know Mbed TLS: tls_mbedtls.c has engines, _session.c sessions,
 * _cert.c the files and names of certificates, _ticket.c session tickets,
 * _text.c what errors are called. For 2.28 and 3.6; 4.x wants its random numbers and
 * AES-GCM from PSA instead, where NIB__OWN_RNG and _ticket.c say so.
 */
#ifndef NIB_SYSTEM_TLS_MBEDTLS_H
#define NIB_SYSTEM_TLS_MBEDTLS_H

#include <mbedtls/version.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "system/tls_engine.h"

#if MBEDTLS_VERSION_NUMBER < 0x04000000
#define NIB__OWN_RNG 1 /* from 4.0 on the library has one for all */
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#endif

#ifndef MBEDTLS_PRIVATE
#define MBEDTLS_PRIVATE(member) member /* fields were public before 3.0 */
#endif

enum { NIB__NAME_BYTES = 256 }; /* of a host or person, with the NUL */

/* A certificate with its chain, and its key. */
struct nib__own_cert {
    mbedtls_x509_crt chain;
    mbedtls_pk_context key;
};

struct nib__engine {
    bool server;
    enum nib__tls_verify verify; /* of clients */
    mbedtls_ssl_config conf;
#ifdef NIB__OWN_RNG
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context rng;
#endif
    struct nib__own_cert *certs;
    unsigned cert_count;
    mbedtls_x509_crt ca;
    int suites[NIB__TLS_SUITES + 1]; /* 0 ends them */
    struct nib__ticket_keys *keys;
    uint8_t ca_digest[32]; /* of the clients' CA file */

    /* A client's. */
    bool insecure;
    bool resume;
    pthread_mutex_t lock; /* for the rest */
    bool has_last;
    mbedtls_ssl_session last;
    char last_name[NIB__NAME_BYTES]; /* whose session it is */
};

/* How a session ended for its reader. */
enum nib__stream_end {
    NIB__END_NONE,
    NIB__END_CLOSED, /* by close_notify */
    NIB__END_TRUNCATED,
    NIB__END_FAILED,
};

struct nib__session {
    mbedtls_ssl_context ssl;
    struct nib__engine *engine;
    struct nib__tls_io *io; /* of the current call */
    bool starved;           /* this call met the end of io->in */
    bool at_eof;            /* and of the stream */
    bool began;             /* a byte has come */
    bool not_tls;           /* and it begins no record of a handshake */
    bool done;              /* with the handshake */
    bool full;              /* which was not a resumption */
    bool shut;              /* our close_notify is made */
    bool end_held;          /* `end` was not told yet */
    enum nib__stream_end end;
    uint8_t ip[16]; /* a client's server, if it is named by address */
    unsigned ip_len;
    uint64_t until_s; /* it may be resumed, since the last full handshake */
    char server_name[NIB__NAME_BYTES];
    char peer_name[NIB__NAME_BYTES];
    char error[128];
};

/* For the library's f_rng, p_rng. */
#ifdef NIB__OWN_RNG
int nib__mbedtls_random(void *rng, unsigned char *out, size_t n);
#endif

/* The version that is, or is being, agreed on, as on the wire. */
unsigned nib__mbedtls_version(const struct nib__session *session);

/* ---- tls_mbedtls_cert.c ---- */

/* Reads a certificate and its key. 0, or -errno with a text that names the
   file. */
int nib__mbedtls_cert(struct nib__engine *engine, struct nib__own_cert *own,
                      const struct nib__tls_cert *files, char *error,
                      size_t cap);

/* Reads the certificates of an authority, and their digest if it is not
   NULL; as above. */
int nib__mbedtls_ca(mbedtls_x509_crt *ca, const char *file,
                    uint8_t digest[32], char *error, size_t cap);

/* Reads the system's authorities; as above. */
int nib__mbedtls_system_ca(mbedtls_x509_crt *ca, char *error, size_t cap);

/* Is the certificate for a DNS name? (RFC 6125, 6.4) */
bool nib__mbedtls_is_for(const mbedtls_x509_crt *crt, const char *name,
                         size_t len);

/* Is it for an address of 4 or 16 bytes? */
bool nib__mbedtls_is_for_ip(const mbedtls_x509_crt *crt, const uint8_t *ip,
                            size_t len);

/* When it expires: seconds since the epoch. */
uint64_t nib__mbedtls_expiry(const mbedtls_x509_crt *crt);

/* What to call the owner of a certificate; see struct nib__tls_info. */
void nib__mbedtls_owner(const mbedtls_x509_crt *crt,
                        char name[NIB__NAME_BYTES]);

/* ---- tls_mbedtls_ticket.c ---- */

/* Lets a server's engine, which has keys, give out tickets. */
void nib__mbedtls_use_tickets(struct nib__engine *engine);

/* Whose handshake this thread is in; the library does not tell the ticket
   functions. NULL: none. */
void nib__mbedtls_ticket_session(struct nib__session *session);

/* ---- tls_mbedtls_text.c ---- */

/* Says in session->error what the library's code means. */
void nib__mbedtls_explain(struct nib__session *session, int code);

/* Says it without a session. */
void nib__mbedtls_text(int code, char *text, size_t cap);

/* Which alert tells a peer that the flags of a certificate are bad. */
unsigned char nib__mbedtls_alert(uint32_t flags);

#endif
