/*
 * test_mask - the XOR against a loop over bytes.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/mask.h"
#include "guard.h"

enum {
    ALIGNMENTS = 16,
    LENGTHS = 200, /* past several turns of the widest step */
    ROOM = ALIGNMENTS + LENGTHS + 32,
};

static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};

/* Different bytes, at each place, that masking never leaves as they are. */
static void fill(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i * 31 + 7);
}

/* What RFC 6455, 5.3 says, byte by byte. */
static void by_bytes(uint8_t *dst, const uint8_t *src, size_t n, unsigned phase)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i] ^ key[(i + phase) % 4];
}

START_TEST(in_place)
{
    _Alignas(64) uint8_t data[ROOM];
    uint8_t plain[ROOM];
    uint8_t expected[ROOM];

    fill(plain, ROOM);
    for (size_t at = 0; at < ALIGNMENTS; at++) {
        for (size_t n = 0; n <= LENGTHS; n++) {
            for (unsigned phase = 0; phase < 4; phase++) {
                memcpy(data, plain, ROOM);
                memcpy(expected, plain, ROOM);
                by_bytes(expected + at, plain + at, n, phase);
                nib__mask(data + at, n, key, phase);
                /* The whole: the bytes around have to stay. */
                ck_assert(memcmp(data, expected, ROOM) == 0);
                nib__mask(data + at, n, key, phase);
                ck_assert(memcmp(data, plain, ROOM) == 0);
            }
        }
    }
}
END_TEST

START_TEST(copied)
{
    _Alignas(64) uint8_t src[ROOM];
    _Alignas(64) uint8_t dst[ROOM];
    uint8_t plain[ROOM];
    uint8_t expected[ROOM];

    fill(plain, ROOM);
    memcpy(src, plain, ROOM);
    for (size_t from = 0; from < ALIGNMENTS; from++) {
        size_t to = (from * 7 + 3) % ALIGNMENTS;

        for (size_t n = 0; n <= LENGTHS; n++) {
            for (unsigned phase = 0; phase < 4; phase++) {
                memset(dst, 0xa5, ROOM);
                memset(expected, 0xa5, ROOM);
                by_bytes(expected + to, plain + from, n, phase);
                nib__mask_copy(dst + to, src + from, n, key, phase);
                ck_assert(memcmp(dst, expected, ROOM) == 0);
                ck_assert(memcmp(src, plain, ROOM) == 0);
            }
        }
    }
}
END_TEST

START_TEST(copied_onto_itself)
{
    uint8_t data[ROOM];
    uint8_t expected[ROOM];

    fill(data, ROOM);
    by_bytes(expected, data, ROOM, 2);
    nib__mask_copy(data, data, ROOM, key, 2);
    ck_assert(memcmp(data, expected, ROOM) == 0);
}
END_TEST

/* A payload that comes in pieces is masked as if it came whole. */
START_TEST(phase_follows_the_offset)
{
    uint8_t data[ROOM];
    uint8_t expected[ROOM];

    fill(data, ROOM);
    by_bytes(expected, data, ROOM, 0);
    for (size_t at = 0, n = 0; at < ROOM; at += n) {
        n = at % 13 + 1 < ROOM - at ? at % 13 + 1 : ROOM - at;
        nib__mask(data + at, n, key, (unsigned)at); /* modulo 4 by itself */
    }
    ck_assert(memcmp(data, expected, ROOM) == 0);
}
END_TEST

START_TEST(the_rfcs_example)
{
    uint8_t data[5] = {0x7f, 0x9f, 0x4d, 0x51, 0x58}; /* RFC 6455, 5.7 */

    nib__mask(data, sizeof(data), key, 0);
    ck_assert_mem_eq(data, "Hello", 5);
}
END_TEST

START_TEST(nothing_at_null)
{
    nib__mask(NULL, 0, key, 3);
    nib__mask_copy(NULL, NULL, 0, key, 3);
}
END_TEST

START_TEST(no_byte_outside_is_touched)
{
    struct guard src = guard_new();
    struct guard dst = guard_new();
    uint8_t expected[LENGTHS];

    for (size_t n = 0; n <= LENGTHS; n++) {
        for (unsigned phase = 0; phase < 4; phase++) {
            fill(src.start, n);
            fill(src.end - n, n);
            by_bytes(expected, src.start, n, phase);

            nib__mask_copy(dst.start, src.end - n, n, key, phase);
            ck_assert(memcmp(dst.start, expected, n) == 0);
            nib__mask_copy(dst.end - n, src.start, n, key, phase);
            ck_assert(memcmp(dst.end - n, expected, n) == 0);
            nib__mask(src.start, n, key, phase);
            ck_assert(memcmp(src.start, expected, n) == 0);
            nib__mask(src.end - n, n, key, phase);
            ck_assert(memcmp(src.end - n, expected, n) == 0);
        }
    }
    guard_free(&src);
    guard_free(&dst);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mask");
    TCase *tc = tcase_create("mask");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, in_place);
    tcase_add_test(tc, copied);
    tcase_add_test(tc, copied_onto_itself);
    tcase_add_test(tc, phase_follows_the_offset);
    tcase_add_test(tc, the_rfcs_example);
    tcase_add_test(tc, nothing_at_null);
    tcase_add_test(tc, no_byte_outside_is_touched);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
