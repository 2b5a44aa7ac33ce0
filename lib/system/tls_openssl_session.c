/*
 * tls_openssl_session - one connection's TLS.
 *
 * Bytes go through a BIO of our own, which reads from and appends to the
 * nib__tls_io of the call that runs. It never sees an end: OpenSSL asks for
 * more, and we tell how the stream ended. OpenSSL's queue of errors belongs
 * to a thread; each call finds and leaves it empty, so a session may go from
 * thread to thread.
 */
#include "system/tls_openssl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"

/* ---- bytes in and out ---- */

static int bio_read(BIO *bio, char *p, int cap)
{
    struct nib__tls_io *io = ((struct nib__session *)BIO_get_data(bio))->io;
    size_t n = (size_t)cap;

    BIO_clear_retry_flags(bio);
    if (io->in_len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (n > io->in_len)
        n = io->in_len;
    memcpy(p, io->in, n);
    io->in += n;
    io->in_len -= n;
    return (int)n;
}

static int bio_write(BIO *bio, const char *p, int len)
{
    struct nib__tls_io *io = ((struct nib__session *)BIO_get_data(bio))->io;

    BIO_clear_retry_flags(bio);
    if ((size_t)len > io->out_cap - io->out_len)
        return -1;
    memcpy(io->out + io->out_len, p, (size_t)len);
    io->out_len += (size_t)len;
    return len;
}

static long bio_ctrl(BIO *bio, int what, long number, void *p)
{
    (void)bio, (void)number, (void)p;
    return what == BIO_CTRL_FLUSH;
}

BIO_METHOD *nib__openssl_bio(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "nib");

    if (method != NULL) {
        BIO_meth_set_read(method, bio_read);
        BIO_meth_set_write(method, bio_write);
        BIO_meth_set_ctrl(method, bio_ctrl);
    }
    return method;
}

/* ---- sessions ---- */

/* Whom a client wants to talk to. SNI has no addresses (RFC 6066, 3). */
static int take_server_name(struct nib__session *session, const char *name)
{
    SSL *ssl = session->ssl;

    if (strlen(name) >= sizeof session->engine->last_name)
        return -EINVAL;
    session->server_name = nib__strdup(name);
    if (session->server_name == NULL)
        return -ENOMEM;
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1)
        return 0;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 &&
                   SSL_set_tlsext_host_name(ssl, name) == 1
               ? 0
               : -ENOMEM;
}

static int be_client(struct nib__session *session, const char *server_name)
{
    struct nib__engine *engine = session->engine;
    int err;

    SSL_set_connect_state(session->ssl);
    if (server_name == NULL) /* then whose certificate would be good? */
        return engine->verifies ? -EINVAL : 0;
    err = take_server_name(session, server_name);
    if (err == 0 && engine->resume)
        nib__openssl_offer(session);
    return err;
}

int nib__session_new(struct nib__engine *engine, const char *server_name,
                     struct nib__session **out)
{
    struct nib__session *session = nib__alloc_zero(sizeof *session);
    BIO *bio;
    int err = -ENOMEM;

    if (session == NULL)
        return err;
    session->engine = engine;
    session->ssl = SSL_new(engine->ctx[0]);
    bio = session->ssl != NULL ? BIO_new(engine->bio) : NULL;
    if (bio == NULL)
        goto out;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    if (SSL_set_app_data(session->ssl, session) != 1)
        goto out;
    err = 0;
    if (engine->server)
        SSL_set_accept_state(session->ssl);
    else
        err = be_client(session, server_name);
out:
    ERR_clear_error();
    if (err != 0)
        nib__session_free(session);
    else
        *out = session;
    return err;
}

