/*
 * tally - counts the messages in a stream of a server's frames.
 */
#include "tally.h"

#include <stdio.h>
#include <string.h>

static const char all_x[1024] = {[0 ... 1023] = 'x'};

void tally_init(struct tally *t)
{
    memset(t, 0, sizeof(*t));
}

static enum tally_result fail(struct tally *t, const char *what)
{
    snprintf(t->error, sizeof(t->error), "message %ju: %s",
             (uintmax_t)t->messages, what);
    return TALLY_ERROR;
}

/* ---- checking ---------------------------------------------------------- */

static bool same(struct tally *t, const uint8_t *p, const char *wanted,
                 size_t n)
{
    size_t i = 0;

    if (memcmp(p, wanted, n) == 0)
        return true;
    while (p[i] == (uint8_t)wanted[i])
        i++;
    snprintf(t->error, sizeof(t->error),
             "message %ju, byte %ju: 0x%02x instead of '%c'",
             (uintmax_t)t->messages, (uintmax_t)(t->offset + i), p[i],
             wanted[i]);
    return false;
}

/* Compares p[0..n) with the message's bytes from t->offset on. */
static bool check(struct tally *t, const uint8_t *p, size_t n)
{
    uint64_t number = t->messages;
    char digits[TALLY_DIGITS];

    if (t->offset < TALLY_DIGITS) {
        size_t part = TALLY_DIGITS - (size_t)t->offset;

        for (int i = TALLY_DIGITS - 1; i >= 0; i--, number /= 10)
            digits[i] = (char)('0' + number % 10);
        part = part < n ? part : n;
        if (!same(t, p, digits + t->offset, part))
            return false;
        p += part;
        n -= part;
        t->offset += part;
    }
    while (n > 0) {
        size_t part = n < sizeof(all_x) ? n : sizeof(all_x);

        if (!same(t, p, all_x, part))
            return false;
        p += part;
        n -= part;
        t->offset += part;
    }
    return true;
}

/* ---- counting ---------------------------------------------------------- */

/*
 * Counts whole, small, unfragmented messages from p on. Returns the first
 * byte that is not of one.
 */
static const uint8_t *count_small(struct tally *t, const uint8_t *p,
                                  const uint8_t *end)
{
    const uint8_t *start = p;
    uint64_t n = 0;

    /* FIN with text or binary, and a length that needs no more bytes. */
    while (end - p >= 2 && (p[0] == 0x81 || p[0] == 0x82) &&
           p[1] <= NIB__CONTROL_MAX && end - p >= 2 + p[1]) {
        p += 2 + p[1];
        n++;
    }
    t->messages += n;
    t->bytes += (uint64_t)(p - start) - 2 * n;
    return p;
}

static bool end_frame(struct tally *t)
{
    t->in_message = !t->fin;
    if (!t->fin)
        return true;
    if (t->verify && t->offset != t->size) {
        snprintf(
            t->error, sizeof(t->error), "message %ju: %ju bytes instead of %ju",
            (uintmax_t)t->messages, (uintmax_t)t->offset, (uintmax_t)t->size);
        return false;
    }
    t->messages++;
    t->offset = 0;
    return true;
}

/* Takes payload of the current frame; returns how much, -1 for an error. */
static ptrdiff_t take_payload(struct tally *t, const uint8_t *p, size_t n)
{
    size_t part = t->remaining < n ? (size_t)t->remaining : n;

    if (!t->verify)
        t->offset += part;
    else if (!check(t, p, part))
        return -1;
    t->bytes += part;
    t->remaining -= part;
    if (t->remaining == 0 && !end_frame(t))
        return -1;
    return (ptrdiff_t)part;
}

/* Begins a data frame; NULL or what is wrong with it. */
static const char *begin_frame(struct tally *t, const struct nib__frame *f)
{
    if (f->masked)
        return "a masked frame from a server";
    if (f->opcode == NIB__CONTINUATION && !t->in_message)
        return "a continuation of nothing";
    if (f->opcode != NIB__CONTINUATION && t->in_message)
        return "a new message inside another";
    t->fin = f->fin;
    t->in_message = true;
    t->remaining = f->length;
    return NULL;
}

/*
 * Takes what stands at *p: a control frame whole, or a data frame's header.
 * Leaves *p where it is if there is too little.
 */
static enum tally_result take_frame(struct tally *t, const uint8_t **p,
                                    const uint8_t *end,
                                    struct nib__frame *frame,
                                    const uint8_t **payload)
{
    size_t n = (size_t)(end - *p);
    int header = nib__frame_decode(*p, n, 0, frame);
    const char *wrong;

    if (header == 0)
        return TALLY_MORE;
    if (header < 0)
        return fail(t, "a frame that breaks the protocol");
    if (frame->opcode >= NIB__CLOSE) {
        if (frame->masked)
            return fail(t, "a masked frame from a server");
        if (frame->length > n - (size_t)header)
            return TALLY_MORE;
        *payload = *p + header;
        *p += header + (int)frame->length;
        return TALLY_CONTROL;
    }
    wrong = begin_frame(t, frame);
    if (wrong)
        return fail(t, wrong);
    *p += header;
    if (t->remaining == 0 && !end_frame(t))
        return TALLY_ERROR;
    return TALLY_MORE;
}

enum tally_result tally_feed(struct tally *t, const uint8_t *p, size_t n,
                             size_t *used, struct nib__frame *control,
                             const uint8_t **payload)
{
    const uint8_t *start = p, *end = p + n, *before;
    enum tally_result result = TALLY_MORE;

    do {
        before = p;
        if (t->remaining > 0) {
            ptrdiff_t part = take_payload(t, p, (size_t)(end - p));

            if (part < 0)
                result = TALLY_ERROR;
            else
                p += part;
        } else {
            if (!t->verify && !t->in_message)
                p = count_small(t, p, end);
            result = take_frame(t, &p, end, control, payload);
        }
    } while (result == TALLY_MORE && p > before && p < end);
    *used = (size_t)(p - start);
    return result;
}
