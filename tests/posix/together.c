/*
 * Many at once: threads, forked processes and a signal handler on the same files. Usage: together SECONDS
 *
 * The working directory is a data directory. Only counts of wrong bytes are printed, which must be 0.
 */
#define _GNU_SOURCE
#include "transcript.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 8192
#define PROCESSES 8
#define RELATION "base/5/16384"
#define SEGMENT "pg_wal/000000010000000000000001"
#define STREAM "pg_stat/x.stat"

static double seconds;

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Waits for `count` children; how many did not exit with 0. */
static int
failures(int count)
{
	int			failed = 0;

	while (count-- > 0)
	{
		int			status;

		wait(&status);
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	return failed;
}

static void
shared_position(void)
{
	char		got[200] = "";
	int			fd = open(STREAM, O_RDWR | O_CREAT | O_TRUNC, 0600);

	snprintf(scene, sizeof(scene), "shared position");
	for (int i = 0; i < 10; i++)
	{
		fflush(stdout);
		if (fork() == 0)
			_exit(write(fd, "child ", 6) != 6);
		failures(1);
		write(fd, "parent\n", 7);
	}
	result("position", lseek(fd, 0, SEEK_CUR));
	result("read", pread(fd, got, sizeof(got), 0));
	note("bytes", "%016lx", digest(got, 130));
	lseek(fd, 0, SEEK_SET);
	if (fork() == 0)
		_exit(read(fd, got, 77) != 77);
	note("child", "%d", failures(1));
	result("moved by the child", lseek(fd, 0, SEEK_CUR));
	close(fd);
}

struct worker
{
	int			fd;
	int			number;
	long		wrong;
};

/* Writes its own pages and ranges, and reads them back. */
static void *
work(void *argument)
{
	struct worker *self = argument;
	char	   *buf = malloc(3 * PAGE) + self->number % 5;
	double		end = now() + seconds;

	for (int turn = 0; now() < end; turn++)
	{
		int			odd = turn % 3 ? 0 : turn % 777;
		long		at = (self->number * 4L + turn % 2) * PAGE + odd;
		size_t		len = odd ? 5000 : 2 * PAGE;
		char		byte = (char) (turn * 16 + self->number);

		memset(buf, byte, len);
		self->wrong += pwrite(self->fd, buf, len, at) != (ssize_t) len;
		memset(buf, 0, len);
		self->wrong += pread(self->fd, buf, len, at) != (ssize_t) len;
		for (size_t i = 0; i < len; i++)
			self->wrong += buf[i] != byte;
	}
	return NULL;
}

static void
threads(const char *label, const char *path, int same)
{
	pthread_t	thread[6];
	struct worker workers[6] = {0};
	long		wrong = 0;
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	ftruncate(fd, 30 * PAGE);
	for (int i = 0; i < 6; i++)
	{
		workers[i].fd = same ? fd : open(path, O_RDWR);
		workers[i].number = i;
		pthread_create(&thread[i], NULL, work, &workers[i]);
	}
	for (int i = 0; i < 6; i++)
	{
		pthread_join(thread[i], NULL);
		wrong += workers[i].wrong;
		if (!same)
			close(workers[i].fd);
	}
	note(label, "%ld wrong", wrong);
	close(fd);
}

/* Threads that open and close, while others do, must get files that work. */
static void *
open_and_close(void *argument)
{
	struct worker *self = argument;
	double		end = now() + seconds;
	char		path[100];
	char		buf[64];

	snprintf(path, sizeof(path), "base/5/2000%d", self->number);
	while (now() < end)
	{
		int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		int			copy = dup(fd);

		self->wrong += write(fd, path, 20) != 20;
		close(fd);
		self->wrong += pread(copy, buf, 20, 0) != 20 || memcmp(buf, path, 12) != 0;
		close(copy);
	}
	return NULL;
}

static void
opening(void)
{
	pthread_t	thread[4];
	struct worker workers[4] = {0};
	long		wrong = 0;

	for (int i = 0; i < 4; i++)
	{
		workers[i].number = i;
		pthread_create(&thread[i], NULL, open_and_close, &workers[i]);
	}
	for (int i = 0; i < 4; i++)
	{
		pthread_join(thread[i], NULL);
		wrong += workers[i].wrong;
	}
	note("opening", "%ld wrong", wrong);
}

static int	in_handler;
static volatile long handled;
static volatile long wrong_in_handler;

static void
handler(int number)
{
	int			error = errno;
	char		buf[300];
	char		byte = (char) ('a' + handled % 26);

	(void) number;
	memset(buf, byte, sizeof(buf));
	wrong_in_handler += pwrite(in_handler, buf, sizeof(buf), 50003) != sizeof(buf);
	memset(buf, 0, sizeof(buf));
	wrong_in_handler += pread(in_handler, buf, sizeof(buf), 50003) != sizeof(buf);
	for (size_t i = 0; i < sizeof(buf); i++)
		wrong_in_handler += buf[i] != byte;
	handled++;
	errno = error;
}

static void
signals(const char *label, const char *path, const char *other)
{
	struct worker self = {0};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 300}, {0, 300}};
	struct itimerval never = {0};

	self.fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ftruncate(self.fd, 30 * PAGE);
	in_handler = other ? open(other, O_RDWR | O_CREAT, 0600) : self.fd;
	self.number = other ? 0 : 3;
	handled = wrong_in_handler = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	work(&self);
	setitimer(ITIMER_REAL, &never, NULL);
	note(label, "%ld wrong, %ld wrong in the handler, %s", self.wrong, wrong_in_handler,
		 handled > 10 ? "often" : "never");
	close(self.fd);
}

