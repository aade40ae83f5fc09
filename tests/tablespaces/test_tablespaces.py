#!/usr/bin/env python3
"""Tablespaces: created, filled, moved to and from, crashed on, and dropped; databases that move between them.

A relation's key comes from database, relfilenode, fork and segment. A move to another tablespace gives a new relfilenode
(tables) or keeps it (databases, whose files are copied as they are named): either way the content is there.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from twins import Twins  # noqa: E402
from pgseal_test import main, major_version  # noqa: E402

ROWS = 20000
FILL = "SELECT i, '{word}' || i AS word FROM generate_series(1, {rows}) i"
SUM = "SELECT count(*), sum(i), md5(string_agg(replace(word, '{word}', ''), '' ORDER BY i)) FROM {table}"


class Tables(Twins):
    def test_tables_and_indexes_move(self):
        self.both(self.move, "/one/", "/two/", "/data/base/", tablespaces=["one", "two"])

    def move(self, cluster, canaries):
        word = canaries["row"]
        for name in ("one", "two"):
            cluster.psql(f"CREATE TABLESPACE {name} LOCATION '{cluster.home}/{name}'")
        fill = FILL.format(word=word, rows=ROWS)
        cluster.psql(f"CREATE TABLE t TABLESPACE one AS {fill}; CREATE INDEX ti ON t (word) TABLESPACE two; "
                     f"CREATE TABLE stays TABLESPACE one AS {fill}; CREATE TABLE home AS {fill}")
        expected = cluster.psql(SUM.format(word=word, table="t"))
        for target in ["two", "pg_default", "one", "two"]:
            cluster.psql(f"ALTER TABLE t SET TABLESPACE {target}; ALTER INDEX ti SET TABLESPACE one; "
                         "ALTER INDEX ti SET TABLESPACE two")
            cluster.kill9()
            cluster.start()
            self.assertEqual(cluster.psql(SUM.format(word=word, table="t")), expected)
            self.assertEqual(cluster.psql(f"SET enable_seqscan = off; SELECT i FROM t WHERE word = '{word}77'"), "77")
        self.assertEqual(cluster.psql(SUM.format(word=word, table="stays")), expected)

    def test_a_dropped_tablespace_is_empty(self):
        self.both(self.drop, "/stay/", tablespaces=["go", "stay"])

    def drop(self, cluster, canaries):
        for name in ("go", "stay"):
            cluster.psql(f"CREATE TABLESPACE {name} LOCATION '{cluster.home}/{name}'")
        fill = FILL.format(word=canaries["row"], rows=1000)
        cluster.psql(f"CREATE TABLE t TABLESPACE go AS {fill}; CREATE INDEX ON t (i) TABLESPACE go; "
                     "CREATE TABLE u (i int) TABLESPACE go")
        cluster.psql("DROP TABLESPACE go", error="tablespace \"go\" is not empty")
        cluster.psql("ALTER TABLE ALL IN TABLESPACE go SET TABLESPACE stay; "
                     "ALTER INDEX ALL IN TABLESPACE go SET TABLESPACE stay; DROP TABLE u")
        cluster.psql("DROP TABLESPACE go")
        self.assertEqual(list((cluster.home / "go").iterdir()), [])
        cluster.psql(f"CREATE TABLESPACE go LOCATION '{cluster.home}/go'; CREATE TABLE u TABLESPACE go AS TABLE t")
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT (SELECT sum(i) FROM t), (SELECT sum(i) FROM u)"), "500500|500500")

    def test_tablespaces_within_the_data_directory(self):
        """allow_in_place_tablespaces: pg_tblspc holds directories instead of links."""
        self.both(self.in_place, "/data/pg_tblspc/", conf="allow_in_place_tablespaces = on\n")

    def in_place(self, cluster, canaries):
        cluster.psql("CREATE TABLESPACE here LOCATION ''")
        cluster.psql(f"CREATE TABLE t TABLESPACE here AS {FILL.format(word=canaries['row'], rows=ROWS)}")
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), "20000|200010000")


class Databases(Twins):
    def copy_and_move(self, options, conf=""):
        self.both(lambda cluster, canaries: self.scenario(cluster, canaries, options), "/two/", "/one/",
                  conf=conf, tablespaces=["one", "two"])

    def scenario(self, cluster, canaries, options):
        """A database with tables in two tablespaces is copied; the copy moves, and moves on."""
        word = canaries["row"]
        for name in ("one", "two"):
            cluster.psql(f"CREATE TABLESPACE {name} LOCATION '{cluster.home}/{name}'")
        fill = FILL.format(word=word, rows=ROWS)
        cluster.psql("CREATE DATABASE origin")
        cluster.psql(f"CREATE TABLE t AS {fill}; CREATE INDEX ON t (word); CREATE TABLE far TABLESPACE one AS {fill}; "
                     "CREATE UNLOGGED TABLE u AS TABLE t; CREATE SEQUENCE s; SELECT nextval('s'); "
                     "ALTER TABLE t ALTER i SET STATISTICS 0; VACUUM ANALYZE", db="origin")
        expected = cluster.psql(SUM.format(word=word, table="t"), db="origin")
        cluster.psql(f"CREATE DATABASE copy TEMPLATE origin {options}")
        for target in ["two", "pg_default", "two"]:
            cluster.psql(f"ALTER DATABASE copy SET TABLESPACE {target}")
            cluster.kill9()
            cluster.start()
            self.assertEqual(cluster.psql(SUM.format(word=word, table="t"), db="copy"), expected)
            self.assertEqual(cluster.psql(SUM.format(word=word, table="far"), db="copy"), expected)
            self.assertEqual(cluster.psql("SELECT nextval('s') > 1", db="copy"), "t")
        self.assertEqual(cluster.psql("SELECT count(*) FROM u", db="copy"), "0")
        cluster.psql("DROP DATABASE origin")
        self.assertEqual(cluster.psql(SUM.format(word=word, table="far"), db="copy"), expected)

    def test_by_wal(self):
        self.copy_and_move("STRATEGY wal_log")

    def test_by_file(self):
        self.copy_and_move("STRATEGY file_copy")

    def test_by_clone(self):
        if major_version() < 18:
            self.skipTest("file_copy_method came with 18")
        self.copy_and_move("STRATEGY file_copy", "file_copy_method = clone\n")


if __name__ == "__main__":
    main(__file__)
