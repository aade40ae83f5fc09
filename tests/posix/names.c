/*
 * Names: rename, link, unlink, directories, and every way to spell a path. Usage: names OTHER
 *
 * The working directory is a data directory; OTHER is another one, sealed with another key.
 */
#define _GNU_SOURCE
#include "transcript.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT (1 << 20)

static char bytes[SEGMENT];

static void
store(const char *path, const void *data, size_t len)
{
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0640);

	if (fd < 0 || write(fd, data, len) != (ssize_t) len)
		note(path, "cannot be stored: %s", strerrorname_np(errno));
	close(fd);
}

static void
show(const char *label, const char *path)
{
	int			fd = open(path, O_RDONLY);
	ssize_t		got = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
	struct stat status = {0};

	if (fd < 0)
		note(label, "%s", strerrorname_np(errno));
	else
	{
		fstat(fd, &status);
		note(label, "%zd bytes %016lx mode %o", got, digest(bytes, got), status.st_mode & 0777);
		close(fd);
	}
	errno = 0;
}

/* Renames `from`, which holds `len` marker bytes, and looks at both names. */
static void
move(const char *from, const char *to, size_t len)
{
	fill(bytes, len, '>');
	store(from, bytes, len);
	snprintf(scene, sizeof(scene), "rename %s %s %zu", from, to, len);
	result("rename", rename(from, to));
	show("from", from);
	show("to", to);
	unlink(from);
	unlink(to);
}

