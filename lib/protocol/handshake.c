/*
 * handshake - HTTP/1.1 heads: collected, parsed and judged.
 *
 * Three steps. Lines are collected in one buffer and each is checked by
 * itself when its LF has come, so an outcome never depends on the pieces.
 * The empty line ends the head: http-parser goes over the whole and finds
 * the fields. Then the strings are terminated in place, and the rules that
 * need more than one line are applied. Pointers into the buffer exist only
 * from the second step on, when it no longer grows.
 */
#include "protocol/handshake.h"

#include <assert.h>
#include <errno.h>
#include <http_parser.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"

enum {
    FIRST_BYTES = 512,      /* the buffer's first size; most heads fit */
    BLANKS_MAX = 4,         /* empty lines before a request line */
    KEY_BYTES = 16,         /* behind Sec-WebSocket-Key (RFC 6455, 4.1) */
    LENGTH_DIGITS = 18,     /* of a Content-Length; any such fits 64 bits */
    PARSE_BYTES = 16 * 1024 /* see parse() */
};

#define WRONG_VERSION                                                        \
    "Connection: Upgrade\r\n"                                                \
    "Upgrade: websocket\r\n"                                                 \
    "Sec-WebSocket-Version: 13\r\n"

void nib__head_init(struct nib__head *h, size_t limit_bytes,
                    unsigned limit_lines)
{
    memset(h, 0, sizeof(*h));
    h->limit_bytes = limit_bytes;
    h->limit_lines = limit_lines;
    h->method = h->path = h->query = "";
}

void nib__head_free(struct nib__head *h)
{
    nib__free(h->bytes);
    nib__free(h->lines);
    nib__head_init(h, h->limit_bytes, h->limit_lines);
}

static int refuse_with(struct nib__refusal *why, int status, const char *text,
                       const char *headers)
{
    *why = (struct nib__refusal){status, text, headers};
    return -EPROTO;
}

static int refuse(struct nib__refusal *why, int status, const char *text)
{
    return refuse_with(why, status, text, "");
}

/* ---- lines, as they come ----------------------------------------------- */

/* Makes room for n more bytes; the caller has checked the limit. */
static int reserve(struct nib__head *h, size_t n)
{
    size_t capacity = h->capacity ? h->capacity : FIRST_BYTES;
    char *bytes;

    if (n <= h->capacity - h->len)
        return 0;
    while (capacity - h->len < n)
        capacity *= 2;
    bytes = nib__realloc(h->bytes, capacity);
    if (!bytes)
        return -ENOMEM;
    h->bytes = bytes;
    h->capacity = capacity;
    return 0;
}

/* Is what there is of the request line too long, its CR LF not counted? */
static bool request_line_too_long(const struct nib__head *h)
{
    size_t len = h->len;

    if (len > 0 && h->bytes[len - 1] == '\n')
        len--;
    if (len > 0 && h->bytes[len - 1] == '\r')
        len--;
    return len > h->limit_bytes / 2;
}

/*
 * Appends the piece p[0..n), which has an LF at most as its last byte, if
 * the limits allow it.
 */
static int collect(struct nib__head *h, const char *p, size_t n,
                   struct nib__refusal *why)
{
    bool first = h->line_ends == 0;
    int result;

    /* TLS and the like are told from HTTP by their first byte. */
    if (first && h->len == 0 && *p != '\r' && !nib__token_valid(p, 1))
        return refuse(why, 400, "not an HTTP request");
    if (n > h->limit_bytes - h->len)
        return first ? refuse(why, 414, "request line too long")
                     : refuse(why, 431, "request head too large");
    result = reserve(h, n);
    if (result < 0)
        return result;
    memcpy(h->bytes + h->len, p, n);
    h->len += n;
    if (first && request_line_too_long(h))
        return refuse(why, 414, "request line too long");
    return 0;
}

/* Method, one space, target, one space, version (RFC 9112, 3). */
static int check_request_line(struct nib__head *h, const char *line,
                              size_t len, struct nib__refusal *why)
{
    const char *end = line + len;
    const char *target = line + nib__token_span(line, len) + 1;
    const char *version;

    if (target >= end || target[-1] != ' ')
        return refuse(why, 400, "malformed request line");
    version = target;
    while (version < end && *version > ' ' && *version < 0x7F) {
        if (*version++ == '#')
            return refuse(why, 400, "fragment in the request's target");
    }
    if (version == target || version == end || *version != ' ')
        return refuse(why, 400, "malformed request line");
    version++;
    if (end - version != 8 || memcmp(version, "HTTP/", 5) != 0 ||
        version[5] < '0' || version[5] > '9' || version[6] != '.' ||
        version[7] < '0' || version[7] > '9')
        return refuse(why, 400, "malformed HTTP version");
    if (version[5] != '1' || version[7] > '1')
        return refuse(why, 505, "HTTP version not supported");
    h->http_1_0 = version[7] == '0';
    return 0;
}

