#!/usr/bin/env python3
"""docs/confidential/in-process.md: its programs run as printed, before a server that asks for TLS and a password.

Each of them fails with the library's sentence where it must, and leaves nothing when it has ended.
"""

import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import Drivers  # noqa: E402
from certificates import Certificates  # noqa: E402
from confidential import TOOLS  # noqa: E402
from inside import PAGE, SOURCES, node_modules  # noqa: E402
from page import Page  # noqa: E402
from proxied import LOG_ALL  # noqa: E402
from pgseal_test import STAGE, base_environment, main, run  # noqa: E402

HBA = "local all all trust\nhostssl all app all scram-sha-256\n"
PASSWORD = "s3 cret%/"
LIBRARY = STAGE / "dist/lib/libpgseal_client.so.0"
# A library of another release.
STRANGER = """
int pgseal_client_interface(void) { return 1; }
void pgseal_client_version(void) {} void pgseal_client_start(void) {} void pgseal_client_conninfo(void) {}
void pgseal_client_parameter(void) {} void pgseal_client_stop(void) {} void pgseal_client_free(void) {}
"""
TIME_LIMIT = 120
# The driver's own timeout, by the socket; a client that starts anew; pgjdbc's properties cannot lead past it.
TIMEOUT = """
import java.util.Properties;
import org.pgseal.PgsealDataSource;

public class Timeout {
    public static void main(String[] options) throws Exception {
        var server = new PgsealDataSource();
        server.setServer(options[0]);
        server.setAccept(options[1]);
        server.setIdentity("owner.identity");
        var properties = new Properties();
        properties.setProperty("socketTimeout", "1");
        properties.setProperty("socketFactory", "none");
        properties.setProperty("sslmode", "require");
        server.setProperties(properties);
        for (int round = 0; round < 2; round++) {
            try (server; var connection = server.getConnection(); var statement = connection.createStatement()) {
                statement.execute("SELECT pg_sleep(60)");
            } catch (java.sql.SQLException error) {
                System.out.println(error.getSQLState() + " " + error.getCause().getClass().getSimpleName());
            }
        }
    }
}
"""


class InProcess:
    """Tests of one language, whose `start` gives the command of the page's program, and its variables."""

    def setUp(self):
        super().setUp()
        self.runtime = self.directory / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.place = self.directory / "application"
        self.place.mkdir()
        self.certificates = Certificates(self.directory)
        self.certificates.self_signed("root", "/CN=root")
        self.certificates.signed("server", "/CN=localhost", "DNS:localhost")
        self.serve()

    def serve(self):
        """A server with a table, of which the identity knows what is encrypted."""
        evaluator = self.evaluator(options=["--identity", self.directory / "evaluator.key"])
        self.key, = re.findall(r"signed by ([0-9a-f]{64})\n", evaluator.log_file.read_text())
        self.port = self.reserved_port()
        certificate = self.certificates.path
        conf = f"listen_addresses = '127.0.0.1'\nport = {self.port}\nssl = on\npassword_encryption = 'scram-sha-256'\n"
        files = f"ssl_cert_file = '{certificate('server')}'\nssl_key_file = '{certificate('server', 'key')}'\n"
        self.cluster_ = cluster = self.server(form="isolated", socket=evaluator.socket, conf=conf + files + LOG_ALL, PGPORT=str(self.port))
        cluster.psql(f"CREATE ROLE app SUPERUSER LOGIN PASSWORD '{PASSWORD}'; CREATE DATABASE shop OWNER app".replace("; ", ";\n"))
        cluster.psql("CREATE EXTENSION encdb; CREATE TABLE customers (id int PRIMARY KEY, email enc_text)", db="shop")
        (cluster.data / "pg_hba.conf").write_text(HBA)
        cluster.psql("SELECT pg_reload_conf()")
        cluster.environment |= {"PGUSER": "app", "PGDATABASE": "shop"}
        insert = ["sql", "--plain", "1", "INSERT INTO customers (id, email) VALUES ($1, $2)", "1", "ada@example.org"]
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"], ["column", "add", "--all"], insert):
            self.client(cluster, *command, identity="application/owner.identity")

    def program(self, library=LIBRARY, identity="owner.identity"):
        """Runs the page's."""
        self.accept = f"software:{self.key}"
        places = {"host=db": f"host=localhost port={self.port}", "user=app": f"user=app password='{PASSWORD}'",
                  "owner.identity": identity, "software:KEY": self.accept}
        return self.ended(*self.start(Page(PAGE, places), library, identity))

    def ended(self, command, variables):
        """Runs a command to its end, which leaves no socket."""
        environment = {**base_environment(), "PGSSLROOTCERT": str(self.certificates.path("root")), "XDG_RUNTIME_DIR": str(self.runtime),
                       "HOME": str(self.directory), **variables}
        done = subprocess.run(command, cwd=self.place, env=environment, text=True, capture_output=True, timeout=TIME_LIMIT, check=False)
        self.assertEqual(list(self.runtime.iterdir()), [])
        return done

    def test_the_page(self):
        done = self.program()
        self.assertEqual((done.returncode, done.stdout), (0, "1\nada@example.org\n"), done.stderr)
        log = self.cluster_.log()
        self.assertIn("FROM customers", log)
        self.assertNotIn("ada@", log)

    def test_an_error_is_the_librarys_sentence(self):
        self.fails("nonexistent.identity cannot be read", identity="nonexistent.identity")

    def test_another_library(self):
        stranger = self.directory / "stranger"
        stranger.mkdir()
        source, library = stranger / "it.c", stranger / LIBRARY.name
        source.write_text(STRANGER)
        run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY.name}", source, "-o", library])
        self.fails("of different versions: install both from one release", library=library)

    def fails(self, sentence, **options):
        done = self.program(**options)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn(sentence, done.stderr)
        self.assertNotIn(PASSWORD, done.stderr)


