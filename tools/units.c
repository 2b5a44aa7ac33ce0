/*
 * units - counts, sizes and durations as people write them.
 *
 * strtoull() is of no use here: it takes signs, white space and nothing at
 * all for numbers.
 */
#include "units.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},
    {"k", 1 << 10},
    {"m", 1 << 20},
    {"g", 1 << 30},
};

static const struct unit duration_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
};

/*
 * Reads the digits at *text and moves *text behind them. Reads on after an
 * overflow: "99999999999999999999x" is no number, not one out of range.
 */
static int number(const char **text, uint64_t *out)
{
    const char *p = *text;
    uint64_t value = 0;
    int result = 0;

    if (*p < '0' || *p > '9')
        return -EINVAL;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            result = -ERANGE;
    }
    *text = p;
    *out = value;
    return result;
}

static int with_unit(const char *text, const struct unit *units, size_t n,
                     uint64_t *out)
{
    uint64_t value;
    int result = number(&text, &value);

    if (result == -EINVAL)
        return result;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, units[i].suffix) != 0)
            continue;
        if (result || __builtin_mul_overflow(value, units[i].factor, &value))
            return -ERANGE;
        *out = value;
        return 0;
    }
    return -EINVAL;
}

int units_count(const char *text, uint64_t *out)
{
    return with_unit(text, size_units, 1, out);
}

int units_size(const char *text, uint64_t *out)
{
    return with_unit(text, size_units,
                     sizeof(size_units) / sizeof(size_units[0]), out);
}

int units_duration_ms(const char *text, uint64_t *out)
{
    if (strcmp(text, "0") == 0) {
        *out = 0;
        return 0;
    }
    return with_unit(text, duration_units,
                     sizeof(duration_units) / sizeof(duration_units[0]), out);
}
