/*
 * report - the results of a scenario's rounds, as a table or as JSON.
 */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_init(struct report *r, const char *scenario, const char *subject)
{
    memset(r, 0, sizeof(*r));
    r->scenario = scenario;
    r->subject = subject;
}

void report_metrics(struct report *r, const struct metric *metrics,
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (r->metric_count == REPORT_METRICS)
            abort(); /* a list of ours, not an input */
        r->metrics[r->metric_count++] = &metrics[i];
    }
}

void report_fact(struct report *r, const struct metric *what, const char *value)
{
    if (r->fact_count == REPORT_FACTS)
        abort(); /* a list of ours, not an input */
    r->facts[r->fact_count].what = what;
    r->facts[r->fact_count++].value = value;
}

int report_round(struct report *r, const double *values)
{
    size_t n = r->metric_count;

    if (r->rounds == r->capacity) {
        size_t more = r->capacity ? r->capacity * 2 : 8;
        double *grown = reallocarray(r->values, more * n, sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        r->values = grown;
        r->capacity = more;
    }
    memcpy(r->values + r->rounds * n, values, n * sizeof(*values));
    r->rounds++;
    return 0;
}

void report_free(struct report *r)
{
    free(r->values);
    r->values = NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double report_median(const struct report *r, size_t metric)
{
    double *sorted = reallocarray(NULL, r->rounds + 1, sizeof(*sorted));
    double median = NAN;
    size_t n = 0;

    if (!sorted)
        return NAN;
    for (size_t i = 0; i < r->rounds; i++) {
        double value = r->values[i * r->metric_count + metric];

        if (!isnan(value))
            sorted[n++] = value;
    }
    if (n > 0) {
        qsort(sorted, n, sizeof(*sorted), compare);
        median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    }
    free(sorted);
    return median;
}

/* ---- table ------------------------------------------------------------- */

/* Three significant digits at least, and no digit that says nothing. */
static int decimals(double value)
{
    double size = fabs(value);

    if (size == floor(size) || size >= 1000)
        return 0;
    if (size >= 100)
        return 1;
    if (size >= 1)
        return 3;
    return 4;
}

void report_print(const struct report *r)
{
    printf("%s: %s", r->scenario, r->subject);
    if (r->rounds > 1)
        printf("; median of %zu", r->rounds);
    printf("\n");
    for (size_t i = 0; i < r->metric_count; i++) {
        double value = report_median(r, i);

        if (!isnan(value))
            printf("  %-28s %16.*f   %s\n", r->metrics[i]->key, decimals(value),
                   value, r->metrics[i]->help);
    }
    for (size_t i = 0; i < r->fact_count; i++) {
        if (r->facts[i].value)
            printf("  %-28s %16s   %s\n", r->facts[i].what->key,
                   r->facts[i].value, r->facts[i].what->help);
    }
    fflush(stdout);
}

void report_explain(const struct metric *metrics, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("  %-28s %s\n", metrics[i].key, metrics[i].help);
}

/* ---- JSON -------------------------------------------------------------- */

static void print_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < ' ')
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_number(const char *before, const char *key, double value)
{
    printf("%s\"%s\": ", before, key);
    if (isfinite(value))
        printf("%.10g", value);
    else
        printf("null");
}

void report_print_json(const struct report *r)
{
    printf("{\"scenario\": ");
    print_string(r->scenario);
    printf(", \"subject\": ");
    print_string(r->subject);
    for (size_t i = 0; i < r->fact_count; i++) {
        printf(", \"%s\": ", r->facts[i].what->key);
        if (r->facts[i].value)
            print_string(r->facts[i].value);
        else
            printf("null");
    }
    printf(", \"rounds\": [");
    for (size_t i = 0; i < r->rounds; i++) {
        for (size_t k = 0; k < r->metric_count; k++)
            print_number(k   ? ", "
                         : i ? ", {"
                             : "{",
                         r->metrics[k]->key,
                         r->values[i * r->metric_count + k]);
        printf("}");
    }
    printf("], \"median\": {");
    for (size_t k = 0; k < r->metric_count; k++)
        print_number(k ? ", " : "", r->metrics[k]->key, report_median(r, k));
    printf("}}\n");
    fflush(stdout);
}
