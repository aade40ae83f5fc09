"""A server with encrypted columns, a proxy, and a program of a driver that runs the scenarios between a recorder and searches.

Invariants: every step of every scenario is checked, or the test's class names it with a reason; afterwards no secret is in
anything that the server saw or keeps, and words of plain columns are where secrets would be.
"""

import datetime
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import unittest
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import psycopg2

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("encdb", "lib", "drivers")]
import scenarios  # noqa: E402
from places import place  # noqa: E402
from pgseal_test import STAGE, base_environment, files_below, read_raw  # noqa: E402
from recorder import Recorder  # noqa: E402
from proxied import LOG_ALL, PORT, Proxied  # noqa: E402

LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"
LONG_VALUE = 100 << 20
PATIENCE = 600
in_long_form = unittest.skipUnless(LONG, "make test-drivers")
HERE = STAGE / "tests/drivers"
CONF = LOG_ALL + "shared_preload_libraries = 'pg_stat_statements'\nlog_error_verbosity = verbose\nmax_connections = 30\n"
# The OIDs of the plain types: `oids` of a step, if a driver has them.
OIDS = {"bool": 16, "bytea": 17, "int8": 20, "int4": 23, "text": 25, "float4": 700, "float8": 701, "date": 1082, "timestamp": 1114,
        "timestamptz": 1184, "numeric": 1700, "uuid": 2950, "int4[]": 1007, "text[]": 1009}
# The native types in which languages have PostgreSQL's.
NATIVE = {"int4": {"int"}, "int8": {"int"}, "numeric": {"Decimal"}, "float4": {"float"}, "float8": {"float"}, "text": {"str"},
          "bool": {"bool"}, "date": {"date"}, "timestamp": {"datetime"}, "timestamptz": {"datetime"}, "uuid": {"UUID"},
          "bytea": {"bytes", "memoryview"}}


