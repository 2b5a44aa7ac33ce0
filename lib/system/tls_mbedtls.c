/*
 * tls_mbedtls - engines and sessions with Mbed TLS.
 *
 * An engine has its own random numbers, certificates and keys, so that
 * engines of several threads share no lock of the library. A session reads
 * from and writes to the io of the current call. What the library tells by a
 * result alone is told apart here: "read more" may mean that a message was
 * skipped, 0 bytes an empty record.
 */
#include "system/tls_mbedtls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "system/tls_suites.h"

#if defined(MBEDTLS_USE_PSA_CRYPTO) || defined(MBEDTLS_SSL_PROTO_TLS1_3) || \
    !defined(NIB__OWN_RNG)
#include <psa/crypto.h>
#define NEEDS_PSA 1
#endif

#ifndef MBEDTLS_THREADING_C
#error "Mbed TLS was built without MBEDTLS_THREADING_C, which nib needs"
#endif

/* ---- the library -------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char library[32];
static bool library_works;

static void begin(void)
{
    char version[20];

    mbedtls_version_get_string(version);
    snprintf(library, sizeof library, "Mbed TLS %s", version);
#ifdef NEEDS_PSA
    library_works = psa_crypto_init() == PSA_SUCCESS;
#else
    library_works = true;
#endif
}

const char *nib__engine_library(void)
{
    pthread_once(&once, begin);
    return library;
}

bool nib__engine_has_version(unsigned version)
{
#ifdef MBEDTLS_SSL_PROTO_TLS1_3
    if (version == NIB__TLS_1_3)
        return true;
#endif
    return version == NIB__TLS_1_2;
}

#ifdef NIB__OWN_RNG
int nib__mbedtls_random(void *rng, unsigned char *out, size_t n)
{
    while (n > 0) {
        size_t part = n < MBEDTLS_CTR_DRBG_MAX_REQUEST
                          ? n
                          : MBEDTLS_CTR_DRBG_MAX_REQUEST;
        int ret = mbedtls_ctr_drbg_random(rng, out, part);

        if (ret != 0)
            return ret;
        out += part;
        n -= part;
    }
    return 0;
}
#endif

/* ---- what servers and clients have in common ---------------------------- */

/* ChaCha20 first: these libraries encrypt one block of AES-GCM at a time. */
static const uint16_t preferred_suites[] = {
    NIB__TLS13_CHACHA20,    NIB__TLS13_AES_128_GCM, NIB__TLS13_AES_256_GCM,
    NIB__ECDSA_CHACHA20,    NIB__RSA_CHACHA20,      NIB__ECDSA_AES_128_GCM,
    NIB__RSA_AES_128_GCM,   NIB__ECDSA_AES_256_GCM, NIB__RSA_AES_256_GCM,
};

enum { PREFERRED = sizeof preferred_suites / sizeof preferred_suites[0] };

static bool is_known(int suite)
{
    return strcmp(mbedtls_ssl_get_ciphersuite_name(suite), "unknown") != 0;
}

static bool is_suite_of(unsigned version, int suite)
{
    return (suite >> 8 == 0x13) == (version == NIB__TLS_1_3);
}

/* Does the engine have a suite of this version? */
static bool has_suite(const struct nib__engine *e, unsigned version)
{
    for (const int *suite = e->suites; *suite != 0; suite++)
        if (is_suite_of(version, *suite))
            return true;
    return false;
}

/* Takes those of the suites that the library has, in their order. */
static void take_suites(struct nib__engine *e, const uint16_t *suites,
                        unsigned count)
{
    unsigned n = 0;

    if (count == 0) {
        suites = preferred_suites;
        count = PREFERRED;
    }
    for (unsigned i = 0; i < count && n < NIB__TLS_SUITES; i++)
        if (nib__tls_suite(suites[i]) != NULL && is_known(suites[i]))
            e->suites[n++] = suites[i];
    e->suites[n] = 0;
    mbedtls_ssl_conf_ciphersuites(&e->conf, e->suites);
}

/* Which of the two curves is faster depends on the library. P-256 is needed
   in any case: up to TLS 1.2 the list is for certificates, too. */
