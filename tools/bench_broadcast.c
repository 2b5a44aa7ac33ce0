/*
 * bench-broadcast - messages from some connections to all of them.
 *
 * Receivers and senders are processes of their own, so that neither takes
 * the other's time; what they tell each other lies in shared memory. Every
 * connection, a sender's as well, must get every message: each delivery is
 * counted, and a round ends with the last. Every message carries the time of
 * its sending, which receivers look at once for each read.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "flow.h"
#include "histogram.h"
#include "process.h"

enum {
    EVENTS = 256,
    MAX_PROCESSES = 64,
    STAMP_BYTES = 16,       /* hexadecimal nanoseconds */
    QUEUE_BYTES = 64 << 10, /* a sender encodes ahead no more than this */
    SETTLE_MS = 200,        /* for servers that subscribe after their 101 */
    LOOK_MS = 50,           /* how often the others' flags are looked at */
};

/* What one process tells the parent when it is done. */
struct result {
    uint64_t deliveries;
    uint64_t first_ns, last_ns; /* senders: first send; all: last delivery */
    struct histogram ages;      /* of messages, when they were read */
};

struct shared {
    _Atomic unsigned ready; /* processes with all connections open */
    _Atomic bool go, failed;
    _Atomic uint64_t total; /* messages sent; UINT64_MAX until it is known */
    struct result results[MAX_PROCESSES + 1];
};

struct member {
    struct client client;
    struct flow flow;
    uint64_t sent;
    bool watched_writable, complete;
};

/* One process's connections. */
struct crowd {
    struct member *all;
    size_t count, open, complete;
    int epoll;
    uint8_t *buffer;
    struct result *result;
    uint64_t active_ns; /* when something last came */
};

struct broadcast {
    uint64_t connections, senders, processes, size, inflight, seconds_ms;
    struct target target;
    struct shared *shared;
    char *payload;   /* --size bytes, the stamp first */
    uint64_t sent;   /* in the senders' process: by all of them */
    uint64_t end_ns; /* the same: nothing is sent after this */
};

static const struct metric metrics[] = {
    {"deliveries_per_s", "messages that arrived a second, at all connections"},
    {"messages_per_s", "messages sent a second, by all senders"},
    {"deliveries", "that were counted; none was missing"},
    {"messages", "that were sent"},
    {"age_p50_ms", "from sending to reading a message, milliseconds"},
    {"age_p99_ms", "99 of 100 took no longer"},
    {"age_max_ms", "the longest"},
};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

/* ---- connections ------------------------------------------------------- */

static int open_member(struct broadcast *s, struct crowd *crowd, size_t i)
{
    struct member *m = &crowd->all[i];
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = i};
    int result;

    client_init(&m->client, -1);
    result = client_open(&m->client, &s->target);
    if (result == 0)
        result = client_set_nonblocking(&m->client);
    if (result == 0 &&
        epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, m->client.fd, &e) < 0)
        result = -errno;
    flow_init(&m->flow, &m->client, 0);
    return result;
}

static int open_crowd(struct broadcast *s, struct crowd *crowd, size_t count)
{
    int result;

    crowd->count = count;
    crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
    crowd->buffer = malloc(FLOW_BUFFER_BYTES);
    crowd->all = calloc(count, sizeof(*crowd->all));
    if (crowd->epoll < 0 || !crowd->buffer || !crowd->all)
        return bench_error("%s", strerror(ENOMEM));
    while (crowd->open < count) {
        result = open_member(s, crowd, crowd->open++);
        if (result < 0)
            return bench_lost(&crowd->all[crowd->open - 1].client, result,
                              crowd->open - 1, "while it opened");
        if (atomic_load(&s->shared->failed))
            return -1;
    }
    crowd->active_ns = process_clock_ns();
    return 0;
}

/* ---- receiving --------------------------------------------------------- */

