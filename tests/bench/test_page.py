#!/usr/bin/python3
"""The commands of docs/operations/bench.md, run as they are printed, with a shorter measurement."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page, PageCase  # noqa: E402
from pgseal_test import PG, PGSEAL, base_environment, main, run  # noqa: E402

PAGE = "docs/operations/bench.md"
SHORTER = {"--quick": "--scale 1 --client 1 --time 1 --rounds 1 --sets 1"}


class Commands(PageCase):
    def test_the_commands(self):
        blocks = Page(PAGE, SHORTER).blocks("sh")
        self.assertEqual(len(blocks), 2)
        path = f"{PG}:{PGSEAL.parent}:{base_environment()['PATH']}"
        environment = {**base_environment(), "PATH": path, "PGSEAL_BENCH_LOCK": f"pgseal-bench-test-{os.getpid()}"}
        said = self.run_commands("".join(blocks), environment)
        # After one round no interval decides anything.
        self.assertRegex(said, r"(?m)^### scale 1, 1 connections$(?s:.*)^\| sealed-256, loss +\| +\| too few rounds \|$")
        made = {path.name for path in self.directory.iterdir()}
        self.assertEqual(made, {"before.json", "before.html", "before.md", "after.json"})
        self.assertEqual(json.loads((self.directory / "after.json").read_text())["recipe"], "readonly")
        shown = run([PGSEAL, "bench", "report", self.directory / "before.json"]).stdout
        self.assertIn(shown, said)
        self.assertEqual([line for line in shown.splitlines() if len(line) > 80], [])
        self.assertIn("| case ", (self.directory / "before.md").read_text())


if __name__ == "__main__":
    main(__file__, [PAGE])
