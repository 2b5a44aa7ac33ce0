/*
 * publish - a message on its way to every reactor that has subscribers.
 *
 * Under the topic's lock it is charged for all reactors or for none, and
 * posted to all: so there is one order for each topic, and a full topic holds
 * its publishers back, in turn. A publish that has to wait is complete
 * already; whoever makes room posts it.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "server/tail.h"

/* The part of one reactor. */
struct part {
    struct nib__record record;
    struct nib__publish *publish;
    struct nib__shard *shard;
};

/* One publish; freed by the last part, or by its caller. */
struct nib__publish {
    _Atomic unsigned refs;
    struct nib_server *server;
    struct nib__topic *topic; /* referenced */
    struct nib_message *msg;  /* referenced */
    struct nib_conn *from;    /* referenced, or NULL */
    size_t bytes;             /* on the wire */
    struct nib__publish *next; /* in the line */
    _Atomic uint32_t word;    /* waiting: 0; 1: result is valid */
    int result;
    bool counted;             /* nib_publish_wait(): the caller waits */
    _Atomic unsigned parts_left; /* of those */
    _Atomic uint64_t queued;
    _Atomic uint64_t dropped;
    _Atomic uint64_t closed;
    struct nib__oneshot done;
    struct part parts[];
};

/* A connection to be told when there is room. */
struct nib__room {
    struct nib__room *next;
    struct nib_conn *conn;
};

static void publish_unref(struct nib__publish *p)
{
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    nib_message_unref(p->msg);
    nib_conn_unref(p->from);
    nib__topic_unref(p->server, p->topic);
    nib__free(p);
}

/* One part has ended. */
static void part_done(struct part *part)
{
    struct nib__publish *p = part->publish;

    if (p->counted &&
        atomic_fetch_sub_explicit(&p->parts_left, 1, memory_order_acq_rel) ==
            1)
        nib__oneshot_complete(&p->done, 0);
    publish_unref(p);
}

/* Appends to this reactor's log, if somebody is there to read it. */
static void append(struct part *part, struct nib__tail *log) NIB__OWNER_ONLY;
static void append(struct part *part, struct nib__tail *log)
{
    struct nib__publish *p = part->publish;
    struct nib__shard *shard = part->shard;

    nib__tail_pin(log);
    if (nib__tail_append(log, p->msg, p->bytes) < 0) {
        nib__topic_release(p->server, p->topic, shard->reactor.number,
                           p->bytes);
        atomic_fetch_add_explicit(&p->dropped, nib__tail_lost(log),
                                  memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&p->queued, log->count,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&p->closed, nib__tail_close_slow(log),
                                  memory_order_relaxed);
        nib__tail_fan(log);
        if (p->from != NULL && p->from->shard == shard)
            nib__conn_soon(p->from);
    }
    nib__tail_unpin(log);
}

static void part_run(struct nib__record *record) NIB__OWNER_ONLY;
static void part_run(struct nib__record *record)
{
    struct part *part = (struct part *)record;
    struct nib__publish *p = part->publish;
    unsigned number = part->shard->reactor.number;
    struct nib__tail *log = p->topic->shares[number].log;

    NIB_ASSERT_OWNER(&part->shard->reactor);
    if (log != NULL)
        append(part, log);
    else
        nib__topic_release(p->server, p->topic, number, p->bytes);
    part_done(part);
}

static void part_cancel(struct nib__record *record)
{
    struct part *part = (struct part *)record;
    struct nib__publish *p = part->publish;

    nib__topic_release(p->server, p->topic, part->shard->reactor.number,
                       p->bytes);
    part_done(part);
}

/* Is there room on every reactor that has members? */
static bool fits(struct nib_server *srv, struct nib__topic *topic,
                 size_t bytes) NIB__REQUIRES(topic->lock);
static bool fits(struct nib_server *srv, struct nib__topic *topic,
                 size_t bytes)
{
    size_t limit = nib__topic_limit(srv) / 2;

    for (unsigned i = 0; i < srv->shard_count; i++) {
        const struct nib__share *share = &topic->shares[i];

        /* A message that is alone may be as large as it likes. */
        if (share->members > 0 && share->charged > 0 &&
            share->charged + bytes > limit)
            return false;
    }
    return true;
}

/* Charges and posts to every reactor that has members. */
static void post_all(struct nib__topic *topic, struct nib__publish *p)
    NIB__REQUIRES(topic->lock);
