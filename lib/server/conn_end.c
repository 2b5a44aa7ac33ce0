/*
 * conn_end - how a connection closes.
 *
 * Whether a send is still accepted, and which Close is sent, is decided in
 * the outbox under its lock, by whoever comes first. The owner then does what
 * was decided: it writes the Close, waits for the peer's, says its last byte,
 * waits for the peer's last byte, and frees what is left. Nothing on these
 * paths needs memory; a reason for which there is none is left out.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "server/conn.h"
#include "server/conn_tls.h"
#include "server/request.h"
#include "server/topic.h"

enum {
    LINGER_MS = 2000, /* for the peer's last byte */
};

struct nib__ending *nib__ending_new(unsigned code, const char *reason,
                                    size_t len)
{
    struct nib__ending *ending;

    if (len == 0)
        return NULL;
    ending = nib__alloc(sizeof *ending);
    if (ending == NULL)
        return NULL;
    ending->len = (uint8_t)nib__frame_encode_close(ending->frame, code,
                                                   reason, len);
    ending->frame[ending->len] = '\0';
    return ending;
}

/*
 * The first decision. end_code is what the application is told; a Close that
 * is never written changes it back to 1006.
 */
static bool decide(struct nib_conn *c, unsigned close_code, unsigned end_code,
                   bool local, struct nib__ending *ending)
{
    struct nib__outbox *o = &c->out;
    struct nib__wakes wakes = {.count = 0};
    bool first;

    nib__lock_take(&o->lock);
    first = !o->send_closed;
    if (first) {
        o->send_closed = true;
        o->local = local;
        o->close_code = (uint16_t)close_code;
        o->end_code = (uint16_t)end_code;
        o->ending = ending;
        nib__outbox_refuse(o, -EPIPE, &wakes);
    }
    nib__lock_release(&o->lock);
    nib__wakes_send(&wakes);
    if (!first)
        nib__free(ending);
    return first;
}

bool nib__conn_decide_close(struct nib_conn *c, unsigned code,
                            struct nib__ending *ending)
{
    return decide(c, code, code == 0 ? 1005 : code, true, ending);
}

/* From now on what waits is not written, but for the rest of a frame. */
static void drop_waiting(struct nib_conn *c) NIB__OWNER_ONLY;
static void drop_waiting(struct nib_conn *c)
{
    c->close_now = true;
    nib__lock_take(&c->out.lock);
    c->out.dropped += nib__outbox_drop(&c->out, &c->shard->pool);
    nib__lock_release(&c->out.lock);
    nib__cursors_drop(c);
    nib__conn_deadline(c, nib__conn_limits(c)->close_timeout_ms);
}

/* OPENED to CLOSING. */
static void enter_closing(struct nib_conn *c, bool local) NIB__OWNER_ONLY;
static void enter_closing(struct nib_conn *c, bool local)
{
    c->phase = NIB__CLOSING;
    atomic_store_explicit(&c->state,
                          local ? NIB_CLOSING_LOCAL : NIB_CLOSING_PEER,
                          memory_order_release);
    c->ping_due_ms = c->pong_due_ms = UINT64_MAX;
    c->paused = c->no_room = false;
}

void nib__conn_close_ordered(struct nib_conn *c)
{
    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    if (c->phase != NIB__OPENED)
        return;
    enter_closing(c, true);
    if (c->in != NULL)
        nib__inbox_end(c->in, -EPIPE, !c->shard->draining);
    nib__cursors_end(c);
    nib__conn_resume_reading(c);
    if (c->phase != NIB__ENDED_CONN)
        nib__conn_soon(c);
}

void nib__conn_fail(struct nib_conn *c, unsigned code, const char *reason,
                    bool final)
{
    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    if (c->phase == NIB__OPENED) {
        decide(c, code, code, true,
               nib__ending_new(code, reason, strlen(reason)));
        enter_closing(c, true);
        if (c->in != NULL)
            nib__inbox_end(c->in, -EPIPE, false);
    } else if (c->phase != NIB__CLOSING || (!final && c->close_now)) {
        return;
    }
    drop_waiting(c);
    c->close_received = c->close_received || final;
    c->peer_failed = c->peer_failed || final;
    if (c->close_sent) {
        nib__conn_linger(c);
        return;
    }
    nib__conn_watch(c);
    nib__conn_soon(c);
}

