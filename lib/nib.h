/*
 * nib - a WebSocket server in which every connection has exactly one writer.
 *
 * The reactor thread that owns a connection is the only one that touches its
 * socket and its protocol state. Every function below may be called from the
 * threads that its tag names; calls from other threads than the owner leave a
 * command and, where the tag says so, wait for the owner's answer.
 *
 *   [setup]  before nib_server_start(), from one thread
 *   [any]    any thread; never waits for a peer or for another thread's work
 *   [wait]   any thread; may block off the reactors. On a reactor thread it
 *            never blocks: it does at once what it can and returns -EAGAIN,
 *            or -EDEADLK where nothing can be done without waiting
 *   [owner]  only inside a callback of that object
 *
 * Results are 0 or a positive count, a negative errno, or one of nib's own
 * codes (enum nib_error); nib_strerror() knows all of them. errno itself is
 * not part of this interface. Names that end in _ms are milliseconds, names
 * that end in _bytes are bytes. A timeout of -1 waits as long as the
 * connection's own deadlines allow, 0 does not wait.
 */
#ifndef NIB_H
#define NIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NIB_API __attribute__((visibility("default")))
#else
#define NIB_API
#endif

struct nib_config;
struct nib_route;
struct nib_server;
struct nib_request;
struct nib_conn;
struct nib_message;
struct nib_watch;
struct nib_timer;

/* Own error codes, below every -errno. */
enum nib_error {
    NIB_EPROTO = -1000,  /* the peer broke the protocol */
    NIB_ESTATE = -1001,  /* the call is not allowed in this state */
    NIB_ECONFIG = -1002, /* settings that contradict each other */
};

/* Kinds of message, and flags of nib_send() and its relatives. */
enum {
    NIB_TEXT = 1 << 0,    /* UTF-8 */
    NIB_BINARY = 1 << 1,  /* any bytes */
    NIB_NOWAIT = 1 << 2,  /* return -EAGAIN instead of waiting for room */
    NIB_TRUSTED = 1 << 3, /* the sender knows that its text is UTF-8 */
};

enum nib_log_level {
    NIB_LOG_ERROR = 0,
    NIB_LOG_WARN = 1,
    NIB_LOG_INFO = 2,
    NIB_LOG_DEBUG = 3,
};

/* What a connection is doing; information, not a gate (RFC 6455, 7.1.3). */
enum nib_conn_state {
    NIB_OPEN,
    NIB_CLOSING_LOCAL, /* our Close was queued first */
    NIB_CLOSING_PEER,  /* the peer's Close came first */
    NIB_CLOSED,
};

/* A header line to send. Both strings are copied by the call that takes it. */
struct nib_header {
    const char *name;
    const char *value;
};

/*
 * How a connection ended, or is ending (RFC 6455, 7.1.5 and 7.1.6).
 */
struct nib_close_info {
    int code;           /* 1005: a Close without a code; 1006: no Close */
    bool local;         /* this side began it */
    bool clean;         /* both Close frames were exchanged */
    const char *reason; /* "" if none; lives as long as the connection */
    size_t unsent_bytes; /* accepted for sending, never given to the kernel */
};

/* ------------------------------------------------------------------------
 * Errors, allocation
 */

/*
 * The text of a result code: nib's own or a negative errno.
 *
 * Returns a static string, never NULL.
 *
 * [any]
 */
NIB_API const char *nib_strerror(int code);

/*
 * Replaces malloc, realloc and free for all of the library.
 *
 * The three functions must be callable from any thread at once; `arg` is
 * handed to each. NULL for all three restores the C library's.
 *
 * Returns 0, or -EINVAL if only some of the three are given.
 *
 * [setup]  before any other function of this library
 */
NIB_API int nib_set_allocator(void *(*alloc)(size_t bytes, void *arg),
                              void *(*resize)(void *p, size_t bytes,
                                              void *arg),
                              void (*release)(void *p, void *arg), void *arg);

/* ------------------------------------------------------------------------
 * Configuration
 *
 * A setter copies what it is given. It returns 0; -EINVAL for a value out of
 * its range, with a text from nib_config_error(); or -ENOMEM. Limits that
 * contradict each other are refused by nib_server_new() with NIB_ECONFIG and
 * a text.
 */

/*
 * Makes a configuration with every limit at its default.
 *
 * Returns 0 and sets *out, to be freed by nib_config_free(); or -ENOMEM.
 *
 * [setup]
 */
NIB_API int nib_config_new(struct nib_config **out);

/*
 * Frees a configuration; NULL is allowed. A server keeps its own copy.
 *
 * [setup]
 */
NIB_API void nib_config_free(struct nib_config *cfg);

/*
 * The text of the last refusal: names the value and what was expected.
 *
 * Returns "" if nothing was refused; lives until the next call with cfg.
 *
 * [setup]
 */
NIB_API const char *nib_config_error(const struct nib_config *cfg);

/*
 * Adds an address to listen on: "tcp:HOST:PORT" with a name, an IPv4 address
 * or an IPv6 address in brackets, "unix:PATH", "unix:@NAME" (abstract), or
 * "fd:N", a listening socket that the server takes over. Port 0 takes a free
 * one; nib_server_address() tells which. "tcp:[::]:PORT" takes IPv4 as well,
 * and is IPv4 alone on a system without IPv6. A unix path that exists is
 * replaced only if it is a socket on which nobody answers.
 *
 * Returns as every setter. That the address can be bound is found out by
 * nib_server_start().
 *
 * [setup]
 */
NIB_API int nib_config_listen(struct nib_config *cfg, const char *address);

/*
 * Where log lines go: `log` is called with a level, a line without its end
 * and `arg`, from any of the server's threads, several at once. Text from
 * peers is escaped, repeated lines are limited. Default: nowhere.
 *
 * level  the highest enum nib_log_level to report
 *
 * [setup]
 */
NIB_API int nib_config_set_log(struct nib_config *cfg,
                               void (*log)(int level, const char *line,
                                           void *arg),
                               void *arg, int level);

/*
 * Number of reactor threads, 1 to 256; 0 (the default): one for each CPU of
 * the process's affinity mask.
 *
 * [setup]
 */
