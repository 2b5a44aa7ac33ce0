/*
 * calls - see calls.h.
 */
#include "calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- errors, server ---- */

static void strerror_any(struct stage *st)
{
    (void)st;
    must(strcmp(nib_strerror(-EDEADLK), "must not wait on this thread") == 0);
}

static void address_any(struct stage *st)
{
    char text[128];

    must(nib_server_address(st->site->srv, 0, text, sizeof text) ==
         (int)strlen(st->site->address));
    must(strcmp(text, st->site->address) == 0);
    must(nib_server_address(st->site->srv, 1, text, sizeof text) == -ENOENT);
}

static void stop_live(struct stage *st)
{
    errno = 77;
    nib_server_stop(st->site->srv, 600000);
    must(errno == 77);
}

static void stop_after(struct stage *st)
{
    peer_expect_close(st->l.peer, 1001, "");
    peer_send_close(st->l.peer, 1001, "");
    peer_expect_end(st->l.peer);
    peer_expect_text(st->asking, "HTTP/1.1 503 Service Unavailable\r\n");
}

void stop_ended(struct stage *st)
{
    stop_live(st);
    stop_live(st);
}

/* Does this run speak TLS? */
static bool tls(void)
{
    return getenv("NIB_TEST_TLS") != NULL;
}

static void reload_tls_any(struct stage *st)
{
    char error[200];

    must(nib_server_reload_tls(st->site->srv, error, sizeof error) ==
         (tls() ? 0 : NIB_ESTATE));
    must(error[0] == '\0');
}

static void stats_live(struct stage *st)
{
    struct nib_stats stats;

    nib_server_stats(st->site->srv, &stats);
    must(stats.accepted == 2);
    must(stats.connections == 2);
    must(stats.upgraded == 1);
    must(stats.handshakes == 1);
}

static void stats_ended(struct stage *st)
{
    struct nib_stats stats;

    nib_server_stats(st->site->srv, &stats);
    must(stats.accepted == 2);
    must(stats.connections == 0);
    must(stats.upgraded == 1);
    must(stats.rejected == 1);
}

/* ---- requests ---- */

static void request_ref_any(struct stage *st)
{
    must(nib_request_ref(st->req) == st->req);
    nib_request_unref(st->req);
    nib_request_unref(NULL);
}

void request_unref_live(struct stage *st)
{
    nib_request_unref(st->req);
    st->req = NULL;
}

static void request_unref_after(struct stage *st)
{
    peer_expect_text(st->asking, "HTTP/1.1 500 Internal Server Error\r\n");
}

static void method_any(struct stage *st)
{
    must(strcmp(nib_request_method(st->req), "GET") == 0);
}

static void path_any(struct stage *st)
{
    must(strcmp(nib_request_path(st->req), "/next") == 0);
}

static void query_any(struct stage *st)
{
    must(strcmp(nib_request_query(st->req), "a=b") == 0);
}

static void request_tls_any(struct stage *st)
{
    struct nib_tls_info info;

    must(nib_request_tls(st->req, &info) == tls());
}

static void header_any(struct stage *st)
{
    must(strcmp(nib_request_header(st->req, "HOST", 0), "test") == 0);
    must(nib_request_header(st->req, "Host", 1) == NULL);
}

static void header_at_any(struct stage *st)
{
    struct nib_header line;

    must(nib_request_header_at(st->req, 0, &line));
    must(strcmp(line.name, "Host") == 0);
    must(strcmp(line.value, "test") == 0);
    must(!nib_request_header_at(st->req, 6, &line));
}

static void request_subprotocol_any(struct stage *st)
{
    must(strcmp(nib_request_subprotocol(st->req, 0), "one") == 0);
    must(strcmp(nib_request_subprotocol(st->req, 1), "two") == 0);
    must(nib_request_subprotocol(st->req, 2) == NULL);
}

static void request_peer_any(struct stage *st)
{
    must(strcmp(nib_request_peer(st->req), st->asking_name) == 0);
}

static void request_server_any(struct stage *st)
{
    must(nib_request_server(st->req) == st->site->srv);
}

static void note_ran(struct stage *st)
{
    st->owner = gettid();
    latch_add(&st->ran);
}

static void accepted(int result, struct nib_conn *conn, void *arg)
{
    must(result == 0);
    must(nib_conn_state(conn) == NIB_OPEN);
    note_ran(arg);
}

static void rejected(int result, void *arg)
{
    must(result == 0);
    note_ran(arg);
}

static void accept_async_live(struct stage *st)
{
    struct nib_accept_options wrong = {.subprotocol = "three"};

    must(nib_accept_async(st->req, &wrong, accepted, st) == -EINVAL);
    must(nib_accept_async(st->req, NULL, accepted, st) == 0);
    must(nib_accept_async(st->req, NULL, accepted, st) == NIB_ESTATE);
}

