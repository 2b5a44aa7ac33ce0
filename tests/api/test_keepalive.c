/*
 * test_keepalive - pings, idle connections, and peers that are too slow.
 *
 * What is cut off is waited for. What is not cut off is compared with a
 * connection that is, and whose time began later.
 */
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static struct site site;

enum {
    MANY = 300, /* more than a reactor is told of at once */
    WAIT_MS = 20,
    LONG_WAIT_MS = 600, /* that a peer of these tests keeps */
    BIG = 60000,
};

static void no_pings(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_ping(cfg, 0, 0), 0);
}

static void quick_pings(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_ping(cfg, 2 * WAIT_MS, WAIT_MS), 0);
}

/* The answer is due at once, the next ping much later. */
static void rare_pings(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_ping(cfg, 1000, WAIT_MS), 0);
    ck_assert_int_eq(nib_config_set_reactors(cfg, 1), 0);
}

static void patient_pings(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_ping(cfg, LONG_WAIT_MS + 100,
                                         LONG_WAIT_MS),
                     0);
}

static void expect_ping(struct peer *p)
{
    peer_expect_frame(p, PEER_PING, "nib", 3);
}

/* Pings, then the Close that a missing pong is answered by, then the end. */
static void expect_timeout(struct peer *p)
{
    struct peer_frame f;

    while ((f = peer_read_frame(p)).first == PEER_PING)
        ck_assert_uint_eq(f.len, 3);
    ck_assert_uint_eq(f.first, PEER_CLOSE);
    ck_assert_uint_eq(f.len, 2 + strlen("ping timeout"));
    ck_assert(memcmp(f.data, "\x03\xe9ping timeout", f.len) == 0);
    peer_expect_end(p);
}

static void expect_cut_off(const char *reason, size_t least_unsent)
{
    struct event e = site_event(&site, EVENT_CLOSE);

    ck_assert_int_eq(e.code, 1006);
    ck_assert(e.local);
    ck_assert(!e.clean);
    ck_assert_str_eq(e.text, reason);
    ck_assert_uint_ge(e.unsent_bytes, least_unsent);
}

static void pause_at_once(struct site *s, struct nib_conn *conn)
{
    (void)s;
    must(nib_conn_pause(conn) == 0);
}

/* ---- pings ---- */

START_TEST(a_ping_comes_every_interval)
{
    struct link l;

    site_start(&site, patient_pings);
    l = link_open(&site);
    for (int i = 0; i < 3; i++) {
        expect_ping(l.peer);
        peer_send_frame(l.peer, PEER_PONG, "nib", 3);
    }
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_OPEN);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(no_answer_to_a_ping_ends_a_connection)
{
    struct nib_message *msg;
    struct link l;

    site_start(&site, quick_pings);
    l = link_callbacks(&site);
    expect_ping(l.peer);
    expect_timeout(l.peer);
    expect_cut_off("ping timeout", 0);
    link_free(&l);

    l = link_open(&site);
    ck_assert_int_eq(nib_recv(l.conn, &msg, -1), -EPIPE);
    await_closed(l.conn);
    expect_info(l.conn, 1006, true, false, "ping timeout");
    expect_timeout(l.peer);
    link_free(&l);
    site_stop(&site);
}
END_TEST

static void small_and_quick(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, 65536), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, 131072), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 4096, 0), 0);
    quick_pings(cfg);
}

/* Opens /cb with a peer that takes little. */
static struct link narrow_link(void)
{
    struct link l = {.peer = peer_connect(site.address, 4096)};

    peer_upgrade(l.peer, "/cb");
    site_event(&site, EVENT_REQUEST);
    l.conn = nib_conn_ref(site_event(&site, EVENT_OPEN).conn);
    return l;
}

