"""What the tests of receivers share: a server full of canaries, stock clients, and a client that keeps every byte."""

import gzip
import io
import re
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import TIME_LIMIT, Canaries, Case, run

CHOICES = r"pgseal\.receiver=TOKEN.*pgseal\.receiver=raw"
TCP = {"PGHOST": "127.0.0.1", "PGSSLMODE": "disable"}


def packed(text):
    """Decompressed, if it is gzip."""
    return gzip.GzipFile(fileobj=io.BytesIO(text)).read() if text[:2] == b"\x1f\x8b" else text


class Receivers(Case):
    """A test over one server, whose table, and whose latest WAL, hold canaries."""

    def setUp(self):
        super().setUp()
        self.canaries = Canaries()
        self.mark = self.canaries.mark.encode()

    def serve(self, sealed=True, conf="", **options):
        """Starts a server with canaries on disk and in WAL that is still in its buffers."""
        self.port = self.reserved_port()
        network = f"listen_addresses = '127.0.0.1'\nport = {self.port}\nwal_level = logical\nmax_replication_slots = 8\n"
        cluster = self.cluster(conf=network + "max_wal_senders = 8\n" + conf, sealed=sealed,
                               environment={"PGPORT": str(self.port)}, **options)
        cluster.init()
        with open(cluster.data / "pg_hba.conf", "a") as hba:
            hba.write("host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n")
        cluster.start()
        cluster.psql("CREATE ROLE repl REPLICATION LOGIN; "
                     f"CREATE TABLE t AS SELECT i, '{self.canaries['row']}' || i AS word FROM generate_series(1, 20000) i; "
                     "CHECKPOINT")
        return cluster

    def serve_tls(self):
        """The same, by TLS too, with a certificate of its own for localhost."""
        cluster = self.serve()
        key, certificate = cluster.data / "server.key", cluster.data / "server.crt"
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-keyout", key, "-out", certificate])
        key.chmod(0o600)
        cluster.configure("ssl = on")
        cluster.stop()
        cluster.start()
        return cluster

    def receive(self, cluster, program, *arguments, receiver=None, check=False, **environment):
        """A stock client. What it is told to say goes into PGOPTIONS."""
        said = {} if receiver is None else {"PGOPTIONS": f"-c pgseal.receiver={receiver}"}
        return run([cluster.pg / program, *arguments], {**cluster.environment, **said, **environment}, check=check)

    def command(self, cluster, command, receiver=None, replication="true", **environment):
        """One replication command through psql, which prints what it gets."""
        place = f"replication={replication} dbname=postgres"
        return self.receive(cluster, "psql", "-X", "-A", "-t", "-d", place, "-c", command, receiver=receiver, **environment)

    def bytes_of(self, cluster, command, receiver=None, replication="true", until=None, role="postgres", tcp=False):
        """All bytes that the server sends to a client that runs this command and then only listens: to `until`, if that is
        awaited, else until it is silent."""
        with self.connected(cluster, command, receiver, replication, role, tcp) as wire:
            wire.settimeout(2 if until is None else TIME_LIMIT)
            return self.heard(wire, until)

    def connected(self, cluster, command, receiver, replication="true", role="postgres", tcp=False):
        """A connection, by the local socket or by TCP without TLS, on which a command was sent."""
        start = {"user": role, "database": "postgres", "replication": replication}
        if receiver is not None:
            start["options"] = f"-c pgseal.receiver={receiver}"
        body = b"".join(f"{name}\0{value}\0".encode() for name, value in start.items())
        packet = struct.pack(">I", 196608) + body + b"\0"
        wire = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
        wire.connect(("127.0.0.1", self.port) if tcp else f"{cluster.home}/.s.PGSQL.{self.port}")
        query = command.encode() + b"\0"
        wire.sendall(struct.pack(">I", len(packet) + 4) + packet + b"Q" + struct.pack(">I", len(query) + 4) + query)
        return wire

    def heard(self, wire, until):
        """What arrives before the server ends the connection or falls silent, or up to what is awaited."""
        arrived, deadline = b"", time.monotonic() + (8 if until is None else TIME_LIMIT)
        try:
            while time.monotonic() < deadline and not (until and until in arrived) and (part := wire.recv(1 << 20)):
                arrived += part
        except (TimeoutError, ConnectionResetError):
            pass
        return arrived

    def write_wal(self, cluster):
        """A canary in WAL only: the place in WAL before it."""
        place = cluster.psql("SELECT pg_current_wal_insert_lsn()")
        cluster.psql(f"INSERT INTO t VALUES (0, '{self.canaries['wal']}')")
        return place

    def assertRefused(self, done, pattern=CHOICES):
        self.assertNotEqual(done.returncode, 0, done.stdout[:2000])
        self.assertRegex(done.stderr, re.compile(pattern, re.S))
