/*
 * addresses - how many connections each peer has.
 *
 * Only kept if nib_config_set_max_per_address() asks for it. One table under
 * one lock; touched when a connection comes and when it goes.
 */
#ifndef NIB_SERVER_ADDRESSES_H
#define NIB_SERVER_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

#include "system/socket.h"
#include "threads/lock.h"

struct nib__addresses {
    struct nib__lock lock;
    struct nib__address **buckets; /* NULL: no limit, nothing is kept */
    unsigned limit;
};

/* Returns 0 or -ENOMEM. A limit of 0 keeps nothing. */
int nib__addresses_init(struct nib__addresses *a, unsigned limit);

void nib__addresses_destroy(struct nib__addresses *a);

/* Counts a connection in. False: the limit is reached, or no memory. */
bool nib__addresses_enter(struct nib__addresses *a,
                          const struct nib__peer *peer);

/* Counts a connection out that was counted in. Does not allocate. */
void nib__addresses_leave(struct nib__addresses *a,
                          const struct nib__peer *peer);

#endif
