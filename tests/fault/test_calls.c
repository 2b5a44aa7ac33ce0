/*
 * test_calls - system calls that do less than they were asked for.
 *
 * The linker puts the functions below in front of the library's system calls
 * (-Wl,--wrap). One in k of them fails with EINTR or EAGAIN or moves one
 * byte only; the echo must be exact all the same.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "rig.h"

enum fault {
    SHORT,  /* one byte */
    AGAIN,
    INTERRUPTED,
    FAULTS,
};

static atomic_uint every; /* 0: no faults */
static atomic_uint turn;
static _Atomic(enum fault) fault;
static _Thread_local bool client; /* its own calls are left alone */

/*
 * Is it this call's turn? One in k, but not each k-th: a wait and a read by
 * turns would make the same one fail for ever. Sets errno for all but SHORT.
 */
static bool struck(void)
{
    unsigned k = atomic_load(&every), n;

    if (k == 0 || client)
        return false;
    n = atomic_fetch_add(&turn, 1) * 2654435761u;
    if ((n >> 16) % k != 0)
        return false;
    errno = atomic_load(&fault) == AGAIN ? EAGAIN : EINTR;
    return true;
}

ssize_t __real_recv(int fd, void *p, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *p, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *p, size_t len, int flags)
{
    if (struck()) {
        if (atomic_load(&fault) != SHORT)
            return -1;
        len = 1;
    }
    return __real_recv(fd, p, len, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec piece;
    struct msghdr one = {.msg_iov = &piece, .msg_iovlen = 1};

    if (!struck())
        return __real_sendmsg(fd, message, flags);
    if (atomic_load(&fault) != SHORT)
        return -1;
    piece = message->msg_iov[0];
    piece.iov_len = 1;
    return __real_sendmsg(fd, &one, flags);
}

int __real_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
    if (atomic_load(&fault) != SHORT && struck())
        return -1;
    return __real_accept4(fd, from, len, flags);
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max,
                      int timeout_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max,
                      int timeout_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max,
                      int timeout_ms)
{
    if (struck()) {
        if (atomic_load(&fault) == INTERRUPTED)
            return -1;
        max = 1;
    }
    return __real_epoll_wait(fd, events, max, timeout_ms);
}

int __real_epoll_pwait2(int fd, struct epoll_event *events, int max,
                        const struct timespec *timeout,
                        const sigset_t *signals);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int max,
                        const struct timespec *timeout,
                        const sigset_t *signals);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int max,
                        const struct timespec *timeout,
                        const sigset_t *signals)
{
    if (struck()) {
        if (atomic_load(&fault) == INTERRUPTED)
            return -1;
        max = 1;
    }
    return __real_epoll_pwait2(fd, events, max, timeout, signals);
}

/* ---- the echo ---- */

static void send_back(struct nib_conn *conn, struct nib_message *msg,
                      void *arg)
{
    (void)arg;
    ck_assert_int_eq(nib_send_message(conn, msg, 0), 0);
}

static int send_back_blocking(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    struct nib_message *msg;
    int err = nib_accept(req, NULL, &conn);

    (void)arg;
    while (err == 0 && (err = nib_recv(conn, &msg, -1)) == 0) {
        err = nib_send_message(conn, msg, 0);
        nib_message_unref(msg);
    }
    return err == -EPIPE ? 0 : err;
}

static uint8_t data[70000];

/* Reads one message over its frames and compares it. */
static void read_back(struct rig_peer *peer, size_t len)
{
    struct rig_frame frame;
    size_t got = 0;

    do {
        rig_check(rig_read(peer, &frame));
        rig_check(frame.len <= len - got);
        rig_check(memcmp(frame.data, data + got, frame.len) == 0);
        got += frame.len;
    } while (!frame.fin);
    ck_assert_uint_eq(got, len);
}

static void echo(int port, const char *path)
{
    static const size_t sizes[] = {0,   1,    125,   126,   127,  1000,
                                   5000, 65535, 65536, 70000, 10};
    struct rig_peer peer;

    rig_open(&peer, port, path, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert(rig_send(&peer, RIG_BINARY, data, sizes[i]));
        read_back(&peer, sizes[i]);
    }
    rig_goodbye(&peer);
}

static struct rig_census before;

static void setup(void)
{
    before = rig_census();
    client = true;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 >> 3);
}

static void teardown(void)
{
    atomic_store(&every, 0);
    rig_settled(before);
}

START_TEST(an_exact_echo)
{
    static const struct nib_callbacks callbacks = {.on_message = send_back};
    struct nib_config *cfg = rig_config(2);
    struct nib_server *srv;
    unsigned most = RIG_SANITIZED ? 10 : 50;

    ck_assert_int_eq(nib_config_set_frame_bytes(cfg, 4096), 0);
    rig_callbacks(cfg, "/echo", &callbacks, NULL);
    rig_handler(cfg, "/blocking", send_back_blocking, NULL);
    srv = rig_start(cfg);
    atomic_store(&fault, (enum fault)_i);
    /* At k = 1 nothing but a byte at a time would ever get through. */
    for (unsigned k = _i == SHORT ? 1 : 2; k <= most; k++) {
        atomic_store(&every, k);
        echo(rig_port(srv), "/echo");
        echo(rig_port(srv), "/blocking");
    }
    ck_assert_uint_gt(turn, 0);
    rig_stop(srv, 5000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calls");
    TCase *tcase = tcase_create("calls");

    tcase_set_timeout(tcase, 600);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, an_exact_echo, 0, FAULTS);
    suite_add_tcase(suite, tcase);
    return rig_run(suite);
}
