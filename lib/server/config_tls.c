/*
 * config_tls - the settings of TLS.
 *
 * Files are named here and read at the start, so that a reload reads the same
 * ones again.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "server/config.h"
#include "system/tls_suites.h"

/* A copy, or NULL for NULL. False: no memory. */
static bool copy_text(char **to, const char *from)
{
    *to = from == NULL ? NULL : nib__strdup(from);
    return from == NULL || *to != NULL;
}

static void free_text(const char *text)
{
    nib__free((void *)(uintptr_t)text);
}

/* A key's password does not stay in memory that others get. */
static void free_secret(const char *text)
{
    if (text != NULL)
        explicit_bzero((void *)(uintptr_t)text, strlen(text));
    free_text(text);
}

static void cert_free(struct nib__tls_cert *cert)
{
    free_text(cert->chain);
    free_text(cert->key);
    free_secret(cert->password);
}

static int cert_add(struct nib__tls_config *tls, const char *chain,
                    const char *key, const char *password)
{
    struct nib__tls_cert *grown = nib__realloc(
        tls->certs, (tls->cert_count + 1) * sizeof *tls->certs);
    char *texts[3];

    if (grown == NULL)
        return -ENOMEM;
    tls->certs = grown;
    grown += tls->cert_count;
    *grown = (struct nib__tls_cert){0};
    if (!copy_text(&texts[0], chain))
        return -ENOMEM;
    grown->chain = texts[0];
    if (!copy_text(&texts[1], key))
        goto no_memory;
    grown->key = texts[1];
    if (!copy_text(&texts[2], password))
        goto no_memory;
    grown->password = texts[2];
    tls->cert_count++;
    return 0;

no_memory:
    cert_free(grown);
    return -ENOMEM;
}

void nib__tls_config_free(struct nib__tls_config *tls)
{
    for (unsigned i = 0; i < tls->cert_count; i++)
        cert_free(&tls->certs[i]);
    nib__free(tls->certs);
    nib__free(tls->client_ca);
    nib__free(tls->ticket_keys);
}

int nib__tls_config_copy(struct nib__tls_config *to,
                         const struct nib__tls_config *from)
{
    *to = *from;
    to->certs = NULL;
    to->cert_count = 0;
    to->client_ca = to->ticket_keys = NULL;
    if (!copy_text(&to->client_ca, from->client_ca) ||
        !copy_text(&to->ticket_keys, from->ticket_keys))
        return -ENOMEM;
    for (unsigned i = 0; i < from->cert_count; i++) {
        const struct nib__tls_cert *cert = &from->certs[i];
        int err = cert_add(to, cert->chain, cert->key, cert->password);

        if (err < 0)
            return err;
    }
    return 0;
}

int nib_config_certificate(struct nib_config *cfg, const char *chain_file,
                           const char *key_file, const char *password)
{
    if (chain_file == NULL || chain_file[0] == '\0')
        return nib__config_refuse(cfg, -EINVAL,
                                  "certificate: expected the name of a file");
    return cert_add(&cfg->tls, chain_file, key_file, password);
}

int nib_config_set_client_ca(struct nib_config *cfg, const char *file,
                             enum nib_verify verify)
{
    char *copy;

    if ((unsigned)verify > NIB_VERIFY_REQUIRED)
        return nib__config_refuse(cfg, -EINVAL, "verify %d: expected 0 to %d",
                                  verify, NIB_VERIFY_REQUIRED);
    if ((file == NULL) != (verify == NIB_VERIFY_NONE))
        return nib__config_refuse(
            cfg, -EINVAL, file == NULL
                              ? "client_ca: expected a file to verify by"
                              : "client_ca \"%.128s\": expected to verify",
            file);
    if (!copy_text(&copy, file))
        return -ENOMEM;
    nib__free(cfg->tls.client_ca);
    cfg->tls.client_ca = copy;
    cfg->tls.verify = verify;
    return 0;
}

int nib_config_set_tls_version(struct nib_config *cfg, const char *lowest)
{
    unsigned version;

    if (strcmp(lowest, "1.2") == 0)
        version = NIB__TLS_1_2;
    else if (strcmp(lowest, "1.3") == 0)
        version = NIB__TLS_1_3;
    else
        return nib__config_refuse(cfg, -EINVAL,
                                  "tls_version \"%.32s\": expected 1.2 or 1.3",
                                  lowest);
    if (!nib__engine_has_version(version))
        return nib__config_refuse(cfg, -EINVAL,
                                  "tls_version %s: %s does not speak it",
                                  lowest, nib__engine_library());
    cfg->tls.min_version = version;
    return 0;
}

int nib_config_set_tls_ciphers(struct nib_config *cfg, const char *list)
{
    uint16_t suites[NIB__TLS_SUITES];
    const char *wrong;
    size_t wrong_len;
    int count = nib__tls_suites_parse(list, suites, NIB__TLS_SUITES, &wrong,
                                      &wrong_len);

    if (count < 0)
        return nib__config_refuse(
            cfg, -EINVAL,
            "tls_ciphers \"%.*s\": expected a suite with ECDHE and AEAD, "
            "such as ECDHE-ECDSA-CHACHA20-POLY1305, each once",
            (int)(wrong_len < 64 ? wrong_len : 64), wrong);
    memcpy(cfg->tls.suites, suites, (size_t)count * sizeof suites[0]);
    cfg->tls.suite_count = (unsigned)count;
    return 0;
}

int nib_config_set_ticket_keys(struct nib_config *cfg, const char *file)
{
    char *copy;

    if (!copy_text(&copy, file))
        return -ENOMEM;
    nib__free(cfg->tls.ticket_keys);
    cfg->tls.ticket_keys = copy;
    return 0;
}

int nib_config_set_handshake_threads(struct nib_config *cfg, unsigned threads,
                                     unsigned queue)
{
    int err = nib__config_check(cfg, "handshake threads", threads, 0, 256);

    if (err == 0)
        err = nib__config_check(cfg, "handshake queue", queue, 1, 1000000);
    if (err < 0)
        return err;
    cfg->limits.handshake_threads = threads;
    cfg->limits.handshake_queue = queue;
    return 0;
}

int nib_config_set_max_tls(struct nib_config *cfg, unsigned connections,
                           unsigned handshakes)
{
    cfg->limits.max_tls = connections;
    cfg->limits.max_tls_handshakes = handshakes;
    return 0;
}
