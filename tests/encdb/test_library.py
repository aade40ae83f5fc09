#!/usr/bin/env python3
"""The client library inside a process: in C by its header, in Python by the package, with threads, forks and signals of the application."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import unittest
import unittest.mock
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, programs  # noqa: E402
from pgseal_test import STAGE, base_environment, main  # noqa: E402
from proxied import Proxied  # noqa: E402

BINDINGS, HEADER = "bindings", "crates/encdb/library/include"
LIBRARY = STAGE / "dist/lib/libpgseal_client.so.0"
sys.path.insert(0, str(STAGE / BINDINGS / "python"))
os.environ["PGSEAL_CLIENT_LIBRARY"] = str(LIBRARY)


class Library(Proxied):
    def setUp(self):
        super().setUp()
        self.runtime = self.directory / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.enterContext(unittest.mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(self.runtime)))
        directory = self.shop()
        self.psql(directory, "INSERT INTO person (id, name, age) VALUES (1, 'secretAda', 36)")
        self.process.terminate()
        self.server_ = f"host={self.cluster_.home} user=postgres dbname=postgres port={self.cluster_.environment.get('PGPORT', 5432)}"
        self.options = {"identity": self.directory / "owner", "accept": "software"}


class InC(Library):
    def compiled(self, *flags):
        program = self.directory / "program"
        source = Path(__file__).with_name("client_library.c")
        subprocess.run(["cc", *flags, "-Wall", "-Wextra", "-Werror", f"-I{STAGE / HEADER}", source, "-o", program, LIBRARY,
                        f"-Wl,-rpath,{LIBRARY.parent}"], check=True)
        return program

    def run_it(self, program, *arguments):
        environment = {**base_environment(), "PATH": f"{programs()}:{os.environ['PATH']}"}
        return subprocess.run([program, *arguments], env=environment, text=True, capture_output=True, timeout=60, check=False)

    def test_a_program(self):
        program = self.compiled("-std=c99", "-D_GNU_SOURCE")
        done = self.run_it(program, self.server_, self.directory / "owner", "software")
        self.assertEqual((done.returncode, done.stdout), (0, "secretAda\n36\n"), done.stderr)
        self.assert_never_in_clear("secret")

    def test_the_header_is_of_cpp_too(self):
        header = f'#include "pgseal_client.h"\nint main() {{ return pgseal_client_interface() - {self.interface()}; }}\n'
        (self.directory / "one.cc").write_text(header)
        program = self.directory / "one"
        subprocess.run(["c++", "-Wall", "-Werror", f"-I{STAGE / HEADER}", self.directory / "one.cc", "-o", program, LIBRARY,
                        f"-Wl,-rpath,{LIBRARY.parent}"], check=True)
        self.assertEqual(self.run_it(program).returncode, 0)

    def interface(self):
        return re.search(r"#define PGSEAL_CLIENT_INTERFACE (\d+)", (STAGE / HEADER / "pgseal_client.h").read_text())[1]

    def test_it_exports_what_the_header_declares_and_nothing_else(self):
        exported = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], text=True, capture_output=True, check=True).stdout
        declared = re.findall(r"\b(pgseal_client_\w+)\(", (STAGE / HEADER / "pgseal_client.h").read_text())
        self.assertEqual(sorted(line.split()[2] for line in exported.splitlines()), sorted(set(declared)))

    def test_what_is_wrong_is_one_sentence(self):
        program = self.compiled("-D_GNU_SOURCE")
        for arguments, sentence in (((self.server_, "/nonexistent", "software"), "/nonexistent"),
                                    ((self.server_, self.directory / "owner", "hardware"), "accept: "),
                                    ((self.server_, self.directory / "owner"), "PGSEAL_ACCEPT"),
                                    (("user=u dbname=d",), "PGSEAL_IDENTITY"),
                                    (("port=x",), "server: ")):
            done = self.run_it(program, *arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)
            self.assertIn(sentence, done.stderr)


class InPython(Library):
    def test_a_connection(self):
        import pgseal
        with pgseal.Client(self.server_, **self.options) as client:
            self.assertEqual(stat.S_IMODE(os.stat(client.host).st_mode), 0o700)
            self.assertEqual(self.ask(client.conninfo), "secretAda")
            self.assertEqual(self.ask(client.url()), "secretAda")
        self.assertFalse(Path(client.host).exists())
        connection = pgseal.connect(self.server_, **self.options)
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT age FROM person WHERE name = %s", ("secretAda",))
            self.assertEqual(cursor.fetchone(), (36,))
        connection.close()
        self.assertEqual(pgseal.dsn(self.server_, **self.options), pgseal.dsn(self.server_, **self.options))
        self.assertRegex(pgseal.version(), r"^\d+\.\d+\.\d+")
        self.assert_never_in_clear("secret")

    def test_a_missing_list_is_an_error_of_the_connection(self):
        import pgseal
        self.client(self.cluster_, "init", identity="other")
        options = {**self.options, "identity": self.directory / "other"}
        with self.assertRaisesRegex(psycopg2.OperationalError, "has no list .* pgseal client column add --all"):
            psycopg2.connect(pgseal.dsn(self.server_, **options))
        connection = pgseal.connect(self.server_, trust_server_types=True, **options)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM person")
            self.assertEqual(cursor.fetchone(), (1,))
        connection.close()
        with self.assertRaisesRegex(pgseal.Error, "trust_server_types: give true or false"):
            pgseal.dsn(self.server_, trust_server_types="yes", **options)

    def ask(self, dsn):
        connection = psycopg2.connect(dsn)
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM person WHERE name = 'secretAda'")
            found = cursor.fetchone()[0]
        connection.close()
        return found

    def test_threads_and_children(self):
        import pgseal
        dsn = pgseal.dsn(self.server_, **self.options)
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.ask(dsn))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, ["secretAda"] * 8)
        child = os.fork()
        if child == 0:
            # The parent's is as good; one of its own is another one.
            good = self.ask(dsn) == self.ask(pgseal.dsn(self.server_, **self.options)) == "secretAda"
            os._exit(0 if good and pgseal.dsn(self.server_, **self.options) != dsn else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.ask(dsn), "secretAda")
        # A child that ends by _exit removes nothing. Anyone who starts the next client does, and leaves what is in use.
        left = set(self.runtime.iterdir())
        with pgseal.Client(self.server_, **self.options) as client:
            self.assertEqual(len(left - set(self.runtime.iterdir())), 1)
            self.assertEqual(self.ask(client.conninfo), "secretAda")
        self.assertEqual(self.ask(dsn), "secretAda")

    def test_signals_and_exits_are_the_applications(self):
        script = self.directory / "application.py"
        script.write_text(f"""
