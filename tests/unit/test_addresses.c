/*
 * test_addresses - connections counted by peer.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "server/addresses.h"

static struct nib__addresses a;

static struct nib__peer peer(int family, unsigned host, unsigned port)
{
    struct nib__peer p;

    memset(&p, 0, sizeof p);
    p.family = (uint8_t)family;
    p.port = (uint16_t)port;
    memcpy(p.bytes, &host, sizeof host);
    return p;
}

static bool enter(int family, unsigned host, unsigned port)
{
    struct nib__peer p = peer(family, host, port);

    return nib__addresses_enter(&a, &p);
}

static void leave(int family, unsigned host, unsigned port)
{
    struct nib__peer p = peer(family, host, port);

    nib__addresses_leave(&a, &p);
}

static void setup(void)
{
    nib__alloc_watch(true);
    ck_assert_int_eq(nib__addresses_init(&a, 2), 0);
}

static void teardown(void)
{
    nib__addresses_destroy(&a);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

START_TEST(the_limit_is_of_each_host)
{
    ck_assert(enter(AF_INET, 1, 1000));
    ck_assert(enter(AF_INET, 1, 1001));
    ck_assert(!enter(AF_INET, 1, 1002));
    ck_assert(enter(AF_INET, 2, 1000));
    ck_assert(enter(AF_INET6, 1, 1000));
    leave(AF_INET, 1, 1000);
    ck_assert(enter(AF_INET, 1, 1003));
    ck_assert(!enter(AF_INET, 1, 1004));
}
END_TEST

START_TEST(many_hosts)
{
    enum { HOSTS = 20000 };

    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < HOSTS; i++)
            if (!enter(AF_INET, i, i))
                ck_abort_msg("host %u is refused", i);
    for (unsigned i = 0; i < HOSTS; i += 2) {
        if (enter(AF_INET, i, 0))
            ck_abort_msg("host %u is let in", i);
        leave(AF_INET, i, i);
        leave(AF_INET, i, i);
    }
    for (unsigned i = 0; i < HOSTS; i++)
        if (enter(AF_INET, i, 0) != (i % 2 == 0))
            ck_abort_msg("host %u is counted wrong", i);
}
END_TEST

START_TEST(unix_sockets_do_not_count)
{
    for (unsigned i = 0; i < 10; i++)
        ck_assert(enter(AF_UNIX, 0, 0));
    leave(AF_UNIX, 0, 0);
}
END_TEST

START_TEST(without_memory_nobody_is_let_in)
{
    nib__alloc_fail_at(1);
    ck_assert(!enter(AF_INET, 1, 1));
    ck_assert(enter(AF_INET, 1, 1));
}
END_TEST

START_TEST(without_a_limit_nothing_is_kept)
{
    nib__addresses_destroy(&a);
    ck_assert_int_eq(nib__addresses_init(&a, 0), 0);
    for (unsigned i = 0; i < 1000; i++)
        ck_assert(enter(AF_INET, 1, i));
    ck_assert_int_eq(nib__alloc_live(), 0);
    leave(AF_INET, 1, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("addresses");
    TCase *tcase = tcase_create("addresses");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, the_limit_is_of_each_host);
    tcase_add_test(tcase, many_hosts);
    tcase_add_test(tcase, unix_sockets_do_not_count);
    tcase_add_test(tcase, without_memory_nobody_is_let_in);
    tcase_add_test(tcase, without_a_limit_nothing_is_kept);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
