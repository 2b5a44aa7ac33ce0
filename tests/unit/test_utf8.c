/*
 * test_utf8 - the validator against a decoder that works by ranges.
 */

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "guard.h"

/* ---- the reference ----------------------------------------------------- */

enum verdict {
    WHOLE,      /* ends between characters */
    UNFINISHED, /* could still become a character */
    BROKEN,     /* could not */
};

/*
 * Judges n bytes that are one character or its beginning: which code points
 * can it still become, and is one of them allowed? (RFC 3629, 3 and 4)
 */
static enum verdict judge(const uint8_t *p, size_t n)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length;
    uint32_t low;
    uint32_t high;

    if (p[0] < 0x80)
        return n == 1 ? WHOLE : BROKEN;
    if (p[0] < 0xc0 || p[0] >= 0xf8)
        return BROKEN;
    length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n > length)
        return BROKEN;

    low = high = p[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if (i < n && (p[i] & 0xc0) != 0x80)
            return BROKEN;
        low = low << 6 | (i < n ? p[i] & 0x3fU : 0);
        high = high << 6 | (i < n ? p[i] & 0x3fU : 0x3f);
    }
    if (high < smallest[length] || low > 0x10ffff)
        return BROKEN;
    if (low >= 0xd800 && high <= 0xdfff)
        return BROKEN;
    return n == length ? WHOLE : UNFINISHED;
}

/* Writes code point c, well-formed or a surrogate; returns its length. */
static size_t encode(uint8_t *p, uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    if (n == 1) {
        p[0] = (uint8_t)c;
        return 1;
    }
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        p[i] = (uint8_t)(0x80 | (c & 0x3f));
    p[0] = (uint8_t)((0xf00U >> n) | c);
    return n;
}

/* ---- tables ------------------------------------------------------------ */

static const uint32_t boundaries[] = {
    0x0,    0x7f,   0x80,    0x7ff,   0x800,   0xfff,   0x1000,   0xcfff,   0xd000,
    0xd7ff, 0xe000, 0xfffd,  0xfffe,  0xffff,  0x10000, 0x3ffff,  0x40000,
    0xfffff, 0x100000, 0x10fffe, 0x10ffff,
};

struct text {
    const char *bytes;
    size_t len;
};

#define TEXT(s) {s, sizeof(s) - 1}

/* The last byte of each is the first that can't stand there. */
static const struct text broken[] = {
    TEXT("\x80"),             TEXT("\xbf"),
    TEXT("\xc0"),             TEXT("\xc1"),
    TEXT("\xf5"),             TEXT("\xf8"),
    TEXT("\xfc"),             TEXT("\xfe"),
    TEXT("\xff"),             TEXT("\xc2\x7f"),
    TEXT("\xc2\xc0"),         TEXT("\xdf "),
    TEXT("\xe0\x80"),         TEXT("\xe0\x9f"),
    TEXT("\xe0\xc0"),         TEXT("\xe1\x7f"),
    TEXT("\xec\xc0"),         TEXT("\xed\xa0"),
    TEXT("\xed\xbf"),         TEXT("\xed\x7f"),
    TEXT("\xee\xc0"),         TEXT("\xef\x7f"),
    TEXT("\xf0\x80"),         TEXT("\xf0\x8f"),
    TEXT("\xf0\xc0"),         TEXT("\xf1\x7f"),
    TEXT("\xf3\xc0"),         TEXT("\xf4\x90"),
    TEXT("\xf4\xbf"),         TEXT("\xf4\x7f"),
    TEXT("\xe0\xa0\x7f"),     TEXT("\xe1\x80\xc0"),
    TEXT("\xed\x9f\x7f"),     TEXT("\xf0\x90\x7f"),
    TEXT("\xf0\x90\x80\x7f"), TEXT("\xf4\x8f\xbf\xc0"),
    TEXT("\xf4\x8f\xc0"),     TEXT("\xc2\x80\x80"),
    TEXT("\xe1\x80\x80\x80"), TEXT("\xf1\x80\x80\x80\x80"),
};

