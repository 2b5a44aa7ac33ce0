/*
 * topic - the table of topics, and subscriptions.
 *
 * A topic exists while somebody is subscribed to it or a publish is under
 * way. The number of members on each reactor is counted up in the
 * subscriber's own call, so that a publish by the same thread afterwards
 * never misses; the owner counts it down when the membership ends.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "server/tail.h"

enum {
    BUCKETS = 1024,
    NAME_MAX_BYTES = 1024,
};

struct nib__topics {
    struct nib__lock lock;
    struct nib__topic *buckets[BUCKETS];
};

struct nib__topics *nib__topics_new(void)
{
    struct nib__topics *topics = nib__alloc_zero(sizeof *topics);

    if (topics != NULL)
        nib__lock_init(&topics->lock);
    return topics;
}

void nib__topics_free(struct nib__topics *topics)
{
    if (topics == NULL)
        return;
    nib__lock_destroy(&topics->lock);
    nib__free(topics);
}

size_t nib__topic_limit(const struct nib_server *srv)
{
    return srv->config->limits.topic_bytes;
}

/* Where a name is, or would be appended. */
static struct nib__topic **find(struct nib__topics *topics, const char *name,
                                size_t len)
{
    struct nib__topic **place =
        &topics->buckets[nib__hash(name, len) % BUCKETS];

    while (*place != NULL && ((*place)->name_len != len ||
                              memcmp((*place)->name, name, len) != 0))
        place = &(*place)->next;
    return place;
}

static struct nib__topic *topic_new(struct nib_server *srv, const char *name,
                                    size_t len)
{
    struct nib__topic *topic = nib__alloc_zero(sizeof *topic + len + 1);

    if (topic == NULL)
        return NULL;
    topic->shares = nib__alloc_zero(srv->shard_count *
                                    sizeof *topic->shares);
    if (topic->shares == NULL) {
        nib__free(topic);
        return NULL;
    }
    nib__lock_init(&topic->lock);
    topic->waiters_end = &topic->waiters;
    topic->name_len = len;
    memcpy(topic->name, name, len);
    return topic;
}

struct nib__topic *nib__topic_get(struct nib_server *srv, const char *name,
                                  size_t len, bool make)
{
    struct nib__topics *topics = srv->topics;
    struct nib__topic **place, *topic;

    nib__lock_take(&topics->lock);
    place = find(topics, name, len);
    if (*place == NULL && make)
        *place = topic_new(srv, name, len);
    topic = *place;
    if (topic != NULL)
        topic->refs++;
    nib__lock_release(&topics->lock);
    return topic;
}

struct nib__topic *nib__topic_ref(struct nib_server *srv,
                                  struct nib__topic *topic)
{
    nib__lock_take(&srv->topics->lock);
    topic->refs++;
    nib__lock_release(&srv->topics->lock);
    return topic;
}

void nib__topic_unref(struct nib_server *srv, struct nib__topic *topic)
{
    struct nib__topics *topics = srv->topics;
    bool last;

    nib__lock_take(&topics->lock);
    last = --topic->refs == 0;
    if (last)
        *find(topics, topic->name, topic->name_len) = topic->next;
    nib__lock_release(&topics->lock);
    if (!last)
        return;
    nib__lock_destroy(&topic->lock);
    nib__free(topic->shares);
    nib__free(topic);
}

/* Counts a member of a shard in or out. */
static void count_member(struct nib__topic *topic, struct nib__shard *shard,
                         int by)
{
    nib__lock_take(&topic->lock);
    topic->shares[shard->reactor.number].members += (unsigned)by;
    nib__lock_release(&topic->lock);
}

/* The membership is over, or never began. */
static void member_free(struct nib__member *m, struct nib__shard *shard)
{
    count_member(m->topic, shard, -1);
    nib__topic_unref(shard->server, m->topic);
    nib__free(m);
}

/* The place of a connection's current subscription to a topic, or of NULL. */
static struct nib__member **member_place(struct nib_conn *c,
                                         const struct nib__topic *topic)
    NIB__OWNER_ONLY;
static struct nib__member **member_place(struct nib_conn *c,
                                         const struct nib__topic *topic)
{
    struct nib__member **place = &c->members;

    while (*place != NULL &&
           ((*place)->topic != topic || (*place)->end != UINT64_MAX))
        place = &(*place)->conn_next;
    return place;
}

/* Takes a member off its connection and its log. */
static void member_leave(struct nib_conn *c, struct nib__member **place)
    NIB__OWNER_ONLY;
static void member_leave(struct nib_conn *c, struct nib__member **place)
{
    struct nib__member *m = *place;

    *place = m->conn_next;
    nib__tail_leave(m);
    member_free(m, c->shard);
}

