/*
 * hub - everyone hears everyone.
 *
 * One topic, and every member subscribes to it; a message is published as it
 * came, text or binary, also to its sender. A sender that is faster than the
 * topic has to wait (held); a member that does not read is closed with 1013
 * by the library, when --queue bytes wait for it.
 */
#include "daemon/hub.h"

#include "daemon/held.h"
#include "daemon/page.h"
#include "nib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char topic[] = "hub";

static int publish(struct nib_conn *conn, struct nib_message *msg)
{
    return nib_publish(nib_conn_server(conn), topic, msg, conn, NIB_TRUSTED);
}

static void on_open(struct nib_conn *conn, void *arg)
{
    int error = nib_subscribe(conn, topic);

    (void)arg;
    if (error)
        nib_close(conn, 1011, nib_strerror(error), 0);
}

static void on_message(struct nib_conn *conn, struct nib_message *msg,
                       void *arg)
{
    (void)arg;
    held_message(conn, msg, publish);
}

static void on_room(struct nib_conn *conn, void *arg)
{
    (void)arg;
    held_room(conn, publish);
}

static void on_close(struct nib_conn *conn, const struct nib_close_info *info,
                     void *arg)
{
    (void)info;
    (void)arg;
    held_close(conn);
}

int hub_configure(struct nib_config *cfg, const char *path)
{
    static const struct nib_callbacks callbacks = {
        .on_open = on_open,
        .on_message = on_message,
        .on_room = on_room,
        .on_close = on_close,
    };
    struct nib_route *route;
    char *pattern;
    int error;

    if (asprintf(&pattern, "=%s", path) < 0)
        return -ENOMEM;
    error = nib_config_route(cfg, pattern, &route);
    free(pattern);
    if (!error)
        error = nib_route_set_callbacks(route, &callbacks, NULL);
    return error ? error : nib_route_set_http(route, page_respond, NULL);
}
