/*
 * test_recv - what a receiver may rely on: order, ends, bounds.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct site site;

static int recv_result(struct nib_conn *conn, int timeout_ms)
{
    struct nib_message *msg = NULL;
    int err = nib_recv(conn, &msg, timeout_ms);

    if (err == 0)
        nib_message_unref(msg);
    return err;
}

static int recv_forever(void *arg)
{
    return recv_result(arg, -1);
}

START_TEST(messages_come_in_order_and_whole)
{
    static char data[200000];
    char text[16];
    struct nib_message *msg;
    struct link l;
    size_t len;

    memset(data, 'd', sizeof data);
    site_start(&site, NULL);
    l = link_open(&site);
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "%d", i);
        peer_send_frame(l.peer, PEER_TEXT, text, strlen(text));
    }
    peer_send_frame(l.peer, PEER_BINARY, "", 0);
    peer_send_frame(l.peer, PEER_BINARY, data, sizeof data);
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "%d", i);
        expect_recv(l.conn, NIB_TEXT, text);
    }
    expect_recv(l.conn, NIB_BINARY, "");
    ck_assert_int_eq(nib_recv(l.conn, &msg, -1), 0);
    ck_assert(memcmp(nib_message_data(msg, &len), data, sizeof data) == 0);
    ck_assert_uint_eq(len, sizeof data);
    nib_message_unref(msg);
    ck_assert_uint_eq(site_stats(&site).messages_in, 52);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(fragments_are_put_together)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    peer_send_frame(l.peer, 0x01, "ab", 2);
    peer_send_frame(l.peer, PEER_PING, "x", 1);
    peer_expect_frame(l.peer, PEER_PONG, "x", 1);
    peer_send_frame(l.peer, 0x00, "", 0);
    peer_send_frame(l.peer, 0x00, "cd", 2);
    peer_send_frame(l.peer, PEER_PONG, "unasked", 7);
    peer_send_frame(l.peer, PEER_CONTINUATION, "ef", 2);
    expect_recv(l.conn, NIB_TEXT, "abcdef");
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_timeout_keeps_partial_messages)
{
    uint8_t frame[32];
    struct link l;
    size_t n;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(recv_result(l.conn, 0), -ETIMEDOUT);
    ck_assert_int_eq(recv_result(l.conn, 10), -ETIMEDOUT);
    peer_send_frame(l.peer, 0x01, "one ", 4);
    n = peer_encode(frame, PEER_CONTINUATION, "message", 7);
    peer_send(l.peer, frame, 5);
    ck_assert_int_eq(recv_result(l.conn, 10), -ETIMEDOUT);
    ck_assert_int_eq(recv_result(l.conn, 0), -ETIMEDOUT);
    peer_send(l.peer, frame + 5, n - 5);
    expect_recv(l.conn, NIB_TEXT, "one message");
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_message_split_at_every_byte_arrives)
{
    uint8_t frames[64];
    struct link l;
    size_t n;

    site_start(&site, NULL);
    l = link_open(&site);
    n = peer_encode(frames, 0x01, "h\xc3", 2);
    n += peer_encode(frames + n, PEER_PING, "p", 1);
    n += peer_encode(frames + n, PEER_CONTINUATION, "\xa9!", 2);
    for (size_t at = 1; at < n; at++) {
        uint64_t before = site_stats(&site).bytes_in;

        peer_send(l.peer, frames, at);
        site_await_bytes_in(&site, before + at);
        peer_send(l.peer, frames + at, n - at);
        expect_recv(l.conn, NIB_TEXT, "h\xc3\xa9!");
        peer_expect_frame(l.peer, PEER_PONG, "p", 1);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t before = site_stats(&site).bytes_in;

        peer_send(l.peer, frames + i, 1);
        site_await_bytes_in(&site, before + 1);
    }
    expect_recv(l.conn, NIB_TEXT, "h\xc3\xa9!");
    peer_expect_frame(l.peer, PEER_PONG, "p", 1);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- ends ---- */

