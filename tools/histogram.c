/*
 * histogram - counts of values, exact to 1 part in 128, in fixed memory.
 *
 * A value of b bits keeps its top SUB_BITS + 1 bits; the rest, b - SUB_BITS
 * - 1 bits, is the shift of its row. Row 0 holds the values without a shift,
 * twice as many as the other rows, which makes the index continuous.
 */
#include "histogram.h"

#include <string.h>

static unsigned bucket_of(uint64_t value)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned shift =
        bits > HISTOGRAM_SUB_BITS + 1 ? bits - HISTOGRAM_SUB_BITS - 1 : 0;

    return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

/* The largest value that bucket_of() maps to this bucket. */
static uint64_t upper_end(unsigned bucket)
{
    unsigned row = bucket >> HISTOGRAM_SUB_BITS;
    unsigned shift = row > 1 ? row - 1 : 0;
    uint64_t top = bucket - ((uint64_t)shift << HISTOGRAM_SUB_BITS);

    return (top << shift) + (((uint64_t)1 << shift) - 1);
}

void histogram_clear(struct histogram *h)
{
    memset(h, 0, sizeof(*h));
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    if (value > h->max)
        h->max = value;
    h->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *from)
{
    h->count += from->count;
    if (from->max > h->max)
        h->max = from->max;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        h->buckets[i] += from->buckets[i];
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
    /* A rank; what arithmetic adds must not make it the next one. */
    double wanted = percent * (double)h->count / 100 * (1 - 1e-12);
    uint64_t seen = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (h->buckets[i] && (double)seen >= wanted) {
            uint64_t end = upper_end(i);

            return end < h->max ? end : h->max;
        }
    }
    return h->max;
}
