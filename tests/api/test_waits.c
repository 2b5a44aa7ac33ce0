/*
 * test_waits - the calls that wait, on each kind of thread.
 *
 * On the owner and on other reactors they return at once what nib.h says:
 * done, begun (-EAGAIN), or not possible there (-EDEADLK). On all other
 * threads they wait.
 */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct site site;

enum {
    MESSAGE = 60000,
    OUTBOX = 131072,
    TOPIC = 4 * MESSAGE, /* half of it takes one message, and no second */
};

/* Two connections of /cb with different owners, and which those are. */
static struct link one, other;
static pid_t one_tid, other_tid;

static int tell_tid(struct nib_conn *conn, void *arg)
{
    (void)conn;
    *(pid_t *)arg = gettid();
    return 0;
}

static struct link narrow_link(void)
{
    struct link l = {.peer = peer_connect(site.address, 4096)};

    peer_upgrade(l.peer, "/cb");
    site_event(&site, EVENT_REQUEST);
    l.conn = nib_conn_ref(site_event(&site, EVENT_OPEN).conn);
    return l;
}

/* Little room, and nothing happens by time. */
static void small(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_message_bytes(cfg, MESSAGE), 0);
    ck_assert_int_eq(nib_config_set_outbox_bytes(cfg, OUTBOX), 0);
    ck_assert_int_eq(nib_config_set_topic_bytes(cfg, TOPIC, 0), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 4096, 0), 0);
    ck_assert_int_eq(nib_config_set_send_timeout_ms(cfg, -1), 0);
    ck_assert_int_eq(nib_config_set_ping(cfg, 0, 0), 0);
}

/* Fails after 64 connections that all came to one reactor. */
static void start(void)
{
    site_start(&site, small);
    one = narrow_link();
    on_owner(one.conn, tell_tid, &one_tid);
    for (int i = 0; i < 64; i++) {
        other = narrow_link();
        on_owner(other.conn, tell_tid, &other_tid);
        if (other_tid != one_tid)
            return;
        peer_reset(other.peer);
        other.peer = NULL;
        site_event(&site, EVENT_CLOSE);
        link_free(&other);
    }
    ck_abort_msg("all connections have one owner");
}

/* Without a Close: there are tests in which nothing more is written. */
static void finish(void)
{
    link_free(&one);
    link_free(&other);
    site_await_connections(&site, 0);
    site_stop(&site);
}

/* A message of MESSAGE bytes, for all that is to fill something. */
static struct nib_message *large(void)
{
    static char data[MESSAGE];
    struct nib_message *msg = NULL;

    must(nib_message_new(NIB_BINARY, data, sizeof data, &msg) == 0);
    return msg;
}

/* ---- accept and reject ---- */

static pid_t request_tid;

static void keep_request(struct site *s, struct nib_request *req)
{
    s->user = nib_request_ref(req);
    request_tid = gettid();
}

/* An upgrade of /cb that nobody has decided. */
static struct nib_request *undecided(struct peer *p)
{
    site.on_request = keep_request;
    site.verdict = NIB_DECIDED;
    peer_ask(p, "/cb");
    site_event(&site, EVENT_REQUEST);
    return site.user;
}

/* A connection whose owner is the request's, or is not. */
static struct nib_conn *beside_request(bool owner)
{
    return (request_tid == one_tid) == owner ? one.conn : other.conn;
}

static int accept_here(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return nib_accept(arg, NULL, NULL);
}

static int reject_here(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return nib_reject(arg, 403, NULL, 0, "no", 2);
}

static int accept_wrong(struct nib_conn *conn, void *arg)
{
    struct nib_accept_options wrong = {.subprotocol = "x"};

    (void)conn;
    return nib_accept(arg, &wrong, NULL);
}

static int reject_wrong(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return nib_reject(arg, 200, NULL, 0, NULL, 0);
}

