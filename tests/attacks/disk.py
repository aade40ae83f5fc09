#!/usr/bin/env python3
"""What somebody can do, and see, who reads and writes the disk but has no key.

Limits that SECURITY.md documents (zeros, replay and swapped pages, what two snapshots show) are pinned here: a whole zeroed
page of a relation or SLRU reads as zeros, and an older page is accepted at its own place. A zeroed block of 16 bytes must not
read as zeros: 64 commits would vanish without a trace.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, Case, base_environment, main, run

PAGE = 8192


class Disk(Case):
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

    def stored(self, path):
        return (self.sealed.data / path).read_bytes()


class Relations(Disk):
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
        stored = self.stored(path)
        at = 2 * PAGE + 4096
        self.overwrite(path, at, change(stored[at : at + 16]))
        self.sealed.start()
        self.sealed.psql("SELECT count(*) FROM t", error="invalid page in block 2 of relation")

    def test_a_page_at_another_place_is_an_error(self):
        path = self.table()
        self.sealed.stop()
        self.overwrite(path, 2 * PAGE, self.stored(path)[3 * PAGE : 4 * PAGE])
        self.sealed.start()
        self.sealed.psql("SELECT count(*) FROM t", error="invalid page in block 2 of relation")

    def test_a_page_of_another_table_is_an_error(self):
        path = self.table()
        self.sealed.psql("CREATE TABLE u AS TABLE t")
        other = self.sealed.psql("SELECT pg_relation_filepath('u')")
        self.sealed.stop()
        self.overwrite(path, 2 * PAGE, self.stored(other)[2 * PAGE : 3 * PAGE])
        self.sealed.start()
        self.sealed.psql("SELECT count(*) FROM t", error="invalid page in block 2 of relation")

    def test_an_older_page_is_accepted_at_its_place(self):
        path = self.table()
        self.sealed.psql("CHECKPOINT")
        old = self.stored(path)[2 * PAGE : 3 * PAGE]
        updated = self.sealed.psql("WITH u AS (UPDATE t SET i = -i WHERE (ctid::text::point)[0] = 2 RETURNING i) "
                                   "SELECT count(*) FROM u")
        self.sealed.stop()
        self.overwrite(path, 2 * PAGE, old)
        self.sealed.start()
        self.assertEqual(self.sealed.psql("SELECT count(*), count(*) FILTER (WHERE i < 0) FROM t"),
                         f"{2000 + int(updated)}|{updated}")

    def test_a_change_shows_its_blocks_of_16_bytes_and_no_more(self):
        path = self.table()
        self.sealed.stop()
        before = self.stored(path)
        for offset in (0, 15, 16, 2 * PAGE + 4097, len(before) - 1):
            command = ["/usr/bin/dd", f"of={self.sealed.data / path}", f"seek={offset}", "bs=1", "conv=notrunc"]
            run([PGSEAL, "exec", "-D", self.sealed.data, "--", *command],
                {**base_environment(), "PGSEAL_PROGRAMS": "dd"}, input="\x7f")
            after = self.stored(path)
            changed = [at for at in range(0, len(before), 16) if before[at : at + 16] != after[at : at + 16]]
            self.assertEqual(changed, [offset // 16 * 16])
            before = after


class ControlFile(Disk):
    def test_a_flipped_bit_stops_the_start(self):
        self.sealed.stop()
        original = self.stored("global/pg_control")
        for at in (16, 64, 200, 290):
            self.overwrite("global/pg_control", at, bytes([original[at] ^ 1]))
            self.assertNotEqual(self.sealed.try_start(), None)
            self.assertEqual(self.sealed.log().count("pg_control is damaged, or"), (16, 64, 200, 290).index(at) + 1)
            self.overwrite("global/pg_control", 0, original)
        self.sealed.start().stop()

    def test_identifier_and_versions_are_all_that_shows(self):
        identifier = int(self.sealed.psql("SELECT system_identifier FROM pg_control_system()"))
        clear = bytes.fromhex(self.sealed.psql("SELECT pg_read_binary_file('global/pg_control')",
                                               receiver=self.sealed.token())[2:])
        stored = self.stored("global/pg_control")
        self.assertEqual(int.from_bytes(stored[:8], "little"), identifier)
        self.assertEqual(stored[:16], clear[:16])
        self.assertEqual([at for at in range(16, PAGE, 16) if stored[at : at + 16] == clear[at : at + 16]], [])


class CommitLog(Disk):
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
