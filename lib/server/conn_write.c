/*
 * conn_write - what waits goes to the kernel, by one system call a turn.
 *
 * There are four sources: control frames, the outbox, the topics' logs, and
 * the Close frame. A frame that is partly written comes before everything, a
 * message that is partly written before other data, control frames go in
 * front of data at every frame's end. A write takes pieces of several sources
 * as runs, in order; what the kernel took is given back to each.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "server/conn.h"
#include "server/topic.h"

enum {
    PONGS = 16,            /* that may wait; then the newest wins */
    PIECES = NIB__OUTBOX_PIECES,
};

enum source {
    CONTROL,
    BOX,
    LOG,
    CLOSE,
};

/* What one write takes. */
struct batch {
    struct iovec pieces[PIECES + 4];
    struct {
        enum source source;
        size_t bytes;
    } runs[4];
    int count;
    int run_count;
    size_t bytes;
};

static void add_run(struct batch *b, enum source source, int pieces)
{
    size_t bytes = 0;

    for (int i = 0; i < pieces; i++)
        bytes += b->pieces[b->count + i].iov_len;
    if (bytes == 0)
        return;
    b->runs[b->run_count].source = source;
    b->runs[b->run_count++].bytes = bytes;
    b->count += pieces;
    b->bytes += bytes;
}

static void add_bytes(struct batch *b, enum source source, const void *p,
                      size_t n)
{
    b->pieces[b->count].iov_base = (void *)(uintptr_t)p;
    b->pieces[b->count].iov_len = n;
    add_run(b, source, 1);
}

/* Cuts the last `pieces` pieces to `bytes` in all; returns their number. */
static int trim(struct iovec *pieces, int count, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_len >= bytes) {
            pieces[i].iov_len = bytes;
            return i + 1;
        }
        bytes -= pieces[i].iov_len;
    }
    return count;
}

static bool control_waits(const struct nib_conn *c) NIB__OWNER_ONLY;
static bool control_waits(const struct nib_conn *c)
{
    return c->control != NULL && c->control->len > c->control->off;
}

static void add_control(struct batch *b, struct nib_conn *c) NIB__OWNER_ONLY;
static void add_control(struct batch *b, struct nib_conn *c)
{
    if (control_waits(c))
        add_bytes(b, CONTROL, c->control->bytes + c->control->off,
                  (size_t)(c->control->len - c->control->off));
}

/* The Close frame, made when its time has come. */
static void add_close(struct batch *b, struct nib_conn *c)
    NIB__OWNER_ONLY NIB__REQUIRES(c->out.lock);
static void add_close(struct batch *b, struct nib_conn *c)
{
    const uint8_t *frame = c->close_small;

    if (c->out.ending != NULL) {
        frame = c->out.ending->frame;
        c->close_len = c->out.ending->len;
    } else if (c->close_len == 0) {
        c->close_len = (uint8_t)nib__frame_encode_close(
            c->close_small, c->out.close_code, NULL, 0);
    }
    if (c->close_off < c->close_len)
        add_bytes(b, CLOSE, frame + c->close_off,
                  (size_t)(c->close_len - c->close_off));
}

/* How many bytes more one write should take. */
static size_t room(const struct batch *b, const struct nib_conn *c)
    NIB__OWNER_ONLY;
static size_t room(const struct batch *b, const struct nib_conn *c)
{
    size_t most = c->transport->ops->write_bytes;

    return b->bytes < most ? most - b->bytes : 0;
}

/* Adds the outbox, or `only` bytes of it. Returns whether that was all. */
static bool add_box(struct batch *b, struct nib_conn *c, size_t only)
    NIB__OWNER_ONLY NIB__REQUIRES(c->out.lock);
static bool add_box(struct batch *b, struct nib_conn *c, size_t only)
{
    size_t before = b->bytes, most = room(b, c);
    int n = nib__outbox_pieces(&c->out, b->pieces + b->count,
                               PIECES - b->count, most);

    n = trim(b->pieces + b->count, n, only > 0 ? only : most);
    add_run(b, BOX, n);
    return b->bytes - before == c->out.charged;
}

/* The same for the topics' logs. */
static bool add_log(struct batch *b, struct nib_conn *c, size_t only)
    NIB__OWNER_ONLY;
static bool add_log(struct batch *b, struct nib_conn *c, size_t only)
{
    size_t bytes = 0, most = room(b, c);
    bool all = true;
    int n;

    if (c->members == NULL)
        return true;
    n = nib__cursors_pieces(c, b->pieces + b->count, PIECES - b->count,
                            most, &all);
    for (int i = 0; i < n; i++)
        bytes += b->pieces[b->count + i].iov_len;
    n = trim(b->pieces + b->count, n, only > 0 ? only : most);
    add_run(b, LOG, n);
    return all && bytes <= most;
}

