/*
 * lock-kept - returns with the outbox's lock held.
 *
 * expect: mutex 'c->out.lock' is still held at the end of function
 */
#include "server/conn.h"

bool anybody_asks(struct nib_conn *c);
bool anybody_asks(struct nib_conn *c)
{
    nib__lock_take(&c->out.lock);
    return nib__outbox_ask(&c->out, NIB__OP_FLUSH);
}
