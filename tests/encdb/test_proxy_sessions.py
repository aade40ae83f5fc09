#!/usr/bin/env python3
"""The owner's session behind pgseal proxy is opened again when it is lost, and the application does not see it."""

import io
import subprocess
import sys
import threading
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, programs  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402
from proxied import PORT, TABLE, Proxied, Raw  # noqa: E402
from waiting import eventually  # noqa: E402

QUERY = "SELECT name FROM person WHERE name = 'secretAda'"
FOUND = [("secretAda",)]


ZONES = ("Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "UTC", "<+02>-02")
INSTANTS = ("2026-01-02 03:04:05", "2026-07-02 03:04:05.123456", "2026-03-29 02:30", "2026-10-25 02:30", "1800-01-01", "0044-03-15 BC",
            "2026-01-02 03:04:05-07", "12026-07-02", "infinity", "epoch")


class Settings(Proxied):
    def test_instants_are_in_the_sessions_time_zone(self):
        """As the server reads and shows them in a plain column."""
        directory = self.shop()
        self.cluster_.psql("CREATE TABLE twin (id int, seen timestamptz)")
        connection = self.connect(directory)
        connection.autocommit = True
        with connection.cursor() as cursor:
            for zone in ZONES:
                cursor.execute("SET TimeZone = %s", (zone,))
                cursor.execute("DELETE FROM twin; DELETE FROM person")
                for number, instant in enumerate(INSTANTS):
                    for table in ("twin", "person"):
                        cursor.execute(f"INSERT INTO {table} (id, seen) VALUES (%s, %s)", (number, instant))
                for form in ("SELECT id, seen FROM {} ORDER BY id", "SELECT seen FROM {} WHERE id > 2 ORDER BY id"):
                    shown = {}
                    for table in ("twin", "person"):
                        out = io.StringIO()
                        cursor.copy_expert(f"COPY ({form.format(table)}) TO STDOUT", out)
                        shown[table] = out.getvalue()
                    self.assertEqual(shown["person"], shown["twin"], zone)
            # A zone that the server has not reported yet.
            with self.assertRaises(psycopg2.Error) as refused:
                cursor.execute("SET TimeZone = 'Asia/Tokyo'; INSERT INTO person (id, seen) VALUES (99, '2026-01-02 03:04:05')")
            self.assertEqual(refused.exception.pgcode, "22023")
            cursor.execute("SET TimeZone = 'Asia/Tokyo'; INSERT INTO person (id, seen) VALUES (99, '2026-01-02 03:04:05+09')")
            cursor.execute("SELECT id FROM person WHERE seen = '2026-01-02 03:04:05'")
            self.assertEqual(cursor.fetchall(), [(99,)])

    def test_casts_between_instants_and_local_times(self):
        """As the server computes them in a plain table: what a literal or a parameter is cast to is not always its column's type."""
        directory = self.shop()
        self.cluster_.psql("CREATE TABLE twin (id int, seen timestamptz, born date)")
        connection = self.connect(directory)
        connection.autocommit = True
        with connection.cursor() as cursor:
            for zone in (*ZONES, "America/Sao_Paulo"):
                cursor.execute("SET TimeZone = %s", (zone,))
                cursor.execute("DELETE FROM twin; DELETE FROM person")
                for table in ("twin", "person"):
                    for number, text in enumerate(("2026-03-29 02:30", "2026-10-25 02:30", "2018-11-04 00:30", "1800-01-01", "infinity")):
                        cursor.execute(f"INSERT INTO {table} (id, seen) VALUES (%s, %s::timestamp), (%s, %s::date)",
                                       (number, text, number + 10, text[:10] if text[0] != "i" else text))
                        cursor.execute(f"INSERT INTO {table} (id, born) VALUES (%s, %s::timestamptz)", (number + 20, text))
                out = {}
                for table in ("twin", "person"):
                    copied = io.StringIO()
                    cursor.copy_expert(f"COPY (SELECT id, seen, born FROM {table} ORDER BY id) TO STDOUT", copied)
                    out[table] = copied.getvalue()
                self.assertEqual(out["person"].count("\n"), 15)
                self.assertEqual(out["person"], out["twin"], zone)

    def test_what_other_connections_define(self):
        """A connection goes on with what it knows, which never makes a listed column plain; those that begin later know all."""
        directory = self.shop()
        connection = self.connect(directory)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO person (id, name) VALUES (1, 'secretOne')")
            self.cluster_.psql("ALTER TABLE person ALTER name TYPE text USING NULL")
            for sql in ("INSERT INTO person (id, name) VALUES (2, 'secretTwo')", "SELECT id FROM person WHERE name = 'secretTwo'",
                        "UPDATE person SET name = 'secretTwo'"):
                with self.assertRaises(psycopg2.Error):
                    cursor.execute(sql)
            self.cluster_.psql(f"DROP TABLE person; {TABLE}")
            cursor.execute("INSERT INTO person (id, name) VALUES (3, 'secretThree')")
            self.cluster_.psql("CREATE TABLE later (id int, name enc_text)")
        self.client(self.cluster_, "column", "add", "--all")
        with self.connect(self.proxy(self.cluster_)) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO later VALUES (4, 'secretFour') RETURNING name")
            self.assertEqual(cursor.fetchall(), [("secretFour",)])
        self.assert_never_in_clear("secret")


class Sessions(Proxied):
    def rows(self, cursor, sql=QUERY):
        cursor.execute(sql)
        return cursor.fetchall()

    def with_a_row(self, form="inline"):
        connection = self.connect(self.shop(form))
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("INSERT INTO person (id, name, age) VALUES (1, 'secretAda', 1)")
        self.assertEqual(self.rows(cursor), FOUND)
        return connection, cursor

    def test_discard_all(self):
        """As pools send it between two users of a connection."""
        connection, cursor = self.with_a_row()
        for _ in range(3):
            cursor.execute("DISCARD ALL")
            self.assertEqual(self.rows(cursor), FOUND)
        connection.autocommit = False
        cursor.execute("SELECT 1")
        connection.rollback()
        for isolation in ("READ COMMITTED", "SERIALIZABLE"):
            connection.autocommit = True
            cursor.execute("DISCARD ALL")
            connection.set_session(isolation_level=isolation, autocommit=False)
            self.assertEqual(self.rows(cursor), FOUND)  # BEGIN comes first
            self.assertEqual(self.rows(cursor, "SHOW transaction_isolation"), [(isolation.lower(),)])
            connection.commit()
        self.assert_never_in_clear("secret")

    def test_discard_all_within_a_script(self):
        directory = self.shop()
        self.assertEqual(self.psql(directory, """
            INSERT INTO person (id, name) VALUES (1, 'secretOne');
            PREPARE p (text) AS SELECT id FROM person WHERE name = $1;
            EXECUTE p('secretOne');
            DISCARD ALL;
            SELECT name FROM person WHERE name = 'secretOne';
            DISCARD ALL;
            BEGIN; UPDATE person SET name = 'secretTwo' WHERE name = 'secretOne'; COMMIT;
            DISCARD ALL;
            SELECT name, count(*) FROM person GROUP BY name;
        """), ["1", "secretOne", "secretTwo|1"])
        self.assert_never_in_clear("secret")

    def test_an_evaluator_that_was_started_again(self):
        connection, cursor = self.with_a_row("isolated")
        first = self.evaluator_
        first.kill9()
        with self.assertRaises(psycopg2.Error) as refused:
            self.rows(cursor)
        self.assertEqual(refused.exception.pgcode, "PE015")
        self.assertEqual(self.rows(cursor, "SELECT count(*) FROM person"), [(1,)])
        first.start()
        self.assertEqual(self.rows(cursor), FOUND)
        first.kill9()
        first.start()
        connection.autocommit = False
        self.assertEqual(self.rows(cursor), FOUND)
        self.assertEqual(self.rows(cursor), FOUND)
        first.kill9()
        first.start()
        with self.assertRaises(psycopg2.Error) as refused:  # what the transaction has read may have changed meanwhile
            self.rows(cursor)
        self.assertEqual(refused.exception.pgcode, "PE015")
        connection.rollback()
        self.assertEqual(self.rows(cursor), FOUND)

    def test_statements_that_libpq_prepared(self):
        """pgbench prepares once; its sessions end under it. It waits for a lock meanwhile: a statement that comes while no evaluator
        listens fails, as it must."""
        directory = self.shop("isolated")
        self.psql(directory, "INSERT INTO person (id, name, age) VALUES (1, 'secretName', 1)")
        script = self.directory / "script"
        script.write_text("\\set age random(1, 1000)\n\\set turn :turn + 1\nBEGIN;\nUPDATE person SET age = :age WHERE id = 1;\nEND;\n"
                          "SELECT pg_advisory_lock(:turn);\nSELECT name FROM person WHERE name = 'secretName' AND age = :age;\n")
        holder = psycopg2.connect(host=str(self.cluster_.home), user="postgres", dbname="postgres")
        self.addCleanup(holder.close)
        holder.autocommit = True
        cursor = holder.cursor()
        cursor.execute("SELECT pg_advisory_lock(turn) FROM generate_series(1, 4) turn")
        run = subprocess.Popen([programs() / "pgbench", "-n", "-M", "prepared", "-D", "turn=0", "-t", "4", "-f", script, "-h", directory,
                                "-p", str(PORT), "-U", "postgres", "postgres"], env=base_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = {}"
        for turn in range(1, 5):
            eventually(lambda: self.cluster_.psql(waits.format(turn)) == "1", process=run)
            self.evaluator_.kill9()
            self.evaluator_.start()
            cursor.execute("SELECT pg_advisory_unlock(%s)", (turn,))
        out, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, errors)
        self.assertIn("actually processed: 4/4", out)

    def test_the_unnamed_statement_stays_the_drivers(self):
        """The new session asks the server much; a statement without a name that was parsed before is there afterwards."""
        directory = self.shop("isolated")
        self.psql(directory, "INSERT INTO person (id, name) VALUES (7, 'secretAda')")
        with Raw(directory) as driver:
            driver.cycle(b"P", b"\0SELECT id FROM person WHERE name = 'secretAda'\0\0\0", b"D", b"S\0")
            for _ in range(2):
                self.evaluator_.kill9()
                self.evaluator_.start()
                answer = driver.cycle(b"B", bytes(8), b"E", bytes(5))
                self.assertEqual([tag for tag, _ in answer], [b"2", b"D", b"C", b"Z"], answer)
                self.assertEqual(answer[1][1], b"\0\x01\0\0\0\x017")
            named = driver.cycle(b"Q", b"SELECT count(*) FROM pg_prepared_statements\0")
            self.assertEqual(named[1][1], b"\0\x01\0\0\0\x010")

    def test_notifications_that_come_meanwhile(self):
        connection, cursor = self.with_a_row("isolated")
        cursor.execute("LISTEN calls")
        sent, stop = [], threading.Event()

        def call():
            while not stop.is_set():
                self.cluster_.psql(f"NOTIFY calls, '{len(sent)}'")
                sent.append(str(len(sent)))
        thread = threading.Thread(target=call)
        thread.start()
        try:
            for _ in range(5):
                self.evaluator_.kill9()
                self.evaluator_.start()
                self.assertEqual(self.rows(cursor), FOUND)
        finally:
            stop.set()
            thread.join()
        self.assertEqual(self.rows(cursor), FOUND)
        connection.poll()
        self.assertEqual([it.payload for it in connection.notifies], sent)


if __name__ == "__main__":
    main(__file__, TOOLS)
