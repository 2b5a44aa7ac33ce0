/*
 * config - settings and routes, checked as they are given.
 *
 * A value that cannot be is refused where it is given; values that contradict
 * each other, when the server is made. Both leave a text that names them.
 */
#include "server/config.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "protocol/handshake.h"
#include "system/socket.h"

enum {
    KIB = 1024,
    MIB = 1024 * 1024,
    SPARE_FILES = 64, /* descriptors that connections leave to others */
    HOUR_MS = 3600 * 1000,
};

static const struct nib__limits defaults = {
    .handlers = 256,
    .handler_queue = 1024,
    .handler_stack_bytes = 256 * KIB,
    .head_bytes = 16 * KIB,
    .head_lines = 100,
    .message_bytes = MIB,
    .outbox_bytes = 2 * MIB,
    .inbox_messages = 64,
    .inbox_bytes = MIB,
    .stash_bytes = 256 * KIB,
    .frame_bytes = 64 * KIB,
    .handshake_timeout_ms = 10000,
    .close_timeout_ms = 5000,
    .ping_interval_ms = 25000,
    .ping_wait_ms = 10000,
    .write_timeout_ms = 30000,
    .send_timeout_ms = 30000,
    .control_rate = 1000,
    .commands = 4096,
    .stop_code = 1001,
    .handshake_queue = 1024,
};

int nib__config_refuse(struct nib_config *cfg, int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(cfg->error, sizeof cfg->error, fmt, args);
    va_end(args);
    return code;
}

int nib_config_new(struct nib_config **out)
{
    struct nib_config *cfg = nib__alloc_zero(sizeof *cfg);

    if (cfg == NULL)
        return -ENOMEM;
    cfg->limits = defaults;
    cfg->tls.min_version = NIB__TLS_1_2;
    *out = cfg;
    return 0;
}

static void route_free(struct nib_route *route)
{
    nib__free(route->pattern);
    nib__free(route->subprotocols);
    nib__free(route);
}

void nib_config_free(struct nib_config *cfg)
{
    if (cfg == NULL)
        return;
    for (unsigned i = 0; i < cfg->listen_count; i++)
        nib__free(cfg->listens[i].address);
    nib__free(cfg->listens);
    nib__tls_config_free(&cfg->tls);
    while (cfg->routes != NULL) {
        struct nib_route *next = cfg->routes->next;

        route_free(cfg->routes);
        cfg->routes = next;
    }
    nib__free(cfg);
}

const char *nib_config_error(const struct nib_config *cfg)
{
    return cfg->error;
}

/* Adds a copy of an address to the list. */
static int add_listen(struct nib_config *cfg, const char *address,
                      enum nib_tls_mode tls)
{
    struct nib__listen *grown = nib__realloc(
        cfg->listens, (cfg->listen_count + 1) * sizeof *cfg->listens);

    if (grown == NULL)
        return -ENOMEM;
    cfg->listens = grown;
    grown += cfg->listen_count;
    grown->tls = tls;
    grown->address = nib__strdup(address);
    if (grown->address == NULL)
        return -ENOMEM;
    cfg->listen_count++;
    return 0;
}

int nib_config_listen_tls(struct nib_config *cfg, const char *address,
                          enum nib_tls_mode mode)
{
    const char *wrong = nib__address_check(address);

    if (wrong != NULL)
        return nib__config_refuse(cfg, -EINVAL, "address \"%.128s\": %s",
                                  address, wrong);
    if ((unsigned)mode > NIB_TLS_AUTO)
        return nib__config_refuse(cfg, -EINVAL, "tls mode %d: expected 0 to %d",
                                  mode, NIB_TLS_AUTO);
    return add_listen(cfg, address, mode);
}

int nib_config_listen(struct nib_config *cfg, const char *address)
{
    return nib_config_listen_tls(cfg, address, NIB_TLS_OFF);
}

bool nib__config_has_tls(const struct nib_config *cfg)
{
    for (unsigned i = 0; i < cfg->listen_count; i++)
        if (cfg->listens[i].tls != NIB_TLS_OFF)
            return true;
    return false;
}

