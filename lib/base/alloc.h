/*
 * alloc - the one door to the heap.
 *
 * Everything the library allocates comes from here, so that an application
 * can bring its own allocator and a test can make any single allocation
 * fail. With neither in use, an allocation is libc's and one relaxed load.
 * All functions may be called from any thread unless they say otherwise.
 */

#ifndef NIB__BASE_ALLOC_H
#define NIB__BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns `bytes` uninitialised bytes, aligned for any type, or NULL when
 * there is no memory. 0 bytes give a block, too: NULL has one meaning only.
 * The caller owns the block until nib__free().
 */
void *nib__alloc(size_t bytes)
    __attribute__((malloc, warn_unused_result, alloc_size(1)));

/* As nib__alloc(), with every byte 0. */
void *nib__alloc_zero(size_t bytes)
    __attribute__((malloc, warn_unused_result, alloc_size(1)));

/*
 * As nib__alloc(), for n elements of `bytes` each; NULL also when the product
 * does not fit a size_t. The elements are uninitialised.
 */
void *nib__alloc_array(size_t n, size_t bytes)
    __attribute__((malloc, warn_unused_result, alloc_size(1, 2)));

/*
 * Makes block p `bytes` long, moving it where needed; p NULL allocates. What
 * lies below both lengths is kept. Returns the block, and p is gone; or NULL
 * when there is no memory, and p is untouched. 0 bytes never mean free.
 */
void *nib__realloc(void *p, size_t bytes)
    __attribute__((warn_unused_result, alloc_size(2)));

/* Gives block p back. NULL is allowed. */
void nib__free(void *p);

/* Returns a copy of s, to be given to nib__free(), or NULL without memory. */
char *nib__strdup(const char *s) __attribute__((malloc, warn_unused_result));

/*
 * Returns a NUL-terminated copy of the first n bytes of s, or of those before
 * its NUL if that comes earlier; NULL without memory. No byte of s from n on
 * is read. The caller owns the copy until nib__free().
 */
char *nib__strndup(const char *s, size_t n)
    __attribute__((malloc, warn_unused_result));

/*
 * Stores a + b in *sum and returns false; returns true if the sum does not
 * fit (*sum is then of no use).
 */
static inline bool nib__add_overflow(size_t a, size_t b, size_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

/*
 * An allocator. All three functions are needed; they must be callable from
 * any thread, follow C's rules for malloc, realloc and free, and are never
 * called with 0 bytes nor, to free, with NULL. Each gets `arg`.
 */
struct nib__alloc_hooks {
    void *(*malloc_fn)(size_t bytes, void *arg);
    void *(*realloc_fn)(void *p, size_t bytes, void *arg);
    void (*free_fn)(void *p, void *arg);
    void *arg;
};

/*
 * Replaces the allocator of the whole process; NULL returns to libc's. The
 * struct is copied. Only while no block is out and no other thread allocates:
 * a block must go back to the allocator that it came from.
 */
void nib__alloc_set_hooks(const struct nib__alloc_hooks *hooks);

/*
 * For tests. Starts to count, from zero, or stops; the counts stay readable
 * after the stop. Allocations are not counted unless this was called.
 */
void nib__alloc_watch(bool on);

/*
 * Requests made since nib__alloc_watch(true): every call that needs memory,
 * a reallocation as well, whether it succeeded or not.
 */
long nib__alloc_count(void);

/*
 * Blocks allocated less blocks freed since nib__alloc_watch(true). Negative
 * when blocks from before were freed.
 */
long nib__alloc_live(void);

/* Bytes of the largest single request since nib__alloc_watch(true). */
size_t nib__alloc_largest(void);

/*
 * For tests. The n-th request from now fails, whatever thread makes it, and
 * only that one; 1 is the next. 0 withdraws what has not fired yet. Works
 * with and without nib__alloc_watch().
 */
void nib__alloc_fail_at(long n);

/*
 * Whether a failure asked for by nib__alloc_fail_at() is yet to come. A test
 * that fails each allocation in turn is done when a run leaves it pending.
 */
bool nib__alloc_fail_pending(void);

#endif