static void accept_async_after(struct stage *st)
{
    peer_expect_101(st->asking, "");
    latch_await(&st->ran, 1);
}

static void accept_async_ended(struct stage *st)
{
    must(nib_accept_async(st->req, NULL, accepted, st) == NIB_ESTATE);
}

static void reject_async_live(struct stage *st)
{
    must(nib_reject_async(st->req, 299, NULL, 0, NULL, 0, rejected, st) ==
         -EINVAL);
    must(nib_reject_async(st->req, 404, NULL, 0, "no", 2, rejected, st) == 0);
    must(nib_reject_async(st->req, 404, NULL, 0, "no", 2, rejected, st) ==
         NIB_ESTATE);
}

static void reject_async_after(struct stage *st)
{
    peer_expect_text(st->asking, "HTTP/1.1 404 Not Found\r\n");
    latch_await(&st->ran, 1);
}

static void reject_async_ended(struct stage *st)
{
    must(nib_reject_async(st->req, 404, NULL, 0, NULL, 0, rejected, st) ==
         NIB_ESTATE);
}

/* ---- messages ---- */

static void message_new_any(struct stage *st)
{
    struct nib_message *msg;

    (void)st;
    must(nib_message_new(NIB_TEXT, "\xff", 1, &msg) == -EILSEQ);
    must(nib_message_new(NIB_TEXT | NIB_BINARY, "x", 1, &msg) == -EINVAL);
    must(nib_message_new(NIB_TEXT, "x", 1, &msg) == 0);
    nib_message_unref(msg);
    nib_message_unref(NULL);
}

static void message_alloc_any(struct stage *st)
{
    struct nib_message *msg;
    void *data;

    (void)st;
    must(nib_message_alloc(NIB_BINARY, 3, &data, &msg) == 0);
    memcpy(data, "abc", 3);
    must(nib_message_data(msg, NULL) == data);
    nib_message_unref(msg);
}

static void message_ref_any(struct stage *st)
{
    must(nib_message_ref(st->msg) == st->msg);
    nib_message_unref(st->msg);
}

static void message_data_any(struct stage *st)
{
    size_t len;

    must(memcmp(nib_message_data(st->msg, &len), "text", 4) == 0);
    must(len == 4);
}

static void message_kind_any(struct stage *st)
{
    must(nib_message_kind(st->msg) == NIB_TEXT);
}

/* ---- connections ---- */

static void abort_any(struct stage *st)
{
    nib_abort(st->l.conn);
    nib_abort(st->l.conn);
}

static void abort_after(struct stage *st)
{
    struct event e;

    peer_expect_reset(st->l.peer);
    e = site_event(st->site, EVENT_CLOSE);
    ck_assert_int_eq(e.code, 1006);
    ck_assert(e.local);
    ck_assert(!e.clean);
}

static void ping_live(struct stage *st)
{
    char data[126] = "p";

    must(nib_ping(st->l.conn, data, 126) == -EINVAL);
    must(nib_ping(st->l.conn, data, 125) == 0);
    must(nib_ping(st->l.conn, "q", 1) == -EBUSY);
}

static void ping_after(struct stage *st)
{
    char data[125] = "p";

    peer_expect_frame(st->l.peer, PEER_PING, data, 125);
    peer_send_frame(st->l.peer, PEER_PONG, data, 125);
    ck_assert_uint_eq(site_event(st->site, EVENT_PONG).len, 125);
}

static void ping_ended(struct stage *st)
{
    char data[126] = "p";

    must(nib_ping(st->l.conn, data, 126) == -EINVAL);
    must(nib_ping(st->l.conn, "p", 1) == -EPIPE);
}

static void pause_live(struct stage *st)
{
    must(nib_conn_pause(st->l.conn) == 0);
}

static int nothing(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    return 0;
}

/* When it returns, a turn has ended that began after the call. */
static void await_turn(struct nib_conn *conn)
{
    on_owner(conn, nothing, NULL);
    on_owner(conn, nothing, NULL);
}

static void pause_after(struct stage *st)
{
    await_turn(st->l.conn); /* it holds */
    peer_send_frame(st->l.peer, PEER_TEXT, "m", 1);
    await_turn(st->l.conn); /* one that would have read it */
    ck_assert_uint_eq(site_events_left(st->site), 0);
    ck_assert_int_eq(nib_conn_resume(st->l.conn), 0);
    ck_assert_str_eq(site_event(st->site, EVENT_MESSAGE).text, "m");
}

static void pause_ended(struct stage *st)
{
    must(nib_conn_pause(st->l.conn) == -EPIPE);
}

static void resume_live(struct stage *st)
{
    must(nib_conn_resume(st->l.conn) == 0);
    must(nib_conn_pause(st->l.conn) == 0);
    must(nib_conn_resume(st->l.conn) == 0);
}

