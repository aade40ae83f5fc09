#!/usr/bin/env python3
"""pgseal proxy: drivers as they are, before a server that sees cells. psql and psycopg2 write literals, pgbench sends parameters."""

import datetime
import decimal
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, VERSION, programs  # noqa: E402
from owners_client import IO, USAGE  # noqa: E402
from pgseal_test import STAGE, base_environment, main  # noqa: E402
from proxied import LOG_ALL, PGSEAL, PORT, TABLE, Proxied  # noqa: E402
from waiting import eventually  # noqa: E402

PAGE = "docs/confidential/proxy.md"


class Drivers(Proxied):
    def test_psycopg2_writes_literals_inline(self):
        self.literals(self.shop("inline"))

    def test_psycopg2_writes_literals_isolated(self):
        self.literals(self.shop("isolated"))

    def literals(self, directory):
        row = (1, "secretAda", 36, datetime.date(1815, 12, 10), decimal.Decimal("10.50"),
               datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), ["secretTag", None, 'a "b"'], "plain")
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO person (id, name, age, born, paid, seen, tags, note) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", row)
            cursor.execute("SELECT * FROM person WHERE name = %s AND note = %s", ("secretAda", "plain"))
            self.assertEqual(cursor.fetchall(), [row])
            self.assertEqual([column.type_code for column in cursor.description], [23, 25, 23, 1082, 1700, 1184, 1009, 25])
            cursor.execute("UPDATE person SET age = age + 1, name = CASE WHEN id = 1 THEN %s ELSE %s END WHERE name LIKE 'secretA%%' "
                           "RETURNING age", ("secretGrace", "x"))
            self.assertEqual(cursor.fetchall(), [(37,)])
            cursor.executemany("INSERT INTO person (id, name, age) VALUES (%s, %s, %s)", [(2, None, 5), (3, "secret'Quote", 2147483647)])
            cursor.execute("SELECT name FROM person WHERE age IN (37, 2147483647) AND born BETWEEN '1800-01-01' AND %s OR id = 3 "
                           "ORDER BY age", (datetime.date(1900, 1, 1),))
            self.assertEqual(cursor.fetchall(), [("secretGrace",), ("secret'Quote",)])
            cursor.execute("SELECT sum(age), max(name), count(*) FROM person WHERE age < 100")
            self.assertEqual(cursor.fetchall(), [(42, "secretGrace", 2)])
        self.assert_never_in_clear("secret", "1815-12-10", "10.50")

    def test_psql_scripts(self):
        directory = self.shop()
        self.assertEqual(self.psql(directory, """
            INSERT INTO person (id, name, age) VALUES (1, 'secretOne', 1), (2, 'secretTwo', 2), (3, NULL, 3);
            PREPARE q (text) AS SELECT id FROM person WHERE name = $1;
            EXECUTE q('secretTwo');
            BEGIN;
            DECLARE c CURSOR FOR SELECT name FROM person WHERE age > 1 ORDER BY age;
            FETCH 1 FROM c;
            COMMIT;
            WITH old AS (DELETE FROM person WHERE name = 'secretTwo' RETURNING name, age) SELECT name, age + 40 FROM old;
            SELECT name FROM person UNION ALL SELECT 'secretThree' ORDER BY 1 LIMIT 2;
            CREATE TABLE other (c enc_text DEFAULT 'secretDefault', n int);
            INSERT INTO other (n) VALUES (7) RETURNING c, n;
        """), ["2", "secretTwo", "secretTwo|42", "secretOne", "secretThree", "secretDefault|7"])
        self.assertEqual(self.psql(directory, "SELECT 1 \\; SELECT name FROM person WHERE id = 1 \\; SELECT 'x'"), ["1", "secretOne", "x"])
        self.assertEqual(self.psql(directory, "COPY (SELECT note FROM person WHERE name = 'secretOne') TO STDOUT"), ["\\N"])
        self.assert_never_in_clear("secret")

    def test_pgbench_sends_parameters(self):
        """libpq's extended protocol, prepared and not, in pipelines too."""
        directory = self.shop()
        self.psql(directory, "INSERT INTO person (id, name, age) SELECT 1, 'secretName', 1")
        statements = "SELECT id FROM person WHERE age = :age;\nSELECT name FROM person WHERE age < :age;\n"
        script = self.directory / "script"
        for mode in ("simple", "extended", "prepared"):
            block = statements if mode == "simple" else f"\\startpipeline\n{statements}\\endpipeline\n"
            script.write_text(f"\\set age 1717171717\nUPDATE person SET age = :age WHERE id = 1;\n{block}")
            done = subprocess.run([programs() / "pgbench", "-n", "-M", mode, "-t", "10", "-c", "2", "-f", script, "-h", directory, "-p",
                                   str(PORT), "-U", "postgres", "postgres"], env=base_environment(), text=True, capture_output=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("actually processed: 20/20", done.stdout)
        self.assertEqual(self.psql(directory, "SELECT age FROM person"), ["1717171717"])
        self.assert_never_in_clear("secret", "1717171717")


class Refused(Proxied):
    def test_what_cannot_be_decided_is_not_sent(self):
        directory = self.shop()
        for sql, sqlstate in (("SELECT 1 FROM person WHERE name = format('xyzzy%s', 'A')", "0A000"),
                              ("SELECT format('%s xyzzyB', name) FROM person", "0A000"),
                              ("INSERT INTO person SELECT *, 'xyzzyC' FROM pg_am", "0A000"),
                              ("DO $$ BEGIN INSERT INTO person (id, name) VALUES (1, 'xyzzyD'); END $$", "0A000"),
                              ("COPY person (id, name) FROM '/dev/null'", "0A000"),
                              ("SELECT 1 FROM person WHERE age = 'xyzzyE'", "22P02"),
                              ("SELECT 1 FROM person WHERE age = 3123456789", "22003")):
            with self.connect(directory) as connection, connection.cursor() as cursor:
                with self.subTest(sql=sql):
                    with self.assertRaises(psycopg2.Error) as refused:
                        cursor.execute(sql)
                    self.assertEqual(refused.exception.pgcode, sqlstate)
                    self.assertNotIn("xyzzy", str(refused.exception))
                    with self.assertRaises(psycopg2.errors.InFailedSqlTransaction):  # as after any error
                        cursor.execute("SELECT 1")
                    connection.rollback()
                    cursor.execute("SELECT 1")  # the connection is as good as before
                    self.assertEqual(cursor.fetchall(), [(1,)])
        self.assert_never_in_clear("xyzzy", "3123456789")

    def test_what_the_catalog_hides_is_found(self):
        """Functions that give rows in arrays and by OUT arguments, and a table that inherits from a plain one."""
        directory = self.shop()
        self.cluster_.psql("""
            CREATE FUNCTION people() RETURNS person[] LANGUAGE sql AS 'SELECT array_agg(p) FROM person p';
            CREATE FUNCTION first_one(OUT p person) LANGUAGE sql AS 'SELECT p FROM person p LIMIT 1';
            CREATE TABLE plain (id int); CREATE TABLE heir () INHERITS (plain)""")
        for sql in ("SELECT 1 FROM unnest(people()) g WHERE g.name = 'xyzzy'",
                    "SELECT 1 FROM first_one() g WHERE (g).name = 'xyzzy'"):
            with self.connect(directory) as connection, connection.cursor() as cursor, self.subTest(sql=sql):
                with self.assertRaises(psycopg2.errors.FeatureNotSupported):
                    cursor.execute(sql)
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER TABLE plain ADD secret enc_text")
            cursor.execute("INSERT INTO heir (id, secret) VALUES (1, 'xyzzy')")
            cursor.execute("SELECT id FROM heir WHERE 'xyzzy' IS NULL OR secret = 'xyzzy'")
            self.assertEqual(cursor.fetchall(), [(1,)])
        self.assert_never_in_clear("xyzzy")

    def test_what_the_server_hides_is_in_the_owners_list(self):
        """A domain, a composite, a column of it and functions, which a server shows as plain ones later."""
        directory = self.shop()
        plain = """CREATE DOMAIN mail AS text; CREATE TYPE place AS (street text); CREATE TABLE house (id int, at place);
            CREATE FUNCTION keep(int, t text) RETURNS void LANGUAGE sql AS 'INSERT INTO house (id) VALUES ($1)';
            CREATE FUNCTION take(t text) RETURNS int LANGUAGE sql AS 'SELECT 1'"""
        drop = "DROP FUNCTION keep, take; DROP TABLE house; DROP TYPE place; DROP DOMAIN mail"
        self.cluster_.psql(re.sub("((street|t|AS)) text", r"\1 enc_text", plain))
        self.client(self.cluster_, "column", "add", "--all")
        self.cluster_.psql(f"{drop}; {plain}")
        hidden = self.proxy(self.cluster_)
        for sql in ("SELECT keep(1, 'xyzzy')", "SELECT take('xyzzy')", "SELECT 'xyzzy'::mail", "INSERT INTO house VALUES (1, ROW('xyzzy'))",
                    "UPDATE house SET at.street = 'xyzzy'", "INSERT INTO house (id, at) VALUES (1, '(xyzzy)')"):
            with self.connect(hidden) as connection, connection.cursor() as cursor, self.subTest(sql=sql):
                with self.assertRaises(psycopg2.Error):
                    cursor.execute(sql)
        self.assert_never_in_clear("xyzzy")
        self.assertNotEqual(directory, hidden)

    def test_a_secret_is_not_given_twice_inline(self):
        self.twice(self.shop("inline"))

    def test_a_secret_is_not_given_twice_isolated(self):
        self.twice(self.shop("isolated"))

    def twice(self, directory):
        """What meets no column is no value that is sealed, in whatever form it comes. A comparison of literals is answered before."""
        self.psql(directory, "INSERT INTO person (id, name, age) VALUES (1, 'xyzzy', 1), (2, 'other', 1717171717)")
        for sql in ("SELECT id, 'Results for XYZZY' AS title FROM person WHERE name = 'xyzzy'",
                    "SELECT id, '{1717171717}' AS term FROM person WHERE age = 1717171717",
                    "SELECT id, '1717171717.0' AS term FROM person WHERE age = 1717171717",
                    "SET app.term = 'xyzzy'; SELECT id FROM person WHERE name = 'xyzzy'",
                    "SELECT id FROM person WHERE 'xyzzy' > '' OR name = 'xyzzy'"):
            with self.connect(directory) as connection, connection.cursor() as cursor, self.subTest(sql=sql):
                with self.assertRaises(psycopg2.errors.FeatureNotSupported) as refused:
                    cursor.execute(sql)
                self.assertIn("meets no column", str(refused.exception))
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("PREPARE q (text) AS SELECT 'xyzzy' AS term, id FROM person WHERE name = $1")
            cursor.execute("EXECUTE q('other')")
            self.assertEqual(cursor.fetchall(), [("xyzzy", 2)])  # the literal of a program that looks for something else
            connection.commit()
            with self.assertRaises(psycopg2.errors.FeatureNotSupported):
                cursor.execute("EXECUTE q('xyzzy')")
            connection.rollback()
            for value, found in (("other", [(2,)]), ("", [(1,), (2,)])):
                cursor.execute("SELECT id FROM person WHERE (%s = '' OR name = %s) ORDER BY id", (value, value))
                self.assertEqual(cursor.fetchall(), found)
            cursor.execute("PREPARE s (text) AS SELECT id FROM person WHERE $1 = '' OR name = $1 ORDER BY id")
            for value, found in (("other", [(2,)]), ("", [(1,), (2,)]), ("none", [])):
                cursor.execute("EXECUTE s(%s)", (value,))
                self.assertEqual(cursor.fetchall(), found)
            cursor.execute("SELECT 1 AS a FROM person WHERE age = 1 AND EXISTS (SELECT 1) LIMIT 1")
            self.assertEqual(cursor.fetchall(), [(1,)])
        self.assert_never_in_clear("XYZZY", "1717171717", "other")

    def test_an_extension_of_single_user_mode_is_found(self):
        """Its types have OIDs of initdb's range, if it is made before the first server has given one."""
        cluster = self.cluster_ = self.server("single", extension=False, conf=LOG_ALL)
        cluster.stop()
        cluster.run("postgres", "--single", "-j", "-D", cluster.data, "postgres", input=f"CREATE EXTENSION encdb;\n\n{TABLE};\n\n")
        cluster.start()
        self.assertEqual(cluster.psql("SELECT max(oid::int8) < 16384 FROM pg_type WHERE typname LIKE 'enc_%'"), "t")
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"]):
            self.client(cluster, *command)
        directory = self.proxy(cluster, "--trust-server-types")  # there is no list: the catalog alone says it
        self.psql(directory, "INSERT INTO person (id, name) VALUES (1, 'secretAda')")
        self.assertEqual(self.psql(directory, "SELECT id, name FROM person WHERE name = 'secretAda'"), ["1|secretAda"])
        self.assert_never_in_clear("secret")

    def test_an_evaluator_that_is_not_accepted_gets_nothing(self):
        self.shop()
        directory = self.proxy(self.cluster_, accept=f"software:{'0' * 64}")
        with self.assertRaises(psycopg2.OperationalError) as refused:
            self.connect(directory)
        self.assertIn("evaluator", str(refused.exception))

    def test_a_column_that_became_plain_is_not_written(self):
        directory = self.shop()
        self.cluster_.psql("ALTER TABLE person ALTER name TYPE text USING NULL")
        with self.assertRaises(psycopg2.OperationalError) as refused:
            self.connect(directory)
        self.assertIn("public.person.name", str(refused.exception))

    def test_a_database_without_a_list_gets_nothing(self):
        """A server that says that no column is encrypted, to an owner who has not said which are."""
        cluster = self.cluster_ = self.server("lies", conf=LOG_ALL)
        self.client(cluster, "init")
        cluster.psql("CREATE TABLE person (id int, name text)")
        directory = self.proxy(cluster)
        said = self.psql(directory, "INSERT INTO person (id, name) VALUES (1, 'secretAda')", code=2)
        self.assertIn("has no list of the encrypted columns of the database: make it with pgseal client column add --all", said)
        self.assertIn("--trust-server-types", said)
        self.assert_never_in_clear("secret")
        trusting = self.proxy(cluster, "--trust-server-types")  # the server decides then, and this one says that nothing is encrypted
        self.assertEqual(self.psql(trusting, "INSERT INTO person (id, name) VALUES (1, 'open') RETURNING name"), ["open"])
        self.lists_nothing(cluster)
        self.assertEqual(self.psql(self.proxy(cluster), "SELECT name FROM person"), ["open"])

    def test_a_list_holds_where_the_server_is_trusted_too(self):
        self.shop()
        self.cluster_.psql("ALTER TABLE person ALTER name TYPE text USING NULL")
        directory = self.proxy(self.cluster_, "--trust-server-types")
        self.assertIn("public.person.name", self.psql(directory, "INSERT INTO person (id, name) VALUES (1, 'secretAda')", code=2))
        self.assert_never_in_clear("secret")

    def test_options(self):
        cluster = self.server("plain", extension=False)
        self.client(cluster, "init")
        environment = {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner")}
        for arguments, code in ((["--server", "host=/tmp"], USAGE), (["--listen", "/tmp/x", "--server", "host=/tmp"], USAGE),
                                (["--listen", "/nonexistent/x", "--server", "host=/tmp", "--accept", "software"], IO),
                                (["--help"], 0), (["--version"], 0)):
            done = subprocess.run([PGSEAL, "proxy", *arguments], env=environment, text=True, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, code, f"{arguments} {done.stderr}")


def built():
    """PostgreSQL's sources, built, as tests/suites/fetch-build.sh leaves them."""
    cache = os.environ.get("PGSEAL_CACHE", "/var/cache/pgseal")
    return Path(cache) / "pg" / VERSION


@unittest.skipUnless(os.environ.get("PGSEAL_TEST_LONG") == "1", "takes a minute: make test-world")
class PostgreSQLsOwn(Proxied):
    def test_the_regression_suite_sees_no_difference(self):
        """Through a proxy that has nothing to encrypt."""
        source, bindir = built() / "src/src/test/regress", built() / "inst/bin"
        self.cluster_ = cluster = self.cluster("suite", sealed=False, pg=bindir, conf="fsync = off\nmax_connections = 100\n")
        cluster.init().start()
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        directory = self.proxy(cluster)
        output = self.directory / "output"
        output.mkdir()
        command = [source / "pg_regress", f"--bindir={bindir}", f"--host={directory}", f"--port={PORT}", "--user=postgres",
                   f"--dlpath={source}", f"--inputdir={source}", f"--outputdir={output}", f"--schedule={source}/parallel_schedule"]
        done = subprocess.run(command, env=base_environment(), text=True, capture_output=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"All \d{3} tests passed|# All \d{3} tests passed")


class Program(Proxied):
    def test_the_page(self):
        """The commands of docs/confidential/proxy.md, as they are printed."""
        cluster = self.server("main", conf=LOG_ALL)
        for command in (["init"], ["key", "new", "-d", "shop"], ["grant", "add", "-d", "shop", "--allow", "all"]):
            if command[0] == "key":
                cluster.psql("CREATE DATABASE shop")
                cluster.psql("CREATE EXTENSION encdb; CREATE TABLE customers (id int, email enc_text)", db="shop")
            self.client(cluster, *command)
        block, of_one_program, in_process, _ = re.findall(r"^```sh\n(.*?)^```$", (STAGE / PAGE).read_text(), re.M | re.S)
        environment = {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner"),
                       "PGSEAL_ACCEPT": "software", "PATH": f"{PGSEAL.parent}:{programs()}:{base_environment()['PATH']}"}
        script = f"{block}\nkill %1\nwait\n{of_one_program}{in_process}"
        done = subprocess.run(["bash", "-ec", script], cwd=self.directory, env=environment, text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"INSERT 0 1\n1\n( +email +\n-+\n ada@example.org\n\(1 row\)\n\n){2}$")
        self.assertNotIn("ada@", (cluster.home / "log").read_text())

    def test_a_database_without_encdb_is_passed_on(self):
        self.cluster_ = cluster = self.server("plain", extension=False)
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        directory = self.proxy(cluster)
        self.assertEqual(self.psql(directory, "CREATE TABLE t (a text); INSERT INTO t VALUES ('x') RETURNING a"), ["x"])
        rows = "1\n2\n"
        self.assertEqual(self.psql(directory, f"COPY t FROM STDIN;\n{rows}\\.\nCOPY t TO STDOUT;\n"), ["x", "1", "2"])

    def test_it_is_for_its_user_and_ends_when_it_is_told(self):
        directory = self.shop()
        path = directory / f".s.PGSQL.{PORT}"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        connection = self.connect(directory)
        self.process.send_signal(signal.SIGTERM)
        eventually(lambda: not path.exists())
        with connection.cursor() as cursor:  # it is still served
            cursor.execute("SELECT 1")
        connection.close()
        self.assertEqual(self.process.wait(20), 0)

    def test_a_socket_that_was_left_behind_is_replaced(self):
        directory = self.shop()
        self.process.kill()
        self.process.wait()
        path = directory / f".s.PGSQL.{PORT}"
        self.assertTrue(path.exists())
        environment = {**base_environment(), **self.cluster_.environment}
        again = subprocess.Popen([PGSEAL, "proxy", "--listen", path, "--server", f"host={self.cluster_.home}", "--identity",
                                  self.directory / "owner", "--accept", "software"], env=environment)
        self.addCleanup(again.wait)
        self.addCleanup(again.kill)
        eventually(lambda: os.system(f"{programs() / 'pg_isready'} -q -h {directory} -p {PORT}") == 0, process=again)
        self.assertEqual(self.psql(directory, "SELECT 1"), ["1"])

    def test_a_query_can_be_cancelled(self):
        connection = self.connect(self.shop())
        with connection.cursor() as cursor, self.assertRaises(psycopg2.errors.QueryCanceled):
            threading.Timer(0.5, connection.cancel).start()
            cursor.execute("SELECT pg_sleep(60)")


if __name__ == "__main__":
    main(__file__, [*TOOLS, PAGE])
