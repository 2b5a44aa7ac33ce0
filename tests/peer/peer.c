/*
 * peer - bytes in and out of one wire, with deadlines.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

struct peer {
    struct wire *wire;
    uint8_t *in; /* received, not used yet: in[off..len) */
    size_t off;
    size_t len;
    size_t cap;
    bool ended; /* the other side has said its last byte */
    bool was_reset;
    bool was_cut; /* TLS that ended without close_notify */
    uint8_t *held; /* what the last call gave out */
    char name[64];
};

/* Fails with a formatted text. */
static _Noreturn void fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char *format, ...)
{
    static char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    peer_failed(text);
}

int peer_patience_ms(void)
{
    const char *sanitizers = getenv("NIB_SANITIZERS");

    return sanitizers == NULL || strcmp(sanitizers, "no") == 0 ? 20000
                                                               : 60000;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *grab(void *old, size_t bytes)
{
    void *p = realloc(old, bytes);

    if (p == NULL)
        fail("no memory for %zu bytes", bytes);
    return p;
}

/* ---- connections ---- */

static int connect_to(const struct sockaddr *to, socklen_t len,
                      int receive_bytes)
{
    int one = 1;
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        fail("socket: %s", strerror(errno));
    if (receive_bytes > 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                   sizeof receive_bytes) < 0)
        fail("SO_RCVBUF: %s", strerror(errno));
    if (to->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, to, len) < 0)
        fail("connect: %s", strerror(errno));
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        fail("fcntl: %s", strerror(errno));
    return fd;
}

static int connect_unix(const char *path, int receive_bytes)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof to.sun_path)
        fail("the path is too long: %s", path);
    memcpy(to.sun_path, path, strlen(path) + 1);
    return connect_to((const struct sockaddr *)&to, sizeof to,
                      receive_bytes);
}

static int connect_tcp(const char *address, int receive_bytes)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const char *colon = strrchr(address, ':');
    char host[64];
    uint16_t port;
    size_t len;

    if (colon == NULL || (size_t)(colon - address) >= sizeof host)
        fail("no address: %s", address);
    port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    len = (size_t)(colon - address);
    memcpy(host, address, len);
    host[len] = '\0';
    if (host[0] == '[') {
        host[len - 1] = '\0';
        v6.sin6_port = port;
        if (inet_pton(AF_INET6, host + 1, &v6.sin6_addr) != 1)
            fail("no address: %s", address);
        return connect_to((const struct sockaddr *)&v6, sizeof v6,
                          receive_bytes);
    }
    v4.sin_port = port;
    if (inet_pton(AF_INET, host, &v4.sin_addr) != 1)
        fail("no address: %s", address);
    return connect_to((const struct sockaddr *)&v4, sizeof v4,
                      receive_bytes);
}

/* ---- TLS ---- */

static const char *trusted; /* NULL: plain */
static struct nib__engine *client;
static pthread_once_t client_once = PTHREAD_ONCE_INIT;

void peer_speak_tls(const char *ca)
{
    trusted = ca;
}

static void make_client(void)
{
    char error[512];

    client = wire_engine(trusted, error, sizeof error);
    if (client == NULL)
        fail("a client's TLS: %s", error);
}

/* A server that turns a client away ends the handshake. */
static void shake_hands(struct peer *p)
{
    int err = wire_shake_all(p->wire, peer_patience_ms());

    if (err == -EPIPE || err == -ECONNRESET)
        p->ended = p->was_reset = true;
    else if (err < 0)
        fail("TLS handshake: %s: %s", strerror(-err), wire_error(p->wire));
}

struct peer *peer_adopt(struct wire *wire)
{
    struct peer *p = grab(NULL, sizeof *p);

    if (wire == NULL)
        fail("no memory for a wire");
    *p = (struct peer){.wire = wire};
    shake_hands(p);
    return p;
}

struct peer *peer_connect(const char *address, int receive_bytes)
{
    int fd;

    if (strncmp(address, "unix:", 5) == 0)
        return peer_adopt(
            wire_plain(connect_unix(address + 5, receive_bytes)));
    fd = connect_tcp(address, receive_bytes);
    if (trusted == NULL)
        return peer_adopt(wire_plain(fd));
    pthread_once(&client_once, make_client);
    return peer_adopt(wire_tls(fd, client, "localhost"));
}

static void end(struct peer *p, bool reset)
{
    wire_free(p->wire, reset);
    free(p->in);
    free(p->held);
    free(p);
}

void peer_free(struct peer *p)
{
    if (p != NULL)
        end(p, false);
}

void peer_reset(struct peer *p)
{
    end(p, true);
}

int peer_fd(const struct peer *p)
{
    return wire_fd(p->wire);
}

