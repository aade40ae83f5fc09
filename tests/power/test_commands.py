"""Power cuts in the middle of pgseal's commands: what they promised is there, what they left half-way goes on or is nothing.

Each test runs one command on a file system that records its writes, cuts it (states.py), and looks at every state: no server starts on
half a cluster, the same command goes on to its end, rows and pages are whole, and what a command acknowledged by its end is there. Two cuts of each lie at that very end.
PGSEAL_POWER_CUTS (5) is the number of cuts of a record; with PGSEAL_TEST_LONG=1 (make test-power) XFS is cut, too.
"""

import contextlib
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "convert"))
from converting import PLAIN_KEY, ConvertCase, become  # noqa: E402
from disk import Cut, RecordedDisk, main, needs_disk  # noqa: E402
from pgseal_test import PGSEAL, Cluster, run, twins  # noqa: E402

SEED = int(os.environ.setdefault("PGSEAL_POWER_SEED", "15"))
CUTS = int(os.environ.get("PGSEAL_POWER_CUTS", "5"))
LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"
ROTATIONS = 12
SEGMENTS = 6
TABLE = ("CREATE TABLESPACE space LOCATION '{home}/space'; CREATE EXTENSION amcheck;"
         "CREATE TABLE t TABLESPACE space AS SELECT i, i || 'clear' AS word FROM generate_series(1, 20000) i; CREATE INDEX ON t (word)")
ROWS = "SELECT count(*), md5(string_agg(word, ',' ORDER BY i)) FROM t"


