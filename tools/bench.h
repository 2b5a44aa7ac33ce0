/*
 * bench - what the scenarios of nib-bench share.
 *
 * A scenario is one file: its options, and a function that runs one round
 * and fills in the values of its metrics. bench_run() does the rest.
 */
#ifndef NIB_TOOLS_BENCH_H
#define NIB_TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client.h"
#include "options.h"
#include "report.h"
#include "target.h"

/* The options that every scenario has, set by options_parse(). */
struct bench_options {
    uint64_t repeat;
    uint64_t pin;        /* UINT64_MAX: not */
    uint64_t server_pid; /* 0: not given */
    uint64_t timeout_ms;
    bool json;
    bool resume, no_resume;
    struct secure_options secure; /* its resume is the scenario's default */
};

extern struct bench_options bench_options;

/* Their table, for struct command. */
struct option_table bench_shared_options(void);

/* Prints the keys of --json: a scenario's own and the shared ones. */
void bench_explain(const struct metric *metrics, size_t count);

/* One round of a scenario. */
struct bench_round {
    double *values;      /* to be set, one for each metric; NAN until then */
    uint64_t operations; /* to be set: what the server's CPU is divided by */
};

struct bench {
    const struct command *command;
    const char *scenario;
    const char *subject; /* what is measured, for the report */
    const struct metric *metrics;
    size_t metric_count;
    int (*round)(void *arg, struct bench_round *round); /* 0, or an error
                                         that it has told by bench_error() */
    void *arg;
    const struct target *target; /* where the connections go */
};

/*
 * Pins this process and raises its limit of open files, as asked for. Call
 * before the first connection. Ends the program if it is not possible.
 */
void bench_prepare(const struct command *command);

/*
 * Resolves the address of a scenario, or ends the program: with status 2 if
 * it is not an address.
 */
void bench_target(const struct command *command, struct target *t,
                  const char *address, bool raw);

/*
 * Runs the rounds and prints the report. Returns the program's exit status.
 */
int bench_run(const struct bench *b);

/* Prints "NAME: " and a message on stderr. Returns -1. */
int bench_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * bench_error() for a connection that ended or failed: `result` is what a
 * function of client.h or flow.h returned, 0 for its end. Returns -1.
 */
int bench_lost(const struct client *c, int result, size_t number,
               const char *where);

/*
 * Shows a line on a terminal, in place of the last one; at most five times a
 * second. Costs one look at the clock otherwise.
 */
void bench_progress(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Milliseconds and seconds of nanoseconds. */
static inline double bench_ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static inline double bench_s(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* The scenarios: main() of each, with argv[0] its name. */
int bench_serve(int argc, char **argv);
int bench_stream(int argc, char **argv);
int bench_cycle(int argc, char **argv);
int bench_echo(int argc, char **argv);
int bench_idle(int argc, char **argv);
int bench_broadcast(int argc, char **argv);

#endif
