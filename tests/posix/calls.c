/*
 * Reads, writes, sizes and descriptors, on one file of each class. Usage: calls PATH...
 *
 * Each path is relative to the working directory, the data directory; its file does not exist at first.
 */
#define _GNU_SOURCE
#include "file.h"
#include "forbid.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void
try_flags(const char *label, int flags)
{
	char		name[100];
	int			fd;
	struct stat before;

#define STEP(step) (snprintf(name, sizeof(name), "%s/%s", label, step), name)
	fd = opened(STEP("open"), open(path, flags, 0600));
	if (fd < 0)
		return;
	note(STEP("flags"), "%x", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC));
	result(STEP("read"), read(fd, page, 10));
	result(STEP("write"), write(fd, "0123456789", 10));
	result(STEP("position"), lseek(fd, 0, SEEK_CUR));
	result(STEP("pread"), pread(fd, page, 100, 3));
	result(STEP("pwrite"), pwrite(fd, "abc", 3, 1));
	result(STEP("read nothing"), read(fd, page, 0));
	result(STEP("write nothing"), write(fd, page, 0));
	result(STEP("position after"), lseek(fd, 0, SEEK_CUR));
	result(STEP("end"), lseek(fd, 0, SEEK_END));
	result(STEP("ftruncate"), ftruncate(fd, 33));
	result(STEP("ftruncate more"), ftruncate(fd, 77));
	result(STEP("posix_fallocate"), posix_fallocate(fd, 0, 99));
	result(STEP("fallocate"), fallocate(fd, 0, 0, 99));
	result(STEP("fsync"), fsync(fd));
	result(STEP("fdatasync"), fdatasync(fd));
	result(STEP("sync_file_range"), sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE));
	result(STEP("fadvise"), posix_fadvise(fd, 0, 10, POSIX_FADV_WILLNEED));
	result(STEP("fstat"), fstat(fd, &before));
	note(STEP("size"), "%ld", (long) before.st_size);
	result(STEP("close"), close(fd));
	contents(STEP("contents"));
#undef STEP
}

static void
modes(void)
{
	static const struct
	{
		const char *label;
		int			flags;
	}			tried[] = {
		{"missing", O_RDONLY},
		{"create", O_RDWR | O_CREAT},
		{"exclusive", O_RDWR | O_CREAT | O_EXCL},
		{"read", O_RDONLY},
		{"write", O_WRONLY},
		{"both", O_RDWR},
		{"append", O_WRONLY | O_APPEND},
		{"append and read", O_RDWR | O_APPEND},
		{"truncate", O_WRONLY | O_TRUNC},
		{"create existing", O_WRONLY | O_CREAT},
		{"synchronous", O_RDWR | O_SYNC},
		{"directory", O_RDONLY | O_DIRECTORY},
		{"read appending", O_RDONLY | O_APPEND},
		{"mode 3", O_ACCMODE},
	};

	unlink(path);
	for (size_t i = 0; i < sizeof(tried) / sizeof(*tried); i++)
		try_flags(tried[i].label, tried[i].flags);
	unlink(path);
	close(opened("creat", creat(path, 0600)));
	unlink(path);
}

/* Flags without O_CREAT that the compiler does not know: the fortified names take them. */
static void
fortified(volatile int flags, volatile size_t len)
{
	int			fd = fresh(100);
	char		small[64];

	close(fd);
	fd = opened("open, flags unknown", open(path, flags));
	result("read, length unknown", read(fd, small, len));
	note("read", "%016lx", digest(small, len));
	result("pread, length unknown", pread(fd, small, len, 5));
	note("pread", "%016lx", digest(small, len));
	close(fd);
	fd = opened("openat, flags unknown", openat(AT_FDCWD, path, flags));
	close(fd);
}

static void
offsets(void)
{
	static const int at[] = {0, 1, 15, 16, 17, 4095, 8191, 8192, 8193, 20000, 100000};
	char		name[100];
	int			fd = fresh(30000);

	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
	{
		for (size_t len = 1; len <= 16385; len = len * 7 + 1)
		{
			ssize_t		got;

			snprintf(name, sizeof(name), "pread %zu at %d", len, at[i]);
			memset(large, 0, len);
			got = result(name, pread(fd, large + len % 3, len, at[i]));
			snprintf(name, sizeof(name), "bytes of %zu at %d", len, at[i]);
			note(name, "%016lx", digest(large + len % 3, got < 0 ? 0 : got));
		}
	}
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
	{
		snprintf(name, sizeof(name), "pwrite at %d", at[i]);
		fill(large, 9000, '*');
		result(name, pwrite(fd, large + i, 700 * i + 1, at[i]));
		snprintf(name, sizeof(name), "after pwrite at %d", at[i]);
		contents(name);
	}
	result("seek past the end", lseek(fd, 150001, SEEK_SET));
	result("read past the end", read(fd, page, 10));
	result("write past the end", write(fd, "past", 4));
	result("position", lseek(fd, 0, SEEK_CUR));
	contents("gap");
	close(fd);
}

