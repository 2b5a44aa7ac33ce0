/*
 * calls - every public function, with its thread tag and, if any thread may
 * call it, calls that say exactly what it returns.
 *
 * For test_threads. A call runs on a thread that is neither the owner nor a
 * handler's, and ends the program by must() where it differs.
 */
#ifndef NIB_TESTS_CALLS_H
#define NIB_TESTS_CALLS_H

#include "fixture.h"

/* What the calls are made with. */
struct stage {
    struct site *site;
    struct link l;           /* of /cb; nib_conn_user() is the site */
    struct peer *asking;     /* has asked for /next, with a query */
    const char *asking_name;
    struct nib_request *req; /* not decided yet */
    struct nib_message *msg; /* "text" */
    pid_t test;              /* the test's own thread */
    struct latch ran;        /* on the owner */
    pid_t owner;             /* on which that was */
};

/* A public function. The calls are NULL unless any thread may call it. */
struct row {
    const char *name;
    const char *tag;
    void (*live)(struct stage *st);  /* while its object lives */
    void (*after)(struct stage *st); /* what follows, on the test's thread;
                                      * or NULL */
    void (*ended)(struct stage *st); /* after the object's end */
};

extern const struct row rows[];
extern const size_t row_count;

/* The calls that end what the others need. */
void request_unref_live(struct stage *st);
void stop_ended(struct stage *st);

#endif
