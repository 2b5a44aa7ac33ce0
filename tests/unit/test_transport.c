/*
 * test_transport - the plain transport, through the wrappers.
 */

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "system/transport.h"

enum {
    PIECES = IOV_MAX + 6, /* more than the kernel takes at once */
};

static struct nib__transport *plain;
static int ends[2];

static void setup(void)
{
    plain = nib__transport_plain();
    ck_assert_int_eq(socketpair(AF_UNIX,
                                SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                                ends),
                     0);
}

static void teardown(void)
{
    for (unsigned i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

static void close_end(unsigned i)
{
    close(ends[i]);
    ends[i] = -1;
}

static ssize_t write_text(const char *text)
{
    struct iovec piece = {(void *)(uintptr_t)text, strlen(text)};

    return nib__transport_write(plain, ends[0], &piece, 1);
}

START_TEST(there_is_one_and_it_needs_nothing)
{
    ck_assert_ptr_eq(nib__transport_plain(), plain);
    ck_assert_int_eq(nib__transport_handshake(plain, ends[0]), 0);
    ck_assert(!nib__transport_pending(plain));
    nib__transport_free(plain);
    ck_assert_int_eq(write_text("still there"), 11);
}
END_TEST

START_TEST(pieces_arrive_in_order)
{
    struct iovec pieces[] = {
        {(char[]){"one "}, 4}, {NULL, 0}, {(char[]){"two"}, 3}};
    char got[16];

    ck_assert_int_eq(nib__transport_write(plain, ends[0], pieces, 3), 7);
    ck_assert_int_eq(nib__transport_read(plain, ends[1], got, 5), 5);
    ck_assert_int_eq(nib__transport_read(plain, ends[1], got + 5, 11), 2);
    ck_assert_mem_eq(got, "one two", 7);
}
END_TEST

START_TEST(nothing_to_read)
{
    char got[4];

    ck_assert_int_eq(nib__transport_read(plain, ends[1], got, 4),
                     NIB__WANT_READ);
}
END_TEST

START_TEST(a_full_socket_takes_a_part_then_nothing)
{
    static char big[1 << 20];
    struct iovec piece = {big, sizeof(big)};
    ssize_t n = nib__transport_write(plain, ends[0], &piece, 1);

    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, (ssize_t)sizeof(big));
    do
        n = nib__transport_write(plain, ends[0], &piece, 1);
    while (n > 0);
    ck_assert_int_eq(n, NIB__WANT_WRITE);
}
END_TEST

/* The kernel refuses more than IOV_MAX; the rest is for the next call. */
START_TEST(many_pieces)
{
    static char bytes[PIECES];
    static struct iovec pieces[PIECES];
    static char got[PIECES + 1];

    for (int i = 0; i < PIECES; i++) {
        bytes[i] = (char)('a' + i % 26);
        pieces[i] = (struct iovec){bytes + i, 1};
    }
    ck_assert_int_eq(nib__transport_write(plain, ends[0], pieces, PIECES),
                     IOV_MAX);
    ck_assert_int_eq(nib__transport_write(plain, ends[0], pieces + IOV_MAX,
                                          PIECES - IOV_MAX),
                     PIECES - IOV_MAX);
    for (ssize_t n = 0; n < PIECES;) {
        ssize_t r = nib__transport_read(plain, ends[1], got + n,
                                        sizeof(got) - (size_t)n);

        ck_assert_int_gt(r, 0);
        n += r;
    }
    ck_assert_mem_eq(got, bytes, PIECES);
}
END_TEST

START_TEST(shutdown_is_the_end_for_the_peer)
{
    char got[4];

    ck_assert_int_eq(write_text("bye"), 3);
    ck_assert_int_eq(nib__transport_shutdown(plain, ends[0]), 0);
    ck_assert_int_eq(nib__transport_read(plain, ends[1], got, 4), 3);
    ck_assert_int_eq(nib__transport_read(plain, ends[1], got, 4), 0);
    ck_assert_int_eq(write_text("more"), -EPIPE);
    /* The other direction stays open. */
    ck_assert_int_eq(send(ends[1], "x", 1, 0), 1);
    ck_assert_int_eq(nib__transport_read(plain, ends[0], got, 4), 1);
}
END_TEST

/* Without MSG_NOSIGNAL this would end the process. */
START_TEST(a_peer_that_is_gone)
{
    char got[4];

    close_end(1);
    ck_assert_int_eq(write_text("x"), -EPIPE);
    ck_assert_int_eq(nib__transport_read(plain, ends[0], got, 4), 0);
    ck_assert_int_eq(nib__transport_shutdown(plain, ends[0]), 0);
}
END_TEST

/* A unix peer that leaves bytes unread resets the connection. */
START_TEST(a_peer_that_resets)
{
    char got[4];

    ck_assert_int_eq(write_text("unread"), 6);
    close_end(1);
    ck_assert_int_eq(nib__transport_read(plain, ends[0], got, 4), -ECONNRESET);
}
END_TEST

START_TEST(no_connection)
{
    char got[4];
    struct iovec piece = {got, 1};
    int lonely = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    ck_assert_int_ge(lonely, 0);
    ck_assert_int_eq(nib__transport_read(plain, lonely, got, 4), -ENOTCONN);
    ck_assert_int_eq(nib__transport_write(plain, lonely, &piece, 1), -EPIPE);
    ck_assert_int_eq(nib__transport_shutdown(plain, lonely), -ENOTCONN);
    close(lonely);
    ck_assert_int_eq(nib__transport_read(plain, -1, got, 4), -EBADF);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport");
    TCase *tc = tcase_create("plain");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, there_is_one_and_it_needs_nothing);
    tcase_add_test(tc, pieces_arrive_in_order);
    tcase_add_test(tc, nothing_to_read);
    tcase_add_test(tc, a_full_socket_takes_a_part_then_nothing);
    tcase_add_test(tc, many_pieces);
    tcase_add_test(tc, shutdown_is_the_end_for_the_peer);
    tcase_add_test(tc, a_peer_that_is_gone);
    tcase_add_test(tc, a_peer_that_resets);
    tcase_add_test(tc, no_connection);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
