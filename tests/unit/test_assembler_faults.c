/*
 * test_assembler_faults - text, Close, limits, and what is refused.
 */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "protocol/assembler.h"
#include "stream.h"

/* ---- what is refused --------------------------------------------------- */

START_TEST(broken_headers)
{
    static const struct {
        uint8_t bytes[14];
        size_t len;
        const char *text;
    } table[] = {
        {{0x83}, 1, "error-1002(unknown opcode) "},
        {{0x87}, 1, "error-1002(unknown opcode) "},
        {{0x8B}, 1, "error-1002(unknown opcode) "},
        {{0x8F}, 1, "error-1002(unknown opcode) "},
        {{0xC1}, 1, "error-1002(reserved bit) "},
        {{0xA2}, 1, "error-1002(reserved bit) "},
        {{0x91}, 1, "error-1002(reserved bit) "},
        {{0xC9}, 1, "error-1002(reserved bit) "},
        {{0xC0}, 1, "error-1002(reserved bit) "},
        {{0x09}, 1, "error-1002(control frame in pieces) "},
        {{0x08}, 1, "error-1002(control frame in pieces) "},
        {{0x89, 0xFE}, 2, "error-1002(control frame too long) "},
        {{0x88, 0xFF}, 2, "error-1002(control frame too long) "},
        {{0x82, 0xFE, 0, 125}, 4, "error-1002(bad frame length) "},
        {{0x82, 0xFF, 0, 0, 0, 0, 0, 0}, 8, "error-1002(bad frame length) "},
        {{0x82, 0xFF, 0x80}, 3, "error-1002(bad frame length) "},
        {{0x81, 0x00}, 2, "error-1002(unmasked frame) "},
        {{0x89, 0x00}, 2, "error-1002(unmasked frame) "},
        {{0x82, 0x7E, 1, 0}, 4, "error-1002(unmasked frame) "},
        {{0x80, 0x80, 1, 2, 3, 4}, 6, "error-1002(continuation of nothing) "},
        {{0x00, 0x80, 1, 2, 3, 4}, 6, "error-1002(continuation of nothing) "},
    };
    struct stream s = {0};
    char text[128];

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        append(&s, table[i].bytes, table[i].len);
        check_all_ways(&s, table[i].text);
        /* Whatever follows. */
        append(&s, "\xff\xff\xff", 3);
        check_and_release(&s, table[i].text);
        /* Behind a message, and inside one where that changes nothing. */
        frame(&s, 0x81, "ok", 2);
        append(&s, table[i].bytes, table[i].len);
        snprintf(text, sizeof(text), "text(ok) %s", table[i].text);
        check_and_release(&s, text);
        if (strstr(table[i].text, "continuation"))
            continue;
        frame(&s, 0x01, "ok", 2);
        append(&s, table[i].bytes, table[i].len);
        check_and_release(&s, table[i].text);
    }
}
END_TEST

START_TEST(a_message_inside_another)
{
    struct stream s = {0};

    frame(&s, 0x01, "ab", 2);
    frame(&s, 0x89, "p", 1);
    frame(&s, 0x81, "cd", 2);
    check_and_release(&s, "ping(p) error-1002(new message inside another) ");
    frame(&s, 0x02, "", 0);
    frame(&s, 0x02, "cd", 2);
    check_and_release(&s, "empty() error-1002(new message inside another) ");
    frame(&s, 0x02, "ab", 2);
    frame(&s, 0x80, "cd", 2);
    frame(&s, 0x80, "ef", 2);
    check_and_release(&s, "binary(abcd) error-1002(continuation of nothing) ");
}
END_TEST

START_TEST(reserved_bits_of_an_extension)
{
    struct stream s = {0};
    static struct run r;

    frame(&s, 0xC1, "x", 1);
    frame(&s, 0x42, "y", 1);
    frame(&s, 0xC0, "z", 1);
    start(&r, false);
    r.a.rsv_allowed = NIB__RSV1;
    feed(&r, s.bytes, s.len);
    ck_assert_str_eq(r.text, "text(x) error-1002(reserved bit) ");
    stop(&r);
    release(&s);
}
END_TEST

