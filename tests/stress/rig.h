/*
 * rig - what the stress and fault tests share: a server in this process and
 * clients made of plain sockets.
 *
 * A client does what the test says and nothing by itself. Everything that
 * waits has a deadline, after which the test fails. A rig_peer belongs to one
 * thread; a server that was started is ended by rig_stop().
 */
#ifndef NIB__TESTS_STRESS_RIG_H
#define NIB__TESTS_STRESS_RIG_H

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nib.h"

#if defined(__SANITIZE_THREAD__)
#define RIG_SANITIZED 1
#elif defined(__SANITIZE_ADDRESS__)
#define RIG_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define RIG_SANITIZED 1
#endif
#endif
#ifndef RIG_SANITIZED
#define RIG_SANITIZED 0
#endif

enum {
    RIG_PATIENCE_MS = 60000, /* only ever runs out when a test fails */
    RIG_TEXT = 0x1,
    RIG_BINARY = 0x2,
    RIG_CLOSE = 0x8,
    RIG_PING = 0x9,
    RIG_PONG = 0xA,
};

/*
 * ck_assert() for any thread, and for what runs a million times: libcheck
 * notes the place of each of its own in a file, and jumps out of the thread
 * that runs the test, whoever failed.
 */
#define rig_check(condition)                                                 \
    do {                                                                     \
        if (!(condition))                                                    \
            rig_fail(__FILE__, __LINE__, "not so: %s", #condition);          \
    } while (0)

#define rig_abort(...) rig_fail(__FILE__, __LINE__, __VA_ARGS__)

/* Fails the test; on another thread than the test's, ends the process. */
void rig_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/*
 * How often a loop runs: `full` times under "make check-stress" (which sets
 * NIB_STRESS), else a tenth of it, and a fiftieth under a sanitizer; 1 at
 * least.
 */
unsigned rig_times(unsigned full);

/* A configuration that listens on a free port of 127.0.0.1. */
struct nib_config *rig_config(unsigned reactors);

/* Adds a route with callbacks, or with a handler, to a configuration. */
void rig_callbacks(struct nib_config *cfg, const char *pattern,
                   const struct nib_callbacks *callbacks, void *arg);
void rig_handler(struct nib_config *cfg, const char *pattern,
                 nib_handler_fn *fn, void *arg);

/* Makes a server of cfg, which is freed, and starts it. */
struct nib_server *rig_start(struct nib_config *cfg);

/* Stops, joins and frees a server. */
void rig_stop(struct nib_server *srv, unsigned grace_ms);

/* The port of a server's first address. */
int rig_port(const struct nib_server *srv);

/* Open descriptors and threads of this process. */
struct rig_census {
    unsigned descriptors;
    unsigned threads;
};
struct rig_census rig_census(void);

/* Waits until the census is `before` again; fails if it never is. */
void rig_settled(struct rig_census before);

/* Polls until condition(arg) holds; fails, naming `what`, if it never does. */
void rig_until(bool (*condition)(void *arg), void *arg, const char *what);

void *rig_alloc(size_t bytes);

pthread_t rig_thread(void *(*fn)(void *arg), void *arg);
void rig_thread_end(pthread_t thread);

/*
 * Where a test meets the connections of a route with callbacks: on_open
 * leaves a reference, on_close counts.
 */
struct rig_meeting {
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct nib_conn *conn; /* the newest one that nobody has taken */
    unsigned opened;
    unsigned closed;
};

void rig_meeting_init(struct rig_meeting *m);

/* A route whose connections are met; what they send is ignored. */
void rig_meet_at(struct nib_config *cfg, const char *pattern,
                 struct rig_meeting *m);

/* Waits for the next connection, whose reference the caller gets. */
struct nib_conn *rig_meet(struct rig_meeting *m);

/* Waits until as many have been closed as were opened. */
void rig_all_closed(struct rig_meeting *m);

/* ---- clients ---- */

struct rig_peer {
    int fd;
    uint8_t *buffer; /* received and not yet used */
    size_t at, len, capacity;
};

/* A received frame; its payload lives until the peer is used again. */
struct rig_frame {
    bool fin;
    unsigned opcode;
    const uint8_t *data;
    size_t len;
};

/*
 * Connects to port; receive_bytes: SO_RCVBUF, 0 for the system's own. False
 * if the server refuses.
 */
bool rig_connect(struct rig_peer *p, int port, int receive_bytes);

/* Sends an upgrade request for a path. */
void rig_request(struct rig_peer *p, const char *path);

/* Reads a response's head; returns its status, 0 at the stream's end. */
int rig_status(struct rig_peer *p);

/* Connects and upgrades; fails the test unless that is answered by 101. */
void rig_open(struct rig_peer *p, int port, const char *path,
              int receive_bytes);

/* Sends bytes as they are; false if the peer has gone. */
bool rig_write(struct rig_peer *p, const void *data, size_t len);

/* Sends a masked frame. */
bool rig_send(struct rig_peer *p, unsigned opcode, const void *data,
              size_t len);

/* Reads a frame; false at the end of the stream or a reset. */
bool rig_read(struct rig_peer *p, struct rig_frame *frame);

/* Reads and drops everything up to the end. */
void rig_drain(struct rig_peer *p);

/* Closes the socket; `reset`: by RST. */
void rig_close(struct rig_peer *p, bool reset);

/* Sends Close 1000, reads up to the end, closes. */
void rig_goodbye(struct rig_peer *p);

/* The code of a Close frame; 1005 without one. */
unsigned rig_close_code(const struct rig_frame *frame);

/* Runs a suite; the result is main()'s. */
int rig_run(Suite *suite);

#endif
