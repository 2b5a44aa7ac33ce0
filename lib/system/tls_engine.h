/*
 * tls_engine - what nib needs of a TLS library.
 *
 * Two files implement it, tls_mbedtls.c and tls_openssl.c; configure takes
 * one of them, and nothing else knows which. An engine is what connections
 * share: certificates, keys, settings; nobody changes it once it is made. A
 * session is one connection's state and belongs to one thread at a time. Two
 * sessions of one engine may run on two threads; they run faster on engines
 * of their own.
 *
 * Nothing here does I/O or waits. What was received is handed in, what is to
 * be sent is handed out, by struct nib__tls_io. So a session never wants to
 * write, and the libraries' rules about repeated writes never matter.
 */
#ifndef NIB_SYSTEM_TLS_ENGINE_H
#define NIB_SYSTEM_TLS_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "system/ticket_keys.h"
#include "system/transport.h"

struct nib__engine;
struct nib__session;

enum {
    NIB__TLS_1_2 = 0x0303, /* as on the wire */
    NIB__TLS_1_3 = 0x0304,
    NIB__TLS_RECORD = 16384,      /* plain bytes of a record */
    NIB__TLS_RECORD_ROOM = 16896, /* and what one takes on the wire */
    NIB__TLS_SUITES = 9,          /* that there are; see tls_suites.h */
};

/* What goes in and out around one call. */
struct nib__tls_io {
    const uint8_t *in; /* received; the session takes from the front */
    size_t in_len;
    bool eof;          /* nothing comes after `in` */
    uint8_t *out;      /* the session appends at out + out_len */
    size_t out_len;
    size_t out_cap;
};

enum nib__tls_verify {
    NIB__VERIFY_NONE,     /* no client certificate is asked for */
    NIB__VERIFY_OPTIONAL, /* one that is sent must be good */
    NIB__VERIFY_REQUIRED,
};

/* A certificate with its chain and its key, in PEM files. */
struct nib__tls_cert {
    const char *chain;
    const char *key;      /* NULL: in the same file */
    const char *password; /* of the key; NULL: none */
};

struct nib__tls_server_settings {
    const struct nib__tls_cert *certs; /* the first is the default; the others
                                          are chosen by SNI (RFC 6066, 3) */
    unsigned cert_count;
    const char *client_ca; /* a PEM file; NULL unless verify asks for one */
    enum nib__tls_verify verify;
    unsigned min_version;   /* NIB__TLS_1_2 or NIB__TLS_1_3 */
    const uint16_t *suites; /* in order of preference; none: the engine's */
    unsigned suite_count;
    struct nib__ticket_keys *keys; /* NULL: no tickets. The caller's; lives
                                      as long as the engine */
};

struct nib__tls_client_settings {
    const char *ca;  /* a PEM file; NULL: the system's */
    bool insecure;   /* take any certificate */
    const struct nib__tls_cert *cert; /* for servers that ask; NULL: none */
    bool resume;     /* offer the last session again */
    unsigned max_version; /* 0: the highest there is */
};

/* What a finished handshake agreed on. */
struct nib__tls_info {
    char version[16]; /* "TLSv1.2", "TLSv1.3" */
    char cipher[64];  /* the IANA name, TLS_... */
    bool resumed;
    char server_name[256]; /* SNI; "" if none */
    char peer_name[256];   /* of a verified client certificate: the subject's
                              common name, else its first DNS or mail name,
                              else the whole subject; "" if none */
};

/*
 * Makes a server's engine: reads every file, checks that each key matches its
 * certificate and that the certificate is valid now.
 *
 * error  gets a text that names the file and what is wrong with it
 *
 * Returns 0 and sets *out; -EINVAL for what the settings or files say, a
 * negative errno of a file that cannot be read, or -ENOMEM; all with a text.
 */
int nib__engine_server(const struct nib__tls_server_settings *settings,
                       struct nib__engine **out, char *error, size_t cap);

/* Makes a client's engine; as above. */
int nib__engine_client(const struct nib__tls_client_settings *settings,
                       struct nib__engine **out, char *error, size_t cap);

/* Frees an engine without sessions; NULL is allowed. */
void nib__engine_free(struct nib__engine *engine);

/* The library and its version, "Mbed TLS 2.28.3". */
const char *nib__engine_library(void);

/* Can the library speak this version? */
bool nib__engine_has_version(unsigned version);

/*
 * Makes a session. server_name is for a client: the name to ask for and to
 * verify, or a numeric address, which is verified only; NULL for a server.
 *
 * Returns 0 and sets *out; -EINVAL for a name that is too long; or -ENOMEM.
 */
int nib__session_new(struct nib__engine *engine, const char *server_name,
                     struct nib__session **out);

/* Frees a session, whatever state it is in; NULL is allowed. */
void nib__session_free(struct nib__session *session);

/*
 * Goes on with the handshake as far as io->in lasts. io->out needs room for a
 * flight; alerts are put there as well.
 *
 * Returns 0 when it is done, NIB__WANT_READ, NIB__TRUNCATED, or -EPROTO with
 * a text from nib__session_error(); after that only free it.
 */
int nib__session_handshake(struct nib__session *session,
                           struct nib__tls_io *io);

/*
 * Reads decrypted bytes, of as many records as io->in holds and cap allows.
 * cap is not 0. Answers to the peer (key updates, alerts) go to io->out.
 *
 * Returns their number; 0 after the peer's close_notify; NIB__WANT_READ;
 * NIB__TRUNCATED; or -EPROTO. Bytes that came before an end are returned
 * first, and the end by the next call.
 */
ssize_t nib__session_read(struct nib__session *session,
                          struct nib__tls_io *io, void *p, size_t cap);

/*
 * Encrypts p[0..len) into one record. len is 1 to NIB__TLS_RECORD, io->out
 * has NIB__TLS_RECORD_ROOM.
 *
 * Returns how many bytes it took, which is less than len if the peer wants
 * smaller records; or -EPROTO.
 */
ssize_t nib__session_write(struct nib__session *session,
                           struct nib__tls_io *io, const void *p, size_t len);

/* Appends close_notify, once. Returns 0 or -EPROTO. */
int nib__session_shutdown(struct nib__session *session,
                          struct nib__tls_io *io);

/*
 * Would nib__session_read() return something, bytes or an end, without more
 * input?
 */
bool nib__session_pending(const struct nib__session *session);

/* Fills in what the handshake, which is done, agreed on. */
void nib__session_info(const struct nib__session *session,
                       struct nib__tls_info *info);

/* Why the last call failed, in a few words. Lives until the next call. */
const char *nib__session_error(const struct nib__session *session);

#endif
