/*
 * tls - records between a socket and a session.
 *
 * `out` holds what the kernel did not take: nothing is encrypted while it is
 * not empty, so records leave in the order in which they were made.
 */
#include "system/tls.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"

enum {
    READ_BYTES = 64 * 1024, /* of one recv */
    WRITE_RECORDS = 8,      /* of one send */
    WRITE_BYTES = WRITE_RECORDS * NIB__TLS_RECORD,
    FLIGHT_BYTES = 64 * 1024, /* the longest chain of certificates */
    ANSWER_BYTES = 4096,      /* alerts, key updates */
};

struct nib__tls {
    struct nib__transport base; /* first */
    struct nib__session *session;
    uint8_t *in; /* received, not decrypted yet; NULL: none */
    size_t in_len;
    uint8_t *out; /* encrypted, not sent yet; NULL: none */
    size_t out_len;
    size_t out_off;
    int failed; /* to be returned by the next read */
    bool closed; /* the peer's close_notify came */
    bool shut;   /* ours was made */
};

static struct nib__tls *tls_of(struct nib__transport *t)
{
    return (struct nib__tls *)t;
}

static int failure(int want)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return want;
    return -errno;
}

/* ---- what waits to be sent ---- */

static ssize_t send_some(int fd, const uint8_t *p, size_t n)
{
    ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

    return sent >= 0 ? sent : failure(NIB__WANT_WRITE);
}

/* Sends what was left: 0 if nothing is left now. */
static int flush(struct nib__tls *t, int fd)
{
    ssize_t n;

    if (t->out == NULL)
        return 0;
    n = send_some(fd, t->out + t->out_off, t->out_len - t->out_off);
    if (n < 0)
        return (int)n;
    t->out_off += (size_t)n;
    if (t->out_off < t->out_len)
        return NIB__WANT_WRITE;
    nib__free(t->out);
    t->out = NULL;
    return 0;
}

/* Keeps p[0..n) behind what is left already. */
static int keep_out(struct nib__tls *t, const uint8_t *p, size_t n)
{
    size_t left = t->out == NULL ? 0 : t->out_len - t->out_off;
    uint8_t *out = nib__alloc(left + n);

    if (out == NULL)
        return -ENOMEM;
    if (left > 0)
        memcpy(out, t->out + t->out_off, left);
    memcpy(out + left, p, n);
    nib__free(t->out);
    t->out = out;
    t->out_len = left + n;
    t->out_off = 0;
    return 0;
}

/* Sends p[0..n) and keeps what the kernel does not take. 0 or -errno. */
static int put(struct nib__tls *t, int fd, const uint8_t *p, size_t n)
{
    ssize_t sent = 0;

    if (n == 0)
        return 0;
    if (t->out == NULL) {
        sent = send_some(fd, p, n);
        if (sent == NIB__WANT_WRITE)
            sent = 0;
        if (sent < 0)
            return (int)sent;
    }
    return (size_t)sent == n ? 0 : keep_out(t, p + sent, n - (size_t)sent);
}

/* ---- receiving ---- */

/* Received bytes for the session: those kept, or one recv's. */
static ssize_t fill(struct nib__tls *t, int fd, struct nib__tls_io *io,
                    uint8_t *scratch, size_t cap, int flags)
{
    ssize_t n;

    if (t->in != NULL) {
        io->in = t->in;
        io->in_len = t->in_len;
        return 1;
    }
    n = recv(fd, scratch, cap, flags);
    if (n < 0)
        return failure(NIB__WANT_READ);
    io->in = scratch;
    io->in_len = (size_t)n;
    io->eof = n == 0;
    return 1;
}

/* Keeps what the session left of its input. */
static int keep_in(struct nib__tls *t, const struct nib__tls_io *io)
{
    uint8_t *before = t->in;

    t->in = NULL;
    t->in_len = io->in_len;
    if (io->in_len > 0) {
        t->in = nib__alloc(io->in_len);
        if (t->in != NULL)
            memcpy(t->in, io->in, io->in_len);
    }
    nib__free(before);
    return io->in_len > 0 && t->in == NULL ? -ENOMEM : 0;
}

