#!/usr/bin/env python3
"""What the planner knows of encrypted columns: encdb.estimate_distinct(), and how many rows a range is expected to find."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

ROWS = 4000
TABLES = f"""
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE SCHEMA "a schema";
CREATE TABLE "a schema"."a table" (id int, few enc_int4, "every one" enc_text, none enc_date, half enc_int4, plain int);
INSERT INTO "a schema"."a table" SELECT g, encdb.enc_int4_encrypt(g % 7), encdb.enc_text_encrypt('text ' || g), NULL,
    CASE WHEN g % 2 = 0 THEN encdb.enc_int4_encrypt(g / 4) END, g % 5 FROM generate_series(1, {ROWS}) g;
CREATE TABLE parted (id int, k enc_int4) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000); CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (1000) TO (5000);
INSERT INTO parted SELECT id, few FROM "a schema"."a table";
ANALYZE;
"""
ESTIMATE = "SELECT column_name, n_distinct FROM encdb.estimate_distinct('\"a schema\".\"a table\"')"


class Planner(Confidential):
    maxDiff = None

    def servers(self):
        for form in FORMS:
            socket = self.evaluator(form).socket if form == "isolated" else ""
            server = self.server(form, form=form, socket=socket, conf="autovacuum = off\n")
            self.as_owner(server, TABLES)
            yield form, server

    def rows_of(self, server, statement, setup=""):
        """How many rows the planner expects of a statement's first node."""
        plan = self.as_owner(server, f"{setup}EXPLAIN {statement}")
        return int(re.search(r"rows=(\d+)", plan)[1])

    def test_distinct_values_are_counted(self):
        for form, server in self.servers():
            with self.subTest(form=form):
                groups = "SELECT few FROM \"a schema\".\"a table\" GROUP BY few"
                self.assertGreater(self.rows_of(server, groups), 1000)
                told = self.as_owner(server, ESTIMATE).splitlines()[-3:]
                self.assertEqual(told, ["few|7", "every one|-1", "half|-0.25025"])
                self.assertEqual(self.rows_of(server, groups), 7)
                kept = ("SELECT attname, n_distinct FROM pg_stats WHERE tablename = 'a table' AND attname IN ('few', 'every one', 'half', 'none') ORDER BY attname;")
                stored = ["every one|-1", "few|7", "half|-0.25025", "none|0"]
                self.assertEqual(server.psql(kept).splitlines(), stored)
                # A later ANALYZE, of autovacuum as well, keeps them, and needs no session.
                server.psql("ANALYZE \"a schema\".\"a table\"")
                self.assertEqual(server.psql(kept).splitlines(), stored)

    def test_a_partitioned_table_counts_the_rows_of_all(self):
        for form, server in self.servers():
            with self.subTest(form=form):
                self.assertEqual(self.as_owner(server, "SELECT * FROM encdb.estimate_distinct('parted')").splitlines()[-1], "k|7")
                self.assertEqual(self.rows_of(server, "SELECT k FROM parted GROUP BY k"), 7)

    def test_a_large_table_is_sampled(self):
        """PostgreSQL's own estimate of a plain column of the same values is near."""
        _, server = next(self.servers())
        self.as_owner(server, "CREATE TABLE large AS SELECT g % 50000 AS plain, encdb.enc_int4_encrypt(g % 50000) AS cell FROM generate_series(1, 150000) g; ANALYZE large;")
        told = float(self.as_owner(server, "SELECT n_distinct FROM encdb.estimate_distinct('large')").splitlines()[-1])
        distinct = -told * 150000 if told < 0 else told
        self.assertTrue(40000 < distinct < 60000, told)

    def test_who_may(self):
        """Only the table's owner sets the numbers, and only a session that may compare the cells counts them."""
        _, server = next(self.servers())
        server.psql("CREATE ROLE reader; GRANT SELECT ON ALL TABLES IN SCHEMA \"a schema\" TO reader; GRANT USAGE ON SCHEMA \"a schema\" TO reader")
        told = self.as_owner(server, f"SET ROLE reader;\n{ESTIMATE}", error="must be owner")
        self.assertIn("must be owner of table", told)
        server.psql(ESTIMATE, error="no session is open")
        self.assertEqual(server.psql("SELECT count(*) FROM pg_attribute WHERE attoptions::text LIKE '%n_distinct%'"), "0")

    def test_a_range_without_an_index_is_no_narrow_one(self):
        for form, server in self.servers():
            with self.subTest(form=form):
                table = "\"a schema\".\"a table\""
                bounds = "SELECT encdb.enc_int4_encrypt(1, '|postgres|postgres|') AS low, encdb.enc_int4_encrypt(3, '|postgres|postgres|') AS high \\gset\n"
                between = f"SELECT id FROM {table} WHERE few >= :'low' AND :'high' > few"
                one = f"SELECT id FROM {table} WHERE few > :'low'"
                same_end = f"SELECT id FROM {table} WHERE few > :'low' AND few >= :'high'"
                self.assertEqual(self.rows_of(server, one, bounds), round(ROWS / 3))
                self.assertEqual(self.rows_of(server, between, bounds), round(ROWS / 9))
                self.assertLessEqual(self.rows_of(server, f"SELECT id FROM {table} WHERE few > NULL"), 1)
                self.as_owner(server, f"CREATE INDEX ON {table} (few)")
                self.assertEqual(self.rows_of(server, between, bounds), round(ROWS * 0.005))
                self.assertEqual(self.rows_of(server, one, bounds), round(ROWS / 3))
                self.assertEqual(self.rows_of(server, same_end, bounds), round(ROWS / 9))


if __name__ == "__main__":
    main(__file__, TOOLS)
