/*
 * handle - what any thread does with a connection.
 *
 * Sends meet the owner in the outbox, receives in the inbox; everything else
 * is a bit that the owner is asked for, or a record. Nothing here touches
 * what belongs to the owner.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "server/command.h"
#include "server/conn.h"

/* One send, while it is being made. */
struct send {
    struct nib_conn *conn;
    const void *data;        /* to be copied, or */
    struct nib_message *msg; /* to be shared */
    size_t len;
    size_t bytes;            /* on the wire */
    unsigned kind;
    unsigned flags;
    uint64_t due_ns;          /* when a waiting send gives up */
    struct nib__chunk *chunk; /* made outside the lock */
};

/* Is this small enough to be copied under the lock? */
static bool copied(const struct send *s)
{
    size_t most = s->msg == NULL ? NIB__COPY_LOCKED - 10 : NIB__COPY_SHARED;

    return s->len <= most &&
           s->len <= nib__conn_limits(s->conn)->frame_bytes;
}

/* Encodes into chunks of its own. */
static int encode(struct send *s)
{
    struct nib__chunk_pool *pool = &s->conn->shard->pool;
    size_t frame_bytes = nib__conn_limits(s->conn)->frame_bytes;

    s->chunk = s->msg != NULL
                   ? nib__chunk_share(pool, s->msg, frame_bytes)
                   : nib__chunk_encode(pool, s->kind, s->data, s->len,
                                       frame_bytes);
    return s->chunk == NULL ? -ENOMEM : 0;
}

/* What is new in the outbox has to be flushed by somebody. */
static bool ask_flush(struct nib__outbox *o, bool here)
    NIB__REQUIRES(o->lock);
static bool ask_flush(struct nib__outbox *o, bool here)
{
    o->sent++;
    if (o->blocked || here)
        return false;
    return nib__outbox_ask(o, NIB__OP_FLUSH);
}

static void flush_here(struct nib_conn *c) NIB__NO_ANALYSIS
{
    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    nib__conn_soon(c);
}

/*
 * Appends if there is room. Returns 0, -EAGAIN, -EPIPE or -ENOMEM; *post
 * tells whether the record has to be posted.
 */
static int try_append(struct send *s, bool here, bool *post)
{
    struct nib_conn *c = s->conn;
    struct nib__outbox *o = &c->out;
    int err = 0;

    nib__lock_take(&o->lock);
    if (o->send_closed) {
        err = -EPIPE;
    } else if (!nib__outbox_room(o, s->bytes,
                                 nib__conn_limits(c)->outbox_bytes)) {
        err = -EAGAIN;
        o->wants_room = o->wants_room || here;
    } else if (s->chunk != NULL) {
        nib__outbox_link(o, s->chunk, s->bytes);
        s->chunk = NULL;
    } else {
        err = nib__outbox_copy(o, &c->shard->pool, s->kind, s->data, s->len);
    }
    *post = err == 0 && ask_flush(o, here);
    nib__lock_release(&o->lock);
    return err;
}

/* The line ended for this waiter, or its time did. */
static int leave_line(struct send *s, struct nib__waiter *w)
{
    struct nib_conn *c = s->conn;
    struct nib__wakes wakes = {.count = 0};

    nib__lock_take(&c->out.lock);
    if (atomic_load_explicit(&w->word, memory_order_relaxed) == 0) {
        nib__outbox_unwait(&c->out, w);
        w->result = -ETIMEDOUT;
        /* Those behind it may be smaller, and fit. */
        nib__outbox_serve(&c->out, nib__conn_limits(c)->outbox_bytes,
                          &wakes);
    }
    nib__lock_release(&c->out.lock);
    nib__wakes_send(&wakes);
    return w->result;
}

/* Stands in line until there is room. */
static int wait_append(struct send *s)
{
    struct nib_conn *c = s->conn;
    struct nib__outbox *o = &c->out;
    struct nib__waiter w = {.bytes = s->bytes};
    bool post;
    int err;

    if (s->chunk == NULL && (err = encode(s)) < 0)
        return err;
    nib__lock_take(&o->lock);
    if (o->send_closed ||
        nib__outbox_room(o, s->bytes, nib__conn_limits(c)->outbox_bytes)) {
        nib__lock_release(&o->lock);
        err = try_append(s, false, &post);
        if (post)
            nib__conn_post(c);
        return err;
    }
    w.chunks = s->chunk;
    nib__outbox_wait(o, &w);
    nib__lock_release(&o->lock);
    while (atomic_load_explicit(&w.word, memory_order_acquire) == 0)
        if (nib__futex_wait(&w.word, 0, s->due_ns) == -ETIMEDOUT)
            break;
    err = leave_line(s, &w);
    s->chunk = w.chunks;
    return err;
}

static int send_now(struct send *s)
{
    struct nib_conn *c = s->conn;
    bool here = nib__conn_here(c), post;
    int err = 0;

    if (s->len > nib__conn_limits(c)->message_bytes)
        return -EMSGSIZE;
    s->bytes = nib__wire_bytes(s->len, nib__conn_limits(c)->frame_bytes);
    if (!copied(s))
        err = encode(s);
    if (err == 0)
        err = try_append(s, here, &post);
    if (err == 0 && post)
        nib__conn_post(c);
    else if (err == 0 && here)
        flush_here(c);
    if (err == -EAGAIN && !(s->flags & NIB_NOWAIT) && !nib__on_reactor()) {
        s->due_ns = nib__clock_due_ns(c->route->send_timeout_ms);
        while (err == -EAGAIN)
            err = wait_append(s);
    }
    nib__chunks_free(&c->shard->pool, s->chunk);
    return err;
}

