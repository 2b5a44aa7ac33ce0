/*
 * conn - birth, deadlines and the command record of a connection.
 *
 * One timer serves all deadlines: it is armed for the nearest and, when it
 * fires, looks which of them has really come. So a deadline that moves away
 * with every message costs nothing.
 */
#include "server/conn.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "server/command.h"
#include "server/conn_tls.h"
#include "server/request.h"
#include "server/topic.h"

static struct nib_conn *conn_of_source(struct nib__source *source)
{
    return (struct nib_conn *)((char *)source -
                               offsetof(struct nib_conn, source));
}

static struct nib_conn *conn_of_timer(struct nib__timer *timer)
{
    return (struct nib_conn *)((char *)timer -
                               offsetof(struct nib_conn, timer));
}

static struct nib_conn *conn_of_task(struct nib__task *task)
{
    return (struct nib_conn *)((char *)task -
                               offsetof(struct nib_conn, task));
}

static struct nib_conn *conn_of_record(struct nib__record *record)
{
    return (struct nib_conn *)((char *)record -
                               offsetof(struct nib_conn, record));
}

/* ---- references ---- */

struct nib_conn *nib_conn_ref(struct nib_conn *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

/* Nobody points at the connection any more; its socket is long closed. */
static void destroy(struct nib_conn *c) NIB__NO_ANALYSIS
{
    struct nib_server *srv = c->shard->server;

    nib__outbox_destroy(&c->out, &c->shard->pool);
    nib__free(c->out.ending);
    nib__inbox_free(c->in);
    nib__assembler_free(&c->assembler);
    nib__free(c->stash);
    nib__free(c->control);
    nib__free(c->subprotocol);
    nib__ping_free(c->ping);
    nib__free(c);
    nib__server_unref(srv);
}

void nib_conn_unref(struct nib_conn *c)
{
    if (c != NULL && atomic_fetch_sub_explicit(&c->refs, 1,
                                               memory_order_acq_rel) == 1)
        destroy(c);
}

/* ---- deadlines ---- */

static uint64_t min_ms(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The nearest of all deadlines that hold in this phase. */
static uint64_t next_due(const struct nib_conn *c) NIB__OWNER_ONLY;
static uint64_t next_due(const struct nib_conn *c)
{
    const struct nib__limits *l = nib__conn_limits(c);
    uint64_t due = c->deadline_ms;

    if (c->progress_ms != UINT64_MAX)
        due = min_ms(due, c->progress_ms + l->write_timeout_ms);
    if (c->phase == NIB__OPENED) {
        due = min_ms(due, c->ping_due_ms);
        if (nib__conn_reading(c))
            due = min_ms(due, c->pong_due_ms);
        if (l->idle_timeout_ms != 0)
            due = min_ms(due, c->active_ms + l->idle_timeout_ms);
    }
    for (const struct nib__parked *p = c->parked; p != NULL; p = p->next)
        due = min_ms(due, p->due_ms);
    return due;
}

void nib__conn_arm(struct nib_conn *c)
{
    struct nib__timers *timers = &nib__conn_reactor(c)->timers;
    uint64_t due = next_due(c);

    if (due == UINT64_MAX || c->phase == NIB__ENDED_CONN)
        return;
    if (!nib__timer_armed(&c->timer) ||
        timers->heap[c->timer.place].due_ms > due)
        nib__timer_arm(timers, &c->timer, due);
}

void nib__conn_deadline(struct nib_conn *c, uint64_t after_ms)
{
    c->deadline_ms = after_ms == UINT64_MAX
                         ? UINT64_MAX
                         : nib__conn_reactor(c)->now_ms + after_ms;
    nib__conn_arm(c);
}

/* The deadline of a phase before the connection is open, or after. */
static void phase_expired(struct nib_conn *c) NIB__OWNER_ONLY;
static void phase_expired(struct nib_conn *c)
{
    c->deadline_ms = UINT64_MAX;
    switch (c->phase) {
    case NIB__FIRST:
    case NIB__SHAKING:
        nib__conn_end(c, false);
        return;
    case NIB__PENDING:
        if (nib__request_withdraw(c->request, -ETIMEDOUT))
            nib__http_refuse(c, 503, "The request was not decided in time.",
                             "Retry-After: 1\r\n");
        return;
    case NIB__HEAD:
    case NIB__ANSWER:
    case NIB__LINGER:
        nib__conn_end(c, c->phase != NIB__HEAD);
        return;
    default:
        nib__conn_end(c, true);
    }
}

/* Nothing came in answer to a ping. */
static void pong_missing(struct nib_conn *c) NIB__OWNER_ONLY;
static void pong_missing(struct nib_conn *c)
{
    nib__conn_fail(c, 1001, "ping timeout", true);
    if (c->phase == NIB__CLOSING)
        nib__conn_flush(c);
    nib__lock_take(&c->out.lock);
    c->out.end_code = 1006;
    nib__lock_release(&c->out.lock);
    nib__conn_end(c, true);
}

static void ping_now(struct nib_conn *c, uint64_t now) NIB__OWNER_ONLY;
static void ping_now(struct nib_conn *c, uint64_t now)
{
    const struct nib__limits *l = nib__conn_limits(c);

    c->ping_due_ms = now + l->ping_interval_ms;
    if (c->pong_due_ms == UINT64_MAX)
        c->pong_due_ms = now + l->ping_wait_ms;
    if (nib__conn_control(c, NIB__PING, "nib", 3) < 0)
        nib__conn_fail(c, 1011, "no memory", false);
    nib__conn_soon(c);
}

static bool pong_late(const struct nib_conn *c, uint64_t now)
    NIB__OWNER_ONLY;
static bool pong_late(const struct nib_conn *c, uint64_t now)
{
    return now >= c->pong_due_ms && nib__conn_reading(c);
}

static bool idle(const struct nib_conn *c, uint64_t now) NIB__OWNER_ONLY;
static bool idle(const struct nib_conn *c, uint64_t now)
{
    unsigned timeout_ms = nib__conn_limits(c)->idle_timeout_ms;

    return timeout_ms != 0 && now >= c->active_ms + timeout_ms;
}

/* The deadlines of an open connection. */
static void open_expired(struct nib_conn *c, uint64_t now) NIB__OWNER_ONLY;
static void open_expired(struct nib_conn *c, uint64_t now)
{
    /* What is missed may wait unread, if the reactor was busy until now. */
    if ((pong_late(c, now) || idle(c, now)) && nib__conn_reading(c))
        nib__conn_read(c);
    if (c->phase != NIB__OPENED)
        return;
    if (pong_late(c, now)) {
        pong_missing(c);
        return;
    }
    if (idle(c, now)) {
        nib__conn_decide_close(c, 1001,
                               nib__ending_new(1001, "idle", 4));
        nib__conn_close_ordered(c);
        nib__conn_soon(c);
        return;
    }
    if (now >= c->ping_due_ms)
        ping_now(c, now);
}

static bool stuck(const struct nib_conn *c, uint64_t now) NIB__OWNER_ONLY;
static bool stuck(const struct nib_conn *c, uint64_t now)
{
    return c->progress_ms != UINT64_MAX &&
           now >= c->progress_ms + nib__conn_limits(c)->write_timeout_ms;
}

/* The peer takes nothing; or it did, while the reactor was busy. */
static void write_expired(struct nib_conn *c, uint64_t now) NIB__OWNER_ONLY;
static void write_expired(struct nib_conn *c, uint64_t now)
{
    c->writable = true;
    c->busy_tries = 1; /* the flush is not put off */
    nib__conn_flush(c);
    if (stuck(c, now))
        nib__conn_end(c, true);
}

static void fired(struct nib__timer *timer) NIB__OWNER_ONLY;
static void fired(struct nib__timer *timer)
{
    struct nib_conn *c = conn_of_timer(timer);
    uint64_t now = nib__conn_reactor(c)->now_ms;

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    nib_conn_ref(c);
    nib__conn_parked(c);
    if (now >= c->deadline_ms)
        phase_expired(c);
    else if (stuck(c, now))
        write_expired(c, now);
    else if (c->phase == NIB__OPENED)
        open_expired(c, now);
    if (c->phase != NIB__ENDED_CONN)
        nib__conn_arm(c);
    nib_conn_unref(c);
}

void nib__conn_decided(struct nib_conn *c)
{
    if (c->handshake)
        atomic_fetch_sub_explicit(&c->shard->server->handshakes, 1,
                                  memory_order_relaxed);
    c->handshake = false;
}

/* ---- epoll ---- */

void nib__conn_watch(struct nib_conn *c)
{
    uint32_t events = 0;

    if (c->source.fd < 0)
        return;
    if (nib__conn_reading(c))
        events |= EPOLLIN;
    if (!c->peer_done)
        events |= EPOLLRDHUP;
    if (c->progress_ms != UINT64_MAX)
        events |= EPOLLOUT;
    if (nib__poller_set(&nib__conn_reactor(c)->poller, &c->source, events) <
        0)
        nib__conn_end(c, true);
}

/* The peer has sent its last byte, and we are not reading. */
static void peer_done(struct nib_conn *c) NIB__OWNER_ONLY;
static void peer_done(struct nib_conn *c)
{
    c->peer_done = true;
    if (c->phase == NIB__PENDING)
        nib__conn_end(c, false);
    else
        nib__conn_watch(c);
}

static void ready(struct nib__source *source, uint32_t events)
    NIB__OWNER_ONLY;
static void ready(struct nib__source *source, uint32_t events)
{
    struct nib_conn *c = conn_of_source(source);

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    nib_conn_ref(c);
    if ((events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN)) {
        nib__conn_end(c, false);
        goto out;
    }
    if (c->phase <= NIB__SHAKING) {
        nib__conn_tls_ready(c);
        goto out;
    }
    if (events & EPOLLOUT) {
        c->writable = true;
        nib__conn_soon(c);
    }
    if ((events & EPOLLIN) && nib__conn_reading(c))
        nib__conn_read(c);
    else if (events & (EPOLLERR | EPOLLHUP))
        nib__conn_end(c, false);
    else if (events & EPOLLRDHUP)
        peer_done(c);
out:
    nib_conn_unref(c);
}

/* ---- the record and the task ---- */

/* Ops in the order in which they make sense together. */
static void do_ops(struct nib_conn *c, uint8_t ops) NIB__OWNER_ONLY;
static void do_ops(struct nib_conn *c, uint8_t ops)
{
    if (ops & NIB__OP_ABORT) {
        nib__conn_end(c, true);
        return;
    }
    if (ops & NIB__OP_CLOSE)
        nib__conn_close_ordered(c);
    if (ops & NIB__OP_PAUSE && c->phase == NIB__OPENED) {
        c->paused = true;
        nib__conn_watch(c);
    }
    if (ops & NIB__OP_READ) {
        c->no_room = c->paused = false;
        nib__conn_resume_reading(c);
    }
    if (ops & NIB__OP_MORE && nib__conn_reading(c))
        nib__conn_read(c);
    if (ops & NIB__OP_ROOM && c->phase == NIB__OPENED &&
        c->route->callbacks.on_room != NULL)
        NIB__CALL(c, on_room, c, c->route->callbacks_arg);
}

static void task_run(struct nib__task *task) NIB__OWNER_ONLY;
static void task_run(struct nib__task *task)
{
    struct nib_conn *c = conn_of_task(task);
    uint8_t ops = c->todo;

    if (c->phase == NIB__ENDED_CONN) {
        /* Listed for the last time, at the end of the turn. */
        nib_conn_unref(c);
        return;
    }
    nib_conn_ref(c);
    c->todo = 0;
    if (ops != 0)
        do_ops(c, ops);
    if (c->phase != NIB__ENDED_CONN)
        nib__conn_flush(c);
    nib_conn_unref(c);
}

void nib__conn_soon(struct nib_conn *c)
{
    if (c->phase != NIB__ENDED_CONN)
        nib__reactor_soon(nib__conn_reactor(c), &c->task);
}

/*
 * What was asked for is noted, the flags are cleared before anything is
 * looked at: whoever asks from now on posts again.
 */
static uint8_t take_ops(struct nib_conn *c)
{
    uint8_t ops;

    nib__lock_take(&c->out.lock);
    ops = c->out.ops;
    c->out.ops = 0;
    c->out.posted = false;
    nib__lock_release(&c->out.lock);
    return ops;
}

static void record_run(struct nib__record *record) NIB__OWNER_ONLY;
static void record_run(struct nib__record *record)
{
    struct nib_conn *c = conn_of_record(record);

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    c->todo = nib__ops_merge(c->todo, take_ops(c));
    nib__conn_soon(c);
    nib_conn_unref(c);
}

static void record_cancel(struct nib__record *record)
{
    struct nib_conn *c = conn_of_record(record);

    take_ops(c);
    nib_conn_unref(c);
}

void nib__conn_post(struct nib_conn *c)
{
    nib_conn_ref(c);
    if (nib__mailbox_post(&nib__conn_reactor(c)->mailbox, &c->record) < 0)
        record_cancel(&c->record);
}

/*
 * On the owner nothing is posted: the task does it later in this turn. But a
 * pause holds at once, so that no message follows it in the same read.
 */
static void ask_here(struct nib_conn *c, uint8_t ops) NIB__NO_ANALYSIS
{
    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    c->todo = nib__ops_merge(c->todo, ops);
    if (ops & NIB__OP_PAUSE)
        c->paused = true;
    nib__conn_soon(c);
}

void nib__conn_ask(struct nib_conn *c, uint8_t ops)
{
    bool post;

    if (nib__conn_here(c)) {
        ask_here(c, ops);
        return;
    }
    nib__lock_take(&c->out.lock);
    post = nib__outbox_ask(&c->out, ops);
    nib__lock_release(&c->out.lock);
    if (post)
        nib__conn_post(c);
}

int nib__conn_command(struct nib_conn *c, struct nib__record *record)
{
    if (atomic_fetch_add_explicit(&c->commands, 1, memory_order_relaxed) >=
        nib__conn_limits(c)->commands)
        return -EAGAIN;
    return nib__mailbox_post(&nib__conn_reactor(c)->mailbox, record);
}

void nib__conn_command_over(struct nib_conn *c)
{
    atomic_fetch_sub_explicit(&c->commands, 1, memory_order_relaxed);
}

/* ---- birth ---- */

/* No other connection of the process has this number, of any server. */
static _Atomic uint64_t last_id;

static void link_conn(struct nib__shard *shard, struct nib_conn *c)
    NIB__OWNER_ONLY;
static void link_conn(struct nib__shard *shard, struct nib_conn *c)
{
    c->next = shard->conns;
    c->place = &shard->conns;
    if (c->next != NULL)
        c->next->place = &c->next;
    shard->conns = c;
}

/* Everything that needs no memory. */
static void conn_init(struct nib_conn *c, struct nib__shard *shard,
                      const struct nib__peer *peer) NIB__OWNER_ONLY;
static void conn_init(struct nib_conn *c, struct nib__shard *shard,
                      const struct nib__peer *peer)
{
    c->refs = 1;
    c->state = NIB_OPEN;
    c->shard = shard;
    c->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    nib__outbox_init(&c->out);
    c->record.run = record_run;
    c->record.cancel = record_cancel;
    c->handshake = true;
    c->source.fd = -1;
    c->source.ready = ready;
    c->transport = nib__transport_plain();
    nib__timer_init(&c->timer, fired);
    c->task.run = task_run;
    c->peer = *peer;
    c->deadline_ms = c->ping_due_ms = c->pong_due_ms = UINT64_MAX;
    c->progress_ms = UINT64_MAX;
    nib__server_ref(shard->server);
}

void nib__conn_adopt(struct nib__shard *shard, int fd,
                     const struct nib__peer *peer, enum nib_tls_mode mode)
{
    struct nib__reactor *r = &shard->reactor;
    struct nib_server *srv = shard->server;
    struct nib_conn *c = nib__alloc_zero(sizeof *c);

    atomic_fetch_add_explicit(&srv->handshakes, 1, memory_order_relaxed);
    if (c == NULL || nib__timers_reserve(&r->timers) < 0)
        goto no_memory;
    conn_init(c, shard, peer);
    nib__conn_tls_expect(c, mode);
    if (nib__poller_add(&r->poller, &c->source, fd, EPOLLIN | EPOLLRDHUP) <
        0) {
        nib__timers_unreserve(&r->timers);
        nib__outbox_destroy(&c->out, &shard->pool);
        nib__server_unref(srv);
        goto no_memory;
    }
    link_conn(shard, c);
    nib__conn_deadline(c, nib__limits(srv)->handshake_timeout_ms);
    if (shard->draining)
        nib__conn_drain(c);
    return;

no_memory:
    nib__free(c);
    close(fd);
    atomic_fetch_sub_explicit(&srv->handshakes, 1, memory_order_relaxed);
    nib__addresses_leave(&srv->addresses, peer);
    nib__shard_left(shard);
}
