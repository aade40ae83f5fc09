/*
 * Files that are cut or emptied by name. Run by test_emptying.py, which knows what must come out.
 *
 * Usage: emptying cut PATH SIZE
 *        emptying open PATH CALL
 *        emptying streams PATH OTHER
 *
 * The first truncates what PATH leads to. The second empties the file at PATH by CALL (open, creat, fopen or freopen) while
 * fewer and fewer descriptors are left, and says each time what was answered, and what the file then is. The third opens
 * streams of OTHER until no more can be opened, and then empties the file at PATH by fopen.
 */
#define _GNU_SOURCE
#include "file.h"

#include <sys/resource.h>

/* More descriptors than any call takes. */
#define MOST_LEFT 8
#define SIZE 5000

/* `spare` is a stream that freopen may replace. */
static int
empty_by(const char *call, FILE *spare)
{
	FILE	   *stream;

	if (strcmp(call, "open") == 0)
		return open(path, O_WRONLY | O_TRUNC);
	if (strcmp(call, "creat") == 0)
		return creat(path, 0600);
	if (strcmp(call, "freopen") == 0)
		stream = freopen(path, "w", spare);
	else
		stream = fopen(path, "w");
	return stream ? fileno(stream) : -1;
}

/* The calling process has this many descriptors left. */
static void
leave(int left, rlim_t most)
{
	int			next = dup(STDOUT_FILENO);

	close(next);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit) {next + left, most});
}

static void
empty(const char *call)
{
	struct rlimit limit;
	FILE	   *spare;
	int			fd;

	getrlimit(RLIMIT_NOFILE, &limit);
	for (int left = MOST_LEFT; left >= 0; left--)
	{
		snprintf(scene, sizeof(scene), "%d left", left);
		close(fresh(SIZE));
		spare = strcmp(call, "freopen") == 0 ? fopen("/dev/null", "r") : NULL;
		leave(left, limit.rlim_max);
		fd = empty_by(call, spare);
		setrlimit(RLIMIT_NOFILE, &limit);
		opened("answer", fd);
		if (fd >= 0)
			close(fd);
		contents("contents");
	}
}

/* More streams than any limit of the library's. */
#define MOST_STREAMS 5000

static void
empty_after_streams(const char *other)
{
	struct rlimit limit;
	int			fd;
	int			count = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit) {limit.rlim_max, limit.rlim_max});
	close(fresh(SIZE));
	fclose(fopen(other, "w"));
	while (count < MOST_STREAMS && fopen(other, "r"))
		count++;
	snprintf(scene, sizeof(scene), "streams");
	note("some are open", "%d", count > 0 && count < MOST_STREAMS);
	fd = empty_by("fopen", NULL);
	opened("answer", fd);
	contents("contents");
}

int
main(int count, char **arguments)
{
	if (count != 4)
		return 2;
	path = arguments[2];
	if (strcmp(arguments[1], "cut") == 0)
	{
		snprintf(scene, sizeof(scene), "cut");
		result("answer", truncate(path, atol(arguments[3])));
	}
	else if (strcmp(arguments[1], "streams") == 0)
		empty_after_streams(arguments[3]);
	else
		empty(arguments[3]);
	return 0;
}