static void post_all(struct nib__topic *topic, struct nib__publish *p)
{
    struct nib_server *srv = p->server;

    for (unsigned i = 0; i < srv->shard_count; i++) {
        struct part *part = &p->parts[i];

        if (topic->shares[i].members == 0)
            continue;
        *part = (struct part){.publish = p, .shard = &srv->shards[i]};
        part->record.run = part_run;
        part->record.cancel = part_cancel;
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&p->parts_left, 1, memory_order_relaxed);
        topic->shares[i].charged += p->bytes;
        if (nib__mailbox_post(&srv->shards[i].reactor.mailbox,
                              &part->record) < 0) {
            topic->shares[i].charged -= p->bytes;
            part_done(part);
        }
    }
    atomic_fetch_add_explicit(&srv->published, 1, memory_order_relaxed);
}

/* Takes the first of the line out and tells it. */
static void tell_first(struct nib__topic *topic, int result)
    NIB__REQUIRES(topic->lock);
static void tell_first(struct nib__topic *topic, int result)
{
    struct nib__publish *p = topic->waiters;
    _Atomic uint32_t *word = &p->word;

    topic->waiters = p->next;
    if (topic->waiters == NULL)
        topic->waiters_end = &topic->waiters;
    p->result = result;
    atomic_store_explicit(word, 1, memory_order_release);
    nib__futex_wake(word, 1);
}

/* Serves the line from its head while there is room. */
static void serve(struct nib_server *srv, struct nib__topic *topic)
    NIB__REQUIRES(topic->lock);
static void serve(struct nib_server *srv, struct nib__topic *topic)
{
    while (topic->waiters != NULL &&
           fits(srv, topic, topic->waiters->bytes)) {
        post_all(topic, topic->waiters);
        tell_first(topic, 0);
    }
}

/* Takes the connections that wait for room, once there is some. */
static struct nib__room *take_rooms(struct nib_server *srv,
                                    struct nib__topic *topic)
    NIB__REQUIRES(topic->lock);
static struct nib__room *take_rooms(struct nib_server *srv,
                                    struct nib__topic *topic)
{
    struct nib__room *rooms = topic->rooms;

    if (topic->waiters != NULL || !fits(srv, topic, nib__topic_limit(srv) / 4))
        return NULL;
    topic->rooms = NULL;
    return rooms;
}

void nib__topic_release(struct nib_server *srv, struct nib__topic *topic,
                        unsigned shard, size_t bytes)
{
    struct nib__room *rooms;

    nib__lock_take(&topic->lock);
    topic->shares[shard].charged -= bytes;
    serve(srv, topic);
    rooms = take_rooms(srv, topic);
    nib__lock_release(&topic->lock);
    while (rooms != NULL) {
        struct nib__room *next = rooms->next;

        nib__conn_ask(rooms->conn, NIB__OP_ROOM);
        nib_conn_unref(rooms->conn);
        nib__free(rooms);
        rooms = next;
    }
}

/* on_room of `from` is to follow. */
static int want_room(struct nib__topic *topic, struct nib_conn *from)
    NIB__REQUIRES(topic->lock);
static int want_room(struct nib__topic *topic, struct nib_conn *from)
{
    struct nib__room *room = topic->rooms;

    if (from == NULL)
        return -EAGAIN;
    while (room != NULL && room->conn != from)
        room = room->next;
    if (room != NULL)
        return -EAGAIN;
    room = nib__alloc(sizeof *room);
    if (room == NULL)
        return -ENOMEM;
    room->conn = nib_conn_ref(from);
    room->next = topic->rooms;
    topic->rooms = room;
    return -EAGAIN;
}

/* Gives up: takes p out of the line, unless it was served just now. */
static int leave_line(struct nib__publish *p)
{
    struct nib__topic *topic = p->topic;
    struct nib__publish **place;

    nib__lock_take(&topic->lock);
    if (atomic_load_explicit(&p->word, memory_order_relaxed) == 0) {
        place = &topic->waiters;
        while (*place != p)
            place = &(*place)->next;
        *place = p->next;
        if (topic->waiters_end == &p->next)
            topic->waiters_end = place;
        p->result = -ETIMEDOUT;
        serve(p->server, topic);
    }
    nib__lock_release(&topic->lock);
    return p->result;
}