static void note_age(struct crowd *crowd, const struct flow *flow, uint64_t now)
{
    char stamp[STAMP_BYTES + 1] = "";
    uint64_t then;

    if (!flow->first || flow->first_len < STAMP_BYTES)
        return;
    memcpy(stamp, flow->first, STAMP_BYTES);
    then = strtoull(stamp, NULL, 16);
    if (then > 0 && then <= now)
        histogram_add(&crowd->result->ages, now - then);
}

static int receive_once(struct crowd *crowd, size_t i)
{
    struct member *m = &crowd->all[i];
    uint64_t before = m->flow.tally.messages;
    int result = flow_read(&m->flow, crowd->buffer);

    if (result == -EAGAIN)
        return 0;
    if (result <= 0)
        return bench_lost(&m->client, result, i, "in the middle");
    if (m->flow.tally.messages > before) {
        crowd->active_ns = process_clock_ns();
        crowd->result->last_ns = crowd->active_ns;
        crowd->result->deliveries += m->flow.tally.messages - before;
        note_age(crowd, &m->flow, crowd->active_ns);
    }
    return 0;
}

static int receive(struct crowd *crowd, size_t i)
{
    int result;

    do {
        result = receive_once(crowd, i);
    } while (result == 0 && client_pending(&crowd->all[i].client));
    return result;
}

/* Has every member every message? Only those that lag are looked at twice. */
static bool is_complete(struct crowd *crowd, uint64_t total)
{
    if (total == UINT64_MAX)
        return false;
    while (crowd->complete < crowd->count &&
           crowd->all[crowd->complete].flow.tally.messages >= total)
        crowd->complete++;
    return crowd->complete == crowd->count;
}

static int check_time(struct broadcast *s, struct crowd *crowd)
{
    uint64_t quiet = process_clock_ns() - crowd->active_ns;

    if (atomic_load(&s->shared->failed))
        return -1;
    if (bench_ms(quiet) <= (double)bench_options.timeout_ms)
        return 0;
    return bench_error("no message came for %ju ms; %ju deliveries did before",
                       (uintmax_t)bench_options.timeout_ms,
                       (uintmax_t)crowd->result->deliveries);
}

static int receive_all(struct broadcast *s, struct crowd *crowd)
{
    struct epoll_event events[EVENTS];

    while (!is_complete(crowd, atomic_load(&s->shared->total))) {
        int n = epoll_wait(crowd->epoll, events, EVENTS, LOOK_MS);

        for (int i = 0; i < n; i++) {
            if (receive(crowd, (size_t)events[i].data.u64) != 0)
                return -1;
        }
        if (check_time(s, crowd) != 0)
            return -1;
    }
    return 0;
}

/* ---- sending ----------------------------------------------------------- */

static void stamp(struct broadcast *s)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t now = process_clock_ns();

    if (s->size < STAMP_BYTES)
        return;
    for (int i = STAMP_BYTES - 1; i >= 0; i--, now >>= 4)
        s->payload[i] = digits[now & 15];
}

/*
 * Sends what a member's window allows: --inflight beyond its fair share of
 * all that has arrived at it. So no sender gets far ahead of the others, and
 * the last of them can always send.
 */
static int fill(struct broadcast *s, struct crowd *crowd, size_t i)
{
    struct member *m = &crowd->all[i];
    struct epoll_event e = {.data.u64 = i};
    bool writable;
    int result = 0;

    while (result == 0 && process_clock_ns() < s->end_ns &&
           client_waiting(&m->client) < QUEUE_BYTES &&
           m->sent < m->flow.tally.messages / s->senders + s->inflight) {
        stamp(s);
        result = client_queue(&m->client, NIB__TEXT, s->payload, s->size);
        m->sent++;
        s->sent++;
    }
    if (result == 0)
        result = client_flush(&m->client);
    writable = result == -EAGAIN;
    if (result < 0 && !writable)
        return bench_lost(&m->client, result, i, "while sending");
    if (writable == m->watched_writable)
        return 0;
    m->watched_writable = writable;
    e.events = EPOLLIN | (writable ? EPOLLOUT : 0);
    return epoll_ctl(crowd->epoll, EPOLL_CTL_MOD, m->client.fd, &e);
}