int nib_send(struct nib_conn *c, const void *data, size_t len,
             unsigned flags)
{
    struct send s = {.conn = c,
                     .data = data,
                     .len = len,
                     .kind = flags & (NIB_TEXT | NIB_BINARY),
                     .flags = flags};

    if (s.kind != NIB_TEXT && s.kind != NIB_BINARY)
        return -EINVAL;
    if (s.kind == NIB_TEXT && !(flags & NIB_TRUSTED) &&
        !nib__utf8_valid(data, len))
        return -EILSEQ;
    return send_now(&s);
}

int nib_send_message(struct nib_conn *c, struct nib_message *msg,
                     unsigned flags)
{
    struct send s = {.conn = c,
                     .data = msg->data,
                     .len = msg->len,
                     .kind = msg->kind,
                     .flags = flags};
    struct nib_message *kept = NULL;
    int err = flags & NIB_TRUSTED ? 0 : nib__message_check(msg);

    if (err < 0)
        return err;
    if (!msg->borrowed && msg->len > NIB__COPY_SHARED) {
        kept = nib_message_ref(msg);
        s.msg = kept;
    }
    err = send_now(&s);
    nib_message_unref(kept);
    return err;
}

int nib_recv(struct nib_conn *c, struct nib_message **msg, int timeout_ms)
{
    bool more;
    int err;

    if (nib__on_reactor())
        return -EDEADLK;
    if (c->in == NULL)
        return NIB_ESTATE;
    err = nib__inbox_take(c->in, nib__clock_due_ns(timeout_ms), msg, &more);
    if (more)
        nib__conn_ask(c, NIB__OP_READ);
    return err;
}

int nib_flush(struct nib_conn *c, int timeout_ms)
{
    uint64_t target;
    bool done, lost;

    nib__lock_take(&c->out.lock);
    target = c->out.accepted;
    lost = c->out.dropped > 0;
    done = c->out.written >= target;
    nib__lock_release(&c->out.lock);
    if (lost)
        return -EPIPE;
    if (done)
        return 0;
    if (nib__on_reactor())
        return -EDEADLK;
    return nib__park(c, true, target, timeout_ms);
}

/* Checks what a Close may say (RFC 6455, 7.4). */
static bool close_valid(unsigned code, const char *reason, size_t len)
{
    if (code == 0)
        return len == 0;
    return nib__close_code_valid(code) && len <= NIB__REASON_MAX &&
           nib__utf8_valid(reason, len);
}

int nib_close(struct nib_conn *c, unsigned code, const char *reason,
              int timeout_ms)
{
    size_t len = reason == NULL ? 0 : strlen(reason);
    int err;

    if (!close_valid(code, reason, len))
        return -EINVAL;
    if (timeout_ms != 0 && nib__on_reactor() && !nib__conn_here(c))
        return -EDEADLK;
    if (nib__conn_decide_close(c, code, nib__ending_new(code, reason, len)))
        nib__conn_ask(c, NIB__OP_CLOSE);
    if (timeout_ms == 0)
        return 0;
    if (nib__on_reactor())
        return nib_conn_state(c) == NIB_CLOSED ? 0 : -EAGAIN;
    /* Also if it is closed: on_close may still be running on the owner. */
    err = nib__park(c, false, 0, timeout_ms);
    return err == -ECANCELED && nib_conn_state(c) == NIB_CLOSED ? 0 : err;
}

void nib_abort(struct nib_conn *c)
{
    nib__conn_ask(c, NIB__OP_ABORT);
}

/* For pause and resume. */
static int ask_reading(struct nib_conn *c, uint8_t op)
{
    if (c->in != NULL)
        return NIB_ESTATE;
    if (nib_conn_state(c) != NIB_OPEN)
        return -EPIPE;
    nib__conn_ask(c, op);
    return 0;
}

int nib_conn_pause(struct nib_conn *c)
{
    return ask_reading(c, NIB__OP_PAUSE);
}

int nib_conn_resume(struct nib_conn *c)
{
    return ask_reading(c, NIB__OP_READ);
}

uint64_t nib_conn_id(const struct nib_conn *c)
{
    return c->id;
}

size_t nib_conn_buffered(struct nib_conn *c)
{
    size_t bytes;

    nib__lock_take(&c->out.lock);
    bytes = c->out.charged;
    nib__lock_release(&c->out.lock);
    return bytes;
}

int nib_conn_state(const struct nib_conn *c)
{
    return atomic_load_explicit(&c->state, memory_order_acquire);
}

const char *nib_conn_subprotocol(const struct nib_conn *c)
{
    return c->subprotocol == NULL ? "" : c->subprotocol;
}

struct nib_server *nib_conn_server(const struct nib_conn *c)
{
    return c->shard->server;
}

void *nib_conn_user(const struct nib_conn *c)
{
    return atomic_load_explicit(&c->user, memory_order_acquire);
}

void nib_conn_set_user(struct nib_conn *c, void *user)
{
    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    atomic_store_explicit(&c->user, user, memory_order_release);
}

int nib_conn_close_info(struct nib_conn *c, struct nib_close_info *out)
{
    struct nib__outbox *o = &c->out;
    int err = 0;

    nib__lock_take(&o->lock);
    if (!o->send_closed)
        err = NIB_ESTATE;
    else
        *out = (struct nib_close_info){
            .code = o->end_code,
            .local = o->local,
            .clean = o->clean,
            .reason = o->ending == NULL
                          ? ""
                          : (const char *)o->ending->frame + 4,
            .unsent_bytes = o->dropped,
        };
    nib__lock_release(&o->lock);
    return err;
}
