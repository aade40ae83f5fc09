#!/usr/bin/env python3
"""Comparisons of encrypted values with plain ones that the server has, under the grant compare-plain.

They have PostgreSQL's results, of every pair of types, for random values (PGSEAL_SEED repeats a run). Literals and parameters
are what they were without these operators: to the server errors or encrypted, and to the proxy never in clear.
"""

import itertools
import json
import os
import random
import re
import secrets
import struct
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import TABLE, Proxied, Raw  # noqa: E402

SEED = int(os.environ.get("PGSEAL_SEED") or secrets.randbits(32))
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]
# Encrypted types, with the plain type of their values and those that they are compared with, also by casts of PostgreSQL's.
WHOLE, FLOATS, TIMES = ["int2", "int4", "int8"], ["float4", "float8"], ["date", "timestamp", "timestamptz"]
BESIDE = {"int4": WHOLE + ["numeric", "float8"], "int8": WHOLE + ["numeric"], "float4": FLOATS + ["int4"], "float8": FLOATS + ["int8", "numeric"],
          "numeric": ["numeric", "int4", "float8"], "bool": ["bool"], "date": TIMES, "timestamp": TIMES, "timestamptz": TIMES, "uuid": ["uuid"],
          "bytea": ["bytea"], "interval": ["interval"], "text": ["text", "varchar", "bpchar", "name"]}
PLAIN = ["int2", *BESIDE, "varchar", "bpchar", "name"]
ROWS = 12
WHOLES = {"int2": 15, "int4": 31, "int8": 63}
SPECIAL = {"float4": ["NaN", "-0", "Infinity", "16777217"], "float8": ["NaN", "0.1", "-Infinity", "9007199254740993"],
           "numeric": ["NaN", "0.10", "-9007199254740993.5", "1e40"], "date": ["infinity", "-infinity", "5874897-12-31", "4713-01-01 BC"],
           "timestamp": ["infinity", "2024-02-29 00:00", "294276-12-31 23:59:59.999999"],
           "timestamptz": ["-infinity", "2024-02-29 00:00+00", "2024-02-28 23:59:59.999999+00"], "bool": ["t", "f"], "interval": ["1 mon", "30 days", "720:00", "-1 mons +29 days", "2147483647 days"]}
QUIET = "\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\n"
# A table of 3000 rows, half of whose times have passed.
TOKENS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE token AS SELECT g AS id, encdb.enc_int4_encrypt(g) AS k, encdb.enc_timestamptz_encrypt(now() + (g - 1500) * interval '1 hour') AS expires,
    encdb.enc_text_encrypt('t' || g) AS c, g + 1 AS next, CASE WHEN g % 3 > 0 THEN g END AS maybe, ('t' || g)::varchar AS name,
    now() + (g - 1500) * interval '1 hour' AS at FROM generate_series(1, 3000) g;
"""


def sealed(ty):
    return {"numeric": "enc_decimal"}.get(ty, f"enc_{ty}")


class Values:
    """Random values of each type, many of which are equal in several types."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, ty):
        if ty == "bool" or ty in SPECIAL and self.random.random() < 0.4:
            return self.random.choice(SPECIAL[ty])
        if ty in WHOLES:
            return str(self.random.choice([self.random.randint(-3, 3), 2 ** WHOLES[ty] - 1, self.random.randint(-2 ** 15, 2 ** 15 - 1)]))
        if ty in ("float4", "float8", "numeric"):
            return self.random.choice(["{}", "{}.5", "{}.25"]).format(self.random.randint(-3, 3))
        if ty in TIMES:
            return f"2024-02-{self.random.randint(28, 29)}" + ("" if ty == "date" else f" {self.random.choice(['00:00', '12:00'])}")
        if ty == "uuid":
            return f"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1{self.random.randint(0, 3)}"
        if ty == "interval":
            return f"{self.random.randint(-2, 2)} days {self.random.choice([-24, 0, 24])}:00"
        if ty == "bytea":
            return "\\x" + "00ff" * self.random.randint(0, 2)
        return self.random.choice(["ada", "Ada", "ad", "äda", "ada ", "", "a" * 60])

    def tables(self):
        """SQL of a table with a plain and an encrypted column of each type; a value in nine is NULL."""
        columns = ", ".join(f"p_{ty} {'varchar(80)' if ty == 'varchar' else 'char(4)' if ty == 'bpchar' else ty}" for ty in PLAIN)
        one = lambda ty: "NULL" if self.random.random() < 1 / 9 else "'" + self.value(ty)[:4 if ty == "bpchar" else 80] + "'"  # noqa: E731
        rows = ", ".join(f"({n}, {', '.join(map(one, PLAIN))})" for n in range(ROWS))
        cells = ", ".join(f"encdb.{sealed(ty)}_encrypt(p_{ty}) AS e_{ty}" for ty in BESIDE)
        return ("SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;"
                f"CREATE TABLE p (n int, {columns}); INSERT INTO p VALUES {rows}; CREATE TABLE t AS SELECT *, {cells} FROM p; ANALYZE t;\n")


