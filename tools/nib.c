/*
 * nib - a console client: lines in are messages out, and the reverse.
 *
 * One thread, one poll() over stdin and the socket, which is nonblocking: a
 * server that does not read holds up stdin, never the reading of what the
 * server sends. stdout is written with blocking calls; whoever reads it sets
 * the pace.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "options.h"
#include "process.h"
#include "protocol/handshake.h"
#include "target.h"

enum {
    EXIT_ABNORMAL = 1, /* no Close came, or no connection */
    EXIT_REFUSED = 3,  /* the server answered with another status than 101 */
    QUEUE_BYTES = 64 << 10, /* beyond this, stdin waits */
    CLOSE_WAIT_MS = 5000,   /* from our Close to the peer's */
    END_WAIT_MS = 2000,     /* from then to the end of the connection */
    MAX_HEADERS = 32,
};

/* A line that is not whole yet. */
struct line {
    char *data;
    size_t len, capacity;
};

struct session {
    struct client client;
    enum nib__opcode opcode; /* of what is sent */
    uint64_t limit;          /* messages to print before closing; 0: no limit */
    uint64_t received;       /* messages printed */
    uint64_t ping_ms;        /* 0: none */
    bool input_open;
    struct line line;
    uint64_t ping_ns;     /* when the next ping is due */
    bool heard;           /* something came since the last ping */
    uint64_t deadline_ns; /* of the closing; 0: not closing */
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "nib: %s%s%s\n", what, *why ? ": " : "", why);
    return -1;
}

static uint64_t in_ms(uint64_t ms)
{
    return process_clock_ns() + ms * 1000000;
}

/* Results of what may be tried again later are no faults. */
static int lost(struct session *s, int result)
{
    if (result >= 0 || result == -EAGAIN)
        return 0;
    return fail("connection lost", client_strerror(&s->client, result));
}

/* ---- closing ----------------------------------------------------------- */

static int begin_close(struct session *s)
{
    if (s->client.close_sent)
        return 0;
    s->deadline_ns = in_ms(CLOSE_WAIT_MS);
    return lost(s, client_close(&s->client, 1000));
}

