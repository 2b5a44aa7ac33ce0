/*
 * owner-call - calls a function of the owner's from any thread.
 *
 * expect: calling function 'nib__conn_flush' requires holding role 'nib__owner'
 */
#include "server/conn.h"

void anybody_flushes(struct nib_conn *c);
void anybody_flushes(struct nib_conn *c)
{
    nib__conn_flush(c);
}
