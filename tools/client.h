/*
 * client - one WebSocket connection, seen from the client.
 *
 * Frames and messages are the library's own (protocol/frame, assembler).
 * Bytes go through the library's transports, with TLS or without. The socket
 * may be blocking, then calls wait, up to the target's timeout; or
 * nonblocking, then they return -EAGAIN instead. One thread at a time.
 *
 * A client that watches its socket has to read on, without waiting, while
 * client_pending(); and to watch for writing while client_waiting().
 */
#ifndef NIB_TOOLS_CLIENT_H
#define NIB_TOOLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/assembler.h"
#include "protocol/frame.h"
#include "system/transport.h"
#include "target.h"

/* Bytes on their way: data[start..end) of capacity. */
struct client_bytes {
    uint8_t *data;
    size_t start, end, capacity;
};

struct client {
    int fd;
    bool nonblocking;
    struct nib__transport *transport;
    uint64_t timeout_ms; /* with TLS: of a wait on a blocking socket; 0: none */
    char *tls_error;     /* owned; what `error` points to then */
    struct nib__assembler assembler;
    struct nib_message *held; /* given by client_next(), until its next call */
    struct client_bytes in;   /* read, not used yet */
    struct client_bytes out;  /* encoded, not written yet */
    struct upgrade_answer answer;
    bool close_sent; /* our Close is queued or written */
    bool close_received;
    unsigned close_code; /* the peer's; 1005: a Close without a code */
    const char *error;   /* text that says more about the last -EPROTO or
                            -ETIMEDOUT, until the client is reset or freed;
                            never NULL */
};

/*
 * Makes a client of a connected socket, which it owns from here on; nothing
 * is read or written. -1 for a client that is to be opened later.
 */
void client_init(struct client *c, int fd);

/*
 * Closes the socket, if it is still open, and frees all memory. With TLS there
 * is no close_notify: the Close frames have said it.
 */
void client_free(struct client *c);

/*
 * Takes another connected socket, or -1, in place of the old one, which is
 * closed. Keeps the buffers, forgets their contents.
 */
void client_reset(struct client *c, int fd);

/*
 * Connects a client that was only initialised, shakes hands if it is for TLS,
 * and upgrades, unless the target is raw. Sets TCP_NODELAY.
 *
 * Returns 0; -EPROTO when the answer was not an upgrade (see c->answer and
 * c->error); -ETIMEDOUT; -EPIPE when the server ended the connection; or the
 * errno of a system call. The client is to be freed in any case.
 */
int client_open(struct client *c, struct target *target);

/*
 * The target's TLS handshake, if there is to be one, on a client that is
 * connected; sets TCP_NODELAY for it. Returns as client_open().
 */
int client_secure(struct client *c, const struct target *target);

/*
 * The upgrade alone, on a blocking socket (RFC 6455, 4.1).
 *
 * Returns as client_open(). Bytes behind the answer's head are kept for
 * client_next().
 */
int client_upgrade(struct client *c, const struct upgrade *upgrade);

/* Makes the socket nonblocking or blocking; 0 or a negative errno. */
int client_set_nonblocking(struct client *c);
int client_set_blocking(struct client *c);

/*
 * Encodes one whole frame behind what waits to be written: FIN, masked with
 * a fresh key (RFC 6455, 5.3). Copies data[0..len).
 *
 * Returns 0, or -ENOMEM.
 */
int client_queue(struct client *c, enum nib__opcode opcode, const void *data,
                 size_t len);

/*
 * Writes what waits.
 *
 * Returns 0 when all is written; -EAGAIN; -ETIMEDOUT on a blocking socket;
 * or a negative errno, -EPIPE and -ECONNRESET for a peer that has gone.
 */
int client_flush(struct client *c);

/* client_queue() and client_flush(). */
int client_send(struct client *c, enum nib__opcode opcode, const void *data,
                size_t len);

/*
 * Writes data[0..len), encoded by the caller, behind what waits; what the
 * socket does not take is copied, and waits. Returns as client_flush(), or
 * -ENOMEM.
 */
int client_write(struct client *c, const void *data, size_t len);

/* Bytes that wait to be written. */
static inline size_t client_waiting(const struct client *c)
{
    return c->out.end - c->out.start + nib__transport_unsent(c->transport);
}

/* Is something there to be read of which the socket does not tell? */
static inline bool client_pending(const struct client *c)
{
    return nib__transport_pending(c->transport);
}

/*
 * Reads once into p[0..cap), past the client's own buffer.
 *
 * Returns how many bytes came, 0 at the end of the connection, -EAGAIN,
 * -ETIMEDOUT, -EPROTO for what is wrong with TLS, or a negative errno.
 */
ssize_t client_read(struct client *c, void *p, size_t cap);

/*
 * Ends the sending side, behind all that was written. Returns as
 * client_flush().
 */
int client_shutdown(struct client *c);

/*
 * Sends a Close, unless one was sent before (RFC 6455, 5.5.1). Code 0: an
 * empty one. Returns as client_send().
 */
int client_close(struct client *c, unsigned code);

/*
 * Gives the next event: a message, a pong, or the peer's Close. Pings are
 * answered and Closes returned here. Its bytes live until the next call.
 * After a Close, a client goes on to the end of the connection by further
 * calls.
 *
 * Returns 1 with *event; 0 at the end of the connection; -EAGAIN;
 * -ETIMEDOUT; -EPROTO when the peer broke the protocol (a Close was sent);
 * or a negative errno.
 */
int client_next(struct client *c, struct nib__event *event);

/*
 * Closes in order: a Close with `code`, and then the peer's, and the end of
 * the connection, dropping messages on the way. Blocking sockets only.
 *
 * Returns 0, or as client_next() (-EPIPE: the end came without a Close).
 */
int client_finish(struct client *c, unsigned code);

/* Frees the buffers if they are empty; they come back when needed. */
void client_trim(struct client *c);

/*
 * A text for a negative result of a function above: c->error for what it
 * explains better.
 */
const char *client_strerror(const struct client *c, int result);

/*
 * Encodes one whole masked frame into a new block of *size bytes, for those
 * who send the same one again and again. Returns NULL without memory; to be
 * freed by free().
 */
uint8_t *client_encode(enum nib__opcode opcode, const void *data, size_t len,
                       size_t *size);

#endif
