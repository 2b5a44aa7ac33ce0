/*
 * mailbox_steps - the mailbox, the oneshot and their users as steps.
 *
 * Each step_...() is the code's, with every thread's place in it made
 * visible. The mutations stand where the code would be wrong.
 */
#include "mailbox_steps.h"

#include <stddef.h>
#include <string.h>

enum {
    OWN_RECORD = RECORDS - 1,
    OWNER = PRODUCERS, /* threads behind the producers */
    STOPPER,
};

/* Values of `head`, `next` and of what was loaded from head. */
enum {
    EMPTY,
    ARMED,
    CLOSED,
    FIRST_RECORD, /* of record 0 */
};

/* The oneshot's word. */
enum {
    PENDING,
    WAITED_FOR,
    DONE,
};

enum producer_at {
    P_LOAD,
    P_CAS,
    P_RING,
    P_ANNOUNCE,
    P_FUTEX,
    P_ASLEEP,
    P_LOOK,
    P_WAIT,
    P_END,
};

enum owner_at {
    O_TURN,
    O_ARM,
    O_POLL,
    O_SLEEP,
    O_LOOK,
    O_TAKE,
    O_RUN,
    O_COMPLETE,
    O_WAKE,
    O_LOAD,
    O_CAS,
    O_RING,
    O_CLOSE,
    O_CANCEL,
    O_END,
};

enum stopper_at {
    S_STOP,
    S_RING,
    S_END,
};

static const char *const producer_steps[] = {
    [P_LOAD] = "post: load",
    [P_CAS] = "post: cas",
    [P_RING] = "post: write eventfd",
    [P_ANNOUNCE] = "wait: announce",
    [P_FUTEX] = "wait: futex",
    [P_ASLEEP] = "wait: asleep",
    [P_LOOK] = "wait: look",
    [P_WAIT] = "wait",
    [P_END] = "end",
};

static const char *const owner_steps[] = {
    [O_TURN] = "turn",
    [O_ARM] = "arm",
    [O_POLL] = "poll",
    [O_SLEEP] = "sleep",
    [O_LOOK] = "take: load",
    [O_TAKE] = "take: exchange",
    [O_RUN] = "run",
    [O_COMPLETE] = "complete",
    [O_WAKE] = "futex wake",
    [O_LOAD] = "own post: load",
    [O_CAS] = "own post: cas",
    [O_RING] = "own post: write eventfd",
    [O_CLOSE] = "close",
    [O_CANCEL] = "cancel",
    [O_END] = "end",
};

static const char *const stopper_steps[] = {
    [S_STOP] = "set",
    [S_RING] = "write eventfd",
    [S_END] = "end",
};

struct setup setup;
const char *fault;

/* ---- records ----------------------------------------------------------- */

static bool is_call(unsigned record)
{
    return record % 2 == 1 && record != OWN_RECORD;
}

/* The CAS of a post: true if it went through, else *old is fresh. */
static bool push(struct state *s, unsigned record, uint8_t *old)
{
    if (s->head != *old) {
        *old = s->head;
        return false;
    }
    if (s->pending & 1u << record)
        fault = "a record was posted twice";
    s->pending |= (uint8_t)(1u << record);
    s->next[record] = *old == ARMED ? EMPTY : *old;
    s->head = (uint8_t)(FIRST_RECORD + record);
    return true;
}

/* Exchanges head, and appends what was there, oldest first. */
static void take(struct state *s, uint8_t head)
{
    uint8_t found[RECORDS];
    unsigned count = 0;

    for (uint8_t at = s->head; at >= FIRST_RECORD;) {
        unsigned record = at - FIRST_RECORD;

        if (count == RECORDS) {
            fault = "the list runs in a circle";
            return;
        }
        found[count++] = (uint8_t)record;
        at = s->next[record];
        s->next[record] = EMPTY;
    }
    s->head = head;
    if (s->backlog_count + count > RECORDS) {
        fault = "a record is in two lists";
        return;
    }
    while (count > 0)
        s->backlog[s->backlog_count++] = found[--count];
}

