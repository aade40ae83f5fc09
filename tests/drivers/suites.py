"""A driver's own tests, at a server and through pgseal proxy: it relays faithfully what has nothing to do with encrypted columns.

Each suite runs three times: at the server, through the proxy in a database without encdb, where every test must end in the same way,
and through the proxy in a database with encrypted columns, where those alone may end otherwise that send what is refused there
(docs/confidential/proxy.md, What does not work yet).
"""

import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("encdb", "lib", "drivers")]
from pgseal_test import base_environment  # noqa: E402
from proxied import PORT, TABLE, Proxied  # noqa: E402

LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"
LIMIT = 3600
CONF = "max_prepared_transactions = 64\nwal_level = logical\nmax_connections = 100\nlog_statement = none\nlisten_addresses = '127.0.0.1'\n"
# Sentences of refusals in a database with encrypted columns.
CODE = "does with the literals in it, and the database has encrypted columns"
ENCODING = "text is not UTF-8, so pgseal cannot tell"
BACKSLASHES = "standard_conforming_strings is off, so a literal may mean another value"
PASSED = ("PASS", "ok", "passed")


class Place(NamedTuple):
    """Where a suite connects to: a directory with a socket and its port, a port at 127.0.0.1, a database."""
    directory: Path
    port: int
    tcp: int
    database: str


class Suites(Proxied):
    """A server with a database that has encrypted columns, one that has not, and a proxy."""

    # SQL of the cluster, and of each of the two databases.
    roles = prepared = ""
    access = None  # lines of pg_hba.conf
    lists = ()  # databases that the suite makes
    over_tcp = False  # the proxy connects to the server by TCP
    unsteady = set()  # tests that end in either way without a proxy
    refused = {}  # tests of what is refused beside encrypted columns, by a sentence of the refusal

    def setUp(self):
        super().setUp()
        self.shop(table=TABLE.replace("person", "of_no_suite"))
        cluster, tcp, own = self.cluster_, self.reserved_port(), self.reserved_port()
        cluster.stop()
        cluster.configure(f"{CONF}port = {tcp}\n")
        if self.access:
            (cluster.data / "pg_hba.conf").write_text(self.access)
        cluster.environment["PGPORT"] = str(tcp)
        cluster.start()
        cluster.psql(self.roles)
        for database in (*self.lists, "plain"):
            cluster.psql(f"CREATE DATABASE {database}")
            self.lists_nothing(cluster, "-d", database)
        for database in self.lists:
            cluster.psql(f"DROP DATABASE {database}")
        for database in ("plain", "postgres"):
            cluster.psql(self.prepared, database)
        server = f"host={'127.0.0.1' if self.over_tcp else cluster.home} port={tcp}"
        # One that reads the identity with the list of `plain`.
        directory = self.proxy(cluster, "--listen", f"127.0.0.1:{own}", server=server)
        self.places = {"direct": Place(cluster.home, tcp, tcp, "plain"), "relayed": Place(directory, PORT, own, "plain"),
                       "beside": Place(directory, PORT, own, "postgres")}

    def compare(self, name, run, least):
        """Runs a suite at each place, and compares how its tests end. At least so many must pass.

        `run` takes a place's name and the place, and returns the outcome of each test and what the suite printed."""
        outcomes, texts = {}, {}
        for where, place in self.places.items():
            found, texts[where] = run(where, place)
            outcomes[where] = {test: end for test, end in found.items() if test not in self.unsteady}
        direct = outcomes["direct"]
        passed = [test for test, end in direct.items() if end in PASSED]
        self.assertGreater(len(passed), least, texts["direct"][-2000:])
        relayed = differences(direct, outcomes["relayed"])
        print(f"{name}: {len(direct)} tests, {len(passed)} pass at the server, {len(relayed)} end otherwise through the proxy")
        self.assertEqual(relayed, {}, texts["relayed"][-4000:])
        beside = differences(direct, outcomes["beside"])
        print(f"{name}: {len(beside)} end otherwise beside encrypted columns")
        self.assertEqual(set(beside), set().union(*self.refused.values()), beside)
        for sentence in (CODE, ENCODING, BACKSLASHES):
            self.assertEqual(sentence in texts["beside"], sentence in self.refused, sentence)

    def output(self, command, directory, **variables):
        environment = {**base_environment(), "HOME": str(self.directory), **variables}
        done = subprocess.run(command, cwd=directory, env=environment, text=True, errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT, check=False)
        self.assertIn(done.returncode, (0, 1), done.stdout[-4000:])
        return done.stdout


def differences(one, other):
    """How tests end in either, where they end otherwise."""
    return {test: (one.get(test), other.get(test)) for test in sorted(one.keys() | other.keys()) if one.get(test) != other.get(test)}


def of_report(report, name):
    """The outcome of each test of a report in JUnit's XML; `name` gives a test's name."""
    cases = xml.etree.ElementTree.parse(report).iter("testcase")
    return {name(case): outcome(case) for case in cases}


def outcome(case):
    found = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
    return found[0] if found else "passed"
