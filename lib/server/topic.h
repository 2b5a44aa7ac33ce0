/*
 * topic - one log for each topic and reactor, one cursor for each subscriber.
 *
 * A publish appends the message once on every reactor that has subscribers;
 * a subscriber's cursor then walks over those bytes, shared by all and copied
 * by nobody. Fan-out goes round the subscribers that are writable, in slices
 * of time; those that cannot go on hang on the segment where they stopped, pin
 * it, and are checked at each append.
 *
 * Who owns what: a topic, its shares' charges and its waiters are under the
 * topic's lock; a log, its segments and cursors belong to one reactor.
 */
#ifndef NIB_SERVER_TOPIC_H
#define NIB_SERVER_TOPIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/annotate.h"

struct nib_conn;
struct nib_server;
struct nib__shard;
struct nib__topics;
struct nib__fan;

/* The server's table of topics. NULL: no memory. */
struct nib__topics *nib__topics_new(void);

/* All subscriptions and publishes are gone. */
void nib__topics_free(struct nib__topics *topics);

/* The shard's own part: the logs to be fanned out. NULL: no memory. */
struct nib__fan *nib__fan_new(void);

void nib__fan_free(struct nib__fan *fan);

/*
 * One slice of fan-out. Returns in how many nanoseconds the next is wanted;
 * -1: everything that can be written is.
 */
int64_t nib__fan_run(struct nib__shard *shard) NIB__OWNER_ONLY;

/* ---- what conn_write.c asks of a connection's cursors ---- */

/*
 * The pieces that come next, at most max and about max_bytes. *all tells
 * whether that is everything. Returns their number.
 */
int nib__cursors_pieces(struct nib_conn *c, struct iovec *pieces, int max,
                        size_t max_bytes, bool *all) NIB__OWNER_ONLY;

/* n bytes of those pieces were written. */
void nib__cursors_consume(struct nib_conn *c, size_t n) NIB__OWNER_ONLY;

/* Bytes to the end of the frame that is partly written; 0: none is. */
size_t nib__cursors_frame_rest(const struct nib_conn *c) NIB__OWNER_ONLY;

/* Is a message partly written? */
bool nib__cursors_mid_message(const struct nib_conn *c) NIB__OWNER_ONLY;

/* Is there anything to write? */
bool nib__cursors_waiting(const struct nib_conn *c) NIB__OWNER_ONLY;

/* After a write: hangs the cursors that cannot go on, or frees them. */
void nib__cursors_settle(struct nib_conn *c, bool blocked) NIB__OWNER_ONLY;

/* Sets an end-mark at the log's head for every cursor: no more after it. */
void nib__cursors_end(struct nib_conn *c) NIB__OWNER_ONLY;

/*
 * Ends all subscriptions at once. The rest of a frame that is partly written
 * goes to the outbox, which must have been dropped; without memory for it the
 * connection ends.
 */
void nib__cursors_drop(struct nib_conn *c) NIB__OWNER_ONLY;

/* Ends all subscriptions of a connection. */
void nib__members_leave(struct nib_conn *c) NIB__OWNER_ONLY;

#endif
