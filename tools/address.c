/*
 * address - "[addr:]port" of the command line, and the URL that comes of it.
 *
 * The host's characters are checked, not its meaning: that belongs to
 * nib_server_start(), which resolves it. What is checked here are the
 * mistakes for which a resolver has no good words.
 */
#include "address.h"

#include <stdio.h>
#include <string.h>

#define DIGITS "0123456789"
#define NAME_CHARACTERS                                                        \
    DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_"
#define IPV6_CHARACTERS NAME_CHARACTERS ":%" /* %: a zone, "fe80::1%eth0" */

enum { NAME_BYTES = 255 };

static const char expected_address[] =
    "[addr:]port, such as 8080, 127.0.0.1:8080 or [::1]:8080";

static const char *check_port(const char *port)
{
    size_t digits = strspn(port, DIGITS);
    unsigned value = 0;

    if (digits == 0 || port[digits] != '\0')
        return expected_address;
    for (; *port != '\0' && value <= 65535; port++)
        value = value * 10 + (unsigned)(*port - '0');
    return value <= 65535 ? NULL : "a port from 0 to 65535";
}

static const char *check_host(const char *host, size_t len)
{
    if (len > NAME_BYTES)
        return "a host of at most 255 characters";
    if (host[0] == '[') {
        if (len < 4 || host[len - 1] != ']' || !memchr(host, ':', len) ||
            strspn(host + 1, IPV6_CHARACTERS) != len - 2)
            return "an IPv6 address in brackets, such as [::1]:8080";
        return NULL;
    }
    if (memchr(host, ':', len))
        return "brackets around an IPv6 address, such as [::1]:8080";
    return strspn(host, NAME_CHARACTERS) >= len ? NULL : expected_address;
}

const char *address_parse(const char *text, char listen[ADDRESS_BYTES])
{
    const char *colon = strrchr(text, ':');
    const char *port = colon ? colon + 1 : text;
    size_t host_len = colon ? (size_t)(colon - text) : 0;
    const char *expected = check_port(port);

    if (expected)
        return expected;
    if (host_len == 0 || (host_len == 1 && text[0] == '*')) {
        snprintf(listen, ADDRESS_BYTES, "tcp:[::]:%s", port);
        return NULL;
    }
    expected = check_host(text, host_len);
    if (!expected)
        snprintf(listen, ADDRESS_BYTES, "tcp:%s", text);
    return expected;
}

void address_url(const char *bound, bool tls, const char *path,
                 char url[ADDRESS_URL_BYTES])
{
    static const char *const wildcards[] = {"0.0.0.0:", "[::]:"};
    const char *host = "";

    for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); i++) {
        size_t len = strlen(wildcards[i]);

        if (strncmp(bound, wildcards[i], len) == 0) {
            host = "localhost:";
            bound += len;
            break;
        }
    }
    snprintf(url, ADDRESS_URL_BYTES, "http%s://%s%s%s", tls ? "s" : "", host,
             bound, path);
}
