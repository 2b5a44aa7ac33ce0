/*
 * fixture - see fixture.h.
 */
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void peer_failed(const char *text)
{
    ck_abort_msg("%s", text);
    abort(); /* not reached */
}

void must_hold(bool holds, const char *text, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, text);
    abort();
}

/* ---- waiting ---- */

static struct timespec deadline(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += peer_patience_ms() / 1000;
    return t;
}

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void latch_init(struct latch *l)
{
    pthread_mutex_init(&l->lock, NULL);
    cond_init(&l->changed);
    l->count = 0;
}

void latch_add(struct latch *l)
{
    pthread_mutex_lock(&l->lock);
    l->count++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

void latch_await(struct latch *l, unsigned count)
{
    struct timespec due = deadline();

    pthread_mutex_lock(&l->lock);
    while (l->count < count)
        must(pthread_cond_timedwait(&l->changed, &l->lock, &due) == 0);
    pthread_mutex_unlock(&l->lock);
}

unsigned latch_count(struct latch *l)
{
    unsigned count;

    pthread_mutex_lock(&l->lock);
    count = l->count;
    pthread_mutex_unlock(&l->lock);
    return count;
}

static bool passed(const struct timespec *due)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec > due->tv_sec ||
           (t.tv_sec == due->tv_sec && t.tv_nsec > due->tv_nsec);
}

void until(bool (*holds)(void *arg), void *arg, const char *what)
{
    struct timespec due = deadline();

    while (!holds(arg)) {
        if (passed(&due))
            ck_abort_msg("waited in vain: %s", what);
        poll(NULL, 0, 1);
    }
}

/* ---- threads of the test ---- */

static void *job_main(void *arg)
{
    struct job *j = arg;

    atomic_store(&j->tid, (pid_t)syscall(SYS_gettid));
    j->result = j->run(j->arg);
    atomic_store(&j->ended, true);
    return NULL;
}

void job_start(struct job *j, int (*run)(void *arg), void *arg)
{
    j->run = run;
    j->arg = arg;
    atomic_store(&j->tid, 0);
    atomic_store(&j->ended, false);
    ck_assert_int_eq(pthread_create(&j->thread, NULL, job_main, j), 0);
}

/* The state of a thread as the kernel tells it, 'S' for sleeping. */
static char thread_state(pid_t tid)
{
    char path[64], text[512];
    const char *end;
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    f = fopen(path, "re");
    if (f == NULL)
        return '?';
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    end = strrchr(text, ')');
    return end == NULL ? '?' : end[2];
}

static bool sleeps(void *arg)
{
    struct job *j = arg;
    pid_t tid = atomic_load(&j->tid);

    if (atomic_load(&j->ended))
        ck_abort_msg("the thread has ended with %d instead of waiting",
                     j->result);
    if (tid == 0 || thread_state(tid) != 'S')
        return false;
    /* Asleep for a moment only, as for a lock? */
    for (int i = 0; i < 5; i++) {
        poll(NULL, 0, 1);
        if (thread_state(tid) != 'S')
            return false;
    }
    return !atomic_load(&j->ended);
}

void job_await_sleep(struct job *j)
{
    until(sleeps, j, "a thread that sleeps");
}

static bool has_ended(void *arg)
{
    struct job *j = arg;

    return atomic_load(&j->ended);
}

int job_wait(struct job *j)
{
    until(has_ended, j, "the end of a thread");
    pthread_join(j->thread, NULL);
    return j->result;
}

/* ---- what is left ---- */

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    must(dir != NULL);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static bool as_before(void *arg)
{
    const struct site *s = arg;

    return entries("/proc/self/fd") == s->fds &&
           entries("/proc/self/task") == s->threads;
}

void site_check_left(struct site *s)
{
    struct timespec due = deadline();

    /* A joined thread stays in /proc for a moment. */
    while (!as_before(s) && !passed(&due))
        poll(NULL, 0, 1);
    ck_assert_int_eq(entries("/proc/self/fd"), s->fds);
    ck_assert_int_eq(entries("/proc/self/task"), s->threads);
}

/* ---- callbacks ---- */

/* Appends an event; the caller fills it in under the lock. */
static struct event *note(struct site *s, enum event_kind kind,
                          struct nib_conn *conn)
{
    struct event *e = &s->events[s->event_count];

