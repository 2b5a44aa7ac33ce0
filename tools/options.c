/*
 * options - a command's options from tables, and its --help from the same.
 *
 * getopt_long() does the splitting and the reordering; an option's number in
 * the tables, one after the other, is what it returns, above the codes
 * of characters.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"

enum {
    MAX_SPECS = 48,
    CODE_BASE = 1000, /* code of the first spec */
    CODE_HELP = 500,
    CODE_VERSION,
    HELP_COLUMN = 26,
};

void options_fail(const struct command *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", command->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry '%s --help'.\n", command->name);
    exit(OPTIONS_USAGE);
}

static size_t spec_count(const struct command *command)
{
    return command->own.count + command->shared.count + command->tls.count;
}

static const struct option_spec *spec_at(const struct command *command,
                                         size_t i)
{
    if (i < command->own.count)
        return &command->own.specs[i];
    i -= command->own.count;
    if (i < command->shared.count)
        return &command->shared.specs[i];
    return &command->tls.specs[i - command->shared.count];
}

/* ---- help -------------------------------------------------------------- */

/* Text of several lines, the later ones indented like the first. */
static void print_help_text(const char *text, int column)
{
    const char *end;

    if (column >= HELP_COLUMN - 1)
        column = printf("\n") - 1;
    for (; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        printf("%*s%.*s\n", HELP_COLUMN - column, "", (int)(end - text), text);
        column = 0;
    }
    printf("%*s%s\n", HELP_COLUMN - column, "", text);
}

static void print_spec(const struct option_spec *spec)
{
    int column =
        spec->letter ? printf("  -%c, ", spec->letter) : printf("      ");

    column += printf("--%s", spec->name);
    if (spec->value)
        column += printf(" %s", spec->value);
    print_help_text(spec->help, column);
}

static void print_help(const struct command *command)
{
    printf("Usage: %s [OPTION]... %s\n\n%s\n\n", command->name,
           command->arguments, command->summary);
    for (size_t i = 0; i < spec_count(command); i++)
        print_spec(spec_at(command, i));
    print_help_text("this text", printf("  -h, --help"));
    print_help_text("the version", printf("      --version"));
    if (command->more_help)
        command->more_help();
}

