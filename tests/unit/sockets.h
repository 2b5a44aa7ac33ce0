/*
 * sockets - what the tests of lib/system/socket.c share.
 *
 * Listening by the function under test, connecting by plain system calls.
 */

#ifndef NIB__TESTS_UNIT_SOCKETS_H
#define NIB__TESTS_UNIT_SOCKETS_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "system/socket.h"

static char error[256]; /* what nib__socket_listen() said last */

static inline int listen_on(const char *address)
{
    int fd = -1;
    int r = nib__socket_listen(address, 8, &fd, error, sizeof(error));

    ck_assert_msg(r == 0, "%s: %d, %s", address, r, error);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Expects a refusal whose text is the address and then `why`. */
static inline void refuse(const char *address, int code, const char *why)
{
    char expected[256];
    int fd = 99;

    ck_assert_int_eq(nib__socket_listen(address, 8, &fd, error, sizeof(error)),
                     code);
    ck_assert_int_eq(fd, -1);
    snprintf(expected, sizeof(expected), "%s: %s", address, why);
    ck_assert_str_eq(error, expected);
}

static inline unsigned port_of(int fd)
{
    char name[NIB__ADDRESS_TEXT];

    ck_assert_int_gt(nib__socket_name(fd, name, sizeof(name)), 0);
    return (unsigned)atoi(strrchr(name, ':') + 1);
}

/* Connects and waits for it; returns the descriptor or -errno. */
static inline int connect_any(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    if (connect(fd, address, len) == 0)
        return fd;
    len = (socklen_t)errno;
    close(fd);
    return -(int)len;
}

static inline int connect_ipv4(unsigned port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };

    return connect_any((struct sockaddr *)&in, sizeof(in));
}

static inline int connect_ipv6(unsigned port)
{
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6,
        .sin6_port = htons((uint16_t)port),
        .sin6_addr = in6addr_loopback,
    };

    return connect_any((struct sockaddr *)&in6, sizeof(in6));
}

static inline int connect_unix(const char *name, size_t len)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    memcpy(un.sun_path, name, len);
    return connect_any(
        (struct sockaddr *)&un,
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}

/* Takes the connection that is there or on its way. */
static inline int accept_one(int listener, struct nib__peer *peer)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    int fd = -1;

    ck_assert_int_eq(poll(&ready, 1, -1), 1);
    ck_assert_int_eq(nib__socket_accept(listener, &fd, peer), 0);
    return fd;
}

static inline int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    ck_assert_int_eq(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static inline void check_flags(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

#endif
