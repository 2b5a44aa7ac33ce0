/*
 * own_threads - an echo on threads that the application brings.
 *
 * The route has neither handler nor callbacks, so its upgrades are given to
 * whoever asks for the next one.
 */
#include <nib.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

enum { THREADS = 4 };

static struct nib_server *server;

static void echo(struct nib_request *req)
{
    struct nib_conn *conn;
    struct nib_message *msg;
    int err = nib_accept(req, NULL, &conn);

    if (err)
        return;
    while (err == 0 && (err = nib_recv(conn, &msg, -1)) == 0) {
        err = nib_send_message(conn, msg, 0);
        nib_message_unref(msg);
    }
    nib_close(conn, 1000, NULL, 0); /* no harm if it has ended */
}

/* Until the server stops: -ECANCELED. */
static void *work(void *arg)
{
    struct nib_request *req;

    while (nib_server_next(server, &req, -1) == 0) {
        echo(req);
        nib_request_unref(req);
    }
    return arg;
}

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
    pthread_t threads[THREADS];
    int err = nib_config_new(&cfg);

    if (err || (err = nib_config_listen(cfg, listen)) ||
        (err = nib_config_route(cfg, "/", &route)) ||
        (err = nib_server_new(cfg, &server)) ||
        (err = nib_server_start(server))) {
        fprintf(stderr, "own_threads: %s\n", nib_strerror(err));
        return 1;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    nib_server_address(server, 0, address, sizeof(address));
    printf("listening on http://%s/\n", address);
    fflush(stdout);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    nib_server_join(server, -1, NULL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    nib_server_free(server);
    nib_config_free(cfg);
    return 0;
}