static void subscribe_run(struct nib__record *record) NIB__OWNER_ONLY;
static void subscribe_run(struct nib__record *record)
{
    struct nib__member *m = (struct nib__member *)record;
    struct nib_conn *c = m->conn;
    struct nib__member **place = member_place(c, m->topic);
    struct nib__tail *log = NULL;

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    nib__conn_command_over(c);
    if (c->phase == NIB__OPENED && *place == NULL) {
        log = nib__tail_get(m->topic, c->shard);
        if (log == NULL)
            nib__conn_fail(c, 1011, "no memory", false);
    }
    if (log == NULL) {
        member_free(m, c->shard);
    } else {
        nib__tail_join(log, m);
        *place = m;
        nib__cursors_settle(c, c->progress_ms != UINT64_MAX);
    }
    nib_conn_unref(c);
}

static void subscribe_cancel(struct nib__record *record)
{
    struct nib__member *m = (struct nib__member *)record;
    struct nib_conn *c = m->conn;

    nib__conn_command_over(c);
    member_free(m, c->shard);
    nib_conn_unref(c);
}

size_t nib__topic_name_length(const char *name)
{
    size_t len = strnlen(name, NAME_MAX_BYTES + 1);

    return len > NAME_MAX_BYTES ? 0 : len;
}

int nib_subscribe(struct nib_conn *c, const char *topic)
{
    size_t len = nib__topic_name_length(topic);
    struct nib__member *m;
    int err;

    if (len == 0)
        return -EINVAL;
    if (nib_conn_state(c) != NIB_OPEN)
        return -EPIPE;
    m = nib__alloc_zero(sizeof *m);
    if (m == NULL)
        return -ENOMEM;
    m->topic = nib__topic_get(c->shard->server, topic, len, true);
    if (m->topic == NULL) {
        nib__free(m);
        return -ENOMEM;
    }
    m->record.run = subscribe_run;
    m->record.cancel = subscribe_cancel;
    m->conn = nib_conn_ref(c);
    m->end = UINT64_MAX;
    count_member(m->topic, c->shard, +1);
    err = nib__conn_command(c, &m->record);
    if (err < 0)
        subscribe_cancel(&m->record);
    return err;
}

/* An end of a subscription on its way to the owner. */
struct leaving {
    struct nib__record record;
    struct nib_conn *conn;
    struct nib__topic *topic;
};

static void leaving_free(struct leaving *l)
{
    nib__conn_command_over(l->conn);
    nib__topic_unref(l->conn->shard->server, l->topic);
    nib_conn_unref(l->conn);
    nib__free(l);
}

static void unsubscribe_run(struct nib__record *record) NIB__OWNER_ONLY;
static void unsubscribe_run(struct nib__record *record)
{
    struct leaving *l = (struct leaving *)record;
    struct nib__member **place = member_place(l->conn, l->topic);
    struct nib__member *m = *place;

    if (m != NULL && m->pos == m->log->head)
        member_leave(l->conn, place);
    else if (m != NULL)
        m->end = m->log->head;
    leaving_free(l);
}

static void unsubscribe_cancel(struct nib__record *record)
{
    leaving_free((struct leaving *)record);
}

int nib_unsubscribe(struct nib_conn *c, const char *topic)
{
    size_t len = nib__topic_name_length(topic);
    struct nib__topic *found;
    struct leaving *l;
    int err;

    if (len == 0)
        return -EINVAL;
    if (nib_conn_state(c) != NIB_OPEN)
        return -EPIPE;
    found = nib__topic_get(c->shard->server, topic, len, false);
    if (found == NULL)
        return 0;
    l = nib__alloc(sizeof *l);
    if (l == NULL) {
        nib__topic_unref(c->shard->server, found);
        return -ENOMEM;
    }
    l->record.run = unsubscribe_run;
    l->record.cancel = unsubscribe_cancel;
    l->conn = nib_conn_ref(c);
    l->topic = found;
    err = nib__conn_command(c, &l->record);
    if (err < 0)
        leaving_free(l);
    return err;
}

void nib__members_leave(struct nib_conn *c)
{
    while (c->members != NULL)
        member_leave(c, &c->members);
}

/* ---- cursors of one connection ---- */

/* How far a cursor may go now. */
static uint64_t member_limit(const struct nib__member *m)
{
    return m->end < m->log->head ? m->end : m->log->head;
}

int nib__cursors_pieces(struct nib_conn *c, struct iovec *pieces, int max,
                        size_t max_bytes, bool *all)
{
    size_t bytes = 0;
    int n = 0;

    *all = true;
    for (struct nib__member *m = c->members; m != NULL; m = m->conn_next) {
        uint64_t pos = m->pos, limit = member_limit(m);
        struct nib__segment *s = nib__tail_at(m);

        for (; pos < limit; s = s->next) {
            uint64_t end = nib__segment_end(s);

            if (n == max || bytes >= max_bytes) {
                *all = false;
                return n;
            }
            if (end > limit)
                end = limit;
            pieces[n].iov_base = s->bytes + (pos - s->start);
            pieces[n].iov_len = (size_t)(end - pos);
            bytes += pieces[n++].iov_len;
            pos = end;
        }
    }
    return n;
}

/* The message that a cursor stands inside: where it begins and ends. */
static bool inside(const struct nib__member *m, const struct nib__segment **s,
                   size_t *from, size_t *to) NIB__OWNER_ONLY;
