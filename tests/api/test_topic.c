/*
 * test_topic - what publishers and subscribers may rely on.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct site site;

enum {
    MESSAGE = 8192,
    OUTBOX = 16384,
    TOPIC = 65536, /* half of it takes three messages, and no fourth */
};

static struct nib_message *binary(const void *data, size_t len)
{
    struct nib_message *msg = NULL;

    must(nib_message_new(NIB_BINARY, data, len, &msg) == 0);
    return msg;
}

/* Publishes a text; returns the result. */
static int publish(const char *topic, const char *text, unsigned flags)
{
    struct nib_message *msg;
    int err;

    must(nib_message_new(NIB_TEXT, text, strlen(text), &msg) == 0);
    err = nib_publish(site.srv, topic, msg, NULL, flags);
    nib_message_unref(msg);
    return err;
}

static bool no_topic_bytes(void *arg)
{
    return site_stats(arg).topic_bytes == 0;
}

/* Ends the test: with the last subscriber the topics' memory goes. */
static void finish(struct link *links, size_t count)
{
    for (size_t i = 0; i < count; i++)
        link_finish(&links[i]);
    until(no_topic_bytes, &site, "0 bytes of topics");
    site_stop(&site);
}

START_TEST(subscribe_then_publish_never_misses)
{
    enum { ROUNDS = 200 };
    struct link links[4];
    char text[16];

    site_start(&site, NULL);
    for (size_t i = 0; i < COUNT(links); i++)
        links[i] = link_open(&site);
    for (int i = 0; i < ROUNDS; i++) {
        struct link *l = &links[i % 4];

        snprintf(text, sizeof text, "%d", i);
        ck_assert_int_eq(nib_subscribe(l->conn, "t"), 0);
        ck_assert_int_eq(publish("t", text, 0), 0);
        ck_assert_int_eq(nib_unsubscribe(l->conn, "t"), 0);
        ck_assert_int_eq(publish("t", "missed", 0), 0);
        peer_expect_message(l->peer, text);
    }
    finish(links, COUNT(links));
}
END_TEST

START_TEST(a_subscription_is_one_however_often_it_is_made)
{
    struct nib_publish_counts counts;
    struct nib_message *msg = binary("x", 1);
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_unsubscribe(l.conn, "t"), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
    ck_assert_int_eq(nib_publish_wait(site.srv, "t", msg, NULL, 0, &counts),
                     0);
    ck_assert_uint_eq(counts.queued, 1);
    peer_expect_frame(l.peer, PEER_BINARY, "x", 1);
    ck_assert_int_eq(nib_unsubscribe(l.conn, "t"), 0);
    ck_assert_int_eq(nib_unsubscribe(l.conn, "t"), 0);
    ck_assert_int_eq(nib_publish_wait(site.srv, "t", msg, NULL, 0, &counts),
                     0);
    ck_assert_uint_eq(counts.queued, 0);
    nib_message_unref(msg);
    finish(&l, 1);
}
END_TEST

START_TEST(what_was_before_an_unsubscribe_is_delivered)
{
    struct link l;
    char text[16];

    site_start(&site, NULL);
    l = link_open(&site);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
        for (int i = 0; i < 100; i++) {
            snprintf(text, sizeof text, "%d/%d", round, i);
            ck_assert_int_eq(publish("t", text, 0), 0);
        }
        ck_assert_int_eq(nib_unsubscribe(l.conn, "t"), 0);
        ck_assert_int_eq(publish("t", "missed", 0), 0);
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 100; i++) {
            snprintf(text, sizeof text, "%d/%d", round, i);
            peer_expect_message(l.peer, text);
        }
    finish(&l, 1);
}
END_TEST

