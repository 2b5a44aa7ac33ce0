/*
 * options - a command's options from tables, and its --help from the same.
 *
 * Long and short options, before or after the arguments; "--" ends them.
 * -h, --help and --version are always there. What is wrong is told on stderr
 * with the input and what was expected, and ends the program with status 2.
 */
#ifndef NIB_TOOLS_OPTIONS_H
#define NIB_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_USAGE = 2 }; /* the exit status of a usage error */

enum option_type {
    OPTION_FLAG,     /* to: bool, set to true */
    OPTION_COUNT,    /* to: uint64_t; a plain number */
    OPTION_SIZE,     /* to: uint64_t; bytes, "64k" */
    OPTION_DURATION, /* to: uint64_t; milliseconds, "25s" */
    OPTION_SECONDS,  /* the same; a bare number is seconds */
    OPTION_TEXT,     /* to: const char *, part of argv */
    OPTION_CHOICE,   /* to: int; which of the words in `value`, "a|b|c" */
    OPTION_LIST,     /* to: struct option_list, one entry for each use */
};

struct option_list {
    const char *items[32]; /* parts of argv */
    unsigned places[32];   /* the how manieth option of all each one was */
    size_t count;
};

/* One option. Its default is what `to` holds before. */
struct option_spec {
    const char *name; /* without the dashes */
    char letter;      /* 0 for none */
    enum option_type type;
    void *to;
    uint64_t min, max; /* of numbers, both allowed */
    const char *value; /* what --help calls the value; NULL for flags */
    const char *help;  /* may have several lines */
};

struct option_table {
    const struct option_spec *specs;
    size_t count;
};

#define OPTION_TABLE(array)                                                    \
    {                                                                          \
        (array), sizeof(array) / sizeof((array)[0])                            \
    }

struct command {
    const char *name;      /* as it is called: "nib-bench stream" */
    const char *arguments; /* for the usage line: "URL" */
    const char *summary;   /* what it does, whole lines */
    struct option_table own;
    struct option_table shared; /* listed after the own ones; may be empty */
    struct option_table tls;    /* the last ones; may be empty */
    void (*more_help)(void);    /* prints the end of --help; may be NULL */
    int min_arguments, max_arguments;
};

/*
 * Reads argv[1..argc), which it reorders: arguments last.
 *
 * Returns the index in argv of the first argument; their number is within
 * the command's bounds. Does not return after --help, --version or an error.
 */
int options_parse(const struct command *command, int argc, char **argv);

/*
 * Ends the program with status 2 after "NAME: " and the message.
 */
void options_fail(const struct command *command, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

#endif
