/*
 * control - keeps every rule of ownership: must compile.
 */
#include "server/conn.h"

uint8_t owner_looks(struct nib_conn *c) NIB__OWNER_ONLY;
uint8_t owner_looks(struct nib_conn *c)
{
    nib__conn_soon(c);
    return c->phase;
}

bool anybody_asks(struct nib_conn *c);
bool anybody_asks(struct nib_conn *c)
{
    bool post;

    nib__lock_take(&c->out.lock);
    post = nib__outbox_ask(&c->out, NIB__OP_FLUSH);
    nib__lock_release(&c->out.lock);
    return post;
}