const char *peer_name(struct peer *p)
{
    struct sockaddr_in6 a;
    socklen_t len = sizeof a;
    char host[INET6_ADDRSTRLEN];

    if (getsockname(peer_fd(p), (struct sockaddr *)&a, &len) < 0)
        fail("getsockname: %s", strerror(errno));
    if (a.sin6_family == AF_INET6) {
        inet_ntop(AF_INET6, &a.sin6_addr, host, sizeof host);
        snprintf(p->name, sizeof p->name, "[%s]:%u", host,
                 (unsigned)ntohs(a.sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a;

        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(p->name, sizeof p->name, "%s:%u", host,
                 (unsigned)ntohs(v4->sin_port));
    }
    return p->name;
}

/* ---- bytes ---- */

/* Waits for poll events until the deadline; fails behind it. What the wire
 * holds back leaves meanwhile. */
static void wait_for(struct peer *p, short events, int64_t due,
                     const char *what)
{
    struct pollfd set = {.fd = peer_fd(p)};
    int64_t left;

    while ((left = due - now_ms()) > 0) {
        int n;

        set.events = wire_sent(p->wire) ? events : events | POLLOUT;
        n = poll(&set, 1, (int)left);
        if (n > 0 && (set.revents & ~POLLOUT || events & POLLOUT))
            return;
        if (n < 0 && errno != EINTR)
            fail("poll: %s", strerror(errno));
    }
    fail("nothing within %d ms: %s", peer_patience_ms(), what);
}

void peer_half_close(struct peer *p)
{
    int64_t due = now_ms() + peer_patience_ms();
    int err;

    while ((err = wire_half_close(p->wire)) == -EAGAIN)
        wait_for(p, POLLOUT, due, "the other side does not read");
    if (err < 0)
        fail("the end of the stream: %s", strerror(-err));
}

/* Sends what can be sent now. Returns 0 or why there is an end. */
static int send_now(struct peer *p, const void *data, size_t len,
                    size_t *done)
{
    *done = 0;
    while (*done < len) {
        ssize_t n = wire_send(p->wire, (const char *)data + *done,
                              len - *done);

        if (n == -EAGAIN)
            break;
        if (n < 0)
            return (int)n;
        *done += (size_t)n;
    }
    return 0;
}

size_t peer_send_some(struct peer *p, const void *data, size_t len)
{
    size_t done;
    int err = send_now(p, data, len, &done);

    if (err < 0)
        fail("send: %s: %s", strerror(-err), wire_error(p->wire));
    return done;
}

void peer_flush(struct peer *p)
{
    int64_t due = now_ms() + peer_patience_ms();

    while (!wire_sent(p->wire))
        wait_for(p, POLLOUT, due, "the other side does not read");
}

bool peer_try_send(struct peer *p, const void *data, size_t len)
{
    int64_t due = now_ms() + peer_patience_ms();
    size_t part, done = 0;

    while (send_now(p, (const char *)data + done, len - done, &part) == 0) {
        done += part;
        if (done == len && wire_sent(p->wire))
            return true;
        wait_for(p, POLLOUT, due, "the other side does not read");
    }
    return false;
}

void peer_send(struct peer *p, const void *data, size_t len)
{
    int64_t due = now_ms() + peer_patience_ms();
    size_t done = 0;

    while ((done += peer_send_some(p, (const char *)data + done,
                                   len - done)) < len)
        wait_for(p, POLLOUT, due, "the other side does not read");
    peer_flush(p);
}

void peer_send_text(struct peer *p, const char *text)
{
    peer_send(p, text, strlen(text));
}

/* Turns hexadecimal text into bytes, to be freed. */
static uint8_t *from_hex(const char *hex, size_t *len)
{
    uint8_t *bytes = grab(NULL, strlen(hex) / 2 + 1);
    unsigned value;

    *len = 0;
    while (*hex != '\0') {
        if (*hex == ' ') {
            hex++;
            continue;
        }
        if (sscanf(hex, "%2x", &value) != 1 || hex[1] == '\0')
            fail("no hexadecimal digits: %s", hex);
        bytes[(*len)++] = (uint8_t)value;
        hex += 2;
    }
    return bytes;
}

void peer_send_hex(struct peer *p, const char *hex)
{
    size_t len;
    uint8_t *bytes = from_hex(hex, &len);

    peer_send(p, bytes, len);
    free(bytes);
}

/* Reads what is there; false if that is nothing yet. Notes the end. */
static bool take(struct peer *p)
{
    ssize_t n;

    if (p->ended)
        return true;
    if (p->off == p->len)
        p->off = p->len = 0;
    if (p->cap - p->len < 65536) {
        p->cap = p->cap * 2 + 131072;
        p->in = grab(p->in, p->cap);
    }
    n = wire_recv(p->wire, p->in + p->len, p->cap - p->len);
    if (n == -EAGAIN)
        return false;
    if (n < 0 && n != -ECONNRESET && n != -EPIPE)
        fail("recv: %s: %s", strerror((int)-n), wire_error(p->wire));
    p->was_reset = n == -ECONNRESET;
    p->was_cut = n == -EPIPE;
    p->ended = n <= 0;
    if (n > 0)
        p->len += (size_t)n;
    return true;
}

static size_t waiting(const struct peer *p)
{
    return p->len - p->off;
}

/* Makes at least n bytes wait in p->in. */
static void fill(struct peer *p, size_t n)
{
    int64_t due = now_ms() + peer_patience_ms();

    while (waiting(p) < n) {
        char what[96];

        if (p->ended)
            fail("the stream was %s after %zu of %zu bytes",
                 p->was_reset ? "reset" : p->was_cut ? "cut" : "ended",
                 waiting(p), n);
        if (take(p))
            continue;
        snprintf(what, sizeof what, "%zu bytes expected, %zu came", n,
                 waiting(p));
        wait_for(p, POLLIN, due, what);
    }
}

void peer_read(struct peer *p, void *data, size_t len)
{
    char *to = data;

    while (len > 0) {
        size_t part = len < 65536 ? len : 65536;

        if (waiting(p) == 0)
            fill(p, 1);
        if (part > waiting(p))
            part = waiting(p);
        memcpy(to, p->in + p->off, part);
        p->off += part;
        to += part;
        len -= part;
    }
}

/* Some bytes as a text that can be printed. */
static const char *shown(const uint8_t *bytes, size_t len, char *text,
                         size_t cap)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < len && at + 5 < cap; i++)
        at += (size_t)snprintf(text + at, cap - at,
                               bytes[i] >= ' ' && bytes[i] < 127 ? "%c"
                                                                 : "\\x%02x",
                               bytes[i]);
    return text;
}

