/*
 * settings - what the command line of one of nibd's commands asks for.
 */
#include "daemon/settings.h"

#include "nib.h"
#include "tools/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    SHORTEST_PING_MS = 100,
    LONGEST_PING_MS = 24 * 3600 * 1000,
    DEFAULT_PING_MS = 25000, /* below the idle timeout of common proxies */
    LONGEST_PONG_MS = 10000,
    LONGEST_WATCH_MS = 24 * 3600 * 1000,
    PATH_BYTES = 1000,
};

/* The options as they were given. */
struct given {
    const char *path;
    uint64_t message_bytes; /* 0: not given */
    uint64_t queue_bytes;   /* 0: not given */
    uint64_t threads;       /* 0: not given */
    uint64_t ping_ms;
    bool verbose;
    bool quiet;
    bool debug;
};

static void print_forms(void)
{
    puts("\n"
         "[addr:]port is 8080 (all addresses), 127.0.0.1:8080, [::1]:8080 or\n"
         "name:8080; port 0 takes a free one. SIZE is a number, with k, m or\n"
         "g for 1024s; TIME is a number with ms, s, m, h or d.");
}

static void check_path(const struct command *command, const char *path)
{
    bool plain = path[0] == '/' && strlen(path) <= PATH_BYTES;

    for (const char *p = path; *p != '\0'; p++)
        plain = plain && *p > ' ' && *p <= '~' && *p != '?' && *p != '#';
    if (!plain)
        options_fail(command,
                     "--path: '%s' is not a path that begins with / and has "
                     "no ?, # or space",
                     path);
}

/*
 * The queue must hold two of the largest messages. Whichever of the two was
 * not given makes room for the other.
 */
static void settle_sizes(const struct command *command,
                         const struct given *given, struct settings *out)
{
    uint64_t message = given->message_bytes;
    uint64_t queue = given->queue_bytes;

    if (message == 0)
        message = queue != 0 && queue / 2 < MIB ? queue / 2 : MIB;
    if (queue == 0)
        queue = message > MIB ? 2 * message : 2 * MIB;
    if (queue < 2 * message)
        options_fail(command,
                     "--queue: expected at least twice --max-message, %ju "
                     "bytes, not %ju",
                     (uintmax_t)(2 * message), (uintmax_t)queue);
    out->message_bytes = (size_t)message;
    out->queue_bytes = (size_t)queue;
}

static void settle_ping(const struct command *command,
                        const struct given *given, struct settings *out)
{
    uint64_t ms = given->ping_ms;

    if (ms != 0 && ms < SHORTEST_PING_MS)
        options_fail(command, "--ping: expected 0 or at least 100ms, not %jums",
                     (uintmax_t)ms);
    out->ping_ms = (unsigned)ms;
    out->pong_ms = ms == 0 || ms / 2 > LONGEST_PONG_MS ? LONGEST_PONG_MS
                                                       : (unsigned)(ms / 2);
}

static void settle_tls(const struct command *command, struct settings *out)
{
    tls_options_settle(command, &out->tls);
    if (out->tls_watch_ms > 0 && out->tls.mode == NIB_TLS_OFF)
        options_fail(command, "--tls-watch: expected a --cert with it");
}

static void settle_address(const struct command *command, const char *word,
                           struct settings *out)
{
    const char *expected = address_parse(word, out->listen);

    if (expected)
        options_fail(command, "'%s': expected %s", word, expected);
}

static void settle(const struct command *command, const struct given *given,
                   const char *address, struct settings *out)
{
    check_path(command, given->path);
    settle_address(command, address, out);
    settle_sizes(command, given, out);
    settle_ping(command, given, out);
    settle_tls(command, out);
    out->path = given->path;
    out->reactors = (unsigned)given->threads;
    out->log_level = given->debug     ? NIB_LOG_DEBUG
                     : given->verbose ? NIB_LOG_INFO
                     : given->quiet   ? NIB_LOG_ERROR
                                      : NIB_LOG_WARN;
}

void settings_read(enum settings_command which, int argc, char **argv,
                   struct settings *out)
{
    struct given given = {.path = "/", .ping_ms = DEFAULT_PING_MS};
    const struct option_spec hub_specs[] = {
        {"path", 0, OPTION_TEXT, &given.path, 0, 0, "PATH",
         "where the hub and its page are (/)"},
    };
    const struct option_spec specs[] = {
        {"max-message", 0, OPTION_SIZE, &given.message_bytes, 125, GIB, "SIZE",
         "largest message; a larger one ends its connection\n"
         "with 1009 (1m, or half of --queue if that is less)"},
        {"queue", 0, OPTION_SIZE, &given.queue_bytes, KIB, 2 * GIB, "SIZE",
         "what may wait for one client that reads slowly\n"
         "(2m, or twice --max-message if that is more)"},
        {"threads", 0, OPTION_COUNT, &given.threads, 1, 256, "N",
         "threads that serve connections (one per CPU)"},
        {"ping", 0, OPTION_DURATION, &given.ping_ms, 0, LONGEST_PING_MS, "TIME",
         "how often silent clients are asked for a sign of\n"
         "life; 0: never (25s)"},
        {"verbose", 'v', OPTION_FLAG, &given.verbose, 0, 0, NULL,
         "log what happens, too, not only warnings"},
        {"quiet", 'q', OPTION_FLAG, &given.quiet, 0, 0, NULL,
         "log errors only"},
        {"debug", 0, OPTION_FLAG, &given.debug, 0, 0, NULL, "log everything"},
        {"tls-watch", 0, OPTION_SECONDS, &out->tls_watch_ms, 0,
         LONGEST_WATCH_MS, "SECONDS",
         "how often to look whether certificates or keys have\n"
         "changed, and read them again then (0: never)"},
    };
    struct command command = {
        .name = "nibd echo",
        .arguments = "[addr:]port",
        .summary = "Sends every message back to its sender, on any path.",
        .shared = OPTION_TABLE(specs),
        .tls = tls_options_init(&out->tls),
        .more_help = print_forms,
        .min_arguments = 1,
        .max_arguments = 1,
    };

    out->tls_watch_ms = 0;
    if (which == SETTINGS_HUB) {
        command.name = "nibd hub";
        command.summary =
            "A chat server: sends every message to all who are connected, "
            "also to its\nsender. A browser that opens the address gets a "
            "page to chat with.";
        command.own = (struct option_table)OPTION_TABLE(hub_specs);
    }
    settle(&command, &given, argv[options_parse(&command, argc, argv)], out);
}
