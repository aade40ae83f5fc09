/*
 * Forbids a system call, as a container may (used by calls.c).
 */
#include "transcript.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* From here on close_range fails as where a container forbids it. */
static void
forbid_close_range(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	result("seccomp", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}
