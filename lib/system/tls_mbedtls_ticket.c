/*
 * tls_mbedtls_ticket - session tickets under nib's own keys.
 *
 * A ticket is the name of its key, a nonce, and sealed by AES-256-GCM: until
 * when it is good, who the client is, and the session as the library writes
 * it. A day after the full handshake, or when the client's certificate
 * expires, no more ticket helps. What the ticket is good for is not in it but authenticated with
 * it: the TLS version, and which client certificates are asked for. A ticket
 * of an engine with other rules therefore is no ticket here.
 *
 * The library does not give out a new ticket when a TLS 1.2 session is
 * resumed, so such a ticket serves its life under the key it came with. With
 * TLS 1.3 each connection brings a new one.
 */
#include "system/tls_mbedtls.h"

#include <mbedtls/gcm.h>
#include <string.h>

#include "system/timer.h"

enum {
    NONCE = 12,
    TAG = 16,
    HEAD = NIB__TICKET_NAME + NONCE,
    UNTIL = 8,          /* bytes of a time */
    RULES = 2 + 1 + 32, /* version, verify, client CA */
    LEAST = HEAD + UNTIL + 1 + TAG,
};

static _Thread_local struct nib__session *current;

void nib__mbedtls_ticket_session(struct nib__session *session)
{
    current = session;
}

/* What a ticket is bound to. */
static void rules_of(const struct nib__engine *e, uint8_t rules[RULES])
{
    unsigned version = nib__mbedtls_version(current);

    rules[0] = (uint8_t)(version >> 8);
    rules[1] = (uint8_t)version;
    rules[2] = (uint8_t)e->verify;
    memcpy(rules + 3, e->ca_digest, sizeof e->ca_digest);
}

/* Encrypts p[0..len) in place; the tag goes behind it. */
static int seal(const struct nib__ticket_key *key, const uint8_t *nonce,
                const uint8_t rules[RULES], uint8_t *p, size_t len)
{
    mbedtls_gcm_context gcm;
    int ret;

    mbedtls_gcm_init(&gcm);
    ret = mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key->secret, 256);
    if (ret == 0)
        ret = mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, len, nonce,
                                        NONCE, rules, RULES, p, p, TAG,
                                        p + len);
    mbedtls_gcm_free(&gcm);
    return ret;
}

/* Decrypts p[0..len), behind which the tag is, in place. */
static int unseal(const struct nib__ticket_key *key, const uint8_t *nonce,
                  const uint8_t rules[RULES], uint8_t *p, size_t len)
{
    mbedtls_gcm_context gcm;
    int ret;

    mbedtls_gcm_init(&gcm);
    ret = mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key->secret, 256);
    if (ret == 0)
        ret = mbedtls_gcm_auth_decrypt(&gcm, len, nonce, NONCE, rules, RULES,
                                       p + len, TAG, p, p);
    mbedtls_gcm_free(&gcm);
    return ret;
}

/* Writes what is sealed to p; returns its length, or a code. */
static int write_content(const mbedtls_ssl_session *session, uint8_t *p,
                         size_t room, size_t *len)
{
    size_t name_len = strlen(current->peer_name), head = UNTIL + 1 + name_len;
    int ret;

    if (room < head)
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    for (unsigned i = 0; i < UNTIL; i++)
        p[i] = (uint8_t)(current->until_s >> (8 * (UNTIL - 1 - i)));
    p[UNTIL] = (uint8_t)name_len;
    memcpy(p + UNTIL + 1, current->peer_name, name_len);
    ret = mbedtls_ssl_session_save(session, p + head, room - head, len);
    *len += head;
    return ret;
}

static int write_ticket(void *arg, const mbedtls_ssl_session *session,
                        unsigned char *start, const unsigned char *end,
                        size_t *len, uint32_t *life_s)
{
    struct nib__engine *e = arg;
    struct nib__ticket_key key;
    uint8_t rules[RULES], *nonce = start + NIB__TICKET_NAME;
    size_t room = (size_t)(end - start);
    uint64_t now_s = nib__clock_wall_s();
    int ret;

    *len = 0;
    if (room < LEAST)
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    if (current->full && current->until_s > now_s + NIB__TICKET_LIFE_S)
        current->until_s = now_s + NIB__TICKET_LIFE_S;
    ret = write_content(session, start + HEAD, room - HEAD - TAG, len);
    if (ret != 0)
        return ret;
    ret = nib__mbedtls_random(&e->rng, nonce, NONCE);
    if (ret != 0)
        return ret;
    rules_of(e, rules);
    nib__ticket_key_current(e->keys, &key);
    memcpy(start, key.name, NIB__TICKET_NAME);
    ret = seal(&key, nonce, rules, start + HEAD, *len);
    explicit_bzero(&key, sizeof key);
    *len += HEAD + TAG;
    *life_s = current->until_s > now_s ? (uint32_t)(current->until_s - now_s)
                                       : 0;
    return ret;
}

/* Takes what write_content() wrote. */
static int read_content(mbedtls_ssl_session *session, const uint8_t *p,
                        size_t len)
{
    uint64_t until_s = 0, now_s = nib__clock_wall_s();
    size_t name_len = p[UNTIL];

    for (unsigned i = 0; i < UNTIL; i++)
        until_s = until_s << 8 | p[i];
    if (until_s <= now_s || until_s - now_s > NIB__TICKET_LIFE_S)
        return MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
    p += UNTIL + 1;
    len -= UNTIL + 1;
    if (len < name_len)
        return MBEDTLS_ERR_SSL_INVALID_MAC;
    current->until_s = until_s;
    memcpy(current->peer_name, p, name_len);
    current->peer_name[name_len] = '\0';
    return mbedtls_ssl_session_load(session, p + name_len, len - name_len);
}

static int read_ticket(void *arg, mbedtls_ssl_session *session,
                       unsigned char *p, size_t len)
{
    struct nib__engine *e = arg;
    struct nib__ticket_key key;
    uint8_t rules[RULES];
    bool newest;
    int ret;

    if (len < LEAST)
        return MBEDTLS_ERR_SSL_INVALID_MAC;
    if (!nib__ticket_key_find(e->keys, p, &key, &newest))
        return MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
    rules_of(e, rules);
    len -= HEAD + TAG;
    ret = unseal(&key, p + NIB__TICKET_NAME, rules, p + HEAD, len);
    explicit_bzero(&key, sizeof key);
    if (ret != 0)
        return MBEDTLS_ERR_SSL_INVALID_MAC;
    ret = read_content(session, p + HEAD, len);
    explicit_bzero(p + HEAD, len);
    return ret;
}

void nib__mbedtls_use_tickets(struct nib__engine *e)
{
    mbedtls_ssl_conf_session_tickets_cb(&e->conf, write_ticket, read_ticket,
                                        e);
}
