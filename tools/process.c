/*
 * process - time, memory and limits of this process and of another.
 *
 * CPU time comes from the process's CPU clock, which counts nanoseconds;
 * /proc/PID/stat has the same in ticks of 10 ms, too coarse for a round of
 * half a second.
 */
#include "process.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static uint64_t to_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

uint64_t process_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return to_ns(&now);
}

int process_cpu_ns(long pid, uint64_t *ns)
{
    struct timespec used;
    clockid_t clock;
    int error = clock_getcpuclockid((pid_t)pid, &clock);

    if (error)
        return -error;
    if (clock_gettime(clock, &used) < 0)
        return -errno;
    *ns = to_ns(&used);
    return 0;
}

int process_memory(long pid, struct process_memory *out)
{
    char line[128];
    unsigned long kib;
    int found = 0;
    FILE *f;

    snprintf(line, sizeof(line), "/proc/%ld/smaps_rollup", pid);
    f = fopen(line, "re");
    if (!f)
        return -errno;
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "Rss: %lu kB", &kib) == 1) {
            out->resident = (uint64_t)kib << 10;
            found |= 1;
        } else if (sscanf(line, "Anonymous: %lu kB", &kib) == 1) {
            out->anonymous = (uint64_t)kib << 10;
            found |= 2;
        }
    }
    fclose(f);
    /* An ended process that nobody has waited for has an empty file. */
    return found == 3 ? 0 : -ESRCH;
}

int process_pin(unsigned cpu)
{
    cpu_set_t set;

    if (cpu >= CPU_SETSIZE)
        return -EINVAL;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

int process_raise_files(uint64_t *limit)
{
    struct rlimit files;
    int result = 0;

    *limit = 0;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    if (files.rlim_cur < files.rlim_max) {
        struct rlimit more = {files.rlim_max, files.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &more) < 0)
            result = -errno;
        else
            files = more;
    }
    *limit = files.rlim_cur;
    return result;
}