/* Data of both sources, by turns; true if nothing more waits. */
static bool add_data(struct batch *b, struct nib_conn *c)
    NIB__OWNER_ONLY NIB__REQUIRES(c->out.lock);
static bool add_data(struct batch *b, struct nib_conn *c)
{
    bool log_first = c->members != NULL &&
                     (nib__cursors_mid_message(c) ||
                      (c->log_first && !nib__outbox_mid_message(&c->out)));

    if (log_first)
        return add_log(b, c, 0) && add_box(b, c, 0);
    return add_box(b, c, 0) && add_log(b, c, 0);
}

/* Chooses what to write now. */
static void gather(struct batch *b, struct nib_conn *c)
    NIB__OWNER_ONLY NIB__REQUIRES(c->out.lock);
static void gather(struct batch *b, struct nib_conn *c)
{
    bool closing = c->phase == NIB__CLOSING && !c->close_sent;
    size_t box_rest = 0, log_rest = 0;

    b->count = b->run_count = 0;
    b->bytes = 0;
    if (c->close_off > 0) {
        add_close(b, c);
        return;
    }
    if (control_waits(c) || c->close_now) {
        box_rest = nib__outbox_frame_rest(&c->out);
        log_rest = c->members == NULL ? 0 : nib__cursors_frame_rest(c);
    }
    if (box_rest > 0)
        add_box(b, c, box_rest);
    else if (log_rest > 0)
        add_log(b, c, log_rest);
    add_control(b, c);
    if (c->close_now) {
        if (closing)
            add_close(b, c);
        return;
    }
    if (box_rest == 0 && log_rest == 0 && add_data(b, c) && closing)
        add_close(b, c);
}

static void consume_control(struct nib_conn *c, size_t n) NIB__OWNER_ONLY;
static void consume_control(struct nib_conn *c, size_t n)
{
    c->control->off = (uint16_t)(c->control->off + n);
    if (c->control->off < c->control->len)
        return;
    nib__free(c->control);
    c->control = NULL;
}

/* Gives n written bytes back to their sources. */
static void consume(struct batch *b, struct nib_conn *c, size_t n)
    NIB__OWNER_ONLY NIB__REQUIRES(c->out.lock);
static void consume(struct batch *b, struct nib_conn *c, size_t n)
{
    for (int i = 0; i < b->run_count && n > 0; i++) {
        size_t part = b->runs[i].bytes < n ? b->runs[i].bytes : n;

        n -= part;
        switch (b->runs[i].source) {
        case CONTROL:
            consume_control(c, part);
            break;
        case BOX:
            nib__outbox_consume(&c->out, &c->shard->pool, part);
            c->log_first = true;
            break;
        case LOG:
            nib__cursors_consume(c, part);
            c->log_first = false;
            c->active_ms = nib__conn_reactor(c)->now_ms;
            break;
        case CLOSE:
            c->close_off = (uint8_t)(c->close_off + part);
            break;
        }
    }
}

/* Takes the lock, or puts the flush off once if a sender has it. */
static bool lock_for_flush(struct nib_conn *c)
    NIB__OWNER_ONLY NIB__TRY_ACQUIRE(true, c->out.lock);
static bool lock_for_flush(struct nib_conn *c) NIB__NO_ANALYSIS
{
    if (nib__lock_try(&c->out.lock)) {
        c->busy_tries = 0;
        return true;
    }
    if (c->busy_tries++ == 0) {
        nib__conn_soon(c);
        return false;
    }
    c->busy_tries = 0;
    nib__lock_take(&c->out.lock);
    return true;
}

/* Counts a write and the messages that were sent since the last one. */
static void count_write(struct nib_conn *c, size_t n, uint32_t sent)
{
    struct nib__counters *counters = &c->shard->counters;

    nib__count(&counters->writes, 1);
    nib__count(&counters->bytes_out, n);
    nib__count(&counters->messages_out, sent);
}

/* Does anything wait that could be written now? */
static bool more_waits(struct nib_conn *c)
    NIB__OWNER_ONLY NIB__REQUIRES(c->out.lock);
static bool more_waits(struct nib_conn *c)
{
    if (control_waits(c))
        return true;
    if (c->phase == NIB__CLOSING && !c->close_sent)
        return true;
    return c->out.charged > 0 ||
           (c->members != NULL && nib__cursors_waiting(c));
}

/*
 * The kernel took n bytes of the batch. Returns whether senders on this
 * thread may be told of room, and in *more whether there is more to write.
 */
static bool wrote(struct batch *b, struct nib_conn *c, size_t n, bool *more)
    NIB__OWNER_ONLY;