START_TEST(the_owner_begins_an_accept)
{
    struct nib_request *req;
    struct peer *p;

    start();
    p = site_connect(&site);
    req = undecided(p);
    ck_assert_int_eq(on_owner(beside_request(true), accept_wrong, req),
                     -EINVAL);
    ck_assert_int_eq(on_owner(beside_request(true), accept_here, req),
                     -EAGAIN);
    peer_expect_101(p, "");
    site_event(&site, EVENT_OPEN);
    ck_assert_int_eq(on_owner(beside_request(true), accept_here, req),
                     NIB_ESTATE);
    ck_assert_int_eq(on_owner(beside_request(false), accept_here, req),
                     NIB_ESTATE);
    nib_request_unref(req);
    peer_free(p);
    finish();
}
END_TEST

START_TEST(the_owner_begins_a_reject)
{
    struct nib_request *req;
    struct peer *p;

    start();
    p = site_connect(&site);
    req = undecided(p);
    ck_assert_int_eq(on_owner(beside_request(true), reject_wrong, req),
                     -EINVAL);
    ck_assert_int_eq(on_owner(beside_request(true), reject_here, req),
                     -EAGAIN);
    peer_expect_text(p, "HTTP/1.1 403 Forbidden\r\n");
    ck_assert_int_eq(on_owner(beside_request(true), reject_here, req),
                     NIB_ESTATE);
    ck_assert_int_eq(on_owner(beside_request(false), reject_here, req),
                     NIB_ESTATE);
    nib_request_unref(req);
    peer_free(p);
    finish();
}
END_TEST

START_TEST(another_reactor_decides_nothing)
{
    struct nib_request *req;
    struct peer *p;

    start();
    p = site_connect(&site);
    req = undecided(p);
    ck_assert_int_eq(on_owner(beside_request(false), accept_here, req),
                     -EDEADLK);
    ck_assert_int_eq(on_owner(beside_request(false), reject_here, req),
                     -EDEADLK);
    ck_assert(!peer_readable(p));
    ck_assert_uint_eq(site_stats(&site).handshakes, 1);
    /* This thread may still decide. */
    ck_assert_int_eq(nib_accept(req, NULL, NULL), 0);
    peer_expect_101(p, "");
    nib_request_unref(req);
    peer_free(p);
    finish();
}
END_TEST

/* ---- send ---- */

static int send_here(struct nib_conn *conn, void *arg)
{
    static char data[MESSAGE];

    (void)conn;
    return nib_send(arg, data, sizeof data, NIB_BINARY);
}

static int send_message_here(struct nib_conn *conn, void *arg)
{
    struct nib_message *msg = large();
    int err;

    (void)conn;
    err = nib_send_message(arg, msg, 0);
    nib_message_unref(msg);
    return err;
}

START_TEST(a_reactor_sends_while_there_is_room)
{
    static char data[MESSAGE];

    start();
    ck_assert_int_eq(on_owner(one.conn, send_here, one.conn), 0);
    ck_assert_int_eq(on_owner(other.conn, send_here, one.conn), 0);
    peer_expect_frame(one.peer, PEER_BINARY, data, sizeof data);
    peer_expect_frame(one.peer, PEER_BINARY, data, sizeof data);
    ck_assert_int_eq(on_owner(one.conn, send_message_here, one.conn), 0);
    ck_assert_int_eq(on_owner(other.conn, send_message_here, one.conn), 0);
    peer_expect_frame(one.peer, PEER_BINARY, data, sizeof data);
    peer_expect_frame(one.peer, PEER_BINARY, data, sizeof data);
    ck_assert_uint_eq(site_events_left(&site), 0);
    finish();
}
END_TEST

