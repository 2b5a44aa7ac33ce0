/*
 * extra - descriptors and timers of the application, on a connection's
 * reactor.
 *
 * They hang on their connection and go with it.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "server/conn.h"

struct nib__extra {
    struct nib__extra *next;
    struct nib__extra **place;
    struct nib_conn *conn;
    void (*free)(struct nib__extra *extra);
};

struct nib_watch {
    struct nib__extra extra; /* first */
    struct nib__task task;   /* frees it at the end of the turn */
    struct nib__source source;
    void (*ready)(struct nib_conn *conn, unsigned events, void *arg);
    void *arg;
};

struct nib_timer {
    struct nib__extra extra; /* first */
    struct nib__timer timer;
    void (*fire)(struct nib_conn *conn, void *arg);
    void *arg;
};

static void extra_link(struct nib_conn *c, struct nib__extra *extra)
    NIB__OWNER_ONLY;
static void extra_link(struct nib_conn *c, struct nib__extra *extra)
{
    extra->conn = c;
    extra->next = c->extras;
    extra->place = &c->extras;
    if (extra->next != NULL)
        extra->next->place = &extra->next;
    c->extras = extra;
}

static void extra_unlink(struct nib__extra *extra)
{
    *extra->place = extra->next;
    if (extra->next != NULL)
        extra->next->place = extra->place;
}

void nib__extras_free(struct nib_conn *c)
{
    while (c->extras != NULL)
        c->extras->free(c->extras);
}

static uint32_t epoll_bits(unsigned events)
{
    return (events & NIB_READABLE ? EPOLLIN | EPOLLRDHUP : 0u) |
           (events & NIB_WRITABLE ? EPOLLOUT : 0u);
}

static void watch_ready(struct nib__source *source, uint32_t events)
    NIB__OWNER_ONLY;
static void watch_ready(struct nib__source *source, uint32_t events)
{
    struct nib_watch *w =
        (struct nib_watch *)((char *)source -
                             offsetof(struct nib_watch, source));
    struct nib_conn *c = w->extra.conn;
    unsigned said = 0;

    if (events & (EPOLLIN | EPOLLRDHUP))
        said |= NIB_READABLE;
    if (events & EPOLLOUT)
        said |= NIB_WRITABLE;
    if (events & (EPOLLERR | EPOLLHUP))
        said |= NIB_HANGUP;
    nib_conn_ref(c);
    nib__callback_begin(nib__conn_reactor(c), "nib_watch");
    w->ready(c, said, w->arg);
    nib__callback_end(nib__conn_reactor(c));
    nib_conn_unref(c);
}

static void watch_gone(struct nib__task *task)
{
    nib__free((char *)task - offsetof(struct nib_watch, task));
}

static void watch_free(struct nib__extra *extra) NIB__OWNER_ONLY;
static void watch_free(struct nib__extra *extra)
{
    struct nib_watch *w = (struct nib_watch *)extra;
    struct nib__reactor *r = nib__conn_reactor(extra->conn);

    NIB_ASSERT_OWNER(r);
    extra_unlink(extra);
    nib__poller_remove(&r->poller, &w->source);
    nib__reactor_last(r, &w->task);
}

int nib_watch(struct nib_conn *c, int fd, unsigned events,
              void (*ready)(struct nib_conn *conn, unsigned events,
                            void *arg),
              void *arg, struct nib_watch **out) NIB__NO_ANALYSIS
{
    struct nib__reactor *r = nib__conn_reactor(c);
    struct nib_watch *w;
    int err;

    NIB_ASSERT_OWNER(r);
    if (fd < 0 || (events & ~(NIB_READABLE | NIB_WRITABLE)) != 0)
        return -EINVAL;
    if (c->phase == NIB__ENDED_CONN)
        return -EPIPE;
    w = nib__alloc_zero(sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    w->extra.free = watch_free;
    w->task.run = watch_gone;
    w->source.fd = -1;
    w->source.ready = watch_ready;
    w->ready = ready;
    w->arg = arg;
    err = nib__poller_add(&r->poller, &w->source, fd, epoll_bits(events));
    if (err < 0) {
        nib__free(w);
        return err;
    }
    extra_link(c, &w->extra);
    *out = w;
    return 0;
}

int nib_watch_set(struct nib_watch *w, unsigned events) NIB__NO_ANALYSIS
{
    struct nib__reactor *r = nib__conn_reactor(w->extra.conn);

    NIB_ASSERT_OWNER(r);
    return nib__poller_set(&r->poller, &w->source, epoll_bits(events));
}

void nib_watch_free(struct nib_watch *w) NIB__NO_ANALYSIS
{
    if (w != NULL)
        watch_free(&w->extra);
}

static void timer_free(struct nib__extra *extra) NIB__OWNER_ONLY;
static void timer_free(struct nib__extra *extra)
{
    struct nib_timer *t = (struct nib_timer *)extra;
    struct nib__timers *timers = &nib__conn_reactor(extra->conn)->timers;

    NIB_ASSERT_OWNER(nib__conn_reactor(extra->conn));
    extra_unlink(extra);
    nib__timer_disarm(timers, &t->timer);
    nib__timers_unreserve(timers);
    nib__free(t);
}

static void timer_fired(struct nib__timer *timer) NIB__OWNER_ONLY;
static void timer_fired(struct nib__timer *timer)
{
    struct nib_timer *t =
        (struct nib_timer *)((char *)timer -
                             offsetof(struct nib_timer, timer));
    struct nib_conn *c = nib_conn_ref(t->extra.conn);
    void (*fire)(struct nib_conn *conn, void *arg) = t->fire;
    void *arg = t->arg;

    timer_free(&t->extra);
    nib__callback_begin(nib__conn_reactor(c), "nib_timer");
    fire(c, arg);
    nib__callback_end(nib__conn_reactor(c));
    nib_conn_unref(c);
}

int nib_timer(struct nib_conn *c, unsigned after_ms,
              void (*fire)(struct nib_conn *conn, void *arg), void *arg,
              struct nib_timer **out) NIB__NO_ANALYSIS
{
    struct nib__reactor *r = nib__conn_reactor(c);
    struct nib_timer *t;

    NIB_ASSERT_OWNER(r);
    if (c->phase == NIB__ENDED_CONN)
        return -EPIPE;
    t = nib__alloc_zero(sizeof *t);
    if (t == NULL || nib__timers_reserve(&r->timers) < 0) {
        nib__free(t);
        return -ENOMEM;
    }
    t->extra.free = timer_free;
    t->fire = fire;
    t->arg = arg;
    nib__timer_init(&t->timer, timer_fired);
    extra_link(c, &t->extra);
    nib__timer_arm(&r->timers, &t->timer, r->now_ms + after_ms);
    if (out != NULL)
        *out = t;
    return 0;
}

void nib_timer_free(struct nib_timer *t) NIB__NO_ANALYSIS
{
    if (t != NULL)
        timer_free(&t->extra);
}