/* Stands in line until somebody has posted p. */
static int wait_in_line(struct nib__publish *p)
{
    uint64_t due_ns =
        nib__clock_due_ns(nib__limits(p->server)->send_timeout_ms);

    while (atomic_load_explicit(&p->word, memory_order_acquire) == 0)
        if (nib__futex_wait(&p->word, 0, due_ns) == -ETIMEDOUT)
            break;
    return leave_line(p);
}

/* Posts p, or puts it in line. Returns 0, -EAGAIN, 1: stands in line. */
static int enter(struct nib__publish *p, bool wait)
{
    struct nib__topic *topic = p->topic;
    int result = 0;

    nib__lock_take(&topic->lock);
    if (nib__server_life(p->server) >= NIB__STOPPING) {
        result = -ECANCELED;
    } else if (topic->waiters == NULL && fits(p->server, topic, p->bytes)) {
        post_all(topic, p);
    } else if (!wait) {
        result = nib__on_reactor() ? want_room(topic, p->from) : -EAGAIN;
    } else {
        p->next = NULL;
        *topic->waiters_end = p;
        topic->waiters_end = &p->next;
        result = 1;
    }
    nib__lock_release(&topic->lock);
    return result;
}

/* Makes a publish; *out is NULL if nobody listens. */
static int publish_new(struct nib_server *srv, const char *topic,
                       struct nib_message *msg, struct nib_conn *from,
                       unsigned flags, struct nib__publish **out)
{
    const struct nib__limits *l = nib__limits(srv);
    size_t len = nib__topic_name_length(topic);
    struct nib__topic *found;
    struct nib__publish *p;
    int err = flags & NIB_TRUSTED ? 0 : nib__message_check(msg);

    *out = NULL;
    if (err < 0)
        return err;
    if (len == 0)
        return -EINVAL;
    if (msg->len > l->message_bytes)
        return -EMSGSIZE;
    if (nib__server_life(srv) >= NIB__STOPPING)
        return -ECANCELED;
    found = nib__topic_get(srv, topic, len, false);
    if (found == NULL)
        return 0;
    p = nib__alloc_zero(sizeof *p + srv->shard_count * sizeof p->parts[0]);
    if (p != NULL)
        p->msg = nib_message_ref(msg);
    if (p == NULL || p->msg == NULL) {
        nib__free(p);
        nib__topic_unref(srv, found);
        return -ENOMEM;
    }
    p->refs = 1;
    p->parts_left = 1;
    p->server = srv;
    p->topic = found;
    p->from = from == NULL ? NULL : nib_conn_ref(from);
    p->bytes = nib__wire_bytes(msg->len, l->frame_bytes);
    *out = p;
    return 0;
}

int nib_publish(struct nib_server *srv, const char *topic,
                struct nib_message *msg, struct nib_conn *from,
                unsigned flags)
{
    struct nib__publish *p;
    int err = publish_new(srv, topic, msg, from, flags, &p);

    if (err < 0 || p == NULL)
        return err;
    err = enter(p, !(flags & NIB_NOWAIT) && !nib__on_reactor());
    if (err > 0)
        err = wait_in_line(p);
    publish_unref(p);
    return err;
}

int nib_publish_wait(struct nib_server *srv, const char *topic,
                     struct nib_message *msg, struct nib_conn *from,
                     unsigned flags, struct nib_publish_counts *counts)
{
    struct nib__publish *p;
    int err;

    *counts = (struct nib_publish_counts){.queued = 0};
    if (nib__on_reactor())
        return -EDEADLK;
    err = publish_new(srv, topic, msg, from, flags, &p);
    if (err < 0 || p == NULL)
        return err;
    p->counted = true;
    nib__oneshot_init(&p->done);
    err = enter(p, !(flags & NIB_NOWAIT));
    if (err > 0)
        err = wait_in_line(p);
    if (err == 0) {
        /* The caller's own part of the count goes last or wakes itself. */
        if (atomic_fetch_sub_explicit(&p->parts_left, 1,
                                      memory_order_acq_rel) != 1)
            err = nib__oneshot_wait(&p->done);
        counts->queued = atomic_load_explicit(&p->queued,
                                              memory_order_relaxed);
        counts->dropped = atomic_load_explicit(&p->dropped,
                                               memory_order_relaxed);
        counts->closed = atomic_load_explicit(&p->closed,
                                              memory_order_relaxed);
    }
    publish_unref(p);
    return err;
}