void nib__conn_peer_close(struct nib_conn *c, unsigned code,
                          const uint8_t *reason, size_t len)
{
    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    c->close_received = true;
    if (c->phase == NIB__OPENED) {
        bool first = decide(c, code == 1005 ? 0 : code, code, false,
                            nib__ending_new(code, (const char *)reason, len));

        enter_closing(c, !first);
        if (c->in != NULL)
            nib__inbox_end(c->in, -EPIPE, false);
    }
    if (c->close_sent) {
        nib__conn_close_written(c);
        return;
    }
    drop_waiting(c);
    nib__conn_watch(c);
    nib__conn_soon(c);
}

void nib__conn_close_written(struct nib_conn *c)
{
    c->close_sent = true;
    if (!c->close_received) {
        nib__conn_deadline(c, nib__conn_limits(c)->close_timeout_ms);
        return;
    }
    nib__lock_take(&c->out.lock);
    c->out.clean = !c->peer_failed;
    nib__lock_release(&c->out.lock);
    nib__conn_linger(c);
}

void nib__conn_linger(struct nib_conn *c)
{
    int err = nib__transport_shutdown(c->transport, c->source.fd);

    c->phase = NIB__LINGER;
    if (err < 0 && err != NIB__WANT_WRITE) {
        nib__conn_end(c, false);
        return;
    }
    c->progress_ms =
        err == NIB__WANT_WRITE ? nib__conn_reactor(c)->now_ms : UINT64_MAX;
    nib__conn_deadline(c, LINGER_MS);
    nib__conn_watch(c);
}

void nib__conn_drain(struct nib_conn *c)
{
    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    switch (c->phase) {
    case NIB__FIRST:
    case NIB__SHAKING:
        nib__conn_end(c, false);
        break;
    case NIB__HEAD:
        if (c->request == NULL)
            nib__conn_end(c, false);
        else
            nib__http_refuse(c, 503, "The server is stopping.", "");
        break;
    case NIB__PENDING:
        if (nib__request_withdraw(c->request, -ECANCELED))
            nib__http_refuse(c, 503, "The server is stopping.", "");
        break;
    case NIB__ANSWER:
        c->keep = false;
        break;
    case NIB__OPENED:
        nib__conn_decide_close(
            c, (unsigned)nib__conn_limits(c)->stop_code, NULL);
        nib__conn_close_ordered(c);
        break;
    default:
        break;
    }
}

/* ---- calls that wait ---- */

/* The answer to a parked call, or 1 if it has to wait on. */
static int parked_answer(struct nib_conn *c, const struct nib__parked *p,
                         uint64_t written) NIB__OWNER_ONLY;
static int parked_answer(struct nib_conn *c, const struct nib__parked *p,
                         uint64_t written)
{
    if (p->flush && written >= p->written && c->out.dropped == 0 &&
        nib__transport_unsent(c->transport) == 0)
        return 0;
    if (c->phase == NIB__ENDED_CONN || (p->flush && c->close_now))
        return p->flush ? -EPIPE : 0;
    if (nib__conn_reactor(c)->now_ms >= p->due_ms)
        return -ETIMEDOUT;
    return 1;
}

void nib__conn_parked(struct nib_conn *c)
{
    struct nib__parked **place = &c->parked;
    uint64_t written;

    if (c->parked == NULL)
        return;
    nib__lock_take(&c->out.lock);
    written = c->out.written;
    nib__lock_release(&c->out.lock);
    while (*place != NULL) {
        struct nib__parked *p = *place;
        int answer = parked_answer(c, p, written);

        if (answer > 0) {
            place = &p->next;
            continue;
        }
        *place = p->next;
        nib__oneshot_complete(&p->done, answer);
    }
}

