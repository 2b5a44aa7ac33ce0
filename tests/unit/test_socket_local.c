/*
 * test_socket_local - unix sockets, by path and by name, and inherited ones.
 */

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sockets.h"
#include "system/socket.h"

static char directory[] = "/tmp/nib-test-socket-XXXXXX";
static char path[64];         /* of a socket in it */
static char unix_address[80]; /* "unix:" and that */

static void setup(void)
{
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/socket", directory);
    snprintf(unix_address, sizeof(unix_address), "unix:%s", path);
    strcpy(error, "untouched");
}

static void teardown(void)
{
    unlink(path);
    rmdir(directory);
}

/* ---- unix -------------------------------------------------------------- */

START_TEST(listening_on_a_path)
{
    struct nib__peer peer;
    char name[NIB__ADDRESS_TEXT], text[NIB__ADDRESS_TEXT];
    int fd = listen_on(unix_address);
    int client = connect_unix(path, strlen(path) + 1);
    int accepted = accept_one(fd, &peer);

    check_flags(fd);
    check_flags(accepted);
    ck_assert_int_eq(nib__socket_name(fd, name, sizeof(name)),
                     (int)strlen(unix_address));
    ck_assert_str_eq(name, unix_address);
    ck_assert_int_eq(peer.family, AF_UNIX);
    nib__peer_text(&peer, text);
    ck_assert_str_eq(text, "unix:");
    close(accepted);
    close(client);
    nib__socket_unlink(unix_address, fd);
    ck_assert_int_eq(access(path, F_OK), -1);
    nib__socket_unlink(unix_address, fd); /* gone already */
    close(fd);
}
END_TEST

START_TEST(a_dead_socket_is_replaced)
{
    struct stat before, after;
    int fd = listen_on(unix_address);

    close(fd); /* as a crash leaves it */
    ck_assert_int_eq(stat(path, &before), 0);
    fd = listen_on(unix_address);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert(S_ISSOCK(after.st_mode));
    close(connect_unix(path, strlen(path) + 1));
    nib__socket_unlink(unix_address, fd);
    close(fd);
}
END_TEST

START_TEST(a_socket_in_use_is_not)
{
    int fd = listen_on(unix_address);
    int client;

    refuse(unix_address, -EADDRINUSE, "somebody listens there already");
    client = connect_unix(path, strlen(path) + 1);
    ck_assert_int_ge(client, 0);
    close(client);
    close(fd);
}
END_TEST

START_TEST(nor_one_whose_queue_is_full)
{
    struct nib__peer peer;
    int fd, clients[2], accepted;

    ck_assert_int_eq(
        nib__socket_listen(unix_address, 0, &fd, error, sizeof(error)), 0);
    clients[0] = connect_unix(path, strlen(path) + 1);
    ck_assert_int_ge(clients[0], 0);
    refuse(unix_address, -EADDRINUSE, "somebody listens there already");
    accepted = accept_one(fd, &peer);
    clients[1] = connect_unix(path, strlen(path) + 1);
    ck_assert_int_ge(clients[1], 0);
    close(accepted);
    close(clients[0]);
    close(clients[1]);
    close(fd);
}
END_TEST

START_TEST(what_is_no_socket_stays)
{
    struct stat status;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    ck_assert_int_eq(write(fd, "kept", 4), 4);
    close(fd);
    refuse(unix_address, -EADDRINUSE, "exists and is not a socket");
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 4);
    unlink(path);

    ck_assert_int_eq(symlink("/nowhere", path), 0);
    refuse(unix_address, -EADDRINUSE, "exists and is not a socket");
    ck_assert_int_eq(lstat(path, &status), 0);
}
END_TEST

START_TEST(a_socket_of_another_type_stays)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(un.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    refuse(unix_address, -EADDRINUSE,
           "exists, and whether it is in use cannot be told");
    ck_assert_int_eq(access(path, F_OK), 0);
    close(fd);
}
END_TEST

START_TEST(a_path_that_cannot_be)
{
    refuse("unix:/no/such/directory/socket", -ENOENT, "not found");
}
END_TEST

START_TEST(only_the_own_path_is_unlinked)
{
    int fd = listen_on(unix_address);
    int other = listen_on("unix:@nib-test-only-own");
    int tcp = listen_on("tcp:127.0.0.1:0");

    nib__socket_unlink(unix_address, other);
    nib__socket_unlink(unix_address, tcp);
    nib__socket_unlink("fd:3", fd);
    nib__socket_unlink("unix:@nib-test-only-own", other);
    nib__socket_unlink("not an address", fd);
    nib__socket_unlink(unix_address, -1);
    ck_assert_int_eq(access(path, F_OK), 0);

    /* Replaced by a file meanwhile. */
    unlink(path);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    nib__socket_unlink(unix_address, fd);
    ck_assert_int_eq(access(path, F_OK), 0);
    close(fd);
    close(other);
    close(tcp);
}
END_TEST

