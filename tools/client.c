/*
 * client - one WebSocket connection, seen from the client.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mask.h"
#include "process.h"
#include "system/tls.h"

enum {
    READ_BYTES = 64 << 10, /* room for one read */
    HEAD_MAX = 16 << 10,   /* of the server's answer */
    MESSAGE_MAX = 1 << 30, /* memory grows with what comes, not before */
};

/* ---- bytes ------------------------------------------------------------- */

static void bytes_free(struct client_bytes *b)
{
    free(b->data);
    *b = (struct client_bytes){0};
}

/* Makes room for n more bytes at the end, moving the rest to the front. */
static int bytes_reserve(struct client_bytes *b, size_t n)
{
    size_t have = b->end - b->start;
    size_t capacity = b->capacity;
    uint8_t *data;

    if (b->start > 0 && (have == 0 || n > b->capacity - b->end)) {
        memmove(b->data, b->data + b->start, have);
        b->start = 0;
        b->end = have;
    }
    if (n <= b->capacity - b->end)
        return 0;
    if (n > SIZE_MAX / 4 - have)
        return -ENOMEM;
    capacity = capacity * 2 > have + n ? capacity * 2 : have + n;
    data = realloc(b->data, capacity);
    if (!data)
        return -ENOMEM;
    b->data = data;
    b->capacity = capacity;
    return 0;
}

/* ---- life -------------------------------------------------------------- */

void client_init(struct client *c, int fd)
{
    memset(c, 0, sizeof(*c));
    c->fd = fd;
    c->transport = nib__transport_plain();
    c->error = "";
    nib__assembler_init(&c->assembler, MESSAGE_MAX, false);
    c->assembler.client = true;
}

