/*
 * tail - the end of a topic's log that one reactor keeps, and the rounds over
 * its readers.
 *
 * Positions are counts of bytes since the log began. `released` is what every
 * cursor of the rotation has passed; segments behind it are freed, unless a
 * cursor hangs on them. A round visits every cursor of the rotation once and
 * leaves it behind the round's head, or hanging; its end moves `released` on
 * and gives publishers their room back. Invariant: a cursor before `released`
 * hangs on the segment that it stands in.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "server/tail.h"

enum {
    SEGMENT_BYTES = 65536,
    SLICE_NS = 100000, /* then descriptors get their turn */
    CLOCK_EVERY = 8,   /* visits between two looks at the clock */
};

struct nib__fan *nib__fan_new(void)
{
    struct nib__fan *fan = nib__alloc_zero(sizeof *fan);

    if (fan != NULL)
        fan->last = &fan->first;
    return fan;
}

void nib__fan_free(struct nib__fan *fan)
{
    nib__free(fan);
}

struct nib__tail *nib__tail_get(struct nib__topic *topic,
                              struct nib__shard *shard)
{
    struct nib__share *share = &topic->shares[shard->reactor.number];
    struct nib__tail *log = share->log;

    if (log != NULL)
        return log;
    log = nib__alloc_zero(sizeof *log);
    if (log == NULL)
        return NULL;
    log->topic = nib__topic_ref(shard->server, topic);
    log->shard = shard;
    log->rotation_end = &log->rotation;
    share->log = log;
    return log;
}

/* ---- segments ---- */

static void segment_free(struct nib__tail *log, struct nib__segment *s)
{
    log->bytes -= s->capacity;
    atomic_fetch_sub_explicit(&log->shard->server->topic_total, s->capacity,
                              memory_order_relaxed);
    nib__free(s->ends);
    nib__free(s);
}

/* Frees what nobody needs any more. */
static void trim(struct nib__tail *log) NIB__OWNER_ONLY;
static void trim(struct nib__tail *log)
{
    while (log->first != NULL && log->first->hung == NULL &&
           nib__segment_end(log->first) <= log->released) {
        struct nib__segment *s = log->first;

        if (log->hint == s)
            log->hint = NULL;
        log->first = s->next;
        if (log->first == NULL)
            log->last = NULL;
        segment_free(log, s);
    }
}

/* A segment with room for `bytes` at the end. NULL: no memory. */
static struct nib__segment *grow(struct nib__tail *log, size_t bytes)
    NIB__OWNER_ONLY;
static struct nib__segment *grow(struct nib__tail *log, size_t bytes)
{
    struct nib_server *srv = log->shard->server;
    size_t limit = srv->config->limits.topic_total_bytes;
    size_t capacity = bytes > SEGMENT_BYTES ? bytes : SEGMENT_BYTES;
    size_t total = atomic_fetch_add_explicit(&srv->topic_total, capacity,
                                             memory_order_relaxed);
    struct nib__segment *s = NULL;

    if (limit == 0 || total + capacity <= limit)
        s = nib__alloc(sizeof *s + capacity);
    if (s == NULL) {
        atomic_fetch_sub_explicit(&srv->topic_total, capacity,
                                  memory_order_relaxed);
        return NULL;
    }
    *s = (struct nib__segment){.start = log->head, .capacity = capacity};
    log->bytes += capacity;
    if (log->last != NULL)
        log->last->next = s;
    else
        log->first = s;
    log->last = s;
    return s;
}

/* Room for one more end in the index. */
static int reserve_end(struct nib__segment *s)
{
    unsigned capacity = s->ends_capacity == 0 ? 16 : s->ends_capacity * 2;
    uint32_t *ends;

    if (s->count < s->ends_capacity)
        return 0;
    ends = nib__realloc(s->ends, capacity * sizeof *ends);
    if (ends == NULL)
        return -ENOMEM;
    s->ends = ends;
    s->ends_capacity = capacity;
    return 0;
}

int nib__tail_append(struct nib__tail *log, const struct nib_message *msg,
                    size_t bytes)
{
    struct nib__segment *s = log->last;

    if (s == NULL || s->capacity - s->len < bytes)
        s = grow(log, bytes);
    if (s == NULL || reserve_end(s) < 0)
        return -ENOMEM;
    nib__wire_encode(s->bytes + s->len, msg->kind, msg->data, msg->len,
                     nib__limits(log->shard->server)->frame_bytes);
    s->len += bytes;
    s->ends[s->count++] = (uint32_t)s->len;
    log->head += bytes;
    return 0;
}

struct nib__segment *nib__tail_at(const struct nib__member *m)
{
    struct nib__tail *log = m->log;
    struct nib__segment *s = log->first;

    if (m->pos >= log->head)
        return NULL;
    if (log->hint != NULL && m->pos >= log->hint->start)
        s = log->hint;
    while (m->pos >= nib__segment_end(s))
        s = s->next;
    return s;
}

/* ---- members ---- */

