/*
 * poller - one reactor's epoll set and its table of slots.
 *
 * A descriptor is registered with a slot. What epoll reports carries the
 * slot's number and generation; a report for a slot that was freed, or freed
 * and taken again, within the same turn is dropped. Owner-only.
 */
#ifndef NIB_SYSTEM_POLLER_H
#define NIB_SYSTEM_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/annotate.h"

/*
 * What is embedded in everything that waits for a descriptor. `ready` runs
 * on the reactor with the EPOLL* bits that were reported.
 */
struct nib__source {
    void (*ready)(struct nib__source *source, uint32_t events);
    uint32_t slot;   /* its place in the table */
    uint32_t events; /* EPOLL* bits that are waited for */
    int fd;          /* -1: not registered */
};

struct nib__slot {
    struct nib__source *source; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

struct nib__poller {
    int fd;
    struct nib__slot *slots;
    uint32_t slot_count;
    uint32_t free_slot; /* head of the list of free ones, UINT32_MAX: none */
    struct epoll_event *reported; /* of the wait going on */
};

/* Makes the epoll set. Returns 0, -ENOMEM or the errno of epoll_create1. */
int nib__poller_init(struct nib__poller *p);

/* Closes the epoll set; nothing may be registered. */
void nib__poller_destroy(struct nib__poller *p);

/*
 * Registers fd under source with EPOLL* bits; further bits such as EPOLLET
 * or EPOLLEXCLUSIVE are passed on. `ready` must be set. The descriptor stays
 * the caller's. Returns 0, -ENOMEM or the errno of epoll_ctl.
 */
int nib__poller_add(struct nib__poller *p, struct nib__source *source, int fd,
                    uint32_t events) NIB__OWNER_ONLY;

/*
 * Changes the bits; no system call if they are the same. Returns 0 or the
 * errno of epoll_ctl: then nothing has changed, or, with EPOLLEXCLUSIVE
 * before or after, the source is not registered any more.
 */
int nib__poller_set(struct nib__poller *p, struct nib__source *source,
                    uint32_t events) NIB__OWNER_ONLY;

/*
 * Ends a registration, before the descriptor is closed; nothing that was
 * reported for it is delivered any more, also later in the same turn. Allowed
 * if not registered. Does not allocate.
 */
void nib__poller_remove(struct nib__poller *p, struct nib__source *source)
    NIB__OWNER_ONLY;

/*
 * Waits for events, timeout_ns nanoseconds (-1: no limit, 0: not at all), and
 * keeps them for nib__poller_dispatch(). Uses epoll_pwait2 where the system
 * has it, else rounds up to milliseconds. Returns their number; an interrupted
 * wait is 0.
 */
int nib__poller_wait(struct nib__poller *p, int64_t timeout_ns)
    NIB__OWNER_ONLY;

/*
 * Calls `ready` for each of the count events of the last wait whose slot is
 * still the one that was registered.
 */
void nib__poller_dispatch(struct nib__poller *p, int count) NIB__OWNER_ONLY;

#endif
