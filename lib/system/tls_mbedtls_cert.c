/*
 * tls_mbedtls_cert - the files of certificates, and the names in them.
 */
#include "system/tls_mbedtls.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/md.h>
#include <mbedtls/pk.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"

enum {
    FILE_BYTES = 4 << 20, /* a system's authorities are a quarter MB */
    ERROR_FILE = 200,     /* of a file's name in a text */
};

static const char certificate_mark[] = "-----BEGIN CERTIFICATE-----";
static const char key_mark[] = "PRIVATE KEY-----";

/* Kinds of names in a certificate (RFC 5280, 4.2.1.6). */
enum {
    KIND_MASK = 0x1f,
    KIND_MAIL = 1,
    KIND_DNS = 2,
    KIND_IP = 7,
};

/* ---- files -------------------------------------------------------------- */

static int say(const char *file, const char *what, int err, char *error,
               size_t cap)
{
    snprintf(error, cap, "%.*s: %s", ERROR_FILE, file, what);
    return err;
}

static int fill(int fd, char *p, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = read(fd, p + done, size - done);

        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int)done;
}

/* Reads the whole of an open file, with a NUL behind it. */
static int read_fd(int fd, char **out, size_t *len)
{
    struct stat st;
    char *text;
    int n;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (st.st_size > FILE_BYTES)
        return -EFBIG;
    /* What is no plain file does not know its size. */
    *len = S_ISREG(st.st_mode) ? (size_t)st.st_size : FILE_BYTES;
    text = nib__alloc(*len + 1);
    if (text == NULL)
        return -ENOMEM;
    n = fill(fd, text, *len);
    if (n < 0) {
        nib__free(text);
        return n;
    }
    text[n] = '\0';
    *out = text;
    *len = (size_t)n;
    return 0;
}

/* The text is to be given to drop_text(). */
static int read_file(const char *file, char **text, size_t *len, char *error,
                     size_t cap)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? -errno : read_fd(fd, text, len);

    if (fd >= 0)
        close(fd);
    return err < 0 ? say(file, nib_strerror(err), err, error, cap) : 0;
}

/* It may have been a key. */
static void drop_text(char *text, size_t len)
{
    explicit_bzero(text, len);
    nib__free(text);
}

/* ---- certificates ------------------------------------------------------- */

/* Parses each certificate of a text. `strict`: none may be damaged. */
static int parse_certs(mbedtls_x509_crt *certs, const char *file,
                       const char *text, size_t len, bool strict, char *error,
                       size_t cap)
{
    int ret;

    if (strstr(text, certificate_mark) == NULL)
        return say(file, "no certificate", -EINVAL, error, cap);
    ret = mbedtls_x509_crt_parse(certs, (const unsigned char *)text, len + 1);
    if (ret < 0 || (ret > 0 && strict))
        return say(file, "damaged certificate", -EINVAL, error,
                   cap);
    return 0;
}

static int read_certs(mbedtls_x509_crt *certs, const char *file, bool strict,
                      uint8_t *digest, char *error, size_t cap)
{
    char *text;
    size_t len;
    int err = read_file(file, &text, &len, error, cap);

    if (err < 0)
        return err;
    err = parse_certs(certs, file, text, len, strict, error, cap);
    if (err == 0 && digest != NULL &&
        mbedtls_md(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256),
                   (const unsigned char *)text, len, digest) != 0)
        err = say(file, "no digest", -EINVAL, error, cap);
    drop_text(text, len);
    return err;
}

int nib__mbedtls_ca(mbedtls_x509_crt *ca, const char *file,
                    uint8_t digest[32], char *error, size_t cap)
{
    return read_certs(ca, file, true, digest, error, cap);
}

int nib__mbedtls_system_ca(mbedtls_x509_crt *ca, char *error, size_t cap)
{
    static const char bundle[] = "/etc/ssl/certs/ca-certificates.crt";
    static const char folder[] = "/etc/ssl/certs";
    int err = read_certs(ca, bundle, false, NULL, error, cap);

    if (err != -ENOENT)
        return err;
    if (mbedtls_x509_crt_parse_path(ca, folder) >= 0 && ca->raw.len > 0)
        return 0;
    return say(folder, "no certificate",
               -EINVAL, error, cap);
}

/* ---- keys --------------------------------------------------------------- */

#if defined(NIB__OWN_RNG) && MBEDTLS_VERSION_NUMBER >= 0x03000000
#define RANDOM(e) , nib__mbedtls_random, &(e)->rng
#else
#define RANDOM(e)
#endif

/* What keeps a key from being used, by the library's code. */
static const char *key_fault(int ret, const char *text)
{
    if (ret == MBEDTLS_ERR_PK_PASSWORD_REQUIRED)
        return "needs a password";
    if (ret == MBEDTLS_ERR_PK_PASSWORD_MISMATCH)
        return "wrong password";
    if (strstr(text, "ENCRYPTED") != NULL)
        return "unsupported encryption of the private key";
    return "damaged or unsupported private key";
}

