/*
 * page - the chat page that is built in.
 *
 * The page may do what it does itself, and nothing else: no other resource,
 * no frame around it, no connection but by WebSocket. (That is "ws: wss:", as
 * some browsers do not count a WebSocket to the same host as 'self'.)
 */
#include "daemon/page.h"

#include "nib.h"

#include <string.h>

static const struct nib_header page_headers[] = {
    {"Content-Type", "text/html; charset=utf-8"},
    {"Cache-Control", "no-cache"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'unsafe-inline'; "
     "style-src 'unsafe-inline'; img-src data:; connect-src 'self' ws: wss:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
};

static const struct nib_header refusal_headers[] = {
    {"Content-Type", "text/plain; charset=utf-8"},
    {"Allow", "GET, HEAD"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void page_respond(struct nib_request *req, void *arg)
{
    static const char refusal[] = "Only GET and HEAD are answered here.\n";
    const char *method = nib_request_method(req);

    (void)arg;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        nib_respond(req, 200, page_headers, COUNT(page_headers), page_html,
                    page_html_bytes);
    else
        nib_respond(req, 405, refusal_headers, COUNT(refusal_headers), refusal,
                    sizeof(refusal) - 1);
}
