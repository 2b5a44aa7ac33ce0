/*
 * digest - SHA-1 and base64, as far as the opening handshake needs them.
 *
 * One key is hashed for each connection, so this is written to be checked
 * against the RFCs, not to be fast.
 */

#include "base/digest.h"

#include <string.h>

#define BLOCK_BYTES 64
#define DIGEST_BYTES 20

/* ---- SHA-1 (RFC 3174) -------------------------------------------------- */

struct sha1 {
    uint32_t h[5];
    uint64_t bytes;             /* taken so far */
    uint8_t block[BLOCK_BYTES]; /* the last, unfinished one */
};

static uint32_t rotate_left(uint32_t x, unsigned bits)
{
    return x << bits | x >> (32 - bits);
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
           (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

/* The function and the constant of round t (RFC 3174, 5), summed. */
static uint32_t round_term(unsigned t, uint32_t b, uint32_t c, uint32_t d)
{
    if (t < 20)
        return ((b & c) | (~b & d)) + 0x5a827999;
    if (t < 40)
        return (b ^ c ^ d) + 0x6ed9eba1;
    if (t < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

/* Takes the block into the hash (RFC 3174, 6.1). */
static void take_block(struct sha1 *s)
{
    uint32_t w[80];
    uint32_t a = s->h[0];
    uint32_t b = s->h[1];
    uint32_t c = s->h[2];
    uint32_t d = s->h[3];
    uint32_t e = s->h[4];

    for (unsigned t = 0; t < 16; t++)
        w[t] = load_be32(s->block + 4 * t);
    for (unsigned t = 16; t < 80; t++)
        w[t] = rotate_left(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);

    for (unsigned t = 0; t < 80; t++) {
        uint32_t next = rotate_left(a, 5) + round_term(t, b, c, d) + e + w[t];

        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = next;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

static void sha1_start(struct sha1 *s)
{
    static const uint32_t start[5] = {
        0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0,
    };

    memcpy(s->h, start, sizeof(s->h));
    s->bytes = 0;
}

static void sha1_take(struct sha1 *s, const uint8_t *p, size_t len)
{
    while (len > 0) {
        size_t at = (size_t)(s->bytes % BLOCK_BYTES);
        size_t n = BLOCK_BYTES - at < len ? BLOCK_BYTES - at : len;

        memcpy(s->block + at, p, n);
        s->bytes += n;
        p += n;
        len -= n;
        if (at + n == BLOCK_BYTES)
            take_block(s);
    }
}

/* Pads (RFC 3174, 4) and writes the result. */
static void sha1_end(struct sha1 *s, uint8_t out[DIGEST_BYTES])
{
    static const uint8_t padding[BLOCK_BYTES] = {0x80};
    uint64_t bits = s->bytes * 8;
    size_t at = (size_t)(s->bytes % BLOCK_BYTES);
    uint8_t tail[8];

    store_be32(tail, (uint32_t)(bits >> 32));
    store_be32(tail + 4, (uint32_t)bits);
    /* Up to the last 8 bytes of this block or, if those are taken, the next. */
    sha1_take(s, padding, (at < 56 ? 56 : 120) - at);
    sha1_take(s, tail, sizeof(tail));
    for (unsigned i = 0; i < 5; i++)
        store_be32(out + 4 * i, s->h[i]);
}

void nib__sha1(const void *data, size_t len, uint8_t out[20])
{
    struct sha1 s;

    sha1_start(&s);
    sha1_take(&s, data, len);
    sha1_end(&s, out);
}

/* ---- base64 (RFC 4648, 4) ---------------------------------------------- */

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t nib__base64(const void *data, size_t len, char *out)
{
    const uint8_t *p = data;
    char *o = out;

    for (; len > 0; o += 4) {
        size_t n = len < 3 ? len : 3;
        uint32_t group = (uint32_t)p[0] << 16;

        if (n > 1)
            group |= (uint32_t)p[1] << 8;
        if (n > 2)
            group |= p[2];
        o[0] = alphabet[group >> 18];
        o[1] = alphabet[group >> 12 & 63];
        o[2] = n > 1 ? alphabet[group >> 6 & 63] : '=';
        o[3] = n > 2 ? alphabet[group & 63] : '=';
        p += n;
        len -= n;
    }
    *o = '\0';
    return (size_t)(o - out);
}

/* The six bits that c stands for, or -1. */
static int six_bits(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

bool nib__base64_decoded_length_is(const char *s, size_t len, size_t bytes)
{
    size_t padding = (3 - bytes % 3) % 3;
    int last = 0;

    /* Division first: `bytes` may be anything, a product could overflow. */
    if (len % 4 != 0 || len / 4 != bytes / 3 + (padding > 0))
        return false;
    for (size_t i = 0; i < len - padding; i++) {
        last = six_bits(s[i]);
        if (last < 0)
            return false;
    }
    for (size_t i = len - padding; i < len; i++) {
        if (s[i] != '=')
            return false;
    }
    /* One missing byte leaves 2 bits unused, two leave 4. */
    return (last & ((1 << (2 * padding)) - 1)) == 0;
}

/* ---- the accept key ---------------------------------------------------- */

void nib__accept_key(const char *key, size_t len,
                     char out[NIB__ACCEPT_KEY_BYTES])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    struct sha1 s;
    uint8_t digest[DIGEST_BYTES];

    sha1_start(&s);
    sha1_take(&s, (const uint8_t *)key, len);
    sha1_take(&s, (const uint8_t *)guid, sizeof(guid) - 1);
    sha1_end(&s, digest);
    nib__base64(digest, sizeof(digest), out);
}