void nib__session_free(struct nib__session *session)
{
    if (session == NULL)
        return;
    /* Else OpenSSL takes an end without close_notify for an attack, after
       which the session must not be resumed. That is not for it to judge. */
    if (session->ssl != NULL)
        SSL_set_shutdown(session->ssl,
                         SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(session->ssl);
    nib__free(session->server_name);
    nib__free(session);
}

static void start(struct nib__session *session, struct nib__tls_io *io)
{
    session->io = io;
    ERR_clear_error();
}

/* What a call of OpenSSL's that failed means: 0 for close_notify. */
static int outcome(struct nib__session *session, int result)
{
    switch (SSL_get_error(session->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return session->io->eof ? NIB__TRUNCATED : NIB__WANT_READ;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        nib__openssl_explain(session);
        session->failed = true;
        ERR_clear_error();
        return -EPROTO;
    }
}

static int refuse(struct nib__session *session, int result, const char *why)
{
    if (!session->failed)
        snprintf(session->error, sizeof session->error, "%s", why);
    return result;
}

int nib__session_handshake(struct nib__session *session, struct nib__tls_io *io)
{
    int result;

    if (session->failed)
        return -EPROTO;
    start(session, io);
    result = SSL_do_handshake(session->ssl);
    if (result == 1) {
        session->done = true;
        /* With TLS 1.2 no callback tells of a ticket in place of the old. */
        if (session->engine->resume && SSL_session_reused(session->ssl) &&
            SSL_version(session->ssl) == TLS1_2_VERSION)
            nib__openssl_keep(session, SSL_get_session(session->ssl));
        return 0;
    }
    result = outcome(session, result);
    if (result == 0 || result == NIB__TRUNCATED) {
        refuse(session, 0, "the connection ended within the handshake");
        session->failed = true;
        result = NIB__TRUNCATED;
    }
    return result;
}

/* ---- data ---- */

ssize_t nib__session_read(struct nib__session *session, struct nib__tls_io *io,
                          void *p, size_t cap)
{
    size_t len = 0;

    if (!session->done)
        return refuse(session, -EPROTO, "the handshake is not done");
    while (len < cap && !session->ended) {
        size_t n;
        int end;

        start(session, io);
        if (SSL_read_ex(session->ssl, (char *)p + len, cap - len, &n) == 1) {
            len += n;
            continue;
        }
        end = outcome(session, 0);
        if (end == NIB__WANT_READ)
            return len > 0 ? (ssize_t)len : end;
        if (end == NIB__TRUNCATED)
            refuse(session, end, "the connection ended without close_notify");
        session->ended = true;
        session->end = end;
    }
    if (len > 0)
        return (ssize_t)len;
    session->told = true;
    return session->end;
}

/* SSL_has_pending() would also count the first bytes of a record whose rest
   has not come. */
bool nib__session_pending(const struct nib__session *session)
{
    return session->ended ? !session->told : SSL_pending(session->ssl) > 0;
}

static bool is_shut(const struct nib__session *session)
{
    return (SSL_get_shutdown(session->ssl) & SSL_SENT_SHUTDOWN) != 0;
}

ssize_t nib__session_write(struct nib__session *session, struct nib__tls_io *io,
                           const void *p, size_t len)
{
    size_t n;

    if (!session->done)
        return refuse(session, -EPROTO, "the handshake is not done");
    if (session->failed || is_shut(session))
        return refuse(session, -EPROTO, "the session is closed");
    start(session, io);
    if (SSL_write_ex(session->ssl, p, len, &n) == 1)
        return (ssize_t)n;
    if (outcome(session, 0) != -EPROTO) {
        refuse(session, 0, "OpenSSL wants to read in order to write");
        session->failed = true;
    }
    return -EPROTO;
}

int nib__session_shutdown(struct nib__session *session, struct nib__tls_io *io)
{
    int result;

    if (!session->done || session->failed || is_shut(session))
        return 0;
    start(session, io);
    result = SSL_shutdown(session->ssl);
    return result < 0 && outcome(session, result) == -EPROTO ? -EPROTO : 0;
}

/* ---- what was agreed on ---- */

/* Takes a name if it has room, and nothing that could deceive a reader. */
static bool take_name(char *to, size_t cap, const void *name, size_t len)
{
    const unsigned char *p = name;

    if (len == 0 || len >= cap)
        return false;
    for (size_t i = 0; i < len; i++)
        if (p[i] < ' ' || p[i] == 0x7f)
            return false;
    memcpy(to, p, len);
    to[len] = '\0';
    return true;
}

static bool take_string(char *to, size_t cap, const ASN1_STRING *string)
{
    unsigned char *utf8;
    int len = ASN1_STRING_to_UTF8(&utf8, string);
    bool taken;

    if (len < 0)
        return false;
    taken = take_name(to, cap, utf8, (size_t)len);
    OPENSSL_free(utf8);
    return taken;
}

static bool common_name(char *to, size_t cap, X509 *cert)
{
    X509_NAME *subject = X509_get_subject_name(cert);
    int i = -1;

    while ((i = X509_NAME_get_index_by_NID(subject, NID_commonName, i)) >= 0) {
        X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, i);

        if (take_string(to, cap, X509_NAME_ENTRY_get_data(entry)))
            return true;
    }
    return false;
}

static bool alternative_name(char *to, size_t cap, X509 *cert)
{
    GENERAL_NAMES *names =
        X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool taken = false;

    for (int i = 0; !taken && i < sk_GENERAL_NAME_num(names); i++) {
        GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        int type;
        void *value = GENERAL_NAME_get0_value(name, &type);

        taken = (type == GEN_DNS || type == GEN_EMAIL) &&
                take_string(to, cap, value);
    }
    GENERAL_NAMES_free(names);
    return taken;
}

/* "C=NL, O=Example" */
static void whole_subject(char *to, size_t cap, X509 *cert)
{
    static const unsigned long form =
        XN_FLAG_SEP_CPLUS_SPC | XN_FLAG_FN_SN | ASN1_STRFLGS_ESC_2253 |
        ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_UTF8_CONVERT;
    BIO *bio = BIO_new(BIO_s_mem());
    int len = 0;

    if (bio != NULL &&
        X509_NAME_print_ex(bio, X509_get_subject_name(cert), 0, form) >= 0)
        len = BIO_read(bio, to, (int)cap - 1);
    to[len > 0 ? len : 0] = '\0';
    BIO_free(bio);
}

static void peer_name(const struct nib__session *session, char *to, size_t cap)
{
    X509 *cert = SSL_get0_peer_certificate(session->ssl);

    if (!session->engine->server || cert == NULL ||
        SSL_get_verify_result(session->ssl) != X509_V_OK)
        return;
    if (!common_name(to, cap, cert) && !alternative_name(to, cap, cert))
        whole_subject(to, cap, cert);
    ERR_clear_error();
}

void nib__session_info(const struct nib__session *session,
                       struct nib__tls_info *info)
{
    const SSL *ssl = session->ssl;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    memset(info, 0, sizeof *info);
    snprintf(info->version, sizeof info->version, "%s", SSL_get_version(ssl));
    snprintf(info->cipher, sizeof info->cipher, "%s",
             SSL_CIPHER_standard_name(SSL_get_current_cipher(ssl)));
    info->resumed = SSL_session_reused(ssl);
    if (name != NULL)
        take_name(info->server_name, sizeof info->server_name, name,
                  strlen(name));
    peer_name(session, info->peer_name, sizeof info->peer_name);
}

const char *nib__session_error(const struct nib__session *session)
{
    return session->error;
}
