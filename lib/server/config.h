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

struct nib_config {
    struct nib__limits limits;
    struct nib__log log;
    char **addresses;
    unsigned address_count;
    struct nib_route *routes;
    char error[256];
};

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
