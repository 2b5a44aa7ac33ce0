/*
 * held - back-pressure for callbacks that pass messages on.
 *
 * A connection that holds a message is paused, and gets no on_message before
 * it is resumed. Invariant: nib_conn_user() is NULL unless it is paused here.
 */
#include "daemon/held.h"

#include "nib.h"

#include <errno.h>
#include <stddef.h>

/* A message that can be neither passed on nor kept must not get lost in
 * silence: the connection ends with it. A failure because the connection or
 * the server is ending needs nothing more. */
static void give_up(struct nib_conn *conn, int error)
{
    if (error != -EPIPE && error != -ECANCELED)
        nib_close(conn, error == -EMSGSIZE ? 1009 : 1011, nib_strerror(error),
                  0);
}

void held_message(struct nib_conn *conn, struct nib_message *msg,
                  held_pass_fn *pass)
{
    int error = pass(conn, msg);
    struct nib_message *kept;

    if (error == -EAGAIN) {
        kept = nib_message_ref(msg);
        nib_conn_set_user(conn, kept);
        error = kept ? nib_conn_pause(conn) : -ENOMEM;
    }
    if (error)
        give_up(conn, error);
}

void held_room(struct nib_conn *conn, held_pass_fn *pass)
{
    struct nib_message *msg = nib_conn_user(conn);
    int error;

    if (!msg)
        return;
    error = pass(conn, msg);
    if (error == -EAGAIN)
        return;
    held_close(conn);
    if (error)
        give_up(conn, error);
    else
        nib_conn_resume(conn);
}

void held_close(struct nib_conn *conn)
{
    nib_message_unref(nib_conn_user(conn));
    nib_conn_set_user(conn, NULL);
}
