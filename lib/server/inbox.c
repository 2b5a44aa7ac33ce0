/*
 * inbox - a bounded queue between one owner and one receiver.
 */
#include "server/inbox.h"

#include <errno.h>

#include "base/alloc.h"
#include "threads/oneshot.h"

struct nib__inbox *nib__inbox_new(unsigned limit_count, size_t limit_bytes)
{
    struct nib__inbox *in = nib__alloc_zero(sizeof *in);

    if (in == NULL)
        return NULL;
    nib__lock_init(&in->lock);
    in->last = &in->first;
    in->limit_count = limit_count;
    in->limit_bytes = limit_bytes;
    return in;
}

static void drop_all(struct nib__inbox *in)
{
    while (in->first != NULL) {
        struct nib_message *msg = in->first;

        in->first = msg->next;
        nib_message_unref(msg);
    }
    in->last = &in->first;
    in->count = 0;
    in->bytes = 0;
}

void nib__inbox_free(struct nib__inbox *in)
{
    if (in == NULL)
        return;
    drop_all(in);
    nib__lock_destroy(&in->lock);
    nib__free(in);
}

static bool full(const struct nib__inbox *in)
{
    return in->count >= in->limit_count || in->bytes >= in->limit_bytes;
}

/* Under the lock: changes the word; returns whether to wake after it. */
static bool changed(struct nib__inbox *in)
{
    atomic_fetch_add_explicit(&in->word, 1, memory_order_relaxed);
    return in->waiting;
}

bool nib__inbox_put(struct nib__inbox *in, struct nib_message *msg)
{
    bool room, wake = false;

    nib__lock_take(&in->lock);
    if (in->end != 0) {
        room = true;
    } else {
        msg->next = NULL;
        *in->last = msg;
        in->last = &msg->next;
        in->count++;
        in->bytes += msg->len;
        msg = NULL;
        room = !full(in);
        in->stopped = !room;
        wake = changed(in);
    }
    nib__lock_release(&in->lock);
    if (wake)
        nib__futex_wake(&in->word, 1);
    nib_message_unref(msg);
    return room;
}

void nib__inbox_end(struct nib__inbox *in, int result, bool drop)
{
    bool wake;

    nib__lock_take(&in->lock);
    if (in->end == 0)
        in->end = result;
    if (drop)
        drop_all(in);
    wake = changed(in);
    nib__lock_release(&in->lock);
    if (wake)
        nib__futex_wake(&in->word, 1);
}

static struct nib_message *pop(struct nib__inbox *in, bool *more)
{
    struct nib_message *msg = in->first;

    in->first = msg->next;
    if (in->first == NULL)
        in->last = &in->first;
    in->count--;
    in->bytes -= msg->len;
    if (in->stopped && in->count <= in->limit_count / 2 &&
        in->bytes <= in->limit_bytes / 2) {
        in->stopped = false;
        *more = true;
    }
    return msg;
}

int nib__inbox_take(struct nib__inbox *in, uint64_t due_ns,
                    struct nib_message **msg, bool *more)
{
    int result = 0;

    *more = false;
    nib__lock_take(&in->lock);
    if (in->receiving) {
        nib__lock_release(&in->lock);
        return -EBUSY;
    }
    in->receiving = true;
    while (in->first == NULL && in->end == 0 && result == 0) {
        uint32_t seen = atomic_load_explicit(&in->word, memory_order_relaxed);

        if (due_ns == 0) {
            result = -ETIMEDOUT;
            break;
        }
        in->waiting = true;
        nib__lock_release(&in->lock);
        result = nib__futex_wait(&in->word, seen, due_ns);
        nib__lock_take(&in->lock);
        in->waiting = false;
    }
    if (in->first != NULL) {
        *msg = pop(in, more);
        result = 0;
    } else if (in->end != 0) {
        result = in->end;
    }
    in->receiving = false;
    nib__lock_release(&in->lock);
    return result;
}
