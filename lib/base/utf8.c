/*
 * utf8 - checks that bytes are UTF-8, as they arrive.
 *
 * A finite automaton over bytes, as in the table of well-formed sequences
 * (Unicode 15, table 3-7): a state says which continuation bytes are missing
 * and what the next may be. The states are bit offsets, and each byte value
 * has a word that holds, at the offset of each state, the state that follows;
 * so a step is one shift, without a branch. Runs of ASCII between characters
 * are skipped by words. advance() is all there is to replace for a faster
 * kernel; only it and the table know the states.
 */

#include "base/utf8.h"

#include <errno.h>
#include <string.h>

/* Six bits for each: a state must fit the field that it is the offset of. */
enum {
    START = 0,     /* between characters */
    ONE = 6,       /* one continuation byte missing */
    TWO = 12,      /* two */
    THREE = 18,    /* three */
    AFTER_E0 = 24, /* two, the next not below a0: else overlong */
    AFTER_ED = 30, /* two, the next not above 9f: else a surrogate */
    AFTER_F0 = 36, /* three, the next not below 90: else overlong */
    AFTER_F4 = 42, /* three, the next not above 8f: else above U+10FFFF */
    REJECT = 48,   /* not UTF-8, whatever follows */
};

#define STATE_MASK 63

/* The word of a byte that leads to `to` from state `from`. */
#define GO(from, to) ((uint64_t)(to) << (from))

/* Every state but those named by GO ends in REJECT. */
#define NOWHERE(state) GO(state, REJECT)
#define LEAD(to)                                                             \
    (GO(START, to) | NOWHERE(ONE) | NOWHERE(TWO) | NOWHERE(THREE) |          \
     NOWHERE(AFTER_E0) | NOWHERE(AFTER_ED) | NOWHERE(AFTER_F0) |             \
     NOWHERE(AFTER_F4) | NOWHERE(REJECT))
#define CONTINUATION(e0, ed, f0, f4)                                         \
    (NOWHERE(START) | GO(ONE, START) | GO(TWO, ONE) | GO(THREE, TWO) |       \
     GO(AFTER_E0, e0) | GO(AFTER_ED, ed) | GO(AFTER_F0, f0) |                \
     GO(AFTER_F4, f4) | NOWHERE(REJECT))

static const uint64_t next_states[256] = {
    [0x00 ... 0x7f] = LEAD(START),
    [0x80 ... 0x8f] = CONTINUATION(REJECT, ONE, REJECT, TWO),
    [0x90 ... 0x9f] = CONTINUATION(REJECT, ONE, TWO, REJECT),
    [0xa0 ... 0xbf] = CONTINUATION(ONE, REJECT, TWO, REJECT),
    [0xc0 ... 0xc1] = LEAD(REJECT), /* could only be overlong */
    [0xc2 ... 0xdf] = LEAD(ONE),
    [0xe0] = LEAD(AFTER_E0),
    [0xe1 ... 0xec] = LEAD(TWO),
    [0xed] = LEAD(AFTER_ED),
    [0xee ... 0xef] = LEAD(TWO),
    [0xf0] = LEAD(AFTER_F0),
    [0xf1 ... 0xf3] = LEAD(THREE),
    [0xf4] = LEAD(AFTER_F4),
    [0xf5 ... 0xff] = LEAD(REJECT), /* above U+10FFFF, or in no character */
};

static inline uint64_t load_word(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

static inline bool has_high_bit(uint64_t word)
{
    return (word & UINT64_C(0x8080808080808080)) != 0;
}

static inline uint64_t load_16(const uint8_t *p)
{
    return load_word(p) | load_word(p + 8);
}

static inline uint64_t load_64(const uint8_t *p)
{
    return load_16(p) | load_16(p + 16) | load_16(p + 32) | load_16(p + 48);
}

/* Length of the ASCII at p, as far as it fills blocks of 16. */
static size_t ascii_blocks(const uint8_t *p, size_t n)
{
    size_t i = 0;

    while (n - i >= 64 && !has_high_bit(load_64(p + i)))
        i += 64;
    while (n - i >= 16 && !has_high_bit(load_16(p + i)))
        i += 16;
    return i;
}

/* Takes n bytes one by one. */
static inline uint64_t step(uint64_t state, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        state = next_states[p[i]] >> (state & STATE_MASK);
    return state & STATE_MASK;
}

/* Returns the state after n more bytes; may stop early once it is REJECT. */
static uint64_t advance(uint64_t state, const uint8_t *p, size_t n)
{
    for (;;) {
        if (state == START) {
            size_t skip = ascii_blocks(p, n);

            p += skip;
            n -= skip;
        }
        if (n < 16)
            break;
        state = step(state, p, 16);
        if (state == REJECT)
            return REJECT;
        p += 16;
        n -= 16;
    }
    /* The two words overlap and so cover any length from 8 to 15. */
    if (n >= 8 && state == START &&
        !has_high_bit(load_word(p) | load_word(p + n - 8)))
        return START;
    return step(state, p, n);
}

int nib__utf8_feed(struct nib__utf8 *u, const uint8_t *p, size_t n)
{
    if (n > 0)
        u->state = (uint32_t)advance(u->state, p, n);
    return u->state == REJECT ? -EILSEQ : 0;
}

bool nib__utf8_complete(const struct nib__utf8 *u)
{
    return u->state == START;
}

bool nib__utf8_valid(const void *p, size_t n)
{
    return n == 0 || advance(START, p, n) == START;
}
