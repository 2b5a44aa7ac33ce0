/*
 * transport - the plain one: bytes as they are.
 *
 * It has no state, so one object serves every connection.
 */
#include "system/transport.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

enum {
    WRITE_BYTES = 1 << 20, /* so that one connection does not take all */
};

/*
 * A failed call's result. An interrupted call did nothing; to report it as
 * "not ready" keeps the promise of one system call, and epoll, which is
 * level-triggered for connections, brings the owner back.
 */
static int failure(int want)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return want;
    return -errno;
}

static int plain_handshake(struct nib__transport *t, int fd)
{
    (void)t;
    (void)fd;
    return 0;
}

static ssize_t plain_read(struct nib__transport *t, int fd, void *p, size_t cap)
{
    ssize_t n;

    (void)t;
    assert(cap > 0); /* or 0 would mean the end */
    n = recv(fd, p, cap, 0);
    return n >= 0 ? n : failure(NIB__WANT_READ);
}

static ssize_t plain_write(struct nib__transport *t, int fd,
                           const struct iovec *pieces, int count)
{
    struct msghdr message = {
        .msg_iov = (struct iovec *)pieces, /* sendmsg does not write to it */
        .msg_iovlen = count < IOV_MAX ? (size_t)count : IOV_MAX,
    };
    ssize_t n;

    (void)t;
    n = sendmsg(fd, &message, MSG_NOSIGNAL);
    return n >= 0 ? n : failure(NIB__WANT_WRITE);
}

static bool plain_pending(const struct nib__transport *t)
{
    (void)t;
    return false;
}

static size_t plain_unsent(const struct nib__transport *t)
{
    (void)t;
    return 0;
}

static int plain_shutdown(struct nib__transport *t, int fd)
{
    (void)t;
    return shutdown(fd, SHUT_WR) == 0 ? 0 : -errno;
}

static void plain_free(struct nib__transport *t)
{
    (void)t;
}

struct nib__transport *nib__transport_plain(void)
{
    static const struct nib__transport_ops ops = {
        .write_bytes = WRITE_BYTES,
        .handshake = plain_handshake,
        .read = plain_read,
        .write = plain_write,
        .pending = plain_pending,
        .unsent = plain_unsent,
        .shutdown = plain_shutdown,
        .free = plain_free,
    };
    static struct nib__transport plain = {&ops};

    return &plain;
}