START_TEST(who_cannot_be_told_is_cut_off_as_well)
{
    struct link l;

    site_start(&site, small_and_quick);
    site.on_open = pause_at_once; /* until nothing can be written */
    l = narrow_link();
    fill_outbox(l.conn, BIG);
    ck_assert_int_eq(nib_conn_resume(l.conn), 0);
    expect_cut_off("ping timeout", BIG);
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* What may come instead of the pong. */
static void send_something(struct peer *p, int what)
{
    switch (what) {
    case 0:
        peer_send_frame(p, PEER_PONG, "nib", 3);
        break;
    case 1:
        peer_send_frame(p, PEER_PONG, "other", 5);
        break;
    case 2:
        peer_send_frame(p, PEER_PING, "", 0);
        peer_expect_frame(p, PEER_PONG, "", 0);
        break;
    case 3:
        peer_send_frame(p, PEER_TEXT, "m", 1);
        break;
    case 4:
        peer_send_frame(p, 0x01, "m", 1);
        break;
    default:
        peer_send(p, "\x81", 1); /* a frame's first byte */
    }
}

START_TEST(anything_that_arrives_is_an_answer)
{
    struct link links[6], silent;

    site_start(&site, patient_pings);
    for (int i = 0; i < 6; i++)
        links[i] = link_open(&site);
    silent = link_open(&site);
    for (int i = 0; i < 6; i++) {
        expect_ping(links[i].peer);
        send_something(links[i].peer, i);
    }
    expect_ping(silent.peer);
    expect_timeout(silent.peer);
    link_free(&silent);
    for (int i = 0; i < 6; i++) {
        expect_ping(links[i].peer);
        link_free(&links[i]);
    }
    site_stop(&site);
}
END_TEST

START_TEST(a_pong_that_nobody_asked_for_is_ignored)
{
    char data[125] = "unsolicited";
    struct link l;

    site_start(&site, no_pings);
    l = link_callbacks(&site);
    for (int i = 0; i < 10; i++) {
        peer_send_frame(l.peer, PEER_PONG, NULL, 0);
        peer_send_frame(l.peer, PEER_PONG, data, sizeof data);
    }
    ck_assert_int_eq(nib_ping(l.conn, "mine", 4), 0);
    peer_expect_frame(l.peer, PEER_PING, "mine", 4);
    peer_send_frame(l.peer, PEER_PONG, "mind", 4);
    peer_send_frame(l.peer, PEER_PONG, "min", 3);
    peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    site_event(&site, EVENT_MESSAGE);
    ck_assert_int_eq(nib_ping(l.conn, "next", 4), -EBUSY);
    for (int i = 0; i < 2; i++)
        peer_send_frame(l.peer, PEER_PONG, "mine", 4);
    ck_assert_str_eq(site_event(&site, EVENT_PONG).text, "mine");
    peer_send_frame(l.peer, PEER_TEXT, "n", 1);
    ck_assert_str_eq(site_event(&site, EVENT_MESSAGE).text, "n");
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_OPEN);
    link_finish(&l);
    site_event(&site, EVENT_CLOSE);
    site_stop(&site);
}
END_TEST

/* ---- while reading is paused ---- */

START_TEST(no_answer_is_due_while_paused)
{
    struct link l;

    site_start(&site, quick_pings);
    site.on_open = pause_at_once; /* before a ping is due */
    l = link_callbacks(&site);
    for (int i = 0; i < 5; i++)
        expect_ping(l.peer);
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_OPEN);
    ck_assert_uint_eq(site_events_left(&site), 0);
    ck_assert_int_eq(nib_conn_resume(l.conn), 0);
    expect_timeout(l.peer);
    expect_cut_off("ping timeout", 0);
    link_free(&l);
    site_stop(&site);
}
END_TEST

static void quick_pings_and_an_inbox_of_one(struct nib_config *cfg)
{
    quick_pings(cfg);
    ck_assert_int_eq(nib_config_set_inbox(cfg, 1, 1 << 20), 0);
}

