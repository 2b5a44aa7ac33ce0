/*
 * rig - a server in this process, clients made of plain sockets.
 */
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

unsigned rig_times(unsigned full)
{
    const char *stress = getenv("NIB_STRESS");
    unsigned times = full;

    if (RIG_SANITIZED)
        times = full / 50;
    else if (stress == NULL || *stress == '\0')
        times = full / 10;
    return times == 0 ? 1 : times;
}

static pthread_t main_thread; /* the one that runs the tests */

void rig_fail(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (pthread_equal(pthread_self(), main_thread))
        ck_abort_msg("%s:%d: %s", file, line, text);
    fprintf(stderr, "%s:%d: %s, in a thread of the test\n", file, line,
            text);
    abort();
}

/* ---- servers ---- */

struct nib_config *rig_config(unsigned reactors)
{
    struct nib_config *cfg;

    ck_assert_int_eq(nib_config_new(&cfg), 0);
    ck_assert_int_eq(nib_config_listen(cfg, "tcp:127.0.0.1:0"), 0);
    ck_assert_int_eq(nib_config_set_reactors(cfg, reactors), 0);
    /* The clients here answer no pings. */
    ck_assert_int_eq(nib_config_set_ping(cfg, 0, 0), 0);
    return cfg;
}

void rig_callbacks(struct nib_config *cfg, const char *pattern,
                   const struct nib_callbacks *callbacks, void *arg)
{
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, pattern, &route), 0);
    ck_assert_int_eq(nib_route_set_callbacks(route, callbacks, arg), 0);
}

void rig_handler(struct nib_config *cfg, const char *pattern,
                 nib_handler_fn *fn, void *arg)
{
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, pattern, &route), 0);
    ck_assert_int_eq(nib_route_set_handler(route, fn, arg), 0);
}

struct nib_server *rig_start(struct nib_config *cfg)
{
    struct nib_server *srv;
    int err = nib_server_new(cfg, &srv);

    ck_assert_msg(err == 0, "%s: %s", nib_strerror(err),
                  nib_config_error(cfg));
    nib_config_free(cfg);
    err = nib_server_start(srv);
    ck_assert_msg(err == 0, "%s: %s", nib_strerror(err),
                  nib_server_error(srv));
    return srv;
}

void rig_stop(struct nib_server *srv, unsigned grace_ms)
{
    unsigned running;

    nib_server_stop(srv, grace_ms);
    ck_assert_int_eq(nib_server_join(srv, RIG_PATIENCE_MS, &running), 0);
    ck_assert_uint_eq(running, 0);
    nib_server_free(srv);
}

int rig_port(const struct nib_server *srv)
{
    char text[128];

    rig_check(nib_server_address(srv, 0, text, sizeof text) > 0);
    return atoi(strrchr(text, ':') + 1);
}

/* ---- meetings ---- */

void rig_meeting_init(struct rig_meeting *m)
{
    *m = (struct rig_meeting){.conn = NULL};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->came, NULL);
}

static void met(struct nib_conn *conn, void *arg)
{
    struct rig_meeting *m = arg;

    pthread_mutex_lock(&m->lock);
    rig_check(m->conn == NULL);
    m->conn = nib_conn_ref(conn);
    m->opened++;
    pthread_cond_signal(&m->came);
    pthread_mutex_unlock(&m->lock);
}

static void parted(struct nib_conn *conn, const struct nib_close_info *info,
                   void *arg)
{
    struct rig_meeting *m = arg;

    (void)conn;
    (void)info;
    pthread_mutex_lock(&m->lock);
    m->closed++;
    pthread_mutex_unlock(&m->lock);
}

void rig_meet_at(struct nib_config *cfg, const char *pattern,
                 struct rig_meeting *m)
{
    static const struct nib_callbacks callbacks = {.on_open = met,
                                                   .on_close = parted};

    rig_callbacks(cfg, pattern, &callbacks, m);
}

