/*
 * http - a page beside the WebSocket, under the same address.
 */
#include <nib.h>
#include <signal.h>
#include <stdio.h>

static const char page[] =
    "<!DOCTYPE html><title>nib</title><pre></pre><script>\n"
    "const ws = new WebSocket(location.href.replace(/^http/, 'ws'));\n"
    "ws.onmessage = e => document.querySelector('pre').append(e.data);\n"
    "</script>\n";

/* Plain requests: answered on the reactor, so at once. */
static void show_page(struct nib_request *req, void *arg)
{
    const struct nib_header type = {"Content-Type", "text/html"};

    (void)arg;
    nib_respond(req, 200, &type, 1, page, sizeof(page) - 1);
}

/* Upgrades. */
static int greet(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    int err = nib_accept(req, NULL, &conn);

    (void)arg;
    if (err == 0)
        nib_send(conn, "hello", 5, NIB_TEXT);
    return 0;
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
        (err = nib_route_set_http(route, show_page, NULL)) ||
        (err = nib_route_set_handler(route, greet, NULL)) ||
        (err = nib_server_new(cfg, &server)) ||
        (err = nib_server_start(server))) {
        fprintf(stderr, "http: %s\n", nib_strerror(err));
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