/* ---- the end ---- */

/* Drops the outbox for good, with what the transport had of it, and refuses
   everybody. */
static void end_outbox(struct nib_conn *c, size_t unsent) NIB__OWNER_ONLY;
static void end_outbox(struct nib_conn *c, size_t unsent)
{
    struct nib__outbox *o = &c->out;
    struct nib__wakes wakes = {.count = 0};

    nib__lock_take(&o->lock);
    if (!o->send_closed) {
        o->send_closed = true;
        o->local = c->reset;
        o->end_code = 1006;
    } else if (!c->close_sent && !c->close_received) {
        o->end_code = 1006;
    }
    o->dropped += o->charged + unsent;
    o->written += o->charged;
    o->charged = 0;
    nib__chunks_free(&c->shard->pool, o->first);
    o->first = o->last = NULL;
    o->blocked = false;
    nib__outbox_refuse(o, -EPIPE, &wakes);
    nib__lock_release(&o->lock);
    nib__wakes_send(&wakes);
}

/* The connection's handshake, decided or not, is over. */
static void end_request(struct nib_conn *c) NIB__OWNER_ONLY;
static void end_request(struct nib_conn *c)
{
    struct nib_request *req = c->request;

    if (req == NULL)
        return;
    c->request = NULL;
    nib__request_withdraw(req, -EPIPE);
    nib__request_release(req);
}

static void end_socket(struct nib_conn *c) NIB__OWNER_ONLY;
static void end_socket(struct nib_conn *c)
{
    struct nib__reactor *r = nib__conn_reactor(c);
    int fd = c->source.fd;

    /* To a TLS client an end without close_notify looks like an attack. */
    if (c->tls != NULL && !c->reset && c->phase != NIB__LINGER)
        (void)nib__transport_shutdown(c->transport, fd);
    nib__timer_disarm(&r->timers, &c->timer);
    nib__timers_unreserve(&r->timers);
    nib__poller_remove(&r->poller, &c->source);
    nib__transport_free(c->transport);
    c->transport = nib__transport_plain();
    nib__conn_tls_free(c);
    if (c->reset)
        nib__socket_reset_on_close(fd);
    close(fd);
}

/* Tells the application, once for each on_open. */
static void tell_closed(struct nib_conn *c) NIB__OWNER_ONLY;
static void tell_closed(struct nib_conn *c)
{
    struct nib_close_info info;

    if (!c->opened || c->in != NULL || !c->route->has_callbacks ||
        c->route->callbacks.on_close == NULL)
        return;
    nib_conn_close_info(c, &info);
    NIB__CALL(c, on_close, c, &info, c->route->callbacks_arg);
}

/* Takes the connection out of the shard's books. */
static void leave(struct nib_conn *c) NIB__OWNER_ONLY;
static void leave(struct nib_conn *c)
{
    struct nib_server *srv = c->shard->server;

    *c->place = c->next;
    if (c->next != NULL)
        c->next->place = c->place;
    nib__conn_decided(c);
    nib__addresses_leave(&srv->addresses, &c->peer);
    nib__shard_left(c->shard);
}

void nib__conn_end(struct nib_conn *c, bool reset)
{
    struct nib__reactor *r = nib__conn_reactor(c);
    size_t unsent;

    NIB_ASSERT_OWNER(r);
    if (c->phase == NIB__ENDED_CONN || nib__conn_tls_hold(c))
        return;
    c->reset = reset;
    unsent = nib__transport_unsent(c->transport);
    end_socket(c);
    c->phase = NIB__ENDED_CONN;
    end_outbox(c, unsent);
    end_request(c);
    if (c->in != NULL)
        nib__inbox_end(c->in, -EPIPE, reset && !c->close_received);
    atomic_store_explicit(&c->state, NIB_CLOSED, memory_order_release);
    nib__members_leave(c);
    tell_closed(c);
    nib__extras_free(c);
    nib__conn_parked(c);
    leave(c);
    if (!c->task.listed)
        nib__reactor_last(r, &c->task);
}
