/*
 * upgrade - the client's half of the opening handshake (RFC 6455, 4.1).
 */
#include "upgrade.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "protocol/handshake.h"

/* ---- the request ------------------------------------------------------- */

static const char *host_of(const struct url *url,
                           const struct nib_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(headers[i].name, "Host") == 0)
            return headers[i].value;
    }
    return url->authority;
}

static void write_request(FILE *f, const struct url *url, const char *key,
                          const char *subprotocols,
                          const struct nib_header *headers, size_t count)
{
    fprintf(f,
            "GET %s HTTP/1.1\r\n"
            "Host: %s\r\n"
            "Upgrade: websocket\r\n"
            "Connection: Upgrade\r\n"
            "Sec-WebSocket-Key: %s\r\n"
            "Sec-WebSocket-Version: 13\r\n",
            url->target, host_of(url, headers, count), key);
    if (subprotocols)
        fprintf(f, "Sec-WebSocket-Protocol: %s\r\n", subprotocols);
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(headers[i].name, "Host") != 0)
            fprintf(f, "%s: %s\r\n", headers[i].name, headers[i].value);
    }
    fputs("\r\n", f);
}

int upgrade_init(struct upgrade *u, const struct url *url,
                 const char *subprotocols, const struct nib_header *headers,
                 size_t count)
{
    uint8_t nonce[16];
    char key[25];
    FILE *f;

    *u = (struct upgrade){.subprotocols = subprotocols};
    if (subprotocols && !nib__token_list_valid(subprotocols))
        return -EINVAL;
    if (getrandom(nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce))
        return -errno;
    nib__base64(nonce, sizeof(nonce), key);
    nib__accept_key(key, strlen(key), u->accept);

    f = open_memstream(&u->request, &u->request_len);
    if (!f)
        return -ENOMEM;
    write_request(f, url, key, subprotocols, headers, count);
    if (fclose(f) != 0) {
        upgrade_free(u);
        return -ENOMEM;
    }
    return 0;
}

void upgrade_free(struct upgrade *u)
{
    free(u->request);
    u->request = NULL;
}

/* ---- the answer -------------------------------------------------------- */

struct line {
    const char *name, *value; /* not terminated; no white space around */
    size_t name_len, value_len;
};

/* What the lines of a 101 have to say, found so far. */
struct findings {
    unsigned upgrades, connections, accepts;
    bool accept_right, extension, protocol_wrong;
};

/*
 * Takes the next line off *p, which ends with CR LF before `end`. False for
 * the empty line, or none.
 */
static bool next_line(const char **p, const char *end, struct line *out)
{
    const char *start = *p;
    const char *stop = memmem(start, (size_t)(end - start), "\r\n", 2);
    const char *colon;

    if (!stop || stop == start)
        return false;
    *p = stop + 2;
    colon = memchr(start, ':', (size_t)(stop - start));
    if (!colon)
        colon = stop;
    out->name = start;
    out->name_len = (size_t)(colon - start);
    out->value = colon < stop ? colon + 1 : stop;
    while (out->value < stop && (*out->value == ' ' || *out->value == '\t'))
        out->value++;
    while (stop > out->value && (stop[-1] == ' ' || stop[-1] == '\t'))
        stop--;
    out->value_len = (size_t)(stop - out->value);
    return true;
}

static bool text_is(const char *text, size_t len, const char *wanted)
{
    return len == strlen(wanted) && strncasecmp(text, wanted, len) == 0;
}

/* Is `token` in the comma-separated list text[0..len), without case? */
static bool list_has(const char *text, size_t len, const char *token)
{
    const char *end = text + len;

    while (text < end) {
        size_t span = strcspn(text, ",\r");
        const char *stop = text + span;
        const char *next = stop + 1;

        while (text < stop && (*text == ' ' || *text == '\t'))
            text++;
        while (stop > text && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (text_is(text, (size_t)(stop - text), token))
            return true;
        text = next;
    }
    return false;
}

static void look_at(const struct upgrade *u, const struct line *line,
                    struct upgrade_answer *answer, struct findings *found)
{
    const char *name = line->name, *value = line->value;
    size_t len = line->value_len;

    if (text_is(name, line->name_len, "Upgrade")) {
        found->upgrades += list_has(value, len, "websocket");
    } else if (text_is(name, line->name_len, "Connection")) {
        found->connections += list_has(value, len, "Upgrade");
    } else if (text_is(name, line->name_len, "Sec-WebSocket-Accept")) {
        found->accepts++;
        found->accept_right =
            len == strlen(u->accept) && memcmp(value, u->accept, len) == 0;
    } else if (text_is(name, line->name_len, "Sec-WebSocket-Extensions")) {
        found->extension = len > 0;
    } else if (text_is(name, line->name_len, "Sec-WebSocket-Protocol")) {
        if (!u->subprotocols || *answer->subprotocol ||
            len >= sizeof(answer->subprotocol) ||
            !nib__token_list_has(u->subprotocols, value, len))
            found->protocol_wrong = true;
        else
            memcpy(answer->subprotocol, value, len);
    }
}

/* "HTTP/1.1 101 Switching Protocols". */
static bool parse_status(const struct line *line, struct upgrade_answer *out)
{
    const char *text = line->name;
    /* A colon in the phrase would have been taken for a header's. */
    size_t len = (size_t)(line->value + line->value_len - text);
    size_t n = 0;
    int status = 0;

    if (len < 12 || memcmp(text, "HTTP/1.", 7) != 0 || text[8] != ' ')
        return false;
    for (int i = 9; i < 12; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        status = status * 10 + (text[i] - '0');
    }
    out->status = status;
    for (size_t i = 13; i < len && n + 1 < sizeof(out->reason); i++)
        out->reason[n++] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
    return true;
}

static const char *judge(const struct findings *found)
{
    if (!found->upgrades)
        return "the answer lacks Upgrade: websocket";
    if (!found->connections)
        return "the answer lacks Connection: Upgrade";
    if (found->accepts != 1 || !found->accept_right)
        return "the answer's Sec-WebSocket-Accept is missing or wrong";
    if (found->extension)
        return "the answer has an extension that was not offered";
    if (found->protocol_wrong)
        return "the answer has a subprotocol that was not offered";
    return NULL;
}

int upgrade_check(const struct upgrade *u, const char *head, size_t len,
                  struct upgrade_answer *out, const char **wrong)
{
    struct findings found = {0};
    const char *end = head + len;
    struct line line;

    *out = (struct upgrade_answer){0};
    if (!next_line(&head, end, &line) || !parse_status(&line, out)) {
        *wrong = "the answer is not HTTP/1.1";
        return -EPROTO;
    }
    if (out->status != 101) {
        *wrong = "the upgrade was refused";
        return -EPROTO;
    }
    while (next_line(&head, end, &line))
        look_at(u, &line, out, &found);
    *wrong = judge(&found);
    return *wrong ? -EPROTO : 0;
}