NIB_API int nib_config_set_reactors(struct nib_config *cfg, unsigned count);

/*
 * The pool of handler threads: at most `max` blocking handlers at once
 * (default 256, 1 to 100000), at most `queue` upgrades waiting for one
 * (default 1024), and the address space of each thread's stack (default 256
 * KiB, at least 64 KiB; only what is touched costs memory). The pool grows on
 * demand. An upgrade that finds the queue full, or still waits at its
 * handshake deadline, is answered 503.
 *
 * [setup]
 */
NIB_API int nib_config_set_handlers(struct nib_config *cfg, unsigned max,
                                    unsigned queue, size_t stack_bytes);

/*
 * Largest request head (default 16 KiB, 1 KiB to 1 MiB) and its number of
 * header lines (default 100, 1 to 1000). More is answered 431; a request line
 * over half of the head's bytes is answered 414.
 *
 * [setup]
 */
NIB_API int nib_config_set_head(struct nib_config *cfg, size_t bytes,
                                unsigned lines);

/*
 * Largest message, both ways (default 1 MiB, 125 bytes to 1 GiB). A larger
 * one from a peer is answered by Close 1009 (RFC 6455, 7.4.1), before its
 * bytes are stored.
 *
 * [setup]
 */
NIB_API int nib_config_set_message_bytes(struct nib_config *cfg,
                                         size_t bytes);

/*
 * Bytes, frame headers included, that may wait to be written on one
 * connection (default 2 MiB). At least twice the largest message.
 *
 * [setup]
 */
NIB_API int nib_config_set_outbox_bytes(struct nib_config *cfg, size_t bytes);

/*
 * Memory for the outboxes of all connections together (default 0: no bound
 * but the connections' own; else at least one outbox's bytes). Beyond it a
 * send gets -ENOMEM.
 *
 * [setup]
 */
NIB_API int nib_config_set_outbox_total_bytes(struct nib_config *cfg,
                                              size_t bytes);

/*
 * Received messages that may wait for a blocking handler's nib_recv():
 * `messages` (default 64, at least 1) or `bytes` (default 1 MiB), whichever
 * comes first; one message always fits. A full inbox stops reading.
 *
 * [setup]
 */
NIB_API int nib_config_set_inbox(struct nib_config *cfg, unsigned messages,
                                 size_t bytes);

/*
 * Bytes that a connection keeps of what was read but has no room yet
 * (default 256 KiB, 1 KiB to 16 MiB); also what one read takes at most.
 *
 * [setup]
 */
NIB_API int nib_config_set_stash_bytes(struct nib_config *cfg, size_t bytes);

/*
 * Messages larger than this are cut into frames of this many bytes (default
 * 64 KiB, at least 1 KiB), so that a pong never waits for a large message
 * (RFC 6455, 5.4).
 *
 * [setup]
 */
NIB_API int nib_config_set_frame_bytes(struct nib_config *cfg, size_t bytes);

/*
 * Time from a connection's first moment until its request is decided, and
 * for a kept-alive connection from each response until the next request is
 * (default 10 s, at most a day). An undecided request is answered 503.
 *
 * [setup]
 */
NIB_API int nib_config_set_handshake_timeout_ms(struct nib_config *cfg,
                                                unsigned ms);

/*
 * Time from our Close to the peer's (default 5 s). The end of TCP is waited
 * for 2 s more at the most.
 *
 * [setup]
 */
NIB_API int nib_config_set_close_timeout_ms(struct nib_config *cfg,
                                            unsigned ms);

/*
 * Keepalive (RFC 6455, 5.5.2): a ping every `interval_ms` (default 25 s; 0:
 * none), and Close 1001 if nothing at all arrives within `wait_ms` of it
 * (default 10 s). wait_ms must be below interval_ms. While reading is paused
 * the wait is suspended.
 *
 * [setup]
 */
NIB_API int nib_config_set_ping(struct nib_config *cfg, unsigned interval_ms,
                                unsigned wait_ms);

/*
 * Close 1001 after this time without a message either way (default 0:
 * never).
 *
 * [setup]
 */
NIB_API int nib_config_set_idle_timeout_ms(struct nib_config *cfg,
                                           unsigned ms);

/*
 * A peer that takes no byte for this long while bytes wait for it is cut off
 * (default 30 s).
 *
 * [setup]
 */
NIB_API int nib_config_set_write_timeout_ms(struct nib_config *cfg,
                                            unsigned ms);

/*
 * How long a send waits for room in a full outbox (default 30 s; -1: as long
 * as the connection lives; 0: never).
 *
 * [setup]
 */
NIB_API int nib_config_set_send_timeout_ms(struct nib_config *cfg, int ms);

/*
 * Connections at once, over all reactors (default 0: the hard limit of open
 * files minus 64). More are answered 503. An explicit number over the hard
 * limit minus 64 is refused at start.
 *
 * [setup]
 */
NIB_API int nib_config_set_max_connections(struct nib_config *cfg,
                                           unsigned count);

/*
 * Connections at once from one address (default 0: no limit). More are
 * answered 503. Connections by unix socket do not count.
 *
 * [setup]
 */
NIB_API int nib_config_set_max_per_address(struct nib_config *cfg,
                                           unsigned count);

/*
 * Connections whose request is not decided yet, at once (default 0: no limit
 * but the number of connections). More are answered 503.
 *
 * [setup]
 */
NIB_API int nib_config_set_max_handshakes(struct nib_config *cfg,
                                          unsigned count);

/*
 * Pings, pongs and empty fragments that one peer may send in a second
 * (default 1000; 0: no limit). More is answered by Close 1008.
 *
 * [setup]
 */
NIB_API int nib_config_set_control_rate(struct nib_config *cfg,
                                        unsigned per_second);

/*
 * Functions, subscriptions and their ends (nib_post, nib_subscribe,
 * nib_unsubscribe) that may wait for one connection's owner (default 4096,
 * 1 to 1000000). Beyond it they get -EAGAIN, so that a thread that never
 * waits cannot fill the memory.
 *
 * [setup]
 */