static void
wrong(void)
{
	int			fd = fresh(100);
	struct iovec one = {page, 10};
	struct iovec many[2000] = {one};
	volatile int negative = -1; /* the compiler would warn of what is tried */

	result("pread at -1", pread(fd, page, 10, -1));
	result("pwrite at -1", pwrite(fd, page, 10, -1));
	result("preadv at -1", preadv(fd, &one, 1, -1));
	result("pwritev at -1", pwritev(fd, &one, 1, -1));
	result("lseek to -1", lseek(fd, -1, SEEK_SET));
	result("ftruncate to -1", ftruncate(fd, -1));
	result("posix_fallocate of nothing", posix_fallocate(fd, 0, 0));
	result("posix_fallocate at -1", posix_fallocate(fd, -1, 10));
	result("fallocate of nothing", fallocate(fd, 0, 0, 0));
	result("readv of -1 parts", readv(fd, &one, negative));
	result("readv of no parts", readv(fd, &one, 0));
	result("writev of -1 parts", writev(fd, &one, negative));
	result("pwritev of no parts", pwritev(fd, &one, 0, 0));
	result("pwritev of 2000 parts", pwritev(fd, many, 2000, 0));
	close(fd);
	result("read closed", read(fd, page, 1));
	result("write closed", write(fd, page, 1));
	result("pread closed", pread(fd, page, 1, 0));
	result("ftruncate closed", ftruncate(fd, 1));
	result("close closed", close(fd));
	result("dup closed", dup(fd));
	result("fcntl closed", fcntl(fd, F_GETFL));
	contents("contents");
}

static void
vectors(void)
{
	char		a[8192],
				b[100],
				c[5000];
	struct iovec parts[] = {{a, sizeof(a)}, {b, sizeof(b)}, {NULL, 0}, {c, sizeof(c)}};
	struct iovec pages[] = {{large, 2 * PAGE}, {large + 4 * PAGE, PAGE}, {page, PAGE}};
	int			fd = fresh(0);

	fill(a, sizeof(a), 'a');
	fill(b, sizeof(b), 'b');
	fill(c, sizeof(c), 'c');
	result("writev", writev(fd, parts, 4));
	result("position", lseek(fd, 0, SEEK_CUR));
	result("pwritev", pwritev(fd, parts, 4, 12345));
	result("pwritev2", pwritev2(fd, parts, 4, 33, 0));
	result("pwritev2 at the position", pwritev2(fd, parts, 4, -1, 0));
	result("position after", lseek(fd, 0, SEEK_CUR));
	contents("written");
	memset(a, 0, sizeof(a));
	result("preadv", preadv(fd, parts, 4, 20000));
	note("a", "%016lx", digest(a, sizeof(a)));
	result("preadv2", preadv2(fd, parts, 4, 77, 0));
	note("b", "%016lx", digest(b, sizeof(b)));
	lseek(fd, 11, SEEK_SET);
	result("readv", readv(fd, parts, 4));
	note("c", "%016lx", digest(c, sizeof(c)));
	result("preadv2 at the position", preadv2(fd, parts, 4, -1, 0));
	note("c again", "%016lx", digest(c, sizeof(c)));
	result("position at last", lseek(fd, 0, SEEK_CUR));
	result("preadv2 with flags", preadv2(fd, parts, 4, 0, RWF_HIPRI));
	result("pwritev2 with flags", pwritev2(fd, parts, 4, 0, RWF_DSYNC));
	fill(large, 5 * PAGE, 'p');
	result("whole pages out", pwritev(fd, pages, 3, 2 * PAGE));
	memset(large, 0, sizeof(large));
	memset(page, 0, sizeof(page));
	result("whole pages in", preadv(fd, pages, 3, 2 * PAGE));
	note("pages", "%016lx %016lx", digest(large, 5 * PAGE), digest(page, PAGE));
	result("whole pages across the end", preadv(fd, pages, 3, 4 * PAGE));
	note("pages at the end", "%016lx %016lx", digest(large, 3), digest(page, PAGE));
	close(fd);
}

