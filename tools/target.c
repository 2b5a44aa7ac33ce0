/*
 * target - the server that a client's connections go to.
 */
#include "target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_SOURCES = 250 };

static int fail(struct target *t, int code, const char *subject,
                const char *text)
{
    snprintf(t->error, sizeof(t->error), "'%.100s': %s", subject, text);
    return code;
}

/*
 * A signal ended the wait in connect(), which itself goes on: waits for its
 * end.
 */
static int finish_connect(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t len = sizeof(error);

    while (poll(&p, 1, -1) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

/* connect() obeys the timeout for sending. */
static void set_timeout(int fd, uint64_t ms)
{
    struct timeval time = {
        .tv_sec = (time_t)(ms / 1000),
        .tv_usec = (suseconds_t)(ms % 1000 * 1000),
    };

    if (ms > 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
    }
}

static int connect_from(const struct addrinfo *to, unsigned source,
                        uint64_t timeout_ms)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = 0;

    if (fd < 0)
        return -errno;
    set_timeout(fd, timeout_ms);
    if (source > 0) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        int on = 1;

        /* Else bind() takes a port that is free for every peer. */
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + source);
        if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
            result = -errno;
    }
    if (result == 0 && connect(fd, to->ai_addr, to->ai_addrlen) < 0)
        result = errno == EINTR ? finish_connect(fd) : -errno;
    if (result < 0) {
        close(fd);
        return result == -EINPROGRESS ? -ETIMEDOUT : result;
    }
    return fd;
}

static bool on_loopback(const struct addrinfo *a)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)a->ai_addr;

    return a->ai_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == 127;
}

int target_connect(struct target *t)
{
    for (;;) {
        unsigned source = atomic_load(&t->source);
        int fd = connect_from(t->address, source, t->timeout_ms);

        if (fd != -EADDRNOTAVAIL || !on_loopback(t->address) ||
            source >= MAX_SOURCES)
            return fd;
        /* If another thread was quicker, its step will do. */
        atomic_compare_exchange_strong(&t->source, &source, source + 1);
    }
}

static int make_secure(struct target *t, const char *address,
                       const struct secure_options *options)
{
    if (!t->url.tls)
        return 0;
    if (!secure_built())
        return fail(t, -EPROTONOSUPPORT, address, "this was built without TLS");
    return secure_new(options, t->url.host, &t->secure, t->error,
                      sizeof(t->error)) < 0
               ? -EKEYREJECTED
               : 0;
}

static int choose_address(struct target *t)
{
    int fd = -ENOENT;

    t->address = t->addresses;
    if (!t->addresses->ai_next)
        return 0;
    for (const struct addrinfo *a = t->addresses; a; a = a->ai_next) {
        fd = connect_from(a, 0, t->timeout_ms);
        if (fd >= 0) {
            close(fd);
            t->address = a;
            return 0;
        }
    }
    return fd;
}

static int resolve(struct target *t)
{
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV,
    };
    int error = getaddrinfo(t->url.host, t->url.port, &hints, &t->addresses);

    if (error == EAI_SYSTEM)
        return fail(t, -errno, t->url.host, strerror(errno));
    if (error)
        return fail(t, -ENOENT, t->url.host, gai_strerror(error));
    return 0;
}

int target_init(struct target *t, const char *address,
                const struct target_options *options)
{
    const char *expected = "";
    int result;

    memset(t, 0, sizeof(*t));
    t->timeout_ms = options->timeout_ms;
    result = options->raw ? url_parse_raw(address, &t->url, &expected)
                          : url_parse(address, &t->url, &expected);
    if (result < 0)
        return fail(t, result, address, expected);
    if (!options->raw) {
        result = upgrade_init(&t->upgrade, &t->url, options->subprotocols,
                              options->headers, options->header_count);
        if (result == -EINVAL)
            return fail(t, result, options->subprotocols,
                        "not a list of subprotocols");
        if (result < 0)
            return fail(t, result, address, strerror(-result));
    }
    result = make_secure(t, address, &options->secure);
    if (result == 0)
        result = resolve(t);
    if (result == 0) {
        result = choose_address(t);
        if (result < 0)
            fail(t, result, address, strerror(-result));
    }
    if (result < 0)
        target_free(t);
    return result;
}

int target_forked(struct target *t)
{
    if (!t->secure)
        return 0;
    return secure_forked(t->secure, t->error, sizeof(t->error));
}

void target_free(struct target *t)
{
    upgrade_free(&t->upgrade);
    secure_free(t->secure);
    t->secure = NULL;
    if (t->addresses)
        freeaddrinfo(t->addresses);
    t->addresses = NULL;
    t->address = NULL;
}
