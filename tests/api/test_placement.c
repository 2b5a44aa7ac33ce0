/*
 * test_placement - connections are spread over the reactors, also when many
 * of them have gone.
 *
 * Which reactor owns a connection is told by the thread of its on_open.
 */
#include "fixture.h"

#include <string.h>
#include <unistd.h>

static struct site site;

enum { REACTORS = 4, CONNECTIONS = 1000 };

/* What on_open notes, under the site's lock. */
static struct {
    pid_t threads[REACTORS];
    unsigned counts[REACTORS]; /* of each */
    unsigned reactors;
    unsigned opened;
    unsigned owners[2 * CONNECTIONS]; /* numbers in the order of opening */
} seen;

static void note_owner(struct site *s, struct nib_conn *conn)
{
    pid_t tid = gettid();
    unsigned i = 0;

    (void)conn;
    pthread_mutex_lock(&s->lock);
    while (i < seen.reactors && seen.threads[i] != tid)
        i++;
    must(i < REACTORS);
    if (i == seen.reactors)
        seen.threads[seen.reactors++] = tid;
    seen.counts[i]++;
    must(seen.opened < COUNT(seen.owners));
    seen.owners[seen.opened++] = i;
    pthread_mutex_unlock(&s->lock);
}

static void four_reactors(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_reactors(cfg, REACTORS), 0);
}

static void start(void)
{
    memset(&seen, 0, sizeof seen);
    site_start(&site, four_reactors);
    site.on_open = note_owner;
}

/* Opens one connection after the other; returns the first one's number. */
static unsigned open_all(struct peer **peers, unsigned count)
{
    unsigned first = seen.opened;

    for (unsigned i = 0; i < count; i++) {
        peers[i] = site_connect(&site);
        peer_upgrade(peers[i], "/cb");
        site_event(&site, EVENT_REQUEST);
        site_event(&site, EVENT_OPEN);
    }
    return first;
}

static void close_all(struct peer **peers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        peer_free(peers[i]);
    site_await_connections(&site, 0);
    site_stop(&site);
}

/* No reactor has twice as many as another. */
static void check_even(const unsigned *counts, unsigned total)
{
    unsigned least = counts[0], most = counts[0], sum = 0;

    for (int i = 0; i < REACTORS; i++) {
        least = counts[i] < least ? counts[i] : least;
        most = counts[i] > most ? counts[i] : most;
        sum += counts[i];
    }
    ck_assert_uint_eq(sum, total);
    ck_assert_uint_gt(least, 0);
    ck_assert_uint_lt(most, 2 * least);
}

START_TEST(connections_are_spread_one_by_one)
{
    static struct peer *peers[CONNECTIONS];

    start();
    open_all(peers, CONNECTIONS);
    ck_assert_uint_eq(seen.reactors, REACTORS);
    check_even(seen.counts, CONNECTIONS);
    close_all(peers, CONNECTIONS);
}
END_TEST

static bool all_opened(void *arg)
{
    unsigned opened;

    (void)arg;
    pthread_mutex_lock(&site.lock);
    opened = seen.opened;
    pthread_mutex_unlock(&site.lock);
    return opened == CONNECTIONS;
}

/* Nobody waits for an answer before the next one asks. */
START_TEST(connections_are_spread_in_a_burst)
{
    static struct peer *peers[CONNECTIONS];

    start();
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        peers[i] = site_connect(&site);
        peer_ask(peers[i], "/cb");
    }
    for (unsigned i = 0; i < CONNECTIONS; i++)
        peer_expect_101(peers[i], "");
    /* The 101 may be there before its on_open has run. */
    until(all_opened, NULL, "on_open of all connections");
    ck_assert_uint_eq(seen.reactors, REACTORS);
    check_even(seen.counts, CONNECTIONS);
    close_all(peers, CONNECTIONS);
}
END_TEST

/* When all connections of two reactors are gone, new ones go there. */
START_TEST(what_has_gone_is_filled_up)
{
    enum { PART = CONNECTIONS / 2 };
    static struct peer *peers[PART], *more[PART];
    unsigned counts[REACTORS], left = 0;

    start();
    open_all(peers, PART);
    ck_assert_uint_eq(seen.reactors, REACTORS);
    memcpy(counts, seen.counts, sizeof counts);
    for (unsigned i = 0; i < PART; i++) {
        if (seen.owners[i] >= REACTORS / 2) {
            left++;
            continue;
        }
        peer_free(peers[i]);
        peers[i] = NULL;
        counts[seen.owners[i]]--;
    }
    site_await_connections(&site, left);
    for (unsigned i = left; i < PART; i++)
        site_event(&site, EVENT_CLOSE);
    ck_assert_uint_eq(counts[0] + counts[1], 0);
    for (unsigned i = open_all(more, PART), end = i + PART; i < end; i++)
        counts[seen.owners[i]]++;
    check_even(counts, left + PART);
    for (unsigned i = 0; i < PART; i++)
        peer_free(peers[i]);
    close_all(more, PART);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(connections_are_spread_one_by_one),
        TEST(connections_are_spread_in_a_burst),
        TEST(what_has_gone_is_filled_up),
    };

    return run_tests("placement", tests, COUNT(tests));
}