    must(s->event_count < EVENTS);
    s->event_count++;
    *e = (struct event){.kind = kind, .conn = conn};
    pthread_cond_broadcast(&s->changed);
    return e;
}

static void note_bytes(struct event *e, const void *data, size_t len)
{
    e->len = len;
    if (len > 0)
        memcpy(e->text, data, len < sizeof e->text ? len : sizeof e->text - 1);
}

static int cb_request(struct nib_request *req, void *arg)
{
    struct site *s = arg;

    if (s->on_request != NULL)
        s->on_request(s, req);
    pthread_mutex_lock(&s->lock);
    note(s, EVENT_REQUEST, NULL);
    pthread_mutex_unlock(&s->lock);
    return s->verdict;
}

static void cb_open(struct nib_conn *conn, void *arg)
{
    struct site *s = arg;

    if (s->on_open != NULL)
        s->on_open(s, conn);
    pthread_mutex_lock(&s->lock);
    note(s, EVENT_OPEN, nib_conn_ref(conn));
    pthread_mutex_unlock(&s->lock);
}

static void cb_message(struct nib_conn *conn, struct nib_message *msg,
                       void *arg)
{
    struct site *s = arg;
    size_t len;
    const void *data = nib_message_data(msg, &len);
    struct event *e;

    if (s->on_message != NULL)
        s->on_message(s, conn, msg);
    pthread_mutex_lock(&s->lock);
    e = note(s, EVENT_MESSAGE, conn);
    note_bytes(e, data, len);
    e->code = (int)nib_message_kind(msg);
    pthread_mutex_unlock(&s->lock);
}

static void cb_room(struct nib_conn *conn, void *arg)
{
    struct site *s = arg;

    if (s->on_room != NULL)
        s->on_room(s, conn);
    pthread_mutex_lock(&s->lock);
    note(s, EVENT_ROOM, conn);
    pthread_mutex_unlock(&s->lock);
}

static void cb_pong(struct nib_conn *conn, const void *data, size_t len,
                    void *arg)
{
    struct site *s = arg;

    pthread_mutex_lock(&s->lock);
    note_bytes(note(s, EVENT_PONG, conn), data, len);
    pthread_mutex_unlock(&s->lock);
}

static void cb_close(struct nib_conn *conn, const struct nib_close_info *info,
                     void *arg)
{
    struct site *s = arg;
    struct event *e;

    if (s->on_close != NULL)
        s->on_close(s, conn);
    pthread_mutex_lock(&s->lock);
    e = note(s, EVENT_CLOSE, conn);
    note_bytes(e, info->reason, strlen(info->reason));
    e->code = info->code;
    e->local = info->local;
    e->clean = info->clean;
    e->unsent_bytes = info->unsent_bytes;
    pthread_mutex_unlock(&s->lock);
}

struct event site_event(struct site *s, enum event_kind kind)
{
    static const char *const names[] = {"request", "open", "message",
                                        "room",    "pong", "close"};
    struct timespec due = deadline();
    struct event e = {.kind = kind};
    int err = 0;

    pthread_mutex_lock(&s->lock);
    while (s->event_taken == s->event_count && err == 0)
        err = pthread_cond_timedwait(&s->changed, &s->lock, &due);
    if (err == 0)
        e = s->events[s->event_taken++];
    pthread_mutex_unlock(&s->lock);
    if (err != 0)
        ck_abort_msg("no %s came", names[kind]);
    ck_assert_str_eq(names[e.kind], names[kind]);
    return e;
}