/* ---- text -------------------------------------------------------------- */

START_TEST(text_over_fragments)
{
    /* 2, 3 and 4 bytes, and a part of ASCII. */
    static const char text[] = "\xc3\xa9" "a\xe2\x82\xac" "b\xf0\x9f\x98\x80";
    size_t n = sizeof(text) - 1;
    char expected[64];

    snprintf(expected, sizeof(expected), "text(%s) ", text);
    for (size_t cut = 1; cut < n; cut++) {
        struct stream s = {0};

        frame(&s, 0x01, text, cut);
        frame(&s, 0x80, text + cut, n - cut);
        check_all_ways(&s, expected);
        release(&s);
        for (size_t second = cut + 1; second < n; second++) {
            frame(&s, 0x01, text, cut);
            frame(&s, 0x00, text + cut, second - cut);
            frame(&s, 0x80, text + second, n - second);
            check_and_release(&s, expected);
        }
    }
}
END_TEST

START_TEST(text_that_is_not)
{
    static const char *const broken[] = {
        "\xff", "\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xe2\x28", "ok\xc3\xa9\xa9",
    };

    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        const char *text = broken[i];
        size_t n = strlen(text);
        struct stream s = {0};
        char expected[32];

        frame(&s, 0x81, text, n);
        check_and_release(&s, "error-1007(text is not UTF-8) ");
        for (size_t cut = 1; cut < n; cut++) {
            frame(&s, 0x01, text, cut);
            frame(&s, 0x80, text + cut, n - cut);
            check_and_release(&s, "error-1007(text is not UTF-8) ");
        }
        /* The same bytes are fine in binary. */
        snprintf(expected, sizeof(expected), "binary(%s) ", text);
        frame(&s, 0x82, text, n);
        check_and_release(&s, expected);
    }
}
END_TEST

START_TEST(text_that_ends_too_early)
{
    static const char *const cut[] = {
        "\xc3", "a\xe2\x82", "\xf0\x9f\x98", "\xf0",
    };

    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        size_t n = strlen(cut[i]);
        struct stream s = {0};

        frame(&s, 0x81, cut[i], n);
        check_and_release(&s, "error-1007(text is not UTF-8) ");
        frame(&s, 0x01, cut[i], n);
        frame(&s, 0x80, "", 0);
        check_and_release(&s, "error-1007(text is not UTF-8) ");
        if (n > 1) {
            frame(&s, 0x01, cut[i], n - 1);
            frame(&s, 0x80, cut[i] + n - 1, 1);
            check_and_release(&s, "error-1007(text is not UTF-8) ");
        }
        /* A control frame between does not end it. */
        frame(&s, 0x01, "\xc3", 1);
        frame(&s, 0x89, "\xff", 0);
        frame(&s, 0x80, "\xa9", 1);
        check_and_release(&s, "ping() text(\xc3\xa9) ");
    }
}
END_TEST

/* The state of one text is not that of the next. */
START_TEST(a_text_starts_anew)
{
    struct stream s = {0};
    static struct run r;

    frame(&s, 0x01, "\xc3", 1);
    start(&r, false);
    feed(&r, s.bytes, s.len);
    nib__assembler_free(&r.a);
    release(&s);
    frame(&s, 0x01, "a", 1);
    frame(&s, 0x80, "b", 1);
    feed(&r, s.bytes, s.len);
    ck_assert_str_eq(r.text, "text(ab) ");
    release(&s);
    stop(&r);
}
END_TEST

/* In the middle of a frame, at the byte that is wrong, not one later. */
START_TEST(text_fails_at_the_first_impossible_byte)
{
    uint8_t text[1000];
    struct stream s = {0};

    memset(text, 'x', sizeof(text));
    memcpy(text + 500, "\xed\xa0", 2); /* a surrogate, at its second byte */
    frame(&s, 0x81, text, sizeof(text));
    for (int own = 0; own <= 1; own++) {
        static struct run r;

        start(&r, own);
        for (size_t i = 0; i < s.len && !r.failed; i++) {
            feed(&r, s.bytes + i, 1);
            ck_assert_int_eq(r.failed, i >= 8 + 501);
        }
        ck_assert_str_eq(r.text, "error-1007(text is not UTF-8) ");
        stop(&r);
    }
    release(&s);
}
END_TEST

