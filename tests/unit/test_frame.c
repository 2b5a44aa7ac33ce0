/*
 * test_frame - headers, byte by byte.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/frame.h"
#include "guard.h"

/* Where the form of a length changes, and both sides of it. */
static const struct {
    uint64_t length;
    size_t header; /* bytes, without a key */
    uint8_t bytes[9]; /* from the second byte on, without the mask bit */
} lengths[] = {
    {0, 2, {0}},
    {1, 2, {1}},
    {124, 2, {124}},
    {125, 2, {125}},
    {126, 4, {126, 0, 126}},
    {127, 4, {126, 0, 127}},
    {255, 4, {126, 0, 255}},
    {256, 4, {126, 1, 0}},
    {65534, 4, {126, 0xFF, 0xFE}},
    {65535, 4, {126, 0xFF, 0xFF}},
    {65536, 10, {127, 0, 0, 0, 0, 0, 1, 0, 0}},
    {65537, 10, {127, 0, 0, 0, 0, 0, 1, 0, 1}},
    {UINT64_C(1) << 31, 10, {127, 0, 0, 0, 0, 0x80, 0, 0, 0}},
    {(UINT64_C(1) << 32) - 1, 10, {127, 0, 0, 0, 0, 255, 255, 255, 255}},
    {UINT64_C(1) << 32, 10, {127, 0, 0, 0, 1, 0, 0, 0, 0}},
    {UINT64_C(1) << 62, 10, {127, 0x40, 0, 0, 0, 0, 0, 0, 0}},
    {INT64_MAX, 10, {127, 0x7F, 255, 255, 255, 255, 255, 255, 255}},
};
#define LENGTHS (int)(sizeof(lengths) / sizeof(lengths[0]))

static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};

/* Every prefix of the header asks for more; the whole gives its size. */
static void check_decodes(const uint8_t *bytes, size_t size, uint8_t rsv,
                          struct nib__frame *out)
{
    struct guard g = guard_new();

    for (size_t n = 0; n < size; n++) {
        memcpy(g.end - n, bytes, n);
        ck_assert_int_eq(nib__frame_decode(g.end - n, n, rsv, out), 0);
    }
    memcpy(g.end - size, bytes, size);
    memset(out, 0xAA, sizeof(*out));
    ck_assert_int_eq(nib__frame_decode(g.end - size, size, rsv, out),
                     (int)size);
    guard_free(&g);
}

/*
 * The header is refused at byte number `at` (counted from 1), not before,
 * and with every longer prefix.
 */
static void check_refused(const uint8_t *bytes, size_t size, size_t at,
                          uint8_t rsv)
{
    struct nib__frame out;

    for (size_t n = 0; n <= size; n++) {
        int expected = n < at ? 0 : -1002;

        ck_assert_int_eq(nib__frame_decode(bytes, n, rsv, &out), expected);
    }
}

START_TEST(length_unmasked)
{
    uint8_t bytes[NIB__SERVER_HEADER_MAX] = {0x82};
    uint8_t encoded[NIB__HEADER_MAX];
    struct nib__frame f;
    size_t size = lengths[_i].header;

    memcpy(bytes + 1, lengths[_i].bytes, size - 1);
    check_decodes(bytes, size, 0, &f);
    ck_assert_uint_eq(f.length, lengths[_i].length);
    ck_assert_uint_eq(f.opcode, NIB__BINARY);
    ck_assert_uint_eq(f.rsv, 0);
    ck_assert(f.fin);
    ck_assert(!f.masked);

    ck_assert_uint_eq(nib__frame_encode(encoded, &f), size);
    ck_assert_mem_eq(encoded, bytes, size);
    memset(encoded, 0, sizeof(encoded));
    ck_assert_uint_eq(nib__frame_encode_server(encoded, NIB__BINARY, true,
                                               lengths[_i].length),
                      size);
    ck_assert_mem_eq(encoded, bytes, size);
    ck_assert_uint_eq(nib__frame_header_bytes(lengths[_i].length), size);
}
END_TEST

