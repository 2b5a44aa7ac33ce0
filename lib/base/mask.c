/*
 * mask - the XOR that covers what clients send (RFC 6455, 5.3).
 *
 * Both functions end in apply(), the only place that knows how the bytes are
 * worked through: a kernel that is chosen at run time goes there.
 */

#include "base/mask.h"

#include <string.h>

/* The key as it lies under data[0], four or eight bytes of it. */
struct pattern {
    uint8_t bytes[4];
    uint32_t half;
    uint64_t word;
};

static struct pattern pattern_at(const uint8_t key[4], unsigned phase)
{
    struct pattern k;

    for (unsigned i = 0; i < 4; i++)
        k.bytes[i] = key[(phase + i) & 3];
    memcpy(&k.half, k.bytes, sizeof(k.half));
    k.word = (uint64_t)k.half << 32 | k.half;
    return k;
}

static inline void xor_word(uint8_t *dst, const uint8_t *src, uint64_t key)
{
    uint64_t word;

    memcpy(&word, src, sizeof(word));
    word ^= key;
    memcpy(dst, &word, sizeof(word));
}

/*
 * dst[i] = src[i] ^ key for i below n; dst is src, or apart from it. Words
 * are loaded by memcpy, so no alignment is needed; each step takes a multiple
 * of four bytes, so the pattern need not turn.
 */
static inline void apply(uint8_t *dst, const uint8_t *src, size_t n,
                         struct pattern k)
{
    for (; n >= 32; n -= 32, dst += 32, src += 32) {
        xor_word(dst, src, k.word);
        xor_word(dst + 8, src + 8, k.word);
        xor_word(dst + 16, src + 16, k.word);
        xor_word(dst + 24, src + 24, k.word);
    }
    for (; n >= 8; n -= 8, dst += 8, src += 8)
        xor_word(dst, src, k.word);
    if (n >= 4) {
        uint32_t half;

        memcpy(&half, src, sizeof(half));
        half ^= k.half;
        memcpy(dst, &half, sizeof(half));
        dst += 4;
        src += 4;
        n -= 4;
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i] ^ k.bytes[i];
}

void nib__mask(void *data, size_t n, const uint8_t key[4], unsigned phase)
{
    apply(data, data, n, pattern_at(key, phase));
}

void nib__mask_copy(void *dst, const void *src, size_t n,
                    const uint8_t key[4], unsigned phase)
{
    apply(dst, src, n, pattern_at(key, phase));
}
