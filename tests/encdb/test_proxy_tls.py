#!/usr/bin/env python3
"""pgseal proxy over TLS, on the side of drivers and on that of the server: psql's modes, certificates, direct TLS, SCRAM."""

import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from certificates import Certificates  # noqa: E402
from confidential import TOOLS, programs  # noqa: E402
from owners_client import USAGE  # noqa: E402
from pgseal_test import TIME_LIMIT, base_environment, main  # noqa: E402
from proxied import PGSEAL, PORT, Proxied  # noqa: E402
from waiting import eventually  # noqa: E402

READY = b"Z\0\0\0\x05I"
BINDING = "set channel_binding=disable in the driver"


def start_packet(user="postgres"):
    body = struct.pack("!I", 196608) + f"user\0{user}\0database\0postgres\0\0".encode()
    return struct.pack("!I", len(body) + 4) + body


class ProxyTls(Proxied):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.directory)
        self.path = self.certificates.path
        for name in ("root", "stranger"):
            self.certificates.self_signed(name, "/CN=" + name)
        self.certificates.signed("proxy", "/CN=localhost", "DNS:localhost")
        self.port = self.reserved_port()

    def over_tls(self, cluster, *options, server=""):
        """A proxy at an address of a network and at a socket."""
        directory = self.proxy(cluster, "--listen", f"localhost:{self.port}", "--tls-cert", self.path("proxy"), "--tls-key",
                               self.path("proxy", "key"), *options, server=server)
        eventually(self.answers, process=self.process)
        return directory

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("localhost", self.port)) == 0

    def bare(self, **options):
        cluster = self.server("bare", extension=False, **options)
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        return cluster

    def ask(self, string, sql="SELECT 6 * 7", code=0, **variables):
        """What psql prints over the proxy's port; or what it says, if it is to fail."""
        command = [programs() / "psql", "-wXAtqc", sql, f"host=localhost port={self.port} user=postgres dbname=postgres {string}"]
        done = subprocess.run(command, env={**base_environment(), **variables}, text=True, capture_output=True, timeout=TIME_LIMIT,
                              check=False)
        self.assertEqual(done.returncode, code, f"{string}: {done.stdout}{done.stderr}")
        return done.stdout.strip() if code == 0 else done.stderr


class Drivers(ProxyTls):
    def test_certificates_are_checked_and_clear_connections_are_refused(self):
        self.shop()
        directory = self.over_tls(self.cluster_)
        root = f"sslrootcert={self.path('root')}"
        self.ask(f"sslmode=verify-full {root}", "INSERT INTO person (id, name) VALUES (1, 'secretAda')")
        for string in ("", "sslmode=prefer", "sslmode=require", f"sslmode=verify-ca {root}", f"sslmode=verify-full {root}"):
            self.assertEqual(self.ask(string, "SELECT name FROM person"), "secretAda")
        self.assertIn("takes no connection without TLS", self.ask("sslmode=disable", code=2))
        self.assertIn("certificate verify failed", self.ask(f"sslmode=verify-full sslrootcert={self.path('stranger')}", code=2))
        self.assertEqual(self.psql(directory, "SELECT name FROM person"), ["secretAda"])  # a socket has no TLS
        self.assert_never_in_clear("secret")

    def test_drivers_certificates(self):
        for name, authority in (("ada", "root"), ("eve", "stranger")):
            self.certificates.signed(name, f"/CN={name}", authority=authority)
        self.over_tls(self.bare(), "--tls-client-ca", self.path("root"))
        own = "sslmode=require sslcert={} sslkey={}".format
        self.assertEqual(self.ask(own(self.path("ada"), self.path("ada", "key"))), "42")
        self.assertRegex(self.ask("sslmode=require", code=2), "certificate required|handshake failure")
        self.assertRegex(self.ask(own(self.path("eve"), self.path("eve", "key")), code=2), "alert|closed")

    def test_tls_from_the_first_byte(self):
        """What libpq 17 sends with sslnegotiation=direct."""
        self.over_tls(self.bare())
        context = ssl.create_default_context(cafile=self.path("root"))
        for protocols, answer in ((["postgresql"], b"R"), ([], b"")):
            context.set_alpn_protocols(protocols)
            with socket.create_connection(("localhost", self.port)) as tcp, context.wrap_socket(tcp, server_hostname="localhost") as driver:
                self.assertEqual(driver.selected_alpn_protocol(), "postgresql" if protocols else None)
                try:
                    driver.sendall(start_packet())
                    found = driver.recv(1)
                except OSError:
                    found = b""
                self.assertEqual(found, answer)
        context.set_alpn_protocols(["http/1.1"])
        with socket.create_connection(("localhost", self.port)) as tcp, self.assertRaises(ssl.SSLError):
            context.wrap_socket(tcp, server_hostname="localhost")

    def test_a_slow_driver_gets_the_last_byte(self):
        """When the last part is encrypted no room is in the socket: it is sent when there is, though nothing follows."""
        self.over_tls(self.bare())
        context = ssl.create_default_context(cafile=self.path("root"))
        context.set_alpn_protocols(["postgresql"])
        for megabytes in (4, 5, 6, 7):
            with socket.create_connection(("localhost", self.port)) as tcp, context.wrap_socket(tcp, server_hostname="localhost") as driver:
                driver.settimeout(TIME_LIMIT)
                driver.sendall(start_packet())
                self.received(driver, READY)
                statement = f"SELECT repeat('x', 1000) FROM generate_series(1, {megabytes * 1000})\0".encode()
                driver.sendall(b"Q" + struct.pack("!I", len(statement) + 4) + statement)
                self.assertGreater(self.received(driver, READY, pause=0.001), megabytes * 1_000_000)

    def received(self, driver, last, pause=0.0):
        """Reads up to the bytes that end an answer. Returns their number."""
        length, end = 0, b""
        while not end.endswith(last):
            block = driver.recv(16384)
            self.assertNotEqual(block, b"")
            length, end = length + len(block), (end + block)[-len(last):]
            time.sleep(pause)
        return length

    def test_bytes_before_the_handshake_are_not_taken(self):
        """A man in the middle could have put them there."""
        self.over_tls(self.bare())
        context = ssl.create_default_context(cafile=self.path("root"))
        with socket.create_connection(("localhost", self.port)) as tcp:
            tcp.sendall(struct.pack("!II", 8, 80877103) + start_packet())
            self.assertEqual(tcp.recv(1), b"S")
            with self.assertRaises(OSError):
                context.wrap_socket(tcp, server_hostname="localhost")

    def test_a_statement_is_cancelled(self):
        self.over_tls(self.bare())
        connection = psycopg2.connect(host="localhost", port=self.port, user="postgres", dbname="postgres", sslmode="require")
        self.addCleanup(connection.close)
        with connection.cursor() as cursor, self.assertRaises(psycopg2.errors.QueryCanceled):
            threading.Timer(0.5, connection.cancel).start()
            cursor.execute("SELECT pg_sleep(60)")

    def test_files_that_cannot_be_used(self):
        cluster = self.bare()
        self.certificates.self_signed("other", "/CN=other")
        for certificate, key, mode, said in (("proxy", "proxy", 0o640, "chmod 600"), ("proxy", "other", 0o600, "cannot be used for TLS"),
                                             ("nothing", "proxy", 0o600, "cannot be read")):
            self.path(key, "key").chmod(mode)
            self.assertIn(said, self.refused(cluster, "--tls-cert", self.path(certificate), "--tls-key", self.path(key, "key")))
        self.assertIn("needs TLS", self.refused(cluster, address=f"0.0.0.0:{self.port}"))
        self.assertIn("--tls-key", self.refused(cluster, "--tls-cert", self.path("proxy")))

    def refused(self, cluster, *options, address="localhost:0"):
        command = [PGSEAL, "proxy", "--listen", address, "--server", f"host={cluster.home}", "--identity", self.directory / "owner",
                   "--accept", "software", *options]
        done = subprocess.run(command, env=base_environment(), text=True, capture_output=True, timeout=TIME_LIMIT, check=False)
        self.assertIn(done.returncode, (USAGE, 3), done.stderr)
        return done.stderr


