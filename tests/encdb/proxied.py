"""A server with encrypted columns behind `pgseal proxy` (imported by its tests)."""

import socket
import struct
import subprocess
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import programs  # noqa: E402
from owners_client import OwnersClient  # noqa: E402
from pgseal_test import STAGE, TIME_LIMIT, base_environment  # noqa: E402
from waiting import eventually  # noqa: E402

PGSEAL = STAGE / "dist/bin/pgseal"
PORT = 6000
TABLE = ("CREATE TABLE person (id int PRIMARY KEY, name enc_text, age enc_int4, born enc_date, paid enc_decimal, seen enc_timestamptz, "
         "tags enc_text[], note text)")
LOG_ALL = "log_statement = all\nlog_parameter_max_length = -1\nlog_parameter_max_length_on_error = -1\nlog_min_error_statement = debug5\n"


def answers(path):
    """Whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


class Raw:
    """A driver that sends what it is given, each time up to ReadyForQuery."""

    def __init__(self, directory, database="postgres"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIME_LIMIT)
        self.socket.connect(str(directory / f".s.PGSQL.{PORT}"))
        self.stream = self.socket.makefile("rb")
        options = b"user\0postgres\0database\0" + database.encode() + b"\0\0"
        self.socket.sendall(struct.pack("!II", 8 + len(options), 196608) + options)
        self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def cycle(self, *messages):
        """Takes tags, each with its body. Returns the server's messages."""
        pairs = list(zip(messages[::2], messages[1::2]))
        if messages[0] != b"Q":
            pairs.append((b"S", b""))
        self.socket.sendall(b"".join(tag + struct.pack("!I", len(body) + 4) + body for tag, body in pairs))
        return self.answer()

    def answer(self):
        messages = []
        while not messages or messages[-1][0] != b"Z":
            tag, length = self.stream.read(1), struct.unpack("!I", self.stream.read(4))[0]
            messages.append((tag, self.stream.read(length - 4)))
        return messages


class Proxied(OwnersClient):
    """A server with encrypted columns, and a proxy before it."""

    def shop(self, form="inline", table=TABLE):
        self.evaluator_ = self.evaluator() if form == "isolated" else None
        at = self.evaluator_.socket if self.evaluator_ else ""
        self.cluster_ = cluster = self.server(form, form=form, socket=at, conf=LOG_ALL)
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"]):
            self.client(cluster, *command)
        cluster.psql(table)
        self.client(cluster, "column", "add", "--all")
        return self.proxy(cluster)

    def proxy(self, cluster, *options, accept="software", server=""):
        """A directory with the proxy's socket, its log, and the environment that leads there."""
        directory = self.directory / f"proxy{len(list(self.directory.glob('proxy*')))}"
        directory.mkdir()
        path = directory / f".s.PGSQL.{PORT}"
        log = open(directory / "log", "w")
        self.addCleanup(log.close)
        self.process = subprocess.Popen(
            [PGSEAL, "proxy", "--listen", path, "--server", server or f"host={cluster.home}", "--identity",
             self.directory / "owner", "--accept", accept, *options], env={**base_environment(), **cluster.environment}, stdout=log, stderr=log)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        eventually(lambda: answers(path), process=self.process)
        return directory

    def connect(self, directory, **options):
        connection = psycopg2.connect(host=str(directory), port=PORT, user="postgres", dbname="postgres", **options)
        self.addCleanup(connection.close)
        return connection

    def psql(self, directory, sql, *options, code=0):
        environment = {**base_environment(), "PGHOST": str(directory), "PGPORT": str(PORT), "PGUSER": "postgres",
                       "PGDATABASE": "postgres"}
        done = subprocess.run([programs() / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *options], input=sql, env=environment, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.splitlines() if code == 0 else done.stderr

    def assert_never_in_clear(self, *secrets):
        """The server's log has every statement and parameter that it was sent; in the data they would be as they are."""
        self.cluster_.psql("CHECKPOINT")
        log = (self.cluster_.home / "log").read_text()
        self.assertIn("person", log)
        for secret in secrets:
            self.assertNotIn(secret, log)
            self.assertEqual(self.cluster_.psql(f"SELECT count(*) FROM person p WHERE p::text LIKE '%{secret}%'"), "0")