NIB_API int nib_config_set_commands(struct nib_config *cfg, unsigned max);

/*
 * Bytes of one topic's log on each reactor (0, the default: the larger of 4
 * MiB and twice the largest message; else at least twice the largest
 * message), and of all topics together (default 0: no bound but the topics'
 * own; else at least 64 KiB and twice the largest message). See nib_publish();
 * a message for which there is no more memory in all closes its readers on
 * that reactor with 1011.
 *
 * [setup]
 */
NIB_API int nib_config_set_topic_bytes(struct nib_config *cfg,
                                       size_t each_bytes, size_t total_bytes);

/*
 * SO_SNDBUF and SO_RCVBUF of accepted sockets (default 0: the system's own,
 * self-tuning).
 *
 * [setup]
 */
NIB_API int nib_config_set_socket_buffers(struct nib_config *cfg,
                                          unsigned send_bytes,
                                          unsigned receive_bytes);

/*
 * The Close code of an orderly stop: 1001 (the default) or 1012.
 *
 * [setup]
 */
NIB_API int nib_config_set_stop_code(struct nib_config *cfg, int code);

/* ------------------------------------------------------------------------
 * TLS
 *
 * TLS 1.2 and, where the TLS library has it, 1.3; key exchange with forward
 * secrecy and authenticated encryption only (RFC 9325). Handshakes run on
 * threads of their own, so that they make nobody else wait. A build without
 * TLS takes these settings and refuses to start with an address that needs
 * them.
 */

/* What an address speaks. */
enum nib_tls_mode {
    NIB_TLS_OFF,
    NIB_TLS_ON,
    NIB_TLS_AUTO, /* TLS or plain, as the client's first byte says */
};

/*
 * nib_config_listen() with TLS. A plain request to an address that is
 * NIB_TLS_ON is closed without an answer.
 *
 * Returns as every setter. nib_server_new() refuses an address with TLS if
 * there is no certificate.
 *
 * [setup]
 */
NIB_API int nib_config_listen_tls(struct nib_config *cfg, const char *address,
                                  enum nib_tls_mode mode);

/*
 * Adds a certificate: a PEM file with it and the chain up to, but without,
 * the root; the PEM file of its private key (NULL: the same file); and that
 * key's password (NULL: none). The first is the default, another is chosen
 * by the name that the client asks for (RFC 6066, 3). The files are read by
 * nib_server_start() and nib_server_reload_tls().
 *
 * Returns as every setter.
 *
 * [setup]
 */
NIB_API int nib_config_certificate(struct nib_config *cfg,
                                   const char *chain_file,
                                   const char *key_file,
                                   const char *password);

/* Whether clients have to show a certificate. */
enum nib_verify {
    NIB_VERIFY_NONE,
    NIB_VERIFY_OPTIONAL, /* none is good, a bad one is refused */
    NIB_VERIFY_REQUIRED,
};

/*
 * Asks clients for a certificate that one of those in a PEM file has signed;
 * nib_request_tls() tells whose it was. A file of NULL asks nobody.
 *
 * Returns as every setter.
 *
 * [setup]
 */
NIB_API int nib_config_set_client_ca(struct nib_config *cfg,
                                     const char *file,
                                     enum nib_verify verify);

/*
 * The lowest version to speak, "1.2" (the default) or "1.3".
 *
 * Returns as every setter; -EINVAL also if the TLS library cannot speak it.
 *
 * [setup]
 */
NIB_API int nib_config_set_tls_version(struct nib_config *cfg,
                                       const char *lowest);

/*
 * The cipher suites, in order of preference: names as IANA or OpenSSL write
 * them, separated by ':', ',' or spaces; "" for the TLS library's best. For
 * TLS 1.3 the client's order may count instead.
 *
 * Returns as every setter; -EINVAL for a name that is none of nib's.
 *
 * [setup]
 */
NIB_API int nib_config_set_tls_ciphers(struct nib_config *cfg,
                                       const char *list);

/*
 * A file with the keys of session tickets (RFC 5077): 1 to 3 keys of 80
 * bytes, the first of which encrypts. With it sessions are resumed after a
 * restart, and by other servers that have the same file; changing the keys is
 * then the operator's part. NULL, the default: keys of the server's own, a
 * new one every 12 hours.
 *
 * Returns as every setter.
 *
 * [setup]
 */
NIB_API int nib_config_set_ticket_keys(struct nib_config *cfg,
                                       const char *file);

/*
 * Threads for TLS handshakes (0, the default: one for every two reactors; 1
 * to 256), at the lowest priority, and how many connections may wait for them
 * (default 1024, at least 1). More are closed.
 *
 * [setup]
 */
NIB_API int nib_config_set_handshake_threads(struct nib_config *cfg,
                                             unsigned threads,
                                             unsigned queue);

/*
 * TLS connections at once, each of which takes 36 to 90 KB (default 0: no
 * limit but that of all connections), and of those, in a handshake (default
 * 0: no limit). More are closed.
 *
 * [setup]
 */
NIB_API int nib_config_set_max_tls(struct nib_config *cfg,
                                   unsigned connections,
                                   unsigned handshakes);

/* ------------------------------------------------------------------------
 * Routes
 *
 * A route answers the requests whose path its pattern matches: "/a" matches
 * "/a" and everything below "/a/"; "=/a" matches "/a" alone; "/" matches all.
 * The longest pattern wins, "=" before the other at equal length. The path is
 * compared as sent, up to the '?'.
 *
 * Upgrades go to the route's handler or callbacks, or, if it has neither, to
 * nib_server_next(); other requests go to its HTTP function, or are answered
 * 426. A request that no route matches is answered 404.
 */

/*
 * A blocking handler: runs on a thread of the pool, once for each upgrade,
 * and may block in any [wait] function. It decides by nib_accept() or
 * nib_reject().
 *
 * The request, and the connection that nib_accept() gave, live until it
 * returns, or longer if referenced.
 *
 * Returns 0: the connection, if still open, is closed with 1000; anything
 * else: with 1011. A handler that returns without a decision: 500.
 */
