#!/usr/bin/env python3
"""Settings that go past the file calls are refused with a sentence; those that copy whole files work."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import Canaries, Case, main, major_version


class Refused(Case):
    def refuse(self, conf, sentence):
        cluster = self.cluster(conf=conf).init()
        self.assertEqual(cluster.try_start(), 1)
        self.assertIn(sentence, cluster.log())

    def test_dynamic_shared_memory_in_mapped_files(self):
        self.refuse("dynamic_shared_memory_type = mmap\n",
                    "cannot be sealed: set dynamic_shared_memory_type to posix or sysv")

    def test_neither_checksums_nor_logged_hint_bits(self):
        """A torn page that only hint bits changed would be lost."""
        cluster = self.cluster().init()
        cluster.run("pg_checksums", "--disable", "-D", cluster.data)
        self.assertNotEqual(cluster.try_start(), None)
        self.assertIn("wal_log_hints", cluster.log())
        cluster.configure("wal_log_hints = on")
        cluster.start().stop()


class Direct(Case):
    """Direct I/O asks for aligned memory, which our own buffers must have too."""

    def run_with(self, conf):
        canaries = Canaries()
        cluster = self.cluster(conf=conf).init().start()
        cluster.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' || i AS word FROM generate_series(1, 20000) i; "
                     "CREATE INDEX ON t (word); SELECT pg_switch_wal(); CHECKPOINT; DELETE FROM t WHERE i % 2 = 0")
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), "10000|100000000")
        cluster.stop()
        self.assertEqual(canaries.found(cluster.data), {})

    def test_wal(self):
        self.run_with("wal_level = minimal\nmax_wal_senders = 0\nfsync = on\nwal_sync_method = open_datasync\n")

    def test_data_and_wal(self):
        if major_version() < 16:
            self.skipTest("debug_io_direct came with 16")
        self.run_with("debug_io_direct = 'data, wal, wal_init'\nio_combine_limit = 16\n" if major_version() >= 17 else
                      "debug_io_direct = 'data, wal, wal_init'\n")


class KeyLengths(Case):
    def test_128_and_192_bits(self):
        for bits in (128, 192):
            canaries = Canaries()
            cluster = self.cluster(str(bits), bits=bits).init().start()
            cluster.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' || i AS word FROM generate_series(1, 20000) i")
            cluster.kill9()
            cluster.start()
            self.assertEqual(cluster.psql("SELECT count(*), count(DISTINCT word) FROM t"), "20000|20000")
            cluster.stop()
            self.assertEqual(canaries.found(cluster.data), {})
            self.assertRegex(cluster.run("pg_checksums", "-D", cluster.data).stdout, r"Bad checksums:\s+0\n")


class Copies(Case):
    def copy(self, options, conf=""):
        """A database made from a template, moved to a tablespace and back: nothing shows, nothing is lost."""
        canaries = Canaries()
        cluster = self.cluster(conf=conf, tablespaces=["apart"]).init().start()
        cluster.psql(f"CREATE TABLESPACE apart LOCATION '{cluster.home}/apart'; CREATE DATABASE one")
        cluster.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' || i AS word FROM generate_series(1, 20000) i; "
                     "CREATE INDEX ON t (word)", db="one")
        cluster.psql(f"CREATE DATABASE two TEMPLATE one {options}")
        cluster.psql("ALTER DATABASE two SET TABLESPACE apart")
        cluster.kill9()
        cluster.start()
        total = "SELECT count(*), min(word), max(word), sum(i) FROM t"
        self.assertEqual(cluster.psql(total, db="two"), cluster.psql(total, db="one"))
        cluster.psql("ALTER DATABASE two SET TABLESPACE pg_default")
        self.assertEqual(cluster.psql(total, db="two").split("|")[0], "20000")
        self.assertEqual(cluster.psql(f"SELECT i FROM t WHERE word = '{canaries['row']}77'", db="two"), "77")
        cluster.stop()
        self.assertEqual(canaries.found(cluster.data), {})
        self.assertRegex(cluster.run("pg_checksums", "-D", cluster.data).stdout, r"Bad checksums:\s+0\n")

    def test_by_wal(self):
        self.copy("STRATEGY wal_log")

    def test_by_file(self):
        self.copy("STRATEGY file_copy")

    def test_by_clone(self):
        if major_version() < 18:
            self.skipTest("file_copy_method came with 18")
        self.copy("STRATEGY file_copy", conf="file_copy_method = clone\n")


if __name__ == "__main__":
    main(__file__)