class Servers(ProxyTls):
    """A server with TLS and a role with a password."""

    def tls_server(self):
        self.certificates.signed("server", "/CN=localhost", "DNS:localhost")
        server_port = self.reserved_port()
        conf = (f"listen_addresses = 'localhost'\nport = {server_port}\nssl = on\nssl_cert_file = '{self.path('server')}'\n"
                f"ssl_key_file = '{self.path('server', 'key')}'\n")
        cluster = self.bare(conf=conf, PGPORT=str(server_port))
        cluster.psql("CREATE ROLE ada LOGIN PASSWORD 'secret'")
        (cluster.data / "pg_hba.conf").write_text("local all all trust\nhostssl all all all scram-sha-256\n")
        cluster.psql("SELECT pg_reload_conf()")
        return cluster, f"host=localhost port={server_port} sslmode=verify-full sslrootcert={self.path('root')}"

    def test_passwords_pass_between_drivers_and_a_server_with_tls(self):
        cluster, server = self.tls_server()
        directory = self.over_tls(cluster, server=server)
        asked = "SELECT ssl, current_user FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        at_socket = f"host={directory} port={PORT}"
        for string in (at_socket, f"{at_socket} channel_binding=disable", "sslmode=require channel_binding=disable"):
            self.assertEqual(self.ask(f"user=ada {string}", asked, PGPASSWORD="secret"), "t|ada")
            self.assertIn("password authentication failed", self.ask(f"user=ada {string}", code=2, PGPASSWORD="wrong"))

    def test_a_driver_that_would_bind_its_password_is_told_what_to_set(self):
        cluster, server = self.tls_server()
        self.over_tls(cluster, server=server)
        self.assertIn(BINDING, self.ask("user=ada sslmode=require", code=2, PGPASSWORD="secret"))
        self.assertIn("channel binding", self.ask("user=ada sslmode=require channel_binding=require", code=2, PGPASSWORD="secret"))

    def test_a_server_that_is_another_is_told_nothing(self):
        cluster, server = self.tls_server()
        directory = self.over_tls(cluster, server=server.replace(str(self.path("root")), str(self.path("stranger"))))
        self.assertIn("pgseal has no connection", self.psql(directory, "SELECT 1", code=2))


if __name__ == "__main__":
    main(__file__, TOOLS)
