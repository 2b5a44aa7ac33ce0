/*
 * signals - SIGTERM and SIGINT end nibd in order, a second one at once.
 */
#include "daemon/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static void end_now(int number)
{
    (void)number;
    _exit(1);
}

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

void signals_block(void)
{
    struct sigaction action = {.sa_handler = end_now};
    sigset_t set = stop_signals();

    /* A shell may have had SIGINT ignored; the handler undoes that. */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

void signals_wait(void)
{
    sigset_t set = stop_signals();
    int number;

    while (sigwait(&set, &number) != 0)
        continue;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
