/*
 * test_tls_engine - handshakes and data between two sessions, in memory.
 *
 * For whichever TLS library is in; ticket and settings have tests of their
 * own.
 */

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tls/pair.h"

static struct pair pair;

START_TEST(they_talk)
{
    struct nib__engine *server = server_engine(NULL);
    struct nib__engine *client = client_engine(NULL);
    struct nib__tls_info info = meet(&pair, client, server);

    ck_assert_str_eq(info.version, nib__engine_has_version(NIB__TLS_1_3)
                                       ? "TLSv1.3"
                                       : "TLSv1.2");
    ck_assert_str_eq(info.server_name, "localhost");
    ck_assert_str_eq(info.peer_name, "");
    ck_assert(!info.resumed);
    pair_close(&pair);
    nib__engine_free(client);
    nib__engine_free(server);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tls_engine");
    TCase *tc = tcase_create("handshake");

    tcase_add_test(tc, they_talk);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    int failed;

    pair_folder();
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    pair_remove();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
