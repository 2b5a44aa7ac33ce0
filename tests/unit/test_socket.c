/*
 * test_socket - addresses, TCP, accepting, options.
 */

#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deny.h"
#include "sockets.h"
#include "system/socket.h"

static void setup(void)
{
    strcpy(error, "untouched");
}

static bool have_ipv6(void)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)&in6, sizeof(in6)) == 0;

    if (fd >= 0)
        close(fd);
    return have;
}

/* ---- form -------------------------------------------------------------- */

static const char *const good[] = {
    "tcp:127.0.0.1:0",      "tcp:localhost:8080", "tcp:a-name.example:65535",
    "tcp:[::]:80",          "tcp:[::1]:0",        "tcp:[::ffff:1.2.3.4]:1",
    "tcp:[fe80::1%eth0]:1", "unix:/run/nib",      "unix:relative",
    "unix:@name",           "unix:with:colon",    "fd:0",
    "fd:2147483647",
};

#define FORM "expected tcp:HOST:PORT, unix:PATH, unix:@NAME or fd:N"
#define HOST_PORT "expected tcp:HOST:PORT"
#define PORT "expected a port from 0 to 65535 at the end"
#define BRACKETS "expected tcp:[IPV6]:PORT"
#define WITHIN "expected an IPv6 address within the brackets"
#define BARE "expected an IPv6 address to stand in brackets"
#define PATH "expected unix:PATH or unix:@NAME"
#define FD "expected fd:N, the number of a listening socket"

static const struct {
    const char *address;
    const char *why;
} bad[] = {
    {"", FORM},
    {"8080", FORM},
    {"127.0.0.1:80", FORM},
    {"TCP:127.0.0.1:80", FORM},
    {"tcp:", HOST_PORT},
    {"tcp:80", HOST_PORT},
    {"tcp::80", HOST_PORT},
    {"tcp:host:", PORT},
    {"tcp:host:65536", PORT},
    {"tcp:host:99999999999999999999", PORT},
    {"tcp:host:-1", PORT},
    {"tcp:host:+1", PORT},
    {"tcp:host: 1", PORT},
    {"tcp:host:1x", PORT},
    {"tcp:host:http", PORT},
    {"tcp:[::1]", PORT},
    {"tcp:[::1:80", BRACKETS},
    {"tcp:[]:80", BRACKETS},
    {"tcp:[::1]x:80", BRACKETS},
    {"tcp:[host]:80", WITHIN},
    {"tcp:[127.0.0.1]:80", WITHIN},
    {"tcp:[::1%]:80", WITHIN},
    {"tcp:[1:2:3]:80", WITHIN},
    {"tcp:::1:80", BARE},
    {"tcp:a:b:80", BARE},
    {"unix:", PATH},
    {"unix:@", PATH},
    {"fd:", FD},
    {"fd:-1", FD},
    {"fd:x", FD},
    {"fd:3 ", FD},
    {"fd:2147483648", FD},
};

START_TEST(good_forms)
{
    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const char *why = nib__address_check(good[i]);

        ck_assert_msg(why == NULL, "%s: %s", good[i], why);
    }
}
END_TEST

START_TEST(bad_forms_say_what_was_expected)
{
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_pstr_eq(nib__address_check(bad[i].address), bad[i].why);
        refuse(bad[i].address, -EINVAL, bad[i].why);
    }
}
END_TEST

/* prefix, then `count` times 'a', then suffix. */
static const char *long_address(const char *prefix, int count,
                                const char *suffix)
{
    static char text[1024];
    int len = snprintf(text, sizeof(text), "%s", prefix);

    memset(text + len, 'a', (size_t)count);
    strcpy(text + len + count, suffix);
    return text;
}

START_TEST(lengths_have_limits)
{
    static const char path_why[] =
        "expected a path or name of at most 107 bytes";

    ck_assert_ptr_null(nib__address_check(long_address("tcp:", 255, ":1")));
    ck_assert_pstr_eq(nib__address_check(long_address("tcp:", 256, ":1")),
                      "expected a host of at most 255 bytes");
    ck_assert_ptr_null(nib__address_check(long_address("unix:", 107, "")));
    ck_assert_pstr_eq(nib__address_check(long_address("unix:", 108, "")),
                      path_why);
    ck_assert_ptr_null(nib__address_check(long_address("unix:@", 107, "")));
    ck_assert_pstr_eq(nib__address_check(long_address("unix:@", 108, "")),
                      path_why);
}
END_TEST

