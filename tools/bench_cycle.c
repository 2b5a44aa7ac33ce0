/*
 * bench-cycle - the time of a whole connection: connect, upgrade, send a
 * message, receive up to the server's Close, return it, and see the end.
 *
 * Each of --parallel threads runs one cycle after the other with blocking
 * calls; the main thread watches that they go on. With --raw the same three
 * round trips carry the same kinds of bytes, and an echoing peer that knows
 * nothing of WebSocket returns them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "histogram.h"
#include "process.h"

struct cycle {
    uint64_t count, parallel, silent;
    const char *message;
    bool raw;
    struct target target;
    struct upgrade upgrade; /* made once: its key is not what is measured */
    uint8_t *frame;         /* the message, encoded once */
    size_t frame_len;
    uint8_t *close_frame; /* raw: the Close, as bytes */
    size_t close_len;
    int *silent_fds;
    struct worker *workers;
    struct histogram cycles, handshakes; /* of all workers, merged */
    _Atomic uint64_t begun, done;
    _Atomic bool failed;
};

struct worker {
    struct cycle *cycle;
    pthread_t thread;
    struct client client;
    struct histogram cycles, handshakes;
};

static const struct metric metrics[] = {
    {"cycle_p50_ms", "from connect() to the connection's end, milliseconds"},
    {"cycle_p90_ms", "90 of 100 took no longer"},
    {"cycle_p99_ms", "99 of 100 took no longer"},
    {"cycle_max_ms", "the longest"},
    {"handshake_p50_ms", "from connect() to the answer 101, milliseconds"},
    {"handshake_p99_ms", "99 of 100 took no longer"},
    {"cycles_per_s", "cycles a second"},
};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

/* ---- one cycle --------------------------------------------------------- */

static int exchange(struct cycle *s, struct worker *w, uint64_t *opened_ns)
{
    struct client *c = &w->client;
    struct nib__event event;
    int result = client_upgrade(c, &s->upgrade);

    *opened_ns = process_clock_ns();
    if (result == 0)
        result = client_write(c, s->frame, s->frame_len);
    while (result >= 0) {
        result = client_next(c, &event);
        if (result == 0)
            return c->close_received ? 0 : -EPIPE;
    }
    return result;
}

/* Sends data[0..len) and waits for as many bytes. */
static int bounce(struct client *c, const void *data, size_t len)
{
    char room[4096];
    size_t got = 0;
    int result = client_write(c, data, len);

    while (result == 0 && got < len) {
        ssize_t n = client_read(c, room, sizeof(room));

        if (n <= 0)
            result = n < 0 ? (int)n : -EPIPE;
        else
            got += (size_t)n;
    }
    return result;
}

/*
 * The Close goes out together with the end of our side, so that the peer's
 * end is in the third round trip, as it is in a WebSocket cycle.
 */
static int exchange_raw(struct cycle *s, struct worker *w, uint64_t *opened_ns)
{
    struct client *c = &w->client;
    char room[256];
    ssize_t n;
    int result = bounce(c, s->upgrade.request, s->upgrade.request_len);

    *opened_ns = process_clock_ns();
    if (result == 0)
        result = bounce(c, s->frame, s->frame_len);
    if (result == 0)
        result = client_write(c, s->close_frame, s->close_len);
    if (result == 0)
        result = client_shutdown(c);
    if (result < 0)
        return result;
    do {
        n = client_read(c, room, sizeof(room));
    } while (n > 0);
    return (int)n;
}

