/*
 * url - the addresses that clients are given (RFC 6455, 3).
 */
#include "url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "units.h"

static int refuse(int result, const char *text, const char **expected)
{
    *expected = text;
    return result;
}

static int copy(char *to, size_t room, const char *from, size_t len)
{
    if (len >= room)
        return -ENAMETOOLONG;
    memcpy(to, from, len);
    to[len] = '\0';
    return 0;
}

/* What would end a request line or a header, or needs encoding. */
static size_t printable(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && text[i] > ' ' && text[i] < 0x7f)
        i++;
    return i;
}

static int parse_port(const char *text, size_t len, struct url *out,
                      const char **expected)
{
    uint64_t port;

    if (copy(out->port, sizeof(out->port), text, len) < 0 ||
        units_count(out->port, &port) < 0 || port < 1 || port > 65535)
        return refuse(-EINVAL, "a port is a number from 1 to 65535", expected);
    /* Without leading zeros, as it will be sent. */
    snprintf(out->port, sizeof(out->port), "%u", (unsigned)port);
    return 0;
}

/* HOST, HOST:PORT, [HOST] or [HOST]:PORT in text[0..len). */
static int parse_authority(const char *text, size_t len,
                           const char *default_port, struct url *out,
                           const char **expected)
{
    const char *end = text + len;
    const char *host = text, *after;
    size_t host_len;

    if (memchr(text, '@', len))
        return refuse(-EINVAL, "no user name may stand in it", expected);
    if (len && text[0] == '[') {
        after = memchr(text, ']', len);
        if (!after)
            return refuse(-EINVAL, "the ] of an IPv6 address is missing",
                          expected);
        host = text + 1;
        host_len = (size_t)(after++ - host);
    } else {
        after = memchr(text, ':', len);
        if (!after)
            after = end;
        host_len = (size_t)(after - text);
    }
    if (host_len == 0)
        return refuse(-EINVAL, "the host is missing", expected);
    if (printable(host, host_len) < host_len)
        return refuse(-EINVAL, "the host has a byte that no host has",
                      expected);
    if (copy(out->host, sizeof(out->host), host, host_len) < 0)
        return refuse(-ENAMETOOLONG, "a host has at most 255 bytes", expected);
    if (after < end && *after != ':')
        return refuse(-EINVAL, "only :PORT may follow the ]", expected);
    if (after < end)
        return parse_port(after + 1, (size_t)(end - after - 1), out, expected);
    if (!default_port)
        return refuse(-EINVAL, "expected HOST:PORT", expected);
    return copy(out->port, sizeof(out->port), default_port,
                strlen(default_port));
}

static int parse_target(const char *text, struct url *out,
                        const char **expected)
{
    const char *slash = *text == '/' ? "" : "/"; /* "?q" means "/?q" */

    if (strchr(text, '#'))
        return refuse(-EINVAL, "no #fragment may stand in it", expected);
    if (printable(text, strlen(text)) < strlen(text))
        return refuse(-EINVAL,
                      "white space and bytes beyond ASCII must be "
                      "percent-encoded",
                      expected);
    if ((size_t)snprintf(out->target, sizeof(out->target), "%s%s", slash,
                         text) >= sizeof(out->target))
        return refuse(-ENAMETOOLONG, "path and query have at most 2047 bytes",
                      expected);
    return 0;
}

/* "HOST:PORT", with brackets where they belong, but no default port. */
static void write_authority(struct url *url, const char *default_port)
{
    const char *open = strchr(url->host, ':') ? "[" : "";
    const char *close = *open ? "]" : "";
    bool without = strcmp(url->port, default_port) == 0;

    snprintf(url->authority, sizeof(url->authority), "%s%s%s%s%s", open,
             url->host, close, without ? "" : ":", without ? "" : url->port);
}

int url_parse(const char *text, struct url *out, const char **expected)
{
    const char *default_port;
    size_t len;
    int result;

    out->tls = strncasecmp(text, "wss://", 6) == 0;
    if (!out->tls && strncasecmp(text, "ws://", 5) != 0)
        return refuse(-EINVAL, "expected ws://HOST[:PORT][/PATH], or wss://",
                      expected);
    default_port = out->tls ? "443" : "80";
    text += out->tls ? 6 : 5;
    len = strcspn(text, "/?#");
    result = parse_authority(text, len, default_port, out, expected);
    if (result == 0)
        result = parse_target(text + len, out, expected);
    if (result == 0)
        write_authority(out, default_port);
    return result;
}

int url_parse_raw(const char *text, struct url *out, const char **expected)
{
    out->tls = strncasecmp(text, "tls://", 6) == 0;
    if (out->tls)
        text += 6;
    if (strchr(text, '/'))
        return refuse(-EINVAL, "expected HOST:PORT or tls://HOST:PORT",
                      expected);
    out->authority[0] = '\0';
    out->target[0] = '\0';
    return parse_authority(text, strlen(text), NULL, out, expected);
}