static void rotation_add(struct nib__tail *log, struct nib__member *m)
{
    m->hung = false;
    m->next = NULL;
    m->place = log->rotation_end;
    *log->rotation_end = m;
    log->rotation_end = &m->next;
}

/* In front, to be visited in the round that is going on. */
static void rotation_add_first(struct nib__tail *log, struct nib__member *m)
{
    m->hung = false;
    m->next = log->rotation;
    m->place = &log->rotation;
    if (m->next != NULL)
        m->next->place = &m->next;
    else
        log->rotation_end = &m->next;
    log->rotation = m;
}

static void unlink_member(struct nib__tail *log, struct nib__member *m)
{
    *m->place = m->next;
    if (m->next != NULL)
        m->next->place = m->place;
    else if (log->rotation_end == &m->next)
        log->rotation_end = m->place;
}

/* Hangs a member that is in no list on the segment where it stands. */
static void hang(struct nib__tail *log, struct nib__member *m)
    NIB__OWNER_ONLY;
static void hang(struct nib__tail *log, struct nib__member *m)
{
    struct nib__segment *s = nib__tail_at(m);

    /* At the head nothing has to be pinned yet. */
    if (s == NULL) {
        rotation_add(log, m);
        return;
    }
    m->hung = true;
    m->next = s->hung;
    m->place = &s->hung;
    if (m->next != NULL)
        m->next->place = &m->next;
    s->hung = m;
}

void nib__tail_join(struct nib__tail *log, struct nib__member *m)
{
    m->log = log;
    m->pos = log->head;
    m->round = log->round;
    log->count++;
    rotation_add(log, m);
}

/* What everybody has passed is freed, and given back to publishers. */
static void release_to(struct nib__tail *log, uint64_t pos) NIB__OWNER_ONLY;
static void release_to(struct nib__tail *log, uint64_t pos)
{
    size_t bytes = (size_t)(pos - log->released);
    struct nib__segment *s = log->hint == NULL ? log->first : log->hint;

    log->released = pos;
    while (s != NULL && nib__segment_end(s) <= pos)
        s = s->next;
    log->hint = s;
    trim(log);
    if (bytes > 0)
        nib__topic_release(log->shard->server, log->topic,
                           log->shard->reactor.number, bytes);
}

/* A log without members: everything in it is passed. */
static void log_free(struct nib__tail *log) NIB__OWNER_ONLY;
static void log_free(struct nib__tail *log)
{
    struct nib__fan *fan = log->shard->fan;

    if (log->listed) {
        struct nib__tail **place = &fan->first;

        while (*place != log)
            place = &(*place)->next;
        *place = log->next;
        if (fan->last == &log->next)
            fan->last = place;
    }
    log->topic->shares[log->shard->reactor.number].log = NULL;
    release_to(log, log->head);
    nib__topic_unref(log->shard->server, log->topic);
    nib__free(log);
}

void nib__tail_pin(struct nib__tail *log)
{
    log->pins++;
}

void nib__tail_unpin(struct nib__tail *log)
{
    if (--log->pins == 0 && log->count == 0)
        log_free(log);
}

void nib__tail_leave(struct nib__member *m)
{
    struct nib__tail *log = m->log;

    unlink_member(log, m);
    if (--log->count == 0 && log->pins == 0)
        log_free(log);
    else if (m->hung)
        trim(log);
}

/* Must this member hang, after a write of its connection? */
static bool must_hang(const struct nib__tail *log, const struct nib__member *m,
                      bool blocked)
{
    if (m->pos == log->head)
        return false;
    return blocked || m->pos < log->released ||
           (log->in_round && m->round == log->round &&
            m->pos < log->round_head);
}

static void settle(struct nib__tail *log, struct nib__member *m, bool blocked)
    NIB__OWNER_ONLY;
static void settle(struct nib__tail *log, struct nib__member *m, bool blocked)
{
    bool was_hung = m->hung;

    if (!was_hung && !must_hang(log, m, blocked))
        return;
    unlink_member(log, m);
    if (must_hang(log, m, blocked))
        hang(log, m);
    else if (m->pos < log->round_head && m->round != log->round)
        rotation_add_first(log, m);
    else
        rotation_add(log, m);
    if (was_hung)
        trim(log);
    if (m->pos < log->head && !m->hung)
        nib__tail_fan(log);
}

void nib__cursors_settle(struct nib_conn *c, bool blocked)
{
    for (struct nib__member *m = c->members; m != NULL; m = m->conn_next)
        settle(m->log, m, blocked);
}

/* ---- slow subscribers ---- */

/* Does the log need more than it may have, and is m at its tail? */
static bool at_full_tail(const struct nib__tail *log,
                         const struct nib__segment *s)
{
    return log->bytes > nib__topic_limit(log->shard->server) &&
           s == log->first && s != log->last;
}

/*
 * Blocked, and more than the outbox's bytes and more than one message
 * behind, or at the tail of a full log.
 */
static bool too_slow(const struct nib__tail *log, const struct nib__segment *s,
                     const struct nib__member *m) NIB__OWNER_ONLY;
