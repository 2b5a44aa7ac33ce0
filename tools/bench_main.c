/*
 * bench-main - nib-bench: which scenario it is to be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const struct scenario {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} scenarios[] = {
    {"serve", bench_serve, "a server with the paths that the others load"},
    {"stream", bench_stream, "messages a second from the server"},
    {"cycle", bench_cycle, "time to connect, exchange a message, and close"},
    {"echo", bench_echo, "round trips of a message"},
    {"idle", bench_idle, "memory of open connections"},
    {"broadcast", bench_broadcast, "messages from some to everybody"},
};

enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

static void print_usage(FILE *f)
{
    fprintf(f, "Usage: nib-bench SCENARIO [OPTION]... ARGUMENT\n\n"
               "Loads a WebSocket server, or is one to be loaded.\n\n");
    for (size_t i = 0; i < SCENARIOS; i++)
        fprintf(f, "  %-12s %s\n", scenarios[i].name, scenarios[i].help);
    fprintf(f, "\n'nib-bench SCENARIO --help' tells the rest.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < SCENARIOS; i++) {
        if (strcmp(name, scenarios[i].name) == 0)
            return scenarios[i].run(argc - 1, argv + 1);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(stdout);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("nib-bench (nib) %s\n", PACKAGE_VERSION);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (*name)
        fprintf(stderr, "nib-bench: '%s' is not a scenario\n", name);
    print_usage(stderr);
    return OPTIONS_USAGE;
}