class Python(InProcess, Drivers):
    def start(self, page, library, _):
        variables = {"PYTHONPATH": str(STAGE / "bindings/python"), "PGSEAL_CLIENT_LIBRARY": str(library)}
        return [self.built("python") / "bin/python", "-c", page.block("python")], variables


class Java(InProcess, Drivers):
    def start(self, page, library, _):
        # The jar has the right library.
        return self.java("Shop", page.block("java")), {} if library == LIBRARY else {"PGSEAL_CLIENT_LIBRARY": str(library)}

    def java(self, name, text):
        source = self.place / f"{name}.java"
        source.write_text(text)
        return ["java", "-cp", f"{self.built('java')}/target/dependency/*:{STAGE}/dist/jars/*", source]

    def test_timeouts_are_the_drivers(self):
        server = f"host=localhost port={self.port} user=app password='{PASSWORD}' dbname=shop sslmode=verify-full"
        done = self.ended([*self.java("Timeout", TIMEOUT), server, f"software:{self.key}"], {})
        self.assertEqual((done.returncode, done.stdout), (0, "08006 SocketTimeoutException\n" * 2), done.stderr)


class Go(InProcess, Drivers):
    """What scripts/fetch-drivers.sh has built of the page, which takes all from the environment."""

    def start(self, _, library, identity):
        password = urllib.parse.quote(PASSWORD, safe="")
        return [self.built("go") / "shop"], {
            "LD_LIBRARY_PATH": str(library.parent), "PGSEAL_IDENTITY": identity, "PGSEAL_ACCEPT": self.accept,
            "DATABASE_URL": f"postgresql://app:{password}@localhost:{self.port}/shop?sslmode=verify-full"}


class Node(InProcess, Drivers):
    def start(self, page, library, _):
        variables = {"NODE_PATH": node_modules(self.directory, self.built("node"))}
        if library != LIBRARY:
            variables["PGSEAL_CLIENT_LIBRARY"] = str(library)
        return ["node", "-e", page.block("js")], variables

    def test_the_process_ends_and_takes_its_client_with_it(self):
        text = f"require('pgseal').start({{server: 'user=app dbname=shop', identity: 'owner.identity', accept: 'software:{self.key}'}})"
        shows = ".then((client) => console.log(require('fs').statSync(client.config().host).mode.toString(8)))"
        done = self.ended(["node", "-e", text + shows], {"NODE_PATH": node_modules(self.directory, self.built("node"))})
        self.assertEqual((done.returncode, done.stdout), (0, "40700\n"), done.stderr)


if __name__ == "__main__":
    main(__file__, [*TOOLS, *SOURCES])