static void take_groups(mbedtls_ssl_config *conf)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03010000
    static const uint16_t groups[] = {
        MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
        MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
        MBEDTLS_SSL_IANA_TLS_GROUP_SECP384R1,
        MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
    };

    mbedtls_ssl_conf_groups(conf, groups);
#else
    static const mbedtls_ecp_group_id groups[] = {
        MBEDTLS_ECP_DP_CURVE25519,
        MBEDTLS_ECP_DP_SECP256R1,
        MBEDTLS_ECP_DP_SECP384R1,
        MBEDTLS_ECP_DP_NONE,
    };

    mbedtls_ssl_conf_curves(conf, groups);
#endif
}

static void take_versions(mbedtls_ssl_config *conf, unsigned min, unsigned max)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03020000
    mbedtls_ssl_conf_min_tls_version(conf, (mbedtls_ssl_protocol_version)min);
    mbedtls_ssl_conf_max_tls_version(conf, (mbedtls_ssl_protocol_version)max);
#else
    mbedtls_ssl_conf_min_version(conf, (int)(min >> 8), (int)(min & 0xff));
    mbedtls_ssl_conf_max_version(conf, (int)(max >> 8), (int)(max & 0xff));
#endif
}

static void init_engine(struct nib__engine *e, bool server)
{
    e->server = server;
    mbedtls_ssl_config_init(&e->conf);
#ifdef NIB__OWN_RNG
    mbedtls_entropy_init(&e->entropy);
    mbedtls_ctr_drbg_init(&e->rng);
#endif
    mbedtls_x509_crt_init(&e->ca);
    mbedtls_ssl_session_init(&e->last);
    pthread_mutex_init(&e->lock, NULL);
}

/* What every engine is told. Returns a code of the library. */
static int configure(struct nib__engine *e)
{
    static const char *protocols[] = {"http/1.1", NULL};
    int ret;

#ifdef NIB__OWN_RNG
    ret = mbedtls_ctr_drbg_seed(&e->rng, mbedtls_entropy_func, &e->entropy,
                                NULL, 0);
    if (ret != 0)
        return ret;
    mbedtls_ssl_conf_rng(&e->conf, nib__mbedtls_random, &e->rng);
#endif
    ret = mbedtls_ssl_config_defaults(
        &e->conf, e->server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
        MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);
    if (ret != 0)
        return ret;
    take_groups(&e->conf);
#ifdef MBEDTLS_SSL_RENEGOTIATION
    mbedtls_ssl_conf_renegotiation(&e->conf,
                                   MBEDTLS_SSL_RENEGOTIATION_DISABLED);
#endif
#ifdef MBEDTLS_SSL_PROTO_TLS1_3
    /* A resumption, too, agrees on new keys. */
    mbedtls_ssl_conf_tls13_key_exchange_modes(
        &e->conf, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ALL);
#endif
    return mbedtls_ssl_conf_alpn_protocols(&e->conf, protocols);
}

/* Makes an engine that has no certificate yet. 0 or -errno, with a text. */
static int new_engine(bool server, struct nib__engine **out, char *error,
                      size_t cap)
{
    struct nib__engine *e = nib__alloc_zero(sizeof *e);
    int ret;

    if (e == NULL) {
        snprintf(error, cap, "%s", nib_strerror(-ENOMEM));
        return -ENOMEM;
    }
    init_engine(e, server);
    pthread_once(&once, begin);
    ret = configure(e);
    if (ret != 0)
        nib__mbedtls_text(ret, error, cap);
    if (!library_works)
        snprintf(error, cap, "%s does not start", library);
    if (ret == 0 && library_works) {
        *out = e;
        return 0;
    }
    nib__engine_free(e);
    return -EINVAL;
}

void nib__engine_free(struct nib__engine *e)
{
    if (e == NULL)
        return;
    mbedtls_ssl_config_free(&e->conf);
    for (unsigned i = 0; i < e->cert_count; i++) {
        mbedtls_x509_crt_free(&e->certs[i].chain);
        mbedtls_pk_free(&e->certs[i].key);
    }
    nib__free(e->certs);
    mbedtls_x509_crt_free(&e->ca);
    mbedtls_ssl_session_free(&e->last);
#ifdef NIB__OWN_RNG
    mbedtls_ctr_drbg_free(&e->rng);
    mbedtls_entropy_free(&e->entropy);
#endif
    pthread_mutex_destroy(&e->lock);
    nib__free(e);
}