START_TEST(a_small_buffer_takes_what_fits)
{
    char small[8] = "xxxxxxx";
    int fd;

    ck_assert_int_eq(nib__socket_listen("8080", 1, &fd, small, 0), -EINVAL);
    ck_assert_str_eq(small, "xxxxxxx");
    ck_assert_int_eq(nib__socket_listen("8080", 1, &fd, small, 7), -EINVAL);
    ck_assert_str_eq(small, "8080: ");
    ck_assert_int_eq(nib__socket_listen("8080", 1, &fd, NULL, 0), -EINVAL);
}
END_TEST

/* ---- TCP --------------------------------------------------------------- */

START_TEST(listening_on_ipv4)
{
    char name[NIB__ADDRESS_TEXT], expected[NIB__ADDRESS_TEXT];
    int fd = listen_on("tcp:127.0.0.1:0");
    unsigned port = port_of(fd);

    check_flags(fd);
    ck_assert_uint_ne(port, 0);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_REUSEADDR), 1);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_REUSEPORT), 0);
    snprintf(expected, sizeof(expected), "127.0.0.1:%u", port);
    ck_assert_int_eq(nib__socket_name(fd, name, sizeof(name)),
                     (int)strlen(expected));
    ck_assert_str_eq(name, expected);
    /* As snprintf. */
    ck_assert_int_eq(nib__socket_name(fd, name, 4), (int)strlen(expected));
    ck_assert_str_eq(name, "127");
    ck_assert_str_eq(error, "untouched");
    close(fd);
}
END_TEST

