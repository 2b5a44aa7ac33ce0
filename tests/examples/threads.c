/*
 * threads - many threads send on one connection.
 *
 * None of them needs a lock: every message leaves whole, and those of one
 * thread in order. When the handler returns, all were accepted for sending
 * and leave before the Close.
 */
#include <nib.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

enum { THREADS = 8, MESSAGES = 1000 };

struct job {
    struct nib_conn *conn;
    int number;
    pthread_t thread;
};

static void *send_numbers(void *arg)
{
    const struct job *job = arg;
    char text[32];
    int err = 0;

    for (int i = 0; i < MESSAGES && err == 0; i++) {
        int len = snprintf(text, sizeof(text), "%d %d", job->number, i);

        err = nib_send(job->conn, text, (size_t)len, NIB_TEXT);
    }
    return NULL;
}

static int count(struct nib_request *req, void *arg)
{
    struct job jobs[THREADS];
    int started = 0, err = nib_accept(req, NULL, &jobs[0].conn);

    (void)arg;
    for (; err == 0 && started < THREADS; started++) {
        struct job *job = &jobs[started];

        job->conn = jobs[0].conn;
        job->number = started;
        err = pthread_create(&job->thread, NULL, send_numbers, job);
        if (err)
            break;
    }
    while (started > 0)
        pthread_join(jobs[--started].thread, NULL);
    return err;
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
        (err = nib_route_set_handler(route, count, NULL)) ||
        (err = nib_server_new(cfg, &server)) ||
        (err = nib_server_start(server))) {
        fprintf(stderr, "threads: %s\n", nib_strerror(err));
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
