/*
 * test_next - nib_server_next(), for applications with threads of their own.
 */
#include "fixture.h"

#include <errno.h>
#include <string.h>

static struct site site;

static int next_result(int timeout_ms)
{
    struct nib_request *req = NULL;
    int err = nib_server_next(site.srv, &req, timeout_ms);

    nib_request_unref(req);
    return err;
}

static bool is_queued(void *arg)
{
    return site_stats(&site).handlers_queued == *(uint64_t *)arg;
}

/* Waits until so many requests wait to be taken. */
static void await_queued(uint64_t length)
{
    until(is_queued, &length, "a number of waiting requests");
}

/* A thread that waits for one request. */
struct taker {
    struct job job;
    struct nib_request *req;
};

static int take(void *arg)
{
    struct taker *t = arg;

    return nib_server_next(site.srv, &t->req, -1);
}

enum { TAKERS = 8 };

static void takers_start(struct taker *takers)
{
    for (int i = 0; i < TAKERS; i++) {
        takers[i].req = NULL;
        job_start(&takers[i].job, take, &takers[i]);
    }
    for (int i = 0; i < TAKERS; i++)
        job_await_sleep(&takers[i].job);
}

START_TEST(a_wait_has_an_end)
{
    site_start(&site, NULL);
    ck_assert_int_eq(next_result(0), -ETIMEDOUT);
    ck_assert_int_eq(next_result(1), -ETIMEDOUT);
    ck_assert_int_eq(next_result(30), -ETIMEDOUT);
    site_stop(&site);
}
END_TEST

/* A route below which the path says which request it is. */
static void any_path(struct nib_config *cfg)
{
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, "/any", &route), 0);
}

START_TEST(waiting_threads_get_one_request_each)
{
    struct taker takers[TAKERS];
    struct peer *peers[TAKERS];
    unsigned seen = 0;

    site_start(&site, any_path);
    takers_start(takers);
    for (int i = 0; i < TAKERS; i++) {
        char path[] = "/any/0";

        path[5] = (char)('0' + i);
        peers[i] = site_connect(&site);
        peer_ask(peers[i], path);
    }
    for (int i = 0; i < TAKERS; i++) {
        const char *path;

        ck_assert_int_eq(job_wait(&takers[i].job), 0);
        path = nib_request_path(takers[i].req);
        ck_assert_uint_eq(strlen(path), 6);
        seen |= 1u << (path[5] - '0');
        ck_assert_int_eq(nib_reject(takers[i].req, 410, NULL, 0, path, 6), 0);
        nib_request_unref(takers[i].req);
    }
    ck_assert_uint_eq(seen, (1u << TAKERS) - 1);
    for (int i = 0; i < TAKERS; i++) {
        char path[] = "/any/0";

        path[5] = (char)('0' + i);
        peer_expect_text(peers[i], "HTTP/1.1 410 Gone\r\n");
        peer_read_head(peers[i]);
        peer_expect_text(peers[i], path);
        peer_expect_end(peers[i]);
        peer_free(peers[i]);
    }
    ck_assert_int_eq(next_result(0), -ETIMEDOUT);
    site_stop(&site);
}
END_TEST

static bool one_has_taken(void *arg)
{
    const struct taker *takers = arg;
    int taken = 0;

    for (int i = 0; i < TAKERS; i++)
        taken += atomic_load(&takers[i].job.ended);
    return taken == 1;
}

START_TEST(one_request_is_taken_by_one_thread)
{
    struct taker takers[TAKERS];
    struct peer *p;
    int taken;

    site_start(&site, NULL);
    takers_start(takers);
    p = site_connect(&site);
    peer_ask(p, "/next");
    until(one_has_taken, takers, "a thread that takes the request");
    ck_assert_int_eq(next_result(0), -ETIMEDOUT);
    nib_server_stop(site.srv, 0);
    ck_assert_int_eq(nib_server_join(site.srv, -1, NULL), 0);
    taken = 0;
    for (int i = 0; i < TAKERS; i++) {
        int result = job_wait(&takers[i].job);

        if (takers[i].req == NULL) {
            ck_assert_int_eq(result, -ECANCELED);
            continue;
        }
        ck_assert_int_eq(result, 0);
        ck_assert_int_eq(nib_accept(takers[i].req, NULL, NULL), -ECANCELED);
        nib_request_unref(takers[i].req);
        taken++;
    }
    ck_assert_int_eq(taken, 1);
    peer_free(p);
    site_free(&site);
}
END_TEST

