/*
 * log - lines on stderr.
 *
 * No time and no pid: whoever collects stderr adds both.
 */
#include "daemon/log.h"

#include "nib.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static int highest = NIB_LOG_WARN;

void log_set_level(int level)
{
    highest = level;
}

int log_level(void)
{
    return highest;
}

static const char *prefix(int level)
{
    switch (level) {
    case NIB_LOG_ERROR:
        return "nibd: ";
    case NIB_LOG_WARN:
        return "nibd: warning: ";
    case NIB_LOG_INFO:
        return "nibd: info: ";
    default:
        return "nibd: debug: ";
    }
}

static void write_line(const char *before, const char *format,
                       va_list arguments) __attribute__((format(printf, 2, 0)));

static void write_line(const char *before, const char *format,
                       va_list arguments)
{
    char line[LINE_BYTES];
    size_t len = strlen(before);
    int written;

    memcpy(line, before, len);
    written = vsnprintf(line + len, sizeof(line) - len, format, arguments);
    if (written > 0)
        len += (size_t)written;
    if (len > sizeof(line) - 1)
        len = sizeof(line) - 1;
    line[len++] = '\n';
    /* A stderr that takes nothing is nobody's reason to stop serving. */
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}

void log_line(int level, const char *format, ...)
{
    va_list arguments;

    if (level > highest)
        return;
    va_start(arguments, format);
    write_line(prefix(level), format, arguments);
    va_end(arguments);
}

void log_notice(const char *format, ...)
{
    va_list arguments;

    if (highest < NIB_LOG_WARN)
        return;
    va_start(arguments, format);
    write_line(prefix(NIB_LOG_ERROR), format, arguments);
    va_end(arguments);
}

void log_library(int level, const char *line, void *arg)
{
    (void)arg;
    log_line(level, "%s", line);
}
