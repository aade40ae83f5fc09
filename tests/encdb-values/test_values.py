#!/usr/bin/env python3
"""What the evaluator computes is what PostgreSQL 15 computes: result, scale, bytes, SQLSTATE.

Thousands of expressions over all types and operations, from a seed (PGSEAL_VALUES_SEED, PGSEAL_VALUES_COUNT), are put to
a plain server and to the crate's example `evaluate`, and every answer must be the same. What they are made of is in
expressions.py. Versions differ (powers since 16, texts of integers since 16): the crate follows 15, so only 15 is asked.
"""

import csv
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import STAGE, Case, main, major_version  # noqa: E402

from expressions import Expressions  # noqa: E402

EVALUATE = "target/debug/examples/evaluate"
SEED = int(os.environ.get("PGSEAL_VALUES_SEED", "5"))
COUNT = int(os.environ.get("PGSEAL_VALUES_COUNT", "20000"))
SHOWN = 40
# What reads as the name of a zone is refused; PostgreSQL may know it, or read it as a rule of POSIX.
ZONE_NAME = "error 22023"

# `answer` gives what an expression gives, in the form of `evaluate`; `sent` is the type's send function.
SETUP = "SET client_min_messages = warning; CREATE SCHEMA v; CREATE TABLE v.e (id int, sql text);\n" + "".join(
    f"CREATE FUNCTION v.sent({name}) RETURNS bytea LANGUAGE sql AS 'SELECT {send}($1)';\n" for name, send in [
        ("int4", "int4send"), ("int8", "int8send"), ("float4", "float4send"), ("float8", "float8send"),
        ("numeric", "numeric_send"), ("bool", "boolsend"), ("date", "date_send"), ("timestamp", "timestamp_send"),
        ("timestamptz", "timestamptz_send"), ("uuid", "uuid_send"), ("bytea", "byteasend"), ("interval", "interval_send"), ("text", "textsend")]) + """
CREATE FUNCTION v.styled(style text, given text) RETURNS text LANGUAGE plpgsql SET intervalstyle = 'postgres' AS $$
BEGIN
    PERFORM set_config('intervalstyle', style, true);
    RETURN given::interval::text;
END $$;
CREATE FUNCTION v.answer(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE 'SELECT CASE WHEN r IS NULL THEN ''null'' ELSE ''value x'' || encode(convert_to(format(''%s'', r), ''UTF8''), ''hex'')'
        ' || '' x'' || encode(v.sent(r), ''hex'') END FROM (SELECT ' || sql || ' AS r) AS s' INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    RETURN 'error ' || SQLSTATE;
END $$;
"""


class Values(Case):
    maxDiff = None

    @unittest.skipIf(major_version() != 15, "the crate follows PostgreSQL 15")
    def test_every_answer_is_postgresqls(self):
        expressions = Expressions(SEED).make(COUNT)
        theirs = self.postgresql([sql for sql, _ in expressions])
        ours = self.evaluator([line for _, line in expressions])
        self.assertEqual((len(theirs), len(ours)), (len(expressions), len(expressions)))
        self.assertEqual(self.differences(expressions, theirs, ours), [])
        self.show(expressions, theirs)

    def postgresql(self, statements):
        """The server's answers. Its time zone and locale are the evaluator's: UTC and C."""
        cluster = self.cluster(sealed=False, conf="timezone = 'UTC'\nlc_messages = 'C'\njit = off\n").init().start()
        table = self.directory / "expressions.csv"
        with open(table, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(enumerate(statements))
        cluster.psql(SETUP)
        cluster.psql(f"\\copy v.e FROM '{table}' (FORMAT csv)")
        return [without_nan(line) for line in cluster.psql("SELECT v.answer(sql) FROM v.e ORDER BY id").split("\n")]

    def evaluator(self, lines):
        """The crate's answers."""
        done = subprocess.run([STAGE / EVALUATE], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [without_nan(line) for line in done.stdout.splitlines()]

    def differences(self, expressions, theirs, ours):
        """The first answers that differ, readable."""
        found = [(sql, readable(a), readable(b)) for (sql, line), a, b in zip(expressions, theirs, ours)
                 if a != b and not (b == ZONE_NAME and re.match(r"parse (date|timestamp)", line))]
        if found:
            print(f"{len(found)} differences (PostgreSQL, ours)")
        return [f"{sql[:400]}  {a[:200]}  {b[:200]}" for sql, a, b in found[:SHOWN]]

    def show(self, expressions, theirs):
        """How much was compared: values and errors of each operation."""
        counts = {}
        for (_, line), answer in zip(expressions, theirs):
            row = counts.setdefault(line.split(" ")[0], {"value": 0, "error": 0, "null": 0})
            row[answer.split(" ")[0]] += 1
        for operation, row in sorted(counts.items()):
            print(f"{operation:10} {row['value']:6} values {row['error']:6} errors {row['null']:4} nulls")
            self.assertGreater(row["value"], 0, operation)


def without_nan(answer):
    """The answer without the sign of a float's NaN, which depends on the order in which a compiler adds."""
    return re.sub(r"^(value x4e614e x)[7f]f(c00000|f8000000000000)$", r"\1\2", answer)


def readable(answer):
    """An answer with its text as text."""
    words = answer.split(" ")
    if words[0] != "value":
        return answer
    return f"{bytes.fromhex(words[1][1:]).decode(errors='replace')!r} {words[2]}"


if __name__ == "__main__":
    main(__file__, tools=[EVALUATE])
