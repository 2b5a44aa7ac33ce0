/*
 * lock - a mutex that the capability analysis knows.
 */
#ifndef NIB_THREADS_LOCK_H
#define NIB_THREADS_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/annotate.h"

struct NIB__CAPABILITY("mutex") nib__lock {
    pthread_mutex_t mutex;
};

static inline void nib__lock_init(struct nib__lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
}

static inline void nib__lock_destroy(struct nib__lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline void nib__lock_take(struct nib__lock *lock)
    NIB__ACQUIRE(lock) NIB__NO_ANALYSIS;
static inline void nib__lock_take(struct nib__lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

/* Takes the lock if nobody holds it; returns whether it did. */
static inline bool nib__lock_try(struct nib__lock *lock)
    NIB__TRY_ACQUIRE(true, lock) NIB__NO_ANALYSIS;
static inline bool nib__lock_try(struct nib__lock *lock)
{
    return pthread_mutex_trylock(&lock->mutex) == 0;
}

static inline void nib__lock_release(struct nib__lock *lock)
    NIB__RELEASE(lock) NIB__NO_ANALYSIS;
static inline void nib__lock_release(struct nib__lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

#endif
