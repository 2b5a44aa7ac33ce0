/*
 * serve-paths - what 'nib-bench serve' does on each path.
 *
 * Public interface only: these are also examples of both styles. A blocking
 * handler is one function from accept to close. Callbacks never wait: what
 * they cannot pass on is kept in the connection's backlog, and reading is
 * paused until there is room.
 */
#include "serve_paths.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEQ_DIGITS = 10,
    STREAM_COUNT = 10000, /* of /bench, when the message names none */
    STREAM_SIZE = 32,
};

/* ---- "stream COUNT SIZE" ----------------------------------------------- */

struct order {
    uint64_t count;
    uint64_t size;
};

/* Reads " NUMBER" at *p, if there is one; false if something else is. */
static bool take_number(const char **p, const char *end, uint64_t *out)
{
    uint64_t value = 0;

    if (*p == end)
        return true;
    if (*(*p)++ != ' ' || *p == end)
        return false;
    for (; *p < end && **p != ' '; (*p)++) {
        if (**p < '0' || **p > '9' || value > UINT64_MAX / 100)
            return false;
        value = value * 10 + (uint64_t)(**p - '0');
    }
    *out = value;
    return true;
}

static bool is_order(const struct nib_message *msg, struct order *order)
{
    size_t len;
    const char *p = nib_message_data(msg, &len), *end = p + len;

    order->count = STREAM_COUNT;
    order->size = STREAM_SIZE;
    if (len < 6 || memcmp(p, "stream", 6) != 0)
        return false;
    p += 6;
    return take_number(&p, end, &order->count) &&
           take_number(&p, end, &order->size) && p == end;
}

/* Counts a number in ASCII up by one. */
static void count_up(char *digits)
{
    int i = SEQ_DIGITS - 1;

    while (i >= 0 && digits[i] == '9')
        digits[i--] = '0';
    if (i >= 0)
        digits[i]++;
}

/* Sends what was ordered; numbered: each message begins with its number. */
static int send_stream(struct nib_conn *conn, const struct order *order,
                       bool numbered)
{
    char *data;
    int result = 0;

    if (order->size > SIZE_MAX - 1)
        return -EMSGSIZE;
    data = malloc((size_t)order->size + 1);
    if (!data)
        return -ENOMEM;
    memset(data, 'x', (size_t)order->size);
    if (numbered)
        memset(data, '0', SEQ_DIGITS);
    for (uint64_t i = 0; i < order->count && result == 0; i++) {
        result = nib_send(conn, data, (size_t)order->size, NIB_TEXT);
        if (numbered)
            count_up(data);
    }
    free(data);
    return result;
}

/* ---- blocking handlers ------------------------------------------------- */

/* A connection that the other side has ended is no fault of a handler. */
static int end_of(int result)
{
    return result == -EPIPE || result == -ECANCELED ? 0 : result;
}

/* The handler of the first story: stream, or hello and goodbye. */
static int handle_bench(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    struct nib_message *msg;
    struct order order;
    int result = nib_accept(req, NULL, &conn);

    (void)arg;
    while (result == 0 && (result = nib_recv(conn, &msg, -1)) == 0) {
        if (is_order(msg, &order)) {
            result = send_stream(conn, &order, false);
        } else {
            result = nib_send(conn, "hello", 5, NIB_TEXT);
            if (result == 0)
                result = nib_close(conn, 1000, NULL, -1);
        }
        nib_message_unref(msg);
    }
    return end_of(result);
}

static int handle_seq(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    struct nib_message *msg;
    struct order order;
    int result = nib_accept(req, NULL, &conn);

    (void)arg;
    while (result == 0 && (result = nib_recv(conn, &msg, -1)) == 0) {
        if (!is_order(msg, &order))
            result = nib_close(conn, 1008, "expected: stream N S", -1);
        else if (order.size < SEQ_DIGITS)
            result = nib_close(conn, 1008, "S must be 10 or more", -1);
        else
            result = send_stream(conn, &order, true);
        nib_message_unref(msg);
    }
    return end_of(result);
}