typedef int nib_handler_fn(struct nib_request *req, void *arg);

/*
 * Answers a plain request, on the owner; must not block. It answers by
 * nib_respond() before it returns, otherwise the answer is 500.
 */
typedef void nib_http_fn(struct nib_request *req, void *arg);

/* Results of on_request beside a status. */
enum {
    NIB_ACCEPT = 0,   /* accept, with a subprotocol of the route's if any */
    NIB_DECIDED = 1,  /* decided already, or later through a reference */
};

/*
 * Callbacks run on the owner of their connection and must not block:
 * everything this library promises about deadlines holds only while
 * callbacks return. Any of them may be NULL. `arg` is the route's.
 */
struct nib_callbacks {
    /*
     * An upgrade came. Returns NIB_ACCEPT; NIB_DECIDED; or a status from 300
     * to 599 to reject with. NULL accepts all. To decide later, take a
     * reference first (nib_request_ref) and use nib_accept_async() or
     * nib_reject_async() from any thread.
     */
    int (*on_request)(struct nib_request *req, void *arg);

    /* The 101 is queued; messages follow. */
    void (*on_open)(struct nib_conn *conn, void *arg);

    /*
     * A whole message came. It lives until the callback returns;
     * nib_message_ref() keeps it.
     */
    void (*on_message)(struct nib_conn *conn, struct nib_message *msg,
                       void *arg);

    /*
     * After a send or a publish got -EAGAIN: the outbox fell below half, or
     * the topic has room again.
     */
    void (*on_room)(struct nib_conn *conn, void *arg);

    /* A pong that answers nib_ping(); the bytes live until it returns. */
    void (*on_pong)(struct nib_conn *conn, const void *data, size_t len,
                    void *arg);

    /* The last callback, once for each on_open. */
    void (*on_close)(struct nib_conn *conn, const struct nib_close_info *info,
                     void *arg);
};

/*
 * Adds a route and sets *out, which lives as long as the configuration.
 *
 * Returns as every setter; -EEXIST if the pattern was given before.
 *
 * [setup]
 */
NIB_API int nib_config_route(struct nib_config *cfg, const char *pattern,
                             struct nib_route **out);

/*
 * Gives a route a blocking handler. Returns 0; -EEXIST if it has a handler or
 * callbacks.
 *
 * [setup]
 */
NIB_API int nib_route_set_handler(struct nib_route *route, nib_handler_fn *fn,
                                  void *arg);

/*
 * Gives a route callbacks; the structure is copied. Returns 0; -EEXIST if it
 * has a handler or callbacks.
 *
 * [setup]
 */
NIB_API int nib_route_set_callbacks(struct nib_route *route,
                                    const struct nib_callbacks *callbacks,
                                    void *arg);

/*
 * Gives a route a function for plain requests. Returns 0; -EEXIST if it has
 * one.
 *
 * [setup]
 */
NIB_API int nib_route_set_http(struct nib_route *route, nib_http_fn *fn,
                               void *arg);

/*
 * Subprotocols that the route speaks, "a, b" (RFC 6455, 1.9). An accept that
 * names none takes the first of the client's that is among them.
 *
 * Returns as every setter; -EINVAL for what is no token list.
 *
 * [setup]
 */
NIB_API int nib_route_set_subprotocols(struct nib_route *route,
                                       const char *list);

/*
 * Overrides nib_config_set_send_timeout_ms() for a route. Returns as every
 * setter.
 *
 * [setup]
 */
NIB_API int nib_route_set_send_timeout_ms(struct nib_route *route, int ms);

/* ------------------------------------------------------------------------
 * Server
 */

/*
 * Makes a server of a configuration, which it copies.
 *
 * Returns 0 and sets *out, to be freed by nib_server_free(); NIB_ECONFIG with
 * a text from nib_config_error() if settings contradict each other; -ENOMEM;
 * or the errno of what could not be made.
 *
 * [setup]
 */
NIB_API int nib_server_new(struct nib_config *cfg, struct nib_server **out);

/*
 * Binds the addresses and starts the reactors. When it returns 0, every
 * address accepts connections.
 *
 * Returns 0; NIB_ESTATE if started before; or the errno of the address or
 * thread that failed, with a text from nib_server_error(), and nothing left
 * running.
 *
 * [setup]
 */
NIB_API int nib_server_start(struct nib_server *srv);

/*
 * What failed in nib_server_start(), with the address. "" if nothing did;
 * lives as long as the server.
 *
 * [setup]
 */
NIB_API const char *nib_server_error(const struct nib_server *srv);

/*
 * The number-th address that a started server listens on, or did, counted from 0 in
 * the order of nib_config_listen(), as "HOST:PORT", "[HOST]:PORT" or
 * "unix:PATH", with the real port.
 *
 * Returns the text's length, as snprintf() does for cap bytes; -ENOENT if
 * there is no such address.
 *
 * [any]
 */
NIB_API int nib_server_address(const struct nib_server *srv, unsigned number,
                               char *text, size_t cap);

/*
 * Begins an orderly stop and returns at once. The listeners close, undecided
 * requests are answered 503, open connections get Close 1001 (RFC 6455,
 * 7.4.1) after what was sent before; after grace_ms the rest is cut off. A
 * later call can only shorten the grace.
 *
 * Async-signal-safe; keeps errno. The server must not be freed meanwhile.
 *
 * [any]
 */
NIB_API void nib_server_stop(struct nib_server *srv, unsigned grace_ms);

/*
 * Waits for the end of a stop: until all connections are closed, all
 * handlers have returned and all threads are gone. Calls that were waiting
 * are answered, later ones get -ECANCELED.
 *
 * Returns 0; or, after timeout_ms (-1: no limit), -ETIMEDOUT, with the number
 * of handlers that have not returned in *running (may be NULL), and can be
 * called again; -EDEADLK on a reactor or handler thread of this server;
 * NIB_ESTATE if the server was never started.
 *
 * [wait]
 */
NIB_API int nib_server_join(struct nib_server *srv, int timeout_ms,
                            unsigned *running);

