#!/usr/bin/env python3
"""The node "encdb sort": it gives what PostgreSQL's sort gives, row for row and error for error, by a few requests."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

ROWS = 3000
NODE = "encdb sort"
# Few values, so that a second key decides; NULL; texts whose order depends on the collation; some that are stored outside their row.
TABLES = f"""
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE rows (id int, a enc_int4, b enc_text, c enc_date, d enc_int4);
INSERT INTO rows SELECT g, encdb.enc_int4_encrypt(g * 7 % 10),
    encdb.enc_text_encrypt((ARRAY['a', 'B', 'c', 'A', 'b', 'ä'])[g % 6 + 1] || g % 5 || repeat('x', CASE WHEN g % 301 = 0 THEN 9000 ELSE 0 END)),
    CASE WHEN g % 4 > 0 THEN encdb.enc_date_encrypt(date '2026-01-01' + g * 31 % 40) END, encdb.enc_int4_encrypt(g)
    FROM generate_series(1, {ROWS}) g ORDER BY g * 7919 % {ROWS};
CREATE TABLE few (f enc_int4);
INSERT INTO few SELECT encdb.enc_int4_encrypt(g) FROM generate_series(1, 5) g;
CREATE TABLE one (a enc_int4, b enc_text); INSERT INTO one SELECT a, b FROM rows WHERE id = 7;
ANALYZE rows; ANALYZE few;
"""
SAME = [
    "SELECT id FROM rows ORDER BY a, b, id",
    "SELECT id FROM rows ORDER BY a DESC, c NULLS FIRST, b COLLATE \"C\" DESC, id",
    "SELECT id FROM rows ORDER BY c DESC NULLS LAST, id % 3, a, id",
    "SELECT id FROM rows ORDER BY c DESC, id % 3 DESC, a, id",
    "SELECT id, encdb.decrypt(a) FROM rows ORDER BY b COLLATE \"C\", a, d",
    "SELECT encdb.decrypt(a), encdb.decrypt(b), count(*), max(id) FROM rows GROUP BY a, b ORDER BY a, b",
    "SELECT count(*) FROM (SELECT DISTINCT a, b, c FROM rows) x",
    "SELECT encdb.decrypt(x) FROM (SELECT DISTINCT ON (a, c) b AS x, a, c FROM rows ORDER BY a, c, b, id) y ORDER BY a, c",
    "SELECT id, rank() OVER (PARTITION BY a ORDER BY b, c), lag(id) OVER (PARTITION BY a, c ORDER BY id) FROM rows ORDER BY id",
    "SELECT array_agg(id ORDER BY a, b, id) = array_agg(id) FROM (SELECT * FROM rows ORDER BY a, b, id) x",
    "SELECT count(*), sum(n) FROM few, LATERAL (SELECT row_number() OVER (ORDER BY a, b, id) * id AS n FROM rows WHERE a = f) x",
    "SELECT (SELECT string_agg(id::text, ',') FROM (SELECT id FROM rows WHERE a = f AND id < 99 ORDER BY a, b, c, id) x) FROM few",
    "DECLARE c SCROLL CURSOR FOR SELECT id FROM rows ORDER BY a, b, id; FETCH 3 FROM c; FETCH LAST FROM c; FETCH BACKWARD 5 FROM c",
    "SELECT id FROM rows WHERE id < 300 ORDER BY a, b, id FOR UPDATE",
    "SELECT id FROM rows ORDER BY d",
    "SELECT encdb.decrypt(a) FROM one ORDER BY a, b",
    "SELECT id FROM rows WHERE id < 0 ORDER BY a, b",
    "SELECT encdb.decrypt(sum(d)), encdb.decrypt(a) FROM rows GROUP BY ROLLUP (a, b) ORDER BY a, b, 1",
    "SELECT id FROM rows ORDER BY a, b, id LIMIT 20",
]


class RankedSort(Confidential):
    maxDiff = None

    def isolated(self):
        server = self.server(form="isolated", socket=self.evaluator().socket, conf="max_parallel_workers_per_gather = 0\nautovacuum = off\n")
        self.as_owner(server, TABLES)
        return server

    def answers(self, server, statements, setup):
        """The rows of each statement and the requests that it makes, in a transaction that is rolled back."""
        sql = setup
        for statement in statements:
            sql += f"BEGIN;\nSELECT encdb.requests() AS before \\gset\n\\echo answer\n{statement};\n\\echo requests\nSELECT encdb.requests() - :before;\nROLLBACK;\n"
        parts = re.findall(r"^answer\n(.*?)^requests\n(\d+)$", self.as_owner(server, sql), re.M | re.S)
        self.assertEqual(len(parts), len(statements))
        return parts

    def plan(self, server, statement, setup=""):
        return self.as_owner(server, f"{setup}EXPLAIN {statement}")

    def test_rows_come_in_the_same_order(self):
        server = self.isolated()
        for setup in ["", "SET enable_hashagg = off;", "SET work_mem = '64kB';", "SET work_mem = '64kB'; SET enable_hashagg = off; SET maintenance_work_mem = '1MB';",
                      "SET enable_incremental_sort = off; SET jit = on; SET jit_above_cost = 0;",
                      "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"]:
            ranked, alone = (self.answers(server, SAME, f"{setup}SET encdb.read_ahead = {way};\n") for way in ("on", "off"))
            for statement, (with_node, _), (without, _) in zip(SAME, ranked, alone):
                with self.subTest(statement=statement, setup=setup):
                    self.assertEqual(with_node, without)

    def test_a_sort_is_a_few_requests(self):
        """One for each key, also of rows that are merged from disk, where PostgreSQL's sort needs thousands."""
        server = self.isolated()
        for statement, setup in [("SELECT id FROM rows ORDER BY a, b", ""), ("SELECT id FROM rows ORDER BY a, b, c DESC", "SET work_mem = '64kB';"),
                                 ("SELECT id FROM rows ORDER BY d", "SET work_mem = '64kB';")]:
            with self.subTest(statement=statement):
                self.assertIn(NODE, self.plan(server, statement, setup))
                [(_, ranked)] = self.answers(server, [statement], setup)
                [(_, alone)] = self.answers(server, [statement], f"{setup}SET encdb.read_ahead = off;\n")
                self.assertLessEqual(int(ranked), 5)
                self.assertGreater(int(alone), ROWS // 2)
        # More cells than a sort may keep are sorted as PostgreSQL does.
        small = "SET work_mem = '64kB'; SET maintenance_work_mem = '1MB';"
        wide = "SELECT id FROM rows, generate_series(1, 9) ORDER BY a, b"
        told = self.as_owner(server, f"{small}EXPLAIN (ANALYZE, COSTS OFF) {wide}")
        self.assertRegex(told, r"Keys Ranked: 0\n", told)

    def test_the_plan_says_so_where_it_helps(self):
        server = self.isolated()
        for statement, shown in {"SELECT id FROM rows ORDER BY a, b": True, "SELECT id FROM rows ORDER BY id, b": True, "SELECT id FROM rows ORDER BY d": False,
                                 "SELECT id FROM rows ORDER BY id, id % 3": False, "SELECT id FROM rows ORDER BY a, b LIMIT 5": False}.items():
            with self.subTest(statement=statement):
                plan = self.plan(server, statement)
                self.assertEqual(NODE in plan, shown, plan)
        self.assertRegex(self.plan(server, "SELECT id FROM rows ORDER BY a DESC, b NULLS FIRST"), r"Sort Key: a DESC, b NULLS FIRST\n")
        self.assertNotIn(NODE, self.plan(server, "SELECT id FROM rows ORDER BY a, b", "SET encdb.read_ahead = off;\n"))
        inline = self.server("inline")
        self.as_owner(inline, TABLES)
        self.assertNotIn(NODE, self.plan(inline, "SELECT id FROM rows ORDER BY a, b"))

    def test_workers_sort_and_nobody_merges(self):
        """Gather Merge compares pair by pair: queries that sort by cells do without it, others keep it."""
        server = self.isolated()
        parallel = ("SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
                    "SET enable_hashagg = off;")
        for statement, merges in {"SELECT a, b FROM rows GROUP BY a, b": False, "SELECT id % 100 AS x FROM rows GROUP BY x": True,
                                  "SELECT count(*) FROM (SELECT id % 100 AS x FROM rows GROUP BY x) y WHERE EXISTS (SELECT FROM few ORDER BY f LIMIT 1)": False}.items():
            with self.subTest(statement=statement):
                plan = self.plan(server, statement, parallel)
                self.assertEqual("Gather Merge" in plan, merges, plan)
        self.assertIn("Gather Merge", self.plan(server, "SELECT a, b FROM rows GROUP BY a, b", parallel + "SET encdb.read_ahead = off;\n"))

    def test_what_is_not_compared_is_not_refused(self):
        """A damaged cell of a second key raises its error where rows have the same first key, and only there."""
        server = self.isolated()
        cell = self.as_owner(server, "SELECT b FROM rows WHERE id = 1")
        # Two bytes by the same bit, so that the check byte stays right.
        damaged = cell[:-4] + "".join(f"{int(cell[at:at + 2], 16) ^ 1:02x}" for at in [len(cell) - 4, len(cell) - 2])
        self.as_owner(server, f"UPDATE rows SET b = '{damaged}' WHERE id = 12")
        unique = "SELECT id FROM rows WHERE id < 50 ORDER BY d, b"
        ranked, alone = (self.answers(server, [unique], f"SET encdb.read_ahead = {way};\n") for way in ("on", "off"))
        self.assertEqual(ranked[0][0], alone[0][0])
        self.assertIn(NODE, self.plan(server, unique))
        self.assertEqual(self.as_owner(server, "SELECT id FROM rows WHERE id = 12 ORDER BY a, b").splitlines()[-1], "12")
        for statement in ["SELECT id FROM rows ORDER BY a, b", "SELECT a, b FROM rows GROUP BY a, b ORDER BY a, b"]:
            with self.subTest(statement=statement):
                self.assertIn("not authentic", self.as_owner(server, statement, error="not authentic"))

    def test_a_text_without_a_collation_is_refused(self):
        server = self.isolated()
        for way in "on", "off":
            told = self.as_owner(server, f"SET encdb.read_ahead = {way};\nSELECT id FROM (SELECT id, a, b COLLATE \"C\" AS x FROM rows UNION ALL SELECT id, a, b COLLATE \"POSIX\" FROM rows) y "
                                 "ORDER BY a, x", error="collation")
            self.assertIn("collation", told)


if __name__ == "__main__":
    main(__file__, TOOLS)
