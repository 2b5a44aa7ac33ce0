/*
 * message - an immutable, reference-counted payload, encoded once.
 *
 * One allocation: the structure, room for a server's frame header, and the
 * payload right behind it, so that a message that fits one frame goes out as
 * one piece of memory however many connections it is sent to. A `borrowed`
 * message lives on the stack of the owner during on_message, and points into
 * the read buffer; a reference to it is a copy.
 */
#ifndef NIB_PROTOCOL_MESSAGE_H
#define NIB_PROTOCOL_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nib.h"
#include "protocol/frame.h"

struct nib_message {
    _Atomic unsigned refs;
    uint8_t kind;      /* NIB_TEXT or NIB_BINARY */
    bool borrowed;     /* see above; refs is unused */
    _Atomic bool valid; /* text known to be UTF-8, or binary */
    uint8_t header;    /* bytes of the encoded header, 2, 4 or 10 */
    size_t len;        /* bytes of payload */
    size_t capacity;   /* bytes of payload that were allocated */
    uint8_t *data;     /* the payload; the header ends right before it,
                          unless borrowed */
    struct nib_message *next; /* in the one queue that holds it (inbox) */
};

/*
 * Makes a message with room for len bytes, one reference, its header encoded.
 * The payload is not initialised.
 *
 * Returns NULL if there is no memory.
 */
struct nib_message *nib__message_alloc(unsigned kind, size_t len);

/*
 * Makes *msg room for at least `bytes` of payload; grows in steps of a
 * factor, so that appending is linear. Only for a message with one reference
 * that nobody else has seen; it may move. Its len is unchanged.
 *
 * Returns 0 or -ENOMEM, with *msg as it was.
 */
int nib__message_reserve(struct nib_message **msg, size_t bytes);

/*
 * Fixes the length of a message that was filled by its only holder (at most
 * its capacity) and encodes its header anew.
 */
void nib__message_finish(struct nib_message *msg, size_t len);

/*
 * Sets up a borrowed message over data[0..len), which must outlive it.
 */
void nib__message_borrow(struct nib_message *msg, unsigned kind,
                         const uint8_t *data, size_t len);

/*
 * Makes sure that a text message is UTF-8, once for all its receivers.
 *
 * Returns 0 or -EILSEQ.
 */
int nib__message_check(struct nib_message *msg);

/*
 * The whole message as one unfragmented server frame: header and payload.
 * Not for a borrowed one.
 */
static inline const uint8_t *nib__message_frame(const struct nib_message *msg,
                                                size_t *len)
{
    *len = msg->header + msg->len;
    return msg->data - msg->header;
}

#endif