static void resume_after(struct stage *st)
{
    peer_send_frame(st->l.peer, PEER_TEXT, "m", 1);
    ck_assert_str_eq(site_event(st->site, EVENT_MESSAGE).text, "m");
}

static void resume_ended(struct stage *st)
{
    must(nib_conn_resume(st->l.conn) == -EPIPE);
}

static void conn_ref_any(struct stage *st)
{
    must(nib_conn_ref(st->l.conn) == st->l.conn);
    nib_conn_unref(st->l.conn);
    nib_conn_unref(NULL);
}

static void id_any(struct stage *st)
{
    uint64_t id = nib_conn_id(st->l.conn);

    must(id > 0);
    must(nib_conn_id(st->l.conn) == id);
}

static void buffered_any(struct stage *st)
{
    must(nib_conn_buffered(st->l.conn) == 0);
}

static void state_live(struct stage *st)
{
    must(nib_conn_state(st->l.conn) == NIB_OPEN);
}

static void state_ended(struct stage *st)
{
    must(nib_conn_state(st->l.conn) == NIB_CLOSED);
}

static void subprotocol_any(struct stage *st)
{
    must(strcmp(nib_conn_subprotocol(st->l.conn), "") == 0);
}

static void server_any(struct stage *st)
{
    must(nib_conn_server(st->l.conn) == st->site->srv);
}

static void user_any(struct stage *st)
{
    must(nib_conn_user(st->l.conn) == st->site);
}

static void close_info_live(struct stage *st)
{
    struct nib_close_info info;

    must(nib_conn_close_info(st->l.conn, &info) == NIB_ESTATE);
}

static void close_info_ended(struct stage *st)
{
    struct nib_close_info info;

    must(nib_conn_close_info(st->l.conn, &info) == 0);
    must(info.code == 4001);
    must(!info.local);
    must(info.clean);
    must(strcmp(info.reason, "bye") == 0);
    must(info.unsent_bytes == 0);
}

static void run_here(struct nib_conn *conn, void *arg)
{
    struct stage *st = arg;

    must(conn == st->l.conn);
    note_ran(st);
}

static void never(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    must(false);
}

static void post_any(struct stage *st)
{
    latch_init(&st->ran);
    must(nib_post(st->l.conn, run_here, never, st) == 0);
    latch_await(&st->ran, 1);
    must(st->owner != gettid());
    must(st->owner != st->test);
}

static void subscribe_live(struct stage *st)
{
    must(nib_subscribe(st->l.conn, "") == -EINVAL);
    must(nib_subscribe(st->l.conn, "t") == 0);
}

static void subscribe_after(struct stage *st)
{
    ck_assert_int_eq(nib_publish(st->site->srv, "t", st->msg, NULL, 0), 0);
    peer_expect_message(st->l.peer, "text");
}

static void subscribe_ended(struct stage *st)
{
    must(nib_subscribe(st->l.conn, "t") == -EPIPE);
}

static void unsubscribe_live(struct stage *st)
{
    must(nib_unsubscribe(st->l.conn, "") == -EINVAL);
    must(nib_unsubscribe(st->l.conn, "t") == 0);
    must(nib_subscribe(st->l.conn, "t") == 0);
    must(nib_unsubscribe(st->l.conn, "t") == 0);
}

static void unsubscribe_after(struct stage *st)
{
    struct nib_publish_counts counts;

    ck_assert_int_eq(nib_publish_wait(st->site->srv, "t", st->msg, NULL, 0,
                                      &counts),
                     0);
    ck_assert_uint_eq(counts.queued, 0);
}

static void unsubscribe_ended(struct stage *st)
{
    must(nib_unsubscribe(st->l.conn, "t") == -EPIPE);
}

/* ---- the table ---- */

#define SETUP(name) {#name, "setup", NULL, NULL, NULL}
#define WAIT(name) {#name, "wait", NULL, NULL, NULL}
#define OWNER(name) {#name, "owner", NULL, NULL, NULL}
#define ANY(name, live, after, ended) {#name, "any", live, after, ended}
/* The end of its object makes no difference. */
#define SAME(name, live) {#name, "any", live, NULL, live}

