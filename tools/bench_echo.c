/*
 * bench-echo - round trips of a message, and how many a second.
 *
 * Each connection keeps --inflight messages on their way for --seconds. One
 * connection with little on its way is driven by blocking calls, one write
 * and one read for each round trip; others by epoll. With --raw the peer
 * returns bytes, and the same frames are sent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench.h"
#include "flow.h"
#include "histogram.h"
#include "process.h"

enum {
    EVENTS = 256,
    BLOCKING_BYTES = 32 << 10, /* on their way without filling any buffer */
};

struct echo_connection {
    struct client client;
    struct flow flow;
    uint64_t *sent_ns;       /* ring of --inflight, when each was sent */
    uint64_t sent, received; /* messages */
    bool watched_writable;
};

struct echo {
    uint64_t connections, size, inflight, seconds_ms;
    bool binary, raw, blocking;
    struct target target;
    uint8_t *frames; /* --inflight equal frames, one behind the other */
    size_t frame_len;
    uint8_t *buffer;
    struct echo_connection *all;
    size_t open;
    int epoll;
    uint64_t end_ns;  /* nothing is sent after this */
    uint64_t last_ns; /* when the last answer came */
    uint64_t pending; /* messages on their way, all connections */
    struct histogram trips;
};

static const struct metric metrics[] = {
    {"trip_p50_us", "round trip of a message, microseconds"},
    {"trip_p90_us", "90 of 100 took no longer"},
    {"trip_p99_us", "99 of 100 took no longer"},
    {"trip_max_us", "the longest"},
    {"messages_per_s", "round trips a second, all connections"},
};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

/* ---- connections ------------------------------------------------------- */

static int open_one(struct echo *s, struct echo_connection *c)
{
    int result;

    c->sent_ns = calloc(s->inflight, sizeof(*c->sent_ns));
    result = c->sent_ns ? client_open(&c->client, &s->target) : -ENOMEM;
    if (result == 0 && !s->blocking) {
        struct epoll_event e = {.events = EPOLLIN,
                                .data.u64 = (uint64_t)(c - s->all)};

        result = client_set_nonblocking(&c->client);
        if (result == 0 &&
            epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->client.fd, &e) < 0)
            result = -errno;
    }
    flow_init(&c->flow, &c->client, s->raw ? s->frame_len : 0);
    return result;
}

static int open_all(struct echo *s)
{
    for (s->open = 0; s->open < s->connections;) {
        struct echo_connection *c = &s->all[s->open++];
        int result;

        memset(c, 0, sizeof(*c));
        client_init(&c->client, -1);
        result = open_one(s, c);
        if (result < 0)
            return bench_lost(&c->client, result, s->open - 1,
                              "while it opened");
        bench_progress("%zu of %ju connections", s->open,
                       (uintmax_t)s->connections);
    }
    return 0;
}

static void free_all(struct echo *s)
{
    while (s->open > 0) {
        struct echo_connection *c = &s->all[--s->open];

        client_free(&c->client);
        free(c->sent_ns);
    }
}

/* EPOLLOUT as long as something waits to be written. */
static int watch(struct echo *s, struct echo_connection *c)
{
    bool writable = client_waiting(&c->client) > 0;
    struct epoll_event e = {.events = EPOLLIN | (writable ? EPOLLOUT : 0),
                            .data.u64 = (uint64_t)(c - s->all)};

    if (s->blocking || writable == c->watched_writable)
        return 0;
    c->watched_writable = writable;
    return epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->client.fd, &e) < 0 ? -errno
                                                                    : 0;
}

/* ---- messages ---------------------------------------------------------- */

static int send_messages(struct echo *s, struct echo_connection *c, uint64_t n)
{
    uint64_t now = process_clock_ns();
    int result;

    if (n == 0 || now >= s->end_ns)
        return 0;
    for (uint64_t i = 0; i < n; i++)
        c->sent_ns[c->sent++ % s->inflight] = now;
    s->pending += n;
    result = client_write(&c->client, s->frames, n * s->frame_len);
    return result == -EAGAIN ? watch(s, c) : result;
}

