/*
 * test_assembler - streams that are right, cut in every way; memory.
 */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "protocol/assembler.h"
#include "stream.h"

/* ---- messages ---------------------------------------------------------- */

START_TEST(messages_and_control_frames)
{
    struct stream s = {0};

    frame(&s, 0x81, "hello", 5);
    frame(&s, 0x02, "ab", 2);
    frame(&s, 0x89, "ping?", 5);
    frame(&s, 0x00, "cd", 2);
    frame(&s, 0x8A, "", 0);
    frame(&s, 0x80, "ef", 2);
    frame(&s, 0x8A, "pong!", 5);
    frame(&s, 0x01, "", 0);
    frame(&s, 0x89, "", 0);
    frame(&s, 0x00, "", 0);
    text_frame(&s, 0x00, "third");
    frame(&s, 0x80, "", 0);
    frame(&s, 0x82, "", 0);
    frame(&s, 0x88, "\x03\xe8" "bye", 5);
    check_and_release(&s, "text(hello) ping(ping?) pong() binary(abcdef) "
                          "pong(pong!) empty() ping() empty() text(third) "
                          "binary() close-1000(bye) ");
}
END_TEST

START_TEST(an_empty_message_in_fragments)
{
    struct stream s = {0};

    frame(&s, 0x01, "", 0);
    frame(&s, 0x80, "", 0);
    frame(&s, 0x81, "", 0);
    check_and_release(&s, "empty() text() text() ");
}
END_TEST

START_TEST(nothing_is_fine)
{
    struct stream s = {0};

    append(&s, "", 0);
    check_and_release(&s, "");
}
END_TEST

/* Every form of length, and what lies at its edges. */
START_TEST(length_boundaries)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, 65537};
    size_t size = sizes[_i];
    uint8_t *payload = malloc(size + 1);
    struct stream s = {0};
    static struct run r;
    char expected[2 * sizeof(r.text)];

    for (size_t i = 0; i < size; i++)
        payload[i] = (uint8_t)(i * 13 + 1);
    start(&r, false);
    note(&r, "binary", payload, size);
    snprintf(expected, sizeof(expected), "%sbinary(!) ", r.text);
    stop(&r);

    frame(&s, 0x82, payload, size);
    frame(&s, 0x82, "!", 1);
    nib__alloc_watch(true);
    for (int own = 0; own <= 1; own++) {
        static const size_t pieces[] = {WHOLE, 1, 3, 4096, 65536};

        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
            run_pieces(&r, &s, own, pieces[i]);
            ck_assert_str_eq(r.text, expected);
            stop(&r);
        }
        /* Around the header, and around the end of the payload. */
        for (size_t cut = 0; cut <= s.len; cut++) {
            if (cut == 20 && s.len > 60)
                cut = s.len - 20;
            run_split(&r, &s, own, cut);
            ck_assert_str_eq(r.text, expected);
            stop(&r);
        }
    }
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
    release(&s);
    free(payload);
}
END_TEST

START_TEST(who_allocates)
{
    struct stream s = {0};
    static struct run r;

    frame(&s, 0x81, "one", 3);
    frame(&s, 0x89, "ping", 4);
    frame(&s, 0x82, "two", 3);
    frame(&s, 0x81, "", 0);

    nib__alloc_watch(true);
    run_pieces(&r, &s, false, WHOLE);
    ck_assert_uint_eq(r.allocated, 0);
    ck_assert_int_eq(nib__alloc_count(), 0);
    stop(&r);
    run_pieces(&r, &s, true, WHOLE);
    ck_assert_uint_eq(r.allocated, 3);
    ck_assert_int_eq(nib__alloc_count(), 3);
    stop(&r);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
    release(&s);
}
END_TEST