static void
renames(void)
{
	static const char *const pairs[][2] = {
		{"pg_wal/xlogtemp.7", "pg_wal/000000010000000000000001"},
		{"pg_wal/xlogtemp.7", "pg_wal/00000002.history"},
		{"pg_wal/000000010000000000000001", "pg_wal/000000010000000000000001.partial"},
		{"pg_stat/pgstat.tmp", "pg_stat/pgstat.stat"},
		{"pg_stat/pg_stat_statements.stat.tmp", "pg_stat/pg_stat_statements.stat"},
		{"pg_logical/snapshots/0-1.snap.7.tmp", "pg_logical/snapshots/0-1.snap"},
		{"pg_logical/mappings/map-1", "pg_logical/mappings/map-2"},
		{"base/5/16384", "base/5/16385"},
		{"base/5/16384", "base/1/16384"},
		{"base/5/16384", "postgresql.conf"},
		{"postgresql.conf", "base/5/16384"},
		{"postgresql.auto.conf.tmp", "postgresql.auto.conf"},
		{"base/5/16384", "global/1262"},
		{"pg_twophase/00000001", "pg_xact/0000"},
		{"pg_xact/0000", "pg_stat_tmp/x"},
		{"global/pg_filenode.map.tmp", "global/pg_filenode.map"},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
	{
		move(pairs[i][0], pairs[i][1], 0);
		move(pairs[i][0], pairs[i][1], 77);
		move(pairs[i][0], pairs[i][1], 16384 + 5);
		move(pairs[i][0], pairs[i][1], SEGMENT);
	}
}

/* A segment made as the server makes one: zeros, the rename, then WAL. */
static void
segment(void)
{
	snprintf(scene, sizeof(scene), "segment");
	memset(bytes, 0, sizeof(bytes));
	store("pg_wal/xlogtemp.8", bytes, sizeof(bytes));
	result("rename", rename("pg_wal/xlogtemp.8", "pg_wal/000000010000000000000002"));
	show("zeros", "pg_wal/000000010000000000000002");
	fill(bytes, sizeof(bytes), 'w');
	store("pg_wal/000000010000000000000002", bytes, sizeof(bytes));
	show("filled", "pg_wal/000000010000000000000002");
	result("recycle", rename("pg_wal/000000010000000000000002", "pg_wal/000000010000000000000009"));
	show("old name", "pg_wal/000000010000000000000002");
	show("recycled", "pg_wal/000000010000000000000009");
	{
		int			fd = open("pg_wal/000000010000000000000009", O_RDONLY);

		note("first page", "%zd %016lx", read(fd, bytes, 8192), digest(bytes, 8192));
		close(fd);
	}
	unlink("pg_wal/000000010000000000000009");
}

/* A file for a segment, new or not, and what is written through it: zeros, then the first `data` bytes of a pattern. */
static void
scratch(int flags, size_t zeros, size_t data)
{
	int			fd = open("pg_wal/xlogtemp.9", O_RDWR | flags, 0640);

	memset(bytes, 0, sizeof(bytes));
	if (write(fd, bytes, zeros) != (ssize_t) zeros)
		note("zeros", "%s", strerrorname_np(errno));
	fill(bytes, data, 's');
	if (pwrite(fd, bytes, data, 8192) != (ssize_t) data)
		note("data", "%s", strerrorname_np(errno));
	close(fd);
}

/* Bytes that this process has read so far (proc(5), io). */
static long
bytes_read(void)
{
	FILE	   *io = fopen("/proc/self/io", "r");
	long		count = -1;

	if (io == NULL || fscanf(io, "rchar: %ld", &count) != 1)
		note("/proc/self/io", "%s", strerrorname_np(errno));
	fclose(io);
	return count;
}

/* As PostgreSQL's durable_rename does it: the file is synced through a descriptor of its own first. */
static void
becomes_segment(const char *label)
{
	long		before = bytes_read();
	int			fd = open("pg_wal/xlogtemp.9", O_RDWR);

	result("sync", fsync(fd));
	close(fd);
	result(label, rename("pg_wal/xlogtemp.9", "pg_wal/00000001000000000000000A"));
	if (strcmp(scene, "zeros alone") == 0)
		note("the rename read", "%s", bytes_read() - before < SEGMENT ? "little" : "everything");
	show("as a segment", "pg_wal/00000001000000000000000A");
	unlink("pg_wal/00000001000000000000000A");
}

/* That a file holds nothing but zeros is known of this very file, as it was last. */
static void
zeros_and_data(void)
{
	const int	new_file = O_CREAT | O_EXCL;
	int			fd,
				copy;

	snprintf(scene, sizeof(scene), "zeros alone");
	scratch(new_file, SEGMENT, 0);
	becomes_segment("rename");
	snprintf(scene, sizeof(scene), "zeros and a tail");
	scratch(new_file, 8192 + 5, 0);
	becomes_segment("rename");
	snprintf(scene, sizeof(scene), "data over zeros");
	scratch(new_file, SEGMENT, 16);
	becomes_segment("rename");
	snprintf(scene, sizeof(scene), "data when it is opened again");
	scratch(new_file, SEGMENT, 0);
	scratch(0, 8192, 8192);
	becomes_segment("rename");
	snprintf(scene, sizeof(scene), "data in the next file");
	scratch(new_file, SEGMENT, 0);
	unlink("pg_wal/xlogtemp.9");
	scratch(new_file, SEGMENT, 8192);
	becomes_segment("rename");
	snprintf(scene, sizeof(scene), "data in a file that is not new");
	scratch(new_file, SEGMENT, 8192);
	scratch(0, 8192, 0);
	becomes_segment("rename");
	snprintf(scene, sizeof(scene), "data through a copy of the descriptor");
	fd = open("pg_wal/xlogtemp.9", O_RDWR | new_file, 0640);
	memset(bytes, 0, sizeof(bytes));
	result("zeros", write(fd, bytes, SEGMENT) != SEGMENT);
	copy = dup(fd);
	result("close", close(fd));
	fill(bytes, 8192, 'c');
	result("data", pwrite(copy, bytes, 8192, 0) != 8192);
	becomes_segment("rename while it is open");
	close(copy);
}

/* As PostgreSQL before 15.11 installs WAL: a link, which replaces nothing, then the old name goes. */
static void
linked(const char *from, const char *to)
{
	struct stat one = {0},
				other = {0};
	int			fd;

	result("link", link(from, to));
	show("from", from);
	show("to", to);
	fd = open(to, O_RDONLY);
	note("first page", "%zd %016lx", read(fd, bytes, 8192), digest(bytes, 8192));
	close(fd);
	stat(from, &one);
	stat(to, &other);
	note("one file", "%d", one.st_ino == other.st_ino);
	result("link again", link(from, to));
	result("unlink", unlink(from));
	show("left", to);
	note("leftovers", "%d", access("pg_wal/xlogtemp.9.pgseal", F_OK) + access("pg_wal/00000001000000000000000B.pgseal", F_OK));
	unlink(to);
}

static void
installs(void)
{
	const int	new_file = O_CREAT | O_EXCL;

	snprintf(scene, sizeof(scene), "install zeros");
	scratch(new_file, SEGMENT, 0);
	linked("pg_wal/xlogtemp.9", "pg_wal/00000001000000000000000B");
	snprintf(scene, sizeof(scene), "install data");
	scratch(new_file, SEGMENT, 16384 + 5);
	linked("pg_wal/xlogtemp.9", "pg_wal/00000001000000000000000B");
	snprintf(scene, sizeof(scene), "install a history file");
	store("pg_wal/xlogtemp.9", "1\t0/3000000\tno recovery target specified\n", 40);
	linked("pg_wal/xlogtemp.9", "pg_wal/00000002.history");
	snprintf(scene, sizeof(scene), "install a recycled segment");
	fill(bytes, sizeof(bytes), 'o');
	store("pg_wal/00000001000000000000000B", bytes, sizeof(bytes));
	linked("pg_wal/00000001000000000000000B", "pg_wal/00000001000000000000000C");
	snprintf(scene, sizeof(scene), "install a segment with two names");
	fill(bytes, sizeof(bytes), 't');
	store("pg_wal/00000001000000000000000B", bytes, sizeof(bytes));
	result("two names", link("pg_wal/00000001000000000000000B", "pg_wal/00000001000000000000000B.partial"));
	linked("pg_wal/00000001000000000000000B", "pg_wal/00000001000000000000000C");
	unlink("pg_wal/00000001000000000000000B.partial");
	snprintf(scene, sizeof(scene), "install nothing");
	result("link", link("pg_wal/xlogtemp.9", "pg_wal/00000001000000000000000B"));
	snprintf(scene, sizeof(scene), "install where a file is");
	store("pg_wal/xlogtemp.9", "new", 3);
	store("pg_wal/00000001000000000000000B", "old", 3);
	result("link", link("pg_wal/xlogtemp.9", "pg_wal/00000001000000000000000B"));
	show("stays", "pg_wal/00000001000000000000000B");
	store("pg_wal/00000001000000000000000C", "segment", 7);
	result("link a segment", link("pg_wal/00000001000000000000000B", "pg_wal/00000001000000000000000C"));
	show("its old name", "pg_wal/00000001000000000000000B");
	show("the taken one", "pg_wal/00000001000000000000000C");
	unlink("pg_wal/xlogtemp.9");
	unlink("pg_wal/00000001000000000000000B");
	unlink("pg_wal/00000001000000000000000C");
}

static void
refusals(void)
{
	snprintf(scene, sizeof(scene), "errors");
	store("base/5/16384", "old", 3);
	store("base/5/16385", "new", 3);
	result("rename nothing", rename("base/5/1", "base/5/2"));
	result("rename into nowhere", rename("base/5/16384", "base/77/16384"));
	result("rename onto a directory", rename("base/5/16384", "base/5/sub"));
	result("rename a directory onto a file", rename("base/5/sub", "base/5/16384"));
	result("rename onto itself", rename("base/5/16384", "base/5/16384"));
	result("no replace", renameat2(AT_FDCWD, "base/5/16384", AT_FDCWD, "base/5/16385",
								   RENAME_NOREPLACE));
	result("exchange", renameat2(AT_FDCWD, "base/5/16384", AT_FDCWD, "base/5/16385",
								 RENAME_EXCHANGE));
	show("after the exchange", "base/5/16384");
	result("replace", rename("base/5/16384", "base/5/16385"));
	show("replaced", "base/5/16385");
	result("rename a directory", rename("base/5/sub", "base/5/sub2"));
	result("and back", renameat(AT_FDCWD, "base/5/sub2", AT_FDCWD, "base/5/sub"));
	result("unlink a directory", unlink("base/5/sub"));
	result("rmdir what is full", rmdir("base/5"));
	result("mkdir", mkdir("base/5/new", 0700));
	result("rmdir", rmdir("base/5/new"));
	result("remove nothing", remove("base/5/1"));
	result("remove", remove("base/5/16385"));
	result("unlinkat nothing", unlinkat(AT_FDCWD, "base/5/16385", 0));
}

static void
links(void)
{
	snprintf(scene, sizeof(scene), "links");
	store("base/5/16384", "linked", 6);
	store("pg_wal/000000010000000000000003", "segment", 7);
	result("to another class", link("base/5/16384", "postgresql.conf"));
	result("to another relation", link("base/5/16384", "base/5/16385"));
	result("segment and partial", link("pg_wal/000000010000000000000003",
									   "pg_wal/000000010000000000000003.partial"));
	show("partial", "pg_wal/000000010000000000000003.partial");
	result("linkat from nothing", linkat(AT_FDCWD, "base/5/1", AT_FDCWD, "base/5/2", 0));
	store("a.conf", "clear", 5);
	result("clear", link("a.conf", "b.conf"));
	show("clear link", "b.conf");
	unlink("a.conf");
	unlink("b.conf");
	unlink("postgresql.conf");
	unlink("base/5/16385");
	unlink("pg_wal/000000010000000000000003");
	unlink("pg_wal/000000010000000000000003.partial");
}

static void
spellings(void)
{
	char		root[4096];
	char		name[8192];
	int			directory;
	int			fd;

	if (!getcwd(root, sizeof(root)))
		abort();
	snprintf(scene, sizeof(scene), "spellings");
	fill(bytes, 100, 's');
	store("base/5/16384", bytes, 100);
	show("./", "./base/5/16384");
	show("//", "base//5///16384");
	show("..", "base/../base/5/../5/16384");
	show("global/..", "global/../base/5/./16384");
	snprintf(name, sizeof(name), "%s/base/5/16384", root);
	show("absolute", name);
	snprintf(name, sizeof(name), "%s/../data/base/5/16384", root);
	show("absolute ..", name);
	symlink(root, "../alias");
	show("through a link to the directory", "../alias/base/5/16384");
	show(".. behind a link", "../alias/../data/base/5/16384");
	symlink("data/base", "../inside");
	show("through a link into the directory", "../inside/5/16384");
	store("../inside/5/16386", bytes, 100);
	show("made through that link", "base/5/16386");
	symlink("16384", "base/5/16387");
	result("a link as a file", access("base/5/16387", R_OK));
	directory = open("base/5", O_RDONLY | O_DIRECTORY);
	fd = openat(directory, "16384", O_RDONLY);
	note("openat", "%zd %016lx", read(fd, bytes, 200), digest(bytes, 100));
	close(fd);
	fd = openat(directory, "../5/16384", O_RDWR);
	result("openat ..", pread(fd, bytes, 200, 0));
	close(fd);
	result("renameat", renameat(directory, "16384", directory, "16399"));
	show("renamed", "base/5/16399");
	result("unlinkat", unlinkat(directory, "16399", 0));
	fsync(directory);
	close(directory);
	result("chdir", chdir("base/5"));
	show("from inside", "16386");
	show("up and down", "../../base/5/16386");
	result("chdir back", chdir("../.."));
	unlink("base/5/16386");
	unlink("base/5/16387");
	unlink("../alias");
	unlink("../inside");
}

/* What PostgreSQL puts elsewhere is the cluster's by its real place too. */
static void
elsewhere(void)
{
	snprintf(scene, sizeof(scene), "elsewhere");
	mkdir("../space", 0700);
	mkdir("../space/PG_15_202209061", 0700);
	mkdir("../space/PG_15_202209061/5", 0700);
	symlink("../../space", "pg_tblspc/16999");
	unlink("pg_tblspc/16999");
	{
		char	   *space = realpath("../space", NULL);

		symlink(space, "pg_tblspc/16999");
		free(space);
	}
	fill(bytes, 9000, 't');
	store("pg_tblspc/16999/PG_15_202209061/5/16384", bytes, 9000);
	show("by its link", "pg_tblspc/16999/PG_15_202209061/5/16384");
	show("by its place", "../space/PG_15_202209061/5/16384");
	fill(bytes, 500, 'u');
	store("../space/PG_15_202209061/5/16385", bytes, 500);
	show("made by its place", "pg_tblspc/16999/PG_15_202209061/5/16385");
}

static void
relocated_wal(void)
{
	char	   *place;

	snprintf(scene, sizeof(scene), "relocated WAL");
	rename("pg_wal", "../walhome");
	place = realpath("../walhome", NULL);
	symlink(place, "pg_wal");
	free(place);
	fill(bytes, SEGMENT, 'w');
	store("pg_wal/000000010000000000000004", bytes, SEGMENT);
	show("by its link", "pg_wal/000000010000000000000004");
	show("by its place", "../walhome/000000010000000000000004");
}

static int
by_name(const void *one, const void *other)
{
	return strcmp(*(char *const *) one, *(char *const *) other);
}

static void
listing(const char *label, const char *path)
{
	DIR		   *directory = opendir(path);
	struct dirent *entry;
	char	   *names[100];
	int			count = 0;
	char		all[2000] = "";

	while ((entry = readdir(directory)) && count < 100)
		names[count++] = strdup(entry->d_name);
	closedir(directory);
	qsort(names, count, sizeof(*names), by_name);
	for (int i = 0; i < count; i++)
	{
		strcat(strcat(all, " "), names[i]);
		free(names[i]);
	}
	note(label, "%s", all);
}

static void
key_directory(void)
{
	snprintf(scene, sizeof(scene), "key directory");
	listing("listing", ".");
	listing("listing of global", "global");
	opened("open", open("pg_encryption/key.bin", O_RDONLY));
	opened("create", open("pg_encryption/new", O_RDWR | O_CREAT, 0600));
	opened("fopen", fopen("pg_encryption/new", "w") ? 0 : -1);
	result("unlink", unlink("pg_encryption/key.bin"));
	result("remove", remove("pg_encryption/key.bin"));
	result("rmdir", rmdir("pg_encryption"));
	result("unlinkat", unlinkat(AT_FDCWD, "pg_encryption", AT_REMOVEDIR));
	result("rename", rename("pg_encryption", "gone"));
	result("rename into", rename("base/1", "pg_encryption/base"));
	result("truncate", truncate("pg_encryption/key.bin", 0));
}

/* The working directory is this cluster's; the path leads into another, under another key. */
static void
another(const char *other)
{
	char		path[4096];

	snprintf(scene, sizeof(scene), "another");
	snprintf(path, sizeof(path), "%s/base/5/16384", other);
	fill(bytes, 100, 'o');
	store("base/5/16384", bytes, 100);
	store(path, bytes, 100);
	show("in the other", path);
	result("link between", link("base/5/16384", "pg_twophase/0000000A"));
	unlink(path);
	result("rename between", rename("base/5/16384", path));
	show("moved", path);
	result("chdir", chdir(other));
	show("moved, from there", "base/5/16384");
	store("base/5/16400", bytes, 50);
	result("chdir back", chdir("../../one/data"));
	snprintf(path, sizeof(path), "%s/base/5/16400", other);
	show("made there", path);
	store("base/5/16384", bytes, 100);
	result("link across", link("base/5/16384", path));
	unlink(path);
	result("link across keys", link("base/5/16384", path));
	unlink(path);
}

int
main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	renames();
	segment();
	zeros_and_data();
	installs();
	refusals();
	links();
	spellings();
	elsewhere();
	relocated_wal();
	key_directory();
	another(arguments[1]);
	return 0;
}
