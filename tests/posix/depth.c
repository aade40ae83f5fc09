/*
 * How deep an open reaches into the stack, in bytes. Usage: depth PATH
 *
 * A process that the server has just forked pays for every page of it. A thread on a painted stack opens the file; another
 * does nothing, and is subtracted. Run by test_sealing.py.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (1 << 20)
#define PAINT 0xA5

static void *
open_it(void *path)
{
	int			fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT, 0600);

	if (path != NULL && (fd < 0 || close(fd) != 0))
		abort();
	return NULL;
}

static long
depth(char *path)
{
	pthread_attr_t attributes;
	pthread_t	thread;
	long		untouched = 0;
	unsigned char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		abort();
	memset(stack, PAINT, SIZE);
	if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstack(&attributes, stack, SIZE) != 0 ||
		pthread_create(&thread, &attributes, open_it, path) != 0 || pthread_join(thread, NULL) != 0)
		abort();
	while (untouched < SIZE && stack[untouched] == PAINT)
		untouched++;
	return SIZE - untouched;
}

int
main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	/* The loader finds the functions at their first call. */
	open_it(arguments[1]);
	printf("%ld\n", depth(arguments[1]) - depth(NULL));
	return 0;
}