struct nib_conn *rig_meet(struct rig_meeting *m)
{
    struct nib_conn *conn;

    pthread_mutex_lock(&m->lock);
    while (m->conn == NULL)
        pthread_cond_wait(&m->came, &m->lock);
    conn = m->conn;
    m->conn = NULL;
    pthread_mutex_unlock(&m->lock);
    return conn;
}

static bool all_closed(void *arg)
{
    struct rig_meeting *m = arg;
    bool all;

    pthread_mutex_lock(&m->lock);
    all = m->closed == m->opened;
    pthread_mutex_unlock(&m->lock);
    return all;
}

void rig_all_closed(struct rig_meeting *m)
{
    rig_until(all_closed, m, "all connections closed");
}

/* ---- this process ---- */

static unsigned entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void *say_tid(void *tid)
{
    *(pid_t *)tid = gettid();
    return NULL;
}

static bool no_task(void *tid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%d", (int)*(pid_t *)tid);
    return access(path, F_OK) != 0;
}

struct rig_census rig_census(void)
{
    pid_t tid;

    /* A sanitizer's own thread begins with the first one of ours, which stays
       in /proc for a moment after it was joined. */
    rig_thread_end(rig_thread(say_tid, &tid));
    rig_until(no_task, &tid, "a joined thread goes");
    return (struct rig_census){entries("/proc/self/fd"),
                               entries("/proc/self/task")};
}

static bool settled(void *arg)
{
    const struct rig_census *before = arg;
    struct rig_census now = rig_census();

    return now.descriptors == before->descriptors &&
           now.threads == before->threads;
}

void rig_settled(struct rig_census before)
{
    rig_until(settled, &before, "descriptors and threads as before");
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void rig_until(bool (*condition)(void *arg), void *arg, const char *what)
{
    uint64_t end = now_ms() + RIG_PATIENCE_MS;

    while (!condition(arg)) {
        ck_assert_msg(now_ms() < end, "not in time: %s", what);
        poll(NULL, 0, 1);
    }
}

void *rig_alloc(size_t bytes)
{
    void *p = calloc(1, bytes);

    rig_check(p != NULL);
    return p;
}

pthread_t rig_thread(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

void rig_thread_end(pthread_t thread)
{
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* ---- clients ---- */

bool rig_connect(struct rig_peer *p, int port, int receive_bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = RIG_PATIENCE_MS / 1000};
    int one = 1;

    *p = (struct rig_peer){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC,
                                        0)};
    rig_check(p->fd >= 0);
    setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(p->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (receive_bytes > 0)
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                   sizeof receive_bytes);
    if (connect(p->fd, (struct sockaddr *)&to, sizeof to) == 0)
        return true;
    if (errno != ECONNREFUSED && errno != ECONNRESET)
        rig_abort("connect: %s", strerror(errno));
    rig_close(p, false);
    return false;
}

bool rig_write(struct rig_peer *p, const void *data, size_t len)
{
    const uint8_t *from = data;

    while (len > 0) {
        ssize_t n = send(p->fd, from, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EPIPE && errno != ECONNRESET)
                rig_abort("send: %s", strerror(errno));
            return false;
        }
        from += n;
        len -= (size_t)n;
    }
    return true;
}

void rig_request(struct rig_peer *p, const char *path)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "GET %s HTTP/1.1\r\nHost: rig\r\n"
                     "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                     "Sec-WebSocket-Version: 13\r\n\r\n",
                     path);

    rig_write(p, text, (size_t)n);
}

