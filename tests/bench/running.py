"""One run of a recipe, and its report (imported by the tests of recipes only)."""

import json
import os
import subprocess

from pgseal_test import PG, PGSEAL, Case, base_environment

# A recipe starts some dozens of servers, and CI's other tests run beside it.
TIME_LIMIT = 900
VARIANTS = ["stock", "loaded", "sealed-256"]


class Bench(Case):
    """A directory for clusters, which must be empty when a run has ended, and a report beside it."""

    def run_recipe(self, recipe, *options):
        """The report of a run that must end well."""
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        report = self.bench(recipe, f"--pg={PG}", f"--data={data}", *options)
        self.assertEqual(list(data.iterdir()), [])
        return report

    def bench(self, *arguments):
        """The same, of what needs no server."""
        report = self.directory / "report.json"
        # Another benchmark of this machine is not disturbed by runs that measure nothing.
        environment = {**base_environment(), "PGSEAL_BENCH_LOCK": f"pgseal-bench-test-{os.getpid()}"}
        if "PGSEAL_CACHE" in os.environ:
            environment["PGSEAL_CACHE"] = os.environ["PGSEAL_CACHE"]
        done = subprocess.run([PGSEAL, "bench", *arguments, f"--json={report}", "--no-progress"], env=environment, text=True,
                              capture_output=True, timeout=TIME_LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(report.read_text())

    def samples(self, case):
        """Of a case's only round, by variant; all of them are there and hold something."""
        only, = case["rounds"]
        samples = only["samples"]
        self.assertEqual(sorted(samples), sorted(VARIANTS), case["name"])
        for name, sample in samples.items():
            self.assertGreater(min(sample["value"], sample["work"]), 0, (case["name"], name))
            self.assertEqual(sum(sample["pages"].values()) > 0, name == "sealed-256", (case["name"], name, sample))
        return samples
