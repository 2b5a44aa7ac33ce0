/*
 * tls_options - the options by which a server is told to speak TLS.
 */
#include "tls_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    PASSWORD_BYTES = 1024,
    HANDSHAKE_QUEUE = 1024, /* the library's own default */
};

/* The words of the options, in the order of the enums. */
static const enum nib_tls_mode modes[] = {NIB_TLS_ON, NIB_TLS_AUTO,
                                          NIB_TLS_OFF};
static const enum nib_verify verifies[] = {NIB_VERIFY_NONE, NIB_VERIFY_OPTIONAL,
                                           NIB_VERIFY_REQUIRED};
static const char *const versions[] = {"1.2", "1.3"};

struct option_table tls_options_init(struct tls_options *o)
{
    const struct option_spec specs[TLS_OPTIONS] = {
        {"cert", 0, OPTION_LIST, &o->chains, 0, 0, "FILE",
         "speak TLS, with the certificate and chain of this PEM\n"
         "file; may be repeated: clients name the one they want"},
        {"key", 0, OPTION_LIST, &o->keys, 0, 0, "FILE",
         "the private key of the --cert before it (the same file)"},
        {"key-password", 0, OPTION_LIST, &o->passwords, 0, 0, "TEXT",
         "the password of that key; @FILE: the file's first line"},
        {"client-ca", 0, OPTION_TEXT, &o->client_ca, 0, 0, "FILE",
         "clients show a certificate that one of these signed"},
        {"verify-client", 0, OPTION_CHOICE, &o->verify_word, 0, 0,
         "none|optional|required",
         "whether they have to (required, with --client-ca)"},
        {"tls", 0, OPTION_CHOICE, &o->mode_word, 0, 0, "on|auto|off",
         "auto: with and without TLS on the same port (on, with\n--cert)"},
        {"tls-version", 0, OPTION_CHOICE, &o->version_word, 0, 0, "1.2|1.3",
         "the lowest version of TLS (1.2)"},
        {"tls-ciphers", 0, OPTION_TEXT, &o->ciphers, 0, 0, "LIST",
         "cipher suites, the best first, with : between them"},
        {"ticket-keys", 0, OPTION_TEXT, &o->ticket_keys, 0, 0, "FILE",
         "1 to 3 keys of 80 random bytes, so that sessions are\n"
         "resumed after a restart, or by other servers"},
        {"handshake-threads", 0, OPTION_COUNT, &o->handshake_threads, 1, 256,
         "N", "threads for TLS handshakes (one for two CPUs)"},
    };

    memset(o, 0, sizeof(*o));
    o->mode_word = o->verify_word = o->version_word = -1;
    memcpy(o->specs, specs, sizeof(specs));
    return (struct option_table)OPTION_TABLE(o->specs);
}

/* ---- what was given ---------------------------------------------------- */

/* The certificate that an option at this place belongs to. */
static struct tls_cert *cert_before(struct tls_options *o, unsigned place)
{
    struct tls_cert *cert = NULL;

    for (size_t i = 0; i < o->chains.count && o->chains.places[i] < place; i++)
        cert = &o->certs[i];
    return cert;
}

static void settle_certs(const struct command *command, struct tls_options *o)
{
    struct tls_cert *cert;

    for (size_t i = 0; i < o->chains.count; i++)
        o->certs[o->cert_count++].chain = o->chains.items[i];
    for (size_t i = 0; i < o->keys.count; i++) {
        cert = cert_before(o, o->keys.places[i]);
        if (cert == NULL || cert->key != NULL)
            options_fail(command, "--key: '%s': expected one after a --cert",
                         o->keys.items[i]);
        cert->key = o->keys.items[i];
    }
    for (size_t i = 0; i < o->passwords.count; i++) {
        cert = cert_before(o, o->passwords.places[i]);
        if (cert == NULL || cert->password != NULL)
            options_fail(command,
                         "--key-password: expected one after a --cert");
        cert->password = o->passwords.items[i];
    }
}

/* What says something about TLS says nothing without a certificate. */
static void need_cert(const struct command *command,
                      const struct tls_options *o)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {
        {"client-ca", o->client_ca != NULL},
        {"verify-client", o->verify_word > 0},
        {"tls", o->mode_word == 0 || o->mode_word == 1},
        {"tls-version", o->version_word >= 0},
        {"tls-ciphers", o->ciphers != NULL},
        {"ticket-keys", o->ticket_keys != NULL},
        {"handshake-threads", o->handshake_threads > 0},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].given)
            options_fail(command, "--%s: expected a --cert with it",
                         options[i].name);
    }
}

