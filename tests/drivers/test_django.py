#!/usr/bin/env python3
"""Django's ORM through pgseal proxy, on psycopg 3."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import Drivers  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402


class Django(Drivers):
    absent = {"copy": "left to the driver", "prepared/with it": "its models are declared before", "cancelled/cancel": "left to the driver"}
    own_errors = {"errors/failed"}

    def test_inline(self):
        self.runs_scenarios(self.python("with_django.py"))

    def test_isolated(self):
        self.runs_scenarios(self.python("with_django.py"), "isolated")


if __name__ == "__main__":
    main(__file__, TOOLS)
