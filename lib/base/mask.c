/*
 * mask - the XOR that covers what clients send (RFC 6455, 5.3).
 *
 * Both functions end in apply(), the only place that knows how the bytes are
 * worked through: a kernel that is chosen at run time goes there.
 */

#include "base/mask.h"

#include <string.h>

/*
 * The four key bytes that lie under data[0..4) at this phase, in their order
 * in memory. Put together in a register: a word read right after single
 * bytes were written to it would wait for them.
 */
static uint32_t key_at(const uint8_t key[4], unsigned phase)
{
    unsigned bits = phase % 4 * 8;
    uint32_t k;

    memcpy(&k, key, sizeof(k));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return k >> bits | k << (-bits % 32);
#else
    return k << bits | k >> (-bits % 32);
#endif
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
 * of four bytes, so the key stays as it is.
 */
static inline void apply(uint8_t *dst, const uint8_t *src, size_t n,
                         uint32_t key)
{
    uint64_t key_twice = (uint64_t)key << 32 | key;
    uint8_t key_bytes[4];

    for (; n >= 32; n -= 32, dst += 32, src += 32) {
        xor_word(dst, src, key_twice);
        xor_word(dst + 8, src + 8, key_twice);
        xor_word(dst + 16, src + 16, key_twice);
        xor_word(dst + 24, src + 24, key_twice);
    }
    for (; n >= 8; n -= 8, dst += 8, src += 8)
        xor_word(dst, src, key_twice);
    if (n >= 4) {
        uint32_t half;

        memcpy(&half, src, sizeof(half));
        half ^= key;
        memcpy(dst, &half, sizeof(half));
        dst += 4;
        src += 4;
        n -= 4;
    }
    memcpy(key_bytes, &key, sizeof(key));
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i] ^ key_bytes[i];
}

void nib__mask(void *data, size_t n, const uint8_t key[4], unsigned phase)
{
    apply(data, data, n, key_at(key, phase));
}

void nib__mask_copy(void *dst, const void *src, size_t n,
                    const uint8_t key[4], unsigned phase)
{
    apply(dst, src, n, key_at(key, phase));
}
