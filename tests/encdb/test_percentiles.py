#!/usr/bin/env python3
"""Ordered-set aggregates of encrypted values are those of the plain ones: percentile_cont, percentile_disc, mode, and the
hypothetical rank, dense_rank, percent_rank and cume_dist.

percentile_cont is encdb's own. The others are PostgreSQL's, which work on every type that has an order; what they ask of the evaluator,
and that a few requests do for many rows, is tested here.
"""

import os
import random
import secrets
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

SEED = int(os.environ.get("PGSEAL_SEED") or secrets.randbits(32))
ROWS = 300
KEY = "SET timezone = UTC; SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;\n"
# Of each plain type: its encrypted one, and values. Those of a numeric have one form each: which of 1.0 and 1.00 an aggregate gives is
# decided by the order in which a sort leaves equal values.
TYPES = {
    "int4": ("enc_int4", ["2147483647", "-2147483648", *map(str, range(-9, 9))]),
    "int8": ("enc_int8", [f"{2**63 - 1}", f"{-2**63}", "9007199254740993", *map(str, range(-9, 9))]),
    "float4": ("enc_float4", ["NaN", "Infinity", "-Infinity", "3e38", "0.1", "-2.25", "7", "1e-30"]),
    "float8": ("enc_float8", ["NaN", "Infinity", "-Infinity", "1.7e308", "-1.7e308", "0.1", "0.2", "-2.25", "5e-324"]),
    "numeric": ("enc_decimal", ["NaN", "Infinity", "-Infinity", "0", "0.1", "-12.5", "1e300", "12345678901234567890.123", "0.3333333333333333333"]),
    "bool": ("enc_bool", ["t", "f"]),
    "date": ("enc_date", ["infinity", "-infinity", "2024-02-29", "2024-03-01", "1999-12-31"]),
    "timestamp": ("enc_timestamp", ["infinity", "2024-02-29 12:00", "2024-02-29 12:00:00.000001", "0044-03-15 BC"]),
    "timestamptz": ("enc_timestamptz", ["-infinity", "2024-02-29 12:00+00", "2024-03-31 01:30+00"]),
    "uuid": ("enc_uuid", [f"00000000-0000-0000-0000-{n:012x}" for n in range(7)]),
    "bytea": ("enc_bytea", ["\\x", "\\x00", "\\x00ff", "\\xff"]),
    "text": ("enc_text", ["", "a", "A", "ab", "b", "\u00e4", "z"]),
}
NUMBERS = ["int4", "int8", "float4", "float8", "numeric"]
FRACTIONS = ["0", "1", "0.5", "0.25", "0.9", "0.333", "1e-300", "0.9999999999999999"]
REFUSED = ["-0.1", "1.1", "'NaN'::float8", "'Infinity'::float8"]
# Does a statement; gives its result or its SQLSTATE.
TRY = """
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; BEGIN EXECUTE statement INTO result; RETURN result; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
"""
# The elements of an array, opened.
OPENED = "(SELECT array_agg(encdb.decrypt(x) ORDER BY n) FROM unnest({}) WITH ORDINALITY u(x, n))"


