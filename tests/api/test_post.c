/*
 * test_post - functions, descriptors and timers on a connection's owner.
 */
#include "fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct site site;

/* What ran on the owner, a letter each. */
struct trace {
    pthread_mutex_t lock;
    char text[64];
    struct latch told;
};

static struct trace trace;

static void trace_init(void)
{
    memset(&trace, 0, sizeof trace);
    pthread_mutex_init(&trace.lock, NULL);
    latch_init(&trace.told);
}

static void say(char letter)
{
    pthread_mutex_lock(&trace.lock);
    must(strlen(trace.text) + 1 < sizeof trace.text);
    trace.text[strlen(trace.text)] = letter;
    pthread_mutex_unlock(&trace.lock);
    latch_add(&trace.told);
}

/* Waits for so many letters in all, which must be these. */
static void expect_trace(const char *text)
{
    latch_await(&trace.told, (unsigned)strlen(text));
    pthread_mutex_lock(&trace.lock);
    ck_assert_str_eq(trace.text, text);
    pthread_mutex_unlock(&trace.lock);
}

/* Something that lives on and says which letter it is. */
static void *letter(char which)
{
    static char letters[128];

    letters[(int)which] = which;
    return &letters[(int)which];
}

static void say_run(struct nib_conn *conn, void *arg)
{
    (void)conn;
    say(*(const char *)arg);
}

static void say_cancel(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    say('x');
}

/* ---- nib_post ---- */

/* Keeps the owner busy, so that what is posted waits. */
static struct latch entered, opened;

static void stand(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    latch_add(&entered);
    latch_await(&opened, 1);
}

static void shut_gate(struct nib_conn *conn)
{
    latch_init(&entered);
    latch_init(&opened);
    ck_assert_int_eq(nib_post(conn, stand, NULL, NULL), 0);
    latch_await(&entered, 1);
}

START_TEST(functions_run_in_the_order_posted)
{
    struct link l;

    trace_init();
    site_start(&site, NULL);
    l = link_open(&site);
    for (const char *p = "abcdefgh"; *p != '\0'; p++)
        ck_assert_int_eq(nib_post(l.conn, say_run, say_cancel, letter(*p)), 0);
    expect_trace("abcdefgh");
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_function_runs_on_a_closed_connection)
{
    struct link l;

    trace_init();
    site_start(&site, NULL);
    l = link_open(&site);
    peer_free(l.peer);
    l.peer = NULL;
    await_closed(l.conn);
    ck_assert_int_eq(nib_post(l.conn, say_run, say_cancel, letter('a')), 0);
    expect_trace("a");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(after_the_end_a_function_is_cancelled_at_once)
{
    struct link l;

    trace_init();
    site_start(&site, NULL);
    l = link_open(&site);
    peer_free(l.peer);
    l.peer = NULL;
    await_closed(l.conn);
    nib_server_stop(site.srv, 0);
    site_end(&site);
    ck_assert_int_eq(nib_post(l.conn, say_run, say_cancel, letter('a')), -ECANCELED);
    ck_assert_str_eq(trace.text, "x");
    ck_assert_int_eq(nib_post(l.conn, say_run, NULL, letter('a')), -ECANCELED);
    ck_assert_str_eq(trace.text, "x");
    link_free(&l);
    site_check_left(&site);
}
END_TEST

static void three_commands(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_commands(cfg, 3), 0);
}

static int nothing(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    return 0;
}

/* One on the owner is over, so the gate itself does not count. */
START_TEST(so_many_commands_wait)
{
    struct link l, other;

    trace_init();
    site_start(&site, three_commands);
    l = link_open(&site);
    other = link_open(&site);
    shut_gate(l.conn);
    ck_assert_int_eq(nib_post(l.conn, say_run, say_cancel, letter('a')), 0);
    ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
    ck_assert_int_eq(nib_unsubscribe(l.conn, "t"), 0);
    ck_assert_int_eq(nib_post(l.conn, say_run, say_cancel, letter('b')), -EAGAIN);
    ck_assert_str_eq(trace.text, "x");
    ck_assert_int_eq(nib_post(l.conn, say_run, NULL, letter('b')), -EAGAIN);
    ck_assert_int_eq(nib_subscribe(l.conn, "t"), -EAGAIN);
    ck_assert_int_eq(nib_unsubscribe(l.conn, "t"), -EAGAIN);
    ck_assert_str_eq(trace.text, "x");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(nib_subscribe(other.conn, "u"), 0);
    latch_add(&opened);
    expect_trace("xa");
    on_owner(l.conn, nothing, NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(nib_subscribe(l.conn, "t"), 0);
    link_finish(&l);
    link_finish(&other);
    site_stop(&site);
}
END_TEST

static int again;

static void post_again(struct nib_conn *conn, void *arg)
{
    say('a');
    if (--again > 0)
        must(nib_post(conn, post_again, say_cancel, arg) == 0);
}

static void one_command(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_commands(cfg, 1), 0);
}

START_TEST(a_function_may_post_itself)
{
    struct link l;

    trace_init();
    again = 5;
    site_start(&site, one_command);
    l = link_open(&site);
    ck_assert_int_eq(nib_post(l.conn, post_again, say_cancel, NULL), 0);
    expect_trace("aaaaa");
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- nib_watch ---- */

static int pair[2];
static struct nib_watch *watch;

static void make_pair(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX,
                                SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                                pair), 0);
}

