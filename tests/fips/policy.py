#!/usr/bin/env python3
"""A build with the FIPS module on a machine whose policy has `require_fips`: a cluster's life, and what is refused.

The directory of the policy is built in, so this needs a machine of its own, and a build by `make build PGSEAL_FIPS=yes`.
"""

import signal
import subprocess
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "debian"), str(TESTS / "lib")]
from machine import ROOT, Machine, as_postgres, main  # noqa: E402
from waiting import eventually  # noqa: E402

TWINS = Path("/usr/local/lib/pgseal/15")
HOME = Path("/var/lib/postgresql")
DATA, SECRET, SHORT = HOME / "data", HOME / "secret", HOME / "short"
POLICY = Path("/etc/pgseal/policy.toml")
CANARY = "Waldsterben"


class Policy(Machine):
    @classmethod
    def setUpClass(cls):
        version = subprocess.run([ROOT / "dist/bin/pgseal", "--version"], capture_output=True, text=True, check=True).stdout
        if "FIPS" not in version:
            raise unittest.SkipTest("dist/ is not a FIPS build: make test-fips")
        super().setUpClass()

    def test_1_a_cluster_under_the_policy(self):
        self.run_as_root(["install", "-m", "755", "dist/bin/pgseal", "dist/bin/pgseal-twin", "/usr/local/bin/"])
        self.run_as_root(["install", "-m", "644", "dist/lib/libpgseal.so", "/usr/local/lib/libpgseal.so"])
        self.run_as_root(["pgseal", "bindir", "--pg", "/usr/lib/postgresql/15/bin", "--into", TWINS])
        POLICY.parent.mkdir(exist_ok=True)
        POLICY.write_text("require_fips = true\n")
        SECRET.write_text("a secret of many bytes\n")
        SHORT.write_text("thirteen byte\n")
        self.run_as_root(["chown", "postgres", SECRET, SHORT])
        self.initdb(DATA, "--key-passphrase-file", SECRET)
        slots = self.run_as_root(["pgseal", "key", "list", "-D", DATA]).stdout
        self.assertIn("pbkdf2 passphrase", slots)

    def test_2_a_load_and_a_crash(self):
        """Temporary files and statistics take the other services of the module; children inherit its state."""
        with self.server() as server:
            self.psql(f"CREATE TABLE t AS SELECT i, '{CANARY}' AS w FROM generate_series(1, 20000) i")
            self.psql("SET work_mem = '64kB'; SELECT count(*) FROM (SELECT * FROM t ORDER BY w, i DESC OFFSET 1) x")
            server.send_signal(signal.SIGKILL)
            server.stderr.read()
        with self.server() as server:
            self.assertEqual(self.psql("SELECT count(*) FROM t"), "20000")
            self.psql("CHECKPOINT")
            server.terminate()
            server.stderr.read()
        self.assertEqual(server.returncode, 0)
        self.assertEqual(self.found(CANARY, DATA), [])
        self.run_as_root(["pgseal", "verify", "-D", DATA, "--passphrase-file", SECRET])

    def test_3_the_library_alone(self):
        with self.server("/usr/lib/postgresql/15/bin/postgres", LD_PRELOAD="/usr/local/lib/libpgseal.so") as server:
            self.assertEqual(self.psql("SELECT count(*) FROM t"), "20000")
            server.terminate()
            server.stderr.read()

    def test_4_what_is_not_approved(self):
        secret = ("--key-passphrase-file", SECRET)
        for code, options in [
            (8, ("--data-encryption=128", *secret)), (8, ("--data-encryption=192", *secret)),
            (8, ("--data-encryption=256", "--no-key-wrap")),
            (8, ("--data-encryption=256", "--key-provider", "vault://transit/keys/k")),
            (6, ("--data-encryption=256", "--key-passphrase-file", SHORT)),
            (2, ("--data-encryption=256", *secret, "--argon2-memory", "64MiB")),
        ]:
            with self.subTest(options=options):
                done = self.run_as_root(as_postgres([TWINS / "initdb", "-D", HOME / "other", *map(str, options)]), check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertRegex(done.stderr, r"\Apgseal: [^\n]+\n\Z")
        for command in [["client", "init", HOME / "identity"], ["proxy", "--version"], ["key", "backup", "-D", DATA, "--sheet", HOME / "sheet"]]:
            with self.subTest(command=command):
                done = self.run_as_root(["pgseal", *command], check=False, PGSEAL_PASSPHRASE_FILE=str(SECRET))
                self.assertEqual(done.returncode, 8, done.stderr)
                self.assertIn("pgseal: require_fips refuses", done.stderr)

    def test_5_a_slot_of_another_build(self):
        """A plain slot that was made without the policy is not opened under it."""
        POLICY.unlink()
        other = HOME / "plain"
        self.initdb(other, "--no-key-wrap")
        POLICY.write_text("require_fips = true\n")
        done = self.run_as_root(as_postgres([TWINS / "postgres", "-D", other]), check=False)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("require_fips refuses a key in clear in key.bin", done.stderr)

    def initdb(self, data, *protection):
        self.run_as_root(as_postgres([TWINS / "initdb", "-D", data, "-A", "trust", "-N", "-k", "--data-encryption=256", *protection]))

    def server(self, program=TWINS / "postgres", **variables):
        """A server that takes connections."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PGSEAL_PASSPHRASE_FILE": str(SECRET), **variables}
        command = as_postgres([str(program), "-D", str(DATA), "-c", "listen_addresses="])
        server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, cwd="/")
        eventually(lambda: self.psql("SELECT 1", check=False).returncode == 0,
                   lambda: server.stderr.read() if server.poll() is not None else "", process=server)
        return server


if __name__ == "__main__":
    main(__file__)
