/*
 * echo - every message comes back to its sender.
 */
#ifndef NIB_DAEMON_ECHO_H
#define NIB_DAEMON_ECHO_H

struct nib_config;

/*
 * Adds a route for all paths that echoes. Returns as nib_config_route().
 */
int echo_configure(struct nib_config *cfg);

#endif
