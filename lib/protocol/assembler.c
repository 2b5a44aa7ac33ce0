/*
 * assembler - from received bytes to messages and control frames.
 *
 * Two places hold a message. One that lies in one frame, whole in the
 * caller's buffer, never touches the state: it is judged, unmasked and given
 * at once. Everything else is collected in `partial`, as it comes.
 *
 *   opcode 0,  !in_frame   between messages
 *   opcode 0,   in_frame   never
 *   opcode set, in_frame   inside a frame: `remaining` > 0 bytes are to come
 *   opcode set, !in_frame  between the frames of a message
 *
 * Control frames are only taken whole, and so change no state at all.
 */
#include "protocol/assembler.h"

#include <string.h>

#include "base/mask.h"

/* Up to here a frame gets its room at once, even if little of it has come. */
#define ROOM_UNEARNED ((size_t)16 * 1024)

void nib__assembler_init(struct nib__assembler *a, size_t limit, bool own)
{
    memset(a, 0, sizeof(*a));
    a->limit = limit;
    a->own = own;
}

void nib__assembler_free(struct nib__assembler *a)
{
    nib_message_unref(a->partial);
    a->partial = NULL;
    a->remaining = 0;
    a->opcode = 0;
    a->in_frame = false;
}

static void fail(struct nib__assembler *a, struct nib__event *event,
                 unsigned code, const char *reason)
{
    /* What was collected is of no use while the connection closes. */
    nib__assembler_free(a);
    *event = (struct nib__event){
        .type = NIB__EVENT_ERROR,
        .code = code,
        .reason = reason,
    };
}

static unsigned kind_of(uint8_t opcode)
{
    return opcode == NIB__TEXT ? NIB_TEXT : NIB_BINARY;
}

/* ---- messages ---------------------------------------------------------- */

static void give(struct nib__event *event, uint8_t opcode,
                 struct nib_message *msg, uint8_t *data, size_t len)
{
    event->type = NIB__EVENT_MESSAGE;
    event->kind = (uint8_t)kind_of(opcode);
    event->msg = msg;
    event->data = data;
    event->len = len;
    /* Text was checked on its way. */
    if (msg)
        atomic_store_explicit(&msg->valid, true, memory_order_relaxed);
}

/*
 * A message in one frame, whose payload is whole at p. The usual case, and
 * the only one in which bytes are given where they lie.
 */
static void whole_message(struct nib__assembler *a,
                          const struct nib__frame *f, uint8_t *p,
                          struct nib__event *event)
{
    size_t len = (size_t)f->length;
    struct nib_message *msg = NULL;
    uint8_t *data = p;

    if (a->own) {
        msg = nib__message_alloc(kind_of(f->opcode), len);
        if (!msg) {
            fail(a, event, 1011, "no memory");
            return;
        }
        data = msg->data;
    }
    if (f->masked)
        nib__mask_copy(data, p, len, f->key, 0);
    else if (msg && len > 0)
        memcpy(data, p, len);
    if (f->opcode == NIB__TEXT && !nib__utf8_valid(data, len)) {
        nib_message_unref(msg);
        fail(a, event, 1007, "text is not UTF-8");
        return;
    }
    give(event, f->opcode, msg, data, len);
}

/* The last byte of a collected message has come; `p` is where it ended. */
static void finish_message(struct nib__assembler *a, uint8_t *p,
                           struct nib__event *event)
{
    struct nib_message *msg = a->partial;

    if (a->opcode == NIB__TEXT && !nib__utf8_complete(&a->utf8)) {
        fail(a, event, 1007, "text is not UTF-8");
        return;
    }
    if (!msg && a->own) {
        msg = nib__message_alloc(kind_of(a->opcode), 0);
        if (!msg) {
            fail(a, event, 1011, "no memory");
            return;
        }
    }
    if (msg) {
        nib__message_finish(msg, msg->len);
        give(event, a->opcode, msg, msg->data, msg->len);
    } else {
        give(event, a->opcode, NULL, p, 0);
    }
    a->partial = NULL;
    a->opcode = 0;
}

static size_t collected(const struct nib__assembler *a)
{
    return a->partial ? a->partial->len : 0;
}

/* Makes room in `partial` for `chunk` bytes of the current frame. */
static bool make_room(struct nib__assembler *a, size_t chunk)
{
    size_t have = collected(a);
    size_t want = chunk;

    /* As much again as has come is safe to ask for, whatever is claimed. */
    if (a->remaining <= have + chunk || a->remaining <= ROOM_UNEARNED)
        want = (size_t)a->remaining;
    if (a->partial)
        return nib__message_reserve(&a->partial, have + want) == 0;
    a->partial = nib__message_alloc(kind_of(a->opcode), want);
    if (!a->partial)
        return false;
    a->partial->len = 0;
    return true;
}

/*
 * Takes what has come of the current frame's payload. Returns the number of
 * bytes used.
 */
static size_t take_payload(struct nib__assembler *a, uint8_t *p, size_t n,
                           struct nib__event *event)
{
    size_t chunk = n < a->remaining ? n : (size_t)a->remaining;
    uint8_t *to;

