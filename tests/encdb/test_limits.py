#!/usr/bin/env python3
"""Types with limits: enc_text(n) and enc_decimal(precision, scale) hold what varchar(n) and numeric(precision, scale) hold.

Each value is put into a plain and an encrypted column, by INSERT, by UPDATE and by a cast, and both must end alike. What is
within the limit stays the client's cell: sessions compare it under the rights that they needed before.
"""

import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, programs  # noqa: E402
from pgseal_test import main, run  # noqa: E402
from proxied import Proxied  # noqa: E402

TEXTS = ["", "a", "abcde", "abcdef", "abcde   ", "abcdef  ", "     ", "      ", "äöüßé", "äöüßéx", "äöüß€ ", "\U0001f600\U0001f600\U0001f600", "abcd\tef"]
NUMBERS = ["0", "1.5", "1.50", "1.500", "-1.505", "1.504", "9999.99", "9999.994", "9999.995", "-10000", "NaN", "Infinity", "0.001", "1e-30", "123456789"]
DIGITS = ["(6,2)", "(4)", "(3,-2)", "(2,4)"]
# Does a statement with one parameter; gives its result or its SQLSTATE.
TRY = """
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; BEGIN EXECUTE statement INTO result; RETURN result; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
"""


class Limits(Proxied):
    def outcomes(self, server, pairs):
        """What each pair of statements ends with: of plain columns, and of encrypted ones."""
        quoted = [statement.replace("'", "''") for pair in pairs for statement in pair]
        out = self.as_owner(server, TRY + "".join(f"SELECT coalesce(pg_temp.try('{it}'), '(null)') || '|';\n" for it in quoted))
        found = [it.strip("\n") for it in (out.rstrip("\n") + "\n").split("|\n")]
        return list(zip(found[0::2], found[1::2]))

    def assert_alike(self, server, pairs):
        found = self.outcomes(server, pairs)
        self.assertEqual(len(found), len(pairs))
        for (plain, sealed), statements in zip(found, pairs):
            self.assertEqual(sealed, plain, statements)
        return [plain for plain, _ in found]

    def test_values_end_as_in_plain_columns(self):
        columns = ", ".join(f"p{n} numeric{digits}, e{n} enc_decimal{digits}" for n, digits in enumerate(DIGITS))
        for server in self.servers(f"CREATE TABLE t (p varchar(5), e enc_text(5), {columns});"):
            pairs = []
            for value in TEXTS:
                pairs += [(f"INSERT INTO t (p) VALUES ('{value}'::text) RETURNING quote_literal(p)",
                           f"INSERT INTO t (e) VALUES (encdb.enc_text_encrypt('{value}')) RETURNING quote_literal(encdb.decrypt(e))"),
                          (f"SELECT quote_literal('{value}'::text::varchar(3))", f"SELECT quote_literal(encdb.decrypt(encdb.enc_text_encrypt('{value}')::enc_text(3)))")]
            for n, digits in enumerate(DIGITS):
                for value in NUMBERS:
                    # What is equal stays as it was written.
                    pairs += [(f"INSERT INTO t (p{n}) VALUES ('{value}'::numeric) RETURNING trim_scale(p{n})",
                               f"INSERT INTO t (e{n}) VALUES (encdb.enc_decimal_encrypt('{value}')) RETURNING trim_scale(encdb.decrypt(e{n}))"),
                              (f"SELECT trim_scale('{value}'::numeric::numeric{digits})",
                               f"SELECT trim_scale(encdb.decrypt(encdb.enc_decimal_encrypt('{value}')::enc_decimal{digits}))")]
            ended = self.assert_alike(server, pairs)
            for state in ("22001", "22003"):
                self.assertIn(state, ended)

    def test_what_is_computed_is_held_too(self):
        for server in self.servers("""CREATE TABLE t (id int, p varchar(5), e enc_text(5), q numeric(6,2), f enc_decimal(6,2));
                INSERT INTO t SELECT g, 'ab' || g, encdb.enc_text_encrypt('ab' || g), 12.34 * g, encdb.enc_decimal_encrypt(12.34 * g) FROM generate_series(1, 9) g;"""):
            one, text = "encdb.enc_decimal_encrypt({})".format, "encdb.enc_text_encrypt('{}')".format
            self.assert_alike(server, [
                ("UPDATE t SET q = q * 1.015 WHERE id = 1 RETURNING q", f"UPDATE t SET f = f * {one(1.015)} WHERE id = 1 RETURNING encdb.decrypt(f)"),
                ("UPDATE t SET q = q * 1000 WHERE id = 2 RETURNING q", f"UPDATE t SET f = f * {one(1000)} WHERE id = 2 RETURNING encdb.decrypt(f)"),
                ("UPDATE t SET p = p || 'xy' WHERE id = 3 RETURNING p", f"UPDATE t SET e = e || {text('xy')} WHERE id = 3 RETURNING encdb.decrypt(e)"),
                ("UPDATE t SET p = p || 'xyz' WHERE id = 4 RETURNING p", f"UPDATE t SET e = e || {text('xyz')} WHERE id = 4 RETURNING encdb.decrypt(e)"),
                ("INSERT INTO t (q) SELECT sum(q) FROM t WHERE id > 4 RETURNING q", "INSERT INTO t (f) SELECT sum(f) FROM t WHERE id > 4 RETURNING encdb.decrypt(f)"),
                ("INSERT INTO t (p) SELECT repeat(p, 2) FROM t WHERE id = 5", "INSERT INTO t (e) SELECT repeat(e, 2) FROM t WHERE id = 5"),
            ])

    def test_arrays_and_nulls(self):
        for server in self.servers("CREATE TABLE t (e enc_text(3)[], n enc_decimal(2,1), d enc_text(3)[]); CREATE DOMAIN code AS enc_text(2);"):
            cell = "encdb.enc_text_encrypt('{}')".format
            self.as_owner(server, f"INSERT INTO t VALUES (ARRAY[{cell('abc')}, NULL], NULL, NULL)")
            self.as_owner(server, f"INSERT INTO t (e) VALUES (ARRAY[{cell('abc')}, {cell('abcd')}])", error="value too long for the column's limit of characters")
            # As of a domain over varchar(2): an explicit cast cuts, an assignment does not.
            self.assertEqual(self.as_owner(server, f"SELECT encdb.decrypt({cell('abc')}::code)"), "ab")
            self.as_owner(server, f"CREATE TABLE u (c code); INSERT INTO u VALUES ({cell('abc')})", error="value too long")

    def test_the_grant_and_what_needs_none(self):
        for server in self.servers("""CREATE TABLE given AS SELECT encdb.enc_text_encrypt('abcde') AS short, encdb.enc_text_encrypt('äöüßé') AS wide,
                encdb.enc_decimal_encrypt(1.5) AS n, encdb.enc_decimal_encrypt(1.505) AS odd; CREATE TABLE t (c enc_text(5), n enc_decimal(6,2));"""):
            for column, into in (("wide", "c"), ("n", "n"), ("odd", "n")):
                insert = f"INSERT INTO t ({into}) SELECT {column} FROM given"
                others = "compare-derived,arithmetic,text,aggregate,cast,extract,compare-plain"
                self.as_owner(server, insert, operations=others, error="PE011|has not granted limit to this session")
                server.psql(insert, error="PE009|no session is open")
                self.as_owner(server, insert, operations="limit")
            # Nobody needs to be asked about a text of five bytes.
            server.psql("INSERT INTO t (c) SELECT short FROM given")
            before = "SELECT encdb.requests() AS before \\gset\n"
            self.assertEqual(self.as_owner(server, f"{before}INSERT INTO t (c) SELECT short FROM given; SELECT encdb.requests() - :before", operations="none"), "0")
            # What was within the limit is the cell that came; what was rounded is a computed one.
            self.assertEqual(self.as_owner(server, "SELECT count(*) FROM t JOIN given ON c = wide", operations="none"), "1")
            self.assertEqual(self.as_owner(server, "SELECT count(*) FROM (SELECT n FROM t WHERE n IS NOT NULL LIMIT 1) x JOIN given USING (n)", operations="none"), "1")
            rounded = "SELECT count(*) FROM t, given WHERE t.n > given.n"
            self.as_owner(server, rounded, operations="none", error="has not granted compare-derived")
            self.assertEqual(self.as_owner(server, rounded), "1")

    def test_definitions_and_cells_as_they_are(self):
        """What \\d, pg_dump and restores without keys make of it, and changes of the limit."""
        for server in self.servers("""CREATE TABLE t (id int, c enc_text(5), n enc_decimal(6,2));
                INSERT INTO t SELECT g, encdb.enc_text_encrypt('äé' || g), encdb.enc_decimal_encrypt(g * 1.25) FROM generate_series(1, 100) g;"""):
            types = "SELECT string_agg(format_type(atttypid, atttypmod), ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 1"
            self.assertEqual(server.psql(types), "enc_text(5) enc_decimal(6,2)")
            dump = run([programs() / "pg_dump", "-t", "t", "-d", "postgres"], {**server.environment}).stdout
            self.assertIn("c public.enc_text(5)", dump)
            sums = "SELECT sum(encdb.decrypt(n)), min(encdb.decrypt(c)), count(*) FROM t"
            before = self.as_owner(server, sums)
            server.psql("CREATE TABLE kept AS TABLE t; DROP TABLE t")
            server.psql("\n".join(line for line in dump.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))))
            self.assertEqual(self.as_owner(server, sums), before)
            node = "SELECT pg_relation_filenode('t')"
            was = server.psql(node)
            server.psql("ALTER TABLE t ALTER c TYPE enc_text(9), ALTER n TYPE enc_decimal(9,2)")
            self.assertEqual(server.psql(node), was)
            self.as_owner(server, "ALTER TABLE t ALTER c TYPE enc_text(2)", error="value too long for the column's limit of characters")
            self.as_owner(server, "ALTER TABLE t ALTER n TYPE enc_decimal(9,1)")
            self.assertEqual(self.as_owner(server, "SELECT encdb.decrypt(n) FROM t WHERE id = 1"), "1.3")
            for wrong in ("enc_text(0)", "enc_text(10485761)", "enc_decimal(0)", "enc_decimal(1001,2)", "enc_int4(3)", "enc_text(2,3)"):
                server.psql(f"CREATE TABLE u (x {wrong})", error="22023|42601|modifier|length for type|NUMERIC precision")

    def test_through_the_proxy(self):
        for form in FORMS:
            directory = self.shop(form, "CREATE TABLE person (id int PRIMARY KEY, name enc_text(5), paid enc_decimal(6,2), free enc_text)")
            connection = self.connect(directory)
            connection.autocommit = True
            cursor = connection.cursor()
            with self.subTest(form=form):
                cursor.execute("INSERT INTO person VALUES (1, %s, %s, %s), (2, 'äöüßé', 2.505, 'long enough')", ("abc", "12.5", "x" * 50))
                for name, paid, error in (("abcdef", "1", psycopg2.errors.StringDataRightTruncation), ("a", "10000", psycopg2.errors.NumericValueOutOfRange)):
                    with self.assertRaises(error):
                        cursor.execute("INSERT INTO person VALUES (3, %s, %s)", (name, paid))
                    with self.assertRaises(error):
                        cursor.execute("UPDATE person SET name = %s, paid = %s WHERE id = 1", (name, paid))
                cursor.execute("SELECT name, paid, free FROM person ORDER BY id")
                self.assertEqual([(it.type_code, it.internal_size, it.precision, it.scale) for it in cursor.description][1][2:], (6, 2))
                self.assertEqual([it.type_code for it in cursor.description], [1043, 1700, 25])
                self.assertEqual([(name, str(paid.quantize(paid.__class__("0.01")))) for name, paid, _ in cursor.fetchall()], [("abc", "12.50"), ("äöüßé", "2.51")])
                cursor.execute("SELECT count(*) FROM person WHERE name = 'abcxyz'::varchar(3)")
                self.assertEqual(cursor.fetchall(), [(1,)])
                cursor.execute("SELECT count(*) FROM person WHERE name = 'abcxyz'::enc_text(3)")
                self.assertEqual(cursor.fetchall(), [(1,)])
                cursor.execute("SELECT count(*) FROM person WHERE paid = 12.504::enc_decimal(6,2)")
                self.assertEqual(cursor.fetchall(), [(1,)])
                self.assert_never_in_clear("abcdef", "long enough")
            (self.directory / "owner").unlink()


if __name__ == "__main__":
    main(__file__, TOOLS)