static int handle_echo(struct nib_request *req, void *arg)
{
    struct nib_conn *conn;
    struct nib_message *msg;
    int result = nib_accept(req, NULL, &conn);

    (void)arg;
    while (result == 0 && (result = nib_recv(conn, &msg, -1)) == 0) {
        result = nib_send_message(conn, msg, 0);
        nib_message_unref(msg);
    }
    return end_of(result);
}

static int handle_reject(struct nib_request *req, void *arg)
{
    static const char body[] = "This path refuses every upgrade.\n";

    (void)arg;
    return end_of(nib_reject(req, 403, NULL, 0, body, sizeof(body) - 1));
}

/* ---- callbacks --------------------------------------------------------- */

/* Messages that found no room, oldest first. None on most connections. */
struct backlog {
    struct nib_message **items;
    size_t count, capacity;
};

/* Passes a message on; what a path is about. The argument of its routes. */
struct passage {
    int (*pass)(struct nib_conn *conn, struct nib_message *msg);
};

static int pass_back(struct nib_conn *conn, struct nib_message *msg)
{
    size_t len;
    const void *data = nib_message_data(msg, &len);

    /* It was checked when it came. */
    return nib_send(conn, data, len, nib_message_kind(msg) | NIB_TRUSTED);
}

static int pass_to_all(struct nib_conn *conn, struct nib_message *msg)
{
    return nib_publish(nib_conn_server(conn), "all", msg, conn, 0);
}

static int keep(struct nib_conn *conn, struct nib_message *msg)
{
    struct backlog *b = nib_conn_user(conn);

    if (!b) {
        b = calloc(1, sizeof(*b));
        if (!b)
            return -ENOMEM;
        nib_conn_set_user(conn, b);
    }
    if (b->count == b->capacity) {
        size_t more = b->capacity ? b->capacity * 2 : 16;
        void *grown = reallocarray(b->items, more, sizeof(*b->items));

        if (!grown)
            return -ENOMEM;
        b->items = grown;
        b->capacity = more;
    }
    msg = nib_message_ref(msg);
    if (!msg)
        return -ENOMEM;
    b->items[b->count++] = msg;
    return 0;
}

static void drop_backlog(struct nib_conn *conn)
{
    struct backlog *b = nib_conn_user(conn);

    if (!b)
        return;
    nib_conn_set_user(conn, NULL);
    for (size_t i = 0; i < b->count; i++)
        nib_message_unref(b->items[i]);
    free(b->items);
    free(b);
}

static void give_up(struct nib_conn *conn, int result)
{
    if (result != -EPIPE && result != -ECANCELED)
        nib_close(conn, 1011, nib_strerror(result), 0);
}

static void on_message(struct nib_conn *conn, struct nib_message *msg,
                       void *arg)
{
    const struct passage *passage = arg;
    bool behind = nib_conn_user(conn) != NULL;
    int result = behind ? -EAGAIN : passage->pass(conn, msg);

    if (result == -EAGAIN) {
        result = keep(conn, msg);
        if (result == 0 && !behind)
            result = nib_conn_pause(conn);
    }
    if (result < 0)
        give_up(conn, result);
}

static void on_room(struct nib_conn *conn, void *arg)
{
    const struct passage *passage = arg;
    struct backlog *b = nib_conn_user(conn);
    size_t done = 0;
    int result = 0;

    while (b && done < b->count && result == 0) {
        result = passage->pass(conn, b->items[done]);
        if (result == 0)
            nib_message_unref(b->items[done++]);
    }
    if (b) {
        b->count -= done;
        memmove(b->items, b->items + done, b->count * sizeof(*b->items));
    }
    if (result == -EAGAIN)
        return; /* and there will be room again */
    drop_backlog(conn);
    if (result == 0)
        nib_conn_resume(conn);
    else
        give_up(conn, result);
}

