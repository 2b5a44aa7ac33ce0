/*
 * outbox - bytes of one connection, between its senders and its owner.
 *
 * See outbox.h for the invariants. Chunks grow from 512 bytes to 64 KiB, so
 * that an idle connection costs nothing and a busy one writes many messages
 * by one system call.
 */
#include "server/outbox.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "threads/oneshot.h"

enum {
    SMALL = 512,
    MEDIUM = 4096,
    LARGE = 65536,
    POOLED = 64, /* large chunks kept for each reactor */
};

/* Own bytes of a chunk whose whole allocation is `size`. */
#define ROOM(size) ((size_t)(size) - sizeof(struct nib__chunk))

void nib__chunk_pool_init(struct nib__chunk_pool *pool, _Atomic size_t *total,
                          size_t total_limit) NIB__NO_ANALYSIS
{
    nib__lock_init(&pool->lock);
    pool->free = NULL;
    pool->count = 0;
    pool->total = total;
    pool->total_limit = total_limit;
}

void nib__chunk_pool_destroy(struct nib__chunk_pool *pool) NIB__NO_ANALYSIS
{
    while (pool->free != NULL) {
        struct nib__chunk *chunk = pool->free;

        pool->free = chunk->next;
        nib__free(chunk);
    }
    nib__lock_destroy(&pool->lock);
}

/* Charges the server's total; false if that would exceed its limit. */
static bool charge_total(struct nib__chunk_pool *pool, size_t bytes)
{
    size_t before = atomic_fetch_add_explicit(pool->total, bytes,
                                              memory_order_relaxed);

    if (pool->total_limit == 0 || before + bytes <= pool->total_limit)
        return true;
    atomic_fetch_sub_explicit(pool->total, bytes, memory_order_relaxed);
    return false;
}

static struct nib__chunk *pool_take(struct nib__chunk_pool *pool)
{
    struct nib__chunk *chunk;

    nib__lock_take(&pool->lock);
    chunk = pool->free;
    if (chunk != NULL) {
        pool->free = chunk->next;
        pool->count--;
    }
    nib__lock_release(&pool->lock);
    return chunk;
}

struct nib__chunk *nib__chunk_new(struct nib__chunk_pool *pool, size_t bytes)
{
    struct nib__chunk *chunk = NULL;

    if (bytes > UINT32_MAX || !charge_total(pool, bytes))
        return NULL;
    if (bytes == ROOM(LARGE))
        chunk = pool_take(pool);
    if (chunk == NULL)
        chunk = nib__alloc(sizeof *chunk + bytes);
    if (chunk == NULL) {
        atomic_fetch_sub_explicit(pool->total, bytes, memory_order_relaxed);
        return NULL;
    }
    *chunk = (struct nib__chunk){.capacity = (uint32_t)bytes};
    return chunk;
}

static void chunk_free(struct nib__chunk_pool *pool, struct nib__chunk *chunk)
{
    atomic_fetch_sub_explicit(pool->total, chunk->capacity,
                              memory_order_relaxed);
    if (chunk->msg != NULL)
        nib_message_unref(chunk->msg);
    if (chunk->capacity == ROOM(LARGE)) {
        nib__lock_take(&pool->lock);
        if (pool->count < POOLED) {
            chunk->next = pool->free;
            pool->free = chunk;
            pool->count++;
            chunk = NULL;
        }
        nib__lock_release(&pool->lock);
    }
    nib__free(chunk);
}

void nib__chunks_free(struct nib__chunk_pool *pool, struct nib__chunk *chunks)
{
    while (chunks != NULL) {
        struct nib__chunk *next = chunks->next;

        chunk_free(pool, chunks);
        chunks = next;
    }
}

void nib__outbox_init(struct nib__outbox *o)
{
    *o = (struct nib__outbox){.ops = 0};
    nib__lock_init(&o->lock);
    o->waiters_end = &o->waiters;
}

void nib__outbox_destroy(struct nib__outbox *o, struct nib__chunk_pool *pool)
{
    nib__chunks_free(pool, o->first);
    nib__lock_destroy(&o->lock);
}

/* Number of frames that a message of len bytes is cut into. */
static size_t frame_count(size_t len, size_t frame_bytes)
{
    return len <= frame_bytes ? 1 : (len - 1) / frame_bytes + 1;
}

size_t nib__wire_bytes(size_t len, size_t frame_bytes)
{
    size_t full = frame_count(len, frame_bytes) - 1;
    size_t rest = len - full * frame_bytes;

    return len + full * nib__frame_header_bytes(frame_bytes) +
           nib__frame_header_bytes(rest);
}

static uint8_t opcode_of(unsigned kind)
{
    return kind & NIB_TEXT ? NIB__TEXT : NIB__BINARY;
}

void nib__wire_encode(uint8_t *to, unsigned kind, const void *data,
                      size_t len, size_t frame_bytes)
{
    const uint8_t *from = data;
    uint8_t opcode = opcode_of(kind);

    do {
        size_t part = len < frame_bytes ? len : frame_bytes;

        len -= part;
        to += nib__frame_encode_server(to, opcode, len == 0, part);
        if (part > 0)
            memcpy(to, from, part);
        to += part;
        from += part;
        opcode = NIB__CONTINUATION;
    } while (len > 0);
}