/* Three messages wait, then the connection ends: they come first. */
static void queue_first(void (*end)(struct link *l), int code, bool local,
                        bool clean, const char *reason)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    for (int i = 0; i < 3; i++)
        peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    end(&l);
    await_closed(l.conn);
    for (int i = 0; i < 3; i++)
        expect_recv(l.conn, NIB_TEXT, "m");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(recv_result(l.conn, -1), -EPIPE);
    ck_assert_int_eq(recv_result(l.conn, 0), -EPIPE);
    expect_info(l.conn, code, local, clean, reason);
    ck_assert_int_eq(nib_send(l.conn, "x", 1, NIB_TEXT), -EPIPE);
    link_free(&l);
    site_stop(&site);
}

static void peer_closes(struct link *l)
{
    peer_send_close(l->peer, 4001, "bye");
    peer_expect_close(l->peer, 4001, "bye");
    peer_expect_end(l->peer);
    peer_free(l->peer);
    l->peer = NULL;
}

static void peer_closes_empty(struct link *l)
{
    peer_send_close(l->peer, 0, "");
    peer_expect_close(l->peer, 0, "");
    peer_expect_end(l->peer);
    peer_free(l->peer);
    l->peer = NULL;
}

static void peer_ends(struct link *l)
{
    peer_free(l->peer);
    l->peer = NULL;
}

/* By RST, but not before what was sent has been read: it would be lost. */
static void peer_resets(struct link *l)
{
    peer_send_frame(l->peer, PEER_PING, "", 0);
    peer_expect_frame(l->peer, PEER_PONG, "", 0);
    peer_reset(l->peer);
    l->peer = NULL;
}

static void peer_errs(struct link *l)
{
    peer_send_hex(l->peer, "8100"); /* not masked */
    peer_expect_hex(l->peer, "88");
    peer_free(l->peer);
    l->peer = NULL;
}

START_TEST(the_queue_comes_before_the_peers_close)
{
    queue_first(peer_closes, 4001, false, true, "bye");
}
END_TEST

START_TEST(the_queue_comes_before_an_empty_close)
{
    queue_first(peer_closes_empty, 1005, false, true, "");
}
END_TEST

START_TEST(the_queue_comes_before_a_fin)
{
    queue_first(peer_ends, 1006, false, false, "");
}
END_TEST

START_TEST(the_queue_comes_before_a_reset)
{
    queue_first(peer_resets, 1006, false, false, "");
}
END_TEST

START_TEST(the_queue_comes_before_a_protocol_error)
{
    struct nib_close_info info;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    peer_errs(&l);
    await_closed(l.conn);
    expect_recv(l.conn, NIB_TEXT, "m");
    ck_assert_int_eq(recv_result(l.conn, -1), -EPIPE);
    ck_assert_int_eq(nib_conn_close_info(l.conn, &info), 0);
    ck_assert_int_eq(info.code, 1002);
    ck_assert(info.local);
    ck_assert(!info.clean);
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* A handler that sleeps when everything comes at once, Close included. */
START_TEST(messages_and_close_in_one_segment_all_arrive)
{
    uint8_t bytes[4096];
    char text[16];
    struct link l;
    size_t n = 0;

    site_start(&site, NULL);
    l = link_open(&site);
    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "%d", i);
        n += peer_encode(bytes + n, PEER_TEXT, text, strlen(text));
    }
    n += peer_encode(bytes + n, PEER_CLOSE, "\x03\xe8", 2);
    peer_send(l.peer, bytes, n);
    peer_half_close(l.peer);
    await_closed(l.conn);
    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "%d", i);
        expect_recv(l.conn, NIB_TEXT, text);
    }
    ck_assert_int_eq(recv_result(l.conn, -1), -EPIPE);
    expect_info(l.conn, 1000, false, true, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_local_close_drops_what_was_received)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    peer_send_frame(l.peer, PEER_PING, "", 0);
    peer_expect_frame(l.peer, PEER_PONG, "", 0);
    ck_assert_int_eq(nib_close(l.conn, 1000, "done", 0), 0);
    peer_expect_close(l.peer, 1000, "done");
    ck_assert_int_eq(recv_result(l.conn, -1), -EPIPE);
    /* What comes between the two Closes is dropped as well. */
    peer_send_frame(l.peer, PEER_TEXT, "late", 4);
    peer_send_close(l.peer, 1000, "");
    peer_expect_end(l.peer);
    await_closed(l.conn);
    ck_assert_int_eq(recv_result(l.conn, -1), -EPIPE);
    expect_info(l.conn, 1000, true, true, "done");
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* A receiver waits while the connection ends. */
static void wakes(void (*end)(struct link *l))
{
    struct job job;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    job_start(&job, recv_forever, l.conn);
    job_await_sleep(&job);
    end(&l);
    ck_assert_int_eq(job_wait(&job), -EPIPE);
    link_free(&l);
    site_stop(&site);
}