import os, signal, sys, time
sys.path.insert(0, {str(STAGE / BINDINGS / 'python')!r})
import pgseal
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"signal\\n"))  # print is not for a handler
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
client = pgseal.client({self.server_!r}, identity={str(self.directory / 'owner')!r}, accept="software")
print(client.host, flush=True)
while True:
    time.sleep(0.1)
""")
        environment = {**base_environment(), "PGSEAL_CLIENT_LIBRARY": str(LIBRARY)}
        application = subprocess.Popen([sys.executable, script], env=environment, text=True, stdout=subprocess.PIPE)
        self.addCleanup(application.kill)
        host = Path(application.stdout.readline().strip())
        self.assertTrue(host.is_dir())
        application.send_signal(signal.SIGUSR1)
        self.assertEqual(application.stdout.readline(), "signal\n")
        application.send_signal(signal.SIGTERM)
        self.assertEqual(application.wait(20), 7)
        self.assertFalse(host.exists())
        application.stdout.close()

    def test_errors(self):
        import pgseal
        for options, sentence in (({"identity": "/nonexistent"}, "/nonexistent"), ({"accept": "x"}, "accept: "), ({"colour": "red"}, "colour")):
            with self.assertRaisesRegex(pgseal.Error, sentence):
                pgseal.dsn(self.server_, **{**self.options, **options})


class Packages(unittest.TestCase):
    """What holds of the packages of all languages."""

    def test_they_have_the_version_and_the_interface_of_the_library(self):
        """A release changes the workspace's, and then these."""
        import pgseal
        version = pgseal.version().split()[0]
        for manifest, wanted in (("python/pyproject.toml", f'\nversion = "{version}"\n'),
                                 ("java/pom.xml", f"\n  <version>{version}</version>\n"),
                                 ("node/package.json", f'\n  "version": "{version}",\n')):
            self.assertIn(wanted, (STAGE / BINDINGS / manifest).read_text(), manifest)
        number = re.search(r"#define PGSEAL_CLIENT_INTERFACE (\d+)", (STAGE / HEADER / "pgseal_client.h").read_text())[1]
        for source, wanted in (("python/pgseal/_client.py", f"\nINTERFACE = {number}\n"),
                               ("java/src/main/java/org/pgseal/ClientLibrary.java", f" INTERFACE = {number};"),
                               ("node/index.js", f"\nconst INTERFACE = {number};\n")):
            self.assertIn(wanted, (STAGE / BINDINGS / source).read_text(), source)


@unittest.skipUnless((STAGE / "dist/wheels").exists(), "make wheels builds it")
class Wheel(Library):
    def test_it_has_all_that_it_needs(self):
        """Installed where nothing else is, it finds its library."""
        wheel, = (STAGE / "dist/wheels").glob("pgseal-*-py3-none-linux_*.whl")
        place = self.directory / "site"
        subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, place], check=True)
        owner = str(self.directory / "owner")
        code = f"import pgseal; print(pgseal.Client({self.server_!r}, identity={owner!r}, accept='software').port)"
        environment = {name: value for name, value in base_environment().items() if name != "PGSEAL_CLIENT_LIBRARY"}
        done = subprocess.run([sys.executable, "-c", code], cwd=place, env=environment, text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "5432\n"), done.stderr)
        self.assertLess(wheel.stat().st_size, 10 << 20)


if __name__ == "__main__":
    main(__file__, [*TOOLS, BINDINGS, HEADER])
