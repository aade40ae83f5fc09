#!/usr/bin/python3
"""key.bin is lost under a running server: the server says so, and gives its key to root, and to nobody else.

The server runs as an unprivileged user, as always; what only root may do, a service of this program does, which root starts before it.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import pgseal_test  # noqa: E402
from pgseal_test import PGSEAL, Case, run  # noqa: E402
from waiting import eventually  # noqa: E402

SERVICE = "PGSEAL_TEST_ROOT"
COMMAND = Path(__file__).resolve().parents[2] / "dist/bin/pgseal"
MISSING = "pgseal: pg_encryption/key.bin is missing: this server runs on, and cannot be started again"
needs_root = unittest.skipUnless(SERVICE in os.environ, "only root gets a server's key")


class Root:
    """Runs `pgseal key restore` with options that the test sends, and answers with what came of it."""

    def __init__(self):
        self.home = Path(tempfile.mkdtemp(prefix="pgseal-root."))
        self.home.chmod(0o755)
        self.path = self.home / "socket"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.path.chmod(0o666)
        self.listener.listen()
        self.silent = socket.socket(socket.AF_UNIX)
        self.silent.bind(str(self.home / "silent"))
        (self.home / "silent").chmod(0o666)
        self.silent.listen()
        (self.home / "heard").write_bytes(b"")
        threading.Thread(target=self.serve, daemon=True).start()
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        """What comes to a socket of root's that says nothing."""
        while True:
            connection, _ = self.silent.accept()
            with connection, open(self.home / "heard", "ab") as file:
                file.write(b"(a connection)")
                file.flush()
                while data := connection.recv(65536):
                    file.write(data)
                    file.flush()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rw") as stream:
                options = json.loads(stream.readline())
                done = subprocess.run([COMMAND, "key", "restore", *options], env=base_environment_of_root(), text=True, capture_output=True,
                                      stdin=subprocess.DEVNULL, check=False)
                stream.write(json.dumps([done.returncode, done.stdout, done.stderr]) + "\n")


def base_environment_of_root():
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def main(test_file):
    if os.getuid() != 0 or "PGSEAL_TEST_STAGE" in os.environ:
        pgseal_test.main(test_file)
    root = Root()
    os.environ[SERVICE] = str(root.path)
    try:
        pgseal_test.main(test_file)
    finally:
        shutil.rmtree(root.home)


class FromServer(Case):
    def setUp(self):
        super().setUp()
        self.new = self.directory / "new"
        self.new.write_text("the new passphrase\n")
        self.main = self.cluster()
        self.main.init().start()
        self.main.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS x")
        self.options = ["-D", str(self.main.data), "--from-server", "--new-passphrase-file", str(self.new), "--argon2-memory=64MiB"]

    def as_root(self, *options):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.environ[SERVICE])
            with client.makefile("rw") as stream:
                stream.write(json.dumps([*self.options, *options]) + "\n")
                stream.flush()
                return json.loads(stream.readline())

    def lose(self):
        (self.main.data / "pg_encryption/key.bin").unlink()

    def test_the_log_says_it_once(self):
        self.assertNotIn("is missing", self.main.log())
        self.lose()
        for _ in range(3):
            self.main.psql("SELECT 1")
        self.assertEqual(self.main.log().count(MISSING), 1)

    @needs_root
    def test_root_gets_the_key(self):
        status = run([PGSEAL, "status", "-D", self.main.data]).stdout
        header = (self.main.data / "pg_encryption/pgseal.toml").read_bytes()
        for what in ["key.bin", ""]:
            shutil.rmtree(self.main.data / "pg_encryption") if not what else self.lose()
            code, out, err = self.as_root()
            self.assertEqual(code, 0, err)
            key = re.search(r"key id: +(\w+)", status)[1]
            self.assertIn(f"key {key} opens the cluster\nslot 1 opens it\n", out)
            self.assertFalse((self.main.data / "pgseal.rescue").exists())
            for file in (self.main.data / "pg_encryption").rglob("*"):
                self.assertEqual((file.stat().st_uid, file.stat().st_mode & 0o077), (os.getuid(), 0), file)
            if what:
                self.assertEqual((self.main.data / "pg_encryption/pgseal.toml").read_bytes(), header)
        self.main.stop()
        self.main.environment["PGSEAL_PASSPHRASE_FILE"] = str(self.new)
        self.main.start()
        self.assertEqual(self.main.psql("SELECT count(*) FROM t"), "1000")
        # What came back is reported when it goes again.
        self.lose()
        self.main.psql("SELECT 1")
        eventually(lambda: self.main.log().count(MISSING) >= 2)

    @needs_root
    def test_it_is_given_only_when_the_file_is_gone(self):
        code, _, err = self.as_root()
        self.assertEqual(code, 10)
        self.assertRegex(err, r"^pgseal: the server .process \d+. did not give its key within 20 seconds: key.bin must be missing")
        self.assertFalse((self.main.data / "pgseal.rescue").exists())
        self.main.stop()
        self.lose()
        code, _, err = self.as_root()
        self.assertEqual((code, err.count("\n")), (4, 1))
        self.assertIn("no encrypted server runs in", err)

    def test_nobody_else_gets_it(self):
        """The server's own user makes a socket, as a program that SQL runs could: nobody connects to it."""
        if os.getuid() == 0:
            self.skipTest("the server would have to be root's")
        done = run([PGSEAL, "key", "restore", *self.options], check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "pgseal: a running server gives its key to root only: run this as root\n"))
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(self.main.data)
            listener.bind("pgseal.rescue")
            os.chdir("/")
            listener.listen()
            self.lose()
            self.main.psql("SELECT 1")
            listener.settimeout(3)
            with self.assertRaises(TimeoutError):
                listener.accept()

    @needs_root
    def test_a_link_is_not_followed(self):
        """The server's user leads to a socket of root's, which takes whatever it is sent; root's command removes no such thing."""
        other = Path(os.environ[SERVICE]).parent / "silent"
        (self.main.data / "pgseal.rescue").symlink_to(other)
        self.lose()
        for _ in range(3):
            self.main.psql("SELECT 1")
        code, _, err = self.as_root()
        self.assertEqual(code, 2)
        self.assertIn("pgseal.rescue is there and is no socket: remove it", err)
        self.assertEqual(Path(os.environ[SERVICE]).with_name("heard").read_bytes(), b"")


if __name__ == "__main__":
    main(__file__)
