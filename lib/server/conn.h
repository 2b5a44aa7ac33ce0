/*
 * conn - one connection: its states, and what its parts share.
 *
 * The owner alone runs the state machine and touches everything marked
 * NIB__OWNED. Other threads use the outbox and the inbox, each under its own
 * lock, the atomics, and what is set once before they can see it.
 *
 *   FIRST, SHAKING, if the address speaks TLS: see conn_tls.h; then
 *   HEAD --plain request--> ANSWER --kept alive--> HEAD
 *     |                        \--> LINGER
 *     |--upgrade--> PENDING --accept--> OPEN --a Close--> CLOSING --> LINGER
 *                      \------reject--> ANSWER --> LINGER
 *   and from each of them, at the end of TCP or at a deadline: --> CLOSED
 *
 * In LINGER this side has said its last byte (SHUT_WR) and reads until the
 * peer has, so that no reset eats what is on its way.
 */
#ifndef NIB_SERVER_CONN_H
#define NIB_SERVER_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nib.h"
#include "protocol/assembler.h"
#include "protocol/handshake.h"
#include "server/inbox.h"
#include "server/outbox.h"
#include "server/server.h"
#include "system/socket.h"
#include "system/transport.h"
#include "threads/mailbox.h"
#include "threads/oneshot.h"
#include "threads/reactor.h"

struct nib__member;

enum nib__phase {
    NIB__FIRST,   /* waits for the byte that tells TLS from plain */
    NIB__SHAKING, /* the TLS handshake; perhaps lent to a worker */
    NIB__HEAD,    /* reads a request's head, or skips its body */
    NIB__PENDING, /* an upgrade waits for its decision; not reading */
    NIB__ANSWER,  /* an HTTP answer is being written; not reading */
    NIB__OPENED,
    NIB__CLOSING, /* a Close is queued, or was received */
    NIB__LINGER,
    NIB__ENDED_CONN,
};

/* A Close with its reason, encoded; made by whoever closes. */
struct nib__ending {
    uint8_t len;            /* of the frame */
    uint8_t frame[127 + 1]; /* and a NUL: the reason is a string */
};

/* Control frames that wait for the end of a frame; taken when needed. */
struct nib__control {
    uint16_t len;
    uint16_t off;       /* already written */
    uint16_t last_pong; /* where the newest one begins */
    uint8_t pongs;      /* waiting */
    uint8_t bytes[(16 + 2) * 127];
};

/* Received bytes that had no room yet. */
struct nib__stash {
    size_t len;
    size_t off; /* already used */
    uint8_t bytes[];
};

/* A call that waits in a connection; lies on its caller's stack. */
struct nib__parked {
    struct nib__record record;
    struct nib__parked *next;
    struct nib_conn *conn;
    struct nib__oneshot done;
    uint64_t due_ms;   /* UINT64_MAX: none of its own */
    uint64_t written;  /* flush: the outbox's `written` to be reached */
    bool flush;        /* else it waits for the end */
};

struct nib_conn {
    _Atomic unsigned refs;
    _Atomic unsigned commands; /* that wait, of nib__conn_command() */
    _Atomic uint8_t state;  /* enum nib_conn_state, for anybody */
    _Atomic bool pinging;   /* a ping of nib_ping() is unanswered */
    _Atomic bool opened;    /* the 101 was queued; set by the owner */
    struct nib__shard *shard;
    const struct nib_route *route;
    uint64_t id;
    void *_Atomic user;
    char *subprotocol;      /* NULL: none */
    struct nib__outbox out;
    struct nib__inbox *in;  /* NULL: callbacks */
    struct nib__record record; /* its ops are in the outbox */

