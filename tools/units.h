/*
 * units - counts, sizes and durations as people write them.
 *
 * The grammar of nibd's options and configuration: a size is a number with
 * k, m or g (1024s) or without; a duration is a number with ms, s, m, h or
 * d, and 0 alone. Digits only: no sign, no fraction, no white space.
 */
#ifndef NIB_TOOLS_UNITS_H
#define NIB_TOOLS_UNITS_H

#include <stdint.h>

/*
 * Each of these reads the whole of `text` into *out, which is unchanged
 * unless the result is 0.
 *
 * Returns 0; -EINVAL for what is not written as above; -ERANGE for a value
 * over 64 bits.
 */

/* A plain number. */
int units_count(const char *text, uint64_t *out);

/* A size, in bytes: "512", "64k", "2m", "1g". */
int units_size(const char *text, uint64_t *out);

/* A duration, in milliseconds: "250ms", "25s", "1m", "0". */
int units_duration_ms(const char *text, uint64_t *out);

#endif