static void local_close(struct link *l)
{
    nib_close(l->conn, 1000, NULL, 0);
}

static void local_abort(struct link *l)
{
    nib_abort(l->conn);
}

static void stop(struct link *l)
{
    (void)l;
    nib_server_stop(site.srv, 0);
}

START_TEST(a_waiting_receiver_is_woken_by_every_end)
{
    static void (*const ends[])(struct link *l) = {
        peer_closes, peer_closes_empty, peer_ends,   peer_resets,
        peer_errs,   local_close,       local_abort, stop,
    };

    for (size_t i = 0; i < COUNT(ends); i++)
        wakes(ends[i]);
}
END_TEST

/* ---- one receiver ---- */

START_TEST(a_second_receiver_is_busy)
{
    struct job job;
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    job_start(&job, recv_forever, l.conn);
    job_await_sleep(&job);
    ck_assert_int_eq(recv_result(l.conn, -1), -EBUSY);
    ck_assert_int_eq(recv_result(l.conn, 0), -EBUSY);
    peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    ck_assert_int_eq(job_wait(&job), 0);
    ck_assert_int_eq(recv_result(l.conn, 0), -ETIMEDOUT);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

static int recv_here(struct nib_conn *conn, void *arg)
{
    struct nib_message *msg;

    (void)conn;
    return nib_recv(arg, &msg, 0);
}

START_TEST(a_reactor_does_not_receive)
{
    struct link links[4];

    site_start(&site, NULL);
    for (int i = 0; i < 4; i++)
        links[i] = link_open(&site);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(on_owner(links[i].conn, recv_here, links[0].conn),
                         -EDEADLK);
    for (int i = 0; i < 4; i++)
        link_finish(&links[i]);
    site_stop(&site);
}
END_TEST

START_TEST(a_connection_with_callbacks_has_no_receiver)
{
    struct link l;

    site_start(&site, NULL);
    l = link_callbacks(&site);
    ck_assert_int_eq(recv_result(l.conn, -1), NIB_ESTATE);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

/* ---- bounds ---- */

static void inbox_of_4(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_inbox(cfg, 4, 1 << 20), 0);
    ck_assert_int_eq(nib_config_set_stash_bytes(cfg, 4096), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 0, 32768), 0);
}

static void inbox_of_10000_bytes(struct nib_config *cfg)
{
    ck_assert_int_eq(nib_config_set_inbox(cfg, 1000, 10000), 0);
    ck_assert_int_eq(nib_config_set_stash_bytes(cfg, 4096), 0);
    ck_assert_int_eq(nib_config_set_socket_buffers(cfg, 0, 32768), 0);
}

struct flood {
    struct peer *peer;
    uint8_t bytes[1100];
    size_t len;
    size_t off; /* of the frame that is being sent */
    unsigned sent; /* whole frames */
    unsigned number;
};

/* Sends numbered frames until the kernel takes no more for a while. */
static bool pour(void *arg)
{
    struct flood *f = arg;
    unsigned before = f->sent;

    for (;;) {
        if (f->off == f->len) {
            uint8_t data[1000] = {(uint8_t)(f->number >> 8),
                                  (uint8_t)f->number};

            f->len = peer_encode(f->bytes, PEER_BINARY, data, sizeof data);
            f->off = 0;
            f->number++;
        }
        f->off += peer_send_some(f->peer, f->bytes + f->off,
                                 f->len - f->off);
        if (f->off < f->len)
            return f->sent == before;
        f->sent++;
    }
}

static bool quiet(void *arg)
{
    uint64_t before = site_stats(&site).bytes_in;

    for (int i = 0; i < 20; i++)
        if (!pour(arg))
            return false;
    return site_stats(&site).bytes_in == before;
}

