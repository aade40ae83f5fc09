#!/usr/bin/env python3
"""Queries of all shapes on a plain schema and on an encrypted one agree: rows, order and SQLSTATE, whatever the plan.

Hundreds of them, from a seed (PGSEAL_SEED repeats a run; PGSEAL_TEST_LONG makes ten times as many), inline and isolated.
The random_*.py say what they are: joins, groups, windows, partitions, constraints, programs, where test_differential.py has
the operations on values. A query is a transaction, which is rolled back.
"""

import os
import re
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import twofold  # noqa: E402
from confidential import TOOLS, VERSION, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402
from random_objects import Objects  # noqa: E402
from random_reads import Ordered, Reads  # noqa: E402
from random_schema import Schema  # noqa: E402
from random_writes import Writes  # noqa: E402

SEED = int(os.environ.get("PGSEAL_SEED") or secrets.randbits(32))
HOW_MANY = {"inline": 400, "isolated": 250}
FACTOR = 10 if os.environ.get("PGSEAL_TEST_LONG") else 1
BATCH = 150  # queries of one session, so that none takes too long
CONF = "timezone = UTC\nmax_parallel_workers_per_gather = 0\nautovacuum = off\n"
PARALLEL = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; " \
           "SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;"
FORCED = "debug_parallel_query" if int(VERSION) >= 16 else "force_parallel_mode"
PLANS = {
    "default": "",
    "hash": "SET enable_mergejoin = off; SET enable_nestloop = off; SET enable_sort = off;",
    "merge": "SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_hashagg = off;",
    "nestloop": "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET enable_material = off;",
    "index": "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;",
    "bitmap": "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;",
    "sequential": "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;",
    "little memory": "SET work_mem = '64kB'; SET hash_mem_multiplier = 1;",
    "sorts on disk": "SET work_mem = '64kB'; SET enable_hashagg = off; SET enable_hashjoin = off; SET enable_indexscan = off;",
    "parallel": f"{PARALLEL} SET enable_partitionwise_join = on;",
    "parallel hash": f"{PARALLEL} SET enable_nestloop = off; SET enable_mergejoin = off; SET enable_sort = off;",
    "one worker": f"SET {FORCED} = on;",
    "compiled": "SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0;",
    "partitionwise": "SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;",
    "no pages": "SET encdb.page_requests = off; SET enable_seqscan = off;",
    "pages": "SET encdb.page_requests = on; SET enable_seqscan = off; SET enable_bitmapscan = off;",
    "generic": "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;",
}
VACUUMED = "DELETE FROM sealed.big WHERE n % 7 > 0 OR n < 2000; DELETE FROM sealed.a WHERE n > 70;\nVACUUM;\n"
CHECKED = """
SELECT bt_index_parent_check(c.oid, indexprs IS NULL, true) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
JOIN pg_am a ON a.oid = relam WHERE amname = 'btree' AND relkind = 'i' AND relnamespace = 'sealed'::regnamespace;
"""


class Queries(Reads, Writes, Objects):
    """Makes queries of every kind, each as often as the others, for every plan."""

    def query(self):
        kinds = [name for maker in (Reads, Writes, Objects) for name in vars(maker) if not name.startswith("_")]
        return self.pick(PLANS), getattr(self, self.pick(kinds))()


class Random(Confidential):
    def test_inline(self):
        self.compare("inline")

    def test_isolated(self):
        self.compare("isolated", self.evaluator().socket)

    def compare(self, form, socket=""):
        seed = f"{SEED} {form}"
        schema, made, constants = Schema(seed), Queries(seed), twofold.Constants()
        queries = [made.query() for _ in range(HOW_MANY[form] * FACTOR)]
        server = self.server(form=form, socket=socket, conf=CONF)
        sealed_tables = constants.sealed(schema.tables(True) + schema.further)
        sealed_texts = [transaction("sealed", constants.sealed(query), PLANS[plan]) for plan, query in queries]
        self.make_schemas(server, schema, constants.prologue() + sealed_tables)
        plain = self.answers(server, "", [transaction("plain", twofold.plain(query)) for _, query in queries])
        sealed = self.answers(server, self.opening() + constants.prologue(), sealed_texts)
        wrong = [f"plan {plan}: {PLANS[plan]}\n{query}\nplain:\n{one}sealed:\n{other}"
                 for (plan, query), one, other in zip(queries, plain, sealed) if not alike(query, one, other)]
        with self.subTest(PGSEAL_SEED=SEED):
            if wrong:
                self.fail("\n".join([f"{len(wrong)} of {len(queries)} differ", *wrong[:3]]))
            self.assert_they_say_something(plain)
            self.assert_indexes_are_whole(server)

    def make_schemas(self, server, schema, sealed):
        """Both. ANALYZE fails of ranges of cells: docs/confidential/encdb.md."""
        server.psql(f"CREATE EXTENSION encdb_btree; CREATE EXTENSION amcheck;\n{schema.rows}"
                    "CREATE SCHEMA plain; SET search_path = plain, public;\n"
                    f"{twofold.plain(schema.tables(False) + schema.further)}ANALYZE;\n")
        key = "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;\n"
        analyzed = "ANALYZE a, b, big, pr, ph, pl, pd;\n"
        self.as_owner(server, f"{key}CREATE SCHEMA sealed; SET search_path = sealed, public;\n{sealed}{analyzed}")

    def answers(self, server, prologue, transactions):
        """What each gives: its rows, and its statements' SQLSTATEs, because messages go to stderr."""
        found = []
        for at in range(0, len(transactions), BATCH):
            batch = transactions[at:at + BATCH]
            script = f"{prologue}\\set copied '{self.directory / 'copied'}'\n\\set ON_ERROR_STOP 0\n\\set ON_ERROR_ROLLBACK on\n"
            script += "".join(batch) + "\\echo ---\n"
            done = server.run("psql", "-X", "-q", "-A", "-t", "-d", "postgres", "-U", "postgres", input=script, check=False)
            answers = done.stdout.split("---\n")[1:-1]
            self.assertEqual(len(answers), len(batch), done.stderr[-2000:])
            found += answers
        return found

    def assert_they_say_something(self, answers):
        """A generator that only fails, or finds nothing, compares nothing."""
        failed = sum(bool(re.search("^SQLSTATE (?!00000)", one, re.M)) for one in answers)
        empty = sum(not re.search("^(?!SQLSTATE ).", one, re.M) for one in answers)
        self.assertGreater(failed, 0)
        self.assertLess(failed, len(answers) / 3)
        self.assertLess(empty, len(answers) / 4)

    def assert_indexes_are_whole(self, server):
        """After what was rolled back, deleted and vacuumed."""
        server.psql(VACUUMED)
        self.as_owner(server, CHECKED)


def transaction(schema, query, settings=""):
    statements = f"{query}\n".replace(";\n", ";\n\\echo SQLSTATE :SQLSTATE\n")
    return (f"\\echo ---\nRESET ALL;\nSET search_path = {schema}, public;\n{settings}\nBEGIN;\n{statements}"
            "ROLLBACK;\nCLOSE ALL;\nDEALLOCATE ALL;\n")


def alike(query, plain, sealed):
    if isinstance(query, Ordered):
        return plain == sealed
    return sorted(plain.split("\n")) == sorted(sealed.split("\n"))


if __name__ == "__main__":
    main(__file__, TOOLS)
