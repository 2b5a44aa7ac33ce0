/*
 * listener - accept, limits, placement.
 */
#include "server/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "server/conn.h"
#include "server/server.h"

enum {
    ACCEPTS_PER_TURN = 64,
    PAUSE_MS = 100, /* after running out of descriptors */
};

static struct nib__listener *listener_of_source(struct nib__source *source)
{
    return (struct nib__listener *)((char *)source -
                                    offsetof(struct nib__listener, source));
}

static struct nib__listener *listener_of_timer(struct nib__timer *timer)
{
    return (struct nib__listener *)((char *)timer -
                                    offsetof(struct nib__listener, pause));
}

/* A socket on its way to the reactor that will own it. */
struct adoption {
    struct nib__record record;
    struct nib__shard *shard;
    struct nib__peer peer;
    enum nib_tls_mode mode;
    int fd;
};

static void adoption_run(struct nib__record *record) NIB__OWNER_ONLY;
static void adoption_run(struct nib__record *record)
{
    struct adoption *a = (struct adoption *)record;

    nib__conn_adopt(a->shard, a->fd, &a->peer, a->mode);
    nib__free(a);
}

static void adoption_cancel(struct nib__record *record) NIB__OWNER_ONLY;
static void adoption_cancel(struct nib__record *record)
{
    struct adoption *a = (struct adoption *)record;

    close(a->fd);
    nib__addresses_leave(&a->shard->server->addresses, &a->peer);
    nib__shard_left(a->shard);
    nib__free(a);
}

/* The shard that a new connection should go to. */
static struct nib__shard *place(struct nib__shard *here)
{
    struct nib_server *srv = here->server;
    struct nib__shard *least = here;
    unsigned count, fewest;

    count = fewest = atomic_load_explicit(&here->count, memory_order_relaxed);
    for (unsigned i = 0; i < srv->shard_count; i++) {
        unsigned n = atomic_load_explicit(&srv->shards[i].count,
                                          memory_order_relaxed);

        if (n < fewest) {
            fewest = n;
            least = &srv->shards[i];
        }
    }
    return count > fewest + count / 8 ? least : here;
}

/* Gives a counted socket to its owner. */
static void give(struct nib__shard *here, int fd,
                 const struct nib__peer *peer, enum nib_tls_mode mode)
    NIB__OWNER_ONLY;
static void give(struct nib__shard *here, int fd,
                 const struct nib__peer *peer, enum nib_tls_mode mode)
{
    struct nib__shard *to = place(here);
    struct adoption *a = NULL;

    if (to != here)
        a = nib__alloc(sizeof *a);
    if (a == NULL)
        to = here;
    atomic_fetch_add_explicit(&to->count, 1, memory_order_relaxed);
    if (to == here) {
        nib__conn_adopt(here, fd, peer, mode);
        return;
    }
    *a = (struct adoption){
        .shard = to, .peer = *peer, .mode = mode, .fd = fd};
    a->record.run = adoption_run;
    a->record.cancel = adoption_cancel;
    if (nib__mailbox_post(&to->reactor.mailbox, &a->record) < 0)
        adoption_cancel(&a->record);
}

/*
 * One connection too many: 503, without a thought for slow readers; nothing
 * where it might be read as TLS.
 */
static void turn_away(struct nib__listener *listener, int fd,
                      const char *why) NIB__OWNER_ONLY;
