/*
 * reload - certificates that change while nibd runs.
 *
 * A file that is written anew is seen half written at worst: then it is
 * refused, and read once more when it has changed once more.
 */
#include "daemon/reload.h"

#include "daemon/log.h"
#include "nib.h"

#include <string.h>

enum { TEXT_BYTES = 512 };

static void look(struct reload *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (stat(r->files[i].name, &r->files[i].seen) < 0)
            memset(&r->files[i].seen, 0, sizeof(r->files[i].seen));
    }
}

static void add(struct reload *r, const char *name)
{
    if (name)
        r->files[r->count++].name = name;
}

void reload_init(struct reload *r, const struct tls_options *tls)
{
    r->count = 0;
    for (size_t i = 0; i < tls->cert_count; i++) {
        add(r, tls->certs[i].chain);
        add(r, tls->certs[i].key);
    }
    add(r, tls->client_ca);
    add(r, tls->ticket_keys);
    look(r);
}

static bool differs(const struct stat *a, const struct stat *b)
{
    return a->st_ino != b->st_ino || a->st_dev != b->st_dev ||
           a->st_size != b->st_size || a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
           a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

bool reload_due(const struct reload *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct stat now = {0};

        if (stat(r->files[i].name, &now) < 0)
            memset(&now, 0, sizeof(now));
        if (differs(&r->files[i].seen, &now))
            return true;
    }
    return false;
}

void reload_now(struct reload *r, struct nib_server *srv)
{
    char text[TEXT_BYTES] = "";
    int error;

    look(r); /* before: what changes meanwhile is seen the next time */
    error = nib_server_reload_tls(srv, text, sizeof(text));
    if (error)
        log_line(NIB_LOG_ERROR, "the certificates stay as they were: %s",
                 *text ? text : nib_strerror(error));
    else
        log_notice("read the certificates again");
}
