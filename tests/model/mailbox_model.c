/*
 * mailbox_model - every interleaving of posts, sleep, take and close.
 *
 * Explores, breadth first, all states that lib/threads/mailbox.c and
 * oneshot.c can reach with one owner, 1 to 3 producers and a thread that
 * stops the owner. mailbox_steps.h tells which step is which code.
 *
 * Checked: a record ends exactly once, after those that its producer posted
 * before; and a state in which nothing can go on has every call returned,
 * nothing pending, and the owner asleep or, if there was a stop, ended.
 *
 * Without an argument prints TAP: the code as it is must be free of faults,
 * and each mutation must show one. With the name of a mutation, or "none",
 * prints the shortest way to its first fault.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mailbox_steps.h"

static const char *const mutation_names[MUTATIONS] = {
    "none",
    "no-closed",
    "sleep-on-backlog",
    "keep-backlog",
};

struct node {
    struct state state;
    uint32_t parent;
    uint32_t thread; /* that led here from the parent */
};

/* ---- the set of states ------------------------------------------------- */

static struct node *nodes;
static uint32_t node_count, node_room;
static uint32_t *table; /* node number + 1, 0: free */
static uint32_t table_size;

static void *must(void *p)
{
    if (!p) {
        printf("Bail out! out of memory\n");
        exit(1);
    }
    return p;
}

static uint32_t hash(const struct state *s)
{
    const uint8_t *p = (const uint8_t *)s;
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < sizeof(*s); i++)
        h = (h ^ p[i]) * 0x100000001b3;
    return (uint32_t)(h ^ h >> 32);
}

/* Where s is in the table, or the free place for it. */
static uint32_t *find(const struct state *s)
{
    uint32_t i = hash(s) & (table_size - 1);

    while (table[i] &&
           memcmp(&nodes[table[i] - 1].state, s, sizeof(*s)) != 0)
        i = (i + 1) & (table_size - 1);
    return &table[i];
}

static void grow(void)
{
    node_room = node_room ? node_room * 2 : 1 << 16;
    nodes = must(realloc(nodes, node_room * sizeof(*nodes)));
    table_size = node_room * 2;
    free(table);
    table = must(calloc(table_size, sizeof(*table)));
    for (uint32_t i = 0; i < node_count; i++)
        *find(&nodes[i].state) = i + 1;
}

static void add(const struct state *s, uint32_t parent, unsigned thread)
{
    uint32_t *place;

    if (node_count == node_room)
        grow();
    place = find(s);
    if (*place)
        return;
    nodes[node_count] = (struct node){*s, parent, thread};
    *place = ++node_count;
}

/* ---- exploration ------------------------------------------------------- */

/* Tries all steps from one state. Returns what went wrong, or NULL. */
static const char *expand(uint32_t from)
{
    bool moved = false;

    fault = NULL;
    for (unsigned thread = 0; thread < THREADS; thread++) {
        struct state s = nodes[from].state;

        if (take_step(&s, thread)) {
            add(&s, from, thread);
            moved = true;
        }
    }
    if (!moved)
        fault = final_fault(&nodes[from].state);
    return fault;
}

/*
 * Explores the setup, up to the first fault. Returns it, with the state it
 * was met in, or NULL.
 */
static const char *explore(uint32_t *at)
{
    struct state first = first_state();
    const char *found = NULL;

    node_count = 0;
    if (table)
        memset(table, 0, table_size * sizeof(*table));
    add(&first, 0, 0);
    for (*at = 0; *at < node_count; ++*at) {
        found = expand(*at);
        if (found)
            break;
    }
    return found;
}

static void print_way(uint32_t at)
{
    uint32_t parent = nodes[at].parent;

    if (at == 0)
        return;
    print_way(parent);
    printf("# %s: %s\n", thread_name(nodes[at].thread),
           step_name(&nodes[parent].state, nodes[at].thread));
}

static const struct setup setups[] = {
    {.producers = 1, .plain = 1, .calls = 3},
    {.producers = 1, .plain = 1, .calls = 3, .stop = true},
    {.producers = 2, .plain = 1, .calls = 2},
    {.producers = 2, .plain = 1, .calls = 2, .stop = true},
    {.producers = 2, .plain = 2, .calls = 1},
    {.producers = 2, .plain = 2, .calls = 1, .stop = true},
    {.producers = 3, .plain = 0, .calls = 2, .coarse = true},
    {.producers = 3, .plain = 2, .calls = 1, .coarse = true},
    {.producers = 3, .plain = 1, .calls = 1, .coarse = true, .stop = true},
};

enum {
    SETUPS = sizeof(setups) / sizeof(setups[0]),
};

/* One TAP line for a setup without mutation; returns whether it is good. */
static bool check_setup(unsigned number)
{
    uint32_t at;
    const char *found;

    setup = setups[number];
    found = explore(&at);
    if (found)
        print_way(at);
    printf("%sok %u - producers %u, plain posts %u, calls of each %u, %s: "
           "%u states%s%s\n",
           found ? "not " : "", number + 1, setup.producers, setup.plain,
           setup.calls, setup.stop ? "a stop" : "no stop", node_count,
           found ? ", but " : "", found ? found : "");
    fflush(stdout);
    return !found;
}

/* The first setup in which a mutation shows, or SETUPS. */
static unsigned find_fault(enum mutation mutation, const char **found,
                           uint32_t *at)
{
    for (unsigned i = 0; i < SETUPS; i++) {
        setup = setups[i];
        setup.mutation = mutation;
        *found = explore(at);
        if (*found)
            return i;
    }
    return SETUPS;
}

/* One TAP line for a mutation: a call must be found that never returns. */
static bool check_mutation(unsigned number, enum mutation mutation)
{
    const char *found;
    uint32_t at;
    unsigned where = find_fault(mutation, &found, &at);
    bool good = where < SETUPS && strcmp(found, "a call never returns") == 0;

    printf("%sok %u - mutation %s: %s (%u states)\n", good ? "" : "not ",
           number, mutation_names[mutation], found ? found : "no fault",
           node_count);
    return good;
}

static int show(const char *name)
{
    for (unsigned m = 0; m < MUTATIONS; m++) {
        const char *found;
        uint32_t at;

        if (strcmp(name, mutation_names[m]) != 0)
            continue;
        if (find_fault(m, &found, &at) == SETUPS) {
            printf("%s: no fault\n", name);
            return 0;
        }
        print_way(at);
        printf("%s: %s\n", name, found);
        return 1;
    }
    printf("usage: mailbox_model [none|no-closed|sleep-on-backlog|"
           "keep-backlog]\n");
    return 2;
}

int main(int argc, char **argv)
{
    bool good = true;

    if (argc > 1)
        return show(argv[1]);
    printf("1..%d\n", SETUPS + MUTATIONS - 1);
    for (unsigned i = 0; i < SETUPS; i++)
        good &= check_setup(i);
    for (unsigned m = NO_CLOSED; m < MUTATIONS; m++)
        good &= check_mutation(SETUPS + m, m);
    free(nodes);
    free(table);
    return good ? 0 : 1;
}