static uint8_t pop(struct state *s)
{
    uint8_t record = s->backlog[0];

    s->backlog_count--;
    memmove(s->backlog, s->backlog + 1, s->backlog_count);
    s->backlog[s->backlog_count] = 0;
    return record;
}

/* A record's run or cancel has begun: where does the owner go on? */
static uint8_t begin_end(struct state *s, unsigned record)
{
    if (!(s->pending & 1u << record))
        fault = "a record ended twice";
    s->pending &= (uint8_t)(~(1u << record));
    if (is_call(record) && s->pending & 1u << (record - 1))
        fault = "a record ended before an earlier one";
    s->record = (uint8_t)record;
    if (is_call(record))
        return O_COMPLETE;
    if (record == 0)
        return O_LOAD; /* it posts one more */
    return s->closing ? O_CANCEL : O_TURN;
}

/* ---- steps: each true if the thread could take one --------------------- */

static void next_item(struct producer *p)
{
    p->call++;
    p->word = PENDING;
    p->old = EMPTY;
    p->at = p->call <= setup.calls ? P_LOAD : P_END;
}

/* After the CAS and the write that may follow it. */
static void posted(struct producer *p)
{
    if (p->call > 0)
        p->at = setup.coarse ? P_WAIT : P_ANNOUNCE;
    else
        next_item(p);
}

static bool step_producer(struct state *s, unsigned number)
{
    struct producer *p = &s->producer[number];

    switch (p->at) {
    case P_LOAD:
        p->old = s->head;
        p->at = P_CAS;
        if (p->old == CLOSED)
            next_item(p);
        return true;
    case P_CAS:
        if (push(s, 2 * number + (p->call > 0), &p->old)) {
            if (p->old == ARMED)
                p->at = P_RING;
            else
                posted(p);
        } else if (p->old == CLOSED) {
            next_item(p);
        }
        return true;
    case P_RING:
        s->edge = 1;
        posted(p);
        return true;
    case P_ANNOUNCE:
        if (p->word == DONE) {
            next_item(p);
        } else {
            p->word = WAITED_FOR;
            p->at = P_FUTEX;
        }
        return true;
    case P_FUTEX:
        p->at = p->word == WAITED_FOR ? P_ASLEEP : P_LOOK;
        return true;
    case P_LOOK:
        if (p->word == DONE)
            next_item(p);
        else
            p->at = P_FUTEX;
        return true;
    case P_WAIT:
        if (p->word != DONE)
            return false;
        next_item(p);
        return true;
    default: /* P_ASLEEP: until the owner's O_WAKE; P_END */
        return false;
    }
}

static void arm(struct state *s)
{
    if (s->backlog_count > 0 && setup.mutation != SLEEP_ON_BACKLOG) {
        s->owner = O_POLL;
    } else if (s->head == EMPTY) {
        s->head = ARMED;
        s->owner = O_SLEEP;
    } else {
        s->owner = O_POLL;
    }
}

/* A sleep ends by the eventfd or, `spare` times, by something else. */
static bool wake_up(struct state *s)
{
    if (!s->edge && s->spare == 0)
        return false;
    if (!s->edge)
        s->spare--;
    s->edge = 0;
    s->owner = O_LOOK;
    return true;
}

static void close_mailbox(struct state *s)
{
    s->closing = 1;
    if (setup.mutation == KEEP_BACKLOG) {
        s->backlog_count = 0;
        memset(s->backlog, 0, sizeof(s->backlog));
    }
    take(s, setup.mutation == NO_CLOSED ? EMPTY : CLOSED);
    s->owner = O_CANCEL;
}