int nib_config_set_log(struct nib_config *cfg,
                       void (*log)(int level, const char *line, void *arg),
                       void *arg, int level)
{
    if (level < NIB_LOG_ERROR || level > NIB_LOG_DEBUG)
        return nib__config_refuse(cfg, -EINVAL,
                                  "log level %d: expected %d to %d", level,
                                  NIB_LOG_ERROR, NIB_LOG_DEBUG);
    cfg->log = (struct nib__log){.fn = log, .arg = arg, .level = level};
    return 0;
}

int nib__config_check(struct nib_config *cfg, const char *name, uint64_t value,
                      uint64_t least, uint64_t most)
{
    if (value >= least && value <= most)
        return 0;
    return nib__config_refuse(cfg, -EINVAL, "%s %llu: expected %llu to %llu",
                              name, (unsigned long long)value,
                              (unsigned long long)least,
                              (unsigned long long)most);
}

/*
 * The setters of one number: range-checked, then stored. The name in the
 * error text is the setter's own.
 */
#define SETTER(name, type, field, least, most)                                 \
    int nib_config_set_##name(struct nib_config *cfg, type value)              \
    {                                                                          \
        int err = nib__config_check(cfg, #name, value, least, most);           \
                                                                               \
        if (err == 0)                                                          \
            cfg->limits.field = value;                                         \
        return err;                                                            \
    }

SETTER(reactors, unsigned, reactors, 0, 256)
SETTER(message_bytes, size_t, message_bytes, 125, 1024 * (uint64_t)MIB)
SETTER(outbox_bytes, size_t, outbox_bytes, KIB, SIZE_MAX / 4)
SETTER(outbox_total_bytes, size_t, outbox_total_bytes, 0, SIZE_MAX / 4)
SETTER(stash_bytes, size_t, stash_bytes, KIB, 16 * (uint64_t)MIB)
SETTER(frame_bytes, size_t, frame_bytes, KIB, 1024 * (uint64_t)MIB)
SETTER(handshake_timeout_ms, unsigned, handshake_timeout_ms, 1, 24 * HOUR_MS)
SETTER(close_timeout_ms, unsigned, close_timeout_ms, 1, HOUR_MS)
SETTER(idle_timeout_ms, unsigned, idle_timeout_ms, 0, UINT32_MAX)
SETTER(write_timeout_ms, unsigned, write_timeout_ms, 1, 24 * HOUR_MS)
SETTER(max_connections, unsigned, max_connections, 0, UINT32_MAX)
SETTER(max_per_address, unsigned, max_per_address, 0, UINT32_MAX)
SETTER(max_handshakes, unsigned, max_handshakes, 0, UINT32_MAX)
SETTER(control_rate, unsigned, control_rate, 0, 1000000)
SETTER(commands, unsigned, commands, 1, 1000000)

int nib_config_set_handlers(struct nib_config *cfg, unsigned max,
                            unsigned queue, size_t stack_bytes)
{
    int err = nib__config_check(cfg, "handlers max", max, 1, 100000);

    if (err == 0)
        err = nib__config_check(cfg, "handlers queue", queue, 0, 1000000);
    if (err == 0)
        err = nib__config_check(cfg, "handlers stack_bytes", stack_bytes,
                                64 * KIB, 1024 * (uint64_t)MIB);
    if (err < 0)
        return err;
    cfg->limits.handlers = max;
    cfg->limits.handler_queue = queue;
    cfg->limits.handler_stack_bytes = stack_bytes;
    return 0;
}

int nib_config_set_head(struct nib_config *cfg, size_t bytes, unsigned lines)
{
    int err = nib__config_check(cfg, "head bytes", bytes, KIB, MIB);

    if (err == 0)
        err = nib__config_check(cfg, "head lines", lines, 1, 1000);
    if (err < 0)
        return err;
    cfg->limits.head_bytes = bytes;
    cfg->limits.head_lines = lines;
    return 0;
}

int nib_config_set_inbox(struct nib_config *cfg, unsigned messages,
                         size_t bytes)
{
    int err = nib__config_check(cfg, "inbox messages", messages, 1, 1000000);

    if (err == 0)
        err = nib__config_check(cfg, "inbox bytes", bytes, 1, SIZE_MAX / 4);
    if (err < 0)
        return err;
    cfg->limits.inbox_messages = messages;
    cfg->limits.inbox_bytes = bytes;
    return 0;
}

int nib_config_set_ping(struct nib_config *cfg, unsigned interval_ms,
                        unsigned wait_ms)
{
    int err = nib__config_check(cfg, "ping interval_ms", interval_ms, 0,
                                24 * HOUR_MS);

    if (err == 0 && interval_ms != 0)
        err = nib__config_check(cfg, "ping wait_ms", wait_ms, 1, 24 * HOUR_MS);
    if (err < 0)
        return err;
    cfg->limits.ping_interval_ms = interval_ms;
    cfg->limits.ping_wait_ms = wait_ms;
    return 0;
}

int nib_config_set_send_timeout_ms(struct nib_config *cfg, int ms)
{
    if (ms < -1)
        return nib__config_refuse(
            cfg, -EINVAL, "send_timeout_ms %d: expected -1 or more", ms);
    cfg->limits.send_timeout_ms = ms;
    return 0;
}

int nib_config_set_topic_bytes(struct nib_config *cfg, size_t each_bytes,
                               size_t total_bytes)
{
    int err = each_bytes == 0
                  ? 0
                  : nib__config_check(cfg, "topic each_bytes", each_bytes, KIB,
                                      SIZE_MAX / 4);

    /* Memory is taken in segments of 64 KiB. */
    if (err == 0 && total_bytes != 0)
        err = nib__config_check(cfg, "topic total_bytes", total_bytes, 64 * KIB,
                                SIZE_MAX / 4);
    if (err < 0)
        return err;
    cfg->limits.topic_bytes = each_bytes;
    cfg->limits.topic_total_bytes = total_bytes;
    return 0;
}

int nib_config_set_socket_buffers(struct nib_config *cfg, unsigned send_bytes,
                                  unsigned receive_bytes)
{
    int err =
        nib__config_check(cfg, "socket send_bytes", send_bytes, 0, INT32_MAX);

    if (err == 0)
        err = nib__config_check(cfg, "socket receive_bytes", receive_bytes, 0,
                                INT32_MAX);
    if (err < 0)
        return err;
    cfg->limits.socket_send_bytes = send_bytes;
    cfg->limits.socket_receive_bytes = receive_bytes;
    return 0;
}

int nib_config_set_stop_code(struct nib_config *cfg, int code)
{
    if (code != 1001 && code != 1012)
        return nib__config_refuse(cfg, -EINVAL,
                                  "stop_code %d: expected 1001 or 1012", code);
    cfg->limits.stop_code = code;
    return 0;
}

/* The route with this pattern, or NULL. */
static struct nib_route *same_route(const struct nib_config *cfg,
                                    const char *pattern, bool exact)
{
    for (struct nib_route *r = cfg->routes; r != NULL; r = r->next)
        if (r->exact == exact && strcmp(r->pattern, pattern) == 0)
            return r;
    return NULL;
}

/* Before which route a new one stands: longer first, then exact. */
static bool goes_before(const struct nib_route *a, const struct nib_route *b)
{
    if (a->pattern_len != b->pattern_len)
        return a->pattern_len > b->pattern_len;
    return a->exact && !b->exact;
}

static void insert_route(struct nib_config *cfg, struct nib_route *route)
{
    struct nib_route **place = &cfg->routes;

    while (*place != NULL && !goes_before(route, *place))
        place = &(*place)->next;
    route->next = *place;
    *place = route;
}

int nib_config_route(struct nib_config *cfg, const char *pattern,
                     struct nib_route **out)
{
    bool exact = pattern[0] == '=';
    struct nib_route *route;
    size_t len;

    if (pattern[exact] != '/' || strpbrk(pattern, "?# ") != NULL)
        return nib__config_refuse(
            cfg, -EINVAL,
            "route \"%.128s\": expected a path, \"/a\" or \"=/a\"", pattern);
    if (same_route(cfg, pattern + exact, exact) != NULL)
        return nib__config_refuse(cfg, -EEXIST, "route \"%.128s\": given twice",
                                  pattern);
    route = nib__alloc_zero(sizeof *route);
    if (route == NULL)
        return -ENOMEM;
    route->pattern = nib__strdup(pattern + exact);
    if (route->pattern == NULL) {
        nib__free(route);
        return -ENOMEM;
    }
    len = strlen(route->pattern);
    if (!exact && len > 1 && route->pattern[len - 1] == '/')
        route->pattern[--len] = '\0';
    route->pattern_len = len;
    route->exact = exact;
    route->config = cfg;
    insert_route(cfg, route);
    *out = route;
    return 0;
}

static int taken(struct nib_route *route, const char *what)
{
    return nib__config_refuse(route->config, -EEXIST, "route \"%s%.128s\": %s",
                              route->exact ? "=" : "", route->pattern, what);
}

int nib_route_set_handler(struct nib_route *route, nib_handler_fn *fn,
                          void *arg)
{
    if (route->handler != NULL || route->has_callbacks)
        return taken(route, "has a handler or callbacks already");
    route->handler = fn;
    route->handler_arg = arg;
    return 0;
}

int nib_route_set_callbacks(struct nib_route *route,
                            const struct nib_callbacks *callbacks, void *arg)
{
    if (route->handler != NULL || route->has_callbacks)
        return taken(route, "has a handler or callbacks already");
    route->has_callbacks = true;
    route->callbacks = *callbacks;
    route->callbacks_arg = arg;
    return 0;
}

int nib_route_set_http(struct nib_route *route, nib_http_fn *fn, void *arg)
{
    if (route->http != NULL)
        return taken(route, "has an HTTP function already");
    route->http = fn;
    route->http_arg = arg;
    return 0;
}

int nib_route_set_subprotocols(struct nib_route *route, const char *list)
{
    char *copy;

    if (!nib__token_list_valid(list))
        return nib__config_refuse(route->config, -EINVAL,
                                  "subprotocols \"%.128s\": expected \"a, b\"",
                                  list);
    copy = nib__strdup(list);
    if (copy == NULL)
        return -ENOMEM;
    nib__free(route->subprotocols);
    route->subprotocols = copy;
    return 0;
}

int nib_route_set_send_timeout_ms(struct nib_route *route, int ms)
{
    if (ms < -1)
        return nib__config_refuse(route->config, -EINVAL,
                                  "send_timeout_ms %d: expected -1 or more",
                                  ms);
    route->send_timeout_ms = ms;
    route->own_send_timeout = true;
    return 0;
}

/* One reactor for each CPU that the process may run on. */
static unsigned cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set) > 256 ? 256 : (unsigned)CPU_COUNT(&set);
}

