/*
 * server - making, starting, stopping and freeing.
 *
 * The order of a stop: listeners close, undecided requests get 503, open
 * connections Close 1001; reactors go on until the grace is over, then cut
 * off the rest, which answers every call that waits; handlers end; mailboxes
 * close and cancel what came late; threads are joined. The memory, and the
 * eventfds that a late poster may still write to, go with the last handle.
 */
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <fcntl.h>

#include "base/alloc.h"
#include "server/conn.h"
#include "server/topic.h"
#include "system/socket.h"
#include "threads/oneshot.h"

enum {
    BACKLOG = 4096,
    TICK_MS = 1000,  /* of the watchdog */
    STUCK_MS = 2000, /* a turn this long is reported */
    SLACK_BYTES = 256, /* of the read buffer */
};

struct nib_server *nib__server_ref(struct nib_server *srv)
{
    atomic_fetch_add_explicit(&srv->refs, 1, memory_order_relaxed);
    return srv;
}

static void destroy(struct nib_server *srv)
{
    for (unsigned i = 0; i < srv->shard_count; i++) {
        struct nib__shard *shard = &srv->shards[i];

        nib__mailbox_destroy(&shard->reactor.mailbox);
        nib__chunk_pool_destroy(&shard->pool);
        nib__fan_free(shard->fan);
    }
    nib__free(srv->shards);
    nib__free(srv->listen_fds);
    nib__free(srv->listen_names);
    nib__topics_free(srv->topics);
    nib__handlers_destroy(&srv->handlers);
    nib__tls_slot_destroy(&srv->tls);
    nib__addresses_destroy(&srv->addresses);
    nib_config_free(srv->config);
    nib__free(srv);
}

void nib__server_unref(struct nib_server *srv)
{
    if (atomic_fetch_sub_explicit(&srv->refs, 1, memory_order_acq_rel) == 1)
        destroy(srv);
}

/* ---- one shard's share in the server's life ---- */

/* Something that joiners wait for has changed. */
static void tell_joiners(struct nib_server *srv)
{
    atomic_fetch_add_explicit(&srv->stop_word, 1, memory_order_release);
    nib__futex_wake(&srv->stop_word, INT32_MAX);
}

static void wake_all(struct nib_server *srv)
{
    for (unsigned i = 0; i < srv->shard_count; i++)
        nib__mailbox_wake(&srv->shards[i].reactor.mailbox);
}

/* From one life to the next, once. */
static bool move_on(struct nib_server *srv, unsigned from, unsigned to)
{
    return atomic_compare_exchange_strong_explicit(
        &srv->life, &from, to, memory_order_acq_rel, memory_order_acquire);
}

/* Does no reactor accept any more, and is no connection left? */
static bool all_gone(struct nib_server *srv)
{
    return atomic_load_explicit(&srv->drained, memory_order_acquire) ==
               srv->shard_count &&
           atomic_load_explicit(&srv->connections, memory_order_acquire) ==
               0;
}

void nib__shard_left(struct nib__shard *shard)
{
    struct nib_server *srv = shard->server;

    atomic_fetch_sub_explicit(&shard->count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&srv->connections, 1, memory_order_acq_rel);
    if (shard->draining && all_gone(srv))
        tell_joiners(srv);
}

/* Closes the sockets that no reactor looks at any more. */
static void close_listeners(struct nib_server *srv)
{
    if (srv->listen_fds == NULL)
        return; /* there was no memory for them */
    for (unsigned i = 0; i < srv->config->listen_count; i++) {
        if (srv->listen_fds[i] < 0)
            continue;
        nib__socket_unlink(srv->config->listens[i].address, srv->listen_fds[i]);
        close(srv->listen_fds[i]);
        srv->listen_fds[i] = -1;
    }
}

/* Calls `what` for every connection, any of which it may end. */
static void each_conn(struct nib__shard *shard,
                      void (*what)(struct nib_conn *c)) NIB__OWNER_ONLY;
static void each_conn(struct nib__shard *shard,
                      void (*what)(struct nib_conn *c))
{
    struct nib_conn *c = shard->conns;

    while (c != NULL) {
        struct nib_conn *next = c->next;

        /* Ending one may run a callback, but no callback ends another. */
        what(c);
        c = next;
    }
}