static ssize_t tls_read(struct nib__transport *transport, int fd, void *p,
                        size_t cap)
{
    struct nib__tls *t = tls_of(transport);
    uint8_t scratch[READ_BYTES], answer[ANSWER_BYTES];
    struct nib__tls_io io = {.out = answer, .out_cap = sizeof answer};
    ssize_t n, total = 0;
    int err;

    if (t->failed != 0 || t->closed)
        return t->failed;
    /* All that one recv brings has room in p, but for a record's rest. */
    n = nib__session_pending(t->session)
            ? 1
            : fill(t, fd, &io, scratch, cap < READ_BYTES ? cap : READ_BYTES, 0);
    if (n < 0)
        return n;
    do {
        n = nib__session_read(t->session, &io, (uint8_t *)p + total,
                              cap - (size_t)total);
        if (n > 0)
            total += n;
    } while (n > 0 && (size_t)total < cap);
    err = io.in == NULL ? 0 : keep_in(t, &io);
    if (err == 0)
        err = put(t, fd, answer, io.out_len);
    if (n < 0 && n != NIB__WANT_READ && n != NIB__TRUNCATED)
        err = (int)n;
    t->closed = n == 0;
    if (total > 0) {
        t->failed = err;
        return total;
    }
    return err < 0 ? err : n;
}

static bool tls_pending(const struct nib__transport *transport)
{
    const struct nib__tls *t = (const struct nib__tls *)transport;

    return t->in != NULL || t->failed != 0 || t->closed ||
           nib__session_pending(t->session);
}

/* ---- sending ---- */

/* Where a write stands in its pieces. */
struct cursor {
    const struct iovec *pieces;
    int count;
    size_t off; /* in the first piece */
};

static void advance(struct cursor *c, size_t n)
{
    c->off += n;
    while (c->count > 0 && c->off >= c->pieces->iov_len) {
        c->off -= c->pieces->iov_len;
        c->pieces++;
        c->count--;
    }
}

/* The next record's bytes: where they lie, or copied together. */
static size_t record_bytes(const struct cursor *c, uint8_t *scratch,
                           const uint8_t **p)
{
    size_t n = c->pieces->iov_len - c->off, used = 0, off = c->off;

    *p = (const uint8_t *)c->pieces->iov_base + c->off;
    if (n >= NIB__TLS_RECORD)
        return NIB__TLS_RECORD;
    if (c->count == 1)
        return n;
    *p = scratch;
    for (int i = 0; i < c->count && used < NIB__TLS_RECORD; i++) {
        n = c->pieces[i].iov_len - off;
        if (n > NIB__TLS_RECORD - used)
            n = NIB__TLS_RECORD - used;
        memcpy(scratch + used, (const uint8_t *)c->pieces[i].iov_base + off,
               n);
        used += n;
        off = 0;
    }
    return used;
}

/* Encrypts as many records as have room. Number of bytes, or -EPROTO. */
static ssize_t encrypt(struct nib__tls *t, struct nib__tls_io *io,
                       struct cursor *c)
{
    uint8_t scratch[NIB__TLS_RECORD];
    ssize_t total = 0;

    while (c->count > 0 && io->out_cap - io->out_len >= NIB__TLS_RECORD_ROOM) {
        const uint8_t *p;
        size_t len = record_bytes(c, scratch, &p);
        ssize_t n = nib__session_write(t->session, io, p, len);

        if (n < 0)
            return n;
        advance(c, (size_t)n);
        total += n;
    }
    return total;
}