def sides(e, p):
    """An encrypted and a plain value on either side, with the plain one in the encrypted one's place."""
    return [(f"l.e_{e}", f"r.p_{p}", f"l.p_{e}", f"r.p_{p}"), (f"r.p_{p}", f"l.e_{e}", f"r.p_{p}", f"l.p_{e}")]


class Plain(Proxied):
    maxDiff = None

    def servers(self, conf=""):
        for form in FORMS:
            socket = self.evaluator().socket if form == "isolated" else ""
            yield form, self.server(form, form=form, socket=socket, conf=f"timezone = UTC\n{conf}")

    def answers(self, server, prologue, statements):
        """The rows and the SQLSTATE of each statement."""
        script = prologue + QUIET + "".join(f"\\echo ---\n{one};\n\\echo :SQLSTATE\n" for one in statements) + "\\echo ---\n"
        done = server.run("psql", "-X", "-q", "-A", "-t", "-d", "postgres", "-U", "postgres", input=script, check=False)
        answers = done.stdout.split("---\n")[1:-1]
        self.assertEqual(len(answers), len(statements), done.stderr[-2000:])
        return answers

    def assert_same(self, asked, plain, cells):
        wrong = [(question, one, other) for question, one, other in zip(asked, plain, cells) if one != other]
        self.assertEqual(wrong[:3], [], f"{len(wrong)} of {len(asked)} differ; PGSEAL_SEED={SEED}")

    def test_results_are_postgresqls(self):
        """In the list of results, in a filter of two tables, and in one of a scan that reads ahead."""
        asked, same = [], []
        for (e, beside), operator in itertools.product(BESIDE.items(), OPERATORS):
            for p in beside:
                for *one, x, y in sides(e, p):
                    for form in ("SELECT l.n, r.n, {} {} {} FROM t l, t r ORDER BY 1, 2", "SELECT l.n, r.n FROM t l JOIN t r ON {} {} {} ORDER BY 1, 2",
                                 "SELECT l.n FROM t l, (SELECT 1) x WHERE {} {} {} ORDER BY 1"):
                        alone = [side.replace("r.", "l.") if "x WHERE" in form else side for side in (*one, x, y)]
                        asked.append(form.format(alone[0], operator, alone[1]))
                        same.append(form.format(alone[2], operator, alone[3]))
        for form, server in self.servers():
            self.as_owner(server, Values(f"{SEED} {form}").tables())
            plain = self.answers(server, "", same)
            self.assert_same(asked, plain, self.answers(server, self.opening(), asked))
            self.assertTrue(all(one.endswith("00000\n") for one in plain))
            self.assertGreater(sum(one.count("\n") > 2 for one in plain), len(plain) * 2 / 3)

    def test_other_forms_of_comparison(self):
        """IN, BETWEEN, ANY of a plain array, IS DISTINCT FROM, NULLIF, CASE, and subqueries."""
        forms = ["{x} IN ({y}, NULL)", "{x} NOT IN ({y}, r.n)", "{x} BETWEEN {y} AND {y}", "{x} = ANY (ARRAY[{y}, r.n])", "{x} <> ALL (ARRAY[{y}, r.n])",
                 "{x} IS DISTINCT FROM {y}", "{y} IS NOT DISTINCT FROM {x}", "nullif({x}, {y}) IS NULL", "nullif({y}, {x})", "CASE {x} WHEN {y} THEN 1 ELSE 2 END",
                 "{x} IN (SELECT p_int4 FROM p)", "{x} > ALL (SELECT p_int8 FROM p WHERE p_int8 < 0)", "{x} = (SELECT max(p_int4) FROM p)"]
        asks = [f"SELECT l.n, r.n, {form} FROM t l, t r ORDER BY 1, 2" for form in forms]
        for form, server in self.servers():
            self.as_owner(server, Values(f"{SEED} {form}").tables())
            asked = [ask.format(x="l.e_int4", y="r.p_int4") for ask in asks]
            self.assert_same(asked, self.answers(server, "", [ask.format(x="l.p_int4", y="r.p_int4") for ask in asks]), self.answers(server, self.opening(), asked))
            refused = ["SELECT ROW(e_int4, n) = ROW(p_int4, n) FROM t", "SELECT e_text = p_int4 FROM t", "SELECT e_uuid < p_bytea FROM t",
                       "SELECT encdb.plain_operand(p_int4) FROM t", "INSERT INTO t (e_int4) SELECT encdb.plain_operand(p_int4) FROM t",
                       "SELECT '\\x0009f000000001'::enc_int4", "CREATE TABLE x AS SELECT encdb.plain_operand(p_int4) AS y FROM t",
                       "SELECT encdb.plain_operand(p_int4)::enc_int4 FROM t", "CREATE TABLE f (e enc_int4 UNIQUE, p int REFERENCES f (e))"]
            states = [one.splitlines()[-1] for one in self.answers(server, self.opening(), refused)]
            self.assertEqual(states, ["0A000", "42883", "42883", "0A000", "42804", "PE003", "0A000", "0A000", "42804"])

    def test_indexes_serve_them(self):
        """In either form, with requests for pages and without, ascending and descending, in a loop, and on an expression."""
        indexes = ["CREATE INDEX i ON token (k)", "CREATE INDEX i ON token (k DESC)", "CREATE INDEX i ON token ((k + k))", "CREATE INDEX i ON token (c)",
                   "CREATE INDEX i ON token (expires, k)"]
        for form, server in self.servers():
            self.as_owner(server, TOKENS + "CREATE TABLE few AS SELECT generate_series(0, 3001, 250) AS n; ANALYZE few; ANALYZE token;"
                          "CREATE TABLE bounds AS SELECT 1234 AS low, 1250::bigint AS high, 't1234'::text AS name;")
            scans = {}
            for index, requests in itertools.product(indexes, ("on", "off")):
                x, value = ("expires", "now()") if "expires" in index else ("c", "(SELECT name FROM bounds)") if "(c)" in index else ("k", "(SELECT low FROM bounds)")
                x = "(k + k)" if "k + k" in index else x
                filters = [f"{x} {operator} {value}" for operator in OPERATORS] + [f"{value} {operator} {x}" for operator in OPERATORS]
                queries = [f"SELECT count(*), sum(id) FROM token WHERE {one}" for one in filters]
                if x == "k":
                    queries += [f"SELECT count(*), sum(id) FROM few JOIN token ON k {operator} few.n" for operator in OPERATORS[2:]]
                    queries += ["SELECT n, id FROM few JOIN token ON few.n = k ORDER BY 1", "SELECT id FROM token WHERE k > (SELECT low FROM bounds) AND k <= (SELECT high FROM bounds) ORDER BY id"]
                self.as_owner(server, "DROP INDEX IF EXISTS i")
                if x not in scans:
                    scans[x] = self.as_owner(server, f"{'; '.join(queries)};")
                pages = f"{index}; SET encdb.page_requests = {requests}; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;"
                with self.subTest(form=form, index=index, requests=requests):
                    self.assertEqual(self.as_owner(server, f"{pages} {'; '.join(queries)};"), scans[x])
                    plans = self.answers(server, f"{pages.partition(';')[2]}\n", [f"EXPLAIN (COSTS OFF) {query}" for query in queries])
                    served = ["encdb.plain_operand" in plan for plan in plans]
                    self.assertEqual(served, ["<>" not in query for query in queries])
            # What is looked for is what each index of several owners' pages has.
            self.assertEqual(self.as_owner(server, "SET enable_seqscan = off; SELECT count(*) FROM token WHERE expires < now(); DROP INDEX i;"), "1500")

    def test_a_hash_index_and_a_collation_of_another_serve_nothing(self):
        _, server = next(self.servers())
        self.as_owner(server, TOKENS + 'CREATE INDEX ON token USING hash (k); CREATE INDEX ON token (c COLLATE "C"); ANALYZE token;')
        for query in ("SELECT count(*) FROM token WHERE k = (SELECT count(*) FROM token WHERE id < 5)", 'SELECT count(*) FROM token WHERE c COLLATE "en_US.utf8" < CURRENT_USER::text'):
            self.assertNotIn("plain_operand", self.as_owner(server, f"SET enable_seqscan = off; EXPLAIN {query}"))
            self.as_owner(server, query)

    def test_a_filter_is_one_request_for_many_rows(self):
        server = self.server(form="isolated", socket=self.evaluator().socket, conf="max_parallel_workers_per_gather = 0\n")
        self.as_owner(server, TOKENS)
        filters = ["expires < now()", "now() - interval '1 day' < expires", "expires < CURRENT_TIMESTAMP AND k < next AND c = name",
                   "k < next OR maybe > k", "k IN (next, maybe, id)", "expires < at + interval '1 s' AND k > id", "expires >= date_trunc('month', now())",
                   "at = expires AND (k + k) > next"]
        for one in filters:
            counts = {}
            for ahead in ("on", "off"):
                out = self.as_owner(server, f"SET encdb.read_ahead = {ahead};\nSELECT encdb.requests() AS before \\gset\nSELECT 'rows ' || count(*) FROM token WHERE {one};\n"
                                    "SELECT 'requests ' || encdb.requests() - :before;")
                counts[ahead] = [int(count) for count in re.findall(r"(?:rows|requests) (\d+)", out)]
            with self.subTest(filter=one):
                self.assertEqual(counts["on"][0], counts["off"][0])
                self.assertGreaterEqual(counts["off"][1], 1500)
                # 3000 rows: 16, then twice as many each time, up to 256. One whose plain side is computed of the row is asked alone.
                self.assertLess(counts["on"][1], 3100 if "at +" in one else 40)

    def test_each_right_by_its_name(self):
        for form, server in self.servers():
            self.as_owner(server, TOKENS + "CREATE TABLE derived AS SELECT k + k AS y, id FROM token;")
            ask, of_derived = "SELECT count(*) FROM token WHERE k < next", "SELECT count(*) FROM derived WHERE y > id"
            for operations in ("none", "compare-derived,arithmetic,text,aggregate,cast,extract,convert-in,convert-out,key-generate"):
                for query in (ask, "SELECT count(*) FROM token WHERE now() > expires", "SELECT id = k FROM token"):
                    self.as_owner(server, query, operations=operations, error=r"PE011|has not granted compare-plain to this session")
            self.assertEqual(self.as_owner(server, ask, operations="compare-plain"), "3000")
            self.as_owner(server, of_derived, operations="compare-plain", error="has not granted compare-derived")
            self.as_owner(server, of_derived, operations="compare-derived", error="has not granted compare-plain")
            self.assertEqual(self.as_owner(server, of_derived, operations="compare-plain,compare-derived"), "3000")
            for other in ("SELECT k + k FROM token", "SELECT encdb.decrypt(k) FROM token", "SELECT encdb.enc_int4_encrypt(1)", "SELECT count(*) FROM token, derived WHERE k < y"):
                self.as_owner(server, other, operations="compare-plain", error="has not granted")
            self.assertIn("no session", server.psql(ask, error="PE009|no session"))

    def test_uses_are_counted(self):
        directory = self.directory / "logs"
        directory.mkdir()
        evaluator = self.evaluator(options=["--log", directory])
        server = self.server(form="isolated", socket=evaluator.socket, conf="max_parallel_workers_per_gather = 0\n")
        self.as_owner(server, TOKENS)
        self.as_owner(server, "SELECT count(*) FROM token WHERE k < next AND expires < now() + interval '1 year'", operations="compare-plain")
        server.stop()
        evaluator.process.terminate()
        self.assertEqual(evaluator.process.wait(), 0)
        records = [json.loads(line) for log in sorted(directory.glob("*.log")) for line in log.read_text().splitlines()]
        uses = [record for record in records if record["event"] == "use" and record["operation"] == "compare-plain"]
        self.assertEqual(sum(record["count"] for record in uses), 2 * 3000)

    def test_untyped_parameters_are_encrypted(self):
        """As before: beside every encrypted type, by every operator, on either side."""
        forms = [form for operator in OPERATORS for form in (f"{{c}} {operator} $1", f"$1 {operator} {{c}}", f"{{c}} {operator} ANY ($1)")]
        forms += ["{c} IN ($1, $1)", "{c} BETWEEN $1 AND $1", "{c} IS DISTINCT FROM $1", "nullif({c}, $1) IS NULL", "CASE {c} WHEN $1 THEN true END", "$1 IN ({c}, {c})",
                  "coalesce({c}, $1) = $1", "({c}, 1) = ($1, 1)"]
        server = self.server()
        columns = ", ".join(f"e_{ty} {sealed(ty)}, d_{ty} domain_{ty}" for ty in BESIDE)
        server.psql("".join(f"CREATE DOMAIN domain_{ty} AS {sealed(ty)};" for ty in BESIDE) + f"CREATE TABLE t ({columns})")
        asked = [(f"{kind}_{ty}", ty, form) for ty in BESIDE for kind in "ed" for form in forms]
        script = "".join(f"PREPARE q{i} AS SELECT 1 FROM t WHERE {form.format(c=column)};\n" for i, (column, _, form) in enumerate(asked))
        rows = server.psql(f"{script}SELECT name, parameter_types FROM pg_prepared_statements").splitlines()
        given = dict(row.split("|") for row in rows)
        self.assertEqual(len(given), len(asked))
        wrong = [(form, ty, given[f"q{i}"]) for i, (_, ty, form) in enumerate(asked)
                 if given[f"q{i}"] != "{" + sealed(ty) + ("[]" if " ANY " in form else "") + "}"]
        self.assertEqual(wrong[:5], [])

    def test_plain_types_resolve_as_without_the_extension(self):
        """Operators of plain types alone, with parameters and literals of no type, and of each other's types."""
        types = [*PLAIN, "\"char\"", "oid", "regclass", "cidr", "inet", "time", "timetz", "jsonb", "money", "mood", "bit", "xid", "macaddr", "int4range",
                 "of_text", "of_int", "of_varchar", "of_time"]
        setup = "CREATE TYPE mood AS ENUM ('a'); CREATE DOMAIN of_text AS text; CREATE DOMAIN of_int AS int; CREATE DOMAIN of_varchar AS varchar(9); CREATE DOMAIN of_time AS timestamptz;"
        columns = ", ".join(f'"c_{ty}" {ty}'.replace('""char""', '"char"').replace('c_"char"', "c_char") for ty in types)
        names = ["c_char" if "char\"" in ty else f"c_{ty}" for ty in types]
        forms = [form for operator in OPERATORS for form in (f"{{x}} {operator} $1", f"$1 {operator} {{x}}", f"{{x}} {operator} '1'", f"'1' {operator} {{x}}", f"{{x}} {operator} ANY ($1)")]
        forms += ["{x} IN ($1, '1')", "{x} BETWEEN $1 AND '1'", "nullif({x}, $1) IS NULL"]
        asked = [form.format(x=name) for name in names for form in forms] + [f"$1 {operator} $2" for operator in OPERATORS] + ["'a' < $1", "$1 = ANY ($2)"]
        asked += [f"{x} {operator} {y}" for x, y in itertools.product(names, names) for operator in ("=", "<")]
        server = self.server()
        answers = {}
        for database in ("template1", "postgres"):
            script = f"{setup} CREATE TABLE plain ({columns});" + QUIET + "".join(
                f"\\echo ---\nPREPARE q AS SELECT 1 FROM plain WHERE {one};\n\\echo :SQLSTATE\n"
                "SELECT parameter_types FROM pg_prepared_statements;\nDEALLOCATE ALL;\n" for one in asked)
            done = server.run("psql", "-X", "-q", "-A", "-t", "-d", database, "-U", "postgres", input=script, check=False)
            answers[database] = done.stdout.split("---\n")[1:]
            self.assertEqual(len(answers[database]), len(asked), done.stderr[-500:])
        self.assert_same(asked, answers["template1"], answers["postgres"])
        self.assertGreater(sum("00000" in one for one in answers["postgres"]), 500)

    def test_literals_and_parameters_of_plain_types_stay_errors(self):
        """When they are parsed: no value was bound then."""
        statements = ["SELECT 1 FROM t WHERE c = $1::text", "SELECT 1 FROM t WHERE $1::varchar(3) < c", "SELECT 1 FROM t WHERE c = ANY ($1::text[])",
                      "SELECT 1 FROM t WHERE c IN ($1::text, NULL)", "SELECT 1 FROM t WHERE c = coalesce($1::text, n)", "SELECT 1 FROM t WHERE c > lower($1)",
                      "SELECT 1 FROM t WHERE c = (SELECT $1::text)", "SELECT CASE c WHEN $1::text THEN 1 END FROM t",
                      "SELECT CASE $1::text WHEN c THEN 1 END FROM t", "SELECT CASE $1 WHEN c THEN 1 END FROM t",
                      "WITH i AS (INSERT INTO t (n) VALUES (now()::text) RETURNING $1::text AS x) SELECT 1 FROM t, i WHERE c = i.x", "SELECT 1 FROM t WHERE k = $1::int + 1",
                      "SELECT 1 FROM t WHERE k > abs($1::int)", "SELECT 1 FROM t WHERE k <= $1::smallint", "SELECT 1 FROM t WHERE e = $1::timestamptz",
                      "SELECT nullif(c, $1::text) FROM t", "SELECT 1 FROM t WHERE c IS DISTINCT FROM $1::text",
                      "UPDATE t SET n = 'x' WHERE c = $1::text", "DELETE FROM t USING t u WHERE t.c = u.n || $1::text", "EXPLAIN SELECT 1 FROM t WHERE c = $1::text",
                      "WITH q AS (SELECT 1 FROM t WHERE c = $1::text) SELECT * FROM q", "SELECT 1 FROM t WHERE c IN (SELECT $1)",
                      "SELECT 1 FROM t WHERE c IN (VALUES ($1), (NULL))", "SELECT 1 FROM t JOIN (VALUES (1, $1)) v(n, x) ON c = x",
                      "SELECT 1 FROM t, (SELECT n, $1 AS x FROM t) v WHERE v.x = c", "WITH q AS (SELECT $1 AS x UNION SELECT n FROM t) SELECT 1 FROM t, q WHERE c < x",
                      "SELECT 1 FROM t, unnest($1::text[]) u WHERE u = c", "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM (SELECT $1 AS x) y WHERE y.x <> t.c)",
                      "SELECT 1 FROM t a JOIN (t b CROSS JOIN (SELECT $1 AS x) y) ON a.c = x",
                      "UPDATE t SET n = n FROM (VALUES ($1)) v(x) WHERE c = v.x", "SELECT c = ANY (ARRAY(SELECT $1)) FROM t"]
        _, server = next(self.servers())
        self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL; CREATE TABLE t (c enc_text, k enc_int4, e enc_timestamptz, n text);"
                      "INSERT INTO t VALUES (encdb.enc_text_encrypt('x'), encdb.enc_int4_encrypt(1), encdb.enc_timestamptz_encrypt(now()), 'x');")
        prepared = [f"PREPARE q{i} AS {one}" for i, one in enumerate(statements) if not one.startswith("EXPLAIN")]
        literal = [re.sub(r"\$1(?=::(\w+))", lambda m: {"text": "'x'", "varchar": "'x'", "timestamptz": "'2024-01-01'"}.get(m[1], "'1'"), one)
                   .replace("'x'::text[]", "'{x}'::text[]").replace("$1", "'x'") for one in statements]
        kept = ["CREATE VIEW v AS SELECT 1 FROM t WHERE c = 'x'::text", "ALTER TABLE t ADD CHECK (c = 'x'::text)", "CREATE INDEX ON t (n) WHERE k > 5::int"]
        answers = self.answers(server, self.opening(), prepared + literal + kept)
        wrong = [(one, said) for one, said in zip(prepared + literal + kept, answers) if said != "42883\n"]
        self.assertEqual(wrong, [])
        # What the server has, and what is plain anywhere.
        has = ["CASE n WHEN c THEN true END", "CASE (CASE n WHEN n THEN n ELSE n END) WHEN c THEN true END", "CASE (ARRAY[n]::varchar(9)[])[1] WHEN c THEN true END",
               "CASE 'x'::text WHEN n THEN c = CASE n WHEN n THEN n END END", "c = n", "e < now() - '1 day'::interval * 2", "e > date_trunc('year', now())", "e > CURRENT_DATE - 30", "c = NULL::text", "c > CURRENT_USER",
               "k < (SELECT count(*) FROM t WHERE n = 'x')"]
        self.assertEqual({one for one in self.answers(server, self.opening(), [f"PREPARE h{i} AS SELECT 1 FROM t WHERE {one}" for i, one in enumerate(has)])}, {"00000\n"})

    def test_statements_of_before_the_library_are_looked_at(self):
        """What was prepared in a connection that had not loaded it is parsed again."""
        _, server = next(self.servers())
        self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL; CREATE TABLE t AS SELECT encdb.enc_text_encrypt('x') AS c, 'x' AS n;")
        for statement in ("PREPARE q(text) AS SELECT count(*) FROM t WHERE c = $1", "PREPARE q(text) AS SELECT count(*) FROM t WHERE c = 'x'::text AND n = $1"):
            server.psql(f"{statement};\n{self.opening()}EXECUTE q('x');", error="operator does not exist: enc_text = text")

    def test_variables_of_functions_are_the_servers(self):
        body = "CREATE FUNCTION f(v text) RETURNS bigint LANGUAGE {} AS $$ {} $$;"
        for form, server in self.servers():
            self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL; CREATE TABLE t AS SELECT encdb.enc_text_encrypt('x') AS c, 'x' AS n;")
            for language, text in (("sql", "SELECT count(*) FROM t WHERE c = v"), ("plpgsql", "BEGIN RETURN (SELECT count(*) FROM t WHERE c = v); END")):
                self.assertEqual(self.as_owner(server, f"{body.format(language, text)} SELECT f('x'), f('y'); DROP FUNCTION f;"), "1|0")
            self.as_owner(server, body.format("plpgsql", "BEGIN RETURN (SELECT count(*) FROM t WHERE c = 'x'::text); END") + "SELECT f('x');",
                          error="operator does not exist: enc_text = text")
            trigger = "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.c <> NEW.n THEN RAISE 'other'; END IF; RETURN NEW; END $$;"
            self.as_owner(server, f"{trigger} CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION g(); INSERT INTO t SELECT c, n FROM t;")
            self.as_owner(server, "INSERT INTO t SELECT c, 'y' FROM t;", error="other")


