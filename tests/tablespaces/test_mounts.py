#!/usr/bin/env python3
"""A cluster whose parts lie on several file systems, and one that is reached through a bind mount.

The test takes mounts of its own in a user namespace, so that it needs no privilege and leaves nothing behind. Where the kernel
does not let users have one, tmpfs at /dev/shm still is a second file system; only the bind mount is left out then.
"""

import ctypes
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from twins import Twins  # noqa: E402
from pgseal_test import PGSEAL, Canaries, main, run  # noqa: E402

CLONE_NEWNS, CLONE_NEWUSER, MS_BIND = 0x00020000, 0x10000000, 4096
LIBC = ctypes.CDLL(None, use_errno=True)


def take_own_mounts():
    """From here on this process and its children may mount, seen by themselves alone. False: not on this machine."""
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def bind(source, target):
    target.mkdir()
    if LIBC.mount(os.fsencode(source), os.fsencode(target), None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), "bind mount")


OWN_MOUNTS = "PGSEAL_TEST_STAGE" in os.environ and take_own_mounts()


class Mounts(Twins):
    def setUp(self):
        super().setUp()
        self.second = Path(tempfile.mkdtemp(prefix="pgseal-test.", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, self.second, ignore_errors=True)
        self.assertNotEqual(self.second.stat().st_dev, self.directory.stat().st_dev)

    def fill(self, cluster, canaries):
        cluster.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' || i AS word FROM generate_series(1, 20000) i; "
                     "CREATE INDEX ON t (word); SELECT pg_switch_wal(); CHECKPOINT; UPDATE t SET i = -i")

    def check(self, cluster):
        self.assertEqual(cluster.psql("SELECT count(*), sum(i), count(DISTINCT word) FROM t"), "20000|-200010000|20000")

    def test_data_directory_on_a_second_file_system(self):
        canaries = Canaries()
        cluster = self.cluster(self.second / "main").init().start()
        self.fill(cluster, canaries)
        cluster.kill9()
        cluster.start()
        self.check(cluster)
        cluster.stop()
        self.assertEqual(canaries.found(self.second), {})
        self.assert_verifies(cluster)

    def test_wal_and_tablespace_on_a_second_file_system(self):
        """Each part is on another file system than the links to it."""
        canaries = Canaries()
        conf = "max_wal_size = 48MB\nmin_wal_size = 32MB\nautovacuum = off\n"
        cluster = self.cluster(initdb=[f"--waldir={self.second / 'wal'}"], conf=conf).init().start()
        (self.second / "apart").mkdir()
        cluster.psql(f"CREATE TABLESPACE apart LOCATION '{self.second / 'apart'}'")
        self.fill(cluster, canaries)
        for _ in range(4):  # segments are made and recycled there
            cluster.psql("SELECT pg_switch_wal(); CHECKPOINT; CREATE TABLE u AS TABLE t; DROP TABLE u")
        cluster.psql("ALTER TABLE t SET TABLESPACE apart")
        cluster.psql("CREATE DATABASE d TABLESPACE apart STRATEGY file_copy")
        cluster.kill9()
        cluster.start()
        self.check(cluster)
        cluster.psql("ALTER DATABASE d SET TABLESPACE pg_default; CREATE DATABASE e TEMPLATE d TABLESPACE apart")
        cluster.stop()
        for tool in [["pg_waldump", "-p", self.second / "wal", "-n", "1", "-s", self.redo(cluster)],
                     ["pg_resetwal", "-D", cluster.data]]:
            environment = {"PGDATA": str(cluster.data)}
            cluster.run(*tool, environment=environment)
        cluster.start()
        self.check(cluster)
        cluster.stop()
        self.assertEqual(canaries.found(self.second, cluster.home), {})
        self.assert_verifies(cluster)

    def redo(self, cluster):
        shown = cluster.run("pg_controldata", cluster.data).stdout
        return shown.split("REDO location:")[1].split()[0]

    @unittest.skipUnless(OWN_MOUNTS or "PGSEAL_TEST_STAGE" not in os.environ, "the kernel lets users mount nothing here")
    def test_bind_mounts(self):
        """The same directories under two names each, of which no link and no `..` says that they are the same."""
        canaries = Canaries()
        cluster = self.cluster(tablespaces=["apart"]).init()
        alias, apart = self.directory / "alias", self.directory / "apart"
        bind(cluster.data, alias)
        bind(cluster.home / "apart", apart)
        cluster.start(data=alias)
        cluster.psql(f"CREATE TABLESPACE apart LOCATION '{apart}'")
        self.fill(cluster, canaries)
        cluster.psql("ALTER TABLE t SET TABLESPACE apart; CHECKPOINT")
        cluster.kill9()
        cluster.start(data=cluster.data, directory=alias)
        self.check(cluster)
        cluster.stop()
        for name in (alias, cluster.data):
            self.assertRegex(cluster.run("pg_checksums", "-D", name).stdout, r"Bad checksums:\s+0\n")
            run([PGSEAL, "verify", "-D", name])
        self.assertEqual(canaries.found(alias, apart, cluster.home), {})
        run([PGSEAL, "audit", alias, "--canary", canaries.mark])


if __name__ == "__main__":
    main(__file__)