/* Takes the answers that have come; how many, in *n. */
static int take_answers(struct echo *s, struct echo_connection *c, uint64_t *n)
{
    uint64_t messages = c->flow.tally.messages, now = process_clock_ns();

    *n = messages - c->received;
    if (*n > c->sent - c->received) {
        c->client.error = "more answers than messages";
        return -EPROTO;
    }
    if (!s->raw && c->flow.tally.remaining == 0 && !c->flow.tally.in_message &&
        c->flow.tally.bytes != messages * s->size) {
        c->client.error = "an answer of another size than its message";
        return -EPROTO;
    }
    for (; c->received < messages; c->received++)
        histogram_add(&s->trips, now - c->sent_ns[c->received % s->inflight]);
    s->pending -= *n;
    s->last_ns = now;
    return 0;
}

/* Reads once, and sends as many messages as were answered. */
static int turn(struct echo *s, struct echo_connection *c)
{
    int result = flow_read(&c->flow, s->buffer);
    uint64_t n;

    if (result == 1)
        result = take_answers(s, c, &n);
    else if (result == 0)
        return bench_lost(&c->client, 0, (size_t)(c - s->all), "too early");
    if (result == 0)
        result = send_messages(s, c, n);
    if (result < 0 && result != -EAGAIN)
        return bench_lost(&c->client, result, (size_t)(c - s->all),
                          "while it echoed");
    return 0;
}

static int take_event(struct echo *s, const struct epoll_event *e)
{
    struct echo_connection *c = &s->all[e->data.u64];
    int result = 0;

    if (e->events & EPOLLOUT) {
        result = client_flush(&c->client);
        if (result == 0 || result == -EAGAIN)
            result = watch(s, c);
        if (result < 0)
            return bench_lost(&c->client, result, (size_t)e->data.u64,
                              "while it echoed");
    }
    if (!(e->events & ~(unsigned)EPOLLOUT))
        return 0;
    do {
        result = turn(s, c);
    } while (result == 0 && client_pending(&c->client));
    return result;
}

static int turns(struct echo *s)
{
    struct epoll_event events[EVENTS];
    int n;

    if (s->blocking)
        return turn(s, &s->all[0]);
    n = epoll_wait(s->epoll, events, EVENTS, (int)bench_options.timeout_ms);
    if (n == 0)
        return bench_error("%ju messages were not answered in %ju ms",
                           (uintmax_t)s->pending,
                           (uintmax_t)bench_options.timeout_ms);
    for (int i = 0; i < n; i++) {
        if (take_event(s, &events[i]) != 0)
            return -1;
    }
    return 0;
}

static int echo_all(struct echo *s)
{
    s->pending = 0;
    s->end_ns = process_clock_ns() + s->seconds_ms * 1000000;
    for (size_t i = 0; i < s->connections; i++) {
        int result = send_messages(s, &s->all[i], s->inflight);

        if (result < 0)
            return bench_lost(&s->all[i].client, result, i, "at the start");
    }
    while (s->pending > 0) {
        if (turns(s) != 0)
            return -1;
        bench_progress("%ju round trips", (uintmax_t)s->trips.count);
    }
    return 0;
}

static int echo_round(void *arg, struct bench_round *round)
{
    struct echo *s = arg;
    double *v = round->values;
    uint64_t start;
    int result = -1;

    histogram_clear(&s->trips);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll < 0)
        return bench_error("epoll: %s", strerror(errno));
    if (open_all(s) != 0)
        goto out;
    start = process_clock_ns();
    result = echo_all(s);
    if (result != 0)
        goto out;
    round->operations = s->trips.count;
    v[0] = bench_ms(histogram_percentile(&s->trips, 50)) * 1000;
    v[1] = bench_ms(histogram_percentile(&s->trips, 90)) * 1000;
    v[2] = bench_ms(histogram_percentile(&s->trips, 99)) * 1000;
    v[3] = bench_ms(s->trips.max) * 1000;
    v[4] = (double)s->trips.count / bench_s(s->last_ns - start);
    for (size_t i = 0; i < s->open && !s->raw; i++)
        client_close(&s->all[i].client, 1000);
