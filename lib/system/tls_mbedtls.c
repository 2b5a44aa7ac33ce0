/*
 * tls_mbedtls - engines with Mbed TLS.
 *
 * An engine has its own random numbers, certificates and keys, so that
 * engines of several threads share no lock of the library.
 */
#include "system/tls_mbedtls.h"

#include <errno.h>
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
        snprintf(error, cap, "TLS: no cipher suite");
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
        snprintf(error, cap, "TLS: no client CA");
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
        snprintf(error, cap, "TLS: no certificate");
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
