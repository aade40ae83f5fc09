#!/usr/bin/env python3
"""Frames of windows by a distance, RANGE ... PRECEDING and FOLLOWING with a value, are those of the plain types.

The same windows over a plain column and over its cells must have the same rows in each frame, and end with the same SQLSTATE. Beside
them each in_range function is asked about all combinations of values at the ends of its types.
"""

import os
import random
import secrets
import sys
from datetime import date, timedelta
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, VERSION  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied, Raw  # noqa: E402

SEED = int(os.environ.get("PGSEAL_SEED") or secrets.randbits(32))
ROWS = 90
WINDOWS = 130
FLOATS = ["NaN", "Infinity", "-Infinity", "0", "-0", "1.5", "-2.25", "1e300"]
FLOAT_DISTANCES = ["0", "-0", "0.5", "12.25", "1e300", "1.7e308", "Infinity", "NaN", "-0.5", "-Infinity"]
# With some values its ends are no times.
FAR = "300000 years"
# Of each type: the types of its distances, values that are likely, and distances.
TYPES = {
    "int4": (["int4", "int8"], ["-2147483648", "2147483647", "0"], ["0", "1", "7", "40", "2147483647", "-1", "-2147483648"]),
    "int8": (["int8"], [f"{-2**63}", f"{2**63 - 1}"], ["0", "3", "30", f"{2**63 - 1}", "-1", f"{-2**63}"]),
    "float4": (["float8"], [*FLOATS[:-1], "3e38", "-3e38"], FLOAT_DISTANCES),
    "float8": (["float8"], [*FLOATS, "1.7e308", "-1.7e308"], FLOAT_DISTANCES),
    "numeric": (["numeric"], ["NaN", "Infinity", "-Infinity", "0", "0.00", "1.50"],
                ["0", "0.1", "12.5", "1e40", "Infinity", "NaN", "-0.1", "-Infinity"]),
    "date": (["interval"], ["infinity", "-infinity", "2024-02-29", "2024-03-31"],
             ["0", "1 day", "1 month", "36 hours", "1 year -3 days", "-1 day", "1 day -25 hours", FAR]),
    "timestamp": (["interval"], ["infinity", "-infinity", "2024-02-29 12:00"],
                  ["0", "1 hour", "1 month", "9 days 00:00:00.000001", "-1 us", FAR]),
    "timestamptz": (["interval"], ["infinity", "-infinity", "2024-03-31 01:30+00"],
                    ["0", "1 hour", "1 month", "9 days", "1 day -24 hours", "-1 month", FAR]),
}
# The distances that are refused.
NEGATIVE = {"-1", "-2147483648", f"{-2**63}", "NaN", "-0.5", "-Infinity", "-0.1", "-1 day", "1 day -25 hours", "-1 us", "-1 month"}
if int(VERSION) >= 17:
    for _of, _values, _distances in (TYPES[ty] for ty in ("date", "timestamp", "timestamptz")):
        _distances += ["infinity", "-infinity"]
    NEGATIVE.add("-infinity")
