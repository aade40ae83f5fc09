/*
 * What the programs of this directory share: a transcript of calls, one line each.
 *
 * "scene/label: result [errno]". A line's label is unique within its program, so that the runner can
 * name the lines that may differ between a plain and a sealed directory. Results never depend on
 * time, addresses, descriptor numbers or the directory's own place.
 */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char scene[200];

/* Prints a value under a label. */
__attribute__((format(printf, 2, 3)))
static inline void
note(const char *label, const char *format, ...)
{
	va_list arguments;

	printf("%s/%s: ", scene, label);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

/* Prints what a call returned, with errno if that is -1. Returns it. */
static inline long
result(const char *label, long value)
{
	int			error = errno;

	if (value < 0)
		note(label, "%ld %s", value, strerrorname_np(error));
	else
		note(label, "%ld", value);
	errno = 0;
	return value;
}

/* The same for descriptors and pointers, whose values say nothing. */
static inline int
opened(const char *label, int fd)
{
	int			error = errno;

	note(label, "%s", fd >= 0 ? "open" : strerrorname_np(error));
	errno = 0;
	return fd;
}

/* FNV-1a: names the bytes of a buffer in a line. */
static inline uint64_t
digest(const void *bytes, size_t len)
{
	uint64_t	hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *) bytes)[i]) * 0x100000001b3;
	return hash;
}

/* A seeded generator: the same numbers natively and preloaded. */
static uint64_t seed = 1;

static inline uint32_t
chance(uint32_t below)
{
	seed = seed * 6364136223846793005 + 1442695040888963407;
	return (uint32_t) (seed >> 33) % below;
}

/* Bytes that the runner looks for on the disk of the sealed directory. */
#define MARKER "clear-text-marker/"

static inline void
fill(char *buf, size_t len, char first)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = MARKER[i % (sizeof(MARKER) - 1)];
	if (len > 0)
		buf[0] = first;
}

#endif
