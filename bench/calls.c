/*
 * What one call costs: nanoseconds, of processor time, by the fastest of several runs of a loop. Usage: calls OUTSIDE
 *
 * The working directory is a data directory, sealed or not; OUTSIDE is a file outside of it. Prints
 * "name<TAB>ns" lines. Started by calls.py, natively and preloaded in turns.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define RUNS 5

static char buf[8192] __attribute__((aligned(64)));
static int	zero;
static int	relation;
static int	sockets[2];
static const char *opened_path;

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void
measure(const char *name, int turns, void (*call) (void))
{
	double		best = 1e18;

	for (int run = 0; run < RUNS; run++)
	{
		double		start = now();
		double		each;

		for (int turn = 0; turn < turns; turn++)
			call();
		each = (now() - start) / turns;
		if (each < best)
			best = each;
	}
	printf("%s\t%.1f\n", name, best);
}

static void
read_zero(void)
{
	if (read(zero, buf, 1) != 1)
		abort();
}

static void
pread_zero(void)
{
	if (pread(zero, buf, 1, 0) != 1)
		abort();
}

static void
dup_close(void)
{
	if (close(dup(zero)) != 0)
		abort();
}

static void
open_close(void)
{
	int			fd = open(opened_path, O_RDWR);

	if (fd < 0 || close(fd) != 0)
		abort();
}

static void
time_of_day(void)
{
	struct timeval time;

	if (gettimeofday(&time, NULL) != 0)
		abort();
}

static void
send_receive(void)
{
	if (send(sockets[0], buf, 64, 0) != 64 || recv(sockets[1], buf, 64, 0) != 64)
		abort();
}

static void
pread_page(void)
{
	if (pread(relation, buf, sizeof(buf), 0) != sizeof(buf))
		abort();
}

static void
pwrite_page(void)
{
	if (pwrite(relation, buf, sizeof(buf), 0) != sizeof(buf))
		abort();
}

static void
open_read_close(void)
{
	int			fd = open(opened_path, O_RDWR);

	if (pread(fd, buf, sizeof(buf), 0) != sizeof(buf) || close(fd) != 0)
		abort();
}

int
main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	zero = open("/dev/zero", O_RDONLY);
	relation = open("base/5/16384", O_RDWR | O_CREAT, 0600);
	memset(buf, 'x', sizeof(buf));
	pwrite_page();
	measure("read, unprotected", 200000, read_zero);
	measure("pread, unprotected", 200000, pread_zero);
	measure("dup and close, unprotected", 100000, dup_close);
	measure("gettimeofday", 200000, time_of_day);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		abort();
	measure("send and recv", 100000, send_receive);
	opened_path = "base/5/16384";
	measure("open and close in the data directory", 20000, open_close);
	measure("open, read a page and close", 20000, open_read_close);
	opened_path = "postgresql.conf";
	close(open(opened_path, O_RDWR | O_CREAT, 0600));
	measure("open and close, configuration", 20000, open_close);
	opened_path = arguments[1];
	measure("open and close outside", 20000, open_close);
	measure("pread of a page", 20000, pread_page);
	measure("pwrite of a page", 20000, pwrite_page);
	return 0;
}
