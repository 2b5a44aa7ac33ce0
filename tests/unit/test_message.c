/*
 * test_message - payloads, their headers, and who frees them.
 */

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "protocol/message.h"

static void start_watch(void)
{
    nib__alloc_watch(true);
    nib__alloc_fail_at(0);
}

static void stop_watch(void)
{
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

/* The bytes before and in the payload are one server frame of `kind`. */
static void check_frame(const struct nib_message *msg, unsigned kind,
                        const void *payload, size_t len)
{
    uint8_t header[NIB__SERVER_HEADER_MAX];
    size_t header_len = nib__frame_encode_server(
        header, kind == NIB_TEXT ? NIB__TEXT : NIB__BINARY, true, len);
    const uint8_t *frame;
    size_t frame_len;

    frame = nib__message_frame(msg, &frame_len);
    ck_assert_uint_eq(frame_len, header_len + len);
    ck_assert_mem_eq(frame, header, header_len);
    if (len > 0)
        ck_assert_mem_eq(frame + header_len, payload, len);
    ck_assert_uint_eq(nib_message_kind(msg), kind);
}

START_TEST(new_ones_are_whole_frames)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, 100000};
    char *data = malloc(100000);

    start_watch();
    memset(data, 'd', 100000);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (unsigned kind = NIB_TEXT; kind <= NIB_BINARY; kind++) {
            struct nib_message *msg;
            size_t len = 1;

            ck_assert_int_eq(nib_message_new(kind, data, sizes[i], &msg), 0);
            check_frame(msg, kind, data, sizes[i]);
            ck_assert_ptr_eq(nib_message_data(msg, &len), msg->data);
            ck_assert_uint_eq(len, sizes[i]);
            ck_assert_ptr_nonnull(nib_message_data(msg, NULL));
            ck_assert(atomic_load(&msg->valid));
            nib_message_unref(msg);
        }
    }
    ck_assert_int_eq(nib__alloc_count(), 16);
    stop_watch();
    free(data);
}
END_TEST

START_TEST(wrong_arguments_make_nothing)
{
    static const unsigned kinds[] = {
        0, NIB_TEXT | NIB_BINARY, NIB_NOWAIT, NIB_TRUSTED,
        NIB_TEXT | NIB_NOWAIT, NIB_TEXT | NIB_BINARY | NIB_TRUSTED, 1U << 4,
        NIB_BINARY | 1U << 9,
    };
    struct nib_message *msg = NULL;
    void *data = NULL;

    start_watch();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        ck_assert_int_eq(nib_message_new(kinds[i], "x", 1, &msg), -EINVAL);
        ck_assert_int_eq(nib_message_alloc(kinds[i], 1, &data, &msg),
                         -EINVAL);
    }
    ck_assert_int_eq(nib_message_new(NIB_BINARY, NULL, 1, &msg), -EINVAL);
    ck_assert_int_eq(nib_message_new(NIB_TEXT, "\xff", 1, &msg), -EILSEQ);
    ck_assert_int_eq(nib_message_new(NIB_TEXT, "\xc3", 1, &msg), -EILSEQ);
    ck_assert_int_eq(nib_message_alloc(NIB_TEXT, SIZE_MAX, &data, &msg),
                     -ENOMEM);
    ck_assert_int_eq(nib_message_alloc(NIB_TEXT, SIZE_MAX - 8, &data, &msg),
                     -ENOMEM);
    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib_message_new(NIB_TEXT, "x", 1, &msg), -ENOMEM);
    ck_assert_ptr_null(msg);
    ck_assert_ptr_null(data);
    nib_message_unref(NULL);
    stop_watch();
}
END_TEST

START_TEST(text_is_checked_once)
{
    struct nib_message *msg;
    void *data;

    start_watch();
    ck_assert_int_eq(nib_message_alloc(NIB_TEXT, 2, &data, &msg), 0);
    ck_assert(!atomic_load(&msg->valid));
    memcpy(data, "\xc3\x28", 2);
    ck_assert_int_eq(nib__message_check(msg), -EILSEQ);
    ck_assert(!atomic_load(&msg->valid));
    memcpy(data, "\xc3\xa9", 2);
    ck_assert_int_eq(nib__message_check(msg), 0);
    ck_assert(atomic_load(&msg->valid));
    check_frame(msg, NIB_TEXT, "\xc3\xa9", 2);
    nib_message_unref(msg);

    ck_assert_int_eq(
        nib_message_alloc(NIB_TEXT | NIB_TRUSTED, 2, &data, &msg), 0);
    memcpy(data, "\xff\xff", 2);
    ck_assert_int_eq(nib__message_check(msg), 0);
    check_frame(msg, NIB_TEXT, "\xff\xff", 2);
    nib_message_unref(msg);

    ck_assert_int_eq(
        nib_message_new(NIB_TEXT | NIB_TRUSTED, "\xff", 1, &msg), 0);
    ck_assert_int_eq(nib__message_check(msg), 0);
    nib_message_unref(msg);

    ck_assert_int_eq(nib_message_new(NIB_BINARY, "\xff", 1, &msg), 0);
    ck_assert_int_eq(nib__message_check(msg), 0);
    nib_message_unref(msg);
    stop_watch();
}
END_TEST

