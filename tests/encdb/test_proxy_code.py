#!/usr/bin/env python3
"""pgseal proxy: bodies of code, statements in strings, text in other encodings. What has nothing to do with encrypted columns is sent."""

import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

NOT_SENT = psycopg2.errors.FeatureNotSupported


class Code(Proxied):
    def test_bodies_apart_from_what_is_encrypted_are_sent_inline(self):
        self.bodies(self.shop("inline"))

    def test_bodies_apart_from_what_is_encrypted_are_sent_isolated(self):
        self.bodies(self.shop("isolated"))

    def bodies(self, directory):
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE log (n int, message text)")
            cursor.execute("""
                CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF new.n = 4 THEN RAISE EXCEPTION 'no 4'; END IF; new.message := 'noted'; RETURN new; END $$;
                CREATE TRIGGER noted BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION noted();
                CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT 2 * n'""")
            cursor.execute("DO $$ BEGIN INSERT INTO log VALUES (1), (twice(4)); END $$")
            cursor.execute("SELECT n, message FROM log ORDER BY n")
            self.assertEqual(cursor.fetchall(), [(1, "noted"), (8, "noted")])
            connection.commit()
            for sql in ("DO $$ BEGIN PERFORM 'xyzzy' FROM person; END $$",
                        "DO $$ BEGIN EXECUTE 'SELECT ''xyzzy'''; END $$",
                        "DO $$ DECLARE c enc_text := 'xyzzy'; BEGIN END $$",
                        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.name := 'xyzzy'; RETURN new; END $$",
                        "CREATE FUNCTION f() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT 'xyzzy' FROM person; END"):
                with self.subTest(sql=sql):
                    with self.assertRaises(NOT_SENT):
                        cursor.execute(sql)
                    connection.rollback()
        self.psql(directory, "SELECT count(*) FROM person")
        self.assert_never_in_clear("xyzzy")

    def test_a_statement_in_a_string_is_not_sent(self):
        """One that a function runs, and one that is stored. Functions that make cells of their arguments are known by their bodies."""
        directory = self.shop()
        self.cluster_.psql("""
            CREATE FUNCTION run(q text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE q; END';
            CREATE FUNCTION add_row(t text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'INSERT INTO person (id) VALUES (1)'; END $$;
            CREATE FUNCTION make(t text) RETURNS bool LANGUAGE sql AS 'SELECT t::enc_text IS NULL';
            CREATE FUNCTION make_too(t text) RETURNS bool LANGUAGE sql BEGIN ATOMIC SELECT t::enc_text IS NULL; END;
            CREATE TABLE queries (q text)""")
        statement = "INSERT INTO person (id, name) VALUES (7, 'xyzzy')"
        with self.connect(directory) as connection, connection.cursor() as cursor:
            for sql, values in (("SELECT run(%s)", (statement,)), ("INSERT INTO queries VALUES (%s)", (statement,)),
                                ("SELECT run($$" + statement + "$$)", None), ("SELECT add_row('xyzzy')", None),
                                ("SELECT make('xyzzy')", None), ("SELECT make_too('xyzzy')", None)):
                with self.subTest(sql=sql):
                    with self.assertRaises(NOT_SENT):
                        cursor.execute(sql, values)
                    connection.rollback()
            cursor.execute("SELECT run('INSERT INTO queries VALUES (''anything'')'), make(q) FROM queries")
            cursor.execute("PREPARE p (text) AS SELECT run($1)")
            cursor.execute("EXECUTE p('SELECT name FROM person')")  # without a literal
            with self.assertRaises(NOT_SENT):
                cursor.execute("EXECUTE p(%s)", (statement,))
        self.assert_never_in_clear("xyzzy")


class Functions(Proxied):
    def test_functions_of_text_are_computed_on_the_server(self):
        directory = self.shop()
        self.psql(directory, "INSERT INTO person (id, name) VALUES (1, 'secretAda'), (2, 'other')")
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT left(name, 7), left(note, 1) FROM person WHERE left(name, 6) = 'secret'")
            self.assertEqual([column.name for column in cursor.description], ["left", "left"])
            self.assertEqual(cursor.fetchall(), [("secretA", None)])
            cursor.execute("SELECT left(name, 0) FROM person GROUP BY left(name, 0)")
            self.assertEqual(cursor.fetchall(), [("",)])
            cursor.execute("SELECT right(name, -6), replace(trim(name), 'secret', ''), initcap(split_part(name, %s, 2)), "
                           "position('Ada' IN name) FROM person WHERE starts_with(name, 'secret')", ("secret",))
            self.assertEqual([column.name for column in cursor.description], ["right", "replace", "initcap", "position"])
            self.assertEqual(cursor.fetchall(), [("Ada", "Ada", "Ada", 7)])
            for sql in ("SELECT translate(name, 'x', '') FROM person", "SELECT position(name IN 'x') FROM person", "SELECT format(name, 'x') FROM person"):
                with self.subTest(sql=sql):
                    with self.assertRaisesRegex(NOT_SENT, "compute it in the application"):
                        cursor.execute(sql)
                    connection.rollback()
        self.assert_never_in_clear("secret")


class Encodings(Proxied):
    def test_text_in_other_encodings(self):
        directory = self.shop()
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE plain (c text)")
            cursor.execute("INSERT INTO person (id, name) VALUES (1, 'secret\u00e4')")
            connection.commit()
            for encoding in ("LATIN1", "WIN1252", "KOI8"):
                connection.set_client_encoding(encoding)
                letter = "\u042f" if encoding == "KOI8" else "\u00e9"
                cursor.execute("INSERT INTO plain VALUES (%s) RETURNING c", (letter,))
                self.assertEqual(cursor.fetchall(), [(letter,)])
                connection.commit()
                for sql in (f"SELECT 1 FROM person WHERE name = 'secret{letter}'", f'SELECT 1 AS "{letter}"',
                            "SELECT name FROM person"):
                    with self.subTest(sql=sql, encoding=encoding):
                        with self.assertRaises(psycopg2.errors.CharacterNotInRepertoire):
                            cursor.execute(sql)
                        connection.rollback()
                cursor.execute("SELECT id FROM person WHERE name <> 'secret'")  # ASCII
                self.assertEqual(cursor.fetchall(), [(1,)])
            connection.set_client_encoding("UNICODE")  # PostgreSQL reports it as that
            cursor.execute("SELECT name FROM person")
            self.assertEqual(cursor.fetchall(), [("secret\u00e4",)])
            connection.commit()
            connection.set_client_encoding("SJIS")
            with self.assertRaises(psycopg2.errors.CharacterNotInRepertoire):
                cursor.execute("SELECT '\u8868'")  # its second byte is a backslash
        self.assertEqual(self.cluster_.psql("SELECT string_agg(c, '' ORDER BY c COLLATE \"C\") FROM plain"), "\u00e9\u00e9\u042f")
        self.assert_never_in_clear("secret")


if __name__ == "__main__":
    main(__file__, TOOLS)