START_TEST(requests_come_in_the_order_of_their_arrival)
{
    enum { REQUESTS = 20 };
    struct peer *peers[REQUESTS];

    site_start(&site, any_path);
    for (int i = 0; i < REQUESTS; i++) {
        char path[] = "/any/a";

        path[5] = (char)('a' + i);
        peers[i] = site_connect(&site);
        peer_ask(peers[i], path);
        await_queued((uint64_t)i + 1);
    }
    for (int i = 0; i < REQUESTS; i++) {
        struct nib_request *req = site_next(&site);

        ck_assert_int_eq(nib_request_path(req)[5], 'a' + i);
        nib_request_unref(req);
        peer_expect_text(peers[i], "HTTP/1.1 500 ");
        peer_free(peers[i]);
    }
    site_stop(&site);
}
END_TEST

START_TEST(who_has_left_is_not_handed_out)
{
    site_start(&site, NULL);
    for (int i = 0; i < 4; i++) {
        struct peer *p = site_connect(&site);

        peer_ask(p, "/next");
        await_queued(1);
        if (i % 2 == 0)
            peer_free(p);
        else
            peer_reset(p);
        site_await_connections(&site, 0);
        ck_assert_uint_eq(site_stats(&site).handlers_queued, 0);
        ck_assert_int_eq(next_result(0), -ETIMEDOUT);
    }
    site_stop(&site);
}
END_TEST

static void brief(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_handshake_timeout_ms(
                         cfg, site_short_ms(50)), 0);
}

START_TEST(what_is_too_old_is_not_handed_out)
{
    struct peer *p;

    site_start(&site, brief);
    p = site_connect(&site);
    peer_ask(p, "/next");
    peer_expect_text(p, "HTTP/1.1 503 ");
    ck_assert_int_eq(next_result(0), -ETIMEDOUT);
    peer_free(p);
    site_stop(&site);
}
END_TEST

static int next_here(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return next_result(*(int *)arg);
}

START_TEST(a_reactor_takes_no_requests)
{
    int timeouts[] = {0, -1};
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(on_owner(l.conn, next_here, &timeouts[i]),
                         -EDEADLK);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

static int next_in_handler(struct held *h, void *arg)
{
    (void)h;
    return nib_server_next(site.srv, arg, -1);
}

START_TEST(a_handler_may_take_requests_as_well)
{
    struct nib_request *req = NULL;
    struct peer *handled, *p;
    struct held *h;

    site_start(&site, NULL);
    handled = site_connect(&site);
    peer_ask(handled, "/hold");
    h = held_next(&site);
    held_start(h, next_in_handler, &req);
    p = site_connect(&site);
    peer_ask(p, "/next");
    ck_assert_int_eq(held_wait(h), 0);
    ck_assert_str_eq(nib_request_path(req), "/next");
    ck_assert_int_eq(nib_accept(req, NULL, NULL), 0);
    peer_expect_101(p, "");
    nib_request_unref(req);
    held_return(h, 0);
    peer_expect_text(handled, "HTTP/1.1 500 ");
    peer_free(handled);
    peer_free(p);
    site_stop(&site);
}
END_TEST

static void stop_wakes(unsigned grace_ms)
{
    struct taker takers[TAKERS];

    site_start(&site, NULL);
    takers_start(takers);
    nib_server_stop(site.srv, grace_ms);
    for (int i = 0; i < TAKERS; i++) {
        ck_assert_int_eq(job_wait(&takers[i].job), -ECANCELED);
        ck_assert_ptr_null(takers[i].req);
    }
    for (int i = -1; i < 2; i++)
        ck_assert_int_eq(next_result(i), -ECANCELED);
    ck_assert_int_eq(nib_server_join(site.srv, -1, NULL), 0);
    for (int i = -1; i < 2; i++)
        ck_assert_int_eq(next_result(i), -ECANCELED);
    site_free(&site);
}

START_TEST(a_stop_wakes_who_waits)
{
    stop_wakes(0);
    stop_wakes(600000);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(a_wait_has_an_end),
        TEST(waiting_threads_get_one_request_each),
        TEST(one_request_is_taken_by_one_thread),
        TEST(requests_come_in_the_order_of_their_arrival),
        TEST(who_has_left_is_not_handed_out),
        TEST(what_is_too_old_is_not_handed_out),
        TEST(a_reactor_takes_no_requests),
        TEST(a_handler_may_take_requests_as_well),
        TEST(a_stop_wakes_who_waits),
    };

    return run_tests("next", tests, COUNT(tests));
}
