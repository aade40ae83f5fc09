/*
 * Reads by io_uring, as PostgreSQL 18 makes them: rings in shared memory, answers that another process
 * takes. Usage: ring PATH...
 *
 * Each path is relative to the working directory, the data directory; its file does not exist at first.
 */
#define _GNU_SOURCE
#include "transcript.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 8192
#define PAGES 20
#define ENTRIES 8

/* Of later versions of liburing; absent here unless the library brings them. */
extern int	io_uring_submit_and_wait_min_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count,
												 struct __kernel_timespec *time, unsigned least, sigset_t *signals)
			__attribute__((weak));
extern int	io_uring_submit_and_wait_reg(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count, int region)
			__attribute__((weak));

static const char *path;

/* In memory that forked processes share. */
static struct shared
{
	struct io_uring ring;
	char		pages[PAGES * PAGE] __attribute__((aligned(4096)));
	struct iovec parts[3];
}		   *shared;

static struct io_uring_sqe *
request(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&shared->ring);

	if (sqe == NULL)
	{
		note("queue", "full");
		exit(1);
	}
	return sqe;
}

static int
submit(const char *label)
{
	char		name[200];
	int			submitted = io_uring_submit(&shared->ring);

	snprintf(name, sizeof(name), "%s/submit", label);
	note(name, "%d", submitted);
	return submitted;
}

/* Waits for an answer, and takes all that are there. They are looked at twice before they are seen. */
static void
take(const char *label, unsigned count)
{
	struct io_uring_cqe *cqes[2 * ENTRIES];
	long		sum = 0;
	unsigned	found = 0;

	while (found < count)
	{
		struct io_uring_cqe *first;
		unsigned	batch;
		int			waited = io_uring_wait_cqes(&shared->ring, &first, 1, NULL, NULL);

		if (waited != 0)
			note(label, "wait %d", waited);
		/* More may have come when it looks again. */
		io_uring_peek_batch_cqe(&shared->ring, cqes, count - found);
		batch = io_uring_peek_batch_cqe(&shared->ring, cqes, count - found);
		for (unsigned i = 0; i < batch; i++)
			sum += cqes[i]->user_data * 1000000 + cqes[i]->res;
		io_uring_cq_advance(&shared->ring, batch);
		found += batch;
	}
	note(label, "%ld %016lx", sum, digest(shared->pages, sizeof(shared->pages)));
	memset(shared->pages, 'x', sizeof(shared->pages));
}

static void
read_one(const char *label, int fd, void *into, size_t len, off_t at)
{
	struct io_uring_sqe *sqe = request();

	io_uring_prep_read(sqe, fd, into, len, at);
	io_uring_sqe_set_data64(sqe, 7);
	if (submit(label) == 1)
		take(label, 1);
}

static int
make(void)
{
	static char page[PAGE];
	int			fd = open(path, O_RDWR | O_CREAT, 0600);

	for (int i = 0; i < PAGES; i++)
	{
		fill(page, PAGE, 'a' + i);
		/* A hole in the middle. */
		if (i != 5)
			pwrite(fd, page, PAGE, (off_t) i * PAGE);
	}
	return fd;
}

static void
reads(int fd)
{
	char	   *own = aligned_alloc(4096, 2 * PAGE);
	struct io_uring_sqe *sqe;

	read_one("one page", fd, shared->pages, PAGE, 3 * PAGE);
	read_one("a run", fd, shared->pages, PAGES * PAGE, 0);
	read_one("a hole", fd, shared->pages, 2 * PAGE, 5 * PAGE);
	read_one("unaligned", fd, shared->pages + 1, 100, 3 * PAGE + 77);
	read_one("to the end", fd, shared->pages, 3 * PAGE, (PAGES - 1) * PAGE);
	read_one("at the end", fd, shared->pages, PAGE, PAGES * PAGE);
	read_one("own memory", fd, own, 2 * PAGE, PAGE);
	note("own memory/bytes", "%016lx", digest(own, 2 * PAGE));

	for (int i = 0; i < 3; i++)
		shared->parts[i] = (struct iovec) {shared->pages + (5 * i + 2) * PAGE, (1 + i) * PAGE};
	sqe = request();
	io_uring_prep_readv(sqe, fd, shared->parts, 3, 4 * PAGE);
	io_uring_sqe_set_data64(sqe, 8);
	submit("vectors");
	take("vectors", 1);

	for (int i = 0; i < ENTRIES; i++)
	{
		sqe = request();
		io_uring_prep_read(sqe, fd, shared->pages + i * PAGE, PAGE, (off_t) (2 * i) * PAGE);
		io_uring_sqe_set_data64(sqe, 100 + i);
		io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	}
	submit("a batch");
	take("a batch", ENTRIES);
	free(own);
}

