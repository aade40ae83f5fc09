#!/usr/bin/env python3
"""/etc/pgseal/policy.toml with `policy = "external"`: a server starts with a key from outside its data directory, or not at all.

The directory is built in, so this needs a machine of its own. The command that the key file holds leaves a trace when it
runs.
"""

import subprocess
from pathlib import Path

from machine import Machine, as_postgres, main
from waiting import eventually

TWINS = Path("/usr/local/lib/pgseal/15")
HOME = Path("/var/lib/postgresql")
DATA, RAN = HOME / "data", HOME / "ran"
SECRET, OTHER = HOME / "secret", HOME / "other"
CIPHER = "openssl enc -aes-256-cbc -pbkdf2 -pass file:{}"
UNWRAP = CIPHER.format(SECRET) + " -d -in %p"
POLICY = Path("/etc/pgseal/policy.toml")
REFUSED = ("the policy of this machine runs no command from a data directory: read it with `pgseal key check --show`, and if "
           "you trust it give it with --key-unwrap-command")


class Policy(Machine):
    def test_1_without_it(self):
        """The stored command opens the cluster."""
        self.run_as_root(["install", "-m", "755", "dist/bin/pgseal", "dist/bin/pgseal-twin", "/usr/local/bin/"])
        self.run_as_root(["install", "-m", "644", "dist/lib/libpgseal.so", "/usr/local/lib/libpgseal.so"])
        self.run_as_root(["pgseal", "bindir", "--pg", "/usr/lib/postgresql/15/bin", "--into", TWINS])
        SECRET.write_text("a secret\n")
        OTHER.write_text("another\n")
        self.run_as_root(["chown", "postgres", SECRET, OTHER])
        wrap = [f"--key-wrap-command={CIPHER.format(SECRET)} -out %p", f"--key-unwrap-command=touch {RAN}; {UNWRAP}"]
        self.run_as_root(as_postgres([TWINS / "initdb", "-D", DATA, "-A", "trust", "-N", "--data-encryption", *wrap]))
        RAN.unlink()
        self.starts()
        RAN.unlink()

    def test_2_external(self):
        POLICY.parent.mkdir(exist_ok=True)
        POLICY.write_text('policy = "external"\n')
        self.refuses(6, f"{DATA}/pg_encryption/key.bin: {REFUSED}")

    def test_3_from_the_environment(self):
        self.starts(PGDATAKEYUNWRAPCMD=UNWRAP)
        self.assertFalse(RAN.exists())

    def test_4_from_the_machine(self):
        """Whose own command counts, also for a server that only has the library, which asks `pgseal`."""
        own = POLICY.with_name(self.status(DATA)["cluster id"] + ".toml")
        own.write_text(f'key_unwrap_command = "{UNWRAP}"\n')
        self.starts()
        self.starts(program="/usr/lib/postgresql/15/bin/postgres", LD_PRELOAD="/usr/local/lib/libpgseal.so")
        own.write_text(f'key_unwrap_command = "{CIPHER.format(OTHER)} -d -in %p"\n')
        self.assertNotEqual(self.start().returncode, 0)
        own.unlink()
        self.refuses(6, f"{DATA}/pg_encryption/key.bin: {REFUSED}")

    def test_5_whom_it_is_taken_from(self):
        """A policy that others than root may write is refused, not passed over."""
        self.run_as_root(["chown", "postgres", POLICY])
        self.refuses(6, f"{POLICY} must belong to root and be writable by root alone: chown root and chmod go-w it")
        POLICY.unlink()
        self.starts()
        self.assertTrue(RAN.exists())
        RAN.unlink()

    def test_6_a_directory_that_the_server_may_not_enter(self):
        """It may hold a policy, so nothing is opened, though there is none."""
        POLICY.parent.chmod(0o700)
        self.refuses(6, f"{POLICY.parent} cannot be entered (Permission denied): chmod a+x it, for it may say how "
                     "clusters are unlocked")
        POLICY.parent.chmod(0o755)
        self.starts()
        RAN.unlink()

    def test_7_a_build_without_a_fips_module(self):
        """Is of no use where the policy demands one: commands, wrappers, and a server that only has the library."""
        POLICY.write_text("require_fips = true\n")
        sentence = ("/etc/pgseal/policy.toml has require_fips, but this pgseal is built without a FIPS module: install one that is "
                    "built with PGSEAL_FIPS=yes")
        self.refuses(8, sentence)
        for command, code in [(["pgseal", "status", "-D", DATA], 8), (["pgseal", "wal-get", "--from", DATA, "a", "b"], 208),
                              ([TWINS / "pg_controldata", DATA], 8)]:
            done = self.run_as_root(command, check=False)
            self.assertEqual((done.returncode, done.stderr), (code, f"pgseal: {sentence}\n"))
        done = self.start("/usr/lib/postgresql/15/bin/postgres", LD_PRELOAD="/usr/local/lib/libpgseal.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"pgseal: {sentence}\n", done.stderr)
        self.assertEqual(self.run_as_root(["pgseal", "--version"]).returncode, 0)
        POLICY.write_text('require_fips = "yes"\n')
        self.refuses(6, f"{POLICY} is not understood: require_fips must be true or false, without quotes")
        POLICY.write_text("require_fips = false\n")
        self.starts()
        RAN.unlink()

    def refuses(self, code, sentence):
        """The server does not start, and nothing from its data directory runs."""
        done = self.start()
        self.assertEqual((done.returncode, done.stderr), (code, f"pgseal: {sentence}\n"))
        self.assertFalse(RAN.exists())

    def start(self, program=TWINS / "postgres", **variables):
        return self.run_as_root(self.command(program), check=False, **variables)

    def command(self, program):
        return as_postgres([str(program), "-D", str(DATA), "-c", "listen_addresses="])

    def starts(self, program=TWINS / "postgres", **variables):
        """The server takes connections, and stops."""
        path = {"PATH": "/usr/local/bin:/usr/bin:/bin", **variables}
        with subprocess.Popen(self.command(program), env=path, stderr=subprocess.PIPE, text=True, cwd="/") as server:
            self.until_ready(server)
            self.assertEqual(self.psql("SHOW data_checksums"), "on")
            server.terminate()
            server.stderr.read()
        self.assertEqual(server.returncode, 0)

    def until_ready(self, server):
        eventually(lambda: self.psql("SELECT 1", check=False).returncode == 0,
                   lambda: server.stderr.read() if server.poll() is not None else "", process=server)


if __name__ == "__main__":
    main(__file__)