/* ---- Close ------------------------------------------------------------- */

START_TEST(close_codes)
{
    static const struct {
        unsigned first, last;
        bool valid;
    } ranges[] = {
        {0, 0, false},       {1, 1, false},       {999, 999, false},
        {1000, 1003, true},  {1004, 1006, false}, {1007, 1014, true},
        {1015, 1016, false}, {1099, 1100, false}, {2000, 2000, false},
        {2999, 2999, false}, {3000, 3001, true},  {3999, 4000, true},
        {4998, 4999, true},  {5000, 5001, false}, {65535, 65535, false},
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        for (unsigned c = ranges[i].first; c <= ranges[i].last; c++) {
            const uint8_t payload[5] = {(uint8_t)(c >> 8), (uint8_t)c, 'b',
                                        'y', 'e'};
            struct stream s = {0};
            char text[64];

            snprintf(text, sizeof(text), "close-%u(bye) ", c);
            frame(&s, 0x88, payload, 5);
            check_and_release(
                &s, ranges[i].valid
                        ? text
                        : "error-1002(Close with a code that is not "
                          "allowed) ");
            snprintf(text, sizeof(text), "close-%u() ", c);
            frame(&s, 0x88, payload, 2);
            check_and_release(
                &s, ranges[i].valid
                        ? text
                        : "error-1002(Close with a code that is not "
                          "allowed) ");
        }
    }
}
END_TEST

START_TEST(close_payloads)
{
    uint8_t payload[125] = {0x03, 0xE8};
    struct stream s = {0};
    struct nib__assembler a;
    struct nib__event e;
    size_t used;

    frame(&s, 0x88, "", 0);
    check_and_release(&s, "close-1005() ");
    frame(&s, 0x88, "\x03", 1);
    check_and_release(&s, "error-1002(Close with half a code) ");
    frame(&s, 0x88, "\x03\xe8\xc3\xa9", 4);
    check_and_release(&s, "close-1000(\xc3\xa9) ");
    frame(&s, 0x88, "\x03\xe8\xc3", 3);
    check_and_release(&s,
                      "error-1007(Close with a reason that is not UTF-8) ");
    frame(&s, 0x88, "\x03\xe8\xff", 3);
    check_and_release(&s,
                      "error-1007(Close with a reason that is not UTF-8) ");
    /* Between the fragments of a message, which it ends. */
    frame(&s, 0x01, "abc", 3);
    frame(&s, 0x88, "\x0f\xa1", 2);
    check_and_release(&s, "close-4001() ");

    memset(payload + 2, 'r', 123);
    frame(&s, 0x88, payload, 125);
    nib__assembler_init(&a, LIMIT, true);
    nib__assembler_next(&a, s.bytes, s.len, &used, &e);
    ck_assert_int_eq(e.type, NIB__EVENT_CLOSE);
    ck_assert_uint_eq(e.code, 1000);
    ck_assert_uint_eq(e.len, 123);
    ck_assert_mem_eq(e.data, payload + 2, 123);
    ck_assert_uint_eq(used, s.len);
    release(&s);
}
END_TEST

START_TEST(the_largest_control_frame)
{
    char payload[126];
    struct stream s = {0};
    static struct run r;
    static char text[sizeof(r.text)];

    memset(payload, 'p', 125);
    payload[125] = '\0';
    frame(&s, 0x89, payload, 125);
    start(&r, false);
    note(&r, "ping", (uint8_t *)payload, 125);
    memcpy(text, r.text, sizeof(text));
    stop(&r);
    check_and_release(&s, text);
}
END_TEST

/* ---- limits ------------------------------------------------------------ */