static _Noreturn void differ(const uint8_t *got, const uint8_t *want,
                             size_t len)
{
    char a[400], b[400];
    size_t at = 0;

    while (at < len && got[at] == want[at])
        at++;
    at = at < 8 ? 0 : at - 8;
    fail("from byte %zu of %zu: expected \"%s\", got \"%s\"", at, len,
         shown(want + at, len - at, b, sizeof b),
         shown(got + at, len - at, a, sizeof a));
}

void peer_expect(struct peer *p, const void *data, size_t len)
{
    uint8_t *got = grab(NULL, len + 1);

    peer_read(p, got, len);
    if (memcmp(got, data, len) != 0)
        differ(got, data, len);
    free(got);
}

void peer_expect_text(struct peer *p, const char *text)
{
    peer_expect(p, text, strlen(text));
}

void peer_expect_hex(struct peer *p, const char *hex)
{
    size_t len;
    uint8_t *bytes = from_hex(hex, &len);

    peer_expect(p, bytes, len);
    free(bytes);
}

/* Gives out the first n waiting bytes, with a NUL behind them. */
static uint8_t *give(struct peer *p, size_t n)
{
    p->held = grab(p->held, n + 1);
    if (n > 0)
        memcpy(p->held, p->in + p->off, n);
    p->held[n] = '\0';
    p->off += n;
    return p->held;
}

const char *peer_read_head(struct peer *p)
{
    for (size_t n = 4;; n++) {
        if (waiting(p) < n)
            fill(p, n);
        if (memcmp(p->in + p->off + n - 4, "\r\n\r\n", 4) == 0)
            return (const char *)give(p, n);
    }
}

static void to_end(struct peer *p)
{
    int64_t due = now_ms() + peer_patience_ms();

    while (!p->ended)
        if (!take(p))
            wait_for(p, POLLIN, due, "the stream does not end");
}

const char *peer_read_rest(struct peer *p, size_t *len)
{
    to_end(p);
    if (p->was_reset || p->was_cut)
        fail("the stream was %s after %zu bytes",
             p->was_reset ? "reset" : "cut", waiting(p));
    *len = waiting(p);
    return (const char *)give(p, *len);
}

static void expect_nothing(struct peer *p)
{
    char text[400];

    to_end(p);
    if (waiting(p) > 0)
        fail("%zu bytes before the end: \"%s\"", waiting(p),
             shown(p->in + p->off, waiting(p), text, sizeof text));
}

void peer_expect_end(struct peer *p)
{
    expect_nothing(p);
    if (p->was_reset || p->was_cut)
        fail("%s, not ended in order", p->was_reset ? "reset" : "cut");
}

void peer_expect_reset(struct peer *p)
{
    expect_nothing(p);
    if (!p->was_reset)
        fail("ended in order, not reset");
}

