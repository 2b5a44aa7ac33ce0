/*
 * tls_mbedtls_session - sessions with Mbed TLS.
 *
 * A session reads from and writes to the io of the current call. What the
 * library tells by a result alone is told apart here: "read more" may mean
 * that a message was skipped, 0 bytes an empty record. And what it does not
 * tell is seen by the states that a handshake goes through.
 */
#include "system/tls_mbedtls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "system/tls_suites.h"

/* ---- the wire ----------------------------------------------------------- */

static int receive(void *arg, unsigned char *p, size_t n)
{
    struct nib__session *s = arg;
    struct nib__tls_io *io = s->io;

    if (n > io->in_len)
        n = io->in_len;
    if (n == 0) {
        s->starved = !io->eof;
        s->at_eof = io->eof;
        return io->eof ? 0 : MBEDTLS_ERR_SSL_WANT_READ;
    }
    memcpy(p, io->in, n);
    io->in += n;
    io->in_len -= n;
    if (!s->began) {
        s->began = true;
        s->not_tls = p[0] != MBEDTLS_SSL_MSG_HANDSHAKE &&
                     p[0] != MBEDTLS_SSL_MSG_ALERT;
    }
    return (int)n;
}

static int transmit(void *arg, const unsigned char *p, size_t n)
{
    struct nib__session *s = arg;
    struct nib__tls_io *io = s->io;

    if (n > io->out_cap - io->out_len)
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    memcpy(io->out + io->out_len, p, n);
    io->out_len += n;
    return (int)n;
}

/* ---- sessions ----------------------------------------------------------- */

/* Keeps a client's session for the next one. Up to TLS 1.2 the handshake
   makes it, later on each ticket. */
static void keep_last(struct nib__session *s)
{
    struct nib__engine *e = s->engine;
    mbedtls_ssl_session session;

    mbedtls_ssl_session_init(&session);
    if (mbedtls_ssl_get_session(&s->ssl, &session) != 0) {
        mbedtls_ssl_session_free(&session);
        return;
    }
    pthread_mutex_lock(&e->lock);
    mbedtls_ssl_session_free(&e->last);
    e->last = session;
    memcpy(e->last_name, s->server_name, sizeof e->last_name);
    e->has_last = true;
    pthread_mutex_unlock(&e->lock);
}

/* Offers the last session, if it was with this server. */
static void offer_last(struct nib__session *s)
{
    struct nib__engine *e = s->engine;

    pthread_mutex_lock(&e->lock);
    if (e->has_last && strcmp(e->last_name, s->server_name) == 0)
        mbedtls_ssl_set_session(&s->ssl, &e->last);
    pthread_mutex_unlock(&e->lock);
}

/* Called for each certificate of a peer's chain, its own being the last. */
static int look_at(void *arg, mbedtls_x509_crt *crt, int depth,
                   uint32_t *flags)
{
    struct nib__session *s = arg;

    if (depth > 0)
        return 0;
    if (s->engine->server) {
        nib__mbedtls_owner(crt, s->peer_name);
        s->until_s = nib__mbedtls_expiry(crt);
    } else if (s->ip_len > 0 ? !nib__mbedtls_is_for_ip(crt, s->ip, s->ip_len)
                           : s->server_name[0] == '\0') {
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
    }
    return 0;
}

/* Whom a client wants to talk to. An address is no name for SNI (RFC 6066,
   3), and the library knows no other kind; look_at() verifies it. */
static int take_server_name(struct nib__session *s, const char *name)
{
    if (strlen(name) >= sizeof s->server_name)
        return -EINVAL;
    memcpy(s->server_name, name, strlen(name));
    if (inet_pton(AF_INET, name, s->ip) == 1)
        s->ip_len = 4;
    else if (inet_pton(AF_INET6, name, s->ip) == 1)
        s->ip_len = 16;
    else
        return mbedtls_ssl_set_hostname(&s->ssl, name) == 0 ? 0 : -ENOMEM;
    return 0;
}

int nib__session_new(struct nib__engine *engine, const char *server_name,
                     struct nib__session **out)
{
    struct nib__session *s = nib__alloc_zero(sizeof *s);
    int err = 0;

