/*
 * frame - the header of one WebSocket frame (RFC 6455, 5.2), both ways.
 *
 * Pure functions. Decoding is on the path of every message that comes in, so
 * the usual header, two bytes and a key, takes few branches and no loop.
 */
#include "protocol/frame.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

enum {
    FIN = 0x80,
    MASKED = 0x80,
    CONTROL = 0x8, /* set in the opcodes of control frames */
    LENGTH_16 = 126,
    LENGTH_64 = 127,
    BAD = -1002,
};

/* One bit for each opcode that exists. */
#define OPCODES                                                              \
    (1U << NIB__CONTINUATION | 1U << NIB__TEXT | 1U << NIB__BINARY |         \
     1U << NIB__CLOSE | 1U << NIB__PING | 1U << NIB__PONG)

static inline bool is_control(unsigned opcode)
{
    return (opcode & CONTROL) != 0;
}

/* ---- decoding ---------------------------------------------------------- */

static bool first_byte_right(unsigned byte, unsigned rsv_allowed)
{
    unsigned opcode = byte & 0xF;
    unsigned rsv = byte >> 4 & 7;

    if (!(OPCODES >> opcode & 1))
        return false;
    if (rsv != 0) {
        /* An extension marks a message, so its first frame alone. */
        if (opcode != NIB__TEXT && opcode != NIB__BINARY)
            return false;
        if (rsv & ~rsv_allowed)
            return false;
    }
    return (byte & FIN) || !is_control(opcode);
}

static uint64_t load_64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, sizeof(value));
    return be64toh(value);
}

/*
 * Decodes a length of the 16-bit or 64-bit form. Returns the header's size
 * without the key, 0 if n is too small to tell, or BAD.
 */
static int long_length(const uint8_t *p, size_t n, unsigned form,
                       uint64_t *length)
{
    static const uint8_t zeros[6];

    if (form == LENGTH_16) {
        if (n < 4)
            return 0;
        *length = (uint64_t)p[2] << 8 | p[3];
        return *length < LENGTH_16 ? BAD : 4;
    }
    if (n > 2 && (p[2] & 0x80))
        return BAD;
    /* The upper six bytes tell whether 16 bits would have done. */
    if (n >= 8 && memcmp(p + 2, zeros, sizeof(zeros)) == 0)
        return BAD;
    if (n < 10)
        return 0;
    *length = load_64(p + 2);
    return 10;
}

int nib__frame_decode(const uint8_t *p, size_t n, uint8_t rsv_allowed,
                      struct nib__frame *out)
{
    if (n == 0)
        return 0;
    if (!first_byte_right(p[0], rsv_allowed))
        return BAD;
    if (n < 2)
        return 0;

    unsigned form = p[1] & 0x7F;
    int size = 2;

    out->opcode = p[0] & 0xF;
    out->rsv = p[0] >> 4 & 7;
    out->fin = (p[0] & FIN) != 0;
    out->masked = (p[1] & MASKED) != 0;
    out->length = form;
    if (form >= LENGTH_16) {
        if (is_control(out->opcode))
            return BAD;
        size = long_length(p, n, form, &out->length);
        if (size <= 0)
            return size;
    }
    if (out->masked) {
        if (n < (size_t)size + 4)
            return 0;
        memcpy(out->key, p + size, 4);
        size += 4;
    }
    return size;
}

/* ---- encoding ---------------------------------------------------------- */

/* Writes everything but the key; `mask` is 0 or MASKED. */
static size_t encode(uint8_t *out, unsigned first, unsigned mask,
                     uint64_t length)
{
    out[0] = (uint8_t)first;
    if (length < LENGTH_16) {
        out[1] = (uint8_t)(mask | length);
        return 2;
    }
    if (length <= 0xFFFF) {
        out[1] = (uint8_t)(mask | LENGTH_16);
        out[2] = (uint8_t)(length >> 8);
        out[3] = (uint8_t)length;
        return 4;
    }
    assert(length >> 63 == 0);
    out[1] = (uint8_t)(mask | LENGTH_64);
    length = htobe64(length);
    memcpy(out + 2, &length, sizeof(length));
    return 10;
}

size_t nib__frame_encode(uint8_t *out, const struct nib__frame *frame)
{
    unsigned first = (frame->fin ? FIN : 0U) | (unsigned)frame->rsv << 4 |
                     frame->opcode;
    size_t size = encode(out, first, frame->masked ? MASKED : 0U,
                         frame->length);

    if (frame->masked) {
        memcpy(out + size, frame->key, 4);
        size += 4;
    }
    return size;
}

size_t nib__frame_header_bytes(uint64_t length)
{
    if (length < LENGTH_16)
        return 2;
    return length <= 0xFFFF ? 4 : 10;
}

size_t nib__frame_encode_server(uint8_t *out, uint8_t opcode, bool fin,
                                uint64_t length)
{
    return encode(out, (fin ? FIN : 0U) | opcode, 0, length);
}

/* ---- Close ------------------------------------------------------------- */

bool nib__close_code_valid(unsigned code)
{
    /* 1004 is reserved; 1005, 1006 and 1015 say what was not received. */
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/* The longest start of the reason that fits and cuts no character. */
static size_t fitting_reason(const char *reason, size_t len)
{
    if (len <= NIB__REASON_MAX)
        return len;
    len = NIB__REASON_MAX;
    while (len > 0 && ((unsigned char)reason[len] & 0xC0) == 0x80)
        len--;
    return len;
}

size_t nib__frame_encode_close(uint8_t *out, unsigned code,
                               const char *reason, size_t len)
{
    if (code == 0)
        return nib__frame_encode_server(out, NIB__CLOSE, true, 0);

    len = fitting_reason(reason, len);
    nib__frame_encode_server(out, NIB__CLOSE, true, len + 2);
    out[2] = (uint8_t)(code >> 8);
    out[3] = (uint8_t)code;
    if (len > 0)
        memcpy(out + 4, reason, len);
    return len + 4;
}
