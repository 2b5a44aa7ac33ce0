/*
 * echo_blocking - a blocking handler: sends every message back.
 *
 * Each client gets a thread of its own, and may be served by plain loops.
 */
#include <nib.h>
#include <stdio.h>

static int echo(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    struct nib_message *msg;

    (void)arg;
    if (nib_accept(req, NULL, &conn) < 0)
        return 0;
    while (nib_recv(conn, &msg, -1) == 0) {
        nib_send_message(conn, msg, 0);
        nib_message_unref(msg);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "tcp:127.0.0.1:8080";
    struct nib_config *cfg = NULL;
    struct nib_server *srv = NULL;
    struct nib_route *route;
    char text[128];
    int err;

    err = nib_config_new(&cfg);
    if (err == 0)
        err = nib_config_listen(cfg, address);
    if (err == 0)
        err = nib_config_route(cfg, "=/", &route);
    if (err == 0)
        err = nib_route_set_handler(route, echo, NULL);
    if (err == 0)
        err = nib_server_new(cfg, &srv);
    if (err == 0)
        err = nib_server_start(srv);
    if (err < 0) {
        fprintf(stderr, "echo_blocking: %s\n", nib_strerror(err));
        return 1;
    }
    nib_server_address(srv, 0, text, sizeof text);
    printf("listening on http://%s/\n", text);
    fflush(stdout);
    nib_server_join(srv, -1, NULL);
    nib_server_free(srv);
    nib_config_free(cfg);
    return 0;
}
