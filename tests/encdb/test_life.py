#!/usr/bin/env python3
"""A server's life with encrypted columns: crashes, dumps, replication, an evaluator that dies, work without a client."""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential, wrappers  # noqa: E402
from pgseal_test import main  # noqa: E402
from waiting import eventually

TABLE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t (id enc_int4 PRIMARY KEY, c enc_text);
INSERT INTO t SELECT encdb.enc_int4_encrypt(g), encdb.enc_text_encrypt('row ' || g) FROM generate_series(1, 500) g;
CREATE INDEX t_c ON t USING hash (c);
"""
ROWS = "SELECT count(*), min(encdb.decrypt(c)), encdb.decrypt(sum(id)) FROM t;\n"
POINT = "SET enable_seqscan = off;\nSELECT encdb.decrypt(c) FROM t WHERE id = (SELECT encdb.enc_int4_encrypt(77, '|postgres|postgres|'));\n"
ANSWER = "500|row 1|125250"

# A column beside its plain reference, and questions for the least and the greatest of it.
WORDS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE words AS SELECT g, w, encdb.enc_text_encrypt(w) AS e FROM (
    SELECT g, (ARRAY['ab', 'Ab', 'a b', 'zebra', 'Zebra', 'été', '', 'x-y'])[1 + g * 31 % 8] || g % 17 AS w FROM generate_series(1, 20000) g) s;
ALTER TABLE words SET (parallel_workers = 2);
ANALYZE words;
"""
WORKERS = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;"
EXTREMES = [
    "SELECT {0}, {1} FROM words",
    "SELECT g % 7, {0}, {1} FROM words WHERE g < 3000 GROUP BY g % 7 ORDER BY 1",
    "SELECT g, {0}, {1} FROM words WHERE g > 19990 GROUP BY g ORDER BY 1",
    "SELECT {0}, {1} FROM words WHERE g > 50000",
    "SELECT g, {0} OVER (ORDER BY g ROWS 3 PRECEDING), {1} OVER (ORDER BY g ROWS 3 PRECEDING) FROM words WHERE g < 60 ORDER BY 1",
    "SELECT g, {0} OVER (ORDER BY g), {1} OVER (ORDER BY g) FROM words WHERE g < 300 ORDER BY 1",
    "SELECT g, {0} OVER (PARTITION BY g % 3), {1} OVER (PARTITION BY g % 3) FROM words WHERE g < 300 ORDER BY 1",
]

# A group's states go from the workers' into the leader's, and other aggregates begin while memory of the former is still there.
SUMS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE big AS SELECT i % 4 AS g, encdb.enc_int8_encrypt(1) AS v FROM generate_series(1, 40000) i;
CREATE TABLE y AS SELECT i % 4 AS g, encdb.enc_int8_encrypt(1000) AS v FROM generate_series(1, 1200) i;
CREATE TABLE z AS SELECT i % 4 AS g, encdb.enc_int8_encrypt(1000000) AS v FROM generate_series(1, 1200) i;
ALTER TABLE big SET (parallel_workers = 2); ALTER TABLE y SET (parallel_workers = 0); ALTER TABLE z SET (parallel_workers = 0);
ANALYZE big; ANALYZE y; ANALYZE z;
"""
NESTED = """
WITH x AS NOT MATERIALIZED (SELECT g, sum(v) s FROM big GROUP BY g ORDER BY g),
yy AS MATERIALIZED (SELECT g, sum(v) s FROM y GROUP BY g), zz AS MATERIALIZED (SELECT g, sum(v) s FROM z GROUP BY g)
SELECT x.g, encdb.decrypt(x.s), CASE WHEN x.g <> 1 THEN (SELECT encdb.decrypt(s) FROM yy OFFSET x.g LIMIT 1) END,
CASE WHEN x.g = 1 THEN (SELECT encdb.decrypt(s) FROM zz LIMIT 1) END FROM x;
"""
NESTED_ANSWER = "0|10000|300000|\n1|10000||300000000\n2|10000|300000|\n3|10000|300000|"
CURSOR = "SET enable_sort = off; DECLARE {0} CURSOR FOR SELECT encdb.decrypt(sum(v)) FROM {0} GROUP BY g; FETCH 1 FROM {0};\n"

# Whose rows are compared as they come in.
COMPARING = """
CREATE TABLE parts (id enc_int4) PARTITION BY HASH (id);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT encdb.enc_int4_encrypt(g) FROM generate_series(1, 20) g;
CREATE TABLE bounded (low enc_int4, high enc_int4, CHECK (low <= high));
INSERT INTO bounded SELECT encdb.enc_int4_encrypt(g), encdb.enc_int4_encrypt(g + 1) FROM generate_series(1, 20) g;
"""
# Whose bounds are compared when a partition is attached.
BOUNDS = """
SELECT encdb.enc_int4_encrypt(0) AS a, encdb.enc_int4_encrypt(10) AS b, encdb.enc_int4_encrypt(21) AS c,
    encdb.enc_text_encrypt('x') AS x, encdb.enc_text_encrypt('y') AS y \\gset