unsigned site_events_left(struct site *s)
{
    unsigned n;

    pthread_mutex_lock(&s->lock);
    n = s->event_count - s->event_taken;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- handlers ---- */

static int hold(struct nib_request *req, void *arg)
{
    struct site *s = arg;
    struct held *h;
    int result;

    pthread_mutex_lock(&s->lock);
    must(s->held_count < HELD);
    h = &s->held[s->held_count++];
    *h = (struct held){.site = s, .req = req};
    pthread_cond_broadcast(&s->changed);
    while (!h->leave) {
        if (h->run == NULL || h->done) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        result = h->run(h, h->arg);
        pthread_mutex_lock(&s->lock);
        h->result = result;
        h->done = true;
        pthread_cond_broadcast(&s->changed);
    }
    result = h->result;
    pthread_mutex_unlock(&s->lock);
    return result;
}

struct held *held_next(struct site *s)
{
    struct timespec due = deadline();
    struct held *h = NULL;
    int err = 0;

    pthread_mutex_lock(&s->lock);
    while (s->held_taken == s->held_count && err == 0)
        err = pthread_cond_timedwait(&s->changed, &s->lock, &due);
    if (err == 0)
        h = &s->held[s->held_taken++];
    pthread_mutex_unlock(&s->lock);
    if (h == NULL)
        ck_abort_msg("no handler was started");
    return h;
}

void held_start(struct held *h, int (*run)(struct held *h, void *arg),
                void *arg)
{
    pthread_mutex_lock(&h->site->lock);
    h->run = run;
    h->arg = arg;
    h->done = false;
    pthread_cond_broadcast(&h->site->changed);
    pthread_mutex_unlock(&h->site->lock);
}

int held_wait(struct held *h)
{
    struct timespec due = deadline();
    int result, err = 0;

    pthread_mutex_lock(&h->site->lock);
    while (!h->done && err == 0)
        err = pthread_cond_timedwait(&h->site->changed, &h->site->lock,
                                     &due);
    result = h->result;
    pthread_mutex_unlock(&h->site->lock);
    if (err != 0)
        ck_abort_msg("a handler does not come back");
    return result;
}

int held_do(struct held *h, int (*run)(struct held *h, void *arg), void *arg)
{
    held_start(h, run, arg);
    return held_wait(h);
}

static int accept_job(struct held *h, void *arg)
{
    (void)arg;
    return nib_accept(h->req, NULL, &h->conn);
}

int held_accept(struct held *h)
{
    return held_do(h, accept_job, NULL);
}

void held_return(struct held *h, int result)
{
    pthread_mutex_lock(&h->site->lock);
    h->result = result;
    h->leave = true;
    pthread_cond_broadcast(&h->site->changed);
    pthread_mutex_unlock(&h->site->lock);
}

/* ---- the server ---- */

static void log_line(int level, const char *line, void *arg)
{
    struct site *s = arg;
    size_t len = strlen(line);

    (void)level;
    pthread_mutex_lock(&s->lock);
    if (s->log_len + len + 2 <= sizeof s->log) {
        memcpy(s->log + s->log_len, line, len);
        s->log_len += len;
        s->log[s->log_len++] = '\n';
        s->log[s->log_len] = '\0';
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void site_await_log(struct site *s, const char *text)
{
    struct timespec due = deadline();
    int err = 0;

    pthread_mutex_lock(&s->lock);
    while (strstr(s->log, text) == NULL && err == 0)
        err = pthread_cond_timedwait(&s->changed, &s->lock, &due);
    pthread_mutex_unlock(&s->lock);
    if (err != 0)
        ck_abort_msg("not in the log: \"%s\"; but:\n%s", text, s->log);
}

static void add_routes(struct site *s, struct nib_config *cfg)
{
    static const struct nib_callbacks callbacks = {
        .on_request = cb_request,
        .on_open = cb_open,
        .on_message = cb_message,
        .on_room = cb_room,
        .on_pong = cb_pong,
        .on_close = cb_close,
    };
    struct nib_route *route;

    ck_assert_int_eq(nib_config_route(cfg, "=/next", &route), 0);
    ck_assert_int_eq(nib_config_route(cfg, "=/hold", &route), 0);
    ck_assert_int_eq(nib_route_set_handler(route, hold, s), 0);
    ck_assert_int_eq(nib_config_route(cfg, "=/cb", &route), 0);
    ck_assert_int_eq(nib_route_set_callbacks(route, &callbacks, s), 0);
}

static void *say_tid(void *tid)
{
    *(pid_t *)tid = gettid();
    return NULL;
}

/* A sanitizer's own thread starts with the first thread of the program. */
static void first_thread(void)
{
    struct timespec due = deadline();
    pthread_t thread;
    char path[64];
    pid_t tid;

    ck_assert_int_eq(pthread_create(&thread, NULL, say_tid, &tid), 0);
    pthread_join(thread, NULL);
    /* A joined thread stays in /proc for a moment, and would be counted. */
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)tid);
    while (access(path, F_OK) == 0 && !passed(&due))
        poll(NULL, 0, 1);
}

unsigned site_short_ms(unsigned plain_ms)
{
    return site_tls() ? 4000 : plain_ms;
}

bool site_tls(void)
{
    return getenv("NIB_TEST_TLS") != NULL;
}

void site_listen(struct nib_config *cfg, const char *address)
{
    const char *folder = getenv("NIB_TEST_TLS");
    static char ca[512];
    char chain[512], key[512];

    if (folder == NULL) {
        ck_assert_int_eq(nib_config_listen(cfg, address), 0);
        return;
    }
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(chain, sizeof chain, "%s/localhost.pem", folder);
    snprintf(key, sizeof key, "%s/localhost.key", folder);
    ck_assert_int_eq(nib_config_listen_tls(cfg, address, NIB_TLS_ON), 0);
    ck_assert_int_eq(nib_config_certificate(cfg, chain, key, NULL), 0);
    peer_speak_tls(ca);
}

void site_start(struct site *s, void (*tweak)(struct nib_config *cfg))
{
    struct nib_config *cfg;
    int err;

    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->changed);
    first_thread();
    s->fds = entries("/proc/self/fd");
    s->threads = entries("/proc/self/task");
    ck_assert_int_eq(nib_config_new(&cfg), 0);
    site_listen(cfg, "tcp:127.0.0.1:0");
    ck_assert_int_eq(nib_config_set_reactors(cfg, 2), 0);
    nib_config_set_log(cfg, log_line, s, NIB_LOG_DEBUG);
    add_routes(s, cfg);
    if (tweak != NULL)
        tweak(cfg);
    err = nib_server_new(cfg, &s->srv);
    if (err < 0)
        ck_abort_msg("nib_server_new: %s: %s", nib_strerror(err),
                     nib_config_error(cfg));
    nib_config_free(cfg);
    err = nib_server_start(s->srv);
    if (err < 0)
        ck_abort_msg("nib_server_start: %s: %s", nib_strerror(err),
                     nib_server_error(s->srv));
    ck_assert_int_gt(nib_server_address(s->srv, 0, s->address,
                                        sizeof s->address),
                     0);
}

