#!/usr/bin/env python3
"""What sharing and moving of stored bytes between names and clusters does: the calls that pg_upgrade, pg_combinebackup and
CREATE DATABASE make, from a program in which the library acts.

A link, clone or directory rename needs the same key at both ends, and for a file the same meaning under both names. A
rename that changes the meaning stores the content anew, never in place: another name may have the same bytes, and a kill
may come at any moment.
"""

import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Canaries, Case, major_version, main, run

PYTHON = "/usr/bin/python3"
REFUSED = "the two clusters do not have the same key"
RENAME = "os.rename(sys.argv[1], sys.argv[2])"
# What a rename that stores anew does, in this order: makes a file, fills it, syncs it, gives it the name, removes the old one.
STEPS = ["fchown", "pwrite64", "fsync", "renameat", "unlinkat"]


class Names(Case):
    """Three small clusters without servers: ours, one with its key, one with another; and a plain one."""

    def setUp(self):
        super().setUp()
        self.ours = self.cluster("ours").init()
        self.same = self.cluster("same", key=("--copy-key-from", self.ours.data / "pg_encryption/key.bin")).init()
        self.other = self.cluster("other").init()
        self.plain = self.cluster("plain", sealed=False).init()
        self.relation = self.ours.data / "base/1/1259"

    def command(self, code, *arguments):
        """Runs a line of Python sealed, which prints the name of the error that it meets."""
        program = f"import errno, os, sys\ntry:\n    {code}\nexcept OSError as error:\n    print(errno.errorcode[error.errno])"
        roots = [word for cluster in [self.ours, self.same, self.other] for word in ("-D", cluster.data)]
        return [PGSEAL, "exec", *roots, "--", PYTHON, "-c", program, *arguments]

    def call(self, code, *arguments):
        """What a line of Python printed, and its stderr."""
        done = run(self.command(code, *arguments))
        return done.stdout.strip(), done.stderr

    def refused(self, code, source, target, sentence=""):
        said, stderr = self.call(code, source, target)
        self.assertEqual(said, "EXDEV")
        self.assertIn(sentence, stderr)
        self.assertTrue(source.exists())
        self.assertFalse(target.exists())

    def test_links(self):
        link = "os.link(sys.argv[1], sys.argv[2])"
        here = "base/1/999999"
        self.assertEqual(self.call(link, self.relation, self.same.data / "base/1/1259_new")[0], "EXDEV")
        (self.same.data / "base/1/1259").unlink()
        self.assertEqual(self.call(link, self.relation, self.same.data / "base/1/1259"), ("", ""))
        self.assertTrue(self.relation.samefile(self.same.data / "base/1/1259"))
        for foreign in [self.other, self.plain]:
            (foreign.data / "base/1/1259").unlink()
            self.refused(link, self.relation, foreign.data / "base/1/1259")
            self.refused(link, self.ours.data / "PG_VERSION", foreign.data / "PG_VERSION.linktest", REFUSED)
        self.refused(link, self.relation, self.ours.data / here)
        self.assertEqual(self.call(link, self.ours.data / "PG_VERSION", self.same.data / "PG_VERSION.linktest"), ("", ""))

    def test_directories(self):
        for foreign in [self.other, self.plain]:
            self.refused(RENAME, self.ours.data / "base/5", foreign.data / "base/77")
            self.refused(RENAME, foreign.data / "base/5", self.ours.data / "base/77")
        self.assertEqual(self.call(RENAME, self.ours.data / "base/5", self.same.data / "base/77"), ("", ""))
        self.assertTrue((self.same.data / "base/77/1259").exists())

    def test_a_rename_stores_anew_beside_a_link(self):
        """A relation under another number, a WAL segment under another name, and both where the key is another."""
        wal = next(self.ours.data.glob("pg_wal/0*1"))
        for source, target in [(self.relation, self.ours.data / "base/1/999999"),
                               (wal, wal.with_name("0000000100000000000000F1")),
                               (self.ours.data / "base/1/1249", self.other.data / "base/1/1249")]:
            with self.subTest(target=target):
                stored, clear = source.read_bytes(), self.clear(source)
                link = self.directory / f"link{source.name}"
                link.hardlink_to(source)
                self.assertEqual(self.call(RENAME, source, target), ("", ""))
                self.assertFalse(source.exists())
                self.assertEqual(link.read_bytes(), stored)
                self.assertNotEqual(target.read_bytes(), stored)
                self.assertEqual(self.clear(target), clear)
                self.assertEqual(list(source.parent.glob("*.pgseal")), [])

    def traced(self, source, target, *strace):
        """The rename under strace."""
        return run(["strace", "-qq", "-e", "trace=" + ",".join(STEPS), *strace, *self.command(RENAME, source, target)], check=False)

    def moments(self, source, target):
        """(call, number): the first and the last of each kind that such a rename makes, which is made in passing."""
        log = self.directory / "calls"
        self.assertEqual(self.traced(source, target, "-o", log).returncode, 0)
        calls = re.findall(r"^(\w+)\(", log.read_text(), re.M)
        self.assertEqual(list(dict.fromkeys(calls)), STEPS)
        return [(call, number) for call in STEPS for number in sorted({1, calls.count(call)})]

    def test_killed_while_a_rename_stores_anew(self):
        """kill -9 at any step: one of the names has all of it, nothing is in clear, and the same rename can be made again."""
        names, seen = [self.relation, self.ours.data / "base/1/999999"], set()
        clear = self.clear(self.relation)
        blocks = {clear[at:at + 32] for at in range(0, len(clear), 32)} - {"0" * 32}
        for call, number in self.moments(*names):
            names.reverse()  # the last rename was made to its end
            with self.subTest(call=call, number=number):
                inject = f"inject={call}:signal=KILL:when={number}"
                self.assertEqual(self.traced(*names, "-o", "/dev/null", "-e", inject).returncode, -signal.SIGKILL)
                there = tuple(name.exists() for name in names)
                seen.add(there)
                self.assertEqual(self.clear(names[1] if there[1] else names[0]), clear)
                for file in filter(Path.exists, [*names, names[0].with_name(names[0].name + ".pgseal")]):
                    stored = file.read_bytes().hex()
                    self.assertFalse(blocks & {stored[at:at + 32] for at in range(0, len(stored), 32)}, file)
                self.assertEqual(self.call(RENAME, *names), ("", ""))
                self.assertEqual((self.clear(names[1]), names[0].exists()), (clear, False))
                self.assertEqual(list(self.relation.parent.glob("*.pgseal")), [])
        self.assertEqual(seen, {(True, False), (True, True)})

    def test_copy_file_range_between_keys(self):
        """pg_upgrade's call: both positions, as much as there is; and to a file that is open for writing only."""
        code = ("a = os.open(sys.argv[1], os.O_RDONLY); b = os.open(sys.argv[2], os.O_WRONLY | os.O_TRUNC); "
                "print(os.copy_file_range(a, b, 2**63 - 1), os.copy_file_range(a, b, 2**63 - 1))")
        size = self.relation.stat().st_size
        for foreign in [self.same, self.other, self.plain]:
            target = foreign.data / "base/1/1259"
            self.assertEqual(self.call(code, self.relation, target), (f"{size} 0", ""))
            self.assertEqual(self.clear(target), self.clear(self.relation))

    def clear(self, file):
        """As PostgreSQL sees it."""
        return self.call("print(open(sys.argv[1], 'rb').read().hex())", file)[0]


class Copies(Case):
    """CREATE DATABASE by copying files, in every way that the version has."""

    def test_databases(self):
        cluster, canaries = self.cluster("main").init().start(), Canaries()
        cluster.psql("CREATE DATABASE a")
        cluster.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' AS word FROM generate_series(1, 3000) i; "
                     "CREATE INDEX ON t (i)", db="a")
        names = ["copied"]
        cluster.psql("CREATE DATABASE copied TEMPLATE a STRATEGY file_copy")
        if major_version() >= 18:
            cluster.psql("SET file_copy_method = clone; CREATE DATABASE cloned TEMPLATE a STRATEGY file_copy")
            names.append("cloned")
        for name in names:
            rows = cluster.psql(f"SELECT count(*), sum(i), min(word) = '{canaries['row']}' FROM t", db=name)
            self.assertEqual(rows, "3000|4501500|t")
        cluster.run("pg_amcheck", "--all", "--install-missing", "--heapallindexed")
        self.assertEqual(canaries.found(cluster.data), {})
        cluster.stop()
        self.assertEqual(canaries.found(cluster.data), {})
        run([PGSEAL, "verify", "-D", cluster.data])


if __name__ == "__main__":
    main(__file__)