/* The limit holds for one frame and for fragments together, to the byte. */
START_TEST(message_limit)
{
    enum { SMALL = 1000 };
    uint8_t payload[SMALL + 1];

    memset(payload, 'x', sizeof(payload));
    for (size_t size = SMALL - 1; size <= SMALL + 1; size++) {
        for (size_t first = 0; first <= size; first += 1 + first) {
            struct stream s = {0};

            if (first > 0)
                frame(&s, 0x01, payload, first);
            frame(&s, first > 0 ? 0x80 : 0x81, payload, size - first);
            for (int piece = 0; piece <= 3; piece++) {
                for (int own = 0; own <= 1; own++) {
                    static struct run r;
                    size_t n = piece == WHOLE ? s.len : (size_t)piece;

                    start(&r, own);
                    r.a.limit = SMALL;
                    for (size_t at = 0; at < s.len && !r.failed; at += n) {
                        if (n > s.len - at)
                            n = s.len - at;
                        feed(&r, s.bytes + at, n);
                    }
                    ck_assert_int_eq(r.failed, size > SMALL);
                    if (r.failed)
                        ck_assert_str_eq(r.text,
                                         "error-1009(message too big) ");
                    else
                        ck_assert_int_eq(strncmp(r.text, "text[", 5), 0);
                    stop(&r);
                }
            }
            release(&s);
        }
    }
}
END_TEST

/* At the header, with nothing taken for what it claims. */
START_TEST(claimed_lengths_take_no_memory)
{
    static const uint64_t claims[] = {
        LIMIT + 1, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 62,
        INT64_MAX,
    };

    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        struct nib__frame f = {.opcode = NIB__BINARY, .fin = true,
                               .masked = true, .length = claims[i]};
        struct stream s = {0};
        uint8_t header[NIB__HEADER_MAX];
        static struct run r;

        append(&s, header, nib__frame_encode(header, &f));
        nib__alloc_watch(true);
        for (int own = 0; own <= 1; own++) {
            run_pieces(&r, &s, own, WHOLE);
            ck_assert_str_eq(r.text, "error-1009(message too big) ");
            stop(&r);
            run_pieces(&r, &s, own, 1);
            ck_assert_str_eq(r.text, "error-1009(message too big) ");
            stop(&r);
        }
        ck_assert_int_eq(nib__alloc_count(), 0);
        nib__alloc_watch(false);
        release(&s);
    }
}
END_TEST

/* Within the limit memory follows what came: at most twice and 16 KiB. */
START_TEST(memory_grows_with_what_came)
{
    size_t claim = LIMIT;
    uint8_t *payload = calloc(1, claim);
    struct stream s = {0};
    static struct run r;
    size_t came = 0;

    frame(&s, 0x82, payload, claim);
    nib__alloc_watch(true);
    start(&r, true);
    feed(&r, s.bytes, 14);
    ck_assert_int_eq(nib__alloc_count(), 0);
    while (came < claim) {
        size_t n = came < 5000 ? 1 : 3000;

        if (n > claim - came)
            n = claim - came;
        feed(&r, s.bytes + 14 + came, n);
        came += n;
        ck_assert_uint_le(nib__alloc_largest(), 2 * came + 16 * 1024 + 64);
    }
    ck_assert_int_lt(nib__alloc_count(), 60);
    ck_assert_uint_eq(r.allocated, 1);
    stop(&r);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
    release(&s);
    free(payload);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assembler_faults");
    TCase *tc = tcase_create("assembler_faults");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, broken_headers);
    tcase_add_test(tc, a_message_inside_another);
    tcase_add_test(tc, reserved_bits_of_an_extension);
    tcase_add_test(tc, text_over_fragments);
    tcase_add_test(tc, text_that_is_not);
    tcase_add_test(tc, text_that_ends_too_early);
    tcase_add_test(tc, a_text_starts_anew);
    tcase_add_test(tc, text_fails_at_the_first_impossible_byte);
    tcase_add_test(tc, close_codes);
    tcase_add_test(tc, close_payloads);
    tcase_add_test(tc, the_largest_control_frame);
    tcase_add_test(tc, message_limit);
    tcase_add_test(tc, claimed_lengths_take_no_memory);
    tcase_add_test(tc, memory_grows_with_what_came);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
