/*
 * A preload library in which the file system has no files without a name (PGSEAL_TEST_REFUSES=open), or gives none its name
 * (PGSEAL_TEST_REFUSES=link), for two_phase.py. In LD_PRELOAD it comes after libpgseal, which finds these functions where
 * it looks for libc's. What was refused is told by making the file that PGSEAL_TEST_REFUSED names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the kernel's call, because libc's leads to libpgseal. */
static int refuses(const char *call)
{
    const char *refused = getenv("PGSEAL_TEST_REFUSES");

    if (!refused || strcmp(refused, call) != 0)
        return 0;
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, getenv("PGSEAL_TEST_REFUSED"), O_CREAT | O_WRONLY, 0600));
    return 1;
}

int openat(int directory, const char *path, int flags, ...)
{
    int (*next)(int, const char *, int, ...) = dlsym(RTLD_NEXT, "openat");
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
    if ((flags & O_TMPFILE) == O_TMPFILE && refuses("open")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return next(directory, path, flags, mode);
}

int linkat(int from, const char *old, int to, const char *new, int flags)
{
    int (*next)(int, const char *, int, const char *, int) = dlsym(RTLD_NEXT, "linkat");

    if (flags & AT_SYMLINK_FOLLOW && refuses("link")) {
        errno = EPERM;
        return -1;
    }
    return next(from, old, to, new, flags);
}
