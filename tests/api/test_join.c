/*
 * test_join - the life of a server: made, started, waited for, freed.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct site site;

enum {
    LONG_MS = 600000, /* a grace that no test lives to see the end of */
};

static bool has_handlers(void *arg)
{
    return site_stats(&site).handlers == *(uint64_t *)arg;
}

/* Answers the Close of a stop, which must come next. */
static void answer_close(struct peer *p)
{
    peer_expect_close(p, 1001, "");
    peer_send_close(p, 1001, "");
    peer_expect_end(p);
}

static void link_answer(struct link *l)
{
    answer_close(l->peer);
    peer_free(l->peer);
    l->peer = NULL;
}

/* Ends the test of a server that was stopped. */
static void finish(struct link *l)
{
    site_end(&site);
    link_free(l);
    site_check_left(&site);
}

/* ---- joining ---- */

START_TEST(a_join_tells_how_many_handlers_do_not_return)
{
    enum { HANDLERS = 5 };
    struct held *held[HANDLERS];
    struct peer *peers[HANDLERS];
    unsigned running;
    uint64_t left;

    site_start(&site, NULL);
    for (int i = 0; i < HANDLERS; i++) {
        peers[i] = site_connect(&site);
        peer_ask(peers[i], "/hold");
        held[i] = held_next(&site);
        if (i % 2 == 0) {
            ck_assert_int_eq(held_accept(held[i]), 0);
            peer_expect_101(peers[i], "");
        }
    }
    running = 99;
    ck_assert_int_eq(nib_server_join(site.srv, 0, &running), -ETIMEDOUT);
    ck_assert_uint_eq(running, HANDLERS);
    nib_server_stop(site.srv, LONG_MS);
    for (int i = 0; i < HANDLERS; i++) {
        if (i % 2 == 0)
            answer_close(peers[i]);
        else
            peer_expect_text(peers[i], "HTTP/1.1 503 ");
        peer_free(peers[i]);
    }
    for (int i = HANDLERS; i > 0; i--) {
        for (int k = 0; k < 3; k++) {
            running = 99;
            ck_assert_int_eq(nib_server_join(site.srv, k, &running),
                             -ETIMEDOUT);
            ck_assert_uint_eq(running, (unsigned)i);
        }
        held_return(held[i - 1], 0);
        left = (uint64_t)i - 1;
        until(has_handlers, &left, "a handler that returns");
    }
    running = 99;
    ck_assert_int_eq(nib_server_join(site.srv, -1, &running), 0);
    ck_assert_uint_eq(running, 0);
    ck_assert_int_eq(nib_server_join(site.srv, 0, NULL), 0);
    site_free(&site);
}
END_TEST

static int join_in_handler(struct held *h, void *arg)
{
    unsigned running;

    (void)h;
    return nib_server_join(arg, -1, &running);
}

static int join_on_owner(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return nib_server_join(arg, -1, NULL);
}

START_TEST(the_servers_own_threads_do_not_join)
{
    static struct site other;
    struct link l;
    struct peer *p;
    struct held *h;

    site_start(&site, NULL);
    l = link_open(&site);
    p = site_connect(&site);
    peer_ask(p, "/hold");
    h = held_next(&site);
    ck_assert_int_eq(held_do(h, join_in_handler, site.srv), -EDEADLK);
    ck_assert_int_eq(on_owner(l.conn, join_on_owner, site.srv), -EDEADLK);
    nib_server_stop(site.srv, LONG_MS);
    ck_assert_int_eq(held_do(h, join_in_handler, site.srv), -EDEADLK);
    ck_assert_int_eq(on_owner(l.conn, join_on_owner, site.srv), -EDEADLK);
    /* A handler of one server may wait for another. */
    site_start(&other, NULL);
    nib_server_stop(other.srv, 0);
    ck_assert_int_eq(held_do(h, join_in_handler, other.srv), 0);
    site_free(&other);
    held_return(h, 0);
    link_answer(&l);
    peer_free(p);
    finish(&l);
}
END_TEST

static int join_job(void *arg)
{
    return nib_server_join(arg, -1, NULL);
}

static int stop_job(void *arg)
{
    nib_server_stop(arg, LONG_MS);
    return nib_server_join(arg, -1, NULL);
}

START_TEST(many_threads_may_stop_and_join)
{
    enum { ROUNDS = 20, THREADS = 4 };

    for (int round = 0; round < ROUNDS; round++) {
        struct job joiners[THREADS], stoppers[THREADS];
        struct link l;

        site_start(&site, NULL);
        l = link_open(&site);
        for (int i = 0; i < THREADS; i++)
            job_start(&joiners[i], join_job, site.srv);
        for (int i = 0; i < THREADS; i++)
            job_start(&stoppers[i], stop_job, site.srv);
        link_answer(&l);
        for (int i = 0; i < THREADS; i++) {
            ck_assert_int_eq(job_wait(&joiners[i]), 0);
            ck_assert_int_eq(job_wait(&stoppers[i]), 0);
        }
        finish(&l);
    }
}
END_TEST