    uint8_t phase NIB__OWNED; /* enum nib__phase */
    uint8_t todo NIB__OWNED;  /* ops that the next task run does */
    bool paused NIB__OWNED;   /* by the application */
    bool no_room NIB__OWNED;  /* the inbox is full */
    bool peer_done NIB__OWNED;     /* RDHUP was seen: EOF comes, in order */
    bool close_received NIB__OWNED;
    bool close_now NIB__OWNED;     /* what else waits was dropped */
    bool close_sent NIB__OWNED;    /* to the last byte */
    bool peer_failed NIB__OWNED;   /* closing because it broke the rules */
    bool reset NIB__OWNED;         /* ended by this side, without a Close */
    bool keep NIB__OWNED;          /* after the answer, another request */
    bool log_first NIB__OWNED;     /* whose turn it is to be written */
    uint8_t busy_tries NIB__OWNED; /* flushes that found the lock taken */
    uint8_t close_off NIB__OWNED;  /* of the Close frame: written */
    uint8_t close_len NIB__OWNED;  /* 0: it is not its time yet */
    uint8_t close_small[4] NIB__OWNED; /* a Close without a reason */
    bool writable NIB__OWNED;      /* EPOLLOUT came since the write blocked */
    bool handshake NIB__OWNED;     /* counted in server->handshakes */
    struct nib__source source NIB__OWNED;
    struct nib__transport *transport NIB__OWNED;
    struct nib__conn_tls *tls NIB__OWNED; /* NULL: plain */
    struct nib__timer timer NIB__OWNED;
    struct nib__task task NIB__OWNED;
    struct nib_conn *next NIB__OWNED; /* of the shard's list */
    struct nib_conn **place NIB__OWNED;
    struct nib__assembler assembler NIB__OWNED;
    struct nib_request *request NIB__OWNED; /* not decided yet, or its head
                                               is being read */
    struct nib__stash *stash NIB__OWNED;
    struct nib__control *control NIB__OWNED;
    struct nib__parked *parked NIB__OWNED;
    struct nib__ping *ping NIB__OWNED;   /* of nib_ping() */
    struct nib__member *members NIB__OWNED; /* subscriptions */
    struct nib__extra *extras NIB__OWNED;   /* watches and timers */
    struct nib__peer peer;
    uint64_t deadline_ms NIB__OWNED;  /* of the phase; UINT64_MAX: none */
    uint64_t ping_due_ms NIB__OWNED;
    uint64_t pong_due_ms NIB__OWNED;  /* UINT64_MAX: no ping is out */
    uint64_t active_ms NIB__OWNED;    /* last message either way */
    uint64_t progress_ms NIB__OWNED;  /* blocked: the last byte written; or
                                         UINT64_MAX: not blocked */
    uint32_t rate_second NIB__OWNED;  /* of the count of control frames */
    uint32_t rate_count NIB__OWNED;
};

/* A connection's reactor. [any] */
static inline struct nib__reactor *nib__conn_reactor(const struct nib_conn *c)
{
    return &c->shard->reactor;
}

/* Is this the owner's thread? [any] */
static inline bool nib__conn_here(const struct nib_conn *c)
{
    return nib__reactor_here(&c->shard->reactor);
}

static inline const struct nib__limits *
nib__conn_limits(const struct nib_conn *c)
{
    return &c->shard->server->config->limits;
}

/* ---- conn.c: birth, deadlines, the record ---- */

/*
 * Takes a connected socket over, on its owner. The caller has counted it in
 * server->connections; the connection counts it out. A socket for which there
 * is no memory is closed. `mode` is what its address speaks.
 */
void nib__conn_adopt(struct nib__shard *shard, int fd,
                     const struct nib__peer *peer,
                     enum nib_tls_mode mode) NIB__OWNER_ONLY;

/* Posts the connection's record, after nib__outbox_ask() said so. [any] */
void nib__conn_post(struct nib_conn *c);

/* Asks the owner for ops: by the record, or at once on its thread. [any] */
void nib__conn_ask(struct nib_conn *c, uint8_t ops);

/*
 * Posts a command of which an application may leave many. Returns 0; -EAGAIN
 * if too many of this connection wait; -ECANCELED. Each command, refused or
 * not, is counted out by nib__conn_command_over() at its end. [any]
 */
int nib__conn_command(struct nib_conn *c, struct nib__record *record);
void nib__conn_command_over(struct nib_conn *c);

/* Lists the connection's task: its ops, its reading, its flush. */
void nib__conn_soon(struct nib_conn *c) NIB__OWNER_ONLY;

/* Sets the phase's deadline, after_ms from now; UINT64_MAX: none. */
void nib__conn_deadline(struct nib_conn *c, uint64_t after_ms)
    NIB__OWNER_ONLY;

/* Arms the timer for the nearest deadline, if that has come closer. */
void nib__conn_arm(struct nib_conn *c) NIB__OWNER_ONLY;

/* Makes epoll wait for what phase, pauses and outbox ask for. */
void nib__conn_watch(struct nib_conn *c) NIB__OWNER_ONLY;

/* The request is decided: no handshake any more, for the statistics. */
void nib__conn_decided(struct nib_conn *c) NIB__OWNER_ONLY;

/* ---- conn_read.c ---- */

/* Reads once and uses what came. */
void nib__conn_read(struct nib_conn *c) NIB__OWNER_ONLY;

/* Uses what the stash holds, then goes on reading. */
void nib__conn_resume_reading(struct nib_conn *c) NIB__OWNER_ONLY;