/* Room is told to the owner, and to nobody who only tried. */
static void full_outbox(int (*send)(struct nib_conn *conn, void *arg))
{
    unsigned count;

    start();
    count = fill_outbox(one.conn, MESSAGE);
    ck_assert_int_eq(on_owner(other.conn, send, one.conn), -EAGAIN);
    for (; count > 0; count--)
        ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    await_written(one.conn);
    on_owner(one.conn, tell_tid, &one_tid);
    ck_assert_uint_eq(site_events_left(&site), 0);

    count = fill_outbox(one.conn, MESSAGE);
    ck_assert_int_eq(on_owner(one.conn, send, one.conn), -EAGAIN);
    ck_assert_uint_eq(site_events_left(&site), 0);
    for (; count > 0; count--)
        ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    ck_assert_ptr_eq(site_event(&site, EVENT_ROOM).conn, one.conn);
    ck_assert_int_eq(on_owner(one.conn, send, one.conn), 0);
    ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    ck_assert_uint_eq(site_events_left(&site), 0);
    finish();
}

START_TEST(a_reactor_does_not_wait_to_send)
{
    full_outbox(send_here);
}
END_TEST

START_TEST(a_reactor_does_not_wait_to_send_a_message)
{
    full_outbox(send_message_here);
}
END_TEST

/* ---- receive, flush, close ---- */

static int recv_here(struct nib_conn *conn, void *arg)
{
    struct nib_message *msg;

    (void)conn;
    return nib_recv(arg, &msg, -1);
}

START_TEST(no_reactor_receives)
{
    struct link l;

    start();
    l = link_open(&site);
    peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    ck_assert_int_eq(on_owner(l.conn, recv_here, l.conn), -EDEADLK);
    ck_assert_int_eq(on_owner(one.conn, recv_here, l.conn), -EDEADLK);
    ck_assert_int_eq(on_owner(other.conn, recv_here, l.conn), -EDEADLK);
    ck_assert_int_eq(on_owner(one.conn, recv_here, one.conn), -EDEADLK);
    expect_recv(l.conn, NIB_TEXT, "m");
    link_finish(&l);
    finish();
}
END_TEST

static int flush_here(struct nib_conn *conn, void *arg)
{
    (void)conn;
    return nib_flush(arg, -1);
}

START_TEST(no_reactor_waits_for_a_flush)
{
    start();
    ck_assert_int_eq(on_owner(one.conn, flush_here, one.conn), 0);
    ck_assert_int_eq(on_owner(other.conn, flush_here, one.conn), 0);
    fill_outbox(one.conn, MESSAGE);
    ck_assert_int_eq(on_owner(one.conn, flush_here, one.conn), -EDEADLK);
    ck_assert_int_eq(on_owner(other.conn, flush_here, one.conn), -EDEADLK);
    nib_abort(one.conn);
    ck_assert_int_eq(site_event(&site, EVENT_CLOSE).code, 1006);
    ck_assert_int_eq(on_owner(one.conn, flush_here, one.conn), -EPIPE);
    ck_assert_int_eq(on_owner(other.conn, flush_here, one.conn), -EPIPE);
    finish();
}
END_TEST

struct closing {
    struct nib_conn *conn;
    unsigned code;
    int timeout_ms;
};

static int close_here(struct nib_conn *conn, void *arg)
{
    const struct closing *c = arg;

    (void)conn;
    return nib_close(c->conn, c->code, NULL, c->timeout_ms);
}