START_TEST(a_topic_has_a_name)
{
    static char name[1026];
    struct nib_message *msg = binary("x", 1);
    struct nib_publish_counts counts;
    struct link l;

    memset(name, 'n', 1025);
    site_start(&site, NULL);
    l = link_open(&site);
    for (int i = 0; i < 2; i++) {
        const char *wrong = i == 0 ? "" : name;

        ck_assert_int_eq(nib_subscribe(l.conn, wrong), -EINVAL);
        ck_assert_int_eq(nib_unsubscribe(l.conn, wrong), -EINVAL);
        ck_assert_int_eq(nib_publish(site.srv, wrong, msg, NULL, 0),
                         -EINVAL);
        ck_assert_int_eq(nib_publish_wait(site.srv, wrong, msg, NULL, 0,
                                          &counts),
                         -EINVAL);
    }
    name[1024] = '\0';
    ck_assert_int_eq(nib_subscribe(l.conn, name), 0);
    ck_assert_int_eq(nib_publish(site.srv, name, msg, NULL, 0), 0);
    peer_expect_frame(l.peer, PEER_BINARY, "x", 1);
    /* Nobody listens to what is a byte shorter. */
    name[1023] = '\0';
    ck_assert_int_eq(nib_publish(site.srv, name, msg, NULL, 0), 0);
    ck_assert_int_eq(nib_publish_wait(site.srv, name, msg, NULL, 0, &counts),
                     0);
    ck_assert_uint_eq(counts.queued + counts.dropped + counts.closed, 0);
    nib_message_unref(msg);
    finish(&l, 1);
}
END_TEST

/* ---- one order ---- */

enum { PUBLISHERS = 4, EACH = 200, LISTENERS = 6 };

static int publish_many(void *arg)
{
    uint8_t data[3] = {*(uint8_t *)arg};
    int err = 0;

    for (unsigned i = 0; i < EACH && err == 0; i++) {
        struct nib_message *msg;

        data[1] = (uint8_t)(i >> 8);
        data[2] = (uint8_t)i;
        msg = binary(data, sizeof data);
        err = nib_publish(site.srv, "t", msg, NULL, 0);
        nib_message_unref(msg);
    }
    return err;
}

START_TEST(all_subscribers_see_one_order)
{
    static uint8_t order[PUBLISHERS * EACH][3];
    unsigned next[PUBLISHERS] = {0};
    uint8_t numbers[PUBLISHERS];
    struct link links[LISTENERS];
    struct job jobs[PUBLISHERS];

    site_start(&site, NULL);
    for (int i = 0; i < LISTENERS; i++) {
        links[i] = link_open(&site);
        ck_assert_int_eq(nib_subscribe(links[i].conn, "t"), 0);
    }
    for (int i = 0; i < PUBLISHERS; i++) {
        numbers[i] = (uint8_t)i;
        job_start(&jobs[i], publish_many, &numbers[i]);
    }
    for (int i = 0; i < PUBLISHERS; i++)
        ck_assert_int_eq(job_wait(&jobs[i]), 0);
    for (unsigned i = 0; i < PUBLISHERS * EACH; i++) {
        struct peer_frame f = peer_read_frame(links[0].peer);

        ck_assert_uint_eq(f.len, 3);
        memcpy(order[i], f.data, 3);
        ck_assert_uint_lt(order[i][0], PUBLISHERS);
        ck_assert_uint_eq(order[i][1] << 8 | order[i][2],
                          next[order[i][0]]++);
    }
    for (int k = 1; k < LISTENERS; k++)
        for (unsigned i = 0; i < PUBLISHERS * EACH; i++)
            peer_expect_frame(links[k].peer, PEER_BINARY, order[i], 3);
    ck_assert_uint_eq(site_stats(&site).published, PUBLISHERS * EACH);
    finish(links, LISTENERS);
}
END_TEST

/* ---- frames ---- */

static void frames_of_1024(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_frame_bytes(cfg, 1024), 0);
}

/* Reads a message in frames of 1024; counts pongs in between. */
static char read_cut(struct peer *p, size_t len, unsigned *pongs)
{
    size_t done = 0;
    char letter = '\0';

    while (done < len) {
        struct peer_frame f = peer_read_frame(p);
        size_t part = len - done < 1024 ? len - done : 1024;

        if (f.first == PEER_PONG) {
            ++*pongs;
            continue;
        }
        ck_assert_uint_eq(f.first, (done == 0 ? 0x02u : 0u) |
                                       (done + part == len ? 0x80u : 0u));
        ck_assert_uint_eq(f.len, part);
        if (done == 0)
            letter = (char)f.data[0];
        for (size_t i = 0; i < f.len; i++)
            ck_assert_int_eq((char)f.data[i], letter);
        done += part;
    }
    return letter;
}