/* Name, colon, value (RFC 9112, 5). */
static int check_header_line(const char *line, size_t len,
                             struct nib__refusal *why)
{
    size_t name = nib__token_span(line, len);

    if (line[0] == ' ' || line[0] == '\t')
        return refuse(why, 400, "folded header line");
    if (name < len && name > 0 && (line[name] == ' ' || line[name] == '\t'))
        return refuse(why, 400, "white space in a header's name");
    if (name == 0 || name == len || line[name] != ':')
        return refuse(why, 400, "malformed header line");
    if (!nib__field_valid(line + name, len - name))
        return refuse(why, 400, "control byte in a header");
    return 0;
}

static int finish(struct nib__head *h, struct nib__refusal *why);

/* The LF of a line was collected. Returns 1 if the head is whole. */
static int end_line(struct nib__head *h, struct nib__refusal *why)
{
    const char *line = h->bytes + h->line_start;
    size_t len = h->len - h->line_start - 1;
    int result;

    if (len == 0 || line[len - 1] != '\r')
        return refuse(why, 400, "line that ends in a bare LF");
    len--;
    if (h->line_ends == 0 && len == 0) {
        h->len = 0;
        return ++h->blanks > BLANKS_MAX
                   ? refuse(why, 400, "empty lines instead of a request")
                   : 0;
    }
    if (len == 0)
        return finish(h, why);
    if (h->line_ends == 0)
        result = check_request_line(h, line, len, why);
    else if (h->line_ends > h->limit_lines)
        result = refuse(why, 431, "too many header lines");
    else
        result = check_header_line(line, len, why);
    h->line_start = h->len;
    h->line_ends++;
    return result;
}

int nib__head_feed(struct nib__head *h, const void *p, size_t n, size_t *used,
                   struct nib__refusal *why)
{
    const char *bytes = p;
    size_t at = 0;
    int result = 0;

    assert(!h->lines);
    while (at < n && result == 0) {
        const char *lf = memchr(bytes + at, '\n', n - at);
        size_t piece = lf ? (size_t)(lf - bytes) + 1 - at : n - at;

        result = collect(h, bytes + at, piece, why);
        at += piece;
        if (result == 0 && lf)
            result = end_line(h, why);
    }
    *used = at;
    return result;
}

/* ---- http-parser ------------------------------------------------------- */

/*
 * What its callbacks fill: only names, as a value follows its name in the
 * buffer. A name may come in pieces.
 */
struct fields {
    struct nib__head *head;
    bool in_name;
};

static int on_header_field(http_parser *parser, const char *at, size_t len)
{
    struct fields *f = parser->data;
    struct nib__head *h = f->head;

    (void)len;
    if (!f->in_name) {
        /* Its idea of a line must be ours: one was made for each. */
        if (h->line_count == h->line_ends - 1)
            return 1;
        h->lines[h->line_count++].name = at;
    }
    f->in_name = true;
    return 0;
}

static int on_header_value(http_parser *parser, const char *at, size_t len)
{
    struct fields *f = parser->data;

    (void)at;
    (void)len;
    f->in_name = false;
    return 0;
}

static int refuse_parsed(enum http_errno error, struct nib__refusal *why)
{
    switch (error) {
    case HPE_INVALID_METHOD:
        return refuse(why, 501, "unknown method");
    case HPE_INVALID_VERSION:
        return refuse(why, 505, "HTTP version not supported");
    case HPE_HEADER_OVERFLOW:
        return refuse(why, 431, "request head too large");
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return refuse(why, 400, "Content-Length given twice, or with "
                                "Transfer-Encoding");
    case HPE_INVALID_TRANSFER_ENCODING:
        return refuse(why, 400, "Transfer-Encoding that is not chunked");
    default:
        return refuse(why, 400, http_errno_description(error));
    }
}

/*
 * Runs http-parser over the head and finds the names of h->lines. The limit
 * of a head is ours, not the one that http-parser keeps for the whole
 * process: its count starts anew with each piece.
 */
