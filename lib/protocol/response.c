/*
 * response - the text of HTTP/1.1 answers.
 */
#include "protocol/response.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "protocol/tokens.h"

/* RFC 9110, 15, and the registry's later ones that servers use. */
static const struct {
    int status;
    const char *phrase;
} phrases[] = {
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {305, "Use Proxy"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {511, "Network Authentication Required"},
};

const char *nib__status_phrase(int status)
{
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (phrases[i].status == status)
            return phrases[i].phrase;
    }
    return "";
}

bool nib__header_valid(const struct nib_header *header)
{
    static const char *const ours[] = {
        "Connection", "Upgrade", "Content-Length", "Transfer-Encoding",
    };
    static const char prefix[] = "Sec-WebSocket-";
    size_t len;

    if (!header->name || !header->value)
        return false;
    len = strlen(header->name);
    if (!nib__token_valid(header->name, len))
        return false;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (nib__same_word(header->name, len, ours[i]))
            return false;
    }
    if (len >= sizeof(prefix) - 1 &&
        nib__same_word(header->name, sizeof(prefix) - 1, prefix))
        return false;
    return nib__field_valid(header->value, strlen(header->value));
}

/* Text that is written as far as it fits, and counted as a whole. */
struct writer {
    char *out;
    size_t cap;
    size_t len;
};

static void put(struct writer *w, const char *text)
{
    size_t len = strlen(text);

    if (w->len < w->cap) {
        size_t room = w->cap - w->len;

        memcpy(w->out + w->len, text, len < room ? len : room);
    }
    w->len += len;
}

static void put_line(struct writer *w, const char *name, const char *value)
{
    put(w, name);
    put(w, ": ");
    put(w, value);
    put(w, "\r\n");
}

static void put_lines(struct writer *w, const struct nib_header *headers,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_line(w, headers[i].name, headers[i].value);
}

/* Terminates what was written, as snprintf() does. Returns the length. */
static size_t finish(struct writer *w)
{
    if (w->cap > 0)
        w->out[w->len < w->cap ? w->len : w->cap - 1] = '\0';
    return w->len;
}

size_t nib__write_101(char *out, size_t cap, const char *key,
                      const char *subprotocol,
                      const struct nib_header *headers, size_t count)
{
    struct writer w = {out, cap, 0};
    char accept[NIB__ACCEPT_KEY_BYTES];

    nib__accept_key(key, strlen(key), accept);
    put(&w, "HTTP/1.1 101 Switching Protocols\r\n"
            "Upgrade: websocket\r\n"
            "Connection: Upgrade\r\n");
    put_line(&w, "Sec-WebSocket-Accept", accept);
    if (subprotocol)
        put_line(&w, "Sec-WebSocket-Protocol", subprotocol);
    put_lines(&w, headers, count);
    put(&w, "\r\n");
    return finish(&w);
}

static bool names(const struct nib_header *headers, size_t count,
                  const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (nib__same_word(headers[i].name, strlen(headers[i].name), name))
            return true;
    }
    return false;
}

/* Answers that never have a body say nothing about its length. */
static bool has_length(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

size_t nib__write_response(char *out, size_t cap, int status,
                           const struct nib_header *headers, size_t count,
                           const char *extra, uint64_t content_length,
                           bool keep)
{
    struct writer w = {out, cap, 0};
    char number[24];

    snprintf(number, sizeof(number), "%d ", status);
    put(&w, "HTTP/1.1 ");
    put(&w, number);
    put(&w, nib__status_phrase(status));
    put(&w, "\r\n");
    put_lines(&w, headers, count);
    put(&w, extra);
    if (has_length(status)) {
        if (content_length > 0 && !names(headers, count, "Content-Type"))
            put_line(&w, "Content-Type", "text/plain; charset=utf-8");
        snprintf(number, sizeof(number), "%" PRIu64, content_length);
        put_line(&w, "Content-Length", number);
    }
    put_line(&w, "Connection", keep ? "keep-alive" : "close");
    put(&w, "\r\n");
    return finish(&w);
}
