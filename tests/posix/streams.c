/*
 * stdio, on one file of each class. Usage: streams PATH...
 *
 * Each path is relative to the working directory, the data directory; its file does not exist at first.
 */
#define _GNU_SOURCE
#include "transcript.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path;
static char big[40000];

static void
make(const char *text)
{
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (write(fd, text, strlen(text)) != (ssize_t) strlen(text))
		note("make", "failed: %s", strerrorname_np(errno));
	close(fd);
}

static void
contents(const char *label)
{
	int			fd = open(path, O_RDONLY);
	ssize_t		got = pread(fd, big, sizeof(big), 0);

	note(label, "%zd bytes %016lx", got, got < 0 ? 0 : digest(big, got));
	close(fd);
}

static FILE *
stream(const char *label, FILE *file)
{
	opened(label, file ? 0 : -1);
	return file;
}

static void
try_mode(const char *mode, int exists)
{
	char		name[100];
	FILE	   *file;

#define STEP(step) (snprintf(name, sizeof(name), "%s on %s/%s", mode, exists ? "a file" : "nothing", step), name)
	if (exists)
		make("first line\nsecond line\n");
	else
		unlink(path);
	file = stream(STEP("fopen"), fopen(path, mode));
	if (!file)
		return;
	note(STEP("fileno"), "%d", fileno(file) > 2);
	note(STEP("fileno_unlocked"), "%d", fileno_unlocked(file) == fileno(file));
	note(STEP("flags"), "%x", fcntl(fileno(file), F_GETFL) & (O_ACCMODE | O_APPEND));
	note(STEP("cloexec"), "%d", fcntl(fileno(file), F_GETFD));
	result(STEP("ftell"), ftell(file));
	result(STEP("fgetc"), fgetc(file));
	result(STEP("ferror"), ferror(file));
	clearerr(file);
	result(STEP("fseek"), fseek(file, 0, SEEK_CUR));
	result(STEP("fputs"), fputs("written", file));
	result(STEP("fflush"), fflush(file));
	result(STEP("ferror after"), ferror(file));
	clearerr(file);
	result(STEP("ftell after"), ftell(file));
	result(STEP("fseek to 3"), fseek(file, 3, SEEK_SET));
	result(STEP("fgetc at 3"), fgetc(file));
	result(STEP("feof"), feof(file));
	result(STEP("fclose"), fclose(file));
	contents(STEP("contents"));
#undef STEP
}

static void
modes(void)
{
	static const char *const tried[] = {"r", "r+", "w", "w+", "a", "a+", "rb", "rb+", "wb", "ab",
	"wx", "re", "r+e", "w+xe", "ab+", "q", ""};

	for (size_t i = 0; i < sizeof(tried) / sizeof(*tried); i++)
	{
		try_mode(tried[i], 1);
		try_mode(tried[i], 0);
	}
}

static void
text(void)
{
	FILE	   *file;
	char		line[100];
	int			number = 0;
	long		at;
	fpos_t		place;

	unlink(path);
	file = stream("fopen", fopen(path, "w+"));
	for (int i = 0; i < 2000; i++)
		fprintf(file, "line %d of the text\n", i);
	result("ftell", ftell(file));
	rewind(file);
	note("fgets", "%s", fgets(line, sizeof(line), file) ? strtok(line, "\n") : "nothing");
	result("fscanf", fscanf(file, "line %d of", &number));
	note("number", "%d", number);
	result("ungetc", ungetc('!', file));
	result("fgetc", fgetc(file));
	at = result("ftell after ungetc", ftell(file));
	result("fgetpos", fgetpos(file, &place));
	result("fseek back", fseek(file, -30, SEEK_END));
	note("fgets at the end", "%s", fgets(line, sizeof(line), file) ? strtok(line, "\n") : "nothing");
	result("fsetpos", fsetpos(file, &place));
	note("there again", "%d", ftell(file) == at);
	result("fseeko far", fseeko(file, 50000, SEEK_SET));
	result("fwrite far", fwrite("far", 1, 3, file));
	result("fseek before the start", fseek(file, -1, SEEK_SET));
	result("fclose", fclose(file));
	contents("contents");
}

