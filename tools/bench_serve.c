/*
 * bench-serve - a server for the other scenarios, made of nib.h alone.
 *
 * The main thread does nothing but wait for signals: SIGTERM and SIGINT stop
 * in order, a second one at once, SIGUSR1 prints the statistics.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "address.h"
#include "bench.h"
#include "nib.h"
#include "process.h"
#include "serve_paths.h"
#include "tls_options.h"
#include "units.h"

enum { GRACE_MS = 5000 };

struct serve {
    uint64_t threads, handlers, send_buffer, receive_buffer;
    uint64_t message_bytes, queue_bytes, ping_ms; /* UINT64_MAX: default */
    bool stats, verbose;
    struct tls_options tls;
    struct nib_config *config;
    struct nib_server *server;
};

/* ---- set-up ------------------------------------------------------------ */

static void log_line(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    fprintf(stderr, "nib-bench serve: %s\n", line);
}

static int set_limits(struct serve *s)
{
    struct nib_config *c = s->config;
    unsigned ping = (unsigned)s->ping_ms;
    unsigned wait = ping > 20000 ? 10000 : ping / 2; /* must be below it */
    uint64_t queue = s->queue_bytes;
    int result = nib_config_set_reactors(c, (unsigned)s->threads);

    if (result == 0)
        result =
            nib_config_set_handlers(c, (unsigned)s->handlers, 1024, 256 << 10);
    if (result == 0)
        result = nib_config_set_socket_buffers(c, (unsigned)s->send_buffer,
                                               (unsigned)s->receive_buffer);
    if (result == 0 && s->message_bytes != UINT64_MAX) {
        result = nib_config_set_message_bytes(c, (size_t)s->message_bytes);
        /* An outbox has to hold two. */
        if (queue == UINT64_MAX && s->message_bytes > 1 << 20)
            queue = 2 * s->message_bytes;
    }
    if (result == 0 && queue != UINT64_MAX)
        result = nib_config_set_outbox_bytes(c, (size_t)queue);
    if (result == 0 && s->ping_ms != UINT64_MAX)
        result = nib_config_set_ping(c, ping, wait);
    return result;
}

/* Makes and starts the server. Returns 0, or -1 when it has told why not. */
static int start(struct serve *s, const char *address)
{
    char text[512] = "";
    int result = nib_config_new(&s->config);

    if (result == 0)
        result = nib_config_set_log(s->config, log_line, NULL,
                                    s->verbose ? NIB_LOG_DEBUG : NIB_LOG_WARN);
    if (result == 0)
        result =
            tls_options_apply(&s->tls, s->config, address, text, sizeof(text));
    if (result == 0)
        result = set_limits(s);
    if (result == 0)
        result = serve_paths_add(s->config);
    if (result == 0)
        result = nib_server_new(s->config, &s->server);
    if (result < 0) {
        const char *why = *text       ? text
                          : s->config ? nib_config_error(s->config)
                                      : "";

        return bench_error("%s", *why ? why : nib_strerror(result));
    }
    result = nib_server_start(s->server);
    if (result < 0) {
        const char *why = nib_server_error(s->server);

        return bench_error("%s", *why ? why : nib_strerror(result));
    }
    return 0;
}

static int announce(struct serve *s)
{
    char address[ADDRESS_BYTES], url[ADDRESS_URL_BYTES];

    if (nib_server_address(s->server, 0, address, sizeof(address)) < 0)
        return -1;
    address_url(address, s->tls.mode != NIB_TLS_OFF, "/", url);
    printf("listening on %s\n", url);
    return fflush(stdout) == 0 ? 0 : bench_error("cannot write to stdout");
}

/* ---- statistics -------------------------------------------------------- */

static void print_stats(struct nib_server *server)
{
    struct nib_stats st;
    const struct {
        const char *key;
        const uint64_t *value;
    } all[] = {
        {"accepted", &st.accepted},
        {"refused", &st.refused},
        {"upgraded", &st.upgraded},
        {"rejected", &st.rejected},
        {"requests", &st.requests},
        {"messages_in", &st.messages_in},
        {"messages_out", &st.messages_out},
        {"published", &st.published},
        {"bytes_in", &st.bytes_in},
        {"bytes_out", &st.bytes_out},
        {"writes", &st.writes},
        {"reads", &st.reads},
        {"commands", &st.commands},
        {"wakes", &st.wakes},
        {"slow", &st.slow},
        {"tls_full", &st.tls_full},
        {"tls_resumed", &st.tls_resumed},
        {"tls_failed", &st.tls_failed},
        {"connections", &st.connections},
        {"tls", &st.tls},
        {"tls_handshakes", &st.tls_handshakes},
        {"handshakes", &st.handshakes},
        {"handlers", &st.handlers},
        {"handlers_queued", &st.handlers_queued},
        {"outbox_bytes", &st.outbox_bytes},
        {"topic_bytes", &st.topic_bytes},
    };

    nib_server_stats(server, &st);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        fprintf(stderr, "%s\"%s\": %ju", i ? ", " : "{", all[i].key,
                (uintmax_t)*all[i].value);
    fprintf(stderr, "}\n");
}

