/*
 * tls_openssl_tickets - session tickets of a server, a client's last session.
 */
#include "system/tls_openssl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openssl/core_names.h>
#include <openssl/rand.h>

#include "system/timer.h"

/* ---- a server's tickets ---- */

static bool start_ticket(const struct nib__ticket_key *key,
                         const unsigned char *iv, EVP_CIPHER_CTX *cipher,
                         EVP_MAC_CTX *mac, int encrypt)
{
    char digest[] = "SHA256";
    uint8_t secret[sizeof key->mac];
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, secret,
                                          sizeof secret),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    bool ok;

    memcpy(secret, key->mac, sizeof secret);
    ok = EVP_CipherInit_ex2(cipher, EVP_aes_256_cbc(), key->secret, iv, encrypt,
                            NULL) == 1 &&
         EVP_MAC_CTX_set_params(mac, params) == 1;
    OPENSSL_cleanse(secret, sizeof secret);
    return ok;
}

/* 0: unknown key; 1: good; 2: good, but renew it; negative: failed. */
static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv,
                      EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypt)
{
    struct nib__session *session = SSL_get_app_data(ssl);
    struct nib__ticket_keys *keys = session->engine->keys;
    struct nib__ticket_key key;
    bool current = true;
    int result = 0;

    if (encrypt) {
        nib__ticket_key_current(keys, &key);
        memcpy(name, key.name, sizeof key.name);
        if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1)
            result = -1;
    } else if (!nib__ticket_key_find(keys, name, &key, &current)) {
        return 0;
    }
    if (result == 0)
        result = current ? 1 : 2;
    if (result > 0 && !start_ticket(&key, iv, cipher, mac, encrypt))
        result = -1;
    OPENSSL_cleanse(&key, sizeof key);
    return result;
}

/*
 * Notes in a new session until when its tickets are good. Those that come
 * when it is resumed say the same, and none helps after a day.
 */
static int make_ticket(SSL *ssl, void *arg)
{
    uint64_t until_s = nib__clock_wall_s() + NIB__TICKET_LIFE_S;

    (void)arg;
    if (SSL_session_reused(ssl))
        return 1;
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), &until_s,
                                           sizeof until_s);
}

/* Nothing else looks at the client's certificate again. */
static bool is_good(SSL_SESSION *state)
{
    uint64_t now_s = nib__clock_wall_s(), until_s;
    time_t now = (time_t)now_s;
    X509 *peer = SSL_SESSION_get0_peer(state);
    void *noted;
    size_t len;

    if (SSL_SESSION_get0_ticket_appdata(state, &noted, &len) != 1 ||
        len != sizeof until_s)
        return false;
    memcpy(&until_s, noted, sizeof until_s);
    if (until_s <= now_s || until_s - now_s > NIB__TICKET_LIFE_S)
        return false;
    return peer == NULL || X509_cmp_time(X509_get0_notAfter(peer), &now) > 0;
}

/* A client of TLS 1.3 uses a ticket once (RFC 8446, C.4), so each gets
   another. */
static SSL_TICKET_RETURN take_ticket(SSL *ssl, SSL_SESSION *state,
                                     const unsigned char *name, size_t len,
                                     SSL_TICKET_STATUS status, void *arg)
{
    (void)name, (void)len, (void)arg;
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    if (!is_good(state))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    if (status == SSL_TICKET_SUCCESS_RENEW ||
        SSL_version(ssl) >= TLS1_3_VERSION)
        return SSL_TICKET_RETURN_USE_RENEW;
    return SSL_TICKET_RETURN_USE;
}

void nib__openssl_tickets(struct nib__engine *engine, SSL_CTX *ctx)
{
    if (engine->keys == NULL) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx, 0);
        return;
    }
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, ticket_key);
    SSL_CTX_set_session_ticket_cb(ctx, make_ticket, take_ticket, NULL);
}

/* ---- a client's last session ---- */

/* The engine's copy is its own: nobody touches it but under the lock. */
void nib__openssl_keep(struct nib__session *session, SSL_SESSION *state)
{
    struct nib__engine *engine = session->engine;
    SSL_SESSION *copy, *before;

    if (session->server_name == NULL)
        return;
    copy = SSL_SESSION_dup(state);
    pthread_mutex_lock(&engine->lock);
    before = engine->last;
    engine->last = copy;
    snprintf(engine->last_name, sizeof engine->last_name, "%s",
             session->server_name);
    pthread_mutex_unlock(&engine->lock);
    SSL_SESSION_free(before);
}

/* A resumed session's certificate is not compared with the name again. */
void nib__openssl_offer(struct nib__session *session)
{
    struct nib__engine *engine = session->engine;
    SSL_SESSION *copy = NULL;

    pthread_mutex_lock(&engine->lock);
    if (engine->last != NULL &&
        strcmp(engine->last_name, session->server_name) == 0)
        copy = SSL_SESSION_dup(engine->last);
    pthread_mutex_unlock(&engine->lock);
    if (copy != NULL)
        SSL_set_session(session->ssl, copy);
    SSL_SESSION_free(copy);
}

static int new_session(SSL *ssl, SSL_SESSION *state)
{
    nib__openssl_keep(SSL_get_app_data(ssl), state);
    return 0; /* the reference stays OpenSSL's */
}

void nib__openssl_resume(SSL_CTX *ctx)
{
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
                                            SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, new_session);
}
