#!/usr/bin/env python3
"""pgseal proxy: a parameter of a declared type, beside an encrypted column of another one, finds the rows that it finds beside a plain
column, or is refused."""

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied, Raw  # noqa: E402

TYPES = {"int2": 21, "int4": 23, "int8": 20, "float8": 701, "numeric": 1700, "date": 1082, "timestamp": 1114, "timestamptz": 1184}
COLUMNS = {"age": "int4", "number": "int8", "paid": "numeric", "born": "date", "seen": "timestamptz"}
ROWS = """(1, 1, 1, 2.5, '2026-01-01', '2026-01-01+00'), (2, 2, 2, 0.3, '2026-01-02', '2026-01-02 12:00+00'),
    (3, 3, 3000000000, 0.1, '2026-01-03', '2026-01-03+00'), (4, NULL, NULL, NULL, NULL, NULL)"""
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
# Parameters that a column of this type does not take: each is rounded, or has none that is equal.
INEXACT = [("age", "numeric", "2.5"), ("age", "float8", "1.5"), ("number", "numeric", "1.000001"), ("paid", "float8", "0.30000000000000004"),
           ("born", "timestamp", "2026-01-02 00:00:01"), ("born", "timestamptz", "2026-01-02 12:00+00")]
EXACT = [("age", "int2", "2"), ("age", "int8", "2"), ("age", "numeric", "2.00"), ("age", "float8", "2"), ("number", "int4", "2"),
         ("number", "numeric", "3000000000"), ("paid", "int4", "2"), ("paid", "float8", "2.5"), ("born", "timestamp", "2026-01-02"),
         ("seen", "date", "2026-01-03"), ("seen", "timestamp", "2026-01-02 12:00")]


def parse(sql, kind):
    return b"\0" + sql.encode() + b"\0" + struct.pack("!HI", 1, TYPES[kind])


def bind(value):
    return b"\0\0" + struct.pack("!HHI", 0, 1, len(value)) + value.encode() + struct.pack("!H", 0)


class Parameters(Proxied):
    def tables(self, form):
        """A proxy, behind which a plain table and an encrypted one have the same rows."""
        self.shop(form)
        for table, prefix in (("p", ""), ("e", "enc_")):
            columns = ", ".join(f"{name} {prefix}{'decimal' if prefix and kind == 'numeric' else kind}" for name, kind in COLUMNS.items())
            self.cluster_.psql(f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})")
        self.client(self.cluster_, "column", "add", "--all")
        directory = self.proxy(self.cluster_)
        for table in "pe":
            self.psql(directory, f"INSERT INTO {table} VALUES {ROWS}")
        return directory

    def run_(self, driver, sql, kind, value):
        """The first columns of the rows, or the SQLSTATE."""
        messages = driver.cycle(b"P", parse(sql, kind), b"B", bind(value), b"E", b"\0" + struct.pack("!I", 0))
        for tag, body in messages:
            if tag == b"E":
                return next(field[1:] for field in body.decode().split("\0") if field[:1] == "C")
        return [body[6:].decode() for tag, body in messages if tag == b"D"]

    def test_declared_types_inline(self):
        self.declared_types("inline")

    def test_declared_types_isolated(self):
        self.declared_types("isolated")

    def declared_types(self, form):
        directory = self.tables(form)
        with Raw(directory) as driver:
            driver.cycle(b"Q", b"SET TimeZone = 'UTC'\0")
            found = set()
            for column, kind, value in EXACT + INEXACT:
                for operator in OPERATORS:
                    results = [self.run_(driver, f"SELECT id FROM {table} WHERE {column} {operator} $1 ORDER BY id", kind, value)
                               for table in "pe"]
                    with self.subTest(column=column, kind=kind, value=value, operator=operator):
                        self.assertIsInstance(results[0], list)
                        if (column, kind, value) in INEXACT:
                            self.assertEqual(results[1], "0A000")
                        else:
                            self.assertEqual(*results)
                            found.add(tuple(results[1]))
            # Rows are found, and others are not.
            self.assertGreater(len(found), 5)

    def test_an_assigned_value_is_rounded_as_the_server_does(self):
        directory = self.tables("inline")
        with Raw(directory) as driver:
            for kind, column, value in (("numeric", "age", "2.5"), ("float8", "age", "2.5"), ("numeric", "number", "-0.5"),
                                        ("timestamp", "born", "2026-05-06 07:08:09"), ("float8", "paid", "0.30000000000000004")):
                for table in "pe":
                    self.assertEqual(self.run_(driver, f"UPDATE {table} SET {column} = $1 WHERE id = 4", kind, value), [])
                both = [self.psql(directory, f"SELECT {column} FROM {table} WHERE id = 4") for table in "pe"]
                self.assertEqual(*both, column)
                self.assertNotEqual(both[0], [""])


if __name__ == "__main__":
    main(__file__, TOOLS)