    if (s == NULL)
        return -ENOMEM;
    s->engine = engine;
    mbedtls_ssl_init(&s->ssl);
    if (mbedtls_ssl_setup(&s->ssl, &engine->conf) != 0)
        err = -ENOMEM;
    if (err == 0 && !engine->server) {
        /* 3.6 wants to be told that no name is meant to be none. */
        mbedtls_ssl_set_hostname(&s->ssl, NULL);
        if (server_name != NULL)
            err = take_server_name(s, server_name);
        if (err == 0 && engine->resume)
            offer_last(s);
    }
    if (err < 0) {
        nib__session_free(s);
        return err;
    }
    mbedtls_ssl_set_bio(&s->ssl, s, transmit, receive, NULL);
    mbedtls_ssl_set_verify(&s->ssl, look_at, s);
    *out = s;
    return 0;
}

void nib__session_free(struct nib__session *s)
{
    if (s == NULL)
        return;
    mbedtls_ssl_free(&s->ssl);
    nib__free(s);
}

static int fail(struct nib__session *s, int code)
{
    nib__mbedtls_explain(s, code);
    s->end = NIB__END_FAILED;
    return -EPROTO;
}

static int refuse(struct nib__session *s, const char *text)
{
    if (s->end != NIB__END_FAILED)
        snprintf(s->error, sizeof s->error, "%s", text);
    return -EPROTO;
}

/* Did the library just pass something over, and should be called again? */
static bool goes_on(struct nib__session *s, int ret)
{
#ifdef MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET
    if (ret == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
        if (s->engine->resume)
            keep_last(s);
        return true;
    }
#endif
    if (ret == MBEDTLS_ERR_SSL_WANT_READ)
        return !s->starved;
    return ret == 0 && !s->at_eof;
}

/* ---- handshake ---------------------------------------------------------- */

static void alert(struct nib__session *s, unsigned char what)
{
    mbedtls_ssl_send_alert_message(&s->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL,
                                   what);
}

/* A client need not send a certificate, but one that it sends must be good:
   the library has no such mode, only one that takes any. With TLS 1.3 it
   seals this alert, and its own ones at this point, by keys that the client
   has left behind (Mbed-TLS/mbedtls issue 10877): the client learns that it
   is refused, not why. */
static int check_client(struct nib__session *s)
{
    uint32_t flags = mbedtls_ssl_get_verify_result(&s->ssl) &
                     ~(uint32_t)(MBEDTLS_X509_BADCERT_MISSING |
                                 MBEDTLS_X509_BADCERT_SKIP_VERIFY);

    if (s->engine->verify != NIB__VERIFY_OPTIONAL || flags == 0)
        return 0;
    alert(s, nib__mbedtls_alert(flags));
    return MBEDTLS_ERR_X509_CERT_VERIFY_FAILED;
}

/* One step. Only a full handshake comes by the server's certificate; until
   then peer_name may be what an unproven ticket said. */
static int step(struct nib__session *s, int state)
{
    int ret;

    if (state == MBEDTLS_SSL_SERVER_CERTIFICATE && !s->full) {
        s->full = true;
        s->peer_name[0] = '\0';
        s->until_s = UINT64_MAX;
    }
    ret = mbedtls_ssl_handshake_step(&s->ssl);
    if (ret == 0 && state == MBEDTLS_SSL_CLIENT_CERTIFICATE &&
        s->engine->server)
        ret = check_client(s);
    /* Up to TLS 1.2 the library refuses without a word. */
    if (ret == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE &&
        nib__mbedtls_version(s) == NIB__TLS_1_2)
        alert(s, MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE);
    return ret;
}

int nib__session_handshake(struct nib__session *s, struct nib__tls_io *io)
{
    int ret = 0;

    if (s->end == NIB__END_FAILED)
        return -EPROTO;
    s->io = io;
    s->starved = s->at_eof = false;
    nib__mbedtls_ticket_session(s);
    while (!s->done) {
        int state = s->ssl.MBEDTLS_PRIVATE(state);

        s->done = state == MBEDTLS_SSL_HANDSHAKE_OVER;
        ret = s->done ? 0 : step(s, state);
        if (ret != 0 && !goes_on(s, ret))
            break;
    }
    nib__mbedtls_ticket_session(NULL);
    s->io = NULL;
    if (ret == MBEDTLS_ERR_SSL_WANT_READ)
        return NIB__WANT_READ;
    if (ret == MBEDTLS_ERR_SSL_CONN_EOF) {
        refuse(s, "the connection ended within the handshake");
        s->end = NIB__END_TRUNCATED;
        return NIB__TRUNCATED;
    }
    if (ret != 0)
        return fail(s, ret);
    if (s->engine->resume && nib__mbedtls_version(s) == NIB__TLS_1_2)
        keep_last(s);
    return 0;
}

