/*
 * tail - the parts of a topic, shared by topic.c, tail.c and publish.c.
 */
#ifndef NIB_SERVER_TAIL_H
#define NIB_SERVER_TAIL_H

#include "server/conn.h"
#include "server/topic.h"
#include "threads/lock.h"

/* Encoded messages back to back, with the index of where they end. */
struct nib__segment {
    struct nib__segment *next;
    uint64_t start;   /* position of its first byte in the log */
    size_t len;
    size_t capacity;
    uint32_t *ends;   /* offset behind each message, ascending */
    unsigned count;
    unsigned ends_capacity;
    struct nib__member *hung; /* cursors that stopped here, and pin it */
    uint8_t bytes[];
};

static inline uint64_t nib__segment_end(const struct nib__segment *s)
{
    return s->start + s->len;
}

/*
 * A subscription: a cursor in the log of its connection's reactor. It is in
 * one list at a time: the log's rotation, or a segment's hung ones.
 */
struct nib__member {
    struct nib__record record; /* carries it to the owner */
    struct nib_conn *conn;     /* referenced until it has arrived */
    struct nib__topic *topic;  /* referenced */
    struct nib__tail *log;
    struct nib__member *conn_next; /* of the connection, in order */
    struct nib__member *next;
    struct nib__member **place;
    uint64_t pos;
    uint64_t end;   /* UINT64_MAX: none */
    uint32_t round; /* the last one that visited it */
    bool hung;      /* on a segment: blocked, or not caught up yet */
};

/* The tail of a topic's log that one reactor keeps for its readers. */
struct nib__tail {
    struct nib__topic *topic; /* referenced: a pinned tail outlives members */
    struct nib__shard *shard;
    struct nib__segment *first;
    struct nib__segment *last;
    struct nib__segment *hint; /* holds `released`, or NULL: the first */
    uint64_t head;     /* bytes ever appended */
    uint64_t released; /* passed by every cursor that does not hang */
    size_t bytes;      /* capacity of its segments */
    struct nib__member *rotation; /* those that do not hang */
    struct nib__member **rotation_end;
    unsigned count;    /* members */
    unsigned pins;     /* keep the log although nobody may be left */
    uint32_t round;    /* number of the round going on, or of the last */
    uint64_t round_head; /* where this round leads to */
    bool in_round;
    bool listed;       /* in the fan's list */
    struct nib__tail *next;
};

struct nib__fan {
    struct nib__tail *first; /* logs with something to fan out */
    struct nib__tail **last;
};

/* A topic's account with one reactor. */
struct nib__share {
    unsigned members; /* counted up in the subscriber's call */
    size_t charged;   /* bytes published and not passed by all */
    struct nib__tail *log; /* the reactor's own */
};

struct nib__topic {
    struct nib__topic *next; /* in its bucket */
    unsigned refs;           /* under the table's lock */
    struct nib__lock lock;   /* for what follows */
    struct nib__publish *waiters; /* in order */
    struct nib__publish **waiters_end;
    struct nib__room *rooms; /* connections to be told of room */
    size_t name_len;
    struct nib__share *shares; /* one for each shard */
    char name[];
};

/* ---- topic.c ---- */

/* The length of a topic's name; 0 if it cannot be one. */
size_t nib__topic_name_length(const char *name);

/* Finds a topic, or makes it; takes a reference. NULL: none, no memory. */
struct nib__topic *nib__topic_get(struct nib_server *srv, const char *name,
                                  size_t len, bool make);

/* Takes one more reference; returns topic. */
struct nib__topic *nib__topic_ref(struct nib_server *srv,
                                  struct nib__topic *topic);

void nib__topic_unref(struct nib_server *srv, struct nib__topic *topic);

/* Bytes of a topic's log on one reactor. */
size_t nib__topic_limit(const struct nib_server *srv);

/* ---- tail.c ---- */

/* The shard's log of a topic, made if needed. NULL: no memory. */
struct nib__tail *nib__tail_get(struct nib__topic *topic,
                              struct nib__shard *shard) NIB__OWNER_ONLY;

/* Appends a message of `bytes` on the wire. Returns 0 or -ENOMEM. */
int nib__tail_append(struct nib__tail *log, const struct nib_message *msg,
                    size_t bytes) NIB__OWNER_ONLY;

/* Closes those that are too slow for what was appended; their number. The
   log must be pinned. */
unsigned nib__tail_close_slow(struct nib__tail *log) NIB__OWNER_ONLY;

/* There was no memory for a message: its readers are closed (1011), rather
   than left with a gap; their number. The log must be pinned. */
unsigned nib__tail_lost(struct nib__tail *log) NIB__OWNER_ONLY;

/* Lists the log for fan-out. */
void nib__tail_fan(struct nib__tail *log) NIB__OWNER_ONLY;

/* Puts a member at the log's head, as one that may be written to. */
void nib__tail_join(struct nib__tail *log, struct nib__member *m)
    NIB__OWNER_ONLY;

/* Takes a member out, for good; the log goes with the last, unless pinned. */
void nib__tail_leave(struct nib__member *m) NIB__OWNER_ONLY;

/* Keeps a log over calls that may end connections. */
void nib__tail_pin(struct nib__tail *log) NIB__OWNER_ONLY;

/* Ends that; the log may be gone. */
void nib__tail_unpin(struct nib__tail *log) NIB__OWNER_ONLY;

/* The segment that holds a cursor's position; NULL: it is at the head. */
struct nib__segment *nib__tail_at(const struct nib__member *m)
    NIB__OWNER_ONLY;

/* ---- publish.c ---- */

/* Gives charged bytes of one reactor back, and serves who waits. [any] */
void nib__topic_release(struct nib_server *srv, struct nib__topic *topic,
                        unsigned shard, size_t bytes);

#endif
