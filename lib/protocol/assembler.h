/*
 * assembler - from received bytes to messages and control frames.
 *
 * The receiving state machine of one connection (RFC 6455, 5 and 7): it takes
 * bytes as they come, split anywhere, and gives one event at a time. Only the
 * connection's owner touches it. It keeps no bytes but those of an unfinished
 * message; what it has not used (an incomplete header or control frame, at
 * most 138 bytes) stays with the caller, who hands it in again with more.
 */
#ifndef NIB_PROTOCOL_ASSEMBLER_H
#define NIB_PROTOCOL_ASSEMBLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"
#include "protocol/frame.h"
#include "protocol/message.h"

struct nib__assembler {
    struct nib_message *partial; /* the unfinished message, or NULL */
    uint64_t remaining;  /* payload bytes of the current frame to come */
    size_t limit;        /* largest message, bytes */
    struct nib__utf8 utf8; /* of the unfinished text message */
    uint8_t key[4];      /* of the current frame */
    uint8_t phase;       /* offset in the current frame's payload mod 4 */
    uint8_t opcode;      /* of the unfinished message; 0: none */
    uint8_t rsv_allowed; /* for an extension: reserved bits on first frames */
    bool in_frame;       /* header read, payload not all there */
    bool fin;            /* the current frame is the message's last */
    bool client;         /* receive as a client: frames must not be masked */
    bool own;            /* give messages as objects (see below) */
};

enum nib__event_type {
    NIB__EVENT_MORE,    /* needs more bytes than it was given */
    NIB__EVENT_MESSAGE,
    NIB__EVENT_PING,
    NIB__EVENT_PONG,
    NIB__EVENT_CLOSE,
    NIB__EVENT_EMPTY,   /* an empty fragment was used: for rate limits */
    NIB__EVENT_ERROR,   /* answer Close `code`, and feed no more */
};

struct nib__event {
    enum nib__event_type type;
    uint8_t kind;        /* MESSAGE: NIB_TEXT or NIB_BINARY */
    uint8_t *data;       /* MESSAGE without msg, PING, PONG: unmasked, inside
                            the caller's buffer. CLOSE: the reason */
    size_t len;
    struct nib_message *msg; /* MESSAGE: an object that the caller now owns,
                                or NULL: the bytes lie at data */
    unsigned code;       /* CLOSE: the peer's code, 1005 if it gave none.
                            ERROR: 1002, 1007, 1009, or 1011: no memory */
    const char *reason;  /* ERROR: static text that says what was wrong */
};

/*
 * Starts an assembler. `limit` is the largest message in bytes. With `own`,
 * every MESSAGE is an object (for inboxes: one copy, unmasked on the way);
 * without, a message that lies in one piece in the caller's buffer is given
 * where it lies (for callbacks: no copy), and only others are objects.
 */
void nib__assembler_init(struct nib__assembler *a, size_t limit, bool own);

/*
 * Drops an unfinished message.
 */
void nib__assembler_free(struct nib__assembler *a);

/*
 * Takes bytes from p[0..n), which it may change in place (unmasking), up to
 * the end of the first event, and says in *used how many. With
 * NIB__EVENT_MORE all that can be used is used; the rest is to be handed in
 * again, in front of further bytes.
 *
 * Memory for a message grows with the bytes that have come, not with the
 * length that a header claims (but for frames up to 16 KiB); a length over
 * the limit is an ERROR 1009 when its header is read. Text is checked as it
 * comes, also over fragments, and fails at the first impossible byte. An
 * ERROR drops the unfinished message, and says that all bytes were used.
 *
 * RFC 6455, 5.1 (masking), 5.4 (fragments), 5.5, 7.4, 8.1
 */
void nib__assembler_next(struct nib__assembler *a, uint8_t *p, size_t n,
                         size_t *used, struct nib__event *event);

/*
 * Is a message unfinished, so that only a part of it has come?
 */
static inline bool nib__assembler_busy(const struct nib__assembler *a)
{
    return a->opcode != 0;
}

#endif