static void drain_one(struct nib_conn *c) NIB__OWNER_ONLY;
static void drain_one(struct nib_conn *c)
{
    nib__conn_drain(c);
}

static void cut_off_one(struct nib_conn *c) NIB__OWNER_ONLY;
static void cut_off_one(struct nib_conn *c)
{
    /* A reset would eat the answer that has just been written. */
    nib__conn_end(c, c->phase != NIB__LINGER);
}

static void begin_draining(struct nib__shard *shard) NIB__OWNER_ONLY;
static void begin_draining(struct nib__shard *shard)
{
    struct nib_server *srv = shard->server;

    shard->draining = true;
    nib__listeners_stop(shard);
    nib__handlers_close(&srv->handlers);
    nib__workers_hurry(&srv->workers);
    each_conn(shard, drain_one);
    if (atomic_fetch_add_explicit(&srv->drained, 1, memory_order_acq_rel) +
            1 ==
        srv->shard_count)
        close_listeners(srv);
    tell_joiners(srv);
}

/* The grace, if it is over, ends here; else the tick looks again. */
static void check_grace(struct nib__shard *shard, enum nib__life life)
    NIB__OWNER_ONLY;
static void check_grace(struct nib__shard *shard, enum nib__life life)
{
    struct nib_server *srv = shard->server;
    uint64_t stop_at = atomic_load_explicit(&srv->stop_at_ms,
                                            memory_order_acquire);

    if (life == NIB__DRAINING && nib__clock_ms() >= stop_at) {
        if (move_on(srv, NIB__DRAINING, NIB__STOPPING))
            wake_all(srv);
        life = NIB__STOPPING;
    }
    if (life >= NIB__STOPPING) {
        each_conn(shard, cut_off_one);
        tell_joiners(srv);
        return;
    }
    nib__timer_arm(&shard->reactor.timers, &shard->tick, stop_at);
}

static bool turn(struct nib__reactor *r) NIB__OWNER_ONLY;
static bool turn(struct nib__reactor *r)
{
    struct nib__shard *shard = nib__shard_of(r);
    enum nib__life life = nib__server_life(shard->server);

    if (life < NIB__DRAINING)
        return true;
    if (life == NIB__ENDED)
        return false;
    if (!shard->draining) {
        begin_draining(shard);
        /* Even with no grace, what was queued is written once: the 503. */
        nib__timer_arm(&shard->reactor.timers, &shard->tick, 0);
    } else if (shard->conns != NULL) {
        check_grace(shard, life);
    }
    return true;
}

/* Reports the other reactors whose turn takes too long. */
static void watch_others(struct nib__shard *shard) NIB__OWNER_ONLY;
static void watch_others(struct nib__shard *shard)
{
    struct nib_server *srv = shard->server;
    uint64_t now = nib__clock_ms();

    for (unsigned i = 0; i < srv->shard_count; i++) {
        struct nib__reactor *r = &srv->shards[i].reactor;
        uint64_t since = atomic_load_explicit(&r->busy_since_ms,
                                              memory_order_relaxed);
        const char *callback = atomic_load_explicit(&r->callback,
                                                    memory_order_relaxed);

        if (since == 0 || now < since + STUCK_MS || i == shard->reactor.number)
            continue;
        nib__log_limited(&srv->config->log, &srv->log_limit_stuck,
                         NIB__LOG_ERROR, now,
                         "reactor %u is stuck in %s for %llu ms", i,
                         callback == NULL ? "its own work" : callback,
                         (unsigned long long)(now - since));
    }
}

static int64_t fan(struct nib__reactor *r) NIB__OWNER_ONLY;
static int64_t fan(struct nib__reactor *r)
{
    return nib__fan_run(nib__shard_of(r));
}

static void ticked(struct nib__timer *timer) NIB__OWNER_ONLY;
static void ticked(struct nib__timer *timer)
{
    struct nib__shard *shard =
        (struct nib__shard *)((char *)timer -
                              offsetof(struct nib__shard, tick));

    watch_others(shard);
    if (shard->server->shard_count > 1 && !shard->draining)
        nib__timer_arm(&shard->reactor.timers, timer,
                       shard->reactor.now_ms + TICK_MS);
}

/* ---- making ---- */

