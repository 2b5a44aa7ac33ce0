/*
 * signals - SIGTERM and SIGINT end nibd in order, a second one at once; SIGHUP
 * is for reading files again.
 */
#include "daemon/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static bool reload_wanted;

static void end_now(int number)
{
    (void)number;
    _exit(1);
}

static void do_nothing(int number)
{
    (void)number;
}

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

static sigset_t all_signals(void)
{
    sigset_t set = stop_signals();

    if (reload_wanted)
        sigaddset(&set, SIGHUP);
    return set;
}

void signals_block(bool reload)
{
    struct sigaction action = {.sa_handler = end_now};
    sigset_t set;

    reload_wanted = reload;
    set = all_signals();
    /* A shell may have had SIGINT ignored, nohup has SIGHUP; a handler undoes
       that. */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = do_nothing;
    if (reload)
        sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

enum signals_event signals_wait(uint64_t wait_ms)
{
    const struct timespec wait = {
        .tv_sec = (time_t)(wait_ms / 1000),
        .tv_nsec = (long)(wait_ms % 1000 * 1000000),
    };
    sigset_t set = all_signals();
    int number;

    do {
        number = sigtimedwait(&set, NULL, wait_ms > 0 ? &wait : NULL);
    } while (number < 0 && errno == EINTR);
    if (number < 0)
        return SIGNALS_TIME;
    if (number == SIGHUP)
        return SIGNALS_RELOAD;
    set = stop_signals();
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return SIGNALS_STOP;
}