void site_end(struct site *s)
{
    unsigned running = 99;

    ck_assert_int_eq(nib_server_join(s->srv, peer_patience_ms(), &running),
                     0);
    ck_assert_uint_eq(running, 0);
    for (unsigned i = 0; i < s->event_count; i++)
        if (s->events[i].kind == EVENT_OPEN)
            nib_conn_unref(s->events[i].conn);
    nib_server_free(s->srv);
}

void site_free(struct site *s)
{
    site_end(s);
    site_check_left(s);
}

void site_stop(struct site *s)
{
    nib_server_stop(s->srv, 0);
    site_free(s);
}

struct peer *site_connect(struct site *s)
{
    return peer_connect(s->address, 0);
}

struct nib_request *site_next(struct site *s)
{
    struct nib_request *req = NULL;

    ck_assert_int_eq(nib_server_next(s->srv, &req, peer_patience_ms()), 0);
    return req;
}

struct nib_stats site_stats(struct site *s)
{
    struct nib_stats stats;

    nib_server_stats(s->srv, &stats);
    return stats;
}

struct count {
    struct site *s;
    uint64_t n;
};

static bool has_read(void *arg)
{
    struct count *c = arg;

    return site_stats(c->s).bytes_in >= c->n;
}

void site_await_bytes_in(struct site *s, uint64_t bytes)
{
    struct count c = {s, bytes};

    until(has_read, &c, "bytes that the server reads");
}

static bool has_connections(void *arg)
{
    struct count *c = arg;

    return site_stats(c->s).connections == c->n;
}

void site_await_connections(struct site *s, uint64_t count)
{
    struct count c = {s, count};

    until(has_connections, &c, "a number of connections");
}

static bool no_handshakes(void *arg)
{
    struct nib_stats stats = site_stats(arg);

    return stats.tls_full + stats.tls_resumed == stats.accepted;
}

void site_await_handshakes(struct site *s)
{
    if (site_tls())
        until(no_handshakes, s, "the end of all TLS handshakes");
}

struct link link_accept(struct site *s, struct peer *peer)
{
    struct link l = {.peer = peer};
    struct nib_request *req;

    peer_ask(peer, "/next");
    req = site_next(s);
    ck_assert_int_eq(nib_accept(req, NULL, &l.conn), 0);
    nib_conn_ref(l.conn);
    nib_request_unref(req);
    peer_expect_101(peer, "");
    return l;
}

struct link link_open(struct site *s)
{
    return link_accept(s, site_connect(s));
}

struct link link_callbacks(struct site *s)
{
    struct link l = {.peer = site_connect(s)};

