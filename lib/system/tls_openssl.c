/*
 * tls_openssl - the engine made of OpenSSL 3.
 *
 * An engine has an SSL_CTX for each of its certificates, alike but for that:
 * SNI moves a session from the first to another. A client's has one.
 */
#include "system/tls_openssl.h"

#include <errno.h>
#include <stdio.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "system/tls_suites.h"

/* ---- client certificates ---- */

/*
 * Loads the authorities of client certificates into the first SSL_CTX, and
 * computes what marks the sessions of these rules: a ticket that was issued
 * under others is not taken (RFC 8446, 4.6.1).
 */
static int trust_clients(struct nib__engine *engine,
                         const struct nib__tls_server_settings *settings,
                         const struct nib__openssl_text *text)
{
    uint8_t verify = (uint8_t)settings->verify;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    int err = 0;

    if (hash == NULL || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(hash, &verify, sizeof verify) != 1)
        err = nib__openssl_no_memory(text);
    if (err == 0 && engine->verifies)
        err =
            nib__openssl_trust(engine->ctx[0], settings->client_ca, hash, text);
    if (err == 0 && EVP_DigestFinal_ex(hash, engine->rules, NULL) != 1)
        err = nib__openssl_no_memory(text);
    EVP_MD_CTX_free(hash);
    return err;
}

static int set_verify(struct nib__engine *engine, SSL_CTX *ctx,
                      enum nib__tls_verify verify)
{
    SSL_CTX *first = engine->ctx[0];
    int mode = SSL_VERIFY_NONE;

    if (SSL_CTX_set_session_id_context(ctx, engine->rules,
                                       sizeof engine->rules) != 1)
        return -ENOMEM;
    if (!engine->verifies)
        return 0;
    mode = SSL_VERIFY_PEER;
    if (verify == NIB__VERIFY_REQUIRED)
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(ctx, mode, NULL);
    if (ctx != first) {
        SSL_CTX_set1_cert_store(ctx, SSL_CTX_get_cert_store(first));
        SSL_CTX_set_client_CA_list(
            ctx, SSL_dup_CA_list(SSL_CTX_get_client_CA_list(first)));
    }
    return 0;
}

/* ---- versions and suites ---- */

static const uint16_t default_suites[NIB__TLS_SUITES] = {
    NIB__TLS13_AES_128_GCM, NIB__TLS13_AES_256_GCM, NIB__TLS13_CHACHA20,
    NIB__ECDSA_AES_128_GCM, NIB__RSA_AES_128_GCM,   NIB__ECDSA_AES_256_GCM,
    NIB__RSA_AES_256_GCM,   NIB__ECDSA_CHACHA20,    NIB__RSA_CHACHA20,
};

/* OpenSSL's names of the suites of one version, "a:b:c". */
static void suite_names(char *p, size_t cap, const uint16_t *suites,
                        unsigned count, bool tls13)
{
    size_t len = 0;

    *p = '\0';
    for (unsigned i = 0; i < count; i++) {
        const struct nib__tls_suite *suite = nib__tls_suite(suites[i]);

        if (suite != NULL && (suite->number >> 8 == 0x13) == tls13 && len < cap)
            len += (size_t)snprintf(p + len, cap - len, "%s%s",
                                    len > 0 ? ":" : "", suite->openssl);
    }
}

