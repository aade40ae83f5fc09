"""pgseal client, as an owner of encrypted columns runs it (imported by the tests of this directory)."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import Confidential  # noqa: E402
from pgseal_test import STAGE, TIME_LIMIT, base_environment  # noqa: E402

PGSEAL = STAGE / "dist/bin/pgseal"
DONE, USAGE, IO, NO_ENCDB, KEY_FILE, WRONG_KEY, NOT_TRUSTED, REFUSED = 0, 2, 3, 4, 5, 7, 8, 10


class OwnersClient(Confidential):
    """Tests with an owner."""

    def server_with_encdb(self, form):
        socket = self.evaluator().socket if form == "isolated" else ""
        return self.server(form, form=form, socket=socket)

    def client(self, cluster, *arguments, identity="owner", code=DONE, stdin="", trusts=True, warned="", listed=False):
        """Runs pgseal client; what it printed, or said if it was to fail. A test of lists says that it is `listed`."""
        if arguments[0] == "sql" and not listed:
            arguments = ("sql", "--trust-server-types", *arguments[1:])
        environment = {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / identity)}
        if trusts:
            environment["PGSEAL_ACCEPT"] = "software"
        done = subprocess.run([PGSEAL, "client", *arguments], env=environment, input=stdin, text=True, capture_output=True,
                              timeout=TIME_LIMIT, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        if code != DONE:
            return done.stderr
        self.assertRegex(done.stderr, f"pgseal: warning: .*{warned}" if warned else r"\A(?!.*warning)")
        return done.stdout

    def lists_nothing(self, cluster, *options, identity="owner"):
        """A list that says that nothing is encrypted."""
        self.client(cluster, "column", "add", "--all", *options, identity=identity, warned="shows no encrypted column")

    def rows(self, cluster, *arguments, **options):
        return self.client(cluster, "sql", "-tA", *arguments, **options).splitlines()

    def ready(self, form, allow="all"):
        cluster = self.server_with_encdb(form)
        self.client(cluster, "init")
        self.client(cluster, "key", "new")
        if allow:
            self.client(cluster, "grant", "add", "--allow", allow)
        return cluster

    def logged(self, *statements):
        """An owner and a server that logs whatever it is sent, with these tables."""
        conf = "log_statement = all\nlog_parameter_max_length = -1\nlog_parameter_max_length_on_error = -1\n"
        cluster = self.server("logged", conf=conf)
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"]):
            self.client(cluster, *command)
        for statement in statements:
            cluster.psql(statement)
        return cluster

    def assert_unseen(self, cluster, secret):
        log = (cluster.home / "log").read_text()
        self.assertIn("SELECT encdb.process_message($1)", log)
        self.assertNotRegex(log, secret)

    def key_of(self, cluster, table):
        """The key that sealed the only value of a table: bytes 3 to 6 of the cell name it."""
        cell = cluster.psql(f"COPY {table} TO STDOUT").removeprefix("\\\\x")
        return cluster.psql(f"SELECT keyname FROM encdb.data_key WHERE to_hex(key_id) = ltrim('{cell[6:14]}', '0')")