START_TEST(a_reactor_does_not_wait_for_a_close)
{
    struct closing wait, brief, wrong, later;

    start();
    wait = (struct closing){one.conn, 4000, -1};
    brief = (struct closing){one.conn, 4000, 1};
    wrong = (struct closing){one.conn, 999, -1};
    later = (struct closing){other.conn, 4001, 0};
    ck_assert_int_eq(on_owner(other.conn, close_here, &wrong), -EINVAL);
    ck_assert_int_eq(on_owner(other.conn, close_here, &wait), -EDEADLK);
    ck_assert_int_eq(on_owner(other.conn, close_here, &brief), -EDEADLK);
    ck_assert_int_eq(nib_conn_state(one.conn), NIB_OPEN);
    ck_assert_int_eq(nib_send(one.conn, "open", 4, NIB_TEXT), 0);
    peer_expect_message(one.peer, "open");

    ck_assert_int_eq(on_owner(one.conn, close_here, &wrong), -EINVAL);
    ck_assert_int_eq(on_owner(one.conn, close_here, &wait), -EAGAIN);
    ck_assert_int_eq(on_owner(one.conn, close_here, &brief), -EAGAIN);
    peer_expect_close(one.peer, 4000, "");
    peer_send_close(one.peer, 4000, "");
    peer_expect_end(one.peer);
    peer_half_close(one.peer);
    ck_assert_int_eq(site_event(&site, EVENT_CLOSE).code, 4000);
    /* Nothing is left to wait for. */
    ck_assert_int_eq(on_owner(one.conn, close_here, &wait), 0);
    ck_assert_int_eq(on_owner(other.conn, close_here, &wait), -EDEADLK);

    ck_assert_int_eq(on_owner(one.conn, close_here, &later), 0);
    peer_expect_close(other.peer, 4001, "");
    finish();
}
END_TEST

/* ---- publish ---- */

struct publishing {
    struct nib_message *msg;
    struct nib_conn *from;
};

static int publish_here(struct nib_conn *conn, void *arg)
{
    const struct publishing *p = arg;

    (void)conn;
    return nib_publish(site.srv, "t", p->msg, p->from, 0);
}

/* In one callback of the only subscriber's owner, which cannot write
 * meanwhile. Returns what came after one message was taken. */
static int publish_twice(struct nib_conn *conn, void *arg)
{
    int err = publish_here(conn, arg);

    return err < 0 ? err : publish_here(conn, arg);
}

static struct latch entered, opened;

static void stand(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    latch_add(&entered);
    latch_await(&opened, 1);
}

/* Fills the topic, whose subscriber's owner stands until `opened`. */
static void fill_topic(struct nib_conn *conn, struct nib_message *msg)
{
    latch_init(&entered);
    latch_init(&opened);
    ck_assert_int_eq(nib_post(conn, stand, NULL, NULL), 0);
    latch_await(&entered, 1);
    ck_assert_int_eq(nib_publish(site.srv, "t", msg, NULL, NIB_NOWAIT), 0);
    ck_assert_int_eq(nib_publish(site.srv, "t", msg, NULL, NIB_NOWAIT),
                     -EAGAIN);
}

START_TEST(the_owner_does_not_wait_to_publish)
{
    struct publishing p = {.msg = large()};

    start();
    p.from = one.conn;
    ck_assert_int_eq(nib_subscribe(one.conn, "t"), 0);
    ck_assert_int_eq(on_owner(one.conn, publish_twice, &p), -EAGAIN);
    ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    ck_assert_ptr_eq(site_event(&site, EVENT_ROOM).conn, one.conn);
    /* Nobody is told who does not say where the message came from. */
    p.from = NULL;
    ck_assert_int_eq(on_owner(one.conn, publish_twice, &p), -EAGAIN);
    ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    p.from = one.conn;
    ck_assert_int_eq(on_owner(one.conn, publish_twice, &p), -EAGAIN);
    ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    site_event(&site, EVENT_ROOM);
    ck_assert_uint_eq(site_events_left(&site), 0);
    ck_assert_uint_eq(site_stats(&site).published, 3);
    nib_message_unref(p.msg);
    finish();
}
END_TEST

START_TEST(another_reactor_does_not_wait_to_publish)
{
    struct publishing p = {.msg = large()};

    start();
    p.from = other.conn;
    ck_assert_int_eq(nib_subscribe(one.conn, "t"), 0);
    fill_topic(one.conn, p.msg);
    ck_assert_int_eq(on_owner(other.conn, publish_here, &p), -EAGAIN);
    ck_assert_int_eq(on_owner(other.conn, publish_here, &p), -EAGAIN);
    ck_assert_uint_eq(site_events_left(&site), 0);
    latch_add(&opened);
    ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    /* Once, however often it was refused. */
    ck_assert_ptr_eq(site_event(&site, EVENT_ROOM).conn, other.conn);
    ck_assert_int_eq(on_owner(other.conn, publish_here, &p), 0);
    ck_assert_uint_eq(peer_read_frame(one.peer).len, MESSAGE);
    ck_assert_uint_eq(site_events_left(&site), 0);
    ck_assert_uint_eq(site_stats(&site).published, 2);
    nib_message_unref(p.msg);
    finish();
}
END_TEST

