/*
 * socket - every socket call that is not a read or a write.
 *
 * Addresses, listening, accepting, options. Sockets are nonblocking and
 * close-on-exec from the first moment. No state.
 */
#ifndef NIB_SYSTEM_SOCKET_H
#define NIB_SYSTEM_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    NIB__ADDRESS_TEXT = 128, /* bytes for any address as text, NUL included;
                                longer unix paths are cut */
};

/* A peer's address, small enough to keep for each connection. */
struct nib__peer {
    uint8_t family;    /* AF_INET, AF_INET6, AF_UNIX */
    uint8_t bytes[16]; /* the IP address, IPv4 in the first four */
    uint16_t port;     /* host order */
    uint32_t scope;    /* of a link-local IPv6 address */
};

/*
 * Checks the form of an address of nib_config_listen() without touching the
 * system. Returns NULL, or a static text that says what was expected.
 */
const char *nib__address_check(const char *address);

/*
 * Opens, binds and listens as nib_config_listen() describes: "tcp:HOST:PORT",
 * "unix:PATH", "unix:@NAME", "fd:N". TCP sockets get SO_REUSEADDR, never
 * SO_REUSEPORT; "[::]" is dual-stack, or IPv4 where there is no IPv6. A unix
 * path is unlinked first only if it is a socket that refuses connections. An
 * inherited descriptor is checked to be a listening stream socket and made
 * nonblocking and close-on-exec.
 *
 * *fd is the caller's. Returns 0, or a negative errno, with a text about it in
 * error[0..error_cap) that names the address.
 */
int nib__socket_listen(const char *address, int backlog, int *fd, char *error,
                       size_t error_cap);

/*
 * Is fd a unix socket bound to a path that was made by us for this address?
 * Then removes the path; for the end of a server, before fd is closed. Never
 * an abstract or inherited one.
 */
void nib__socket_unlink(const char *address, int fd);

/*
 * Accepts one connection: nonblocking, close-on-exec, and TCP_NODELAY, which
 * it inherits from a listener of nib__socket_listen(). An IPv4 client of a
 * dual-stack socket is AF_INET in *peer.
 *
 * Returns 0 with *fd and *peer, or a negative errno: -EAGAIN none is there;
 * -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM no room; others are of that one
 * connection, and the next may succeed.
 */
int nib__socket_accept(int listener, int *fd, struct nib__peer *peer);

/* Sets SO_SNDBUF and SO_RCVBUF; 0 leaves one as it is. */
void nib__socket_buffers(int fd, unsigned send_bytes, unsigned receive_bytes);

/* Makes the next close() send a reset (SO_LINGER 0). */
void nib__socket_reset_on_close(int fd);

/*
 * The text of the address a listening socket is bound to: "HOST:PORT",
 * "[HOST]:PORT", "unix:PATH" or "unix:@NAME". Returns the length, as
 * snprintf() does, or a negative errno.
 */
int nib__socket_name(int fd, char *text, size_t cap);

/* The text of a peer: "HOST:PORT", "[HOST]:PORT" or "unix:". */
void nib__peer_text(const struct nib__peer *peer,
                    char text[NIB__ADDRESS_TEXT]);

#endif
