#!/usr/bin/env python3
"""make install-extensions says what to install where PostgreSQL's server headers are missing, and builds nothing then."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, STAGE, Case, main  # noqa: E402

TOOLS = ["Makefile", "scripts/server-headers.sh"]
CONFIG = """#!/bin/bash
case $1 in
    --version) echo 'PostgreSQL 17.4 (Debian 17.4-1)' ;;
    --includedir-server) echo {headers} ;;
    --pgxs) echo {pgxs} ;;
esac
"""


class Install(Case):
    def make(self, config):
        command = ["make", "-C", STAGE, "install-extensions", f"PG_CONFIG={config}", "CARGO=echo built:"]
        return subprocess.run(command, text=True, capture_output=True)

    def config(self, headers, pgxs):
        file = self.directory / "pg_config"
        file.write_text(CONFIG.format(headers=headers, pgxs=pgxs))
        file.chmod(0o755)
        return file

    def test_what_is_missing_is_named(self):
        there = self.directory / "postgres.h"
        for config, says in [(self.config(self.directory, self.directory / "pgxs.mk"), "apt-get install postgresql-server-dev-17"),
                             (self.directory / "none", "name the pg_config of your PostgreSQL by PG_CONFIG=")]:
            with self.subTest(config=config):
                done = self.make(config)
                self.assertEqual(done.returncode, 2)
                self.assertIn(says, done.stderr)
                self.assertNotIn("built:", done.stdout)
        there.touch()
        done = self.make(self.config(self.directory, self.directory / "pgxs.mk"))
        self.assertIn(f"there is no {self.directory}/pgxs.mk", done.stderr)

    def test_where_they_are_it_builds(self):
        self.assertIn("built:", self.make(PG / "pg_config").stdout)


if __name__ == "__main__":
    main(__file__, TOOLS)