static int send_all(struct broadcast *s, struct crowd *crowd)
{
    struct epoll_event events[EVENTS];

    crowd->result->first_ns = process_clock_ns();
    crowd->active_ns = crowd->result->first_ns;
    s->end_ns = crowd->result->first_ns + s->seconds_ms * 1000000;
    for (size_t i = 0; i < crowd->count; i++) {
        if (fill(s, crowd, i) != 0)
            return -1;
    }
    while (process_clock_ns() < s->end_ns || !is_complete(crowd, s->sent)) {
        int n = epoll_wait(crowd->epoll, events, EVENTS, LOOK_MS);

        for (int i = 0; i < n; i++) {
            size_t number = (size_t)events[i].data.u64;

            if ((events[i].events & ~(unsigned)EPOLLOUT &&
                 receive(crowd, number) != 0) ||
                fill(s, crowd, number) != 0)
                return -1;
        }
        if (check_time(s, crowd) != 0)
            return -1;
    }
    atomic_store(&s->shared->total, s->sent);
    return 0;
}

/* ---- processes --------------------------------------------------------- */

static int wait_for_go(struct shared *shared)
{
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go)) {
        if (atomic_load(&shared->failed))
            return -1;
        poll(NULL, 0, 1);
    }
    return 0;
}

/* The life of one child; number 0 is the senders'. */
static int be_child(struct broadcast *s, unsigned number)
{
    struct crowd crowd = {.result = &s->shared->results[number]};
    uint64_t count = s->senders;
    int result;

    if (number > 0) /* the first ones take what does not divide evenly */
        count = s->connections / s->processes +
                (number <= s->connections % s->processes);
    result = target_forked(&s->target);
    if (result < 0)
        bench_error("%s", s->target.error);
    if (result == 0)
        result = open_crowd(s, &crowd, count);
    if (result == 0)
        result = wait_for_go(s->shared);
    if (result == 0)
        result = number == 0 ? send_all(s, &crowd) : receive_all(s, &crowd);
    if (result != 0)
        atomic_store(&s->shared->failed, true);
    for (size_t i = 0; i < crowd.open && result == 0; i++)
        client_close(&crowd.all[i].client, 1000);
    return result == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void watch_children(struct broadcast *s, unsigned count)
{
    struct shared *shared = s->shared;
    uint64_t open = s->connections + s->senders;

    while (atomic_load(&shared->ready) < count &&
           !atomic_load(&shared->failed)) {
        poll(NULL, 0, 1);
        bench_progress("%ju connections are being opened", (uintmax_t)open);
    }
    poll(NULL, 0, SETTLE_MS);
    atomic_store(&shared->go, true);
    while (atomic_load(&shared->total) == UINT64_MAX &&
           !atomic_load(&shared->failed)) {
        poll(NULL, 0, LOOK_MS);
        bench_progress("%ju deliveries to the first receivers",
                       (uintmax_t)shared->results[1].deliveries);
    }
}

static int run_children(struct broadcast *s)
{
    unsigned count = (unsigned)s->processes + 1, started = 0;
    pid_t children[MAX_PROCESSES + 1];
    int result = 0, status;

    for (; started < count; started++) {
        children[started] = fork();
        if (children[started] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left behind */
            _exit(be_child(s, started));
        }
        if (children[started] < 0) {
            result = bench_error("fork: %s", strerror(errno));
            atomic_store(&s->shared->failed, true);
            break;
        }
    }
    watch_children(s, count);
    while (started > 0) {
        if (waitpid(children[--started], &status, 0) < 0 || status != 0) {
            atomic_store(&s->shared->failed, true);
            result = -1;
        }
    }
    return result;
}

/* Adds up what the processes left. */
static void sum_up(struct broadcast *s, struct bench_round *round)
{
    struct result *sum = &s->shared->results[0];
    double *v = round->values, seconds;
    uint64_t messages = atomic_load(&s->shared->total);

    for (uint64_t i = 1; i <= s->processes; i++) {
        struct result *r = &s->shared->results[i];

        sum->deliveries += r->deliveries;
        if (r->last_ns > sum->last_ns)
            sum->last_ns = r->last_ns;
        histogram_merge(&sum->ages, &r->ages);
    }
    seconds = bench_s(sum->last_ns - sum->first_ns);
    round->operations = sum->deliveries;
    v[0] = (double)sum->deliveries / seconds;
    v[1] = (double)messages / seconds;
    v[2] = (double)sum->deliveries;
    v[3] = (double)messages;
    if (sum->ages.count > 0) {
        v[4] = bench_ms(histogram_percentile(&sum->ages, 50));
        v[5] = bench_ms(histogram_percentile(&sum->ages, 99));
        v[6] = bench_ms(sum->ages.max);
    }
}

static int broadcast_round(void *arg, struct bench_round *round)
{
    struct broadcast *s = arg;
    uint64_t expected;
    int result;

    memset(s->shared, 0, sizeof(*s->shared));
    atomic_store(&s->shared->total, UINT64_MAX);
    s->sent = 0;
    if (run_children(s) != 0)
        return -1;
    sum_up(s, round);
    expected = atomic_load(&s->shared->total) * (s->connections + s->senders);
    result = round->operations == expected ? 0 : -1;
    if (result != 0)
        bench_error("%ju deliveries instead of %ju",
                    (uintmax_t)round->operations, (uintmax_t)expected);
    return result;
}

static void explain(void)
{
    bench_explain(metrics, METRICS);
}

static int run(struct broadcast *s, const struct bench *b)
{
    int status = EXIT_FAILURE;

    s->payload = malloc(s->size + 1);
    s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->payload && s->shared != MAP_FAILED) {
        memset(s->payload, 'x', s->size);
        status = bench_run(b);
        munmap(s->shared, sizeof(*s->shared));
    } else {
        bench_error("%s", strerror(ENOMEM));
    }
    free(s->payload);
    return status;
}

