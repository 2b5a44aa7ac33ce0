/*
 * log - lines on stderr.
 *
 * Each line is one write, so that lines of several threads do not mix.
 * log_set_level() is called before there are threads; the rest from any.
 */
#ifndef NIB_DAEMON_LOG_H
#define NIB_DAEMON_LOG_H

/*
 * Sets the highest enum nib_log_level that is written; before the first call
 * it is NIB_LOG_WARN.
 */
void log_set_level(int level);

/* The level that was set. */
int log_level(void);

/* A line of the daemon's own, as printf, with no newline at its end. */
void log_line(int level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line that all but --quiet are to see though nothing is wrong. */
void log_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of the library's: the callback of nib_config_set_log(). */
void log_library(int level, const char *line, void *arg);

#endif