START_TEST(listening_on_ipv6)
{
    char name[NIB__ADDRESS_TEXT], expected[NIB__ADDRESS_TEXT];
    int fd, client;

    if (!have_ipv6())
        return;
    fd = listen_on("tcp:[::1]:0");
    check_flags(fd);
    snprintf(expected, sizeof(expected), "[::1]:%u", port_of(fd));
    nib__socket_name(fd, name, sizeof(name));
    ck_assert_str_eq(name, expected);
    ck_assert_int_eq(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    client = connect_ipv6(port_of(fd));
    ck_assert_int_ge(client, 0);
    close(client);
    close(fd);
}
END_TEST

START_TEST(listening_on_a_name)
{
    int fd = listen_on("tcp:localhost:0");
    int client = connect_ipv4(port_of(fd));

    if (client < 0)
        client = connect_ipv6(port_of(fd));
    ck_assert_int_ge(client, 0);
    close(client);
    close(fd);
}
END_TEST

START_TEST(all_of_ipv6_is_ipv4_as_well)
{
    struct nib__peer peer;
    char text[NIB__ADDRESS_TEXT];
    int fd, four, six, accepted;

    if (!have_ipv6())
        return;
    fd = listen_on("tcp:[::]:0");
    ck_assert_int_eq(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 0);

    four = connect_ipv4(port_of(fd));
    ck_assert_int_ge(four, 0);
    accepted = accept_one(fd, &peer);
    ck_assert_int_eq(peer.family, AF_INET);
    nib__peer_text(&peer, text);
    ck_assert_int_eq(strncmp(text, "127.0.0.1:", 10), 0);
    ck_assert_uint_eq(peer.port, port_of(four));
    close(accepted);

    six = connect_ipv6(port_of(fd));
    ck_assert_int_ge(six, 0);
    accepted = accept_one(fd, &peer);
    ck_assert_int_eq(peer.family, AF_INET6);
    nib__peer_text(&peer, text);
    ck_assert_int_eq(strncmp(text, "[::1]:", 6), 0);
    ck_assert_uint_eq(peer.port, port_of(six));
    close(accepted);

    close(four);
    close(six);
    close(fd);
}
END_TEST

/* "[::]" is IPv4 alone; any other IPv6 address is refused. */
static int without_ipv6(void)
{
    char name[NIB__ADDRESS_TEXT];
    int fd, client;

    deny(SYS_socket, AF_INET6, EAFNOSUPPORT);
    if (nib__socket_listen("tcp:[::]:0", 8, &fd, error, sizeof(error)) != 0)
        return 1;
    if (nib__socket_name(fd, name, sizeof(name)) < 0 ||
        strncmp(name, "0.0.0.0:", 8) != 0)
        return 2;
    client = connect_ipv4((unsigned)atoi(name + 8));
    if (client < 0)
        return 3;
    close(client);
    close(fd);
    if (nib__socket_listen("tcp:[::1]:0", 8, &fd, error, sizeof(error)) !=
        -EAFNOSUPPORT)
        return 4;
    if (strncmp(error, "tcp:[::1]:0: ", 13) != 0)
        return 5;
    /* A name that is both has its other address left. */
    if (nib__socket_listen("tcp:localhost:0", 8, &fd, error, sizeof(error)) !=
        0)
        return 6;
    close(fd);
    return 0;
}

START_TEST(a_system_without_ipv6)
{
    int status = in_child(without_ipv6);

    ck_assert_int_eq(status == DENY_NOT_POSSIBLE ? 0 : status, 0);
}
END_TEST

START_TEST(a_port_has_one_server)
{
    int fd = listen_on("tcp:127.0.0.1:0");
    char address[64];

    snprintf(address, sizeof(address), "tcp:127.0.0.1:%u", port_of(fd));
    refuse(address, -EADDRINUSE, "Address already in use");
    snprintf(address, sizeof(address), "tcp:[::]:%u", port_of(fd));
    refuse(address, -EADDRINUSE, "Address already in use");
    close(fd);
}
END_TEST

/* A connection that the last server closed first does not block the port. */
START_TEST(a_port_can_be_taken_again)
{
    struct nib__peer peer;
    char address[64];
    int fd = listen_on("tcp:127.0.0.1:0");
    int client = connect_ipv4(port_of(fd));
    int accepted = accept_one(fd, &peer);

    snprintf(address, sizeof(address), "tcp:127.0.0.1:%u", port_of(fd));
    close(accepted);
    close(client);
    close(fd);
    fd = listen_on(address);
    close(fd);
}
END_TEST

START_TEST(an_address_that_is_not_here)
{
    refuse("tcp:192.0.2.1:0", -EADDRNOTAVAIL,
           "Cannot assign requested address");
    refuse("tcp:[fe80::1%no-such-if]:0", -EADDRNOTAVAIL,
           "Name or service not known");
}
END_TEST

/* ---- accepting --------------------------------------------------------- */

START_TEST(an_accepted_socket)
{
    struct nib__peer peer;
    char text[NIB__ADDRESS_TEXT], expected[NIB__ADDRESS_TEXT];
    int listener = listen_on("tcp:127.0.0.1:0");
    int client = connect_ipv4(port_of(listener));
    int fd = accept_one(listener, &peer);
    const uint8_t loopback[4] = {127, 0, 0, 1};

    check_flags(fd);
    ck_assert_int_ne(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    ck_assert_int_eq(peer.family, AF_INET);
    ck_assert_mem_eq(peer.bytes, loopback, 4);
    ck_assert_uint_eq(peer.port, port_of(client));
    nib__peer_text(&peer, text);
    nib__socket_name(client, expected, sizeof(expected));
    ck_assert_str_eq(text, expected);
    close(fd);
    close(client);
    close(listener);
}
END_TEST

START_TEST(nobody_there)
{
    struct nib__peer peer;
    int listener = listen_on("tcp:127.0.0.1:0");
    int fd = 99;

    ck_assert_int_eq(nib__socket_accept(listener, &fd, &peer), -EAGAIN);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(nib__socket_accept(-1, &fd, &peer), -EBADF);
    close(listener);
}
END_TEST

START_TEST(no_descriptor_left)
{
    struct nib__peer peer;
    struct rlimit old, none;
    int listener = listen_on("tcp:127.0.0.1:0");
    int client = connect_ipv4(port_of(listener));
    int fd;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){0, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    ck_assert_int_eq(nib__socket_accept(listener, &fd, &peer), -EMFILE);
    refuse("tcp:127.0.0.1:0", -EMFILE, "Too many open files");
    setrlimit(RLIMIT_NOFILE, &old);
    /* The connection still waits. */
    fd = accept_one(listener, &peer);
    close(fd);
    close(client);
    close(listener);
}
END_TEST

/* ---- options, texts ---------------------------------------------------- */

START_TEST(buffers)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int send_bytes = option(fd, SOL_SOCKET, SO_SNDBUF);
    int receive_bytes = option(fd, SOL_SOCKET, SO_RCVBUF);

    nib__socket_buffers(fd, 0, 0);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_SNDBUF), send_bytes);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_RCVBUF), receive_bytes);
    /* The kernel doubles them for its own needs. */
    nib__socket_buffers(fd, 8192, 0);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_SNDBUF), 2 * 8192);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_RCVBUF), receive_bytes);
    nib__socket_buffers(fd, 0, 4096);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_SNDBUF), 2 * 8192);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_RCVBUF), 2 * 4096);
    close(fd);
}
END_TEST

