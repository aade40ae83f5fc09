#!/usr/bin/env python3
"""Expressions of two types, each of every pair, are those of the plain types: value, type and SQLSTATE.

The parser chooses operators, functions and common types by the catalogue's rows of our types: what it takes for two encrypted
types has to be what it takes for the plain ones. Where docs/encdb-values.md and docs/confidential/encdb.md say otherwise, the
difference is asked for, too.
"""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential, gives_infinite_interval  # noqa: E402
from pgseal_test import main  # noqa: E402

# Values that differ where one of them is taken for another type; dates that are no timestamps.
VALUES = {
    "int4": ["16777217", "-7", "2"],
    "int8": ["9007199254740993", "3", "-7"],
    "float4": ["16777216", "0.1", "NaN"],
    "float8": ["9007199254740992", "0.1", "1e300"],
    "numeric": ["0.1", "9007199254740993.5", "16777217"],
    "bool": ["t"],
    "date": ["2024-02-29", "infinity", "5874897-12-31"],
    "timestamp": ["2024-02-29 00:00:00", "-infinity", "infinity"],
    "timestamptz": ["2024-02-29 00:00:00+00", "294276-12-31 23:59:59+00", "infinity"],
    "interval": ["1 mon", "30 days", "-1 days +02:03:04.5"],
    "text": ["12"],
    "bytea": ["\\x3132"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
}
NUMBERS = ["int4", "int8", "float4", "float8", "numeric"]
TIMES = ["date", "timestamp", "timestamptz"]
ROWS = 3
NAMES = {"int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision", "decimal": "numeric", "bool": "boolean",
         "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone"}
OF_TWO = [*(f"{{x}} {operator} {{y}}" for operator in "= <> < <= > >= + - * / % ^ || ~~ ~ !~*".split()),
          "nullif({x}, {y})", "coalesce({x}, {y})", "greatest({x}, {y})", "CASE WHEN {x} IS NULL THEN {x} ELSE {y} END",
          "{x} IN ({y}, {x})", "{x} = ANY (ARRAY[{y}])", "(SELECT count(*) FROM (SELECT {x} UNION SELECT {y}) u)",
          "(SELECT count(*) FROM (VALUES ({x}), ({y})) v(c) WHERE c = {x})", "mod({x}, {y})", "power({x}, {y})",
          "{x} IS DISTINCT FROM {y}", "(SELECT count(*) FROM (SELECT {x} AS c) l JOIN (SELECT {y} AS c) r USING (c))",
          "row({x}) = row({y})", "{x} BETWEEN {y} AND {y}"]
OF_ONE = ["abs({x})", "- {x}", "length({x})", "sum({x})", "avg({x})", "stddev({x})", "var_pop({x})", "bool_or({x})", "every({x})", "min({x})", "max({x})", "upper({x})",
          "initcap({x})", "trim({x})", "left({x}, -1)", "strpos({x}, {x})", "starts_with({x}, {x})", "replace({x}, {x}, {x})"]
# Joins of two types, by row: those that match, and all of both sides.
JOINS = ["SELECT a.n, b.n FROM {0} a JOIN {0} b ON a.{1} = b.{2} ORDER BY 1, 2;",
         "SELECT a.n, b.n FROM {0} a FULL JOIN {0} b ON a.{1} = b.{2} ORDER BY 1, 2;",
         "SELECT n FROM {0} WHERE {1} = ANY (ARRAY(SELECT {2} FROM {0})) ORDER BY n;",
         "SELECT n FROM {0} WHERE {1} NOT IN (SELECT {2} FROM {0}) ORDER BY n;"]
# Calls with untyped parameters of each function and operator that PostgreSQL and encdb have.
OF_BOTH = """
SELECT call FROM (
    SELECT format('%I(%s)', proname, array_to_string(('{$1,$2,$3,$4}'::text[])[:pronargs], ', ')), pronamespace
    FROM pg_proc WHERE prokind = 'f' AND pronargs <= 4
    UNION SELECT CASE oprleft WHEN 0 THEN format('%s $1', oprname) ELSE format('$1 %s $2', oprname) END, oprnamespace FROM pg_operator
) named(call, schema) GROUP BY call HAVING count(DISTINCT schema) > 1 ORDER BY call"""
QUIET = "\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\n"


def sealed(ty):
    return {"numeric": "enc_decimal"}.get(ty, f"enc_{ty}")


def tables():
    """SQL that makes a table of plain columns and one of cells, a column of each type, and a function that opens what is sealed."""
    rows = (f"({n}, " + ", ".join(f"'{values[n % len(values)]}'" for values in VALUES.values()) + ")" for n in range(ROWS))
    cells = ", ".join(f"encdb.{sealed(ty)}_encrypt({ty}_) AS {ty}_" for ty in VALUES)
    opened = "".join(f"CREATE FUNCTION opened({sealed(ty)}) RETURNS text LANGUAGE sql AS 'SELECT encdb.decrypt($1)::text';" for ty in VALUES)
    return ("SET timezone = UTC; SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;"
            f"CREATE TABLE p (n int4, {', '.join(f'{ty}_ {ty}' for ty in VALUES)}); INSERT INTO p VALUES {', '.join(rows)};"
            f"CREATE TABLE e AS SELECT n, {cells} FROM p;"
            f"CREATE FUNCTION opened(anyelement) RETURNS text LANGUAGE sql AS 'SELECT $1::text';{opened}\n")


def questions():
    """Each pair of types with each expression of two, and each type with each of one: types, expression, plain and sealed."""
    for a, b in itertools.product(VALUES, VALUES):
        related = a == b or {a, b} <= {*NUMBERS} or {a, b} <= {*TIMES}
        for form in [*OF_TWO, "CAST"] + OF_ONE * (a == b):
            for i, j in itertools.product(range(ROWS), range(ROWS)) if related else [(0, 0)]:
                form_of = ["{x}::" + b, "{x}::" + sealed(b)] if form == "CAST" else [form, form]
                if "{y}" in form or j == 0:
                    ask = "SELECT pg_typeof(v), opened(v) FROM (SELECT {} AS v FROM {} l, {} r WHERE l.n = {} AND r.n = {}) q;".format
                    yield (a, b, form, *(ask(f.format(x=f"l.{a}_", y=f"r.{b}_"), t, t, i, j) for f, t in zip(form_of, "pe")))


def as_plain(answer):
    """An answer whose type is the plain one's name."""
    name, bar, rest = answer.partition("|")
    name = name.removeprefix("enc_") if bar else name
    return NAMES.get(name, name) + bar + rest


def documented(a, b, form, plain):
    """What docs/encdb-values.md says to be otherwise; None if it does not."""
    if form == "{x} || {y}" and (a == "text") != (b == "text"):
        return "42883\n"
    if form == "CAST" and a != b and {a, b} & {"uuid", "bytea"}:
        return "42846\n"
    if form in ("min({x})", "max({x})") and a == "bytea" and plain == "42883\n":
        return "bytea|\\x3132\n00000\n"  # PostgreSQL's since 18
    if form != "CAST" and {a, b} == {"bytea", "uuid"} and plain in ("42846\n", "XX000\n"):
        return "42804\n"  # to PostgreSQL they are of one category, and then there is no cast
    return None


# Two rows of text, whose columns' collations contradict each other where they are put together.
COLLATED = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE w (n int, p text COLLATE "C", q text COLLATE "en_US.utf8", a enc_text COLLATE "C", b enc_text COLLATE "en_US.utf8");
INSERT INTO w SELECT g, g, g, encdb.enc_text_encrypt(g::text), encdb.enc_text_encrypt(g::text) FROM generate_series(1, 2) g;
"""
ORDERS = ["SELECT n FROM (SELECT n, {0} AS x FROM w) s ORDER BY x", "SELECT x FROM (SELECT {0} AS x FROM w) s ORDER BY x", "SELECT max({0}) FROM w",
          "SELECT count(*) FROM w WHERE {0} < {0}"]


class Types(Confidential):
    def test_orders_of_no_known_collation_are_refused(self):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
            self.as_owner(server, COLLATED)
            for order in ORDERS:
                with self.subTest(form=form, order=order):
                    refused = "could not determine which collation to use for {}"
                    self.as_owner(server, order.format("p || q"), error=refused.format("string comparison"))
                    self.as_owner(server, order.format("a || b"), error=refused.format("encrypted text"))

    def test_each_pair_of_types(self):
        server = self.server(conf="timezone = UTC\n")
        self.as_owner(server, tables())
        asked = list(questions())
        plain = self.answers(server, QUIET, [one[3] for one in asked])
        cells = self.answers(server, self.opening() + QUIET, [one[4] for one in asked])
        wrong = []
        for (a, b, form, question, _), one, other in zip(asked, plain, map(as_plain, cells)):
            expected = documented(a, b, form, one) or one
            if other != expected and not gives_infinite_interval(expected, other):
                wrong.append((question, expected, other))
        self.assertEqual(wrong[:5], [], f"{len(wrong)} of {len(asked)} differ")
        self.assertGreater(sum(one.endswith("00000\n") for one in plain), len(plain) / 2)

    def test_joins_of_two_types(self):
        """By hashes, by merging and by nested loops; by an index on either side, whose pages are asked whole."""
        pairs = [(a, b) for group in (NUMBERS, TIMES) for a, b in itertools.permutations(group, 2)]
        asked = [(join, a, b) for join in JOINS for a, b in pairs]
        for form in FORMS:
            socket = self.evaluator().socket if form == "isolated" else ""
            server = self.server(form, form=form, socket=socket, conf="timezone = UTC\n")
            self.as_owner(server, tables() + "CREATE EXTENSION encdb_btree;" + "".join(f"CREATE INDEX ON e ({ty}_);" for ty in NUMBERS + TIMES))
            plain = self.answers(server, QUIET, [join.format("p", f"{a}_", f"{b}_") for join, a, b in asked])
            for off in ["enable_hashjoin", "enable_mergejoin", "enable_nestloop", "enable_seqscan"]:
                with self.subTest(form=form, off=off):
                    cells = self.answers(server, f"{self.opening()}SET {off} = off; SET encdb.page_requests = on;{QUIET}",
                                         [join.format("e", f"{a}_", f"{b}_") for join, a, b in asked])
                    self.assertEqual([(ask, one, other) for ask, one, other in zip(asked, plain, cells) if one != other], [])

    def test_statements_on_plain_types_alone(self):
        """What the parser takes untyped parameters for, with encdb on the search path and without."""
        server = self.server(conf="timezone = UTC\n")
        names = server.psql(OF_BOTH).split("\n")
        asked = [f"PREPARE q AS SELECT {name}; SELECT parameter_types FROM pg_prepared_statements; DEALLOCATE q;" for name in names]
        with_it = self.answers(server, QUIET, asked)
        without = self.answers(server, QUIET + "SET search_path = pg_catalog;", asked)
        differ = {name for name, one, other in zip(names, without, with_it) if one != other}
        rounding = {"round($1)", "ceil($1)", "ceiling($1)", "floor($1)", "round($1, $2)", "trunc($1, $2)"}
        self.assertEqual(differ, {"abs($1)", "power($1, $2)", "$1 ^ $2"} | rounding)  # the Limits of docs/confidential/encdb.md
        self.assertGreater(sum(one.endswith("}\n00000\n") for one in without), 10)

    def answers(self, server, prologue, statements):
        """What each statement gives: its rows and its SQLSTATE."""
        script = prologue + "".join(f"\\echo ---\n{one}\n\\echo :SQLSTATE\n" for one in statements) + "\\echo ---\n"
        done = server.run("psql", "-X", "-q", "-A", "-t", "-d", "postgres", "-U", "postgres", input=script, check=False)
        answers = done.stdout.split("---\n")[1:-1]
        self.assertEqual(len(answers), len(statements), done.stderr[-2000:])
        return answers


if __name__ == "__main__":
    main(__file__, TOOLS)
