#!/usr/bin/env python3
"""The own tests of pgx and of psycopg2, at a server and through pgseal proxy."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import suites  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from places import place  # noqa: E402

SUITES = place("suites")
# Names of temporary files, which are parts of the names of tests.
TEMPORARY = re.compile(r"(?<=/)[^/]*\d{6,}[^/']*")


@unittest.skipUnless(suites.LONG, "make test-drivers")
class Suites(suites.Suites):
    # What the suites expect of a database, and a role that pgx looks for in an access list.
    prepared = "CREATE EXTENSION hstore; CREATE EXTENSION ltree; CREATE DOMAIN uint64 AS numeric(20, 0)"
    roles = """CREATE USER " tricky, ' } "" \\ test user " SUPERUSER"""
    # A read gets one millisecond in which it must see that its connection has ended: some runs without a proxy fail.
    unsteady = {"TestPoolAcquireChecksIdleConns"}

    def test_pgx(self):
        for package, least in {"pgx": 700, "pgconn": 600, "pgtype": 500, "pgxpool": 70, "stdlib": 180}.items():
            with self.subTest(package=package):
                self.compare(package, lambda _, server, package=package: self.go(package, server), least)

    def test_psycopg2(self):
        self.compare("psycopg2", self.python, 650)

    def go(self, package, server):
        directory = SUITES / "pgx" if package == "pgx" else SUITES / "pgx" / package
        dsn = f"host={server.directory} port={server.port} user=postgres dbname={server.database}"
        text = self.output([SUITES / f"pgx/{package}.test", "-test.v", f"-test.timeout={suites.LIMIT}s"], directory, PGX_TEST_DATABASE=dsn)
        ended = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)
        return {TEMPORARY.sub("FILE", test): end for end, test in ended}, text

    def python(self, _, server):
        script = "import tests; tests.unittest.main(defaultTest='tests.test_suite', argv=['tests', '-v'])"
        at = {"PSYCOPG2_TESTDB_HOST": str(server.directory), "PSYCOPG2_TESTDB_PORT": str(server.port), "PSYCOPG2_TESTDB_USER": "postgres"}
        text = self.output(["/usr/bin/python3", "-c", script], SUITES / "psycopg2", PSYCOPG2_TESTDB=server.database,
                           PYTHONPATH=str(SUITES / "psycopg2"), **at)
        ends = re.findall(r"^\w+ \(tests\.(\S+)\)(?:\n.*)? \.\.\. .*?(ok|ERROR|FAIL|skipped.*)$", text, re.MULTILINE)
        return dict(ends), text


if __name__ == "__main__":
    main(__file__, TOOLS)