out:
    free_all(s);
    close(s->epoll);
    return result;
}

/* ---- set-up ------------------------------------------------------------ */

static int make_frames(struct echo *s)
{
    uint8_t *one, *payload = malloc(s->size + 1);

    if (!payload)
        return -ENOMEM;
    memset(payload, 'x', s->size);
    one = client_encode(s->binary ? NIB__BINARY : NIB__TEXT, payload, s->size,
                        &s->frame_len);
    free(payload);
    s->frames = one ? reallocarray(NULL, s->inflight, s->frame_len) : NULL;
    for (uint64_t i = 0; s->frames && i < s->inflight; i++)
        memcpy(s->frames + i * s->frame_len, one, s->frame_len);
    free(one);
    return s->frames ? 0 : -ENOMEM;
}

static int run(struct echo *s, const struct bench *b)
{
    int status = EXIT_FAILURE;

    s->buffer = malloc(FLOW_BUFFER_BYTES);
    s->all = calloc(s->connections, sizeof(*s->all));
    if (s->buffer && s->all && make_frames(s) == 0) {
        s->blocking =
            s->connections == 1 && s->inflight * s->frame_len <= BLOCKING_BYTES;
        status = bench_run(b);
    } else {
        bench_error("%s", strerror(ENOMEM));
    }
    free(s->frames);
    free(s->all);
    free(s->buffer);
    return status;
}

static void explain(void)
{
    bench_explain(metrics, METRICS);
}

int bench_echo(int argc, char **argv)
{
    static struct echo s = {
        .connections = 1, .size = 32, .inflight = 1, .seconds_ms = 5000};
    const struct option_spec specs[] = {
        {"connections", 'c', OPTION_COUNT, &s.connections, 1, 100000, "N",
         "connections at once (default 1)"},
        {"size", 's', OPTION_SIZE, &s.size, 0, 1 << 30, "SIZE",
         "bytes of each message (default 32)"},
        {"inflight", 'i', OPTION_COUNT, &s.inflight, 1, 1000000, "N",
         "messages on their way on each connection (default 1)"},
        {"seconds", 't', OPTION_SECONDS, &s.seconds_ms, 1, 86400000, "T",
         "how long, in seconds, or with a unit (default 5)"},
        {"binary", 0, OPTION_FLAG, &s.binary, 0, 0, NULL,
         "send binary messages instead of text"},
        {"raw", 0, OPTION_FLAG, &s.raw, 0, 0, NULL,
         "the argument is HOST:PORT or tls://HOST:PORT, and what\n"
         "listens there returns all bytes; the same frames are\n"
         "sent"},
    };
    const struct command command = {
        .name = "nib-bench echo",
        .arguments = "URL",
        .summary = "Sends messages to a server that returns them, and "
                   "measures the round trips.",
        .own = OPTION_TABLE(specs),
        .shared = bench_shared_options(),
        .more_help = explain,
        .min_arguments = 1,
        .max_arguments = 1,
    };
    char subject[512];
    int first = options_parse(&command, argc, argv);
    struct bench b = {
        .command = &command,
        .scenario = "echo",
        .subject = subject,
        .metrics = metrics,
        .metric_count = METRICS,
        .round = echo_round,
        .arg = &s,
        .target = &s.target,
    };
    int status;

    bench_prepare(&command);
    bench_target(&command, &s.target, argv[first], s.raw);
    snprintf(subject, sizeof(subject),
             "%s%.200s, %ju connections, %ju in flight, %ju bytes",
             s.raw ? "raw " : "", argv[first], (uintmax_t)s.connections,
             (uintmax_t)s.inflight, (uintmax_t)s.size);
    status = run(&s, &b);
    target_free(&s.target);
    return status;
}