static void
blocks(void)
{
	FILE	   *file;
	char		name[100];
	struct stat status;

	unlink(path);
	file = stream("fopen", fopen(path, "w"));
	for (int len = 1; len < 9000; len = len * 3 + 1)
	{
		fill(big, len, (char) ('a' + len % 26));
		snprintf(name, sizeof(name), "fwrite %d", len);
		result(name, fwrite(big, 1, len, file));
	}
	result("fflush", fflush(file));
	int found = fstat(fileno(file), &status);  // arguments are evaluated in no order
	note("fstat", "%d %ld", found, (long) status.st_size);
	result("ftruncate", ftruncate(fileno(file), 5001));
	result("fclose", fclose(file));
	contents("contents");
	file = stream("fopen to read", fopen(path, "r"));
	for (int len = 1; len < 9000; len = len * 3 + 1)
	{
		size_t		got = fread(big, 1, len, file);

		snprintf(name, sizeof(name), "fread %d", len);
		note(name, "%zu %016lx", got, digest(big, got));
	}
	result("feof", feof(file));
	result("fwrite to a reader", fwrite("x", 1, 1, file));
	result("ferror", ferror(file));
	result("fclose the reader", fclose(file));
}

static void
buffers(void)
{
	static char own[64];
	static const int kinds[] = {_IONBF, _IOLBF, _IOFBF};
	char		name[100];

	for (int i = 0; i < 3; i++)
	{
		FILE	   *file = fopen(path, "w+");

		snprintf(name, sizeof(name), "setvbuf %d", i);
		result(name, setvbuf(file, i ? own : NULL, kinds[i], i ? sizeof(own) : 0));
		fputs("one\ntwo", file);
		snprintf(name, sizeof(name), "stored early %d", i);
		contents(name);
		fputs("three", file);
		fclose(file);
		snprintf(name, sizeof(name), "stored %d", i);
		contents(name);
	}
}

