/*
 * reject - lets in who knows the word, and tells the others why not.
 *
 * A request can be looked at before it is decided: its path, its headers,
 * the peer's address.
 */
#include <nib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct nib_header refusal[] = {
    {"Content-Type", "text/plain"},
    {"WWW-Authenticate", "Bearer"},
};

static int guard(struct nib_request *req, void *arg)
{
    static const char why[] = "Only with the word.\n";
    const char *given = nib_request_header(req, "Authorization", 0);
    struct nib_conn *conn;
    int err;

    (void)arg;
    if (!given || strcmp(given, "Bearer swordfish") != 0) {
        nib_reject(req, 401, refusal, 2, why, sizeof(why) - 1);
        return 0;
    }
    err = nib_accept(req, NULL, &conn);
    if (err == 0)
        nib_send(conn, "welcome", 7, NIB_TEXT);
    return 0; /* Close 1000 follows the welcome */
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
        (err = nib_route_set_handler(route, guard, NULL)) ||
        (err = nib_server_new(cfg, &server)) ||
        (err = nib_server_start(server))) {
        fprintf(stderr, "reject: %s\n", nib_strerror(err));
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