/*
 * Frees a server that was never started or has been joined; NULL is allowed.
 * A started one is stopped at once and joined first. Handles of connections,
 * requests and messages outlive it: their functions answer -ECANCELED or
 * -EPIPE.
 *
 * [setup]  and not on a thread of the server
 */
NIB_API void nib_server_free(struct nib_server *srv);

/*
 * For applications that bring their own threads: the next upgrade on a route
 * without handler and callbacks. Decide it as a handler does, and
 * nib_request_unref() it in the end.
 *
 * Returns 0 and sets *req; -ETIMEDOUT after timeout_ms; -ECANCELED when the
 * server stops; -EDEADLK on a reactor.
 *
 * [wait]
 */
NIB_API int nib_server_next(struct nib_server *srv, struct nib_request **req,
                            int timeout_ms);

/*
 * Reads certificates, keys, the client CA and the ticket keys again. New
 * connections use the new ones once all of them have been found good;
 * connections that are there keep theirs. Reads files.
 *
 * error  gets a text that names the file and what is wrong; cap bytes
 *
 * Returns 0; NIB_ESTATE if the server is not running or has no TLS; or, with
 * a text and nothing changed, -EINVAL, the errno of a file, or -ENOMEM.
 *
 * [any]
 */
NIB_API int nib_server_reload_tls(struct nib_server *srv, char *error,
                                  size_t cap);

/* Counters since the start, and what is there now. */
struct nib_stats {
    uint64_t accepted;       /* TCP or unix connections taken */
    uint64_t refused;        /* by a limit: 503, or the end of descriptors */
    uint64_t upgraded;       /* WebSocket connections opened */
    uint64_t rejected;       /* upgrades answered by another status */
    uint64_t requests;       /* plain requests answered */
    uint64_t messages_in;    /* whole messages received */
    uint64_t messages_out;   /* messages accepted by sends */
    uint64_t published;      /* messages accepted by publishes */
    uint64_t bytes_in;       /* of all sockets */
    uint64_t bytes_out;
    uint64_t writes;         /* system calls that wrote to sockets */
    uint64_t reads;          /* system calls that read from sockets */
    uint64_t commands;       /* records posted to mailboxes */
    uint64_t wakes;          /* eventfd writes for them */
    uint64_t slow;           /* connections closed as slow (1013) */
    uint64_t tls_full;       /* TLS handshakes, whole ones */
    uint64_t tls_resumed;    /* and by a session of before */
    uint64_t tls_failed;     /* and those that came to nothing */
    uint64_t connections;    /* now */
    uint64_t tls;            /* now: of those, with TLS */
    uint64_t tls_handshakes; /* now: of those, in the handshake */
    uint64_t handshakes;     /* now: of those, not decided yet */
    uint64_t handlers;       /* now: blocking handlers running */
    uint64_t handlers_queued; /* now: upgrades that wait for a handler */
    uint64_t outbox_bytes;   /* now: capacity of all outboxes' memory */
    uint64_t topic_bytes;    /* now: bytes of all topics' logs */
};

/*
 * Adds up the counters of all reactors. They are read one after the other,
 * so they need not belong to one moment.
 *
 * [any]
 */
NIB_API void nib_server_stats(struct nib_server *srv, struct nib_stats *out);

/* ------------------------------------------------------------------------
 * Requests
 *
 * Strings live as long as the request is referenced.
 */

/*
 * Takes one more reference; returns req.
 *
 * [any]
 */
NIB_API struct nib_request *nib_request_ref(struct nib_request *req);

/*
 * Gives a reference back; NULL is allowed. An upgrade whose last reference
 * goes undecided is answered 500.
 *
 * [any]
 */
NIB_API void nib_request_unref(struct nib_request *req);

/*
 * The method, "GET" for every upgrade.
 *
 * [any]
 */
NIB_API const char *nib_request_method(const struct nib_request *req);

/*
 * The path as sent, without the query.
 *
 * [any]
 */
NIB_API const char *nib_request_path(const struct nib_request *req);

/*
 * The query as sent, without the '?'; "" if there is none.
 *
 * [any]
 */
NIB_API const char *nib_request_query(const struct nib_request *req);

/*
 * The number-th value of a header, counted from 0 over repeated lines,
 * without white space around it; names are compared without case (RFC 9110,
 * 5.1). NULL if there is none.
 *
 * [any]
 */
NIB_API const char *nib_request_header(const struct nib_request *req,
                                       const char *name, unsigned number);

/*
 * The number-th header line in the order received; false if there are fewer.
 *
 * [any]
 */
NIB_API bool nib_request_header_at(const struct nib_request *req,
                                   unsigned number, struct nib_header *out);

/*
 * The number-th subprotocol that the client offers, in its order; NULL if
 * there are fewer (RFC 6455, 4.2.1).
 *
 * [any]
 */
NIB_API const char *nib_request_subprotocol(const struct nib_request *req,
                                            unsigned number);

/*
 * The peer's address, "HOST:PORT", "[HOST]:PORT" or "unix:".
 *
 * [any]
 */
NIB_API const char *nib_request_peer(const struct nib_request *req);

/* What a TLS handshake agreed on. */
struct nib_tls_info {
    const char *version;     /* "TLSv1.2", "TLSv1.3" */
    const char *cipher;      /* IANA's name of the suite */
    const char *server_name; /* that the client asked for; "" if none */
    const char *peer_name;   /* of a verified client certificate; else "" */
    bool resumed;
};

/*
 * Fills in *out if the request came by TLS; its strings live as long as the
 * request. Returns whether it did.
 *
 * [any]
 */
NIB_API bool nib_request_tls(const struct nib_request *req,
                             struct nib_tls_info *out);

/*
 * The server that the request came to.
 *
 * [any]
 */
NIB_API struct nib_server *nib_request_server(const struct nib_request *req);

/* Options of an accept; a zeroed structure or NULL for none. */
struct nib_accept_options {
    const char *subprotocol;          /* NULL: by the route's list */
    const struct nib_header *headers; /* further header lines */
    size_t header_count;
    void *user; /* nib_conn_user() from the first callback on */
};