/* What a protected descriptor's number becomes must not be encrypted. */
static void
reuse(const char *label, int fd)
{
	int			ends[2];
	char		name[100];
	char		seen[8] = "";

	if (pipe(ends) != 0)
		abort();
	snprintf(name, sizeof(name), "%s/dup2 of a pipe", label);
	note(name, "%d", dup2(ends[1], fd) == fd);
	snprintf(name, sizeof(name), "%s/write", label);
	result(name, write(fd, "through", 7));
	snprintf(name, sizeof(name), "%s/read", label);
	result(name, read(ends[0], seen, 7));
	note(label, "%s", seen);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

/* What close_range leaves open when it fails is as protected as before. */
static void
failed_close_range(int fd)
{
	result("close_range of nothing", close_range(fd, fd - 1, 0));
	result("close_range with unknown flags", close_range(fd, fd, 1 << 10));
	result("close_range on exec", close_range(fd, fd, CLOSE_RANGE_CLOEXEC));
	result("write after these", pwrite(fd, "-text-marker/", 13, 100));
	fflush(stdout);
	if (fork() == 0)
	{
		forbid_close_range();
		result("close_range forbidden", close_range(3, ~0U, 0));
		result("write after that", pwrite(fd, "-text-marker/", 13, 200));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	contents("contents after a failed close_range");
}

static void
copies(void)
{
	int			fd = fresh(1000);
	int			copy = opened("dup", dup(fd));
	int			high;

	lseek(fd, 7, SEEK_SET);
	result("shared position", lseek(copy, 0, SEEK_CUR));
	close(fd);
	result("read the copy", read(copy, page, 100));
	note("copy", "%016lx", digest(page, 100));
	fd = opened("F_DUPFD", fcntl(copy, F_DUPFD, 500));
	note("F_DUPFD number", "%d", fd == 500);
	high = opened("F_DUPFD_CLOEXEC", fcntl(copy, F_DUPFD_CLOEXEC, 500));
	note("cloexec", "%d %d", fcntl(fd, F_GETFD), fcntl(high, F_GETFD));
	result("dup2", dup2(fd, 600) - 600);
	result("dup2 onto itself", dup2(600, 600) - 600);
	result("dup3", dup3(fd, 601, O_CLOEXEC) - 601);
	result("dup3 onto itself", dup3(601, 601, 0));
	result("write to a copy", pwrite(601, "copied", 6, 500));
	contents("contents");
	reuse("closed and reused", 600);
	reuse("replaced", 601);
	reuse("F_DUPFD replaced", fd);
	result("F_SETFL O_APPEND", fcntl(copy, F_SETFL, O_APPEND));
	note("F_GETFL", "%x", fcntl(copy, F_GETFL) & (O_ACCMODE | O_APPEND));
	result("write appended", write(copy, "appended", 8));
	result("F_SETFL none", fcntl(copy, F_SETFL, 0));
	note("F_GETFL none", "%x", fcntl(copy, F_GETFL) & (O_ACCMODE | O_APPEND));
	result("pwrite not appended", pwrite(copy, "inside", 6, 20));
	contents("contents after F_SETFL");
	failed_close_range(copy);
	result("F_SETLK", fcntl(copy, F_SETLK, &(struct flock){.l_type = F_WRLCK}));
	result("close_range", close_range(high, high, 0));
	result("read after close_range", read(high, page, 1));
	result("still open", pread(copy, page, 1, 0));
	fflush(stdout);
	if (fork() == 0)
	{
		closefrom(3);
		result("read after closefrom", read(copy, page, 1));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	result("in the parent", pread(copy, page, 1, 0));
	close(copy);
}

static void
sizes(void)
{
	static const int modes_of_fallocate[] = {0, FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
	FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE};
	static const long cuts[] = {30000, 29999, 16384, 16383, 8193, 8192, 100, 16, 15, 1, 0};
	char		name[100];
	int			fd = fresh(30001);

	for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++)
	{
		snprintf(name, sizeof(name), "cut to %ld", cuts[i]);
		result(name, i % 2 ? ftruncate(fd, cuts[i]) : truncate(path, cuts[i]));
		snprintf(name, sizeof(name), "contents of %ld", cuts[i]);
		contents(name);
	}
	pwrite(fd, "head", 4, 0);
	for (long size = 5; size < 100000; size = size * 5 + 3)
	{
		snprintf(name, sizeof(name), "grow to %ld", size);
		result(name, ftruncate(fd, size));
		snprintf(name, sizeof(name), "grown to %ld", size);
		contents(name);
	}
	result("posix_fallocate inside", posix_fallocate(fd, 5, 1000));
	result("posix_fallocate beyond", posix_fallocate(fd, 90000, 15003));
	contents("reserved");
	for (size_t i = 0; i < sizeof(modes_of_fallocate) / sizeof(int); i++)
	{
		close(fd);
		fd = fresh(5 * PAGE + 5);
		snprintf(name, sizeof(name), "fallocate mode %x", modes_of_fallocate[i]);
		result(name, fallocate(fd, modes_of_fallocate[i], PAGE, PAGE));
		snprintf(name, sizeof(name), "after fallocate mode %x", modes_of_fallocate[i]);
		contents(name);
	}
	close(fd);
	unlink(path);
	result("truncate missing", truncate(path, 1));
}

/* What an unprotected file does and a protected one may refuse. */
static void
withdrawn(void)
{
	int			fd = fresh(3 * PAGE);
	int			other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
	int			ends[2];
	off_t		at = 0;
	loff_t		from = 0;

	opened("mmap", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
	opened("mmap shared", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	result("lockf", lockf(fd, F_LOCK, 10));
	result("F_SETLKW", fcntl(fd, F_SETLKW, &(struct flock){.l_type = F_RDLCK, .l_len = 1}));
	result("write what was to be locked", pwrite(fd, "locked", 6, 0));
	result("sendfile from", sendfile(other, fd, &at, 100));
	at = 0;
	result("sendfile to", sendfile(fd, other, &at, 100));
	if (pipe(ends) != 0)
		abort();
	result("splice from", splice(fd, &from, ends[1], NULL, 100, 0));
	result("write the pipe", write(ends[1], "pipe", 4));
	result("splice to", splice(ends[0], NULL, fd, &from, 4, 0));
	result("FICLONE", ioctl(fd, FICLONE, other));
	result("FICLONE from", ioctl(other, FICLONE, fd));
	result("FIONREAD of the pipe", ioctl(ends[0], FIOCLEX));
	opened("O_TMPFILE", open("base/5", O_TMPFILE | O_RDWR, 0600));
	close(ends[0]);
	close(ends[1]);
	close(other);
	close(fd);
	unlink("other");
}

static void
ranges(void)
{
	int			fd = fresh(30001);
	int			other = open("base/5/77777", O_RDWR | O_CREAT | O_TRUNC, 0600);
	loff_t		from = 100,
				to = 7;

	lseek(fd, 5, SEEK_SET);
	result("both positions", copy_file_range(fd, NULL, other, NULL, 10000, 0));
	note("moved on", "%ld %ld", lseek(fd, 0, SEEK_CUR), lseek(other, 0, SEEK_CUR));
	result("both offsets", copy_file_range(fd, &from, other, &to, 20000, 0));
	note("offsets", "%ld %ld", (long) from, (long) to);
	note("not moved", "%ld %ld", lseek(fd, 0, SEEK_CUR), lseek(other, 0, SEEK_CUR));
	result("to the end", copy_file_range(fd, NULL, other, NULL, 100000, 0));
	result("at the end", copy_file_range(fd, NULL, other, NULL, 100000, 0));
	result("flags", copy_file_range(fd, NULL, other, NULL, 1, 1));
	note("size", "%ld", lseek(other, 0, SEEK_END));
	note("bytes", "%zd %016lx", pread(other, large, sizeof(large), 0), digest(large, 29996));
	close(other);
	other = open("base/5/77777", O_RDONLY);
	result("to a read-only file", copy_file_range(fd, &to, other, NULL, 10, 0));
	close(other);
	close(fd);
	fd = open(path, O_WRONLY);
	other = open("base/5/77777", O_WRONLY);
	result("from a write-only file", copy_file_range(fd, NULL, other, NULL, 10, 0));
	close(other);
	close(fd);
	unlink("base/5/77777");
}

static void
direct(void)
{
	int			fd;

	close(fresh(0));
	fd = opened("open", open(path, O_RDWR | O_DIRECT));
	fill(large, 4 * PAGE, 'd');
	result("pwrite", pwrite(fd, large, 4 * PAGE, 0));
	result("pwrite 4096", pwrite(fd, large, 4096, 4096));
	result("pread", pread(fd, large + PAGE, 2 * PAGE, PAGE));
	note("bytes", "%016lx", digest(large + PAGE, 2 * PAGE));
	result("pread 4096", pread(fd, page, 4096, 3 * 4096));
	note("bytes of 4096", "%016lx", digest(page, 4096));
	result("pread across the end", pread(fd, large, 4 * PAGE, 2 * PAGE));
	note("bytes at the end", "%016lx", digest(large, 2 * PAGE));
	result("unaligned buffer", pread(fd, large + 1, 4096, 0));
	result("unaligned offset", pread(fd, large, 4096, 7));
	result("unaligned length", pread(fd, large, 100, 0));
	result("unaligned write", pwrite(fd, large, 100, 3));
	close(fd);
}

/*
 * Any sequence of calls through two open files of one name. Only the first cuts it inside a page:
 * PostgreSQL never cuts a file below another process that writes it.
 */
static void
sequence(void)
{
	int			fds[2] = {fresh(0), open(path, O_RDWR)};
	char		name[40];

	for (int i = 0; i < 400; i++)
	{
		int			fd = fds[chance(2)];
		long		at = chance(3) ? chance(60000) : (long) chance(8) * PAGE;
		long		len = chance(3) ? chance(20000) : (long) chance(3) * PAGE;
		long		done = 0;

		fill(large, len, (char) ('A' + i % 26));
		switch (chance(7))
		{
			case 0:
			case 1:
			case 2:
				done = pwrite(fd, large, len, at);
				break;
			case 3:
				lseek(fd, at, SEEK_SET);
				done = write(fd, large, len);
				break;
			case 4:
				done = ftruncate(fds[0], at);
				close(fds[1]);
				fds[1] = open(path, O_RDWR);
				break;
			case 5:
				done = posix_fallocate(fd, at, len + 1);
				break;
			case 6:
				done = pread(fd, large, len, at);
				break;
		}
		snprintf(name, sizeof(name), "%d of %ld at %ld", i, len, at);
		result(name, done);
		snprintf(name, sizeof(name), "contents %d", i);
		contents(name);
	}
	close(fds[0]);
	close(fds[1]);
}

/* liburing's, which PostgreSQL 18 may be linked with: absent here unless the library brings them. */
extern int	io_uring_queue_init(unsigned entries, void *ring, unsigned flags) __attribute__((weak));
extern int	io_uring_queue_init_mem(unsigned entries, void *ring, void *params, void *buf, size_t len)
			__attribute__((weak));

static void
past_libc(void)
{
	snprintf(scene, sizeof(scene), "io_uring");
	note("init", "%d", io_uring_queue_init ? io_uring_queue_init(1, NULL, 0) : 0);
	note("init_mem", "%d",
		 io_uring_queue_init_mem ? io_uring_queue_init_mem(1, NULL, NULL, NULL, 0) : 0);
}

/* Interposed for the server's and pg_upgrade's sake; as in libc everywhere else. */
static void
no_files(void)
{
	int			ends[2];
	char		got[8] = "";
	struct timeval now = {0};

	snprintf(scene, sizeof(scene), "no files");
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	note("send", "%zd", send(ends[0], "abc", 3, 0));
	read(ends[1], got, sizeof(got));
	note("sent", "%s", got);
	close(ends[1]);
	note("broken", "%zd", send(ends[0], "abc", 3, MSG_NOSIGNAL));
	close(ends[0]);
	note("time", "%d", gettimeofday(&now, NULL));
	note("now", "%d", now.tv_sec > 1600000000);
	note("system", "%d %d", system("exit 3"), system(NULL) != 0);
}

static void
fortified_calls(void)
{
	fortified(O_RDONLY, 50);
}

int
main(int count, char **arguments)
{
	for (int i = 1; i < count; i++)
	{
		path = arguments[i];
		run("modes", modes);
		run("fortified", fortified_calls);
		run("offsets", offsets);
		run("wrong", wrong);
		run("vectors", vectors);
		run("copies", copies);
		run("sizes", sizes);
		run("withdrawn", withdrawn);
		run("ranges", ranges);
		run("direct", direct);
		run("sequence", sequence);
		close(fresh(5000));
	}
	past_libc();
	no_files();
	return 0;
}