static bool too_slow(const struct nib__tail *log, const struct nib__segment *s,
                     const struct nib__member *m)
{
    const struct nib__segment *last = log->last;
    uint64_t last_message;

    if (m->conn->progress_ms == UINT64_MAX)
        return false;
    if (at_full_tail(log, s))
        return true;
    if (log->head - m->pos <= nib__conn_limits(m->conn)->outbox_bytes)
        return false;
    last_message = last->start +
                   (last->count < 2 ? 0 : last->ends[last->count - 2]);
    return m->pos < last_message;
}

unsigned nib__tail_close_slow(struct nib__tail *log)
{
    size_t limit = nib__limits(log->shard->server)->outbox_bytes;
    struct nib__segment *s = log->first;
    unsigned closed = 0;

    while (s != NULL &&
           (log->head - s->start > limit || at_full_tail(log, s))) {
        struct nib__member *m = s->hung;

        while (m != NULL && !too_slow(log, s, m))
            m = m->next;
        if (m == NULL) {
            s = s->next;
            continue;
        }
        closed++;
        nib__count(&log->shard->counters.slow, 1);
        /* Takes the member out, and may free segments. */
        nib__conn_fail(m->conn, 1013, "slow consumer", false);
        s = log->first;
    }
    return closed;
}

/* The first member that is still to go on; NULL: none is. */
static struct nib__member *any_member(const struct nib__tail *log)
{
    struct nib__member *m = log->rotation;

    while (m != NULL && m->end != UINT64_MAX)
        m = m->next;
    for (struct nib__segment *s = log->first; m == NULL && s != NULL;
         s = s->next) {
        m = s->hung;
        while (m != NULL && m->end != UINT64_MAX)
            m = m->next;
    }
    return m;
}

unsigned nib__tail_lost(struct nib__tail *log)
{
    struct nib__member *m;
    unsigned lost = 0;

    for (; (m = any_member(log)) != NULL; lost++)
        nib__conn_fail(m->conn, 1011, "no memory", false);
    return lost;
}

/* ---- rounds ---- */

void nib__tail_fan(struct nib__tail *log)
{
    struct nib__fan *fan = log->shard->fan;

    if (log->listed)
        return;
    log->listed = true;
    log->next = NULL;
    *fan->last = log;
    fan->last = &log->next;
}

static void round_begin(struct nib__tail *log)
{
    log->in_round = true;
    log->round++;
    log->round_head = log->head;
}

/*
 * Pacing, when it comes, waits after this for about the time that the round
 * took before the next one begins.
 */
static void round_end(struct nib__tail *log) NIB__OWNER_ONLY;
static void round_end(struct nib__tail *log)
{
    log->in_round = false;
    release_to(log, log->round_head);
}

/* Visits the next member. Returns false if the round is over. */
static bool visit(struct nib__tail *log) NIB__OWNER_ONLY;
static bool visit(struct nib__tail *log)
{
    struct nib__member *m = log->rotation;
    struct nib_conn *c;

    if (m == NULL || m->round == log->round)
        return false;
    unlink_member(log, m);
    rotation_add(log, m);
    m->round = log->round;
    if (m->pos >= log->round_head)
        return true;
    c = nib_conn_ref(m->conn);
    nib__conn_flush(c);
    /* The flush may have been put off because a sender has the lock. */
    if (c->phase != NIB__ENDED_CONN)
        nib__cursors_settle(c, c->progress_ms != UINT64_MAX);
    nib_conn_unref(c);
    return true;
}

/* Rounds of one log until it is done or the time is over. */
static bool fan_log(struct nib__tail *log, uint64_t until_ns, unsigned *visits)
    NIB__OWNER_ONLY;
static bool fan_log(struct nib__tail *log, uint64_t until_ns, unsigned *visits)
{
    while (log->in_round || log->released < log->head) {
        if (!log->in_round)
            round_begin(log);
        while (visit(log))
            if (++*visits % CLOCK_EVERY == 0 && nib__clock_ns() >= until_ns)
                return false;
        round_end(log);
    }
    return true;
}

/* Takes the first log off the list. */
static struct nib__tail *fan_pop(struct nib__fan *fan)
{
    struct nib__tail *log = fan->first;

    fan->first = log->next;
    if (fan->first == NULL)
        fan->last = &fan->first;
    log->listed = false;
    return log;
}

int64_t nib__fan_run(struct nib__shard *shard)
{
    struct nib__fan *fan = shard->fan;
    unsigned visits = 0;
    uint64_t until_ns;

    if (fan->first == NULL)
        return -1;
    until_ns = nib__clock_ns() + SLICE_NS;
    while (fan->first != NULL) {
        struct nib__tail *log = fan_pop(fan);
        bool done;

        nib__tail_pin(log);
        done = fan_log(log, until_ns, &visits);
        if (!done && log->count > 0)
            nib__tail_fan(log);
        nib__tail_unpin(log);
        if (!done)
            return 0;
    }
    return -1;
}
