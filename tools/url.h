/*
 * url - the addresses that clients are given (RFC 6455, 3).
 */
#ifndef NIB_TOOLS_URL_H
#define NIB_TOOLS_URL_H

#include <stdbool.h>
#include <stddef.h>

struct url {
    bool tls;            /* wss:// */
    char host[256];      /* without brackets */
    char port[6];        /* 1 to 65535, in decimal */
    char authority[270]; /* for the Host header: brackets, and no
                            default port */
    char target[2048];   /* path and query, at least "/" */
};

/*
 * Takes "ws://HOST[:PORT][/PATH][?QUERY]" or wss:// apart. An IPv6 address
 * stands in brackets. There is no user name and no fragment in such a URL;
 * bytes that cannot stand in a request line must be percent-encoded.
 *
 * Returns 0; or -EINVAL or -ENAMETOOLONG, with a static text in *expected
 * that says what was wrong.
 */
int url_parse(const char *text, struct url *out, const char **expected);

/*
 * Takes "HOST:PORT" or "tls://HOST:PORT" apart, for peers that speak no HTTP.
 * Fills tls, host and port only; returns as url_parse().
 */
int url_parse_raw(const char *text, struct url *out, const char **expected);

#endif
