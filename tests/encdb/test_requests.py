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
CREATE EXTENSION amcheck;
CREATE TABLE written (id enc_int4, k enc_int4, g int) WITH (fillfactor = 50);
INSERT INTO written SELECT encdb.enc_int4_encrypt(g), encdb.enc_int4_encrypt(g * 7 % 2000), g FROM generate_series(1, 2000) g;
ALTER TABLE written ADD PRIMARY KEY (id) WITH (fillfactor = 50);
CREATE INDEX ON written (k) WITH (fillfactor = 50);
"""
# Encrypted columns behind another one, plain or encrypted, and one that is NULL in most rows.
BEHIND = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE behind AS SELECT 1::bigint AS tenant, encdb.enc_int4_encrypt(1) AS a, encdb.enc_int4_encrypt(g) AS b,
    CASE WHEN g % 4 = 0 THEN encdb.enc_int4_encrypt(g) END AS n FROM generate_series(1, 3000) g;
CREATE INDEX plain_first ON behind (tenant, b); CREATE INDEX cell_first ON behind (a, b);
CREATE INDEX nulls_last ON behind (n); CREATE INDEX nulls_first ON behind (n DESC NULLS FIRST);
"""
CELLS = {"id": 777, "k": 1234, "low": 5, "one": 1, "zero": 0, "top": 3000}
KEYS = 2000
SEARCH = "SET enable_seqscan = off; SET enable_bitmapscan = off;\n"


