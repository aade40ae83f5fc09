"""A server with encdb, its evaluator, and an owner who opens sessions (imported by the tests of this directory).

The server is the copy that scripts/encdb-server.sh made below target/encdb; PGSEAL_TEST_PG says of which PostgreSQL. PGSEAL_TEST_ENCDB
names another one, below the tree, that scripts/other-minor.sh made of the same major version.
With PGSEAL_TEST_SEALED=1 its clusters are encrypted at rest.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from copied import wrappers_of_copy  # noqa: E402
from pgseal_test import PG, STAGE, Case, base_environment, run  # noqa: E402
from waiting import eventually

VERSION = re.search(r"\d+", subprocess.run([PG / "pg_config", "--version"], text=True, capture_output=True, check=True).stdout)[0]
# Below the tree for the supervisor, and below the stage for the test itself.
SERVER = os.environ.get("PGSEAL_TEST_ENCDB", f"target/encdb/{VERSION}")
SUITE = "extension/encdb/test"
TOOLS = [SERVER, SUITE]
INSTALLED = STAGE / SERVER
FORMS = ["inline", "isolated"]
SEALED = os.environ.get("PGSEAL_TEST_SEALED") == "1"
# Makes the key of the role that says it.
KEY = "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;\n"


def programs():
    """Where the copy's PostgreSQL is."""
    return INSTALLED / (INSTALLED / "bindir").read_text().strip()


def wrappers(pg):
    """The wrappers of the copy's programs."""
    return wrappers_of_copy(pg, INSTALLED)


class Evaluator:
    """A pgseal-evaluator of this test, at a socket of its own."""

    def __init__(self, directory, name="evaluator", options=()):
        self.socket = directory / f"{name}.sock"
        self.log_file = directory / f"{name}.log"
        self.options = options
        self.process = None

    def start(self):
        command = [INSTALLED / "pgseal-evaluator", "--socket", self.socket, "--allow-uid", str(os.getuid()), "--unlocked",
                   *self.options]
        with open(self.log_file, "a") as log:
            self.process = subprocess.Popen(command, env=base_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(lambda: "listening" in self.log_file.read_text(), self.log_file.read_text, process=self.process)
        return self

    def kill9(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
            self.log_file.write_text("")


class Confidential(Case):
    """Tests whose clusters have encdb."""

    def evaluator(self, name="evaluator", options=()):
        evaluator = Evaluator(self.directory, name, options)
        self.addCleanup(evaluator.kill9)
        return evaluator.start()

    def server(self, name="main", form="inline", socket="", conf="", extension=True, sealed=SEALED, **environment):
        """A running cluster of the copy with encdb, whose backends use this form of the evaluator."""
        settings = f"encdb.evaluator = {form}\nencdb.socket = '{socket}'\nautovacuum_naptime = 1s\n{conf}"
        environment["ENCDB_OWNER"] = str(INSTALLED / "owner")
        cluster = self.cluster(name, sealed=sealed, wrappers=wrappers, pg=programs(), environment=environment, conf=settings)
        cluster.init().start()
        if extension:
            cluster.psql("CREATE EXTENSION encdb")
        return cluster

    def servers(self, setup=""):
        """A server of each form, where this SQL has run in a session of the owner, who has a key."""
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
            self.as_owner(server, KEY + setup)
            with self.subTest(form=form):
                yield server

    def opening(self, owner=7, operations="all"):
        """psql's commands that open a session of this owner."""
        file = STAGE / SUITE / "sql/open.psql"
        return f"\\set owner {owner}\n\\set operations {operations}\n\\set ON_ERROR_STOP 1\n\\i {file}\n"

    def as_owner(self, cluster, sql, operations="all", **options):
        """What this SQL gives in a session of the owner."""
        output = cluster.psql(self.opening(operations=operations) + sql, **options)
        return output.removeprefix("t").lstrip("\n") if "error" not in options else output


def gives_infinite_interval(plain, sealed):
    """Whether PostgreSQL's result is an infinite interval, which it has since 17, and that of the evaluator out of range (22008)."""
    return int(VERSION) >= 17 and "infinity" in plain and sealed.endswith("22008\n")


def quoted(text):
    """A literal of this text, with what patterns have."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def owner(*arguments):
    """What the tests' owner says."""
    return run([INSTALLED / "owner", *arguments]).stdout.strip()