/* Receives more into the buffer, `want` bytes in all; false at the end. */
static bool fill(struct rig_peer *p, size_t want)
{
    if (p->at > 0) {
        memmove(p->buffer, p->buffer + p->at, p->len - p->at);
        p->len -= p->at;
        p->at = 0;
    }
    if (p->capacity < want + 65536) {
        p->capacity = want + 65536;
        p->buffer = realloc(p->buffer, p->capacity);
        rig_check(p->buffer != NULL);
    }
    while (p->len < want) {
        ssize_t n = recv(p->fd, p->buffer + p->len, p->capacity - p->len, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != ECONNRESET)
            rig_abort("recv: %s", strerror(errno));
        if (n <= 0)
            return false;
        p->len += (size_t)n;
    }
    return true;
}

/* The next n bytes; NULL at the end. */
static const uint8_t *take(struct rig_peer *p, size_t n)
{
    if (p->len - p->at < n && !fill(p, n))
        return NULL;
    p->at += n;
    return p->buffer + p->at - n;
}

int rig_status(struct rig_peer *p)
{
    char head[4096];
    size_t n = 0;
    int status;

    do {
        const uint8_t *byte = take(p, 1);

        if (byte == NULL)
            return 0;
        rig_check(n < sizeof head - 1);
        head[n++] = (char)*byte;
    } while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0);
    head[n] = '\0';
    rig_check(sscanf(head, "HTTP/1.1 %d ", &status) == 1);
    return status;
}

void rig_open(struct rig_peer *p, int port, const char *path,
              int receive_bytes)
{
    int status;

    rig_check(rig_connect(p, port, receive_bytes));
    rig_request(p, path);
    status = rig_status(p);
    if (status != 101)
        rig_abort("the answer to the upgrade is %d", status);
}

bool rig_send(struct rig_peer *p, unsigned opcode, const void *data,
              size_t len)
{
    /* A mask of zeros is a mask. */
    uint8_t head[14] = {(uint8_t)(0x80 | opcode)};
    size_t n = 2;

    if (len < 126) {
        head[1] = (uint8_t)(0x80 | len);
    } else if (len < 65536) {
        head[1] = 0x80 | 126;
        head[n++] = (uint8_t)(len >> 8);
        head[n++] = (uint8_t)len;
    } else {
        head[1] = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            head[n++] = (uint8_t)((uint64_t)len >> shift);
    }
    return rig_write(p, head, n + 4) && rig_write(p, data, len);
}

bool rig_read(struct rig_peer *p, struct rig_frame *frame)
{
    const uint8_t *b = take(p, 2);
    unsigned extra;
    size_t len;

    if (b == NULL)
        return false;
    if ((b[0] & 0x70) != 0 || (b[1] & 0x80) != 0)
        rig_abort("no frame begins with %02x %02x", b[0], b[1]);
    frame->fin = (b[0] & 0x80) != 0;
    frame->opcode = b[0] & 0x0f;
    len = b[1];
    extra = len == 126 ? 2 : len == 127 ? 8 : 0;
    if (extra > 0) {
        b = take(p, extra);
        if (b == NULL)
            return false;
        len = 0;
        for (unsigned i = 0; i < extra; i++)
            len = len << 8 | b[i];
        rig_check(len < 1u << 30);
    }
    frame->len = len;
    frame->data = take(p, len);
    return frame->data != NULL;
}

void rig_drain(struct rig_peer *p)
{
    p->at = p->len = 0;
    while (fill(p, 1))
        p->at = p->len = 0;
}

void rig_close(struct rig_peer *p, bool reset)
{
    struct linger linger = {.l_onoff = 1};

    if (reset)
        setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(p->fd);
    free(p->buffer);
    *p = (struct rig_peer){.fd = -1};
}

void rig_goodbye(struct rig_peer *p)
{
    rig_send(p, RIG_CLOSE, "\x03\xe8", 2);
    rig_drain(p);
    rig_close(p, false);
}

unsigned rig_close_code(const struct rig_frame *frame)
{
    ck_assert_uint_eq(frame->opcode, RIG_CLOSE);
    return frame->len < 2 ? 1005
                          : (unsigned)(frame->data[0] << 8 | frame->data[1]);
}

int rig_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    main_thread = pthread_self();
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