    if (!make_room(a, chunk)) {
        fail(a, event, 1011, "no memory");
        return chunk;
    }
    to = a->partial->data + a->partial->len;
    nib__mask_copy(to, p, chunk, a->key, a->phase);
    if (a->opcode == NIB__TEXT && nib__utf8_feed(&a->utf8, to, chunk) < 0) {
        fail(a, event, 1007, "text is not UTF-8");
        return chunk;
    }
    a->partial->len += chunk;
    a->phase = (uint8_t)((a->phase + chunk) & 3);
    a->remaining -= chunk;
    if (a->remaining == 0) {
        a->in_frame = false;
        if (a->fin)
            finish_message(a, p + chunk, event);
    }
    return chunk;
}

/* ---- frames ------------------------------------------------------------ */

/* A control frame, whole at p. */
static void control_frame(struct nib__assembler *a,
                          const struct nib__frame *f, uint8_t *p,
                          struct nib__event *event)
{
    size_t len = (size_t)f->length;

    if (f->masked)
        nib__mask(p, len, f->key, 0);
    event->data = p;
    event->len = len;
    if (f->opcode != NIB__CLOSE) {
        event->type = f->opcode == NIB__PING ? NIB__EVENT_PING
                                             : NIB__EVENT_PONG;
        return;
    }

    event->type = NIB__EVENT_CLOSE;
    event->code = 1005;
    if (len == 0)
        return;
    if (len == 1) {
        fail(a, event, 1002, "Close with half a code");
        return;
    }
    event->code = (unsigned)p[0] << 8 | p[1];
    event->data = p + 2;
    event->len = len - 2;
    if (!nib__close_code_valid(event->code))
        fail(a, event, 1002, "Close with a code that is not allowed");
    else if (!nib__utf8_valid(event->data, event->len))
        fail(a, event, 1007, "Close with a reason that is not UTF-8");
}

/* Starts a frame of data that has to be collected. */
static void begin_frame(struct nib__assembler *a, const struct nib__frame *f,
                        uint8_t *p, struct nib__event *event)
{
    if (f->opcode != NIB__CONTINUATION) {
        a->opcode = f->opcode;
        a->utf8 = (struct nib__utf8){0};
    }
    if (f->length == 0) {
        if (f->fin)
            finish_message(a, p, event);
        else
            event->type = NIB__EVENT_EMPTY;
        return;
    }
    /* A client's key stays zeros, which change nothing. */
    if (f->masked)
        memcpy(a->key, f->key, sizeof(a->key));
    a->phase = 0;
    a->fin = f->fin;
    a->remaining = f->length;
    a->in_frame = true;
}

/* Which rule a refused header broke first; its first byte nearly tells. */
static const char *header_fault(uint8_t first, uint8_t rsv_allowed)
{
    unsigned opcode = first & 0xF;
    unsigned rsv = first >> 4 & 7;

    if (opcode != NIB__TEXT && opcode != NIB__BINARY)
        rsv_allowed = 0;
    if ((opcode > NIB__BINARY && opcode < NIB__CLOSE) || opcode > NIB__PONG)
        return "unknown opcode";
    if (rsv & ~(unsigned)rsv_allowed)
        return "reserved bit";
    if (opcode < NIB__CLOSE)
        return "bad frame length";
    return first & 0x80 ? "control frame too long" : "control frame in pieces";
}

/*
 * Rules about this frame in this place. Returns false, with the error in
 * *event, if one is broken.
 */
static bool frame_allowed(struct nib__assembler *a,
                          const struct nib__frame *f,
                          struct nib__event *event)
{
    if (f->masked == a->client) {
        fail(a, event, 1002, a->client ? "masked frame" : "unmasked frame");
        return false;
    }
    if (f->opcode >= NIB__CLOSE)
        return true;
    if ((f->opcode == NIB__CONTINUATION) != (a->opcode != 0)) {
        fail(a, event, 1002,
             a->opcode ? "new message inside another"
                       : "continuation of nothing");
        return false;
    }
    if (f->length > a->limit - collected(a)) {
        fail(a, event, 1009, "message too big");
        return false;
    }
    return true;
}

/*
 * Takes a header, and the frame's payload if it is all there. Returns the
 * number of bytes used; 0 if that takes more bytes.
 */
static size_t take_frame(struct nib__assembler *a, uint8_t *p, size_t n,
                         struct nib__event *event)
{
    struct nib__frame f;
    int size = nib__frame_decode(p, n, a->rsv_allowed, &f);
    size_t header = (size_t)size;

    if (size == 0)
        return 0;
    if (size < 0) {
        fail(a, event, (unsigned)-size, header_fault(p[0], a->rsv_allowed));
        return n;
    }
    if (!frame_allowed(a, &f, event))
        return n;

    bool whole = f.length <= n - header;

    if (f.opcode >= NIB__CLOSE) {
        if (!whole)
            return 0;
        control_frame(a, &f, p + header, event);
        return header + (size_t)f.length;
    }
    if (whole && f.fin && f.opcode != NIB__CONTINUATION) {
        whole_message(a, &f, p + header, event);
        return header + (size_t)f.length;
    }
    begin_frame(a, &f, p + header, event);
    return header;
}

void nib__assembler_next(struct nib__assembler *a, uint8_t *p, size_t n,
                         size_t *used, struct nib__event *event)
{
    size_t at = 0;

    *event = (struct nib__event){.type = NIB__EVENT_MORE};
    while (at < n && event->type == NIB__EVENT_MORE) {
        size_t step = a->in_frame ? take_payload(a, p + at, n - at, event)
                                  : take_frame(a, p + at, n - at, event);

        if (step == 0)
            break;
        at += step;
    }
    *used = event->type == NIB__EVENT_ERROR ? n : at;
}