/* ---- data --------------------------------------------------------------- */

/* The end that the library's result means. */
static void end_by(struct nib__session *s, int ret)
{
    if (ret == 0 || ret == MBEDTLS_ERR_SSL_CONN_EOF) {
        s->end = NIB__END_TRUNCATED;
        refuse(s, "the connection ended without close_notify");
    } else if (ret == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
        s->end = NIB__END_CLOSED;
    } else {
        fail(s, ret);
    }
    s->end_held = true;
}

static ssize_t tell_end(struct nib__session *s)
{
    s->end_held = false;
    switch (s->end) {
    case NIB__END_CLOSED:
        return 0;
    case NIB__END_TRUNCATED:
        return NIB__TRUNCATED;
    default:
        return -EPROTO;
    }
}

ssize_t nib__session_read(struct nib__session *s, struct nib__tls_io *io,
                          void *p, size_t cap)
{
    size_t done = 0;

    if (s->end == NIB__END_NONE && !s->done)
        return refuse(s, "the handshake is not done");
    if (cap > INT_MAX)
        cap = INT_MAX;
    s->io = io;
    while (s->end == NIB__END_NONE && done < cap) {
        int ret;

        s->starved = s->at_eof = false;
        ret = mbedtls_ssl_read(&s->ssl, (unsigned char *)p + done, cap - done);
        if (ret > 0)
            done += (size_t)ret;
        else if (ret == MBEDTLS_ERR_SSL_WANT_READ && s->starved)
            break;
        else if (!goes_on(s, ret))
            end_by(s, ret);
    }
    s->io = NULL;
    if (done > 0)
        return (ssize_t)done;
    return s->end == NIB__END_NONE ? NIB__WANT_READ : tell_end(s);
}

ssize_t nib__session_write(struct nib__session *s, struct nib__tls_io *io,
                           const void *p, size_t len)
{
    int ret;

    if (!s->done)
        return refuse(s, "the handshake is not done");
    if (s->end == NIB__END_FAILED || s->shut)
        return refuse(s, "the session is closed");
    s->io = io;
    ret = mbedtls_ssl_write(&s->ssl, p, len);
    s->io = NULL;
    return ret > 0 ? ret : fail(s, ret);
}

int nib__session_shutdown(struct nib__session *s, struct nib__tls_io *io)
{
    int ret;

    if (!s->done || s->shut || s->end == NIB__END_FAILED)
        return 0;
    s->shut = true;
    s->io = io;
    ret = mbedtls_ssl_close_notify(&s->ssl);
    s->io = NULL;
    return ret == 0 ? 0 : fail(s, ret);
}

bool nib__session_pending(const struct nib__session *s)
{
    return s->end_held || (s->end == NIB__END_NONE && s->done &&
                           mbedtls_ssl_check_pending(&s->ssl) != 0);
}

/* ---- what is to be known ------------------------------------------------ */

unsigned nib__mbedtls_version(const struct nib__session *s)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03020000
    return (unsigned)mbedtls_ssl_get_version_number(&s->ssl);
#else
    (void)s;
    return NIB__TLS_1_2; /* which is the least, and the most it speaks */
#endif
}

void nib__session_info(const struct nib__session *s, struct nib__tls_info *info)
{
    const char *cipher = mbedtls_ssl_get_ciphersuite(&s->ssl);
    int number = cipher == NULL ? 0 : mbedtls_ssl_get_ciphersuite_id(cipher);
    const struct nib__tls_suite *suite = nib__tls_suite((uint16_t)number);

    memset(info, 0, sizeof *info);
    snprintf(info->version, sizeof info->version, "%s",
             mbedtls_ssl_get_version(&s->ssl));
    if (suite != NULL)
        snprintf(info->cipher, sizeof info->cipher, "%s", suite->name);
    info->resumed = !s->full;
    memcpy(info->server_name, s->server_name, sizeof info->server_name);
    if (s->engine->server)
        memcpy(info->peer_name, s->peer_name, sizeof info->peer_name);
}

const char *nib__session_error(const struct nib__session *s)
{
    return s->error;
}