const struct row rows[] = {
    SAME(nib_strerror, strerror_any),
    SETUP(nib_set_allocator),
    SETUP(nib_config_new),
    SETUP(nib_config_free),
    SETUP(nib_config_error),
    SETUP(nib_config_listen),
    SETUP(nib_config_set_log),
    SETUP(nib_config_set_reactors),
    SETUP(nib_config_set_handlers),
    SETUP(nib_config_set_head),
    SETUP(nib_config_set_message_bytes),
    SETUP(nib_config_set_outbox_bytes),
    SETUP(nib_config_set_outbox_total_bytes),
    SETUP(nib_config_set_inbox),
    SETUP(nib_config_set_stash_bytes),
    SETUP(nib_config_set_frame_bytes),
    SETUP(nib_config_set_handshake_timeout_ms),
    SETUP(nib_config_set_close_timeout_ms),
    SETUP(nib_config_set_ping),
    SETUP(nib_config_set_idle_timeout_ms),
    SETUP(nib_config_set_write_timeout_ms),
    SETUP(nib_config_set_send_timeout_ms),
    SETUP(nib_config_set_max_connections),
    SETUP(nib_config_set_max_per_address),
    SETUP(nib_config_set_max_handshakes),
    SETUP(nib_config_set_control_rate),
    SETUP(nib_config_set_commands),
    SETUP(nib_config_set_topic_bytes),
    SETUP(nib_config_set_socket_buffers),
    SETUP(nib_config_set_stop_code),
    SETUP(nib_config_listen_tls),
    SETUP(nib_config_certificate),
    SETUP(nib_config_set_client_ca),
    SETUP(nib_config_set_tls_version),
    SETUP(nib_config_set_tls_ciphers),
    SETUP(nib_config_set_ticket_keys),
    SETUP(nib_config_set_handshake_threads),
    SETUP(nib_config_set_max_tls),
    SETUP(nib_config_route),
    SETUP(nib_route_set_handler),
    SETUP(nib_route_set_callbacks),
    SETUP(nib_route_set_http),
    SETUP(nib_route_set_subprotocols),
    SETUP(nib_route_set_send_timeout_ms),
    SETUP(nib_server_new),
    SETUP(nib_server_start),
    SETUP(nib_server_error),
    SAME(nib_server_address, address_any),
    ANY(nib_server_stop, stop_live, stop_after, stop_ended),
    WAIT(nib_server_join),
    SETUP(nib_server_free),
    WAIT(nib_server_next),
    SAME(nib_server_reload_tls, reload_tls_any),
    ANY(nib_server_stats, stats_live, NULL, stats_ended),
    SAME(nib_request_ref, request_ref_any),
    ANY(nib_request_unref, request_unref_live, request_unref_after,
        request_unref_live),
    SAME(nib_request_method, method_any),
    SAME(nib_request_path, path_any),
    SAME(nib_request_query, query_any),
    SAME(nib_request_header, header_any),
    SAME(nib_request_header_at, header_at_any),
    SAME(nib_request_subprotocol, request_subprotocol_any),
    SAME(nib_request_peer, request_peer_any),
    SAME(nib_request_tls, request_tls_any),
    SAME(nib_request_server, request_server_any),
    WAIT(nib_accept),
    WAIT(nib_reject),
    ANY(nib_accept_async, accept_async_live, accept_async_after,
        accept_async_ended),
    ANY(nib_reject_async, reject_async_live, reject_async_after,
        reject_async_ended),
    OWNER(nib_respond),
    SAME(nib_message_new, message_new_any),
    SAME(nib_message_alloc, message_alloc_any),
    SAME(nib_message_ref, message_ref_any),
    SAME(nib_message_unref, message_ref_any),
    SAME(nib_message_data, message_data_any),
    SAME(nib_message_kind, message_kind_any),
    WAIT(nib_send),
    WAIT(nib_send_message),
    WAIT(nib_recv),
    WAIT(nib_flush),
    WAIT(nib_close),
    ANY(nib_abort, abort_any, abort_after, abort_any),
    ANY(nib_ping, ping_live, ping_after, ping_ended),
    ANY(nib_conn_pause, pause_live, pause_after, pause_ended),
    ANY(nib_conn_resume, resume_live, resume_after, resume_ended),
    SAME(nib_conn_ref, conn_ref_any),
    SAME(nib_conn_unref, conn_ref_any),
    SAME(nib_conn_id, id_any),
    SAME(nib_conn_buffered, buffered_any),
    ANY(nib_conn_state, state_live, NULL, state_ended),
    SAME(nib_conn_subprotocol, subprotocol_any),
    SAME(nib_conn_server, server_any),
    SAME(nib_conn_user, user_any),
    OWNER(nib_conn_set_user),
    ANY(nib_conn_close_info, close_info_live, NULL, close_info_ended),
    SAME(nib_post, post_any),
    OWNER(nib_watch),
    OWNER(nib_watch_set),
    OWNER(nib_watch_free),
    OWNER(nib_timer),
    OWNER(nib_timer_free),
    ANY(nib_subscribe, subscribe_live, subscribe_after, subscribe_ended),
    ANY(nib_unsubscribe, unsubscribe_live, unsubscribe_after,
        unsubscribe_ended),
    WAIT(nib_publish),
    WAIT(nib_publish_wait),
};

const size_t row_count = sizeof rows / sizeof rows[0];
