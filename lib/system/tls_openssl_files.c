/*
 * tls_openssl_files - certificates and keys from PEM files, and what is wrong
 * with them.
 */
#include "system/tls_openssl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/error.h"

enum { FILE_BYTES = 4 << 20 }; /* at the most */

/* ---- files ---- */

static int fill(BIO *bio, int fd)
{
    char part[4096];
    ssize_t n;
    long total = 0;
    int err = 0;

    while (err == 0 && (n = read(fd, part, sizeof part)) != 0) {
        if (n < 0)
            err = -errno;
        else if ((total += n) > FILE_BYTES)
            err = -EFBIG;
        else if (BIO_write(bio, part, (int)n) != n)
            err = -ENOMEM;
    }
    OPENSSL_cleanse(part, sizeof part); /* of a key */
    return err;
}

/* Reads a file; *bio is the caller's. */
static int read_file(const char *file, BIO **bio,
                     const struct nib__openssl_text *text)
{
    int err = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    *bio = NULL;
    if (fd < 0)
        err = -errno;
    else if ((*bio = BIO_new(BIO_s_mem())) == NULL)
        err = -ENOMEM;
    else
        err = fill(*bio, fd);
    if (fd >= 0)
        close(fd);
    if (err == 0)
        return 0;
    BIO_free(*bio);
    return nib__openssl_complain(text, err, file, nib_strerror(err));
}

struct password {
    const char *word; /* or NULL */
    bool asked;
};

/* Without a callback OpenSSL would ask the terminal. */
static int give_password(char *p, int cap, int writing, void *arg)
{
    struct password *password = arg;
    size_t len;

    (void)writing;
    if (password == NULL)
        return -1;
    password->asked = true;
    if (password->word == NULL)
        return -1;
    len = strlen(password->word);
    if (len > (size_t)cap)
        return -1;
    memcpy(p, password->word, len);
    return (int)len;
}

/* Did the last read of a PEM file just find nothing more? */
static bool at_end(void)
{
    unsigned long code = ERR_peek_last_error();

    return ERR_GET_LIB(code) == ERR_LIB_PEM &&
           ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

/*
 * Hands each certificate of a file to `use`, which returns 0 or an error with
 * a text. None at all is an error.
 */
static int each_cert(const char *file, const struct nib__openssl_text *text,
                     int (*use)(void *arg, X509 *cert, unsigned number,
                                const struct nib__openssl_text *text),
                     void *arg)
{
    unsigned count = 0;
    X509 *cert;
    BIO *bio;
    int err = read_file(file, &bio, text);

    if (err != 0)
        return err;
    ERR_clear_error();
    while (err == 0 &&
           (cert = PEM_read_bio_X509(bio, NULL, give_password, NULL)) != NULL) {
        /* Decodes the extensions now, not on whichever threads come first. */
        X509_check_purpose(cert, -1, 0);
        err = use(arg, cert, count++, text);
        X509_free(cert);
    }
    if (err == 0 && !at_end())
        err = nib__openssl_complain(text, -EINVAL, file, "damaged certificate");
    else if (err == 0 && count == 0)
        err = nib__openssl_complain(text, -EINVAL, file, "no certificate");
    BIO_free(bio);
    return err;
}

/* ---- certificates and keys ---- */

struct chain {
    SSL_CTX *ctx;
    const char *file;
};

static int use_cert(void *arg, X509 *cert, unsigned number,
                    const struct nib__openssl_text *text)
{
    struct chain *chain = arg;

    if (number > 0)
        return SSL_CTX_add1_chain_cert(chain->ctx, cert) == 1
                   ? 0
                   : nib__openssl_refused(text, chain->file);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return nib__openssl_complain(text, -EINVAL, chain->file,
                                     "certificate has expired");
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        return nib__openssl_complain(text, -EINVAL, chain->file,
                                     "certificate is not valid yet");
    if (SSL_CTX_use_certificate(chain->ctx, cert) != 1)
        return nib__openssl_refused(text, chain->file);
    return 0;
}

static int check_key(SSL_CTX *ctx, EVP_PKEY *key, const char *file,
                     const char *chain, const struct nib__openssl_text *text)
{
    if (X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) != 1) {
        snprintf(text->p, text->cap, "%.*s: not the key of %.*s",
                 NIB__OPENSSL_FILE, file, NIB__OPENSSL_FILE, chain);
        return -EINVAL;
    }
    if (SSL_CTX_use_PrivateKey(ctx, key) != 1)
        return nib__openssl_refused(text, file);
    return 0;
}

static bool has_key(BIO *bio)
{
    static const char mark[] = "PRIVATE KEY-----";
    char *p;
    long len = BIO_get_mem_data(bio, &p);

    return len > 0 && memmem(p, (size_t)len, mark, sizeof mark - 1) != NULL;
}

/* What keeps a key from being read. */
static const char *key_fault(const struct password *password)
{
    if (!password->asked)
        return "damaged or unsupported private key";
    if (password->word == NULL)
        return "needs a password";
    return "wrong password";
}

static int use_key(SSL_CTX *ctx, const struct nib__tls_cert *cert,
                   const struct nib__openssl_text *text)
{
    const char *file = cert->key != NULL ? cert->key : cert->chain;
    struct password password = {cert->password, false};
    EVP_PKEY *key = NULL;
    BIO *bio;
    int err = read_file(file, &bio, text);

    if (err != 0)
        return err;
    if (!has_key(bio))
        err = nib__openssl_complain(text, -EINVAL, file, "no private key");
    else if ((key = PEM_read_bio_PrivateKey(bio, NULL, give_password,
                                            &password)) == NULL)
        err = nib__openssl_complain(text, -EINVAL, file, key_fault(&password));
    else
        err = check_key(ctx, key, file, cert->chain, text);
    BIO_free(bio);
    EVP_PKEY_free(key);
    return err;
}

int nib__openssl_cert(SSL_CTX *ctx, const struct nib__tls_cert *cert,
                      const struct nib__openssl_text *text)
{
    struct chain chain = {ctx, cert->chain};
    int err = each_cert(cert->chain, text, use_cert, &chain);

    return err != 0 ? err : use_key(ctx, cert, text);
}

/* ---- whom to trust ---- */

struct trust {
    SSL_CTX *ctx;
    EVP_MD_CTX *hash; /* of a server: of all its certificates */
    const char *file;
};

static int trust_cert(void *arg, X509 *cert, unsigned number,
                      const struct nib__openssl_text *text)
{
    struct trust *trust = arg;
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len;

    (void)number;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(trust->ctx), cert) != 1)
        return nib__openssl_refused(text, trust->file);
    if (trust->hash == NULL)
        return 0;
    if (X509_digest(cert, EVP_sha256(), digest, &len) != 1 ||
        EVP_DigestUpdate(trust->hash, digest, len) != 1 ||
        SSL_CTX_add_client_CA(trust->ctx, cert) != 1)
        return nib__openssl_refused(text, trust->file);
    return 0;
}

int nib__openssl_trust(SSL_CTX *ctx, const char *file, EVP_MD_CTX *hash,
                       const struct nib__openssl_text *text)
{
    struct trust trust = {ctx, hash, file};

    X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx),
                         X509_V_FLAG_PARTIAL_CHAIN);
    return each_cert(file, text, trust_cert, &trust);
}