START_TEST(no_answer_is_due_while_the_inbox_is_full)
{
    struct nib_message *msg;
    struct link l;

    site_start(&site, quick_pings_and_an_inbox_of_one);
    l = link_open(&site);
    peer_send_frame(l.peer, PEER_TEXT, "a", 1);
    peer_send_frame(l.peer, PEER_TEXT, "b", 1);
    peer_send_frame(l.peer, PEER_TEXT, "c", 1);
    for (int i = 0; i < 5; i++)
        expect_ping(l.peer);
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_OPEN);
    expect_recv(l.conn, NIB_TEXT, "a");
    expect_recv(l.conn, NIB_TEXT, "b");
    expect_recv(l.conn, NIB_TEXT, "c");
    expect_timeout(l.peer);
    ck_assert_int_eq(nib_recv(l.conn, &msg, -1), -EPIPE);
    await_closed(l.conn);
    expect_info(l.conn, 1006, true, false, "ping timeout");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(what_came_while_paused_is_an_answer)
{
    struct link l;

    site_start(&site, rare_pings);
    site.on_open = pause_at_once;
    l = link_callbacks(&site);
    expect_ping(l.peer);
    peer_send_frame(l.peer, PEER_PONG, "nib", 3);
    ck_assert_int_eq(nib_conn_resume(l.conn), 0);
    expect_ping(l.peer);
    expect_timeout(l.peer);
    expect_cut_off("ping timeout", 0);
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* ---- idle connections ---- */

enum { IDLE_MS = 1000 };

static void soon_idle(struct nib_config *cfg)
{
    no_pings(cfg);
    ck_assert_int_eq(nib_config_set_control_rate(cfg, 0), 0);
    ck_assert_int_eq(nib_config_set_idle_timeout_ms(cfg, 50), 0);
}

START_TEST(an_idle_connection_is_closed)
{
    struct link l;

    site_start(&site, soon_idle);
    l = link_open(&site);
    peer_expect_close(l.peer, 1001, "idle");
    peer_send_close(l.peer, 1001, "");
    peer_expect_end(l.peer);
    peer_half_close(l.peer);
    await_closed(l.conn);
    expect_info(l.conn, 1001, true, true, "idle");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(pings_are_no_messages)
{
    struct peer_frame f;
    struct link l;

    site_start(&site, soon_idle);
    l = link_open(&site);
    do {
        peer_send_frame(l.peer, PEER_PING, "p", 1);
        peer_send_frame(l.peer, PEER_PONG, "p", 1);
        f = peer_read_frame(l.peer);
    } while (f.first == PEER_PONG);
    ck_assert_uint_eq(f.first, PEER_CLOSE);
    ck_assert(memcmp(f.data, "\x03\xe9idle", 6) == 0);
    link_free(&l);
    site_stop(&site);
}
END_TEST

static void later_idle(struct nib_config *cfg)
{
    no_pings(cfg);
    ck_assert_int_eq(nib_config_set_idle_timeout_ms(cfg, IDLE_MS), 0);
}

struct busy {
    struct link in, out, published, idle;
    struct nib_message *msg;
};

/* One message each, until the idle connection has been closed. */
static bool idle_has_ended(void *arg)
{
    struct busy *b = arg;

    peer_send_frame(b->in.peer, PEER_TEXT, "m", 1);
    expect_recv(b->in.conn, NIB_TEXT, "m");
    ck_assert_int_eq(nib_send(b->out.conn, "m", 1, NIB_TEXT), 0);
    peer_expect_message(b->out.peer, "m");
    ck_assert_int_eq(nib_publish(site.srv, "t", b->msg, NULL, 0), 0);
    peer_expect_message(b->published.peer, "m");
    return nib_conn_state(b->idle.conn) != NIB_OPEN;
}

START_TEST(messages_either_way_put_it_off)
{
    struct busy b;

    site_start(&site, later_idle);
    ck_assert_int_eq(nib_message_new(NIB_TEXT, "m", 1, &b.msg), 0);
    b.in = link_open(&site);
    b.out = link_open(&site);
    b.published = link_open(&site);
    ck_assert_int_eq(nib_subscribe(b.published.conn, "t"), 0);
    b.idle = link_open(&site);
    until(idle_has_ended, &b, "the end of an idle connection");
    peer_expect_close(b.idle.peer, 1001, "idle");
    link_free(&b.idle);
    link_finish(&b.in);
    link_finish(&b.out);
    link_finish(&b.published);
    nib_message_unref(b.msg);
    site_stop(&site);
}
END_TEST

/* ---- peers that do not take what is sent ---- */

enum { WRITE_MS = 400 };

static void small_and_stalling(struct nib_config *cfg)
{
    small_and_quick(cfg);
    no_pings(cfg);
    ck_assert_int_eq(nib_config_set_write_timeout_ms(cfg, WRITE_MS), 0);
}

/* Reads what there is, to the reset. */
static bool was_reset(void *arg)
{
    ssize_t n;

    while ((n = recv(peer_fd(arg), (char[4096]){0}, 4096, MSG_DONTWAIT)) > 0)
        continue;
    return n < 0 && errno == ECONNRESET;
}

START_TEST(a_peer_that_takes_nothing_is_cut_off)
{
    struct link l;

    site_start(&site, small_and_stalling);
    l = narrow_link();
    fill_outbox(l.conn, BIG);
    expect_cut_off("", BIG);
    ck_assert_int_eq(nib_send(l.conn, "x", 1, NIB_TEXT), -EPIPE);
    until(was_reset, l.peer, "a reset");
    link_free(&l);
    site_stop(&site);
}
END_TEST

static void small_and_patient(struct nib_config *cfg)
{
    small_and_quick(cfg);
    no_pings(cfg);
    ck_assert_int_eq(nib_config_set_write_timeout_ms(cfg, 1000), 0);
}

struct pair {
    struct link slow, stuck;
};

/* Takes a little; whether the stuck one has been cut off. */
static bool stuck_has_ended(void *arg)
{
    static char data[BIG];
    struct pair *p = arg;
    int err = nib_send(p->slow.conn, data, BIG, NIB_BINARY | NIB_NOWAIT);

    if (err != 0)
        ck_assert_int_eq(err, -EAGAIN);
    recv(peer_fd(p->slow.peer), (char[256]){0}, 256, MSG_DONTWAIT);
    return nib_conn_state(p->stuck.conn) == NIB_CLOSED;
}

START_TEST(a_peer_that_takes_a_little_is_not_cut_off)
{
    struct pair p;

    site_start(&site, small_and_patient);
    p.slow = narrow_link();
    p.stuck = narrow_link();
    fill_outbox(p.slow.conn, BIG);
    fill_outbox(p.stuck.conn, BIG);
    until(stuck_has_ended, &p, "the end of a connection that is stuck");
    ck_assert_ptr_eq(site_event(&site, EVENT_CLOSE).conn, p.stuck.conn);
    ck_assert_int_eq(nib_conn_state(p.slow.conn), NIB_OPEN);
    ck_assert_uint_gt(nib_conn_buffered(p.slow.conn), 0);
    link_free(&p.stuck);
    link_free(&p.slow);
    site_stop(&site);
}
END_TEST

/* ---- a reactor that was busy ---- */

/* Returns when so much time has passed that a deadline is over. */
static void outlast(int ms)
{
    struct timespec due, now;

    clock_gettime(CLOCK_MONOTONIC, &due);
    due.tv_sec += ms / 1000;
    due.tv_nsec += ms % 1000 * 1000000L;
    do {
        poll(NULL, 0, 1);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - due.tv_sec) * 1000 +
                 (now.tv_nsec - due.tv_nsec) / 1000000 < 0);
}

static struct link many[MANY];

static int resume_all(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    for (int i = 0; i < MANY; i++)
        must(nib_conn_resume(many[i].conn) == 0);
    outlast(2 * WAIT_MS);
    return 0;
}

START_TEST(a_pong_that_waits_to_be_read_is_an_answer)
{
    site_start(&site, rare_pings);
    site.on_open = pause_at_once;
    for (int i = 0; i < MANY; i++)
        many[i] = link_callbacks(&site);
    for (int i = 0; i < MANY; i++) {
        expect_ping(many[i].peer);
        peer_send_frame(many[i].peer, PEER_PONG, "nib", 3);
    }
    ck_assert_int_eq(on_owner(many[0].conn, resume_all, NULL), 0);
    /* Now their second ones are due. */
    for (int i = 0; i < MANY; i++) {
        expect_ping(many[i].peer);
        link_free(&many[i]);
    }
    site_stop(&site);
}
END_TEST

static struct latch entered, taken;

static int nothing(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    return 0;
}

static int stand_still(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    latch_add(&entered);
    latch_await(&taken, 1);
    outlast(WRITE_MS);
    return 0;
}

static int stand_job(void *arg)
{
    return on_owner(arg, stand_still, NULL);
}

START_TEST(a_peer_that_reads_meanwhile_is_not_cut_off)
{
    struct link l;
    struct job job;

    latch_init(&entered);
    latch_init(&taken);
    site_start(&site, small_and_stalling);
    l = narrow_link();
    fill_outbox(l.conn, BIG);
    job_start(&job, stand_job, l.conn);
    latch_await(&entered, 1);
    /* All that the kernel has, so that the rest could be written. */
    while (recv(peer_fd(l.peer), (char[4096]){0}, 4096, MSG_DONTWAIT) > 0)
        continue;
    latch_add(&taken);
    ck_assert_int_eq(job_wait(&job), 0);
    /* Its next turn is over as well. */
    ck_assert_int_eq(on_owner(l.conn, nothing, NULL), 0);
    ck_assert_int_eq(on_owner(l.conn, nothing, NULL), 0);
    ck_assert_int_eq(nib_conn_state(l.conn), NIB_OPEN);
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* ---- before a connection is open ---- */

static void short_handshake(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_handshake_timeout_ms(
                         cfg, site_short_ms(100)), 0);
}

/* One more byte of a head without an end; whether the server has had enough. */
static bool head_has_ended(void *arg)
{
    struct peer *p = arg;

    send(peer_fd(p), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return peer_readable(p);
}

START_TEST(a_head_that_comes_byte_by_byte_ends_at_the_deadline)
{
    struct nib_stats stats;
    struct peer *p;

    site_start(&site, short_handshake);
    p = site_connect(&site);
    peer_send_text(p, "GET /next HTTP/1.1\r\nHost: ");
    until(head_has_ended, p, "the end of a slow head");
    site_await_connections(&site, 0);
    stats = site_stats(&site);
    ck_assert_uint_eq(stats.accepted, 1);
    ck_assert_uint_eq(stats.requests, 0);
    ck_assert_uint_eq(stats.upgraded, 0);
    ck_assert_uint_eq(stats.handshakes, 0);
    peer_free(p);

    /* And one that never begins. */
    p = site_connect(&site);
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}
END_TEST

static void ask_page(struct peer *p)
{
    peer_send_text(p, "GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    peer_expect_text(p, "HTTP/1.1 426 Upgrade Required\r\n");
    peer_read_head(p);
    peer_expect_text(p, "This is a WebSocket; upgrade to talk to it.\n");
}

START_TEST(a_kept_connection_without_a_request_ends_at_the_deadline)
{
    struct peer *p;

    site_start(&site, short_handshake);
    p = site_connect(&site);
    ask_page(p);
    peer_expect_end(p);
    peer_free(p);
    site_stop(&site);
}
END_TEST

static void longer_handshake(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_handshake_timeout_ms(
                         cfg, site_short_ms(1000)), 0);
}

struct askers {
    struct peer *asks, *rests;
};

static bool resting_has_ended(void *arg)
{
    struct askers *a = arg;

    ask_page(a->asks);
    return peer_readable(a->rests);
}

START_TEST(each_answer_gives_a_kept_connection_its_time_again)
{
    struct askers a;

    site_start(&site, longer_handshake);
    a.asks = site_connect(&site);
    ask_page(a.asks);
    a.rests = site_connect(&site);
    ask_page(a.rests);
    until(resting_has_ended, &a, "the end of a connection at rest");
    peer_expect_end(a.rests);
    ask_page(a.asks);
    peer_free(a.asks);
    peer_free(a.rests);
    site_stop(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(a_ping_comes_every_interval),
        TEST(no_answer_to_a_ping_ends_a_connection),
        TEST(who_cannot_be_told_is_cut_off_as_well),
        TEST(anything_that_arrives_is_an_answer),
        TEST(a_pong_that_nobody_asked_for_is_ignored),
        TEST(no_answer_is_due_while_paused),
        TEST(no_answer_is_due_while_the_inbox_is_full),
        TEST(what_came_while_paused_is_an_answer),
        TEST(an_idle_connection_is_closed),
        TEST(pings_are_no_messages),
        TEST(messages_either_way_put_it_off),
        TEST(a_peer_that_takes_nothing_is_cut_off),
        TEST(a_peer_that_takes_a_little_is_not_cut_off),
        TEST(a_pong_that_waits_to_be_read_is_an_answer),
        TEST(a_peer_that_reads_meanwhile_is_not_cut_off),
        TEST(a_head_that_comes_byte_by_byte_ends_at_the_deadline),
        TEST(a_kept_connection_without_a_request_ends_at_the_deadline),
        TEST(each_answer_gives_a_kept_connection_its_time_again),
    };

    return run_tests("keepalive", tests, COUNT(tests));
}
