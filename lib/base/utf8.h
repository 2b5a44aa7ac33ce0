/*
 * utf8 - checks that bytes are UTF-8, as they arrive.
 *
 * Well-formed is what RFC 3629 says: no overlong form, no surrogate, nothing
 * above U+10FFFF. A validator belongs to one message; no allocation.
 */

#ifndef NIB__BASE_UTF8_H
#define NIB__BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where a text stands: 0 at its start and between characters, so that an
 * all-zero struct is ready for use. Other values belong to utf8.c.
 */
struct nib__utf8 {
    uint32_t state;
};

/*
 * Takes the next n bytes of the text; a character may go on in the next call.
 * p may be NULL if n is 0. Returns 0, or -EILSEQ as soon as there is a byte
 * that no well-formed text has at its place, also inside an unfinished
 * character (RFC 6455, 8.1); every later call then returns -EILSEQ, too.
 */
int nib__utf8_feed(struct nib__utf8 *u, const uint8_t *p, size_t n);

/* Whether the text could end here: no error, and no unfinished character. */
bool nib__utf8_complete(const struct nib__utf8 *u);

/* Whether the n bytes at p are a whole UTF-8 text. p may be NULL if n is 0. */
bool nib__utf8_valid(const void *p, size_t n);

#endif
