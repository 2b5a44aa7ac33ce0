/*
 * outbox - the bytes that wait to be written on one connection.
 *
 * The one thing that senders and the owner share, under its own lock, which
 * makes one order for all senders. Senders append whole frames; the owner
 * takes pieces to write and gives back what the kernel took. Invariants:
 *
 * - charged is the sum of the bytes queued, and never over the limit;
 * - a chunk holds whole frames, so chunks begin at a frame's start;
 * - while a sender waits, nobody appends before it;
 * - after send_closed nothing is appended;
 * - ops and posted: a sender that adds an op to a record that is not posted
 *   posts it; only the record's run or cancel clears both, before it looks at
 *   anything else. So no op is lost and no record is twice in a mailbox.
 */
#ifndef NIB_SERVER_OUTBOX_H
#define NIB_SERVER_OUTBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "protocol/message.h"
#include "threads/lock.h"

enum {
    NIB__COPY_LOCKED = 4096, /* bytes that may be copied under the lock */
    NIB__COPY_SHARED = 1024, /* shared messages up to this are copied */
    NIB__OUTBOX_PIECES = 64, /* of one write */
};

/*
 * Whole frames: own bytes first, then, by reference, a part of a message.
 */
struct nib__chunk {
    struct nib__chunk *next;
    struct nib_message *msg; /* holds `ref` alive, or NULL */
    const uint8_t *ref;
    uint32_t ref_len;
    uint32_t len; /* own bytes in use */
    uint32_t capacity; /* of own bytes */
    uint32_t off; /* of own bytes and ref: already written */
    bool raw;     /* HTTP text, or the rest of a frame */
    uint8_t bytes[];
};

/*
 * 64 KiB chunks that one reactor's connections have done with. Kept, because
 * fresh memory is dear, up to a bound. One for each reactor.
 */
struct nib__chunk_pool {
    struct nib__lock lock;
    struct nib__chunk *free; /* these two under the lock */
    unsigned count;
    _Atomic size_t *total; /* capacity of all chunks of the server */
    size_t total_limit;    /* 0: none */
};

/* A sender that waits for room; lies on its stack. */
struct nib__waiter {
    struct nib__waiter *next;
    struct nib__chunk *chunks; /* what it sends, encoded */
    size_t bytes;
    _Atomic uint32_t word; /* 0 waiting, 1 served: result is valid */
    int result;
};

/* What a command record of a connection is asked to do. */
enum nib__op {
    NIB__OP_FLUSH = 1 << 0,
    NIB__OP_CLOSE = 1 << 1, /* send_closed has been set */
    NIB__OP_ABORT = 1 << 2,
    NIB__OP_READ = 1 << 3,  /* room in the inbox, or resumed */
    NIB__OP_PAUSE = 1 << 4,
    NIB__OP_ROOM = 1 << 5,  /* a topic has room again */
    NIB__OP_MORE = 1 << 6,  /* the transport holds received bytes */
};

struct nib__ending;

struct nib__outbox {
    struct nib__lock lock; /* for all that follows */
    uint8_t ops;          /* enum nib__op bits for the record */
    bool posted;          /* the connection's record is in a mailbox */
    bool send_closed;     /* no more sends: closing or closed */
    bool blocked;         /* the owner waits for EPOLLOUT: no flush record */
    bool wants_room;      /* a send on the owner got -EAGAIN */
    bool local;           /* once send_closed: this side began */
    bool clean;           /* both Close frames were exchanged */
    uint16_t close_code;  /* once send_closed: to be sent; 0: an empty Close */
    uint16_t end_code;    /* for nib_close_info; 1006 unless a Close was */
    uint32_t sent;        /* messages since the owner last counted */
    struct nib__ending *ending; /* the Close with its reason, or NULL */
    struct nib__chunk *first;
    struct nib__chunk *last;
    size_t charged;       /* bytes queued */
    struct nib__waiter *waiters; /* in order */
    struct nib__waiter **waiters_end;
    uint64_t accepted;    /* bytes ever queued */
    uint64_t written;     /* bytes ever given back as written or dropped */
    size_t dropped;       /* of those, dropped */
};

/* Addresses of the words of waiters to wake when the lock is released. */
struct nib__wakes {
    unsigned count;
    _Atomic uint32_t *words[16];
};

void nib__chunk_pool_init(struct nib__chunk_pool *pool, _Atomic size_t *total,
                          size_t total_limit);

/* Frees the pool's chunks; all outboxes are gone. */
void nib__chunk_pool_destroy(struct nib__chunk_pool *pool);

/*
 * A chunk with room for at least `bytes` of its own; NULL if there is no
 * memory, or the server's total would be exceeded. [any]
 */
struct nib__chunk *nib__chunk_new(struct nib__chunk_pool *pool, size_t bytes);

/* Frees a list of chunks, and their references to messages. [any] */
void nib__chunks_free(struct nib__chunk_pool *pool, struct nib__chunk *chunks);

void nib__outbox_init(struct nib__outbox *o);

void nib__outbox_destroy(struct nib__outbox *o, struct nib__chunk_pool *pool);