static int run_cycle(struct cycle *s, struct worker *w)
{
    uint64_t start = process_clock_ns(), opened = start;
    int fd = target_connect(&s->target);
    int result = fd;

    client_reset(&w->client, fd);
    if (fd >= 0)
        result = client_secure(&w->client, &s->target);
    if (result >= 0)
        result = s->raw ? exchange_raw(s, w, &opened) : exchange(s, w, &opened);
    if (result < 0)
        return result;
    histogram_add(&w->cycles, process_clock_ns() - start);
    histogram_add(&w->handshakes, opened - start);
    client_reset(&w->client, -1);
    return 0;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct cycle *s = w->cycle;

    for (;;) {
        uint64_t number = atomic_fetch_add(&s->begun, 1);
        int result;

        if (number >= s->count || atomic_load(&s->failed))
            return NULL;
        result = run_cycle(s, w);
        if (result < 0 && !atomic_exchange(&s->failed, true))
            bench_lost(&w->client, result, (size_t)number, "in its cycle");
        if (result < 0)
            return NULL;
        atomic_fetch_add(&s->done, 1);
    }
}

/* ---- all of them ------------------------------------------------------- */

/*
 * Waits for a worker. The sockets have no timeout, to save the system calls;
 * a round in which no cycle ends for --timeout ends the program instead.
 */
static void join_worker(struct cycle *s, struct worker *w)
{
    uint64_t seen = 0, since = process_clock_ns();

    for (;;) {
        uint64_t done = atomic_load(&s->done), now;
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_timedjoin_np(w->thread, NULL, &until) == 0)
            return;
        now = process_clock_ns();
        if (done != seen)
            since = now;
        seen = done;
        if (bench_ms(now - since) > (double)bench_options.timeout_ms) {
            bench_error("no cycle ended in %ju ms; %ju of %ju did before",
                        (uintmax_t)bench_options.timeout_ms, (uintmax_t)done,
                        (uintmax_t)s->count);
            _exit(EXIT_FAILURE);
        }
        bench_progress("%ju of %ju cycles", (uintmax_t)done,
                       (uintmax_t)s->count);
    }
}

static int run_workers(struct cycle *s)
{
    uint64_t started = 0;
    int error = 0;

    for (; started < s->parallel && error == 0; started += error == 0) {
        struct worker *w = &s->workers[started];

        w->cycle = s;
        client_init(&w->client, -1);
        histogram_clear(&w->cycles);
        histogram_clear(&w->handshakes);
        error = pthread_create(&w->thread, NULL, work, w);
    }
    if (error) {
        atomic_store(&s->failed, true);
        bench_error("thread %ju: %s", (uintmax_t)started, strerror(error));
    }
    for (uint64_t i = 0; i < started; i++) {
        join_worker(s, &s->workers[i]);
        client_free(&s->workers[i].client);
        histogram_merge(&s->cycles, &s->workers[i].cycles);
        histogram_merge(&s->handshakes, &s->workers[i].handshakes);
    }
    return atomic_load(&s->failed) ? -1 : 0;
}

static void close_silent(struct cycle *s)
{
    for (uint64_t i = 0; i < s->silent; i++) {
        if (s->silent_fds[i] >= 0)
            close(s->silent_fds[i]);
    }
}

static int open_silent(struct cycle *s)
{
    int result = 0;

    for (uint64_t i = 0; i < s->silent; i++) {
        s->silent_fds[i] = result < 0 ? -1 : target_connect(&s->target);
        if (result == 0 && s->silent_fds[i] < 0) {
            result = -1;
            bench_error("silent connection %ju: %s", (uintmax_t)i,
                        strerror(-s->silent_fds[i]));
        }
    }
    if (result < 0)
        close_silent(s);
    return result;
}

static int cycle_round(void *arg, struct bench_round *round)
{
    struct cycle *s = arg;
    double *v = round->values;
    uint64_t start;

    histogram_clear(&s->cycles);
    histogram_clear(&s->handshakes);
    atomic_store(&s->begun, 0);
    atomic_store(&s->done, 0);
    if (open_silent(s) != 0)
        return -1;
    start = process_clock_ns();
    if (run_workers(s) != 0) {
        close_silent(s);
        return -1;
    }
    v[6] = (double)s->count / bench_s(process_clock_ns() - start);
    close_silent(s);
    round->operations = s->count;
    v[0] = bench_ms(histogram_percentile(&s->cycles, 50));
    v[1] = bench_ms(histogram_percentile(&s->cycles, 90));
    v[2] = bench_ms(histogram_percentile(&s->cycles, 99));
    v[3] = bench_ms(s->cycles.max);
    v[4] = bench_ms(histogram_percentile(&s->handshakes, 50));
    v[5] = bench_ms(histogram_percentile(&s->handshakes, 99));
    return 0;
}