/* Reads the certificates; the first is the library's default. */
static int take_certs(struct nib__engine *e, const struct nib__tls_cert *certs,
                      unsigned count, char *error, size_t cap)
{
    int ret;

    e->certs = nib__alloc_array(count, sizeof e->certs[0]);
    if (e->certs == NULL) {
        snprintf(error, cap, "%s", nib_strerror(-ENOMEM));
        return -ENOMEM;
    }
    while (e->cert_count < count) {
        struct nib__own_cert *own = &e->certs[e->cert_count];

        mbedtls_x509_crt_init(&own->chain);
        mbedtls_pk_init(&own->key);
        ret = nib__mbedtls_cert(e, own, &certs[e->cert_count++], error, cap);
        if (ret < 0)
            return ret;
    }
    ret = mbedtls_ssl_conf_own_cert(&e->conf, &e->certs[0].chain,
                                    &e->certs[0].key);
    if (ret == 0)
        return 0;
    nib__mbedtls_text(ret, error, cap);
    return -EINVAL;
}

/* ---- servers ------------------------------------------------------------ */

/* Offers the suites and versions of the settings. 0 or -EINVAL, with a
   text. */
static int take_protocol(struct nib__engine *e,
                         const struct nib__tls_server_settings *settings,
                         char *error, size_t cap)
{
    unsigned min = settings->min_version == NIB__TLS_1_3 ? NIB__TLS_1_3
                                                         : NIB__TLS_1_2;
    unsigned max = NIB__TLS_1_3;

    if (!nib__engine_has_version(min)) {
        snprintf(error, cap, "TLS: %s does not speak TLS 1.3", library);
        return -EINVAL;
    }
    take_suites(e, settings->suites, settings->suite_count);
    /* A version without a suite would fail instead of giving way. */
    if (!has_suite(e, NIB__TLS_1_3))
        max = NIB__TLS_1_2;
    if (!has_suite(e, NIB__TLS_1_2))
        min = NIB__TLS_1_3;
    if (min > max) {
        snprintf(error, cap, "TLS: no cipher suite of %s is left",
                 settings->min_version == NIB__TLS_1_3 ? "TLS 1.3" : library);
        return -EINVAL;
    }
    take_versions(&e->conf, min, max);
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    mbedtls_ssl_conf_preference_order(
        &e->conf, MBEDTLS_SSL_SRV_CIPHERSUITE_ORDER_SERVER);
#endif
    return 0;
}

/* The certificates for the name that a client asks for; without one, or if
   none is for that name, the library takes the first. */
static int choose_cert(void *arg, mbedtls_ssl_context *ssl,
                       const unsigned char *name, size_t len)
{
    struct nib__engine *e = arg;
    /* ssl is a session's first field. */
    struct nib__session *session = (struct nib__session *)ssl;
    int ret = 0;

    if (len >= sizeof session->server_name)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (name[i] <= ' ' || name[i] >= 0x7f)
            return 0;
    memcpy(session->server_name, name, len);
    session->server_name[len] = '\0';
    for (unsigned i = 0; i < e->cert_count && ret == 0; i++)
        if (nib__mbedtls_is_for(&e->certs[i].chain, session->server_name, len))
            ret = mbedtls_ssl_set_hs_own_cert(ssl, &e->certs[i].chain,
                                              &e->certs[i].key);
    return ret;
}

static int take_client_ca(struct nib__engine *e,
                          const struct nib__tls_server_settings *settings,
                          char *error, size_t cap)
{
    int err;

    e->verify = settings->verify;
    if (e->verify == NIB__VERIFY_NONE) {
        mbedtls_ssl_conf_authmode(&e->conf, MBEDTLS_SSL_VERIFY_NONE);
        return 0;
    }
    if (settings->client_ca == NULL) {
        snprintf(error, cap, "TLS: to verify clients takes a CA file");
        return -EINVAL;
    }
    err = nib__mbedtls_ca(&e->ca, settings->client_ca, e->ca_digest, error,
                          cap);
    mbedtls_ssl_conf_ca_chain(&e->conf, &e->ca, NULL);
    mbedtls_ssl_conf_authmode(&e->conf, e->verify == NIB__VERIFY_OPTIONAL
                                            ? MBEDTLS_SSL_VERIFY_OPTIONAL
                                            : MBEDTLS_SSL_VERIFY_REQUIRED);
    return err;
}

