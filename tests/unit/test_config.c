/*
 * test_config - ranges, contradictions, the choice of a route.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "server/config.h"

static struct nib_config *cfg;

static void setup(void)
{
    nib__alloc_watch(true);
    ck_assert_int_eq(nib_config_new(&cfg), 0);
}

static void teardown(void)
{
    nib_config_free(cfg);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

/* The value was refused, and the text names it. */
static void refused(int result, const char *name)
{
    ck_assert_int_eq(result, -EINVAL);
    ck_assert_msg(strstr(nib_config_error(cfg), name) != NULL,
                  "\"%s\" does not name %s", nib_config_error(cfg), name);
}

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

START_TEST(ranges)
{
    ck_assert_str_eq(nib_config_error(cfg), "");
    refused(nib_config_set_reactors(cfg, 257), "reactors");
    ck_assert_int_eq(nib_config_set_reactors(cfg, 256), 0);
    refused(nib_config_set_handlers(cfg, 0, 1, 65536), "handlers");
    refused(nib_config_set_handlers(cfg, 100001, 1, 65536), "handlers");
    refused(nib_config_set_handlers(cfg, 1, 1, 65535), "stack_bytes");
    ck_assert_int_eq(nib_config_set_handlers(cfg, 100000, 0, 65536), 0);
    refused(nib_config_set_head(cfg, 1023, 1), "head");
    refused(nib_config_set_head(cfg, MIB + 1, 1), "head");
    refused(nib_config_set_head(cfg, 1024, 0), "head");
    refused(nib_config_set_head(cfg, 1024, 1001), "head");
    ck_assert_int_eq(nib_config_set_head(cfg, MIB, 1000), 0);
    refused(nib_config_set_message_bytes(cfg, 124), "message_bytes");
    refused(nib_config_set_message_bytes(cfg, GIB + 1), "message_bytes");
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, GIB), 0);
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 125), 0);
    refused(nib_config_set_inbox(cfg, 0, 1), "inbox");
    refused(nib_config_set_stash_bytes(cfg, 1023), "stash");
    refused(nib_config_set_stash_bytes(cfg, 16 * MIB + 1), "stash");
    refused(nib_config_set_frame_bytes(cfg, 1023), "frame_bytes");
    ck_assert_int_eq(nib_config_set_frame_bytes(cfg, 1024), 0);
    refused(nib_config_set_send_timeout_ms(cfg, -2), "send_timeout");
    refused(nib_config_set_stop_code(cfg, 1000), "stop");
    ck_assert_int_eq(nib_config_set_stop_code(cfg, 1012), 0);
    ck_assert_int_eq(nib_config_set_ping(cfg, 0, 0), 0);
    refused(nib_config_set_ping(cfg, 1000, 0), "ping");
    refused(nib_config_listen(cfg, "nonsense"), "nonsense");
}
END_TEST

/* A contradiction shows when the server is made. */
static void contradicts(const char *name)
{
    struct nib_config *copy;

    ck_assert_int_eq(nib__config_copy(cfg, &copy), NIB_ECONFIG);
    ck_assert_msg(strstr(nib_config_error(cfg), name) != NULL,
                  "\"%s\" does not name %s", nib_config_error(cfg), name);
}

static void agrees(void)
{
    struct nib_config *copy;

    ck_assert_int_eq(nib__config_copy(cfg, &copy), 0);
    nib_config_free(copy);
}

START_TEST(contradictions)
{
    agrees();
    nib_config_set_message_bytes(cfg, 2000);
    nib_config_set_outbox_bytes(cfg, 3999);
    contradicts("outbox_bytes");
    nib_config_set_outbox_bytes(cfg, 4000);
    agrees();
    nib_config_set_outbox_total_bytes(cfg, 3999);
    contradicts("outbox_total_bytes");
    nib_config_set_outbox_total_bytes(cfg, 4000);
    agrees();
    nib_config_set_ping(cfg, 1000, 1000);
    contradicts("ping");
    nib_config_set_ping(cfg, 1001, 1000);
    agrees();
    nib_config_set_topic_bytes(cfg, 3999, 0);
    contradicts("topic");
    nib_config_set_topic_bytes(cfg, 4000, 0);
    agrees();
    nib_config_set_max_connections(cfg, 2000000000);
    contradicts("max_connections");
}
END_TEST