START_TEST(published_direct_and_pongs_stay_whole)
{
    enum { LEN = 5000, TIMES = 20 };
    static char published[LEN], direct[LEN];
    struct nib_message *msg;
    struct link l;
    unsigned pongs = 0, seen[2] = {0};

    memset(published, 'p', LEN);
    memset(direct, 'd', LEN);
    site_start(&site, frames_of_1024);
    l = link_open(&site);
    ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
    msg = binary(published, LEN);
    for (int i = 0; i < TIMES; i++) {
        ck_assert_int_eq(nib_publish(site.srv, "t", msg, NULL, 0), 0);
        ck_assert_int_eq(nib_send(l.conn, direct, LEN, NIB_BINARY), 0);
        if (i % 2 == 0)
            peer_send_frame(l.peer, PEER_PING, "", 0);
    }
    nib_message_unref(msg);
    for (int i = 0; i < 2 * TIMES; i++)
        seen[read_cut(l.peer, LEN, &pongs) == 'p']++;
    ck_assert_uint_eq(seen[0], TIMES);
    ck_assert_uint_eq(seen[1], TIMES);
    for (; pongs < TIMES / 2; pongs++)
        peer_expect_frame(l.peer, PEER_PONG, "", 0);
    finish(&l, 1);
}
END_TEST

/* ---- back-pressure ---- */

/* Little room in a topic and in sockets. */
static void tight(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, MESSAGE), 0);
    ck_assert_int_eq(nib_config_set_topic_bytes(cfg, TOPIC, 0), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 4096, 0), 0);
    ck_assert_int_eq(nib_config_set_send_timeout_ms(cfg, -1), 0);
    ck_assert_int_eq(nib_config_set_ping(cfg, 0, 0), 0);
}

static void tight_and_brief(struct nib_config *cfg)
{
    tight(cfg);
    ck_assert_int_eq(nib_config_set_send_timeout_ms(cfg, 30), 0);
}

static void tight_and_slow(struct nib_config *cfg)
{
    tight(cfg);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, OUTBOX), 0);
}

/* Reads what came before the Close of a slow subscriber, and that. */
static void expect_slow(struct link *l)
{
    struct peer_frame f;

    while ((f = peer_read_frame(l->peer)).first == PEER_BINARY)
        ck_assert_uint_eq(f.len, MESSAGE);
    ck_assert_uint_eq(f.first, PEER_CLOSE);
    ck_assert_uint_eq(f.len, 2 + strlen("slow consumer"));
    ck_assert_uint_eq(f.data[0] << 8 | f.data[1], 1013);
    peer_send_close(l->peer, 1013, "");
    peer_expect_end(l->peer);
    peer_half_close(l->peer);
    await_closed(l->conn);
    expect_info(l->conn, 1013, true, true, "slow consumer");
    link_free(l);
}

static int publish_one(void *arg)
{
    return nib_publish(site.srv, "t", arg, NULL, 0);
}

START_TEST(a_slow_subscriber_is_closed_and_nobody_else)
{
    static char data[MESSAGE];
    struct nib_message *msg = binary(data, MESSAGE);
    struct nib_publish_counts counts;
    uint64_t closed = 0, count = 0;
    struct link links[2];

    site_start(&site, tight_and_slow);
    links[0] = link_accept(&site, peer_connect(site.address, 4096));
    links[1] = link_open(&site);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(nib_subscribe(links[i].conn, "t"), 0);
    for (; closed == 0 && count < 1000; count++) {
        ck_assert_int_eq(nib_publish_wait(site.srv, "t", msg, NULL, 0,
                                          &counts),
                         0);
        ck_assert_uint_eq(counts.dropped, 0);
        ck_assert_uint_eq(counts.queued, 2);
        closed += counts.closed;
        peer_expect_frame(links[1].peer, PEER_BINARY, data, MESSAGE);
    }
    ck_assert_uint_eq(closed, 1);
    ck_assert_uint_eq(site_stats(&site).slow, 1);
    expect_slow(&links[0]);
    ck_assert_int_eq(nib_publish_wait(site.srv, "t", msg, NULL, 0, &counts),
                     0);
    ck_assert_uint_eq(counts.queued, 1);
    peer_expect_frame(links[1].peer, PEER_BINARY, data, MESSAGE);
    nib_message_unref(msg);
    finish(&links[1], 1);
}
END_TEST

