/*
 * handshake - HTTP/1.1 heads: collected, parsed and judged.
 *
 * The only file that knows http-parser. A head is collected as it comes, in
 * any pieces, each line checked when its end has come, and parsed once it is
 * whole; its strings are NUL-terminated in place and live as long as the
 * head. No I/O. http-parser lets bare LF, line folding, HTTP/1.0 upgrades
 * and bodies on upgrades pass; the checks here do not (RFC 9112, 2.2, 5.2;
 * RFC 6455, 4.2.1). The answers are in response.h.
 */
#ifndef NIB_PROTOCOL_HANDSHAKE_H
#define NIB_PROTOCOL_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nib.h"
#include "protocol/response.h"
#include "protocol/tokens.h"

struct nib__head_line {
    const char *name;
    const char *value;
};

struct nib__head {
    char *bytes;        /* what has come; one allocation that grows */
    size_t len;
    size_t capacity;
    size_t line_start;  /* of the line that has not ended yet */
    unsigned line_ends; /* lines that have ended, the request line included */
    unsigned blanks;    /* empty lines before the request line */
    size_t limit_bytes; /* of the whole head: 431 */
    unsigned limit_lines;
    struct nib__head_line *lines; /* when whole, else NULL */
    unsigned line_count;
    const char *method;
    const char *path;   /* as sent, without the query; begins with '/' */
    const char *query;  /* "" if there is none */
    uint64_t content_length;
    bool chunked;       /* Transfer-Encoding was given */
    bool keep_alive;    /* the connection may serve another request */
    bool http_1_0;
    bool upgrade;       /* a complete and right WebSocket upgrade */
    const char *key;    /* if upgrade: Sec-WebSocket-Key */
};

/* Why a head is refused: the status, its fixed reason, and extra lines. */
struct nib__refusal {
    int status;          /* 400, 405, 414, 426, 431, 501, 505 */
    const char *text;    /* one line for the body and the log */
    const char *headers; /* "Name: value\r\n"... or "" */
};

/*
 * Starts a head; no memory is taken before bytes come.
 */
void nib__head_init(struct nib__head *h, size_t limit_bytes,
                    unsigned limit_lines);

/*
 * Frees what a head holds.
 */
void nib__head_free(struct nib__head *h);

/*
 * Takes bytes from p[0..n) up to the end of the head, and says in *used how
 * many. Empty lines before a request line are skipped, at most 4 of them.
 * Whatever the pieces are in which a head comes, the outcome is the same.
 *
 * Returns 1 when the head is whole and right; 0 when it needs more; -EPROTO
 * when it is to be refused with *why, after which it must not be fed again;
 * or -ENOMEM, after which neither. Until it is whole, and when it is refused,
 * the strings are "", or the head's if it came to that.
 *
 * A request line over limit_bytes / 2 is refused with 414, a head over
 * limit_bytes or limit_lines with 431, as soon as it is known; an unknown
 * method with 501, a version other than 1.0 and 1.1 with 505, anything that
 * is no right HTTP with 400.
 *
 * When whole, h->upgrade says whether it is a WebSocket upgrade in every
 * respect; a request that means to be one but is not is refused: 405 if it is
 * not GET, 426 with Sec-WebSocket-Version: 13 for another version, 400 for a
 * missing or bad or repeated key, a missing Host, a body, HTTP/1.0, or
 * subprotocols that are no tokens. A request with key and version but without
 * `Upgrade: websocket` and `Connection: Upgrade` (a proxy took them away) is
 * refused with 426, its text saying just that.
 * Plain requests: a body is allowed only with Content-Length (chunked: 501);
 * the caller skips content_length bytes.
 */
int nib__head_feed(struct nib__head *h, const void *p, size_t n, size_t *used,
                   struct nib__refusal *why);

/*
 * The number-th value of a header over repeated lines, or NULL. Names are
 * compared without case.
 */
const char *nib__head_value(const struct nib__head *h, const char *name,
                            unsigned number);

/*
 * Is `token` among the comma-separated tokens of all lines of this name?
 * Compared without case (RFC 9110, 5.6.1).
 */
bool nib__head_has_token(const struct nib__head *h, const char *name,
                         const char *token);

/*
 * The number-th token of the comma-separated tokens of all lines of this
 * name: its place in *token (not terminated) and its length.
 *
 * Returns the length; 0 if there are fewer.
 */
size_t nib__head_token(const struct nib__head *h, const char *name,
                       unsigned number, const char **token);

#endif
