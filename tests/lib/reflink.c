/*
 * A preload library in which FICLONE works on every file system: it copies what is stored. For tests of clones on machines
 * whose file systems clone nothing. In LD_PRELOAD it comes after libpgseal, which finds this function where it looks for
 * libc's, so it represents the kernel; it marks each clone by a byte in the file that PGSEAL_TEST_CLONES names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the kernel's calls, because libc's lead to libpgseal. */
static int clone_file(int source, int target)
{
    static char piece[1 << 16];
    const char *name = getenv("PGSEAL_TEST_CLONES");
    off_t at = 0;
    long len;
    int told;

    while ((len = syscall(SYS_pread64, source, piece, sizeof piece, at)) > 0) {
        if (syscall(SYS_pwrite64, target, piece, len, at) != len)
            return -1;
        at += len;
    }
    told = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (len < 0 || told < 0)
        return -1;
    len = syscall(SYS_write, told, "x", 1);
    syscall(SYS_close, told);
    return len == 1 ? 0 : -1;
}

int ioctl(int fd, unsigned long request, ...)
{
    int (*next)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    va_list more;
    void *argument;

    va_start(more, request);
    argument = va_arg(more, void *);
    va_end(more);
    return request == FICLONE ? clone_file((int) (long) argument, fd) : next(fd, request, argument);
}
