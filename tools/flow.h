/*
 * flow - what one connection receives, read and counted as fast as it comes.
 *
 * A client's socket, read into a large buffer that all flows of a thread
 * share, and a tally. Pings are answered and a Close is returned through the
 * client, so that their frames never mix with what it sends. A raw flow
 * counts `unit` bytes as a message.
 */
#ifndef NIB_TOOLS_FLOW_H
#define NIB_TOOLS_FLOW_H

#include <stdint.h>

#include "client.h"
#include "tally.h"

enum {
    FLOW_READ_BYTES = 512 << 10,
    FLOW_BUFFER_BYTES = TALLY_HELD_MAX + FLOW_READ_BYTES,
};

struct flow {
    struct client *client; /* the caller's; its answer and Close facts hold */
    struct tally tally;
    uint64_t raw_unit;    /* bytes; 0: WebSocket */
    const uint8_t *first; /* payload of the message that the last read began
                             with, as far as it came, in the read's buffer;
                             NULL if it began inside one */
    size_t first_len;
    size_t held_len;
    uint8_t held[TALLY_HELD_MAX]; /* read, not used yet */
};

/* Starts a flow on an open client, whose unused bytes it takes over. */
void flow_init(struct flow *f, struct client *client, uint64_t raw_unit);

/*
 * Reads once, and counts into f->tally.
 *
 * buffer  FLOW_BUFFER_BYTES of room; nothing is kept in it
 *
 * Returns 1; 0 at the end of the connection, or when the peer's Close came;
 * -EAGAIN on a nonblocking socket, -ETIMEDOUT on another; -EPROTO with a
 * text in f->client->error; or a negative errno. Who watches the socket reads
 * on while client_pending().
 */
int flow_read(struct flow *f, uint8_t *buffer);

#endif