static void settle_verify(const struct command *command, struct tls_options *o)
{
    if (o->verify_word >= 0)
        o->verify = verifies[o->verify_word];
    else
        o->verify = o->client_ca ? NIB_VERIFY_REQUIRED : NIB_VERIFY_NONE;
    if (o->verify != NIB_VERIFY_NONE && !o->client_ca)
        options_fail(command, "--verify-client: expected a --client-ca");
    /* Who comes without TLS has shown nothing. */
    if (o->verify == NIB_VERIFY_REQUIRED && o->mode == NIB_TLS_AUTO)
        options_fail(command, "--tls auto: expected on, as clients are "
                              "required to show a certificate");
}

/* The library knows versions and suites; asks it on a sheet of its own. */
static void try_names(const struct command *command,
                      const struct tls_options *o)
{
    struct nib_config *sheet;
    int result = nib_config_new(&sheet);

    if (result < 0)
        options_fail(command, "%s", nib_strerror(result));
    if (o->version_word >= 0 &&
        nib_config_set_tls_version(sheet, versions[o->version_word]) < 0)
        options_fail(command, "--tls-version: %s", nib_config_error(sheet));
    if (o->ciphers && nib_config_set_tls_ciphers(sheet, o->ciphers) < 0)
        options_fail(command, "--tls-ciphers: %s", nib_config_error(sheet));
    nib_config_free(sheet);
}

void tls_options_settle(const struct command *command, struct tls_options *o)
{
    settle_certs(command, o);
    o->mode = o->cert_count > 0 ? NIB_TLS_ON : NIB_TLS_OFF;
    if (o->mode == NIB_TLS_OFF)
        need_cert(command, o);
    else if (o->mode_word >= 0)
        o->mode = modes[o->mode_word];
    settle_verify(command, o);
    try_names(command, o);
}

/* ---- the configuration ------------------------------------------------- */

/* The first line of a file, without its end. */
static int read_line(const char *file, char line[PASSWORD_BYTES], char *error,
                     size_t cap)
{
    FILE *f = fopen(file, "re");
    int result = 0;

    line[0] = '\0';
    /* Nothing of it is left in a buffer of stdio's. */
    if (f && setvbuf(f, NULL, _IONBF, 0) == 0 &&
        !fgets(line, PASSWORD_BYTES, f) && !ferror(f))
        result = -ENODATA;
    else if (!f || ferror(f))
        result = -errno;
    else if (strlen(line) == PASSWORD_BYTES - 1)
        result = -E2BIG;
    line[strcspn(line, "\r\n")] = '\0';
    if (result == 0 && line[0] == '\0')
        result = -ENODATA;
    if (f)
        fclose(f);
    if (result < 0)
        snprintf(error, cap, "%s: %s", file,
                 result == -ENODATA ? "there is no password in its first line"
                 : result == -E2BIG ? "its first line is too long"
                                    : strerror(-result));
    return result;
}

static int apply_cert(const struct tls_cert *cert, struct nib_config *config,
                      char *error, size_t cap)
{
    char line[PASSWORD_BYTES];
    const char *password = cert->password;
    int result = 0;

    if (password && password[0] == '@') {
        result = read_line(password + 1, line, error, cap);
        password = line;
    }
    if (result == 0)
        result =
            nib_config_certificate(config, cert->chain, cert->key, password);
    explicit_bzero(line, sizeof(line));
    return result;
}

int tls_options_apply(const struct tls_options *o, struct nib_config *config,
                      const char *listen, char *error, size_t cap)
{
    int result = nib_config_listen_tls(config, listen, o->mode);

    error[0] = '\0';
    if (o->mode == NIB_TLS_OFF)
        return result;
    for (size_t i = 0; i < o->cert_count && result == 0; i++)
        result = apply_cert(&o->certs[i], config, error, cap);
    if (result == 0 && o->verify != NIB_VERIFY_NONE)
        result = nib_config_set_client_ca(config, o->client_ca, o->verify);
    if (result == 0 && o->version_word >= 0)
        result = nib_config_set_tls_version(config, versions[o->version_word]);
    if (result == 0 && o->ciphers)
        result = nib_config_set_tls_ciphers(config, o->ciphers);
    if (result == 0 && o->ticket_keys)
        result = nib_config_set_ticket_keys(config, o->ticket_keys);
    if (result == 0)
        result = nib_config_set_handshake_threads(
            config, (unsigned)o->handshake_threads, HANDSHAKE_QUEUE);
    return result;
}
