#!/usr/bin/env python3
"""COPY through pgseal proxy: rows are sealed on their way in and opened on their way out, in all formats, as they come."""

import io
import struct
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

ROWS = [(1, "secretAda", 36, "plain"), (2, None, None, None), (3, 'secret\t"tab",\\and\nline', -2147483648, "\\N"), (4, "", 0, "")]
COLUMNS = "id, name, age, note"


def text(rows):
    """Rows as COPY's text format has them."""
    def field(value):
        if value is None:
            return "\\N"
        return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
    return "".join("\t".join(map(field, row)) + "\n" for row in rows)


def csv(rows):
    def field(value):
        return "" if value is None else '"' + str(value).replace('"', '""') + '"'
    return "".join(",".join(map(field, row)) + "\r\n" for row in rows)


def binary(rows):
    def field(value):
        data = struct.pack("!i", value) if isinstance(value, int) else value and value.encode()
        return struct.pack("!i", -1) if value is None else struct.pack("!i", len(data or b"")) + (data or b"")
    tuples = b"".join(struct.pack("!h", len(row)) + b"".join(map(field, row)) for row in rows)
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + tuples + struct.pack("!h", -1)


class Copies(Proxied):
    def test_rows_of_every_format_inline(self):
        self.every_format(self.shop("inline"))

    def test_rows_of_every_format_isolated(self):
        self.every_format(self.shop("isolated"))

    def every_format(self, directory):
        with self.connect(directory) as connection, connection.cursor() as cursor:
            for name, rows in (("text", text(ROWS).encode()), ("csv", csv(ROWS).encode()), ("binary", binary(ROWS))):
                with self.subTest(name):
                    cursor.execute("DELETE FROM person")
                    cursor.copy_expert(f"COPY person ({COLUMNS}) FROM STDIN (FORMAT {name})", io.BytesIO(rows), size=7)
                    cursor.execute(f"SELECT {COLUMNS} FROM person WHERE name IS NULL OR name <> 'other' ORDER BY id")
                    self.assertEqual(cursor.fetchall(), ROWS)
                    for source in (f"person ({COLUMNS})", f"(SELECT {COLUMNS} FROM person ORDER BY id)"):
                        out = io.BytesIO()
                        cursor.copy_expert(f"COPY {source} TO STDOUT (FORMAT {name}{', FORCE_QUOTE *' if name == 'csv' else ''})", out)
                        self.assertEqual(out.getvalue(), rows if name != "csv" else rows.replace(b"\r\n", b"\n"))
            cursor.execute("SELECT count(*) FROM person WHERE name = %s AND age = %s", ROWS[2][1:3])
            self.assertEqual(cursor.fetchall(), [(1,)])
        self.assert_never_in_clear("secret", "2147483648")

    def test_columns_that_no_statement_names(self):
        """Their order is the owner's list's, whatever the server has by now."""
        directory, secret = self.shop(), "secretUnnamed"
        rows = [(1, f"{secret}1", 36, None, None, None, [f"{secret}Tag"], "plain"), (2, f"{secret}2", None, None, None, None, None, None)]
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO person VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", rows[0])
            cursor.copy_expert("COPY person FROM STDIN", io.StringIO(f"2\t{secret}2" + "\t\\N" * 6 + "\n"))
            cursor.execute("SELECT * FROM person ORDER BY id")
            self.assertEqual(cursor.fetchall(), rows)
            for source in ("(SELECT * FROM person ORDER BY id)", "(SELECT p.* FROM person p ORDER BY p.id)", "person"):
                out = io.StringIO()
                cursor.copy_expert(f"COPY {source} TO STDOUT", out)
                self.assertEqual([line.split("\t")[1] for line in out.getvalue().splitlines()], [f"{secret}1", f"{secret}2"], source)
            cursor.execute("INSERT INTO person VALUES (3, %s)", (f"{secret}3",))
            connection.commit()
            self.cluster_.psql("ALTER TABLE person ADD late text")
            cursor.execute("INSERT INTO person VALUES (4, %s)", (f"{secret}4",))  # the list's columns are named
            cursor.execute("INSERT INTO person (id, name, late) VALUES (5, %s, 'late')", (f"{secret}5",))
        for sql in (f"INSERT INTO person VALUES (6, '{secret}6')", "COPY person FROM STDIN"):
            with self.connect(directory) as connection, connection.cursor() as cursor:
                with self.assertRaisesRegex(psycopg2.errors.FeatureNotSupported, "another order of them than in the owner's list"):
                    cursor.execute(sql)
                connection.rollback()
                cursor.execute("SELECT count(*) FROM person WHERE name LIKE %s", (f"{secret}%",))
                self.assertEqual(cursor.fetchone(), (5,))
        self.client(self.cluster_, "column", "add", "--all")
        directory = self.proxy(self.cluster_)
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO person SELECT 6, %s", (f"{secret}6",))
            cursor.execute("SELECT max(name) FROM person")
            self.assertEqual(cursor.fetchone(), (f"{secret}6",))
        self.assert_never_in_clear(secret)

    def test_names_in_the_first_row_and_several_copies_in_one_script(self):
        directory = self.shop()
        self.assertEqual(self.psql(directory, """
            CREATE TABLE other (a text, b int);
            COPY person (id, name, tags) FROM STDIN (FORMAT csv, HEADER);
id,name,tags
1,secretOne,"{secretTag,NULL}"
\\.
            COPY other FROM STDIN;
left\t1
\\.
            BEGIN;
            COPY person (name, id) FROM STDIN WITH CSV DELIMITER ';' NULL 'nil';
secretTwo;2
nil;3
\\.
            COMMIT;
            SELECT id, name, tags FROM person ORDER BY id;
            SELECT * FROM other;
            COPY person (name, tags) TO STDOUT WITH (FORMAT csv, HEADER, NULL 'nil');
        """), ["1|secretOne|{secretTag,NULL}", "2|secretTwo|", "3||", "left|1", "name,tags", 'secretOne,"{secretTag,NULL}"',
               "secretTwo,nil", "nil,nil"])
        self.assert_never_in_clear("secret")

    def test_a_table_without_a_list_of_columns(self):
        directory = self.shop()
        self.cluster_.psql("ALTER TABLE person DROP note, ADD twice int GENERATED ALWAYS AS (id * 2) STORED, ADD note text")
        self.psql(directory, "INSERT INTO person (id, name, age) VALUES (1, 'secretOne', 7)")
        columns = "id,name,age,born,paid,seen,tags,note"
        self.assertEqual(self.psql(directory, "COPY person TO STDOUT (FORMAT csv, HEADER)"), [columns, "1,secretOne,7,,,,,"])
        # Columns that this connection adds, or another one, are not known: no wrong field is opened.
        added = self.psql(directory, "ALTER TABLE person ADD more enc_text;\nCOPY person TO STDOUT (FORMAT csv)")
        self.assertRegex(added[0], r"^1,\\x[0-9a-f]+,")
        with self.connect(directory) as connection, connection.cursor() as cursor:
            self.cluster_.psql("ALTER TABLE person ADD last int")
            out = io.StringIO()
            cursor.copy_expert("COPY person TO STDOUT", out)
            self.assertRegex(out.getvalue(), r"^1\t\\\\x")
        self.assert_never_in_clear("secret")

    def test_a_row_that_is_wrong_ends_the_copy_and_not_the_connection(self):
        with self.connect(self.shop()) as connection, connection.cursor() as cursor:
            for rows, sqlstate, sentence in (("1\tsecretOne\t1\n2\tsecretTwo\t2147483648\n", "22003", "row 5002 of COPY"),
                                             ("1\tsecretOne\t1\textra\n", "22P04", "row 5001 of COPY"),
                                             ("1\tsecretOne\tNaN\n", "22P02", "row 5001 of COPY")):
                with self.subTest(rows):
                    # The server has had a part of the rows; many more are on their way.
                    before, after = (self.many(*part) for part in ((10, 5010), (10**5, 3 * 10**5)))
                    source = io.StringIO(before + rows + after)
                    with self.assertRaises(psycopg2.Error) as refused:
                        cursor.copy_expert("COPY person (id, name, age) FROM STDIN", source)
                    self.assertEqual(refused.exception.pgcode, sqlstate)
                    self.assertIn(sentence, str(refused.exception))
                    self.assertNotIn("secret", str(refused.exception))
                    connection.rollback()
                    cursor.execute("SELECT count(*) FROM person")
                    self.assertEqual(cursor.fetchall(), [(0,)])
        self.assert_never_in_clear("secret", "2147483648")

    def many(self, first, last):
        return "".join(f"{row}\tsecretMany\t0\n" for row in range(first, last))

    def test_a_copy_that_the_server_refuses(self):
        """Its rows are not sent: the server would see them and pass over them."""
        with self.connect(self.shop()) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE strict (id int CHECK (id > 0), name enc_text)")
            connection.commit()
            for sql, rows in (("COPY strict (id, name, missing) FROM STDIN", "1\tsecretA\t2\n"),
                              ("COPY strict (id, name) FROM STDIN", "0\tsecretB\n" * 300000)):
                with self.assertRaises(psycopg2.Error):
                    cursor.copy_expert(sql, io.StringIO(rows))
                connection.rollback()
            cursor.copy_expert("COPY strict (id, name) FROM STDIN", io.StringIO("1\tsecretC\n"))
            cursor.execute("SELECT name FROM strict")
            self.assertEqual(cursor.fetchall(), [("secretC",)])
        self.assert_never_in_clear("secret")

    def test_large_values(self):
        """Longer than every buffer on their way."""
        with self.connect(self.shop()) as connection, connection.cursor() as cursor:
            large = "secret" + "x" * 5_000_000
            cursor.copy_expert("COPY person (id, name) FROM STDIN", io.StringIO(f"1\t{large}\n2\tsecretSmall\n"), size=65536)
            out = io.StringIO()
            cursor.copy_expert("COPY person (name, id) TO STDOUT", out)
            self.assertEqual(out.getvalue(), f"{large}\t1\nsecretSmall\t2\n")
        self.assert_never_in_clear("secret")


if __name__ == "__main__":
    main(__file__, TOOLS)