/* Keeps a reactor busy: what is published waits in its log. */
struct gate {
    struct latch entered;
    struct latch opened;
};

static void stand(struct nib_conn *conn, void *arg)
{
    struct gate *g = arg;

    (void)conn;
    latch_add(&g->entered);
    latch_await(&g->opened, 1);
}

static void shut_gate(struct gate *g, struct nib_conn *conn)
{
    latch_init(&g->entered);
    latch_init(&g->opened);
    ck_assert_int_eq(nib_post(conn, stand, NULL, g), 0);
    latch_await(&g->entered, 1);
}

/* Publishes until the topic takes no more. */
static void fill_topic(struct nib_message *msg)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(nib_publish(site.srv, "t", msg, NULL, NIB_NOWAIT),
                         0);
    ck_assert_int_eq(nib_publish(site.srv, "t", msg, NULL, NIB_NOWAIT),
                     -EAGAIN);
}

START_TEST(a_full_topic_holds_publishers_back)
{
    static char data[MESSAGE];
    struct nib_message *msg = binary(data, MESSAGE);
    struct gate gate;
    struct job jobs[3];
    struct link l;

    site_start(&site, tight);
    l = link_open(&site);
    ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
    shut_gate(&gate, l.conn);
    fill_topic(msg);
    for (int i = 0; i < 3; i++) {
        job_start(&jobs[i], publish_one, msg);
        job_await_sleep(&jobs[i]);
    }
    latch_add(&gate.opened);
    for (int i = 0; i < 6; i++)
        peer_expect_frame(l.peer, PEER_BINARY, data, MESSAGE);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(job_wait(&jobs[i]), 0);
    nib_message_unref(msg);
    finish(&l, 1);
}
END_TEST

START_TEST(a_publish_that_times_out_leaves_nothing)
{
    static char data[MESSAGE];
    struct nib_message *msg = binary(data, MESSAGE);
    struct nib_publish_counts counts;
    struct gate gate;
    struct link l;

    site_start(&site, tight_and_brief);
    l = link_open(&site);
    ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
    shut_gate(&gate, l.conn);
    fill_topic(msg);
    ck_assert_int_eq(publish_one(msg), -ETIMEDOUT);
    ck_assert_int_eq(nib_publish_wait(site.srv, "t", msg, NULL, 0, &counts),
                     -ETIMEDOUT);
    ck_assert_uint_eq(counts.queued, 0);
    latch_add(&gate.opened);
    for (int i = 0; i < 3; i++)
        peer_expect_frame(l.peer, PEER_BINARY, data, MESSAGE);
    ck_assert_int_eq(publish("t", "after", 0), 0);
    peer_expect_message(l.peer, "after");
    nib_message_unref(msg);
    finish(&l, 1);
}
END_TEST

/* ---- all topics together ---- */

enum { TOTAL = 4 * 65536 };

static void total(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_reactors(cfg, 1), 0);
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, MESSAGE), 0);
    ck_assert_int_eq(nib_config_set_topic_bytes(cfg, 0, TOTAL), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 32768, 0), 0);
    ck_assert_int_eq(nib_config_set_ping(cfg, 0, 0), 0);
}

/* Publishes to "b" until there is no memory, and reads what the reader of
 * links[2] gets; returns the counts of the last one. */
static struct nib_publish_counts publish_to_the_limit(struct link *links)
{
    static char data[MESSAGE];
    struct nib_message *msg = binary(data, MESSAGE);
    struct nib_publish_counts counts = {.queued = 2};

    for (int i = 0; i < 1000 && counts.queued == 2; i++) {
        ck_assert_int_eq(nib_publish_wait(site.srv, "b", msg, NULL, 0,
                                          &counts),
                         0);
        ck_assert_uint_le(site_stats(&site).topic_bytes, TOTAL);
        if (counts.queued == 2) {
            ck_assert_uint_eq(counts.dropped, 0);
            peer_expect_frame(links[2].peer, PEER_BINARY, data, MESSAGE);
        }
    }
    nib_message_unref(msg);
    return counts;
}