class Wire(Proxied):
    """What leaves the proxy, with the grant given."""

    SECRET = "xyzzyCanary"
    NUMBER, TIME = "1357924680", "1987-06-05"
    TYPES = {"name": (25, 1043, 1042, 19, 705, 0), "age": (20, 21, 23, 1700, 701, 705, 0), "born": (1082, 1114, 1184, 705, 0), "seen": (1184, 1114, 1082, 25, 0),
             "paid": (1700, 20, 23, 701, 0)}

    def value(self, column):
        return {"name": self.SECRET, "born": self.TIME, "seen": f"{self.TIME} 01:02"}.get(column, self.NUMBER)

    def cycle(self, raw, text, value, declared):
        """Parses, binds and executes as most drivers do, in one go."""
        given = value.encode()
        bind = b"\0\0" + struct.pack("!HHi", 0, 1, len(given)) + given + struct.pack("!H", 0)
        parse = b"\0" + text.encode() + b"\0" + struct.pack("!HI", 1, declared)
        return raw.cycle(b"P", parse, b"D", b"S\0", b"B", bind, b"E", b"\0" + struct.pack("!I", 0))

    def test_no_value_leaves_in_clear_inline(self):
        self.send_everything("inline")

    def test_no_value_leaves_in_clear_isolated(self):
        self.send_everything("isolated")

    def send_everything(self, form):
        proxy = self.shop(form)
        cluster = self.cluster_
        connection = self.connect(proxy)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO person (id, name, age, born, paid, seen) VALUES (1, %s, %s, %s, %s, %s)",
                           [self.value(column) for column in ("name", "age", "born", "paid", "seen")])
        found = refused = 0
        with Raw(proxy) as raw:
            for column, types in self.TYPES.items():
                casts = ["", "::text", "::varchar(20)"] if column == "name" else ["", "::timestamptz", "::date"] if column in ("born", "seen") else ["", "::int8", "::numeric"]
                forms = [f"{column} {{o}} $1{cast}" for cast in casts] + [f"$1 {{o}} {column}", f"{column} IN ($1, now())" if column in ("born", "seen") else f"{column} IN ($1)",
                         f"{column} BETWEEN $1 AND $1", f"{column} IS DISTINCT FROM $1", f"nullif({column}, $1) IS NULL", f"CASE {column} WHEN $1 THEN true END",
                         f"{column} = coalesce($1, {column})", f"note = 'x' OR {column} = $1", f"{column} > note OR {column} = $1"]
                for declared, text, operator in itertools.product(types, forms, ("=", "<=")):
                    if operator == "=" or "{o}" in text:
                        said = self.cycle(raw, f"SELECT id FROM person WHERE {text.format(o=operator)}", self.value(column), declared)
                        found += any(tag == b"D" for tag, _ in said)
                        refused += any(tag == b"E" for tag, _ in said)
                value = self.value(column)
                for text in (f"{column} = '{value}'", f"{column} = '{value}'::{'text' if column == 'name' else 'timestamptz' if column == 'seen' else 'date' if column == 'born' else 'numeric'}",
                             f"{column} IN ('{value}', NULL)", f"{column} = ANY ('{{{value}}}')", f"'{value}' >= {column}", f"{column} BETWEEN '{value}' AND '{value}'",
                             f"{column} = ANY (ARRAY['{value}'])", f"{column} = coalesce('{value}', {column})"):
                    said = raw.cycle(b"Q", f"SELECT id FROM person WHERE {text}\0".encode())
                    found += any(tag == b"D" for tag, _ in said)
                    refused += any(tag == b"E" for tag, _ in said)
        self.assertGreater(found, 100)
        self.assertGreater(refused, 5)
        self.assert_never_in_clear(self.SECRET, self.NUMBER, self.TIME)
        # The log would show it.
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM person WHERE note = 'shownCanary'")
        self.assertIn("shownCanary", (cluster.home / "log").read_text())

    def test_a_column_that_the_proxy_does_not_know_takes_no_plain_parameter(self):
        """It is new since the connection began: the server refuses the statement before a careful driver binds a value."""
        proxy = self.shop()
        with Raw(proxy) as raw:
            self.cluster_.psql("CREATE TABLE late (c enc_text, k enc_int4)")
            for text, declared in (("c = $1", 25), ("c = $1", 1043), ("k < $1", 23), ("k < $1", 20), ("$1 = c", 25), ("c = ANY ($1)", 1009)):
                parse = b"\0" + f"SELECT 1 FROM late WHERE {text}".encode() + b"\0" + struct.pack("!HI", 1, declared)
                said = raw.cycle(b"P", parse, b"D", b"S\0")
                self.assertEqual([tag for tag, _ in said], [b"E", b"Z"], said)
                self.assertIn(b"C42883\0", said[0][1])

    def test_values_of_the_server_are_sent_inline(self):
        self.send_the_servers("inline")

    def test_values_of_the_server_are_sent_isolated(self):
        self.send_the_servers("isolated")

    def send_the_servers(self, form):
        connection = self.connect(self.shop(form))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO person (id, name, age, born, seen, note) VALUES (1, 'postgres', 2, '2020-01-01', '2020-01-01 00:00+00', 'postgres'), "
                           "(2, 'ada', 1, '2999-01-01', '2999-01-01 00:00+00', 'bob'), (3, NULL, NULL, NULL, NULL, NULL)")
            for text, expected in (("seen < now()", [1]), ("born > CURRENT_DATE", [2]), ("seen < now() - '30 days'::interval", [1]), ("name = CURRENT_USER", [1]),
                                   ("name = note", [1]), ("age = id OR age < id", [2]), ("born BETWEEN CURRENT_DATE - 20000 AND CURRENT_DATE", [1]),
                                   ("seen >= date_trunc('month', now())", [2]), ("NOT born <= now()::date", [2]), ("name IN (CURRENT_USER, 'ada')", [1, 2]),
                                   ("age IS DISTINCT FROM id", [1, 2, 3]), ("seen + '1 day'::interval < now()", [1])):
                with self.subTest(form=form, text=text):
                    cursor.execute(f"SELECT id FROM person WHERE {text} ORDER BY id")
                    self.assertEqual([row[0] for row in cursor], expected)
            for text in ("UPDATE person SET born = CURRENT_DATE", "SELECT id FROM person WHERE name LIKE CURRENT_USER"):
                with self.assertRaisesRegex(psycopg2.errors.FeatureNotSupported, "grant compare-plain"):
                    cursor.execute(text)

    def test_without_the_grant_the_server_names_it(self):
        self.cluster_ = cluster = self.server()
        for command in (["init"], ["key", "new"]):
            self.client(cluster, *command)
        cluster.psql(TABLE)
        self.client(cluster, "column", "add", "--all")
        connection = self.connect(self.proxy(cluster))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO person (id, seen) VALUES (1, '2020-01-01 00:00+00')")
            with self.assertRaisesRegex(psycopg2.Error, "has not granted compare-plain to this session") as refused:
                cursor.execute("SELECT id FROM person WHERE seen < now()")
            self.assertEqual(refused.exception.pgcode, "PE011")
        self.client(cluster, "grant", "add", "--allow", "compare-plain")
        self.assertIn("compare-plain", self.client(cluster, "grant", "list"))
        with self.connect(self.proxy(cluster)).cursor() as cursor:
            cursor.execute("SELECT id FROM person WHERE seen < now()")
            self.assertEqual(cursor.fetchall(), [(1,)])

    def test_the_client_seals_and_refuses_as_before(self):
        cluster = self.logged("CREATE TABLE t (c enc_text, n text)")
        self.client(cluster, "sql", "INSERT INTO t (c) VALUES ($1)", "secretOne")
        for text in ("c = $1", "$1 = c", "c IN ($1)", "c BETWEEN $1 AND $1", "nullif(c, $1) IS NULL"):
            self.assertEqual(self.rows(cluster, f"SELECT c FROM t WHERE {text}", "secretOne"), ["secretOne"])
        for text in ("c = $1::text", "c = ANY ($1::text[])", "c = lower($1)"):
            for plain in ([], ["--plain", "1"]):
                said = self.client(cluster, "sql", *plain, f"SELECT c FROM t WHERE {text}", "secretTwo", code=10)
                self.assertIn("operator does not exist", said)
        self.assert_unseen(cluster, "secret")


if __name__ == "__main__":
    main(__file__, TOOLS)