/* Goes on, soon, if the transport holds bytes that epoll does not know of. */
void nib__conn_read_on(struct nib_conn *c) NIB__OWNER_ONLY;

/* May the connection read now? */
bool nib__conn_reading(const struct nib_conn *c) NIB__OWNER_ONLY;

/* ---- conn_write.c ---- */

/* Writes what waits, as far as the kernel takes it. */
void nib__conn_flush(struct nib_conn *c) NIB__OWNER_ONLY;

/* Queues a ping or pong ahead of data. Returns 0 or -ENOMEM. */
int nib__conn_control(struct nib_conn *c, uint8_t opcode, const void *data,
                      size_t len) NIB__OWNER_ONLY;

/* Links a chunk of HTTP text. */
void nib__conn_text(struct nib_conn *c, struct nib__chunk *chunk)
    NIB__OWNER_ONLY;

/* ---- conn_end.c: closing ---- */

/* Makes the Close frame for nib_close(); NULL: no reason, or no memory. */
struct nib__ending *nib__ending_new(unsigned code, const char *reason,
                                    size_t len);

/*
 * Decides the close in the outbox: no more sends, waiters are refused. The
 * first code stays. Takes `ending` over. Returns whether it was this call
 * that decided; then the caller asks for NIB__OP_CLOSE. [any]
 */
bool nib__conn_decide_close(struct nib_conn *c, unsigned code,
                            struct nib__ending *ending);

/* NIB__OP_CLOSE: nib_close() was decided; Close goes after all data. */
void nib__conn_close_ordered(struct nib_conn *c) NIB__OWNER_ONLY;

/*
 * Closes at once: what waits is dropped but for the rest of a frame. For
 * protocol errors, slow subscribers and the like. `final`: nothing that the
 * peer says afterwards is looked at.
 */
void nib__conn_fail(struct nib_conn *c, unsigned code, const char *reason,
                    bool final) NIB__OWNER_ONLY;

/* The peer's Close came, with code (1005: none) and reason. */
void nib__conn_peer_close(struct nib_conn *c, unsigned code,
                          const uint8_t *reason, size_t len) NIB__OWNER_ONLY;

/* The Close frame has been written, or there is none to write. */
void nib__conn_close_written(struct nib_conn *c) NIB__OWNER_ONLY;

/* Orderly stop: Close 1001, or 503 for a request. */
void nib__conn_drain(struct nib_conn *c) NIB__OWNER_ONLY;

/* Says the last byte and waits for the peer's. */
void nib__conn_linger(struct nib_conn *c) NIB__OWNER_ONLY;

/*
 * The end: closes the socket (with a reset if `reset`), answers every
 * waiting call, tells the application. Idempotent.
 */
void nib__conn_end(struct nib_conn *c, bool reset) NIB__OWNER_ONLY;

/* Answers parked calls whose deadline or condition has come. */
void nib__conn_parked(struct nib_conn *c) NIB__OWNER_ONLY;

/* ---- http.c: requests on a connection ---- */

/* Uses bytes of the HTTP phase. Returns how many; the rest is kept. */
size_t nib__http_feed(struct nib_conn *c, uint8_t *p, size_t n)
    NIB__OWNER_ONLY;

/* The answer has been written: the next request, or the end. */
void nib__http_written(struct nib_conn *c) NIB__OWNER_ONLY;

/* Answers with a status of the server's own, and ends after it. */
void nib__http_refuse(struct nib_conn *c, int status, const char *text,
                      const char *headers) NIB__OWNER_ONLY;

/* ---- request.c ---- */

/* The peer has gone, or the deadline has come, before a decision. Returns
   false if somebody has decided just now. */
bool nib__request_withdraw(struct nib_request *req, int result);

/* ---- extra.c: watches and timers of the application ---- */

/* Frees all watches and timers of a connection. */
void nib__extras_free(struct nib_conn *c) NIB__OWNER_ONLY;

/* Runs a callback of the application under the watchdog's eye. */
#define NIB__CALL(c, callback, ...)                                        \
    do {                                                                   \
        nib__callback_begin(nib__conn_reactor(c), #callback);              \
        (c)->route->callbacks.callback(__VA_ARGS__);                       \
        nib__callback_end(nib__conn_reactor(c));                           \
    } while (0)

static inline void nib__callback_begin(struct nib__reactor *r,
                                       const char *name)
{
    atomic_store_explicit(&r->callback, name, memory_order_relaxed);
}

static inline void nib__callback_end(struct nib__reactor *r)
{
    atomic_store_explicit(&r->callback, NULL, memory_order_relaxed);
}

#endif
