/*
 * bench-stream - how many messages a second a server sends.
 *
 * Each connection sends one text message and then receives as many messages
 * as it is to. One connection is read with blocking calls, which is one
 * system call for each read; several with epoll.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench.h"
#include "flow.h"
#include "process.h"

enum { EVENTS = 64 };

struct stream_connection {
    struct client client;
    struct flow flow;
};

struct stream {
    uint64_t messages, size, connections;
    const char *start; /* NULL: "stream MESSAGES SIZE" */
    char start_text[64];
    bool verify;
    struct target target;
    uint8_t *buffer; /* for reading */
    struct stream_connection *all;
    size_t open;       /* of all: initialised */
    uint64_t first_ns; /* when the first byte was there */
};

static const struct metric metrics[] = {
    {"messages_per_s",
     "messages a second, first byte to last, all connections"},
    {"payload_mb_per_s", "their payload, millions of bytes a second"},
    {"first_byte_ms", "from the start message to the first byte"},
    {"messages", "received, all connections"},
};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

static int open_all(struct stream *s)
{
    for (s->open = 0; s->open < s->connections; s->open++) {
        struct stream_connection *c = &s->all[s->open];
        int result;

        client_init(&c->client, -1);
        result = client_open(&c->client, &s->target);
        if (result == 0 && s->connections > 1)
            result = client_set_nonblocking(&c->client);
        if (result < 0) {
            bench_lost(&c->client, result, s->open, "while it opened");
            client_free(&c->client);
            return -1;
        }
        flow_init(&c->flow, &c->client, 0);
        c->flow.tally.verify = s->verify;
        c->flow.tally.size = s->size;
    }
    return 0;
}

static void free_all(struct stream *s)
{
    while (s->open > 0)
        client_free(&s->all[--s->open].client);
}

static int start_all(struct stream *s)
{
    for (size_t i = 0; i < s->connections; i++) {
        int result = client_send(&s->all[i].client, NIB__TEXT, s->start,
                                 strlen(s->start));

        if (result < 0)
            return bench_lost(&s->all[i].client, result, i, "at the start");
    }
    return 0;
}

/*
 * Reads once. Returns 1 when all messages are there, 0 when not, -1 after an
 * error.
 */
static int read_once(struct stream *s, size_t i)
{
    struct flow *flow = &s->all[i].flow;
    char where[64];
    int result = flow_read(flow, s->buffer);

    if (s->first_ns == 0)
        s->first_ns = process_clock_ns();
    if (result == -EAGAIN ||
        (result == 1 && flow->tally.messages < s->messages))
        return 0;
    if (flow->tally.messages >= s->messages && result >= 0)
        return 1;
    snprintf(where, sizeof(where), "after %ju of %ju messages",
             (uintmax_t)flow->tally.messages, (uintmax_t)s->messages);
    return bench_lost(flow->client, result, i, where);
}

static int receive_one(struct stream *s)
{
    int done;

    do {
        done = read_once(s, 0);
        bench_progress("%ju of %ju messages",
                       (uintmax_t)s->all[0].flow.tally.messages,
                       (uintmax_t)s->messages);
    } while (done == 0);
    return done < 0 ? -1 : 0;
}

static int watch_all(struct stream *s, int epoll)
{
    for (size_t i = 0; i < s->connections; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = i};

        if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->all[i].client.fd, &e) < 0)
            return bench_error("epoll: %s", strerror(errno));
    }
    return 0;
}

static int receive_events(struct stream *s, int epoll)
{
    struct epoll_event events[EVENTS];
    size_t left = s->connections;

    while (left > 0) {
        int n =
            epoll_wait(epoll, events, EVENTS, (int)bench_options.timeout_ms);

        if (n == 0 || (n < 0 && errno != EINTR))
            return bench_error("%zu connections wait for messages: %s", left,
                               strerror(n == 0 ? ETIMEDOUT : errno));
        for (int k = 0; k < n; k++) {
            size_t i = (size_t)events[k].data.u64;
            int done;

            do {
                done = read_once(s, i);
            } while (done == 0 && client_pending(&s->all[i].client));
            if (done < 0)
                return -1;
            if (done > 0) {
                epoll_ctl(epoll, EPOLL_CTL_DEL, s->all[i].client.fd, NULL);
                left--;
            }
        }
        bench_progress("%zu of %ju connections are still receiving", left,
                       (uintmax_t)s->connections);
    }
    return 0;
}

