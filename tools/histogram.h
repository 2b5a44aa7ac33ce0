/*
 * histogram - counts of values, exact to 1 part in 128, in fixed memory.
 *
 * Log-linear: values below 256 have a bucket each; every further power of
 * two is cut into 128 buckets of equal width. Any 64-bit value fits, so
 * there is no range to choose and nothing to be clipped. Not shared between
 * threads: each has its own, and they are merged.
 */
#ifndef NIB_TOOLS_HISTOGRAM_H
#define NIB_TOOLS_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 7, /* 128 buckets for each power of two */
    HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

struct histogram {
    uint64_t count;
    uint64_t max; /* exact */
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Empties a histogram. */
void histogram_clear(struct histogram *h);

/* Adds one value, of whatever unit. */
void histogram_add(struct histogram *h, uint64_t value);

/* Adds all of `from`. */
void histogram_merge(struct histogram *h, const struct histogram *from);

/*
 * The smallest value that at least `percent` (0 to 100) of all values do not
 * exceed: the upper end of its bucket, so never too small, and at most 1/128
 * too large; 100 gives the exact maximum. 0 if there are no values.
 */
uint64_t histogram_percentile(const struct histogram *h, double percent);

#endif