/* A version without a suite is not spoken. */
static int set_suites(SSL_CTX *ctx, unsigned min, unsigned max,
                      const uint16_t *suites, unsigned count,
                      const struct nib__openssl_text *text)
{
    char tls12[512], tls13[512];

    suite_names(tls12, sizeof tls12, suites, count, false);
    suite_names(tls13, sizeof tls13, suites, count, true);
    if (tls12[0] == '\0')
        min = NIB__TLS_1_3;
    if (tls13[0] == '\0')
        max = NIB__TLS_1_2;
    if (min > max)
        return nib__openssl_complain(text, -EINVAL, "TLS", "no cipher suite");
    if ((tls12[0] != '\0' && SSL_CTX_set_cipher_list(ctx, tls12) != 1) ||
        SSL_CTX_set_ciphersuites(ctx, tls13) != 1 ||
        SSL_CTX_set_min_proto_version(ctx, (int)min) != 1 ||
        SSL_CTX_set_max_proto_version(ctx, (int)max) != 1 ||
        SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") != 1)
        return nib__openssl_refused(text, "TLS");
    return 0;
}

static const unsigned char protocols[] = "\x08http/1.1"; /* RFC 7301, 6 */

static int choose_protocol(SSL *ssl, const unsigned char **out,
                           unsigned char *len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    unsigned char *chosen;

    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, len, protocols, sizeof protocols - 1, in,
                              in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* ---- server names ---- */

static SSL_CTX *ctx_for(const struct nib__engine *engine, const char *name,
                        unsigned flags)
{
    for (unsigned i = 0; i < engine->count; i++)
        if (X509_check_host(SSL_CTX_get0_certificate(engine->ctx[i]), name, 0,
                            flags, NULL) == 1)
            return engine->ctx[i];
    return NULL;
}

/* An exact name goes before a wildcard. Unknown names get the default. */
static int choose_cert(SSL *ssl, int *alert, void *arg)
{
    const struct nib__engine *engine = arg;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    SSL_CTX *ctx = NULL;

    (void)alert;
    if (name == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    if (engine->count > 1)
        ctx = ctx_for(engine, name, X509_CHECK_FLAG_NO_WILDCARDS);
    if (engine->count > 1 && ctx == NULL)
        ctx = ctx_for(engine, name, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (ctx != NULL && SSL_set_SSL_CTX(ssl, ctx) == NULL)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

/* ---- engines ---- */

static int engine_new(unsigned count, struct nib__engine **out)
{
    struct nib__engine *engine = nib__alloc_zero(sizeof *engine);

    if (engine == NULL)
        return -ENOMEM;
    pthread_mutex_init(&engine->lock, NULL);
    *out = engine;
    engine->ctx = nib__alloc_array(count, sizeof *engine->ctx);
    engine->bio = nib__openssl_bio();
    return engine->ctx != NULL && engine->bio != NULL ? 0 : -ENOMEM;
}

/* Adds an SSL_CTX with what all have in common. */
static SSL_CTX *add_ctx(struct nib__engine *engine, const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);

    if (ctx == NULL)
        return NULL;
    engine->ctx[engine->count++] = ctx;
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    /* A partial write ends with a record, where the peer wants small ones. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN |
                              SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(ctx, NIB__TICKET_LIFE_S);
    return ctx;
}

static int add_server_ctx(struct nib__engine *engine,
                          const struct nib__tls_server_settings *settings,
                          const struct nib__tls_cert *cert,
                          const struct nib__openssl_text *text)
{
    bool own = settings->suite_count > 0;
    SSL_CTX *ctx = add_ctx(engine, TLS_server_method());
    int err;

    if (ctx == NULL)
        return nib__openssl_no_memory(text);
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    if (!own) /* a client that wants ChaCha20 has no AES in hardware */
        SSL_CTX_set_options(ctx, SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    SSL_CTX_set_tlsext_servername_callback(ctx, choose_cert);
    SSL_CTX_set_tlsext_servername_arg(ctx, engine);
    nib__openssl_tickets(engine, ctx);
    err = set_suites(ctx,
                     settings->min_version == NIB__TLS_1_3 ? NIB__TLS_1_3
                                                           : NIB__TLS_1_2,
                     NIB__TLS_1_3, own ? settings->suites : default_suites,
                     own ? settings->suite_count : NIB__TLS_SUITES, text);
    if (err == 0)
        err = nib__openssl_cert(ctx, cert, text);
    if (err == 0 && ctx == engine->ctx[0])
        err = trust_clients(engine, settings, text);
    if (err == 0 && set_verify(engine, ctx, settings->verify) != 0)
        err = nib__openssl_no_memory(text);
    return err;
}

static int finish(struct nib__engine *engine, int err, struct nib__engine **out)
{
    ERR_clear_error();
    if (err != 0)
        nib__engine_free(engine);
    else
        *out = engine;
    return err;
}

int nib__engine_server(const struct nib__tls_server_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    const struct nib__openssl_text text = {error, cap};
    struct nib__engine *engine = NULL;
    int err = 0;

    if (settings->cert_count == 0)
        return nib__openssl_complain(&text, -EINVAL, "TLS", "no certificate");
    if (settings->verify != NIB__VERIFY_NONE && settings->client_ca == NULL)
        return nib__openssl_complain(&text, -EINVAL, "TLS", "no client CA");
    if (engine_new(settings->cert_count, &engine) != 0)
        err = nib__openssl_no_memory(&text);
    if (err == 0) {
        engine->keys = settings->keys;
        engine->verifies = settings->verify != NIB__VERIFY_NONE;
    }
    for (unsigned i = 0; err == 0 && i < settings->cert_count; i++)
        err = add_server_ctx(engine, settings, &settings->certs[i], &text);
    return finish(engine, err, out);
}

static int add_client_ctx(struct nib__engine *engine,
                          const struct nib__tls_client_settings *settings,
                          const struct nib__openssl_text *text)
{
    unsigned max = settings->max_version;
    SSL_CTX *ctx = add_ctx(engine, TLS_client_method());

    if (ctx == NULL ||
        SSL_CTX_set_alpn_protos(ctx, protocols, sizeof protocols - 1) != 0)
        return nib__openssl_no_memory(text);
    if (!settings->insecure)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (settings->resume) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
                                                SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(ctx, nib__openssl_keep);
    }
    if (settings->ca == NULL && !settings->insecure &&
        SSL_CTX_set_default_verify_paths(ctx) != 1)
        return nib__openssl_refused(text, "the system's certificates");
    if (settings->ca != NULL) {
        int err = nib__openssl_trust(ctx, settings->ca, NULL, text);

        if (err != 0)
            return err;
    }
    return set_suites(ctx, NIB__TLS_1_2, max != 0 ? max : NIB__TLS_1_3,
                      default_suites, NIB__TLS_SUITES, text);
}

int nib__engine_client(const struct nib__tls_client_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    const struct nib__openssl_text text = {error, cap};
    struct nib__engine *engine = NULL;
    int err = 0;

    if (engine_new(1, &engine) != 0)
        err = nib__openssl_no_memory(&text);
    else
        err = add_client_ctx(engine, settings, &text);
    if (err == 0)
        engine->resume = settings->resume;
    return finish(engine, err, out);
}

void nib__engine_free(struct nib__engine *engine)
{
    if (engine == NULL)
        return;
    SSL_SESSION_free(engine->last);
    for (unsigned i = 0; i < engine->count; i++)
        SSL_CTX_free(engine->ctx[i]);
    nib__free(engine->ctx);
    BIO_meth_free(engine->bio);
    pthread_mutex_destroy(&engine->lock);
    nib__free(engine);
}

static char library[64];

static void name_library(void)
{
    snprintf(library, sizeof library, "OpenSSL %s",
             OpenSSL_version(OPENSSL_FULL_VERSION_STRING));
}

const char *nib__engine_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, name_library);
    return library;
}

bool nib__engine_has_version(unsigned version)
{
    return version == NIB__TLS_1_2 || version == NIB__TLS_1_3;
}