static int publish_wait_here(struct nib_conn *conn, void *arg)
{
    struct nib_publish_counts counts = {.queued = 99};
    const struct publishing *p = arg;
    int err = nib_publish_wait(site.srv, "t", p->msg, conn, 0, &counts);

    must(counts.queued == 0);
    must(counts.closed == 0);
    must(counts.dropped == 0);
    return err;
}

START_TEST(no_reactor_waits_for_what_it_publishes)
{
    struct publishing p = {.msg = large()};

    start();
    ck_assert_int_eq(on_owner(one.conn, publish_wait_here, &p), -EDEADLK);
    ck_assert_int_eq(nib_subscribe(one.conn, "t"), 0);
    ck_assert_int_eq(on_owner(one.conn, publish_wait_here, &p), -EDEADLK);
    ck_assert_int_eq(on_owner(other.conn, publish_wait_here, &p), -EDEADLK);
    ck_assert_uint_eq(site_stats(&site).published, 0);
    ck_assert_int_eq(nib_send(one.conn, "only", 4, NIB_TEXT), 0);
    peer_expect_message(one.peer, "only");
    nib_message_unref(p.msg);
    finish();
}
END_TEST

/* ---- the server ---- */

static int join_here(struct nib_conn *conn, void *arg)
{
    unsigned running;

    (void)conn;
    return nib_server_join(site.srv, *(int *)arg, &running);
}

static int next_here(struct nib_conn *conn, void *arg)
{
    struct nib_request *req;

    (void)conn;
    return nib_server_next(site.srv, &req, *(int *)arg);
}

static int join_held(struct held *h, void *arg)
{
    (void)h;
    return nib_server_join(site.srv, *(int *)arg, NULL);
}

static int next_held(struct held *h, void *arg)
{
    struct nib_request *req;

    (void)h;
    return nib_server_next(site.srv, &req, *(int *)arg);
}

START_TEST(the_servers_threads_do_not_wait_for_it)
{
    static int timeouts[] = {-1, 0, 1000};
    struct peer *p, *holder;
    struct held *h;

    start();
    holder = site_connect(&site);
    peer_ask(holder, "/hold");
    h = held_next(&site);
    ck_assert_int_eq(held_do(h, next_held, &timeouts[1]), -ETIMEDOUT);
    p = site_connect(&site);
    peer_ask(p, "/next");
    for (size_t i = 0; i < COUNT(timeouts); i++) {
        int *t = &timeouts[i];

        ck_assert_int_eq(on_owner(one.conn, join_here, t), -EDEADLK);
        ck_assert_int_eq(on_owner(other.conn, join_here, t), -EDEADLK);
        ck_assert_int_eq(held_do(h, join_held, t), -EDEADLK);
        ck_assert_int_eq(on_owner(one.conn, next_here, t), -EDEADLK);
        ck_assert_int_eq(on_owner(other.conn, next_here, t), -EDEADLK);
    }
    nib_request_unref(site_next(&site));
    held_return(h, 0);
    peer_free(p);
    peer_free(holder);
    finish();
}
END_TEST

/* ---- on a foreign thread ---- */