static int read_key(struct nib__engine *e, mbedtls_pk_context *key,
                    const char *file, const char *password, char *error,
                    size_t cap)
{
    char *text;
    size_t len;
    int ret, err = read_file(file, &text, &len, error, cap);

    (void)e; /* not every version has a use for it */
    if (err < 0)
        return err;
    if (strstr(text, key_mark) == NULL) {
        err = say(file, "no private key", -EINVAL, error, cap);
    } else {
        ret = mbedtls_pk_parse_key(
            key, (const unsigned char *)text, len + 1,
            (const unsigned char *)password,
            password == NULL ? 0 : strlen(password) RANDOM(e));
        if (ret != 0)
            err = say(file, key_fault(ret, text), -EINVAL, error, cap);
    }
    drop_text(text, len);
    return err;
}

int nib__mbedtls_cert(struct nib__engine *e, struct nib__own_cert *own,
                      const struct nib__tls_cert *files, char *error,
                      size_t cap)
{
    const char *key_file = files->key != NULL ? files->key : files->chain;
    int err = read_certs(&own->chain, files->chain, true, NULL, error, cap);

    if (err < 0)
        return err;
    if (mbedtls_x509_time_is_past(&own->chain.valid_to))
        return say(files->chain, "certificate has expired", -EINVAL, error,
                   cap);
    if (mbedtls_x509_time_is_future(&own->chain.valid_from))
        return say(files->chain, "certificate is not valid yet", -EINVAL,
                   error, cap);
    err = read_key(e, &own->key, key_file, files->password, error, cap);
    if (err < 0)
        return err;
    if (mbedtls_pk_check_pair(&own->chain.pk, &own->key RANDOM(e)) != 0) {
        snprintf(error, cap, "%.*s: not the key of %.*s", ERROR_FILE,
                 key_file, ERROR_FILE, files->chain);
        return -EINVAL;
    }
    return 0;
}

uint64_t nib__mbedtls_expiry(const mbedtls_x509_crt *crt)
{
    const mbedtls_x509_time *end = &crt->valid_to;
    struct tm tm = {
        .tm_year = end->year - 1900,
        .tm_mon = end->mon - 1,
        .tm_mday = end->day,
        .tm_hour = end->hour,
        .tm_min = end->min,
        .tm_sec = end->sec,
    };
    time_t t = timegm(&tm);

    return t < 0 ? 0 : (uint64_t)t;
}

/* ---- names -------------------------------------------------------------- */

/* "*.example.org" stands for one label, not for none or two. */
static bool matches(const mbedtls_x509_buf *pattern, const char *name,
                    size_t len)
{
    const char *p = (const char *)pattern->p;
    size_t p_len = pattern->len;

    if (p_len > 2 && p[0] == '*' && p[1] == '.') {
        const char *dot = memchr(name, '.', len);

        if (dot == NULL || dot == name)
            return false;
        len -= (size_t)(dot - name);
        name = dot;
        p++;
        p_len--;
    }
    return p_len == len && strncasecmp(p, name, len) == 0;
}

static bool is_kind(const mbedtls_x509_sequence *name, int kind)
{
    return name->buf.p != NULL && (name->buf.tag & KIND_MASK) == kind;
}

bool nib__mbedtls_is_for(const mbedtls_x509_crt *crt, const char *name,
                         size_t len)
{
    const mbedtls_x509_sequence *at;

    for (at = &crt->subject_alt_names; at != NULL; at = at->next)
        if (is_kind(at, KIND_DNS) && matches(&at->buf, name, len))
            return true;
    return false;
}

bool nib__mbedtls_is_for_ip(const mbedtls_x509_crt *crt, const uint8_t *ip,
                            size_t len)
{
    const mbedtls_x509_sequence *at;

    for (at = &crt->subject_alt_names; at != NULL; at = at->next)
        if (is_kind(at, KIND_IP) && at->buf.len == len &&
            memcmp(at->buf.p, ip, len) == 0)
            return true;
    return false;
}

/* Takes a name that a person could read in a log; false if it is none. */
static bool take_name(char name[NIB__NAME_BYTES], const uint8_t *p, size_t len)
{
    if (len == 0 || len >= NIB__NAME_BYTES || !nib__utf8_valid(p, len))
        return false;
    for (size_t i = 0; i < len; i++)
        if (p[i] < ' ' || p[i] == 0x7f)
            return false;
    memcpy(name, p, len);
    name[len] = '\0';
    return true;
}

static bool take_alternative(char name[NIB__NAME_BYTES],
                             const mbedtls_x509_crt *crt)
{
    const mbedtls_x509_sequence *at;

    for (at = &crt->subject_alt_names; at != NULL; at = at->next)
        if ((is_kind(at, KIND_DNS) || is_kind(at, KIND_MAIL)) &&
            take_name(name, at->buf.p, at->buf.len))
            return true;
    return false;
}

void nib__mbedtls_owner(const mbedtls_x509_crt *crt,
                        char name[NIB__NAME_BYTES])
{
    static const uint8_t common_name[] = {0x55, 0x04, 0x03}; /* 2.5.4.3 */
    const mbedtls_x509_name *at;

    for (at = &crt->subject; at != NULL; at = at->next)
        if (at->oid.len == sizeof common_name &&
            memcmp(at->oid.p, common_name, sizeof common_name) == 0 &&
            take_name(name, at->val.p, at->val.len))
            return;
    if (take_alternative(name, crt))
        return;
    if (mbedtls_x509_dn_gets(name, NIB__NAME_BYTES, &crt->subject) < 0)
        name[0] = '\0';
}