/* Beginnings of characters. */
static const struct text unfinished[] = {
    TEXT("\xc2"),     TEXT("\xdf"),         TEXT("\xe0"),
    TEXT("\xe0\xa0"), TEXT("\xe1\x80"),     TEXT("\xed\x9f"),
    TEXT("\xef\xbf"), TEXT("\xf0"),         TEXT("\xf0\x90"),
    TEXT("\xf1"),     TEXT("\xf0\x90\x80"), TEXT("\xf4\x8f\xbf"),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The answer of both ways to ask for a whole text. */
static bool valid(const void *p, size_t n)
{
    struct nib__utf8 u = {0};
    bool fed = nib__utf8_feed(&u, p, n) == 0 && nib__utf8_complete(&u);

    if (nib__utf8_valid(p, n) != fed)
        ck_abort_msg("valid and feed differ on %zu bytes", n);
    return fed;
}

START_TEST(boundaries_are_valid)
{
    for (size_t i = 0; i < COUNT(boundaries); i++) {
        uint8_t p[4];
        size_t n = encode(p, boundaries[i]);

        ck_assert_int_eq(judge(p, n), WHOLE);
        ck_assert(valid(p, n));
    }
}
END_TEST

START_TEST(broken_ones_fail_at_their_last_byte)
{
    for (size_t i = 0; i < COUNT(broken); i++) {
        const uint8_t *p = (const uint8_t *)broken[i].bytes;
        size_t n = broken[i].len;
        struct nib__utf8 u = {0};

        for (size_t at = 0; at < n - 1; at++)
            ck_assert_int_eq(nib__utf8_feed(&u, p + at, 1), 0);
        ck_assert_int_eq(nib__utf8_feed(&u, p + n - 1, 1), -EILSEQ);
        ck_assert(!nib__utf8_complete(&u));
        ck_assert(!valid(p, n));
        ck_assert_int_eq(nib__utf8_feed(&u, (const uint8_t *)"a", 1), -EILSEQ);
        ck_assert_int_eq(nib__utf8_feed(&u, NULL, 0), -EILSEQ);
    }
}
END_TEST

START_TEST(unfinished_ones_are_incomplete)
{
    for (size_t i = 0; i < COUNT(unfinished); i++) {
        const uint8_t *p = (const uint8_t *)unfinished[i].bytes;
        struct nib__utf8 u = {0};

        ck_assert_int_eq(nib__utf8_feed(&u, p, unfinished[i].len), 0);
        ck_assert(!nib__utf8_complete(&u));
        ck_assert(!valid(p, unfinished[i].len));
    }
}
END_TEST

START_TEST(nothing_is_valid)
{
    struct nib__utf8 u = {0};

    ck_assert(nib__utf8_complete(&u));
    ck_assert_int_eq(nib__utf8_feed(&u, NULL, 0), 0);
    ck_assert(nib__utf8_complete(&u));
    ck_assert(nib__utf8_valid(NULL, 0));
}
END_TEST

/* ---- exhaustive -------------------------------------------------------- */

/* Sequences seen by walk(), by verdict. */
static unsigned long verdicts[3];

/* After a broken byte no byte may be accepted. */
static void check_broken_for_good(const struct nib__utf8 *u)
{
    for (unsigned b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;
        struct nib__utf8 next = *u;

        if (nib__utf8_feed(&next, &byte, 1) != -EILSEQ)
            ck_abort_msg("byte %02x accepted after an error", b);
    }
}

/* Tries each byte after the n bytes at p, an unfinished character. */
static void walk(uint8_t *p, size_t n, const struct nib__utf8 *before)
{
    for (unsigned b = 0; b < 256; b++) {
        struct nib__utf8 u = *before;
        enum verdict expected;
        enum verdict actual;
        int rc;

        p[n] = (uint8_t)b;
        expected = judge(p, n + 1);
        rc = nib__utf8_feed(&u, p + n, 1);
        actual = rc == -EILSEQ          ? BROKEN
                 : nib__utf8_complete(&u) ? WHOLE
                                          : UNFINISHED;
        if (actual != expected || (rc != 0 && rc != -EILSEQ)) {
            ck_abort_msg("%zu bytes %02x %02x %02x %02x: %d instead of %d", n + 1,
                         p[0], p[1], p[2], p[3], actual, expected);
        }
        verdicts[expected]++;
        if (expected == UNFINISHED)
            walk(p, n + 1, &u);
        else if (expected == BROKEN && n < 2)
            check_broken_for_good(&u);
    }
}

/* Every sequence up to its first impossible byte or its end. */
START_TEST(every_sequence)
{
    uint8_t p[5] = {0};
    struct nib__utf8 u = {0};

    walk(p, 0, &u);
    /* The scalar values: 17 planes less the surrogates. */
    ck_assert_uint_eq(verdicts[WHOLE], 0x110000 - 0x800);
    /* Leads; second bytes after e0 to ef (half of e0's and of ed's are out)
     * and after f0 to f4 (48, three times 64, 16); third bytes of the latter. */
    ck_assert_uint_eq(verdicts[UNFINISHED],
                      30 + 16 + 5 + 15 * 64 + 256 + 256 * 64);
}
END_TEST

/* All scalar values in one text, at every alignment to the 16-byte blocks. */
START_TEST(every_character_in_one_text)
{
    size_t room = 0x110000 * 4 + 16;
    uint8_t *text = malloc(room);
    size_t n = 16;

    ck_assert_ptr_nonnull(text);
    memset(text, 'x', 16);
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        if (c < 0xd800 || c > 0xdfff)
            n += encode(text + n, c);
    }
    ck_assert_uint_eq(n, 16 + 128 + 2 * 1920 + 3 * (63488 - 2048) + 4 * 1048576);
    for (size_t at = 0; at <= 16; at++)
        ck_assert(valid(text + at, n - at));
    free(text);
}
END_TEST

