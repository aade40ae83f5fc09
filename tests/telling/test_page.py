#!/usr/bin/python3
"""The commands of docs/operations/monitoring.md, run as they are printed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page, PageCase
from pgseal_test import PG, PGSEAL, base_environment, main

PAGE = "docs/operations/monitoring.md"


class Commands(PageCase):
    def test_the_commands(self):
        cluster = self.cluster().init().start()
        path = f"{PG}:{PGSEAL.parent}:{base_environment()['PATH']}"
        environment = {**base_environment(), **cluster.environment, "PATH": path}
        settings, = Page(PAGE, {}).blocks("sh")
        said = self.run_commands(settings, environment).splitlines()
        self.assertEqual(sorted(line.split("|")[0] for line in said), ["pgseal.key_id", "pgseal.sealed", "pgseal.version"])
        self.assertIn("pgseal.sealed|on", said)


if __name__ == "__main__":
    main(__file__, [PAGE])
