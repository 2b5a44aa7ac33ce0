/*
 * wire - how a test's client gets its bytes through: plain, or by TLS.
 *
 * The client's TLS is the library's own, lib/system/tls.h, from the other
 * side. A wire owns its socket, which does not block; it belongs to one
 * thread at a time.
 */
#ifndef NIB_TESTS_WIRE_H
#define NIB_TESTS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct nib__engine;
struct wire;

/*
 * A client's engine that trusts the certificates of a PEM file, and offers
 * the last session again. NULL, with a text, if that fails.
 */
struct nib__engine *wire_engine(const char *ca, char *error, size_t cap);

/* A wire on a connected socket, which is closed by wire_free(). NULL: no
   memory, and the socket is closed. */
struct wire *wire_plain(int fd);

/* The same, by TLS with a server of this name; nothing is sent yet. */
struct wire *wire_tls(int fd, struct nib__engine *engine, const char *name);

/*
 * Shakes hands as far as it goes now. Returns 0 when done (a plain wire is at
 * once), -EAGAIN, -EPIPE if the server has ended it, or another -errno.
 */
int wire_shake(struct wire *w);

/* Waits for the rest of the handshake; -ETIMEDOUT after so long. */
int wire_shake_all(struct wire *w, int patience_ms);

/* The socket. */
int wire_fd(const struct wire *w);

/* Why the last call failed, for a person. */
const char *wire_error(const struct wire *w);

/* Takes what it can for sending: a number of bytes, -EAGAIN or -errno. */
ssize_t wire_send(struct wire *w, const void *p, size_t len);

/*
 * Has the kernel all of what was taken? Else tries once more before it
 * answers; when the socket is writable, that gets on.
 */
bool wire_sent(struct wire *w);

/* Receives: a number of bytes; 0 at an orderly end; -EAGAIN; -EPIPE at the
   end of a TCP stream within TLS; or -errno. */
ssize_t wire_recv(struct wire *w, void *p, size_t cap);

/* Says that nothing more comes (close_notify, then SHUT_WR): 0, -EAGAIN or
   -errno. */
int wire_half_close(struct wire *w);

/* Closes: in order, as far as that needs no waiting, or by RST. NULL is
   allowed. */
void wire_free(struct wire *w, bool reset);

#endif