static void report_close(const struct nib__event *event)
{
    char reason[NIB__REASON_MAX + 1];
    size_t n = event->len < NIB__REASON_MAX ? event->len : NIB__REASON_MAX;

    if (event->code == 1000 || event->code == 1005)
        return;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = event->data[i];

        reason[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
    reason[n] = '\0';
    fprintf(stderr, "nib: closed by the server: %u%s%s\n", event->code,
            n ? " " : "", reason);
}

/* ---- from the server --------------------------------------------------- */

static int print_message(struct session *s, const struct nib__event *event)
{
    const uint8_t *data = event->data;
    size_t len = event->len;

    if (s->limit > 0 && s->received == s->limit)
        return 0;
    if (event->msg)
        data = nib_message_data(event->msg, &len);
    if (fwrite(data, 1, len, stdout) != len || putchar('\n') == EOF)
        return fail("stdout", strerror(errno));
    s->received++;
    return s->received == s->limit ? begin_close(s) : 0;
}

/*
 * Takes what has come. Returns 1 when the connection is over, 0 when not, -1
 * after an error.
 */
static int take_input(struct session *s)
{
    struct nib__event event;
    int result;

    s->heard = true;
    while ((result = client_next(&s->client, &event)) > 0) {
        if (event.type == NIB__EVENT_MESSAGE && print_message(s, &event) != 0)
            return -1;
        if (event.type == NIB__EVENT_CLOSE) {
            report_close(&event);
            s->deadline_ns = in_ms(END_WAIT_MS);
        }
    }
    if (fflush(stdout) != 0)
        return fail("stdout", strerror(errno));
    if (result == -EAGAIN)
        return 0;
    if (s->client.close_received)
        return 1; /* by an end or a reset: nothing more was due */
    return lost(s, result == 0 ? -EPIPE : result);
}

/* ---- to the server ----------------------------------------------------- */

static int queue_line(struct session *s, const char *data, size_t len)
{
    if (s->client.close_sent)
        return 0;
    return client_queue(&s->client, s->opcode, data, len);
}

static int keep_rest(struct line *line, const char *data, size_t len)
{
    if (len > line->capacity - line->len) {
        size_t more = line->capacity * 2 + len;
        char *grown = realloc(line->data, more);

        if (!grown)
            return -ENOMEM;
        line->data = grown;
        line->capacity = more;
    }
    memcpy(line->data + line->len, data, len);
    line->len += len;
    return 0;
}

static int take_lines(struct session *s, const char *data, size_t n)
{
    const char *end;
    int result = 0;

    while (result == 0 && (end = memchr(data, '\n', n)) != NULL) {
        size_t len = (size_t)(end - data);

        if (s->line.len > 0) {
            result = keep_rest(&s->line, data, len);
            if (result == 0)
                result = queue_line(s, s->line.data, s->line.len);
            s->line.len = 0;
        } else {
            result = queue_line(s, data, len);
        }
        data += len + 1;
        n -= len + 1;
    }
    return result == 0 && n > 0 ? keep_rest(&s->line, data, n) : result;
}

/*
 * The end of stdin closes the connection, unless messages are still to be
 * waited for. A last line without its end is a message as well.
 */
static int end_input(struct session *s)
{
    int result = 0;

    s->input_open = false;
    if (s->line.len > 0)
        result = queue_line(s, s->line.data, s->line.len);
    if (result < 0)
        return lost(s, result);
    if (s->limit == 0 || s->received >= s->limit)
        return begin_close(s);
    return lost(s, client_flush(&s->client));
}

static int take_stdin(struct session *s)
{
    static char buffer[QUEUE_BYTES];
    ssize_t n = read(STDIN_FILENO, buffer, sizeof(buffer));
    int result;

    if (n < 0)
        return errno == EINTR || errno == EAGAIN
                   ? 0
                   : fail("stdin", strerror(errno));
    if (n == 0)
        return end_input(s);
    result = take_lines(s, buffer, (size_t)n);
    if (result == 0)
        result = client_flush(&s->client);
    return lost(s, result);
}

/* ---- time -------------------------------------------------------------- */

static int wait_ms(const struct session *s)
{
    uint64_t now = process_clock_ns(), due = UINT64_MAX;

    if (s->ping_ms > 0)
        due = s->ping_ns;
    if (s->deadline_ns > 0 && s->deadline_ns < due)
        due = s->deadline_ns;
    if (due == UINT64_MAX)
        return -1;
    return due <= now ? 0 : (int)((due - now) / 1000000 + 1);
}

/* Returns 1 when the connection is over, -1 after an error. */
static int take_time(struct session *s)
{
    uint64_t now = process_clock_ns();

    if (s->deadline_ns > 0 && now >= s->deadline_ns)
        return s->client.close_received
                   ? 1
                   : fail("the server did not answer the Close", "");
    if (s->ping_ms == 0 || now < s->ping_ns || s->client.close_sent)
        return 0;
    if (!s->heard)
        return fail("the server did not answer a ping", "");
    s->heard = false;
    s->ping_ns = now + s->ping_ms * 1000000;
    return lost(s, client_send(&s->client, NIB__PING, "nib", 3));
}

/* ---- all together ------------------------------------------------------ */

static int turn(struct session *s)
{
    bool writable = client_waiting(&s->client) > 0;
    struct pollfd p[2] = {
        {s->client.fd, (short)(POLLIN | (writable ? POLLOUT : 0)), 0},
        {s->input_open && client_waiting(&s->client) < QUEUE_BYTES
             ? STDIN_FILENO
             : -1,
         POLLIN, 0},
    };
    int result = 0;

    if (poll(p, 2, wait_ms(s)) < 0)
        return errno == EINTR ? 0 : fail("poll", strerror(errno));
    if (p[0].revents & POLLOUT)
        result = lost(s, client_flush(&s->client));
    if (result == 0 && p[0].revents & ~POLLOUT)
        result = take_input(s);
    if (result == 0 && p[1].revents)
        result = take_stdin(s);
    if (result == 0)
        result = take_time(s);
    return result;
}

static int talk(struct session *s)
{
    int result = client_set_nonblocking(&s->client);

    if (result < 0)
        return lost(s, result);
    s->input_open = true;
    s->heard = true;
    s->ping_ns = in_ms(s->ping_ms);
    /* A server may have spoken right behind its 101. */
    result = take_input(s);
    while (result == 0)
        result = turn(s);
    return result;
}

static int open_session(struct session *s, struct target *target)
{
    int result;

    client_init(&s->client, -1);
    result = client_open(&s->client, target);
    if (result == 0)
        return EXIT_SUCCESS;
    if (s->client.answer.status != 0 && s->client.answer.status != 101) {
        fprintf(stderr, "nib: refused: %d %s\n", s->client.answer.status,
                s->client.answer.reason);
        return EXIT_REFUSED;
    }
    fail("no connection", client_strerror(&s->client, result));
    return EXIT_ABNORMAL;
}

/* ---- options ----------------------------------------------------------- */

/* Takes "NAME: VALUE" apart, in place of what the shell gave. */
static void take_header(const struct command *command, const char *text,
                        struct nib_header *out)
{
    char *copy = strdup(text);
    char *colon = copy ? strchr(copy, ':') : NULL;

    if (!colon)
        options_fail(command, "--header: '%s' is not 'NAME: VALUE'", text);
    *colon = '\0';
    out->name = copy;
    out->value = colon + 1 + strspn(colon + 1, " \t");
    if (!nib__header_valid(out))
        options_fail(command,
                     "--header: '%s' cannot be sent, or is one that nib "
                     "writes itself",
                     text);
}

static void set_target(const struct command *command, struct target *target,
                       const char *address, const struct option_list *lines,
                       struct target_options *options)
{
    static struct nib_header headers[MAX_HEADERS]; /* until the end */
    int result;

    for (size_t i = 0; i < lines->count; i++)
        take_header(command, lines->items[i], &headers[i]);
    options->headers = headers;
    options->header_count = lines->count;
    result = target_init(target, address, options);
    for (size_t i = 0; i < lines->count; i++)
        free((void *)(uintptr_t)headers[i].name);
    if (result == -EINVAL || result == -ENAMETOOLONG ||
        result == -EPROTONOSUPPORT)
        options_fail(command, "%s", target->error);
    if (result < 0) {
        fail("no connection", target->error);
        exit(EXIT_ABNORMAL);
    }
}

static void explain(void)
{
    printf("\nThe end of stdin closes the connection with 1000; with -n, not "
           "before N messages\nhave come.\n"
           "\nExit status:\n"
           "  0  both sides sent their Close\n"
           "  1  the connection failed, or ended without a Close\n"
           "  2  usage error\n"
           "  3  the server refused the upgrade; its status is on stderr\n");
}

int main(int argc, char **argv)
{
    static struct session s = {.opcode = NIB__TEXT};
    struct target_options options = {.timeout_ms = 10000};
    struct option_list lines = {0};
    bool text = false, binary = false;
    const struct option_spec specs[] = {
        {"text", 't', OPTION_FLAG, &text, 0, 0, NULL,
         "send text messages (default)"},
        {"binary", 'b', OPTION_FLAG, &binary, 0, 0, NULL,
         "send binary messages"},
        {"header", 'H', OPTION_LIST, &lines, 0, 0, "'NAME: VALUE'",
         "send this header with the request; may be repeated"},
        {"subprotocol", 's', OPTION_TEXT, &options.subprotocols, 0, 0, "LIST",
         "offer these subprotocols, \"a, b\""},
        {"ping", 'p', OPTION_DURATION, &s.ping_ms, 0, 86400000, "DURATION",
         "ping so often, and give up without an answer to one\n"
         "by the next (default 0: never)"},
        {"count", 'n', OPTION_COUNT, &s.limit, 1, UINT64_MAX, "N",
         "close after N messages"},
        {"timeout", 0, OPTION_DURATION, &options.timeout_ms, 1, 86400000,
         "DURATION", "of the connection's opening (default 10s)"},
        {"ca", 0, OPTION_TEXT, &options.secure.ca, 0, 0, "FILE",
         "for wss://: trust the certificates of this PEM file\n"
         "(default: those that the system trusts)"},
        {"insecure", 0, OPTION_FLAG, &options.secure.insecure, 0, 0, NULL,
         "take any certificate"},
    };
    const struct command command = {
        .name = "nib",
        .arguments = "URL",
        .summary = "Sends each line of stdin as a message, and prints each "
                   "message as a line.",
        .own = OPTION_TABLE(specs),
        .more_help = explain,
        .min_arguments = 1,
        .max_arguments = 1,
    };
    int first = options_parse(&command, argc, argv), status;
    struct target target;

    if (text && binary)
        options_fail(&command, "--text and --binary: one of them");
    if (binary)
        s.opcode = NIB__BINARY;
    set_target(&command, &target, argv[first], &lines, &options);
    status = open_session(&s, &target);
    if (status == EXIT_SUCCESS && talk(&s) < 0)
        status = EXIT_ABNORMAL;
    free(s.line.data);
    client_free(&s.client);
    target_free(&target);
    return status;
}
