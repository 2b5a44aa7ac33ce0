/*
 * held - back-pressure for callbacks that pass messages on.
 *
 * When a message cannot be passed on yet, its connection is paused and keeps
 * it: this one message is all that a connection of nibd ever stores. When
 * there is room it is passed on, and reading goes on.
 *
 * The message hangs at nib_conn_user(), which is used for nothing else. All
 * functions belong to the connection's owner.
 */
#ifndef NIB_DAEMON_HELD_H
#define NIB_DAEMON_HELD_H

struct nib_conn;
struct nib_message;

/*
 * Passes a message of `conn` on; keeps no reference. Returns as nib_send():
 * after -EAGAIN the connection's on_room is called when there is room.
 */
typedef int held_pass_fn(struct nib_conn *conn, struct nib_message *msg);

/* For on_message: passes msg on, now or when there is room. */
void held_message(struct nib_conn *conn, struct nib_message *msg,
                  held_pass_fn *pass);

/* For on_room: tries again, with the same function. */
void held_room(struct nib_conn *conn, held_pass_fn *pass);

/* For on_close: drops what was held. */
void held_close(struct nib_conn *conn);

#endif
