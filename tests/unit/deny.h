/*
 * deny - makes a system call fail in this process, for ever.
 *
 * For what cannot be had on the machine that tests: a kernel without a call,
 * a system without IPv6. It cannot be taken back, so it belongs in a child.
 */

#ifndef NIB__TESTS_UNIT_DENY_H
#define NIB__TESTS_UNIT_DENY_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DENY_ANY UINT32_MAX

enum {
    DENY_NOT_POSSIBLE = 77, /* a child's exit status */
};

/*
 * From now on the call `number` fails with err if the low half of its first
 * argument is `first` (DENY_ANY: whatever it is). Ends the process where the
 * system does not allow such a filter.
 */
static inline void deny(long number, uint32_t first, int err)
{
    const size_t argument = offsetof(struct seccomp_data, args[0]);
    const size_t low = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(argument + low)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 0, first != DENY_ANY),
        BPF_STMT(BPF_RET | BPF_K,
                 SECCOMP_RET_ERRNO | ((uint32_t)err & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(DENY_NOT_POSSIBLE);
}

/*
 * Calls `body` in a child and returns the status it returns;
 * DENY_NOT_POSSIBLE if that is what deny() said.
 */
static inline int in_child(int (*body)(void))
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(body());
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