/* Fills in what 0 stands for. */
static void complete(struct nib__limits *l, uint64_t files)
{
    if (l->reactors == 0)
        l->reactors = cpus();
    if (l->handshake_threads == 0)
        l->handshake_threads = (l->reactors + 1) / 2;
    if (l->topic_bytes == 0)
        l->topic_bytes = l->message_bytes * 2 > 4 * (size_t)MIB
                             ? l->message_bytes * 2
                             : 4 * (size_t)MIB;
    if (l->max_connections == 0) {
        uint64_t most =
            files > 2 * SPARE_FILES ? files - SPARE_FILES : files / 2;

        l->max_connections = most > UINT32_MAX ? UINT32_MAX : (unsigned)most;
    }
}

/* The hard limit of open files, to which a server may raise its own. */
static uint64_t hard_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1024;
    return limit.rlim_max == RLIM_INFINITY ? UINT32_MAX : limit.rlim_max;
}

static int contradiction(struct nib_config *cfg)
{
    const struct nib__limits *l = &cfg->limits;
    uint64_t files = hard_files();

    if (l->outbox_bytes < 2 * l->message_bytes)
        return nib__config_refuse(cfg, NIB_ECONFIG,
                                  "outbox_bytes %zu: expected at least twice "
                                  "message_bytes, %zu",
                                  l->outbox_bytes, 2 * l->message_bytes);
    if (l->outbox_total_bytes != 0 && l->outbox_total_bytes < l->outbox_bytes)
        return nib__config_refuse(cfg, NIB_ECONFIG,
                                  "outbox_total_bytes %zu: expected at least "
                                  "outbox_bytes, %zu",
                                  l->outbox_total_bytes, l->outbox_bytes);
    if (l->ping_interval_ms != 0 && l->ping_interval_ms <= l->ping_wait_ms)
        return nib__config_refuse(
            cfg, NIB_ECONFIG,
            "ping interval_ms %u: expected more than its wait_ms, "
            "%u",
            l->ping_interval_ms, l->ping_wait_ms);
    if (l->topic_bytes != 0 && l->topic_bytes < 2 * l->message_bytes)
        return nib__config_refuse(
            cfg, NIB_ECONFIG,
            "topic each_bytes %zu: expected at least twice "
            "message_bytes, %zu",
            l->topic_bytes, 2 * l->message_bytes);
    if (l->topic_total_bytes != 0 &&
        l->topic_total_bytes < 2 * l->message_bytes)
        return nib__config_refuse(
            cfg, NIB_ECONFIG,
            "topic total_bytes %zu: expected at least twice "
            "message_bytes, %zu",
            l->topic_total_bytes, 2 * l->message_bytes);
    if (l->max_connections != 0 &&
        (uint64_t)l->max_connections + SPARE_FILES > files)
        return nib__config_refuse(
            cfg, NIB_ECONFIG,
            "max_connections %u: the limit of open files allows "
            "%llu",
            l->max_connections,
            (unsigned long long)(files > SPARE_FILES ? files - SPARE_FILES
                                                     : 0));
    if (nib__config_has_tls(cfg) && cfg->tls.cert_count == 0)
        return nib__config_refuse(cfg, NIB_ECONFIG,
                                  "an address speaks TLS: expected a "
                                  "certificate");
    return 0;
}

