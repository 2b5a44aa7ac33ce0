/*
 * tokens - HTTP's words, and lists of them (RFC 9110, 5.5 and 5.6).
 *
 * Pure functions over text that need not be terminated. Letters are ASCII's,
 * whatever the locale.
 */
#ifndef NIB_PROTOCOL_TOKENS_H
#define NIB_PROTOCOL_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

/* Number of bytes at the start of s[0..len) that may stand in a token. */
size_t nib__token_span(const char *s, size_t len);

/* Is s[0..len) a token: one such byte or more, and no other? */
bool nib__token_valid(const char *s, size_t len);

/* May s[0..len) be the value of a header: no control byte but tabs? */
bool nib__field_valid(const char *s, size_t len);

/* Is s[0..len) the terminated `word`, without regard to case? */
bool nib__same_word(const char *s, size_t len, const char *word);

/*
 * Takes the next element off a terminated, comma-separated list: moves *list
 * behind it, and *element to its first byte. White space around elements is
 * no part of them; empty ones are passed over (RFC 9110, 5.6.1.2).
 *
 * Returns the element's length; 0 at the end of the list.
 */
size_t nib__list_next(const char **list, const char **element);

/*
 * Does a comma-separated list hold nothing but tokens? Empty elements are
 * allowed, and so is an empty list.
 */
bool nib__token_list_valid(const char *list);

/*
 * Is `token` (len bytes) among those of a comma-separated list? Compared
 * exactly, as subprotocols are (RFC 6455, 4.1).
 */
bool nib__token_list_has(const char *list, const char *token, size_t len);

#endif
