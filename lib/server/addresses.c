/*
 * addresses - a table of counts, by the peer's IP address.
 */
#include "server/addresses.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/hash.h"

enum {
    BUCKETS = 4096, /* chains stay short for tens of thousands of peers */
};

struct nib__address {
    struct nib__address *next;
    uint8_t family;
    uint8_t bytes[16];
    unsigned count;
};

int nib__addresses_init(struct nib__addresses *a, unsigned limit)
{
    *a = (struct nib__addresses){.limit = limit};
    nib__lock_init(&a->lock);
    if (limit == 0)
        return 0;
    a->buckets = nib__alloc_zero(BUCKETS * sizeof *a->buckets);
    return a->buckets == NULL ? -ENOMEM : 0;
}

void nib__addresses_destroy(struct nib__addresses *a)
{
    if (a->buckets != NULL) {
        for (unsigned i = 0; i < BUCKETS; i++) {
            while (a->buckets[i] != NULL) {
                struct nib__address *next = a->buckets[i]->next;

                nib__free(a->buckets[i]);
                a->buckets[i] = next;
            }
        }
        nib__free(a->buckets);
    }
    nib__lock_destroy(&a->lock);
}

/* Where the entry of a peer is, or would be appended. */
static struct nib__address **find(struct nib__addresses *a,
                                  const struct nib__peer *peer)
{
    struct nib__address **place =
        &a->buckets[nib__hash(peer->bytes, sizeof peer->bytes) % BUCKETS];

    while (*place != NULL &&
           ((*place)->family != peer->family ||
            memcmp((*place)->bytes, peer->bytes, sizeof peer->bytes) != 0))
        place = &(*place)->next;
    return place;
}

static bool counted(const struct nib__addresses *a,
                    const struct nib__peer *peer)
{
    return a->buckets != NULL && peer->family != AF_UNIX;
}

bool nib__addresses_enter(struct nib__addresses *a,
                          const struct nib__peer *peer)
{
    struct nib__address **place;
    bool ok = false;

    if (!counted(a, peer))
        return true;
    nib__lock_take(&a->lock);
    place = find(a, peer);
    if (*place == NULL) {
        *place = nib__alloc_zero(sizeof **place);
        if (*place != NULL) {
            (*place)->family = peer->family;
            memcpy((*place)->bytes, peer->bytes, sizeof peer->bytes);
        }
    }
    if (*place != NULL && (*place)->count < a->limit) {
        (*place)->count++;
        ok = true;
    }
    nib__lock_release(&a->lock);
    return ok;
}

void nib__addresses_leave(struct nib__addresses *a,
                          const struct nib__peer *peer)
{
    struct nib__address **place, *gone = NULL;

    if (!counted(a, peer))
        return;
    nib__lock_take(&a->lock);
    place = find(a, peer);
    if (--(*place)->count == 0) {
        gone = *place;
        *place = gone->next;
    }
    nib__lock_release(&a->lock);
    nib__free(gone);
}
