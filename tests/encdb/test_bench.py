#!/usr/bin/env python3
"""`pgseal bench confidential` and `pgseal bench tpch`, as small as they can be.

What they measure is not looked at; that statements ran on every variant is, that the columns were cells, and that the programs
beside a server were the ones that the variant is named after.
"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential, programs  # noqa: E402
from pgseal_test import PG, PGSEAL, base_environment, main  # noqa: E402

VARIANTS = ["stock", "proxy", "inline", "isolated", "inline-in-process", "isolated-in-process", "inline-no-pages", "isolated-no-pages"]
CASES = ["scenario 1 point", "scenario 1 range", "scenario 1 write", "scenario 2 point", "scenario 2 range", "scenario 2 write",
         "scenario 3 point on k", "scenario 3 range on k"]
# Two groups of the digits that the columns c and pad begin with.
DIGITS = re.compile(rb"\d{11}-\d{11}")
SMALL = ["--tables=1", "--rows=1000", "--time=1", "--warm-up=1", "--threads=2", "--rounds=1"]
QUERIES = 22
# Of the smallest scale's queries, the parameters of some select nothing.
QUERIES_WITH_ROWS = 18
TIME_LIMIT = 600
LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"


class Bench(Confidential):
    def bench(self, recipe, *options, pg=None):
        """The exit status, what was printed on standard error, and the report, if there is one."""
        data, report = self.directory / "data", self.directory / "report.json"
        data.mkdir(exist_ok=True)
        environment = {**base_environment(), "PGSEAL_BENCH_LOCK": f"pgseal-bench-test-{os.getpid()}"}
        command = [PGSEAL, "bench", recipe, f"--pg={pg or programs()}", f"--data={data}", *options, f"--json={report}", "--no-progress"]
        done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=TIME_LIMIT, check=False)
        return done.returncode, done.stderr, json.loads(report.read_text()) if report.exists() else None


class Recipe(Bench):
    def run_all(self, variants, cases, *options):
        """A run of which nothing may be missing."""
        status, errors, report = self.bench("confidential", *SMALL, *options)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual([variant["name"] for variant in report["variants"]], variants)
        self.assertEqual([case["name"] for case in report["cases"]], [f"{case}, 2 threads" for case in cases])
        for case in report["cases"]:
            only, = case["rounds"]
            self.assertEqual(sorted(only["samples"]), sorted(variants))
            for name, sample in only["samples"].items():
                # A transaction takes more than 5 µs of a server, and in a second each variant runs some.
                self.assertGreater(sample["work"], 10, (case["name"], name))
                self.assertGreater((sample["user_s"] + sample["system_s"]) / sample["work"], 5e-6, (case["name"], name))
                beside = set() if name == "stock" or name.endswith("in-process") else {"proxy_cpu_us"}
                beside |= {"evaluator_cpu_us"} if name.startswith("isolated") else set()
                self.assertEqual(set(sample["extra"]), beside, (case["name"], name))
            self.assertGreater(case["published"][0]["added_us"], 0)
        self.assertEqual(list((self.directory / "data").iterdir()), [])

    def test_every_variant(self):
        self.run_all(VARIANTS, ["scenario 3 point on k"], "--scenario=3", "--kind=point")

    def test_both_databases_and_a_range(self):
        variants = ["stock", "isolated"]
        self.run_all(variants, ["scenario 1 range", "scenario 2 range"], "--scenario=1,2", "--kind=range", "--variant=isolated")

    @unittest.skipUnless(LONG, "takes two minutes of both processors")
    def test_everything(self):
        self.run_all(VARIANTS, CASES)

    def test_the_columns_hold_cells(self):
        status, errors, _ = self.bench("confidential", *SMALL, "--keep", "--variant=inline", "--scenario=2", "--kind=write")
        kept, = (self.directory / "data").iterdir()
        self.assertEqual((status, errors), (0, f"pgseal: kept: {kept}\n"))
        found = {}
        for cluster in [kept / "loaded" / name for name in ("plain", "encrypted")] + [kept / "set0" / name for name in ("stock", "inline")]:
            files = [path for path in (cluster / "data").rglob("*") if path.is_file()]
            found[cluster.name, cluster.parent.name] = any(DIGITS.search(path.read_bytes()) for path in files)
        self.assertEqual(found, {("plain", "loaded"): True, ("encrypted", "loaded"): False,
                                 ("stock", "set0"): True, ("inline", "set0"): False})

    def test_refusals(self):
        def refused(*options, pg=None):
            status, errors, report = self.bench("confidential", *SMALL, *options, pg=pg)
            self.assertIsNone(report)
            return status, errors
        # Debian's own programs, where nobody has installed the extension.
        status, errors = refused(pg=PG)
        self.assertEqual((status, "has no extension encdb: install it" in errors), (2, True), errors)
        status, errors = refused(f"--peer=other={programs()}")
        self.assertEqual((status, "leave --peer out" in errors), (2, True), errors)
        status, errors = refused("--sysbench=/nonexistent/sysbench")
        self.assertEqual((status, "/nonexistent/sysbench cannot be started" in errors), (3, True), errors)


class Tpch(Bench):
    def queries(self, *options):
        """The samples of each query, by variant. A result that differs from the plain one would have ended the run."""
        status, errors, report = self.bench("tpch", "--rounds=1", "--repeat=1", *options)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(list((self.directory / "data").iterdir()), [])
        return {case["name"].split(":")[0]: case["rounds"][0]["samples"] for case in report["cases"]}

    def test_every_query_has_the_plain_result_in_both_forms(self):
        queries = self.queries("--scale=0.002")
        self.assertEqual(list(queries), [f"Q{number}" for number in range(1, QUERIES + 1)])
        for name, samples in queries.items():
            self.assertEqual(sorted(samples), ["inline", "isolated", "stock"])
            self.assertEqual({variant for variant, sample in samples.items() if "refused" in sample}, set(), name)
            self.assertEqual({sample["extra"]["rows"] for sample in samples.values()}, {samples["stock"]["extra"]["rows"]}, name)
            self.assertEqual(samples["inline"]["extra"]["requests"], 0, name)
            self.assertGreater(samples["isolated"]["extra"]["requests"], 0, name)
            self.assertNotIn("requests", samples["stock"]["extra"])
        self.assertGreaterEqual(sum(samples["stock"]["extra"]["rows"] > 0 for samples in queries.values()), QUERIES_WITH_ROWS)

    def test_read_ahead_is_a_variant(self):
        samples = self.queries("--scale=0.001", "--query=6", "--variant=isolated,isolated-no-read-ahead")["Q6"]
        ahead, alone = (samples[name]["extra"]["requests"] for name in ("isolated", "isolated-no-read-ahead"))
        self.assertGreater(alone, 10 * ahead)

    def test_keys_may_be_encrypted_too(self):
        queries = self.queries("--scale=0.001", "--keys", "--query=3,5,21", "--variant=isolated")
        self.assertEqual([sample["refused"] for samples in queries.values() for sample in samples.values() if "refused" in sample], [])
        self.assertEqual(list(queries), ["Q3", "Q5", "Q21"])

    def test_refusals(self):
        for option, why in (("--key-lengths=256", "leave --peer and --key-lengths out"), ("--scale=0", "from 0.001 to 100")):
            status, errors, report = self.bench("tpch", option)
            self.assertEqual((status, why in errors, report), (2, True, None), errors)


if __name__ == "__main__":
    main(__file__, TOOLS)