/* ---- before the start, and without one ---- */

static struct nib_server *make(const char *address)
{
    struct nib_config *cfg;
    struct nib_server *srv;

    ck_assert_int_eq(nib_config_new(&cfg), 0);
    site_listen(cfg, address);
    ck_assert_int_eq(nib_config_set_reactors(cfg, 2), 0);
    ck_assert_int_eq(nib_server_new(cfg, &srv), 0);
    nib_config_free(cfg);
    return srv;
}

/* What is there besides a server. */
static void count_first(void)
{
    site_start(&site, NULL);
    site_stop(&site);
}

START_TEST(a_server_that_was_never_started_is_freed)
{
    struct nib_server *srv;
    struct nib_stats stats;
    char text[64];

    count_first();
    srv = make("tcp:127.0.0.1:0");
    ck_assert_int_eq(nib_server_join(srv, -1, NULL), NIB_ESTATE);
    ck_assert_int_eq(nib_server_address(srv, 0, text, sizeof text), -ENOENT);
    ck_assert_str_eq(nib_server_error(srv), "");
    nib_server_stats(srv, &stats);
    ck_assert_uint_eq(stats.accepted, 0);
    ck_assert_uint_eq(stats.connections, 0);
    nib_server_free(srv);
    srv = make("tcp:127.0.0.1:0");
    nib_server_stop(srv, 0);
    ck_assert_int_eq(nib_server_join(srv, -1, NULL), NIB_ESTATE);
    nib_server_free(srv);
    nib_server_free(NULL);
    site_check_left(&site);
}
END_TEST

START_TEST(a_stop_before_the_start_holds)
{
    static const unsigned graces[] = {0, LONG_MS};

    count_first();
    for (int i = 0; i < 2; i++) {
        struct nib_server *srv = make("tcp:127.0.0.1:0");

        nib_server_stop(srv, graces[i]);
        ck_assert_int_eq(nib_server_start(srv), 0);
        ck_assert_int_eq(nib_server_join(srv, -1, NULL), 0);
        ck_assert_int_eq(nib_server_start(srv), NIB_ESTATE);
        nib_server_free(srv);
    }
    site_check_left(&site);
}
END_TEST

START_TEST(a_server_starts_once)
{
    site_start(&site, NULL);
    ck_assert_int_eq(nib_server_start(site.srv), NIB_ESTATE);
    nib_server_stop(site.srv, 0);
    ck_assert_int_eq(nib_server_start(site.srv), NIB_ESTATE);
    ck_assert_int_eq(nib_server_join(site.srv, -1, NULL), 0);
    ck_assert_int_eq(nib_server_start(site.srv), NIB_ESTATE);
    site_free(&site);
}
END_TEST

/* Its address is taken: nothing of it is left running. */
START_TEST(a_server_that_cannot_start_is_freed)
{
    char address[160];
    struct nib_server *srv;

    site_start(&site, NULL);
    snprintf(address, sizeof address, "tcp:%s", site.address);
    srv = make(address);
    ck_assert_int_eq(nib_server_start(srv), -EADDRINUSE);
    ck_assert_ptr_nonnull(strstr(nib_server_error(srv), site.address));
    ck_assert_int_eq(nib_server_start(srv), NIB_ESTATE);
    nib_server_stop(srv, 0);
    nib_server_free(srv);
    site_stop(&site);
}
END_TEST

START_TEST(to_free_a_running_server_stops_it)
{
    struct link open, undecided = {.conn = NULL};
    struct nib_request *req;

    site_start(&site, NULL);
    open = link_open(&site);
    undecided.peer = site_connect(&site);
    peer_ask(undecided.peer, "/next");
    req = site_next(&site);
    nib_server_free(site.srv);
    peer_expect_text(undecided.peer, "HTTP/1.1 503 ");
    ck_assert_int_eq(nib_conn_state(open.conn), NIB_CLOSED);
    ck_assert_int_eq(nib_accept(req, NULL, NULL), -ECANCELED);
    nib_request_unref(req);
    link_free(&open);
    link_free(&undecided);
    site_check_left(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(a_join_tells_how_many_handlers_do_not_return),
        TEST(the_servers_own_threads_do_not_join),
        TEST(many_threads_may_stop_and_join),
        TEST(a_server_that_was_never_started_is_freed),
        TEST(a_stop_before_the_start_holds),
        TEST(a_server_starts_once),
        TEST(a_server_that_cannot_start_is_freed),
        TEST(to_free_a_running_server_stops_it),
    };

    return run_tests("join", tests, COUNT(tests));
}