/* Leaves with 1 if the text could not be written: `--help > /dev/full`. */
static void leave(void)
{
    exit(fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- values ------------------------------------------------------------ */

static const char *expected(enum option_type type)
{
    switch (type) {
    case OPTION_SIZE:
        return "a size such as 512, 64k or 2m";
    case OPTION_DURATION:
        return "a duration such as 250ms, 25s or 1m, or 0";
    case OPTION_SECONDS:
        return "a number of seconds, or a duration such as 250ms or 1m";
    default:
        return "a number";
    }
}

static const char *unit_of(enum option_type type)
{
    if (type == OPTION_SIZE)
        return " bytes";
    if (type == OPTION_DURATION || type == OPTION_SECONDS)
        return " ms";
    return "";
}

static int parse_seconds(const char *text, uint64_t *ms)
{
    if (units_count(text, ms) != 0)
        return units_duration_ms(text, ms);
    return __builtin_mul_overflow(*ms, 1000, ms) ? -ERANGE : 0;
}

static void store_number(const struct command *command,
                         const struct option_spec *spec, const char *text)
{
    uint64_t value;
    int result;

    if (spec->type == OPTION_SIZE)
        result = units_size(text, &value);
    else if (spec->type == OPTION_DURATION)
        result = units_duration_ms(text, &value);
    else if (spec->type == OPTION_SECONDS)
        result = parse_seconds(text, &value);
    else
        result = units_count(text, &value);
    if (result == -EINVAL)
        options_fail(command, "--%s: '%s' is not %s", spec->name, text,
                     expected(spec->type));
    if (result || value < spec->min || value > spec->max)
        options_fail(command,
                     "--%s: '%s' is out of range: expected %ju to %ju%s",
                     spec->name, text, (uintmax_t)spec->min,
                     (uintmax_t)spec->max, unit_of(spec->type));
    *(uint64_t *)spec->to = value;
}

/* Which of the words of "a|b|c" it is; -1 for none. */
static int choice(const char *words, const char *text)
{
    size_t len = strlen(text);

    for (int i = 0;; i++) {
        size_t n = strcspn(words, "|");

        if (n == len && memcmp(words, text, n) == 0)
            return i;
        if (words[n] == '\0')
            return -1;
        words += n + 1;
    }
}

static void store(const struct command *command, const struct option_spec *spec,
                  const char *text, unsigned place)
{
    struct option_list *list;
    int which;

    switch (spec->type) {
    case OPTION_FLAG:
        *(bool *)spec->to = true;
        break;
    case OPTION_TEXT:
        *(const char **)spec->to = text;
        break;
    case OPTION_CHOICE:
        which = choice(spec->value, text);
        if (which < 0)
            options_fail(command, "--%s: '%s': expected %s", spec->name, text,
                         spec->value);
        *(int *)spec->to = which;
        break;
    case OPTION_LIST:
        list = spec->to;
        if (list->count == sizeof(list->items) / sizeof(list->items[0]))
            options_fail(command, "--%s: given more than %zu times", spec->name,
                         list->count);
        list->places[list->count] = place;
        list->items[list->count++] = text;
        break;
    case OPTION_COUNT:
    case OPTION_SIZE:
    case OPTION_DURATION:
    case OPTION_SECONDS:
        store_number(command, spec, text);
        break;
    }
}

/* ---- parsing ----------------------------------------------------------- */

/* The tables, as getopt_long() wants them. */
static void translate(const struct command *command, struct option *longs,
                      char *shorts)
{
    size_t n = spec_count(command);

    if (n > MAX_SPECS)
        abort();     /* a table of ours, not an input */
    *shorts++ = ':'; /* tell a missing value from an unknown option */
    *shorts++ = 'h';
    for (size_t i = 0; i < n; i++) {
        const struct option_spec *spec = spec_at(command, i);
        bool takes = spec->type != OPTION_FLAG;

        longs[i] =
            (struct option){spec->name, takes ? required_argument : no_argument,
                            NULL, CODE_BASE + (int)i};
        if (spec->letter) {
            *shorts++ = spec->letter;
            if (takes)
                *shorts++ = ':';
        }
    }
    *shorts = '\0';
    longs[n] = (struct option){"help", no_argument, NULL, CODE_HELP};
    longs[n + 1] = (struct option){"version", no_argument, NULL, CODE_VERSION};
    longs[n + 2] = (struct option){0};
}

static const struct option_spec *spec_of_code(const struct command *command,
                                              int code)
{
    if (code >= CODE_BASE)
        return spec_at(command, (size_t)(code - CODE_BASE));
    for (size_t i = 0; i < spec_count(command); i++) {
        if (spec_at(command, i)->letter == code)
            return spec_at(command, i);
    }
    return NULL;
}

/* The option that getopt_long() stumbled over, as the user wrote it. */
static const char *offender(char **argv, char *room)
{
    if (optopt > 0 && optopt < CODE_HELP) {
        room[0] = '-';
        room[1] = (char)optopt;
        room[2] = '\0';
        return room;
    }
    return argv[optind - 1];
}

int options_parse(const struct command *command, int argc, char **argv)
{
    struct option longs[MAX_SPECS + 3];
    char shorts[2 * MAX_SPECS + 3];
    char room[3];
    unsigned place = 0;
    int code;

    translate(command, longs, shorts);
    optind = 0; /* start anew, whatever was parsed before */
    opterr = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (code == 'h' || code == CODE_HELP) {
            print_help(command);
            leave();
        } else if (code == CODE_VERSION) {
            printf("%s (nib) %s\n", command->name, PACKAGE_VERSION);
            leave();
        } else if (code == ':') {
            options_fail(command, "%s: a value is missing",
                         offender(argv, room));
        } else if (code == '?') {
            options_fail(command, "%s: no such option, or used wrongly",
                         offender(argv, room));
        } else {
            store(command, spec_of_code(command, code), optarg, place++);
        }
    }
    if (argc - optind < command->min_arguments)
        options_fail(command, "expected %s", command->arguments);
    if (argc - optind > command->max_arguments)
        options_fail(command, "'%s': expected no more than %s",
                     argv[optind + command->max_arguments], command->arguments);
    return optind;
}