class Requests(Confidential):
    maxDiff = None

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
            "SELECT stddev(k) FROM numbers WHERE g <= 100": 1,
            "SELECT sum(k), avg(k) FROM numbers WHERE g <= 128": 2,
            # The last cells come with the question.
            "SELECT sum(k) FROM numbers WHERE g <= 129": 2,
            "SELECT sum(k) FROM numbers": 3,
            "SELECT sum(k) FROM numbers GROUP BY g % 10": 1,
            "SELECT sum(k) FROM numbers WHERE g < 1": 0,
            "SELECT count(k) FROM numbers": 0,
            "SELECT min(k) FROM numbers WHERE g <= 100": 1,
            "SELECT max(k) FROM numbers": 3,
            # The extreme of one is itself.
            "SELECT max(k) FROM numbers GROUP BY g": 0,
            # Sorts of one column alone, and of more.
            "SELECT k FROM numbers ORDER BY k": 1,
            "SELECT k, g FROM numbers ORDER BY k": 1,
            # Sorts inside aggregates, whose values are compared for equality afterwards.
            "SELECT count(DISTINCT k) FROM numbers": 1,
            "SELECT g % 3, count(DISTINCT k) FROM numbers GROUP BY 1": 3,
            "SELECT mode() WITHIN GROUP (ORDER BY k) FROM numbers": 1,
            # Operators one on another are one request for 16, 32 and 64 rows. PostgreSQL copies the first row of a group, which is asked alone.
            "SELECT sum((k + k) * k - k) FROM numbers WHERE g <= 50": 1,
            "SELECT k + k + k::enc_int8 FROM numbers WHERE g <= 100": 3,
            "SELECT split_part(replace(trim(k::enc_text), '1', '-'), '-', 2) FROM numbers WHERE g <= 100": 3,
            "SELECT initcap(k::enc_text || left(k::enc_text, 1)) FROM numbers WHERE g <= 100": 3,
            "SET encdb.read_ahead = off; SELECT k + k + k::enc_int8 FROM numbers WHERE g <= 100": 100,
            # A window that is asked once, and one that is asked after each row: its state is made, asked nine times, and dropped.
            "SET encdb.read_ahead = on; SELECT sum(k) OVER () FROM numbers WHERE g <= 100": 1,
            "SELECT sum(k) OVER (ORDER BY g) FROM numbers WHERE g <= 10": 1 + 1 + 9 + 1,
        }
        self.assertEqual(dict(zip(expected, self.counts(server, expected))), expected)

    def test_aggregates_of_parallel_workers(self):
        """Few cells of a group come to the leader as they are: they are asked about once, with the results of others."""
        server = self.isolated()
        self.as_owner(server, NUMBERS)
        parallel = ("SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
                    "SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;\n")
        query = "SELECT g % 30, sum(k), max(k) FROM numbers GROUP BY 1"
        self.assertIn("Partial", self.as_owner(server, f"{parallel}EXPLAIN {query}"))
        # The sums of sixteen groups and of the others, and so for the maxima.
        self.assertEqual(self.counts(server, [query], parallel), [2 * 2])
        right = "SELECT bool_and(encdb.decrypt(s) = r AND encdb.decrypt(m) = x) FROM (SELECT sum(k) AS s, sum(g) AS r, max(k) AS m, max(g) AS x FROM numbers GROUP BY g % 3) y"
        self.assertEqual(self.as_owner(server, parallel + right), "t")

    def test_groups_of_a_sort(self):
        """Neighbours are compared by the batch; a sort's second column is not."""
        server = self.isolated()
        self.as_owner(server, NUMBERS + "CREATE TABLE tens AS SELECT encdb.enc_int4_encrypt(g % 10) AS k FROM numbers, generate_series(1, 10);")
        query = "SELECT count(*) FROM (SELECT k FROM tens GROUP BY k) x"
        sorted_groups = "SET enable_hashagg = off;\n"
        batched, single = (self.counts(server, [query], f"{sorted_groups}SET encdb.read_ahead = {way};\n")[0] for way in ["on", "off"])
        self.assertGreaterEqual(single, 3000)
        self.assertLess(batched, 50)

    def test_a_small_table_that_is_scanned_again_is_asked_about_once(self):
        server = self.isolated()
        self.as_owner(server, NUMBERS + "CREATE TABLE small AS SELECT g, encdb.enc_int4_encrypt(g) AS k FROM generate_series(1, 20) g;")
        loop = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;\nSELECT k AS one FROM numbers WHERE g = 5 \\gset\n"
        query = "SELECT count(*) FROM numbers n LEFT JOIN small s ON s.k < :'one' AND s.g <> n.g"
        batched, single = (self.counts(server, [query], f"{loop}SET encdb.read_ahead = {way};\n")[0] for way in ["on", "off"])
        self.assertGreater(single, 1000)
        self.assertLess(batched, 20)

    def test_an_index_scan_within_a_loop_asks_once_for_each_row_of_the_other_table(self):
        server = self.isolated()
        self.as_owner(server, NUMBERS + "CREATE TABLE many AS SELECT g % 50 AS of, encdb.enc_int4_encrypt(g) AS k FROM generate_series(1, 1000) g;"
                      "CREATE INDEX ON many (of); CREATE TABLE fifty AS SELECT generate_series(0, 49) AS g; ANALYZE many; ANALYZE fifty;")
        loop = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET enable_bitmapscan = off;\nSELECT k AS one FROM numbers WHERE g = 5 \\gset\n"
        query = "SELECT count(*) FROM fifty JOIN many ON many.of = fifty.g WHERE many.k > :'one'"
        ahead, alone = (self.counts(server, [query], f"{loop}SET encdb.read_ahead = {way};\n")[0] for way in ["on", "off"])
        self.assertGreaterEqual(alone, 1000)
        # 16 rows are read first, and there are 20 for each.
        self.assertLessEqual(ahead, 2 * 50 + 1)

    def test_writes(self):
        """Of a table whose indexes are both on encrypted columns: no other extension is needed."""
        server = self.isolated("autovacuum = off")
        self.as_owner(server, WRITTEN)
        cells = "".join(f"SELECT encdb.enc_int4_encrypt({number}, '|postgres|postgres|') AS {name} \\gset\n" for name, number in CELLS.items())
        point = "SELECT g FROM written WHERE id = :'id'"
        # The evaluator has no page yet: it is asked, and handed the root and the leaf; then, for one bound of a range, the first
        # leaf, and for the other, which is asked about the first, those of 26 and of 28 leaves that it does not have.
        cold = {
            point: 1 + 2,
            "SELECT g FROM written WHERE id BETWEEN :'zero' AND :'top'": (1 + 1) + 1 + 24,
            "SELECT g FROM written WHERE k BETWEEN :'zero' AND :'top'": (1 + 2) + 1 + 25,
        }
        expected = {
            point: 1,
            # One for each bound, which is told of all eleven leaves, and for the sum of 773.
            "SELECT sum(k) FROM written WHERE id BETWEEN :'low' AND :'id'": 2 + 7,
            # To find the row, to add, and for the index on k; its primary key is known to be where the row was found.
            "UPDATE written SET k = k + :'one' WHERE id = :'id'": 1 + 1 + 1,
            "UPDATE written SET g = 0 WHERE id = :'id'": 1,
            "DELETE FROM written WHERE id = :'id'": 1,
            "INSERT INTO written VALUES (:'id', :'k', 1)": 1 + 1,
            # The key's leaf is not as it was: it has a cell more, which is equal to the probe.
            "INSERT INTO written VALUES (:'id', :'k', 1) ON CONFLICT (id) DO UPDATE SET g = 2": 1 + 1,
        }
        counted = self.counts(server, [*cold, *expected], SEARCH + cells)
        self.assertEqual(dict(zip(cold, counted)), cold)
        self.assertEqual(dict(zip(expected, counted[len(cold):])), expected)
        found = "SELECT g FROM written WHERE id = :'id'; SELECT count(*) FROM written WHERE k = :'k';"
        checked = "SELECT bt_index_check('written_pkey', true); SELECT bt_index_check('written_k_idx', true);"
        self.assertEqual(self.as_owner(server, SEARCH + cells + found + checked).split(), ["2", "2"])

    def test_columns_behind_others(self):
        server = self.isolated("autovacuum = off")
        self.as_owner(server, BEHIND)
        cells = "".join(f"SELECT encdb.enc_int4_encrypt({number}, '|postgres|postgres|') AS {name} \\gset\n" for name, number in CELLS.items())
        for index, where in [("plain_first", "tenant = 1 AND b = :'id'"), ("cell_first", "a = :'one' AND b = :'id'")]:
            with self.subTest(index=index):
                others = "".join(f"DROP INDEX {other};\n" for other in ["plain_first", "cell_first"] if other != index)
                lookup = f"SELECT count(*) FROM behind WHERE {where}"
                setup = f"BEGIN;\n{others}{SEARCH}{cells}{lookup};\n"
                paged, single = (self.counts(server, [lookup], f"{setup}SET encdb.page_requests = {way};\n")[0] for way in ["auto", "off"])
                self.assertLessEqual(paged, single)
        for index in ["nulls_last", "nulls_first"]:
            with self.subTest(index=index):
                others = "".join(f"DROP INDEX {other};\n" for other in ["nulls_last", "nulls_first"] if other != index)
                lookup = "SELECT count(*) FROM behind WHERE n = :'n'"
                n = "SELECT encdb.enc_int4_encrypt(1234 * 2, '|postgres|postgres|') AS n \\gset\n"
                self.assertEqual(self.counts(server, [lookup], f"BEGIN;\n{others}{SEARCH}{n}{lookup};\n")[0], 1)

    def test_keys_one_by_one(self):
        """A new key is handed over alone: were it with all others, thousands would take hours."""
        server = self.isolated()
        made = f"""BEGIN;
SELECT encdb.requests() AS before \\gset
SELECT count(encdb.dek_generate('key ' || g)) FROM generate_series(1, {KEYS}) g;
SELECT 'requests', encdb.requests() - :before;
SELECT encdb.decrypt(encdb.enc_int4_encrypt(7, 'key ' || {KEYS}) + encdb.enc_int4_encrypt(1, 'key 1'));
COMMIT;
SELECT pg_stat_force_next_flush();
"""
        found = self.as_owner(server, made).split()
        self.assertEqual(found[:3], [str(KEYS), f"requests|{2 * KEYS}", "8"], "each is made, and handed over")
        read = "SELECT seq_tup_read FROM pg_stat_all_tables WHERE relid = 'encdb.data_key'::regclass"
        # The two that were used by name, and when the session was opened none.
        self.assertLessEqual(int(server.psql(read)), 2 * KEYS)

    def test_a_message_in_an_open_session_brings_no_keys_again(self):
        """An opening does. Of other messages the session learns of no row more, however many there are."""
        server = self.isolated()
        # The message, and whether a session is open.
        asked = "SELECT encdb_process_message(:'hello')"
        self.assertEqual(self.counts(server, [asked, asked]), [2, 2])
        self.as_owner(server, f"SELECT count(encdb.dek_generate('key ' || g)) FROM generate_series(1, {KEYS}) g")
        self.assertEqual(self.counts(server, [asked, asked]), [2, 2])
        rows = ("SELECT pg_stat_force_next_flush(); SELECT 'rows ' || seq_tup_read FROM pg_stat_all_tables "
                "WHERE relid = 'encdb.data_key'::regclass;\n")
        message = asked + " IS NOT NULL;\n"
        read = re.findall(r"^rows (\d+)$", self.as_owner(server, rows + 5 * message + rows), re.M)
        self.assertEqual(read[0], read[1])


if __name__ == "__main__":
    main(__file__, TOOLS)
