/*
 * conn_read - one read a turn, and what its bytes mean.
 *
 * Reads go into the reactor's own big buffer; an idle connection holds none.
 * What cannot be used yet (no room in the inbox, paused, an incomplete
 * header) goes into the connection's stash, which comes first at the next
 * read. One read and the rest before it never exceed the stash's bound, so
 * that what is left always fits.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "server/command.h"
#include "server/conn.h"

bool nib__conn_reading(const struct nib_conn *c)
{
    switch (c->phase) {
    case NIB__FIRST:
    case NIB__HEAD:
    case NIB__LINGER:
        return true;
    case NIB__OPENED:
        return !c->paused && !c->no_room;
    case NIB__CLOSING:
        return !c->close_received;
    default:
        return false;
    }
}

/* Counts pings, pongs and empty fragments; false: too many in a second. */
static bool rate_ok(struct nib_conn *c) NIB__OWNER_ONLY;
static bool rate_ok(struct nib_conn *c)
{
    unsigned limit = nib__conn_limits(c)->control_rate;
    uint32_t second = (uint32_t)(nib__conn_reactor(c)->now_ms / 1000);

    if (limit == 0)
        return true;
    if (second != c->rate_second) {
        c->rate_second = second;
        c->rate_count = 0;
    }
    if (++c->rate_count <= limit)
        return true;
    nib__conn_fail(c, 1008, "too many control frames", true);
    return false;
}

/* A whole message, for the inbox or for on_message. */
static void got_message(struct nib_conn *c, struct nib__event *event)
    NIB__OWNER_ONLY;
static void got_message(struct nib_conn *c, struct nib__event *event)
{
    struct nib_message borrowed, *msg = event->msg;

    nib__count(&c->shard->counters.messages_in, 1);
    c->active_ms = nib__conn_reactor(c)->now_ms;
    /* Nothing is delivered after a callback has closed, either. */
    if (c->phase != NIB__OPENED ||
        c->todo & (NIB__OP_CLOSE | NIB__OP_ABORT)) {
        nib_message_unref(msg);
        return;
    }
    if (c->in != NULL) {
        if (!nib__inbox_put(c->in, msg)) {
            c->no_room = true;
            nib__conn_watch(c);
        }
        return;
    }
    if (msg == NULL) {
        nib__message_borrow(&borrowed, event->kind, event->data, event->len);
        if (c->route->callbacks.on_message != NULL)
            NIB__CALL(c, on_message, c, &borrowed, c->route->callbacks_arg);
        return;
    }
    if (c->route->callbacks.on_message != NULL)
        NIB__CALL(c, on_message, c, msg, c->route->callbacks_arg);
    nib_message_unref(msg);
}

static void got_ping(struct nib_conn *c, const struct nib__event *event)
    NIB__OWNER_ONLY;
static void got_ping(struct nib_conn *c, const struct nib__event *event)
{
    if (!rate_ok(c) || c->close_len > 0)
        return;
    if (nib__conn_control(c, NIB__PONG, event->data, event->len) < 0)
        nib__conn_fail(c, 1011, "no memory", true);
    nib__conn_soon(c);
}

static void got_pong(struct nib_conn *c, const struct nib__event *event)
    NIB__OWNER_ONLY;
static void got_pong(struct nib_conn *c, const struct nib__event *event)
{
    if (!rate_ok(c) || c->phase != NIB__OPENED ||
        !nib__ping_answered(c, event->data, event->len))
        return;
    if (c->route->callbacks.on_pong != NULL && c->in == NULL)
        NIB__CALL(c, on_pong, c, event->data, event->len,
                  c->route->callbacks_arg);
}

static void got_error(struct nib_conn *c, const struct nib__event *event)
    NIB__OWNER_ONLY;
static void got_error(struct nib_conn *c, const struct nib__event *event)
{
    struct nib_server *srv = c->shard->server;

    nib__log_limited(&srv->config->log, &srv->log_limit_peers,
                     NIB__LOG_INFO, nib__conn_reactor(c)->now_ms,
                     "connection %llu: closed with %u: %s",
                     (unsigned long long)c->id, event->code, event->reason);
    nib__conn_fail(c, event->code, event->reason, true);
}

static void got(struct nib_conn *c, struct nib__event *event)
    NIB__OWNER_ONLY;
static void got(struct nib_conn *c, struct nib__event *event)
{
    switch (event->type) {
    case NIB__EVENT_MESSAGE:
        got_message(c, event);
        break;
    case NIB__EVENT_PING:
        got_ping(c, event);
        break;
    case NIB__EVENT_PONG:
        got_pong(c, event);
        break;
    case NIB__EVENT_CLOSE:
        nib__conn_peer_close(c, event->code, event->data, event->len);
        break;
    case NIB__EVENT_EMPTY:
        rate_ok(c);
        break;
    case NIB__EVENT_ERROR:
        got_error(c, event);
        break;
    case NIB__EVENT_MORE:
        break;
    }
}

/* Frames. Returns how many bytes were used. */
static size_t feed_frames(struct nib_conn *c, uint8_t *p, size_t n)
    NIB__OWNER_ONLY;
