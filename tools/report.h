/*
 * report - the results of a scenario's rounds, as a table or as JSON.
 *
 * A scenario lists its metrics once; the table's lines, the JSON's keys and
 * the explanation in --help all come from that list.
 */
#ifndef NIB_TOOLS_REPORT_H
#define NIB_TOOLS_REPORT_H

#include <stddef.h>

struct metric {
    const char *key;  /* in JSON and in the table; a unit is part of it */
    const char *help; /* what it is, one line */
};

enum { REPORT_METRICS = 24, REPORT_FACTS = 4 };

struct report {
    const char *scenario;
    const char *subject; /* what was measured, in words; the caller's */
    const struct metric *metrics[REPORT_METRICS];
    size_t metric_count;
    struct {
        const struct metric *what;
        const char *value; /* NULL: unknown */
    } facts[REPORT_FACTS];
    size_t fact_count;
    size_t rounds, capacity;
    double *values; /* metric_count for each round; NAN: unknown */
};

/*
 * Starts a report. Metrics are added before the first round, and must live
 * as long as the report.
 */
void report_init(struct report *r, const char *scenario, const char *subject);

/* Adds metrics behind those that are there; at most REPORT_METRICS in all. */
void report_metrics(struct report *r, const struct metric *metrics,
                    size_t count);

/*
 * Adds a text that holds for all rounds; at most REPORT_FACTS. NULL for one
 * that is not known. Both must live as long as the report.
 */
void report_fact(struct report *r, const struct metric *what,
                 const char *value);

/* Adds a round's values, one for each metric. Returns 0 or -ENOMEM. */
int report_round(struct report *r, const double *values);

/* The median of a metric over the rounds that know it; NAN without any. */
double report_median(const struct report *r, size_t metric);

/* Prints the medians on stdout, a line for each metric that is known. */
void report_print(const struct report *r);

/*
 * Prints one JSON object on one line on stdout:
 *   {"scenario": .., "subject": .., FACT: text, .., "rounds": [{KEY: number,
 *    ..}, ..], "median": {KEY: number, ..}}
 * A value that is not known is null.
 */
void report_print_json(const struct report *r);

/* Prints the keys and what they mean, for --help. */
void report_explain(const struct metric *metrics, size_t count);

/* Frees what a report holds. */
void report_free(struct report *r);

#endif
