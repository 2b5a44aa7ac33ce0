/*
 * workers - a queue for each thread, and its one step a loan.
 */
#include "server/workers.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

enum { LOWEST = 19 };

static struct nib__loan *take(struct nib__worker *w)
{
    struct nib__loan *loan;

    nib__lock_take(&w->lock);
    while (w->first == NULL && !w->closed)
        pthread_cond_wait(&w->work, &w->lock.mutex);
    loan = w->first;
    if (loan != NULL) {
        w->first = loan->next;
        if (w->first == NULL)
            w->last = &w->first;
        w->count--;
    }
    nib__lock_release(&w->lock);
    return loan;
}

/* The lent connection has this thread as its owner until it is posted. */
static void step(struct nib__worker *w, struct nib__loan *loan)
{
    nib__owner_enter();
    loan->result =
        atomic_load_explicit(w->hurry, memory_order_relaxed)
            ? -ECANCELED
            : nib__transport_handshake(loan->transport, loan->fd);
    nib__owner_leave();
    /* The mailbox outlives every loan: it closes after this thread ends. */
    nib__mailbox_post(loan->mailbox, &loan->back);
}

static void *thread_main(void *arg)
{
    struct nib__worker *w = arg;
    struct nib__loan *loan;

    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST);
    while ((loan = take(w)) != NULL)
        step(w, loan);
    return NULL;
}

static int start_one(struct nib__worker *w, _Atomic bool *hurry)
{
    sigset_t all, old;
    int err;

    nib__lock_init(&w->lock);
    pthread_cond_init(&w->work, NULL);
    w->last = &w->first;
    w->hurry = hurry;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&w->thread, NULL, thread_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err != 0) {
        pthread_cond_destroy(&w->work);
        nib__lock_destroy(&w->lock);
        return -err;
    }
    pthread_setname_np(w->thread, "nib-handshake");
    return 0;
}

int nib__workers_start(struct nib__workers *w, unsigned count, unsigned queue)
{
    int err = 0;

    w->workers = nib__alloc_zero(count * sizeof *w->workers);
    if (w->workers == NULL)
        return -ENOMEM;
    w->queue = queue;
    w->hurry = false;
    while (w->count < count && err == 0) {
        err = start_one(&w->workers[w->count], &w->hurry);
        if (err == 0)
            w->count++;
    }
    if (err < 0)
        nib__workers_stop(w);
    return err;
}

unsigned nib__workers_pick(struct nib__workers *w)
{
    return atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed) %
           w->count;
}

int nib__workers_lend(struct nib__workers *workers, unsigned number,
                      struct nib__loan *loan)
{
    struct nib__worker *w = &workers->workers[number];
    int err = 0;

    nib__lock_take(&w->lock);
    if (w->count >= workers->queue) {
        err = -EAGAIN;
    } else {
        loan->next = NULL;
        *w->last = loan;
        w->last = &loan->next;
        w->count++;
        pthread_cond_signal(&w->work);
    }
    nib__lock_release(&w->lock);
    return err;
}

void nib__workers_hurry(struct nib__workers *w)
{
    atomic_store_explicit(&w->hurry, true, memory_order_relaxed);
}

void nib__workers_stop(struct nib__workers *workers)
{
    nib__workers_hurry(workers);
    for (unsigned i = 0; i < workers->count; i++) {
        struct nib__worker *w = &workers->workers[i];

        nib__lock_take(&w->lock);
        w->closed = true;
        pthread_cond_signal(&w->work);
        nib__lock_release(&w->lock);
        pthread_join(w->thread, NULL);
        pthread_cond_destroy(&w->work);
        nib__lock_destroy(&w->lock);
    }
    nib__free(workers->workers);
    workers->workers = NULL;
    workers->count = 0;
}
