#!/usr/bin/python3
"""The recipe `tprocc` of `pgseal bench`, on one warehouse for a moment. It needs go-tpc: scripts/fetch-go-tpc.sh.

The driver's own consistency check follows each run, so that a run that ends well lost nothing.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from pgseal_test import PG, PGSEAL, base_environment, main  # noqa: E402
from running import Bench  # noqa: E402

CURVES = ["cpu_percent", "data_read_kb_s", "data_write_kb_s", "memory_mb", "nopm", "wal_write_kb_s"]


class Tprocc(Bench):
    def test_ramp_and_steady_state_with_curves(self):
        small = ["--warehouses=1", "--users=2", "--ramp=1:1:1", "--ramp-time=2", "--ramp-up=1", "--time=3"]
        report = self.run_recipe("tprocc", "--quick", "--rounds=1", *small)
        self.assertEqual([case["name"] for case in report["cases"]],
                         ["ramp, 1 virtual users", "steady state, 2 virtual users"])
        for case, seconds in zip(report["cases"], [2, 3]):
            for name, sample in self.samples(case).items():
                self.assertEqual(sorted(sample["curves"]), CURVES)
                self.check_curves(name, sample, seconds)

    def check_curves(self, name, sample, seconds):
        """One point a second, of the second before too; new orders per minute are the mean of what counts."""
        for curve, points in sample["curves"].items():
            self.assertEqual(len(points), 1 + seconds, (name, curve))
            self.assertAlmostEqual(points[-1][0], 1 + seconds, delta=0.5)
        orders = [value for _, value in sample["curves"]["nopm"][1:]]
        self.assertAlmostEqual(sample["value"] / (sum(orders) / seconds), 1, delta=0.2)
        for curve in ["cpu_percent", "memory_mb", "wal_write_kb_s"]:
            self.assertGreater(sum(value for _, value in sample["curves"][curve]), 0, (name, curve))


class Refused(Bench):
    def test_a_missing_driver_is_named_with_what_to_run(self):
        data = self.directory / "data"
        data.mkdir()
        command = [PGSEAL, "bench", "tprocc", f"--pg={PG}", f"--data={data}", "--quick", "--driver=/nonexistent"]
        environment = {**base_environment(), "PGSEAL_BENCH_LOCK": f"pgseal-bench-test-{os.getpid()}"}
        done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Apgseal: go-tpc 1\.0\.12 is missing: build it with scripts/fetch-go-tpc\.sh[^\n]*\n\Z")
        self.assertEqual(list(data.iterdir()), [])


if __name__ == "__main__":
    main(__file__)