/* What was poured in leaves as the server reads. */
static int run_dry(void *peer)
{
    peer_flush(peer);
    return 0;
}

static void inbox_full(void (*tweak)(struct nib_config *cfg),
                       uint64_t most_messages)
{
    struct flood f = {.peer = NULL};
    struct link l;
    struct job dry;
    int send_bytes = 4096;
    size_t len;

    site_start(&site, tweak);
    l = link_open(&site);
    f.peer = l.peer;
    ck_assert_int_eq(setsockopt(peer_fd(l.peer), SOL_SOCKET, SO_SNDBUF,
                                &send_bytes, sizeof send_bytes),
                     0);
    until(quiet, &f, "a server that does not read any more");
    ck_assert_uint_eq(site_stats(&site).messages_in, most_messages);
    ck_assert_uint_gt(f.sent, most_messages);
    /* It goes on as soon as there is room, and nothing is lost. */
    job_start(&dry, run_dry, l.peer);
    for (unsigned i = 0; i < f.sent; i++) {
        struct nib_message *msg;
        const uint8_t *data;

        ck_assert_int_eq(nib_recv(l.conn, &msg, peer_patience_ms()), 0);
        data = nib_message_data(msg, &len);
        ck_assert_uint_eq(len, 1000);
        ck_assert_uint_eq((unsigned)data[0] << 8 | data[1], i);
        nib_message_unref(msg);
    }
    ck_assert_int_eq(job_wait(&dry), 0);
    link_free(&l);
    site_stop(&site);
}

START_TEST(a_full_inbox_stops_reading)
{
    inbox_full(inbox_of_4, 4);
}
END_TEST

START_TEST(an_inbox_is_full_by_bytes_as_well)
{
    inbox_full(inbox_of_10000_bytes, 10);
}
END_TEST

START_TEST(a_message_larger_than_the_inbox_fits_alone)
{
    static char data[300000];
    struct nib_message *msg;
    struct link l;
    size_t len;

    site_start(&site, inbox_of_10000_bytes);
    l = link_open(&site);
    for (int i = 0; i < 3; i++) {
        peer_send_frame(l.peer, PEER_BINARY, data, sizeof data);
        ck_assert_int_eq(nib_recv(l.conn, &msg, peer_patience_ms()), 0);
        nib_message_data(msg, &len);
        ck_assert_uint_eq(len, sizeof data);
        nib_message_unref(msg);
    }
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_full_inbox_does_not_hide_the_end)
{
    struct link l;

    site_start(&site, inbox_of_4);
    l = link_open(&site);
    for (int i = 0; i < 6; i++)
        peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    peer_send_close(l.peer, 4002, "end");
    peer_half_close(l.peer);
    for (int i = 0; i < 6; i++)
        expect_recv(l.conn, NIB_TEXT, "m");
    ck_assert_int_eq(recv_result(l.conn, -1), -EPIPE);
    await_closed(l.conn);
    expect_info(l.conn, 4002, false, true, "end");
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(a_fin_behind_a_full_inbox_comes_after_its_messages)
{
    struct link l;

    site_start(&site, inbox_of_4);
    l = link_open(&site);
    for (int i = 0; i < 6; i++)
        peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    peer_free(l.peer);
    l.peer = NULL;
    for (int i = 0; i < 6; i++)
        expect_recv(l.conn, NIB_TEXT, "m");
    ck_assert_int_eq(recv_result(l.conn, -1), -EPIPE);
    await_closed(l.conn);
    expect_info(l.conn, 1006, false, false, "");
    link_free(&l);
    site_stop(&site);
}
END_TEST

/* ---- callbacks: pause and resume ---- */

static void pause_after_first(struct site *s, struct nib_conn *conn,
                              struct nib_message *msg)
{
    (void)s;
    (void)msg;
    must(nib_conn_pause(conn) == 0);
}

START_TEST(a_paused_connection_delivers_nothing_until_resumed)
{
    struct link l;

    site_start(&site, NULL);
    site.on_message = pause_after_first;
    l = link_callbacks(&site);
    for (int i = 0; i < 5; i++)
        peer_send_frame(l.peer, PEER_TEXT, "m", 1);
    for (int i = 0; i < 5; i++) {
        /* The peer's own state can't show it; the owner's next turn can. */
        site_event(&site, EVENT_MESSAGE);
        ck_assert_int_eq(on_owner(l.conn, recv_here, l.conn), -EDEADLK);
        ck_assert_uint_eq(site_events_left(&site), 0);
        ck_assert_int_eq(nib_conn_resume(l.conn), 0);
    }
    peer_free(l.peer);
    l.peer = NULL;
    site_event(&site, EVENT_CLOSE);
    ck_assert_int_eq(nib_conn_pause(l.conn), -EPIPE);
    ck_assert_int_eq(nib_conn_resume(l.conn), -EPIPE);
    link_free(&l);
    site_stop(&site);
}
END_TEST

START_TEST(of_a_pause_and_a_resume_the_last_counts)
{
    struct link l;

    site_start(&site, NULL);
    l = link_callbacks(&site);
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(nib_conn_pause(l.conn), 0);
        ck_assert_int_eq(nib_conn_resume(l.conn), 0);
        peer_send_frame(l.peer, PEER_TEXT, "m", 1);
        site_event(&site, EVENT_MESSAGE);
    }
    link_finish(&l);
    site_stop(&site);
}
END_TEST

