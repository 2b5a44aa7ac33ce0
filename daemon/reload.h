/*
 * reload - certificates that change while nibd runs.
 *
 * All of it belongs to the main thread.
 */
#ifndef NIB_DAEMON_RELOAD_H
#define NIB_DAEMON_RELOAD_H

#include "tools/tls_options.h"

#include <stdbool.h>
#include <sys/stat.h>

struct nib_server;

enum { RELOAD_FILES = 66 }; /* 32 certificates, their keys, and two more */

/* The files that TLS was made of, and how they were when they were read. */
struct reload {
    struct {
        const char *name; /* the settings' */
        struct stat seen; /* zeroed: it was not there */
    } files[RELOAD_FILES];
    size_t count;
};

/* Notes the files and how they are. Call it before they are first read. */
void reload_init(struct reload *r, const struct tls_options *tls);

/* Has one of them changed since? */
bool reload_due(const struct reload *r);

/*
 * Has the server read them again, and logs a line: that it did, or what is
 * wrong with which file. In that case nothing changes.
 */
void reload_now(struct reload *r, struct nib_server *srv);

#endif
