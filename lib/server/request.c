/*
 * request - what the application sees of a request, and how it decides.
 *
 * A decision is prepared on the thread that makes it: the answer is checked
 * and encoded there, so that the owner only links bytes. Taking the decision
 * word comes last before the post; so a call that is refused leaves the
 * request as it was.
 */
#include "server/request.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "server/handlers.h"
#include "server/http.h"
#include "system/tls.h"

/*
 * An accept or a reject on its way to the owner: on the stack of a caller
 * that waits, or on the heap.
 */
struct decision {
    struct nib__record record;
    struct nib__oneshot done;
    struct nib_request *req;
    struct nib__chunk *chunk; /* the answer */
    struct nib__inbox *in;
    char *subprotocol;
    void *user;
    bool accept;
    bool waits; /* its caller waits: `done`; else it is on the heap */
    void (*accepted)(int result, struct nib_conn *conn, void *arg);
    void (*rejected)(int result, void *arg);
    void *arg;
};

/* ---- references ---- */

static void destroy(struct nib_request *req)
{
    nib__head_free(&req->head);
    nib__free(req->subprotocols);
    nib__free(req->tls);
    nib_conn_unref(req->conn);
    nib__free(req);
}

void nib__request_release(struct nib_request *req)
{
    if (atomic_fetch_sub_explicit(&req->refs, 1, memory_order_acq_rel) == 1)
        destroy(req);
}

static void hold(struct nib_request *req)
{
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed);
}

struct nib_request *nib_request_ref(struct nib_request *req)
{
    hold(req);
    atomic_fetch_add_explicit(&req->users, 1, memory_order_relaxed);
    return req;
}

void nib__request_hand_out(struct nib_request *req)
{
    nib_request_ref(req);
}

/* Takes the decision word; 0, or what those get who come too late. */
static int decide(struct nib_request *req, int decision)
{
    int expected = NIB__UNDECIDED;

    if (atomic_compare_exchange_strong_explicit(
            &req->decision, &expected, decision, memory_order_acq_rel,
            memory_order_acquire))
        return 0;
    return expected == NIB__DECIDED ? NIB_ESTATE : expected;
}

bool nib__request_withdraw(struct nib_request *req, int result)
{
    if (decide(req, result) != 0)
        return false;
    nib__handlers_remove(&req->server->handlers, req);
    return true;
}

/* Nobody decided: 500. */
static void drop_run(struct nib__record *record) NIB__OWNER_ONLY;
static void drop_run(struct nib__record *record)
{
    struct nib_request *req =
        (struct nib_request *)((char *)record -
                               offsetof(struct nib_request, drop));
    struct nib_conn *c = req->conn;

    if (c->phase == NIB__PENDING) {
        nib__log(&req->server->config->log, NIB__LOG_ERROR,
                 "route \"%s\": a request was dropped without a decision",
                 req->route->pattern);
        nib__count(&c->shard->counters.rejected, 1);
        nib__http_refuse(c, 500, "The request was not decided.", "");
    }
    nib__request_release(req);
}

static void drop_cancel(struct nib__record *record)
{
    nib__request_release(
        (struct nib_request *)((char *)record -
                               offsetof(struct nib_request, drop)));
}

void nib_request_unref(struct nib_request *req)
{
    if (req == NULL)
        return;
    if (atomic_fetch_sub_explicit(&req->users, 1, memory_order_acq_rel) ==
            1 &&
        req->head.upgrade && decide(req, NIB__DECIDED) == 0) {
        hold(req);
        if (nib__mailbox_post(&nib__conn_reactor(req->conn)->mailbox,
                              &req->drop) < 0)
            nib__request_release(req);
    }
    nib__request_release(req);
}

struct nib_request *nib__request_new(struct nib_conn *c)
{
    const struct nib__limits *l = nib__conn_limits(c);
    struct nib_request *req = nib__alloc_zero(sizeof *req);

