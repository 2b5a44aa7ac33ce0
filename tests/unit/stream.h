/*
 * stream - streams of frames, and what an assembler makes of them.
 *
 * A stream is fed as an owner would: in pieces, with what was not used in
 * front of the next piece. What comes out is written down as text, so that
 * two runs can be compared; each run gets its own copy of the bytes, in a
 * block of just that size, since payloads are unmasked in place.
 */

#ifndef NIB__TESTS_UNIT_STREAM_H
#define NIB__TESTS_UNIT_STREAM_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mask.h"
#include "protocol/assembler.h"

enum {
    LIMIT = 1024 * 1024,
    WHOLE = 0, /* as a piece's size: all at once */
};

static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};

/* ---- building streams -------------------------------------------------- */

struct stream {
    uint8_t *bytes;
    size_t len;
    bool unmasked;
};

static inline void append(struct stream *s, const void *bytes, size_t n)
{
    s->bytes = realloc(s->bytes, s->len + n + 1);
    if (n > 0)
        memcpy(s->bytes + s->len, bytes, n);
    s->len += n;
}

/* `first` is the frame's first byte: FIN, reserved bits, opcode. */
static inline void frame(struct stream *s, unsigned first, const void *payload,
                         size_t n)
{
    struct nib__frame f = {.opcode = first & 0xF, .rsv = first >> 4 & 7,
                           .fin = first >> 7, .masked = !s->unmasked,
                           .length = n};
    uint8_t header[NIB__HEADER_MAX];

    memcpy(f.key, key, 4);
    append(s, header, nib__frame_encode(header, &f));
    append(s, payload, n);
    if (f.masked)
        nib__mask(s->bytes + s->len - n, n, key, 0);
}

static inline void text_frame(struct stream *s, unsigned first,
                              const char *payload)
{
    frame(s, first, payload, strlen(payload));
}

static inline void release(struct stream *s)
{
    free(s->bytes);
    memset(s, 0, sizeof(*s));
}

/* ---- running them ------------------------------------------------------ */

struct run {
    struct nib__assembler a;
    struct stream stash; /* handed in again, in front of the next piece */
    size_t taken;        /* bytes of the stream that were used */
    size_t allocated;    /* messages given as objects */
    bool failed;
    char text[8192];
};

static inline void note(struct run *r, const char *what, const uint8_t *data,
                        size_t len)
{
    size_t at = strlen(r->text);
    unsigned sum = 0;

    for (size_t i = 0; i < len; i++)
        sum = sum * 31 + data[i];
    /* Long payloads are written down as their length and a sum. */
    if (len <= 40)
        snprintf(r->text + at, sizeof(r->text) - at, "%s(%.*s) ", what,
                 (int)len, (const char *)data);
    else
        snprintf(r->text + at, sizeof(r->text) - at, "%s[%zu:%08x] ", what,
                 len, sum);
}

static inline void check_message(struct run *r, const struct nib__event *e)
{
    const uint8_t *bytes;
    size_t n;

    if (r->a.own)
        ck_assert_ptr_nonnull(e->msg);
    if (!e->msg)
        return;
    r->allocated++;
    ck_assert_uint_eq(e->msg->kind, e->kind);
    ck_assert(atomic_load(&e->msg->valid));
    ck_assert_ptr_eq(e->msg->data, e->data);
    ck_assert_uint_eq(e->msg->len, e->len);
    bytes = nib__message_frame(e->msg, &n);
    ck_assert_uint_eq(n, e->len + nib__frame_header_bytes(e->len));
    ck_assert_uint_eq(bytes[0], e->kind == NIB_TEXT ? 0x81 : 0x82);
}

