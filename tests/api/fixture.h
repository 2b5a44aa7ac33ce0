/*
 * fixture - a server under test, and threads that do what a test tells them.
 *
 * A site is a server on a free port with three routes:
 *
 *   /next  for nib_server_next(): the test's own thread decides and receives
 *   /hold  a blocking handler that waits for orders, see struct held
 *   /cb    callbacks that note what happened, see struct event
 *
 * and whatever else a test's tweak adds. site_stop() checks that descriptors
 * and threads are back to what they were before site_start().
 *
 * Everything that waits has a deadline and fails the test behind it. Only the
 * test's own thread may fail a test by ck_assert; others use must().
 */
#ifndef NIB_TESTS_FIXTURE_H
#define NIB_TESTS_FIXTURE_H

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nib.h"
#include "../peer/peer.h"

/* Ends the program unless the condition holds; for any thread. */
#define must(condition) must_hold((condition), #condition, __FILE__, __LINE__)
void must_hold(bool holds, const char *text, const char *file, int line);

/* Number of elements of an array. */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- waiting ---- */

/* Counts up; others wait until it has reached a number. */
struct latch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned count;
};

void latch_init(struct latch *l);
void latch_add(struct latch *l);
void latch_await(struct latch *l, unsigned count);
unsigned latch_count(struct latch *l);

/* Calls `holds` until it returns true; fails the test at the deadline. For
 * what nobody reports, such as a counter. */
void until(bool (*holds)(void *arg), void *arg, const char *what);

/* ---- threads of the test ---- */

struct job {
    pthread_t thread;
    int (*run)(void *arg);
    void *arg;
    _Atomic pid_t tid; /* 0 until it runs */
    _Atomic bool ended;
    int result;
};

void job_start(struct job *j, int (*run)(void *arg), void *arg);

/* Waits until it sleeps, as in a call that waits. */
void job_await_sleep(struct job *j);

/* Waits for its end and returns its result. */
int job_wait(struct job *j);

/* ---- callbacks ---- */

enum event_kind {
    EVENT_REQUEST,
    EVENT_OPEN,
    EVENT_MESSAGE,
    EVENT_ROOM,
    EVENT_PONG,
    EVENT_CLOSE,
};

struct event {
    enum event_kind kind;
    struct nib_conn *conn; /* referenced until site_stop() */
    size_t len;            /* of a message or pong */
    char text[132];        /* its first bytes, or the reason of a Close */
    int code;
    bool local;
    bool clean;
    size_t unsent_bytes;
};

enum {
    EVENTS = 4096, /* that one test can see */
    HELD = 256,    /* handlers of one test */
};

/* ---- handlers ---- */

/* A blocking handler of /hold: it does one job after the other. */
struct held {
    struct site *site;
    struct nib_request *req;
    struct nib_conn *conn; /* set by held_accept() */
    int (*run)(struct held *h, void *arg); /* the job, NULL: none */
    void *arg;
    bool done; /* the job has returned */
    bool leave;
    int result;
};

/* ---- the server ---- */

struct site {
    struct nib_server *srv;
    char address[128];
    int fds; /* before the start */
    int threads;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct event events[EVENTS]; /* under the lock, as what follows */
    unsigned event_count;
    unsigned event_taken;
    struct held held[HELD];
    unsigned held_count;
    unsigned held_taken;
    char log[1 << 16];
    size_t log_len;

    /* What the callbacks of /cb do before they note; set before a client
     * comes. */
    int verdict; /* of on_request; NIB_ACCEPT at first */
    void (*on_request)(struct site *s, struct nib_request *req);
    void (*on_open)(struct site *s, struct nib_conn *conn);
    void (*on_message)(struct site *s, struct nib_conn *conn,
                       struct nib_message *msg);
    void (*on_room)(struct site *s, struct nib_conn *conn);
    void (*on_close)(struct site *s, struct nib_conn *conn);
    void *user; /* the test's own */
};

/*
 * Starts a server. tweak may be NULL; it gets the configuration before the
 * server is made of it, with two reactors and the listener set.
 */
void site_start(struct site *s, void (*tweak)(struct nib_config *cfg));