static bool inside(const struct nib__member *m, const struct nib__segment **s,
                   size_t *from, size_t *to)
{
    unsigned low = 0, high;
    size_t off;

    *s = nib__tail_at(m);
    if (*s == NULL)
        return false;
    off = (size_t)(m->pos - (*s)->start);
    high = (*s)->count;
    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if ((*s)->ends[mid] <= off)
            low = mid + 1;
        else
            high = mid;
    }
    *from = low == 0 ? 0 : (*s)->ends[low - 1];
    *to = (*s)->ends[low];
    return off > *from;
}

/*
 * Makes the member at `place` the connection's first. A message that is
 * partly written has to go on before any other topic's, and only the first
 * one's pieces are sure to come first.
 */
static void to_front(struct nib_conn *c, struct nib__member **place)
    NIB__OWNER_ONLY;
static void to_front(struct nib_conn *c, struct nib__member **place)
{
    struct nib__member *m = *place;

    *place = m->conn_next;
    m->conn_next = c->members;
    c->members = m;
}

void nib__cursors_consume(struct nib_conn *c, size_t n)
{
    struct nib__member **place = &c->members;

    while (*place != NULL) {
        struct nib__member *m = *place;
        uint64_t left = member_limit(m) - m->pos;
        size_t part = left < n ? (size_t)left : n;
        const struct nib__segment *s;
        size_t from, to;

        m->pos += part;
        n -= part;
        if (m->pos >= m->end) {
            member_leave(c, place);
        } else if (n == 0 && inside(m, &s, &from, &to)) {
            to_front(c, place);
            break;
        } else {
            place = &m->conn_next;
        }
        if (n == 0)
            break;
    }
}

/* Bytes to the end of the frame that m stands inside; 0: at a boundary. */
static size_t frame_rest(const struct nib__member *m) NIB__OWNER_ONLY;
static size_t frame_rest(const struct nib__member *m)
{
    const struct nib__segment *s;
    size_t at, to, off;

    if (!inside(m, &s, &at, &to))
        return 0;
    off = (size_t)(m->pos - s->start);
    while (at < off) {
        struct nib__frame frame;
        int header = nib__frame_decode(s->bytes + at, to - at, 7, &frame);

        at += (size_t)header + (size_t)frame.length;
    }
    return at - off;
}

/* Only one cursor can stand inside a message, and it is the first. */
static const struct nib__member *unfinished(const struct nib_conn *c)
    NIB__OWNER_ONLY;
static const struct nib__member *unfinished(const struct nib_conn *c)
{
    const struct nib__member *m = c->members;
    const struct nib__segment *s;
    size_t from, to;

    return m != NULL && inside(m, &s, &from, &to) ? m : NULL;
}

size_t nib__cursors_frame_rest(const struct nib_conn *c)
{
    const struct nib__member *m = unfinished(c);

    return m == NULL ? 0 : frame_rest(m);
}

bool nib__cursors_mid_message(const struct nib_conn *c)
{
    return unfinished(c) != NULL;
}

bool nib__cursors_waiting(const struct nib_conn *c)
{
    for (const struct nib__member *m = c->members; m != NULL;
         m = m->conn_next)
        if (m->pos < member_limit(m))
            return true;
    return false;
}

void nib__cursors_end(struct nib_conn *c)
{
    struct nib__member **place = &c->members;

    while (*place != NULL) {
        struct nib__member *m = *place;

        if (m->end > m->log->head)
            m->end = m->log->head;
        if (m->pos >= m->end)
            member_leave(c, place);
        else
            place = &m->conn_next;
    }
}

/*
 * Moves the rest of a frame into the outbox, which has been dropped: a peer
 * that does not read must not pin the log of all others. The chunk begins
 * with a byte that counts as written, as the frame's beginning is. False: no
 * memory.
 */
static bool keep_rest(struct nib_conn *c, const struct nib__member *m,
                      size_t rest) NIB__OWNER_ONLY;
static bool keep_rest(struct nib_conn *c, const struct nib__member *m,
                      size_t rest)
{
    const struct nib__segment *s = nib__tail_at(m);
    struct nib__chunk *chunk = nib__chunk_new(&c->shard->pool, rest + 1);

    if (chunk == NULL)
        return false;
    memcpy(chunk->bytes + 1, s->bytes + (m->pos - s->start), rest);
    chunk->off = 1;
    chunk->len = (uint32_t)(rest + 1);
    chunk->raw = true;
    nib__lock_take(&c->out.lock);
    nib__outbox_link(&c->out, chunk, rest);
    nib__lock_release(&c->out.lock);
    return true;
}

void nib__cursors_drop(struct nib_conn *c)
{
    while (c->members != NULL) {
        size_t rest = frame_rest(c->members);

        if (rest > 0 && !keep_rest(c, c->members, rest)) {
            nib__conn_end(c, true);
            return;
        }
        member_leave(c, &c->members);
    }
}