static inline void take(struct run *r, const struct nib__event *e)
{
    char code[96];

    switch (e->type) {
    case NIB__EVENT_MESSAGE:
        check_message(r, e);
        note(r, e->kind == NIB_TEXT ? "text" : "binary", e->data, e->len);
        nib_message_unref(e->msg);
        break;
    case NIB__EVENT_PING:
        note(r, "ping", e->data, e->len);
        break;
    case NIB__EVENT_PONG:
        note(r, "pong", e->data, e->len);
        break;
    case NIB__EVENT_CLOSE:
        snprintf(code, sizeof(code), "close-%u", e->code);
        note(r, code, e->data, e->len);
        break;
    case NIB__EVENT_EMPTY:
        note(r, "empty", (const uint8_t *)"", 0);
        break;
    case NIB__EVENT_ERROR:
        snprintf(code, sizeof(code), "error-%u", e->code);
        note(r, code, (const uint8_t *)e->reason, strlen(e->reason));
        ck_assert(!nib__assembler_busy(&r->a));
        r->failed = true;
        break;
    case NIB__EVENT_MORE:
        break;
    }
}

static inline void start(struct run *r, bool own)
{
    memset(r, 0, sizeof(*r));
    nib__assembler_init(&r->a, LIMIT, own);
}

/* Feeds one more piece. */
static inline void feed(struct run *r, const uint8_t *piece, size_t n)
{
    struct stream s = r->stash;
    struct nib__event e;
    uint8_t *block;
    size_t at = 0;

    append(&s, piece, n);
    block = malloc(s.len); /* exactly: what is beyond is seen */
    memcpy(block, s.bytes, s.len);
    do {
        size_t used = 0;

        nib__assembler_next(&r->a, block + at, s.len - at, &used, &e);
        ck_assert_uint_le(used, s.len - at);
        at += used;
        take(r, &e);
    } while (e.type != NIB__EVENT_MORE && e.type != NIB__EVENT_ERROR);

    r->taken += at;
    r->stash = (struct stream){0};
    append(&r->stash, block + at, s.len - at);
    /* What must be kept is a header or a control frame, never payload. */
    ck_assert_uint_lt(r->stash.len, 6 + NIB__CONTROL_MAX);
    free(block);
    release(&s);
}

static inline void stop(struct run *r)
{
    nib__assembler_free(&r->a);
    ck_assert(!nib__assembler_busy(&r->a));
    release(&r->stash);
}

/* Feeds a stream in pieces of `size` bytes. */
static inline void run_pieces(struct run *r, const struct stream *s, bool own,
                              size_t size)
{
    start(r, own);
    for (size_t at = 0; at < s->len && !r->failed;) {
        size_t n = size == WHOLE || size > s->len - at ? s->len - at : size;

        feed(r, s->bytes + at, n);
        at += n;
    }
}

/* Feeds a stream in two pieces. */
static inline void run_split(struct run *r, const struct stream *s, bool own,
                             size_t cut)
{
    start(r, own);
    feed(r, s->bytes, cut);
    if (!r->failed)
        feed(r, s->bytes + cut, s->len - cut);
}

/*
 * Feeds a stream whole, cut in two at each place and in small pieces, in
 * both modes: the events are those of `text`, and no memory is left.
 */
static inline void check_all_ways(const struct stream *s, const char *text)
{
    static const size_t sizes[] = {WHOLE, 1, 2, 3, 5, 7, 64};
    static struct run r;

    nib__alloc_watch(true);
    for (int own = 0; own <= 1; own++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            run_pieces(&r, s, own, sizes[i]);
            ck_assert_str_eq(r.text, text);
            if (!r.failed)
                ck_assert_uint_eq(r.taken + r.stash.len, s->len);
            stop(&r);
        }
        for (size_t cut = 0; cut <= s->len; cut++) {
            run_split(&r, s, own, cut);
            ck_assert_str_eq(r.text, text);
            stop(&r);
        }
    }
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

/* The same for a stream that is then released. */
static inline void check_and_release(struct stream *s, const char *text)
{
    check_all_ways(s, text);
    release(s);
}

#endif
