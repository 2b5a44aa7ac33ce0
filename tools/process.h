/*
 * process - time, memory and limits of this process and of another.
 */
#ifndef NIB_TOOLS_PROCESS_H
#define NIB_TOOLS_PROCESS_H

#include <stdint.h>

/* Memory of a process, in bytes, as /proc/PID/smaps_rollup has it. */
struct process_memory {
    uint64_t resident;
    uint64_t anonymous; /* heap, stacks: what is not a file's page */
};

/* The monotonic clock, in nanoseconds. */
uint64_t process_clock_ns(void);

/*
 * The CPU time of all threads of a process so far, those that have ended
 * included; pid 0 is this process.
 *
 * Returns 0 and sets *ns, or a negative errno (-ESRCH: no such process).
 */
int process_cpu_ns(long pid, uint64_t *ns);

/*
 * The memory of a process.
 *
 * Returns 0 and fills *out; or a negative errno, -EACCES for another user's
 * process.
 */
int process_memory(long pid, struct process_memory *out);

/*
 * Binds this process to one CPU, counted from 0.
 *
 * Returns 0 or a negative errno (-EINVAL: there is no such CPU for us).
 */
int process_pin(unsigned cpu);

/*
 * Raises the limit of open files to the hard limit.
 *
 * Returns 0 and sets *limit to what there is now, or a negative errno, and
 * sets *limit as well.
 */
int process_raise_files(uint64_t *limit);

#endif