/* ---- set-up ------------------------------------------------------------ */

/*
 * The texts of a cycle. A raw target has no request of its own: takes one
 * such as a WebSocket client would send.
 */
static int make_texts(struct cycle *s)
{
    const uint8_t normal[2] = {1000 >> 8, 1000 & 0xff};
    struct url url = s->target.url;

    if (s->raw) {
        snprintf(url.authority, sizeof(url.authority), "localhost:%s",
                 url.port);
        snprintf(url.target, sizeof(url.target), "/bench");
    }
    s->frame =
        client_encode(NIB__TEXT, s->message, strlen(s->message), &s->frame_len);
    s->close_frame =
        client_encode(NIB__CLOSE, normal, sizeof(normal), &s->close_len);
    if (!s->frame || !s->close_frame)
        return -ENOMEM;
    return upgrade_init(&s->upgrade, &url, NULL, NULL, 0);
}

static int run(struct cycle *s, const struct bench *b)
{
    int status = EXIT_FAILURE, result;

    s->workers = calloc(s->parallel, sizeof(*s->workers));
    s->silent_fds = calloc(s->silent + 1, sizeof(*s->silent_fds));
    result = s->workers && s->silent_fds ? make_texts(s) : -ENOMEM;
    if (result == 0)
        status = bench_run(b);
    else
        bench_error("%s", strerror(-result));
    upgrade_free(&s->upgrade);
    free(s->frame);
    free(s->close_frame);
    free(s->silent_fds);
    free(s->workers);
    return status;
}

static void explain(void)
{
    bench_explain(metrics, METRICS);
}

int bench_cycle(int argc, char **argv)
{
    static struct cycle s = {.count = 1000, .parallel = 1, .message = "hi"};
    const struct option_spec specs[] = {
        {"count", 'n', OPTION_COUNT, &s.count, 1, 1000000000, "N",
         "cycles (default 1000)"},
        {"parallel", 'p', OPTION_COUNT, &s.parallel, 1, 1000, "N",
         "cycles at once (default 1)"},
        {"message", 0, OPTION_TEXT, &s.message, 0, 0, "TEXT",
         "what is sent; the server must close after it\n(default \"hi\")"},
        {"silent", 0, OPTION_COUNT, &s.silent, 0, 100000, "N",
         "open N connections before that send nothing, and keep\n"
         "them (default 0)"},
        {"raw", 0, OPTION_FLAG, &s.raw, 0, 0, NULL,
         "the argument is HOST:PORT or tls://HOST:PORT, and what\n"
         "listens there returns all bytes and closes at their\n"
         "end: the same three round trips without WebSocket"},
    };
    const struct command command = {
        .name = "nib-bench cycle",
        .arguments = "URL",
        .summary = "Opens connections, sends a message on each, and waits "
                   "for the server's Close.",
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
        .scenario = "cycle",
        .subject = subject,
        .metrics = metrics,
        .metric_count = METRICS,
        .round = cycle_round,
        .arg = &s,
        .target = &s.target,
    };
    int status;

    bench_options.secure.resume = true;
    bench_prepare(&command);
    bench_target(&command, &s.target, argv[first], s.raw);
    s.target.timeout_ms = 0; /* see join_worker() */
    snprintf(subject, sizeof(subject), "%s%.200s, %ju cycles, %ju at once%s",
             s.raw ? "raw " : "", argv[first], (uintmax_t)s.count,
             (uintmax_t)s.parallel, s.silent ? ", beside silent ones" : "");
    status = run(&s, &b);
    target_free(&s.target);
    return status;
}
