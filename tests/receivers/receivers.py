"""What the tests of receivers share: a server full of canaries, and stock clients that keep what they were sent."""

import re
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import Canaries, Case, run

CHOICES = r"pgseal\.receiver=TOKEN.*pgseal\.receiver=raw"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Receivers(Case):
    """A test over one server, whose table, catalogs and latest WAL hold canaries."""

    conf = ""

    def setUp(self):
        super().setUp()
        self.canaries = Canaries()

    def serve(self, sealed=True, conf=""):
        """Starts a server with canaries on disk and in WAL that is still in its buffers."""
        self.port = free_port()
        network = f"listen_addresses = '127.0.0.1'\nport = {self.port}\nwal_level = logical\nmax_replication_slots = 8\n"
        cluster = self.cluster(conf=network + "max_wal_senders = 8\n" + self.conf + conf, sealed=sealed,
                               environment={"PGPORT": str(self.port)})
        cluster.init()
        with open(cluster.data / "pg_hba.conf", "a") as hba:
            hba.write("host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n")
        cluster.start()
        cluster.psql("CREATE ROLE repl REPLICATION LOGIN; "
                     f"CREATE TABLE t AS SELECT i, '{self.canaries['row']}' || i AS word FROM generate_series(1, 20000) i; "
                     "CHECKPOINT")
        return cluster

    def receive(self, cluster, program, *arguments, receiver=None, check=False, **environment):
        """A stock client. What it is told to say goes into PGOPTIONS."""
        said = {} if receiver is None else {"PGOPTIONS": f"-c pgseal.receiver={receiver}"}
        return run([cluster.pg / program, *arguments], {**cluster.environment, **said, **environment}, check=check)

    def command(self, cluster, command, receiver=None, replication="true", **environment):
        """One replication command through psql, which prints what it gets."""
        place = f"replication={replication} dbname=postgres"
        return self.receive(cluster, "psql", "-X", "-A", "-t", "-d", place, "-c", command, receiver=receiver, **environment)

    def assertRefused(self, done, pattern=CHOICES):
        self.assertNotEqual(done.returncode, 0, done.stdout[:2000])
        self.assertRegex(done.stderr, re.compile(pattern, re.S))