    if (req == NULL)
        return NULL;
    if (c->tls != NULL) {
        req->tls = nib__alloc(sizeof *req->tls);
        if (req->tls == NULL) {
            nib__free(req);
            return NULL;
        }
        nib__tls_info(c->transport, req->tls);
    }
    req->refs = 1;
    req->conn = nib_conn_ref(c);
    req->server = c->shard->server;
    req->drop.run = drop_run;
    req->drop.cancel = drop_cancel;
    nib__head_init(&req->head, l->head_bytes, l->head_lines);
    nib__peer_text(&c->peer, req->peer);
    return req;
}

/* ---- what the application reads ---- */

const char *nib_request_method(const struct nib_request *req)
{
    return req->head.method;
}

const char *nib_request_path(const struct nib_request *req)
{
    return req->head.path;
}

const char *nib_request_query(const struct nib_request *req)
{
    return req->head.query;
}

const char *nib_request_header(const struct nib_request *req,
                               const char *name, unsigned number)
{
    return nib__head_value(&req->head, name, number);
}

bool nib_request_header_at(const struct nib_request *req, unsigned number,
                           struct nib_header *out)
{
    if (number >= req->head.line_count)
        return false;
    out->name = req->head.lines[number].name;
    out->value = req->head.lines[number].value;
    return true;
}

/* Copies the client's list, each token with a NUL, once for each request. */
static int list_subprotocols(struct nib_request *req)
{
    const char *token;
    size_t bytes = 1, len;
    char *to;

    for (unsigned i = 0;
         (len = nib__head_token(&req->head, "Sec-WebSocket-Protocol", i,
                                &token)) > 0;
         i++)
        bytes += len + 1;
    req->subprotocols = nib__alloc(bytes);
    if (req->subprotocols == NULL)
        return -ENOMEM;
    to = req->subprotocols;
    for (unsigned i = 0;
         (len = nib__head_token(&req->head, "Sec-WebSocket-Protocol", i,
                                &token)) > 0;
         i++) {
        memcpy(to, token, len);
        to[len] = '\0';
        to += len + 1;
    }
    *to = '\0';
    return 0;
}

const char *nib_request_subprotocol(const struct nib_request *req,
                                    unsigned number)
{
    const char *token = req->subprotocols;

    if (token == NULL)
        return NULL;
    for (; *token != '\0' && number > 0; number--)
        token += strlen(token) + 1;
    return *token == '\0' ? NULL : token;
}

const char *nib_request_peer(const struct nib_request *req)
{
    return req->peer;
}

bool nib_request_tls(const struct nib_request *req, struct nib_tls_info *out)
{
    if (req->tls == NULL)
        return false;
    *out = (struct nib_tls_info){
        .version = req->tls->version,
        .cipher = req->tls->cipher,
        .server_name = req->tls->server_name,
        .peer_name = req->tls->peer_name,
        .resumed = req->tls->resumed,
    };
    return true;
}

struct nib_server *nib_request_server(const struct nib_request *req)
{
    return req->server;
}

/* ---- deciding ---- */

bool nib__headers_valid(const struct nib_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!nib__header_valid(&headers[i]))
            return false;
    return true;
}

/* The subprotocol to answer: the one named, or by the route's list. */
static const char *choose_subprotocol(const struct nib_request *req,
                                      const char *named)
{
    const char *offered;

    for (unsigned i = 0;
         (offered = nib_request_subprotocol(req, i)) != NULL; i++) {
        if (named != NULL ? strcmp(named, offered) == 0
                          : req->route->subprotocols != NULL &&
                                nib__token_list_has(req->route->subprotocols,
                                                    offered,
                                                    strlen(offered)))
            return offered;
    }
    return NULL;
}

static void decision_free(struct decision *d)
{
    nib__chunks_free(&d->req->conn->shard->pool, d->chunk);
    nib__inbox_free(d->in);
    nib__free(d->subprotocol);
    d->chunk = NULL;
    d->in = NULL;
    d->subprotocol = NULL;
}

