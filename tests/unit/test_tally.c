/*
 * test_tally - counting and checking messages, however they are cut.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tally.h"

static uint8_t stream[400000]; /* what a server sent */
static size_t stream_len;
static struct tally tally;

static void setup(void)
{
    stream_len = 0;
    tally_init(&tally);
}

static void put(uint8_t opcode, bool fin, const char *data, size_t len)
{
    stream_len +=
        nib__frame_encode_server(stream + stream_len, opcode, fin, len);
    memcpy(stream + stream_len, data, len);
    stream_len += len;
}

/* A text of /seq: its number, and x up to size. */
static void put_numbered(unsigned number, size_t size)
{
    static char text[70000];

    memset(text, 'x', sizeof(text));
    for (int i = TALLY_DIGITS - 1; i >= 0; i--, number /= 10)
        text[i] = (char)('0' + number % 10);
    put(NIB__TEXT, true, text, size);
}

/* Feeds all of the stream in pieces of `step` bytes; counts controls. */
static enum tally_result feed(size_t step, unsigned *controls)
{
    enum tally_result result = TALLY_MORE;
    size_t start = 0, end = 0, used;
    struct nib__frame frame;
    const uint8_t *payload;

    *controls = 0;
    while (result != TALLY_ERROR &&
           (end < stream_len || result != TALLY_MORE)) {
        if (result == TALLY_MORE)
            end = stream_len - end < step ? stream_len : end + step;
        result = tally_feed(&tally, stream + start, end - start, &used, &frame,
                            &payload);
        start += used;
        /* No assertion for each byte: libcheck notes each in a file. */
        if (start > end ||
            (result == TALLY_MORE && end - start > TALLY_HELD_MAX))
            ck_abort_msg("took %zu of %zu bytes", start, end);
        *controls += result == TALLY_CONTROL;
    }
    if (result == TALLY_MORE)
        ck_assert_uint_eq(start, stream_len);
    return result;
}

static const size_t steps[] = {1, 2, 3, 7, 16, 127, 128, 1000, 65536, 1 << 30};
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

/* Every size of header, fragments, and control frames in between. */
START_TEST(counting)
{
    static char data[70000];
    unsigned controls;

    memset(data, 'y', sizeof(data));
    for (int i = 0; i < 300; i++)
        put(NIB__TEXT, true, data, (size_t)i % 126);
    put(NIB__BINARY, true, data, 126);
    put(NIB__PING, true, data, 125);
    put(NIB__TEXT, false, data, 65535);
    put(NIB__PONG, true, data, 0);
    put(NIB__CONTINUATION, false, data, 0);
    put(NIB__CONTINUATION, true, data, 65536);
    put(NIB__TEXT, false, data, 0);
    put(NIB__CONTINUATION, true, data, 0);
    put(NIB__TEXT, true, data, 1);
    put(NIB__CLOSE, true, "\x03\xe8", 2);

    ck_assert_int_eq(feed(steps[_i], &controls), TALLY_MORE);
    ck_assert_uint_eq(controls, 3);
    ck_assert_uint_eq(tally.messages, 304);
    ck_assert_uint_eq(tally.bytes, 2 * (125 * 126 / 2) + 47 * 48 / 2 + 126 +
                                       65535 + 65536 + 1);
    ck_assert(!tally.in_message);
}
END_TEST

START_TEST(control_is_handed_out)
{
    struct nib__frame frame;
    const uint8_t *payload;
    size_t used;

    put(NIB__TEXT, true, "a", 1);
    put(NIB__PING, true, "ping", 4);
    put(NIB__TEXT, true, "b", 1);
    ck_assert_int_eq(
        tally_feed(&tally, stream, stream_len, &used, &frame, &payload),
        TALLY_CONTROL);
    ck_assert_uint_eq(used, 3 + 6);
    ck_assert_uint_eq(frame.opcode, NIB__PING);
    ck_assert_uint_eq(frame.length, 4);
    ck_assert_int_eq(memcmp(payload, "ping", 4), 0);
    ck_assert_uint_eq(tally.messages, 1);
}
END_TEST

START_TEST(verified)
{
    unsigned controls;

    tally.verify = true;
    tally.size = 1500;
    for (unsigned i = 0; i < 120; i++)
        put_numbered(i, 1500);
    ck_assert_int_eq(feed(steps[_i], &controls), TALLY_MORE);
    ck_assert_uint_eq(tally.messages, 120);
    ck_assert_uint_eq(tally.bytes, 120 * 1500);
}
END_TEST

static void finds(const char *error)
{
    unsigned controls;

    ck_assert_int_eq(feed(1 << 30, &controls), TALLY_ERROR);
    ck_assert_str_eq(tally.error, error);
    /* And when it comes byte by byte. */
    tally_init(&tally);
    tally.verify = true;
    tally.size = 32;
    ck_assert_int_eq(feed(1, &controls), TALLY_ERROR);
    ck_assert_str_eq(tally.error, error);
}

static void begin_verified(void)
{
    tally.verify = true;
    tally.size = 32;
    put_numbered(0, 32);
}

START_TEST(a_lost_message)
{
    begin_verified();
    put_numbered(2, 32);
    finds("message 1, byte 9: 0x32 instead of '1'");
}
END_TEST

START_TEST(a_torn_message)
{
    begin_verified();
    put_numbered(1, 32);
    stream[stream_len - 5] = '0';
    finds("message 1, byte 27: 0x30 instead of 'x'");
}
END_TEST

START_TEST(a_short_message)
{
    begin_verified();
    put_numbered(1, 31);
    finds("message 1: 31 bytes instead of 32");
}
END_TEST

START_TEST(an_empty_message)
{
    begin_verified();
    put(NIB__TEXT, true, "", 0);
    finds("message 1: 0 bytes instead of 32");
}
END_TEST

/* What no server may send ends the count. */
START_TEST(broken_frames)
{
    static const struct {
        const char *bytes;
        size_t len;
    } all[] = {
        {"\x81\x81kkkka", 7}, /* masked */
        {"\x89\x80kkkk", 6},  /* a masked ping */
        {"\x80\x01"
         "a",
         3}, /* a continuation of nothing */
        {"\x01\x01"
         "a\x81\x01"
         "b",
         6},                     /* a message inside another */
        {"\x83\x00", 2},         /* an unknown opcode */
        {"\xc1\x00", 2},         /* a reserved bit */
        {"\x81\x7e\x00\x7d", 4}, /* a length that is not minimal */
        {"\x09\x00", 2},         /* a ping in fragments */
    };
    unsigned controls;

    put(NIB__TEXT, true, "fine", 4);
    memcpy(stream + stream_len, all[_i].bytes, all[_i].len);
    stream_len += all[_i].len;
    ck_assert_int_eq(feed(1 << 30, &controls), TALLY_ERROR);
    ck_assert_uint_eq(tally.messages, 1);
    ck_assert_str_ne(tally.error, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tally");
    TCase *tcase = tcase_create("tally");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, counting, 0, STEPS);
    tcase_add_test(tcase, control_is_handed_out);
    tcase_add_loop_test(tcase, verified, 0, STEPS);
    tcase_add_test(tcase, a_lost_message);
    tcase_add_test(tcase, a_torn_message);
    tcase_add_test(tcase, a_short_message);
    tcase_add_test(tcase, an_empty_message);
    tcase_add_loop_test(tcase, broken_frames, 0, 8);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
