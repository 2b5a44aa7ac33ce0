/*
 * bench - what the scenarios of nib-bench share.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "process.h"

struct bench_options bench_options = {
    .repeat = 1,
    .pin = UINT64_MAX,
    .timeout_ms = 30000,
};

static const char *program = "nib-bench"; /* what messages begin with */
static bool line_shown;                   /* a progress line stands there */
static uint64_t line_ns;                  /* since when */

/* ---- options ----------------------------------------------------------- */

struct option_table bench_shared_options(void)
{
    static const struct option_spec specs[] = {
        {"repeat", 'r', OPTION_COUNT, &bench_options.repeat, 1, 10000, "N",
         "rounds; the medians are reported (default 1)"},
        {"json", 'j', OPTION_FLAG, &bench_options.json, 0, 0, NULL,
         "print one JSON object instead of a table"},
        {"pin", 0, OPTION_COUNT, &bench_options.pin, 0, 1023, "CPU",
         "run on this CPU alone, counted from 0"},
        {"server-pid", 0, OPTION_COUNT, &bench_options.server_pid, 1, INT32_MAX,
         "PID", "report the CPU time of this process as well"},
        {"timeout", 0, OPTION_DURATION, &bench_options.timeout_ms, 1, 86400000,
         "DURATION",
         "give up when the server does nothing for so long\n"
         "(default 30s)"},
        {"ca", 0, OPTION_TEXT, &bench_options.secure.ca, 0, 0, "FILE",
         "for wss://: trust the certificates of this PEM file\n"
         "(default: those that the system trusts)"},
        {"insecure", 0, OPTION_FLAG, &bench_options.secure.insecure, 0, 0, NULL,
         "take any certificate"},
        {"resume", 0, OPTION_FLAG, &bench_options.resume, 0, 0, NULL,
         "resume the TLS session of the connection before, where\n"
         "the server lets it (default for cycle)"},
        {"no-resume", 0, OPTION_FLAG, &bench_options.no_resume, 0, 0, NULL,
         "shake hands in full (default for the others)"},
        {"tls-max", 0, OPTION_CHOICE, &bench_options.secure.max_word, 0, 0,
         "1.3|1.2", "the highest version of TLS (default: what there is)"},
    };

    return (struct option_table)OPTION_TABLE(specs);
}

static const struct metric shared_metrics[] = {
    {"seconds", "length of a round, with opening and closing"},
    {"client_cpu_s", "CPU time of nib-bench in it, seconds"},
    {"server_cpu_s", "CPU time of --server-pid in it, seconds"},
    {"server_cpu_us_per_op", "the same for each operation, microseconds"},
    {"tls_full", "TLS handshakes in it, whole ones"},
    {"tls_resumed", "and those that resumed a session"},
};

/* Texts, of a connection with TLS. */
static const struct metric shared_facts[] = {
    {"tls_version", "of the first connection"},
    {"tls_cipher", "its cipher suite"},
};

enum { SHARED_METRICS = sizeof(shared_metrics) / sizeof(shared_metrics[0]) };

void bench_explain(const struct metric *metrics, size_t count)
{
    printf(
        "\nReported, and the keys of \"rounds\" and \"median\" in --json:\n");
    report_explain(metrics, count);
    report_explain(shared_metrics, SHARED_METRICS);
    printf("\nAnd of the whole, for wss:// URLs:\n");
    report_explain(shared_facts, 2);
}

void bench_prepare(const struct command *command)
{
    uint64_t files;
    int result;

    program = command->name;
    result = process_raise_files(&files);
    if (result < 0)
        bench_error("the limit of open files stays at %ju: %s",
                    (uintmax_t)files, strerror(-result));
    if (bench_options.pin == UINT64_MAX)
        return;
    result = process_pin((unsigned)bench_options.pin);
    if (result < 0)
        options_fail(command, "--pin: CPU %ju: %s",
                     (uintmax_t)bench_options.pin, strerror(-result));
}

void bench_target(const struct command *command, struct target *t,
                  const char *address, bool raw)
{
    struct target_options options = {
        .timeout_ms = bench_options.timeout_ms,
        .raw = raw,
    };
    int result;

    if (bench_options.resume && bench_options.no_resume)
        options_fail(command, "--resume and --no-resume: one of them");
    options.secure = bench_options.secure;
    if (bench_options.resume || bench_options.no_resume)
        options.secure.resume = bench_options.resume;
    result = target_init(t, address, &options);

    if (result == -EINVAL || result == -ENAMETOOLONG ||
        result == -EPROTONOSUPPORT)
        options_fail(command, "%s", t->error);
    if (result < 0) {
        bench_error("%s", t->error);
        exit(EXIT_FAILURE);
    }
}

/* ---- messages ---------------------------------------------------------- */

