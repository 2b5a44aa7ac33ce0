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
 * computes what marks the sessions of these rules: with a ticket from under
 * others, a client could get round these.
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

/*
 * Takes the first certificate for the name, and others for it with another
 * kind of key: which kind it is to be, the client's signature algorithms say.
 */
static bool take_certs(SSL *ssl, const struct nib__engine *engine,
                       const char *name, unsigned flags)
{
    bool taken = false;

    ERR_set_mark();
    for (unsigned i = 0; i < engine->count; i++) {
        SSL_CTX *ctx = engine->ctx[i];
        X509 *cert = SSL_CTX_get0_certificate(ctx);
        STACK_OF(X509) *chain = NULL;

        if (X509_check_host(cert, name, 0, flags, NULL) != 1)
            continue;
        if (!taken) {
            taken = SSL_set_SSL_CTX(ssl, ctx) != NULL;
        } else if (SSL_CTX_get0_chain_certs(ctx, &chain) == 1) {
            /* fails, as it should, if there is one with this kind of key */
            SSL_use_cert_and_key(ssl, cert, SSL_CTX_get0_privatekey(ctx), chain,
                                 0);
        }
    }
    ERR_pop_to_mark();
    return taken;
}

/* An exact name goes before a wildcard. Unknown names get the default. */
static int choose_certs(SSL *ssl, int *alert, void *arg)
{
    const struct nib__engine *engine = arg;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    (void)alert;
    if (name == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    if (engine->count > 1 &&
        !take_certs(ssl, engine, name, X509_CHECK_FLAG_NO_WILDCARDS))
        take_certs(ssl, engine, name, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_TLSEXT_ERR_OK;
}

/* ---- engines ---- */

static int new_engine(unsigned count, struct nib__engine **out,
                      const struct nib__openssl_text *text)
{
    struct nib__engine *engine = nib__alloc_zero(sizeof *engine);

    if (engine == NULL)
        return nib__openssl_no_memory(text);
    pthread_mutex_init(&engine->lock, NULL);
    engine->ctx = nib__alloc_array(count, sizeof *engine->ctx);
    engine->bio = nib__openssl_bio();
    if (engine->ctx == NULL || engine->bio == NULL) {
        nib__engine_free(engine);
        return nib__openssl_no_memory(text);
    }
    *out = engine;
    return 0;
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

/* Adds an SSL_CTX with what all have in common; NULL without memory. */
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

/* ---- servers ---- */

static int take_protocol(SSL_CTX *ctx,
                         const struct nib__tls_server_settings *settings,
                         const struct nib__openssl_text *text)
{
    unsigned min =
        settings->min_version == NIB__TLS_1_3 ? NIB__TLS_1_3 : NIB__TLS_1_2;

    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    if (settings->suite_count > 0)
        return set_suites(ctx, min, NIB__TLS_1_3, settings->suites,
                          settings->suite_count, text);
    /* A client that wants ChaCha20 first has no AES in hardware. */
    SSL_CTX_set_options(ctx, SSL_OP_PRIORITIZE_CHACHA);
    return set_suites(ctx, min, NIB__TLS_1_3, default_suites, NIB__TLS_SUITES,
                      text);
}

static int add_server_ctx(struct nib__engine *engine,
                          const struct nib__tls_server_settings *settings,
                          const struct nib__tls_cert *cert,
                          const struct nib__openssl_text *text)
{
    SSL_CTX *ctx = add_ctx(engine, TLS_server_method());
    int err;

    if (ctx == NULL)
        return nib__openssl_no_memory(text);
    SSL_CTX_set_tlsext_servername_callback(ctx, choose_certs);
    SSL_CTX_set_tlsext_servername_arg(ctx, engine);
    nib__openssl_tickets(engine, ctx);
    err = take_protocol(ctx, settings, text);
    if (err == 0)
        err = nib__openssl_cert(ctx, cert, text);
    if (err == 0 && ctx == engine->ctx[0])
        err = trust_clients(engine, settings, text);
    if (err == 0 && set_verify(engine, ctx, settings->verify) != 0)
        err = nib__openssl_no_memory(text);
    return err;
}

int nib__engine_server(const struct nib__tls_server_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    const struct nib__openssl_text text = {error, cap};
    struct nib__engine *engine;
    int err;

    if (settings->cert_count == 0)
        return nib__openssl_complain(&text, -EINVAL, "TLS", "no certificate");
    if (settings->verify != NIB__VERIFY_NONE && settings->client_ca == NULL)
        return nib__openssl_complain(&text, -EINVAL, "TLS", "no client CA");
    err = new_engine(settings->cert_count, &engine, &text);
    if (err != 0)
        return err;
    engine->server = true;
    engine->keys = settings->keys;
    engine->verifies = settings->verify != NIB__VERIFY_NONE;
    for (unsigned i = 0; err == 0 && i < settings->cert_count; i++)
        err = add_server_ctx(engine, settings, &settings->certs[i], &text);
    return finish(engine, err, out);
}

/* ---- clients ---- */

static int trust_servers(SSL_CTX *ctx, const char *ca,
                         const struct nib__openssl_text *text)
{
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (ca != NULL)
        return nib__openssl_trust(ctx, ca, NULL, text);
    if (SSL_CTX_set_default_verify_paths(ctx) != 1)
        return nib__openssl_refused(text, "the system's certificates");
    return 0;
}

static int add_client_ctx(struct nib__engine *engine,
                          const struct nib__tls_client_settings *settings,
                          const struct nib__openssl_text *text)
{
    unsigned max =
        settings->max_version == NIB__TLS_1_2 ? NIB__TLS_1_2 : NIB__TLS_1_3;
    SSL_CTX *ctx = add_ctx(engine, TLS_client_method());
    int err;

    if (ctx == NULL ||
        SSL_CTX_set_alpn_protos(ctx, protocols, sizeof protocols - 1) != 0)
        return nib__openssl_no_memory(text);
    err = set_suites(ctx, NIB__TLS_1_2, max, default_suites, NIB__TLS_SUITES,
                     text);
    if (err == 0 && engine->verifies)
        err = trust_servers(ctx, settings->ca, text);
    if (err == 0 && settings->cert != NULL)
        err = nib__openssl_cert(ctx, settings->cert, text);
    if (engine->resume)
        nib__openssl_resume(ctx);
    return err;
}

int nib__engine_client(const struct nib__tls_client_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    const struct nib__openssl_text text = {error, cap};
    struct nib__engine *engine;
    int err = new_engine(1, &engine, &text);

    if (err != 0)
        return err;
    engine->verifies = !settings->insecure;
    engine->resume = settings->resume;
    return finish(engine, add_client_ctx(engine, settings, &text), out);
}

/* ---- the library ---- */

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
