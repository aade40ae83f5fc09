"""A monitor and two nodes of docs/operations/auto-failover.md on one machine, each at a port and in a directory of its own.

Invariants: everything listens on loopback; pg_autoctl's processes are our children.
"""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import stage
import takeover
from page import Page
from pgseal_test import base_environment, run, twins

DOCUMENT = "docs/operations/auto-failover.md"
PATIENCE = takeover.PATIENCE
# The statements that fail when a server is stopped hold canaries, and the server's log is clear.
CONF = "log_min_error_statement = panic\nfsync = off\n"


class Server:
    """One data directory with its pg_autoctl. `create` is the number of the page's command that makes it."""

    def __init__(self, place, name, monitor=None, create=0):
        self.place, self.name, self.monitor, self.create_block = place, name, monitor or self, create
        self.data = place / name
        self.log = place / f"{name}.log"
        self.port, = takeover.free_ports(1)
        self.process = None
        self.environment = {**base_environment(), "HOME": str(place), "PGHOST": str(place),
                            # Its own name for where sockets are; Debian's default belongs to another account.
                            "PG_REGRESS_SOCK_DIR": str(place),
                            "XDG_RUNTIME_DIR": str(place / "run"), **self.page_environment()}

    def page(self):
        return Page(DOCUMENT, {
            "/etc/pgseal/passphrase": str(self.place / "passphrase"),
            "/usr/local/lib/pgseal/15": str(twins()),
            "/var/lib/postgresql/15/monitor": str(self.monitor.data),
            "/var/lib/postgresql/15/main": str(self.data),
            "192.0.2.9:5433": f"localhost:{self.monitor.port}",
            "--hostname 192.0.2.9": "--hostname localhost",
            "--hostname 192.0.2.1": "--hostname localhost",
            "--pgport 5433": f"--pgport {self.monitor.port}",
            "--pgport 5432": f"--pgport {self.port}",
            "--ssl-self-signed": "--ssl-self-signed --listen 127.0.0.1",
            "--name node1": f"--name {self.name}",
        })

    def page_environment(self):
        """The page's lines for a unit."""
        lines = re.findall(r"^Environment=(.*)$", self.page().block("ini"), re.M)
        return dict(shlex.split(line)[0].split("=", 1) for line in lines)

    def create(self):
        self.do(self.create_block)
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(CONF)
        self.start()

    def do(self, block):
        """A command of the page."""
        return run(["bash", "-euo", "pipefail", "-c", self.page().blocks("sh")[block]], self.environment,
                   stdin=subprocess.DEVNULL)

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(["pg_autoctl", "run", "--pgdata", self.data], env=self.environment, stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    def kill9(self):
        """The machine is gone: pg_autoctl's processes first, so that none informs the monitor, then the server."""
        self.process.send_signal(signal.SIGSTOP)
        servers = {takeover.postmaster(self.data), *takeover.backends(self.data, "postgres")}
        autoctl = stage.descendants(self.process.pid) - servers
        self.process.kill()
        stage.end_processes(autoctl)
        self.process.wait()
        takeover.kill_server(self.data)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def status(self):
        return takeover.status(self.data, self.environment)

    def sql(self, sql, fetch=True, database="postgres"):
        """The rows, or None from a server that does not answer."""
        try:
            connection = psycopg2.connect(host=str(self.place), port=self.port, dbname=database, connect_timeout=5)
        except psycopg2.OperationalError:
            return None
        return takeover.rows_of(connection, sql, fetch)

    def states(self):
        """Of a monitor: {name of a node: its state}, of those that are in the state that they shall be in."""
        rows = self.sql("SELECT nodename, reportedstate::text FROM pgautofailover.node WHERE reportedstate = goalstate",
                        database="pg_auto_failover")
        return dict(rows or [])
