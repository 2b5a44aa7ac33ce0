/*
 * ticket_keys - a small set of keys under a lock.
 */
#include "system/ticket_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "system/timer.h"

enum { KEYS = 3 };

struct nib__ticket_keys {
    _Atomic unsigned refs;
    pthread_mutex_t lock;
    struct nib__ticket_key keys[KEYS]; /* the newest first */
    unsigned count;
    bool rotates;
    uint64_t due_ms; /* of the next key */
};

/* The kernel's generator does not fail once the system has booted. */
static void random_key(struct nib__ticket_key *key)
{
    uint8_t *p = (uint8_t *)key;
    size_t done = 0;

    while (done < sizeof *key) {
        ssize_t n = getrandom(p + done, sizeof *key - done, 0);

        if (n > 0)
            done += (size_t)n;
    }
}

/* Makes a new first key; the oldest goes. */
static void rotate(struct nib__ticket_keys *keys)
{
    memmove(&keys->keys[1], &keys->keys[0],
            (KEYS - 1) * sizeof keys->keys[0]);
    random_key(&keys->keys[0]);
    if (keys->count < KEYS)
        keys->count++;
    keys->due_ms = nib__clock_ms() + NIB__TICKET_ROTATE_MS;
}

static int read_file(struct nib__ticket_keys *keys, const char *file,
                     char *error, size_t cap)
{
    char more;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    int err = 0;

    if (fd >= 0)
        n = read(fd, keys->keys, sizeof keys->keys);
    if (n < 0) {
        err = -errno;
        snprintf(error, cap, "%s: %s", file, nib_strerror(err));
    } else if (n == 0 || n % (ssize_t)sizeof keys->keys[0] != 0 ||
               read(fd, &more, 1) != 0) {
        err = -EINVAL;
        snprintf(error, cap, "%s: expected 1 to %d keys of %zu bytes", file,
                 KEYS, sizeof keys->keys[0]);
    } else {
        keys->count = (unsigned)((size_t)n / sizeof keys->keys[0]);
    }
    if (fd >= 0)
        close(fd);
    return err;
}

int nib__ticket_keys_new(const char *file, struct nib__ticket_keys **out,
                         char *error, size_t cap)
{
    struct nib__ticket_keys *keys = nib__alloc_zero(sizeof *keys);
    int err = 0;

    if (keys == NULL) {
        snprintf(error, cap, "%s", nib_strerror(-ENOMEM));
        return -ENOMEM;
    }
    keys->refs = 1;
    pthread_mutex_init(&keys->lock, NULL);
    keys->rotates = file == NULL;
    if (keys->rotates)
        rotate(keys);
    else
        err = read_file(keys, file, error, cap);
    if (err < 0) {
        nib__ticket_keys_unref(keys);
        return err;
    }
    *out = keys;
    return 0;
}

struct nib__ticket_keys *nib__ticket_keys_ref(struct nib__ticket_keys *keys)
{
    atomic_fetch_add_explicit(&keys->refs, 1, memory_order_relaxed);
    return keys;
}

void nib__ticket_keys_unref(struct nib__ticket_keys *keys)
{
    if (keys == NULL || atomic_fetch_sub_explicit(
                            &keys->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&keys->lock);
    explicit_bzero(keys, sizeof *keys);
    nib__free(keys);
}

/* Under the lock: what is used now. */
static void keep_fresh(struct nib__ticket_keys *keys)
{
    if (keys->rotates && nib__clock_ms() >= keys->due_ms)
        rotate(keys);
}

void nib__ticket_key_current(struct nib__ticket_keys *keys,
                             struct nib__ticket_key *key)
{
    pthread_mutex_lock(&keys->lock);
    keep_fresh(keys);
    *key = keys->keys[0];
    pthread_mutex_unlock(&keys->lock);
}

bool nib__ticket_key_find(struct nib__ticket_keys *keys, const uint8_t *name,
                          struct nib__ticket_key *key, bool *current)
{
    unsigned i;

    pthread_mutex_lock(&keys->lock);
    keep_fresh(keys);
    for (i = 0; i < keys->count; i++)
        if (memcmp(keys->keys[i].name, name, NIB__TICKET_NAME) == 0)
            break;
    if (i < keys->count) {
        *key = keys->keys[i];
        *current = i == 0;
    }
    pthread_mutex_unlock(&keys->lock);
    return i < keys->count;
}