/* The descriptor is the child's alone, and so is the memory of the second read. */
static void
read_by_a_child(void)
{
	int			status;

	fflush(stdout);
	if (fork() == 0)
	{
		int			fd = open(path, O_RDONLY);
		char	   *own = aligned_alloc(4096, PAGE);
		struct io_uring_sqe *sqe = request();

		io_uring_prep_read(sqe, fd, shared->pages, 4 * PAGE, 2 * PAGE);
		io_uring_sqe_set_data64(sqe, 9);
		sqe = request();
		memset(own, 'x', PAGE);
		io_uring_prep_read(sqe, fd, own, PAGE, PAGE);
		io_uring_sqe_set_data64(sqe, 10);
		io_uring_submit(&shared->ring);
		for (int i = 0; i < 5000 && own[0] != 'b'; i++)
			usleep(1000);
		_exit(own[PAGE - 1] != MARKER[(PAGE - 1) % (sizeof(MARKER) - 1)]);
	}
	take("of a child", 2);
	wait(&status);
	note("of a child/exit", "%d", WEXITSTATUS(status));
}

/* Its answer comes, and nobody else has its descriptor. */
static void
read_by_a_dead_child(void)
{
	fflush(stdout);
	if (fork() == 0)
	{
		struct io_uring_sqe *sqe = request();

		io_uring_prep_read(sqe, open(path, O_RDONLY), shared->pages, 3 * PAGE, 9 * PAGE);
		io_uring_sqe_set_data64(sqe, 12);
		_exit(io_uring_submit(&shared->ring) != 1);
	}
	wait(NULL);
	take("of a dead child", 1);
}

/* Reads and writes by a ring in its own memory. Writes back what it read. */
static void
use_own_ring(int fd, int child, int turn, int ready)
{
	static struct io_uring ring;
	static char page[PAGE] __attribute__((aligned(4096)));
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	char		name[100];

	io_uring_queue_init(ENTRIES, &ring, 0);
	if (turn < 0)
	{
		/* The parent only was here, and left no ring. */
		io_uring_queue_exit(&ring);
		return;
	}
	write(ready, "x", 1);
	read(turn, name, 1);
	for (int writes = 0; writes < 2; writes++)
	{
		int			submitted;

		sqe = io_uring_get_sqe(&ring);
		if (writes)
			io_uring_prep_write(sqe, fd, page, PAGE, (3 + child) * PAGE);
		else
			io_uring_prep_read(sqe, fd, page, PAGE, (3 + child) * PAGE);
		io_uring_sqe_set_data64(sqe, 20 + child);
		submitted = io_uring_submit(&ring);
		snprintf(name, sizeof(name), "own ring/%s %d", writes ? "write" : "read", child);
		if (writes || submitted != 1)
			note(name, "%d", submitted);
		if (submitted != 1)
			continue;
		io_uring_wait_cqes(&ring, &cqe, 1, NULL, NULL);
		if (!writes)
			note(name, "%d %d %016lx", (int) cqe->user_data, cqe->res, digest(page, PAGE));
		io_uring_cq_advance(&ring, 1);
	}
	fflush(stdout);
	write(ready, "x", 1);
	_exit(0);
}

/* Two children each make a ring at one address, where the parent had one, before either uses its own. */
static void
rings_of_children(int fd)
{
	int			turn[2],
				ready[2];
	char		byte;

	use_own_ring(fd, 0, -1, -1);
	pipe(turn);
	pipe(ready);
	fflush(stdout);
	for (int child = 0; child < 2; child++)
		if (fork() == 0)
			use_own_ring(fd, child, turn[0], ready[1]);
	read(ready[0], &byte, 1);
	read(ready[0], &byte, 1);
	for (int child = 0; child < 2; child++)
	{
		write(turn[1], "x", 1);
		read(ready[0], &byte, 1);
	}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < 2; i++)
	{
		close(turn[i]);
		close(ready[i]);
	}
	note("own ring/file", "%ld %016lx", (long) pread(fd, shared->pages, PAGES * PAGE, 0),
		 digest(shared->pages, sizeof(shared->pages)));
	memset(shared->pages, 'x', sizeof(shared->pages));
}

