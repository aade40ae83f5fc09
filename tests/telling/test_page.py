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
        settings, outside = Page(PAGE, {}).blocks("sh")
        said = self.run_commands(settings, environment).splitlines()
        self.assertEqual(sorted(line.split("|")[0] for line in said), ["pgseal.key_id", "pgseal.sealed", "pgseal.version"])
        self.assertIn("pgseal.sealed|on", said)
        said = self.run_commands(f"cd {cluster.home}\n{outside}", environment)
        self.assertIn("\nserver:         running sealed (process", said)
        self.assertIn("\nPGSEAL OK - sealed, key id ", said)
        metrics = (cluster.home / "pgseal.prom").read_text()
        self.assertIn(f'pgseal_server_sealed{{data_directory="{cluster.data.resolve()}"}} 1\n', metrics)


if __name__ == "__main__":
    main(__file__, [PAGE])