/* Makes the 101 and all that the open connection needs. */
static int prepare_accept(struct decision *d,
                          const struct nib_accept_options *options)
{
    static const struct nib_accept_options none;
    struct nib_request *req = d->req;
    struct nib_conn *c = req->conn;
    const struct nib__limits *l = nib__conn_limits(c);
    const char *subprotocol;
    size_t len;

    if (options == NULL)
        options = &none;
    subprotocol = choose_subprotocol(req, options->subprotocol);
    if ((options->subprotocol != NULL && subprotocol == NULL) ||
        !nib__headers_valid(options->headers, options->header_count))
        return -EINVAL;
    d->accept = true;
    d->user = options->user;
    len = nib__write_101(NULL, 0, req->head.key, subprotocol,
                         options->headers, options->header_count);
    d->chunk = nib__chunk_new(&c->shard->pool, len + 1);
    if (d->chunk == NULL)
        goto no_memory;
    nib__write_101((char *)d->chunk->bytes, len + 1, req->head.key,
                   subprotocol, options->headers, options->header_count);
    d->chunk->len = (uint32_t)len;
    if (subprotocol != NULL &&
        (d->subprotocol = nib__strdup(subprotocol)) == NULL)
        goto no_memory;
    if (!req->route->has_callbacks &&
        (d->in = nib__inbox_new(l->inbox_messages, l->inbox_bytes)) == NULL)
        goto no_memory;
    return 0;

no_memory:
    decision_free(d);
    return -ENOMEM;
}

static int prepare_reject(struct decision *d, int status,
                          const struct nib_header *headers,
                          size_t header_count, const void *body, size_t len)
{
    struct nib_conn *c = d->req->conn;
    struct nib__answer a = {
        .status = status,
        .headers = headers,
        .header_count = header_count,
        .extra = "",
        .body = body,
        .body_len = len,
    };

    if (status < 300 || status > 599 ||
        !nib__headers_valid(headers, header_count))
        return -EINVAL;
    if (len > nib__conn_limits(c)->outbox_bytes)
        return -EMSGSIZE;
    d->accept = false;
    d->chunk = nib__answer_new(&c->shard->pool, &a);
    return d->chunk == NULL ? -ENOMEM : 0;
}

/* OPENED begins. The request's part is over. */
static void open_conn(struct nib_conn *c, struct decision *d)
    NIB__OWNER_ONLY;
static void open_conn(struct nib_conn *c, struct decision *d)
{
    const struct nib__limits *l = nib__conn_limits(c);
    uint64_t now = nib__conn_reactor(c)->now_ms;
    struct nib__chunk *chunk = d->chunk;

    c->in = d->in;
    c->subprotocol = d->subprotocol;
    c->user = d->user;
    d->chunk = NULL;
    d->in = NULL;
    d->subprotocol = NULL;
    c->phase = NIB__OPENED;
    c->opened = true;
    nib__conn_decided(c);
    nib__assembler_init(&c->assembler, l->message_bytes, c->in != NULL);
    c->active_ms = now;
    c->ping_due_ms = l->ping_interval_ms == 0 ? UINT64_MAX
                                              : now + l->ping_interval_ms;
    nib__count(&c->shard->counters.upgraded, 1);
    nib__conn_text(c, chunk);
    nib__conn_deadline(c, UINT64_MAX);
}

/* Does what was decided. Returns the result for whoever decided. */
static int carry_out(struct decision *d) NIB__OWNER_ONLY;
static int carry_out(struct decision *d)
{
    struct nib_conn *c = d->req->conn;
    struct nib__chunk *chunk = d->chunk;

    NIB_ASSERT_OWNER(nib__conn_reactor(c));
    if (c->phase != NIB__PENDING) {
        /* Who decides again is told the same. */
        atomic_store_explicit(&d->req->decision, -EPIPE,
                              memory_order_release);
        decision_free(d);
        return -EPIPE;
    }
    if (d->accept && c->shard->draining) {
        /* The stop came first, and its Close would not come again. */
        atomic_store_explicit(&d->req->decision, -ECANCELED,
                              memory_order_release);
        decision_free(d);
        nib__http_refuse(c, 503, "The server is stopping.", "");
        return -ECANCELED;
    }
    c->request = NULL;
    if (d->accept) {
        open_conn(c, d);
    } else {
        d->chunk = NULL;
        nib__count(&c->shard->counters.rejected, 1);
        nib__http_queue(c, chunk);
    }
    nib__request_release(d->req);
    return 0;
}

