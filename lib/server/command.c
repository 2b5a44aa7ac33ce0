/*
 * command - records that other threads leave for a connection's owner.
 */
#include "server/command.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

/* A ping of nib_ping(): on its way, then kept until it is answered. */
struct nib__ping {
    struct nib__record record;
    struct nib_conn *conn;
    uint8_t len;
    uint8_t data[NIB__CONTROL_MAX];
};

void nib__ping_free(struct nib__ping *ping)
{
    nib__free(ping);
}

/* The ping is over, one way or the other. */
static void ping_gone(struct nib__ping *ping)
{
    struct nib_conn *c = ping->conn;

    atomic_store_explicit(&c->pinging, false, memory_order_release);
    nib__free(ping);
    nib_conn_unref(c);
}

static void ping_run(struct nib__record *record) NIB__OWNER_ONLY;
static void ping_run(struct nib__record *record)
{
    struct nib__ping *ping = (struct nib__ping *)record;
    struct nib_conn *c = ping->conn;

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    if (c->phase != NIB__OPENED ||
        nib__conn_control(c, NIB__PING, ping->data, ping->len) < 0) {
        ping_gone(ping);
        return;
    }
    c->ping = ping;
    nib__conn_soon(c);
    nib_conn_unref(c);
}

static void ping_cancel(struct nib__record *record)
{
    ping_gone((struct nib__ping *)record);
}

bool nib__ping_answered(struct nib_conn *c, const void *data, size_t len)
{
    struct nib__ping *ping = c->ping;

    if (ping == NULL || ping->len != len ||
        (len > 0 && memcmp(ping->data, data, len) != 0))
        return false;
    c->ping = NULL;
    nib__free(ping);
    atomic_store_explicit(&c->pinging, false, memory_order_release);
    return true;
}

int nib_ping(struct nib_conn *c, const void *data, size_t len)
{
    struct nib__ping *ping;

    if (len > NIB__CONTROL_MAX)
        return -EINVAL;
    if (nib_conn_state(c) != NIB_OPEN)
        return -EPIPE;
    ping = nib__alloc(sizeof *ping);
    if (ping == NULL)
        return -ENOMEM;
    if (atomic_exchange_explicit(&c->pinging, true, memory_order_acq_rel)) {
        nib__free(ping);
        return -EBUSY;
    }
    ping->record.run = ping_run;
    ping->record.cancel = ping_cancel;
    ping->conn = nib_conn_ref(c);
    ping->len = (uint8_t)len;
    if (len > 0)
        memcpy(ping->data, data, len);
    if (nib__mailbox_post(&nib__conn_reactor(c)->mailbox, &ping->record) ==
        0)
        return 0;
    ping_gone(ping);
    return -ECANCELED;
}

/* A function of nib_post(). */
struct posted {
    struct nib__record record;
    struct nib_conn *conn;
    void (*run)(struct nib_conn *conn, void *arg);
    void (*cancel)(struct nib_conn *conn, void *arg);
    void *arg;
};

static void posted_run(struct nib__record *record) NIB__OWNER_ONLY;
static void posted_run(struct nib__record *record)
{
    struct posted *p = (struct posted *)record;

    nib__conn_command_over(p->conn); /* so that it may post itself again */
    nib__callback_begin(nib__conn_reactor(p->conn), "nib_post");
    p->run(p->conn, p->arg);
    nib__callback_end(nib__conn_reactor(p->conn));
    nib_conn_unref(p->conn);
    nib__free(p);
}

static void posted_cancel(struct nib__record *record)
{
    struct posted *p = (struct posted *)record;

    nib__conn_command_over(p->conn);
    if (p->cancel != NULL)
        p->cancel(p->conn, p->arg);
    nib_conn_unref(p->conn);
    nib__free(p);
}

int nib_post(struct nib_conn *c,
             void (*run)(struct nib_conn *conn, void *arg),
             void (*cancel)(struct nib_conn *conn, void *arg), void *arg)
{
    struct posted *p = nib__alloc(sizeof *p);
    int err;

    if (p == NULL) {
        if (cancel != NULL)
            cancel(c, arg);
        return -ENOMEM;
    }
    *p = (struct posted){.conn = nib_conn_ref(c),
                         .run = run,
                         .cancel = cancel,
                         .arg = arg};
    p->record.run = posted_run;
    p->record.cancel = posted_cancel;
    err = nib__conn_command(c, &p->record);
    if (err < 0)
        posted_cancel(&p->record);
    return err;
}

static void park_run(struct nib__record *record) NIB__OWNER_ONLY;
static void park_run(struct nib__record *record)
{
    struct nib__parked *p = (struct nib__parked *)record;
    struct nib_conn *c = p->conn;

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    nib_conn_ref(c);
    p->next = c->parked;
    c->parked = p;
    nib__conn_parked(c);
    if (c->phase != NIB__ENDED_CONN)
        nib__conn_arm(c);
    nib_conn_unref(c);
}

static void park_cancel(struct nib__record *record)
{
    struct nib__parked *p = (struct nib__parked *)record;

    nib__oneshot_complete(&p->done, -ECANCELED);
}

int nib__park(struct nib_conn *c, bool flush, uint64_t written,
              int timeout_ms)
{
    struct nib__parked p = {
        .conn = c,
        .flush = flush,
        .written = written,
        .due_ms = timeout_ms < 0 ? UINT64_MAX
                                 : nib__clock_ms() + (uint64_t)timeout_ms,
    };

    p.record.run = park_run;
    p.record.cancel = park_cancel;
    nib__oneshot_init(&p.done);
    if (nib__mailbox_post(&nib__conn_reactor(c)->mailbox, &p.record) < 0)
        return -ECANCELED;
    return nib__oneshot_wait(&p.done);
}
