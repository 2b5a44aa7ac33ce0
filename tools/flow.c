/*
 * flow - what one connection receives, read and counted as fast as it comes.
 *
 * The buffer begins with room for what a flow holds from before, so that a
 * frame cut by a read is whole again without moving what was read.
 */
#include "flow.h"

#include <errno.h>
#include <string.h>

void flow_init(struct flow *f, struct client *client, uint64_t raw_unit)
{
    memset(f, 0, sizeof(*f));
    f->client = client;
    f->raw_unit = raw_unit;
    tally_init(&f->tally);
}

static int fail(struct flow *f)
{
    f->client->error = f->tally.error;
    client_close(f->client, 1002);
    return -EPROTO;
}

/* Returns 1 to go on, 0 after a Close, or a negative code. */
static int take_control(struct flow *f, const struct nib__frame *frame,
                        const uint8_t *payload)
{
    struct client *c = f->client;
    int result = 0;

    if (frame->opcode == NIB__PING && !c->close_sent) {
        result = client_send(c, NIB__PONG, payload, (size_t)frame->length);
        if (result == -EAGAIN)
            result = 0;
    } else if (frame->opcode == NIB__CLOSE) {
        c->close_received = true;
        c->close_code =
            frame->length < 2 ? 1005 : (unsigned)payload[0] << 8 | payload[1];
        client_close(c, frame->length < 2 ? 0 : c->close_code);
        return 0;
    }
    return result < 0 ? result : 1;
}

/* Where the message at p has its payload, for f->first. */
static void note_first(struct flow *f, const uint8_t *p, size_t n)
{
    struct nib__frame frame;
    int header;

    f->first = NULL;
    if (f->tally.remaining > 0 || f->tally.in_message)
        return;
    header = nib__frame_decode(p, n, 0, &frame);
    if (header <= 0 || frame.opcode >= NIB__CLOSE)
        return;
    f->first = p + header;
    f->first_len = n - (size_t)header;
    if (frame.length < f->first_len)
        f->first_len = (size_t)frame.length;
}

static int take_frames(struct flow *f, const uint8_t *p, size_t n)
{
    struct nib__frame frame;
    const uint8_t *payload;
    enum tally_result result;
    size_t used;
    int next;

    note_first(f, p, n);
    for (;;) {
        result = tally_feed(&f->tally, p, n, &used, &frame, &payload);
        p += used;
        n -= used;
        if (result == TALLY_ERROR)
            return fail(f);
        if (result == TALLY_MORE)
            break;
        next = take_control(f, &frame, payload);
        if (next <= 0)
            return next;
    }
    memcpy(f->held, p, n);
    f->held_len = n;
    return 1;
}

static int take_raw(struct flow *f, size_t n)
{
    f->tally.bytes += n;
    f->tally.messages = f->tally.bytes / f->raw_unit;
    return 1;
}

/* What the handshake read too much; true if there was something. */
static bool take_left(struct flow *f, uint8_t *at, size_t *n)
{
    struct client_bytes *in = &f->client->in;

    *n = in->end - in->start;
    if (*n == 0)
        return false;
    if (*n > FLOW_READ_BYTES)
        *n = FLOW_READ_BYTES;
    memcpy(at, in->data + in->start, *n);
    in->start += *n;
    return true;
}

int flow_read(struct flow *f, uint8_t *buffer)
{
    uint8_t *at = buffer + TALLY_HELD_MAX;
    size_t n, held = f->held_len;
    ssize_t got;

    if (!take_left(f, at, &n)) {
        got = client_read(f->client, at, FLOW_READ_BYTES);
        if (got <= 0)
            return (int)got;
        n = (size_t)got;
    }
    if (f->raw_unit > 0)
        return take_raw(f, n);
    memcpy(at - held, f->held, held);
    f->held_len = 0;
    return take_frames(f, at - held, held + n);
}
