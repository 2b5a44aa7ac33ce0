/*
 * bench-idle - what open connections cost a server in memory.
 *
 * Opens connections one after the other, exchanges a message on each if the
 * server returns them, and reads the server's memory when there are few and
 * when all are there: what the first ones cost (threads, tables) is no part
 * of the difference.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench.h"
#include "process.h"

enum { EVENTS = 64 };

struct idle {
    uint64_t connections, base, settle_ms, hold_ms;
    bool exchange;
    struct target target;
    struct client *all;
    uint64_t open; /* of all: initialised */
};

static const struct metric metrics[] = {
    {"connections", "that were opened"},
    {"opened_per_s", "connections opened a second"},
    {"anonymous_bytes_each", "user memory of a connection, bytes"},
    {"resident_bytes_each", "the same with pages of files"},
    {"anonymous_bytes_base", "user memory with --base connections"},
    {"anonymous_bytes", "user memory with all of them"},
    {"resident_bytes_base", "resident memory with --base connections"},
    {"resident_bytes", "resident memory with all of them"},
};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

static int exchange(struct client *c)
{
    struct nib__event event;
    int result = client_send(c, NIB__TEXT, "hello", 5);

    while (result >= 0) {
        result = client_next(c, &event);
        if (result == 0)
            return -EPIPE;
        if (result == 1 && event.type == NIB__EVENT_MESSAGE)
            break;
    }
    return result < 0 ? result : 0;
}

static int open_up_to(struct idle *s, uint64_t count)
{
    while (s->open < count) {
        struct client *c = &s->all[s->open++];
        int result;

        client_init(c, -1);
        result = client_open(c, &s->target);
        if (result == 0 && s->exchange)
            result = exchange(c);
        if (result < 0)
            return bench_lost(c, result, s->open - 1, "while it opened");
        client_trim(c);
        bench_progress("%ju of %ju connections", (uintmax_t)s->open,
                       (uintmax_t)s->connections);
    }
    return 0;
}

static void free_all(struct idle *s)
{
    while (s->open > 0)
        client_free(&s->all[--s->open]);
}

/* Lets the server come to rest, and looks. */
static int look(struct idle *s, struct process_memory *memory)
{
    int result;

    *memory = (struct process_memory){0};
    if (bench_options.server_pid == 0)
        return 0;
    poll(NULL, 0, (int)s->settle_ms);
    result = process_memory((long)bench_options.server_pid, memory);
    if (result < 0)
        return bench_error("the memory of process %ju: %s",
                           (uintmax_t)bench_options.server_pid,
                           strerror(-result));
    return 0;
}

/* ---- holding ----------------------------------------------------------- */

/* Takes what came on one connection. Returns 1 if it has ended. */
static int serve_one(struct client *c)
{
    struct nib__event event;
    int result;

    do {
        result = client_next(c, &event);
    } while (result > 0 && event.type != NIB__EVENT_CLOSE);
    client_trim(c);
    return result != -EAGAIN;
}

/* Answers pings until the time is over, or a connection ends. */
static int hold(struct idle *s)
{
    uint64_t end = process_clock_ns() + s->hold_ms * 1000000, now;
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC), result = 0;

    for (uint64_t i = 0; i < s->open && epoll >= 0; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = i};

        client_set_nonblocking(&s->all[i]);
        epoll_ctl(epoll, EPOLL_CTL_ADD, s->all[i].fd, &e);
    }
    while (result == 0 && (now = process_clock_ns()) < end) {
        int n =
            epoll_wait(epoll, events, EVENTS, (int)((end - now) / 1000000 + 1));

        for (int i = 0; i < n && result == 0; i++) {
            uint64_t number = events[i].data.u64;

            if (serve_one(&s->all[number]))
                result =
                    bench_lost(&s->all[number], 0, number, "while it was idle");
        }
        bench_progress("%ju connections, for %ju s more", (uintmax_t)s->open,
                       (uintmax_t)((end - now) / 1000000000));
    }
    close(epoll);
    return result;
}