CREATE TABLE spans (id enc_int4) PARTITION BY RANGE (id);
CREATE TABLE spans_0 PARTITION OF spans FOR VALUES FROM (:'a') TO (:'b');
CREATE TABLE spans_1 PARTITION OF spans FOR VALUES FROM (:'b') TO (:'c');
INSERT INTO spans SELECT encdb.enc_int4_encrypt(g) FROM generate_series(1, 20) g;
CREATE TABLE named (c enc_text COLLATE "C") PARTITION BY LIST (c);
CREATE TABLE named_0 PARTITION OF named FOR VALUES IN (:'x');
CREATE TABLE named_1 PARTITION OF named FOR VALUES IN (:'y', NULL);
INSERT INTO named VALUES (encdb.enc_text_encrypt('x')), (encdb.enc_text_encrypt('y')), (NULL);
"""
ATTACHED = "SELECT string_agg(relname::text, ' ' ORDER BY relname) FROM pg_class WHERE relispartition AND relkind = 'r'"
# Indexes on what is computed of cells, and what ANALYZE says of them.
COMPUTED = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE computed AS SELECT g AS id, encdb.enc_text_encrypt('Row ' || g) AS c, encdb.enc_int4_encrypt(g) AS k,
    encdb.enc_date_encrypt('2024-01-01'::date + g) AS d FROM generate_series(1, 50) g;
CREATE INDEX computed_c ON computed (lower(c));
CREATE INDEX computed_d ON computed ((abs(k + k)));
CREATE INDEX computed_l ON computed ((length(c || c)));
CREATE INDEX computed_y ON computed ((extract(year FROM d)));
CREATE INDEX computed_part ON computed (id) WHERE c LIKE c;
CREATE STATISTICS computed_s ON lower(c), k FROM computed;
"""
LEARNT = """SELECT tablename, null_frac, n_distinct, most_common_vals, histogram_bounds FROM pg_stats
WHERE tablename ~ '^computed_' ORDER BY 1"""

# One row, and one that refers to it by three keys, in each of two pairs of tables.
REFERENCED = "".join(f"""
SELECT encdb.dek_generate('{name}', '{{"flags": "{name.upper()}"}}') > 0;
CREATE TABLE {name} (id enc_int4 PRIMARY KEY);
CREATE TABLE {name}_by (a enc_int4 REFERENCES {name} ON UPDATE RESTRICT, b enc_int4 REFERENCES {name} ON UPDATE CASCADE,
    c enc_int4 REFERENCES {name} ON UPDATE SET NULL);
INSERT INTO {name} VALUES (encdb.enc_int4_encrypt(1, '{name}'));
INSERT INTO {name}_by SELECT id, id, id FROM {name};
""" for name in ["rnd", "det"])

# Ends by itself, should the test wait for what it holds.
LOCK = "SET idle_in_transaction_session_timeout = '10s'; BEGIN; LOCK TABLE {};\n\\echo locked\n"


def last(output):
    """The last line."""
    return output.splitlines()[-1]


