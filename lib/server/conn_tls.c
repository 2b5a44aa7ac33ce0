/*
 * conn_tls - from the first byte to the first request.
 *
 *   FIRST --a TLS record--> SHAKING --done--> HEAD
 *       \--anything else------------------/
 *
 * SHAKING is a row of loans: the socket is ready, the transport goes to a
 * worker for a step, it comes back and says what it waits for.
 */
#include "server/conn_tls.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "system/tls.h"

enum { TLS_HANDSHAKE_RECORD = 0x16 }; /* RFC 8446, 5.1 */

void nib__conn_tls_expect(struct nib_conn *c, enum nib_tls_mode mode)
{
    static const uint8_t first[] = {
        [NIB_TLS_OFF] = NIB__HEAD,
        [NIB_TLS_ON] = NIB__SHAKING,
        [NIB_TLS_AUTO] = NIB__FIRST,
    };

    c->phase = first[mode];
}

bool nib__conn_tls_hold(struct nib_conn *c)
{
    if (c->tls == NULL || !c->tls->lent)
        return false;
    c->tls->end = true;
    return true;
}

/* The handshake is not going on any more. */
static void count_out(struct nib__conn_tls *tls) NIB__OWNER_ONLY;
static void count_out(struct nib__conn_tls *tls)
{
    if (tls->shaking)
        atomic_fetch_sub_explicit(&tls->conn->shard->server->tls_handshakes,
                                  1, memory_order_relaxed);
    tls->shaking = false;
}

void nib__conn_tls_free(struct nib_conn *c)
{
    if (c->tls == NULL)
        return;
    if (c->tls->shaking)
        nib__count(&c->shard->counters.tls_failed, 1);
    count_out(c->tls);
    atomic_fetch_sub_explicit(&c->shard->server->tls_connections, 1,
                              memory_order_relaxed);
    nib__tls_context_unref(c->tls->context);
    nib__free(c->tls);
    c->tls = NULL;
}

static void failed(struct nib_conn *c, const char *why) NIB__OWNER_ONLY;
static void failed(struct nib_conn *c, const char *why)
{
    struct nib_server *srv = c->shard->server;
    char peer[NIB__ADDRESS_TEXT];

    if (c->tls == NULL) /* else its end counts it */
        nib__count(&c->shard->counters.tls_failed, 1);
    nib__peer_text(&c->peer, peer);
    nib__log_limited(&srv->config->log, &srv->log_limit_peers, NIB__LOG_INFO,
                     nib__conn_reactor(c)->now_ms,
                     "%s: TLS handshake failed: %s", peer, why);
    nib__conn_end(c, false);
}

/* One more of something of which there are so many at most. */
static bool count_in(_Atomic unsigned *count, unsigned most)
{
    if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < most ||
        most == 0)
        return true;
    atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
    return false;
}

/* Room for one more TLS connection, or what is full. */
static const char *enter(struct nib_conn *c)
{
    struct nib_server *srv = c->shard->server;
    const struct nib__limits *l = nib__conn_limits(c);

    if (!count_in(&srv->tls_connections, l->max_tls))
        return "too many TLS connections";
    if (count_in(&srv->tls_handshakes, l->max_tls_handshakes))
        return NULL;
    atomic_fetch_sub_explicit(&srv->tls_connections, 1, memory_order_relaxed);
    return "too many TLS handshakes";
}

static void came_back(struct nib__record *record) NIB__OWNER_ONLY;

/* Makes the session, for a worker that has its turn. 0 or -ENOMEM. */
static int make_session(struct nib_conn *c) NIB__OWNER_ONLY;
static int make_session(struct nib_conn *c)
{
    struct nib_server *srv = c->shard->server;
    struct nib__conn_tls *tls = c->tls;

    tls->context = nib__tls_slot_get(&srv->tls);
    tls->worker = nib__workers_pick(&srv->workers);
    return nib__tls_new(tls->context->engines[tls->worker], NULL,
                        &c->transport);
}

