/*
 * A preload library that makes file calls fail, for test_faults.py. In LD_PRELOAD it comes after libpgseal, which finds
 * these functions where it looks for libc's; in a plain server they stand in the same place.
 *
 * PGSEAL_TEST_FAULTS names a file that holds a struct plan and is mapped by every process. The next matching call after
 * `skip` others fails with `error`; but if `part` is set, it moves that many bytes only, and those after it
 * fail. Each such call takes 1 from `left`; at 0 nothing fails any more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { READ, WRITE, SYNC };

struct plan {
    int left;  /* calls that still are to fail */
    int call;  /* which kind */
    int skip;  /* matching calls that pass before */
    int error; /* errno */
    int part;  /* length of a short transfer before the error */
    char path[236]; /* fnmatch pattern of the file's path */
};

static struct plan *plan;

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("PGSEAL_TEST_FAULTS");
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = name ? real_open(name, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (plan == MAP_FAILED)
        plan = NULL;
    close(fd);
}

/* Is it this call's turn? */
static int strikes(enum call call, int fd)
{
    char link[32], path[PATH_MAX];
    ssize_t len;

    if (!plan || plan->left <= 0 || plan->call != (int) call)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof path - 1);
    if (len < 0)
        return 0;
    path[len] = 0;
    if (fnmatch(plan->path, path, 0) != 0 || __sync_fetch_and_sub(&plan->skip, 1) > 0)
        return 0;
    return __sync_fetch_and_sub(&plan->left, 1) > 0;
}

/* The length that a transfer may have; -1 with errno if it fails. */
static ssize_t allowed(enum call call, int fd, size_t len)
{
    int part;

    if (!strikes(call, fd))
        return (ssize_t) len;
    part = __sync_lock_test_and_set(&plan->part, 0);
    if (part > 0)
        return (size_t) part < len ? part : (ssize_t) len;
    errno = plan->error;
    return -1;
}

static size_t total(const struct iovec *parts, int count)
{
    size_t sum = 0;

    for (int i = 0; i < count; i++)
        sum += parts[i].iov_len;
    return sum;
}

#define NEXT(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

#define TRANSFER(name, call, buffer, extra, pass) \
    ssize_t name(int fd, buffer data, size_t len extra) \
    { \
        static __typeof__(&name) next; \
        ssize_t may = allowed(call, fd, len); \
        if (!next) \
            next = NEXT(name); \
        return may < 0 ? -1 : next(fd, data, (size_t) may pass); \
    }

/* A short vector is its first part, cut. */
#define VECTOR(name, call, single) \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at) \
    { \
        static __typeof__(&name) next; \
        size_t len = total(parts, count); \
        ssize_t may = allowed(call, fd, len); \
        if (!next) \
            next = NEXT(name); \
        if (may < 0 || (size_t) may == len) \
            return may < 0 ? -1 : next(fd, parts, count, at); \
        return NEXT(single)(fd, parts[0].iov_base, (size_t) may < parts[0].iov_len ? (size_t) may : parts[0].iov_len, at); \
    }

#define FLUSH(name) \
    int name(int fd) \
    { \
        return allowed(SYNC, fd, 0) < 0 ? -1 : NEXT(name)(fd); \
    }

#define COMMA ,
TRANSFER(read, READ, void *, , )
TRANSFER(write, WRITE, const void *, , )
TRANSFER(pread, READ, void *, COMMA off_t at, COMMA at)
TRANSFER(pread64, READ, void *, COMMA off_t at, COMMA at)
TRANSFER(pwrite, WRITE, const void *, COMMA off_t at, COMMA at)
TRANSFER(pwrite64, WRITE, const void *, COMMA off_t at, COMMA at)
VECTOR(preadv, READ, pread)
VECTOR(preadv64, READ, pread)
VECTOR(pwritev, WRITE, pwrite)
VECTOR(pwritev64, WRITE, pwrite)
FLUSH(fsync)
FLUSH(fdatasync)