/*
 * Does everything go over TLS? If NIB_TEST_TLS names a folder of certs.sh, the
 * site listens with TLS and peers that come by TCP speak it; see
 * over_tls.sh.
 */
bool site_tls(void);

/* A handshake timeout that a test waits for: `plain_ms`, or as long as a TLS
 * handshake may take on a busy machine, which is within it. */
unsigned site_short_ms(unsigned plain_ms);

/* Adds a TCP address to listen on, with or without TLS accordingly. */
void site_listen(struct nib_config *cfg, const char *address);

/* Stops with no grace, joins, frees, and checks that nothing is left. */
void site_stop(struct site *s);

/* The second half of site_stop(), for a server that was stopped already. */
void site_free(struct site *s);

/* site_free() without the check, for a test that still holds references: they
 * keep the server's eventfds. */
void site_end(struct site *s);

/* Checks that descriptors and threads are as before site_start(). */
void site_check_left(struct site *s);

/* Connects a raw peer. */
struct peer *site_connect(struct site *s);

/* The next request of /next; to be given back by nib_request_unref(). */
struct nib_request *site_next(struct site *s);

/* The next event of /cb, in order; fails unless it is of this kind. */
struct event site_event(struct site *s, enum event_kind kind);

/* Number of events that nobody has taken yet. */
unsigned site_events_left(struct site *s);

/* Waits for a line of the log that has this text. */
void site_await_log(struct site *s, const char *text);

/* Waits until the server has read this many bytes of all sockets. */
void site_await_bytes_in(struct site *s, uint64_t bytes);

/* Statistics, by value. */
struct nib_stats site_stats(struct site *s);

/* Waits until this many connections are there. */
void site_await_connections(struct site *s, uint64_t count);

/* Waits until the TLS handshakes of all connections so far are over. */
void site_await_handshakes(struct site *s);

/* A connection of /next with the peer at its other end. */
struct link {
    struct peer *peer;
    struct nib_conn *conn; /* referenced */
};

/* Connects, upgrades and accepts on the test's thread. */
struct link link_open(struct site *s);

/* The same with a peer that has been connected already. */
struct link link_accept(struct site *s, struct peer *peer);

/* The same over /cb; takes the events of request and opening. */
struct link link_callbacks(struct site *s);

/* Gives the reference back and closes the peer, unless NULL already. */
void link_free(struct link *l);

/* Ends the connection by a Close of the peer with 1000, and frees. */
void link_finish(struct link *l);

/* Runs a function on the owner of a connection; returns its result. */
int on_owner(struct nib_conn *conn,
             int (*run)(struct nib_conn *conn, void *arg), void *arg);

/* ---- handlers ---- */

/* The next handler that has begun. */
struct held *held_next(struct site *s);

/* Has it run a job; held_wait() returns the job's result. */
void held_start(struct held *h, int (*run)(struct held *h, void *arg),
                void *arg);
int held_wait(struct held *h);

/* Both. */
int held_do(struct held *h, int (*run)(struct held *h, void *arg), void *arg);

/* Accepts on the handler's thread; returns nib_accept()'s result. */
int held_accept(struct held *h);

/* Has the handler return this result. */
void held_return(struct held *h, int result);

/* ---- comparing ---- */

/* Fails unless a message of this kind and text is received next. */
void expect_recv(struct nib_conn *conn, unsigned kind, const char *text);

/* Fails unless the close info is this. */
void expect_info(struct nib_conn *conn, int code, bool local, bool clean,
                 const char *reason);

/* Waits until the connection is closed. */
void await_closed(struct nib_conn *conn);

/* Waits until nothing waits in the outbox. */
void await_written(struct nib_conn *conn);

/* Sends binary messages of `len` bytes without waiting until the outbox is
 * full; returns how many were taken. */
unsigned fill_outbox(struct nib_conn *conn, size_t len);

/* Runs the suite's cases: a program's main() in one line. Each case is one
 * START_TEST function, with its own name. */
struct named_test {
    const char *name;
    const TTest **test;
};
int run_tests(const char *name, const struct named_test *tests, size_t count);
#define TEST(function) {#function, &(function)}

#endif
