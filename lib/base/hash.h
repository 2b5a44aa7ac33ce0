/*
 * hash - where a key stands in a table.
 *
 * No protection against somebody who looks for collisions. No state.
 */
#ifndef NIB_BASE_HASH_H
#define NIB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A hash of p[0..len): FNV-1a, 32 bits. */
static inline uint32_t nib__hash(const void *p, size_t len)
{
    const uint8_t *bytes = (const uint8_t *)p;
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

#endif
