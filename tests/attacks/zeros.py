#!/usr/bin/env python3
"""What somebody does who can write the disk but has no key: pages and blocks of zeros, and flipped bits.

crypto.md 3. A whole zeroed page of a relation or SLRU reads as zeros: that limit is documented, and pinned here. A zeroed
16-byte block must not: 64 commits would vanish without a trace.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import Case, main

PAGE = 8192


class Zeros(Case):
    def setUp(self):
        super().setUp()
        self.sealed = self.cluster(conf="autovacuum = off\n").init().start()

    def overwrite(self, path, offset, content):
        with open(self.sealed.data / path, "r+b") as file:
            file.seek(offset)
            file.write(content)

    def table(self):
        self.sealed.psql("CREATE TABLE t AS SELECT i FROM generate_series(1, 2000) i; SELECT count(*) FROM t")
        return self.sealed.psql("SELECT pg_relation_filepath('t')")

    def test_a_zeroed_page_loses_its_rows_unseen(self):
        path = self.table()
        inside = int(self.sealed.psql("SELECT count(*) FROM t WHERE (ctid::text::point)[0] = 2"))
        self.assertGreater(inside, 100)
        self.sealed.stop()
        self.overwrite(path, 2 * PAGE, bytes(PAGE))
        self.sealed.start()
        self.assertEqual(self.sealed.psql("SELECT count(*) FROM t"), str(2000 - inside))

    def test_a_zeroed_block_of_a_table_is_an_error(self):
        self.damage(lambda stored: bytes(16))

    def test_a_flipped_bit_is_an_error(self):
        self.damage(lambda stored: bytes([stored[0] ^ 1]) + stored[1:])

    def damage(self, change):
        path = self.table()
        self.sealed.stop()
        stored = (self.sealed.data / path).read_bytes()
        at = 2 * PAGE + 4096
        self.overwrite(path, at, change(stored[at : at + 16]))
        self.sealed.start()
        self.sealed.psql("SELECT count(*) FROM t", error="invalid page in block 2 of relation")

    def commits(self):
        """128 rows whose commits nobody has looked at yet, and the 64 of them that share one block of pg_xact."""
        self.sealed.psql("CREATE TABLE t (i int)")
        self.sealed.psql("".join(f"INSERT INTO t VALUES ({i});\n" for i in range(128)))
        first = int(self.sealed.psql("INSERT INTO t VALUES (-1) RETURNING pg_current_xact_id()")) - 128
        self.sealed.stop()
        block = -(-first // 64)
        return block, {xid - first for xid in range(block * 64, block * 64 + 64)}

    def visible(self):
        self.sealed.start()
        return {int(row) for row in self.sealed.psql("SELECT i FROM t WHERE i >= 0").split()}

    def test_a_zeroed_block_of_pg_xact_does_not_read_as_zeros(self):
        block, rows = self.commits()
        self.overwrite("pg_xact/0000", block * 16, bytes(16))
        visible = self.visible()
        self.assertEqual(set(range(128)) - rows, visible - rows)
        # Noise: a quarter of them; none, or all, once in 10^8 runs.
        self.assertTrue(0 < len(visible & rows) < 64, visible)

    def test_a_zeroed_page_of_pg_xact_loses_commits_unseen(self):
        self.commits()
        self.overwrite("pg_xact/0000", 0, bytes(PAGE))
        self.sealed.start()
        self.assertEqual(self.sealed.psql("SELECT count(*) FROM t"), "0")


if __name__ == "__main__":
    main(__file__)
