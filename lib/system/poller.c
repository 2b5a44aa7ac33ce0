/*
 * poller - one reactor's epoll set and its table of slots.
 *
 * The 64 bits that epoll gives back hold the slot in the low half and its
 * generation in the high one. A slot's generation moves on when the slot is
 * freed, so a report that was fetched before finds a stranger and is dropped:
 * a handler may remove, and even free, any source of the same batch.
 */
#include "system/poller.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

enum {
    EVENTS_A_WAIT = 256,
    FIRST_SLOTS = 32,
};

#define NO_SLOT UINT32_MAX
#define NS_A_MS 1000000
#define NS_A_S 1000000000

/* False once the kernel has said that it has no epoll_pwait2 (before 5.11). */
static _Atomic bool have_nanoseconds = true;

int nib__poller_init(struct nib__poller *p)
{
    *p = (struct nib__poller){.fd = -1, .free_slot = NO_SLOT};

    p->reported = nib__alloc_array(EVENTS_A_WAIT, sizeof(*p->reported));
    if (!p->reported)
        return -ENOMEM;
    p->fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->fd < 0) {
        int err = errno;

        nib__free(p->reported);
        p->reported = NULL;
        return -err;
    }
    return 0;
}

void nib__poller_destroy(struct nib__poller *p)
{
    if (p->fd >= 0)
        close(p->fd);
    nib__free(p->slots);
    nib__free(p->reported);
    *p = (struct nib__poller){.fd = -1, .free_slot = NO_SLOT};
}

/* ---- slots ------------------------------------------------------------- */

/* Doubles the table and puts the new half on the free list, lowest first. */
static int grow(struct nib__poller *p)
{
    uint32_t old = p->slot_count;
    uint32_t count = old ? old * 2 : FIRST_SLOTS;
    struct nib__slot *slots;
    size_t bytes;

    if (count <= old || __builtin_mul_overflow(count, sizeof(*slots), &bytes))
        return -ENOMEM;
    slots = nib__realloc(p->slots, bytes);
    if (!slots)
        return -ENOMEM;

    for (uint32_t i = old; i < count; i++)
        slots[i] = (struct nib__slot){.next_free = i + 1};
    slots[count - 1].next_free = p->free_slot;
    p->free_slot = old;
    p->slots = slots;
    p->slot_count = count;
    return 0;
}

static void free_slot(struct nib__poller *p, uint32_t number)
{
    struct nib__slot *slot = &p->slots[number];

    slot->source = NULL;
    slot->generation++;
    slot->next_free = p->free_slot;
    p->free_slot = number;
}

static int control(struct nib__poller *p, int op, int fd, uint32_t number,
                   uint32_t events)
{
    uint64_t generation = p->slots[number].generation;
    struct epoll_event event = {
        .events = events,
        .data.u64 = generation << 32 | number,
    };

    return epoll_ctl(p->fd, op, fd, &event) == 0 ? 0 : -errno;
}

/* ---- registration ------------------------------------------------------ */

int nib__poller_add(struct nib__poller *p, struct nib__source *source, int fd,
                    uint32_t events)
{
    uint32_t number;
    int r;

    source->fd = -1;
    if (p->free_slot == NO_SLOT) {
        r = grow(p);
        if (r < 0)
            return r;
    }
    number = p->free_slot;
    r = control(p, EPOLL_CTL_ADD, fd, number, events);
    if (r < 0)
        return r;

    p->free_slot = p->slots[number].next_free;
    p->slots[number].source = source;
    source->slot = number;
    source->events = events;
    source->fd = fd;
    return 0;
}

int nib__poller_set(struct nib__poller *p, struct nib__source *source,
                    uint32_t events)
{
    int r;

    assert(source->fd >= 0);
    if (events == source->events)
        return 0;

    if ((events | source->events) & EPOLLEXCLUSIVE) {
        /* The kernel does not modify an exclusive registration. */
        epoll_ctl(p->fd, EPOLL_CTL_DEL, source->fd, NULL);
        r = control(p, EPOLL_CTL_ADD, source->fd, source->slot, events);
        if (r < 0) {
            free_slot(p, source->slot);
            source->fd = -1;
            return r;
        }
    } else {
        r = control(p, EPOLL_CTL_MOD, source->fd, source->slot, events);
        if (r < 0)
            return r;
    }
    source->events = events;
    return 0;
}

void nib__poller_remove(struct nib__poller *p, struct nib__source *source)
{
    if (source->fd < 0)
        return;
    epoll_ctl(p->fd, EPOLL_CTL_DEL, source->fd, NULL);
    free_slot(p, source->slot);
    source->fd = -1;
}

/* ---- a turn ------------------------------------------------------------ */

/* Nanoseconds as epoll_wait's milliseconds, never shorter than asked for. */
static int milliseconds(int64_t ns)
{
    int64_t ms;

    if (ns < 0)
        return -1;
    ms = ns / NS_A_MS + (ns % NS_A_MS != 0);
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static int wait_events(struct nib__poller *p, int64_t timeout_ns)
{
    if (timeout_ns > 0 &&
        atomic_load_explicit(&have_nanoseconds, memory_order_relaxed)) {
        struct timespec limit = {
            .tv_sec = timeout_ns / NS_A_S,
            .tv_nsec = timeout_ns % NS_A_S,
        };
        int n = epoll_pwait2(p->fd, p->reported, EVENTS_A_WAIT, &limit, NULL);

        /* EPERM: a container's filter that is older than the call. */
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;
        atomic_store_explicit(&have_nanoseconds, false, memory_order_relaxed);
    }
    return epoll_wait(p->fd, p->reported, EVENTS_A_WAIT,
                      milliseconds(timeout_ns));
}

int nib__poller_wait(struct nib__poller *p, int64_t timeout_ns)
{
    int n = wait_events(p, timeout_ns);

    assert(n >= 0 || errno == EINTR);
    return n > 0 ? n : 0;
}

/* An indirect call, which the capability analysis cannot look into. */
static void call_ready(struct nib__source *source, uint32_t events)
    NIB__OWNER_ONLY;
static void call_ready(struct nib__source *source, uint32_t events)
{
    source->ready(source, events);
}

void nib__poller_dispatch(struct nib__poller *p, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t mark = p->reported[i].data.u64;
        /* Looked up anew each time: a handler may have grown the table. */
        struct nib__slot *slot = &p->slots[(uint32_t)mark];

        if (slot->source && slot->generation == mark >> 32)
            call_ready(slot->source, p->reported[i].events);
    }
}
