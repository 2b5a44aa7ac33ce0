/*
 * test_outbox - chunks, pieces, the line of waiters, dropping.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "server/outbox.h"

static struct nib__outbox o;
static struct nib__chunk_pool pool;
static _Atomic size_t total;
static uint8_t wire[1 << 20]; /* what was taken to be written */
static size_t wire_len;

static void setup(void)
{
    nib__alloc_watch(true);
    total = 0;
    wire_len = 0;
    nib__chunk_pool_init(&pool, &total, 0);
    nib__outbox_init(&o);
    nib__lock_take(&o.lock);
}

static void teardown(void)
{
    nib__lock_release(&o.lock);
    nib__outbox_destroy(&o, &pool);
    ck_assert_uint_eq(total, 0);
    nib__chunk_pool_destroy(&pool);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

/* Takes at most `most` bytes off the front, as a write would. */
static size_t take(size_t most)
{
    struct iovec pieces[8];
    int n = nib__outbox_pieces(&o, pieces, 8, most);
    size_t taken = 0;

    for (int i = 0; i < n && taken < most; i++) {
        size_t part = pieces[i].iov_len;

        if (part > most - taken)
            part = most - taken;
        memcpy(wire + wire_len, pieces[i].iov_base, part);
        wire_len += part;
        taken += part;
    }
    nib__outbox_consume(&o, &pool, taken);
    return taken;
}

static void link_message(const void *data, size_t len, size_t frame_bytes)
{
    struct nib__chunk *chunk =
        nib__chunk_encode(&pool, NIB_BINARY, data, len, frame_bytes);

    ck_assert_ptr_nonnull(chunk);
    nib__outbox_link(&o, chunk, nib__wire_bytes(len, frame_bytes));
}

static void copy_message(const char *text)
{
    ck_assert_int_eq(
        nib__outbox_copy(&o, &pool, NIB_TEXT, text, strlen(text)), 0);
}

START_TEST(bytes_on_the_wire)
{
    ck_assert_uint_eq(nib__wire_bytes(0, 1024), 2);
    ck_assert_uint_eq(nib__wire_bytes(125, 1024), 127);
    ck_assert_uint_eq(nib__wire_bytes(126, 1024), 130);
    ck_assert_uint_eq(nib__wire_bytes(1024, 1024), 1028);
    ck_assert_uint_eq(nib__wire_bytes(1025, 1024), 1028 + 3);
    ck_assert_uint_eq(nib__wire_bytes(2048, 1024), 2 * 1028);
    ck_assert_uint_eq(nib__wire_bytes(65535, 1 << 20), 65539);
    ck_assert_uint_eq(nib__wire_bytes(65536, 1 << 20), 65546);
}
END_TEST

START_TEST(copies_come_out_in_order)
{
    copy_message("one");
    copy_message("two");
    ck_assert_uint_eq(o.charged, 10);
    ck_assert_uint_eq(take(1000), 10);
    ck_assert_int_eq(memcmp(wire, "\x81\x03one\x81\x03two", 10), 0);
    ck_assert_uint_eq(o.charged, 0);
    ck_assert_uint_eq(o.accepted, 10);
    ck_assert_uint_eq(o.written, 10);
}
END_TEST

START_TEST(every_length_comes_out_a_byte_at_a_time)
{
    static char data[600];

    memset(data, 'x', sizeof data);
    for (size_t len = 0; len < sizeof data; len++) {
        wire_len = 0;
        link_message(data, len, 1024);
        link_message(data, 3, 1024);
        while (take(1) == 1)
            ;
        ck_assert_uint_eq(wire_len, nib__wire_bytes(len, 1024) + 5);
        ck_assert_int_eq(memcmp(wire + wire_len - 5, "\x82\x03xxx", 5), 0);
        ck_assert_ptr_null(o.first);
    }
}
END_TEST

/* A message of three frames by copy and by reference: the same bytes. */
START_TEST(shared_and_encoded_are_the_same)
{
    static uint8_t data[5000], first[6000];
    struct nib_message *msg;
    struct nib__chunk *chunks;
    size_t bytes = nib__wire_bytes(sizeof data, 2000);

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    link_message(data, sizeof data, 2000);
    ck_assert_uint_eq(take(sizeof first), bytes);
    memcpy(first, wire, bytes);
    wire_len = 0;
    ck_assert_int_eq(nib_message_new(NIB_BINARY, data, sizeof data, &msg), 0);
    chunks = nib__chunk_share(&pool, msg, 2000);
    ck_assert_ptr_nonnull(chunks);
    nib_message_unref(msg); /* the chunks hold it */
    nib__outbox_link(&o, chunks, bytes);
    while (take(700) > 0)
        ;
    ck_assert_uint_eq(wire_len, bytes);
    ck_assert_int_eq(memcmp(wire, first, bytes), 0);
}
END_TEST

START_TEST(small_copies_share_chunks)
{
    unsigned chunks = 0;

    for (unsigned i = 0; i < 1000; i++)
        copy_message("0123456789");
    for (struct nib__chunk *c = o.first; c != NULL; c = c->next)
        chunks++;
    ck_assert_uint_le(chunks, 6);
    ck_assert_uint_eq(o.charged, 12000);
}
END_TEST

/* ---- inside frames and messages ---- */

START_TEST(the_rest_of_a_frame)
{
    copy_message("hello"); /* 7 bytes */
    copy_message("world");
    ck_assert_uint_eq(nib__outbox_frame_rest(&o), 0);
    for (size_t rest = 6; rest > 0; rest--) {
        take(1);
        ck_assert_uint_eq(nib__outbox_frame_rest(&o), rest);
    }
    take(1);
    ck_assert_uint_eq(nib__outbox_frame_rest(&o), 0);
    take(3);
    ck_assert_uint_eq(nib__outbox_frame_rest(&o), 4);
}
END_TEST

START_TEST(inside_a_message_of_frames)
{
    static char data[2500]; /* frames of 1028, 1028, 456 bytes */

    link_message(data, sizeof data, 1024);
    copy_message("next");
    ck_assert(!nib__outbox_mid_message(&o));
    take(1);
    ck_assert(nib__outbox_mid_message(&o));
    take(1027);
    ck_assert_uint_eq(nib__outbox_frame_rest(&o), 0);
    ck_assert(nib__outbox_mid_message(&o));
    take(2 * 1028 + 456 - 1028);
    ck_assert(!nib__outbox_mid_message(&o));
}
END_TEST

START_TEST(dropping_keeps_the_rest_of_the_frame)
{
    copy_message("hello");
    copy_message("world");
    take((size_t)_i);
    /* 0 or 7 bytes taken: at a boundary, nothing stays. */
    ck_assert_uint_eq(nib__outbox_drop(&o, &pool),
                      _i % 7 == 0 ? 14 - (size_t)_i : 7 * (_i < 7));
    take(1000);
    ck_assert_uint_eq(wire_len, ((size_t)_i + 6) / 7 * 7);
    ck_assert_int_eq(memcmp(wire, "\x81\x05hello\x81\x05world", wire_len), 0);
    ck_assert_uint_eq(o.charged, 0);
    ck_assert_uint_eq(o.written, 14);
}
END_TEST

START_TEST(dropping_inside_a_shared_message)
{
    static uint8_t data[5000];
    struct nib_message *msg;

    ck_assert_int_eq(nib_message_new(NIB_BINARY, data, sizeof data, &msg), 0);
    nib__outbox_link(&o, nib__chunk_share(&pool, msg, 2000),
                     nib__wire_bytes(sizeof data, 2000));
    nib_message_unref(msg);
    take(1500);
    nib__outbox_drop(&o, &pool);
    ck_assert_uint_eq(o.charged, 504);
    take(10000);
    ck_assert_uint_eq(wire_len, 2004);
}
END_TEST

/* ---- waiting ---- */

static struct nib__waiter waiter(const char *text)
{
    size_t len = strlen(text);

    return (struct nib__waiter){
        .chunks = nib__chunk_encode(&pool, NIB_TEXT, text, len, 1024),
        .bytes = nib__wire_bytes(len, 1024),
    };
}

START_TEST(waiters_are_served_in_order)
{
    struct nib__wakes wakes = {.count = 0};
    struct nib__waiter big = waiter("0123456789"), small = waiter("x");

    copy_message("hello"); /* 7 of 15 bytes: big has 12, small has 3 */
    nib__outbox_wait(&o, &big);
    nib__outbox_wait(&o, &small);
    ck_assert(!nib__outbox_room(&o, 1, 15));
    nib__outbox_serve(&o, 15, &wakes);
    ck_assert_uint_eq(big.word + small.word, 0);
    take(7);
    nib__outbox_serve(&o, 15, &wakes);
    ck_assert_uint_eq(big.word, 1);
    ck_assert_uint_eq(small.word, 1);
    ck_assert_int_eq(big.result, 0);
    ck_assert_uint_eq(wakes.count, 2);
    ck_assert_uint_eq(o.charged, 15);
    ck_assert_ptr_null(big.chunks);
    nib__wakes_send(&wakes);
    take(100);
    ck_assert_int_eq(memcmp(wire + 7, "\x81\x0a" "0123456789\x81\x01x", 15),
                     0);
    ck_assert(nib__outbox_room(&o, 15, 15));
    ck_assert(!nib__outbox_room(&o, 16, 15));
}
END_TEST

START_TEST(who_gives_up_leaves_the_line)
{
    struct nib__wakes wakes = {.count = 0};
    struct nib__waiter a = waiter("a"), b = waiter("b"), c = waiter("c");

    nib__outbox_wait(&o, &a);
    nib__outbox_wait(&o, &b);
    nib__outbox_wait(&o, &c);
    nib__outbox_unwait(&o, &c); /* the last, */
    nib__outbox_unwait(&o, &a); /* the first, */
    nib__outbox_unwait(&o, &a); /* and one that is not in it */
    nib__outbox_wait(&o, &c);
    nib__outbox_serve(&o, 1000, &wakes);
    take(100);
    ck_assert_uint_eq(wire_len, 6);
    ck_assert_int_eq(memcmp(wire, "\x81\x01" "b\x81\x01" "c", 6), 0);
    nib__chunks_free(&pool, a.chunks);
}
END_TEST

START_TEST(refusing_ends_all)
{
    enum { MANY = 40 }; /* more than one batch of wakes */
    struct nib__wakes wakes = {.count = 0};
    struct nib__waiter all[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        all[i] = waiter("x");
        nib__outbox_wait(&o, &all[i]);
    }
    nib__outbox_refuse(&o, -EPIPE, &wakes);
    nib__wakes_send(&wakes);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_uint_eq(all[i].word, 1);
        ck_assert_int_eq(all[i].result, -EPIPE);
        nib__chunks_free(&pool, all[i].chunks);
    }
    ck_assert_ptr_null(o.waiters);
    ck_assert_uint_eq(o.charged, 0);
}
END_TEST

