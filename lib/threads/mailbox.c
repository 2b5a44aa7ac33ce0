/*
 * mailbox - command records from any thread to one reactor.
 *
 * The owner changes `head` by an exchange (take, close) or EMPTY to ARMED
 * (arm); a post changes it to its record, whatever it was but CLOSED. So the
 * post that finds ARMED is the one, and the only one, that must wake the
 * owner; every other knows that the owner is awake or that somebody else is
 * waking it. tests/model/ tries all interleavings of these steps.
 *
 * Each change releases, and each look that counts acquires: what a thread
 * wrote before its post is seen by the owner (through later posts as well:
 * their CAS continues the release sequence), and a refused post sees what the
 * owner did before the close. The eventfd orders nothing.
 */
#include "threads/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Values of `head` that are no records; a record's address is aligned. */
#define EMPTY ((struct nib__record *)0)
#define ARMED ((struct nib__record *)1)
#define CLOSED ((struct nib__record *)2)

int nib__mailbox_init(struct nib__mailbox *m)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return -errno;
    nib__owner_enter(); /* nobody else knows of it yet */
    atomic_init(&m->head, EMPTY);
    m->eventfd = fd;
    atomic_init(&m->wakes, 0);
    atomic_init(&m->posts, 0);
    m->first = NULL;
    m->last = &m->first;
    nib__owner_leave();
    return 0;
}

void nib__mailbox_destroy(struct nib__mailbox *m)
{
    struct nib__record *head = atomic_load(&m->head);

    (void)head;
    assert(head == EMPTY || head == ARMED || head == CLOSED);
    close(m->eventfd);
    m->eventfd = -1;
}

/* ---- any thread -------------------------------------------------------- */

/*
 * Makes an edge. Nobody reads the counter, so after 2^64 - 2 edges it is
 * full: then it is emptied, and the write tried again.
 */
void nib__mailbox_wake(struct nib__mailbox *m)
{
    const uint64_t one = 1;
    uint64_t drained;
    int saved = errno;

    while (write(m->eventfd, &one, sizeof(one)) < 0) {
        if (errno == EAGAIN)
            (void)!read(m->eventfd, &drained, sizeof(drained));
        else if (errno != EINTR)
            break;
    }
    atomic_fetch_add_explicit(&m->wakes, 1, memory_order_relaxed);
    errno = saved;
}

int nib__mailbox_post(struct nib__mailbox *m, struct nib__record *record)
{
    struct nib__record *old =
        atomic_load_explicit(&m->head, memory_order_acquire);

    do {
        if (old == CLOSED)
            return -ECANCELED;
        record->next = old == ARMED ? NULL : old;
    } while (!atomic_compare_exchange_weak_explicit(
        &m->head, &old, record, memory_order_acq_rel, memory_order_acquire));

    /* From here on the record may be gone. */
    if (old == ARMED)
        nib__mailbox_wake(m);
    return 0;
}

/* ---- the owner --------------------------------------------------------- */

/* Appends a list, newest first, to the backlog, oldest first. */
static void append(struct nib__mailbox *m, struct nib__record *newest)
    NIB__OWNER_ONLY;
static void append(struct nib__mailbox *m, struct nib__record *newest)
{
    struct nib__record *oldest = NULL;
    struct nib__record *record = newest;
    uint64_t count = 0;

    while (record) {
        struct nib__record *next = record->next;

        record->next = oldest;
        oldest = record;
        record = next;
        count++;
    }
    if (!oldest)
        return;
    *m->last = oldest;
    m->last = &newest->next;

    /* Counted here, by one thread, for a post should not pay for it. */
    count += atomic_load_explicit(&m->posts, memory_order_relaxed);
    atomic_store_explicit(&m->posts, count, memory_order_relaxed);
}

static struct nib__record *pop(struct nib__mailbox *m) NIB__OWNER_ONLY;
static struct nib__record *pop(struct nib__mailbox *m)
{
    struct nib__record *record = m->first;

    m->first = record->next;
    if (!m->first)
        m->last = &m->first;
    return record;
}

/* Indirect calls, which the capability analysis cannot look into. */
static void run_record(struct nib__record *record) NIB__OWNER_ONLY;
static void run_record(struct nib__record *record)
{
    record->run(record);
}

static void cancel_record(struct nib__record *record) NIB__OWNER_ONLY;
static void cancel_record(struct nib__record *record)
{
    record->cancel(record);
}

void nib__mailbox_take(struct nib__mailbox *m)
{
    struct nib__record *head =
        atomic_load_explicit(&m->head, memory_order_relaxed);

    /*
     * EMPTY and CLOSED are set by this thread alone. A record that this load
     * missed is not lost: nib__mailbox_arm() will not miss it.
     */
    if (head == EMPTY || head == CLOSED)
        return;
    head = atomic_exchange_explicit(&m->head, EMPTY, memory_order_acq_rel);
    append(m, head == ARMED ? NULL : head);
}

unsigned nib__mailbox_run(struct nib__mailbox *m, unsigned limit)
{
    unsigned ran = 0;

    while (ran < limit && m->first) {
        run_record(pop(m));
        ran++;
    }
    return ran;
}

bool nib__mailbox_arm(struct nib__mailbox *m)
{
    struct nib__record *old = EMPTY;

    assert(!nib__mailbox_backlog(m));
    return atomic_compare_exchange_strong_explicit(&m->head, &old, ARMED,
                                                   memory_order_acq_rel,
                                                   memory_order_acquire) ||
           old == ARMED;
}

void nib__mailbox_close(struct nib__mailbox *m)
{
    struct nib__record *head =
        atomic_exchange_explicit(&m->head, CLOSED, memory_order_acq_rel);

    append(m, head == ARMED || head == CLOSED ? NULL : head);
    while (m->first)
        cancel_record(pop(m));
}