/* ---- rounds ------------------------------------------------------------ */

static int idle_round(void *arg, struct bench_round *round)
{
    struct idle *s = arg;
    struct process_memory base, full;
    double *v = round->values;
    double more = (double)(s->connections - s->base);
    uint64_t start, between;
    int result = -1;

    if (open_up_to(s, s->base) != 0 || look(s, &base) != 0)
        goto out;
    start = process_clock_ns();
    if (open_up_to(s, s->connections) != 0)
        goto out;
    between = process_clock_ns() - start;
    if (look(s, &full) != 0 || (s->hold_ms > 0 && hold(s) != 0))
        goto out;
    round->operations = s->connections;
    v[0] = (double)s->connections;
    v[1] = more / bench_s(between);
    if (bench_options.server_pid > 0) {
        v[2] = ((double)full.anonymous - (double)base.anonymous) / more;
        v[3] = ((double)full.resident - (double)base.resident) / more;
        v[4] = (double)base.anonymous;
        v[5] = (double)full.anonymous;
        v[6] = (double)base.resident;
        v[7] = (double)full.resident;
    }
    result = 0;
out:
    free_all(s);
    return result;
}

static void explain(void)
{
    bench_explain(metrics, METRICS);
}

/* Do the paths of 'nib-bench serve' that return messages begin like this? */
static bool is_echo(const struct target *t)
{
    return strncmp(t->url.target, "/echo", 5) == 0;
}

int bench_idle(int argc, char **argv)
{
    static struct idle s = {
        .connections = 10000, .base = UINT64_MAX, .settle_ms = 1000};
    const struct option_spec specs[] = {
        {"connections", 'c', OPTION_COUNT, &s.connections, 1, 1000000, "N",
         "connections to open (default 10000)"},
        {"base", 0, OPTION_COUNT, &s.base, 0, 1000000, "N",
         "connections at the first look at the server's memory,\n"
         "fewer than --connections (default 100, or half of\n"
         "fewer than 200)"},
        {"exchange", 0, OPTION_FLAG, &s.exchange, 0, 0, NULL,
         "send a message on each connection and wait for one;\n"
         "always on for paths that begin with /echo"},
        {"settle", 0, OPTION_DURATION, &s.settle_ms, 0, 3600000, "DURATION",
         "wait before each look (default 1s)"},
        {"hold", 0, OPTION_DURATION, &s.hold_ms, 0, 86400000, "DURATION",
         "keep them all open for so long, and answer pings\n(default 0)"},
    };
    const struct command command = {
        .name = "nib-bench idle",
        .arguments = "URL",
        .summary = "Opens connections that do nothing. With --server-pid, "
                   "tells what each costs\nthat server in memory.",
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
        .scenario = "idle",
        .subject = subject,
        .metrics = metrics,
        .metric_count = METRICS,
        .round = idle_round,
        .arg = &s,
        .target = &s.target,
    };
    int status = EXIT_FAILURE;

    if (s.base == UINT64_MAX)
        s.base = s.connections < 200 ? s.connections / 2 : 100;
    if (s.base >= s.connections)
        options_fail(&command, "--base: %ju is not below the %ju connections",
                     (uintmax_t)s.base, (uintmax_t)s.connections);
    bench_prepare(&command);
    bench_target(&command, &s.target, argv[first], false);
    s.exchange = s.exchange || is_echo(&s.target);
    snprintf(subject, sizeof(subject), "%.200s, %ju connections%s", argv[first],
             (uintmax_t)s.connections,
             s.exchange ? ", a message each way on each" : "");
    s.all = calloc(s.connections, sizeof(*s.all));
    if (s.all)
        status = bench_run(&b);
    else
        bench_error("%s", strerror(ENOMEM));
    free(s.all);
    target_free(&s.target);
    return status;
}
