/*
 * peer - a scripted raw TCP peer, for tests; plain or inside TLS, see wire.h.
 *
 * It sends bytes as they are given, in as many pieces as the test wants, and
 * asserts what comes back, byte by byte. Everything that waits has a deadline;
 * nothing sleeps to let something happen. A difference is told to
 * peer_failed(), which the program that uses this module defines and which
 * does not return.
 *
 * A peer belongs to one thread at a time.
 */
#ifndef NIB_TESTS_PEER_H
#define NIB_TESTS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;
struct wire;

/* What is seen of a server's frame (RFC 6455, 5.2). */
struct peer_frame {
    uint8_t first; /* FIN, RSV and opcode */
    size_t len;
    const uint8_t *data; /* lives until the next call with the peer */
};

/* First bytes of whole frames. */
enum {
    PEER_CONTINUATION = 0x80,
    PEER_TEXT = 0x81,
    PEER_BINARY = 0x82,
    PEER_CLOSE = 0x88,
    PEER_PING = 0x89,
    PEER_PONG = 0x8a,
};

/* Says why the test has failed, and ends it. Defined by the user. */
_Noreturn void peer_failed(const char *text);

/* Milliseconds that something may take which normally takes one. */
int peer_patience_ms(void);

/* ---- connections ---- */

/*
 * Connects to "HOST:PORT" (an IPv4 address), "[HOST]:PORT" or "unix:PATH".
 * receive_bytes: SO_RCVBUF, 0 for the system's own.
 */
struct peer *peer_connect(const char *address, int receive_bytes);

/*
 * From now on peer_connect() speaks TLS to TCP addresses, with a server
 * "localhost" whose certificate one of this PEM file has signed. The file's
 * name must live on. Once, before the first peer.
 *
 * The handshake is done when peer_connect() returns, or the server has ended
 * it, which the peer then sees as a reset.
 */
void peer_speak_tls(const char *ca);

/* A peer on a wire, which it takes over; the handshake as above. */
struct peer *peer_adopt(struct wire *wire);

/* Closes in order (by TLS close_notify; FIN), with everything freed. NULL is
 * allowed. */
void peer_free(struct peer *p);

/* Closes by RST (SO_LINGER of 0), with everything freed. */
void peer_reset(struct peer *p);

/* Says its last byte (close_notify, SHUT_WR) and goes on reading. */
void peer_half_close(struct peer *p);

/* The socket, for what this module does not know. */
int peer_fd(const struct peer *p);

/* The peer's own "HOST:PORT". Lives as long as the peer. */
const char *peer_name(struct peer *p);

/* ---- bytes ---- */

void peer_send(struct peer *p, const void *data, size_t len);
void peer_send_text(struct peer *p, const char *text);

/* Pairs of hexadecimal digits, spaces between them are left out. */
void peer_send_hex(struct peer *p, const char *hex);

/*
 * Sends what can be sent now; returns how much that was. Of what was taken
 * TLS may hold a record back until the peer is used again, or peer_flush()
 * waits for it.
 */
size_t peer_send_some(struct peer *p, const void *data, size_t len);
void peer_flush(struct peer *p);

/* The same, but a failure is returned: false if the server has gone. */
bool peer_try_send(struct peer *p, const void *data, size_t len);

/* Reads exactly len bytes. */
void peer_read(struct peer *p, void *data, size_t len);

/* Reads as many bytes as expected and compares them. */
void peer_expect(struct peer *p, const void *data, size_t len);
void peer_expect_text(struct peer *p, const char *text);
void peer_expect_hex(struct peer *p, const char *hex);

/* Reads to the empty line of a head; lives until the next call. */
const char *peer_read_head(struct peer *p);

/* Reads to the end of the stream, which must be in order; with a NUL behind
 * it. Lives until the next call. */
const char *peer_read_rest(struct peer *p, size_t *len);

/* Nothing more may come but the end: in order (by TLS: with close_notify),
 * or by reset. */
void peer_expect_end(struct peer *p);
void peer_expect_reset(struct peer *p);

/* True if bytes or the end can be read now, without waiting. */
bool peer_readable(struct peer *p);

/* ---- WebSocket ---- */

/* The upgrade request that peer_upgrade() sends, with further header lines
 * (each with its CRLF). Returns its length, as snprintf(). */
int peer_upgrade_text(char *text, size_t cap, const char *path,
                      const char *lines);

/* Sends an upgrade request. */
void peer_ask(struct peer *p, const char *path);

/* Expects exactly the 101 that answers it, with these further lines. */
void peer_expect_101(struct peer *p, const char *lines);

/* peer_ask() and peer_expect_101(). */
void peer_upgrade(struct peer *p, const char *path);

/* Encodes a masked frame; returns its length, at most len + 14. */
size_t peer_encode(uint8_t *to, uint8_t first, const void *data, size_t len);

void peer_send_frame(struct peer *p, uint8_t first, const void *data,
                     size_t len);

/* A masked Close; code 0: without a code. */
void peer_send_close(struct peer *p, unsigned code, const char *reason);

/* Reads a frame; fails if it is masked or its length is not minimal. */
struct peer_frame peer_read_frame(struct peer *p);

void peer_expect_frame(struct peer *p, uint8_t first, const void *data,
                       size_t len);

/* A whole unfragmented text message. */
void peer_expect_message(struct peer *p, const char *text);

/* A Close; code 0: without a code. */
void peer_expect_close(struct peer *p, unsigned code, const char *reason);

#endif