KEY = "SET timezone = UTC; SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;\n"
# Does a statement; gives its result or its SQLSTATE.
TRY = """
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; BEGIN EXECUTE statement INTO result; RETURN result; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
"""
EXCLUSIONS = ["", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES"]


def sealed(ty):
    return "enc_decimal" if ty == "numeric" else f"enc_{ty}"


class Windows:
    """Draws values and windows, each as texts for the plain side and for the encrypted one."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, ty):
        """Of a few hundred, so that some are equal and most have others near them."""
        if self.random.random() < 0.1:
            return "NULL"
        if self.random.random() < 0.2:
            return f"'{self.random.choice(TYPES[ty][1])}'"
        number = self.random.randrange(-100, 100)
        if ty == "date":
            return f"date '2024-03-01' + {number}"
        if ty.startswith("timestamp"):
            return f"{ty} '2024-03-01 00:00' + {number} * interval '5 hours'"
        return str(number if ty.startswith("int") else number / 4)

    def tables(self):
        columns = ", ".join(f"{ty}_ {ty}" for ty in TYPES)
        rows = ", ".join(f"({n}, {n % 3}, {', '.join(map(self.value, TYPES))})" for n in range(ROWS))
        cells = ", ".join(f"encdb.{sealed(ty)}_encrypt({ty}_) AS {ty}_" for ty in TYPES)
        return (f"CREATE TABLE p (n int, part int, {columns}); INSERT INTO p VALUES {rows};"
                f"CREATE TABLE e AS SELECT n, part, {cells} FROM p;\n")

    def distance(self, ty):
        of = self.random.choice(TYPES[ty][0])
        value = self.random.choice(TYPES[ty][2])
        if value in NEGATIVE | {FAR} and self.random.random() < 0.6:
            value = TYPES[ty][2][2]
        return self.both(of, "0" if of == "int4" and abs(int(value)) > 2**31 else value)

    def both(self, ty, value):
        plain = f"'{value}'::{ty}"
        return (plain, plain if ty == "interval" else f"encdb.{sealed(ty)}_encrypt({plain})")

    def ends(self, ty):
        """Where a frame begins and ends: the start is not behind the end, or the parser refuses it."""
        places = ["UNBOUNDED PRECEDING", "{} PRECEDING", "CURRENT ROW", "{} FOLLOWING", "UNBOUNDED FOLLOWING"]
        start, end = sorted(self.random.choices(range(5), k=2))
        start, end = min(start, 3), max(end, 1)
        if start in (0, 2) and end in (2, 4):
            start = 1
        makes = [self.distance(ty) if "{}" in places[it] else ("", "") for it in (start, end)]
        return [f"RANGE BETWEEN {places[start].format(makes[0][side])} AND {places[end].format(makes[1][side])}" for side in (0, 1)]

    def window(self):
        """A statement for each side, which has the rows of each row's frame in one text."""
        ty = self.random.choice(list(TYPES))
        order = f"{ty}_ {self.random.choice(['', 'DESC'])} {self.random.choice(['', 'NULLS FIRST', 'NULLS LAST'])}"
        part, exclude = self.random.choice(["", "PARTITION BY part "]), self.random.choice(EXCLUSIONS)
        ask = ("SELECT string_agg(n || ':' || c || '/' || coalesce(s, 0) || '/' || coalesce(q, 0), ' ' ORDER BY n) FROM "
               "(SELECT n, count(*) OVER w AS c, sum(n) OVER w AS s, sum(n * n) OVER w AS q FROM {} "
               "WINDOW w AS ({}ORDER BY {} {}{})) frames")
        return [ask.format(table, part, order, frame, exclude) for table, frame in zip("pe", self.ends(ty))]


class RangeFrames(Proxied):
    def servers(self, setup=""):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
            self.as_owner(server, KEY + setup)
            with self.subTest(form=form, seed=SEED):
                yield form, server

    def outcomes(self, server, statements):
        """What each statement ends with."""
        quoted = [statement.replace("'", "''") for statement in statements]
        asked = "".join(f"SELECT coalesce(pg_temp.try('{it}'), '(null)');\n" for it in quoted)
        return self.as_owner(server, f"SET timezone = UTC;\n{TRY}{asked}").splitlines()

    def test_frames_are_those_of_plain_columns(self):
        windows = Windows(SEED)
        setup, pairs = windows.tables(), [windows.window() for _ in range(WINDOWS)]
        for _, server in self.servers(setup):
            found = self.outcomes(server, [statement for pair in pairs for statement in pair])
            self.assertEqual(len(found), 2 * WINDOWS)
            plain, cells = found[0::2], found[1::2]
            wrong = [it for it in zip(pairs, plain, cells) if it[1] != it[2]]
            self.assertEqual(wrong[:2], [], f"{len(wrong)} of {WINDOWS} differ; PGSEAL_SEED={SEED}")
            # Frames of nothing, or of everything, would say little; and refusals are among them.
            counts = [int(row.split(":")[1].split("/")[0]) for it in plain if ":" in it for row in it.split()]
            self.assertGreater(sum(1 < it < 25 for it in counts), len(counts) / 4)
            self.assertGreater(sum(":" in it for it in plain), WINDOWS / 2)
            self.assertIn("22013", plain)

    def test_every_combination_of_values_at_the_ends(self):
        """in_range(value, base, distance, before, less) itself, with those distances that are none below zero."""
        more = {"date": ["2024-03-01"], "timestamp": ["2024-02-28 12:00"], "timestamptz": ["2024-02-29 01:30+00"],
                "numeric": ["1", "-7", "-12.5"], "float8": ["1", "-7", "2e307", "-2e307"]}
        for _, server in self.servers():
            for ty, (of, values, distances) in TYPES.items():
                for distance in of:
                    taken = [it for it in distances if it not in NEGATIVE | {FAR}]
                    within, outside, wrong = self.combinations(server, ty, [*values, *more.get(ty, ["1", "-7"])], distance, taken)
                    with self.subTest(type=ty, distance=distance):
                        self.assertEqual(wrong, "")
                        self.assertGreater(int(within), 10)
                        self.assertGreater(int(outside), 10)

    def combinations(self, server, ty, values, distance, distances):
        """How often the plain function says yes and no, and where the encrypted one says something else."""
        cell = "p" if distance == "interval" else f"encdb.{sealed(distance)}_encrypt(p)"
        values, distances = (", ".join(f"('{it}'::{of})" for it in these) for of, these in ((ty, values), (distance, distances)))
        return self.as_owner(server, f"""SET timezone = UTC;
            CREATE TEMP TABLE v AS SELECT p, encdb.{sealed(ty)}_encrypt(p) AS e FROM (VALUES {values}) r(p);
            CREATE TEMP TABLE d AS SELECT p, {cell} AS e FROM (VALUES {distances}) r(p);
            SELECT count(*) FILTER (WHERE plain), count(*) FILTER (WHERE NOT plain),
                string_agg(format('%s %s %s %s %s', a, b, c, before, less), '; ') FILTER (WHERE plain IS DISTINCT FROM cells)
            FROM (SELECT a.p AS a, b.p AS b, d.p AS c, before, less, pg_catalog.in_range(a.p, b.p, d.p, before, less) AS plain,
                encdb.in_range(a.e, b.e, d.e, before, less) AS cells
                FROM v a, v b, d, (VALUES (true), (false)) s(before), (VALUES (true), (false)) l(less)) asked""").split("|")

    def test_what_a_call_keeps_is_of_its_arguments(self):
        """An end is kept for the next value; the other end, another base and another distance have ends of their own."""
        setup = "CREATE TABLE v AS SELECT g AS n, encdb.enc_int4_encrypt(g) AS i FROM generate_series(1, 3) g;"
        for _, server in self.servers(setup):
            asked = {"(2, 2, 1, true)": "f", "(2, 2, 1, false)": "t", "(3, 2, 1, false)": "t", "(3, 1, 1, false)": "f",
                     "(3, 1, 2, false)": "t", "(1, 3, 2, true)": "t"}
            found = self.as_owner(server, f"""SELECT encdb.in_range(cell[value], cell[base], cell[distance], before, true)
                FROM (SELECT array_agg(i ORDER BY n) AS cell FROM v) cells,
                (VALUES {', '.join(asked)}) asked(value, base, distance, before)""")
            self.assertEqual(found.split(), list(asked.values()))

    def test_distances_below_zero_and_ends_beyond_the_type(self):
        ends = {"int4": ("1", "2147483647", "2147483647"), "numeric": ("1", "9" * 131072, "1" + "0" * 131071),
                "float8": ("1.7e308", "Infinity", "1e308"), "date": ("2024-01-01", "5874897-12-31", None),
                "timestamp": ("294276-12-31", "2024-01-01", None), "timestamptz": ("2024-01-01", "2024-01-01", None)}
        rows = (", ".join(f"encdb.{sealed(ty)}_encrypt('{values[n]}'::{ty}) AS {ty}_" for ty, values in ends.items()) for n in (0, 1))
        ask = "SELECT count(*) OVER (ORDER BY {} RANGE BETWEEN {} PRECEDING AND {} FOLLOWING) FROM v"
        for _, server in self.servers("CREATE TABLE v AS SELECT " + " UNION ALL SELECT ".join(rows)):
            for ty in ("int4", "numeric", "float8"):
                zero, below, large = (f"encdb.{sealed(ty)}_encrypt('{it}'::{ty})" for it in (0, -1, ends[ty][2]))
                for pair in ((below, zero), (zero, below)):
                    message = "22013|invalid preceding or following size in window function"
                    self.as_owner(server, ask.format(f"{ty}_", *pair), error=message)
                # An end beyond the type is none that a value reaches.
                values = ", ".join(f"('{it}'::{ty})" for it in ends[ty][:2])
                plain = server.psql(f"SELECT count(*) OVER (ORDER BY n RANGE BETWEEN 0 PRECEDING AND '{ends[ty][2]}'::{ty} FOLLOWING) FROM (VALUES {values}) v (n)")
                self.assertEqual(self.as_owner(server, ask.format(f"{ty}_", zero, large)), plain)
            for column in ("timestamp_", "date_"):
                self.as_owner(server, ask.format(column, "'1 day'", "'400 days'"), error="22008|out of range")
            self.as_owner(server, ask.format("timestamptz_", "'1 day'", "'-1 us'"), error="22013|invalid preceding")

    def test_rights(self):
        setup = """CREATE TABLE v AS SELECT g AS n, encdb.enc_int4_encrypt(g) AS i,
            encdb.enc_date_encrypt(date '2024-01-01' + g) AS d FROM generate_series(1, 40) g;"""
        for _, server in self.servers(setup):
            five = self.as_owner(server, "SELECT encdb.enc_int4_encrypt(5)")
            for column, distance in (("i", f"'{five}'"), ("d", "'5 days'")):
                ask = f"SELECT sum(c) FROM (SELECT count(*) OVER (ORDER BY {column} RANGE {distance} PRECEDING) AS c FROM v) s"
                others = "convert-in,text,aggregate,cast,extract,compare-plain,limit"
                server.psql(ask, error="PE009|no session is open")
                self.as_owner(server, ask, operations=f"{others},compare-derived", error="has not granted arithmetic to this session")
                self.as_owner(server, ask, operations=f"{others},arithmetic", error="has not granted compare-derived to this session")
                self.assertEqual(self.as_owner(server, ask, operations="arithmetic,compare-derived"), "225")

    def test_requests_of_a_row(self):
        setup = """CREATE TABLE v AS SELECT g AS n, encdb.enc_int4_encrypt(g) AS i,
            encdb.enc_timestamp_encrypt(timestamp '2024-01-01' + g * interval '1 hour') AS t FROM generate_series(1, 500) g;"""
        for form, server in self.servers(setup):
            if form == "inline":
                continue
            five = self.as_owner(server, "SELECT encdb.enc_int4_encrypt(5)")
            for column, distance, sums in (("i", f"'{five}'", 5 * 500 + 500 - 15), ("t", "'5 hours'", 5 * 500 + 500 - 15)):
                asked = self.as_owner(server, f"""SELECT encdb.requests() AS before \\gset
                    SELECT sum(c) FROM (SELECT count(*) OVER (ORDER BY {column} RANGE {distance} PRECEDING) AS c FROM v) s;
                    SELECT encdb.requests() - :before""")
                found, requests = map(int, asked.splitlines())
                self.assertEqual(found, sums)
                self.assertLess(requests, 6 * 500)

    def test_what_the_parser_takes(self):
        """A literal or a parameter has the type that it has beside the plain column."""
        of = {"float4": "enc_float8", "date": "interval", "timestamp": "interval", "timestamptz": "interval"}
        for _, server in self.servers("CREATE TABLE v (" + ", ".join(f"{ty}_ {sealed(ty)}" for ty in TYPES) + ", text_ enc_text);"):
            for ty in TYPES:
                distance = of.get(ty, sealed(ty))
                frame = f"ORDER BY {ty}_ RANGE BETWEEN $1 PRECEDING AND $2 FOLLOWING"
                taken = server.psql(f"""PREPARE q AS SELECT count(*) OVER ({frame}) FROM v;
                    SELECT parameter_types FROM pg_prepared_statements""")
                self.assertEqual(taken, f"{{{distance},{distance}}}")
            frame = "SELECT count(*) OVER (ORDER BY {} RANGE {} PRECEDING) FROM v".format
            server.psql(frame("int4_", 5), error="0A000|not supported for column type enc_int4 and offset type integer")
            server.psql(frame("int4_", "'5'"), error="22P02|a value of an encrypted type is a cell in hexadecimal")
            server.psql(frame("numeric_", 1.5), error="0A000|not supported for column type enc_decimal and offset type numeric")
            server.psql(frame("date_", 5), error="0A000|not supported for column type enc_date and offset type integer")
            server.psql(frame("text_", "'a'"), error="0A000|not supported for column type enc_text")
            server.psql(frame("timestamp_", "'1 day'"))
            self.assertEqual(server.psql("SELECT count(*) FROM pg_opclass WHERE opcname LIKE 'enc_%' AND NOT amvalidate(oid)"), "0")

    def test_through_the_proxy(self):
        for form in FORMS:
            with self.subTest(form=form):
                directory = self.shop(form)
                connection = self.connect(directory)
                connection.autocommit = True
                cursor = connection.cursor()
                for n in range(1, 13):
                    cursor.execute("INSERT INTO person (id, age, born, paid, seen) VALUES (%s, %s, %s, %s, %s)",
                                   (n, 700000000 + 2 * n, date(2024, 1, 31) + timedelta(days=7 * n), f"{n}.75", f"2024-01-01 {n}:00+00"))

                def counts(order, frame, *values):
                    cursor.execute(f"SELECT count(*) OVER (ORDER BY {order} RANGE {frame}) FROM person ORDER BY id", values)
                    return [count for count, in cursor.fetchall()]

                three = [1, 2, 3, *[4] * 9]
                self.assertEqual(counts("born", "'21 days' PRECEDING"), three)
                self.assertEqual(counts("born", "BETWEEN interval '3 weeks' PRECEDING AND CURRENT ROW"), three)
                self.assertEqual(counts("seen", "%s PRECEDING", timedelta(hours=3)), three)
                self.assertEqual(counts("seen DESC", "BETWEEN '0' PRECEDING AND %s FOLLOWING", "3 hours"), three)
                self.assertEqual(counts("age", "7::enc_int4 PRECEDING"), three)
                self.assertEqual(counts("paid", "%s::enc_decimal PRECEDING", 3.0001), three)
                self.assertEqual(counts("age", "7 PRECEDING"), three)
                self.assertEqual(counts("age DESC", "BETWEEN CURRENT ROW AND %s FOLLOWING", 7), three)
                self.assertEqual(counts("paid", "3.0001 PRECEDING"), three)
                with self.assertRaisesRegex(psycopg2.errors.FeatureNotSupported, "nothing was sent"):
                    cursor.execute("SELECT count(*) OVER (w RANGE 700000033 PRECEDING) FROM person WINDOW w AS (ORDER BY age)")
                with self.assertRaises(psycopg2.errors.InvalidPrecedingOrFollowingSize):
                    counts("age", "(-7)::enc_int4 PRECEDING")
                # A parameter has the column's type, said or not.
                for given in ("$1::enc_int4", "$1"):
                    ask = f"SELECT count(*) OVER (ORDER BY age RANGE {given} PRECEDING) FROM person ORDER BY id".encode()
                    with Raw(directory) as driver:
                        seven = b"\0\0\0\0\0\1\0\0\0\x017\0\0"
                        messages = driver.cycle(b"P", b"\0" + ask + b"\0\0\0", b"B", seven, b"E", b"\0\0\0\0\0")
                    self.assertEqual([int(body[6:]) for tag, body in messages if tag == b"D"], three, messages)
                self.assert_never_in_clear("700000014", "700000033", "11.75", "2024-03-27")
                (self.directory / "owner").unlink()


if __name__ == "__main__":
    main(__file__, TOOLS)
