#!/usr/bin/env python3
"""Relations of every persistence, and relations of more than one segment."""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from twins import Twins  # noqa: E402
from pgseal_test import main  # noqa: E402

LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"


class Unlogged(Twins):
    def test_reset_after_a_crash_and_kept_over_a_stop(self):
        self.both(self.scenario, "/away/", "/data/base/", tablespaces=["away"])

    def scenario(self, cluster, canaries):
        word = canaries["row"]
        fill = f"SELECT i, '{word}' || i FROM generate_series(1, 5000) i"
        cluster.psql(f"CREATE TABLESPACE away LOCATION '{cluster.home}/away'; "
                     "CREATE UNLOGGED TABLE u (i int PRIMARY KEY, word text, made serial); "
                     "CREATE UNLOGGED TABLE v (i int PRIMARY KEY, word text) TABLESPACE away; "
                     "CREATE INDEX ON u USING gin (to_tsvector('simple', word)); CREATE INDEX ON u USING brin (word); "
                     "CREATE INDEX ON v USING hash (word)")
        for count in range(2):
            cluster.psql(f"INSERT INTO u {fill}; INSERT INTO v {fill}; CHECKPOINT")
            cluster.stop()
            cluster.start()
            self.assertEqual(cluster.psql("SELECT (SELECT sum(i) FROM u), (SELECT sum(i) FROM v)"), "12502500|12502500")
            if count == 0:
                cluster.kill9()
                cluster.start()
                self.assertEqual(cluster.psql("SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM v)"), "0|0")
                cluster.psql("ALTER TABLE v SET LOGGED; ALTER TABLE v SET UNLOGGED; ALTER TABLE v SET TABLESPACE pg_default; "
                             "ALTER TABLE v SET TABLESPACE away")
        cluster.psql("ALTER TABLE u SET LOGGED")
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT sum(i), count(DISTINCT word) FROM u"), "12502500|5000")
        cluster.psql(f"INSERT INTO v {fill}")
        cluster.stop()  # a checkpoint alone does not write them
        cluster.start()


class Temporary(Twins):
    def test_of_two_sessions_and_in_a_tablespace(self):
        self.both(self.scenario, "/away/PG_", "/data/base/", conf="temp_buffers = 100\n", tablespaces=["away"])

    def scenario(self, cluster, canaries):
        """Both sessions' tables are of one name and larger than their buffers; a crash leaves their files to be removed."""
        cluster.psql(f"CREATE TABLESPACE away LOCATION '{cluster.home}/away'")
        self.hold(cluster, canaries["one"], "SET temp_tablespaces = away;")
        cluster.kill9()
        cluster.end_sessions()
        cluster.start()
        for directory in (cluster.home / "away", cluster.data / "base"):
            self.assertEqual([file for file in directory.glob("**/t[0-9]*_[0-9]*")], [])
        self.hold(cluster, canaries["one"], "SET temp_tablespaces = away;")
        self.hold(cluster, canaries["two"], "")

    def hold(self, cluster, word, settings):
        session = cluster.session()
        session.stdin.write(f"SET client_min_messages = error; {settings} CREATE TEMP TABLE t AS SELECT i, '{word}' || i AS "
                            "word FROM generate_series(1, 40000) i; CREATE INDEX ON t (word); DELETE FROM t WHERE i % 2 = 0; "
                            "VACUUM t; SET enable_seqscan = off; "
                            f"SELECT count(*), sum(i), (SELECT i FROM t WHERE word = '{word}77') FROM t;\n")
        self.assertEqual(session.stdout.readline().strip(), "20000|400000000|77")


class Segments(Twins):
    @unittest.skipUnless(LONG, "two tables of 1.1 GB: PGSEAL_TEST_LONG=1 runs it, and make test-world does")
    def test_more_than_one_segment(self):
        self.both(self.scenario, ".1", conf="wal_level = minimal\nmax_wal_senders = 0\nmax_wal_size = 4GB\n")

    def scenario(self, cluster, canaries):
        """A table that is filled past 1 GB, changed on both sides of the border, cut below it, and grown again."""
        word = canaries["row"]
        cluster.psql("CREATE TABLE t (i int, word text); ALTER TABLE t ALTER word SET STORAGE plain")
        grow = f"INSERT INTO t SELECT i, '{word}' || repeat(md5(i::text), 248) FROM generate_series({{}}, {{}}) i"
        cluster.psql("BEGIN; TRUNCATE t; " + grow.format(1, 135000) + "; COMMIT; CREATE INDEX ON t (i)")
        name = cluster.data / cluster.psql("SELECT pg_relation_filepath('t')")
        cluster.psql(f"UPDATE t SET word = '{word}' WHERE i IN (131071, 131072, 131073, 131074); CHECKPOINT")
        self.assertEqual(name.stat().st_size, 1 << 30)
        self.assertGreater(name.with_name(name.name + ".1").stat().st_size, 8192)
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), "135000|9112567500")
        cluster.psql("DELETE FROM t WHERE i > 131000; VACUUM t")
        self.assertEqual(name.with_name(name.name + ".1").stat().st_size, 0)
        cluster.psql(grow.format(200001, 200500))
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*) FROM t WHERE i > 200000"), "500")
        self.assertEqual(cluster.psql(f"SELECT count(*) FROM t WHERE word <> '{word}' || repeat(md5(i::text), 248)"), "0")


if __name__ == "__main__":
    main(__file__)