static void clear_line(void)
{
    if (line_shown)
        fprintf(stderr, "\r\033[K");
    line_shown = false;
}

int bench_error(const char *format, ...)
{
    va_list args;

    clear_line();
    fprintf(stderr, "%s: ", program);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    return -1;
}

int bench_lost(const struct client *c, int result, size_t number,
               const char *where)
{
    if (c->answer.status != 0 && c->answer.status != 101)
        return bench_error("connection %zu: refused: %d %s", number,
                           c->answer.status, c->answer.reason);
    if (result == 0 && c->close_received)
        return bench_error("connection %zu: closed with %u %s", number,
                           c->close_code, where);
    return bench_error("connection %zu: %s %s", number,
                       client_strerror(c, result ? result : -EPIPE), where);
}

void bench_progress(const char *format, ...)
{
    static int terminal = -1;
    uint64_t now;
    va_list args;

    if (terminal < 0)
        terminal = isatty(STDERR_FILENO);
    if (!terminal)
        return;
    now = process_clock_ns();
    if (now - line_ns < 200000000)
        return;
    line_ns = now;
    clear_line();
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    line_shown = true;
}

/* ---- rounds ------------------------------------------------------------ */

/* CPU time of this process and of its children that were waited for. */
static uint64_t own_cpu_ns(void)
{
    struct rusage children;
    uint64_t ns = 0;

    process_cpu_ns(0, &ns);
    if (getrusage(RUSAGE_CHILDREN, &children) == 0) {
        const struct timeval *u = &children.ru_utime, *s = &children.ru_stime;

        ns += (uint64_t)(u->tv_sec + s->tv_sec) * 1000000000u +
              (uint64_t)(u->tv_usec + s->tv_usec) * 1000u;
    }
    return ns;
}

/* False if there is no such process; then, too, *ns is set. */
static bool server_cpu_ns(uint64_t *ns)
{
    *ns = 0;
    return bench_options.server_pid > 0 &&
           process_cpu_ns((long)bench_options.server_pid, ns) == 0;
}

/* False if there is no TLS; then, too, *facts is set. */
static bool look_at_tls(const struct bench *b, struct secure_facts *facts)
{
    *facts = (struct secure_facts){0};
    if (!b->target->secure)
        return false;
    secure_facts(b->target->secure, facts);
    return true;
}

/* Runs a round between two looks at the clocks. */
static int measure(const struct bench *b, double *values)
{
    struct bench_round round = {.values = values};
    double *shared = values + b->metric_count;
    uint64_t cpu = own_cpu_ns(), server, server_after;
    bool known = server_cpu_ns(&server);
    struct secure_facts tls, tls_after;
    bool encrypted = look_at_tls(b, &tls);
    uint64_t start = process_clock_ns();

    for (size_t i = 0; i < b->metric_count + SHARED_METRICS; i++)
        values[i] = NAN;
    if (b->round(b->arg, &round) != 0)
        return -1;
    shared[0] = bench_s(process_clock_ns() - start);
    shared[1] = bench_s(own_cpu_ns() - cpu);
    if (known && server_cpu_ns(&server_after)) {
        shared[2] = bench_s(server_after - server);
        if (round.operations > 0)
            shared[3] = shared[2] * 1e6 / (double)round.operations;
    }
    if (encrypted) {
        look_at_tls(b, &tls_after);
        shared[4] = (double)(tls_after.full - tls.full);
        shared[5] = (double)(tls_after.resumed - tls.resumed);
    }
    return 0;
}

int bench_run(const struct bench *b)
{
    double values[REPORT_METRICS];
    struct secure_facts tls;
    struct report report;
    uint64_t ns;
    int status = EXIT_FAILURE;

    if (bench_options.server_pid > 0 && !server_cpu_ns(&ns))
        options_fail(b->command, "--server-pid: there is no process %ju",
                     (uintmax_t)bench_options.server_pid);
    report_init(&report, b->scenario, b->subject);
    report_metrics(&report, b->metrics, b->metric_count);
    report_metrics(&report, shared_metrics, SHARED_METRICS);
    for (uint64_t i = 0; i < bench_options.repeat; i++) {
        bench_progress("round %ju of %ju", (uintmax_t)i + 1,
                       (uintmax_t)bench_options.repeat);
        if (measure(b, values) != 0)
            goto out;
        if (report_round(&report, values) != 0) {
            bench_error("%s", strerror(ENOMEM));
            goto out;
        }
    }
    clear_line();
    look_at_tls(b, &tls);
    report_fact(&report, &shared_facts[0], *tls.version ? tls.version : NULL);
    report_fact(&report, &shared_facts[1], *tls.cipher ? tls.cipher : NULL);
    if (bench_options.json)
        report_print_json(&report);
    else
        report_print(&report);
    status = ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
out:
    report_free(&report);
    return status;
}
