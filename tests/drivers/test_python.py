#!/usr/bin/env python3
"""psycopg 3, asyncpg and pg8000 through pgseal proxy: parameters, prepared and not, in text and in binary."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import Drivers, in_long_form  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402


class Psycopg3(Drivers):
    def test_inline(self):
        self.runs_scenarios(self.python("with_dbapi.py", "psycopg"))

    @in_long_form
    def test_isolated(self):
        self.runs_scenarios(self.python("with_dbapi.py", "psycopg"), "isolated")

    @in_long_form
    def test_large(self):
        self.runs_large(self.python("with_dbapi.py", "psycopg"))

    def test_literals(self):
        self.runs_scenarios(self.python("with_dbapi.py", "psycopg-client"))


class Psycopg3InBinary(Drivers):
    """Results, and rows of COPY."""

    # Eight bytes for a column of four
    other_errors = {"copy/too large": "22P03"}

    def test_inline(self):
        self.runs_scenarios(self.python("with_dbapi.py", "psycopg-binary"))


class Asyncpg(Drivers):
    own_errors = {"ranges/too large", "copy/too large", "cancelled/cancel"}

    @in_long_form
    def test_inline(self):
        self.runs_scenarios(self.python("with_asyncpg.py"))

    def test_isolated(self):
        self.runs_scenarios(self.python("with_asyncpg.py"), "isolated")


class Pg8000(Drivers):
    def test_inline(self):
        self.runs_scenarios(self.python("with_dbapi.py", "pg8000"))

    @in_long_form
    def test_isolated(self):
        self.runs_scenarios(self.python("with_dbapi.py", "pg8000"), "isolated")


if __name__ == "__main__":
    main(__file__, TOOLS)
