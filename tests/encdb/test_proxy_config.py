#!/usr/bin/env python3
"""pgseal proxy by a configuration file: several owners, SIGHUP, and what systemd gives and is told."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from certificates import Certificates  # noqa: E402
from confidential import TOOLS  # noqa: E402
from owners_client import IO, USAGE, WRONG_KEY  # noqa: E402
from pgseal_test import TIME_LIMIT, base_environment, main  # noqa: E402
from proxied import PGSEAL, PORT, Proxied, answers  # noqa: E402
from waiting import eventually  # noqa: E402

AS_SYSTEMD = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" proxy --config \"$1\" 3<&{}"


class Configured(Proxied):
    def setUp(self):
        super().setUp()
        self.file = self.directory / "proxy.toml"
        self.sockets = self.directory / "sockets"
        self.sockets.mkdir()
        self.path = self.sockets / f".s.PGSQL.{PORT}"

    def start(self, text, command=None, **options):
        """A proxy that has read this text; its log is `self.log`."""
        self.file.write_text(text)
        self.log = self.directory / "proxy.log"
        log = open(self.log, "a")
        self.addCleanup(log.close)
        self.process = subprocess.Popen(command or [PGSEAL, "proxy", "--config", self.file], stdout=log, stderr=log,
                                        env={**base_environment(), **options.pop("environment", {})}, **options)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)

    def head(self, cluster, listen=None):
        return f"server = 'host={cluster.home}'\nlisten = ['{listen or self.path}']\n"

    def table(self, identity, **keys):
        keys = "".join(f"{name} = '{value}'\n" for name, value in keys.items())
        return f"[[database]]\nidentity = '{self.directory / identity}'\naccept = ['software']\n{keys}"

    def reload(self, text, said):
        """Changes the file, and waits until the proxy has said what it makes of it."""
        self.file.write_text(text)
        before = len(self.log.read_text())
        self.process.send_signal(signal.SIGHUP)
        eventually(lambda: said in self.log.read_text()[before:], self.log.read_text, process=self.process)

    def two_owners(self):
        """Two databases, each with an owner and a table."""
        cluster = self.server("main")
        for name in ("shop", "crm"):
            cluster.psql(f"CREATE DATABASE {name}")
            cluster.psql("CREATE EXTENSION encdb; CREATE TABLE t (id int, c enc_text)", db=name)
            for command in (["init"], ["key", "new", "-d", name], ["grant", "add", "-d", name, "--allow", "all"],
                            ["column", "add", "-d", name, "--all"]):
                self.client(cluster, *command, identity=name)
        return cluster

    def stored(self, database):
        """What a database gives of a value that was stored through the proxy."""
        return self.psql(self.sockets, "INSERT INTO t (id, c) VALUES (1, 'ada') RETURNING c", "-d", database)

    def said(self, database):
        return self.psql(self.sockets, "SELECT 1", "-d", database, code=2)


class Owners(Configured):
    def test_each_database_has_its_owner(self):
        cluster = self.two_owners()
        self.start(self.head(cluster) + self.table("shop", name="shop") + self.table("crm", name="crm", user="postgres"))
        eventually(lambda: answers(self.path), process=self.process)
        self.assertEqual((self.stored("shop"), self.stored("crm")), (["ada"], ["ada"]))
        self.assertIn("no identity for this database", self.said("postgres"))
        for name, other in (("shop", "crm"), ("crm", "shop")):
            self.assertEqual(self.client(cluster, "sql", "-tA", "-d", name, "SELECT c FROM t", identity=name), "ada\n")
            self.client(cluster, "sql", "-tA", "-d", name, "SELECT c FROM t", identity=other, code=WRONG_KEY)

    def test_a_table_may_trust_the_server(self):
        cluster = self.two_owners()
        self.client(cluster, "init", identity="none")
        self.start(self.head(cluster) + self.table("none", name="shop") + self.table("none", name="crm") + "trust-server-types = true\n")
        eventually(lambda: answers(self.path), process=self.process)
        self.assertIn("has no list", self.said("shop"))
        self.assertEqual(self.psql(self.sockets, "SELECT count(*) FROM t", "-d", "crm"), ["0"])

    def test_files_are_read_anew_at_sighup(self):
        cluster = self.two_owners()
        text = self.head(cluster) + self.table("shop", name="shop")
        self.start(text)
        eventually(lambda: answers(self.path), process=self.process)
        self.assertIn("no identity", self.said("crm"))
        both = text + self.table("crm", name="crm")
        self.reload(both, "served by the files as they are now")
        self.assertEqual((self.stored("shop"), self.stored("crm")), (["ada"], ["ada"]))
        for wrong, said in ((both + "sever = 1\n", f"nothing is changed: {self.file}, line 11: sever: unknown field"),
                            (both + self.table("nobody"), "nothing is changed: "),
                            ("", f"nothing is changed: {self.file}, line 1: missing field `server`")):
            self.reload(wrong, said)
            self.assertEqual((self.stored("shop"), self.stored("crm")), (["ada"], ["ada"]))
        self.reload(self.head(cluster, self.directory / "other") + self.table("crm"), "need a restart")
        self.assertIn("has no list", self.psql(self.sockets, "INSERT INTO t (id, c) VALUES (1, 'ada')", "-d", "shop", code=2))

    def test_certificates_are_read_anew_at_sighup(self):
        cluster = self.server("bare", extension=False)
        self.client(cluster, "init")
        certificates, port = Certificates(self.directory), self.reserved_port()
        for name in ("root", "other"):
            certificates.self_signed(name, "/CN=" + name)
        certificates.signed("proxy", "/CN=localhost", "DNS:localhost")
        tls = f"[tls]\ncert = '{certificates.path('proxy')}'\nkey = '{certificates.path('proxy', 'key')}'\n"
        text = self.head(cluster, f"localhost:{port}") + tls + self.table("owner")
        self.start(text)
        eventually(lambda: self.is_trusted(port, certificates.path("root")), process=self.process)
        certificates.signed("proxy", "/CN=localhost", "DNS:localhost", authority="other")
        self.reload(text, "served by the files as they are now")
        self.assertFalse(self.is_trusted(port, certificates.path("root")))
        self.assertTrue(self.is_trusted(port, certificates.path("other")))
        certificates.path("proxy", "key").chmod(0o644)
        self.reload(text, "nothing is changed")
        self.assertTrue(self.is_trusted(port, certificates.path("other")))

    def is_trusted(self, port, root):
        """Whether a driver with this root certificate gets to speak with the proxy."""
        context = ssl.create_default_context(cafile=root)
        context.set_alpn_protocols(["postgresql"])
        try:
            with socket.create_connection(("localhost", port)) as tcp, context.wrap_socket(tcp, server_hostname="localhost"):
                return True
        except OSError:
            return False

    def test_what_is_wrong_at_the_start(self):
        cluster = self.server("bare", extension=False)
        self.client(cluster, "init")
        for text, code, said in ((self.head(cluster) + "databases = []\n", USAGE, "line 3: databases: unknown field"),
                                 (f"server = 'host={cluster.home}'\n{self.table('owner')}", USAGE, "no address to listen at"),
                                 (self.head(cluster, "0.0.0.0:0") + self.table("owner"), USAGE, "needs TLS")):
            self.start(text)
            self.assertEqual(self.process.wait(TIME_LIMIT), code)
            self.assertIn(said, self.log.read_text())
        done = subprocess.run([PGSEAL, "proxy", "--config", "/nonexistent"], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, IO, done.stderr)
        done = subprocess.run([PGSEAL, "proxy", "--config", "x", "--server", "y"], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, USAGE, done.stderr)


class Systemd(Configured):
    def test_a_socket_that_is_given_and_what_is_told(self):
        cluster = self.server("bare", extension=False)
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        with socket.socket(socket.AF_UNIX) as given, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            given.bind(str(self.path))
            given.listen()
            manager.bind(str(self.directory / "notify"))
            manager.settimeout(TIME_LIMIT)
            text = f"server = 'host={cluster.home}'\n{self.table('owner')}"
            command = ["bash", "-c", AS_SYSTEMD.format(given.fileno()), PGSEAL, self.file]
            self.start(text, command, pass_fds=[given.fileno()], environment={"NOTIFY_SOCKET": str(self.directory / "notify")})
            self.assertEqual(manager.recv(1000), b"READY=1\n")
            self.assertEqual(self.psql(self.sockets, "SELECT 1"), ["1"])
            self.process.send_signal(signal.SIGHUP)
            self.assertRegex(manager.recv(1000), rb"\ARELOADING=1\nMONOTONIC_USEC=\d+\n\Z")
            self.assertEqual(manager.recv(1000), b"READY=1\n")
            self.process.send_signal(signal.SIGTERM)
            self.assertEqual(manager.recv(1000), b"STOPPING=1\n")
            self.assertEqual(self.process.wait(TIME_LIMIT), 0)
        self.assertTrue(os.path.exists(self.path))  # it is systemd's


if __name__ == "__main__":
    main(__file__, TOOLS)
