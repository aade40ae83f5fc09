#!/usr/bin/env python3
"""Encrypted intervals: differences of times, columns, indexes, aggregates and clients, with PostgreSQL's results.

That the arithmetic is PostgreSQL's to the last digit is asked by tests/encdb-values, and its combinations with all other types by
test_types.py and test_differential.py.
"""

import datetime
import os
import random
import re
import struct
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, KEY, TOOLS, VERSION, gives_infinite_interval  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied, Raw  # noqa: E402

SEED = os.environ.get("PGSEAL_SEED", "5")
ROWS = 24
QUIET = "\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\n"
STYLES = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"]
# Columns of each table: two timestamps, two of timestamptz, a date, two intervals, a number.
COLUMNS = {"a": "timestamp", "b": "timestamp", "c": "timestamptz", "d": "timestamptz", "e": "date", "i": "interval", "j": "interval", "f": "float8"}
EXPRESSIONS = ["a - b", "c - d", "e - a", "c - e", "a - c", "age(a, b)", "age(c, d)", "age(e, a)", "age(e, e)", "a + i", "i + c", "e + i", "d - i", "e - j", "i + j", "i - j", "- i",
               "i * f", "f * j", "i / f", "(a - b) * 2.5::{float8} / f", "a - (a - b)", "b + age(a, b)", "i::{text}", "(i::{text})::{interval}", "extract(epoch FROM a - b)",
               "extract(day FROM j)", "extract(quarter FROM i)", "extract(dow FROM i)", "date_part('second', i)", "date_part('epoch', j)", "coalesce(i, j)", "greatest(i, j)", "nullif(i, j)"]
CONDITIONS = ["i < j", "i = j", "i <> j", "i >= j", "a - b > i", "age(c, d) <= j", "i BETWEEN - j AND j", "i IN (j, a - b)", "i IS DISTINCT FROM j", "i IS NULL", "i + j = j + i"]
WHOLE = ["sum(i)", "avg(i)", "min(i)", "max(j)", "sum(a - b)", "avg(c - d)", "max(age(a, b))", "count(DISTINCT i)", "count(i)"]
SPANS = """
CREATE TABLE s AS SELECT g AS n, p, encdb.enc_interval_encrypt(p) AS e, t AS q, encdb.enc_timestamptz_encrypt(t) AS f, encdb.enc_timestamptz_encrypt(t + p) AS until
    FROM generate_series(1, 3000) g, LATERAL (SELECT CASE g % 7 WHEN 0 THEN NULL WHEN 1 THEN g / 30 * interval '1 mon' ELSE g * interval '1 day' END,
        '2024-01-01 00:00+00'::timestamptz + g * interval '1 hour') v(p, t);
"""
SHIFT = ("CREATE TABLE person (id int PRIMARY KEY, starts enc_timestamptz, ends enc_timestamptz, pause enc_interval, pauses enc_interval[], note text)")


def sealed(ty):
    return {"float8": "enc_float8"}.get(ty, f"enc_{ty}")