struct nib__chunk *nib__chunk_encode(struct nib__chunk_pool *pool,
                                     unsigned kind, const void *data,
                                     size_t len, size_t frame_bytes)
{
    size_t bytes = nib__wire_bytes(len, frame_bytes);
    struct nib__chunk *chunk = nib__chunk_new(pool, bytes);

    if (chunk == NULL)
        return NULL;
    nib__wire_encode(chunk->bytes, kind, data, len, frame_bytes);
    chunk->len = (uint32_t)bytes;
    return chunk;
}

struct nib__chunk *nib__chunk_share(struct nib__chunk_pool *pool,
                                    struct nib_message *msg,
                                    size_t frame_bytes)
{
    struct nib__chunk *first = NULL, **end = &first;
    size_t left = msg->len;
    const uint8_t *from = msg->data;
    uint8_t opcode = opcode_of(msg->kind);

    do {
        size_t part = left < frame_bytes ? left : frame_bytes;
        struct nib__chunk *chunk =
            nib__chunk_new(pool, NIB__SERVER_HEADER_MAX);

        if (chunk == NULL) {
            nib__chunks_free(pool, first);
            return NULL;
        }
        left -= part;
        chunk->len = (uint32_t)nib__frame_encode_server(chunk->bytes, opcode,
                                                        left == 0, part);
        chunk->ref = from;
        chunk->ref_len = (uint32_t)part;
        chunk->msg = nib_message_ref(msg);
        from += part;
        opcode = NIB__CONTINUATION;
        *end = chunk;
        end = &chunk->next;
    } while (left > 0);
    return first;
}

static void append(struct nib__outbox *o, struct nib__chunk *chunk)
    NIB__REQUIRES(o->lock);
static void append(struct nib__outbox *o, struct nib__chunk *chunk)
{
    if (o->last != NULL)
        o->last->next = chunk;
    else
        o->first = chunk;
    o->last = chunk;
}

/* The size of the next chunk for small messages, after the last one's. */
static size_t grown(const struct nib__outbox *o, size_t bytes)
    NIB__REQUIRES(o->lock);
static size_t grown(const struct nib__outbox *o, size_t bytes)
{
    size_t after = o->last == NULL ? 0 : o->last->capacity;

    if (after < ROOM(SMALL) && bytes <= ROOM(SMALL))
        return ROOM(SMALL);
    if (after < ROOM(MEDIUM) && bytes <= ROOM(MEDIUM))
        return ROOM(MEDIUM);
    return ROOM(LARGE);
}

int nib__outbox_copy(struct nib__outbox *o, struct nib__chunk_pool *pool,
                     unsigned kind, const void *data, size_t len)
{
    size_t bytes = nib__frame_header_bytes(len) + len;
    struct nib__chunk *chunk = o->last;
    uint8_t *to;

    if (chunk == NULL || chunk->ref != NULL ||
        chunk->capacity - chunk->len < bytes) {
        chunk = nib__chunk_new(pool, grown(o, bytes));
        if (chunk == NULL)
            return -ENOMEM;
        append(o, chunk);
    }
    to = chunk->bytes + chunk->len;
    to += nib__frame_encode_server(to, opcode_of(kind), true, len);
    if (len > 0)
        memcpy(to, data, len);
    chunk->len += (uint32_t)bytes;
    o->charged += bytes;
    o->accepted += bytes;
    return 0;
}

void nib__outbox_link(struct nib__outbox *o, struct nib__chunk *chunks,
                      size_t bytes)
{
    append(o, chunks);
    while (o->last->next != NULL)
        o->last = o->last->next;
    o->charged += bytes;
    o->accepted += bytes;
}

void nib__outbox_wait(struct nib__outbox *o, struct nib__waiter *w)
{
    w->next = NULL;
    *o->waiters_end = w;
    o->waiters_end = &w->next;
}

void nib__outbox_unwait(struct nib__outbox *o, struct nib__waiter *w)
{
    struct nib__waiter **place = &o->waiters;

    while (*place != NULL && *place != w)
        place = &(*place)->next;
    if (*place == NULL)
        return;
    *place = w->next;
    if (o->waiters_end == &w->next)
        o->waiters_end = place;
}

/*
 * Takes the first waiter out and tells it. From the store on, it may be gone;
 * only its address is used.
 */
static void tell_first(struct nib__outbox *o, int result,
                       struct nib__wakes *wakes) NIB__REQUIRES(o->lock);
static void tell_first(struct nib__outbox *o, int result,
                       struct nib__wakes *wakes)
{
    struct nib__waiter *w = o->waiters;
    _Atomic uint32_t *word = &w->word;

    o->waiters = w->next;
    if (o->waiters == NULL)
        o->waiters_end = &o->waiters;
    w->result = result;
    atomic_store_explicit(word, 1, memory_order_release);
    if (wakes->count == sizeof wakes->words / sizeof wakes->words[0])
        nib__wakes_send(wakes);
    wakes->words[wakes->count++] = word;
}