/* ---- asking, memory ---- */

START_TEST(only_the_first_op_posts)
{
    ck_assert(nib__outbox_ask(&o, NIB__OP_FLUSH));
    ck_assert(!nib__outbox_ask(&o, NIB__OP_CLOSE));
    ck_assert_uint_eq(o.ops, NIB__OP_FLUSH | NIB__OP_CLOSE);
    o.posted = false;
    ck_assert(nib__outbox_ask(&o, NIB__OP_FLUSH));
}
END_TEST

START_TEST(the_total_has_a_limit)
{
    struct nib__chunk *chunk;

    pool.total_limit = 10000;
    chunk = nib__chunk_new(&pool, 6000);
    ck_assert_ptr_nonnull(chunk);
    ck_assert_ptr_null(nib__chunk_new(&pool, 6000));
    nib__chunks_free(&pool, chunk);
    ck_assert_uint_eq(total, 0);
    chunk = nib__chunk_new(&pool, 6000);
    ck_assert_ptr_nonnull(chunk);
    nib__chunks_free(&pool, chunk);
}
END_TEST

START_TEST(each_allocation_fails)
{
    static const char data[5000];
    struct nib_message *msg;

    ck_assert_int_eq(nib_message_new(NIB_BINARY, data, sizeof data, &msg), 0);
    nib__alloc_fail_at(1);
    ck_assert_ptr_null(nib__chunk_encode(&pool, NIB_BINARY, data,
                                         sizeof data, 1024));
    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__outbox_copy(&o, &pool, NIB_TEXT, "x", 1), -ENOMEM);
    ck_assert_uint_eq(o.charged, 0);
    for (long n = 1;; n++) {
        struct nib__chunk *chunks;

        nib__alloc_fail_at(n);
        chunks = nib__chunk_share(&pool, msg, 1024);
        nib__chunks_free(&pool, chunks);
        ck_assert_uint_eq(total, 0);
        if (nib__alloc_fail_pending())
            break;
        ck_assert_ptr_null(chunks);
    }
    nib__alloc_fail_at(0);
    nib_message_unref(msg);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outbox");
    TCase *tcase = tcase_create("outbox");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, bytes_on_the_wire);
    tcase_add_test(tcase, copies_come_out_in_order);
    tcase_add_test(tcase, every_length_comes_out_a_byte_at_a_time);
    tcase_add_test(tcase, shared_and_encoded_are_the_same);
    tcase_add_test(tcase, small_copies_share_chunks);
    tcase_add_test(tcase, the_rest_of_a_frame);
    tcase_add_test(tcase, inside_a_message_of_frames);
    tcase_add_loop_test(tcase, dropping_keeps_the_rest_of_the_frame, 0, 15);
    tcase_add_test(tcase, dropping_inside_a_shared_message);
    tcase_add_test(tcase, waiters_are_served_in_order);
    tcase_add_test(tcase, who_gives_up_leaves_the_line);
    tcase_add_test(tcase, refusing_ends_all);
    tcase_add_test(tcase, only_the_first_op_posts);
    tcase_add_test(tcase, the_total_has_a_limit);
    tcase_add_test(tcase, each_allocation_fails);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