    peer_upgrade(l.peer, "/cb");
    site_event(s, EVENT_REQUEST);
    l.conn = nib_conn_ref(site_event(s, EVENT_OPEN).conn);
    return l;
}

void link_free(struct link *l)
{
    peer_free(l->peer);
    nib_conn_unref(l->conn);
    l->peer = NULL;
    l->conn = NULL;
}

void link_finish(struct link *l)
{
    peer_send_close(l->peer, 1000, "");
    peer_expect_close(l->peer, 1000, "");
    peer_expect_end(l->peer);
    link_free(l);
}

struct errand {
    struct latch done;
    int (*run)(struct nib_conn *conn, void *arg);
    void *arg;
    int result;
};

static void errand_run(struct nib_conn *conn, void *arg)
{
    struct errand *e = arg;

    e->result = e->run(conn, e->arg);
    latch_add(&e->done);
}

static void errand_cancel(struct nib_conn *conn, void *arg)
{
    struct errand *e = arg;

    (void)conn;
    e->result = -ECANCELED;
    latch_add(&e->done);
}

int on_owner(struct nib_conn *conn,
             int (*run)(struct nib_conn *conn, void *arg), void *arg)
{
    struct errand e = {.run = run, .arg = arg};

    latch_init(&e.done);
    nib_post(conn, errand_run, errand_cancel, &e);
    latch_await(&e.done, 1);
    /* latch_add() is done with it when its lock can be taken. */
    latch_count(&e.done);
    return e.result;
}

/* ---- comparing ---- */

void expect_recv(struct nib_conn *conn, unsigned kind, const char *text)
{
    struct nib_message *msg = NULL;
    size_t len;
    const void *data;

    ck_assert_int_eq(nib_recv(conn, &msg, peer_patience_ms()), 0);
    data = nib_message_data(msg, &len);
    ck_assert_uint_eq(nib_message_kind(msg), kind);
    ck_assert_uint_eq(len, strlen(text));
    ck_assert(memcmp(data, text, len) == 0);
    nib_message_unref(msg);
}

void expect_info(struct nib_conn *conn, int code, bool local, bool clean,
                 const char *reason)
{
    struct nib_close_info info;

    ck_assert_int_eq(nib_conn_close_info(conn, &info), 0);
    ck_assert_int_eq(info.code, code);
    ck_assert_int_eq(info.local, local);
    ck_assert_int_eq(info.clean, clean);
    ck_assert_str_eq(info.reason, reason);
}

static bool closed(void *arg)
{
    return nib_conn_state(arg) == NIB_CLOSED;
}

void await_closed(struct nib_conn *conn)
{
    until(closed, conn, "the end of a connection");
}

static bool written(void *arg)
{
    return nib_conn_buffered(arg) == 0;
}

void await_written(struct nib_conn *conn)
{
    until(written, conn, "an empty outbox");
}

static bool full(struct nib_conn *conn, const void *data, size_t len,
                 unsigned *count)
{
    int err;

    while ((err = nib_send(conn, data, len, NIB_BINARY | NIB_NOWAIT)) == 0)
        ++*count;
    ck_assert_int_eq(err, -EAGAIN);
    return true;
}

static int do_nothing(struct nib_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    return 0;
}

unsigned fill_outbox(struct nib_conn *conn, size_t len)
{
    char *data = calloc(1, len + 1);
    unsigned count = 0, before;
    size_t buffered;

    /* Full, and the kernel takes no more: the owner has had its turn, and
     * nothing moves for a while. */
    do {
        full(conn, data, len, &count);
        before = count;
        buffered = nib_conn_buffered(conn);
        on_owner(conn, do_nothing, NULL);
        for (int i = 0; i < 50; i++)
            poll(NULL, 0, 1);
        full(conn, data, len, &count);
    } while (count != before || nib_conn_buffered(conn) != buffered);
    free(data);
    return count;
}

int run_tests(const char *name, const struct named_test *tests, size_t count)
{
    Suite *suite = suite_create(name);
    SRunner *runner = srunner_create(suite);
    int failed;

    for (size_t i = 0; i < count; i++) {
        TCase *tcase = tcase_create(tests[i].name);

        tcase_set_timeout(tcase, 4.0 * peer_patience_ms() / 1000);
        tcase_add_test(tcase, *tests[i].test);
        suite_add_tcase(suite, tcase);
    }
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
