#!/usr/bin/env python3
"""pgseal client protect: plain columns of a table become encrypted ones, wholly or not at all, and nothing shows their values."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS  # noqa: E402
from cut import Cut, before_commit_of, killed_at  # noqa: E402
from owners_client import IO, NOT_TRUSTED, PGSEAL, REFUSED, USAGE, WRONG_KEY  # noqa: E402
from page import Page  # noqa: E402
from pgseal_test import base_environment, main, run  # noqa: E402
from proxied import LOG_ALL, Proxied  # noqa: E402
from waiting import eventually  # noqa: E402

PAGE = "docs/confidential/client.md"
FOUND, BUSY = 1, 9
# Every type that has an encrypted one: its name, and values of it as literals.
TYPES = {
    "integer": ["-2147483648", "0", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "real": ["'NaN'", "'-Infinity'", "1.1", "'-0'"],
    "double precision": ["'Infinity'", "0.1", "1e-300"],
    "numeric": ["'NaN'", "1.50", "-0.000", "1e40", "123456789012345678901234567890.0987654321"],
    "boolean": ["true", "false"],
    "date": ["'-infinity'", "'infinity'", "'4713-01-01 BC'", "'2024-02-29'"],
    "timestamp": ["'infinity'", "'1999-12-31 23:59:59.999999'", "'0044-03-15 12:00 BC'"],
    "timestamptz": ["'-infinity'", "'2024-07-01 12:00:00.5+02'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "interval": ["'0'", "'-1 mons +2 days -03:04:05.6'", "'178956970 years 7 mons 2147483647 days'"],
    "bytea": ["''", r"'\x00ff5c0a09'"],
    "text": ["''", "'it''s'", r"E'tab\there \\ back\nline'", "'ünï \U0001f512'", "repeat('long ', 3000)"],
    "varchar": ["''", "'N'", r"'\N'", "'NULL'"],
}
CATALOGS = ("pg_class", "pg_attribute", "pg_attrdef", "pg_index", "pg_constraint", "pg_depend", "pg_type", "pg_proc")


def column(ty):
    return "c_" + ty.replace(" ", "_")


class Protect(Proxied):
    def owner(self, form="inline", allow=None, **options):
        self.evaluator_ = self.evaluator() if form == "isolated" else None
        at = self.evaluator_.socket if self.evaluator_ else ""
        self.cluster_ = cluster = self.server(form, form=form, socket=at, conf=LOG_ALL, **options)
        for command in (["init"], ["key", "new"], *([["grant", "add", "--allow", allow]] if allow else [])):
            self.client(cluster, *command)
        return cluster

    def protect(self, cluster, table, columns, *options, **how):
        return self.client(cluster, "protect", "--table", table, "--columns", columns, *options, **how)

    def dump(self, cluster, table, order="id"):
        """All rows as the client shows them, to the last digit."""
        return self.client(cluster, "sql", "-tA", f"SELECT * FROM {table} ORDER BY {order}")

    def test_every_type_comes_back_as_it_was(self):
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.owner(form)
                columns = ", ".join(f"{column(ty)} {ty}" for ty in TYPES)
                cluster.psql(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
                number = 0
                for ty, values in TYPES.items():
                    for value in [*values, "NULL"]:
                        number += 1
                        cluster.psql(f"INSERT INTO t (id, {column(ty)}) VALUES ({number}, {value})")
                before = self.dump(cluster, "t")
                said = self.protect(cluster, "t", ",".join(map(column, TYPES)), "--batch-rows", "7")
                self.assertIn(f"{number} rows", said)
                self.assertEqual(self.dump(cluster, "t"), before)
                types = cluster.psql("SELECT attname || ' ' || atttypid::regtype FROM pg_attribute WHERE attrelid = 't'::regclass "
                                     "AND attnum > 1 ORDER BY attnum").splitlines()
                self.assertEqual([line.split()[1][:4] for line in types], ["enc_"] * len(TYPES))
                os.unlink(self.directory / "owner")

    def test_limits_are_dropped_if_that_is_said(self):
        cluster = self.owner()
        for online in ([], ["--online"]):
            with self.subTest(online=online):
                cluster.psql("""CREATE TABLE t (id int, a smallint DEFAULT -7, b char(4) UNIQUE, c numeric(9,2), d varchar(5) DEFAULT 'x',
                    e timestamp(0)); INSERT INTO t VALUES (1, 32767, 'ab', 1.5, 'abcde', '2024-01-01 00:00:00.7');
                    INSERT INTO t VALUES (2, NULL, '', -0.004, '')""")
                self.assertIn("--drop-limits", self.protect(cluster, "t", "a,b,c,d,e", *online, code=FOUND))
                said = self.protect(cluster, "t", "a,b,c,d,e", "--drop-limits", *online)
                for limit in ("smallint", "character(4)", "numeric(9,2)", "character varying(5)", "timestamp(0) without time zone"):
                    self.assertIn(f"loses the limit of {limit}: check it in the application", said)
                self.client(cluster, "sql", "INSERT INTO t (id, b) VALUES ($1, $2)", "--plain", "1", "3", "longer than 4")
                self.assertEqual(self.dump(cluster, "t").splitlines(), ["1|32767|ab|1.50|abcde|2024-01-01 00:00:01", "2|||0.00||",
                                                                        "3|-7|longer than 4||x|"])
                self.assertIn("23505", self.client(cluster, "sql", "INSERT INTO t (b) VALUES ($1)", "ab", code=REFUSED))
                cluster.psql("DROP TABLE t")
                for name in "abcde":
                    self.client(cluster, "column", "forget", f"public.t.{name}")

    def test_limits_that_encrypted_types_have_stay(self):
        """Without a grant: the cells are as long as the values are. What is written later needs one."""
        for form, online in (("inline", []), ("isolated", ["--online"])):
            with self.subTest(online=online):
                cluster = self.owner(form)
                cluster.psql("""CREATE TABLE t (id int PRIMARY KEY, a varchar(5) DEFAULT 'x', b numeric(9,2) DEFAULT 1, c timestamp(6));
                    INSERT INTO t VALUES (1, 'äöüßé', 1.5, '2024-01-01 00:00:00.7'), (2, NULL, -0.004, NULL), (3, '', NULL, 'infinity')""")
                before = self.dump(cluster, "t")
                said = self.protect(cluster, "t", "a,b,c", *online)
                for limit in ("character varying(5)", "numeric(9,2)"):
                    self.assertIn(f"keeps the limit of {limit}: sessions that change it need the grant limit", said)
                types = "SELECT string_agg(format_type(atttypid, atttypmod), ' ' ORDER BY attname) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname ~ '^.$'"
                self.assertEqual(cluster.psql(types), "enc_text(5) enc_decimal(9,2) enc_timestamp")
                self.assertEqual(self.dump(cluster, "t"), before)
                insert = ("sql", "INSERT INTO t (id, a) VALUES ($1, $2)", "--plain", "1")
                self.assertIn("PE011", self.client(cluster, *insert, "4", "abcde", code=REFUSED))
                self.client(cluster, "grant", "add", "--allow", "limit")
                self.client(cluster, *insert, "4", "abcde")
                self.assertIn("22001", self.client(cluster, *insert, "5", "abcdef", code=REFUSED))
                self.assertEqual(self.rows(cluster, "SELECT a, b FROM t WHERE id = $1", "--plain", "1", "4"), ["abcde|1.00"])
                os.unlink(self.directory / "owner")

    def test_what_belongs_to_a_column_stays(self):
        """Its place, NOT NULL, keys, indexes, defaults, collation, privileges and comments."""
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.owner(form)
                cluster.psql("""
                    CREATE ROLE reader;
                    CREATE TABLE t (id int, email text COLLATE "C" NOT NULL DEFAULT 'secretDefault', age int UNIQUE DEFAULT -7, note text,
                        boss text, PRIMARY KEY (email), UNIQUE (note, age), CHECK (num_nonnulls(email, note) > 0 AND (age IS NULL OR id > 0)));
                    ALTER TABLE t ADD FOREIGN KEY (boss) REFERENCES t (email);
                    ALTER TABLE t ADD COLUMN since date DEFAULT '2020-01-02';
                    CREATE INDEX i ON t USING hash (email); CREATE INDEX j ON t (age DESC NULLS LAST, email) INCLUDE (note);
                    GRANT SELECT (email), UPDATE (age) ON t TO reader;
                    COMMENT ON COLUMN t.email IS 'address'; COMMENT ON CONSTRAINT t_check ON t IS 'of nulls'; COMMENT ON INDEX i IS 'of addresses';
                    INSERT INTO t (id, email, age) SELECT g, 'secret' || g, g FROM generate_series(1, 2000) g;
                    UPDATE t SET boss = 'secret1' WHERE id > 3; ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey;
                    ANALYZE t""")
                about = """SELECT attname, attnum, attnotnull, attacl, attcollation::regcollation, col_description(attrelid, attnum)
                    FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY 2;
                    SELECT pg_get_indexdef(indexrelid), indisunique, indisprimary, indisreplident, indisvalid, obj_description(indexrelid)
                    FROM pg_index WHERE indrelid = 't'::regclass ORDER BY 1;
                    SELECT conname, pg_get_constraintdef(oid), obj_description(oid) FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1"""
                before, rows = cluster.psql(about), self.dump(cluster, "t")
                self.protect(cluster, "t", "email,age,note,boss,since")
                self.assertEqual(cluster.psql(about), before)
                self.assertEqual(self.dump(cluster, "t"), rows)
                self.client(cluster, "sql", "INSERT INTO t (id) VALUES ($1)", "--plain", "1", "9999")
                self.assertEqual(self.rows(cluster, "SELECT email, age, since FROM t WHERE id = $1", "--plain", "1", "9999"),
                                 ["secretDefault|-7|2020-01-02"])
                self.assertEqual(self.rows(cluster, "SELECT id FROM t WHERE email = $1", "secret77"), ["77"])
                said = self.client(cluster, "sql", "INSERT INTO t (email) VALUES ($1)", "secret77", code=REFUSED)
                self.assertIn("23505", said)
                said = self.client(cluster, "sql", "INSERT INTO t (email, age, boss) VALUES ($1, $2, $3)", "x", "0", "nobody", code=REFUSED)
                self.assertIn("23503", said)
                self.assertEqual(cluster.psql("SELECT count(*) FROM pg_statistic WHERE starelid = 't'::regclass AND "
                                              "(stavalues1::text || stavalues2::text) ~ 'secret'"), "0")
                self.assertEqual(cluster.psql("SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND "
                                              "attmissingval IS NOT NULL"), "0")
                os.unlink(self.directory / "owner")

    def test_values_are_seen_nowhere_afterwards(self):
        """In the log from then on; in the files after what the report advises; the plain table shows that they would be."""
        cluster = self.owner(sealed=False)
        cluster.psql("ALTER SYSTEM SET autovacuum = off; SELECT pg_reload_conf()")  # which removes dead rows of catalogs
        cluster.psql("CREATE TABLE t (id int, c text DEFAULT 'canaryDefault')")
        values = self.directory / "values"
        values.write_text("".join(f"{n}\tcanary{n % 3}\n" for n in range(3000)))
        cluster.psql(f"\\copy t FROM '{values}'")
        cluster.psql("ANALYZE t")
        cluster.psql("CHECKPOINT")
        log = cluster.home / "log"
        before = log.stat().st_size
        self.assertIn(b"canary", self.files(cluster, "t", "pg_statistic"))
        report = json.loads(self.protect(cluster, "t", "c", "--json"))
        self.assertEqual((report["rows"], report["columns"]), (3000, [{"column": "c", "from": "text", "to": "enc_text"}]))
        self.assertEqual(len(report["remains"]), 6)
        self.assertIn(report["wal_segment"], os.listdir(cluster.data / "pg_wal"))
        self.assertNotIn("canary", log.read_text()[before:])
        self.assertIn("ALTER TABLE", log.read_text()[before:])
        cluster.psql("CHECKPOINT")
        self.assertNotIn(b"canary", self.files(cluster, "t"))
        advice, = [line for line in report["remains"] if "VACUUM FULL" in line]
        self.assertIn("VACUUM FULL pg_catalog.pg_statistic, pg_catalog.pg_attrdef, pg_catalog.pg_attribute", advice)
        cluster.psql("VACUUM FULL pg_catalog.pg_statistic, pg_catalog.pg_attrdef, pg_catalog.pg_attribute")
        cluster.psql("CHECKPOINT")
        found = [path for path in (cluster.data / "base").rglob("*") if path.is_file() and b"canary" in path.read_bytes()]
        self.assertEqual(found, [])

    def files(self, cluster, *relations):
        paths = [cluster.psql(f"SELECT pg_relation_filepath('{relation}')") for relation in relations]
        return b"".join((cluster.data / path).read_bytes() for path in paths)

    def test_names_in_quotes_and_an_empty_table(self):
        cluster = self.owner()
        cluster.psql("""CREATE SCHEMA "Shop ""1"; CREATE TABLE "Shop ""1"."My, Table" ("a""b" text, "C, d" int);
            CREATE TABLE "My, Table" ("C, d" int)""")
        self.protect(cluster, '"Shop ""1"."My, Table"', '"a""b","C, d"')
        listed = self.client(cluster, "column", "list")
        self.assertIn('"Shop ""1"."My, Table"."C, d" | enc_int4', listed)
        self.client(cluster, "sql", 'INSERT INTO "Shop ""1"."My, Table" VALUES ($1, $2)', "x", "5")
        self.assertEqual(self.rows(cluster, 'SELECT * FROM "Shop ""1"."My, Table"'), ["x|5"])
        self.assertEqual(cluster.psql("""SELECT pg_typeof("C, d") FROM (TABLE "My, Table" UNION ALL SELECT 1) t"""), "integer")

    def test_check_changes_nothing(self):
        cluster = self.owner()
        cluster.psql("CREATE TABLE t (id int PRIMARY KEY, c text UNIQUE); INSERT INTO t SELECT g, g FROM generate_series(1, 100) g")
        cluster.psql("ANALYZE t")
        # Autovacuum keeps these of pg_class, whenever it runs.
        row = "(to_jsonb(c) - ARRAY['relpages', 'reltuples', 'relallvisible', 'relallfrozen', 'relfrozenxid', 'relminmxid'])::text"
        state = "; ".join(f"SELECT md5(coalesce(string_agg({row}, ' ' ORDER BY {row}), '')) FROM {name} c" for name in CATALOGS)
        before, identity = cluster.psql(state), (self.directory / "owner").read_bytes()
        said = self.protect(cluster, "t", "c", "--check")
        for line in ("column: c: text to enc_text", "rows: about 100", "lock: ACCESS EXCLUSIVE", "indexes to build anew: t_c_key",
                     "nothing blocks it"):
            self.assertIn(line, said)
        self.assertEqual(json.loads(self.protect(cluster, "t", "c", "--check", "--json"))["rows"], 100)
        self.protect(cluster, "t", "c", "--check", "--key", "none", code=WRONG_KEY)
        other = cluster.session()
        other.stdin.write("SELECT 'connected';\n")
        self.assertEqual(other.stdout.readline(), "connected\n")
        self.assertIn("connections to the database: 1 others", self.protect(cluster, "t", "c", "--check"))
        cluster.end_sessions()
        self.assertEqual(cluster.psql(state), before)
        self.assertEqual((self.directory / "owner").read_bytes(), identity)

    def test_what_cannot_be_kept_is_refused_before_anything_is_changed(self):
        cluster = self.owner()
        cluster.psql("CREATE EXTENSION btree_gist")
        table = "CREATE TABLE t (id int PRIMARY KEY, c text, n int);"
        for sql, said in (
                ("ALTER TABLE t ADD CONSTRAINT long CHECK (c <> '')", "constraint long on table t reads column c"),
                ("ALTER TABLE t ADD CHECK (c IS NOT NULL OR n > 0 AND c > 'a')", "constraint t_check on table t reads column c"),
                ("ALTER TABLE t ADD CHECK (num_nulls(lower(c), n) > 0)", "constraint t_check on table t reads column c"),
                ("ALTER TABLE t ADD CHECK (t IS NOT NULL)", "constraint t_check on table t reads whole rows"),
                ("CREATE INDEX i ON t (lower(c))", "index i computes an expression"),
                ("CREATE INDEX i ON t (id) WHERE c <> ''", "index i has a condition"),
                ("CREATE INDEX i ON t (c text_pattern_ops)", "text_pattern_ops"),
                ("CREATE INDEX i ON t USING gist (c)", "index i is of type gist"),
                ("ALTER TABLE t ADD EXCLUDE USING gist (c WITH =)", "exclusion constraint of index t_c_excl"),
                ("ALTER TABLE t ADD UNIQUE (c); CREATE TABLE u (c text REFERENCES t (c))", "foreign key u_c_fkey of u"),
                ("CREATE TABLE u (c text UNIQUE); ALTER TABLE t ADD FOREIGN KEY (c) REFERENCES u (c)", "foreign key t_c_fkey of t"),
                ("ALTER TABLE t ADD COLUMN g text GENERATED ALWAYS AS (c || 'x') STORED", "column g of table t depends on column c"),
                ("CREATE VIEW v AS SELECT c FROM t", "view v depends on column c"),
                ("CREATE MATERIALIZED VIEW v AS SELECT c FROM t", "view v depends on column c"),
                ("CREATE FUNCTION f() RETURNS text BEGIN ATOMIC SELECT c FROM t; END", "function f() depends on column c"),
                ("CREATE POLICY p ON t USING (c = current_user)", "policy p on table t depends on column c"),
                ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; "
                 "CREATE TRIGGER g BEFORE UPDATE OF c ON t FOR EACH ROW EXECUTE FUNCTION f()", "trigger g on table t depends on column c"),
                ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.c := lower(NEW.c); RETURN NEW; END'; "
                 "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()", "trigger g calls a function that names column c"),
                ("CREATE PUBLICATION p FOR TABLE t (id, c)", "publication p depends on column c"),
                ("CREATE STATISTICS s ON c, n FROM t", "statistics object s depends on column c"),
                ("CREATE TABLE u (r t)", "column r of table u holds rows of public.t"),
                ("CREATE TABLE u () INHERITS (t)", "has a parent or children"),
                ("ALTER TABLE t ALTER c SET DEFAULT current_user", "the default of column c is CURRENT_USER"),
                ("ALTER TABLE t ALTER c TYPE timestamp(3) USING NULL", "TYPE timestamp without time zone first"),
                ("ALTER TABLE t ALTER c TYPE json USING NULL", "TYPE text first"),
                ("ALTER TABLE t RENAME c TO d", "public.t has no column c"),
                ("DROP TABLE t; CREATE TABLE t (c text) PARTITION BY HASH (c)", "partitioned"),
                ("DROP TABLE t; CREATE VIEW t AS SELECT 'x'::text AS c", "not an ordinary table"),
                ("DROP TABLE t; CREATE TABLE t (c serial)", "nextval"),
                ("DROP TABLE t; CREATE TABLE t (c int GENERATED ALWAYS AS IDENTITY)", "DROP IDENTITY"),
                ("DROP TABLE t; CREATE TABLE t (c enc_text)", "column add public.t.c")):
            with self.subTest(sql=sql):
                cluster.psql("CREATE SCHEMA old")
                cluster.psql(f"{table} {sql}")
                for option in (["--check"], []):
                    self.assertIn(said, self.protect(cluster, "t", "c", *option, code=FOUND))
                cluster.psql("SET client_min_messages = error; DROP SCHEMA old, public CASCADE; CREATE SCHEMA public; "
                             "DROP PUBLICATION IF EXISTS p; CREATE EXTENSION encdb; CREATE EXTENSION btree_gist")
        cluster.psql(table)
        self.assertIn("no table", self.protect(cluster, "nowhere.t", "c", code=USAGE))
        self.assertIn("double quotes", self.protect(cluster, "a.b.c", "c", code=USAGE))

    def test_wrong_owner_key_and_evaluator(self):
        cluster = self.owner()
        cluster.psql("CREATE TABLE t (c text); INSERT INTO t VALUES ('x'); CREATE ROLE other LOGIN; GRANT ALL ON t TO other")
        self.client(cluster, "init", str(self.directory / "stranger"))
        self.assertIn("no data key", self.protect(cluster, "t", "c", identity="stranger", code=WRONG_KEY))
        self.assertIn("does not own", self.protect(cluster, "t", "c", "-U", "other", code=FOUND))
        self.assertIn("is not signed", self.protect(cluster, "t", "c", "--accept", f"software:{'0' * 64}", trusts=False, code=NOT_TRUSTED))
        self.assertEqual(cluster.psql("SELECT c FROM t"), "x")
        self.assertNotIn("enc_text", self.client(cluster, "column", "list"))

    def test_an_open_proxy_sends_nothing_in_clear_afterwards(self):
        """A connection that knows the column as plain is in the way; --disconnect ends it, the next one seals."""
        cluster = self.owner(allow="all")
        cluster.psql("CREATE TABLE person (id int, name text)")
        self.lists_nothing(cluster)
        directory = self.proxy(cluster)
        old = self.connect(directory)
        old.autocommit = True
        cursor = old.cursor()
        cursor.execute("INSERT INTO person (id, name) VALUES (1, 'plainOne')")
        said = self.protect(cluster, "person", "name", code=BUSY)
        self.assertIn("--disconnect", said)
        self.assertNotIn("enc_text", self.client(cluster, "column", "list"))
        cursor.execute("INSERT INTO person (id, name) VALUES (2, 'plainTwo')")
        self.protect(cluster, "person", "name", "--disconnect")
        with self.assertRaises(psycopg2.Error):
            cursor.execute("INSERT INTO person (id, name) VALUES (3, 'secretThree')")
        for signalled in (False, True):
            if signalled:
                self.process.send_signal(signal.SIGHUP)
                time.sleep(0.5)
            with self.connect(directory) as new, new.cursor() as cursor:
                cursor.execute("INSERT INTO person (id, name) VALUES (4, 'secretFour')")
                cursor.execute("SELECT name FROM person WHERE name = 'plainTwo'")
                self.assertEqual(cursor.fetchall(), [("plainTwo",)])
        self.assert_never_in_clear("secret")

    def test_a_statement_that_waits_for_the_table_fails_with_its_connection(self):
        cluster = self.owner(allow="all")
        cluster.psql("CREATE TABLE person (id int, name text); INSERT INTO person SELECT g, 'x' || g FROM generate_series(1, 200000) g")
        self.lists_nothing(cluster)
        directory = self.proxy(cluster)
        running = self.start(cluster, "person", "name", "--disconnect")
        # The cursor comes after the lock. The log is read, for a connection that asks could be ended.
        eventually(lambda: "DECLARE pgseal_rows" in (cluster.home / "log").read_text(), process=running)
        waiting = self.connect(directory).cursor()
        with self.assertRaises(psycopg2.Error):
            waiting.execute("INSERT INTO person (id, name) VALUES (0, 'waited')")
        self.assertEqual(running.wait(60), 0, running.stderr.read())
        self.assertEqual(cluster.psql("SELECT count(*) FROM person"), "200000")

    def start(self, cluster, table, columns, *options):
        environment = {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner"),
                       "PGSEAL_ACCEPT": "software"}
        process = subprocess.Popen([PGSEAL, "client", "protect", "--table", table, "--columns", columns, *options], env=environment,
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_killed_at_any_point_it_is_whole_and_runs_again(self):
        """SIGKILL while the server gets a statement: the lock, cells, the rewriting, the commit, and what follows it."""
        cluster = self.owner()
        rows = 20_000
        cluster.psql(f"CREATE TABLE filled AS SELECT g AS id, 'value' || g AS c FROM generate_series(1, {rows}) g")
        for point, ended in ((b"LOCK TABLE", "text"), (b"COPY pg_temp.pgseal_cells", "text"), (b"ALTER TABLE ONLY", "text"),
                             (b"SELECT count", "text"), (b"ALTER TABLE ONLY.*COMMIT\0", "enc_text"), (b"ANALYZE", "enc_text")):
            with self.subTest(point=point):
                cluster.psql("DROP TABLE IF EXISTS t; CREATE TABLE t AS TABLE filled; CREATE UNIQUE INDEX ON t (c)")
                killed_at(self, cluster, point, lambda at: self.start(cluster, "t", "c", "--batch-rows", "500", "-h", str(at)))
                self.assertEqual(cluster.psql("SELECT count(*), count(c) FROM t"), f"{rows}|{rows}")
                self.assertEqual(cluster.psql("SELECT pg_typeof(c) FROM t LIMIT 1"), ended)
                if ended == "text":
                    self.assertEqual(cluster.psql("SELECT count(*) FROM t JOIN filled USING (id, c)"), f"{rows}")
                said = self.protect(cluster, "t", "c")
                self.assertIn(f"{rows} rows" if ended == "text" else "encrypted already", said)
                self.assertEqual(self.rows(cluster, "SELECT id FROM t WHERE c = $1", "value77"), ["77"])
                self.client(cluster, "column", "forget", "public.t.c")

    def test_a_list_that_was_kept_before_a_crash_is_taken_up(self):
        """Killed between the list and COMMIT: clients send nothing until protect has run again."""
        cluster = self.owner()
        cluster.psql("CREATE TABLE t (c text); CREATE TABLE u (c enc_text)")
        self.protect(cluster, "t", "c")
        cluster.psql("DROP TABLE t; CREATE TABLE t (c text); INSERT INTO t VALUES ('x')")
        said = self.client(cluster, "sql", "SELECT 1", code=NOT_TRUSTED)
        self.assertIn("if pgseal client protect was interrupted, run it again", said)
        self.assertIn("encrypted columns of public.t: 1 rows", self.protect(cluster, "t", "c"))
        self.assertEqual(self.rows(cluster, "SELECT c FROM t"), ["x"])
        self.assertIn("are encrypted already", self.protect(cluster, "t", "c"))

    def test_a_connection_that_is_lost_during_commit(self):
        """The command says that it cannot know, and clients send nothing until the next run has found out."""
        cluster = self.owner()
        for forwards, ended, then in ((False, "text", "1 rows"), (True, "enc_text", "are encrypted already")):
            with self.subTest(forwards=forwards):
                cluster.psql("DROP TABLE IF EXISTS t; CREATE TABLE t (c text); INSERT INTO t VALUES ('x')")
                cut = Cut.to(cluster, self.directory / ended, before_commit_of(b"ALTER TABLE ONLY"), forwards)
                self.addCleanup(cut.close)
                said = self.protect(cluster, "t", "c", "-h", str(cut.directory), code=IO)
                self.assertIn("the connection was lost during COMMIT", said)
                self.assertIn("run this again, which finds out", said)
                self.assertTrue(cut.was_cut)
                eventually(lambda: cluster.psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'") == "1")
                self.assertEqual(cluster.psql("SELECT pg_typeof(c) FROM t"), ended)
                self.assertIn("public.t.c | enc_text", self.client(cluster, "column", "list"))
                if not forwards:
                    self.assertIn("nothing was sent", self.client(cluster, "sql", "SELECT 1", code=NOT_TRUSTED))
                self.assertIn(then, self.protect(cluster, "t", "c"))
                self.assertEqual(self.rows(cluster, "SELECT c FROM t"), ["x"])
                self.client(cluster, "column", "forget", "public.t.c")

    def test_rows_that_a_policy_hides_are_not_lost(self):
        cluster = self.owner()
        cluster.psql("""CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; GRANT SELECT ON encdb.data_key TO app""")
        cluster.psql("""CREATE TABLE t (id int, c text); INSERT INTO t VALUES (1, 'x'), (2, 'y'); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
            ALTER TABLE t FORCE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id = 1)""", user="app")
        said = self.protect(cluster, "t", "c", "-U", "app", "--key", "|postgres|postgres|", code=REFUSED)
        self.assertIn("42501", said)
        self.assertEqual(cluster.psql("SELECT string_agg(c, '' ORDER BY c) FROM t"), "xy")
        cluster.psql("ALTER TABLE t NO FORCE ROW LEVEL SECURITY")
        self.protect(cluster, "t", "c", "-U", "app", "--key", "|postgres|postgres|")  # its owner is no superuser
        self.assertEqual(self.dump(cluster, "t").splitlines(), ["1|x", "2|y"])
        cluster.psql("CREATE TABLE u (c text)", user="app")
        other = cluster.session()
        other.stdin.write("SELECT 'connected';\n")
        self.assertEqual(other.stdout.readline(), "connected\n")
        said = self.protect(cluster, "u", "c", "-U", "app", "--key", "|postgres|postgres|", "--disconnect", code=REFUSED)
        self.assertIn("42501", said)
        self.assertEqual(cluster.psql("SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'u'::regclass AND attnum = 1"), "text")

    def test_an_error_of_the_server_leaves_everything_as_it_was(self):
        """A cell is longer than its value, and no longer fits into the index; large rows go in small batches."""
        cluster = self.owner()
        cluster.psql("CREATE TABLE t (c text); CREATE INDEX ON t (c); ALTER TABLE t ALTER c SET STORAGE external")
        cluster.psql("INSERT INTO t SELECT string_agg(md5(g::text), '') FROM generate_series(1, 84) g")
        self.assertIn("54000", self.protect(cluster, "t", "c", code=REFUSED))
        self.assertEqual(cluster.psql("SELECT length(c) FROM t"), "2688")
        self.assertNotIn("enc_text", self.client(cluster, "column", "list"))
        cluster.psql("DROP INDEX t_c_idx; INSERT INTO t SELECT repeat(md5(g::text), 60000) FROM generate_series(1, 20) g")
        before = self.dump(cluster, "t", order="length(c)")
        self.protect(cluster, "t", "c")
        self.assertEqual(sorted(self.rows(cluster, "SELECT c FROM t")), sorted(before.splitlines()))

    def test_a_list_that_cannot_be_written_leaves_the_table_plain(self):
        cluster = self.owner()
        cluster.psql("CREATE TABLE t (c text); INSERT INTO t VALUES ('x')")
        keys = self.directory / "keys"
        keys.mkdir()
        (self.directory / "owner").rename(keys / "owner")
        keys.chmod(0o500)
        self.assertIn("cannot be written", self.protect(cluster, "t", "c", identity="keys/owner", code=IO))
        keys.chmod(0o700)
        self.assertEqual(cluster.psql("SELECT c FROM t"), "x")
        self.protect(cluster, "t", "c", identity="keys/owner")
        self.assertEqual(self.rows(cluster, "SELECT c FROM t", identity="keys/owner"), ["x"])

    def test_icu_collations_are_refused(self):
        cluster = self.owner()
        cluster.psql('CREATE TABLE t (c text COLLATE "de-x-icu", d text); CREATE INDEX i ON t (d COLLATE "de-x-icu")')
        self.assertIn("column c has a collation of ICU", self.protect(cluster, "t", "c", code=FOUND))
        self.assertIn("index i has a collation of ICU", self.protect(cluster, "t", "d", code=FOUND))

    def test_the_commands_of_the_page(self):
        cluster = self.owner()
        cluster.psql("CREATE DATABASE shop")
        cluster.psql("CREATE EXTENSION encdb; CREATE TABLE customers (id int PRIMARY KEY, email text UNIQUE, born date); "
                     "INSERT INTO customers VALUES (1, 'ada@example.org', '1815-12-10')", db="shop")
        self.client(cluster, "key", "new", "-d", "shop")
        block, = [block for block in Page(PAGE, {}).blocks("sh") if "client protect" in block and "--online" not in block]
        environment = {**cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner"), "PGSEAL_ACCEPT": "software",
                       "PATH": f"{PGSEAL.parent}:{base_environment()['PATH']}"}
        printed = run(["bash", "-euo", "pipefail", "-c", block], environment).stdout
        self.assertIn("nothing blocks it", printed)
        self.assertIn("encrypted columns of public.customers: 1 rows", printed)
        self.assertEqual(self.rows(cluster, "-d", "shop", "SELECT * FROM customers WHERE email = $1", "ada@example.org"),
                         ["1|ada@example.org|1815-12-10"])


if __name__ == "__main__":
    main(__file__, [*TOOLS, PAGE])