/* A deep copy of one route. NULL: no memory. */
static struct nib_route *route_copy(const struct nib_route *route)
{
    struct nib_route *copy = nib__alloc(sizeof *copy);

    if (copy == NULL)
        return NULL;
    *copy = *route;
    copy->config = NULL;
    copy->pattern = nib__strdup(route->pattern);
    copy->subprotocols = NULL;
    if (route->subprotocols != NULL)
        copy->subprotocols = nib__strdup(route->subprotocols);
    if (copy->pattern == NULL ||
        (route->subprotocols != NULL && copy->subprotocols == NULL)) {
        route_free(copy);
        return NULL;
    }
    return copy;
}

int nib__config_copy(struct nib_config *cfg, struct nib_config **out)
{
    struct nib_config *copy;
    int err = contradiction(cfg);

    if (err < 0)
        return err;
    err = nib_config_new(&copy);
    if (err < 0)
        return err;
    copy->limits = cfg->limits;
    copy->log = cfg->log;
    complete(&copy->limits, hard_files());
    err = nib__tls_config_copy(&copy->tls, &cfg->tls);
    for (unsigned i = 0; i < cfg->listen_count && err == 0; i++)
        err = add_listen(copy, cfg->listens[i].address, cfg->listens[i].tls);
    for (struct nib_route *r = cfg->routes; r != NULL && err == 0;
         r = r->next) {
        struct nib_route *route = route_copy(r);

        if (route == NULL) {
            err = -ENOMEM;
            break;
        }
        if (!route->own_send_timeout)
            route->send_timeout_ms = copy->limits.send_timeout_ms;
        insert_route(copy, route);
    }
    if (err < 0) {
        nib_config_free(copy);
        return err;
    }
    *out = copy;
    return 0;
}

const struct nib_route *nib__config_route(const struct nib_config *cfg,
                                          const char *path)
{
    for (const struct nib_route *r = cfg->routes; r != NULL; r = r->next) {
        if (strncmp(path, r->pattern, r->pattern_len) != 0)
            continue;
        if (path[r->pattern_len] == '\0')
            return r;
        if (!r->exact && (path[r->pattern_len] == '/' || r->pattern_len == 1))
            return r;
    }
    return NULL;
}