START_TEST(length_masked)
{
    uint8_t bytes[NIB__HEADER_MAX] = {0x01};
    uint8_t encoded[NIB__HEADER_MAX];
    struct nib__frame f;
    size_t size = lengths[_i].header;

    memcpy(bytes + 1, lengths[_i].bytes, size - 1);
    bytes[1] |= 0x80;
    memcpy(bytes + size, key, 4);
    size += 4;
    check_decodes(bytes, size, 0, &f);
    ck_assert_uint_eq(f.length, lengths[_i].length);
    ck_assert_uint_eq(f.opcode, NIB__TEXT);
    ck_assert(!f.fin);
    ck_assert(f.masked);
    ck_assert_mem_eq(f.key, key, 4);

    ck_assert_uint_eq(nib__frame_encode(encoded, &f), size);
    ck_assert_mem_eq(encoded, bytes, size);
}
END_TEST

/* All 256 first bytes, for each set of bits that an extension may own. */
START_TEST(first_byte)
{
    uint8_t allowed = (uint8_t)_i;

    for (unsigned byte = 0; byte < 256; byte++) {
        const uint8_t bytes[2] = {(uint8_t)byte, 0};
        unsigned opcode = byte & 0xF;
        unsigned rsv = byte >> 4 & 7;
        bool fin = byte & 0x80;
        bool first = opcode == NIB__TEXT || opcode == NIB__BINARY;
        bool control = opcode >= NIB__CLOSE && opcode <= NIB__PONG;
        bool right = (opcode == NIB__CONTINUATION || first || control) &&
                     (rsv & ~(first ? allowed : 0U)) == 0 &&
                     (fin || !control);
        struct nib__frame f;

        if (!right) {
            check_refused(bytes, 2, 1, allowed);
            continue;
        }
        check_decodes(bytes, 2, allowed, &f);
        ck_assert_uint_eq(f.opcode, opcode);
        ck_assert_uint_eq(f.rsv, rsv);
        ck_assert_int_eq(f.fin, fin);
        ck_assert_uint_eq(f.length, 0);
    }
}
END_TEST

START_TEST(long_control_frames_are_refused)
{
    const uint8_t opcodes[] = {NIB__CLOSE, NIB__PING, NIB__PONG};

    for (size_t i = 0; i < 3; i++) {
        uint8_t bytes[4] = {(uint8_t)(0x80 | opcodes[i]), 125, 0, 126};
        struct nib__frame f;

        check_decodes(bytes, 2, 0, &f);
        ck_assert_uint_eq(f.length, 125);
        bytes[1] = 126;
        check_refused(bytes, 4, 2, 0);
        bytes[1] = 127;
        check_refused(bytes, 4, 2, 0);
        bytes[1] = 0x80 | 126;
        check_refused(bytes, 4, 2, 0);
    }
}
END_TEST

START_TEST(lengths_that_are_not_minimal_are_refused)
{
    static const uint8_t short_ones[] = {0, 1, 124, 125};
    uint8_t bytes[NIB__HEADER_MAX] = {0x82};

    for (size_t i = 0; i < sizeof(short_ones); i++) {
        bytes[1] = 126;
        bytes[2] = 0;
        bytes[3] = short_ones[i];
        check_refused(bytes, 4, 4, 0);
        bytes[1] = 0x80 | 126;
        check_refused(bytes, 8, 4, 0);
    }
    /* 64 bits for what 16 or 7 can say: six bytes of zeros tell. */
    for (size_t i = 0; i < sizeof(short_ones); i++) {
        memset(bytes + 1, 0, sizeof(bytes) - 1);
        bytes[1] = 127;
        bytes[9] = short_ones[i];
        check_refused(bytes, 10, 8, 0);
        bytes[8] = 0xFF;
        bytes[9] = 0xFF;
        check_refused(bytes, 10, 8, 0);
        bytes[1] = 0x80 | 127;
        check_refused(bytes, 14, 8, 0);
    }
}
END_TEST

START_TEST(the_top_bit_is_refused)
{
    uint8_t bytes[NIB__HEADER_MAX] = {0x82, 127, 0x80};

    check_refused(bytes, 10, 3, 0);
    memset(bytes + 2, 0xFF, 8);
    check_refused(bytes, 10, 3, 0);
    bytes[1] = 0x80 | 127;
    check_refused(bytes, 14, 3, 0);
}
END_TEST