static void turn_away(struct nib__listener *listener, int fd,
                      const char *why)
{
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                 "Content-Length: 0\r\n"
                                 "Retry-After: 1\r\n"
                                 "Connection: close\r\n\r\n";
    struct nib__shard *shard = listener->shard;
    struct nib_server *srv = shard->server;
    char scrap[4096];

    nib__count(&shard->counters.refused, 1);
    nib__log_limited(&srv->config->log, &srv->log_limit_limits,
                     NIB__LOG_WARN, shard->reactor.now_ms,
                     "connection refused: %s", why);
    if (listener->mode == NIB_TLS_OFF)
        (void)!send(fd, answer, sizeof answer - 1,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    /* Bytes left unread would turn the end into a reset. */
    shutdown(fd, SHUT_WR);
    (void)!recv(fd, scrap, sizeof scrap, MSG_DONTWAIT);
    close(fd);
}

/* Checks the limits and counts the connection in, or says what is full. */
static const char *enter(struct nib_server *srv,
                         const struct nib__peer *peer)
{
    const struct nib__limits *l = nib__limits(srv);

    if (l->max_handshakes != 0 &&
        atomic_load_explicit(&srv->handshakes, memory_order_relaxed) >=
            l->max_handshakes)
        return "too many handshakes";
    if (atomic_fetch_add_explicit(&srv->connections, 1,
                                  memory_order_relaxed) >=
        l->max_connections) {
        atomic_fetch_sub_explicit(&srv->connections, 1,
                                  memory_order_relaxed);
        return "too many connections";
    }
    if (!nib__addresses_enter(&srv->addresses, peer)) {
        atomic_fetch_sub_explicit(&srv->connections, 1,
                                  memory_order_relaxed);
        return "too many connections from one address";
    }
    return NULL;
}

static void accepted(struct nib__listener *listener, int fd,
                     const struct nib__peer *peer) NIB__OWNER_ONLY;
static void accepted(struct nib__listener *listener, int fd,
                     const struct nib__peer *peer)
{
    struct nib__shard *shard = listener->shard;
    const struct nib__limits *l = nib__limits(shard->server);
    const char *full = enter(shard->server, peer);

    if (full != NULL) {
        turn_away(listener, fd, full);
        return;
    }
    nib__count(&shard->counters.accepted, 1);
    nib__socket_buffers(fd, l->socket_send_bytes, l->socket_receive_bytes);
    give(shard, fd, peer, listener->mode);
}

/* Gives the reserve up for one connection, to answer it at least. */
static void spend_reserve(struct nib__listener *listener) NIB__OWNER_ONLY;
static void spend_reserve(struct nib__listener *listener)
{
    struct nib__shard *shard = listener->shard;
    struct nib__peer peer;
    int fd;

    if (shard->reserve_fd < 0)
        return;
    close(shard->reserve_fd);
    if (nib__socket_accept(listener->fd, &fd, &peer) == 0)
        turn_away(listener, fd, "out of descriptors");
    shard->reserve_fd = fcntl(shard->reactor.mailbox.eventfd,
                              F_DUPFD_CLOEXEC, 0);
}

/* No descriptor is left: waits, rather than be told again at once. */
static void pause_accepting(struct nib__listener *listener, int err)
    NIB__OWNER_ONLY;
static void pause_accepting(struct nib__listener *listener, int err)
{
    struct nib__shard *shard = listener->shard;
    struct nib_server *srv = shard->server;

    nib__log_limited(&srv->config->log, &srv->log_limit_files,
                     NIB__LOG_WARN, shard->reactor.now_ms,
                     "accept: %s; pausing", nib_strerror(err));
    nib__poller_remove(&shard->reactor.poller, &listener->source);
    nib__timer_arm(&shard->reactor.timers, &listener->pause,
                   shard->reactor.now_ms + PAUSE_MS);
}

static void ready(struct nib__source *source, uint32_t events)
    NIB__OWNER_ONLY;
static void ready(struct nib__source *source, uint32_t events)
{
    struct nib__listener *listener = listener_of_source(source);

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct nib__peer peer;
        int fd, err = nib__socket_accept(listener->fd, &fd, &peer);

        if (err == -EAGAIN)
            return;
        if (err == -EMFILE || err == -ENFILE || err == -ENOBUFS ||
            err == -ENOMEM) {
            spend_reserve(listener);
            pause_accepting(listener, err);
            return;
        }
        if (err == 0)
            accepted(listener, fd, &peer);
    }
}

static int watch(struct nib__listener *listener) NIB__OWNER_ONLY;
static int watch(struct nib__listener *listener)
{
    return nib__poller_add(&listener->shard->reactor.poller,
                           &listener->source, listener->fd,
                           EPOLLIN | EPOLLEXCLUSIVE);
}

static void pause_over(struct nib__timer *timer) NIB__OWNER_ONLY;
static void pause_over(struct nib__timer *timer)
{
    struct nib__listener *listener = listener_of_timer(timer);

    if (watch(listener) < 0)
        nib__timer_arm(&listener->shard->reactor.timers, timer,
                       listener->shard->reactor.now_ms + PAUSE_MS);
}

int nib__listeners_open(struct nib__shard *shard) NIB__NO_ANALYSIS
{
    struct nib_server *srv = shard->server;
    unsigned count = srv->config->listen_count;
    int err = 0;

    shard->listeners = nib__alloc_array(count + 1, sizeof *shard->listeners);
    if (shard->listeners == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < count && err == 0; i++) {
        struct nib__listener *listener = &shard->listeners[i];

        *listener = (struct nib__listener){.shard = shard,
                                           .fd = srv->listen_fds[i],
                                           .mode = srv->config->listens[i].tls};
        listener->source.fd = -1;
        listener->source.ready = ready;
        nib__timer_init(&listener->pause, pause_over);
        err = nib__timers_reserve(&shard->reactor.timers);
        if (err == 0)
            err = watch(listener);
    }
    if (err < 0)
        nib__listeners_free(shard);
    return err;
}

void nib__listeners_stop(struct nib__shard *shard)
{
    for (unsigned i = 0; i < shard->server->config->listen_count; i++) {
        struct nib__listener *listener = &shard->listeners[i];

        nib__poller_remove(&shard->reactor.poller, &listener->source);
        nib__timer_disarm(&shard->reactor.timers, &listener->pause);
    }
}

void nib__listeners_free(struct nib__shard *shard) NIB__NO_ANALYSIS
{
    nib__free(shard->listeners);
    shard->listeners = NULL;
}
