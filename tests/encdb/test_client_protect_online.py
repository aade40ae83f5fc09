#!/usr/bin/env python3
"""pgseal client protect --online: columns become encrypted while applications write the table; killed and taken back at any point."""

import json
import random
import re
import subprocess
import sys
import threading
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, VERSION, programs  # noqa: E402
from cut import OTHERS, Cut, before_commit_of, killed_at  # noqa: E402
from owners_client import IO, NOT_TRUSTED, PGSEAL, REFUSED, USAGE  # noqa: E402
from page import Page  # noqa: E402
from pgseal_test import base_environment, main, run  # noqa: E402
from proxied import LOG_ALL, Proxied  # noqa: E402
from waiting import eventually  # noqa: E402

PAGE = "docs/confidential/client.md"
FOUND, BUSY = 1, 9
# Everything that the online form does by itself, and the statement that begins it.
STEPS = {
    "columns": rb"CREATE TRIGGER",
    "rows": rb"UPDATE ONLY .*UPDATE ONLY ",
    "dirty index": rb'CREATE INDEX CONCURRENTLY "pgseal_protect_\d+_dirty',
    "index": rb"CREATE UNIQUE INDEX CONCURRENTLY",
    "lock": rb"LOCK TABLE ONLY",
    "exchange": rb"DROP COLUMN",
    "commit": rb"DROP COLUMN.*COMMIT\0",
    "required": rb"VALIDATE CONSTRAINT",
    "final index": rb"CREATE UNIQUE INDEX CONCURRENTLY pgseal_protect_f",
    "replaced": rb"BEGIN; SET LOCAL lock_timeout = '500ms'; DROP INDEX",
    "statistics": rb"ANALYZE",
}
FINAL = b"CREATE UNIQUE INDEX CONCURRENTLY pgseal_protect_f"
BEFORE = ["columns", "rows", "dirty index", "index"]


