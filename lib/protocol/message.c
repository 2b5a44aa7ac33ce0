/*
 * message - an immutable, reference-counted payload, encoded once.
 *
 * Who holds the only reference may fill a message; from its first send on
 * nobody writes to it but for `refs` and `valid`, so any thread may read it
 * without a lock. The public half of this module is in nib.h.
 */
#include "protocol/message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* Where the payload begins: behind the header, and aligned for wide copies. */
#define PAYLOAD_OFFSET                                                       \
    ((sizeof(struct nib_message) + NIB__SERVER_HEADER_MAX + 15) &            \
     ~(size_t)15)

static uint8_t *payload(struct nib_message *msg)
{
    return (uint8_t *)msg + PAYLOAD_OFFSET;
}

static uint8_t opcode_of(const struct nib_message *msg)
{
    return msg->kind == NIB_TEXT ? NIB__TEXT : NIB__BINARY;
}

/* The header's size varies, so it is written where it ends at the payload. */
static void encode_header(struct nib_message *msg)
{
    msg->header = (uint8_t)nib__frame_header_bytes(msg->len);
    nib__frame_encode_server(msg->data - msg->header, opcode_of(msg), true,
                             msg->len);
}

static void set_valid(struct nib_message *msg, bool valid)
{
    atomic_store_explicit(&msg->valid, valid, memory_order_relaxed);
}

struct nib_message *nib__message_alloc(unsigned kind, size_t len)
{
    struct nib_message *msg;
    size_t bytes;

    assert(kind == NIB_TEXT || kind == NIB_BINARY);
    if (nib__add_overflow(PAYLOAD_OFFSET, len, &bytes))
        return NULL;
    msg = nib__alloc(bytes);
    if (!msg)
        return NULL;
    atomic_init(&msg->refs, 1);
    msg->kind = (uint8_t)kind;
    msg->borrowed = false;
    atomic_init(&msg->valid, kind == NIB_BINARY);
    msg->len = len;
    msg->capacity = len;
    msg->data = payload(msg);
    msg->next = NULL;
    encode_header(msg);
    return msg;
}

int nib__message_reserve(struct nib_message **msg, size_t bytes)
{
    struct nib_message *old = *msg;
    size_t capacity = old->capacity;
    size_t total;

    assert(!old->borrowed);
    if (bytes <= capacity)
        return 0;
    if (nib__add_overflow(capacity, capacity / 2, &capacity) ||
        capacity < bytes)
        capacity = bytes;
    if (nib__add_overflow(PAYLOAD_OFFSET, capacity, &total))
        return -ENOMEM;

    struct nib_message *moved = nib__realloc(old, total);

    if (!moved)
        return -ENOMEM;
    moved->data = payload(moved);
    moved->capacity = capacity;
    *msg = moved;
    return 0;
}

void nib__message_finish(struct nib_message *msg, size_t len)
{
    assert(!msg->borrowed && len <= msg->capacity);
    msg->len = len;
    encode_header(msg);
}

void nib__message_borrow(struct nib_message *msg, unsigned kind,
                         const uint8_t *data, size_t len)
{
    static const uint8_t nothing[1];

    assert(data || len == 0);
    memset(msg, 0, sizeof(*msg));
    atomic_init(&msg->refs, 0);
    msg->kind = (uint8_t)kind;
    msg->borrowed = true;
    atomic_init(&msg->valid, kind == NIB_BINARY);
    msg->len = len;
    /* Nobody writes through it: a message is filled by its allocator only. */
    msg->data = (uint8_t *)(data ? data : nothing);
}

int nib__message_check(struct nib_message *msg)
{
    /* Two threads may both look; they find the same. */
    if (atomic_load_explicit(&msg->valid, memory_order_relaxed))
        return 0;
    if (!nib__utf8_valid(msg->data, msg->len))
        return -EILSEQ;
    set_valid(msg, true);
    return 0;
}

/* ---- the public functions ---------------------------------------------- */

/*
 * Takes NIB_TRUSTED off, which may stand in `kind`. Returns 0 unless exactly
 * one kind is left.
 */
static unsigned plain_kind(unsigned kind)
{
    kind &= ~(unsigned)NIB_TRUSTED;
    return kind == NIB_TEXT || kind == NIB_BINARY ? kind : 0;
}

int nib_message_alloc(unsigned kind, size_t len, void **data,
                      struct nib_message **out)
{
    unsigned plain = plain_kind(kind);
    struct nib_message *msg;

    if (plain == 0)
        return -EINVAL;
    msg = nib__message_alloc(plain, len);
    if (!msg)
        return -ENOMEM;
    if (kind & NIB_TRUSTED)
        set_valid(msg, true);
    *data = msg->data;
    *out = msg;
    return 0;
}

int nib_message_new(unsigned kind, const void *data, size_t len,
                    struct nib_message **out)
{
    bool check = kind == NIB_TEXT;
    void *room;
    int result;

    if (!data && len > 0)
        return -EINVAL;
    if (check && !nib__utf8_valid(data, len))
        return -EILSEQ;
    result = nib_message_alloc(kind, len, &room, out);
    if (result < 0)
        return result;
    if (len > 0)
        memcpy(room, data, len);
    if (check)
        set_valid(*out, true);
    return 0;
}

/* A copy of a borrowed message, which outlives the callback. */
static struct nib_message *copy(const struct nib_message *msg)
{
    struct nib_message *made = nib__message_alloc(msg->kind, msg->len);

    if (!made)
        return NULL;
    if (msg->len > 0)
        memcpy(made->data, msg->data, msg->len);
    set_valid(made, atomic_load_explicit(&msg->valid, memory_order_relaxed));
    return made;
}

struct nib_message *nib_message_ref(struct nib_message *msg)
{
    if (msg->borrowed)
        return copy(msg);
    atomic_fetch_add_explicit(&msg->refs, 1, memory_order_relaxed);
    return msg;
}

void nib_message_unref(struct nib_message *msg)
{
    /* A borrowed message holds no reference that could be given back. */
    if (!msg || msg->borrowed)
        return;
    /* Release what this thread read, acquire that of all others, then free. */
    if (atomic_fetch_sub_explicit(&msg->refs, 1, memory_order_acq_rel) == 1)
        nib__free(msg);
}

const void *nib_message_data(const struct nib_message *msg, size_t *len)
{
    if (len)
        *len = msg->len;
    return msg->data;
}

unsigned nib_message_kind(const struct nib_message *msg)
{
    return msg->kind;
}