/* The first bytes of a TLS connection are there. */
static bool begin(struct nib_conn *c) NIB__OWNER_ONLY;
static bool begin(struct nib_conn *c)
{
    const char *full = enter(c);
    struct nib__conn_tls *tls;

    if (full != NULL) {
        nib__count(&c->shard->counters.refused, 1);
        failed(c, full);
        return false;
    }
    tls = nib__alloc_zero(sizeof *tls);
    if (tls == NULL) {
        struct nib_server *srv = c->shard->server;

        atomic_fetch_sub_explicit(&srv->tls_connections, 1,
                                  memory_order_relaxed);
        atomic_fetch_sub_explicit(&srv->tls_handshakes, 1,
                                  memory_order_relaxed);
        failed(c, "no memory");
        return false;
    }
    tls->conn = c;
    tls->shaking = true;
    tls->loan.back.run = came_back;
    tls->loan.back.cancel = came_back;
    tls->loan.mailbox = &nib__conn_reactor(c)->mailbox;
    tls->loan.fd = c->source.fd;
    c->tls = tls;
    if (make_session(c) < 0) {
        failed(c, "no memory");
        return false;
    }
    tls->loan.transport = c->transport;
    return true;
}

/*
 * Lends the transport. The socket leaves the epoll set, which would report a
 * hangup of it again and again.
 */
static void lend(struct nib_conn *c) NIB__OWNER_ONLY;
static void lend(struct nib_conn *c)
{
    struct nib__conn_tls *tls = c->tls;

    tls->lent = true;
    nib__poller_remove(&nib__conn_reactor(c)->poller, &c->source);
    nib_conn_ref(c);
    if (nib__workers_lend(&c->shard->server->workers, tls->worker,
                          &tls->loan) == 0)
        return;
    tls->lent = false;
    c->source.fd = tls->loan.fd;
    nib__count(&c->shard->counters.refused, 1);
    failed(c, "too many handshakes wait");
    nib_conn_unref(c);
}

/* The handshake is done: HTTP begins, perhaps with bytes that are here. */
static void shaken(struct nib_conn *c) NIB__OWNER_ONLY;
static void shaken(struct nib_conn *c)
{
    struct nib__counters *n = &c->shard->counters;
    struct nib__tls_info info;
    char peer[NIB__ADDRESS_TEXT];

    count_out(c->tls);
    nib__tls_info(c->transport, &info);
    nib__count(info.resumed ? &n->tls_resumed : &n->tls_full, 1);
    nib__peer_text(&c->peer, peer);
    nib__log(&c->shard->server->config->log, NIB__LOG_DEBUG, "%s: %s %s%s%s",
             peer, info.version, info.cipher, info.resumed ? ", resumed" : "",
             info.peer_name[0] != '\0' ? ", with a certificate" : "");
    c->phase = NIB__HEAD;
    nib__conn_read_on(c);
}

/* Watches the socket again, for what the next step needs. */
static bool watch_again(struct nib_conn *c, uint32_t events) NIB__OWNER_ONLY;
static bool watch_again(struct nib_conn *c, uint32_t events)
{
    int fd = c->tls->loan.fd;

    if (nib__poller_add(&nib__conn_reactor(c)->poller, &c->source, fd,
                        events | EPOLLRDHUP) == 0)
        return true;
    c->source.fd = fd;
    nib__conn_end(c, true);
    return false;
}

/* A step was made; or none, because the server stops. */
static void came_back(struct nib__record *record)
{
    struct nib__conn_tls *tls = (struct nib__conn_tls *)record;
    struct nib_conn *c = tls->conn;
    int result = tls->loan.result;

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    tls->lent = false;
    if (tls->end || result == -ECANCELED) {
        c->source.fd = tls->loan.fd;
        nib__conn_end(c, false);
    } else if (result == 0) {
        if (watch_again(c, EPOLLIN))
            shaken(c);
    } else if (result == NIB__WANT_READ) {
        watch_again(c, EPOLLIN);
    } else if (result == NIB__WANT_WRITE) {
        watch_again(c, EPOLLOUT);
    } else {
        c->source.fd = tls->loan.fd;
        failed(c, result == NIB__TRUNCATED ? "the client left"
                  : result == -EPROTO      ? nib__tls_error(c->transport)
                                           : nib_strerror(result));
    }
    nib_conn_unref(c);
}

/* TLS or plain? The first byte, which stays where it is, tells. */
static void look_first(struct nib_conn *c) NIB__OWNER_ONLY;
static void look_first(struct nib_conn *c)
{
    uint8_t byte;
    ssize_t n = recv(c->source.fd, &byte, 1, MSG_PEEK);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        nib__conn_end(c, false);
    } else if (byte == TLS_HANDSHAKE_RECORD) {
        c->phase = NIB__SHAKING;
        nib__conn_tls_ready(c);
    } else {
        c->phase = NIB__HEAD;
        nib__conn_read(c);
    }
}

void nib__conn_tls_ready(struct nib_conn *c)
{
    if (c->phase == NIB__FIRST)
        look_first(c);
    else if (c->tls != NULL || begin(c))
        lend(c);
}
