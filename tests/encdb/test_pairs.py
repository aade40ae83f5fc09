#!/usr/bin/env python3
"""Aggregates of two encrypted numbers, corr, covar_pop, covar_samp and those of regression, are PostgreSQL's of the plain numbers.

The same rows are in plain columns and in cells. Results are compared digit by digit, and so are SQLSTATEs: of all rows, of groups, of
windows, of parallel workers, and of every pair of types.
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
ROWS = 400
AGGREGATES = ["corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy", "regr_sxx",
              "regr_syy", "regr_sxy"]
FLOATS = ["NaN", "Infinity", "-Infinity", "0", "-0", "1e300", "-1e300", "1e154", "1.5e-300"]
# Of each plain type: its encrypted one, and values that lead somewhere.
TYPES = {
    "int4": ("enc_int4", ["2147483647", "-2147483648", "0"]),
    "int8": ("enc_int8", [f"{2**63 - 1}", f"{-2**63}", "9007199254740993"]),
    "float4": ("enc_float4", ["NaN", "Infinity", "-Infinity", "3e38", "0.1", "-0"]),
    "float8": ("enc_float8", FLOATS),
    "numeric": ("enc_decimal", ["NaN", "Infinity", "-Infinity", "0.00", "0.1", "12345678901234567890.123456789", "1e300"]),
}
# Does a statement; gives its result or its SQLSTATE.
TRY = """
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; BEGIN EXECUTE statement INTO result; RETURN result; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
"""


class Rows:
    """Draws values of every type in groups of a few rows: some groups are on a line, some have values at the ends of their types."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, ty, group):
        """Groups of one kind have few special values, or a sum of many would always be NaN."""
        draw = self.random
        if draw.random() < 0.08:
            return "NULL"
        if group % 4 == 3 and draw.random() < 0.25:
            return f"'{draw.choice(TYPES[ty][1])}'"
        if group % 4 == 2:
            return "7" if draw.random() < 0.95 else "NULL"
        number = draw.randrange(-1000, 1000)
        return str(number if ty.startswith("int") else number / 8 if group % 4 == 0 else number / 7)

    def tables(self):
        columns = ", ".join(f"{ty}_{side} {ty}" for ty in TYPES for side in "yx")
        rows = ", ".join("({}, {}, {})".format(n, n % 80, ", ".join(self.value(ty, n % 80) for ty in TYPES for _ in "yx")) for n in range(ROWS))
        cells = ", ".join(f"encdb.{TYPES[ty][0]}_encrypt({ty}_{side}) AS {ty}_{side}" for ty in TYPES for side in "yx")
        return (f"CREATE TABLE p (n int, g int, {columns}); INSERT INTO p VALUES {rows};"
                f"CREATE TABLE e AS SELECT n, g, {cells} FROM p ORDER BY n;\n")