START_TEST(only_callbacks_can_be_paused)
{
    struct link l;

    site_start(&site, NULL);
    l = link_open(&site);
    ck_assert_int_eq(nib_conn_pause(l.conn), NIB_ESTATE);
    ck_assert_int_eq(nib_conn_resume(l.conn), NIB_ESTATE);
    link_finish(&l);
    site_stop(&site);
}
END_TEST

static void keep_message(struct site *s, struct nib_conn *conn,
                         struct nib_message *msg)
{
    (void)conn;
    s->user = nib_message_ref(msg);
}

START_TEST(a_message_of_a_callback_can_be_kept)
{
    struct nib_message *msg;
    struct link l;
    size_t len;

    site_start(&site, NULL);
    site.on_message = keep_message;
    l = link_callbacks(&site);
    peer_send_frame(l.peer, PEER_TEXT, "keep me", 7);
    site_event(&site, EVENT_MESSAGE);
    ck_assert_int_eq(on_owner(l.conn, recv_here, l.conn), -EDEADLK);
    link_finish(&l);
    msg = site.user;
    ck_assert_ptr_nonnull(msg);
    ck_assert(memcmp(nib_message_data(msg, &len), "keep me", 7) == 0);
    ck_assert_uint_eq(len, 7);
    ck_assert_uint_eq(nib_message_kind(msg), NIB_TEXT);
    nib_message_unref(msg);
    site_stop(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(messages_come_in_order_and_whole),
        TEST(fragments_are_put_together),
        TEST(a_timeout_keeps_partial_messages),
        TEST(a_message_split_at_every_byte_arrives),
        TEST(the_queue_comes_before_the_peers_close),
        TEST(the_queue_comes_before_an_empty_close),
        TEST(the_queue_comes_before_a_fin),
        TEST(the_queue_comes_before_a_reset),
        TEST(the_queue_comes_before_a_protocol_error),
        TEST(messages_and_close_in_one_segment_all_arrive),
        TEST(a_local_close_drops_what_was_received),
        TEST(a_waiting_receiver_is_woken_by_every_end),
        TEST(a_second_receiver_is_busy),
        TEST(a_reactor_does_not_receive),
        TEST(a_connection_with_callbacks_has_no_receiver),
        TEST(a_full_inbox_stops_reading),
        TEST(an_inbox_is_full_by_bytes_as_well),
        TEST(a_message_larger_than_the_inbox_fits_alone),
        TEST(a_full_inbox_does_not_hide_the_end),
        TEST(a_fin_behind_a_full_inbox_comes_after_its_messages),
        TEST(a_paused_connection_delivers_nothing_until_resumed),
        TEST(of_a_pause_and_a_resume_the_last_counts),
        TEST(only_callbacks_can_be_paused),
        TEST(a_message_of_a_callback_can_be_kept),
    };

    return run_tests("recv", tests, COUNT(tests));
}
