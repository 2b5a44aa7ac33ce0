/*
 * config - settings and routes.
 *
 * Filled in by the nib_config_* functions before the server starts; the
 * server takes its own copy, which nobody changes any more, so that every
 * thread may read it.
 */
#ifndef NIB_SERVER_CONFIG_H
#define NIB_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "nib.h"
#include "system/tls_engine.h"

struct nib__limits {
    unsigned reactors;
    unsigned handlers;
    unsigned handler_queue;
    size_t handler_stack_bytes;
    size_t head_bytes;
    unsigned head_lines;
    size_t message_bytes;
    size_t outbox_bytes;
    size_t outbox_total_bytes;
    unsigned inbox_messages;
    size_t inbox_bytes;
    size_t stash_bytes;
    size_t frame_bytes;
    unsigned handshake_timeout_ms;
    unsigned close_timeout_ms;
    unsigned ping_interval_ms;
    unsigned ping_wait_ms;
    unsigned idle_timeout_ms;
    unsigned write_timeout_ms;
    int send_timeout_ms;
    unsigned max_connections;
    unsigned max_per_address;
    unsigned max_handshakes;
    unsigned control_rate;
    unsigned commands;
    size_t topic_bytes;       /* 0: by message_bytes */
    size_t topic_total_bytes; /* 0: none */
    unsigned socket_send_bytes;
    unsigned socket_receive_bytes;
    int stop_code;
    unsigned handshake_threads; /* 0: by reactors */
    unsigned handshake_queue;
    unsigned max_tls;            /* 0: none */
    unsigned max_tls_handshakes; /* 0: none */
};

struct nib_route {
    struct nib_route *next;
    struct nib_config *config; /* for error texts; NULL in a server's copy */
    char *pattern;             /* without the '=' */
    size_t pattern_len;
    bool exact;
    nib_handler_fn *handler;
    void *handler_arg;
    bool has_callbacks;
    struct nib_callbacks callbacks;
    void *callbacks_arg;
    nib_http_fn *http;
    void *http_arg;
    char *subprotocols; /* NULL: none */
    int send_timeout_ms;
    bool own_send_timeout;
};

/* An address to listen on. */
struct nib__listen {
    char *address;
    enum nib_tls_mode tls;
};

/* What TLS needs; all strings are the configuration's own. */
struct nib__tls_config {
    struct nib__tls_cert *certs;
    unsigned cert_count;
    char *client_ca; /* NULL: none */
    enum nib_verify verify;
    unsigned min_version;
    uint16_t suites[NIB__TLS_SUITES];
    unsigned suite_count;
    char *ticket_keys; /* NULL: the server's own */
};

struct nib_config {
    struct nib__limits limits;
    struct nib__tls_config tls;
    struct nib__log log;
    struct nib__listen *listens;
    unsigned listen_count;
    struct nib_route *routes;
    char error[256];
};

/* Refuses a value: leaves the text, returns the code. */
int nib__config_refuse(struct nib_config *cfg, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks one number against its range; 0 or -EINVAL. */
int nib__config_check(struct nib_config *cfg, const char *name,
                      uint64_t value, uint64_t least, uint64_t most);

/* Does any address speak TLS? */
bool nib__config_has_tls(const struct nib_config *cfg);

/* ---- config_tls.c ---- */

/* Copies `from` into an empty `to`. 0 or -ENOMEM, with nothing lost. */
int nib__tls_config_copy(struct nib__tls_config *to,
                         const struct nib__tls_config *from);

/* Frees what it holds, not itself. */
void nib__tls_config_free(struct nib__tls_config *tls);

/*
 * Copies a configuration for a server: limits with their defaults worked out,
 * routes sorted so that the first match is the best one.
 *
 * Returns 0 with *out, to be freed by nib_config_free(); NIB_ECONFIG with a
 * text in cfg if limits contradict each other; -ENOMEM.
 */
int nib__config_copy(struct nib_config *cfg, struct nib_config **out);

/* The route for a path, or NULL. */
const struct nib_route *nib__config_route(const struct nib_config *cfg,
                                          const char *path);

#endif
