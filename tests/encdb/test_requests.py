#!/usr/bin/env python3
"""How often statements ask the evaluator's process: each request is two switches of the processor, so their number counts."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

NUMBERS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE numbers AS SELECT g, encdb.enc_int4_encrypt(g) AS k FROM generate_series(1, 300) g;
"""
# Pages of more than one level, half full, so that rows and keys stay on their pages.
WRITTEN = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE EXTENSION encdb_btree;
CREATE EXTENSION amcheck;
CREATE TABLE written (id enc_int4, k enc_int4, g int) WITH (fillfactor = 50);
INSERT INTO written SELECT encdb.enc_int4_encrypt(g), encdb.enc_int4_encrypt(g * 7 % 2000), g FROM generate_series(1, 2000) g;
ALTER TABLE written ADD PRIMARY KEY (id) WITH (fillfactor = 50);
CREATE INDEX ON written (k) WITH (fillfactor = 50);
"""
CELLS = {"id": 777, "k": 1234, "warm": 5, "one": 1}
SEARCH = "SET enable_seqscan = off; SET enable_bitmapscan = off;\n"


class Requests(Confidential):
    def counts(self, server, statements, setup=""):
        """The requests of each of these statements, in one session; SQL in front of a "; " in one is not counted."""
        sql = setup
        for statement in statements:
            before, _, counted = statement.rpartition("; ")
            sql += f"{before};\nSELECT encdb.requests() AS before \\gset\n{counted} \\g /dev/null\n"
            sql += "SELECT 'requests ' || encdb.requests() - :before;\n"
        return [int(count) for count in re.findall(r"^requests (\d+)$", self.as_owner(server, sql), re.M)]

    def isolated(self, conf=""):
        return self.server(form="isolated", socket=self.evaluator().socket, conf=f"max_parallel_workers_per_gather = 0\n{conf}")

    def test_aggregates(self):
        server = self.isolated()
        self.as_owner(server, NUMBERS)
        expected = {
            "SELECT sum(k) FROM numbers WHERE g <= 100": 1,
            "SELECT avg(k) FROM numbers WHERE g <= 128": 1,
            "SELECT sum(k), avg(k) FROM numbers WHERE g <= 128": 2,
            # The last cells come with the question.
            "SELECT sum(k) FROM numbers WHERE g <= 129": 2,
            "SELECT sum(k) FROM numbers": 3,
            "SELECT sum(k) FROM numbers GROUP BY g % 10": 10,
            "SELECT sum(k) FROM numbers WHERE g < 1": 0,
            "SELECT count(k) FROM numbers": 0,
            "SELECT min(k) FROM numbers WHERE g <= 100": 1,
            "SELECT max(k) FROM numbers": 3,
            # The extreme of one is itself.
            "SELECT max(k) FROM numbers GROUP BY g": 0,
            # Sorts of one column alone, and of more.
            "SELECT k FROM numbers ORDER BY k": 1,
            "SELECT k, g FROM numbers ORDER BY k": 1,
            # Operators one on another are one request for a row.
            "SELECT sum((k + k) * k - k) FROM numbers WHERE g <= 100": 100 + 1,
            "SELECT k + k + k::enc_int8 FROM numbers WHERE g <= 100": 100,
            # A window that is asked once, and one that is asked after each row: its state is made, asked nine times, and dropped.
            "SELECT sum(k) OVER () FROM numbers WHERE g <= 100": 1,
            "SELECT sum(k) OVER (ORDER BY g) FROM numbers WHERE g <= 10": 1 + 1 + 9 + 1,
        }
        self.assertEqual(dict(zip(expected, self.counts(server, expected))), expected)

    def test_writes(self):
        """Of a table whose indexes are both on encrypted columns, with encdb_btree."""
        server = self.isolated("autovacuum = off")
        self.as_owner(server, WRITTEN)
        cells = "".join(f"SELECT encdb.enc_int4_encrypt({number}, '|postgres|postgres|') AS {name} \\gset\n" for name, number in CELLS.items())
        # The first statement of each kind hands over the upper pages of both indexes.
        warm = "SELECT g FROM written WHERE id = :'warm'; SELECT g FROM written WHERE k = :'warm';\n"
        point = "SELECT g FROM written WHERE id = :'id'"
        expected = {
            point: 2,
            # To find the row, to add, and for the index on k; its primary key is known to be where the row was found.
            # To find the first row, for the other bound on each of eleven leaves, and for the sum of 773.
            "SELECT sum(k) FROM written WHERE id BETWEEN :'warm' AND :'id'": 2 + 11 + 7,
            "UPDATE written SET k = k + :'one' WHERE id = :'id'": 2 + 1 + 2,
            "UPDATE written SET g = 0 WHERE id = :'id'": 2,
            "DELETE FROM written WHERE id = :'id'": 2,
            "INSERT INTO written VALUES (:'id', :'k', 1)": 2 + 2,
            "INSERT INTO written VALUES (:'id', :'k', 1) ON CONFLICT (id) DO UPDATE SET g = 2": 2,
        }
        self.assertEqual(dict(zip(expected, self.counts(server, expected, SEARCH + cells + warm))), expected)
        found = "SELECT g FROM written WHERE id = :'id'; SELECT count(*) FROM written WHERE k = :'k';"
        checked = "SELECT bt_index_check('written_pkey', true); SELECT bt_index_check('written_k_idx', true);"
        self.assertEqual(self.as_owner(server, SEARCH + cells + found + checked).split(), ["2", "2"])


if __name__ == "__main__":
    main(__file__, TOOLS)
