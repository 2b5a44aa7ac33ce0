/*
 * http - the requests of a connection before it is a WebSocket.
 *
 * A head is collected and judged by protocol/handshake; here it is routed and
 * answered. One request at a time: the next head is read when the answer to
 * the one before is in the kernel, so pipelined requests are answered in
 * order and cost no memory beyond the stash.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "server/conn.h"
#include "server/http.h"
#include "server/request.h"

enum {
    BODY_MAX = 1 << 20, /* of a plain request, to be skipped */
};

/* Queues the text of an answer; from here on the request is decided. */
static void answer(struct nib_conn *c, struct nib__chunk *chunk, bool keep)
    NIB__OWNER_ONLY;
static void answer(struct nib_conn *c, struct nib__chunk *chunk, bool keep)
{
    c->keep = keep && !c->shard->draining;
    c->phase = NIB__ANSWER;
    if (!c->keep)
        nib__conn_decided(c);
    /* From here the write timeout counts: a slow reader is no fault. */
    nib__conn_deadline(c, UINT64_MAX);
    nib__conn_text(c, chunk);
    nib__conn_watch(c);
}

struct nib__chunk *nib__answer_new(struct nib__chunk_pool *pool,
                                   const struct nib__answer *a)
{
    size_t head = nib__write_response(NULL, 0, a->status, a->headers,
                                      a->header_count, a->extra, a->body_len,
                                      a->keep);
    size_t body = a->head_only ? 0 : a->body_len;
    struct nib__chunk *chunk = nib__chunk_new(pool, head + body + 1);

    if (chunk == NULL)
        return NULL;
    nib__write_response((char *)chunk->bytes, head + 1, a->status,
                        a->headers, a->header_count, a->extra, a->body_len,
                        a->keep);
    if (body > 0)
        memcpy(chunk->bytes + head, a->body, body);
    chunk->len = (uint32_t)(head + body);
    return chunk;
}

void nib__http_answer(struct nib_conn *c, const struct nib__answer *a)
{
    struct nib__chunk *chunk = nib__answer_new(&c->shard->pool, a);

    if (chunk == NULL)
        nib__conn_end(c, true);
    else
        answer(c, chunk, a->keep);
}

void nib__http_queue(struct nib_conn *c, struct nib__chunk *chunk)
{
    answer(c, chunk, false);
}

/* A line of text as the body of a status of the server's own. */
static void answer_text(struct nib_conn *c, int status, const char *text,
                        const char *extra, bool keep) NIB__OWNER_ONLY;
static void answer_text(struct nib_conn *c, int status, const char *text,
                        const char *extra, bool keep)
{
    char body[256];
    size_t len = strlen(text);
    const struct nib_request *req = c->request;
    struct nib__answer a = {
        .status = status,
        .extra = extra,
        .body = body,
        .keep = keep,
        .head_only = req != NULL && req->head.method != NULL &&
                     strcmp(req->head.method, "HEAD") == 0,
    };

    if (len > sizeof body - 1)
        len = sizeof body - 1;
    memcpy(body, text, len);
    body[len] = '\n';
    a.body_len = len + 1;
    nib__http_answer(c, &a);
}

void nib__http_refuse(struct nib_conn *c, int status, const char *text,
                      const char *headers)
{
    answer_text(c, status, text, headers, false);
}

/* A plain request whose body has been skipped. */
static void plain_request(struct nib_conn *c) NIB__OWNER_ONLY;
static void plain_request(struct nib_conn *c)
{
    struct nib_request *req = c->request;
    const struct nib_route *route =
        nib__config_route(c->shard->server->config, req->head.path);
    bool keep = req->head.keep_alive;

    nib__count(&c->shard->counters.requests, 1);
    req->route = route;
    if (route == NULL) {
        answer_text(c, 404, "There is nothing at this path.", "", keep);
        return;
    }
    if (route->http == NULL) {
        answer_text(c, 426, "This is a WebSocket; upgrade to talk to it.",
                    "Upgrade: websocket\r\nConnection: Upgrade\r\n", keep);
        return;
    }
    nib__request_hand_out(req);
    nib__callback_begin(nib__conn_reactor(c), "http");
    route->http(req, route->http_arg);
    nib__callback_end(nib__conn_reactor(c));
    if (!req->answered) {
        nib__log(&c->shard->server->config->log, NIB__LOG_ERROR,
                 "route \"%s\": the HTTP function gave no answer",
                 route->pattern);
        answer_text(c, 500, "No answer.", "", keep);
    }
    nib_request_unref(req);
}