static int receive_all(struct stream *s)
{
    int epoll, result;

    if (s->connections == 1)
        return receive_one(s);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return bench_error("epoll: %s", strerror(errno));
    result = watch_all(s, epoll);
    if (result == 0)
        result = receive_events(s, epoll);
    close(epoll);
    return result;
}

/* Closes, and looks whether more came than was asked for. */
static int finish_all(struct stream *s)
{
    for (size_t i = 0; i < s->connections; i++) {
        struct stream_connection *c = &s->all[i];
        int result = client_set_blocking(&c->client);

        if (result == 0)
            result = client_close(&c->client, 1000);
        do {
            if (result == 0)
                result = flow_read(&c->flow, s->buffer) == 1 ? 0 : 1;
        } while (result == 0);
        if (c->flow.tally.messages > s->messages)
            return bench_error("connection %zu: more than %ju messages", i,
                               (uintmax_t)s->messages);
    }
    return 0;
}

static int stream_round(void *arg, struct bench_round *round)
{
    struct stream *s = arg;
    uint64_t start, end, total = s->messages * s->connections;
    int result = -1;

    s->first_ns = 0;
    if (open_all(s) != 0)
        goto out;
    start = process_clock_ns();
    if (start_all(s) != 0 || receive_all(s) != 0)
        goto out;
    end = process_clock_ns();
    round->operations = total;
    round->values[0] = (double)total / bench_s(end - s->first_ns);
    round->values[1] = 0;
    for (size_t i = 0; i < s->connections; i++)
        round->values[1] += (double)s->all[i].flow.tally.bytes / 1e6;
    round->values[1] /= bench_s(end - s->first_ns);
    round->values[2] = bench_ms(s->first_ns - start);
    round->values[3] = (double)total;
    result = finish_all(s);
out:
    free_all(s);
    return result;
}

static void explain(void)
{
    bench_explain(metrics, METRICS);
}

int bench_stream(int argc, char **argv)
{
    struct stream s = {.messages = 10000, .size = 32, .connections = 1};
    const struct option_spec specs[] = {
        {"messages", 'n', OPTION_COUNT, &s.messages, 1, 1000000000000, "N",
         "messages that each connection receives (default\n10000)"},
        {"size", 's', OPTION_SIZE, &s.size, 0, 1 << 30, "SIZE",
         "bytes of each message (default 32)"},
        {"connections", 'c', OPTION_COUNT, &s.connections, 1, 100000, "N",
         "connections at once (default 1)"},
        {"start", 0, OPTION_TEXT, &s.start, 0, 0, "TEXT",
         "the message that makes the server send (default\n"
         "\"stream MESSAGES SIZE\")"},
        {"verify", 0, OPTION_FLAG, &s.verify, 0, 0, NULL,
         "each message must be its number in ten digits,\n"
         "counted from 0, and then x up to SIZE, as the path\n"
         "/seq of 'nib-bench serve' sends them"},
    };
    const struct command command = {
        .name = "nib-bench stream",
        .arguments = "URL",
        .summary = "Lets a server send messages, and counts them.",
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
        .scenario = "stream",
        .subject = subject,
        .metrics = metrics,
        .metric_count = METRICS,
        .round = stream_round,
        .arg = &s,
        .target = &s.target,
    };
    int status = EXIT_FAILURE;

    if (s.verify && s.size < TALLY_DIGITS)
        options_fail(&command, "--verify: needs a --size of at least %d",
                     TALLY_DIGITS);
    bench_prepare(&command);
    bench_target(&command, &s.target, argv[first], false);
    snprintf(s.start_text, sizeof(s.start_text), "stream %ju %ju",
             (uintmax_t)s.messages, (uintmax_t)s.size);
    if (!s.start)
        s.start = s.start_text;
    snprintf(subject, sizeof(subject),
             "%.200s, %ju x %ju messages of %ju bytes%s", argv[first],
             (uintmax_t)s.connections, (uintmax_t)s.messages, (uintmax_t)s.size,
             s.verify ? ", verified" : "");
    s.buffer = malloc(FLOW_BUFFER_BYTES);
    s.all = calloc(s.connections, sizeof(*s.all));
    if (s.buffer && s.all)
        status = bench_run(&b);
    else
        bench_error("%s", strerror(ENOMEM));
    free(s.all);
    free(s.buffer);
    target_free(&s.target);
    return status;
}