class Pairs(Confidential):
    def outcomes(self, server, statements):
        """What each statement ends with."""
        quoted = [statement.replace("'", "''") for statement in statements]
        asked = "".join(f"SELECT coalesce(pg_temp.try('{it}'), '(null)');\n" for it in quoted)
        return self.as_owner(server, f"SET max_parallel_workers_per_gather = 0;\n{TRY}{asked}").splitlines()

    def compare(self, server, pairs):
        """Has each pair of statements, for the plain table and for the cells, end alike."""
        found = self.outcomes(server, [statement for pair in pairs for statement in pair])
        self.assertEqual(len(found), 2 * len(pairs))
        wrong = [it for it in zip(pairs, found[0::2], found[1::2]) if it[1] != it[2]]
        self.assertEqual(wrong[:2], [], f"{len(wrong)} of {len(pairs)} differ; PGSEAL_SEED={SEED}")
        return found[0::2]

    def test_every_aggregate_of_every_pair_of_types(self):
        for server in self.servers(Rows(SEED).tables()):
            # One group at a time, and all rows of groups without special values.
            pairs = []
            for aggregate in AGGREGATES:
                for y in TYPES:
                    for x in TYPES:
                        rows = f"g = {random.Random(f'{SEED}{aggregate}{y}{x}').randrange(80)}"
                        for which in (rows, "g % 4 < 2", "g % 4 = 3"):
                            call, table = f"{aggregate}({y}_y, {x}_x)", f"(SELECT * FROM {{}} WHERE {which} ORDER BY n) v"
                            pairs.append((f"SELECT {call}::text FROM {table.format('p')}", f"SELECT encdb.decrypt({call})::text FROM {table.format('e')}"))
            found = self.compare(server, pairs)
            # Errors, NULL, NaN and numbers are all among them.
            for outcome in ("22003", "(null)", "NaN"):
                self.assertIn(outcome, found)
            self.assertGreater(len(set(found)), len(found) / 4)

    def test_groups_and_windows(self):
        """Small groups share requests; windows ask again after each row."""
        for server in self.servers(Rows(SEED).tables()):
            pairs = []
            for aggregate in AGGREGATES:
                call = f"{aggregate}(float8_y, numeric_x) FILTER (WHERE g % 4 < 3)"
                ask = "SELECT string_agg(g || ':' || coalesce(v::text, '-'), ' ' ORDER BY g) FROM (SELECT g, {} AS v FROM (SELECT * FROM {} ORDER BY n) t GROUP BY g) s"
                pairs.append((ask.format(call, "p"), ask.format(f"encdb.decrypt({call})", "e")))
                for frame in ("", " ROWS 5 PRECEDING", " ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING"):
                    call = f"{aggregate}(int4_y, float4_x) OVER (PARTITION BY g % 5 ORDER BY n{frame})"
                    ask = "SELECT string_agg(coalesce(v::text, '-'), ' ' ORDER BY n) FROM (SELECT n, {} AS v FROM {} WHERE n < 60 AND g % 4 < 3) s"
                    pairs.append((ask.format(call, "p"), ask.format(f"encdb.decrypt({call})", "e")))
            found = self.compare(server, pairs)
            self.assertTrue(all(" " in it for it in found), found)

    def test_rows_are_counted_in_clear_and_without_a_session(self):
        for server in self.servers(Rows(SEED).tables()):
            for y in TYPES:
                for x in TYPES:
                    counted = f"SELECT regr_count({y}_y, {x}_x), regr_count({y}_y, {x}_x) FILTER (WHERE false) FROM "
                    plain = server.psql(counted + "p")
                    self.assertEqual(server.psql(counted + "e"), plain)
                    self.assertNotIn(plain, ("400|0", "0|0"))

    def test_numbers_beyond_the_floats(self):
        """A cast to a float is refused as PostgreSQL's implicit one is."""
        setup = """CREATE TABLE p AS SELECT 1 AS y, ('1' || repeat('0', 400))::numeric AS x;
            CREATE TABLE e AS SELECT encdb.enc_int4_encrypt(y) AS y, encdb.enc_decimal_encrypt(x) AS x FROM p;"""
        for server in self.servers(setup):
            for arguments in ("y, x", "x, y"):
                server.psql(f"SELECT corr({arguments}) FROM p", error="22003|out of range")
                self.as_owner(server, f"SELECT corr({arguments}) FROM e", error="22003|out of range for type double precision")
            server.psql("SELECT corr(y, y > y) FROM e", error="42883|function corr.enc_int4, boolean. does not exist")

    def test_long_cells_in_pairs(self):
        """A pair that is longer than what is collected goes alone, and nothing comes between its cells."""
        setup = """CREATE TABLE p AS SELECT g AS n, (g || '.' || repeat('3', len))::numeric AS y, (g * g || '.' || repeat('7', len))::numeric AS x
            FROM generate_series(1, 30) g, LATERAL (SELECT CASE WHEN g % 3 = 0 THEN 16380 ELSE 1 END) l(len);
            CREATE TABLE e AS SELECT n, encdb.enc_decimal_encrypt(y) AS y, encdb.enc_decimal_encrypt(x) AS x FROM p ORDER BY n;"""
        for server in self.servers(setup):
            pairs = [(f"SELECT {it}(y, x ORDER BY n)::text FROM p", f"SELECT encdb.decrypt({it}(y, x))::text FROM (SELECT * FROM e ORDER BY n) v") for it in AGGREGATES]
            self.compare(server, pairs)

    def test_parallel_workers(self):
        """Of integers the sums are exact in whatever order, as long as they are small."""
        setup = """CREATE TABLE p AS SELECT g AS n, g % 17 AS y, g % 16 AS x FROM generate_series(1, 4096) g;
            CREATE TABLE e AS SELECT n, encdb.enc_int4_encrypt(y) AS y, encdb.enc_int8_encrypt(x) AS x FROM p;
            ALTER TABLE e SET (parallel_workers = 2); ANALYZE e;"""
        parallel = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;\n"
        for server in self.servers(setup):
            for few in ("", " WHERE n < 20"):
                asked = ", ".join(f"round((encdb.decrypt({it}(y, x)))::numeric, 6)" for it in AGGREGATES)
                expected = ", ".join(f"round({it}(y, x)::numeric, 6)" for it in AGGREGATES)
                found = self.as_owner(server, f"{parallel}SELECT {asked} FROM e{few}")
                self.assertEqual(found, server.psql(f"SELECT {expected} FROM p{few}"))
            plan = self.as_owner(server, f"{parallel}EXPLAIN (COSTS OFF) SELECT corr(y, x), regr_count(y, x) FROM e")
            self.assertIn("Partial Aggregate", plan)
            self.assertEqual(self.as_owner(server, f"{parallel}SELECT regr_count(y, x) FROM e"), "4096")

    def test_rights_and_keys(self):
        setup = """SELECT encdb.dek_generate('other');
            CREATE TABLE e AS SELECT encdb.enc_int4_encrypt(g) AS y, encdb.enc_float8_encrypt(g * 2) AS x, encdb.enc_float8_encrypt(g * 2, 'other') AS z FROM generate_series(1, 9) g;"""
        for server in self.servers(setup):
            server.psql("SELECT corr(y, x) FROM e", error="PE009|no session is open")
            self.as_owner(server, "SELECT corr(y, x) FROM e", operations="convert-in,text,arithmetic,cast,compare-derived,extract",
                          error="has not granted aggregate to this session")
            self.assertTrue(self.as_owner(server, "SELECT corr(x, x) FROM e", operations="aggregate").startswith("\\x"))
            self.as_owner(server, "SELECT corr(y, x) FROM e", operations="aggregate", error="has not granted cast to this session")
            self.assertTrue(self.as_owner(server, "SELECT corr(y, x) FROM e", operations="aggregate,cast").startswith("\\x"))
            self.assertEqual(self.as_owner(server, "SELECT encdb.decrypt(regr_slope(y, z)), encdb.decrypt(regr_avgx(y, z)), encdb.decrypt(regr_avgy(z, y)) FROM e"), "0.5|10|10")

    def test_requests(self):
        setup = "CREATE TABLE e AS SELECT g AS n, encdb.enc_int4_encrypt(g) AS y, encdb.enc_int4_encrypt(g) AS x, encdb.enc_decimal_encrypt(g) AS z FROM generate_series(1, 1000) g;"
        for server in self.servers(setup):
            if server.psql("SHOW encdb.evaluator") == "inline":
                continue
            # Those of two types are cast first, many at once.
            for pair, rows, groups, most in (("y, x", "n <= 60", "", 1), ("y, x", "true", "", 17), ("y, x", "true", "GROUP BY n % 100", 16), ("y, x", "true", "GROUP BY n", 40),
                                             ("y, z", "true", "", 26)):
                asked = self.as_owner(server, f"""SET max_parallel_workers_per_gather = 0; SELECT encdb.requests() AS before \\gset
                    SELECT corr({pair}) FROM e WHERE {rows} {groups} \\g /dev/null
                    SELECT encdb.requests() - :before""")
                self.assertTrue(1 <= int(asked) <= most, (pair, rows, groups, asked))


class ThroughTheProxy(Proxied):
    def test_results_are_opened(self):
        for form in FORMS:
            with self.subTest(form=form):
                connection = self.connect(self.shop(form))
                connection.autocommit = True
                cursor = connection.cursor()
                for n in range(1, 6):
                    cursor.execute("INSERT INTO person (id, age, paid) VALUES (%s, %s, %s)", (n, 70000 + n, f"{3 * n}.25"))
                cursor.execute("SELECT regr_slope(paid, age), regr_avgy(paid, age), regr_count(paid, age), covar_pop(age, age) FROM person")
                self.assertEqual(cursor.fetchall(), [(3.0, 9.25, 5, 2.0)])
                cursor.execute("SELECT count(*) FROM person HAVING corr(age, paid) > 0.999 AND regr_count(age, paid) = 5")
                self.assertEqual(cursor.fetchall(), [(5,)])
                with self.assertRaisesRegex(psycopg2.errors.FeatureNotSupported, "nothing was sent"):
                    cursor.execute("SELECT corr(age, 700001) FROM person")
                self.assert_never_in_clear("70003", "9.25", "0.999", "700001")
                (self.directory / "owner").unlink()


if __name__ == "__main__":
    main(__file__, TOOLS)