START_TEST(defaults_are_worked_out_in_the_copy)
{
    struct nib_config *copy;

    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 3 * MIB), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 6 * MIB), 0);
    ck_assert_int_eq(nib__config_copy(cfg, &copy), 0);
    ck_assert_uint_gt(copy->limits.reactors, 0);
    ck_assert_uint_gt(copy->limits.max_connections, 0);
    ck_assert_uint_eq(copy->limits.topic_bytes, 6 * MIB);
    ck_assert_uint_eq(cfg->limits.reactors, 0);
    nib_config_free(copy);
}
END_TEST

START_TEST(the_best_route_wins)
{
    static const char *const patterns[] = {"/", "/a", "=/a", "/a/b", "=/x"};
    static const struct {
        const char *path;
        int route; /* -1: none */
    } paths[] = {
        {"/", 0},      {"/b", 0},    {"/ab", 0},  {"/a", 2},
        {"/a/", 1},    {"/a/c", 1},  {"/a/b", 3}, {"/a/b/c", 3},
        {"/a/bc", 1},  {"/x", 4},    {"/x/", 0},  {"/X", 0},
    };
    struct nib_route *route;
    struct nib_config *copy;

    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        ck_assert_int_eq(nib_config_route(cfg, patterns[i], &route), 0);
    ck_assert_int_eq(nib_config_route(cfg, "/a", &route), -EEXIST);
    ck_assert_int_eq(nib_config_route(cfg, "a", &route), -EINVAL);
    ck_assert_int_eq(nib_config_route(cfg, "", &route), -EINVAL);
    ck_assert_int_eq(nib__config_copy(cfg, &copy), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const struct nib_route *found =
            nib__config_route(copy, paths[i].path);
        const char *pattern = patterns[paths[i].route];

        ck_assert_ptr_nonnull(found);
        ck_assert_msg(found->exact == (*pattern == '=') &&
                          strcmp(found->pattern,
                                 pattern + (*pattern == '=')) == 0,
                      "%s goes to %s", paths[i].path, found->pattern);
    }
    nib_config_free(copy);
}
END_TEST

START_TEST(no_route_matches)
{
    struct nib_route *route;

    ck_assert_ptr_null(nib__config_route(cfg, "/"));
    ck_assert_int_eq(nib_config_route(cfg, "/a", &route), 0);
    ck_assert_ptr_null(nib__config_route(cfg, "/"));
    ck_assert_ptr_null(nib__config_route(cfg, "/ab"));
    ck_assert_ptr_null(nib__config_route(cfg, "*"));
}
END_TEST

static int handle(struct nib_request *req, void *arg)
{
    (void)req;
    (void)arg;
    return 0;
}

static void answer(struct nib_request *req, void *arg)
{
    (void)req;
    (void)arg;
}

START_TEST(a_route_has_one_of_each)
{
    static const struct nib_callbacks callbacks;
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, "/", &route), 0);
    ck_assert_int_eq(nib_route_set_handler(route, handle, NULL), 0);
    ck_assert_int_eq(nib_route_set_callbacks(route, &callbacks, NULL),
                     -EEXIST);
    ck_assert_int_eq(nib_route_set_handler(route, handle, NULL), -EEXIST);
    ck_assert_int_eq(nib_route_set_http(route, answer, NULL), 0);
    ck_assert_int_eq(nib_route_set_http(route, answer, NULL), -EEXIST);
    ck_assert_int_eq(nib_route_set_subprotocols(route, "a, b"), 0);
    ck_assert_int_eq(nib_route_set_subprotocols(route, "a b"), -EINVAL);
    ck_assert_int_eq(nib_route_set_send_timeout_ms(route, -2), -EINVAL);
    ck_assert_int_eq(nib_route_set_send_timeout_ms(route, -1), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, ranges);
    tcase_add_test(tcase, contradictions);
    tcase_add_test(tcase, defaults_are_worked_out_in_the_copy);
    tcase_add_test(tcase, the_best_route_wins);
    tcase_add_test(tcase, no_route_matches);
    tcase_add_test(tcase, a_route_has_one_of_each);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