@needs_disk
class Commands(ConvertCase):
    kind = "ext4"

    def setUp(self):
        super().setUp()
        self.disk = RecordedDisk(self, self.kind)

    def test_seal(self):
        main_cluster = self.stopped()
        self.convert_and_cut(main_cluster, "seal", *PLAIN_KEY)

    def test_rekey(self):
        main_cluster = self.stopped()
        self.convert("seal", main_cluster, *PLAIN_KEY)
        self.convert_and_cut(main_cluster, "rekey", *PLAIN_KEY)

    def test_unseal(self):
        main_cluster = self.stopped()
        self.convert("seal", main_cluster, *PLAIN_KEY)
        self.convert_and_cut(main_cluster, "unseal")

    def convert_and_cut(self, cluster, command, *options):
        """A conversion that is cut, and goes on by the same command."""
        key = self.key_of(cluster)
        begin = self.disk.settle()
        self.convert(command, cluster, *options)
        converted = command != "unseal"
        for cut in self.cuts(begin):
            with self.state(cut):
                # A cut may fall behind the mark, but not before the command's end: what it promised then is there.
                self.assertTrue(self.has_ended(cluster, command, key) or not cut.at_end)
                self.go_on(cluster, command, key, options)
                become(cluster, sealed=converted)
                self.assert_whole(cluster)
                self.assertEqual([path.name for path in cluster.home.rglob("*.pgseal")], [])

    def go_on(self, cluster, command, key, options):
        """Nothing starts on half a cluster; the command goes on, unless it had come to its end."""
        if (cluster.data / "pg_encryption/conversion").exists():
            for program in [cluster.pg / "postgres", twins() / "postgres"]:
                self.assertNotEqual(run([program, "-D", cluster.data], check=False).returncode, 0)
        elif self.has_ended(cluster, command, key):
            return
        self.convert(command, cluster, *options)

    def has_ended(self, cluster, command, key):
        """Is the cluster what the command makes of it?"""
        if (cluster.data / "pg_encryption/conversion").exists():
            return False
        now = self.key_of(cluster)
        return {"seal": now is not None, "unseal": now is None, "rekey": now != key}[command]

    def test_rotate(self):
        """Whatever the moment, the key file opens by the last key that was acknowledged, or by the one on its way."""
        cluster = self.stopped()
        self.convert("seal", cluster, *PLAIN_KEY)
        begin, said = self.disk.settle(), self.disk.said / "0"
        for number in range(1, ROTATIONS + 1):
            run([PGSEAL, "key", "rotate", "-D", cluster.data, "--new-key-command", key_command(number)])
            self.acknowledge(said, number)
        for cut in self.cuts(begin):
            with self.state(cut) as told:
                opened = [number for number in range(ROTATIONS + 1) if self.opens(cluster, number)]
                self.assertIn(opened, [[told], [told, told + 1], [told + 1]], "a rotation has both for a moment")
                self.assert_whole(cluster)

    def opens(self, cluster, number):
        """Is it the key of this number that opens the cluster? Number 0 is the unprotected key of the beginning."""
        mark = key_command(number) if number else "pgsealk1"
        return mark.encode() in self.key_of(cluster) and run([PGSEAL, "key", "check", "-D", cluster.data], check=False).returncode == 0

    def test_clone(self):
        self.copy_and_cut(lambda source, copy: [
            PGSEAL, "clone", "--pg", source.pg, "-D", copy.data, "--", "-T", f"{source.home}/space={copy.home}/space"])

    def test_base_backup(self):
        self.copy_and_cut(lambda source, copy: [
            source.bindir / "pg_basebackup", "-D", copy.data, "-X", "stream", "-T", f"{source.home}/space={copy.home}/space"])

    def copy_and_cut(self, command):
        """A copy of a running cluster, which is whole or starts nowhere."""
        source = self.filled(self.cluster("source", tablespaces=["space"]))
        copy = self.on_disk("copy")
        begin = self.disk.settle()
        run(command(source, copy), source.environment)
        rows = source.psql(ROWS)
        source.stop()
        self.rows = rows
        for cut in self.cuts(begin):
            with self.state(cut):
                if self.is_made(copy, cut):
                    copy.configure(f"unix_socket_directories = '{copy.home}'\n")
                    self.assert_whole(copy)

    def test_initdb(self):
        cluster = self.on_disk("home")
        begin = self.disk.settle()
        cluster.run("initdb", "-D", cluster.data, "-U", "postgres", "-A", "trust", "-k", "--locale=C", *cluster.initdb)
        for cut in self.cuts(begin):
            with self.state(cut):
                if self.is_made(cluster, cut):
                    cluster.configure(f"listen_addresses = ''\nunix_socket_directories = '{cluster.home}'\n")
                    self.restart(cluster)
                    self.assertEqual(cluster.psql("SELECT count(*) > 300 FROM pg_class"), "t")
                    self.verify_stopped(cluster)

    def test_wal_put(self):
        """Each segment under its name is whole, and those that were acknowledged are there."""
        source = self.filled(self.cluster("source", initdb=["--wal-segsize=1"], tablespaces=["space"]))
        source.psql("".join("CREATE TABLE s{0} AS SELECT {0}; SELECT pg_switch_wal();".format(n) for n in range(SEGMENTS)))
        source.stop()
        archive, said = self.disk.directory / "archive", self.disk.said / "0"
        archive.mkdir()
        begin = self.disk.settle()
        segments = sorted(path for path in (source.data / "pg_wal").iterdir() if len(path.name) == 24)[:SEGMENTS]
        for number, segment in enumerate(segments, 1):
            run([PGSEAL, "wal-put", "--to", archive, segment, segment.name], cwd=source.data)
            self.acknowledge(said, number)
        for cut in self.cuts(begin):
            with self.state(cut) as told:
                self.check_archive(archive, segments, told)

    def check_archive(self, archive, segments, told):
        there = [segment for segment in segments if (archive / segment.name).exists()]
        self.assertIn(len(there), (told, told + 1))
        for segment in there:
            self.assertEqual((archive / segment.name).read_bytes(), segment.read_bytes(), segment.name)

    def test_recovery(self):
        """A second cut, while the server recovers from a first one."""
        cluster = self.on_disk("home", conf="fsync = on\nmax_wal_size = 32MB\nmin_wal_size = 32MB\n")
        self.filled(cluster)
        begin = self.disk.settle()
        cluster.psql("UPDATE t SET word = word || '+' WHERE i % 3 = 0")
        self.rows = cluster.psql(ROWS)
        cluster.psql("CREATE TABLE later AS SELECT i FROM generate_series(1, 30000) i")
        end = self.disk.mark()
        cluster.kill9()
        self.disk.end()
        first = self.disk.cuts(1, SEED, end - 1, end)[0]
        self.assertGreater(first.record, begin)
        self.disk.again(first)
        begin = self.disk.mark()
        self.restart(cluster)
        cluster.kill9()
        for cut in self.cuts(begin):
            with self.state(cut):
                self.assert_whole(cluster)

    def stopped(self):
        """A plain cluster with a tablespace, filled and stopped."""
        cluster = self.filled(self.on_disk("home", sealed=False, initdb=["--wal-segsize=1"]))
        cluster.stop()
        return cluster

    def on_disk(self, name, **options):
        cluster = Cluster(self.disk.directory / name, tablespaces=["space"], **options)
        self.addCleanup(cluster.close)
        return cluster

    def filled(self, cluster):
        cluster.init().start()
        cluster.psql(TABLE.format(home=cluster.home))
        self.rows = cluster.psql(ROWS)
        return cluster

    def key_of(self, cluster):
        file = cluster.data / "pg_encryption/key.bin"
        return file.read_bytes() if file.exists() else None

    def acknowledge(self, said, number):
        """Writes below the recorder, in the order of the disk's writes, that step `number` is done."""
        with open(said, "a", buffering=1) as file:
            file.write(f"{number}\n")

    def cuts(self, begin):
        """Cuts of what was written since, two of them at its end, where nothing that is in flight may matter."""
        end = self.disk.mark()
        self.disk.end()
        cuts = self.disk.cuts(CUTS, SEED, begin, end) + [Cut(end, "none", SEED), Cut(end, "sectors", SEED)]
        for cut in cuts:
            cut.at_end = cut.record == end
        return cuts

    @contextlib.contextmanager
    def state(self, cut):
        """A state, mounted while it is looked at: the number that was acknowledged last before the cut."""
        with self.subTest(cut=str(cut)), self.disk.state(cut) as said:
            if said is None:
                self.assertEqual(self.kind, "xfs", "the file system cannot be mounted")
                self.skipTest("XFS does not mount this state")
            yield int((said.get(0, "").split() or ["0"])[-1])

    def is_made(self, cluster, cut):
        """Is there a cluster? Where the key file is missing, which is made last, nothing starts."""
        if (cluster.data / "pg_encryption/key.bin").exists():
            self.assertEqual(run([PGSEAL, "key", "check", "-D", cluster.data], check=False).returncode, 0)
            return True
        self.assertFalse(cut.at_end)
        self.assertNotEqual(run([cluster.bindir / "postgres", "-D", cluster.data], check=False).returncode, 0)
        return False

    def restart(self, cluster):
        cluster.log_file.unlink(missing_ok=True)
        (cluster.data / "postmaster.pid").unlink(missing_ok=True)  # its number may be in use here, after a boot it is not
        cluster.start()

    def assert_whole(self, cluster):
        """It starts, has its rows, and every page is sound."""
        try:
            self.restart(cluster)
            self.assertEqual(cluster.psql(ROWS), self.rows)
            cluster.run("pg_amcheck", "--heapallindexed", "-d", "postgres")
            self.verify_stopped(cluster)
        finally:
            cluster.close()

    def verify_stopped(self, cluster):
        cluster.stop()
        if cluster.sealed:
            self.verify(cluster)


@unittest.skipUnless(LONG, "minutes each: make test-power runs them")
class CommandsOnXfs(Commands):
    kind = "xfs"


def key_command(number):
    """A command that prints the key of this number in hexadecimal."""
    return f"echo {number:064x}"


if __name__ == "__main__":
    main(__file__)
