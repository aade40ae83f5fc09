#!/usr/bin/env python3
"""SQLAlchemy through pgseal proxy, Core and ORM, on psycopg 3 and on asyncpg."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import Drivers  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402


class Sqlalchemy(Drivers):
    absent = {"copy": "left to the driver", "prepared/with it": "its tables are declared before", "cancelled/cancel": "left to the driver"}
    uncounted = {"insert/rows", "change/conflict ignored", "change/update many"}
    own_errors = {"ranges/too large", "errors/failed"}

    def test_on_psycopg(self):
        self.runs_scenarios(self.python("with_sqlalchemy.py", "psycopg"))

    def test_on_asyncpg(self):
        self.runs_scenarios(self.python("with_sqlalchemy.py", "asyncpg"), "isolated")


if __name__ == "__main__":
    main(__file__, TOOLS)
