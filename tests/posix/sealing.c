/*
 * A directory becomes a sealed one's, or another takes its place, after a file in it was found to be in clear: the
 * next call must see it. Usage: sealing SCENE CALL [without-openat2]
 *
 * The working directory holds two data directories: data, which is plain, and sealed, whose key this process has. What
 * happens to them goes past libc, as if another process did it. Run by test_sealing.py, which knows what must come out.
 */
#define _GNU_SOURCE
#include "transcript.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *call;
static const char *path = "data/base/5/7";
static int	directory = AT_FDCWD;

static void
must(const char *what, long status)
{
	if (status < 0)
	{
		perror(what);
		exit(1);
	}
}

static void
forbid_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	must("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	must("seccomp", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	if (syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) != -1 || errno != EPERM)
		exit(1);
}

static int
open_it(void)
{
	FILE	   *stream;

	if (strcmp(call, "creat") == 0)
		return creat(path, 0600);
	if (strcmp(call, "openat") == 0)
		return openat(directory, path, O_RDWR | O_CREAT, 0600);
	if (strcmp(call, "open") == 0)
		return open(path, O_RDWR | O_CREAT, 0600);
	stream = fopen(path, "w+");
	return stream == NULL ? -1 : fileno(stream);
}

static void
store(const char *label)
{
	char		text[64] = "";
	int			fd = opened(label, open_it());

	if (fd < 0)
		return;
	snprintf(text, sizeof(text), "clear-%s-marker", label);
	must("write", write(fd, text, sizeof(text)));
	must("close", close(fd));
}

/* What the scene is called happens, between one call and the next. */
static void
happen(void)
{
	if (strcmp(scene, "created") == 0)
		must(scene, mkdir("data/pg_encryption", 0700));
	else if (strcmp(scene, "created where we stand") == 0 || strcmp(scene, "created above") == 0)
		must(scene, mkdir("pg_encryption", 0700));
	else if (strcmp(scene, "exchanged") == 0)
		must(scene, syscall(SYS_renameat2, AT_FDCWD, "data", AT_FDCWD, "sealed", RENAME_EXCHANGE));
	else if (strcmp(scene, "changed to") == 0)
		must(scene, chdir("../sealed"));
	else if (strcmp(scene, "directory linked") == 0)
	{
		must(scene, syscall(SYS_renameat2, AT_FDCWD, "data/base/5", AT_FDCWD, "data/base/old", 0));
		must(scene, symlink("../../sealed/base/5", "data/base/5"));
	}
	else if (strcmp(scene, "file linked") == 0)
	{
		must(scene, syscall(SYS_unlinkat, AT_FDCWD, path, 0));
		must(scene, symlink("../../../sealed/base/5/7", path));
	}
	else if (strcmp(scene, "link hangs") == 0)
	{
		must(scene, syscall(SYS_unlinkat, AT_FDCWD, path, 0));
		must(scene, symlink("hop", path));
		must(scene, symlink("../../../sealed/base/5/8", "data/base/5/hop"));
	}
	else
		exit(2);
}

int
main(int count, char **arguments)
{
	if (count < 3)
		return 2;
	snprintf(scene, sizeof(scene), "%s", arguments[1]);
	call = arguments[2];
	if (count > 3)
		forbid_openat2();
	if (strcmp(scene, "created where we stand") == 0 || strcmp(scene, "changed to") == 0)
	{
		must("chdir", chdir("data"));
		path = "base/5/7";
	}
	else if (strcmp(call, "openat") == 0 && strcmp(scene, "created") == 0)
	{
		must("data", directory = open("data", O_RDONLY | O_DIRECTORY));
		path = "base/5/7";
	}
	store("before");
	happen();
	store("after");
	return 0;
}
