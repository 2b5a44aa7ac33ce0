/*
 * tls_none - what a build without a TLS library says when it is asked for one.
 */
#include "system/tls_engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int refuse(char *error, size_t cap)
{
    snprintf(error, cap, "TLS: nib was built without it");
    return -ENOTSUP;
}

int nib__engine_server(const struct nib__tls_server_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    (void)settings;
    (void)out;
    return refuse(error, cap);
}

int nib__engine_client(const struct nib__tls_client_settings *settings,
                       struct nib__engine **out, char *error, size_t cap)
{
    (void)settings;
    (void)out;
    return refuse(error, cap);
}

void nib__engine_free(struct nib__engine *engine)
{
    (void)engine;
}

const char *nib__engine_library(void)
{
    return "a build without TLS";
}

bool nib__engine_has_version(unsigned version)
{
    (void)version;
    return false;
}

int nib__session_new(struct nib__engine *engine, const char *server_name,
                     struct nib__session **out)
{
    (void)engine;
    (void)server_name;
    (void)out;
    return -ENOTSUP;
}

void nib__session_free(struct nib__session *session)
{
    (void)session;
}

int nib__session_handshake(struct nib__session *session,
                           struct nib__tls_io *io)
{
    (void)session;
    (void)io;
    return -ENOTSUP;
}

ssize_t nib__session_read(struct nib__session *session,
                          struct nib__tls_io *io, void *p, size_t cap)
{
    (void)session;
    (void)io;
    (void)p;
    (void)cap;
    return -ENOTSUP;
}

ssize_t nib__session_write(struct nib__session *session,
                           struct nib__tls_io *io, const void *p, size_t len)
{
    (void)session;
    (void)io;
    (void)p;
    (void)len;
    return -ENOTSUP;
}

int nib__session_shutdown(struct nib__session *session,
                          struct nib__tls_io *io)
{
    (void)session;
    (void)io;
    return -ENOTSUP;
}

bool nib__session_pending(const struct nib__session *session)
{
    (void)session;
    return false;
}

void nib__session_info(const struct nib__session *session,
                       struct nib__tls_info *info)
{
    (void)session;
    memset(info, 0, sizeof *info);
}

const char *nib__session_error(const struct nib__session *session)
{
    (void)session;
    return "nib was built without TLS";
}
