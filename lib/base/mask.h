/*
 * mask - the XOR that covers what clients send (RFC 6455, 5.3).
 *
 * Masking and unmasking are the same. Any alignment; no byte outside the
 * given range is read or written. No state, any thread.
 */

#ifndef NIB__BASE_MASK_H
#define NIB__BASE_MASK_H

#include <stddef.h>
#include <stdint.h>

/*
 * Applies the key to data[0..n) in place.
 *
 * key    the frame's masking key, in the order of the wire
 * phase  offset of data[0] in the frame's payload; only its value modulo 4
 *        matters
 */
void nib__mask(void *data, size_t n, const uint8_t key[4], unsigned phase);

/*
 * As nib__mask(), from src[0..n) to dst[0..n) in one pass. The two ranges are
 * the same or do not overlap; src is unchanged unless it is dst.
 */
void nib__mask_copy(void *dst, const void *src, size_t n,
                    const uint8_t key[4], unsigned phase);

#endif
