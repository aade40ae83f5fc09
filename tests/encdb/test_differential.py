#!/usr/bin/env python3
"""The same statements on a plain table and on an encrypted one agree: rows, order and SQLSTATE.

Thousands of them, from a seed (PGSEAL_SEED repeats a run; PGSEAL_TEST_LONG makes ten times as many), inline and isolated,
with indexes on the encrypted columns. statements.py says what they are.
"""

import os
import re
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, VERSION, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402
from statements import Statements  # noqa: E402

SEED = int(os.environ.get("PGSEAL_SEED") or secrets.randbits(32))
HOW_MANY = {"inline": 2500, "isolated": 600}
FACTOR = 10 if os.environ.get("PGSEAL_TEST_LONG") else 1
QUIET = "\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\n"


def names_a_zone(statement, plain, sealed):
    """docs/encdb-values.md: no text becomes a date or an instant by the name of a zone, and to PostgreSQL even `e3` is one."""
    becomes_a_date = re.search(r"::(date|timestamp)", statement) and "bytea" not in statement  # whose malformed text is 22023, too
    return bool(becomes_a_date) and sealed == "22023\n" and plain.endswith("00000\n")


def gives_all(server):
    """Returns whether this PostgreSQL takes the least integer in right() for 0 characters to leave out. Later minors, and encdb, give
    the empty text. If so, a statement that says it is not compared."""
    gives = server.psql("SELECT right('a', -2147483648)") == "a"
    return lambda statement: gives and re.search(r"right\(.*-2147483648", statement)


def has_other_intervals(statement, plain, sealed):
    """Whether a result may be another one since PostgreSQL 17, which has infinite intervals, also by their text, or since 18, which has the
    week of an interval and another quarter of a negative one."""
    has_interval = int(VERSION) >= 17 and re.search(r"interval|\bv[12]\b|\bage\(| - ", statement)
    is_infinite = has_interval and ("infinity" in plain or sealed in ("22007\n", "22008\n"))
    return is_infinite or int(VERSION) >= 18 and re.search(r"(extract|date_part)\('?(week|quarter)", statement)


class Differential(Confidential):
    def test_inline(self):
        self.compare("inline")

    def test_isolated(self):
        self.compare("isolated", self.evaluator().socket)

    def compare(self, form, socket=""):
        statements = Statements(f"{SEED} {form}")
        server = self.server(form=form, socket=socket)
        tables = statements.tables() + statements.indexes() + "ANALYZE;\n"
        pairs = [statements.statement() for _ in range(HOW_MANY[form] * FACTOR)]
        key = "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;\n"
        self.as_owner(server, key + tables)
        plain = self.answers(server, "", [one for one, _ in pairs])
        sealed = self.answers(server, self.opening() + statements.prologue(), [other for _, other in pairs])
        is_other = gives_all(server)
        wrong = [(pair, *both) for pair, *both in zip(pairs, plain, sealed)
                 if both[0] != both[1] and not names_a_zone(pair[0], *both) and not is_other(pair[0])
                 and not has_other_intervals(pair[0], *both)]
        self.assertEqual(wrong[:3], [], f"{len(wrong)} of {len(pairs)} differ; PGSEAL_SEED={SEED}")
        self.assert_they_say_something(plain)

    def answers(self, server, prologue, statements):
        """What each statement gives: its rows, and its SQLSTATE, because messages go to stderr."""
        one = "\\echo ---\nRESET ALL;\n{}\n\\echo :SQLSTATE\nROLLBACK;\n".format
        script = prologue + QUIET + "".join(map(one, statements)) + "\\echo ---\n"
        done = server.run("psql", "-X", "-q", "-A", "-t", "-d", "postgres", "-U", "postgres", input=script, check=False)
        answers = done.stdout.split("---\n")[1:-1]
        self.assertEqual(len(answers), len(statements), done.stderr[-2000:])
        return answers

    def assert_they_say_something(self, answers):
        """A generator that only fails, or finds nothing, compares nothing."""
        failed = sum(bool(re.search(r"^(?!00000)[0-9A-Z]{5}$", one, re.M)) for one in answers)
        empty = sum(one == "00000\n" for one in answers)
        self.assertLess(failed, len(answers) / 3)
        self.assertGreater(failed, 0)
        self.assertLess(empty, len(answers) / 4)


if __name__ == "__main__":
    main(__file__, TOOLS)
