/*
 * test_owner - in debug builds, what belongs to a connection's owner aborts
 * on any other thread.
 *
 * Each call is made in a child, which has to die of it; the server is the
 * child's own, as threads do not survive a fork.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "server/conn.h"

#ifdef NIB_DEBUG

static void set_user(struct nib_conn *conn)
{
    nib_conn_set_user(conn, NULL);
}

static void timer(struct nib_conn *conn)
{
    nib_timer(conn, 1, NULL, NULL, NULL);
}

static void flush(struct nib_conn *conn)
{
    nib__conn_flush(conn);
}

static void end(struct nib_conn *conn)
{
    nib__conn_end(conn, false);
}

static void watch(struct nib_conn *conn)
{
    nib_watch(conn, 0, NIB_READABLE, NULL, NULL, NULL);
}

static void (*const calls[])(struct nib_conn *conn) = {set_user, timer, flush,
                                                       end, watch};

/* Exits with 0 if the call returns. */
static void make_call(void (*call)(struct nib_conn *conn))
{
    static struct rig_meeting meeting;
    struct nib_config *cfg = rig_config(1);
    struct rig_peer peer;

    rig_meeting_init(&meeting);
    rig_meet_at(cfg, "/", &meeting);
    rig_open(&peer, rig_port(rig_start(cfg)), "/", 0);
    call(rig_meet(&meeting));
    _exit(0);
}

START_TEST(a_foreign_thread_aborts)
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0)
        make_call(calls[_i]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGABRT);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, a_foreign_thread_aborts, 0,
                        sizeof calls / sizeof calls[0]);
}

#else

START_TEST(only_debug_builds_check)
{
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, only_debug_builds_check);
}

#endif

int main(void)
{
    Suite *suite = suite_create("owner");
    TCase *tcase = tcase_create("owner");

    tcase_set_timeout(tcase, 60);
    add_tests(tcase);
    suite_add_tcase(suite, tcase);
    return rig_run(suite);
}
