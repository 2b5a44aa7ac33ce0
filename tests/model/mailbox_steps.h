/*
 * mailbox_steps - the mailbox, the oneshot and their users as steps.
 *
 * What mailbox_model.c explores: which state it begins with, and what each
 * thread can do next. A step is one access to memory that threads share, or
 * one system call; what a thread does alone belongs to the step before it.
 *
 *   step of the model          in the code
 *   P_LOAD, P_CAS, P_RING      nib__mailbox_post: load, CAS, wake if ARMED
 *   P_ANNOUNCE                 nib__oneshot_wait: CAS PENDING, WAITED_FOR
 *   P_FUTEX, P_ASLEEP, P_LOOK  nib__oneshot_wait: futex_wait compares, sleeps;
 *                              then the load of the loop
 *   P_WAIT                     nib__oneshot_wait in one step (`coarse`)
 *   O_TURN                     reactor's loop: was a stop asked for?
 *   O_ARM                      sleep_ns: backlog? else nib__mailbox_arm
 *   O_POLL, O_SLEEP            nib__poller_wait without and with a timeout
 *   O_LOOK, O_TAKE             nib__mailbox_take: load, exchange and append
 *   O_RUN                      nib__mailbox_run, with a limit of one record
 *   O_COMPLETE, O_WAKE         nib__oneshot_complete: exchange, futex_wake
 *   O_LOAD, O_CAS, O_RING      nib__mailbox_post, called by a record's run
 *   O_CLOSE, O_CANCEL          nib__mailbox_close: exchange and append; one
 *                              cancel after the other
 *   S_STOP, S_RING             a stop: its flag, then nib__mailbox_wake
 *
 * A producer posts a record without waiting, then makes blocking calls with
 * one and the same record, as if each took the same place on its stack; the
 * run of producer 1's first record posts one more, to its own mailbox. Another
 * descriptor wakes the owner for no reason, but only once, so that it cannot
 * hide a lost wake. With 3 producers the states are too many for a test of
 * seconds (62 million): there not all post without waiting, and the oneshot,
 * which the other setups take apart, is one step on either side.
 */
#ifndef NIB__TESTS_MODEL_MAILBOX_STEPS_H
#define NIB__TESTS_MODEL_MAILBOX_STEPS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PRODUCERS = 3,
    RECORDS = 2 * PRODUCERS + 1, /* plain and call of each; the owner's own */
    THREADS = PRODUCERS + 2,     /* and the owner, and who stops it */
};

enum mutation {
    NONE,
    NO_CLOSED,        /* closing leaves the head EMPTY */
    SLEEP_ON_BACKLOG, /* the owner sleeps despite its backlog */
    KEEP_BACKLOG,     /* closing does not cancel the backlog */
    MUTATIONS,
};

struct producer {
    uint8_t at;   /* enum producer_at */
    uint8_t old;  /* what it saw in head */
    uint8_t call; /* 0: the plain post, then the number of the call */
    uint8_t word; /* of its oneshot */
};

/* All bytes, so that states compare and hash as memory. */
struct state {
    uint8_t head;
    uint8_t next[RECORDS];
    uint8_t backlog[RECORDS]; /* records, the next to run first */
    uint8_t backlog_count;
    uint8_t pending; /* bits: posted, and not ended yet */
    uint8_t edge;    /* the eventfd has something to report */
    uint8_t stop;
    uint8_t owner;   /* enum owner_at */
    uint8_t record;  /* what the owner runs or cancels */
    uint8_t old;     /* what the owner's own post saw in head */
    uint8_t spare;   /* wakes for no reason that are left */
    uint8_t closing;
    uint8_t stopper; /* enum stopper_at */
    struct producer producer[PRODUCERS];
};

/* What is explored; the same for all states. */
struct setup {
    enum mutation mutation;
    unsigned producers;
    unsigned plain; /* producers that begin with a post without waiting */
    unsigned calls; /* blocking calls of each producer */
    bool coarse;    /* the oneshot is one step on either side */
    bool stop;
};

/* To be set before anything else is called. */
extern struct setup setup;

/* What the first bad step since it was set to NULL broke. */
extern const char *fault;

/* The state in which everybody is yet to begin. */
struct state first_state(void);

/* Lets a thread (0 .. THREADS - 1) do its next step; false if it cannot. */
bool take_step(struct state *s, unsigned thread);

/* The name of a thread, and what it is about to do. */
const char *thread_name(unsigned thread);
const char *step_name(const struct state *s, unsigned thread);

/* What is wrong with a state in which no thread can go on; or NULL. */
const char *final_fault(const struct state *s);

#endif
