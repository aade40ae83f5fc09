/* An allocator that maps its memory, and looks at a file, under its lock when it is first called, as others do. A call of
 * itself from in there would wait for ever. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARENA = 256 << 20, ALIGN = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *arena, *next;

static void begin(void)
{
    char text[8];
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void) !read(fd, text, sizeof text);
        close(fd);
    }
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    next = arena;
}

static void *take(size_t align, size_t size)
{
    char *start;

    pthread_mutex_lock(&lock);
    if (arena == NULL)
        begin();
    start = (char *) (((size_t) next + ALIGN + align - 1) & ~(align - 1));
    next = start + size;
    pthread_mutex_unlock(&lock);
    if (next > arena + ARENA) {
        errno = ENOMEM;
        return NULL;
    }
    ((size_t *) start)[-1] = size;
    return start;
}

void *malloc(size_t size) { return take(ALIGN, size); }
void *calloc(size_t count, size_t size) { return take(ALIGN, count * size); }
void *memalign(size_t align, size_t size) { return take(align < ALIGN ? ALIGN : align, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
void free(void *old) { (void) old; }

int posix_memalign(void **out, size_t align, size_t size)
{
    *out = memalign(align, size);
    return *out == NULL ? ENOMEM : 0;
}

void *realloc(void *old, size_t size)
{
    void *start = malloc(size);
    size_t had = old == NULL ? 0 : ((size_t *) old)[-1];

    return start == NULL || old == NULL ? start : memcpy(start, old, had < size ? had : size);
}