/*
 * Accepts an upgrade: answers 101 (RFC 6455, 4.2.2) and opens the
 * connection. Waits until the owner has queued the 101.
 *
 * The connection in *conn (may be NULL) lives as long as the request is
 * referenced; nib_conn_ref() keeps it longer.
 *
 * Returns 0 when open.
 *   -EINVAL    a subprotocol that the client did not offer, a header with
 *              CR, LF or a reserved name; the request stays undecided
 *   -EPIPE     the client has gone
 *   -ETIMEDOUT the handshake deadline has passed; it was answered 503
 *   NIB_ESTATE decided before
 *   -ECANCELED the server stops; it was answered 503
 *   -ENOMEM    the request stays undecided
 *   -EAGAIN    on the owner: begun, on_open or on_close tells the rest
 *   -EDEADLK   on another reactor: use nib_accept_async()
 *
 * [wait]  RFC 6455, 4.2.2
 */
NIB_API int nib_accept(struct nib_request *req,
                       const struct nib_accept_options *options,
                       struct nib_conn **conn);

/*
 * Rejects an upgrade with a status from 300 to 599, further header lines and
 * a body, all copied; answers `Connection: close` and ends the connection
 * without cutting off the body. Waits until the owner has queued it.
 *
 * headers  NULL only if header_count is 0
 * body     NULL only if len is 0; at most the outbox's bytes
 *
 * Returns 0 when queued; -EINVAL for a status or header that cannot be sent
 * (the request stays undecided); -EMSGSIZE; else as nib_accept().
 *
 * [wait]  RFC 6455, 4.2.2
 */
NIB_API int nib_reject(struct nib_request *req, int status,
                       const struct nib_header *headers, size_t header_count,
                       const void *body, size_t len);

/*
 * nib_accept() without the wait. `done`, unless NULL, gets what nib_accept()
 * would return, and the connection if that is 0, which lives until `done`
 * returns. It runs on the owner, also if the server stops.
 *
 * Returns 0 if `done` will run exactly once; else it will not: -EINVAL,
 * NIB_ESTATE, -ENOMEM, -ECANCELED as nib_accept().
 *
 * [any]
 */
NIB_API int nib_accept_async(struct nib_request *req,
                             const struct nib_accept_options *options,
                             void (*done)(int result, struct nib_conn *conn,
                                          void *arg),
                             void *arg);

/*
 * nib_reject() without the wait; `done` as for nib_accept_async(), without a
 * connection.
 *
 * [any]
 */
NIB_API int nib_reject_async(struct nib_request *req, int status,
                             const struct nib_header *headers,
                             size_t header_count, const void *body,
                             size_t len, void (*done)(int result, void *arg),
                             void *arg);

/*
 * Answers a plain request, inside its nib_http_fn: a status from 200 to 599,
 * header lines and a body, all copied. Content-Length is added; for HEAD the
 * body is left out; the connection is kept if the client wants that.
 *
 * Returns 0; -EINVAL for a status or header that cannot be sent; -EMSGSIZE
 * for a body over the outbox's bytes; NIB_ESTATE if answered before; -ENOMEM.
 *
 * [owner]  RFC 9112
 */
NIB_API int nib_respond(struct nib_request *req, int status,
                        const struct nib_header *headers, size_t header_count,
                        const void *body, size_t len);

/* ------------------------------------------------------------------------
 * Messages
 */

/*
 * Makes a message that can be sent to any number of connections without
 * being copied again. Copies data.
 *
 * kind  NIB_TEXT (checked, unless or'ed with NIB_TRUSTED) or NIB_BINARY
 *
 * Returns 0 and sets *out, to be given back by nib_message_unref(); -EINVAL;
 * -EILSEQ for text that is not UTF-8; -ENOMEM.
 *
 * [any]
 */
NIB_API int nib_message_new(unsigned kind, const void *data, size_t len,
                            struct nib_message **out);

/*
 * Makes a message to be filled in by the caller: *data is its len bytes, to
 * be written before the message is first sent. Text is checked when it is
 * sent, unless NIB_TRUSTED.
 *
 * Returns as nib_message_new().
 *
 * [any]
 */
NIB_API int nib_message_alloc(unsigned kind, size_t len, void **data,
                              struct nib_message **out);

/*
 * Takes one more reference. For the message of an on_message this is what
 * keeps it beyond the callback, under the address returned.
 *
 * Returns the message to use from now on, which is msg itself except for one
 * that belonged to on_message; NULL if there is no memory for that.
 *
 * [any]
 */
NIB_API struct nib_message *nib_message_ref(struct nib_message *msg);

/*
 * Gives a reference back; NULL is allowed.
 *
 * [any]
 */
NIB_API void nib_message_unref(struct nib_message *msg);

/*
 * The bytes of a message, and their number in *len (may be NULL). They live
 * as long as the message. Never NULL.
 *
 * [any]
 */
NIB_API const void *nib_message_data(const struct nib_message *msg,
                                     size_t *len);

/*
 * NIB_TEXT or NIB_BINARY.
 *
 * [any]
 */
NIB_API unsigned nib_message_kind(const struct nib_message *msg);

/* ------------------------------------------------------------------------
 * Connections
 */

/*
 * Sends one message on a connection.
 *
 * Copies data[0..len) and returns; the owner writes it later. Messages from
 * all threads leave in the order in which their calls took the connection's
 * lock, so a call that began after another had returned comes after it; and
 * all that were accepted before nib_close() leave before the Close frame.
 * Text is checked for UTF-8 unless NIB_TRUSTED is given.
 *
 * When the outbox is full (nib_config_set_outbox_bytes), waits for room, in
 * turn with other waiting senders, up to the route's send timeout; on a
 * reactor thread, or with NIB_NOWAIT, returns at once instead.
 *
 * data   may be freed when the call returns; NULL only if len is 0
 * len    bytes, at most nib_config_set_message_bytes
 * flags  NIB_TEXT or NIB_BINARY, or'ed with NIB_NOWAIT, NIB_TRUSTED
 *
 * Returns 0 when queued: it will be written unless the connection ends.
 *   -EAGAIN    no room, and not waiting; nothing was queued. On the owner,
 *              on_room follows
 *   -ETIMEDOUT no room in time; nothing was queued
 *   -EMSGSIZE  can never fit
 *   -EILSEQ    NIB_TEXT and not UTF-8
 *   -EINVAL    flags that say neither or both kinds
 *   -EPIPE     closing or closed; see nib_conn_close_info()
 *   -ENOMEM
 *
 * [wait]  RFC 6455, 5.6 and 6.1
 */