static size_t feed_frames(struct nib_conn *c, uint8_t *p, size_t n)
{
    size_t used = 0;

    while (used < n && (c->phase == NIB__OPENED || c->phase == NIB__CLOSING) &&
           nib__conn_reading(c)) {
        struct nib__event event;
        size_t part;

        nib__assembler_next(&c->assembler, p + used, n - used, &part, &event);
        used += part;
        if (event.type == NIB__EVENT_MORE)
            break;
        got(c, &event);
    }
    return used;
}

/*
 * Uses bytes as the phase tells. An HTTP phase may turn into an open one
 * within the same bytes, and the other way round never.
 */
static size_t feed(struct nib_conn *c, uint8_t *p, size_t n) NIB__OWNER_ONLY;
static size_t feed(struct nib_conn *c, uint8_t *p, size_t n)
{
    size_t used = 0;

    if (c->phase == NIB__HEAD)
        used = nib__http_feed(c, p, n);
    if (c->phase == NIB__OPENED || c->phase == NIB__CLOSING)
        used += feed_frames(c, p + used, n - used);
    if (c->phase == NIB__LINGER || c->phase == NIB__ENDED_CONN ||
        (c->phase == NIB__CLOSING && c->close_received))
        used = n;
    return used;
}

/* Keeps p[0..n) for later, in front of nothing: the stash is empty. */
static void keep(struct nib_conn *c, const uint8_t *p, size_t n)
    NIB__OWNER_ONLY;
static void keep(struct nib_conn *c, const uint8_t *p, size_t n)
{
    struct nib__stash *stash = nib__alloc(sizeof *stash + n);

    if (stash == NULL) {
        nib__conn_end(c, true);
        return;
    }
    stash->len = n;
    stash->off = 0;
    memcpy(stash->bytes, p, n);
    c->stash = stash;
}

/* Moves the stash to the start of the buffer. Returns its bytes. */
static size_t unstash(struct nib_conn *c, uint8_t *buffer) NIB__OWNER_ONLY;
static size_t unstash(struct nib_conn *c, uint8_t *buffer)
{
    struct nib__stash *stash = c->stash;
    size_t n = 0;

    if (stash != NULL) {
        n = stash->len - stash->off;
        memcpy(buffer, stash->bytes + stash->off, n);
        c->stash = NULL;
        nib__free(stash);
    }
    return n;
}

/* Uses buffer[0..n) and keeps the rest. */
static void use(struct nib_conn *c, uint8_t *buffer, size_t n)
    NIB__OWNER_ONLY;
static void use(struct nib_conn *c, uint8_t *buffer, size_t n)
{
    size_t used = feed(c, buffer, n);

    if (used < n && c->phase != NIB__ENDED_CONN)
        keep(c, buffer + used, n - used);
}

/* The end of the stream, or a fault of the socket. */
static void read_failed(struct nib_conn *c, ssize_t result, size_t kept)
    NIB__OWNER_ONLY;
static void read_failed(struct nib_conn *c, ssize_t result, size_t kept)
{
    if (result == NIB__WANT_READ || result == NIB__WANT_WRITE) {
        if (kept > 0)
            keep(c, nib__conn_reactor(c)->buffer, kept);
        return;
    }
    if (result == NIB__TRUNCATED)
        nib__log(&c->shard->server->config->log, NIB__LOG_DEBUG,
                 "connection %llu: TLS ended without close_notify",
                 (unsigned long long)c->id);
    nib__conn_end(c, false);
}

void nib__conn_read(struct nib_conn *c)
{
    struct nib__reactor *r = nib__conn_reactor(c);
    size_t kept = unstash(c, r->buffer);
    ssize_t n = nib__transport_read(c->transport, c->source.fd,
                                    r->buffer + kept,
                                    nib__conn_limits(c)->stash_bytes - kept);

    NIB_ASSERT_OWNER(r);
    nib__count(&c->shard->counters.reads, 1);
    if (n <= 0) {
        read_failed(c, n, kept);
        return;
    }
    nib__count(&c->shard->counters.bytes_in, (uint64_t)n);
    c->pong_due_ms = UINT64_MAX;
    use(c, r->buffer, kept + (size_t)n);
    nib__conn_read_on(c);
}

void nib__conn_read_on(struct nib_conn *c)
{
    if (c->phase == NIB__ENDED_CONN)
        return;
    if (nib__transport_unsent(c->transport) > 0)
        nib__conn_soon(c);
    if (!nib__transport_pending(c->transport) || !nib__conn_reading(c))
        return;
    c->todo |= NIB__OP_MORE;
    nib__conn_soon(c);
}

void nib__conn_resume_reading(struct nib_conn *c)
{
    if (!nib__conn_reading(c))
        return;
    if (c->stash != NULL) {
        uint8_t *buffer = nib__conn_reactor(c)->buffer;

        use(c, buffer, unstash(c, buffer));
    }
    if (c->phase == NIB__ENDED_CONN)
        return;
    /* The pong that is waited for may be among what was not read. */
    if (c->pong_due_ms != UINT64_MAX)
        c->pong_due_ms = nib__conn_reactor(c)->now_ms +
                         nib__conn_limits(c)->ping_wait_ms;
    nib__conn_watch(c);
    nib__conn_arm(c);
    nib__conn_read_on(c);
}