START_TEST(surrogates_are_refused)
{
    for (uint32_t c = 0xd800; c <= 0xdfff; c++) {
        uint8_t p[4];
        struct nib__utf8 u = {0};

        ck_assert_uint_eq(encode(p, c), 3);
        ck_assert_int_eq(nib__utf8_feed(&u, p, 1), 0);
        ck_assert_int_eq(nib__utf8_feed(&u, p + 1, 1), -EILSEQ);
    }
}
END_TEST

/* ---- pieces and places ------------------------------------------------- */

enum {
    TEXT_BYTES = 150,
};

/* Characters of all lengths, with runs of ASCII that the fast paths take. */
static size_t mixed_text(uint8_t *p, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; n + 4 <= room; i++) {
        if (i % 29 < 20)
            p[n++] = (uint8_t)('a' + i % 26);
        else
            n += encode(p + n, boundaries[i % COUNT(boundaries)]);
    }
    return n;
}

START_TEST(every_split_point)
{
    uint8_t text[TEXT_BYTES];
    size_t n = mixed_text(text, sizeof(text));

    for (size_t a = 0; a <= n; a++) {
        for (size_t b = a; b <= n; b++) {
            struct nib__utf8 u = {0};

            if (nib__utf8_feed(&u, text, a) != 0 ||
                nib__utf8_feed(&u, text + a, b - a) != 0 ||
                nib__utf8_feed(&u, text + b, n - b) != 0 ||
                !nib__utf8_complete(&u))
                ck_abort_msg("split at %zu and %zu", a, b);
        }
    }
}
END_TEST

/* Feeds in two pieces; the error must come from the piece that has it. */
static void check_error_at(const uint8_t *text, size_t n, size_t bad)
{
    ck_assert(!valid(text, n));
    for (size_t split = 0; split <= n; split++) {
        struct nib__utf8 u = {0};
        int first = nib__utf8_feed(&u, text, split);

        int second = nib__utf8_feed(&u, text + split, n - split);

        if (first != (bad < split ? -EILSEQ : 0) || second != -EILSEQ) {
            ck_abort_msg("error at %zu, split at %zu: %d, %d", bad, split, first,
                         second);
        }
    }
}

/* Each broken sequence at each place of an ASCII text, each split. */
START_TEST(an_error_at_every_place)
{
    uint8_t text[90];

    for (size_t i = 0; i < COUNT(broken); i++) {
        size_t len = broken[i].len;

        for (size_t at = 0; at + len <= sizeof(text); at++) {
            memset(text, 'x', sizeof(text));
            memcpy(text + at, broken[i].bytes, len);
            check_error_at(text, sizeof(text), at + len - 1);
        }
    }
}
END_TEST

/* Each unfinished one, followed by ASCII or the end. */
START_TEST(a_cut_character_at_every_place)
{
    uint8_t text[90];

    for (size_t i = 0; i < COUNT(unfinished); i++) {
        size_t len = unfinished[i].len;

        for (size_t at = 0; at + len < sizeof(text); at++) {
            memset(text, 'x', sizeof(text));
            memcpy(text + at, unfinished[i].bytes, len);
            ck_assert(!valid(text, at + len));
            check_error_at(text, sizeof(text), at + len);
        }
    }
}
END_TEST

/* One byte above ASCII, at each place of each length: none is skipped. */
START_TEST(no_byte_is_skipped)
{
    uint8_t text[200];

    memset(text, 'x', sizeof(text));
    for (size_t n = 0; n <= sizeof(text); n++) {
        ck_assert(valid(text, n));
        for (size_t at = 0; at < n; at++) {
            text[at] = 0x80;
            if (valid(text, n))
                ck_abort_msg("byte %zu of %zu was skipped", at, n);
            text[at] = 'x';
        }
    }
}
END_TEST

START_TEST(no_byte_outside_is_read)
{
    struct guard g = guard_new();
    uint8_t text[TEXT_BYTES];
    size_t n = mixed_text(text, sizeof(text));

    for (size_t len = 0; len <= n; len++) {
        bool expected = nib__utf8_valid(text, len);

        memcpy(g.start, text, len);
        ck_assert_int_eq(nib__utf8_valid(g.start, len), expected);
        memcpy(g.end - len, text, len);
        ck_assert_int_eq(nib__utf8_valid(g.end - len, len), expected);
        memset(g.end - len, 'x', len);
        ck_assert(nib__utf8_valid(g.end - len, len));
    }
    guard_free(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *tc = tcase_create("utf8");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tc, 60); /* valgrind and sanitizers are slow */
    tcase_add_test(tc, boundaries_are_valid);
    tcase_add_test(tc, broken_ones_fail_at_their_last_byte);
    tcase_add_test(tc, unfinished_ones_are_incomplete);
    tcase_add_test(tc, nothing_is_valid);
    tcase_add_test(tc, every_sequence);
    tcase_add_test(tc, every_character_in_one_text);
    tcase_add_test(tc, surrogates_are_refused);
    tcase_add_test(tc, every_split_point);
    tcase_add_test(tc, an_error_at_every_place);
    tcase_add_test(tc, a_cut_character_at_every_place);
    tcase_add_test(tc, no_byte_is_skipped);
    tcase_add_test(tc, no_byte_outside_is_read);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