/* A child closes the ring that it inherited. It stays its parent's. */
static void
close_by_a_child(int fd)
{
	fflush(stdout);
	if (fork() == 0)
	{
		io_uring_queue_exit(&shared->ring);
		_exit(0);
	}
	wait(NULL);
	read_one("closed by a child", fd, shared->pages, PAGE, 3 * PAGE);
}

static void
partial(int fd)
{
	ftruncate(fd, 2 * PAGE + 100);
	read_one("cut page", fd, shared->pages, 4 * PAGE, 0);
	read_one("cut page alone", fd, shared->pages, PAGE, 2 * PAGE);
	read_one("cut page in part", fd, shared->pages, 100, 2 * PAGE);
}

static void
errors(void)
{
	int			written = open(path, O_WRONLY);
	struct io_uring_sqe *sqe;

	read_one("write-only", written, shared->pages, PAGE, 0);
	read_one("no descriptor", 1000, shared->pages, PAGE, 0);
	sqe = request();
	io_uring_prep_fsync(sqe, written, 0);
	io_uring_sqe_set_data64(sqe, 11);
	submit("fsync");
	take("fsync", 1);
	close(written);
}

/* Each in a ring of its own, because what is refused stays in its queue. */
static void
refused(const char *label, int kind, int fd)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct iovec part = {shared->pages, PAGE};
	char		name[100];
	int			submitted;

	note(label, "%d", io_uring_queue_init(ENTRIES, &shared->ring, 0));
	memset(shared->pages, 'x', sizeof(shared->pages));
	fill(shared->pages, PAGE, 'w');
	sqe = request();
	switch (kind)
	{
		case 0:
			io_uring_prep_write(sqe, fd, shared->pages, PAGE, 0);
			break;
		case 1:
			io_uring_prep_writev(sqe, fd, &part, 1, 0);
			break;
		case 2:
			io_uring_prep_readv2(sqe, fd, &part, 1, 0, RWF_NOWAIT);
			break;
		case 3:
			io_uring_prep_read(sqe, fd, shared->pages, PAGE, -1);
			break;
		case 4:
			io_uring_prep_read(sqe, 0, shared->pages, PAGE, 0);
			io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
			break;
		case 5:
			io_uring_prep_splice(sqe, fd, 0, fd, PAGE, PAGE, 0);
			break;
		case 6:
			io_uring_prep_read(sqe, fd, shared->pages, PAGE, 0);
			io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK);
			break;
		case 7:
			io_uring_prep_fallocate(sqe, fd, 0, 0, PAGE);
			break;
	}
	snprintf(name, sizeof(name), "%s/submit", label);
	submitted = io_uring_submit(&shared->ring);
	note(name, "%d", submitted);
	if (submitted == 1)
		io_uring_wait_cqes(&shared->ring, &cqe, 1, NULL, NULL);
	else
	{
		snprintf(name, sizeof(name), "%s/again", label);
		submit(name);
	}
	io_uring_queue_exit(&shared->ring);
	snprintf(name, sizeof(name), "%s/file", label);
	note(name, "%ld %016lx", (long) pread(fd, shared->pages, PAGES * PAGE, 0),
		 digest(shared->pages, sizeof(shared->pages)));
}

/*
 * A request that was looked at waits behind one that is refused. Meanwhile its descriptor becomes another file's.
 * Natively nothing is refused, and the two are filled in again.
 */