START_TEST(listening_on_an_abstract_name)
{
    struct nib__peer peer;
    char name[NIB__ADDRESS_TEXT], bare[64], address[80];
    int fd, client, accepted;

    /* Others may run this test as well. */
    snprintf(bare, sizeof(bare), "@nib-test-%ld", (long)getpid());
    snprintf(address, sizeof(address), "unix:%s", bare);
    fd = listen_on(address);
    check_flags(fd);
    nib__socket_name(fd, name, sizeof(name));
    ck_assert_str_eq(name, address);
    refuse(address, -EADDRINUSE, "Address already in use");
    bare[0] = '\0';
    client = connect_unix(bare, 1 + strlen(bare + 1));
    ck_assert_int_ge(client, 0);
    accepted = accept_one(fd, &peer);
    ck_assert_int_eq(peer.family, AF_UNIX);
    close(accepted);
    close(client);
    close(fd);
}
END_TEST

/* ---- inherited --------------------------------------------------------- */

/* A listening socket as a supervisor makes it: blocking, inheritable. */
static int foreign(int family, int type)
{
    int fd = socket(family, type, 0);
    struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
    socklen_t len = family == AF_UNIX ? sizeof(sa_family_t) : sizeof(any);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, len), 0);
    return fd;
}

static const char *fd_address(int fd)
{
    static char text[16];

    snprintf(text, sizeof(text), "fd:%d", fd);
    return text;
}

START_TEST(an_inherited_socket)
{
    struct nib__peer peer;
    int given = foreign(AF_INET, SOCK_STREAM);
    int fd, client, accepted;

    ck_assert_int_eq(listen(given, 8), 0);
    ck_assert_int_eq(fcntl(given, F_GETFD), 0);
    fd = listen_on(fd_address(given));
    ck_assert_int_eq(fd, given);
    check_flags(fd);
    client = connect_ipv4(port_of(fd));
    accepted = accept_one(fd, &peer);
    check_flags(accepted);
    ck_assert_int_ne(option(accepted, IPPROTO_TCP, TCP_NODELAY), 0);
    close(accepted);
    close(client);
    close(fd);

    given = foreign(AF_UNIX, SOCK_STREAM);
    ck_assert_int_eq(listen(given, 8), 0);
    fd = listen_on(fd_address(given));
    check_flags(fd);
    close(fd);
}
END_TEST

START_TEST(what_cannot_be_inherited)
{
    int ends[2];
    int fd = foreign(AF_INET, SOCK_STREAM);

    refuse(fd_address(fd), -EINVAL, "is a socket that does not listen");
    ck_assert_int_eq(fcntl(fd, F_GETFD), 0); /* and is left as it was */
    close(fd);
    refuse(fd_address(fd), -EBADF, "Bad file descriptor");
    fd = foreign(AF_INET, SOCK_DGRAM);
    refuse(fd_address(fd), -EINVAL, "is not a TCP or unix stream socket");
    close(fd);
    fd = foreign(AF_UNIX, SOCK_SEQPACKET);
    ck_assert_int_eq(listen(fd, 8), 0);
    refuse(fd_address(fd), -EINVAL, "is not a TCP or unix stream socket");
    close(fd);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    refuse(fd_address(ends[0]), -ENOTSOCK, "is not a socket");
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("local sockets");
    SRunner *runner = srunner_create(suite);
    TCase *tc;
    int failed;

    tc = add_case(suite, "unix");
    tcase_add_test(tc, listening_on_a_path);
    tcase_add_test(tc, a_dead_socket_is_replaced);
    tcase_add_test(tc, a_socket_in_use_is_not);
    tcase_add_test(tc, nor_one_whose_queue_is_full);
    tcase_add_test(tc, what_is_no_socket_stays);
    tcase_add_test(tc, a_socket_of_another_type_stays);
    tcase_add_test(tc, a_path_that_cannot_be);
    tcase_add_test(tc, only_the_own_path_is_unlinked);
    tcase_add_test(tc, listening_on_an_abstract_name);

    tc = add_case(suite, "inherited");
    tcase_add_test(tc, an_inherited_socket);
    tcase_add_test(tc, what_cannot_be_inherited);

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
