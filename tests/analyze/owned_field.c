/*
 * owned-field - touches a field of the owner from any thread.
 *
 * expect: reading variable 'phase' requires holding role 'nib__owner'
 */
#include "server/conn.h"

uint8_t anybody_looks(const struct nib_conn *c);
uint8_t anybody_looks(const struct nib_conn *c)
{
    return c->phase;
}