static bool wrote(struct batch *b, struct nib_conn *c, size_t n, bool *more)
{
    struct nib__wakes wakes = {.count = 0};
    size_t limit = nib__conn_limits(c)->outbox_bytes;
    bool room = false;
    uint32_t sent;

    nib__lock_take(&c->out.lock);
    consume(b, c, n);
    c->out.blocked = n < b->bytes ||
                     nib__transport_unsent(c->transport) > 0;
    if (c->out.waiters != NULL)
        nib__outbox_serve(&c->out, limit, &wakes);
    if (c->out.wants_room && c->out.charged <= limit / 2) {
        c->out.wants_room = false;
        room = true;
    }
    sent = c->out.sent;
    c->out.sent = 0;
    *more = more_waits(c);
    nib__lock_release(&c->out.lock);
    nib__wakes_send(&wakes);
    count_write(c, n, sent);
    if (sent > 0)
        c->active_ms = nib__conn_reactor(c)->now_ms;
    return room;
}

/* Sets or clears the wait for EPOLLOUT after a write that moved something,
   or nothing. */
static void note_progress(struct nib_conn *c, bool moved, bool blocked)
    NIB__OWNER_ONLY;
static void note_progress(struct nib_conn *c, bool moved, bool blocked)
{
    bool was_blocked = c->progress_ms != UINT64_MAX;

    c->writable = false;
    if (blocked && (moved || !was_blocked))
        c->progress_ms = nib__conn_reactor(c)->now_ms;
    else if (!blocked)
        c->progress_ms = UINT64_MAX;
    if (c->members != NULL)
        nib__cursors_settle(c, blocked);
    if (blocked != was_blocked)
        nib__conn_watch(c);
    if (blocked)
        nib__conn_arm(c);
}

/* Everything of the batch is written: what follows from that? */
static void written_all(struct nib_conn *c, bool more) NIB__OWNER_ONLY;
static void written_all(struct nib_conn *c, bool more)
{
    if (c->phase == NIB__CLOSING && !c->close_sent && c->close_len > 0 &&
        c->close_off == c->close_len)
        nib__conn_close_written(c);
    else if (more)
        nib__conn_soon(c);
    else if (c->phase == NIB__ANSWER)
        nib__http_written(c);
}

void nib__conn_flush(struct nib_conn *c)
{
    struct batch b;
    size_t unsent, left; /* taken by the transport, not by the kernel */
    ssize_t n = 0;
    bool room, more, blocked;

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    if (c->progress_ms != UINT64_MAX && !c->writable)
        return;
    if (c->phase == NIB__LINGER) {
        if (c->writable)
            nib__conn_linger(c); /* the transport's own last bytes */
        return;
    }
    if (!lock_for_flush(c))
        return;
    gather(&b, c);
    nib__lock_release(&c->out.lock);
    unsent = nib__transport_unsent(c->transport);
    if (b.bytes > 0 || unsent > 0) {
        n = nib__transport_write(c->transport, c->source.fd, b.pieces,
                                 b.count);
        if (n < 0 && n != NIB__WANT_WRITE && n != NIB__WANT_READ) {
            nib__conn_end(c, false);
            return;
        }
        if (n < 0)
            n = 0;
    }
    room = wrote(&b, c, (size_t)n, &more);
    left = nib__transport_unsent(c->transport);
    blocked = (size_t)n < b.bytes || left > 0;
    note_progress(c, n > 0 || left < unsent, blocked);
    if (c->parked != NULL)
        nib__conn_parked(c);
    if (c->phase == NIB__ENDED_CONN)
        return;
    if (!blocked)
        written_all(c, more);
    if (room && c->phase == NIB__OPENED &&
        c->route->callbacks.on_room != NULL)
        NIB__CALL(c, on_room, c, c->route->callbacks_arg);
}

/* Where the next control frame goes; a pong beyond 16 replaces the last. */
static uint8_t *control_place(struct nib__control *control, bool pong)
{
    if (pong && control->pongs >= PONGS &&
        control->last_pong >= control->off)
        control->len = control->last_pong;
    else if (pong)
        control->pongs++;
    if (pong)
        control->last_pong = control->len;
    return control->bytes + control->len;
}

int nib__conn_control(struct nib_conn *c, uint8_t opcode, const void *data,
                      size_t len)
{
    struct nib__control *control = c->control;
    uint8_t *to;
    size_t header;

    if (control == NULL) {
        control = nib__alloc(sizeof *control);
        if (control == NULL)
            return -ENOMEM;
        control->len = control->off = control->last_pong = 0;
        control->pongs = 0;
        c->control = control;
    }
    to = control_place(control, opcode == NIB__PONG);
    if (control->len + 2 + len > sizeof control->bytes)
        return 0; /* two pings are waiting already */
    header = nib__frame_encode_server(to, opcode, true, len);
    if (len > 0)
        memcpy(to + header, data, len);
    control->len = (uint16_t)(control->len + header + len);
    return 0;
}

void nib__conn_text(struct nib_conn *c, struct nib__chunk *chunk)
{
    chunk->raw = true;
    nib__lock_take(&c->out.lock);
    nib__outbox_link(&c->out, chunk, chunk->len);
    nib__lock_release(&c->out.lock);
    nib__conn_soon(c);
}