START_TEST(messages_lie_where_they_came)
{
    struct stream s = {0};
    struct nib__assembler a;
    struct nib__event e;
    size_t used;

    frame(&s, 0x81, "first", 5);
    frame(&s, 0x82, "second", 6);
    nib__assembler_init(&a, LIMIT, false);
    nib__assembler_next(&a, s.bytes, s.len, &used, &e);
    ck_assert_int_eq(e.type, NIB__EVENT_MESSAGE);
    ck_assert_uint_eq(used, 11);
    ck_assert_ptr_null(e.msg);
    ck_assert_ptr_eq(e.data, s.bytes + 6);
    ck_assert_uint_eq(e.len, 5);
    ck_assert_mem_eq(e.data, "first", 5);
    nib__assembler_next(&a, s.bytes + used, s.len - used, &used, &e);
    ck_assert_ptr_eq(e.data, s.bytes + 17);
    ck_assert_mem_eq(e.data, "second", 6);
    ck_assert_uint_eq(used, 12);
    nib__assembler_free(&a);
    release(&s);
}
END_TEST

/* With own, the caller's bytes stay as they came. */
START_TEST(objects_leave_the_buffer_alone)
{
    struct stream s = {0};
    struct nib__assembler a;
    struct nib__event e;
    uint8_t before[64];
    size_t used;

    frame(&s, 0x82, "payload", 7);
    memcpy(before, s.bytes, s.len);
    nib__assembler_init(&a, LIMIT, true);
    nib__assembler_next(&a, s.bytes, s.len, &used, &e);
    ck_assert_ptr_nonnull(e.msg);
    ck_assert_mem_eq(e.msg->data, "payload", 7);
    ck_assert_mem_eq(s.bytes, before, s.len);
    nib_message_unref(e.msg);
    nib__assembler_free(&a);
    release(&s);
}
END_TEST

START_TEST(busy_while_a_message_is_unfinished)
{
    struct stream s = {0};
    static struct run r;

    start(&r, false);
    frame(&s, 0x01, "ab", 2);
    for (size_t i = 0; i < s.len; i++) {
        ck_assert_int_eq(nib__assembler_busy(&r.a), i >= 6);
        feed(&r, s.bytes + i, 1);
    }
    ck_assert(nib__assembler_busy(&r.a));
    release(&s);
    frame(&s, 0x89, "x", 1);
    feed(&r, s.bytes, s.len);
    ck_assert(nib__assembler_busy(&r.a));
    release(&s);
    frame(&s, 0x80, "cd", 2);
    feed(&r, s.bytes, s.len);
    ck_assert(!nib__assembler_busy(&r.a));
    ck_assert_str_eq(r.text, "ping(x) text(abcd) ");
    release(&s);
    stop(&r);
}
END_TEST

/* ---- as a client ------------------------------------------------------- */

START_TEST(a_client_takes_unmasked_frames_only)
{
    struct stream s = {.unmasked = true};
    struct nib__assembler a;
    struct nib__event e;
    size_t used;

    frame(&s, 0x81, "hello", 5);
    frame(&s, 0x02, "ab", 2);
    frame(&s, 0x89, "p", 1);
    frame(&s, 0x80, "cd", 2);
    for (int own = 0; own <= 1; own++) {
        for (size_t size = 0; size < 8; size++) {
            static struct run r;

            start(&r, own);
            r.a.client = true;
            for (size_t at = 0; at < s.len;) {
                size_t n = size == WHOLE || size > s.len - at ? s.len - at
                                                              : size;

                feed(&r, s.bytes + at, n);
                at += n;
            }
            ck_assert_str_eq(r.text, "text(hello) ping(p) binary(abcd) ");
            stop(&r);
        }
    }
    release(&s);

    s.unmasked = false;
    frame(&s, 0x81, "hello", 5);
    nib__assembler_init(&a, LIMIT, false);
    a.client = true;
    nib__assembler_next(&a, s.bytes, s.len, &used, &e);
    ck_assert_int_eq(e.type, NIB__EVENT_ERROR);
    ck_assert_uint_eq(e.code, 1002);
    ck_assert_str_eq(e.reason, "masked frame");
    release(&s);
}
END_TEST

/* ---- memory ------------------------------------------------------------ */