START_TEST(reserved_bits_are_encoded)
{
    struct nib__frame f = {.opcode = NIB__TEXT, .rsv = NIB__RSV1,
                           .fin = true, .length = 3};
    uint8_t out[NIB__HEADER_MAX];

    ck_assert_uint_eq(nib__frame_encode(out, &f), 2);
    ck_assert_uint_eq(out[0], 0xC1);
    ck_assert_uint_eq(out[1], 3);
    f.rsv = NIB__RSV2;
    f.fin = false;
    nib__frame_encode(out, &f);
    ck_assert_uint_eq(out[0], 0x21);
    f.rsv = NIB__RSV3;
    nib__frame_encode(out, &f);
    ck_assert_uint_eq(out[0], 0x11);
}
END_TEST

START_TEST(close_codes)
{
    for (unsigned code = 0; code <= 70000; code++) {
        bool valid = (code >= 1000 && code <= 1003) ||
                     (code >= 1007 && code <= 1014) ||
                     (code >= 3000 && code <= 4999);

        ck_assert_msg(nib__close_code_valid(code) == valid, "%u", code);
    }
}
END_TEST

START_TEST(close_frames)
{
    uint8_t out[127];

    ck_assert_uint_eq(nib__frame_encode_close(out, 0, "never", 5), 2);
    ck_assert_mem_eq(out, "\x88\x00", 2);
    ck_assert_uint_eq(nib__frame_encode_close(out, 1000, NULL, 0), 4);
    ck_assert_mem_eq(out, "\x88\x02\x03\xe8", 4);
    ck_assert_uint_eq(nib__frame_encode_close(out, 4999, "bye", 3), 7);
    ck_assert_mem_eq(out, "\x88\x05\x13\x87" "bye", 7);
}
END_TEST

START_TEST(close_reasons_are_cut_between_characters)
{
    char reason[200];
    uint8_t out[127];

    memset(reason, 'x', sizeof(reason));
    ck_assert_uint_eq(nib__frame_encode_close(out, 1001, reason, 122), 126);
    ck_assert_uint_eq(out[1], 124);
    ck_assert_uint_eq(nib__frame_encode_close(out, 1001, reason, 123), 127);
    ck_assert_uint_eq(out[1], 125);
    ck_assert_uint_eq(nib__frame_encode_close(out, 1001, reason, 124), 127);
    ck_assert_uint_eq(out[1], 125);
    ck_assert_mem_eq(out + 4, reason, 123);

    /* A character of four bytes, from each place where the cut can hit it. */
    for (size_t at = 119; at <= 123; at++) {
        size_t kept = at <= 119 ? 123 : at;

        memset(reason, 'x', sizeof(reason));
        memcpy(reason + at, "\xf0\x9f\x98\x80", 4);
        ck_assert_uint_eq(nib__frame_encode_close(out, 1001, reason, 200),
                          kept + 4);
        ck_assert_uint_eq(out[1], kept + 2);
        ck_assert_mem_eq(out + 4, reason, kept);
    }
    /* Exactly full is not cut, though its last byte continues one. */
    memset(reason, 'x', sizeof(reason));
    memcpy(reason + 121, "\xc3\xa9", 2);
    ck_assert_uint_eq(nib__frame_encode_close(out, 1001, reason, 123), 127);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame");
    TCase *tc = tcase_create("frame");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, length_unmasked, 0, LENGTHS);
    tcase_add_loop_test(tc, length_masked, 0, LENGTHS);
    tcase_add_loop_test(tc, first_byte, 0, 8);
    tcase_add_test(tc, long_control_frames_are_refused);
    tcase_add_test(tc, lengths_that_are_not_minimal_are_refused);
    tcase_add_test(tc, the_top_bit_is_refused);
    tcase_add_test(tc, reserved_bits_are_encoded);
    tcase_add_test(tc, close_codes);
    tcase_add_test(tc, close_frames);
    tcase_add_test(tc, close_reasons_are_cut_between_characters);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