class Values:
    """Random rows: times that are often near each other, intervals of which some are equal, NULL."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, ty):
        pick, number = self.random.choice, self.random.randint
        if self.random.random() < 0.1:
            return "NULL"
        if ty == "float8":
            return quoted(pick(["0", "1", "-1.5", "0.1", "1e10", "1e300", "NaN", "Infinity", str(number(-50, 50) / 4)]))
        if ty == "interval":
            return quoted(pick(["1 mon", "30 days", "720:00:00", "0", "-1 mons +30 days", "2147483647 days", "00:00:00.000001", "-178956970 years",
                                f"{number(-30, 30)} mons {number(-40, 40)} days {number(-10 ** 11, 10 ** 11)} us"]))
        year = pick([number(2023, 2025), number(2023, 2025), number(1, 9999)])
        date = f"{year:04}-{number(1, 12):02}-{number(1, 28):02}"
        return quoted(date if ty == "date" else f"{date} {number(0, 23):02}:{number(0, 59):02}:{pick(['00', '30.5', '59.999999'])}")

    def tables(self):
        columns = ", ".join(f"{name} {ty}" for name, ty in COLUMNS.items())
        rows = ", ".join(f"({n}, " + ", ".join(map(self.value, COLUMNS.values())) + ")" for n in range(ROWS))
        cells = ", ".join(f"encdb.{sealed(ty)}_encrypt({name}) AS {name}" for name, ty in COLUMNS.items())
        types = ["interval", "timestamp", "timestamptz", "decimal", "float8", "text"]
        shown = "".join(f"CREATE FUNCTION shown(enc_{ty}) RETURNS text LANGUAGE sql AS 'SELECT encdb.decrypt($1)::text';" for ty in types)
        return (f"{KEY}CREATE TABLE p (n int, {columns}); INSERT INTO p VALUES {rows}; CREATE TABLE t AS SELECT n, {cells} FROM p;"
                f"CREATE FUNCTION shown(anyelement) RETURNS text LANGUAGE sql AS 'SELECT $1::text';{shown}\n")


def quoted(text):
    return f"'{text}'"


def of(expression, is_sealed):
    """An expression over p, or over t."""
    number = "encdb.enc_float8_encrypt(2.5)" if is_sealed else "2.5::float8"
    types = {ty: sealed(ty) if is_sealed else ty for ty in ("text", "interval")}
    return expression.replace("2.5::{float8}", number).format(**types)


class Intervals(Proxied):
    maxDiff = None

    def answers(self, server, prologue, statements):
        """The rows and the SQLSTATE of each statement."""
        script = prologue + QUIET + "".join(f"\\echo ---\n{one};\n\\echo :SQLSTATE\n" for one in statements) + "\\echo ---\n"
        done = server.run("psql", "-X", "-q", "-A", "-t", "-d", "postgres", "-U", "postgres", input=script, check=False)
        answers = done.stdout.split("---\n")[1:-1]
        self.assertEqual(len(answers), len(statements), done.stderr[-2000:])
        return answers

    def compare(self, server, asked):
        """Asks p and t the same, and returns the answers."""
        plain = self.answers(server, "SET timezone = UTC;", [one for one, _ in asked])
        asked = [(one, re.sub(r"(?<![\w.])age\(", "encdb.age(", other)) for one, other in asked]
        cells = self.answers(server, self.opening() + "SET timezone = UTC;", [other for _, other in asked])
        # Of negative months it is another one since 18.
        has_quarter = [int(VERSION) >= 18 and "quarter" in one for one, _ in asked]
        wrong = [(*ask, one, other) for ask, one, other, is_other in zip(asked, plain, cells, has_quarter)
                 if one != other and not is_other and not gives_infinite_interval(one, other)]
        self.assertEqual(wrong[:3], [], f"{len(wrong)} of {len(asked)} differ; PGSEAL_SEED={SEED}")
        return plain

    def test_results_are_postgresqls(self):
        """Each expression of each row, so that one error hides no other; conditions of all pairs; aggregates of all rows."""
        for server in self.servers():
            self.as_owner(server, Values(SEED).tables().removeprefix(KEY))
            each = [(f"SELECT shown({of(one, False)}) FROM p WHERE n = {n}", f"SELECT shown({of(one, True)}) FROM t WHERE n = {n}") for one in EXPRESSIONS for n in range(ROWS)]
            plain = self.compare(server, each)
            states = [one.split("\n")[-2] for one in plain]
            self.assertGreater(states.count("00000"), len(states) * 2 / 3)
            self.assertLessEqual({"22008", "22012", "0A000"}, {*states})
            pairs = [(f"SELECT l.n, r.n FROM {{0}} l, {{0}} r WHERE r.n < 12 AND {one} ORDER BY 1, 2") for one in
                     (" ".join({"i": "l.i", "j": "r.j", "a": "l.a", "b": "r.b", "age(c,": "age(l.c,", "d)": "r.d)"}.get(word, word) for word in one.replace("(j,", "(r.j,").split())
                      for one in CONDITIONS)]
            pairs = [one.replace("a - b)", "l.a - l.b)") for one in pairs]
            self.compare(server, [(one.format("p"), one.format("t")) for one in pairs])
            some = "WHERE abs(extract(epoch FROM i)) < 1e10 AND n < 12"
            kept = f"SELECT array_agg(n) AS kept FROM p {some} \\gset\n"
            wholes = [f"{kept}SELECT shown({one}) FROM {{}} WHERE n = ANY (:'kept')" for one in WHOLE]
            self.compare(server, [(one.format("p"), one.format("t")) for one in wholes])
            grouped = "SELECT count(*) FROM {} GROUP BY i ORDER BY min(n)"
            self.compare(server, [(grouped.format("p"), grouped.format("t"))])

    def test_infinite_times_have_no_difference(self):
        for server in self.servers():
            for ask in ("SELECT x - y", "SELECT encdb.age(x, y)", "SELECT encdb.age(y, x)"):
                for one, other in (("infinity", "2024-01-01"), ("2024-01-01", "-infinity"), ("infinity", "infinity")):
                    values = f"FROM (SELECT encdb.enc_timestamp_encrypt('{one}'), encdb.enc_timestamp_encrypt('{other}')) v(x, y)"
                    error = "cannot subtract infinite timestamps" if " - " in ask else "timestamp without time zone out of range"
                    self.as_owner(server, f"{ask} {values}", error=error)
            if int(VERSION) >= 17:
                self.as_owner(server, "SELECT encdb.enc_interval_encrypt('infinity')", error="interval out of range")

    def test_equal_intervals_are_found(self):
        """By a B-tree, by hashes, by merging; 1 mon is 30 days. An index is unique by that."""
        for server in self.servers(SPANS + "CREATE INDEX b ON s (e); CREATE INDEX h ON s USING hash (e); ANALYZE s;"):
            for off in (["enable_seqscan", "enable_hashjoin"], ["enable_indexscan", "enable_bitmapscan", "enable_mergejoin"], ["enable_nestloop", "enable_hashjoin"]):
                settings = "".join(f"SET {one} = off;" for one in off)
                joined = self.as_owner(server, settings + "SELECT count(*), sum(l.n), sum(r.n) FROM s l JOIN s r ON l.e = r.e")
                self.assertEqual(joined, server.psql("SELECT count(*), sum(l.n), sum(r.n) FROM s l JOIN s r ON l.p = r.p"))
                found = self.as_owner(server, settings + "SELECT count(*) FROM s WHERE e = encdb.enc_interval_encrypt('3 mons')")
                self.assertEqual(found, server.psql("SELECT count(*) FROM s WHERE p = '90 days'"))
                ordered = self.as_owner(server, settings + "SELECT md5(string_agg(n::text, ',')) FROM (SELECT n FROM s ORDER BY e DESC NULLS LAST, n) x")
                self.assertEqual(ordered, server.psql("SELECT md5(string_agg(n::text, ',')) FROM (SELECT n FROM s ORDER BY p DESC NULLS LAST, n) x"))
            plan = self.as_owner(server, "EXPLAIN (COSTS OFF) SELECT * FROM s WHERE e > encdb.enc_interval_encrypt('2999 days')")
            self.assertIn("Index", plan)
            self.as_owner(server, "CREATE TABLE u (e enc_interval UNIQUE); INSERT INTO u VALUES (encdb.enc_interval_encrypt('1 mon'))")
            self.as_owner(server, "INSERT INTO u VALUES (encdb.enc_interval_encrypt('720:00'))", error="duplicate key value")
            self.assertEqual(self.as_owner(server, "SELECT count(DISTINCT e), count(DISTINCT encdb.decrypt(e)) FROM s"), "{0}|{0}".format(server.psql("SELECT count(DISTINCT p) FROM s")))
            # A plain interval that the server has, by an index and without.
            for settings in ("SET enable_seqscan = off;", "SET enable_indexscan = off; SET enable_bitmapscan = off;"):
                beside = self.as_owner(server, settings + "SELECT count(*), count(*) FILTER (WHERE p = e) FROM s WHERE e < now() - (now() - interval '40 days')")
                self.assertEqual(beside, "{0}|{0}".format(server.psql("SELECT count(*) FROM s WHERE p < '40 days'")))

    def test_rights_and_requests(self):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "", conf="max_parallel_workers_per_gather = 0\n")
            self.as_owner(server, KEY + SPANS)
            day = "SELECT encdb.enc_interval_encrypt('1 day') AS day \\gset\n"
            ask = "SELECT count(*) FROM s WHERE until - f > :'day'"
            for ask_of in ("SELECT count(until - f) FROM s", "SELECT count(encdb.age(until, f)) FROM s", "SELECT count(f - e) FROM s", "SELECT count(e + e) FROM s", "SELECT count(- e) FROM s"):
                self.as_owner(server, ask_of, operations="convert-in,compare-derived", error="has not granted arithmetic to this session")
            self.as_owner(server, "SELECT sum(e) FROM s", operations="arithmetic", error="has not granted aggregate to this session")
            self.as_owner(server, "SELECT e > interval '1 day' - p FROM s", operations="arithmetic,compare-derived", error="has not granted compare-plain to this session")
            self.as_owner(server, "SELECT extract(day FROM e) FROM s", operations="arithmetic", error="has not granted extract to this session")
            self.as_owner(server, day + ask, operations="convert-in,arithmetic", error="has not granted compare-derived to this session")
            expected = server.psql("SELECT count(*) FROM s WHERE q + p - q > '1 day'")
            self.assertEqual(self.as_owner(server, day + ask, operations="convert-in,arithmetic,compare-derived"), expected)
            if form == "isolated":
                counted = f"{day}SELECT encdb.requests() AS before \\gset\n{ask};\nSELECT encdb.requests() - :before"
                self.assertLess(int(self.as_owner(server, counted).splitlines()[-1]), 40)
            plan = self.as_owner(server, "EXPLAIN (COSTS OFF, VERBOSE) SELECT extract(month FROM encdb.age(until, f)) FROM s")
            self.assertIn("$$m", plan)
            for ask_of in ("SELECT age(f) FROM s", "SELECT now() - f FROM s", "SELECT q - f FROM s", "SELECT f - q FROM s", "SELECT e * 2.5 FROM s"):
                self.as_owner(server, ask_of, error="does not exist")

    def test_a_driver_through_the_proxy(self):
        directory = self.shop(table=SHIFT)
        connection = self.connect(directory)
        cursor = connection.cursor()
        day, noon = datetime.timedelta(days=1, hours=2.5), datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.timezone.utc)
        cursor.execute("INSERT INTO person (id, starts, ends, pause, pauses) VALUES (%s, %s, %s, %s, %s)", (1, noon, noon + day, day, [day, None]))
        cursor.execute("INSERT INTO person (id, starts, pause) VALUES (2, '2026-01-01 00:00Z', '4321 hours'), (3, NULL, 'P1Y2M3DT4H5M6S')")
        cursor.execute("SELECT id, pause, pauses, ends - starts, age(ends, starts) FROM person ORDER BY id")
        first = cursor.fetchone()
        self.assertEqual(first, (1, day, [day, None], day, day))
        self.assertEqual([column.type_code for column in cursor.description], [23, 1186, 1187, 1186, 1186])
        self.assertEqual(cursor.fetchone(), (2, datetime.timedelta(hours=4321), None, None, None))
        for condition, value, found in (("pause = %s", day, [1]), ("pause > %s", datetime.timedelta(days=2), [2, 3]), ("ends - starts = %s", day, [1]), ("starts + pause = ends", None, [1]),
                                        ("pause * 2 < %s", datetime.timedelta(days=3), [1]), ("ends - %s < interval '90' minute", noon + day - datetime.timedelta(hours=1), [1]),
                                        ("age(ends, %s) = interval '1 day 02:30'", noon, [1]), ("starts + %s > '2026-01-02 00:00Z'", datetime.timedelta(hours=24), [1]),
                                        ("%s = ANY (pauses)", day, [1]), ("extract(year FROM pause) = 1", None, [3]), ("pause < interval '4322' hour", None, [1, 2])):
            cursor.execute(f"SELECT id FROM person WHERE {condition} ORDER BY id", () if value is None else (value,))
            self.assertEqual([row[0] for row in cursor.fetchall()], found, condition)
        cursor.execute("SELECT sum(pause), max(pause), avg(ends - starts) FROM person WHERE id < 3")
        self.assertEqual(cursor.fetchone(), (day + datetime.timedelta(hours=4321), datetime.timedelta(hours=4321), day))
        cursor.execute("UPDATE person SET pause = pause + interval '1 hour' WHERE id = 1 RETURNING pause")
        self.assertEqual(cursor.fetchone(), (day + datetime.timedelta(hours=1),))
        connection.commit()
        for refused in ("SELECT now() - starts FROM person", "UPDATE person SET pause = now() - now()"):
            with self.assertRaises(psycopg2.Error):
                cursor.execute(refused)
            connection.rollback()
        self.assert_never_in_clear("26:30", "2.5 hours", "4321 hours", "P1Y2M", "1 day 02:30", "9000.0")

    def test_styles(self):
        """Literals are read and results shown in the session's style, as the server does with plain ones."""
        directory = self.shop(table=SHIFT)
        self.cluster_.psql("CREATE TABLE plain (id int, pause interval)")
        texts = ["-1 2:03:04", "-1-2", "1 year 2 mons -3 days 4 hours", "P1Y-2DT3.5S", "@ 1 day 2 secs ago", "-1 day 2:00", "0"]
        for style in STYLES:
            for table in ("plain", "person"):
                rows = ", ".join(f"({n}, '{text}')" for n, text in enumerate(texts))
                script = f"SET IntervalStyle = {style};\nTRUNCATE {table};\nINSERT INTO {table} (id, pause) VALUES {rows};\nSELECT id, pause FROM {table} ORDER BY id;"
                script += f"\n\\copy (SELECT pause FROM {table} ORDER BY id) TO STDOUT"
                if table == "plain":
                    expected = self.psql(directory, script)
            self.assertEqual(self.psql(directory, script), expected, style)
        # In one message with the statement that sets the style nobody knows it yet.
        self.assertIn("give each part its sign", self.psql(directory, "", "-c", "SET IntervalStyle = sql_standard; INSERT INTO person (id, pause) VALUES (9, '-1 2:03')", code=1))
        self.psql(directory, "", "-c", "SET IntervalStyle = sql_standard; INSERT INTO person (id, pause) VALUES (9, '-1 -2:03')")
        self.assertEqual(self.psql(directory, "SELECT pause FROM person WHERE id = 9"), ["-1 days -02:03:00"])
        self.assertIn("invalid input syntax", self.psql(directory, "INSERT INTO person (id, pause) VALUES (10, '1 dya')", code=3))
        self.assertIn("interval field value out of range", self.psql(directory, "INSERT INTO person (id, pause) VALUES (10, '1-12')", code=3))

    def test_binary_parameters_and_results(self):
        directory = self.shop(table=SHIFT)
        value = struct.pack("!qii", -1_500_000, 3, -14)
        parse = b"\0" + b"INSERT INTO person (id, pause) VALUES (1, $1) RETURNING pause\0" + struct.pack("!HI", 1, 1186)
        bind = b"\0\0" + struct.pack("!HHHI", 1, 1, 1, 16) + value + struct.pack("!HH", 1, 1)
        with Raw(directory) as driver:
            answer = driver.cycle(b"P", parse, b"D", b"S\0", b"B", bind, b"E", b"\0" + struct.pack("!I", 0))
            self.assertEqual([body[6:] for tag, body in answer if tag == b"D"], [value])
            described = next(body for tag, body in answer if tag == b"T")
            self.assertEqual(struct.unpack("!IhI", described[2 + len(b"pause\0") + 6:][:10]), (1186, 16, 0xFFFFFFFF))
            infinite = struct.pack("!qii", 2 ** 63 - 1, 2 ** 31 - 1, 2 ** 31 - 1)
            answer = driver.cycle(b"P", parse, b"B", bind.replace(value, infinite), b"E", b"\0" + struct.pack("!I", 0))
            self.assertEqual([body.split(b"\0")[0:3] for tag, body in answer if tag == b"E" and b"C22008" in body] != [], True, answer)
        self.assertEqual(self.psql(directory, "SELECT pause FROM person"), ["-1 years -2 mons +3 days -00:00:01.5"])
        shown = self.client(self.cluster_, "sql", "-tA", "SELECT pause, ends - starts FROM person WHERE pause < $1", "1 hour")
        self.assertEqual(shown.strip(), "-1 years -2 mons +3 days -00:00:01.5|")


if __name__ == "__main__":
    main(__file__, TOOLS)
