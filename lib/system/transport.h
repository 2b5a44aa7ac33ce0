/*
 * transport - how bytes get to a socket and from it.
 *
 * A vtable, so that protocol code never asks whether a connection is
 * encrypted. Owner-only. Calls go through the wrappers below, because the
 * capability analysis does not see attributes on function pointers.
 */
#ifndef NIB_SYSTEM_TRANSPORT_H
#define NIB_SYSTEM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/annotate.h"

struct nib__transport;

/* Results of handshake, read and write beside a count and a -errno. */
enum {
    NIB__WANT_READ = -2000,  /* again when the socket is readable */
    NIB__WANT_WRITE = -2001, /* again when it is writable */
    NIB__TRUNCATED = -2002,  /* the stream ended where it should not */
};

struct nib__transport_ops {
    /* The most that one write should be given. */
    size_t write_bytes;
    /* Goes on with the handshake: 0 done, NIB__WANT_*, or -errno. */
    int (*handshake)(struct nib__transport *t, int fd);
    /* Reads up to cap bytes: their number, 0 at the end, NIB__WANT_*,
       NIB__TRUNCATED, or -errno. One system call at the most. */
    ssize_t (*read)(struct nib__transport *t, int fd, void *p, size_t cap);
    /* Writes what it can of the pieces: number of bytes, NIB__WANT_*, or
       -errno. With no pieces it writes what is unsent, and returns 0. */
    ssize_t (*write)(struct nib__transport *t, int fd,
                     const struct iovec *pieces, int count);
    /* Are bytes there that epoll does not know of? */
    bool (*pending)(const struct nib__transport *t);
    /* How many bytes have been taken by write and are not in the kernel. */
    size_t (*unsent)(const struct nib__transport *t);
    /* Tells the peer that nothing more comes: 0, NIB__WANT_WRITE or -errno. */
    int (*shutdown)(struct nib__transport *t, int fd);
    /* Frees the transport's own state; the descriptor is the caller's. */
    void (*free)(struct nib__transport *t);
};

/* A transport's state starts with this; the plain one has no more, and all
   connections share it. */
struct nib__transport {
    const struct nib__transport_ops *ops;
};

/* The plain transport: recv, sendmsg with MSG_NOSIGNAL, shutdown. */
struct nib__transport *nib__transport_plain(void);

static inline int nib__transport_handshake(struct nib__transport *t, int fd)
    NIB__OWNER_ONLY;
static inline int nib__transport_handshake(struct nib__transport *t, int fd)
{
    return t->ops->handshake(t, fd);
}

static inline ssize_t nib__transport_read(struct nib__transport *t, int fd,
                                          void *p, size_t cap)
    NIB__OWNER_ONLY;
static inline ssize_t nib__transport_read(struct nib__transport *t, int fd,
                                          void *p, size_t cap)
{
    return t->ops->read(t, fd, p, cap);
}

static inline ssize_t nib__transport_write(struct nib__transport *t, int fd,
                                           const struct iovec *pieces,
                                           int count) NIB__OWNER_ONLY;
static inline ssize_t nib__transport_write(struct nib__transport *t, int fd,
                                           const struct iovec *pieces,
                                           int count)
{
    return t->ops->write(t, fd, pieces, count);
}

static inline bool nib__transport_pending(const struct nib__transport *t)
    NIB__OWNER_ONLY;
static inline bool nib__transport_pending(const struct nib__transport *t)
{
    return t->ops->pending(t);
}

static inline size_t nib__transport_unsent(const struct nib__transport *t)
    NIB__OWNER_ONLY;
static inline size_t nib__transport_unsent(const struct nib__transport *t)
{
    return t->ops->unsent(t);
}

static inline int nib__transport_shutdown(struct nib__transport *t, int fd)
    NIB__OWNER_ONLY;
static inline int nib__transport_shutdown(struct nib__transport *t, int fd)
{
    return t->ops->shutdown(t, fd);
}

static inline void nib__transport_free(struct nib__transport *t)
    NIB__OWNER_ONLY;
static inline void nib__transport_free(struct nib__transport *t)
{
    t->ops->free(t);
}

#endif
