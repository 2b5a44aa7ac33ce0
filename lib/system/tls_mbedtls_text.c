/*
 * tls_mbedtls_text - what the library's codes mean, in plain words.
 *
 * For whoever reads a server's log. What is not in the tables is called as
 * the library calls it.
 */
#include "system/tls_mbedtls.h"

#include <mbedtls/error.h>
#include <stdio.h>
#include <string.h>

#include "system/timer.h"

struct meaning {
    int code;
    const char *text;
};

/* Names of codes differ between versions, and some mean one thing here, but
   another there. */
static const struct meaning codes[] = {
    {MBEDTLS_ERR_SSL_INVALID_MAC, "a record is damaged"},
    {MBEDTLS_ERR_SSL_INVALID_RECORD, "a record is malformed"},
    {MBEDTLS_ERR_SSL_UNEXPECTED_MESSAGE, "a message out of turn"},
    {MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE, "no client certificate"},
    {MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL, "no room for output"},
    {MBEDTLS_ERR_SSL_ALLOC_FAILED, "out of memory"},
#ifdef MBEDTLS_ERR_SSL_NO_CIPHER_CHOSEN
    {MBEDTLS_ERR_SSL_NO_CIPHER_CHOSEN, "no cipher suite in common"},
    {MBEDTLS_ERR_SSL_NO_USABLE_CIPHERSUITE,
     "no cipher suite in common for the certificate"},
    {MBEDTLS_ERR_SSL_BAD_HS_PROTOCOL_VERSION, "no TLS version in common"},
    {MBEDTLS_ERR_SSL_BAD_HS_CLIENT_HELLO,
     "a malformed ClientHello or no application protocol in common"},
#endif
#ifdef MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE
    {MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE, "no cipher suite in common"},
    {MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION, "no TLS version in common"},
    {MBEDTLS_ERR_SSL_NO_APPLICATION_PROTOCOL, "no application protocol in common"},
    {MBEDTLS_ERR_SSL_DECODE_ERROR, "a malformed message"},
    {MBEDTLS_ERR_SSL_ILLEGAL_PARAMETER, "a message with a wrong value"},
    {MBEDTLS_ERR_SSL_BAD_CERTIFICATE, "a malformed certificate"},
#endif
};

/* What a peer's alert says (RFC 8446, 6.2). */
static const struct meaning alerts[] = {
    {MBEDTLS_SSL_ALERT_MSG_UNEXPECTED_MESSAGE, "unexpected message"},
    {MBEDTLS_SSL_ALERT_MSG_BAD_RECORD_MAC, "damaged record"},
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE, "handshake failure"},
    {MBEDTLS_SSL_ALERT_MSG_BAD_CERT, "bad certificate"},
    {MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT, "unsupported certificate"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED, "certificate revoked"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED, "certificate expired"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, "certificate not accepted"},
    {MBEDTLS_SSL_ALERT_MSG_ILLEGAL_PARAMETER, "wrong value"},
    {MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA, "unknown certificate authority"},
    {MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED, "access denied"},
    {MBEDTLS_SSL_ALERT_MSG_DECODE_ERROR, "malformed message"},
    {MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR, "wrong signature"},
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, "TLS version"},
    {MBEDTLS_SSL_ALERT_MSG_INSUFFICIENT_SECURITY, "insufficient security"},
    {MBEDTLS_SSL_ALERT_MSG_INTERNAL_ERROR, "internal error"},
    {MBEDTLS_SSL_ALERT_MSG_USER_CANCELED, "canceled"},
    {MBEDTLS_SSL_ALERT_MSG_UNRECOGNIZED_NAME, "unknown name"},
    {116, "certificate required"},
    {MBEDTLS_SSL_ALERT_MSG_NO_APPLICATION_PROTOCOL, "no application protocol"},
};

/* What is wrong with a certificate, the weightiest first. */
static const struct {
    uint32_t flag;
    unsigned char alert;
    const char *text;
} flaws[] = {
    {MBEDTLS_X509_BADCERT_NOT_TRUSTED, MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA,
     "is of an unknown authority"},
    {MBEDTLS_X509_BADCERT_EXPIRED, MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED,
     "has expired"},
    {MBEDTLS_X509_BADCERT_FUTURE, MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED,
     "is not valid yet"},
    {MBEDTLS_X509_BADCERT_CN_MISMATCH, MBEDTLS_SSL_ALERT_MSG_BAD_CERT,
     "is for another name"},
    {MBEDTLS_X509_BADCERT_KEY_USAGE | MBEDTLS_X509_BADCERT_EXT_KEY_USAGE,
     MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT, "is for another use"},
    {MBEDTLS_X509_BADCERT_BAD_MD | MBEDTLS_X509_BADCERT_BAD_PK |
         MBEDTLS_X509_BADCERT_BAD_KEY,
     MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT, "is too weak"},
    {UINT32_MAX, MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, "is bad"},
};

static unsigned find_flaw(uint32_t flags)
{
    unsigned i = 0;

    while ((flaws[i].flag & flags) == 0 && flaws[i].flag != UINT32_MAX)
        i++;
    return i;
}

unsigned char nib__mbedtls_alert(uint32_t flags)
{
    return flaws[find_flaw(flags)].alert;
}

static const char *find(const struct meaning *table, size_t count, int code)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].code == code)
            return table[i].text;
    return NULL;
}

void nib__mbedtls_text(int code, char *text, size_t cap)
{
    const char *known = find(codes, sizeof codes / sizeof codes[0], code);

    if (known != NULL)
        snprintf(text, cap, "%s", known);
    else
        mbedtls_strerror(code, text, cap);
}

static void explain_alert(struct nib__session *s)
{
    /* There is no other way to it. */
    int alert = s->ssl.MBEDTLS_PRIVATE(in_msg)[1];
    const char *text = find(alerts, sizeof alerts / sizeof alerts[0], alert);

    if (text != NULL)
        snprintf(s->error, sizeof s->error, "the peer's alert: %s", text);
    else
        snprintf(s->error, sizeof s->error, "the peer's alert %d", alert);
}

void nib__mbedtls_explain(struct nib__session *s, int code)
{
    uint32_t flags = mbedtls_ssl_get_verify_result(&s->ssl);

    if (s->not_tls)
        snprintf(s->error, sizeof s->error, "not TLS");
    else if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
        explain_alert(s);
    else if (code == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED)
        snprintf(s->error, sizeof s->error, "the %s's certificate %s",
                 s->engine->server ? "client" : "server",
                 flaws[find_flaw(flags)].text);
    else
        nib__mbedtls_text(code, s->error, sizeof s->error);
}