class Drivers(Proxied):
    """Tests of drivers. A class of tests may widen what follows."""

    native = NATIVE
    unit = "microseconds"  # of the driver's times
    keeps_scale = True  # zeros at the end of a numeric
    absent = {}  # steps and scenarios that a driver cannot do, each with the reason
    uncounted = set()  # steps whose number of rows a driver does not give
    own_errors = set()  # steps whose error may come from the driver itself
    inside = None  # options of a package in the driver's process, where there is no proxy
    other_errors = {}  # steps whose error is another one than other drivers get from PostgreSQL

    def shop(self, form="inline"):
        """A server in which nothing but encdb is, and a proxy before it, with a recorder in between."""
        at = self.evaluator().socket if form == "isolated" else ""
        self.cluster_ = cluster = self.server(form, form=form, socket=at, conf=CONF)
        cluster.psql("CREATE EXTENSION pg_stat_statements")
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"]):
            self.client(cluster, *command)
        self.lists_nothing(cluster)
        between = self.directory / "between"
        between.mkdir()
        self.record = self.directory / "record"
        recorder = Recorder(between / ".s.PGSQL.5432", cluster.home / ".s.PGSQL.5432", self.record)
        self.addCleanup(recorder.close)
        self.tcp = self.reserved_port()
        proxied = SimpleNamespace(home=between, environment=cluster.environment)
        return self.proxy(proxied, "--listen", f"127.0.0.1:{self.tcp}")

    def runs_scenarios(self, command, form="inline", environment=None, only=(), large=scenarios.LARGE):
        """Runs a driver's program and checks what it says, and what the server saw."""
        words = scenarios.Words()
        directory = self.shop(form)
        all_scenarios = scenarios.all_scenarios(words, large)
        expected = [scenario for scenario in all_scenarios if scenario[0] not in self.absent and scenario[0] in (only or scenario)]
        config = self.directory / "scenarios.json"
        config.write_text(json.dumps({"host": str(directory), "port": PORT, "tcp": self.tcp, "inside": self.inside,
                                      "scenarios": json.loads(scenarios.as_json(expected))}))
        with Watch(self.cluster_) as watch:
            environment = {**base_environment(), "TZ": "America/St_Johns", **(environment or {})}
            done = subprocess.run([*command, config], env=environment, text=True, capture_output=True, timeout=PATIENCE, check=False)
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(done.returncode, 0, f"{said[-1:]}\n{done.stderr[-4000:]}")
        self.check(expected, {step["step"]: step for step in said})
        self.assert_unseen_anywhere(words, watch.seen)

    def runs_large(self, command):
        """Values of 100 MiB, which are more than 200 in hexadecimal digits."""
        self.runs_scenarios(command, only=("tables", "insert", "large"), large=LONG_VALUE)

    def check(self, expected, said):
        for scenario, steps in expected:
            for step in steps:
                name = f"{scenario}/{step.name}"
                with self.subTest(step=name):
                    if name in self.absent:
                        self.assertNotIn(name, said, "it can do this")
                        continue
                    self.assertIn(name, said, "the program did not come to this")
                    self.check_step(name, step, said[name])

    def check_step(self, name, step, said):
        if step.error:
            allowed = {self.other_errors.get(name, step.error)} | ({"client"} if name in self.own_errors else set())
            self.assertIn(said.get("error"), allowed, said)
            return
        self.assertNotIn("error", said)
        if step.count is not None and name not in self.uncounted:
            self.assertEqual(said["count"], step.count)
        if step.rows is None:
            return
        wanted = [[self.wanted(*pair) for pair in zip(step.gives, row)] for row in step.rows]
        self.assertEqual([[self.got(*pair) for pair in zip(step.gives, row)] for row in said["rows"]], wanted)
        if said.get("oids"):
            self.assertEqual(said["oids"], [OIDS[type] for type in step.gives])

    def wanted(self, type, value):
        """A value in a form that can be compared."""
        if value is None:
            return None
        if type.endswith("[]"):
            return [self.wanted(type[:-2], item) for item in value]
        if isinstance(value, dict):
            value = value["repeat"] * value["times"]
            return "sha256:" + hashlib.sha256(value.encode()).hexdigest()
        return self.comparable(type, value)

    def got(self, type, value):
        """The same of what a driver gave, whose native type must be one for this type."""
        if value is None:
            return None
        kind, value = value
        if type.endswith("[]"):
            return [self.got(type[:-2], item) for item in value]
        self.assertIn(kind, self.native[type], f"{type}: {value}")
        return value if value.startswith("sha256:") else self.comparable(type, value)

    def comparable(self, type, value):
        if type == "numeric":
            digits = format(Decimal(value), "f")
            return digits if self.keeps_scale or "." not in digits else digits.rstrip("0").rstrip(".")
        if type == "float4":
            return f"{float(value):.6e}"
        if type == "float8":
            return repr(float(value))
        if type in ("timestamp", "timestamptz"):
            moment = datetime.datetime.fromisoformat(value)
            if type == "timestamptz":
                moment = moment.astimezone(datetime.timezone.utc)
            return moment.isoformat(timespec=self.unit)
        return value

    def assert_unseen_anywhere(self, words, activity):
        """Nothing that the server saw or keeps has a secret in it; what it sees plainly shows that each search finds."""
        cluster, secrets = self.cluster_, [text.encode() for text in words.texts()] + words.binaries()
        places = self.places(activity)
        for name in ("log", "record"):
            self.assertIn(words.plain.encode(), places[name], name)
        stored = [name for name, content in places.items() if words.plain.encode() in content]
        for area in ("base/", "pg_wal/"):
            self.assertEqual(any(name.startswith(area) for name in stored), not cluster.sealed, area)
        found = [(name, secret) for name, content in places.items() for secret in secrets if secret in content]
        self.assertEqual(found, [])

    def places(self, activity, named=b"person"):
        """All that the server was sent and keeps. It is stopped then."""
        cluster = self.cluster_
        statements = cluster.psql("SELECT query FROM pg_stat_statements")
        cluster.psql("CHECKPOINT")
        places = {"log": cluster.log().encode(), "pg_stat_statements": statements.encode(),
                  "pg_stat_activity": "\n".join(activity).encode(), "record": self.record.read_bytes()}
        for name, content in places.items():
            self.assertIn(b"SELECT" if name == "pg_stat_activity" else named, content, name)
        cluster.stop()
        return {**places, **{str(path.relative_to(cluster.data)): read_raw(path) for path in files_below(cluster.data)}}

    def python(self, *command):
        """A program of tests/drivers/python, under the interpreter that has the drivers."""
        program, *arguments = command
        return [self.built("python") / "bin/python", HERE / "python" / program, *arguments]

    def built(self, name):
        """What scripts/fetch-drivers.sh made of a directory of tests/drivers."""
        found = place(name)
        if not (found / "complete").exists():
            self.fail(f"{found} is missing: run scripts/fetch-drivers.sh {name}")
        return found


class Watch:
    """Notes the statements that pg_stat_activity shows meanwhile."""

    def __init__(self, cluster):
        self.cluster, self.seen, self.ends = cluster, set(), threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def _look(self):
        connection = psycopg2.connect(host=str(self.cluster.home), user="postgres", dbname="postgres")
        connection.autocommit = True
        with connection.cursor() as cursor:
            while not self.ends.is_set():
                cursor.execute("SELECT query FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
                self.seen.update(query for query, in cursor.fetchall() if query)
                time.sleep(0.02)
        connection.close()
