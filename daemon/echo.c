/*
 * echo - every message comes back to its sender.
 */
#include "daemon/echo.h"

#include "daemon/held.h"
#include "nib.h"

/* By a copy: for the small messages of an echo that is cheaper than making
 * them shareable. Text was checked when it came. */
static int send_back(struct nib_conn *conn, struct nib_message *msg)
{
    size_t len;
    const void *data = nib_message_data(msg, &len);

    return nib_send(conn, data, len, nib_message_kind(msg) | NIB_TRUSTED);
}

static void on_message(struct nib_conn *conn, struct nib_message *msg,
                       void *arg)
{
    (void)arg;
    held_message(conn, msg, send_back);
}

static void on_room(struct nib_conn *conn, void *arg)
{
    (void)arg;
    held_room(conn, send_back);
}

static void on_close(struct nib_conn *conn, const struct nib_close_info *info,
                     void *arg)
{
    (void)info;
    (void)arg;
    held_close(conn);
}

int echo_configure(struct nib_config *cfg)
{
    static const struct nib_callbacks callbacks = {
        .on_message = on_message,
        .on_room = on_room,
        .on_close = on_close,
    };
    struct nib_route *route;
    int error = nib_config_route(cfg, "/", &route);

    return error ? error : nib_route_set_callbacks(route, &callbacks, NULL);
}