static int parse(struct nib__head *h, struct nib__refusal *why)
{
    struct fields fields = {.head = h};
    http_parser_settings settings;
    http_parser parser;

    http_parser_settings_init(&settings);
    settings.on_header_field = on_header_field;
    settings.on_header_value = on_header_value;
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &fields;
    for (size_t at = 0; at < h->len;) {
        size_t n = h->len - at < PARSE_BYTES ? h->len - at : PARSE_BYTES;
        size_t done = http_parser_execute(&parser, &settings, h->bytes + at,
                                          n);

        if (HTTP_PARSER_ERRNO(&parser) != HPE_OK)
            return refuse_parsed(HTTP_PARSER_ERRNO(&parser), why);
        if (done != n)
            return refuse(why, 400, "malformed request");
        parser.nread = 0;
        at += n;
    }
    if (h->line_count != h->line_ends - 1)
        return refuse(why, 400, "malformed header line");
    return 0;
}

/* ---- strings ----------------------------------------------------------- */

/* Ends the text before `end`, without the white space there. */
static void terminate(char *start, char *end)
{
    while (end > start && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
}

/* The byte c of the buffer that comes next after p; it is known to come. */
static char *next(struct nib__head *h, const char *p, char c)
{
    size_t at = (size_t)(p - h->bytes);

    return memchr(h->bytes + at, c, h->len - at);
}

static void terminate_lines(struct nib__head *h)
{
    for (unsigned i = 0; i < h->line_count; i++) {
        struct nib__head_line *line = &h->lines[i];
        char *colon = next(h, line->name, ':');
        char *value = colon + 1 + strspn(colon + 1, " \t");

        *colon = '\0';
        line->value = value;
        terminate(value, next(h, value, '\r'));
    }
}

/*
 * The path of a target: itself, or what follows the host of a whole URI,
 * which clients send to proxies and servers must accept (RFC 9112, 3.2.2).
 * NULL for other forms.
 */
static const char *path_of(const char *target)
{
    static const char *const schemes[] = {"http", "https", "ws", "wss"};
    size_t scheme = strcspn(target, ":/?");

    if (target[0] == '/')
        return target;
    if (strncmp(target + scheme, "://", 3) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const char *host = target + scheme + 3;
        size_t len = strcspn(host, "/?");

        if (!nib__same_word(target, scheme, schemes[i]))
            continue;
        return len > 0 && !memchr(host, '@', len) ? host + len : NULL;
    }
    return NULL;
}

/* Takes the request line apart: h->method, h->path, h->query. */
static int split_request_line(struct nib__head *h, struct nib__refusal *why)
{
    char *space = next(h, h->bytes, ' ');
    char *target = space + 1;
    const char *path;
    char *query;

    *space = '\0';
    *next(h, target, ' ') = '\0';
    path = path_of(target);
    if (!path)
        return refuse(why, 400, "target that is no path");
    h->method = h->bytes;
    query = strchr(path, '?');
    if (query) {
        *query = '\0';
        h->query = query + 1;
    }
    h->path = *path ? path : "/";
    return 0;
}

/* ---- what was asked ---------------------------------------------------- */

/* The value of the next line of this name from line number *at on, or NULL. */
static const char *next_value(const struct nib__head *h, const char *name,
                              unsigned *at)
{
    while (*at < h->line_count) {
        const struct nib__head_line *line = &h->lines[(*at)++];

        if (nib__same_word(line->name, strlen(line->name), name))
            return line->value;
    }
    return NULL;
}

const char *nib__head_value(const struct nib__head *h, const char *name,
                            unsigned number)
{
    unsigned at = 0;
    const char *value;

    do {
        value = next_value(h, name, &at);
    } while (value && number-- > 0);
    return value;
}

size_t nib__head_token(const struct nib__head *h, const char *name,
                       unsigned number, const char **token)
{
    unsigned at = 0;
    const char *list;

    while ((list = next_value(h, name, &at))) {
        size_t len;

        while ((len = nib__list_next(&list, token)) > 0) {
            if (number-- == 0)
                return len;
        }
    }
    return 0;
}

bool nib__head_has_token(const struct nib__head *h, const char *name,
                         const char *token)
{
    unsigned at = 0;
    const char *element;
    const char *list;

    while ((list = next_value(h, name, &at))) {
        size_t len;

        while ((len = nib__list_next(&list, &element)) > 0) {
            if (nib__same_word(element, len, token))
                return true;
        }
    }
    return false;
}

static bool has(const struct nib__head *h, const char *name)
{
    return nib__head_value(h, name, 0) != NULL;
}

static int check_host(const struct nib__head *h, struct nib__refusal *why)
{
    /* What the host and port of a URI may hold (RFC 3986, 3.2). */
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._~!$&'()*+,;=:[]%";
    const char *host = nib__head_value(h, "Host", 0);

    if (!host)
        return h->http_1_0 ? 0 : refuse(why, 400, "no Host header");
    if (nib__head_value(h, "Host", 1))
        return refuse(why, 400, "Host given twice");
    if (host[strspn(host, allowed)] != '\0')
        return refuse(why, 400, "malformed Host");
    return 0;
}

/* Where a request's body ends must be beyond doubt (RFC 9112, 6.3). */
static int check_body(struct nib__head *h, struct nib__refusal *why)
{
    const char *length = nib__head_value(h, "Content-Length", 0);

    h->chunked = has(h, "Transfer-Encoding");
    if (h->chunked && (length || h->http_1_0))
        return refuse(why, 400, "Transfer-Encoding where it may not be");
    if (!length)
        return 0;
    if (nib__head_value(h, "Content-Length", 1))
        return refuse(why, 400, "Content-Length given twice");
    if (*length == '\0' || strlen(length) > LENGTH_DIGITS)
        return refuse(why, 400, "malformed Content-Length");
    for (; *length; length++) {
        if (*length < '0' || *length > '9')
            return refuse(why, 400, "malformed Content-Length");
        h->content_length = h->content_length * 10 + (uint64_t)(*length - '0');
    }
    return 0;
}

static int check_subprotocols(const struct nib__head *h,
                              struct nib__refusal *why)
{
    unsigned at = 0;
    const char *list;

    while ((list = next_value(h, "Sec-WebSocket-Protocol", &at))) {
        if (!nib__token_list_valid(list))
            return refuse(why, 400, "malformed Sec-WebSocket-Protocol");
    }
    return 0;
}

/* A request that asks for WebSocket: is it right? (RFC 6455, 4.2.1) */
static int check_upgrade(struct nib__head *h, struct nib__refusal *why)
{
    const char *version = nib__head_value(h, "Sec-WebSocket-Version", 0);
    const char *key = nib__head_value(h, "Sec-WebSocket-Key", 0);

    if (strcmp(h->method, "GET") != 0)
        return refuse_with(why, 405, "WebSocket upgrade that is not GET",
                           "Allow: GET\r\n");
    if (h->http_1_0)
        return refuse(why, 400, "WebSocket upgrade in HTTP/1.0");
    if (!version || strcmp(version, "13") != 0)
        return refuse_with(why, 426, "WebSocket version is not 13",
                           WRONG_VERSION);
    if (!key || !nib__base64_decoded_length_is(key, strlen(key), KEY_BYTES))
        return refuse(why, 400, key ? "malformed Sec-WebSocket-Key"
                                    : "no Sec-WebSocket-Key");
    if (h->chunked || h->content_length > 0)
        return refuse(why, 400, "WebSocket upgrade with a body");
    h->key = key;
    h->upgrade = true;
    return check_subprotocols(h, why);
}

/* The rules that need more than one line. */
static int judge(struct nib__head *h, struct nib__refusal *why)
{
    bool close = nib__head_has_token(h, "Connection", "close");
    bool wants = nib__head_has_token(h, "Upgrade", "websocket") &&
                 nib__head_has_token(h, "Connection", "Upgrade");
    int result = check_host(h, why);

    if (result == 0)
        result = check_body(h, why);
    if (result < 0)
        return result;
    if (nib__head_value(h, "Sec-WebSocket-Key", 1))
        return refuse(why, 400, "Sec-WebSocket-Key given twice");
    if (nib__head_value(h, "Sec-WebSocket-Version", 1))
        return refuse(why, 400, "Sec-WebSocket-Version given twice");
    h->keep_alive = !close && (!h->http_1_0 || nib__head_has_token(
                                   h, "Connection", "keep-alive"));
    if (wants)
        return check_upgrade(h, why);
    if (has(h, "Sec-WebSocket-Key") && has(h, "Sec-WebSocket-Version"))
        return refuse_with(why, 426,
                           "WebSocket request without Upgrade: websocket and "
                           "Connection: Upgrade; does a proxy remove them?",
                           WRONG_VERSION);
    if (h->chunked)
        return refuse(why, 501, "chunked request bodies are not supported");
    return 0;
}

/* The head is whole: parses and judges it. Returns 1 if all is well. */
static int finish(struct nib__head *h, struct nib__refusal *why)
{
    int result;

    h->lines = nib__alloc_array(h->line_ends, sizeof(*h->lines));
    if (!h->lines)
        return -ENOMEM;
    result = parse(h, why);
    if (result < 0) {
        h->line_count = 0; /* its strings are not terminated */
        return result;
    }
    terminate_lines(h);
    result = split_request_line(h, why);
    if (result == 0)
        result = judge(h, why);
    if (result < 0)
        h->upgrade = false;
    return result < 0 ? result : 1;
}