static void drop_connection(struct client *c)
{
    nib_message_unref(c->held);
    c->held = NULL;
    nib__assembler_free(&c->assembler);
    nib__transport_free(c->transport);
    c->transport = nib__transport_plain();
    free(c->tls_error);
    c->tls_error = NULL;
    c->error = "";
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

void client_free(struct client *c)
{
    drop_connection(c);
    bytes_free(&c->in);
    bytes_free(&c->out);
}

void client_reset(struct client *c, int fd)
{
    struct client_bytes in = c->in, out = c->out;

    drop_connection(c);
    client_init(c, fd);
    c->in = in;
    c->out = out;
    c->in.start = c->in.end = 0;
    c->out.start = c->out.end = 0;
}

void client_trim(struct client *c)
{
    if (c->in.start == c->in.end)
        bytes_free(&c->in);
    if (c->out.start == c->out.end)
        bytes_free(&c->out);
}

const char *client_strerror(const struct client *c, int result)
{
    if ((result == -EPROTO || result == -ETIMEDOUT) && *c->error)
        return c->error;
    if (result == -EPIPE)
        return "the server ended the connection without a Close";
    return strerror(-result);
}

/* ---- socket ------------------------------------------------------------ */

static int set_flags(struct client *c, int set, int clear)
{
    int flags = fcntl(c->fd, F_GETFL);

    if (flags < 0 || fcntl(c->fd, F_SETFL, (flags | set) & ~clear) < 0)
        return -errno;
    c->nonblocking = set != 0;
    return 0;
}

int client_set_nonblocking(struct client *c)
{
    return set_flags(c, O_NONBLOCK, 0);
}

int client_set_blocking(struct client *c)
{
    return set_flags(c, 0, O_NONBLOCK);
}

static bool is_plain(const struct client *c)
{
    return c->transport == nib__transport_plain();
}

/* When a call begins; without TLS nobody asks. */
static uint64_t now_if_tls(const struct client *c)
{
    return is_plain(c) ? 0 : process_clock_ns();
}

/*
 * The transport could not go on with a call that began at start_ns. Returns
 * 0 to try again: after a signal, or, with TLS on a blocking socket, when a
 * part of a record was there.
 */
static int not_ready(struct client *c, uint64_t start_ns)
{
    if (is_plain(c) && errno == EINTR)
        return 0;
    if (c->nonblocking)
        return -EAGAIN;
    if (!is_plain(c) && (c->timeout_ms == 0 || process_clock_ns() - start_ns <
                                                   c->timeout_ms * 1000000))
        return 0;
    /* A blocking call ends like this only by its timeout. */
    c->error = "the server did nothing for too long";
    return -ETIMEDOUT;
}

/* Keeps a text about TLS. */
static int tls_failed(struct client *c, const char *text)
{
    free(c->tls_error);
    c->tls_error = strdup(text);
    c->error = c->tls_error ? c->tls_error : "TLS failed";
    return -EPROTO;
}

/* What a result of the transport, which is no success, means to a caller. */
static int failure(struct client *c, ssize_t result)
{
    if (result == NIB__TRUNCATED)
        return c->close_received ? 0 : -EPIPE;
    if (result == -EPROTO)
        return tls_failed(c, nib__tls_error(c->transport));
    return (int)result;
}

/* Sends data[0..len) or a part; returns the part or a negative code. */
static ssize_t write_some(struct client *c, const void *data, size_t len)
{
    const struct iovec piece = {(void *)(uintptr_t)data, len};
    uint64_t start = now_if_tls(c);
    ssize_t n;
    int result = 0;

    do {
        n = nib__transport_write(c->transport, c->fd, &piece, len > 0);
        if (n == NIB__WANT_WRITE)
            result = not_ready(c, start);
    } while (n == NIB__WANT_WRITE && result == 0);
    if (n >= 0)
        return n;
    return n == NIB__WANT_WRITE ? result : failure(c, n);
}

/* Sends what the transport still has. */
static int flush_transport(struct client *c)
{
    while (nib__transport_unsent(c->transport) > 0) {
        ssize_t n = write_some(c, NULL, 0);

        if (n < 0)
            return (int)n;
    }
    return 0;
}

ssize_t client_read(struct client *c, void *p, size_t cap)
{
    uint64_t start = now_if_tls(c);
    ssize_t n;
    int result = 0;

    do {
        n = nib__transport_read(c->transport, c->fd, p, cap);
        if (n == NIB__WANT_READ)
            result = not_ready(c, start);
    } while (n == NIB__WANT_READ && result == 0);
    if (n >= 0)
        return n;
    return n == NIB__WANT_READ ? result : failure(c, n);
}

/* Reads behind what is there. Returns the number, 0 at the end, or a code. */
static ssize_t read_some(struct client *c)
{
    ssize_t n;

    if (bytes_reserve(&c->in, READ_BYTES / 2) < 0)
        return -ENOMEM;
    n = client_read(c, c->in.data + c->in.end, c->in.capacity - c->in.end);
    if (n > 0)
        c->in.end += (size_t)n;
    return n;
}

/* ---- sending ----------------------------------------------------------- */

int client_flush(struct client *c)
{
    while (c->out.start < c->out.end) {
        ssize_t n = write_some(c, c->out.data + c->out.start,
                               c->out.end - c->out.start);

        if (n < 0)
            return (int)n;
        c->out.start += (size_t)n;
    }
    c->out.start = c->out.end = 0;
    return flush_transport(c);
}

int client_write(struct client *c, const void *data, size_t len)
{
    const uint8_t *p = data;
    int result = client_flush(c);

    while (result == 0 && len > 0) {
        ssize_t n = write_some(c, p, len);

        if (n < 0) {
            result = (int)n;
            break;
        }
        p += n;
        len -= (size_t)n;
    }
    if (result == -EAGAIN && len > 0) {
        if (bytes_reserve(&c->out, len) < 0)
            return -ENOMEM;
        memcpy(c->out.data + c->out.end, p, len);
        c->out.end += len;
    }
    return result == 0 ? flush_transport(c) : result;
}

int client_shutdown(struct client *c)
{
    uint64_t start = now_if_tls(c);
    int result = client_flush(c);

    while (result == 0) {
        result = nib__transport_shutdown(c->transport, c->fd);
        if (result != NIB__WANT_WRITE)
            break;
        result = not_ready(c, start);
    }
    return result;
}

/* A key that the server cannot foresee (RFC 6455, 10.3). */
static int fresh_key(uint8_t key[4])
{
    static _Thread_local uint8_t pool[256]; /* what one call gives at once */
    static _Thread_local size_t left;

    if (left == 0) {
        if (getrandom(pool, sizeof(pool), 0) != (ssize_t)sizeof(pool))
            return -EAGAIN;
        left = sizeof(pool);
    }
    left -= 4;
    memcpy(key, pool + left, 4);
    return 0;
}

/* Encodes a masked frame into out; returns its size. */
static size_t encode(uint8_t *out, enum nib__opcode opcode, const void *data,
                     size_t len)
{
    struct nib__frame frame = {
        .opcode = (uint8_t)opcode,
        .fin = true,
        .masked = true,
        .length = len,
    };
    size_t header;

    while (fresh_key(frame.key) < 0) {
        /* only a signal can interrupt it: again */
    }
    header = nib__frame_encode(out, &frame);
    if (len > 0)
        nib__mask_copy(out + header, data, len, frame.key, 0);
    return header + len;
}

uint8_t *client_encode(enum nib__opcode opcode, const void *data, size_t len,
                       size_t *size)
{
    uint8_t *out = malloc(NIB__HEADER_MAX + len);

    if (out)
        *size = encode(out, opcode, data, len);
    return out;
}

int client_queue(struct client *c, enum nib__opcode opcode, const void *data,
                 size_t len)
{
    if (bytes_reserve(&c->out, NIB__HEADER_MAX + len) < 0)
        return -ENOMEM;
    c->out.end += encode(c->out.data + c->out.end, opcode, data, len);
    return 0;
}

int client_send(struct client *c, enum nib__opcode opcode, const void *data,
                size_t len)
{
    int result = client_queue(c, opcode, data, len);

    return result < 0 ? result : client_flush(c);
}

int client_close(struct client *c, unsigned code)
{
    uint8_t body[2] = {(uint8_t)(code >> 8), (uint8_t)code};

    if (c->close_sent)
        return 0;
    c->close_sent = true;
    return client_send(c, NIB__CLOSE, body, code ? sizeof(body) : 0);
}

/* ---- receiving --------------------------------------------------------- */

/* Answers the peer's Close with its own code (RFC 6455, 5.5.1). */
static int take_close(struct client *c, const struct nib__event *event)
{
    int result;

    c->close_received = true;
    c->close_code = event->code;
    result = client_close(c, event->code == 1005 ? 0 : event->code);
    /* It may have gone already, and that is as good. */
    return result == -ENOMEM ? result : 0;
}

static int take_error(struct client *c, const struct nib__event *event)
{
    c->error = event->reason;
    client_close(c, event->code);
    return event->code == 1011 ? -ENOMEM : -EPROTO;
}

/*
 * What an event means for the connection. Returns 1 if it is the caller's,
 * 0 if it is dealt with.
 */
static int take_event(struct client *c, const struct nib__event *event)
{
    int result;

    switch (event->type) {
    case NIB__EVENT_MESSAGE:
        c->held = event->msg;
        return 1;
    case NIB__EVENT_PONG:
        return 1;
    case NIB__EVENT_PING:
        if (c->close_sent)
            return 0;
        result = client_send(c, NIB__PONG, event->data, event->len);
        return result == -EAGAIN ? 0 : result;
    case NIB__EVENT_CLOSE:
        result = take_close(c, event);
        return result < 0 ? result : 1;
    case NIB__EVENT_ERROR:
        return take_error(c, event);
    case NIB__EVENT_MORE:
    case NIB__EVENT_EMPTY:
        break;
    }
    return 0;
}

/* Makes events of what was read; 0 when it needs more. */
static int next_event(struct client *c, struct nib__event *event)
{
    size_t used;
    int result;

    /* Nothing counts after a Close (RFC 6455, 5.5.1). */
    if (c->close_received)
        c->in.start = c->in.end;
    while (c->in.start < c->in.end) {
        nib__assembler_next(&c->assembler, c->in.data + c->in.start,
                            c->in.end - c->in.start, &used, event);
        c->in.start += used;
        if (event->type == NIB__EVENT_MORE)
            return 0;
        result = take_event(c, event);
        if (result != 0)
            return result;
    }
    return 0;
}

int client_next(struct client *c, struct nib__event *event)
{
    nib_message_unref(c->held);
    c->held = NULL;
    for (;;) {
        int result = next_event(c, event);
        ssize_t n;

        if (result != 0)
            return result;
        n = read_some(c);
        if (n <= 0)
            return (int)n;
    }
}

int client_finish(struct client *c, unsigned code)
{
    struct nib__event event;
    int result = client_close(c, code);

    while (result >= 0) {
        result = client_next(c, &event);
        if (result == 0)
            return c->close_received ? 0 : -EPIPE;
    }
    return result;
}

/* ---- opening ----------------------------------------------------------- */

int client_upgrade(struct client *c, const struct upgrade *upgrade)
{
    int result = client_write(c, upgrade->request, upgrade->request_len);
    const char *head, *end;

    while (result == 0) {
        ssize_t n = read_some(c);

        if (n <= 0)
            return n < 0 ? (int)n : -EPIPE;
        head = (char *)c->in.data;
        end = memmem(head, c->in.end, "\r\n\r\n", 4);
        if (end) {
            end += 4;
            c->in.start = (size_t)(end - head);
            return upgrade_check(upgrade, head, (size_t)(end - head),
                                 &c->answer, &c->error);
        }
        if (c->in.end >= HEAD_MAX) {
            c->error = "the answer's head is too large";
            return -EPROTO;
        }
    }
    return result;
}

/* A frame must not wait for the answer to the one before it. */
static void set_nodelay(struct client *c)
{
    int on = 1;

    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int client_secure(struct client *c, const struct target *target)
{
    char text[192] = "";
    int result;

    if (!target->secure)
        return 0;
    set_nodelay(c); /* the request follows the last flight */
    c->timeout_ms = target->timeout_ms;
    result = secure_open(target->secure, c->fd, c->timeout_ms, &c->transport,
                         text, sizeof(text));
    if (result == -ETIMEDOUT)
        c->error = "the TLS handshake took too long";
    return result == -EPROTO ? tls_failed(c, text) : result;
}

int client_open(struct client *c, struct target *target)
{
    int result;

    c->fd = target_connect(target);
    if (c->fd < 0)
        return c->fd;
    set_nodelay(c);
    result = client_secure(c, target);
    if (result < 0 || !target->upgrade.request)
        return result;
    return client_upgrade(c, &target->upgrade);
}