START_TEST(the_last_reference_frees)
{
    struct nib_message *msg;

    start_watch();
    ck_assert_int_eq(nib_message_new(NIB_TEXT, "abc", 3, &msg), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(nib_message_ref(msg), msg);
    for (int i = 0; i < 3; i++) {
        nib_message_unref(msg);
        ck_assert_int_eq(nib__alloc_live(), 1);
        check_frame(msg, NIB_TEXT, "abc", 3);
    }
    nib_message_unref(msg);
    stop_watch();
}
END_TEST

START_TEST(a_borrowed_one_is_copied_to_keep)
{
    uint8_t bytes[] = "read buffer";
    struct nib_message borrowed;
    struct nib_message *kept;
    size_t len;

    start_watch();
    nib__message_borrow(&borrowed, NIB_TEXT, bytes, 4);
    ck_assert_ptr_eq(nib_message_data(&borrowed, &len), bytes);
    ck_assert_uint_eq(len, 4);
    ck_assert_uint_eq(nib_message_kind(&borrowed), NIB_TEXT);
    ck_assert_int_eq(nib__message_check(&borrowed), 0);
    ck_assert_int_eq(nib__alloc_count(), 0);

    kept = nib_message_ref(&borrowed);
    ck_assert_ptr_nonnull(kept);
    ck_assert_ptr_ne(kept, &borrowed);
    nib_message_unref(&borrowed); /* changes nothing */
    memset(bytes, 0, sizeof(bytes));
    check_frame(kept, NIB_TEXT, "read", 4);
    ck_assert(atomic_load(&kept->valid));
    nib_message_unref(kept);

    nib__alloc_fail_at(1);
    ck_assert_ptr_null(nib_message_ref(&borrowed));

    nib__message_borrow(&borrowed, NIB_BINARY, NULL, 0);
    ck_assert_ptr_nonnull(nib_message_data(&borrowed, &len));
    ck_assert_uint_eq(len, 0);
    kept = nib_message_ref(&borrowed);
    check_frame(kept, NIB_BINARY, NULL, 0);
    nib_message_unref(kept);
    stop_watch();
}
END_TEST

START_TEST(appending_is_linear)
{
    struct nib_message *msg;
    size_t total = 1000000;
    long requests;

    start_watch();
    msg = nib__message_alloc(NIB_BINARY, 0);
    /* An assertion writes a mark to libcheck's file: none for each byte. */
    for (size_t i = 0; i < total; i++) {
        if (nib__message_reserve(&msg, i + 1) != 0 || msg->capacity < i + 1)
            ck_abort_msg("no room for byte %zu", i);
        msg->data[i] = (uint8_t)(i * 7);
    }
    requests = nib__alloc_count();
    ck_assert_int_lt(requests, 50);
    ck_assert_uint_lt(nib__alloc_largest(), 2 * total);

    ck_assert_int_eq(nib__message_reserve(&msg, msg->capacity), 0);
    ck_assert_int_eq(nib__alloc_count(), requests);
    nib__message_finish(msg, total);
    ck_assert_uint_eq(msg->len, total);
    ck_assert_uint_eq(msg->header, 10);
    for (size_t i = 0; i < total; i++) {
        if (msg->data[i] != (uint8_t)(i * 7))
            ck_abort_msg("byte %zu is %u", i, msg->data[i]);
    }
    nib__message_finish(msg, 65535);
    check_frame(msg, NIB_BINARY, msg->data, 65535);
    nib__message_finish(msg, 125);
    check_frame(msg, NIB_BINARY, msg->data, 125);
    nib_message_unref(msg);
    stop_watch();
}
END_TEST

START_TEST(a_failed_reserve_changes_nothing)
{
    struct nib_message *msg;
    struct nib_message *before;

    start_watch();
    ck_assert_int_eq(nib_message_new(NIB_TEXT, "abc", 3, &msg), 0);
    before = msg;
    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__message_reserve(&msg, 4), -ENOMEM);
    ck_assert_int_eq(nib__message_reserve(&msg, SIZE_MAX), -ENOMEM);
    ck_assert_int_eq(nib__message_reserve(&msg, SIZE_MAX - 8), -ENOMEM);
    ck_assert_ptr_eq(msg, before);
    ck_assert_uint_eq(msg->capacity, 3);
    check_frame(msg, NIB_TEXT, "abc", 3);
    nib_message_unref(msg);
    stop_watch();
}
END_TEST

static void *ref_and_unref(void *arg)
{
    struct nib_message *msg = arg;

    for (int i = 0; i < 20000; i++) {
        size_t len;

        nib_message_ref(msg);
        ck_assert_int_eq(nib__message_check(msg), 0);
        ck_assert_mem_eq(nib_message_data(msg, &len), "shared", 6);
        nib_message_unref(msg);
    }
    nib_message_unref(msg);
    return NULL;
}

START_TEST(threads_share_one)
{
    pthread_t threads[4];
    struct nib_message *msg;
    void *data;

    start_watch();
    ck_assert_int_eq(nib_message_alloc(NIB_TEXT, 6, &data, &msg), 0);
    memcpy(data, "shared", 6);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ref_and_unref,
                                        nib_message_ref(msg)),
                         0);
    nib_message_unref(msg);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    stop_watch();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tc = tcase_create("message");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, new_ones_are_whole_frames);
    tcase_add_test(tc, wrong_arguments_make_nothing);
    tcase_add_test(tc, text_is_checked_once);
    tcase_add_test(tc, the_last_reference_frees);
    tcase_add_test(tc, a_borrowed_one_is_copied_to_keep);
    tcase_add_test(tc, appending_is_linear);
    tcase_add_test(tc, a_failed_reserve_changes_nothing);
    tcase_add_test(tc, threads_share_one);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
