/*
 * digest - SHA-1 and base64, as far as the opening handshake needs them.
 *
 * Own code, because the accept key is needed where no TLS library is. SHA-1
 * protects nothing here: RFC 6455 uses it to prove that the server speaks
 * WebSocket. No state, no allocation, any thread.
 */

#ifndef NIB__BASE_DIGEST_H
#define NIB__BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of an accept key with its NUL. */
#define NIB__ACCEPT_KEY_BYTES 29

/* Writes the SHA-1 of data[0..len) to out. data may be NULL if len is 0. */
void nib__sha1(const void *data, size_t len, uint8_t out[20]);

/*
 * Writes data[0..len) to out in base64 with padding (RFC 4648, 4) and a NUL.
 * out has room for 4 * ((len + 2) / 3) + 1 bytes and does not overlap data.
 * Returns the characters written without the NUL.
 */
size_t nib__base64(const void *data, size_t len, char *out);

/*
 * Whether s[0..len) is the base64 text of exactly `bytes` bytes: only the
 * alphabet of RFC 4648, 4, the padding complete, and the unused bits of the
 * last character 0, so that each value has one text. A Sec-WebSocket-Key must
 * be one of 16 bytes (RFC 6455, 4.2.1).
 */
bool nib__base64_decoded_length_is(const char *s, size_t len, size_t bytes);

/*
 * Writes the value of Sec-WebSocket-Accept for the key[0..len) that a client
 * sent, 28 characters and a NUL (RFC 6455, 4.2.2). The key is taken as it is.
 */
void nib__accept_key(const char *key, size_t len,
                     char out[NIB__ACCEPT_KEY_BYTES]);

#endif