/* ---- running ----------------------------------------------------------- */

/* Stops in order. Returns the exit status: 1 if it had to be cut short. */
static int stop(struct serve *s, const sigset_t *signals)
{
    const struct timespec now = {0};
    int status = EXIT_SUCCESS, signal;

    nib_server_stop(s->server, GRACE_MS);
    while (nib_server_join(s->server, 100, NULL) != 0) {
        signal = sigtimedwait(signals, NULL, &now);
        if (signal == SIGUSR1)
            print_stats(s->server);
        if (signal == SIGTERM || signal == SIGINT) {
            nib_server_stop(s->server, 0);
            status = EXIT_FAILURE;
        }
    }
    return status;
}

static int run(struct serve *s, const char *address)
{
    sigset_t signals;
    int signal, status = EXIT_FAILURE;

    /* Before there are other threads, which then have it from here. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    if (start(s, address) == 0) {
        if (announce(s) == 0) {
            while (sigwait(&signals, &signal) == 0 && signal == SIGUSR1)
                print_stats(s->server);
            status = EXIT_SUCCESS;
        }
        if (stop(s, &signals) != EXIT_SUCCESS)
            status = EXIT_FAILURE;
        if (s->stats)
            print_stats(s->server);
    }
    nib_server_free(s->server);
    nib_config_free(s->config);
    return status;
}

static void explain(void)
{
    serve_paths_explain();
    printf("\nOne line on stdout says where it listens; port 0 takes a free "
           "one. SIGTERM and\nSIGINT stop it in order, a second one at once; "
           "SIGUSR1 prints the statistics as\none line of JSON on stderr.\n"
           "\nExit status: 0; 1 after a failure or a second signal; 2 after "
           "a usage error.\n");
}

int bench_serve(int argc, char **argv)
{
    struct serve s = {.handlers = 256,
                      .message_bytes = UINT64_MAX,
                      .queue_bytes = UINT64_MAX,
                      .ping_ms = UINT64_MAX};
    const struct option_spec specs[] = {
        {"threads", 't', OPTION_COUNT, &s.threads, 0, 256, "N",
         "reactor threads (default: one for each CPU)"},
        {"handlers", 0, OPTION_COUNT, &s.handlers, 1, 100000, "N",
         "blocking handlers at once (default 256)"},
        {"max-message", 0, OPTION_SIZE, &s.message_bytes, 125, 1 << 30, "SIZE",
         "largest message (default 1m)"},
        {"queue", 0, OPTION_SIZE, &s.queue_bytes, 1, INT64_MAX, "SIZE",
         "bytes that may wait on a connection (default 2m, or\n"
         "twice --max-message)"},
        {"ping", 0, OPTION_DURATION, &s.ping_ms, 0, 86400000, "DURATION",
         "ping after this time; 0: never (default 25s)"},
        {"sndbuf", 0, OPTION_SIZE, &s.send_buffer, 0, 1 << 30, "SIZE",
         "SO_SNDBUF of each connection (default: the system's)"},
        {"rcvbuf", 0, OPTION_SIZE, &s.receive_buffer, 0, 1 << 30, "SIZE",
         "SO_RCVBUF of each connection (default: the system's)"},
        {"stats", 0, OPTION_FLAG, &s.stats, 0, 0, NULL,
         "print the statistics at the end"},
        {"verbose", 'v', OPTION_FLAG, &s.verbose, 0, 0, NULL, "log everything"},
    };
    const struct command command = {
        .name = "nib-bench serve",
        .arguments = "[ADDR:]PORT",
        .summary = "A WebSocket server with the paths that the other "
                   "scenarios load.",
        .own = OPTION_TABLE(specs),
        .tls = tls_options_init(&s.tls),
        .more_help = explain,
        .min_arguments = 1,
        .max_arguments = 1,
    };
    char address[ADDRESS_BYTES];
    const char *expected;
    int first = options_parse(&command, argc, argv);

    expected = address_parse(argv[first], address);
    if (expected != NULL)
        options_fail(&command, "'%s': expected %s", argv[first], expected);
    tls_options_settle(&command, &s.tls);
    bench_prepare(&command);
    return run(&s, address);
}