static int shard_init(struct nib_server *srv, unsigned number)
    NIB__NO_ANALYSIS
{
    struct nib__shard *shard = &srv->shards[number];
    int err;

    err = nib__reactor_init(&shard->reactor, number,
                            nib__limits(srv)->stash_bytes + SLACK_BYTES);
    if (err < 0)
        return err;
    shard->server = srv;
    shard->reserve_fd = -1;
    shard->reactor.owner = shard;
    shard->reactor.turn = turn;
    shard->reactor.fan = fan;
    nib__chunk_pool_init(&shard->pool, &srv->outbox_total,
                         nib__limits(srv)->outbox_total_bytes);
    nib__timer_init(&shard->tick, ticked);
    shard->fan = nib__fan_new();
    err = shard->fan == NULL ? -ENOMEM
                             : nib__timers_reserve(&shard->reactor.timers);
    if (err < 0) {
        nib__fan_free(shard->fan);
        nib__chunk_pool_destroy(&shard->pool);
        nib__reactor_destroy(&shard->reactor);
        nib__mailbox_destroy(&shard->reactor.mailbox);
    }
    return err;
}

static int make_shards(struct nib_server *srv)
{
    unsigned count = nib__limits(srv)->reactors;
    int err = 0;

    srv->shards = nib__alloc_zero(count * sizeof *srv->shards);
    srv->listen_fds = nib__alloc_array(srv->config->listen_count + 1,
                                       sizeof *srv->listen_fds);
    srv->listen_names = nib__alloc_array(srv->config->listen_count + 1,
                                         sizeof *srv->listen_names);
    srv->topics = nib__topics_new();
    for (unsigned i = 0; srv->listen_fds != NULL &&
                         i < srv->config->listen_count; i++)
        srv->listen_fds[i] = -1;
    if (srv->shards == NULL || srv->listen_fds == NULL ||
        srv->listen_names == NULL || srv->topics == NULL)
        return -ENOMEM;
    while (srv->shard_count < count && err == 0) {
        err = shard_init(srv, srv->shard_count);
        if (err == 0)
            srv->shard_count++;
    }
    return err;
}

/* What the threads' ends leave: epoll sets, buffers. */
static void close_shards(struct nib_server *srv) NIB__NO_ANALYSIS
{
    for (unsigned i = 0; i < srv->shard_count; i++) {
        struct nib__shard *shard = &srv->shards[i];

        nib__listeners_free(shard);
        if (shard->reserve_fd >= 0)
            close(shard->reserve_fd);
        shard->reserve_fd = -1;
        nib__reactor_destroy(&shard->reactor);
    }
    close_listeners(srv);
}

int nib_server_new(struct nib_config *cfg, struct nib_server **out)
{
    struct nib_server *srv = nib__alloc_zero(sizeof *srv);
    int err;

    if (srv == NULL)
        return -ENOMEM;
    err = nib__config_copy(cfg, &srv->config);
    if (err < 0) {
        nib__free(srv);
        return err;
    }
    srv->refs = 1;
    srv->stop_at_ms = UINT64_MAX;
    nib__handlers_init(&srv->handlers, srv);
    nib__tls_slot_init(&srv->tls);
    err = nib__addresses_init(&srv->addresses,
                              nib__limits(srv)->max_per_address);
    if (err == 0)
        err = make_shards(srv);
    if (err < 0) {
        close_shards(srv);
        destroy(srv);
        return err;
    }
    *out = srv;
    return 0;
}

const char *nib_server_error(const struct nib_server *srv)
{
    return srv->error;
}

/* ---- starting ---- */

/* The listeners' names, which outlive the listeners. */
static void name_listeners(struct nib_server *srv)
{
    for (unsigned i = 0; i < srv->config->listen_count; i++)
        nib__socket_name(srv->listen_fds[i], srv->listen_names[i],
                         sizeof srv->listen_names[i]);
    srv->name_count = srv->config->listen_count;
}