bool peer_readable(struct peer *p)
{
    return waiting(p) > 0 || take(p);
}

/* ---- WebSocket ---- */

int peer_upgrade_text(char *text, size_t cap, const char *path,
                      const char *lines)
{
    return snprintf(text, cap,
                    "GET %s HTTP/1.1\r\n"
                    "Host: test\r\n"
                    "Connection: Upgrade\r\n"
                    "Upgrade: websocket\r\n"
                    "Sec-WebSocket-Version: 13\r\n"
                    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                    "%s\r\n",
                    path, lines);
}

void peer_ask(struct peer *p, const char *path)
{
    char text[1024];
    int n = peer_upgrade_text(text, sizeof text, path, "");

    if ((size_t)n >= sizeof text)
        fail("the path is too long");
    peer_send(p, text, (size_t)n);
}

void peer_expect_101(struct peer *p, const char *lines)
{
    /* The accept key is RFC 6455's own example (1.3). */
    peer_expect_text(p, "HTTP/1.1 101 Switching Protocols\r\n"
                        "Upgrade: websocket\r\n"
                        "Connection: Upgrade\r\n"
                        "Sec-WebSocket-Accept: "
                        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
    peer_expect_text(p, lines);
    peer_expect_text(p, "\r\n");
}

void peer_upgrade(struct peer *p, const char *path)
{
    peer_ask(p, path);
    peer_expect_101(p, "");
}

size_t peer_encode(uint8_t *to, uint8_t first, const void *data, size_t len)
{
    static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};
    const uint8_t *from = data;
    size_t n = 0;

    to[n++] = first;
    if (len < 126) {
        to[n++] = (uint8_t)(0x80 | len);
    } else if (len < 65536) {
        to[n++] = 0x80 | 126;
        to[n++] = (uint8_t)(len >> 8);
        to[n++] = (uint8_t)len;
    } else {
        to[n++] = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            to[n++] = (uint8_t)((uint64_t)len >> shift);
    }
    memcpy(to + n, key, 4);
    n += 4;
    for (size_t i = 0; i < len; i++)
        to[n + i] = from[i] ^ key[i % 4];
    return n + len;
}

void peer_send_frame(struct peer *p, uint8_t first, const void *data,
                     size_t len)
{
    uint8_t *frame = grab(NULL, len + 14);
    size_t n = peer_encode(frame, first, data, len);

    peer_send(p, frame, n);
    free(frame);
}

/* The payload of a Close; returns its length. */
static size_t close_payload(uint8_t *to, unsigned code, const char *reason)
{
    size_t len = strlen(reason);

    if (code == 0)
        return 0;
    if (len > 123)
        fail("the reason is too long");
    to[0] = (uint8_t)(code >> 8);
    to[1] = (uint8_t)code;
    memcpy(to + 2, reason, len);
    return 2 + len;
}

void peer_send_close(struct peer *p, unsigned code, const char *reason)
{
    uint8_t payload[125];

    peer_send_frame(p, PEER_CLOSE, payload,
                    close_payload(payload, code, reason));
}

struct peer_frame peer_read_frame(struct peer *p)
{
    struct peer_frame f;
    uint8_t head[10];
    uint64_t len;

    peer_read(p, head, 2);
    len = head[1] & 0x7f;
    if (head[1] & 0x80)
        fail("a masked frame from the server");
    if (len >= 126) {
        size_t more = len == 126 ? 2 : 8;

        peer_read(p, head + 2, more);
        len = 0;
        for (size_t i = 0; i < more; i++)
            len = len << 8 | head[2 + i];
        if (len < 126 || (more == 8 && len < 65536))
            fail("a length of %llu in %zu bytes", (unsigned long long)len,
                 more);
    }
    f.first = head[0];
    f.len = (size_t)len;
    fill(p, f.len);
    f.data = give(p, f.len);
    return f;
}

void peer_expect_frame(struct peer *p, uint8_t first, const void *data,
                       size_t len)
{
    struct peer_frame f = peer_read_frame(p);
    char text[400];

    if (f.first != first || f.len != len)
        fail("expected a frame 0x%02x of %zu bytes, got 0x%02x of %zu: "
             "\"%s\"",
             first, len, f.first, f.len,
             shown(f.data, f.len, text, sizeof text));
    if (len > 0 && memcmp(f.data, data, len) != 0)
        differ(f.data, data, len);
}

void peer_expect_message(struct peer *p, const char *text)
{
    peer_expect_frame(p, PEER_TEXT, text, strlen(text));
}

void peer_expect_close(struct peer *p, unsigned code, const char *reason)
{
    uint8_t payload[125];

    peer_expect_frame(p, PEER_CLOSE, payload,
                      close_payload(payload, code, reason));
}
