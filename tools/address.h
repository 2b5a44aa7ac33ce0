/*
 * address - "[addr:]port" of the command line, and the URL that comes of it.
 *
 * Text to text; nothing is resolved or bound here. No state.
 */
#ifndef NIB_TOOLS_ADDRESS_H
#define NIB_TOOLS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    ADDRESS_BYTES = 300,      /* "tcp:", a name of 255, ":65535" and a NUL */
    ADDRESS_URL_BYTES = 2048, /* an address and a path */
};

/*
 * Translates an address of the command line into one of nib_config_listen().
 *
 *   8080  :8080  *:8080             tcp:[::]:8080, which takes IPv4, too
 *   127.0.0.1:8080  localhost:8080  tcp: and the same
 *   [::1]:8080                      tcp: and the same
 *
 * listen  gets the translation, if there is one
 *
 * Returns NULL, or a static text that says what was expected.
 */
const char *address_parse(const char *text, char listen[ADDRESS_BYTES]);

/*
 * Makes the URL that a browser on this machine opens. An address that stands
 * for all of the machine's (0.0.0.0, [::]) becomes localhost.
 *
 * bound  as nib_server_address() tells it, "HOST:PORT" or "[HOST]:PORT"
 * tls    whether it is https://
 * path   begins with "/"
 * url    is cut if it is too long
 */
void address_url(const char *bound, bool tls, const char *path,
                 char url[ADDRESS_URL_BYTES]);

#endif