void nib__outbox_serve(struct nib__outbox *o, size_t limit,
                       struct nib__wakes *wakes)
{
    while (o->waiters != NULL && o->waiters->bytes <= limit - o->charged) {
        struct nib__waiter *w = o->waiters;

        nib__outbox_link(o, w->chunks, w->bytes);
        w->chunks = NULL;
        tell_first(o, 0, wakes);
    }
}

void nib__outbox_refuse(struct nib__outbox *o, int result,
                        struct nib__wakes *wakes)
{
    while (o->waiters != NULL)
        tell_first(o, result, wakes);
}

void nib__wakes_send(struct nib__wakes *wakes)
{
    for (unsigned i = 0; i < wakes->count; i++)
        nib__futex_wake(wakes->words[i], 1);
    wakes->count = 0;
}

int nib__outbox_pieces(struct nib__outbox *o, struct iovec *pieces, int max,
                       size_t max_bytes)
{
    size_t bytes = 0;
    int n = 0;

    for (struct nib__chunk *chunk = o->first;
         chunk != NULL && n < max && bytes < max_bytes; chunk = chunk->next) {
        size_t ref_off = 0;

        if (chunk->off < chunk->len) {
            pieces[n].iov_base = chunk->bytes + chunk->off;
            pieces[n].iov_len = chunk->len - chunk->off;
            bytes += pieces[n++].iov_len;
        } else {
            ref_off = chunk->off - chunk->len;
        }
        if (chunk->ref_len > ref_off) {
            if (n == max)
                break;
            pieces[n].iov_base = (void *)(uintptr_t)(chunk->ref + ref_off);
            pieces[n].iov_len = chunk->ref_len - ref_off;
            bytes += pieces[n++].iov_len;
        }
    }
    return n;
}

/* Takes the first chunk out of the list. */
static void shift(struct nib__outbox *o, struct nib__chunk_pool *pool)
    NIB__REQUIRES(o->lock);
static void shift(struct nib__outbox *o, struct nib__chunk_pool *pool)
{
    struct nib__chunk *chunk = o->first;

    o->first = chunk->next;
    if (o->first == NULL)
        o->last = NULL;
    chunk_free(pool, chunk);
}

void nib__outbox_consume(struct nib__outbox *o, struct nib__chunk_pool *pool,
                         size_t n)
{
    assert(n <= o->charged);
    o->charged -= n;
    o->written += n;
    while (n > 0) {
        struct nib__chunk *chunk = o->first;
        size_t left = (size_t)chunk->len + chunk->ref_len - chunk->off;

        if (n < left) {
            chunk->off += (uint32_t)n;
            return;
        }
        n -= left;
        shift(o, pool);
    }
}

/* Length of the frame at p, which holds whole frames of the server's. */
static size_t frame_at(const uint8_t *p)
{
    struct nib__frame frame;
    int header = nib__frame_decode(p, NIB__SERVER_HEADER_MAX, 7, &frame);

    assert(header > 0);
    return (size_t)header + (size_t)frame.length;
}

size_t nib__outbox_frame_rest(const struct nib__outbox *o)
{
    const struct nib__chunk *chunk = o->first;
    size_t end = 0;

    if (chunk == NULL || chunk->off == 0)
        return 0;
    if (chunk->ref != NULL || chunk->raw)
        return (size_t)chunk->len + chunk->ref_len - chunk->off;
    while (end < chunk->off)
        end += frame_at(chunk->bytes + end);
    return end - chunk->off;
}

/*
 * A message of several frames in one chunk is begun when its first frame is;
 * one of several chunks, too: the chunks after the first start with a
 * continuation.
 */
bool nib__outbox_mid_message(const struct nib__outbox *o)
{
    const struct nib__chunk *chunk = o->first;
    size_t at = 0;
    bool fin = true;

    if (chunk == NULL || chunk->raw)
        return false;
    if (chunk->off == 0)
        return (chunk->bytes[0] & 0x0f) == NIB__CONTINUATION;
    if (chunk->ref != NULL)
        return true;
    while (at < chunk->off) {
        fin = (chunk->bytes[at] & 0x80) != 0;
        at += frame_at(chunk->bytes + at);
    }
    return at > chunk->off || !fin;
}

size_t nib__outbox_drop(struct nib__outbox *o, struct nib__chunk_pool *pool)
{
    size_t rest = nib__outbox_frame_rest(o);
    size_t dropped = o->charged - rest;

    if (rest == 0) {
        nib__chunks_free(pool, o->first);
        o->first = o->last = NULL;
    } else {
        struct nib__chunk *chunk = o->first;

        nib__chunks_free(pool, chunk->next);
        chunk->next = NULL;
        o->last = chunk;
        if (chunk->ref == NULL)
            chunk->len = chunk->off + (uint32_t)rest;
    }
    o->charged = rest;
    o->written += dropped;
    return dropped;
}