START_TEST(all_topics_together_have_a_limit)
{
    enum { FIRST = 10 };
    static char data[MESSAGE];
    struct nib_message *msg = binary(data, MESSAGE);
    struct nib_publish_counts counts;
    struct link links[3];
    struct peer_frame f;

    site_start(&site, total);
    for (int i = 0; i < 3; i++) {
        links[i] = link_accept(&site, peer_connect(site.address,
                                                   i < 2 ? 32768 : 0));
        ck_assert_int_eq(nib_subscribe(links[i].conn, i == 0 ? "a" : "b"),
                         0);
    }
    for (int i = 0; i < FIRST; i++)
        ck_assert_int_eq(nib_publish(site.srv, "a", msg, NULL, 0), 0);
    /* One of b does not read: its messages stay. */
    counts = publish_to_the_limit(links);
    ck_assert_uint_eq(counts.queued, 0);
    ck_assert_uint_eq(counts.dropped, 2);
    ck_assert_uint_eq(counts.closed, 0);
    ck_assert_uint_eq(site_stats(&site).slow, 0);
    /* Nobody is left with a gap. */
    for (int i = 1; i < 3; i++) {
        while ((f = peer_read_frame(links[i].peer)).first == PEER_BINARY)
            ck_assert_uint_eq(f.len, MESSAGE);
        ck_assert_uint_eq(f.first, PEER_CLOSE);
        ck_assert_uint_eq(f.data[0] << 8 | f.data[1], 1011);
        peer_send_close(links[i].peer, 1011, "");
        peer_expect_end(links[i].peer);
        peer_half_close(links[i].peer);
        await_closed(links[i].conn);
        expect_info(links[i].conn, 1011, true, true, "no memory");
        link_free(&links[i]);
    }
    /* Who listens to a is not hurt, and b has room again. */
    for (int i = 0; i < FIRST; i++)
        peer_expect_frame(links[0].peer, PEER_BINARY, data, MESSAGE);
    ck_assert_int_eq(nib_subscribe(links[0].conn, "b"), 0);
    ck_assert_int_eq(nib_publish_wait(site.srv, "b", msg, NULL, 0, &counts),
                     0);
    ck_assert_uint_eq(counts.queued, 1);
    ck_assert_uint_eq(counts.dropped, 0);
    peer_expect_frame(links[0].peer, PEER_BINARY, data, MESSAGE);
    nib_message_unref(msg);
    finish(links, 1);
}
END_TEST

/* ---- the end ---- */

static int publish_until_refused(void *arg)
{
    int err;

    while ((err = publish_one(arg)) == 0)
        continue;
    return err;
}

START_TEST(a_stop_ends_waiting_publishers)
{
    static char data[MESSAGE];
    struct nib_message *msg = binary(data, MESSAGE);
    struct gate gate;
    struct job jobs[3];
    struct link l;

    site_start(&site, tight);
    l = link_open(&site);
    ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
    shut_gate(&gate, l.conn);
    fill_topic(msg);
    for (int i = 0; i < 3; i++) {
        job_start(&jobs[i], publish_until_refused, msg);
        job_await_sleep(&jobs[i]);
    }
    nib_server_stop(site.srv, 0);
    latch_add(&gate.opened);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(job_wait(&jobs[i]), -ECANCELED);
    ck_assert_int_eq(publish_one(msg), -ECANCELED);
    nib_message_unref(msg);
    peer_free(l.peer);
    site_end(&site);
    nib_conn_unref(l.conn);
    site_check_left(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(subscribe_then_publish_never_misses),
        TEST(a_subscription_is_one_however_often_it_is_made),
        TEST(what_was_before_an_unsubscribe_is_delivered),
        TEST(a_topic_has_a_name),
        TEST(all_subscribers_see_one_order),
        TEST(published_direct_and_pongs_stay_whole),
        TEST(a_slow_subscriber_is_closed_and_nobody_else),
        TEST(a_full_topic_holds_publishers_back),
        TEST(a_publish_that_times_out_leaves_nothing),
        TEST(all_topics_together_have_a_limit),
        TEST(a_stop_ends_waiting_publishers),
    };

    return run_tests("topic", tests, COUNT(tests));
}
