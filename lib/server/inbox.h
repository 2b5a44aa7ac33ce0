/*
 * inbox - received messages that wait for a blocking handler.
 *
 * The owner puts, one receiver takes. Only connections of blocking handlers
 * have one. Bounded by number and bytes, but one message always fits: the
 * owner stops reading when it is full, and the receiver asks for more when it
 * has fallen to half. The end is said once and stays.
 */
#ifndef NIB_SERVER_INBOX_H
#define NIB_SERVER_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"
#include "threads/lock.h"

struct nib__inbox {
    struct nib__lock lock; /* for all that follows */
    struct nib_message *first;
    struct nib_message **last;
    unsigned count;
    size_t bytes;
    unsigned limit_count;
    size_t limit_bytes;
    bool receiving; /* a receiver is in nib__inbox_take() */
    bool stopped;   /* the owner stopped reading for want of room */
    int end;        /* 0, or what is answered when nothing is left */
    _Atomic uint32_t word; /* changes with everything a receiver waits for */
    bool waiting;   /* the receiver sleeps on the word */
};

/* Makes an inbox; NULL: no memory. */
struct nib__inbox *nib__inbox_new(unsigned limit_count, size_t limit_bytes);

/* Frees it with what is in it; nobody is receiving. */
void nib__inbox_free(struct nib__inbox *in);

/*
 * Puts a message, which the inbox takes over. Returns whether there is room
 * for one more; false means: stop reading, nib__inbox_take() will tell when to
 * go on. After the end, the message is dropped. [owner]
 */
bool nib__inbox_put(struct nib__inbox *in, struct nib_message *msg);

/*
 * Ends the inbox with a negative result, which every take gets from now on
 * once nothing is left; `drop` drops what is left. The first end stays, but a
 * later one may drop. [owner]
 */
void nib__inbox_end(struct nib__inbox *in, int result, bool drop);

/*
 * Takes the next message, waiting until due_ns on nib__clock_ns()'s scale (0:
 * not at all, UINT64_MAX: no limit). *more is set if the owner has to be told
 * to read again.
 *
 * Returns 0 with *msg, -ETIMEDOUT, -EBUSY if another thread is here, or what
 * the inbox ended with. [any], off the reactors
 */
int nib__inbox_take(struct nib__inbox *in, uint64_t due_ns,
                    struct nib_message **msg, bool *more);

#endif