static ssize_t tls_write(struct nib__transport *transport, int fd,
                         const struct iovec *pieces, int count)
{
    struct nib__tls *t = tls_of(transport);
    uint8_t scratch[WRITE_RECORDS * NIB__TLS_RECORD_ROOM];
    struct cursor c = {.pieces = pieces, .count = count};
    ssize_t n, total = 0;
    int err = flush(t, fd);

    if (err < 0)
        return err;
    advance(&c, 0); /* past empty pieces */
    while (c.count > 0 && t->out == NULL) {
        struct nib__tls_io io = {.out = scratch, .out_cap = sizeof scratch};

        n = encrypt(t, &io, &c);
        if (n < 0)
            return n;
        err = put(t, fd, scratch, io.out_len);
        if (err < 0)
            return err;
        total += n;
    }
    return total;
}

static size_t tls_unsent(const struct nib__transport *transport)
{
    const struct nib__tls *t = (const struct nib__tls *)transport;

    return t->out == NULL ? 0 : t->out_len - t->out_off;
}

/* ---- the beginning and the end ---- */

static int tls_handshake(struct nib__transport *transport, int fd)
{
    struct nib__tls *t = tls_of(transport);
    uint8_t received[NIB__TLS_RECORD], flight[FLIGHT_BYTES];
    struct nib__tls_io io = {.out = flight, .out_cap = sizeof flight};
    int result, err = flush(t, fd);

    if (err < 0)
        return err;
    /* A client speaks first, also on a socket that blocks; a server's session
       has nothing to say. */
    err = (int)fill(t, fd, &io, received, sizeof received, MSG_DONTWAIT);
    if (err == NIB__WANT_READ) {
        io.in_len = 0;
        io.eof = false;
    } else if (err < 0) {
        return err;
    }
    result = nib__session_handshake(t->session, &io);
    err = keep_in(t, &io);
    if (err == 0)
        err = put(t, fd, flight, io.out_len);
    if (result < 0 && result != NIB__WANT_READ)
        return result;
    if (err < 0)
        return err;
    return result == NIB__WANT_READ && t->out != NULL ? NIB__WANT_WRITE
                                                      : result;
}

static int tls_shutdown(struct nib__transport *transport, int fd)
{
    struct nib__tls *t = tls_of(transport);
    uint8_t alert[ANSWER_BYTES];
    struct nib__tls_io io = {.out = alert, .out_cap = sizeof alert};
    int err = 0;

    if (!t->shut) {
        t->shut = true;
        err = nib__session_shutdown(t->session, &io);
        if (err == 0)
            err = put(t, fd, alert, io.out_len);
    }
    if (err == 0)
        err = flush(t, fd);
    if (err < 0)
        return err;
    return shutdown(fd, SHUT_WR) == 0 ? 0 : -errno;
}

static void tls_free(struct nib__transport *transport)
{
    struct nib__tls *t = tls_of(transport);

    nib__session_free(t->session);
    nib__free(t->in);
    nib__free(t->out);
    nib__free(t);
}

int nib__tls_new(struct nib__engine *engine, const char *server_name,
                 struct nib__transport **out)
{
    static const struct nib__transport_ops ops = {
        .write_bytes = WRITE_BYTES,
        .handshake = tls_handshake,
        .read = tls_read,
        .write = tls_write,
        .pending = tls_pending,
        .unsent = tls_unsent,
        .shutdown = tls_shutdown,
        .free = tls_free,
    };
    struct nib__tls *t = nib__alloc_zero(sizeof *t);
    int err;

    if (t == NULL)
        return -ENOMEM;
    t->base.ops = &ops;
    err = nib__session_new(engine, server_name, &t->session);
    if (err < 0) {
        nib__free(t);
        return err;
    }
    *out = &t->base;
    return 0;
}

void nib__tls_info(const struct nib__transport *t, struct nib__tls_info *info)
{
    nib__session_info(((const struct nib__tls *)t)->session, info);
}

const char *nib__tls_error(const struct nib__transport *t)
{
    return nib__session_error(((const struct nib__tls *)t)->session);
}