class Sets:
    """Draws tables and statements, for the plain side and the encrypted one."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, ty):
        return "NULL" if self.random.random() < 0.1 else f"'{self.random.choice(TYPES[ty][1])}'"

    def tables(self):
        columns = ", ".join(f"{ty}_ {ty}" for ty in TYPES)
        rows = ", ".join(f"({n}, {n % 37}, {', '.join(map(self.value, TYPES))})" for n in range(ROWS))
        cells = ", ".join(f"encdb.{TYPES[ty][0]}_encrypt({ty}_) AS {ty}_" for ty in TYPES)
        return (f"SET timezone = UTC; CREATE TABLE p (n int, g int, {columns}); ALTER TABLE p ALTER text_ TYPE text COLLATE \"C\"; INSERT INTO p VALUES {rows};"
                f"CREATE TABLE e AS SELECT n, g, {cells} FROM p ORDER BY n; ALTER TABLE e ALTER text_ TYPE enc_text COLLATE \"C\";\n")

    def rows(self):
        """Of one group, which has about eight values, of all, or of none."""
        return self.random.choice([f"g = {self.random.randrange(37)}", f"g = {self.random.randrange(37)}", "true", "false", "n = 5"])

    def order(self):
        return self.random.choice(["", " DESC", " NULLS FIRST", " USING <", " USING >"])

    def fraction(self):
        return self.random.choice(REFUSED if self.random.random() < 0.05 else FRACTIONS)

    def fractions(self):
        """An array of fractions."""
        some = [self.fraction() if self.random.random() < 0.9 else "NULL" for _ in range(self.random.choice([0, 1, 2, 3, 6]))]
        return f"ARRAY[{', '.join(some)}]::float8[]"

    def pair(self, aggregate, ty, arguments, is_array=False):
        """One statement for each side."""
        order, rows = self.order(), self.rows()
        call = f"{aggregate}({arguments}) WITHIN GROUP (ORDER BY {ty}_{order})"
        opened = OPENED.format("made") if is_array else "encdb.decrypt(made)"
        return (f"SELECT made::text FROM (SELECT {call} AS made FROM p WHERE {rows}) s",
                f"SELECT ({opened})::text FROM (SELECT {call} AS made FROM e WHERE {rows}) s")


class Percentiles(Confidential):
    def servers(self, setup=""):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "", conf="timezone = UTC\n")
            self.as_owner(server, KEY + setup)
            with self.subTest(form=form, seed=SEED):
                yield server

    def compare(self, server, pairs):
        """Has each pair of statements, for the plain table and for the cells, end alike."""
        asked = "".join("SELECT coalesce(pg_temp.try('{}'), '(null)');\n".format(it.replace("'", "''")) for pair in pairs for it in pair)
        found = self.as_owner(server, TRY + asked).splitlines()
        self.assertEqual(len(found), 2 * len(pairs))
        wrong = [it for it in zip(pairs, found[0::2], found[1::2]) if it[1] != it[2]]
        self.assertEqual(wrong[:2], [], f"{len(wrong)} of {len(pairs)} differ; PGSEAL_SEED={SEED}")
        return found[0::2]

    def test_percentiles_between_values(self):
        """Of every type of numbers, one fraction or an array of them."""
        for server in self.servers(Sets(SEED).tables()):
            sets = Sets(SEED + 1)
            pairs = [sets.pair("percentile_cont", ty, sets.fraction()) for ty in NUMBERS for _ in range(60)]
            found = self.compare(server, pairs)
            for outcome in ("22003", "(null)", "NaN"):
                self.assertIn(outcome, found)
            pairs = [sets.pair("percentile_cont", ty, sets.fractions(), True) for ty in NUMBERS for _ in range(40)]
            # What has no element is opened to no array.
            pairs = [(plain.replace("made::text", "CASE WHEN made <> '{}' THEN made END::text"), cells) for plain, cells in pairs]
            self.assertIn("22003", self.compare(server, pairs))

    def test_values_at_a_place_and_the_most_frequent(self):
        """Of every type that has an order."""
        for server in self.servers(Sets(SEED).tables()):
            sets, pairs = Sets(SEED + 2), []
            for ty in TYPES:
                pairs += [sets.pair("percentile_disc", ty, sets.fraction()) for _ in range(20)]
                pairs += [sets.pair("mode", ty, "") for _ in range(12)]
            found = self.compare(server, pairs)
            self.assertGreater(len(set(found)), 40)
            pairs = [sets.pair("percentile_disc", ty, sets.fractions(), True) for ty in TYPES for _ in range(10)]
            pairs = [(plain.replace("made::text", "CASE WHEN made <> '{}' THEN made END::text"), cells) for plain, cells in pairs]
            self.compare(server, pairs)

    def test_hypothetical_rows(self):
        """What rank a value would have: the answer is plain, as that of a comparison is."""
        for server in self.servers(Sets(SEED).tables()):
            sets, pairs = Sets(SEED + 3), []
            for ty, (sealed, values) in TYPES.items():
                for aggregate in ("rank", "dense_rank", "percent_rank", "cume_dist"):
                    value, order, rows = sets.random.choice(values), sets.order(), sets.rows()
                    plain, cell = f"'{value}'::{ty}", f"encdb.{sealed}_encrypt('{value}'::{ty})"
                    if ty == "text":
                        plain, cell = f"{plain} COLLATE \"C\"", f"{cell} COLLATE \"C\""
                    ask = f"SELECT {aggregate}({{}}) WITHIN GROUP (ORDER BY {ty}_{order})::text FROM {{}} WHERE {rows}"
                    pairs.append((ask.format(plain, "p"), ask.format(cell, "e")))
            found = self.compare(server, pairs)
            self.assertGreater(len(set(found)), 8)
            two = "SELECT rank({}, {}) WITHIN GROUP (ORDER BY int4_, date_ DESC)::text FROM {}"
            self.compare(server, [(two.format("3", "'2024-02-29'::date", "p"), two.format("encdb.enc_int4_encrypt(3)", "encdb.enc_date_encrypt('2024-02-29')", "e"))])

    def test_groups_and_filters(self):
        calls = ["percentile_cont(0.5) WITHIN GROUP (ORDER BY float8_)", "percentile_cont(0.1) WITHIN GROUP (ORDER BY float8_)",
                 "percentile_disc(0.5) WITHIN GROUP (ORDER BY numeric_) FILTER (WHERE n > 40)", "mode() WITHIN GROUP (ORDER BY int4_)",
                 "percentile_cont(g / 37.0) WITHIN GROUP (ORDER BY int8_)"]
        ask = "SELECT string_agg(format('%s %s %s %s %s %s', g, {}), '; ' ORDER BY g) FROM (SELECT g, {} FROM {} GROUP BY g) s"
        for server in self.servers(Sets(SEED).tables()):
            made = ", ".join(f"{call} AS v{n}" for n, call in enumerate(calls))
            plain = ask.format(", ".join(f"v{n}" for n in range(len(calls))), made, "p")
            cells = ask.format(", ".join(f"encdb.decrypt(v{n})" for n in range(len(calls))), made, "e")
            found, = self.compare(server, [(plain, cells)])
            self.assertEqual(found.count(";"), 36)

    def test_a_numeric_that_is_no_double(self):
        """PostgreSQL refuses each such value; here only one that the result is made of."""
        setup = """CREATE TABLE p AS SELECT x::numeric FROM unnest('{1,2,3,1e400}'::text[]) x;
            CREATE TABLE e AS SELECT encdb.enc_decimal_encrypt(x) AS x FROM p;"""
        for server in self.servers(setup):
            ask = "SELECT percentile_cont({}) WITHIN GROUP (ORDER BY x) FROM {}".format
            server.psql(ask(0.5, "p"), error="22003|out of range for type double precision")
            self.as_owner(server, ask(0.9, "e"), error="22003|out of range for type double precision")
            self.assertEqual(self.as_owner(server, f"SELECT encdb.decrypt(made) FROM ({ask(0.5, 'e').replace('FROM e', 'AS made FROM e')}) s"), "2.5")

    def test_rights(self):
        setup = """CREATE TABLE e AS SELECT encdb.enc_int4_encrypt(g) AS i, encdb.enc_float8_encrypt(g) AS f, encdb.enc_text_encrypt(g::text) COLLATE "C" AS t FROM generate_series(1, 10) g;"""
        others = "convert-in,convert-out,text,aggregate,cast,extract,compare-plain,limit"
        for server in self.servers(setup):
            server.psql("SELECT mode() WITHIN GROUP (ORDER BY i) FROM e", error="PE009|no session is open")
            # A place needs what sorting needs, and so does a percentile that is one of the doubles.
            for call in ("percentile_disc(0.5) WITHIN GROUP (ORDER BY t)", "mode() WITHIN GROUP (ORDER BY i)", "percentile_cont(0) WITHIN GROUP (ORDER BY f)"):
                self.assertTrue(self.as_owner(server, f"SELECT {call} FROM e", operations="none").startswith("\\x"), call)
            for call in ("percentile_cont(0.5) WITHIN GROUP (ORDER BY f)", "percentile_cont(0) WITHIN GROUP (ORDER BY i)", "percentile_cont('{0.3,0.5}'::float8[]) WITHIN GROUP (ORDER BY i)"):
                self.as_owner(server, f"SELECT {call} FROM e", operations=others, error="PE011|has not granted arithmetic to this session")
                self.as_owner(server, f"SELECT {call} FROM e", operations="arithmetic")
            # Computed cells are sorted by those who may compare them.
            self.as_owner(server, "SELECT percentile_cont(0) WITHIN GROUP (ORDER BY f + f) FROM e", operations="arithmetic", error="has not granted compare-derived")

    def test_requests(self):
        setup = "CREATE TABLE e AS SELECT g AS n, encdb.enc_int4_encrypt(g / 2) AS i FROM generate_series(1, 1000) g;"
        calls = ["percentile_cont(0.5) WITHIN GROUP (ORDER BY i)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY i)", "mode() WITHIN GROUP (ORDER BY i)",
                 "percentile_cont('{0.1,0.2,0.3}'::float8[]) WITHIN GROUP (ORDER BY i)"]
        for server in self.servers(setup):
            if server.psql("SHOW encdb.evaluator") == "inline":
                continue
            for call in calls:
                asked = self.as_owner(server, f"""SET max_parallel_workers_per_gather = 0; SELECT encdb.requests() AS before \\gset
                    SELECT {call} FROM e \\g /dev/null
                    SELECT encdb.requests() - :before""")
                self.assertTrue(1 <= int(asked) <= 12, (call, asked))

    def test_what_there_is_none_of(self):
        for server in self.servers("CREATE TABLE e (t enc_text, d enc_date, b enc_bool);"):
            for column in "tdb":
                server.psql(f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY {column}) FROM e", error="42883|function percentile_cont.numeric, enc_")
            self.assertEqual(server.psql("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (2)) v(x)"), "1.5")


class ThroughTheProxy(Proxied):
    def test_results_are_opened(self):
        for form in FORMS:
            with self.subTest(form=form):
                connection = self.connect(self.shop(form))
                connection.autocommit = True
                cursor = connection.cursor()
                for n in range(1, 5):
                    cursor.execute("INSERT INTO person (id, name, age, paid) VALUES (%s, %s, %s, %s)", (n, f"secret {n // 2}", 70000 + n, f"{3 * n}.25"))
                cursor.execute("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age), percentile_disc(0.5) WITHIN GROUP (ORDER BY paid), "
                               "mode() WITHIN GROUP (ORDER BY name), percentile_cont('{0,1}'::float8[]) WITHIN GROUP (ORDER BY age) FROM person")
                (middle, place, often, ends), = cursor.fetchall()
                self.assertEqual((middle, str(place), often, ends), (70002.5, "6.25", "secret 1", [70001.0, 70004.0]))
                with self.assertRaisesRegex(psycopg2.errors.FeatureNotSupported, "nothing was sent"):
                    cursor.execute("SELECT rank(70003) WITHIN GROUP (ORDER BY age) FROM person")
                self.assert_never_in_clear("70002", "70003", "6.25", "secret 1")
                (self.directory / "owner").unlink()


if __name__ == "__main__":
    main(__file__, TOOLS)
