#!/usr/bin/env python3
"""What make install-extensions needs and says, and what an extension says whose parts come from different builds."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import SERVER, Confidential, programs  # noqa: E402
from pgseal_test import PG, STAGE, Case, main, run  # noqa: E402

SOURCES = "extension/encdb"
LIBRARY = "target/release/libpgseal_pgext.a"
TOOLS = ["Makefile", "scripts/server-headers.sh", SERVER, SOURCES, LIBRARY]
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


class Interface(Confidential):
    """The extension in C and its library in Rust are linked to one module. Both know the header that they were built of."""

    def module(self, name, header_ends=""):
        """The module of a copy of the extension's sources, whose header ends so, and of the library as it was built."""
        sources, into = self.directory / name / "sources", self.directory / name / "built"
        shutil.copytree(STAGE / SOURCES, sources)
        with open(sources / "src/pgext.h", "a") as header:
            header.write(header_ends)
        (into / "src").mkdir(parents=True)
        run(["make", "-C", into, "-f", sources / "Makefile", f"PG_CONFIG={programs() / 'pg_config'}",
             f"PGSEAL_PGEXT={STAGE / LIBRARY}", "encdb.so"])
        return into / "encdb.so"

    def test_parts_of_different_builds_do_not_load(self):
        server = self.server(extension=False)
        load = "\\set VERBOSITY verbose\nLOAD '{}';\n"
        server.psql(load.format(self.module("same")))
        other = self.module("other", "/* A comment is a change, too. */\n")
        said = server.psql(load.format(other), error="ERROR: +F0000: the parts of encdb come from different builds")
        self.assertIn("Build and install the extension again with make install-extensions.", said)


if __name__ == "__main__":
    main(__file__, TOOLS)