START_TEST(a_reset_on_close)
{
    struct nib__peer peer;
    int listener = listen_on("tcp:127.0.0.1:0");
    int client = connect_ipv4(port_of(listener));
    int fd = accept_one(listener, &peer);
    char byte;

    nib__socket_reset_on_close(fd);
    close(fd);
    ck_assert_int_eq(recv(client, &byte, 1, 0), -1);
    ck_assert_int_eq(errno, ECONNRESET);
    close(client);
    close(listener);
}
END_TEST

START_TEST(texts_of_peers)
{
    struct nib__peer four = {AF_INET, {192, 0, 2, 1}, 65535, 0};
    struct nib__peer six = {AF_INET6, {0x20, 1, 0xd, 0xb8}, 80, 0};
    struct nib__peer local = {AF_INET6, {0xfe, 0x80}, 1, 1};
    struct nib__peer far = {AF_INET6, {0xfe, 0x80}, 1, 4294967295};
    struct nib__peer longest = {AF_INET6, {0}, 65535, 4294967295};
    char text[NIB__ADDRESS_TEXT];

    nib__peer_text(&four, text);
    ck_assert_str_eq(text, "192.0.2.1:65535");
    nib__peer_text(&six, text);
    ck_assert_str_eq(text, "[2001:db8::]:80");
    nib__peer_text(&local, text);
    ck_assert_str_eq(text, "[fe80::%lo]:1");
    nib__peer_text(&far, text);
    ck_assert_str_eq(text, "[fe80::%4294967295]:1");
    memset(longest.bytes, 0xff, 16);
    nib__peer_text(&longest, text);
    ck_assert_str_eq(
        text, "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535");
}
END_TEST

START_TEST(names_of_what_has_none)
{
    char text[NIB__ADDRESS_TEXT];
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert_int_eq(nib__socket_name(ends[0], text, sizeof(text)), 5);
    ck_assert_str_eq(text, "unix:");
    ck_assert_int_eq(nib__socket_name(-1, text, sizeof(text)), -EBADF);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, NULL);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("socket");
    SRunner *runner = srunner_create(suite);
    TCase *tc;
    int failed;

    tc = add_case(suite, "form");
    tcase_add_test(tc, good_forms);
    tcase_add_test(tc, bad_forms_say_what_was_expected);
    tcase_add_test(tc, lengths_have_limits);
    tcase_add_test(tc, a_small_buffer_takes_what_fits);

    tc = add_case(suite, "TCP");
    tcase_add_test(tc, listening_on_ipv4);
    tcase_add_test(tc, listening_on_ipv6);
    tcase_add_test(tc, listening_on_a_name);
    tcase_add_test(tc, all_of_ipv6_is_ipv4_as_well);
    tcase_add_test(tc, a_system_without_ipv6);
    tcase_add_test(tc, a_port_has_one_server);
    tcase_add_test(tc, a_port_can_be_taken_again);
    tcase_add_test(tc, an_address_that_is_not_here);

    tc = add_case(suite, "accept");
    tcase_add_test(tc, an_accepted_socket);
    tcase_add_test(tc, nobody_there);
    tcase_add_test(tc, no_descriptor_left);

    tc = add_case(suite, "options and texts");
    tcase_add_test(tc, buffers);
    tcase_add_test(tc, a_reset_on_close);
    tcase_add_test(tc, texts_of_peers);
    tcase_add_test(tc, names_of_what_has_none);

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