static void ready(struct nib_conn *conn, unsigned events, void *arg)
{
    char byte;

    (void)conn;
    must(arg == &watch);
    if (events & NIB_READABLE)
        while (read(pair[0], &byte, 1) == 1)
            say(byte);
    if (events & NIB_WRITABLE) {
        say('W');
        must(nib_watch_set(watch, NIB_READABLE) == 0);
    }
    if (events & NIB_HANGUP) {
        /* First: the test closes the descriptor when it hears of it. */
        nib_watch_free(watch);
        watch = NULL;
        say('H');
    }
}

static int begin_watch(struct nib_conn *conn, void *arg)
{
    return nib_watch(conn, pair[0], *(const unsigned *)arg, ready, &watch,
                     &watch);
}

static int set_watch(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return nib_watch_set(watch, *(const unsigned *)arg);
}

START_TEST(a_watch_reports_what_it_waits_for)
{
    unsigned readable = NIB_READABLE, nothing = 0;
    unsigned both = NIB_READABLE | NIB_WRITABLE;
    struct link l;

    trace_init();
    site_start(&site, NULL);
    make_pair();
    l = link_callbacks(&site);
    ck_assert_int_eq(write(pair[1], "ab", 2), 2);
    ck_assert_int_eq(on_owner(l.conn, begin_watch, &nothing), 0);
    ck_assert_int_eq(on_owner(l.conn, set_watch, &readable), 0);
    expect_trace("ab");
    ck_assert_int_eq(on_owner(l.conn, set_watch, &both), 0);
    expect_trace("abW");
    ck_assert_int_eq(write(pair[1], "c", 1), 1);
    expect_trace("abWc");
    close(pair[1]);
    expect_trace("abWcH");
    close(pair[0]);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_watch_ends_with_its_connection)
{
    unsigned readable = NIB_READABLE, writable = NIB_WRITABLE;
    struct link l;

    trace_init();
    site_start(&site, NULL);
    make_pair();
    l = link_callbacks(&site);
    ck_assert_int_eq(on_owner(l.conn, begin_watch, &readable), 0);
    peer_free(l.peer);
    l.peer = NULL;
    site_event(&site, EVENT_CLOSE);
    await_closed(l.conn);
    ck_assert_int_eq(write(pair[1], "a", 1), 1);
    ck_assert_int_eq(on_owner(l.conn, begin_watch, &writable), -EPIPE);
    ck_assert_str_eq(trace.text, "");
    close(pair[0]);
    close(pair[1]);
    link_free(&l);
    site_stop(&site);
}
END_TEST

static int wrong_watches(struct nib_conn *conn, void *arg)
{
    (void)arg;
    must(nib_watch(conn, -1, NIB_READABLE, ready, NULL, &watch) == -EINVAL);
    must(nib_watch(conn, pair[0], 8, ready, NULL, &watch) == -EINVAL);
    nib_watch_free(NULL);
    nib_timer_free(NULL);
    return 0;
}

START_TEST(a_watch_needs_a_descriptor_and_events)
{
    struct link l;

    site_start(&site, NULL);
    make_pair();
    l = link_callbacks(&site);
    on_owner(l.conn, wrong_watches, NULL);
    close(pair[0]);
    close(pair[1]);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- nib_timer ---- */

static struct nib_timer *timers[4];

static void fire(struct nib_conn *conn, void *arg)
{
    (void)conn;
    say(*(const char *)arg);
}

/* By due time, and those of one moment in the order made. */
static int begin_timers(struct nib_conn *conn, void *arg)
{
    (void)arg;
    must(nib_timer(conn, 20, fire, letter('d'), &timers[0]) == 0);
    must(nib_timer(conn, 10, fire, letter('c'), &timers[1]) == 0);
    must(nib_timer(conn, 5, fire, letter('x'), &timers[2]) == 0);
    must(nib_timer(conn, 0, fire, letter('a'), NULL) == 0);
    nib_timer_free(timers[2]);
    return 0;
}

START_TEST(timers_fire_once_in_their_order)
{
    struct link l;

    trace_init();
    site_start(&site, NULL);
    l = link_callbacks(&site);
    on_owner(l.conn, begin_timers, NULL);
    expect_trace("acd");
    link_finish(&l);
    ck_assert_uint_eq(latch_count(&trace.told), 3);
    site_stop(&site);
}
END_TEST

static int begin_timer(struct nib_conn *conn, void *arg)
{
    return nib_timer(conn, 60000, fire, arg, &timers[0]);
}

START_TEST(a_timer_ends_with_its_connection)
{
    struct link l;

    trace_init();
    site_start(&site, NULL);
    l = link_callbacks(&site);
    ck_assert_int_eq(on_owner(l.conn, begin_timer, letter('x')), 0);
    peer_free(l.peer);
    l.peer = NULL;
    site_event(&site, EVENT_CLOSE);
    await_closed(l.conn);
    ck_assert_int_eq(on_owner(l.conn, begin_timer, letter('x')), -EPIPE);
    ck_assert_str_eq(trace.text, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(functions_run_in_the_order_posted),
        TEST(a_function_runs_on_a_closed_connection),
        TEST(after_the_end_a_function_is_cancelled_at_once),
        TEST(so_many_commands_wait),
        TEST(a_function_may_post_itself),
        TEST(a_watch_reports_what_it_waits_for),
        TEST(a_watch_ends_with_its_connection),
        TEST(a_watch_needs_a_descriptor_and_events),
        TEST(timers_fire_once_in_their_order),
        TEST(a_timer_ends_with_its_connection),
    };

    return run_tests("post", tests, COUNT(tests));
}
