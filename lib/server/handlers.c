/*
 * handlers - a growing pool of threads, and the queue before it.
 */
#include "server/handlers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "server/request.h"
#include "server/server.h"

struct nib__thread {
    struct nib__thread *next;
    struct nib__handlers *handlers;
    pthread_t thread;
};

/* Whose pool this thread belongs to. */
static _Thread_local const struct nib_server *home
    __attribute__((tls_model("initial-exec")));

bool nib__handlers_here(const struct nib_server *srv)
{
    return home == srv;
}

static void queue_init(struct nib__queue *q)
{
    q->first = NULL;
    q->last = &q->first;
    q->count = 0;
}

static void queue_push(struct nib__queue *q, struct nib_request *req)
{
    req->next = NULL;
    req->queued = true;
    *q->last = req;
    q->last = &req->next;
    q->count++;
}

static struct nib_request *queue_pop(struct nib__queue *q)
{
    struct nib_request *req = q->first;

    q->first = req->next;
    if (q->first == NULL)
        q->last = &q->first;
    q->count--;
    req->queued = false;
    return req;
}

/* Takes req out if it is in this queue. */
static bool queue_remove(struct nib__queue *q, struct nib_request *req)
{
    struct nib_request **place = &q->first;

    while (*place != NULL && *place != req)
        place = &(*place)->next;
    if (*place == NULL)
        return false;
    *place = req->next;
    if (q->last == &req->next)
        q->last = place;
    q->count--;
    req->queued = false;
    return true;
}

void nib__handlers_init(struct nib__handlers *h, struct nib_server *srv)
{
    const struct nib__limits *l = nib__limits(srv);
    pthread_condattr_t attr;

    *h = (struct nib__handlers){
        .limit = l->handlers,
        .queue_limit = l->handler_queue,
        .stack_bytes = l->handler_stack_bytes,
        .server = srv,
    };
    nib__lock_init(&h->lock);
    queue_init(&h->pool);
    queue_init(&h->own);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->work, &attr);
    pthread_cond_init(&h->next, &attr);
    pthread_cond_init(&h->gone, &attr);
    pthread_condattr_destroy(&attr);
}

void nib__handlers_destroy(struct nib__handlers *h)
{
    pthread_cond_destroy(&h->work);
    pthread_cond_destroy(&h->next);
    pthread_cond_destroy(&h->gone);
    nib__lock_destroy(&h->lock);
}

/* Runs one handler and does what its return asks for. */
static void run(struct nib_request *req)
{
    const struct nib_route *route = req->route;
    struct nib_conn *c = req->conn;
    int result;

    if (!nib__request_decided(req)) {
        result = route->handler(req, route->handler_arg);
        if (atomic_load_explicit(&c->opened, memory_order_acquire))
            nib_close(c, result == 0 ? 1000 : 1011, NULL, 0);
    }
    nib_request_unref(req);
}

static void *thread_main(void *arg)
{
    struct nib__thread *self = arg;
    struct nib__handlers *h = self->handlers;

    home = h->server;
    nib__lock_take(&h->lock);
    for (;;) {
        struct nib_request *req;

        while (h->pool.first == NULL && !h->closed) {
            pthread_cond_wait(&h->work, &h->lock.mutex);
        }
        if (h->pool.first == NULL)
            break;
        req = queue_pop(&h->pool);
        h->running++;
        nib__lock_release(&h->lock);
        run(req);
        nib__lock_take(&h->lock);
        h->running--;
    }
    h->alive--;
    pthread_cond_broadcast(&h->gone);
    nib__lock_release(&h->lock);
    return NULL;
}

/* Starts one more thread, under the lock. */
static int grow(struct nib__handlers *h)
{
    struct nib__thread *t = nib__alloc(sizeof *t);
    pthread_attr_t attr;
    sigset_t all, old;
    int err;

    if (t == NULL)
        return -ENOMEM;
    t->handlers = h;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, h->stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&t->thread, &attr, thread_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (err != 0) {
        nib__free(t);
        return -err;
    }
    pthread_setname_np(t->thread, "nib-handler");
    t->next = h->threads;
    h->threads = t;
    h->alive++;
    return 0;
}

