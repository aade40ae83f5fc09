#!/usr/bin/python3
"""The recipes `worst`, `upgrade` and `cipher` of `pgseal bench`, as small as they can be.

What they measure is not looked at; that every load ran on every variant, and that its pages went through the library, is.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from pgseal_test import main  # noqa: E402
from running import Bench, VARIANTS  # noqa: E402


class Worst(Bench):
    # Pages that each load must move at least when sealed: decrypted, encrypted. A page has 35 rows of 232 bytes.
    ROWS = 2 * 1_000_000 // 232
    TABLE = ROWS // 36
    REPEATS = 4  # of such a small table
    PAGES = {
        "CREATE TABLE AS": (TABLE, REPEATS * TABLE),
        "ALTER TABLE, rewrite": (0, REPEATS * TABLE),
        "VACUUM FULL": (0, REPEATS * TABLE),
        "UPDATE of all rows": (0, REPEATS * TABLE),
        "WAL, 3 writers": (0, 800),  # a message of 8000 bytes each
        "128 cached sequential scans": (0, 0),
        "sort with spill": (1, 1),
        "60 tables, made and used": (0, 60),
        "cold connections": (0, 0),
    }

    def test_every_load_runs_on_every_variant(self):
        small = ["--megabytes=2", "--writers=3", "--tables=60", "--connections=6", "--shared-buffers=1"]
        report = self.run_recipe("worst", "--quick", "--rounds=1", *small)
        self.assertEqual([case["name"] for case in report["cases"]], list(self.PAGES))
        for case in report["cases"]:
            opened, sealed = self.PAGES[case["name"]]
            pages = self.samples(case)["sealed-256"]["pages"]
            self.assertGreaterEqual(pages["opened"], opened, case["name"])
            self.assertGreaterEqual(pages["sealed"], sealed, case["name"])
        work = {case["name"]: self.samples(case)["stock"]["work"] for case in report["cases"]}
        self.assertEqual((work["WAL, 3 writers"], work["cold connections"], work["VACUUM FULL"]), (999, 6, self.REPEATS))


class Cipher(Bench):
    def test_every_length_both_ways_beside_others(self):
        report = self.bench("cipher", "--rounds=1")
        self.assertEqual([variant["name"] for variant in report["variants"]], ["stock", "pgseal", "openssl"])
        in_caches = [f"{way}, {bits} bits" for way in ("decrypt", "encrypt") for bits in (256, 192, 128)]
        samples_of = {case["name"]: case["rounds"][0]["samples"] for case in report["cases"]}
        self.assertEqual(list(samples_of), [*in_caches, "encrypt, 256 bits, from memory"])
        self.assertEqual(sorted(samples_of["encrypt, 256 bits, from memory"]), ["pgseal", "stock"])
        self.assertTrue(all(sorted(samples_of[case]) == ["openssl", "pgseal", "stock"] for case in in_caches))
        for case, samples in samples_of.items():
            for name, sample in samples.items():
                # 100 MB/s to 160 GB/s
                self.assertTrue(50 < sample["value"] < 80000, (case, name, sample))


class Upgrade(Bench):
    def test_both_cases_are_of_one_run(self):
        report = self.run_recipe("upgrade", "--rounds=1", "--scale=1")
        elapsed, cpu = (self.samples(case) for case in report["cases"])
        for name in VARIANTS:
            first, second = elapsed[name], cpu[name]
            self.assertEqual({**first, "value": 0}, {**second, "value": 0})
            self.assertAlmostEqual(second["value"], second["user_s"] + second["system_s"])
            # pg_upgrade and its servers, which take more than a tenth of a second together.
            self.assertGreater(second["value"], 0.1)
        # The 13 MB of the accounts, at least.
        self.assertGreater(elapsed["sealed-256"]["pages"]["sealed"], 1600)


if __name__ == "__main__":
    main(__file__)
