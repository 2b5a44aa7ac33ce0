/*
 * wire - a transport of the library's, for a client.
 */
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "system/tls.h"

struct wire {
    struct nib__transport *transport;
    int fd;
    bool tls;
    bool shaken;
    int want; /* of the last call of the transport */
};

struct nib__engine *wire_engine(const char *ca, char *error, size_t cap)
{
    struct nib__tls_client_settings settings = {.ca = ca, .resume = true};
    struct nib__engine *engine;

    return nib__engine_client(&settings, &engine, error, cap) == 0 ? engine
                                                                   : NULL;
}

struct wire *wire_plain(int fd)
{
    struct wire *w = calloc(1, sizeof *w);

    if (w == NULL) {
        close(fd);
        return NULL;
    }
    w->fd = fd;
    w->shaken = true;
    w->transport = nib__transport_plain();
    return w;
}

struct wire *wire_tls(int fd, struct nib__engine *engine, const char *name)
{
    struct wire *w = wire_plain(fd);

    if (w == NULL)
        return NULL;
    if (nib__tls_new(engine, name, &w->transport) < 0) {
        wire_free(w, false);
        return NULL;
    }
    w->tls = true;
    w->shaken = false;
    return w;
}

/* The transport's result as an errno. */
static ssize_t known(struct wire *w, ssize_t result)
{
    w->want = (int)result;
    switch (result) {
    case NIB__WANT_READ:
    case NIB__WANT_WRITE:
        return -EAGAIN;
    case NIB__TRUNCATED:
        return -EPIPE;
    default:
        return result;
    }
}

int wire_shake(struct wire *w) NIB__NO_ANALYSIS
{
    ssize_t n;

    if (w->shaken)
        return 0;
    n = known(w, nib__transport_handshake(w->transport, w->fd));
    w->shaken = n == 0;
    return (int)n;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int wire_shake_all(struct wire *w, int patience_ms)
{
    int64_t left, due = now_ms() + patience_ms;
    int err;

    while ((err = wire_shake(w)) == -EAGAIN) {
        struct pollfd set = {
            .fd = w->fd,
            .events = w->want == NIB__WANT_READ ? POLLIN : POLLOUT,
        };

        left = due - now_ms();
        if (left <= 0)
            return -ETIMEDOUT;
        poll(&set, 1, (int)left);
    }
    return err;
}

int wire_fd(const struct wire *w)
{
    return w->fd;
}

const char *wire_error(const struct wire *w) NIB__NO_ANALYSIS
{
    if (w->tls && w->want == -EPROTO)
        return nib__tls_error(w->transport);
    if (w->want == NIB__TRUNCATED)
        return "the stream ended without close_notify";
    return w->want < 0 && w->want > -1000 ? strerror(-w->want) : "";
}

ssize_t wire_send(struct wire *w, const void *p, size_t len) NIB__NO_ANALYSIS
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)p, .iov_len = len};

    return known(w, nib__transport_write(w->transport, w->fd, &piece, 1));
}

bool wire_sent(struct wire *w) NIB__NO_ANALYSIS
{
    if (nib__transport_unsent(w->transport) > 0)
        known(w, nib__transport_write(w->transport, w->fd, NULL, 0));
    return nib__transport_unsent(w->transport) == 0;
}

ssize_t wire_recv(struct wire *w, void *p, size_t cap) NIB__NO_ANALYSIS
{
    return known(w, nib__transport_read(w->transport, w->fd, p, cap));
}

int wire_half_close(struct wire *w) NIB__NO_ANALYSIS
{
    return (int)known(w, nib__transport_shutdown(w->transport, w->fd));
}

void wire_free(struct wire *w, bool reset) NIB__NO_ANALYSIS
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (w == NULL)
        return;
    if (reset)
        setsockopt(w->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    else if (w->tls)
        nib__transport_shutdown(w->transport, w->fd);
    nib__transport_free(w->transport);
    close(w->fd);
    free(w);
}