START_TEST(every_allocation_fails_once)
{
    bool own = _i & 1;
    struct stream s = {0};
    char *payload = malloc(40000);
    bool failed = true;
    int runs = 0;

    memset(payload, 'p', 40000);
    frame(&s, 0x81, "one", 3);
    frame(&s, 0x01, payload, 40000);
    frame(&s, 0x89, "ping", 4);
    frame(&s, 0x00, payload, 300);
    frame(&s, 0x80, payload, 40000);
    frame(&s, 0x01, "", 0);
    frame(&s, 0x80, "", 0);
    frame(&s, 0x82, payload, 40000);
    while (failed) {
        static struct run r;

        nib__alloc_watch(true);
        nib__alloc_fail_at(++runs);
        run_pieces(&r, &s, own, _i & 2 ? 1000 : WHOLE);
        failed = !nib__alloc_fail_pending();
        nib__alloc_fail_at(0);
        ck_assert_int_eq(r.failed, failed);
        if (failed)
            ck_assert_ptr_nonnull(strstr(r.text, "error-1011(no memory) "));
        stop(&r);
        ck_assert_int_eq(nib__alloc_live(), 0);
        nib__alloc_watch(false);
    }
    ck_assert_int_gt(runs, 2);
    release(&s);
    free(payload);
}
END_TEST

START_TEST(what_is_unfinished_is_freed)
{
    struct stream s = {0};

    frame(&s, 0x01, "unfinished", 10);
    frame(&s, 0x00, "message", 7);
    nib__alloc_watch(true);
    for (size_t n = 0; n <= s.len; n++) {
        static struct run r;

        start(&r, n & 1);
        feed(&r, s.bytes, n);
        stop(&r);
        stop(&r);
        ck_assert_int_eq(nib__alloc_live(), 0);
    }
    nib__alloc_watch(false);
    release(&s);
}
END_TEST

/* ---- all together ------------------------------------------------------ */

/* A reproducible stream of every kind of frame, in random pieces. */
START_TEST(random_streams)
{
    unsigned seed = (unsigned)_i + 1;
    uint8_t payload[3000];
    struct stream s = {0};
    static struct run whole;
    static struct run r;

    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)('a' + i % 26);
    for (int messages = 0; messages < 12; messages++) {
        int fragments = rand_r(&seed) % 4;
        unsigned opcode = 1 + (unsigned)rand_r(&seed) % 2;

        for (int i = 0; i <= fragments; i++) {
            size_t n = (size_t)rand_r(&seed) % (_i % 2 ? 3000 : 9);

            frame(&s, (i == fragments ? 0x80 : 0) | (i == 0 ? opcode : 0),
                  payload, n);
            if (rand_r(&seed) % 3 == 0)
                frame(&s, 0x89, payload, (size_t)rand_r(&seed) % 126);
        }
    }
    run_pieces(&whole, &s, false, WHOLE);
    ck_assert(!whole.failed);
    ck_assert_uint_eq(whole.taken, s.len);
    for (int i = 0; i < 50; i++) {
        start(&r, i & 1);
        for (size_t at = 0; at < s.len;) {
            size_t n = 1 + (size_t)rand_r(&seed) % (i < 25 ? 20 : 4000);

            if (n > s.len - at)
                n = s.len - at;
            feed(&r, s.bytes + at, n);
            at += n;
        }
        ck_assert_str_eq(r.text, whole.text);
        stop(&r);
    }
    stop(&whole);
    release(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assembler");
    TCase *tc = tcase_create("assembler");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, messages_and_control_frames);
    tcase_add_test(tc, an_empty_message_in_fragments);
    tcase_add_test(tc, nothing_is_fine);
    tcase_add_loop_test(tc, length_boundaries, 0, 8);
    tcase_add_test(tc, who_allocates);
    tcase_add_test(tc, messages_lie_where_they_came);
    tcase_add_test(tc, objects_leave_the_buffer_alone);
    tcase_add_test(tc, busy_while_a_message_is_unfinished);
    tcase_add_test(tc, a_client_takes_unmasked_frames_only);
    tcase_add_loop_test(tc, every_allocation_fails_once, 0, 4);
    tcase_add_test(tc, what_is_unfinished_is_freed);
    tcase_add_loop_test(tc, random_streams, 0, 6);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