/*
 * May one more request queue for the pool? Threads that run no handler, new
 * ones included, take one request each, so those do not count as waiting.
 */
static int find_thread(struct nib__handlers *h)
{
    int err = 0;

    if (h->pool.count >= h->alive - h->running && h->alive < h->limit)
        err = grow(h);
    if (h->alive == 0)
        return err;
    return h->pool.count < h->alive - h->running + h->queue_limit ? 0
                                                                   : -EAGAIN;
}

int nib__handlers_submit(struct nib__handlers *h, struct nib_request *req)
{
    bool own = req->route->handler == NULL;
    int err;

    nib__lock_take(&h->lock);
    if (h->closed)
        err = -ECANCELED;
    else if (own)
        err = h->own.count < h->queue_limit ? 0 : -EAGAIN;
    else
        err = find_thread(h);
    if (err == 0) {
        queue_push(own ? &h->own : &h->pool, req);
        pthread_cond_signal(own ? &h->next : &h->work);
    }
    nib__lock_release(&h->lock);
    return err;
}

void nib__handlers_remove(struct nib__handlers *h, struct nib_request *req)
{
    bool removed = false;

    nib__lock_take(&h->lock);
    if (req->queued)
        removed = queue_remove(&h->pool, req) || queue_remove(&h->own, req);
    nib__lock_release(&h->lock);
    if (removed)
        nib_request_unref(req);
}

static struct timespec at_ns(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

/* Waits for a condition until due_ns; false at the deadline. */
static bool wait_until(pthread_cond_t *cond, struct nib__lock *lock,
                       uint64_t due_ns)
{
    struct timespec due;

    if (due_ns == UINT64_MAX)
        return pthread_cond_wait(cond, &lock->mutex) == 0;
    due = at_ns(due_ns);
    return pthread_cond_timedwait(cond, &lock->mutex, &due) != ETIMEDOUT;
}

int nib__handlers_next(struct nib__handlers *h, struct nib_request **req,
                       uint64_t due_ns)
{
    int err = 0;

    nib__lock_take(&h->lock);
    while (h->own.first == NULL && !h->closed && err == 0) {
        if (due_ns == 0 || !wait_until(&h->next, &h->lock, due_ns))
            err = -ETIMEDOUT;
    }
    if (h->own.first != NULL) {
        *req = queue_pop(&h->own);
        err = 0;
    } else if (h->closed) {
        err = -ECANCELED;
    }
    nib__lock_release(&h->lock);
    return err;
}

void nib__handlers_close(struct nib__handlers *h)
{
    nib__lock_take(&h->lock);
    h->closed = true;
    pthread_cond_broadcast(&h->work);
    pthread_cond_broadcast(&h->next);
    nib__lock_release(&h->lock);
}

int nib__handlers_join(struct nib__handlers *h, uint64_t due_ns)
{
    struct nib__thread *threads = NULL;
    int err = 0;

    nib__lock_take(&h->lock);
    while (h->alive > 0 && err == 0)
        if (!wait_until(&h->gone, &h->lock, due_ns))
            err = -ETIMEDOUT;
    if (h->alive == 0) {
        err = 0;
        threads = h->threads;
        h->threads = NULL;
    }
    nib__lock_release(&h->lock);
    while (threads != NULL) {
        struct nib__thread *next = threads->next;

        pthread_join(threads->thread, NULL);
        nib__free(threads);
        threads = next;
    }
    return err;
}

void nib__handlers_count(struct nib__handlers *h, uint64_t *running,
                         uint64_t *queued)
{
    nib__lock_take(&h->lock);
    *running = h->running;
    *queued = (uint64_t)h->pool.count + h->own.count;
    nib__lock_release(&h->lock);
}