static void on_close(struct nib_conn *conn, const struct nib_close_info *info,
                     void *arg)
{
    (void)info;
    (void)arg;
    drop_backlog(conn);
}

static void on_open_all(struct nib_conn *conn, void *arg)
{
    int result = nib_subscribe(conn, "all");

    (void)arg;
    if (result < 0)
        give_up(conn, result);
}

static void on_message_hello(struct nib_conn *conn, struct nib_message *msg,
                             void *arg)
{
    (void)msg;
    (void)arg;
    nib_send(conn, "hello", 5, NIB_TEXT | NIB_TRUSTED);
    nib_close(conn, 1000, NULL, 0);
}

/* ---- routes ------------------------------------------------------------ */

static const struct passage back = {pass_back}, to_all = {pass_to_all};

static const struct nib_callbacks echo_callbacks = {
    .on_message = on_message, .on_room = on_room, .on_close = on_close};

static const struct nib_callbacks all_callbacks = {.on_open = on_open_all,
                                                   .on_message = on_message,
                                                   .on_room = on_room,
                                                   .on_close = on_close};

static const struct nib_callbacks hello_callbacks = {.on_message =
                                                         on_message_hello};

/* Each path has a handler or callbacks. */
static const struct path {
    const char *path;
    nib_handler_fn *handler;
    const struct nib_callbacks *callbacks;
    const struct passage *passage;
    const char *help;
} paths[] = {
    {"/bench", handle_bench, NULL, NULL,
     "\"stream [COUNT [SIZE]]\" (10000, 32): COUNT messages of SIZE x;\n"
     "                  any other: \"hello\", then Close 1000"},
    {"/seq", handle_seq, NULL, NULL,
     "\"stream N S\": N messages of S bytes, ten digits counting from\n"
     "                  0000000000, then x"},
    {"/echo", NULL, &echo_callbacks, &back, "each message back, by callbacks"},
    {"/echo-blocking", handle_echo, NULL, NULL,
     "each message back, by a blocking handler"},
    {"/hello", NULL, &hello_callbacks, NULL,
     "\"hello\", then Close 1000, by callbacks"},
    {"/all", NULL, &all_callbacks, &to_all, "each message to everybody here"},
    {"/reject", handle_reject, NULL, NULL, "403 with a body"},
};

enum { PATHS = sizeof(paths) / sizeof(paths[0]) };

void serve_paths_explain(void)
{
    printf("\nPaths:\n");
    for (size_t i = 0; i < PATHS; i++)
        printf("  %-15s %s\n", paths[i].path, paths[i].help);
}

/* A page for those who open the address in a browser. */
static void answer_index(struct nib_request *req, void *arg)
{
    char body[512];
    size_t len = 0;

    (void)arg;
    for (size_t i = 0; i < PATHS; i++) {
        int n = snprintf(body + len, sizeof(body) - len, "%s\n", paths[i].path);

        if (n < 0 || (size_t)n >= sizeof(body) - len)
            break;
        len += (size_t)n;
    }
    nib_respond(req, 200, NULL, 0, body, len);
}

static int add(struct nib_config *config, const struct path *p)
{
    char pattern[32];
    struct nib_route *route;
    int result;

    snprintf(pattern, sizeof(pattern), "=%s", p->path);
    result = nib_config_route(config, pattern, &route);
    if (result == 0 && p->handler)
        result = nib_route_set_handler(route, p->handler, NULL);
    if (result == 0 && p->callbacks)
        result = nib_route_set_callbacks(route, p->callbacks,
                                         (void *)(uintptr_t)p->passage);
    return result;
}

int serve_paths_add(struct nib_config *config)
{
    struct nib_route *index;
    int result = nib_config_route(config, "=/", &index);

    if (result == 0)
        result = nib_route_set_http(index, answer_index, NULL);
    for (size_t i = 0; i < PATHS && result == 0; i++)
        result = add(config, &paths[i]);
    return result;
}