class Life(Confidential):
    def with_table(self, name="main", conf=""):
        server = self.server(name, conf=conf)
        self.as_owner(server, TABLE)
        return server

    def test_crash_recovery_needs_no_key(self):
        server = self.with_table()
        self.as_owner(server, "CHECKPOINT; DELETE FROM t WHERE id > (SELECT encdb.enc_int4_encrypt(490));"
                              "INSERT INTO t SELECT encdb.enc_int4_encrypt(g), NULL FROM generate_series(491, 500) g;")
        server.kill9()
        server.start()
        self.assertEqual(last(self.as_owner(server, ROWS)), ANSWER)
        self.assertEqual(last(self.as_owner(server, POINT)), "row 77")

    def test_dump_and_restore(self):
        server = self.with_table()
        dump = self.directory / "dump"
        server.run("pg_dump", "-Fc", "-f", dump, "postgres")
        server.psql("CREATE DATABASE copy TEMPLATE template0")
        # Types and rows, cells as they are, need no key; the indexes do, and so are built in a session.
        server.run("pg_restore", "--section=pre-data", "--section=data", "-d", "copy", dump)
        indexes = self.directory / "indexes.sql"
        server.run("pg_restore", "--section=post-data", "-f", indexes, dump)
        self.as_owner(server, f"\\i {indexes}\n", db="copy")
        self.assertEqual(last(self.as_owner(server, "SET search_path = public;" + ROWS, db="copy")), ANSWER)
        self.assertEqual(last(self.as_owner(server, POINT, db="copy")), "row 77")
        self.assertIn("500", server.psql("SELECT count(*) FROM t", db="copy"))
        self.assertRegex(server.psql(indexes.read_text(), db="copy", error="."), "already|multiple primary keys")

    def test_restore_of_what_compares_while_rows_come_in(self):
        """Partitions by an encrypted column, and constraints on one: docs/confidential/encdb.md says how."""
        server = self.with_table()
        self.as_owner(server, COMPARING + BOUNDS)
        dump = self.directory / "dump"
        server.run("pg_dump", "-Fc", "-f", dump, "postgres")
        server.psql("CREATE DATABASE copy TEMPLATE template0")
        refused = server.run("pg_restore", "--section=pre-data", "-d", "copy", dump, check=False)
        self.assertRegex(refused.stderr, "(?s)no session is open.*ATTACH PARTITION public.spans_0")
        # One alone is compared with nothing.
        self.assertEqual(server.psql(ATTACHED, db="copy"), "named_0 parts_0 parts_1")
        refused = server.run("pg_restore", "--section=data", "-d", "copy", dump, check=False)
        self.assertIn("no session is open", refused.stderr)
        self.assertEqual(server.psql("SELECT (SELECT count(*) FROM parts), (SELECT count(*) FROM bounded)", db="copy"), "0|0")
        server.psql("DROP DATABASE copy")
        server.psql("CREATE DATABASE copy TEMPLATE template0")
        rest = self.directory / "rest.sql"
        server.psql("CREATE EXTENSION encdb", db="copy")
        server.run("pg_restore", "--section=data", "--schema=encdb", "-d", "copy", dump)
        server.run("pg_restore", "--exclude-schema=encdb", "-f", rest, dump)
        self.as_owner(server, f"\\i {rest}\n", db="copy")
        self.assertEqual(server.psql(ATTACHED, db="copy"), server.psql(ATTACHED))
        counts = ("SET search_path = public; SELECT count(*) FROM parts WHERE id = (SELECT encdb.enc_int4_encrypt(5, '|postgres|postgres|'));"
                  "SELECT count(*) FROM ONLY parts_0; SELECT count(*) FROM ONLY spans_1; SELECT count(*) FROM ONLY named_1;"
                  "SELECT count(*) FROM bounded;" + ROWS)
        self.assertEqual(self.as_owner(server, counts, db="copy"), self.as_owner(server, counts))
        self.assertEqual(last(self.as_owner(server, "SET search_path = public;" + POINT, db="copy")), "row 77")

    def test_upgrade_of_partitions(self):
        """Those by hash go over as they are; those by range or list are detached before, and attached after, in a session."""
        server = self.with_table()
        self.as_owner(server, COMPARING + BOUNDS)
        bounds = server.psql("SELECT format('ALTER TABLE %s ATTACH PARTITION %s %s;', inhparent::regclass, oid::regclass, "
                             "pg_get_expr(relpartbound, oid)) FROM pg_inherits JOIN pg_class ON oid = inhrelid "
                             "WHERE relname ~ '^(spans|named)' ORDER BY relname")
        server.stop()
        refused, logs = self.upgrade(server, "refused")
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(logs, "(?s)no session is open.*ATTACH PARTITION")
        server.start()
        parts = [(name, f"{name}_{n}") for name in ["spans", "named"] for n in range(2)]
        self.as_owner(server, "".join(f"ALTER TABLE {whole} DETACH PARTITION {part};" for whole, part in parts))
        server.stop()
        done, logs = self.upgrade(server, "upgraded")
        self.assertEqual(done.returncode, 0, done.stdout + logs)
        server.data = server.home / "upgraded"
        server.start()
        self.as_owner(server, bounds)
        self.assertEqual(server.psql(ATTACHED), "named_0 named_1 parts_0 parts_1 spans_0 spans_1")
        counts = "SELECT count(*) FROM spans WHERE id = id; SELECT count(*) FROM parts;"
        self.assertEqual(self.as_owner(server, counts + ROWS), f"20\n20\n{ANSWER}")

    def upgrade(self, server, name):
        """What pg_upgrade says, into a new data directory of this name, and its logs."""
        new = server.home / name
        server.run("initdb", "-D", new, "-U", "postgres", "-A", "trust", "-N", "-k", "-E", "UTF8", "--locale=C")
        shutil.copy(server.data / "postgresql.conf", new)
        done = server.run("pg_upgrade", "-b", server.bindir, "-B", server.bindir, "-d", server.data, "-D", new, "-U", "postgres",
                          "-s", server.home, check=False, cwd=server.home)
        return done, "".join(log.read_text() for log in (new / "pg_upgrade_output.d").glob("*/log/pg_upgrade_dump_*.log"))

    def test_copy_in_text_and_binary(self):
        server = self.with_table()
        for form in ["text", "csv", "binary"]:
            file = self.directory / form
            server.psql(f"COPY t TO '{file}' (FORMAT {form}); CREATE TABLE t_{form} (LIKE t);"
                        f"COPY t_{form} FROM '{file}' (FORMAT {form});")
            self.assertEqual(last(self.as_owner(server, ROWS.replace("FROM t", f"FROM t_{form}"))), ANSWER)

    def test_physical_standby(self):
        server = self.with_table()
        standby = self.cluster("standby", sealed=server.sealed, wrappers=wrappers, pg=server.pg, environment=dict(server.environment))
        standby.environment["PGHOST"] = str(standby.home)
        server.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast")
        standby.configure(f"unix_socket_directories = '{standby.home}'")
        standby.start()
        self.assertEqual(last(self.as_owner(standby, ROWS)), ANSWER)
        self.assertEqual(last(self.as_owner(standby, POINT)), "row 77")

    def test_logical_replication(self):
        """Rows are copied and inserted as cells, and keys as rows; the subscriber's index on a cell needs the background's key."""
        server = self.with_table(conf="wal_level = logical\n")
        server.psql("CREATE TABLE log (id integer PRIMARY KEY, x enc_text); CREATE PUBLICATION p FOR TABLE log, encdb.data_key")
        subscriber = self.server("subscriber")
        subscriber.psql("CREATE TABLE log (id integer PRIMARY KEY, x enc_text)")
        subscriber.psql(f"CREATE SUBSCRIPTION s CONNECTION 'host={server.home} user=postgres dbname=postgres' PUBLICATION p")
        self.as_owner(server, "INSERT INTO log SELECT g, encdb.enc_text_encrypt('x' || g) FROM generate_series(1, 20) g;"
                              "UPDATE log SET x = encdb.enc_text_encrypt('new') WHERE id = 3; DELETE FROM log WHERE id = 4;")
        rows = "SELECT count(*), count(x), sum(id) FROM log"
        eventually(lambda: subscriber.psql(rows) == server.psql(rows))
        self.assertEqual(subscriber.psql("SELECT x FROM log ORDER BY id"), server.psql("SELECT x FROM log ORDER BY id"))
        self.assertEqual(last(self.as_owner(subscriber, "SELECT encdb.decrypt(x) FROM log WHERE id = 3")), "new")
        subscriber.psql("DROP SUBSCRIPTION s")

    def test_background_work_under_the_owners_grant(self):
        """An apply worker compares for a primary key on an encrypted column, and nobody's session is open."""
        server = self.with_table(conf="wal_level = logical\n")
        server.psql("CREATE PUBLICATION p FOR TABLE t")
        subscriber = self.server("subscriber", form="isolated", socket=self.evaluator().socket)
        subscriber.psql("CREATE TABLE t (id enc_int4 PRIMARY KEY, c enc_text)")
        keys = server.psql("COPY encdb.data_key TO STDOUT")
        subscriber.psql(f"COPY encdb.data_key FROM STDIN;\n{keys}\n\\.\n")
        self.as_owner(subscriber, "SELECT 1", operations="background")
        subscriber.psql(f"CREATE SUBSCRIPTION s CONNECTION 'host={server.home} user=postgres dbname=postgres' PUBLICATION p")
        eventually(lambda: subscriber.psql("SELECT count(*) FROM t") == "500")
        at = "(SELECT encdb.enc_int4_encrypt(5, '|postgres|postgres|'))"
        self.as_owner(server, f"UPDATE t SET c = encdb.enc_text_encrypt('new') WHERE id = {at};"
                              "DELETE FROM t WHERE id > (SELECT encdb.enc_int4_encrypt(400));")
        eventually(lambda: subscriber.psql("SELECT count(*) FROM t") == "400")
        self.assertEqual(last(self.as_owner(subscriber, f"SELECT encdb.decrypt(c) FROM t WHERE id = {at};")), "new")
        self.assertNotIn("ERROR", subscriber.log())
        subscriber.psql("DROP SUBSCRIPTION s")

    def test_rows_that_replication_finds_by_all_columns(self):
        """REPLICA IDENTITY FULL, and no index: an apply worker compares whole rows, under the owner's grant or not at all."""
        table = "CREATE TABLE log (n integer, x enc_int4); ALTER TABLE log REPLICA IDENTITY FULL;"
        server = self.with_table(conf="wal_level = logical\n")
        server.psql(table + "CREATE PUBLICATION p FOR TABLE log")
        self.as_owner(server, "INSERT INTO log SELECT g, encdb.enc_int4_encrypt(g) FROM generate_series(1, 5) g")
        subscriber = self.server("subscriber", form="isolated", socket=self.evaluator().socket)
        subscriber.psql(table + f"COPY encdb.data_key FROM STDIN;\n{server.psql('COPY encdb.data_key TO STDOUT')}\n\\.\n")
        subscriber.psql(f"CREATE SUBSCRIPTION s CONNECTION 'host={server.home} user=postgres dbname=postgres' PUBLICATION p "
                        "WITH (disable_on_error = true)")
        eventually(lambda: subscriber.psql("SELECT count(*) FROM log") == "5")
        server.psql("UPDATE log SET n = 100 WHERE n = 3")
        eventually(lambda: subscriber.psql("SELECT subenabled FROM pg_subscription") == "f")
        self.assertIn("ERROR:  no session is open", subscriber.log())
        self.as_owner(subscriber, "SELECT 1", operations="background")
        subscriber.psql("ALTER SUBSCRIPTION s ENABLE")
        eventually(lambda: subscriber.psql("SELECT max(n) FROM log") == "100")
        subscriber.psql("DROP SUBSCRIPTION s")

    def test_inline_nothing_is_left_for_background_work(self):
        """Each process is an evaluator by itself there."""
        server = self.with_table(conf="wal_level = logical\n")
        server.psql("CREATE PUBLICATION p FOR TABLE t")
        subscriber = self.server("subscriber")
        subscriber.psql("CREATE TABLE t (id enc_int4 PRIMARY KEY, c enc_text);"
                        f"COPY encdb.data_key FROM STDIN;\n{server.psql('COPY encdb.data_key TO STDOUT')}\n\\.\n")
        self.as_owner(subscriber, "SELECT 1", operations="background")
        subscriber.psql(f"CREATE SUBSCRIPTION s CONNECTION 'host={server.home} user=postgres dbname=postgres' PUBLICATION p "
                        "WITH (disable_on_error = true)")
        eventually(lambda: subscriber.psql("SELECT subenabled FROM pg_subscription") == "f")
        self.assertIn("ERROR:  no session is open", subscriber.log())
        subscriber.psql("DROP SUBSCRIPTION s")

    def test_keys_are_not_waited_for_while_a_page_is_locked(self):
        """A key that another session made is read in the middle of a descent: a wait there could not be ended."""
        for form in FORMS:
            with self.subTest(form):
                server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
                self.as_owner(server, TABLE)
                session = server.session()
                session.stdin.write(self.opening().replace("\\set ON_ERROR_STOP 1\n", "") + ROWS + "\\echo ready\n")
                self.assertEqual(self.until(session, "ready")[-1], ANSWER)
                late = "SELECT encdb.dek_generate('late') > 0; SELECT encdb.enc_int4_encrypt(501, 'late');"
                cell = last(self.as_owner(server, late))
                holder = server.session()
                holder.stdin.write(LOCK.format("encdb.data_key"))
                self.assertEqual(self.until(holder, "locked"), [])
                insert = f"INSERT INTO t VALUES ('{cell}');\n\\echo done\n"
                session.stdin.write("SET statement_timeout = '2s';\n" + insert)
                self.assertEqual(self.until(session, "done"), ["ERROR:  data keys are being changed: run the statement again"])
                # Outside of an index a session waits, and its wait is cancelled.
                session.stdin.write("SELECT encdb.enc_int4_encrypt(1, 'late') IS NULL;\n\\echo done\n")
                self.assertEqual(self.until(session, "done"), ["ERROR:  canceling statement due to statement timeout"])
                holder.stdin.write("ROLLBACK;\n\\echo unlocked\n")
                self.assertEqual(self.until(holder, "unlocked"), [])
                session.stdin.write(insert)
                self.assertEqual(self.until(session, "done"), [])

    def test_serializable_transactions_make_keys_side_by_side(self):
        server = self.with_table()
        server.psql("CREATE TABLE s (x enc_int4)")
        make = ("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT encdb.dek_generate('{0}') IS NULL;"
                "INSERT INTO s VALUES (encdb.enc_int4_encrypt(1, '{0}'));\n")
        first = server.session()
        first.stdin.write(self.opening() + make.format("s1") + "\\echo ready\n")
        self.assertEqual(self.until(first, "ready")[-1], "f")
        self.assertEqual(self.as_owner(server, make.format("s2") + "COMMIT; SELECT count(*) FROM s"), "f\n1")
        first.stdin.write("COMMIT;\n\\echo over\n")
        self.assertEqual(self.until(first, "over"), [])
        self.assertEqual(server.psql("SELECT count(*) FROM s"), "2")

    def test_autovacuum_without_a_key_is_quiet(self):
        server = self.with_table(conf="autovacuum_vacuum_threshold = 10\nautovacuum_analyze_threshold = 10\n"
                                      "autovacuum_vacuum_scale_factor = 0\nautovacuum_analyze_scale_factor = 0\n")
        self.as_owner(server, "ALTER TABLE t SET (autovacuum_enabled = off); CREATE STATISTICS st ON id, c FROM t;"
                              "INSERT INTO t SELECT encdb.enc_int4_encrypt(g), NULL FROM generate_series(501, 6000) g;"
                              "DELETE FROM t WHERE id > (SELECT encdb.enc_int4_encrypt(500));"
                              "ALTER TABLE t RESET (autovacuum_enabled);")
        runs = "SELECT autovacuum_count > {0} AND autoanalyze_count > {0} FROM pg_stat_user_tables WHERE relname = 't'"
        for number in range(2):
            self.as_owner(server, "UPDATE t SET c = c; DELETE FROM t WHERE c IS NULL;")
            eventually(lambda: server.psql(runs.format(number)) == "t")
        self.assertNotRegex(server.log(), r"ERROR|failed to re-find")
        self.assertEqual(last(self.as_owner(server, ROWS)), ANSWER)
        self.assertEqual(last(self.as_owner(server, POINT)), "row 77")

    def test_analyze_of_what_indexes_compute_needs_no_key(self):
        for form in FORMS:
            with self.subTest(form):
                server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
                self.as_owner(server, COMPUTED)
                server.psql("ANALYZE computed")
                self.assertEqual(server.psql(LEARNT), "computed_c|0|-0.5||\ncomputed_d|0|-0.5||\ncomputed_l|0|-0.5||\ncomputed_y|0|-0.5||")
                self.assertEqual(server.psql("SELECT reltuples FROM pg_class WHERE relname = 'computed_part'"), "50")
                # An owner's is the same.
                before = server.psql(LEARNT)
                self.as_owner(server, "ANALYZE computed")
                self.assertEqual(server.psql(LEARNT), before)
                found = "SET enable_seqscan = off; SELECT id FROM computed WHERE lower(c) = (SELECT encdb.enc_text_encrypt('row 7'))"
                self.assertEqual(last(self.as_owner(server, found)), "7")

    def test_amcheck_of_computed_cells(self):
        """Bytes that are computed again are others, so `heapallindexed` finds none; a search for each key finds all."""
        server = self.server()
        self.as_owner(server, COMPUTED + "CREATE EXTENSION amcheck; CREATE INDEX computed_plain ON computed (c);"
                               "CREATE MATERIALIZED VIEW lowered AS SELECT id, lower(c) AS l FROM computed;"
                               "CREATE UNIQUE INDEX ON lowered (id);")
        self.as_owner(server, "SELECT bt_index_check('computed_plain', true)")
        for index in ["computed_c", "computed_d", "computed_l"]:
            self.as_owner(server, f"SELECT bt_index_check('{index}', true);", error="lacks matching index tuple")
            self.as_owner(server, f"SELECT bt_index_parent_check('{index}', false, true);")
        before = server.psql("SELECT min(xmin::text) FROM lowered")
        self.as_owner(server, "REFRESH MATERIALIZED VIEW CONCURRENTLY lowered")
        self.assertEqual(server.psql(f"SELECT count(*) FROM lowered WHERE xmin::text = '{before}'"), "0")

    def test_statistics_of_containers(self):
        """PostgreSQL's own, of the stored bytes: they hold cells, fail for ranges, and are turned off by column."""
        server = self.with_table()
        # Ranges whose lower bound is the greater one by its bytes: of any ranges it may be that ANALYZE finds none.
        self.as_owner(server, """CREATE TYPE span AS RANGE (subtype = enc_int4);
            CREATE TABLE held AS WITH made AS MATERIALIZED (SELECT id AS low, id + (SELECT encdb.enc_int4_encrypt(9)) AS high FROM t)
                SELECT ARRAY[low] AS a, span(low, high) AS s FROM made
                WHERE get_byte(encdb.enc_int4_send(low), 0) >= 128 AND get_byte(encdb.enc_int4_send(high), 0) < 128;""")
        server.psql("ANALYZE held", error="range lower bound must be less than or equal to range upper bound")
        server.psql("ANALYZE held (a)")
        kept = "SELECT histogram_bounds::text ~ 'x[0-9a-f]{20}' FROM pg_stats WHERE tablename = 'held'"
        self.assertEqual(server.psql(kept), "t")
        server.psql("DELETE FROM pg_statistic WHERE starelid = 'held'::regclass")
        server.psql("ALTER TABLE held ALTER a SET STATISTICS 0, ALTER s SET STATISTICS 0; ANALYZE held")
        self.assertEqual(server.psql("SELECT count(*) FROM pg_stats WHERE tablename = 'held'"), "0")

    def test_the_evaluator_dies_and_comes_back(self):
        evaluator = self.evaluator()
        server = self.server(form="isolated", socket=evaluator.socket)
        self.as_owner(server, TABLE)
        session = server.session()
        session.stdin.write(self.opening().replace("\\set ON_ERROR_STOP 1\n", "") + ROWS + "\\echo ready\n")
        self.assertEqual(self.until(session, "ready")[-1], ANSWER)
        evaluator.kill9()
        session.stdin.write(ROWS + "SELECT 1 + 1;\n\\echo gone\n")
        said = self.until(session, "gone")
        self.assertRegex(said[0], "ERROR:  the evaluator does not answer")
        self.assertEqual(said[-1], "2")
        self.assertRegex(server.psql("SELECT count(*) FROM t WHERE id < id", error="."), "the evaluator does not answer")
        self.assertEqual(server.psql("VACUUM ANALYZE t; SELECT count(*) FROM t"), "500")
        evaluator.start()
        session.stdin.write("SELECT count(*) FROM t WHERE id < id;\n\\echo back\n")
        self.assertRegex(self.until(session, "back")[0], "ERROR:  no session is open")
        session.stdin.write(self.opening().replace("\\set ON_ERROR_STOP 1\n", "") + ROWS + "\\echo again\n")
        self.assertEqual(self.until(session, "again")[-1], ANSWER)

    def test_a_query_that_waits_is_cancelled(self):
        evaluator = self.evaluator()
        server = self.server(form="isolated", socket=evaluator.socket)
        self.as_owner(server, TABLE)
        slow = "SET statement_timeout = '300ms'; SELECT count(*) FROM t a, t b, t c WHERE a.id + b.id < c.id"
        self.assertRegex(server.psql(self.opening() + slow, error="."), "canceling statement due to statement timeout")

    def test_sorts_by_ranks(self):
        """More cells than one request takes, distinct ones, many that are alike, NULLs; in memory, on disk, the best few."""
        server = self.server(form="isolated", socket=self.evaluator().socket)
        self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;"
                              "CREATE TABLE big AS SELECT v, encdb.enc_int4_encrypt(v) AS k FROM (SELECT CASE WHEN g % 3 = 0 THEN g % 7 "
                              "WHEN g % 100 > 0 THEN g END AS v FROM generate_series(1, 270000) g ORDER BY md5(g::text)) s;")
        sql = "SET max_parallel_workers_per_gather = 0; SET work_mem = '{}MB'; SET maintenance_work_mem = '{}MB';"
        wrong = "SELECT count(*), count(*) FILTER (WHERE v < before) FROM (SELECT v, lag(v) OVER (ORDER BY k) AS before FROM big {}) o;"
        memory = self.as_owner(server, sql.format(256, 256) + wrong.format(""))
        self.assertEqual(memory, "270000|0")
        disk = self.as_owner(server, sql.format(1, 1) + wrong.format("WHERE v < 30000"))
        self.assertEqual(disk, "109800|0")
        self.assertEqual(self.as_owner(server, "SELECT v FROM big ORDER BY k DESC NULLS LAST LIMIT 2"), "269999\n269998")
        distinct = "SELECT count(DISTINCT k), count(DISTINCT v), count(*) FROM big WHERE v BETWEEN 5 AND 2000"
        self.assertEqual(self.as_owner(server, distinct), "1318|1318|27031")
        mode = "mode() WITHIN GROUP (ORDER BY {})"
        sql = f"SELECT encdb.decrypt({mode.format('k')}) = {mode.format('v')} FROM big WHERE v BETWEEN 1000 AND 2000 OR v = 5 AND random() < 0.1"
        self.assertEqual(self.as_owner(server, sql), "t")

    def test_sorts_by_ranks_what_is_of_very_different_lengths(self):
        """Few cells, and so few pivots, of which two late ones fill a request: beside the pivots nearly all cells come into one."""
        server = self.server(form="isolated", socket=self.evaluator().socket)
        wide = "repeat(md5(g::text), CASE WHEN g IN (998, 1000) THEN 125000 ELSE 1 END)"
        self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;"
                              f"CREATE TABLE wide AS SELECT v, encdb.enc_text_encrypt(v) AS k FROM (SELECT {wide} AS v FROM generate_series(1, 1000) g) s;")
        one = "SET max_parallel_workers_per_gather = 0; SET work_mem = '256MB';"
        wrong = "SELECT count(*), count(*) FILTER (WHERE v < before) FROM (SELECT v, lag(v) OVER (ORDER BY k) AS before FROM wide) o"
        self.assertEqual(self.as_owner(server, one + wrong), "1000|0")
        # Without a session the cells are not even looked at.
        cells = "SELECT ('\\x021311' || repeat('00', 32 + CASE WHEN g IN (998, 1000) THEN 4000000 ELSE 1 END))::enc_bytea c FROM generate_series(1, 1000) g"
        server.psql(one + f"SELECT count(*) FROM (SELECT c FROM ({cells} OFFSET 0) s ORDER BY c OFFSET 0) t", error="session|key")
        self.assertEqual(server.psql("SELECT 1"), "1")

    def test_extremes_are_those_of_the_plain_column(self):
        """By workers, in groups of many and of one, and over windows."""
        for form in FORMS:
            socket = self.evaluator().socket if form == "isolated" else ""
            server = self.server(form, form=form, socket=socket)
            self.as_owner(server, WORDS)
            plan = self.as_owner(server, WORKERS + "EXPLAIN (COSTS off) SELECT max(e) FROM words")
            self.assertIn("Partial Aggregate", plan)
            # A language's, where the machine has one.
            utf8 = server.psql("SELECT max(collname) FROM pg_collation WHERE collprovider = 'c' AND collname ~ '[.]utf8$'")
            for collation in ["C", utf8]:
                for question in EXTREMES:
                    with self.subTest(form=form, collation=collation, question=question):
                        plain, opened = (question.format(*(call.format(f'{column} COLLATE "{collation}"') for call in ["min({})", "max({})"]))
                                         for column in "we")
                        opened = re.sub(r"(m..\([^)]*\)( OVER \([^)]*\))?)", r"encdb.decrypt(\1)", opened)
                        self.assertEqual(self.as_owner(server, WORKERS + opened), self.as_owner(server, WORKERS + plain))

    def test_the_builtin_providers_collations(self):
        """Since PostgreSQL 17: all order bytes; case is libc's, where libc has the like."""
        server = self.server()
        self.as_owner(server, WORDS)
        server.psql("CREATE TABLE few AS SELECT g, w, e FROM words WHERE g <= 500")
        for collation in server.psql("SELECT quote_ident(collname) FROM pg_collation WHERE collprovider = 'b'").splitlines():
            order = f"SELECT string_agg({{}}, ',' ORDER BY {{}} COLLATE {collation}, g) FROM few"
            self.assertEqual(self.as_owner(server, order.format("w", "e")), server.psql(order.format("w", "w")))
            alike = f"SELECT count(*) FROM few WHERE encdb.decrypt(lower(e COLLATE {collation})) = lower(w COLLATE {collation})"
            if collation == "pg_unicode_fast":
                self.as_owner(server, alike, error="encrypted text has no upper and lower case under the locale PG_UNICODE_FAST")
            else:
                self.assertEqual(self.as_owner(server, alike), "500")

    def test_a_referenced_key_that_is_sealed_anew_was_changed(self):
        """PostgreSQL compares its bytes; deterministic ones are the same. Rows that refer to it are compared by value."""
        server = self.server()
        self.as_owner(server, REFERENCED)
        again = "UPDATE {0} SET id = (SELECT encdb.enc_int4_encrypt(1, '{0}'));"
        left = "SELECT count(a), count(b), count(c) FROM {0}_by WHERE a = (SELECT id FROM {0});"
        self.as_owner(server, again.format("rnd"), error='violates .*foreign key constraint "rnd_by_a_fkey"')
        drop = "ALTER TABLE {0}_by DROP CONSTRAINT {0}_by_a_fkey;"
        self.assertEqual(last(self.as_owner(server, drop.format("rnd") + again.format("rnd") + left.format("rnd"))), "1|1|0")
        self.assertEqual(last(self.as_owner(server, again.format("det") + left.format("det"))), "1|1|1")

    def test_nothing_is_left_of_aggregates(self):
        """States go with their queries, also with those that fail: the limit of states is not met by many of them."""
        for form in FORMS:
            with self.subTest(form):
                socket = self.evaluator().socket if form == "isolated" else ""
                server = self.server(form, form=form, socket=socket)
                self.as_owner(server, TABLE)
                fail = "DO $$ BEGIN PERFORM sum(id / (id - id)) FROM t GROUP BY c; EXCEPTION WHEN division_by_zero THEN END $$;"
                groups = "SELECT count(s) FROM (SELECT sum(id) AS s FROM t GROUP BY c) g;"
                output = self.as_owner(server, (fail + groups) * 5)
                self.assertEqual(re.findall(r"^\d+$", output, re.M), ["500"] * 5)

    def test_no_aggregate_takes_the_state_of_another(self):
        for form in FORMS:
            with self.subTest(form):
                socket = self.evaluator().socket if form == "isolated" else ""
                server = self.server(form, form=form, socket=socket)
                self.as_owner(server, SUMS)
                self.assertIn("Finalize", self.as_owner(server, WORKERS + "EXPLAIN (COSTS off)" + NESTED))
                self.assertEqual(self.as_owner(server, WORKERS + NESTED), NESTED_ANSWER)
                # A session that is opened again has the states of its own aggregates, not those of the one before.
                again = "\\set ON_ERROR_STOP 0\n" + self.opening().replace("\\set ON_ERROR_STOP 1\n", "")
                cursors = "BEGIN;" + CURSOR.format("y") + again + CURSOR.format("z")
                self.assertEqual(self.as_owner(server, cursors + "FETCH 3 FROM z;").split()[-4:], ["300000000"] * 4)
                self.as_owner(server, cursors + "\\set ON_ERROR_STOP 1\nFETCH 1 FROM y;", error="the state of the aggregate is gone")

    def test_a_state_ends_with_its_evaluator(self):
        """A cursor's, after a savepoint took back the statement that met the new evaluator."""
        evaluator = self.evaluator()
        server = self.server(form="isolated", socket=evaluator.socket)
        self.as_owner(server, SUMS)
        again = self.opening().replace("\\set ON_ERROR_STOP 1\n", "")
        session = server.session()
        session.stdin.write(again + "BEGIN;" + CURSOR.format("y") + "SAVEPOINT s;\n\\echo ready\n")
        self.assertEqual(self.until(session, "ready")[-1], "300000")
        evaluator.kill9()
        evaluator.start()
        session.stdin.write("SELECT count(*) FROM big WHERE v < v; ROLLBACK TO s;\n\\echo gone\n")
        self.assertRegex(self.until(session, "gone")[0], "ERROR:  the evaluator does not answer")
        session.stdin.write(again + CURSOR.format("z") + "FETCH 1 FROM y;\n\\echo over\n")
        said = self.until(session, "over")
        self.assertEqual(said[-2], "300000000")
        self.assertRegex(said[-1], "ERROR:  the state of the aggregate is gone")

    def until(self, session, word):
        """The lines of a session before this word."""
        lines = []
        for line in session.stdout:
            if line.strip() == word:
                return lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(lines)


if __name__ == "__main__":
    main(__file__, TOOLS)