class Writer(threading.Thread):
    """An application that writes a table and, in the same transaction, another one that stays plain."""

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.random, self.done, self.failure, self.ends = random.Random(seed), 0, None, threading.Event()
        self.connection = psycopg2.connect(host=str(cluster.home), user="postgres", dbname="postgres")

    def run(self):
        try:
            while not self.ends.is_set():
                try:
                    with self.connection, self.connection.cursor() as cursor:
                        for _ in range(self.random.randint(1, 4)):
                            self.write(cursor)
                        if self.random.random() < 0.1:
                            self.connection.rollback()
                    self.done += 1
                except (psycopg2.errors.UniqueViolation, psycopg2.errors.DeadlockDetected):
                    pass  # of another row or with another application: it was rolled back
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            pass  # it was disconnected, which says nothing of a transaction that was not committed
        except psycopg2.Error as error:
            self.failure = error
        finally:
            self.connection.close()

    def write(self, cursor):
        row, value = self.random.randint(1, 3000), f"new{self.random.random()}"
        number = self.random.choice([None, self.random.randint(0, 10**6)])
        sql, values = self.random.choice([
            ("INSERT INTO {} (id, c, n) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET c = excluded.c", (row, value, number)),
            ("INSERT INTO {} (id, c, n) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (row + 3000, value, number)),
            ("UPDATE {} SET c = %s WHERE id = %s", (value, row)), ("UPDATE {} SET n = %s WHERE id = %s", (number, row)),
            ("UPDATE {} SET note = note + 1 WHERE id = %s", (row,)), ("UPDATE {} SET note = 0 WHERE id BETWEEN %s AND %s", (row, row + 20)),
            ("UPDATE {} SET id = -id, c = c || 'x' WHERE id = %s", (row,)), ("DELETE FROM {} WHERE id = %s", (row,))])
        for table in ("t", "reference"):
            cursor.execute(sql.format(table), values)


class Online(Proxied):
    maxDiff = None

    def owner(self, form="inline", **options):
        """A server and an owner with a key; the one of the subtest before is gone."""
        (self.directory / "owner").unlink(missing_ok=True)
        self.evaluator_ = self.evaluator() if form == "isolated" else None
        at = self.evaluator_.socket if self.evaluator_ else ""
        self.cluster_ = cluster = self.server(form, form=form, socket=at, conf=LOG_ALL, **options)
        for command in (["init"], ["key", "new"]):
            self.client(cluster, *command)
        return cluster

    def protect(self, cluster, table, columns, *options, **how):
        return self.client(cluster, "protect", "--online", "--table", table, "--columns", columns, *options, **how)

    def abort(self, cluster, table, columns, *options, **how):
        return self.client(cluster, "protect", "--abort", "--table", table, "--columns", columns, *options, **how)

    def start(self, cluster, table, columns, *options, host=None):
        environment = {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner"),
                       "PGSEAL_ACCEPT": "software", **({"PGHOST": str(host)} if host else {})}
        command = [PGSEAL, "client", "protect", "--online", "--table", table, "--columns", columns, *options]
        process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for clean in (process.stderr.close, process.stdout.close, process.wait, process.kill):
            self.addCleanup(clean)
        return process

    def written(self, cluster, rows=3000):
        """A table, and the same rows in one that stays plain."""
        cluster.psql(f"""CREATE TABLE t (id int PRIMARY KEY, c text UNIQUE, n int, note int DEFAULT 0);
            CREATE INDEX i ON t (note, n); CREATE INDEX j ON t (note);
            CREATE TABLE reference (LIKE t INCLUDING ALL);
            INSERT INTO t SELECT g, 'old' || g, nullif(g % 5, 0) FROM generate_series(1, {rows}) g; INSERT INTO reference TABLE t""")

    def assert_no_update_is_lost(self, cluster):
        opened = self.client(cluster, "sql", "-tA", "SELECT id, c, n, note FROM t ORDER BY id")
        self.assertEqual(opened, cluster.psql("SELECT id, c, n, note FROM reference ORDER BY id") + "\n")
        self.assertEqual(cluster.psql("SELECT DISTINCT pg_typeof(c), pg_typeof(n) FROM t"), "enc_text|enc_int4")

    def schema(self, cluster):
        """The definition of everything, without what pg_dump makes anew each time."""
        dump = run([programs() / "pg_dump", "-s"], {**base_environment(), **cluster.environment}).stdout
        return re.sub(r"(?m)^\\(un)?restrict .*$", "", dump)

    def test_no_update_of_applications_is_lost(self):
        """Three of them write all the time, until the exchange ends their connections."""
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.owner(form)
                self.written(cluster)
                writers = [Writer(cluster, seed) for seed in range(3)]
                for writer in writers:
                    self.addCleanup(writer.join)
                    self.addCleanup(writer.ends.set)
                    writer.start()
                eventually(lambda: all(writer.done > 20 for writer in writers))
                said = self.protect(cluster, "t", "c,n", "--disconnect", "--batch-rows", "200")
                self.assertRegex(said, r"lock: \d+ ms at the end")
                for writer in writers:
                    writer.join()
                    self.assertIsNone(writer.failure)
                self.assert_no_update_is_lost(cluster)

    def test_applications_go_on_when_only_the_exchange_is_left(self):
        """Rows and indexes are encrypted, and connections without keys change, add and remove rows."""
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.owner(form)
                self.written(cluster)
                application = psycopg2.connect(host=str(cluster.home), user="postgres", dbname="postgres")
                self.addCleanup(application.close)
                self.assertIn("only the exchange is left", self.protect(cluster, "t", "c,n", code=BUSY))
                self.assertIn("unfinished, 0 rows left", self.protect(cluster, "t", "c,n", "--check"))
                cursor = application.cursor()
                for table in ("t", "reference"):
                    cursor.execute(f"UPDATE {table} SET note = note + id WHERE id % 3 = 0; DELETE FROM {table} WHERE id % 7 = 0;"
                                   f"UPDATE {table} SET c = 'changed' || id WHERE id % 5 = 1; UPDATE {table} SET c = NULL, n = 5 "
                                   f"WHERE id % 11 = 2; INSERT INTO {table} VALUES (9000, 'added', 9), (9001, NULL, NULL), (9002, NULL, 1)")
                application.commit()
                left = cluster.psql("SELECT count(*) FROM t WHERE id < 9000 AND (id % 3 = 0 OR id % 5 = 1 OR id % 11 = 2) "
                                    "OR id IN (9000, 9002)")
                self.assertIn(f"unfinished, {left} rows left", self.protect(cluster, "t", "c,n", "--check"))
                self.protect(cluster, "t", "c,n", "--disconnect")
                with self.assertRaises(psycopg2.Error):
                    cursor.execute("SELECT 1")
                self.assert_no_update_is_lost(cluster)

    def test_applications_behind_a_proxy_go_on(self):
        """Until the exchange the columns are plain for them; afterwards the proxy encrypts. No value of afterwards is in the log."""
        cluster = self.owner()
        self.client(cluster, "grant", "add", "--allow", "all")
        self.written(cluster)
        self.lists_nothing(cluster)
        directory = self.proxy(cluster)
        before = self.connect(directory)
        self.assertIn("only the exchange is left", self.protect(cluster, "t", "c,n", code=BUSY))
        for connection in (before, self.connect(directory)):
            with connection, connection.cursor() as cursor:
                for table in ("t", "reference"):
                    cursor.execute(f"UPDATE {table} SET c = 'proxied' || id, note = %s WHERE id %% 3 = 0", (5,))
                    cursor.execute(f"INSERT INTO {table} (id, c, n) VALUES (%s, %s, 4)", (9000 + (connection is before), str(connection)))
                cursor.execute("SELECT c, n FROM t WHERE id = 3")
                self.assertEqual(cursor.fetchall(), [("proxied3", 3)])
        self.protect(cluster, "t", "c,n", "--disconnect")
        self.assert_no_update_is_lost(cluster)
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE t SET c = 'secretOne' WHERE id = 4")
            cursor.execute("SELECT id FROM t WHERE c = %s", ("secretOne",))
            self.assertEqual(cursor.fetchall(), [(4,)])
        self.assertNotIn("secretOne", (cluster.home / "log").read_text())

    def killed_at(self, cluster, step):
        killed_at(self, cluster, STEPS[step], lambda at: self.start(cluster, "t", "c,n", "--batch-rows", "500", host=at))

    def cut_before(self, cluster, statement, columns="c,n"):
        """Starts a run whose connection is lost before the server gets a statement that begins so."""
        cut = Cut.to(cluster, self.directory / "cut", lambda data: data[5:].startswith(statement), False)
        self.addCleanup(cut.close)
        self.assertNotEqual(self.start(cluster, "t", columns, host=cut.directory).wait(60), 0)
        self.assertTrue(cut.was_cut)
        eventually(lambda: cluster.psql(OTHERS) == "0")

    def table_to_kill(self, cluster):
        cluster.psql("""DROP TABLE IF EXISTS t, reference; CREATE TABLE t (id int PRIMARY KEY, c text NOT NULL UNIQUE, n int, note int);
            CREATE TABLE reference (LIKE t); INSERT INTO reference SELECT g, 'value' || g, g, g FROM generate_series(1, 6000) g;
            INSERT INTO t TABLE reference""")

    def test_killed_at_any_step_it_goes_on(self):
        """SIGKILL while the server gets a statement; rows are written before the next run."""
        cluster = self.owner()
        for step in STEPS:
            with self.subTest(step=step):
                self.table_to_kill(cluster)
                self.killed_at(cluster, step)
                if step in BEFORE:
                    self.assertEqual(cluster.psql("SELECT count(*) FROM t JOIN reference USING (id, c, n, note)"), "6000")
                    cluster.psql("UPDATE t SET c = 'later' || id WHERE id % 2 = 0; UPDATE reference SET c = 'later' || id WHERE id % 2 = 0")
                self.protect(cluster, "t", "c,n")
                self.assert_no_update_is_lost(cluster)
                required = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnotnull AND attnum > 0 ORDER BY 1"
                self.assertEqual(cluster.psql(required), "c\nid")
                self.assertNotIn("pgseal_protect", self.schema(cluster))
                for column in "cn":
                    self.client(cluster, "column", "forget", f"public.t.{column}")

    def test_taken_back_at_any_step_nothing_is_left(self):
        cluster = self.owner()
        for step in BEFORE:
            with self.subTest(step=step):
                self.table_to_kill(cluster)
                before = self.schema(cluster)
                self.killed_at(cluster, step)
                said = self.abort(cluster, "t", "c,n")
                if step != "columns":  # which may not have been committed
                    self.assertIn("took the online run back", said)
                self.assertIn("there is no unfinished online run", self.abort(cluster, "t", "c,n"))
                self.assertEqual(self.schema(cluster), before)
                self.assertEqual(cluster.psql("SELECT * FROM t ORDER BY id"), cluster.psql("SELECT * FROM reference ORDER BY id"))
                self.assertNotIn("enc_", self.client(cluster, "column", "list"))
                self.assertEqual(self.client(cluster, "sql", "-tA", "SELECT count(*) FROM t"), "6000\n")

    def test_a_connection_that_is_lost_during_commit(self):
        """The command says that it cannot know; the list is closed; the next run finds out, or takes it back."""
        cluster = self.owner()
        for forwards, ends in ((False, "goes on"), (True, "goes on"), (False, "is taken back")):
            with self.subTest(forwards=forwards, ends=ends):
                self.table_to_kill(cluster)
                before = self.schema(cluster)
                cut = Cut.to(cluster, self.directory / f"{forwards}{ends}", before_commit_of(b"DROP COLUMN"), forwards)
                self.addCleanup(cut.close)
                process = self.start(cluster, "t", "c,n", host=cut.directory)
                self.assertEqual(process.wait(60), IO)
                self.assertIn("the connection was lost during COMMIT", process.stderr.read())
                self.assertTrue(cut.was_cut)
                eventually(lambda: cluster.psql(OTHERS) == "0")
                self.assertEqual(cluster.psql("SELECT pg_typeof(c) FROM t LIMIT 1"), "enc_text" if forwards else "text")
                if not forwards:
                    self.assertIn("nothing was sent", self.client(cluster, "sql", "SELECT 1", code=NOT_TRUSTED))
                if ends == "goes on":
                    said = self.protect(cluster, "t", "c,n")
                    self.assertIn("encrypted already" if forwards else "6000 rows", said)
                    self.assert_no_update_is_lost(cluster)
                    for column in "cn":
                        self.client(cluster, "column", "forget", f"public.t.{column}")
                else:
                    self.abort(cluster, "t", "c,n")
                    self.assertEqual(self.schema(cluster), before)
                self.assertNotIn("enc_", self.client(cluster, "column", "list"))

    def test_what_belongs_to_a_column_stays(self):
        """Constraints with their names, indexes, defaults, collation, privileges, statistics and comments; its place is the last."""
        cluster = self.owner()
        cluster.psql("""
            CREATE ROLE reader; CREATE ROLE writer;
            CREATE TABLE country (code int PRIMARY KEY); INSERT INTO country VALUES (1);
            CREATE TABLE t (id int NOT NULL UNIQUE, email text COLLATE "C" CONSTRAINT "re""quired" NOT NULL DEFAULT 'secretDefault',
                age int UNIQUE DEFERRABLE, "No""te" text, born date NOT NULL, PRIMARY KEY (email) WITH (fillfactor = 70),
                country int DEFAULT 1 REFERENCES country CHECK (country > 0),
                CONSTRAINT two UNIQUE ("No""te", age) INCLUDE (id) DEFERRABLE INITIALLY DEFERRED,
                CONSTRAINT "a""ny" CHECK (email IS NOT NULL OR age IS NULL AND country > 0), CHECK (born IS NOT NULL) NO INHERIT,
                CHECK (num_nonnulls(email, age) + num_nulls(id, "No""te") > 0));
            CREATE TABLE referring (id int REFERENCES t (id));
            COMMENT ON CONSTRAINT "a""ny" ON t IS 'one of them';
            CREATE INDEX i ON t USING hash (email); CREATE INDEX j ON t (age DESC NULLS LAST, lower(id::text), email COLLATE "POSIX" DESC)
                INCLUDE ("No""te") WITH (deduplicate_items = off) WHERE id > 0;
            CREATE UNIQUE INDEX k ON t (born, id int4_ops); CREATE INDEX l ON t (id) INCLUDE (age);
            GRANT SELECT (email), UPDATE (age) ON t TO reader; GRANT INSERT (email) ON t TO writer WITH GRANT OPTION;
            GRANT SELECT ("No""te") ON t TO PUBLIC;
            COMMENT ON COLUMN t.email IS 'it''s an \\ address'; COMMENT ON INDEX i IS 'of addresses';
            COMMENT ON CONSTRAINT two ON t IS 'both';
            ALTER TABLE t ALTER email SET STATISTICS 33, ALTER age SET (n_distinct = -0.5), CLUSTER ON l, REPLICA IDENTITY USING INDEX k;
            INSERT INTO t SELECT g, 'secret' || g, nullif(g, 7), 'note' || g, '2024-01-01'::date + g FROM generate_series(1, 2000) g;
            INSERT INTO referring SELECT id FROM t; ANALYZE t""")
        if int(VERSION) >= 18:
            cluster.psql("""COMMENT ON CONSTRAINT "re""quired" ON t IS 'it has a name'; ALTER TABLE t ADD CHECK (age IS NULL) NOT ENFORCED""")
        about = """SELECT attname, attnotnull, attacl, attcollation::regcollation, attstattarget,
            ARRAY(SELECT o FROM unnest(attoptions) o WHERE o ~ 'distinct'), col_description(attrelid, attnum)
            FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY 1;
            SELECT pg_get_indexdef(indexrelid), indisunique, indisprimary, indisreplident, indisclustered, indimmediate, indisvalid,
            obj_description(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass ORDER BY 1;
            SELECT conname, pg_get_constraintdef(oid), obj_description(oid) FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1"""
        before = cluster.psql(about)
        rows = cluster.psql('SELECT id, country, email, age, "No""te", born FROM t ORDER BY id')
        self.protect(cluster, "t", 'email,age,"No""te",born')
        self.assertEqual(cluster.psql(about), before)
        self.assertEqual(self.client(cluster, "sql", "-tA", "SELECT * FROM t ORDER BY id"), rows + "\n")
        self.client(cluster, "sql", "INSERT INTO t (id, born) VALUES ($1, $2)", "--plain", "1", "9999", "2000-01-01")
        self.assertEqual(self.rows(cluster, "SELECT email, age FROM t WHERE id = $1", "--plain", "1", "9999"), ["secretDefault|"])
        self.assertEqual(cluster.psql("SELECT count(*) FROM pg_statistic WHERE starelid = 't'::regclass AND "
                                      "(stavalues1::text || stavalues2::text) ~ 'secret'"), "0")

    def test_columns_that_move_are_named(self):
        cluster = self.owner()
        cluster.psql("CREATE TABLE t (id int, c text, last int); INSERT INTO t VALUES (1, 'x', 2)")
        self.assertNotIn("move behind", self.protect(cluster, "t", "last", "--check"))
        self.assertIn("the columns c move behind the other columns", self.protect(cluster, "t", "c", "--check"))
        cluster.psql("CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'INSERT INTO public.t VALUES (1, ''y'', 3)'; "
                     "CREATE FUNCTION g() RETURNS void LANGUAGE sql AS 'INSERT INTO t (id, c) VALUES (1, ''y'')'")
        said = self.protect(cluster, "t", "c", code=FOUND)
        self.assertIn("function f() has a statement without a list of columns", said)
        self.assertNotIn("function g()", said)
        cluster.psql("DROP FUNCTION f()")
        self.protect(cluster, "t", "c")
        self.assertEqual(self.rows(cluster, "SELECT * FROM t"), ["1|2|x"])
        self.client(cluster, "sql", "COPY t FROM STDIN", "--plain", "1,2", stdin="2\t3\tsecretCopy\n", listed=True)  # by the list's order
        self.assertEqual(self.rows(cluster, "SELECT last FROM t WHERE c = $1", "secretCopy"), ["3"])

    def test_what_cannot_be_kept_is_refused_before_anything_is_changed(self):
        cluster = self.owner()
        cluster.psql("CREATE ROLE app LOGIN; CREATE ROLE other; GRANT SELECT ON encdb.data_key TO app; "
                     "GRANT CREATE ON SCHEMA public TO app; "
                     "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; "
                     "CREATE FUNCTION compare() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW IS DISTINCT FROM OLD THEN NULL; END IF; END'")
        trigger = "CREATE TRIGGER {} ON t FOR EACH {} EXECUTE FUNCTION f()"
        for sql, said in (
                ("ALTER TABLE t ADD UNIQUE (c), ADD FOREIGN KEY (d) REFERENCES t (c)", "foreign key t_d_fkey has one of the columns"),
                ("SET ROLE postgres; CREATE PUBLICATION p FOR TABLE t", "publication p would send the new columns"),
                (trigger.format("g BEFORE UPDATE", "ROW"), "trigger g would fire for each row"),
                (trigger.format("g AFTER UPDATE", "STATEMENT") + "; ALTER TABLE t ENABLE ALWAYS TRIGGER g",
                 "trigger g is enabled for replicas"),
                (trigger.format('"~q" BEFORE INSERT', "ROW"), 'trigger "~q" runs after'),
                ("CREATE TRIGGER g AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION f()",
                 "trigger g compares whole rows"),
                (trigger.format("g AFTER UPDATE OF d", "ROW").replace("f()", "compare()"), "trigger g compares whole rows"),
                ("CREATE RULE r AS ON UPDATE TO t DO ALSO SELECT 1", "rule r of the table"),
                ("CREATE UNIQUE INDEX i ON t (c) NULLS NOT DISTINCT", "index i has NULLS NOT DISTINCT"),
                ("CREATE UNIQUE INDEX i ON t (id) INCLUDE (c); CREATE TABLE u (id int REFERENCES t (id))",
                 "foreign key u_id_fkey needs index i"),
                ("GRANT SELECT (c) ON t TO other WITH GRANT OPTION; SET ROLE postgres; SET ROLE other; GRANT SELECT (c) ON t TO PUBLIC; "
                 "SET ROLE postgres", "privileges on column c were granted by another role"),
                ("ALTER TABLE t ADD pgseal_protect_c2 int", "a name that this command needs"),
                ("SET ROLE postgres; REVOKE CREATE ON SCHEMA public FROM app", "may create nothing in schema public"),
                ("CREATE INDEX i ON t (lower(c))", "index i computes an expression"),
                ("CREATE VIEW v AS SELECT c FROM t", "view v depends"),
                ("ALTER TABLE t ADD CHECK (c <> '')", "constraint t_c_check on table t reads column c"),
                ("ALTER TABLE t ADD CHECK (c IS NOT NULL) NOT VALID", "constraint t_c_check is NOT VALID"),
                ("ALTER TABLE t ADD CONSTRAINT k CHECK (id > 1) NOT VALID", "constraint k is NOT VALID")):
            with self.subTest(sql=sql):
                cluster.psql(f"SET ROLE app; CREATE TABLE t (id int, c text, d text); INSERT INTO t VALUES (1, 'x', NULL); {sql}")
                before = self.schema(cluster)
                for option in (["--check"], []):
                    found = self.protect(cluster, "t", "c,d" if "FOREIGN" in sql else "c", "-U", "app", "--key", "|postgres|postgres|",
                                         *option, code=FOUND)
                    self.assertIn(said, found)
                self.assertEqual(self.schema(cluster), before)
                cluster.psql("DROP PUBLICATION IF EXISTS p; DROP TABLE t CASCADE; DROP TABLE IF EXISTS u; "
                             "GRANT CREATE ON SCHEMA public TO app")
        self.assertIn("no table", self.protect(cluster, "t", "c", code=USAGE))

    def test_the_owner_of_the_table_is_no_superuser(self):
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.owner(form)
                cluster.psql("CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; GRANT SELECT ON encdb.data_key TO app")
                cluster.psql("CREATE TABLE t (id int, c text UNIQUE NOT NULL, n int, note int); INSERT INTO t VALUES (1, 'x', 2, 3); "
                             "CREATE TABLE reference AS TABLE t", user="app")
                as_app = ["-U", "app", "--key", "|postgres|postgres|"]
                self.protect(cluster, "t", "c,n", *as_app)
                self.assert_no_update_is_lost(cluster)
                cluster.psql("CREATE TABLE u (id int, c text); ALTER TABLE u ENABLE ROW LEVEL SECURITY; "
                             "ALTER TABLE u FORCE ROW LEVEL SECURITY", user="app")
                self.assertIn("42501", self.protect(cluster, "u", "c", *as_app, code=10))
                self.abort(cluster, "u", "c", "-U", "app")

    def test_triggers_of_users_do_not_fire(self):
        cluster = self.owner()
        cluster.psql("""CREATE TABLE t (id int, c text, stamp int); CREATE TABLE audit (what text);
            CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.stamp := NEW.stamp + 1; RETURN NEW; END';
            CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO audit VALUES (TG_OP); RETURN NULL; END';
            CREATE TRIGGER a BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();
            CREATE TRIGGER b AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION g();
            CREATE TRIGGER d AFTER UPDATE OF stamp ON t FOR EACH ROW EXECUTE FUNCTION g(); INSERT INTO t VALUES (1, 'x', 0), (2, 'y', 0)""")
        self.protect(cluster, "t", "c")
        self.assertEqual(cluster.psql("SELECT sum(stamp), (SELECT count(*) FROM audit) FROM t"), "0|0")
        cluster.psql("UPDATE t SET stamp = 5 WHERE id = 1")
        self.assertEqual(cluster.psql("SELECT sum(stamp), (SELECT count(*) FROM audit) FROM t"), "6|2")

    def test_values_are_seen_nowhere_afterwards(self):
        """In the log; in the files after what the report advises; before that the dropped columns show them."""
        cluster = self.owner(sealed=False)
        cluster.psql("ALTER SYSTEM SET autovacuum = off; SELECT pg_reload_conf()")  # which removes dead rows of catalogs
        cluster.psql("CREATE TABLE t (id int, c text DEFAULT 'canaryDefault')")
        values = self.directory / "values"
        values.write_text("".join(f"{n}\tcanary{n}\n" for n in range(3000)))
        cluster.psql(f"\\copy t FROM '{values}'")
        cluster.psql("CREATE INDEX i ON t (c)")
        cluster.psql("ANALYZE t")
        log = cluster.home / "log"
        before = log.stat().st_size
        report = json.loads(self.protect(cluster, "t", "c", "--json"))
        self.assertEqual((report["rows"], report["columns"]), (3000, [{"column": "c", "from": "text", "to": "enc_text"}]))
        self.assertLess(report["lock_seconds"], 5)
        cluster.psql("CHECKPOINT")
        self.assertEqual(self.canaries(cluster), {"t", "pg_statistic"} | ({"pg_attrdef"} & self.canaries(cluster)))
        rewrite = re.search("'(VACUUM FULL [^']*)'", report["remains"][0])[1]
        self.client(cluster, "sql", rewrite)
        self.assertNotIn("canary", log.read_text()[before:])
        catalogs, = [line for line in report["remains"] if line.startswith("catalogs")]
        cluster.psql(re.search(r"VACUUM FULL pg_catalog\.\w+(, pg_catalog\.\w+)*", catalogs)[0])
        cluster.psql("CHECKPOINT")
        self.assertEqual(self.canaries(cluster), set())
        self.assertEqual(self.rows(cluster, "SELECT id FROM t WHERE c = $1", "canary77"), ["77"])

    def canaries(self, cluster):
        """The relations whose files have values."""
        names = dict(line.split("|") for line in cluster.psql("SELECT pg_relation_filenode(oid), relname FROM pg_class "
                                                              "WHERE pg_relation_filenode(oid) IS NOT NULL").splitlines())
        files = [path for path in (cluster.data / "base").rglob("*") if path.is_file() and b"canary" in path.read_bytes()]
        return {names.get(path.name, path.name) for path in files}

    def test_check_and_other_runs(self):
        """What is unfinished is said, continued with its own columns and key only, and by one at a time."""
        cluster = self.owner()
        self.table_to_kill(cluster)
        self.assertIn("online run: not begun", self.protect(cluster, "t", "c,n", "--check"))
        self.killed_at(cluster, "rows")
        self.assertRegex(self.protect(cluster, "t", "c,n", "--check"), r"unfinished, [1-9]\d* rows left: run it again to go on, or --abort")
        self.assertTrue(json.loads(self.protect(cluster, "t", "c,n", "--check", "--json"))["online"]["is_begun"])
        self.assertIn("an online run of other columns (numbers 2, 3)", self.protect(cluster, "t", "c", code=FOUND))
        self.assertIn("an online run of other columns (numbers 2, 3)", self.abort(cluster, "t", "c", code=FOUND))
        self.client(cluster, "key", "new", "second")
        self.assertIn("or another key", self.protect(cluster, "t", "c,n", "--key", "second", code=FOUND))
        said = self.client(cluster, "protect", "--table", "t", "--columns", "c,n", code=FOUND)
        self.assertIn("finish it with --online, or take it back with --abort", said)
        oid = cluster.psql("SELECT 't'::regclass::oid")
        other = cluster.session()
        other.stdin.write(f"SELECT pg_advisory_lock(1885827941, {oid}); SELECT 'locked';\n")
        self.assertEqual([other.stdout.readline() for _ in range(2)][1], "locked\n")
        self.assertIn("another online run works on the table", self.protect(cluster, "t", "c,n", code=BUSY))
        self.assertIn("another online run works on the table", self.abort(cluster, "t", "c,n", code=BUSY))
        cluster.end_sessions()
        self.protect(cluster, "t", "c,n")
        self.assert_no_update_is_lost(cluster)

    def test_a_run_of_other_columns_finishes_what_was_exchanged(self):
        cluster = self.owner()
        self.table_to_kill(cluster)
        about = "SELECT pg_get_constraintdef(oid), conindid::regclass FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1"
        before = cluster.psql(about)
        self.cut_before(cluster, FINAL, columns="c")
        self.assertIn("the columns are exchanged; indexes or NOT NULL are left", self.protect(cluster, "t", "c", "--check"))
        self.protect(cluster, "t", "n")
        self.assertNotIn("pgseal_protect", self.schema(cluster))
        self.assertEqual(cluster.psql(about), before)
        self.assert_no_update_is_lost(cluster)

    def test_constraints_hold_from_the_exchange_on(self):
        """They are not proved yet, and have other names. Applications without keys write NULLs."""
        cluster = self.owner()
        self.table_to_kill(cluster)
        cluster.psql("ALTER TABLE t ADD CONSTRAINT one CHECK (n IS NOT NULL OR note > 0)")
        about = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1"
        before = cluster.psql(about)
        self.cut_before(cluster, b"ALTER TABLE ONLY public.t VALIDATE")
        cluster.psql("UPDATE t SET c = NULL WHERE id = 7", error='"pgseal_protect_n2"')
        cluster.psql("UPDATE t SET n = NULL, note = 0 WHERE id = 7", error='"pgseal_protect_k[0-9]+"')
        self.protect(cluster, "t", "c,n")
        self.assertEqual(cluster.psql(about), before)
        cluster.psql("UPDATE t SET c = NULL WHERE id = 7", error="null value in column")
        cluster.psql("UPDATE t SET n = NULL, note = 0 WHERE id = 7", error='"one"')
        self.assert_no_update_is_lost(cluster)

    def test_conflicts_are_found_before_the_final_index_is_built(self):
        """By applications behind a proxy, which lets them use the first index; other programs say the condition themselves."""
        cluster = self.owner()
        self.table_to_kill(cluster)
        self.cut_before(cluster, FINAL)
        cluster.psql("INSERT INTO t (id, c) VALUES (9000, NULL) ON CONFLICT (c) DO NOTHING", error="there is no unique or exclusion constraint")
        insert = "INSERT INTO t (id, c) VALUES (%s, %s) ON CONFLICT (c) DO UPDATE SET note = t.note + 1 RETURNING id"
        for _ in range(2):
            directory = self.proxy(cluster)
            with self.connect(directory) as connection, connection.cursor() as cursor:
                cursor.execute(insert, (9000, "value7"))
                self.assertEqual(cursor.fetchall(), [(7,)])
            connection.close()
            inserted = self.client(cluster, "sql", "-tA", "INSERT INTO t (id, c) VALUES ($1, $2) ON CONFLICT (c) WHERE c IS NOT NULL "
                                   "DO UPDATE SET note = 100 RETURNING id", "--literals", "--plain", "1", "9000", "value8")
            self.assertEqual(inserted.split(), ["8"])
            self.protect(cluster, "t", "c,n")
        self.assertEqual(cluster.psql("SELECT id, note FROM t WHERE id IN (7, 8) ORDER BY id"), "7|9\n8|100")

    def test_what_others_write_into_a_comment_is_not_run(self):
        """The table's owner can change it, and the next run may be a superuser's. What the identity wrote is taken up again."""
        cluster = self.owner()
        self.table_to_kill(cluster)
        self.cut_before(cluster, FINAL)
        index, comment = cluster.psql("SELECT relname, obj_description(oid) FROM pg_class WHERE relname ~ '^pgseal_protect_i'").split("|", 1)
        signature = comment.strip("{}").split(",")[0]
        for other in ("{CREATE TABLE planted ()}", f"{{{signature},CREATE TABLE planted ()}}", "{}"):
            cluster.psql(f"COMMENT ON INDEX {index} IS '{other}'")
            said = self.protect(cluster, "t", "c,n", code=REFUSED)
            self.assertIn(f"the comment of index {index}", said)
            self.assertEqual(cluster.psql("SELECT to_regclass('planted') IS NULL"), "t")
        cluster.psql(f"COMMENT ON INDEX {index} IS $c${comment}$c$")
        self.protect(cluster, "t", "c,n")
        self.assert_no_update_is_lost(cluster)
        self.assertNotIn("pgseal_protect", self.schema(cluster))

    def test_a_trigger_that_was_disabled_is_noticed(self):
        cluster = self.owner()
        self.table_to_kill(cluster)
        cluster.psql("ALTER TABLE t DROP CONSTRAINT t_c_key")  # in an index of cells, the update below would have to compare
        application = psycopg2.connect(host=str(cluster.home), user="postgres", dbname="postgres")
        self.addCleanup(application.close)
        self.assertIn("only the exchange is left", self.protect(cluster, "t", "c,n", code=BUSY))
        application.close()
        cluster.psql("ALTER TABLE t DISABLE TRIGGER ALL; UPDATE t SET c = 'unseen' || id; ALTER TABLE t ENABLE TRIGGER ALL")
        self.assertIn("was disabled for a time", self.protect(cluster, "t", "c,n", code=FOUND))
        self.abort(cluster, "t", "c,n")
        self.protect(cluster, "t", "c,n")
        self.assertEqual(self.rows(cluster, "SELECT c FROM t WHERE id = $1", "--plain", "1", "7"), ["unseen7"])

    def test_a_transaction_that_holds_the_table(self):
        """Nobody waits behind the lock for longer than half a second; --disconnect ends who holds it."""
        cluster = self.owner()
        self.table_to_kill(cluster)
        log, before = cluster.home / "log", (cluster.home / "log").stat().st_size
        holder = psycopg2.connect(host=str(cluster.home), user="postgres", dbname="postgres")
        self.addCleanup(holder.close)
        self.assertIn("only the exchange is left", self.protect(cluster, "t", "c,n", code=BUSY))
        with holder.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM t")
        self.protect(cluster, "t", "c,n", "--disconnect")
        self.assertIn("canceling statement due to lock timeout", log.read_text()[before:])
        self.assert_no_update_is_lost(cluster)

    def test_the_commands_of_the_page(self):
        cluster = self.owner()
        cluster.psql("CREATE DATABASE shop")
        cluster.psql("CREATE EXTENSION encdb; CREATE TABLE orders (id int PRIMARY KEY, card text, note text UNIQUE); "
                     "INSERT INTO orders VALUES (1, '4111', 'ring twice')", db="shop")
        self.client(cluster, "key", "new", "-d", "shop")
        block, = [block for block in Page(PAGE, {}).blocks("sh") if "--online" in block]
        environment = {**cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner"), "PGSEAL_ACCEPT": "software",
                       "PATH": f"{PGSEAL.parent}:{base_environment()['PATH']}"}
        printed = run(["bash", "-euo", "pipefail", "-c", block], environment).stdout
        self.assertIn("online run: not begun", printed)
        self.assertIn("encrypted columns of public.orders: 1 rows", printed)
        self.assertEqual(self.rows(cluster, "-d", "shop", "SELECT id, card FROM orders WHERE note = $1", "ring twice"), ["1|4111"])


if __name__ == "__main__":
    main(__file__, [*TOOLS, PAGE])