int bench_broadcast(int argc, char **argv)
{
    static struct broadcast s = {.connections = 1000,
                                 .senders = 1,
                                 .processes = 1,
                                 .size = 32,
                                 .inflight = 16,
                                 .seconds_ms = 5000};
    const struct option_spec specs[] = {
        {"connections", 'c', OPTION_COUNT, &s.connections, 1, 1000000, "N",
         "connections that only receive (default 1000)"},
        {"senders", 0, OPTION_COUNT, &s.senders, 1, 10000, "N",
         "connections that send, and receive as well\n(default 1)"},
        {"processes", 0, OPTION_COUNT, &s.processes, 1, MAX_PROCESSES, "N",
         "processes that share the receiving (default 1)"},
        {"size", 's', OPTION_SIZE, &s.size, 0, 1 << 30, "SIZE",
         "bytes of each message (default 32); from 16 on a\n"
         "message carries its time, and its age is measured"},
        {"inflight", 'i', OPTION_COUNT, &s.inflight, 1, 1000000, "N",
         "messages of each sender that have not come back to it\n"
         "(default 16)"},
        {"seconds", 't', OPTION_SECONDS, &s.seconds_ms, 1, 86400000, "T",
         "how long, in seconds, or with a unit (default 5)"},
    };
    const struct command command = {
        .name = "nib-bench broadcast",
        .arguments = "URL",
        .summary = "Sends messages to a server that passes each to every "
                   "connection, the sender's\nincluded, and counts the "
                   "deliveries. Fails if one is missing.",
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
        .scenario = "broadcast",
        .subject = subject,
        .metrics = metrics,
        .metric_count = METRICS,
        .round = broadcast_round,
        .arg = &s,
        .target = &s.target,
    };
    int status;

    if (s.processes > s.connections)
        options_fail(&command, "--processes: more than the %ju connections",
                     (uintmax_t)s.connections);
    bench_prepare(&command);
    bench_target(&command, &s.target, argv[first], false);
    snprintf(subject, sizeof(subject),
             "%.200s, %ju senders, %ju receivers, %ju bytes", argv[first],
             (uintmax_t)s.senders, (uintmax_t)s.connections, (uintmax_t)s.size);
    status = run(&s, &b);
    target_free(&s.target);
    return status;
}
