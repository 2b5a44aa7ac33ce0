/*
 * settings - what the command line of one of nibd's commands asks for.
 *
 * All that is checked about it is checked here, so that what is wrong is
 * named as the user wrote it. Text points into argv.
 */
#ifndef NIB_DAEMON_SETTINGS_H
#define NIB_DAEMON_SETTINGS_H

#include "tools/address.h"
#include "tools/tls_options.h"

#include <stddef.h>
#include <stdint.h>

enum settings_command {
    SETTINGS_HUB,
    SETTINGS_ECHO,
};

struct settings {
    char listen[ADDRESS_BYTES]; /* for nib_config_listen() */
    const char *path;           /* where the hub is; begins with "/" */
    size_t message_bytes;       /* the largest message */
    size_t queue_bytes;         /* what may wait for one connection; at least
                                   two of the largest messages */
    unsigned reactors;          /* 0: one for each CPU */
    unsigned ping_ms;           /* between pings; 0: none */
    unsigned pong_ms;           /* wait for the answer; below ping_ms */
    int log_level;              /* an enum nib_log_level */
    struct tls_options tls;
    uint64_t tls_watch_ms; /* between looks at its files; 0: none */
};

/*
 * Reads options and address, in any order, and gives the rest its default.
 *
 * argv  argv[0] is the command's name, not looked at; is reordered
 *
 * Does not return after --help or --version, or after what was not
 * understood: then the process ends with status 2 and a line on stderr.
 */
void settings_read(enum settings_command command, int argc, char **argv,
                   struct settings *out);

#endif