static void
change_files(int fd)
{
	int			other = open("/dev/zero", O_RDONLY);
	struct io_uring_sqe *sqe[2];
	struct io_uring_cqe *cqe;
	int			submitted;

	note("another file", "%d", io_uring_queue_init(ENTRIES, &shared->ring, 0));
	memset(shared->pages, 'x', sizeof(shared->pages));
	for (int i = 0; i < 2; i++)
		sqe[i] = request();
	io_uring_prep_read(sqe[0], other, shared->pages, PAGE, PAGE);
	io_uring_sqe_set_data64(sqe[0], 13);
	io_uring_prep_splice(sqe[1], other, 0, other, PAGE, PAGE, 0);
	io_uring_sqe_set_data64(sqe[1], 14);
	submitted = io_uring_submit(&shared->ring);
	note("another file/submit", "%d", submitted);
	dup2(fd, other);
	if (submitted == 2)
	{
		for (int i = 0; i < 2; i++)
		{
			io_uring_wait_cqes(&shared->ring, &cqe, 1, NULL, NULL);
			io_uring_cq_advance(&shared->ring, 1);
			sqe[i] = request();
		}
		io_uring_prep_read(sqe[0], other, shared->pages, PAGE, PAGE);
		io_uring_sqe_set_data64(sqe[0], 13);
	}
	io_uring_prep_nop(sqe[1]);
	io_uring_sqe_set_data64(sqe[1], 14);
	if (submit("another file/again") == 2)
		take("another file/pages", 2);
	io_uring_queue_exit(&shared->ring);
	close(other);
}

static void
limits(int fd)
{
	struct io_uring_cqe *cqe = NULL;
	struct __kernel_timespec time = {0, 1000};
	struct io_uring_sqe *sqe;

	for (int i = 0; i < ENTRIES; i++)
	{
		sqe = request();
		io_uring_prep_read(sqe, fd, shared->pages + i * PAGE, PAGE, 0);
		io_uring_sqe_set_data64(sqe, i);
	}
	submit("as many as there are entries");
	sqe = request();
	io_uring_prep_read(sqe, fd, shared->pages, PAGE, 0);
	io_uring_sqe_set_data64(sqe, ENTRIES);
	submit("one more");
	take("as many as there are entries", ENTRIES);
	io_uring_queue_exit(&shared->ring);
	io_uring_queue_init(ENTRIES, &shared->ring, 0);
	note("submit and wait", "%d", io_uring_submit_and_wait(&shared->ring, 0));
	note("submit and get events", "%d", io_uring_submit_and_get_events(&shared->ring));
	note("wait for a time", "%d", io_uring_wait_cqes(&shared->ring, &cqe, 1, &time, NULL));
	note("submit, and wait for a time", "%d",
		 io_uring_submit_and_wait_timeout(&shared->ring, &cqe, 1, &time, NULL));
	note("wait for one, for a time", "%d", io_uring_wait_cqe_timeout(&shared->ring, &cqe, &time));
	note("submit, and wait for two times", "%d", io_uring_submit_and_wait_min_timeout == NULL ? 0 :
		 io_uring_submit_and_wait_min_timeout(&shared->ring, &cqe, 1, &time, 0, NULL));
	note("submit, and wait in a region", "%d", io_uring_submit_and_wait_reg == NULL ? 0 :
		 io_uring_submit_and_wait_reg(&shared->ring, &cqe, 1, 0));
}

int
main(int argc, char **argv)
{
	static const char *const KINDS[] = {
		"write", "writev", "options", "own position", "registered file", "splice", "link", "fallocate"
	};

	/* A fault may be an answer that never comes. */
	alarm(60);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(scene, sizeof(scene), "options");
	note("a thread of the kernel", "%d", io_uring_queue_init(ENTRIES, &shared->ring, IORING_SETUP_SQPOLL));
	for (int i = 1; i < argc; i++)
	{
		int			fd;

		path = argv[i];
		snprintf(scene, sizeof(scene), "%s", path);
		memset(shared->pages, 'x', sizeof(shared->pages));
		fd = make();
		note("init", "%d", io_uring_queue_init(ENTRIES, &shared->ring, 0));
		reads(fd);
		read_by_a_child();
		read_by_a_dead_child();
		rings_of_children(fd);
		close_by_a_child(fd);
		errors();
		partial(fd);
		limits(fd);
		io_uring_queue_exit(&shared->ring);
		change_files(fd);
		for (size_t kind = 0; kind < sizeof(KINDS) / sizeof(*KINDS); kind++)
			refused(KINDS[kind], kind, fd);
		close(fd);
	}
	return 0;
}
