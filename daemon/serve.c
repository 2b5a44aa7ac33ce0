/*
 * serve - one server from its start to its end.
 */
#include "daemon/serve.h"

#include "daemon/log.h"
#include "daemon/reload.h"
#include "daemon/settings.h"
#include "daemon/signals.h"
#include "nib.h"
#include "tools/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    GRACE_MS = 5000, /* for Close 1001 to be answered */
    JOIN_STEP_MS = 100,
    TOPIC_BYTES = 4 << 20, /* the library's own default */
    TEXT_BYTES = 512,
};

/* The library counts on the hard limit; the soft one is ours to raise. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_line(NIB_LOG_WARN, "the limit of open files stays: %s",
                 strerror(errno));
}

/*
 * A subscriber may fall back by the queue's bytes, so the topic's log has to
 * hold them; half of it must hold the largest message with its header.
 */
static size_t topic_bytes(const struct settings *settings)
{
    size_t bytes = 2 * settings->queue_bytes;

    return bytes > TOPIC_BYTES ? bytes : TOPIC_BYTES;
}

static int configure_limits(struct nib_config *cfg,
                            const struct settings *settings)
{
    int error;

    if ((error = nib_config_set_log(cfg, log_library, NULL, log_level())) ||
        (error = nib_config_set_reactors(cfg, settings->reactors)) ||
        (error = nib_config_set_message_bytes(cfg, settings->message_bytes)) ||
        (error = nib_config_set_outbox_bytes(cfg, settings->queue_bytes)) ||
        (error = nib_config_set_topic_bytes(cfg, topic_bytes(settings), 0)) ||
        (error =
             nib_config_set_ping(cfg, settings->ping_ms, settings->pong_ms)))
        return error;
    return 0;
}

/* What a failure is called: the text of who refused, or the code's own. */
static int report(int error, const char *text)
{
    log_line(NIB_LOG_ERROR, "%s", *text ? text : nib_strerror(error));
    return error;
}

static int make_server(const struct settings *settings,
                       serve_configure_fn *configure, struct nib_server **srv)
{
    struct nib_config *cfg = NULL;
    char text[TEXT_BYTES] = "";
    int error = nib_config_new(&cfg);

    if (!error)
        error = tls_options_apply(&settings->tls, cfg, settings->listen, text,
                                  sizeof(text));
    if (!error)
        error = configure_limits(cfg, settings);
    if (!error)
        error = configure(cfg, settings);
    if (!error)
        error = nib_server_new(cfg, srv);
    if (error)
        report(error, *text ? text : cfg ? nib_config_error(cfg) : "");
    nib_config_free(cfg);
    return error;
}

static void print_url(struct nib_server *srv, const struct settings *settings)
{
    char bound[ADDRESS_BYTES];
    char url[ADDRESS_URL_BYTES];

    nib_server_address(srv, 0, bound, sizeof(bound));
    address_url(bound, settings->tls.mode != NIB_TLS_OFF, settings->path, url);
    if (printf("listening on %s\n", url) < 0 || fflush(stdout) == EOF)
        log_line(NIB_LOG_WARN, "cannot write to stdout: %s", strerror(errno));
}

/* Returns when the server is to stop. */
static void run(struct nib_server *srv, const struct settings *settings,
                struct reload *reload)
{
    enum signals_event event;

    while ((event = signals_wait(settings->tls_watch_ms)) != SIGNALS_STOP) {
        if (event == SIGNALS_RELOAD || reload_due(reload))
            reload_now(reload, srv);
    }
}

int serve(const struct settings *settings, serve_configure_fn *configure)
{
    struct nib_server *srv = NULL;
    struct reload reload;
    int error;

    log_set_level(settings->log_level);
    signals_block(settings->tls.mode != NIB_TLS_OFF);
    reload_init(&reload, &settings->tls);
    raise_descriptor_limit();
    error = make_server(settings, configure, &srv);
    if (error)
        return 1;
    error = nib_server_start(srv);
    if (error) {
        report(error, nib_server_error(srv));
        goto out;
    }
    print_url(srv, settings);
    run(srv, settings, &reload);
    nib_server_stop(srv, GRACE_MS);
    /* In steps: under ThreadSanitizer a signal waits for the end of a wait. */
    do
        error = nib_server_join(srv, JOIN_STEP_MS, NULL);
    while (error == -ETIMEDOUT);
    if (error)
        report(error, "");
out:
    nib_server_free(srv);
    return error ? 1 : 0;
}
