#!/usr/bin/env python3
"""psycopg2 through pgseal proxy: statements with literals in them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import HERE, Drivers, in_long_form  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402


class Psycopg2(Drivers):
    def command(self):
        """Debian's package, so Debian's interpreter."""
        return [sys.executable, HERE / "python/with_dbapi.py", "psycopg2"]

    def test_inline(self):
        self.runs_scenarios(self.command(), "inline")

    def test_isolated(self):
        self.runs_scenarios(self.command(), "isolated")

    @in_long_form
    def test_large(self):
        self.runs_large(self.command())


if __name__ == "__main__":
    main(__file__, TOOLS)