/* Lets the process have as many descriptors as connections may need. */
static void raise_file_limit(const struct nib_server *srv)
{
    rlim_t wanted = (rlim_t)nib__limits(srv)->max_connections + 64;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_listeners(struct nib_server *srv)
{
    int err = 0;

    for (unsigned i = 0; i < srv->config->listen_count && err == 0; i++)
        err = nib__socket_listen(srv->config->listens[i].address, BACKLOG,
                                 &srv->listen_fds[i], srv->error,
                                 sizeof srv->error);
    return err;
}

static int start_shard(struct nib__shard *shard) NIB__NO_ANALYSIS
{
    struct nib_server *srv = shard->server;
    int err = nib__listeners_open(shard);

    if (err < 0)
        return err;
    shard->reserve_fd = fcntl(shard->reactor.mailbox.eventfd,
                              F_DUPFD_CLOEXEC, 0);
    if (srv->shard_count > 1)
        nib__timer_arm(&shard->reactor.timers, &shard->tick,
                       nib__clock_ms() + TICK_MS);
    return nib__reactor_start(&shard->reactor);
}

/* Reads certificates and starts their threads, if an address needs them. */
static int start_tls(struct nib_server *srv)
{
    const struct nib__limits *l = nib__limits(srv);
    int err;

    if (!nib__config_has_tls(srv->config))
        return 0;
    err = nib__tls_slot_load(&srv->tls, srv->config, srv->error,
                             sizeof srv->error);
    return err < 0 ? err
                   : nib__workers_start(&srv->workers, l->handshake_threads,
                                        l->handshake_queue);
}

/* Ends the threads that were started, and leaves nothing open. What workers
   hold comes back by mailboxes, so they end first. */
static void end_threads(struct nib_server *srv)
{
    nib__workers_stop(&srv->workers);
    atomic_store_explicit(&srv->life, NIB__ENDED, memory_order_release);
    wake_all(srv);
    for (unsigned i = 0; i < srv->shard_count; i++)
        nib__reactor_join(&srv->shards[i].reactor);
    close_shards(srv);
}

int nib_server_start(struct nib_server *srv)
{
    int err;

    if (!move_on(srv, NIB__NEW, NIB__RUNNING))
        return NIB_ESTATE;
    raise_file_limit(srv);
    err = start_tls(srv);
    if (err == 0)
        err = open_listeners(srv);
    for (unsigned i = 0; i < srv->shard_count && err == 0; i++)
        err = start_shard(&srv->shards[i]);
    if (err < 0) {
        if (srv->error[0] == '\0')
            snprintf(srv->error, sizeof srv->error, "starting threads: %s",
                     nib_strerror(err));
        nib__handlers_close(&srv->handlers);
        end_threads(srv);
        return err;
    }
    name_listeners(srv);
    /* A stop may have come before there was anything to stop. */
    if (atomic_load(&srv->stop_at_ms) != UINT64_MAX &&
        move_on(srv, NIB__RUNNING, NIB__DRAINING))
        wake_all(srv);
    return 0;
}

int nib_server_address(const struct nib_server *srv, unsigned number,
                       char *text, size_t cap)
{
    if (number >= srv->name_count)
        return -ENOENT;
    return snprintf(text, cap, "%s", srv->listen_names[number]);
}

int nib_server_reload_tls(struct nib_server *srv, char *error, size_t cap)
{
    if (cap > 0)
        error[0] = '\0';
    if (nib__server_life(srv) != NIB__RUNNING ||
        !nib__config_has_tls(srv->config))
        return NIB_ESTATE;
    return nib__tls_slot_load(&srv->tls, srv->config, error, cap);
}

/* ---- stopping ---- */

void nib_server_stop(struct nib_server *srv, unsigned grace_ms)
{
    int saved = errno;
    uint64_t at = nib__clock_ms() + grace_ms;
    uint64_t before = atomic_load(&srv->stop_at_ms);

    while (at < before &&
           !atomic_compare_exchange_weak(&srv->stop_at_ms, &before, at))
        ;
    move_on(srv, NIB__RUNNING, NIB__DRAINING);
    wake_all(srv);
    errno = saved;
}

/* Waits for all connections to be gone. */
static int join_conns(struct nib_server *srv, uint64_t due_ns)
{
    for (;;) {
        uint32_t seen = atomic_load_explicit(&srv->stop_word,
                                             memory_order_acquire);

        if (all_gone(srv))
            return 0;
        if (nib__clock_ns() >= due_ns)
            return -ETIMEDOUT;
        nib__futex_wait(&srv->stop_word, seen, due_ns);
    }
}

static int join_all(struct nib_server *srv, uint64_t due_ns)
{
    int err = join_conns(srv, due_ns);

    if (err < 0)
        return err;
    move_on(srv, NIB__DRAINING, NIB__STOPPING);
    err = nib__handlers_join(&srv->handlers, due_ns);
    if (err < 0)
        return err;
    end_threads(srv);
    tell_joiners(srv);
    return 0;
}

/* Lets one thread at a time join; others wait for it or for their time. */
static int enter_join(struct nib_server *srv, uint64_t due_ns)
{
    while (atomic_exchange_explicit(&srv->joining, true,
                                    memory_order_acq_rel)) {
        uint32_t seen = atomic_load_explicit(&srv->stop_word,
                                             memory_order_acquire);

        if (!atomic_load_explicit(&srv->joining, memory_order_acquire))
            continue;
        if (nib__futex_wait(&srv->stop_word, seen, due_ns) == -ETIMEDOUT)
            return -ETIMEDOUT;
    }
    return 0;
}

int nib_server_join(struct nib_server *srv, int timeout_ms,
                    unsigned *running)
{
    uint64_t due_ns = nib__clock_due_ns(timeout_ms);
    uint64_t queued, in_handlers;
    int err;

    if (nib__on_reactor() || nib__handlers_here(srv))
        return -EDEADLK;
    if (nib__server_life(srv) == NIB__NEW)
        return NIB_ESTATE;
    if (running != NULL)
        *running = 0;
    err = enter_join(srv, due_ns);
    if (err == 0) {
        if (nib__server_life(srv) != NIB__ENDED)
            err = join_all(srv, due_ns);
        atomic_store_explicit(&srv->joining, false, memory_order_release);
        tell_joiners(srv);
    }
    if (err == -ETIMEDOUT && running != NULL) {
        nib__handlers_count(&srv->handlers, &in_handlers, &queued);
        *running = (unsigned)in_handlers;
    }
    return err;
}

void nib_server_free(struct nib_server *srv)
{
    enum nib__life life;

    if (srv == NULL)
        return;
    life = nib__server_life(srv);
    if (life == NIB__NEW) {
        close_shards(srv);
    } else if (life != NIB__ENDED) {
        nib_server_stop(srv, 0);
        nib_server_join(srv, -1, NULL);
    }
    nib__server_unref(srv);
}

int nib_server_next(struct nib_server *srv, struct nib_request **req,
                    int timeout_ms)
{
    if (nib__on_reactor())
        return -EDEADLK;
    return nib__handlers_next(&srv->handlers, req,
                              nib__clock_due_ns(timeout_ms));
}

/* ---- statistics ---- */

static uint64_t value(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_shard(struct nib_stats *out, const struct nib__shard *shard)
{
    const struct nib__counters *n = &shard->counters;

    out->accepted += value(&n->accepted);
    out->refused += value(&n->refused);
    out->upgraded += value(&n->upgraded);
    out->rejected += value(&n->rejected);
    out->requests += value(&n->requests);
    out->messages_in += value(&n->messages_in);
    out->messages_out += value(&n->messages_out);
    out->bytes_in += value(&n->bytes_in);
    out->bytes_out += value(&n->bytes_out);
    out->writes += value(&n->writes);
    out->reads += value(&n->reads);
    out->slow += value(&n->slow);
    out->tls_full += value(&n->tls_full);
    out->tls_resumed += value(&n->tls_resumed);
    out->tls_failed += value(&n->tls_failed);
    out->commands += value(&shard->reactor.mailbox.posts);
    out->wakes += value(&shard->reactor.mailbox.wakes);
}

void nib_server_stats(struct nib_server *srv, struct nib_stats *out)
{
    *out = (struct nib_stats){
        .published = value(&srv->published),
        .connections = atomic_load_explicit(&srv->connections,
                                            memory_order_relaxed),
        .handshakes = atomic_load_explicit(&srv->handshakes,
                                           memory_order_relaxed),
        .tls = atomic_load_explicit(&srv->tls_connections,
                                    memory_order_relaxed),
        .tls_handshakes = atomic_load_explicit(&srv->tls_handshakes,
                                               memory_order_relaxed),
        .outbox_bytes = atomic_load_explicit(&srv->outbox_total,
                                             memory_order_relaxed),
        .topic_bytes = atomic_load_explicit(&srv->topic_total,
                                            memory_order_relaxed),
    };
    nib__handlers_count(&srv->handlers, &out->handlers,
                        &out->handlers_queued);
    for (unsigned i = 0; i < srv->shard_count; i++)
        add_shard(out, &srv->shards[i]);
}
