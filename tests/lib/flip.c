/*
 * A preload library in which a link changes while a path is looked at: when libc was asked for the real path of the link that
 * PGSEAL_TEST_LINK names, for the n-th time in a process, what is beside it under the name with .n behind it takes its place.
 * The link that PGSEAL_TEST_DIRECTORY names leads to a directory: it changes when a file's status is asked for below it or when it is
 * opened. In LD_PRELOAD the library comes after libpgseal, which finds these functions where it looks for libc's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* The directory itself, whether or not a slash ends its name. */
static void flip_directory(const char *path)
{
    const char *link = getenv("PGSEAL_TEST_DIRECTORY");
    size_t length = link == NULL ? 0 : strlen(link);

    if (length > 0 && strncmp(path, link, length) == 0 && (path[length] == 0 || strcmp(path + length, "/") == 0))
        flip(link);
}

int statx(int directory, const char *path, int flags, unsigned int mask, struct statx *status)
{
    int answer = (int) syscall(SYS_statx, directory, path, flags, mask, status);

    flip_directory(path);
    return answer;
}

int openat(int directory, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list rest;
    int fd;

    va_start(rest, flags);
    if (flags & (O_CREAT | O_TMPFILE))
        mode = va_arg(rest, mode_t);
    va_end(rest);
    fd = (int) syscall(SYS_openat, directory, path, flags, mode);
    flip_directory(path);
    return fd;
}
