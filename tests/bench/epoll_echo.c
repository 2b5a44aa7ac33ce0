/*
 * epoll-echo - the least that a TCP server can do: return what comes.
 *
 * What nib is compared with. One thread, level-triggered epoll, a read, a
 * write; closes at the peer's end. Prints "listening on HOST:PORT", and runs
 * until it is killed.
 *
 *   epoll_echo [PORT]      on 127.0.0.1; without a port a free one
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, BUFFER_BYTES = 256 << 10 };

static int fail(const char *what)
{
    perror(what);
    return EXIT_FAILURE;
}

static int watch(int epoll, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static int listen_on(const char *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((unsigned short)strtoul(port, NULL, 10)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, len) < 0 ||
        listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return -1;
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int epoll, int listener)
{
    int fd, on = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (watch(epoll, fd) < 0)
            close(fd);
    }
}

/* Writes all of it, waiting where it must. */
static int write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

        if (done >= 0) {
            p += done;
            n -= (size_t)done;
        } else if (errno == EAGAIN) {
            struct pollfd writable = {.fd = fd, .events = POLLOUT};

            poll(&writable, 1, -1);
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

static void echo(int fd)
{
    static char buffer[BUFFER_BYTES];
    ssize_t n = recv(fd, buffer, sizeof(buffer), 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || write_all(fd, buffer, (size_t)n) < 0)
        close(fd);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    int listener = listen_on(argc > 1 ? argv[1] : "0");
    int epoll = epoll_create1(0);

    if (listener < 0 || epoll < 0 || watch(epoll, listener) < 0)
        return fail("epoll_echo");
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        if (n < 0 && errno != EINTR)
            return fail("epoll_wait");
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                accept_all(epoll, listener);
            else
                echo(events[i].data.fd);
        }
    }
}
