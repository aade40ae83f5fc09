/*
 * recorder MOUNTPOINT DIRECTORY BYTES: a disk that remembers in which order it was written.
 *
 * Purpose: a FUSE file system with one file `disk`, for a loop device, and files named by a number, to which clients append
 * what a server has acknowledged. What reaches them is written to DIRECTORY/log in one order, because one thread serves all:
 *
 *     kind     u32   1 a write to the disk, 2 a flush of it, 3 bytes for the file NUMBER
 *     length   u32   of the bytes that follow the header; 0 for a flush
 *     where    u64   the offset on the disk, or NUMBER
 *
 * Numbers are little-endian. DIRECTORY/disk holds what the disk holds; if it exists the disk begins with that.
 *
 * A flush counts for every write before it in the log. The kernel sends writes of a loop device whose file is open for direct
 * I/O to here before it informs the file system that they are complete, so what was complete when a flush was asked for is
 * before it. There is no forced unit access on a loop device: the block layer flushes instead.
 */
#define FUSE_USE_VERSION 31

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, FLUSH, SAID };
enum { MOST_FILES = 4096, DISK = -1, NOTHING = -2 };

struct header {
	uint32_t kind, length;
	uint64_t where;
};

static int disk, record;
static off_t disk_size;
static off_t said[MOST_FILES]; /* the length of each file of acknowledgements */
static char exists[MOST_FILES];

/* DISK, the number that the path names, or NOTHING. */
static int named(const char *path)
{
	char *end;
	long number;

	if (strcmp(path, "/disk") == 0)
		return DISK;
	number = strtol(path + 1, &end, 10);
	if (end == path + 1 || *end != '\0' || number < 0 || number >= MOST_FILES)
		return NOTHING;
	return (int)number;
}

/* One record. A log that is not whole is worth nothing: the disk fails from then on. */
static int append(uint32_t kind, uint64_t where, const char *bytes, size_t length)
{
	struct header header = {kind, (uint32_t)length, where};
	struct iovec parts[] = {{&header, sizeof header}, {(void *)bytes, length}};

	if (writev(record, parts, 2) != (ssize_t)(sizeof header + length)) {
		perror("recorder: log");
		abort();
	}
	return 0;
}

static int op_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
	int file = named(path);

	(void)info;
	memset(st, 0, sizeof *st);
	st->st_nlink = 1;
	if (strcmp(path, "/") == 0) {
		st->st_mode = S_IFDIR | 0777;
		return 0;
	}
	if (file == NOTHING || (file >= 0 && !exists[file]))
		return -ENOENT;
	st->st_mode = S_IFREG | 0666;
	st->st_size = file == DISK ? disk_size : said[file];
	return 0;
}

static int op_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
	int file = named(path);

	(void)mode;
	if (file < 0)
		return -EPERM;
	exists[file] = 1;
	info->direct_io = 1;
	return 0;
}

static int op_open(const char *path, struct fuse_file_info *info)
{
	int file = named(path);

	if (file == NOTHING || (file >= 0 && !exists[file]))
		return -ENOENT;
	info->direct_io = 1;
	return 0;
}

static int op_read(const char *path, char *bytes, size_t length, off_t offset, struct fuse_file_info *info)
{
	ssize_t got;

	(void)info;
	if (named(path) != DISK)
		return -EACCES;
	got = pread(disk, bytes, length, offset);
	return got < 0 ? -errno : (int)got;
}

static int op_write(const char *path, const char *bytes, size_t length, off_t offset, struct fuse_file_info *info)
{
	int file = named(path);

	(void)info;
	if (file >= 0) {
		append(SAID, (uint64_t)file, bytes, length);
		said[file] += (off_t)length;
		return (int)length;
	}
	if (offset < 0 || offset + (off_t)length > disk_size)
		return -ENOSPC;
	if (pwrite(disk, bytes, length, offset) != (ssize_t)length)
		return -EIO;
	append(WRITE, (uint64_t)offset, bytes, length);
	return (int)length;
}

static int op_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
	(void)data_only;
	(void)info;
	return named(path) == DISK ? append(FLUSH, 0, NULL, 0) : 0;
}

static int op_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
	(void)info;
	return named(path) >= 0 && size == 0 ? 0 : -EPERM;
}

static const struct fuse_operations operations = {
	.getattr = op_getattr,
	.create = op_create,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.fsync = op_fsync,
	.truncate = op_truncate,
};

static int made(const char *directory, const char *name, int flags)
{
	char path[4096];
	int file;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	file = open(path, O_CREAT | O_RDWR | O_CLOEXEC | flags, 0600);
	if (file < 0) {
		perror(path);
		exit(1);
	}
	return file;
}

int main(int argc, char **argv)
{
	/* One thread, in the foreground; the server's user writes here, and root reads the disk. */
	char *fuse[] = {argv[0], "-s", "-f", "-o", "allow_other,fsname=recorder", NULL, NULL};

	if (argc != 4) {
		fprintf(stderr, "usage: recorder MOUNTPOINT DIRECTORY BYTES\n");
		return 2;
	}
	fuse[5] = argv[1];
	disk = made(argv[2], "disk", 0);
	record = made(argv[2], "log", O_APPEND | O_TRUNC);
	disk_size = (off_t)strtoll(argv[3], NULL, 10);
	if (ftruncate(disk, disk_size) != 0) {
		perror("recorder: disk");
		return 1;
	}
	return fuse_main(6, fuse, &operations, NULL);
}