/* After the decider was told: callbacks, and what came meanwhile. */
static void opened(struct nib_conn *c) NIB__OWNER_ONLY;
static void opened(struct nib_conn *c)
{
    if (c->phase != NIB__OPENED)
        return;
    if (c->in == NULL && c->route->callbacks.on_open != NULL)
        NIB__CALL(c, on_open, c, c->route->callbacks_arg);
    nib__conn_resume_reading(c);
}

static void finish(struct decision *d, int result) NIB__OWNER_ONLY;
static void finish(struct decision *d, int result)
{
    struct nib_request *req = d->req;
    struct nib_conn *c = req->conn;

    if (d->waits) {
        nib_conn_ref(c);
        nib__oneshot_complete(&d->done, result);
        if (result == 0)
            opened(c);
        nib_conn_unref(c);
        return;
    }
    if (d->accepted != NULL)
        d->accepted(result, result == 0 ? c : NULL, d->arg);
    if (d->rejected != NULL)
        d->rejected(result, d->arg);
    if (result == 0)
        opened(c);
    nib__free(d);
    nib__request_release(req);
}

static void decision_run(struct nib__record *record) NIB__OWNER_ONLY;
static void decision_run(struct nib__record *record)
{
    struct decision *d = (struct decision *)record;

    finish(d, carry_out(d));
}

static void decision_cancel(struct nib__record *record) NIB__OWNER_ONLY;
static void decision_cancel(struct nib__record *record)
{
    struct decision *d = (struct decision *)record;

    decision_free(d);
    finish(d, -ECANCELED);
}

/* Takes the word and posts. On failure everything of d's is freed. */
static int decision_post(struct decision *d)
{
    int err = decide(d->req, NIB__DECIDED);

    if (err == 0) {
        d->record.run = decision_run;
        d->record.cancel = decision_cancel;
        err = nib__mailbox_post(&nib__conn_reactor(d->req->conn)->mailbox,
                                &d->record);
    }
    if (err < 0)
        decision_free(d);
    return err;
}

/* An early answer to those that would come too late. */
static int too_late(const struct nib_request *req)
{
    int decision = atomic_load_explicit(&req->decision, memory_order_acquire);

    return decision == NIB__DECIDED || !req->head.upgrade ? NIB_ESTATE
                                                          : decision;
}

/* Heap commands hold the request themselves. */
static int post_async(const struct decision *prepared)
{
    struct decision *d = nib__alloc(sizeof *d);
    int err;

    if (d == NULL) {
        struct decision gone = *prepared;

        decision_free(&gone);
        return -ENOMEM;
    }
    *d = *prepared;
    hold(d->req);
    err = decision_post(d);
    if (err < 0) {
        nib__request_release(d->req);
        nib__free(d);
    }
    return err;
}

/* Waits for the owner; on the owner it only begins. */
static int post_and_wait(struct decision *d)
{
    int err;

    if (nib__conn_here(d->req->conn)) {
        err = post_async(d);
        return err < 0 ? err : -EAGAIN;
    }
    d->waits = true;
    nib__oneshot_init(&d->done);
    err = decision_post(d);
    return err < 0 ? err : nib__oneshot_wait(&d->done);
}

static bool foreign_reactor(const struct nib_request *req)
{
    return nib__on_reactor() && !nib__conn_here(req->conn);
}

int nib_accept(struct nib_request *req,
               const struct nib_accept_options *options,
               struct nib_conn **conn)
{
    struct decision d = {.req = req};
    int err = too_late(req);

