/*
 * hub - everyone hears everyone.
 */
#ifndef NIB_DAEMON_HUB_H
#define NIB_DAEMON_HUB_H

struct nib_config;

/*
 * Adds the hub at exactly `path`: an upgrade joins, a plain request gets the
 * chat page. path begins with "/". Returns as nib_config_route().
 */
int hub_configure(struct nib_config *cfg, const char *path);

#endif
