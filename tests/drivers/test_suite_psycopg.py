#!/usr/bin/env python3
"""psycopg 3's own tests, at a server and through pgseal proxy.

The tests are in psycopg's repository only: PGSEAL_PSYCOPG names a copy of it, of the version that psycopg/requirements.txt names.
"""

import os
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import suites  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from places import place  # noqa: E402

SOURCE = Path(os.environ.get("PGSEAL_PSYCOPG", "/nonexistent"))
# The same random values in each run. Its slow tests wait, or look for leaks of its own.
OPTIONS = ["-q", "--randomly-seed=15", "--randomly-dont-reorganize", "-m", "not slow"]
# Code in a language that is not read, letters of another encoding in names, and backslashes that may mean something else.
REFUSED = {
    suites.CODE: {f"tests.test_sql.TestLiteral.test_invalid_name[{name}]" for name in ("FooBar", "\\u20ac", "a-b", "foo bar", "order")}
    | {f"tests.test_errors.test_error_encoding[{encoding}]" for encoding in ("latin9", "utf8")},
    suites.ENCODING: {"tests.pq.test_misc.test_error_message_encoding", "tests.test_column.test_name_encode[latin9]"},
    suites.BACKSLASHES: {f"tests.types.test_string.test_quote_1byte[{kind}-off]" for kind in ("Binary", "bytearray", "bytes", "memoryview")}
    | {"tests.types.test_string.test_quote_1char[off]"}
    | {f"tests.test_sql.{test}[off]" for test in ("test_quote_roundtrip", "test_quote_stable_despite_deranged_libpq")},
}


@unittest.skipUnless(SOURCE.exists(), "psycopg's packages do not have its tests: PGSEAL_PSYCOPG names a copy of its repository")
class Psycopg(suites.Suites):
    prepared = "CREATE EXTENSION hstore"
    refused = REFUSED

    def test_suite(self):
        self.copy = self.directory / "psycopg-source"
        shutil.copytree(SOURCE, self.copy)
        self.compare("psycopg", self.pytest, 4000)

    def pytest(self, where, server):
        report = self.directory / f"{where}.xml"
        dsn = f"host=127.0.0.1 port={server.tcp} user=postgres dbname={server.database}"
        text = self.output([place("psycopg") / "bin/python", "-m", "pytest", *OPTIONS, "--test-dsn", dsn, f"--junitxml={report}",
                            "-o", f"cache_dir={self.directory}/cache-{where}", "tests"],
                           self.copy, PYTHONDONTWRITEBYTECODE="1")
        return suites.of_report(report, lambda case: f"{case.get('classname')}.{case.get('name')}"), text


if __name__ == "__main__":
    main(__file__, TOOLS)