static void
descriptors(void)
{
	int			fd;
	int			copy;
	FILE	   *file;
	FILE	   *again;
	char		line[100];

	make("some text\nmore text\n");
	fd = open(path, O_RDWR);
	file = stream("fdopen", fdopen(fd, "r+"));
	note("same descriptor", "%d", fileno(file) == fd);
	result("fputs", fputs("SOME", file));
	copy = opened("dup", dup(fileno(file)));
	result("fclose", fclose(file));
	result("closed with it", pread(fd, line, 1, 0));
	result("the copy lives", pread(copy, line, 4, 0));
	note("bytes", "%.4s", line);
	close(copy);
	fd = open(path, O_RDONLY);
	stream("fdopen to write a reader", fdopen(fd, "w"));
	stream("fdopen with no mode", fdopen(fd, "q"));
	close(fd);
	fd = open(path, O_RDWR);
	file = stream("fdopen to append", fdopen(fd, "a"));
	note("flags", "%x", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
	result("fputs at the end", fputs("end", file));
	result("fclose the appender", fclose(file));
	contents("appended");
	file = fopen(path, "r");
	again = stream("freopen to a clear file", freopen("note.txt", "w+", file));
	if (again)
	{
		result("fputs clear", fputs("clear", again));
		result("fclose clear", fclose(again));
	}
	file = fopen("note.txt", "r");
	note("clear bytes", "%s", file && fgets(line, sizeof(line), file) ? line : "nothing");
	if (file)
		again = stream("freopen to the file", freopen(path, "r", file));
	if (again)
		fclose(again);
	unlink("note.txt");
}

/* Seeks from the current place, after a write or before a read, on a stream that has read, written or sought. */
static void
from_here(void)
{
	char		name[100];
	FILE	   *file;

#define STEP(step) (snprintf(name, sizeof(name), "%d/%s", before, step), name)
	for (int before = 0; before < 4; before++)
	{
		unlink(path);
		file = fopen(path, "w");
		for (int i = 0; i < 20000; i++)
			fputc('a' + i / 100 % 26, file);
		fclose(file);
		file = fopen(path, "r+");
		if (before == 1)
			fgetc(file);
		if (before == 2)
			fread(big, 1, 50, file);
		if (before == 3)
			fseek(file, 10000, SEEK_SET), fgetc(file);
		result(STEP("fseek"), fseek(file, 364, SEEK_SET));
		result(STEP("fwrite"), fwrite("1234567890", 1, 10, file));
		result(STEP("no further"), fseek(file, 0, SEEK_CUR));
		result(STEP("ftell"), ftell(file));
		result(STEP("fwrite after it"), fwrite("XYZ", 1, 3, file));
		result(STEP("ftell after it"), ftell(file));
		result(STEP("further"), fseeko(file, 1000, SEEK_CUR));
		result(STEP("fwrite further"), fwrite("further", 1, 7, file));
		result(STEP("back"), fseek(file, -20, SEEK_CUR));
		result(STEP("fgetc"), fgetc(file));
		result(STEP("ungetc"), ungetc('?', file));
		result(STEP("a little back"), fseeko(file, -3, SEEK_CUR));
		note(STEP("bytes"), "%zu %016lx", fread(big, 1, 40, file), digest(big, 40));
		result(STEP("before the start"), fseek(file, -5000, SEEK_CUR));
		result(STEP("beyond all numbers"), fseeko(file, INT64_MAX, SEEK_CUR));
		result(STEP("ftell at the end"), ftell(file));
		result(STEP("fclose"), fclose(file));
		contents(STEP("contents"));
	}
#undef STEP
}

/* A stream over a duplicate that libc itself closes: the number must not stay protected. */
static void
closed_by_libc(void)
{
	int			fd;
	int			copy;
	int			ends[2];
	FILE	   *file;
	char		seen[8] = "";

	make("text");
	file = fopen("plain.txt", "w");
	copy = fileno(file);
	fd = open(path, O_RDWR);
	result("dup2 under a stream", dup2(fd, copy) == copy);
	result("fclose", fclose(file));
	contents("contents");
	if (pipe(ends) != 0)
		abort();
	note("number is used again", "%d", ends[0] == copy || ends[1] == copy);
	result("write", write(ends[1], "through", 7));
	result("read", read(ends[0], seen, 7));
	note("seen", "%s", seen);
	close(ends[0]);
	close(ends[1]);
	file = fopen("plain.txt", "w");
	result("dup2 under another", dup2(fd, fileno(file)) == fileno(file));
	file = stream("freopen", freopen("plain.txt", "w+", file));
	fputs("clear again", file);
	result("fflush", fflush(file));
	result("pread", pread(fileno(file), seen, 5, 0));
	note("seen again", "%.5s", seen);
	result("fclose again", fclose(file));
	close(fd);
	unlink("plain.txt");
}

static void
run(const char *title, void (*act) (void))
{
	snprintf(scene, sizeof(scene), "%s/%s", path, title);
	act();
	fflush(stdout);
}

int
main(int count, char **arguments)
{
	for (int i = 1; i < count; i++)
	{
		path = arguments[i];
		run("modes", modes);
		run("text", text);
		run("blocks", blocks);
		run("buffers", buffers);
		run("descriptors", descriptors);
		run("from here", from_here);
		run("closed by libc", closed_by_libc);
		make(MARKER MARKER MARKER);
	}
	/* Left open: exit flushes it. */
	snprintf(scene, sizeof(scene), "exit");
	path = arguments[1];
	fputs("left to exit", stream("fopen", fopen(path, "w")));
	return 0;
}
