/*
 * signals - SIGTERM and SIGINT end a server in order, a second one at once.
 *
 * The handler may run on any thread, also on two at once: the exchange makes
 * sure that only one of them finds the server.
 */
#include "daemon/signals.h"

#include "nib.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic(struct nib_server *) server;
static unsigned grace;

static void stop(int number)
{
    struct nib_server *srv = atomic_exchange(&server, NULL);

    (void)number;
    if (!srv)
        _exit(1);
    nib_server_stop(srv, grace); /* async-signal-safe, and keeps errno */
}

void signals_stop(struct nib_server *srv, unsigned grace_ms)
{
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};

    grace = grace_ms;
    atomic_store(&server, srv);
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

void signals_forget(void)
{
    atomic_store(&server, NULL);
}
