/*
 * guard - memory with nothing before and behind it.
 *
 * Pages that can be used, between two that can't be touched: a read or write
 * one byte outside ends the test.
 */

#ifndef NIB__TESTS_UNIT_GUARD_H
#define NIB__TESTS_UNIT_GUARD_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard {
    uint8_t *start; /* first usable byte */
    uint8_t *end;   /* behind the last */
    size_t page;    /* bytes of each forbidden page */
};

/* Maps one usable page between two forbidden ones. */
static inline struct guard guard_new(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *p = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    ck_assert_int_eq(mprotect(p + page, page, PROT_READ | PROT_WRITE), 0);
    return (struct guard){p + page, p + 2 * page, page};
}

static inline void guard_free(struct guard *g)
{
    ck_assert_int_eq(munmap(g->start - g->page, 3 * g->page), 0);
}

#endif
