/*
 * response - the text of HTTP/1.1 answers.
 *
 * Pure functions that write into the caller's memory. Each is called twice,
 * to measure and to write, and does the same both times.
 */
#ifndef NIB_PROTOCOL_RESPONSE_H
#define NIB_PROTOCOL_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nib.h"

/*
 * May the application send this header line? No CR, LF or other control
 * byte in it, the name a token, and not one of those that the server writes
 * itself: Connection, Upgrade, Content-Length, Transfer-Encoding,
 * Sec-WebSocket-*.
 */
bool nib__header_valid(const struct nib_header *header);

/*
 * Writes the 101 answer (RFC 6455, 4.2.2) with subprotocol (NULL for none)
 * and further lines, which must be valid.
 *
 * Returns the length of the whole text, as snprintf() does for cap bytes of
 * out (NULL with 0 to measure): without the NUL that it writes behind what
 * fits, so the whole needs one byte more.
 */
size_t nib__write_101(char *out, size_t cap, const char *key,
                      const char *subprotocol,
                      const struct nib_header *headers, size_t count);

/*
 * Writes the head of another answer: status line, the lines given,
 * Content-Length (left out for 1xx, 204 and 304), and `Connection: close` or
 * keep-alive as `keep` says; `extra` is "" or ready "Name: value\r\n" lines.
 * A Content-Type of text/plain; charset=utf-8 is added if there is a body and
 * the lines given name none.
 *
 * Returns as nib__write_101().
 */
size_t nib__write_response(char *out, size_t cap, int status,
                           const struct nib_header *headers, size_t count,
                           const char *extra, uint64_t content_length,
                           bool keep);

/*
 * The standard phrase of a status; "" if it has none.
 */
const char *nib__status_phrase(int status);

#endif