NIB_API int nib_send(struct nib_conn *conn, const void *data, size_t len,
                     unsigned flags);

/*
 * nib_send() of a message that is shared instead of copied. The caller keeps
 * its reference. flags: NIB_NOWAIT, NIB_TRUSTED or 0; the kind is the
 * message's own.
 *
 * Returns as nib_send().
 *
 * [wait]  RFC 6455, 5.6 and 6.1
 */
NIB_API int nib_send_message(struct nib_conn *conn, struct nib_message *msg,
                             unsigned flags);

/*
 * Receives the next message of a connection that a blocking handler or
 * nib_server_next() accepted. One receiver at a time.
 *
 * What was received before the peer's Close is delivered first. After the
 * end every call returns -EPIPE at once.
 *
 * Returns 0 and sets *msg, to be given back by nib_message_unref().
 *   -ETIMEDOUT nothing within timeout_ms (-1: no limit; 0: do not wait)
 *   -EPIPE     closing or closed, nothing left; see nib_conn_close_info()
 *   -EBUSY     another thread is receiving
 *   -EDEADLK   on a reactor
 *   NIB_ESTATE the connection's route has callbacks
 *
 * [wait]  RFC 6455, 6.2
 */
NIB_API int nib_recv(struct nib_conn *conn, struct nib_message **msg,
                     int timeout_ms);

/*
 * Waits until everything that was sent before is in the kernel.
 *
 * Returns 0; -ETIMEDOUT after timeout_ms; -EPIPE if the connection ended
 * before (nib_close_info's unsent_bytes tells how much was lost);
 * -ECANCELED; -EDEADLK on a reactor.
 *
 * [wait]
 */
NIB_API int nib_flush(struct nib_conn *conn, int timeout_ms);

/*
 * Closes a connection in order: Close leaves after everything that was
 * accepted for sending, no later send is accepted, and what arrives before
 * the peer's Close is dropped. A second close joins the first, whose code
 * stays.
 *
 * code    1000-1003, 1007-1014 or 3000-4999 (RFC 6455, 7.4), or 0: a Close
 *         without a code
 * reason  at most 123 bytes of UTF-8, copied; NULL for none
 * timeout_ms  0: returns at once. Else waits until the close handshake is
 *         done or given up and the socket is closed; -1: as long as
 *         nib_config_set_close_timeout_ms and the write timeout allow
 *
 * Returns 0 when closed (nib_conn_close_info tells how) or, with timeout 0,
 * begun.
 *   -EINVAL    a code or reason that cannot be sent; nothing was done
 *   -ETIMEDOUT still closing after timeout_ms
 *   -EAGAIN    on the owner: begun
 *   -EDEADLK   on another reactor and timeout_ms not 0; nothing was done
 *
 * [wait]  RFC 6455, 7.1.1 to 7.1.3
 */
NIB_API int nib_close(struct nib_conn *conn, unsigned code,
                      const char *reason, int timeout_ms);

/*
 * Ends a connection at once: what waits to be written is dropped, the peer
 * sees a reset. The close info says 1006, local. Idempotent.
 *
 * [any]
 */
NIB_API void nib_abort(struct nib_conn *conn);

/*
 * Sends a ping of at most 125 bytes, copied, ahead of waiting messages; the
 * pong that answers it is told to on_pong.
 *
 * Returns 0; -EINVAL if len is over 125; -EBUSY if a ping of this function
 * is unanswered; -EPIPE; -ENOMEM; -ECANCELED.
 *
 * [any]  RFC 6455, 5.5.2
 */
NIB_API int nib_ping(struct nib_conn *conn, const void *data, size_t len);

/*
 * Stops reading, or goes on: the kernel's buffers fill and the peer has to
 * wait. Pauses do not nest; of a pause and a resume the later holds. On the
 * owner it holds at once: no on_message follows the one that paused. While
 * paused no pong is expected.
 *
 * Returns 0; -EPIPE; -ECANCELED; NIB_ESTATE on a connection without
 * callbacks.
 *
 * [any]
 */
NIB_API int nib_conn_pause(struct nib_conn *conn);

/*
 * The other half of nib_conn_pause(); returns as that.
 *
 * [any]
 */
NIB_API int nib_conn_resume(struct nib_conn *conn);

/*
 * Takes one more reference; returns conn. A handle stays valid while it is
 * referenced, whether the connection is open or not.
 *
 * [any]
 */
NIB_API struct nib_conn *nib_conn_ref(struct nib_conn *conn);

/*
 * Gives a reference back; NULL is allowed. Never closes a connection.
 *
 * [any]
 */
NIB_API void nib_conn_unref(struct nib_conn *conn);

/*
 * A number that no other connection of this process has or had.
 *
 * [any]
 */
NIB_API uint64_t nib_conn_id(const struct nib_conn *conn);

/*
 * Bytes that wait in the outbox, frame headers included; never over
 * nib_config_set_outbox_bytes.
 *
 * [any]
 */
NIB_API size_t nib_conn_buffered(struct nib_conn *conn);

/*
 * An enum nib_conn_state; old by the time it is looked at.
 *
 * [any]
 */
NIB_API int nib_conn_state(const struct nib_conn *conn);

/*
 * The subprotocol that was accepted; "" if none. Lives as long as the
 * connection.
 *
 * [any]
 */
NIB_API const char *nib_conn_subprotocol(const struct nib_conn *conn);

/*
 * The server that owns the connection.
 *
 * [any]
 */
NIB_API struct nib_server *nib_conn_server(const struct nib_conn *conn);

/*
 * The application's pointer, as set at the accept or by nib_conn_set_user().
 *
 * [any]
 */
