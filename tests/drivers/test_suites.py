#!/usr/bin/env python3
"""Drivers' own tests, through pgseal proxy as without it: the proxy is a faithful relay of what has nothing to do with encrypted columns.

Each suite runs three times: at the server, through the proxy in a database without encdb, where every test must end in the same way,
and through the proxy in a database with encrypted columns, where those of REFUSED alone may end otherwise.
"""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import PATIENCE  # noqa: E402
from places import place  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402
from proxied import PORT, Proxied  # noqa: E402

SUITES = place("suites")
CONF = "max_prepared_transactions = 20\nwal_level = logical\nmax_connections = 100\n"
# What the suites expect of a database, and a role that pgx looks for in an access list.
PREPARED = "CREATE EXTENSION hstore; CREATE EXTENSION ltree; CREATE DOMAIN uint64 AS numeric(20, 0)"
ROLE = """CREATE USER " tricky, ' } "" \\ test user " SUPERUSER"""
# A read gets one millisecond in which it must see that its connection has ended: some runs without a proxy fail.
UNSTEADY = {"TestPoolAcquireChecksIdleConns"}
# What is refused where a database has encrypted columns.
REFUSED = {"pgx": set(), "pgconn": set(), "pgtype": set(), "pgxpool": set(), "stdlib": set(), "psycopg2": set()}
# Names of temporary files, which are parts of the names of tests.
TEMPORARY = re.compile(r"(?<=/)[^/]*\d{6,}[^/']*")
REASONS = re.compile("does with the literals in it, and the database has encrypted columns|text is not UTF-8, so pgseal cannot tell")


@unittest.skipUnless(os.environ.get("PGSEAL_TEST_LONG") == "1", "make test-drivers")
class Suites(Proxied):
    """A server with a database that has encrypted columns, one that has not, and a proxy."""

    def setUp(self):
        super().setUp()
        self.shop()
        cluster = self.cluster_
        cluster.stop()
        with open(cluster.data / "postgresql.conf", "a") as conf:
            conf.write(CONF + "log_statement = none\n")
        cluster.start()
        cluster.psql("CREATE DATABASE plain")
        self.lists_nothing(cluster, "-d", "plain")
        cluster.psql(ROLE)
        for database in ("plain", "postgres"):
            cluster.psql(PREPARED, database)
        directory = self.proxy(cluster)  # one that reads the identity with the list of `plain`
        # Where a suite connects to: directory, port and database.
        self.servers = {"direct": (cluster.home, 5432, "plain"), "relayed": (directory, PORT, "plain"),
                        "beside": (directory, PORT, "postgres")}

    def compare(self, suite, run, least):
        """Runs a suite at each place, and compares how its tests end. At least so many must pass."""
        outcomes, texts = {}, {}
        for where, server in self.servers.items():
            texts[where] = run(suite, *server)
            outcomes[where] = {test: end for test, end in self.ends(texts[where]).items() if test not in UNSTEADY}
        direct = outcomes["direct"]
        passed = [test for test, end in direct.items() if end in ("PASS", "ok")]
        self.assertGreater(len(passed), least, texts["direct"][-2000:])
        self.assertEqual(self.differences(direct, outcomes["relayed"]), {}, texts["relayed"][-4000:])
        beside = self.differences(direct, outcomes["beside"])
        self.assertEqual({test.split("/")[0] for test in beside}, REFUSED[suite], beside)
        self.assertEqual(bool(REFUSED[suite]), bool(REASONS.search(texts["beside"])))

    def ends(self, text):
        ended = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)
        go = {TEMPORARY.sub("FILE", test): end for end, test in ended}
        python = re.findall(r"^\w+ \(tests\.(\S+)\)(?:\n.*)? \.\.\. .*?(ok|ERROR|FAIL|skipped.*)$", text, re.MULTILINE)
        return go or dict(python)

    def differences(self, one, other):
        return {test: (one.get(test), other.get(test)) for test in sorted(one.keys() | other.keys()) if one.get(test) != other.get(test)}

    def output(self, command, directory, **variables):
        done = subprocess.run(command, cwd=directory, env={**base_environment(), "HOME": str(self.directory), **variables}, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
        self.assertIn(done.returncode, (0, 1), done.stdout[-4000:])
        return done.stdout

    def go(self, package, host, port, database):
        directory = SUITES / "pgx" if package == "pgx" else SUITES / "pgx" / package
        return self.output([SUITES / f"pgx/{package}.test", "-test.v", f"-test.timeout={PATIENCE}s"], directory,
                           PGX_TEST_DATABASE=f"host={host} port={port} user=postgres dbname={database}")

    def python(self, _suite, host, port, database):
        script = "import tests; tests.unittest.main(defaultTest='tests.test_suite', argv=['tests', '-v'])"
        server = {"PSYCOPG2_TESTDB_HOST": str(host), "PSYCOPG2_TESTDB_PORT": str(port), "PSYCOPG2_TESTDB_USER": "postgres"}
        return self.output(["/usr/bin/python3", "-c", script], SUITES / "psycopg2", PSYCOPG2_TESTDB=database,
                           PYTHONPATH=str(SUITES / "psycopg2"), **server)

    def test_pgx(self):
        for package, least in {"pgx": 700, "pgconn": 600, "pgtype": 500, "pgxpool": 70, "stdlib": 180}.items():
            with self.subTest(package=package):
                self.compare(package, self.go, least)

    def test_psycopg2(self):
        self.compare("psycopg2", self.python, 650)


if __name__ == "__main__":
    main(__file__, TOOLS)
