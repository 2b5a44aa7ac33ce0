/*
 * callbacks - an echo whose functions run on the reactor and never wait.
 *
 * When there is no room to send, the connection keeps that one message and
 * stops reading, so that the client has to wait as well.
 */
#include <errno.h>
#include <nib.h>
#include <signal.h>
#include <stdio.h>

static void on_message(struct nib_conn *conn, struct nib_message *msg,
                       void *arg)
{
    struct nib_message *kept;

    (void)arg;
    if (nib_send_message(conn, msg, 0) != -EAGAIN)
        return;
    kept = nib_message_ref(msg);
    nib_conn_set_user(conn, kept);
    nib_conn_pause(conn);
    if (!kept)
        nib_close(conn, 1011, "out of memory", 0);
}

/* The outbox is below half again. */
static void on_room(struct nib_conn *conn, void *arg)
{
    struct nib_message *kept = nib_conn_user(conn);

    (void)arg;
    if (!kept || nib_send_message(conn, kept, 0) == -EAGAIN)
        return;
    nib_conn_set_user(conn, NULL);
    nib_message_unref(kept);
    nib_conn_resume(conn);
}

static void on_close(struct nib_conn *conn, const struct nib_close_info *info,
                     void *arg)
{
    (void)info;
    (void)arg;
    nib_message_unref(nib_conn_user(conn));
}

static const struct nib_callbacks echo = {
    .on_message = on_message, .on_room = on_room, .on_close = on_close};

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
        (err = nib_route_set_callbacks(route, &echo, NULL)) ||
        (err = nib_server_new(cfg, &server)) ||
        (err = nib_server_start(server))) {
        fprintf(stderr, "callbacks: %s\n", nib_strerror(err));
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
