/*
 * A preload library in which a link changes while a path is looked at: when libc was asked for the real path of the link that
 * PGSEAL_TEST_LINK names, for the n-th time in a process, what lies beside it under the name with .n behind it takes its place. In
 * LD_PRELOAD it comes after libpgseal, which finds this function where it looks for libc's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void flip(const char *link)
{
    static int asked;
    char other[4096];

    snprintf(other, sizeof other, "%s.%d", link, ++asked);
    /* By the kernel's call, because libc's leads to libpgseal. */
    syscall(SYS_renameat, AT_FDCWD, other, AT_FDCWD, link);
}

static char *look_up(const char *name, const char *path, char *real)
{
    char *(*next)(const char *, char *) = dlsym(RTLD_NEXT, name);
    const char *link = getenv("PGSEAL_TEST_LINK");
    char *found = next(path, real);

    if (link != NULL && strcmp(path, link) == 0)
        flip(link);
    return found;
}

char *realpath(const char *path, char *real)
{
    return look_up("realpath", path, real);
}
