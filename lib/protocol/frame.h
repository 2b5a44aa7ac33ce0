/*
 * frame - the header of one WebSocket frame (RFC 6455, 5.2), both ways.
 *
 * No state and no I/O: functions over bytes. Every rule that a single header
 * can break is checked here; rules about sequences of frames are the
 * assembler's.
 */
#ifndef NIB_PROTOCOL_FRAME_H
#define NIB_PROTOCOL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum nib__opcode {
    NIB__CONTINUATION = 0x0,
    NIB__TEXT = 0x1,
    NIB__BINARY = 0x2,
    NIB__CLOSE = 0x8,
    NIB__PING = 0x9,
    NIB__PONG = 0xA,
};

enum {
    NIB__CONTROL_MAX = 125,    /* payload of a control frame (5.5) */
    NIB__REASON_MAX = 123,     /* of a Close, after its code (5.5.1) */
    NIB__HEADER_MAX = 14,      /* with a 64-bit length and a key */
    NIB__SERVER_HEADER_MAX = 10, /* without a key */
    NIB__RSV1 = 0x4,
    NIB__RSV2 = 0x2,
    NIB__RSV3 = 0x1,
};

struct nib__frame {
    uint8_t opcode;
    uint8_t rsv; /* NIB__RSV1.. or'ed */
    bool fin;
    bool masked;
    uint8_t key[4];  /* valid if masked */
    uint64_t length; /* of the payload */
};

/*
 * Decodes a header from p[0..n).
 *
 * rsv_allowed  the reserved bits that an extension has given a meaning, on
 *              the first frame of a data message
 *
 * Returns the header's size in bytes, 2 to 14; 0 if n is too small to tell;
 * or, as soon as the bytes seen allow no other end, a negative Close code:
 * -1002 for reserved bits, unknown opcodes, fragmented or long control
 * frames, lengths that are not minimal or have the top bit set.
 *
 * RFC 6455, 5.2 and 5.5
 */
int nib__frame_decode(const uint8_t *p, size_t n, uint8_t rsv_allowed,
                      struct nib__frame *out);

/*
 * Encodes a header into out, which has room for NIB__HEADER_MAX bytes (10
 * suffice without a mask). Uses the minimal length form.
 *
 * Returns the number of bytes written, 2 to 14.
 */
size_t nib__frame_encode(uint8_t *out, const struct nib__frame *frame);

/*
 * Bytes of the unmasked header before a payload of this length: 2, 4 or 10.
 */
size_t nib__frame_header_bytes(uint64_t length);

/*
 * Encodes the header of a server's frame, unmasked and without reserved
 * bits, into out (10 bytes of room). Returns its size.
 */
size_t nib__frame_encode_server(uint8_t *out, uint8_t opcode, bool fin,
                                uint64_t length);

/*
 * May this code stand in a Close frame (RFC 6455, 7.4)? 1000 to 1003, 1007 to
 * 1014 and 3000 to 4999.
 */
bool nib__close_code_valid(unsigned code);

/*
 * Encodes a whole unmasked Close frame into out, which has room for 127
 * bytes. Code 0: an empty Close. The reason is cut to 123 bytes, on a UTF-8
 * boundary.
 *
 * Returns the frame's size in bytes.
 */
size_t nib__frame_encode_close(uint8_t *out, unsigned code,
                               const char *reason, size_t len);

#endif
