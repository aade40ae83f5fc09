#!/usr/bin/env python3
"""pgseal client over TLS: libpq's modes, root certificates and the client's own, at a server that takes nothing else.

What psql says of the same settings is asked too: where the two must agree, they do."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from certificates import Certificates  # noqa: E402
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import STAGE, TIME_LIMIT, base_environment, main, run  # noqa: E402

PGSEAL = STAGE / "dist/bin/pgseal"
DONE, USAGE, IO, REFUSED = 0, 2, 3, 10
ASKED = "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
HBA = "local all all trust\nhostssl all strict all cert\nhostssl all all all trust\n"


class ClientTls(Confidential):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.directory)
        self.path = self.certificates.path
        for name in ("root", "stranger"):
            self.certificates.self_signed(name, "/CN=" + name)
        self.certificates.signed("server", "/CN=localhost", "DNS:localhost")
        self.certificates.signed("strict", "/CN=strict")
        run([PGSEAL, "client", "init", self.directory / "owner"])
        self.pg = self.serve("server")

    def serve(self, name):
        self.port = self.reserved_port()
        conf = f"listen_addresses = '127.0.0.1'\nport = {self.port}\nssl = on\nssl_ca_file = '{self.path('root', 'crt')}'\n"
        files = f"ssl_cert_file = '{self.path(name, 'crt')}'\nssl_key_file = '{self.path(name, 'key')}'\n"
        cluster = self.server(name, conf=conf + files, PGPORT=str(self.port))
        cluster.psql("CREATE ROLE strict SUPERUSER LOGIN")
        (cluster.data / "pg_hba.conf").write_text(HBA)
        cluster.psql("SELECT pg_reload_conf()")
        return cluster

    def run_program(self, string, command, **variables):
        environment = {"PGHOST": "localhost", "PGPORT": str(self.port), "PGUSER": "postgres", "PGSEAL_ACCEPT": "software",
                       "PGSEAL_IDENTITY": str(self.directory / "owner"), "HOME": str(self.directory), **variables}
        return subprocess.run(command + ["-d", f"dbname=postgres {string}"], env={**base_environment(), **environment}, text=True,
                              capture_output=True, timeout=TIME_LIMIT, check=False)

    def ask(self, string="", code=DONE, like_psql=True, **variables):
        """Whether the session is TLS, or what the client said; psql must say yes, no or nothing just so."""
        done = self.run_program(string, [PGSEAL, "client", "sql", "--trust-server-types", "-tA", ASKED], **variables)
        self.assertEqual(done.returncode, code, f"{string}: {done.stdout}{done.stderr}")
        if like_psql:
            theirs = self.run_program(string, [self.pg.pg / "psql", "-XtA", "-c", ASKED], **variables)
            self.assertEqual((theirs.returncode == 0, theirs.stdout), (code == DONE, done.stdout), theirs.stderr)
        return done.stdout.strip() if code == DONE else done.stderr

    def test_modes(self):
        root = f"sslrootcert={self.path('root', 'crt')}"
        for string in ("", "sslmode=prefer", "sslmode=require", f"sslmode=verify-ca {root}", f"sslmode=verify-full {root}",
                       f"sslmode=verify-ca {root} host=127.0.0.1"):
            self.assertEqual(self.ask(string), "true", string)
        self.assertEqual(self.ask(PGSSLMODE="verify-full", PGSSLROOTCERT=str(self.path("root", "crt"))), "true")
        self.assertEqual(self.ask(f"sslmode=verify-full {root}", PGHOST=str(self.pg.home)), "false")  # a socket: as ever
        self.assertIn("no encryption", self.ask("sslmode=disable", REFUSED))

    def test_a_uri(self):
        root = str(self.path("root", "crt")).replace("/", "%2F")
        uri = f"postgresql://postgres@localhost:{self.port}/postgres?sslmode=verify-full&sslrootcert={root}&connect_timeout=9"
        done = self.run_program("", [PGSEAL, "client", "sql", "--trust-server-types", "-tA", ASKED], PGDATABASE=uri)
        self.assertEqual(done.stdout, "true\n", done.stderr)

    def test_who_is_not_the_server_is_told_nothing(self):
        root, stranger = (f"sslrootcert={self.path(name, 'crt')}" for name in ("root", "stranger"))
        for string, said in ((f"sslmode=verify-full {root} host=127.0.0.1", "NotValidForName|not valid for name"),
                             (f"sslmode=verify-full {stranger}", "UnknownIssuer"),
                             (f"sslmode=verify-ca {stranger}", "UnknownIssuer"),
                             (f"sslmode=require {stranger}", "UnknownIssuer")):
            before = self.pg.log().count("connection authenticated")
            self.assertRegex(self.ask(string, IO), said)
            self.assertEqual(self.pg.log().count("connection authenticated"), before)

    def test_the_files_of_the_home_directory(self):
        place = self.directory / ".postgresql"
        place.mkdir()
        shutil.copy(self.path("stranger", "crt"), place / "root.crt")
        self.assertIn("UnknownIssuer", self.ask("sslmode=require", IO))
        shutil.copy(self.path("root", "crt"), place / "root.crt")
        self.assertEqual(self.ask("sslmode=verify-full"), "true")
        self.assertIn("certificate", self.ask("user=strict", REFUSED))
        for kind in ("crt", "key"):
            shutil.copy(self.path("strict", kind), place / f"postgresql.{kind}")
        self.assertEqual(self.ask("user=strict"), "true")

    def test_the_clients_own_certificate(self):
        own = f"user=strict sslcert={self.path('strict', 'crt')} sslkey="
        self.path("strict", "key").chmod(0o644)
        self.assertIn("chmod 600", self.ask(own + str(self.path("strict", "key")), IO))
        self.assertIn("cannot be used", self.ask(own + str(self.path("root", "key")), IO))

    def test_a_server_that_signed_its_own_certificate(self):
        self.certificates.self_signed("alone", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
        self.pg = self.serve("alone")
        pinned = f"sslrootcert={self.path('alone', 'crt')}"
        self.assertEqual(self.ask(f"sslmode=verify-full {pinned}"), "true")
        self.ask(f"sslmode=verify-full {pinned} host=127.0.0.1", IO)

    def test_what_makes_no_sense(self):
        for string, said in (("sslmode=on", "no sslmode"), ("sslmode=verify-full", "nothing to check"),
                             ("sslmode=verify-ca", "nothing to check")):
            self.assertIn(said, self.ask(string, USAGE))
        self.assertIn("verify-full", self.ask("sslrootcert=system sslmode=require", USAGE, like_psql=False))
        self.assertIn("UnknownIssuer", self.ask("sslrootcert=system", IO, like_psql=False))
        self.assertIn("nothing.crt", self.ask("sslmode=verify-ca sslrootcert=/nothing.crt", IO))


if __name__ == "__main__":
    main(__file__, TOOLS)
