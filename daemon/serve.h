/*
 * serve - one server from its start to its end.
 */
#ifndef NIB_DAEMON_SERVE_H
#define NIB_DAEMON_SERVE_H

struct nib_config;
struct settings;

/* Adds a command's routes; returns as nib_config_route(). */
typedef int serve_configure_fn(struct nib_config *cfg,
                               const struct settings *settings);

/*
 * Serves until SIGTERM or SIGINT has ended it in order. Prints one line with
 * its URL on stdout when it accepts connections.
 *
 * Returns the exit status: 0, or 1 after a line about what failed.
 */
int serve(const struct settings *settings, serve_configure_fn *configure);

#endif