/* An upgrade, right in every respect. */
static void upgrade_request(struct nib_conn *c) NIB__OWNER_ONLY;
static void upgrade_request(struct nib_conn *c)
{
    struct nib_request *req = c->request;

    req->route =
        nib__config_route(c->shard->server->config, req->head.path);
    c->route = req->route;
    if (req->route == NULL) {
        nib__count(&c->shard->counters.rejected, 1);
        nib__http_refuse(c, 404, "There is nothing at this path.", "");
        return;
    }
    c->phase = NIB__PENDING;
    nib__conn_watch(c);
    nib__request_dispatch(req);
}

static void refused(struct nib_conn *c, const struct nib__refusal *why)
    NIB__OWNER_ONLY;
static void refused(struct nib_conn *c, const struct nib__refusal *why)
{
    struct nib_server *srv = c->shard->server;

    nib__count(&c->shard->counters.rejected, 1);
    nib__log_limited(&srv->config->log, &srv->log_limit_peers, NIB__LOG_INFO,
                     nib__conn_reactor(c)->now_ms, "%s: %d: %s",
                     c->request->peer, why->status, why->text);
    nib__http_refuse(c, why->status, why->text, why->headers);
}

/* Bytes of the head. Returns how many were used. */
static size_t feed_head(struct nib_conn *c, const uint8_t *p, size_t n)
    NIB__OWNER_ONLY;
static size_t feed_head(struct nib_conn *c, const uint8_t *p, size_t n)
{
    struct nib__refusal why;
    size_t used = 0;
    int result;

    if (c->request == NULL)
        c->request = nib__request_new(c);
    if (c->request == NULL) {
        nib__conn_end(c, true);
        return n;
    }
    result = nib__head_feed(&c->request->head, p, n, &used, &why);
    if (result == -ENOMEM) {
        nib__conn_end(c, true);
    } else if (result < 0) {
        refused(c, &why);
    } else if (result > 0 && c->request->head.upgrade) {
        upgrade_request(c);
    } else if (result > 0) {
        c->request->body_left = c->request->head.content_length;
        if (c->request->body_left > BODY_MAX)
            nib__http_refuse(c, 413, "The body is too large.", "");
        else if (c->request->body_left == 0)
            plain_request(c);
    }
    return used;
}

/* Bytes of a body. Returns how many were used. */
static size_t feed_body(struct nib_conn *c, size_t n) NIB__OWNER_ONLY;
static size_t feed_body(struct nib_conn *c, size_t n)
{
    struct nib_request *req = c->request;
    size_t used = n < req->body_left ? n : (size_t)req->body_left;

    req->body_left -= used;
    if (req->body_left == 0)
        plain_request(c);
    return used;
}

size_t nib__http_feed(struct nib_conn *c, uint8_t *p, size_t n)
{
    size_t used = 0;

    while (used < n && c->phase == NIB__HEAD) {
        if (c->request != NULL && c->request->body_left > 0)
            used += feed_body(c, n - used);
        else
            used += feed_head(c, p + used, n - used);
    }
    return used;
}

void nib__http_written(struct nib_conn *c)
{
    if (c->request != NULL) {
        nib__request_release(c->request);
        c->request = NULL;
    }
    if (!c->keep || c->shard->draining) {
        nib__conn_linger(c);
        return;
    }
    c->phase = NIB__HEAD;
    nib__conn_deadline(c, nib__conn_limits(c)->handshake_timeout_ms);
    nib__conn_resume_reading(c);
}

int nib_respond(struct nib_request *req, int status,
                const struct nib_header *headers, size_t header_count,
                const void *body, size_t len) NIB__NO_ANALYSIS
{
    struct nib_conn *c = req->conn;
    struct nib__chunk *chunk;
    struct nib__answer a = {
        .status = status,
        .headers = headers,
        .header_count = header_count,
        .extra = "",
        .body = body,
        .body_len = len,
        .keep = req->head.keep_alive && !c->shard->draining,
        .head_only = strcmp(req->head.method, "HEAD") == 0,
    };

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    if (req->head.upgrade || req->answered || c->phase != NIB__HEAD)
        return NIB_ESTATE;
    if (status < 200 || status > 599 ||
        !nib__headers_valid(headers, header_count))
        return -EINVAL;
    if (len > nib__conn_limits(c)->outbox_bytes)
        return -EMSGSIZE;
    chunk = nib__answer_new(&c->shard->pool, &a);
    if (chunk == NULL)
        return -ENOMEM;
    req->answered = true;
    answer(c, chunk, a.keep);
    return 0;
}