/* Everything, in an order that makes sense, on a thread of its own. */
static int wait_for_all(void *arg)
{
    struct nib_message *msg = large(), *got = NULL;
    struct nib_publish_counts counts;
    struct nib_request *req = NULL;
    struct nib_conn *conn = NULL;

    (void)arg;
    must(nib_server_next(site.srv, &req, -1) == 0);
    must(nib_reject(req, 404, NULL, 0, NULL, 0) == 0);
    must(nib_accept(req, NULL, NULL) == NIB_ESTATE);
    nib_request_unref(req);
    must(nib_server_next(site.srv, &req, -1) == 0);
    must(nib_accept(req, NULL, &conn) == 0);
    must(nib_reject(req, 404, NULL, 0, NULL, 0) == NIB_ESTATE);
    /* More than fits at once. */
    for (int i = 0; i < 10; i++)
        must(nib_send(conn, nib_message_data(msg, NULL), MESSAGE,
                      NIB_BINARY) == 0);
    for (int i = 0; i < 10; i++)
        must(nib_send_message(conn, msg, 0) == 0);
    must(nib_flush(conn, -1) == 0);
    must(nib_subscribe(conn, "t") == 0);
    /* Not so much that a subscriber who does not read is closed. */
    must(nib_publish(site.srv, "t", msg, NULL, 0) == 0);
    must(nib_publish_wait(site.srv, "t", msg, NULL, 0, &counts) == 0);
    must(counts.queued == 1);
    must(nib_recv(conn, &got, -1) == 0);
    must(memcmp(nib_message_data(got, NULL), "done", 4) == 0);
    nib_message_unref(got);
    must(nib_recv(conn, &got, 0) == -ETIMEDOUT);
    must(nib_close(conn, 4000, "end", -1) == 0);
    must(nib_conn_state(conn) == NIB_CLOSED);
    must(nib_recv(conn, &got, -1) == -EPIPE);
    nib_request_unref(req);
    nib_message_unref(msg);
    must(nib_server_join(site.srv, 0, NULL) == -ETIMEDOUT);
    must(nib_server_next(site.srv, &req, 0) == -ETIMEDOUT);
    nib_server_stop(site.srv, 0);
    must(nib_server_join(site.srv, -1, NULL) == 0);
    must(nib_server_next(site.srv, &req, -1) == -ECANCELED);
    return 0;
}

START_TEST(a_foreign_thread_waits)
{
    struct peer *p;
    struct job job;

    site_start(&site, small);
    job_start(&job, wait_for_all, NULL);
    job_await_sleep(&job);
    p = site_connect(&site);
    peer_ask(p, "/next");
    peer_expect_text(p, "HTTP/1.1 404 Not Found\r\n");
    peer_free(p);
    p = peer_connect(site.address, 4096);
    peer_upgrade(p, "/next");
    job_await_sleep(&job); /* for room */
    for (int i = 0; i < 20; i++)
        ck_assert_uint_eq(peer_read_frame(p).len, MESSAGE);
    for (int i = 0; i < 2; i++)
        ck_assert_uint_eq(peer_read_frame(p).len, MESSAGE);
    job_await_sleep(&job); /* for a message */
    peer_send_frame(p, PEER_TEXT, "done", 4);
    peer_expect_close(p, 4000, "end");
    job_await_sleep(&job); /* for the end */
    peer_send_close(p, 4000, "");
    peer_expect_end(p);
    peer_free(p);
    ck_assert_int_eq(job_wait(&job), 0);
    site_free(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(the_owner_begins_an_accept),
        TEST(the_owner_begins_a_reject),
        TEST(another_reactor_decides_nothing),
        TEST(a_reactor_sends_while_there_is_room),
        TEST(a_reactor_does_not_wait_to_send),
        TEST(a_reactor_does_not_wait_to_send_a_message),
        TEST(no_reactor_receives),
        TEST(no_reactor_waits_for_a_flush),
        TEST(a_reactor_does_not_wait_for_a_close),
        TEST(the_owner_does_not_wait_to_publish),
        TEST(another_reactor_does_not_wait_to_publish),
        TEST(no_reactor_waits_for_what_it_publishes),
        TEST(the_servers_threads_do_not_wait_for_it),
        TEST(a_foreign_thread_waits),
    };

    return run_tests("waits", tests, COUNT(tests));
}
