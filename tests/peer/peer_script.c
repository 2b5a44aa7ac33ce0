/*
 * peer_script - the scripted peer as a program: one command a line on stdin.
 *
 *   peer_script HOST:PORT|unix:PATH < SCRIPT
 *
 *   send TEXT      bytes, with \r \n \\ and \xHH
 *   hex DIGITS     bytes
 *   frame FIRST TEXT   a masked frame; FIRST in hexadecimal
 *   expect TEXT    exactly these bytes come next
 *   expect-hex DIGITS
 *   close CODE [REASON]          sends a Close; 0: without a code
 *   expect-close CODE [REASON]
 *   upgrade PATH   asks and expects the 101
 *   end            nothing but the end of the stream comes
 *   expect-reset   nothing but a reset comes
 *   half-close     says its last byte
 *   reset          RST, and ends the script
 *
 * Exit status 0 if everything came as expected, else 1 with a line on stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

static unsigned line_number;

void peer_failed(const char *text)
{
    fprintf(stderr, "peer_script: line %u: %s\n", line_number, text);
    exit(1);
}

/* Resolves the escapes in place; returns the length. */
static size_t unescape(char *text)
{
    char *to = text;

    for (char *from = text; *from != '\0'; from++) {
        unsigned value;

        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        switch (*++from) {
        case 'r':
            *to++ = '\r';
            break;
        case 'n':
            *to++ = '\n';
            break;
        case '\\':
            *to++ = '\\';
            break;
        case 'x':
            if (sscanf(from + 1, "%2x", &value) == 1 && from[2] != '\0') {
                *to++ = (char)value;
                from += 2;
                break;
            }
            peer_failed("\\x without two digits");
        default:
            peer_failed("an escape that is not known");
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

/* "CODE [REASON]" */
static void closing(struct peer *p, char *rest,
                    void (*act)(struct peer *, unsigned, const char *))
{
    char *reason;
    unsigned long code = strtoul(rest, &reason, 10);

    act(p, (unsigned)code, reason + (*reason == ' '));
}

static void frame(struct peer *p, char *rest)
{
    char *payload;
    unsigned long first = strtoul(rest, &payload, 16);

    payload += *payload == ' ';
    peer_send_frame(p, (uint8_t)first, payload, unescape(payload));
}

/* Does one command; false after the last. */
static bool step(struct peer *p, const char *word, char *rest)
{
    if (strcmp(word, "send") == 0)
        peer_send(p, rest, unescape(rest));
    else if (strcmp(word, "hex") == 0)
        peer_send_hex(p, rest);
    else if (strcmp(word, "frame") == 0)
        frame(p, rest);
    else if (strcmp(word, "expect") == 0)
        peer_expect(p, rest, unescape(rest));
    else if (strcmp(word, "expect-hex") == 0)
        peer_expect_hex(p, rest);
    else if (strcmp(word, "close") == 0)
        closing(p, rest, peer_send_close);
    else if (strcmp(word, "expect-close") == 0)
        closing(p, rest, peer_expect_close);
    else if (strcmp(word, "upgrade") == 0)
        peer_upgrade(p, rest);
    else if (strcmp(word, "end") == 0)
        peer_expect_end(p);
    else if (strcmp(word, "expect-reset") == 0)
        peer_expect_reset(p);
    else if (strcmp(word, "half-close") == 0)
        peer_half_close(p);
    else if (strcmp(word, "reset") == 0)
        return false;
    else
        peer_failed("a command that is not known");
    return true;
}

int main(int argc, char **argv)
{
    static char line[1 << 16];
    struct peer *p;
    bool more = true;

    if (argc != 2) {
        fprintf(stderr, "usage: peer_script HOST:PORT < SCRIPT\n");
        return 2;
    }
    p = peer_connect(argv[1], 0);
    while (more && fgets(line, sizeof line, stdin) != NULL) {
        char *rest;

        line_number++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        rest = line + strcspn(line, " ");
        if (*rest != '\0')
            *rest++ = '\0';
        more = step(p, line, rest);
    }
    if (more)
        peer_free(p);
    else
        peer_reset(p);
    return 0;
}