int nib__engine_server(const struct nib__tls_server_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    struct nib__engine *e;
    int err = new_engine(true, &e, error, cap);

    if (err < 0)
        return err;
    if (settings->cert_count == 0) {
        snprintf(error, cap, "TLS: a server needs a certificate");
        err = -EINVAL;
    }
    if (err == 0)
        err = take_protocol(e, settings, error, cap);
    if (err == 0)
        err = take_certs(e, settings->certs, settings->cert_count, error, cap);
    if (err == 0)
        err = take_client_ca(e, settings, error, cap);
    if (err < 0) {
        nib__engine_free(e);
        return err;
    }
    mbedtls_ssl_conf_sni(&e->conf, choose_cert, e);
    e->keys = settings->keys;
    if (e->keys != NULL)
        nib__mbedtls_use_tickets(e);
    *out = e;
    return 0;
}

/* ---- clients ------------------------------------------------------------ */

static void take_resumption(struct nib__engine *e, bool resume)
{
    e->resume = resume;
    mbedtls_ssl_conf_session_tickets(&e->conf,
                                     resume
                                         ? MBEDTLS_SSL_SESSION_TICKETS_ENABLED
                                         : MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
#ifdef MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED
    if (resume)
        mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
            &e->conf, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
#endif
}

int nib__engine_client(const struct nib__tls_client_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    struct nib__engine *e;
    int err = new_engine(false, &e, error, cap);

    if (err < 0)
        return err;
    take_suites(e, NULL, 0);
    take_versions(&e->conf, NIB__TLS_1_2,
                  settings->max_version == NIB__TLS_1_2 ||
                          !nib__engine_has_version(NIB__TLS_1_3)
                      ? NIB__TLS_1_2
                      : NIB__TLS_1_3);
    take_resumption(e, settings->resume);
    e->insecure = settings->insecure;
    if (e->insecure)
        mbedtls_ssl_conf_authmode(&e->conf, MBEDTLS_SSL_VERIFY_NONE);
    else if (settings->ca != NULL)
        err = nib__mbedtls_ca(&e->ca, settings->ca, NULL, error, cap);
    else
        err = nib__mbedtls_system_ca(&e->ca, error, cap);
    if (err == 0 && settings->cert != NULL)
        err = take_certs(e, settings->cert, 1, error, cap);
    if (err < 0) {
        nib__engine_free(e);
        return err;
    }
    mbedtls_ssl_conf_ca_chain(&e->conf, &e->ca, NULL);
    *out = e;
    return 0;
}

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

/* ---- sessions ----------------------------------------------------------- */

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

/* Called for each certificate of a peer's chain, its own being the last. */
static int look_at(void *arg, mbedtls_x509_crt *crt, int depth,
                   uint32_t *flags)
{
    struct nib__session *s = arg;

    if (depth > 0)
        return 0;
    if (s->engine->server)
        nib__mbedtls_owner(crt, s->peer_name);
    else if (s->ip_len > 0 ? !nib__mbedtls_is_for_ip(crt, s->ip, s->ip_len)
                           : s->server_name[0] == '\0')
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
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

/* A client need not send a certificate, but one that it sends must be good:
   the library has no such mode, only one that takes any. */
static int check_client(struct nib__session *s)
{
    uint32_t flags = mbedtls_ssl_get_verify_result(&s->ssl) &
                     ~(uint32_t)(MBEDTLS_X509_BADCERT_MISSING |
                                 MBEDTLS_X509_BADCERT_SKIP_VERIFY);

    if (s->engine->verify != NIB__VERIFY_OPTIONAL || flags == 0)
        return 0;
    mbedtls_ssl_send_alert_message(&s->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL,
                                   nib__mbedtls_alert(flags));
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
    }
    ret = mbedtls_ssl_handshake_step(&s->ssl);
    if (ret == 0 && state == MBEDTLS_SSL_CLIENT_CERTIFICATE &&
        s->engine->server)
        ret = check_client(s);
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
