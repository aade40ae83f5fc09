/*
 * Files that are cut or emptied by name. Run by test_emptying.py, which knows what must come out.
 *
 * Usage: emptying cut PATH SIZE
 *        emptying open PATH CALL
 *
 * The first truncates what PATH leads to. The second empties the file at PATH by CALL (open, creat or fopen) while fewer
 * and fewer descriptors are left, and says each time what was answered, and what the file then is.
 */
#define _GNU_SOURCE
#include "file.h"

#include <sys/resource.h>

/* More descriptors than any call takes. */
#define MOST_LEFT 8
#define SIZE 5000

static int
empty_by(const char *call)
{
	FILE	   *stream;

	if (strcmp(call, "open") == 0)
		return open(path, O_WRONLY | O_TRUNC);
	if (strcmp(call, "creat") == 0)
		return creat(path, 0600);
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
	int			fd;

	getrlimit(RLIMIT_NOFILE, &limit);
	for (int left = MOST_LEFT; left >= 0; left--)
	{
		snprintf(scene, sizeof(scene), "%d left", left);
		close(fresh(SIZE));
		leave(left, limit.rlim_max);
		fd = empty_by(call);
		setrlimit(RLIMIT_NOFILE, &limit);
		opened("answer", fd);
		if (fd >= 0)
			close(fd);
		contents("contents");
	}
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
	else
		empty(arguments[3]);
	return 0;
}
