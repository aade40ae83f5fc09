/*
 * Limits and signals, on one file of each class: high descriptors, copies that a limit cuts short, waits that a signal
 * ends. Usage: limits PATH...
 *
 * Each path is relative to the working directory, the data directory; its file does not exist at first.
 */
#define _GNU_SOURCE
#include "file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* Numbers that lie far apart, a protected descriptor under each and then another file. */
static void
high_numbers(void)
{
	static const int numbers[] = {1023, 1024, 3000};
	char		name[100];
	struct rlimit limit;
	int			fd = fresh(100);
	int			empty = open("/dev/null", O_RDONLY);

	getrlimit(RLIMIT_NOFILE, &limit);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit) {limit.rlim_max, limit.rlim_max});
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
	{
#define STEP(step) (snprintf(name, sizeof(name), "%d/%s", numbers[i], step), name)
		result(STEP("read before"), read(numbers[i], page, 1));
		result(STEP("dup2"), dup2(fd, numbers[i]));
		result(STEP("write"), pwrite(numbers[i], "high", 4, i * 10));
		result(STEP("read"), pread(numbers[i], page, 50, 0));
		note(STEP("bytes"), "%016lx", digest(page, 50));
		result(STEP("dup2 of another"), dup2(empty, numbers[i]));
		result(STEP("read it"), read(numbers[i], page, 1));
		result(STEP("dup2 again"), dup2(fd, numbers[i]));
		result(STEP("close"), close(numbers[i]));
		result(STEP("read closed"), read(numbers[i], page, 1));
#undef STEP
	}
	setrlimit(RLIMIT_NOFILE, &limit);
	close(empty);
	close(fd);
	contents("contents");
}

/* A copy that its target takes a part of: both ends have moved by that part, and the next call says why. */
static void
copies_cut_short(void)
{
	int			fd = fresh(LARGE);
	int			other = open("base/5/77777", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct rlimit whole,
				small;
	loff_t		from = PAGE,
				to = PAGE;

	getrlimit(RLIMIT_FSIZE, &whole);
	small = (struct rlimit) {4 * PAGE, whole.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	result("cut short", copy_file_range(fd, NULL, other, NULL, 10 * PAGE, 0));
	note("moved on", "%ld %ld", lseek(fd, 0, SEEK_CUR), lseek(other, 0, SEEK_CUR));
	result("refused", copy_file_range(fd, NULL, other, NULL, 10 * PAGE, 0));
	note("not moved", "%ld %ld", lseek(fd, 0, SEEK_CUR), lseek(other, 0, SEEK_CUR));
	result("offsets cut short", copy_file_range(fd, &from, other, &to, 10 * PAGE, 0));
	note("offsets", "%ld %ld", (long) from, (long) to);
	result("offsets refused", copy_file_range(fd, &from, other, &to, 10 * PAGE, 0));
	note("offsets stay", "%ld %ld", (long) from, (long) to);
	setrlimit(RLIMIT_FSIZE, &whole);
	signal(SIGXFSZ, SIG_DFL);
	result("the rest", copy_file_range(fd, &from, other, &to, 10 * PAGE, 0));
	note("bytes", "%zd %016lx", pread(other, large, sizeof(large), 0), digest(large, sizeof(large)));
	close(other);
	close(fd);
	unlink("base/5/77777");
}

static volatile sig_atomic_t alarms;

static void
count_alarm(int signal)
{
	(void) signal;
	alarms++;
}

/* A signal ends the wait for a FIFO's other end, inside the data directory and outside. */
static void
interrupted(void)
{
	static const char *const paths[] = {"pipe", "../pipe"};
	/* The second is for who does not heed the first, and far enough to be told from it. */
	struct itimerval twice = {.it_value = {0, 500000}, .it_interval = {5, 0}},
				never = {0};

	sigaction(SIGALRM, &(struct sigaction) {.sa_handler = count_alarm}, NULL);
	for (int i = 0; i < 2; i++)
	{
		snprintf(scene, sizeof(scene), "interrupted/%s", paths[i]);
		unlink(paths[i]);
		result("mkfifo", mkfifo(paths[i], 0600));
		alarms = 0;
		setitimer(ITIMER_REAL, &twice, NULL);
		opened("open", open(paths[i], O_RDONLY));
		note("signals", "%d", alarms);
		setitimer(ITIMER_REAL, &never, NULL);
		unlink(paths[i]);
	}
}

int
main(int count, char **arguments)
{
	for (int i = 1; i < count; i++)
	{
		path = arguments[i];
		run("high numbers", high_numbers);
		run("copies cut short", copies_cut_short);
		close(fresh(5000));
	}
	interrupted();
	return 0;
}
