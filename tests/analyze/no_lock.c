/*
 * no-lock - calls a function of the outbox without its lock.
 *
 * expect: calling function 'nib__outbox_ask' requires holding mutex 'c->out.lock'
 */
#include "server/conn.h"

bool anybody_asks(struct nib_conn *c);
bool anybody_asks(struct nib_conn *c)
{
    return nib__outbox_ask(&c->out, NIB__OP_FLUSH);
}
