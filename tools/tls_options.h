/*
 * tls_options - the options by which a server is told to speak TLS.
 *
 * nibd and nib-bench serve share them, so nib.h is all that they need. First
 * the table is read by options_parse(), then it is settled, which ends the
 * program for what contradicts itself, and then applied to a configuration.
 */
#ifndef NIB_TOOLS_TLS_OPTIONS_H
#define NIB_TOOLS_TLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "nib.h"
#include "options.h"

enum { TLS_OPTIONS = 10 };

/* A certificate, its key and the key's password; all parts of argv. */
struct tls_cert {
    const char *chain;
    const char *key;      /* NULL: in the same file */
    const char *password; /* or "@FILE"; NULL: none */
};

struct tls_options {
    struct option_spec specs[TLS_OPTIONS];
    /* As given. */
    struct option_list chains, keys, passwords;
    int mode_word, verify_word, version_word;      /* -1: not given */
    const char *client_ca, *ciphers, *ticket_keys; /* NULL: not given */
    uint64_t handshake_threads;                    /* 0: not given */
    /* Settled. */
    struct tls_cert certs[32];
    size_t cert_count;
    enum nib_tls_mode mode;
    enum nib_verify verify;
};

/*
 * Gives everything its default. Returns the table for struct command, which
 * points into *o.
 */
struct option_table tls_options_init(struct tls_options *o);

/*
 * Puts together what was given. Does not return if it contradicts itself,
 * but ends the program by options_fail().
 */
void tls_options_settle(const struct command *command, struct tls_options *o);

/*
 * Makes a configuration listen on an address (see nib_config_listen()), with
 * or without TLS. Reads the files of passwords.
 *
 * error  gets a text that names a file that cannot be read; "" if the text
 *        is nib_config_error()'s
 *
 * Returns 0, or a negative code.
 */
int tls_options_apply(const struct tls_options *o, struct nib_config *config,
                      const char *listen, char *error, size_t cap);

#endif
