#!/usr/bin/env python3
"""Scans that read rows ahead: they give what scans without do, row for row and error for error, by a fraction of the requests."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402
from waiting import eventually  # noqa: E402

ROWS = 2000
# Columns that are NULL, long (outside their row), dropped, and added with a default behind the rows.
TABLES = f"""
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE rows (id int PRIMARY KEY, gone int, k enc_int4, t enc_text, n enc_int4, d enc_date);
INSERT INTO rows SELECT g, g, encdb.enc_int4_encrypt(g * 7 % 100), encdb.enc_text_encrypt('text ' || g % 50 || repeat('x', CASE WHEN g % 97 = 0 THEN 9000 ELSE 0 END)),
    CASE WHEN g % 3 > 0 THEN encdb.enc_int4_encrypt(g % 7) END, encdb.enc_date_encrypt(date '2026-01-01' + g % 365) FROM generate_series(1, {ROWS}) g;
ALTER TABLE rows DROP COLUMN gone; ALTER TABLE rows ADD COLUMN late int DEFAULT 5;
CREATE INDEX ON rows (k);
CREATE TABLE few (f enc_int4, name text);
INSERT INTO few SELECT encdb.enc_int4_encrypt(g * 10), 'few ' || g FROM generate_series(1, 40) g;
CREATE TABLE parted (id int, k enc_int4) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000); CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (1000) TO (5000);
INSERT INTO parted SELECT id, k FROM rows;
CREATE FUNCTION next_of(c enc_int4) RETURNS bigint LANGUAGE sql AS $$SELECT count(*) FROM rows WHERE k > c$$;
ANALYZE rows; ANALYZE few; ANALYZE parted;
"""
CELLS = {"five": "int4_encrypt(5)", "fifty": "int4_encrypt(50)", "ninety": "int4_encrypt(90)", "pattern": "text_encrypt('%9x%')", "two": "int4_encrypt(2)",
         "pattern_two": "text_encrypt('TEXT 1_')", "four": "text_encrypt('4')", "one_four": "text_encrypt('14')",
         "prefix": "text_encrypt('text 4')", "regex": "text_encrypt('9x|\\\\m1.\\\\Z')", "similar": "text_encrypt('text (1|2)_')"}
SAME = [
    "SELECT count(*), sum(id) FROM rows WHERE k = :'five'",
    "SELECT count(*), sum(id) FROM rows WHERE k <> :'five' AND k >= :'fifty' AND :'ninety' > k",
    "SELECT count(*), sum(id) FROM rows WHERE NOT (k BETWEEN :'five' AND :'fifty') OR n = :'two'",
    "SELECT count(*), sum(id) FROM rows WHERE n IS NULL OR n < :'two' OR n = k",
    "SELECT count(*), sum(id) FROM rows WHERE n < k AND late = 5",
    "SELECT count(*), sum(id) FROM rows WHERE k IN (:'five', :'fifty', :'ninety')",
    "SELECT count(*), sum(id) FROM rows WHERE k NOT IN (:'five', :'fifty', :'ninety')",
    "SELECT count(*), sum(id) FROM rows WHERE n IN (:'five', NULL) OR k NOT IN (:'fifty', :'ninety') AND n = ANY ('{}')",
    "SELECT count(*), sum(id) FROM rows WHERE (n NOT IN (:'five', NULL)) IS NULL AND NOT (n < :'two' AND late = 4)",
    "SELECT count(*), sum(id) FROM rows WHERE (n < :'two' OR t LIKE :'pattern' AND NOT (k > :'fifty' AND (t ILIKE :'pattern_two' OR n <> k))) AND t NOT ILIKE t || t",
    "SELECT count(*), sum(id) FROM rows WHERE n < NULL::enc_int4 OR k = :'five'",
    "SELECT count(*), sum(id) FROM rows WHERE n < :'two' AND k > (SELECT min(f) FROM few WHERE f > :'fifty')",
    "SELECT count(*), sum(id) FROM few, LATERAL (SELECT id FROM rows WHERE n < f AND k > f + :'two' OFFSET 0) x",
    "SELECT id % 300 AS g, encdb.decrypt(sum(k)), encdb.decrypt(avg(n)), encdb.decrypt(max(t)), count(n) FROM rows GROUP BY g HAVING sum(k) > :'fifty'::enc_int4 AND count(*) > 5 ORDER BY g",
    "SELECT g FROM (SELECT id % 300 AS g, sum(k * n) AS s FROM rows GROUP BY 1) x WHERE s > (SELECT sum(f) FROM few) OR s IS NULL ORDER BY g",
    "SELECT id % 7, late, count(*) FROM rows GROUP BY ROLLUP (id % 7, late) HAVING min(k) < :'two' OR sum(n) > :'fifty'::enc_int4 ORDER BY 1, 2",
    "SELECT id / 10, encdb.decrypt(sum(k) OVER (PARTITION BY id / 10 ORDER BY id)) FROM rows WHERE id < 100 ORDER BY id",
    "SELECT count(*), sum(id) FROM rows WHERE n IS DISTINCT FROM :'two'",
    "SELECT count(*), sum(id) FROM rows WHERE t LIKE :'pattern'",
    "SELECT count(*), sum(id) FROM rows WHERE t NOT LIKE :'pattern' AND t ILIKE :'pattern_two'",
    "SELECT count(*), sum(id) FROM rows WHERE t ~ :'regex'",
    "SELECT count(*), sum(id) FROM rows WHERE t !~* :'regex' AND t NOT SIMILAR TO :'similar'::enc_text",
    "SELECT count(*), sum(id) FROM rows WHERE t SIMILAR TO :'similar'::enc_text OR t ~ split_part(:'regex'::enc_text, '|', 1 + id % 2)",
    "SELECT count(*), sum(id) FROM rows WHERE t LIKE :'pattern' COLLATE \"C\" AND random() >= 0",
    "SELECT count(*), min(id), max(id) FROM rows GROUP BY n ORDER BY 1, 2, 3",
    "SELECT count(*) FROM (SELECT DISTINCT k, n FROM rows) x",
    "SELECT count(*) FROM (SELECT n FROM rows UNION SELECT f FROM few) x",
    "SELECT count(*), sum(id), min(name) FROM rows JOIN few ON k = f",
    "SELECT count(*), sum(id) FROM rows WHERE k IN (SELECT f FROM few)",
    "SELECT count(*), sum(id) FROM rows WHERE NOT EXISTS (SELECT FROM few WHERE f = k)",
    "SELECT count(*), sum(id), count(f) FROM rows LEFT JOIN few ON k = f AND n < f",
    "SELECT count(*), count(f) FROM few FULL JOIN rows ON k = f",
    "SELECT name, encdb.decrypt(sum(k * f - n)), count(*) FROM rows JOIN few ON k = f GROUP BY name ORDER BY name",
    "SELECT encdb.decrypt(f), count(*), encdb.decrypt(sum(CASE WHEN n < :'five' THEN k + f END)) FROM rows LEFT JOIN few ON k = f GROUP BY f ORDER BY 1",
    "SELECT DISTINCT encdb.decrypt(k + f) AS x FROM rows JOIN few ON k = f ORDER BY x",
    "UPDATE rows SET n = k + f FROM few WHERE k = f AND id < 300 RETURNING id, encdb.decrypt(n), name",
    "SELECT id, encdb.decrypt(k + f) FROM rows JOIN few ON k = f WHERE id < 200 ORDER BY id FOR UPDATE OF rows",
    # Of what was computed more is asked: groups, comparisons, fields and lengths, also where an operand changes from row to row.
    "SELECT encdb.decrypt(extract(month FROM d)), count(*), encdb.decrypt(sum(length(t)::enc_int4)) FROM rows GROUP BY extract(month FROM d) ORDER BY 1",
    "SELECT count(*), sum(id) FROM rows WHERE extract(quarter FROM d) = encdb.enc_decimal_encrypt(2) AND k + n > :'fifty' AND length(t) > :'five'",
    "SELECT count(*), sum(id) FROM rows WHERE extract(month FROM encdb.timezone('Asia/Tokyo', encdb.timezone('Europe/Berlin', d::enc_timestamp))) = extract(month FROM d)",
    "SELECT count(*), sum(id) FROM rows GROUP BY to_char(encdb.timezone('UTC', d::enc_timestamp), 'YYYY-MM') ORDER BY 1, 2",
    "SELECT count(*), sum(id) FROM rows WHERE substring(t FROM 6 FOR 2) IN (:'one_four', :'four') AND upper(t) > lower(t)",
    "SELECT count(*), sum(id), encdb.decrypt(max(length(lower(upper(t) || t)))) FROM rows GROUP BY substr(upper(t), 7) ORDER BY 1, 2, 3",
    "SELECT count(*), sum(id) FROM rows JOIN few ON upper(substring(t, 6, id % 3)) = substring(:'pattern_two'::enc_text FROM 6)",
    "SELECT count(*), sum(id) FROM rows WHERE starts_with(t, :'prefix') AND NOT starts_with(t, right(t, 1))",
    "SELECT count(*), sum(id) FROM rows WHERE position(:'four' IN t) > :'five' OR initcap(t) = t OR split_part(t, ' ', -1) = :'one_four'",
    "SELECT count(*), sum(id), encdb.decrypt(max(replace(t, :'four'::enc_text, n::enc_text))) FROM rows GROUP BY trim(both 'etx1' FROM t), n ORDER BY 1, 2, 3",
    "SELECT count(*), sum(id) FROM rows JOIN few ON btrim(replace(t, 'text', ''), 'x ') = split_part(f::enc_text, '0', 1)",
    "SELECT count(*), sum(id) FROM rows JOIN few ON starts_with(substr(t, 6), left(f::enc_text, -1))",
    "SELECT count(*) FROM (SELECT k + n, n + :'two', - k FROM rows GROUP BY k + n, n + :'two', - k) x",
    "SELECT count(*), sum(id) FROM rows JOIN few ON k + f = n * :'two' WHERE f < :'fifty'",
    "SELECT count(*), sum(x) FROM (SELECT (SELECT sum(r.id) FROM rows r WHERE r.id < 60 AND r.k + f > :'fifty' AND r.k + f IN (SELECT n + k FROM rows LIMIT 9)) AS x FROM few WHERE f < :'ninety') y",
    "SELECT count(DISTINCT pg_catalog.extract(field, d)) FROM rows, (VALUES ('month'), ('day'), ('year')) AS v(field)",
    "SELECT sum(x) FROM (SELECT next_of(f) AS x FROM few WHERE f < :'fifty') y",
    "SELECT count(*), sum(id) FROM rows WHERE encdb.decrypt(k + n * k) > 100",
    "SELECT encdb.decrypt(sum(DISTINCT k + n)), encdb.decrypt(avg(k * n) FILTER (WHERE id % 2 = 0)), encdb.decrypt(sum(k + n ORDER BY id)), encdb.decrypt(max(k + n)) FROM rows",
    "SELECT id, encdb.decrypt(sum(k * n) OVER (ORDER BY id ROWS 2 PRECEDING)) FROM rows WHERE id < 50 ORDER BY id",
    "SELECT late, encdb.decrypt(sum(CASE id % 3 WHEN 0 THEN k * k WHEN 1 THEN - n ELSE n END)), encdb.decrypt(avg(k / n)) FROM rows WHERE n > :'two' GROUP BY late",
    "SELECT encdb.decrypt(sum(k * n - k)), encdb.decrypt(sum(CASE WHEN k < :'fifty' THEN k + :'two' ELSE n END)) FROM rows",
    "SELECT id, encdb.decrypt(k + n), encdb.decrypt(- n), encdb.decrypt(n::enc_text || t) FROM rows WHERE id % 50 = 0 ORDER BY id",
    "SELECT sum(id) FROM rows WHERE d + :'two'::enc_int4 > (SELECT max(d) FROM rows)",
    "SELECT ctid, tableoid::regclass, xmin = 0::text::xid, id, late FROM rows WHERE k = :'five' ORDER BY id LIMIT 9",
    "SELECT tableoid::regclass, count(*), sum(id) FROM parted WHERE k < :'fifty' GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM rows r, LATERAL (SELECT FROM few WHERE f > k OR f = n LIMIT 3) x",
    "SELECT count(*) FROM rows r WHERE k = (SELECT max(f) FROM few WHERE f <= r.k)",
    "WITH RECURSIVE up(k, step) AS (SELECT k, 0 FROM rows WHERE id = 1 UNION SELECT f, step + 1 FROM up, few WHERE f > k AND step < 2) SELECT count(*) FROM up",
    "UPDATE rows SET n = k WHERE k > :'fifty' AND n = :'two' RETURNING id, late",
    "UPDATE parted SET id = id + 2000 WHERE k = :'five' RETURNING tableoid::regclass, id",
    "DELETE FROM rows WHERE k = :'five' OR t LIKE :'pattern' RETURNING id",
    "DELETE FROM rows USING few WHERE k = f AND n = :'two' RETURNING id, name",
    "MERGE INTO rows USING few ON k = f WHEN MATCHED AND n = :'two' THEN DELETE WHEN MATCHED THEN UPDATE SET late = 6; "
    "SELECT count(*), count(n), sum(late) FROM rows",
    "INSERT INTO few SELECT k, 'copied' FROM rows WHERE k > :'ninety' RETURNING name",
    "SELECT count(*), sum(id) FROM (SELECT id, k FROM rows WHERE k < :'fifty' FOR UPDATE) x",
]


class Ahead(Confidential):
    maxDiff = None

    def isolated(self, conf=""):
        server = self.server(form="isolated", socket=self.evaluator().socket, conf=f"max_parallel_workers_per_gather = 0\nautovacuum = off\n{conf}")
        self.as_owner(server, TABLES)
        return server

    def cells(self):
        return "".join(f"SELECT encdb.enc_{made[:-1]}, '|postgres|postgres|') AS {name} \\gset\n" for name, made in CELLS.items())

    def both(self, server, statements, setup=""):
        """What each of these statements gives with and without, in a transaction that is rolled back, and the requests of both."""
        answers = []
        for way in ["on", "off"]:
            sql = self.cells() + f"SET encdb.read_ahead = {way};\n{setup}"
            for statement in statements:
                sql += f"BEGIN;\nSELECT encdb.requests() AS before \\gset\n\\echo answer\n{statement};\n\\echo requests\nSELECT encdb.requests() - :before;\nROLLBACK;\n"
            parts = re.findall(r"^answer\n(.*?)^requests\n(\d+)$", self.as_owner(server, sql), re.M | re.S)
            self.assertEqual(len(parts), len(statements))
            answers.append(parts)
        return [(ahead[0], alone[0], int(ahead[1]), int(alone[1])) for ahead, alone in zip(*answers)]

    def assert_same(self, server, statements, setup=""):
        for statement, (ahead, alone, _, _) in zip(statements, self.both(server, statements, setup)):
            with self.subTest(statement=statement, setup=setup):
                # Without an order, a node more may be reason for another plan.
                ordered = "ORDER BY" in statement or "CURSOR" in statement
                self.assertEqual(*(answer if ordered else sorted(answer.splitlines()) for answer in (ahead, alone)))
                self.assertNotEqual(alone, "")

    def test_statements_give_the_same(self):
        server = self.isolated()
        self.assert_same(server, SAME)
        for setup in ["SET enable_hashjoin = off; SET enable_hashagg = off;", "SET enable_hashjoin = off; SET enable_mergejoin = off;", "SET enable_seqscan = off;",
                      "SET work_mem = '64kB';", "SET jit = on; SET jit_above_cost = 0;",
                      "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"]:
            self.assert_same(server, SAME, setup)

    def test_one_request_asks_about_many_rows(self):
        server = self.isolated()
        # 16, 32, 64, 128, and 256 rows from then on.
        batches = 4 + -(-(ROWS - 240) // 256)
        counted = {
            # Filters that the evaluator can decide are one request, whatever they are made of.
            "SELECT count(*) FROM rows WHERE n = k OR n < k": batches,
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND n < :'ninety' AND NOT (k = n OR n + k = :'two') AND lower(t) LIKE :'pattern' AND d < d": batches,
            "SELECT count(*) FROM rows WHERE n < (SELECT max(f) FROM few WHERE name < 'few 2') AND n < k": batches + 3,
            # Half of it here.
            "SELECT count(*) FROM rows WHERE n < k AND random() >= 0 AND (late = 4 OR n < :'five') AND k <> n": 2 * batches,
            "SELECT count(*) FROM rows WHERE d < d": batches,
            "SELECT count(*) FROM rows WHERE n <> :'five'": batches,
            "SELECT count(*) FROM (SELECT n FROM rows GROUP BY n) x": batches,
            "SELECT count(*) FROM rows WHERE n IN (:'five', :'fifty', :'two')": batches,
            "SELECT count(*) FROM rows WHERE n NOT IN (:'five', :'fifty', :'two')": batches,
            # Also of what is computed: functions one on another are one program.
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND substring(t, 6, 2) = :'four'": batches,
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND substring(lower(t || t), 6, 2) IN (:'four', :'one_four')": batches,
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND starts_with(t, :'prefix')": batches,
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND t ~ :'regex'": batches,
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND t SIMILAR TO :'similar'::enc_text": batches,
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND split_part(t, ' ', 2) = :'four'": batches,
            "SELECT count(*) FROM rows WHERE id % 97 > 0 AND position(:'four' IN replace(trim(t), ' ', '')) = :'five'": batches,
            # Results of groups, and the filters of groups.
            "SELECT count(*) FROM (SELECT id / 2 FROM rows GROUP BY id / 2 HAVING sum(k) > :'fifty'::enc_int4 AND id / 2 > 3 OR sum(n) < :'two'::enc_int4) x": 3 * batches,
            "SELECT count(*) FROM rows WHERE n IS DISTINCT FROM :'five' AND n IS DISTINCT FROM :'two'": 2 * batches,
        }
        for statement, (_, _, ahead, alone) in zip(counted, self.both(server, counted)):
            with self.subTest(statement=statement):
                # A few before tags replace comparisons with one cell.
                self.assertLessEqual(ahead, counted[statement] + 6)
                self.assertGreaterEqual(alone, ROWS // 2)
        # A query that is content with its first row reads 16.
        [(_, _, ahead, _)] = self.both(server, ["SELECT id FROM rows WHERE n < :'five' LIMIT 1"])
        self.assertEqual(ahead, 1)

    def test_pages_that_are_visible_to_all_are_read(self):
        """Minors of PostgreSQL before May 2025 read no such page of a bitmap for a scan that gives nothing: it gives a constant."""
        server = self.isolated()
        server.psql("VACUUM rows")
        only = "SET enable_seqscan = off;\nSET enable_indexscan = off;\nSET enable_indexonlyscan = off;\n"
        query = "SELECT count(*), count(k), sum(id) FROM rows WHERE id < 500 AND n <> k"
        plan = self.as_owner(server, only + "EXPLAIN (VERBOSE, COSTS OFF) " + query)
        self.assertIn("encdb read ahead", plan)
        self.assertRegex(plan, r"Bitmap Heap Scan on public.rows\n +Output: true\n")
        self.assertEqual(self.as_owner(server, only + query), self.as_owner(server, "SET encdb.read_ahead = off;\n" + query))

    def test_the_plan_says_so_where_it_pays(self):
        server = self.isolated()
        node = "encdb read ahead"
        plans = {
            "SELECT count(*) FROM rows WHERE n = :'two'": True,
            "SELECT count(*) FROM rows WHERE k < :'fifty' AND n = :'two'": True,
            "SELECT n FROM rows GROUP BY n": True,
            "SELECT n FROM rows JOIN few ON id = length(name) GROUP BY n": True,
            # An index answers, nobody asks, or an aggregate asks by itself.
            "SELECT id FROM rows WHERE k = :'two' ORDER BY k": False,
            "SELECT k FROM rows WHERE id < 1000": False,
            "SELECT sum(n) FROM rows": False,
            "SELECT k FROM rows WHERE id = 7 AND n = :'two'": False,
        }
        for statement, shown in plans.items():
            with self.subTest(statement=statement):
                plan = self.as_owner(server, self.cells() + "SET enable_seqscan = off;\nEXPLAIN " + statement)
                self.assertEqual(node in plan, shown, plan)
        off = "SET encdb.read_ahead = off;\nEXPLAIN SELECT count(*) FROM rows WHERE n = :'two'"
        self.assertNotIn(node, self.as_owner(server, self.cells() + off))
        inline = self.server("inline")
        self.as_owner(inline, TABLES)
        self.assertNotIn(node, self.as_owner(inline, self.cells() + "EXPLAIN SELECT count(*) FROM rows WHERE n = :'two'"))

    def test_cursors(self):
        server = self.isolated()
        query = "SELECT id FROM rows WHERE n < :'five' AND id < 90"
        fetches = "FETCH 3 FROM c; FETCH 1 FROM c; SELECT 1; FETCH 2 FROM c;"
        self.assert_same(server, [
            f"DECLARE c CURSOR FOR {query}; {fetches} FETCH ALL FROM c",
            f"DECLARE c SCROLL CURSOR FOR {query}; {fetches} FETCH BACKWARD 4 FROM c; FETCH LAST FROM c; FETCH ABSOLUTE 5 FROM c",
            f"DECLARE c CURSOR WITH HOLD FOR {query}; {fetches}",
            f"DECLARE c CURSOR FOR {query} FOR UPDATE; {fetches} UPDATE rows SET late = 8 WHERE CURRENT OF c RETURNING id; SELECT id FROM rows WHERE late = 8",
            f"DECLARE c CURSOR FOR {query}; {fetches} DELETE FROM rows WHERE CURRENT OF c RETURNING id; FETCH 2 FROM c",
        ])

    def test_a_row_that_changed_meanwhile_is_looked_at_again(self):
        """By the filters that the node took and by those that it left to the scan."""
        server = self.isolated()
        server.psql("CREATE TABLE changed (id int)")
        found = {}
        for way in ["on", "off"]:
            first, second = server.session(), server.session()
            for session in first, second:
                session.stdin.write(self.opening() + self.cells() + f"SET encdb.read_ahead = {way};\n")
            first.stdin.write("BEGIN; UPDATE rows SET n = :'five' WHERE id = 2; UPDATE rows SET late = 0 WHERE id = 16; UPDATE rows SET late = late WHERE id = 23;"
                              "INSERT INTO changed VALUES (1);\n\\echo changed\n")
            eventually(lambda: "changed" in first.stdout.readline())
            second.stdin.write("UPDATE rows SET late = 7 WHERE late = 5 AND n = :'two' AND id < 40 RETURNING id;\n\\echo done\n")
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            eventually(lambda: server.psql(waits) == "1")
            first.stdin.write("COMMIT;\n")
            found[way] = [int(line) for line in iter(lambda: second.stdout.readline().strip(), "done") if line.isdigit()]
            server.end_sessions()
            self.as_owner(server, self.cells() + "UPDATE rows SET n = :'two' WHERE id = 2; UPDATE rows SET late = 5")
        self.assertEqual(sorted(found["on"]), sorted(found["off"]))
        self.assertNotIn(2, found["on"])
        self.assertNotIn(16, found["on"])
        self.assertIn(23, found["on"])

    def test_an_answer_ends_with_its_session(self):
        """Rows that were read ahead and asked about in a session are refused like others when it has ended."""
        server = self.isolated()
        sql = self.cells() + "BEGIN; DECLARE c CURSOR FOR SELECT id FROM rows WHERE n < :'five'; FETCH 1 FROM c;\n"
        told = self.as_owner(server, sql + "SET encdb.socket = '/nowhere'; FETCH 1 FROM c;", error="does not answer")
        self.assertIn("does not answer", told)

    def test_row_level_security_keeps_its_order(self):
        """A function that shows its arguments is not called on rows that a policy hides."""
        server = self.isolated()
        server.psql("CREATE ROLE reader; GRANT SELECT ON rows TO reader; ALTER TABLE rows ENABLE ROW LEVEL SECURITY;"
                    "CREATE POLICY equal ON rows FOR SELECT TO reader USING (k = n);"
                    "CREATE FUNCTION tell(id int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$BEGIN RAISE WARNING 'saw %', id; RETURN true; END$$")
        sql = "SET ROLE reader;\nSET client_min_messages = error; SELECT count(*) FROM rows;\nSET client_min_messages = warning;\n"
        seen = {}
        for way in ["on", "off"]:
            done = self.as_owner(server, f"SET encdb.read_ahead = {way};\n\\o /dev/null\n{sql}SELECT id FROM rows WHERE tell(id);\n\\o\nSELECT 'kept ' || count(*) FROM rows WHERE k = n;")
            seen[way] = re.search(r"kept (\d+)", done)[1]
        self.assertEqual(seen["on"], seen["off"])
        plan = self.as_owner(server, "SET ROLE reader;\nEXPLAIN (COSTS OFF) SELECT id FROM rows WHERE tell(id)")
        self.assertRegex(plan, r"encdb read ahead.*\n\s*Filter: \(\(k = n\) AND tell\(id\)\)", plan)

    def test_no_row_is_refused_for_the_sake_of_another(self):
        """A cell that is damaged raises its error when its row is reached, and no earlier."""
        server = self.isolated()
        cell = self.as_owner(server, "SELECT k FROM rows WHERE id = 1")
        # Two bytes by the same bit, so that the check byte stays right.
        damaged = cell[:-4] + "".join(f"{int(cell[at:at + 2], 16) ^ 1:02x}" for at in [len(cell) - 4, len(cell) - 2])
        self.as_owner(server, f"ALTER TABLE rows DROP CONSTRAINT rows_pkey; DROP INDEX rows_k_idx; UPDATE rows SET k = '{damaged}' WHERE id = 12")
        for statement in ["SELECT id FROM rows WHERE k < :'ninety' AND id <> 12", "SELECT id FROM rows WHERE k < :'ninety' LIMIT 5",
                          "SELECT count(*) FROM rows WHERE n = :'two' AND id <> 12 AND k < :'ninety'"]:
            self.assert_same(server, [statement])
        for statement in ["SELECT count(*) FROM rows WHERE k < :'ninety'", "SELECT count(*) FROM rows GROUP BY k", "SELECT count(*) FROM rows JOIN few ON k = f",
                          "SELECT sum(k + k) FROM rows"]:
            with self.subTest(statement=statement):
                self.assertIn("not authentic", self.as_owner(server, self.cells() + statement, error="not authentic"))

    def test_a_subquery_that_no_row_needs_does_not_run(self):
        server = self.isolated()
        fails = "(SELECT f FROM few WHERE 1 / (length(name) - length(name)) = 1)"
        self.assert_same(server, [f"SELECT count(*) FROM rows WHERE n < :'two' AND n > :'fifty' AND n <> {fails}"])
        self.as_owner(server, self.cells() + f"SELECT count(*) FROM rows WHERE n < :'two' AND n <> {fails}", error="division by zero")
        # Nor is a function of a parameter computed.
        setup = self.cells() + "SET plan_cache_mode = force_generic_plan;\n"
        prepared = "PREPARE q(enc_text) AS SELECT count(*) FROM rows WHERE n < :'two' {} AND n = $1::enc_int4; EXECUTE q(:'pattern')"
        self.assert_same(server, [prepared.format("AND n > :'fifty'") + "; DEALLOCATE q"], setup)
        self.as_owner(server, setup + prepared.format(""), error="invalid input syntax")

    def test_who_may_not_execute_an_operator_may_not_sum_by_it(self):
        """Also in a plan that was made before, in which the sum computes by itself."""
        server = self.isolated()
        revoked = ("SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', oprcode::regprocedure) FROM pg_operator "
                   "WHERE oprname = '*' AND oprleft = 'enc_int4'::regtype AND oprright = 'enc_int4'::regtype")
        told = self.as_owner(server, f"""CREATE ROLE reader; GRANT SELECT ON rows TO reader; SET ROLE reader;
            PREPARE p AS SELECT count(sum) FROM (SELECT sum(k * n) FROM rows) s; EXECUTE p;
            \\warn summed
            RESET ROLE; {revoked} \\gexec
            SET ROLE reader; EXECUTE p;""", error="permission denied for function")
        self.assertIn("summed", told)

    def test_rights_are_asked_for_each_row(self):
        """LIKE and arithmetic need their grants however they are asked."""
        server = self.isolated()
        for statement in ["SELECT count(*) FROM rows WHERE t LIKE t", "SELECT count(*) FROM rows WHERE starts_with(t, t)", "SELECT count(btrim(t)) FROM rows", "SELECT count(k + k) FROM rows", "SELECT sum(k + k) FROM rows", "SELECT count(*) FROM rows WHERE k + k > k"]:
            with self.subTest(statement=statement):
                self.assertIn("granted", self.as_owner(server, statement, operations="none", error="has not granted"))


if __name__ == "__main__":
    main(__file__, TOOLS)