/*
 * Encodes data[0..len) as the frames of one message, each of at most
 * frame_bytes of payload, into one chunk of its own. NULL: no memory.
 */
struct nib__chunk *nib__chunk_encode(struct nib__chunk_pool *pool,
                                     unsigned kind, const void *data,
                                     size_t len, size_t frame_bytes);

/*
 * Makes the chunks that send a message by reference. NULL: no memory.
 */
struct nib__chunk *nib__chunk_share(struct nib__chunk_pool *pool,
                                    struct nib_message *msg,
                                    size_t frame_bytes);

/*
 * Writes data[0..len) to `to` as the frames of one message, each of at most
 * frame_bytes of payload; nib__wire_bytes() of room.
 */
void nib__wire_encode(uint8_t *to, unsigned kind, const void *data,
                      size_t len, size_t frame_bytes);

/* Bytes on the wire of a message of len bytes. */
size_t nib__wire_bytes(size_t len, size_t frame_bytes);

/*
 * Appends one small unfragmented message by copying it, at most
 * NIB__COPY_LOCKED bytes. The caller has checked that there is room.
 *
 * Returns 0 or -ENOMEM, with nothing appended.
 */
int nib__outbox_copy(struct nib__outbox *o, struct nib__chunk_pool *pool,
                     unsigned kind, const void *data, size_t len)
    NIB__REQUIRES(o->lock);

/* Appends ready chunks of `bytes` on the wire; takes them over. */
void nib__outbox_link(struct nib__outbox *o, struct nib__chunk *chunks,
                      size_t bytes) NIB__REQUIRES(o->lock);

/*
 * May `bytes` be appended now: nobody waits, and the limit holds?
 */
static inline bool nib__outbox_room(const struct nib__outbox *o, size_t bytes,
                                    size_t limit) NIB__REQUIRES(o->lock);
static inline bool nib__outbox_room(const struct nib__outbox *o, size_t bytes,
                                    size_t limit)
{
    return o->waiters == NULL && bytes <= limit - o->charged;
}

/* Puts a waiter at the end of the line. */
void nib__outbox_wait(struct nib__outbox *o, struct nib__waiter *w)
    NIB__REQUIRES(o->lock);

/* Takes a waiter out of the line, if it is in it; its chunks stay its own. */
void nib__outbox_unwait(struct nib__outbox *o, struct nib__waiter *w)
    NIB__REQUIRES(o->lock);

/*
 * Serves the waiters at the head of the line while their bytes fit. To be
 * called at every release of bytes and every change of the line.
 */
void nib__outbox_serve(struct nib__outbox *o, size_t limit,
                       struct nib__wakes *wakes) NIB__REQUIRES(o->lock);

/* Ends all waiters with a result. May wake some under the lock. */
void nib__outbox_refuse(struct nib__outbox *o, int result,
                        struct nib__wakes *wakes) NIB__REQUIRES(o->lock);

/* Wakes whom serve and refuse have served; after the lock is released. */
void nib__wakes_send(struct nib__wakes *wakes);

/* Adds later ops to earlier ones; of pause and read, the later one holds. */
static inline uint8_t nib__ops_merge(uint8_t ops, uint8_t later)
{
    if (later & (NIB__OP_PAUSE | NIB__OP_READ))
        ops &= (uint8_t)~(NIB__OP_PAUSE | NIB__OP_READ);
    return ops | later;
}

/*
 * Adds ops for the connection's record. Returns true if the caller has to
 * post it, which it does after the lock is released.
 */
static inline bool nib__outbox_ask(struct nib__outbox *o, uint8_t ops)
    NIB__REQUIRES(o->lock);
static inline bool nib__outbox_ask(struct nib__outbox *o, uint8_t ops)
{
    bool post = !o->posted;

    o->ops = nib__ops_merge(o->ops, ops);
    o->posted = true;
    return post;
}

/*
 * The pieces that come next, at most `max` pieces and about max_bytes bytes.
 * They stay where they are until nib__outbox_consume(), also while others
 * append, so they are written without the lock. Returns their number.
 */
int nib__outbox_pieces(struct nib__outbox *o, struct iovec *pieces, int max,
                       size_t max_bytes) NIB__REQUIRES(o->lock);

/*
 * Gives back n bytes from the front as written.
 */
void nib__outbox_consume(struct nib__outbox *o, struct nib__chunk_pool *pool,
                         size_t n) NIB__REQUIRES(o->lock);

/*
 * Bytes from the front to the end of the frame that is partly written; 0 if
 * none is.
 */
size_t nib__outbox_frame_rest(const struct nib__outbox *o)
    NIB__REQUIRES(o->lock);

/*
 * Is the front inside a message of several frames, at least one of them
 * begun?
 */
bool nib__outbox_mid_message(const struct nib__outbox *o)
    NIB__REQUIRES(o->lock);

/*
 * Drops everything but the rest of a frame that is partly written. Returns
 * the bytes dropped.
 */
size_t nib__outbox_drop(struct nib__outbox *o, struct nib__chunk_pool *pool)
    NIB__REQUIRES(o->lock);

#endif