/* The run of record 0 posts the owner's own record. */
static void step_own_post(struct state *s)
{
    uint8_t back = s->closing ? O_CANCEL : O_TURN;

    switch (s->owner) {
    case O_LOAD:
        s->old = s->head;
        s->owner = O_CAS;
        break;
    case O_CAS:
        if (push(s, OWN_RECORD, &s->old))
            s->owner = s->old == ARMED ? O_RING : back;
        break;
    default:
        s->edge = 1;
        s->owner = back;
        break;
    }
    if (s->owner == O_CAS && s->old == CLOSED)
        s->owner = back;
    if (s->owner == back)
        s->old = EMPTY;
}

static void step_complete(struct state *s)
{
    struct producer *p = &s->producer[s->record / 2];
    uint8_t back = s->closing ? O_CANCEL : O_TURN;

    if (s->owner == O_COMPLETE) {
        s->owner = p->word == WAITED_FOR ? O_WAKE : back;
        p->word = DONE;
    } else {
        /* Whatever call it sleeps in by now. */
        if (p->at == P_ASLEEP)
            p->at = P_LOOK;
        s->owner = back;
    }
    if (s->owner == back)
        s->record = 0;
}

static bool step_owner(struct state *s)
{
    switch (s->owner) {
    case O_TURN:
        s->owner = s->stop ? O_CLOSE : O_ARM;
        return true;
    case O_ARM:
        arm(s);
        return true;
    case O_POLL:
        s->edge = 0;
        s->owner = O_LOOK;
        return true;
    case O_SLEEP:
        return wake_up(s);
    case O_LOOK:
        s->owner = s->head == EMPTY ? O_RUN : O_TAKE;
        return true;
    case O_TAKE:
        take(s, EMPTY);
        s->owner = O_RUN;
        return true;
    case O_RUN:
        s->owner = s->backlog_count ? begin_end(s, pop(s)) : O_TURN;
        return true;
    case O_COMPLETE:
    case O_WAKE:
        step_complete(s);
        return true;
    case O_LOAD:
    case O_CAS:
    case O_RING:
        step_own_post(s);
        return true;
    case O_CLOSE:
        close_mailbox(s);
        return true;
    case O_CANCEL:
        s->owner = s->backlog_count ? begin_end(s, pop(s)) : O_END;
        return true;
    default:
        return false;
    }
}

static bool step_stopper(struct state *s)
{
    switch (s->stopper) {
    case S_STOP:
        s->stop = 1;
        s->stopper = S_RING;
        return true;
    case S_RING:
        s->edge = 1;
        s->stopper = S_END;
        return true;
    default:
        return false;
    }
}

/* ---- states ------------------------------------------------------------ */

struct state first_state(void)
{
    struct state s;

    memset(&s, 0, sizeof(s));
    s.spare = 1;
    s.stopper = setup.stop ? S_STOP : S_END;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        s.producer[i].call = i >= setup.plain;
        if (i >= setup.producers)
            s.producer[i].at = P_END;
    }
    return s;
}

bool take_step(struct state *s, unsigned thread)
{
    if (thread == OWNER)
        return step_owner(s);
    if (thread == STOPPER)
        return step_stopper(s);
    return step_producer(s, thread);
}

const char *thread_name(unsigned thread)
{
    static const char *const names[THREADS] = {
        "producer 1", "producer 2", "producer 3", "owner", "stopper",
    };

    return names[thread];
}

const char *step_name(const struct state *s, unsigned thread)
{
    if (thread == OWNER)
        return owner_steps[s->owner];
    if (thread == STOPPER)
        return stopper_steps[s->stopper];
    return producer_steps[s->producer[thread].at];
}

const char *final_fault(const struct state *s)
{
    for (unsigned i = 0; i < setup.producers; i++)
        if (s->producer[i].at != P_END)
            return "a call never returns";
    if (s->pending)
        return "a record never ends";
    if (s->owner != (setup.stop ? O_END : O_SLEEP))
        return "the owner is stuck";
    return NULL;
}