    if (err == 0 && foreign_reactor(req))
        err = -EDEADLK;
    if (err == 0)
        err = prepare_accept(&d, options);
    if (err == 0)
        err = post_and_wait(&d);
    if (err == 0 && conn != NULL)
        *conn = req->conn;
    return err;
}

int nib_accept_async(struct nib_request *req,
                     const struct nib_accept_options *options,
                     void (*done)(int result, struct nib_conn *conn,
                                  void *arg),
                     void *arg)
{
    struct decision d = {.req = req, .accepted = done, .arg = arg};
    int err = too_late(req);

    if (err == 0)
        err = prepare_accept(&d, options);
    return err < 0 ? err : post_async(&d);
}

int nib_reject(struct nib_request *req, int status,
               const struct nib_header *headers, size_t header_count,
               const void *body, size_t len)
{
    struct decision d = {.req = req};
    int err = too_late(req);

    if (err == 0 && foreign_reactor(req))
        err = -EDEADLK;
    if (err == 0)
        err = prepare_reject(&d, status, headers, header_count, body, len);
    return err < 0 ? err : post_and_wait(&d);
}

int nib_reject_async(struct nib_request *req, int status,
                     const struct nib_header *headers, size_t header_count,
                     const void *body, size_t len,
                     void (*done)(int result, void *arg), void *arg)
{
    struct decision d = {.req = req, .rejected = done, .arg = arg};
    int err = too_late(req);

    if (err == 0)
        err = prepare_reject(&d, status, headers, header_count, body, len);
    return err < 0 ? err : post_async(&d);
}

/* ---- routing ---- */

/* Accepts or rejects on the owner, outside of any callback. */
static void decide_here(struct nib_request *req, int verdict)
    NIB__OWNER_ONLY;
static void decide_here(struct nib_request *req, int verdict)
{
    struct nib_conn *c = req->conn;
    struct decision d = {.req = req};

    if (decide(req, NIB__DECIDED) != 0)
        return;
    if (verdict == NIB_ACCEPT && prepare_accept(&d, NULL) == 0) {
        if (carry_out(&d) == 0)
            opened(c);
        return;
    }
    if (verdict == NIB_ACCEPT)
        verdict = 503;
    nib__count(&c->shard->counters.rejected, 1);
    nib__http_refuse(c, verdict, nib__status_phrase(verdict), "");
}

static void ask_callback(struct nib_request *req) NIB__OWNER_ONLY;
static void ask_callback(struct nib_request *req)
{
    struct nib_conn *c = req->conn;
    const struct nib_route *route = req->route;
    int verdict = NIB_ACCEPT;

    if (route->callbacks.on_request != NULL) {
        nib__callback_begin(nib__conn_reactor(c), "on_request");
        verdict = route->callbacks.on_request(req, route->callbacks_arg);
        nib__callback_end(nib__conn_reactor(c));
    }
    if (verdict == NIB_DECIDED)
        return;
    if (verdict != NIB_ACCEPT && (verdict < 300 || verdict > 599)) {
        nib__log(&req->server->config->log, NIB__LOG_ERROR,
                 "route \"%s\": on_request returned %d", route->pattern,
                 verdict);
        verdict = 500;
    }
    decide_here(req, verdict);
}

void nib__request_dispatch(struct nib_request *req)
{
    struct nib_conn *c = req->conn;
    int err = list_subprotocols(req);

    nib__request_hand_out(req);
    if (err == 0 && req->route->has_callbacks) {
        ask_callback(req);
        nib_request_unref(req);
        return;
    }
    if (err == 0)
        err = nib__handlers_submit(&req->server->handlers, req);
    if (err < 0) {
        if (nib__request_withdraw(req, -ECANCELED)) {
            nib__count(&c->shard->counters.refused, 1);
            nib__http_refuse(c, 503, "All handlers are busy.",
                             "Retry-After: 1\r\n");
        }
        nib_request_unref(req);
    }
}
