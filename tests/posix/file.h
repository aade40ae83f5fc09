/*
 * One file, `path`, that the scenes of a program are about, and bytes to write to it and to read from it.
 */
#ifndef FILE_H
#define FILE_H

#include "transcript.h"

#include <fcntl.h>
#include <unistd.h>

#define PAGE 8192
#define LARGE (20 * PAGE)

static char page[PAGE] __attribute__((aligned(4096), unused));
static char large[LARGE] __attribute__((aligned(4096)));
static const char *path;

/* Opens the file anew with `size` marker bytes in it. */
static inline int
fresh(size_t size)
{
	int			fd;

	unlink(path);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	fill(large, size, '<');
	if (fd < 0 || pwrite(fd, large, size, 0) != (ssize_t) size)
		note("fresh", "failed: %s", strerrorname_np(errno));
	return fd;
}

/* Prints the file's size and a digest of all its bytes, read through another descriptor. */
static inline void
contents(const char *label)
{
	int			fd = open(path, O_RDONLY);
	ssize_t		got = pread(fd, large, sizeof(large), 0);

	note(label, "%zd bytes %016lx", got, got < 0 ? 0 : digest(large, got));
	close(fd);
}

/* One scene. */
static inline void
run(const char *title, void (*act) (void))
{
	snprintf(scene, sizeof(scene), "%s/%s", path, title);
	act();
	fflush(stdout);
}

#endif