/*
 * A writer flips a page between two values; the reader must see bytes of these only. With "absent", its
 * buffer has no memory yet: the kernel then copies some bytes one by one.
 */
static void
race(const char *path, long write_at, size_t write_len, long read_at, size_t read_len, int skew,
	 bool absent)
{
	static char memory[4 * PAGE] __attribute__((aligned(4096)));
	char	   *buf = memory + skew;
	char		label[100];
	long		wrong = 0;
	double		end = now() + seconds / 2;
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	pid_t		writer;

	memset(memory, 'A', sizeof(memory));
	pwrite(fd, memory, 3 * PAGE, 0);
	fflush(stdout);
	writer = fork();
	if (writer == 0)
	{
		for (int turn = 0;; turn++)
		{
			memset(memory, turn % 2 ? 'A' : 'B', sizeof(memory));
			pwrite(fd, memory, write_len, write_at);
		}
	}
	while (now() < end)
	{
		for (int i = 0; i < 100; i++)
		{
			if (absent)
				madvise(memory, sizeof(memory), MADV_DONTNEED);
			wrong += pread(fd, buf, read_len, read_at) != (ssize_t) read_len;
			for (size_t j = 0; j < read_len; j++)
				wrong += buf[j] != 'A' && buf[j] != 'B';
		}
	}
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	snprintf(label, sizeof(label), "race %s %zu+%ld %zu+%ld at %d%s", path, write_len, write_at,
			 read_len, read_at, skew, absent ? " absent" : "");
	note(label, "%ld wrong", wrong);
	close(fd);
}

static void
races(void)
{
	static const int skews[] = {0, 5, 8, 16, 48, 64};

	for (int i = 0; i < 12; i++)
	{
		race(RELATION, PAGE, PAGE, PAGE, PAGE, skews[i / 2], i % 2);
		race(SEGMENT, PAGE, PAGE, 0, 3 * PAGE, skews[i / 2], i % 2);
		race(SEGMENT, 0, 2 * PAGE, PAGE + 8, 5000, skews[i / 2], i % 2);
	}
	race(RELATION, 0, 2 * PAGE, 100, 9000, 3, false);
	race(STREAM, 0, 2 * PAGE, 100, 9000, 3, false);
}

/* Neighbouring records of many processes, at places that a shared counter gives out. */
static void
neighbours(void)
{
	static const char path[] = "pg_stat_tmp/pgss_query_texts.stat";
	_Atomic long *next = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	double		end = now() + 2 * seconds;
	char	   *all;
	long		size;
	long		wrong = 0;

	fflush(stdout);
	for (int number = 0; number < PROCESSES; number++)
	{
		char		record[300];
		int			own;

		if (fork() != 0)
			continue;
		seed = number + 1;
		own = open(path, O_RDWR);
		while (now() < end)
		{
			int			len = 1 + chance(300);
			long		at = atomic_fetch_add(next, len);

			memset(record, 'a' + (int) (at % 25), len);
			if (pwrite(own, record, len, at) != len || pread(own, record, len, at) != len ||
				record[0] != 'a' + (int) (at % 25) || record[len - 1] != record[0])
				_exit(1);
			*record = 0;
			pwrite(own, "z", 1, at);
		}
		_exit(0);
	}
	note("writers that failed", "%d", failures(PROCESSES));
	size = lseek(fd, 0, SEEK_END);
	note("size", "%s", size == *next && size > 0 ? "as given out" : "wrong");
	all = malloc(size);
	wrong += pread(fd, all, size, 0) != size;
	for (long at = 0; at < size;)
	{
		char		byte = 'a' + (int) (at % 25);

		wrong += all[at++] != 'z';
		while (at < size && all[at] == byte)
			at++;
	}
	note("neighbours", "%ld wrong", wrong);
	free(all);
	close(fd);
}

static void
appenders(const char *path)
{
	enum
	{
	records = 500, len = 37};
	char	   *all = malloc(PROCESSES * records * len);
	long		wrong = 0;
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	fflush(stdout);
	for (int number = 0; number < PROCESSES; number++)
	{
		char		record[len];
		int			own;

		if (fork() != 0)
			continue;
		own = open(path, O_WRONLY | O_APPEND);
		memset(record, 'a' + number, len);
		for (int i = 0; i < records; i++)
			if (write(own, record, len) != len)
				_exit(1);
		_exit(0);
	}
	note("appenders that failed", "%d", failures(PROCESSES));
	result("appended", pread(fd, all, PROCESSES * records * len, 0));
	for (int i = 0; i < PROCESSES * records; i++)
		for (int j = 0; j < len; j++)
			wrong += all[i * len + j] != all[i * len];
	note("appenders", "%ld wrong", wrong);
	free(all);
	close(fd);
}

int
main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	seconds = atof(arguments[1]);
	shared_position();
	snprintf(scene, sizeof(scene), "together");
	threads("threads on one descriptor", RELATION, 1);
	threads("threads on descriptors of their own", RELATION, 0);
	threads("threads on a stream", STREAM, 1);
	opening();
	signals("signals, other file", RELATION, STREAM);
	signals("signals, same file", RELATION, NULL);
	races();
	neighbours();
	appenders("pg_replslot/slot/x.spill");
	return 0;
}