NIB_API void *nib_conn_user(const struct nib_conn *conn);

/*
 * Sets the application's pointer.
 *
 * [owner]
 */
NIB_API void nib_conn_set_user(struct nib_conn *conn, void *user);

/*
 * How the connection ended, or why it is closing.
 *
 * Returns 0 and fills *out; NIB_ESTATE while it is open.
 *
 * [any]
 */
NIB_API int nib_conn_close_info(struct nib_conn *conn,
                                struct nib_close_info *out);

/*
 * Runs `run(conn, arg)` on the connection's owner, after all commands that
 * were posted before; from the owner itself after the current callback.
 * Exactly one of `run` and `cancel` (may be NULL) is called: `cancel` if the
 * server stops first, on the owner, or on the caller if the post is refused.
 * conn is referenced until then; it may be closed when `run` runs.
 *
 * Returns 0 if posted; or, after `cancel` has run, -EAGAIN if
 * nib_config_set_commands wait for this connection already; -ECANCELED;
 * -ENOMEM.
 *
 * [any]
 */
NIB_API int nib_post(struct nib_conn *conn,
                     void (*run)(struct nib_conn *conn, void *arg),
                     void (*cancel)(struct nib_conn *conn, void *arg),
                     void *arg);

/* What a watched descriptor is waited for, and reported as. */
enum {
    NIB_READABLE = 1 << 0,
    NIB_WRITABLE = 1 << 1,
    NIB_HANGUP = 1 << 2, /* reported always, with errors */
};

/*
 * Watches a descriptor of the application on the connection's reactor, level
 * triggered. `ready` runs on the owner. The descriptor stays the
 * application's; it is closed only after nib_watch_free(). The watch is gone,
 * without a call, after on_close.
 *
 * Returns 0 and sets *out; -EINVAL; -EPIPE if the connection is closed;
 * -ENOMEM or the errno of epoll.
 *
 * [owner]
 */
NIB_API int nib_watch(struct nib_conn *conn, int fd, unsigned events,
                      void (*ready)(struct nib_conn *conn, unsigned events,
                                    void *arg),
                      void *arg, struct nib_watch **out);

/*
 * Changes what a watch waits for; 0 for nothing but NIB_HANGUP.
 *
 * Returns 0, or the errno of epoll.
 *
 * [owner]
 */
NIB_API int nib_watch_set(struct nib_watch *watch, unsigned events);

/*
 * Ends a watch; NULL is allowed.
 *
 * [owner]
 */
NIB_API void nib_watch_free(struct nib_watch *watch);

/*
 * Calls `fire` once on the owner, after_ms from now, unless it is freed
 * before. The timer is gone after `fire` has run, and, without a call, after
 * on_close.
 *
 * Returns 0 and sets *out (may be NULL); -EPIPE; -ENOMEM.
 *
 * [owner]
 */
NIB_API int nib_timer(struct nib_conn *conn, unsigned after_ms,
                      void (*fire)(struct nib_conn *conn, void *arg),
                      void *arg, struct nib_timer **out);

/*
 * Ends a timer before it fires; NULL is allowed.
 *
 * [owner]
 */
NIB_API void nib_timer_free(struct nib_timer *timer);

/* ------------------------------------------------------------------------
 * Topics
 *
 * A publish reaches every connection that was subscribed before it, in one
 * order for each topic. Between messages sent to a connection directly and
 * published ones no order is promised; each stream is in order, and whole
 * messages never mix.
 */

/*
 * Subscribes a connection to a topic: 1 to 1024 bytes, any text. It gets
 * every message published after this call returned. Idempotent.
 *
 * Returns 0; -EINVAL for a name that is too long or empty; -EPIPE; -EAGAIN if
 * nib_config_set_commands wait for this connection already; -ENOMEM;
 * -ECANCELED.
 *
 * [any]
 */
NIB_API int nib_subscribe(struct nib_conn *conn, const char *topic);

/*
 * Ends a subscription; what was published before is still delivered.
 *
 * Returns as nib_subscribe(); 0 also if there was none.
 *
 * [any]
 */
NIB_API int nib_unsubscribe(struct nib_conn *conn, const char *topic);

/*
 * Publishes a message to a topic: one append to each reactor's log, however
 * many listen. The caller keeps its reference.
 *
 * A topic takes at most half of nib_config_set_topic_bytes before its
 * subscribers have been written to; beyond that a publish waits, in turn with
 * others, up to nib_config_set_send_timeout_ms. A subscriber that does not
 * read, and falls back by more than the outbox's bytes and one message, is
 * closed with 1013.
 *
 * from   the connection that the message came from, served first; or NULL
 * flags  NIB_NOWAIT, NIB_TRUSTED or 0
 *
 * Returns 0 when queued for every subscriber (also if there is none).
 *   -EAGAIN    no room, and not waiting (NIB_NOWAIT, or on a reactor, where
 *              on_room of `from` follows); nothing was queued
 *   -ETIMEDOUT no room in time; nothing was queued
 *   -EMSGSIZE  over the largest message, or can never fit
 *   -EILSEQ    NIB_TEXT and not UTF-8
 *   -EINVAL    a topic's name that is too long or empty
 *   -ENOMEM, -ECANCELED
 *
 * [wait]
 */
NIB_API int nib_publish(struct nib_server *srv, const char *topic,
                        struct nib_message *msg, struct nib_conn *from,
                        unsigned flags);

/* What became of one publish. */
struct nib_publish_counts {
    uint64_t queued;  /* subscribers that the message was queued for */
    uint64_t dropped; /* subscribers that lost messages by it */
    uint64_t closed;  /* subscribers closed by it as slow */
};

/*
 * nib_publish() that waits until every reactor has appended the message, and
 * tells how many subscribers it met.
 *
 * Returns as nib_publish(); -EDEADLK on a reactor, with nothing queued.
 *
 * [wait]
 */
NIB_API int nib_publish_wait(struct nib_server *srv, const char *topic,
                             struct nib_message *msg, struct nib_conn *from,
                             unsigned flags,
                             struct nib_publish_counts *counts);

#ifdef __cplusplus
}
#endif

#endif
