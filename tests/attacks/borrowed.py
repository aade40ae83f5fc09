#!/usr/bin/env python3
"""Memory, files and commands that are not a cluster's own: a vfork child in its parent's memory, WAL segments in an archive,
commands that touch a sealed directory without needing its key."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PG, PGSEAL, Case, base_environment, main, run

# Writes to a sealed relation before and after a vfork child has closed every descriptor.
VFORK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    static char page[8192];
    int fd = open("base/5/99999", O_RDWR | O_CREAT, 0600);
    memset(page, 'a', sizeof page);
    if (fd < 0 || pwrite(fd, page, sizeof page, 0) != sizeof page)
        return 1;
    pid_t child = vfork();
    if (child == 0) {
        for (int other = 3; other < 64; other++)
            close(other);
        _exit(0);
    }
    waitpid(child, 0, 0);
    memset(page, 'b', sizeof page);
    if (pwrite(fd, page, sizeof page, 8192) != sizeof page)
        return 2;
    memset(page, 0, sizeof page);
    if (pread(fd, page, sizeof page, 0) != sizeof page || page[77] != 'a')
        return 3;
    return 0;
}
"""


class Vfork(Case):
    def test_a_child_in_borrowed_memory_changes_nothing(self):
        cluster = self.cluster().init()
        program, source = self.directory / "vforker", self.directory / "vforker.c"
        source.write_text(VFORK)
        run(["cc", "-O1", "-o", program, source])
        run([PGSEAL, "exec", "--", program], cwd=cluster.data)
        stored = (cluster.data / "base/5/99999").read_bytes()
        self.assertEqual(len(stored), 16384)
        for clear in (b"a" * 16, b"b" * 16):
            self.assertNotIn(clear, stored)


class Archive(Case):
    def segment(self, cluster):
        """A segment of the stopped cluster, in another directory."""
        last = sorted(cluster.data.glob("pg_wal/[0-9A-F]*"))[0]
        archive = cluster.home / "archive"
        archive.mkdir()
        return shutil.copy(last, archive)

    def test_a_sealed_segment_with_its_key(self):
        cluster = self.cluster().init()
        segment = self.segment(cluster)
        key = f"--key-file-name={cluster.data}/pg_encryption/key.bin"
        told = cluster.run("pg_waldump", key, segment, check=False)
        self.assertIn("CHECKPOINT_SHUTDOWN", told.stdout)
        beside = self.directory / "kept.key"
        shutil.copy(cluster.data / "pg_encryption/key.bin", beside)
        told = cluster.run("pg_waldump", f"--key-file-name={beside}", segment, check=False)
        self.assertIn("CHECKPOINT_SHUTDOWN", told.stdout, told.stderr)
        told = cluster.run("pg_waldump", f"--key-file-name={beside.name}", segment, check=False, cwd=self.directory)
        self.assertIn("CHECKPOINT_SHUTDOWN", told.stdout, told.stderr)
        without = run([PG / "pg_waldump", segment], check=False)
        self.assertNotIn("CHECKPOINT_SHUTDOWN", without.stdout)

    def test_a_clear_segment_beside_a_sealed_cluster(self):
        sealed, plain = self.cluster("sealed").init(), self.cluster("plain", sealed=False).init()
        segment = self.segment(plain)
        told = sealed.run("pg_waldump", segment, environment={"PGDATA": str(sealed.data)}, check=False)
        self.assertIn("CHECKPOINT_SHUTDOWN", told.stdout)


class Unasked(Case):
    def test_pg_ctl_needs_no_passphrase_to_stop(self):
        secret = self.directory / "passphrase"
        secret.write_text("correct horse\n")
        cluster = self.cluster(key=("--key-passphrase",), environment={"PGSEAL_PASSPHRASE_FILE": str(secret)})
        cluster.init().start()
        secret.unlink()
        pg_ctl = [cluster.bindir / "pg_ctl", "-D", cluster.data]
        for verb in (["status"], ["reload"], ["stop"]):
            done = subprocess.run([*pg_ctl, *verb], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                  env=base_environment())
            self.assertEqual((done.returncode, done.stderr), (0, ""), verb)
        self.assertEqual(cluster.server.wait(60), 0)
        cluster.server = None


if __name__ == "__main__":
    main(__file__)
