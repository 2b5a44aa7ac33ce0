/*
 * echo_blocking - a blocking handler: sends every message back.
 *
 * Each client is served by a thread of its own, in a plain loop. A send waits
 * while the client does not read, so nothing piles up.
 */
#include <nib.h>
#include <signal.h>
#include <stdio.h>

static int echo(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    struct nib_message *msg;
    int err = nib_accept(req, NULL, &conn);

    (void)arg;
    while (err == 0 && (err = nib_recv(conn, &msg, -1)) == 0) {
        err = nib_send_message(conn, msg, 0);
        nib_message_unref(msg);
    }
    return 0; /* the end of a connection is no fault */
}

static struct nib_server *server;

static void stop(int number)
{
    (void)number;
    nib_server_stop(server, 1000);
}

int main(int argc, char **argv)
{
    const char *listen = argc > 1 ? argv[1] : "tcp:127.0.0.1:8080";
    struct nib_config *cfg = NULL;
    struct nib_route *route;
    char address[128];
    int err = nib_config_new(&cfg);

    if (err || (err = nib_config_listen(cfg, listen)) ||
        (err = nib_config_route(cfg, "/", &route)) ||
        (err = nib_route_set_handler(route, echo, NULL)) ||
        (err = nib_server_new(cfg, &server)) ||
        (err = nib_server_start(server))) {
        fprintf(stderr, "echo_blocking: %s\n", nib_strerror(err));
        return 1;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    nib_server_address(server, 0, address, sizeof(address));
    printf("listening on http://%s/\n", address);
    fflush(stdout);
    nib_server_join(server, -1, NULL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    nib_server_free(server);
    nib_config_free(cfg);
    return 0;
}
