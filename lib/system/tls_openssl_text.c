/*
 * tls_openssl_text - what went wrong, in plain words.
 *
 * For whoever reads a server's log. What is not in the tables is called as
 * OpenSSL calls it.
 */
#include "system/tls_openssl.h"

#include <errno.h>
#include <stdio.h>

#include <openssl/err.h>
#include <openssl/x509.h>

#include "base/error.h"

struct meaning {
    int code;
    const char *words;
};

static const struct meaning reasons[] = {
    {SSL_R_HTTP_REQUEST, "not TLS"},
    {SSL_R_HTTPS_PROXY_REQUEST, "not TLS"},
    {SSL_R_WRONG_VERSION_NUMBER, "not TLS"},
    {SSL_R_UNSUPPORTED_PROTOCOL, "no TLS version in common"},
    {SSL_R_NO_SHARED_CIPHER, "no cipher suite in common"},
    {SSL_R_NO_APPLICATION_PROTOCOL, "no application protocol in common"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "no client certificate"},
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, "a record is damaged"},
    {SSL_R_UNEXPECTED_MESSAGE, "a message out of turn"},
    {SSL_R_UNEXPECTED_RECORD, "a message out of turn"},
};

/* A peer's alert is a reason as well (RFC 8446, 6.2). */
#define ALERT(x) (SSL_AD_REASON_OFFSET + SSL_AD_##x)
static const struct meaning alerts[] = {
    {ALERT(UNEXPECTED_MESSAGE), "unexpected message"},
    {ALERT(BAD_RECORD_MAC), "damaged record"},
    {ALERT(HANDSHAKE_FAILURE), "handshake failure"},
    {ALERT(BAD_CERTIFICATE), "bad certificate"},
    {ALERT(UNSUPPORTED_CERTIFICATE), "unsupported certificate"},
    {ALERT(CERTIFICATE_REVOKED), "certificate revoked"},
    {ALERT(CERTIFICATE_EXPIRED), "certificate expired"},
    {ALERT(CERTIFICATE_UNKNOWN), "certificate not accepted"},
    {ALERT(ILLEGAL_PARAMETER), "wrong value"},
    {ALERT(UNKNOWN_CA), "unknown certificate authority"},
    {ALERT(ACCESS_DENIED), "access denied"},
    {ALERT(DECODE_ERROR), "malformed message"},
    {ALERT(DECRYPT_ERROR), "wrong signature"},
    {ALERT(PROTOCOL_VERSION), "TLS version"},
    {ALERT(INSUFFICIENT_SECURITY), "insufficient security"},
    {ALERT(INTERNAL_ERROR), "internal error"},
    {ALERT(USER_CANCELLED), "canceled"},
    {ALERT(UNRECOGNIZED_NAME), "unknown name"},
    {ALERT(CERTIFICATE_REQUIRED), "certificate required"},
    {ALERT(NO_APPLICATION_PROTOCOL), "no application protocol"},
};

/* What is wrong with a certificate. */
static const struct meaning flaws[] = {
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "is of an unknown authority"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
     "is of an unknown authority"},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, "is of an unknown authority"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "is of an unknown authority"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "is of an unknown authority"},
    {X509_V_ERR_CERT_SIGNATURE_FAILURE, "is of an unknown authority"},
    {X509_V_ERR_CERT_HAS_EXPIRED, "has expired"},
    {X509_V_ERR_CERT_NOT_YET_VALID, "is not valid yet"},
    {X509_V_ERR_HOSTNAME_MISMATCH, "is for another name"},
    {X509_V_ERR_IP_ADDRESS_MISMATCH, "is for another name"},
    {X509_V_ERR_INVALID_PURPOSE, "is for another use"},
    {X509_V_ERR_EE_KEY_TOO_SMALL, "is too weak"},
    {X509_V_ERR_CA_KEY_TOO_SMALL, "is too weak"},
    {X509_V_ERR_CA_MD_TOO_WEAK, "is too weak"},
};

static const char *find(const struct meaning *table, size_t bytes, int code)
{
    for (size_t i = 0; i < bytes / sizeof table[0]; i++)
        if (table[i].code == code)
            return table[i].words;
    return NULL;
}

/* ---- of engines ---- */

int nib__openssl_complain(const struct nib__openssl_text *text, int err,
                          const char *what, const char *fault)
{
    snprintf(text->p, text->cap, "%.*s: %s", NIB__OPENSSL_FILE, what, fault);
    return err;
}

int nib__openssl_refused(const struct nib__openssl_text *text, const char *what)
{
    const char *words = ERR_reason_error_string(ERR_peek_last_error());

    return nib__openssl_complain(text, -EINVAL, what,
                                 words != NULL ? words : "unknown error");
}

int nib__openssl_no_memory(const struct nib__openssl_text *text)
{
    snprintf(text->p, text->cap, "%s", nib_strerror(-ENOMEM));
    return -ENOMEM;
}

/* ---- of sessions ---- */

static void explain_certificate(struct nib__session *session)
{
    long result = SSL_get_verify_result(session->ssl);
    const char *flaw = find(flaws, sizeof flaws, (int)result);

    snprintf(session->error, sizeof session->error, "the %s's certificate %s%s",
             SSL_is_server(session->ssl) ? "client" : "server",
             flaw != NULL ? flaw : "is bad: ",
             flaw != NULL ? "" : X509_verify_cert_error_string(result));
}

void nib__openssl_explain(struct nib__session *session)
{
    /* The last is the nearest to us; what it came from is before it. */
    unsigned long code = ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);
    const char *alert = NULL, *words = NULL;

    if (ERR_GET_LIB(code) == ERR_LIB_SSL) {
        alert = find(alerts, sizeof alerts, reason);
        words = find(reasons, sizeof reasons, reason);
    }
    if (words == NULL)
        words = ERR_reason_error_string(code);
    if (code == 0)
        words = "no room for output";
    if (alert != NULL)
        snprintf(session->error, sizeof session->error, "the peer's alert: %s",
                 alert);
    else if (ERR_GET_LIB(code) == ERR_LIB_SSL &&
             reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        explain_certificate(session);
    else
        snprintf(session->error, sizeof session->error, "%s",
                 words != NULL ? words : "unknown error");
}
