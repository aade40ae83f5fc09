#!/usr/bin/env python3
"""docs/operations/enable.md is run as printed, with Debian's scripts: `pgseal enable` and `pgseal disable` on clusters that run, that
are refused, that fail, and that are killed at every step."""

import functools
import os
import pty
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

from machine import ROOT, Machine, as_postgres, blocks, main, run  # finds the harness
from waiting import eventually

CHECK, ENABLE, DOCTOR, DISABLE, *_ = blocks("docs/operations/enable.md")
WORD = "q" + secrets.token_hex(8)
FILL = f"CREATE TABLE t AS SELECT i, '{WORD}' || i AS word FROM generate_series(1, 20000) i"
SUM = "SELECT count(*), sum(i), min(word) FROM t"
FILLED = f"20000|200010000|{WORD}1"
BIN, STOCK = Path("/usr/lib/postgresql/15/bin"), Path("/usr/lib/postgresql/15/stock")
STOP_MARK = Path("/run/pgseal-enable.15-main")
INSTALL = """
install -m 755 dist/bin/pgseal dist/bin/pgseal-twin /usr/local/bin/
install -m 644 dist/lib/libpgseal.so /usr/local/lib/libpgseal.so
install -m 755 packaging/debian/pgseal-divert /usr/local/sbin/pgseal-divert
"""
STEPS = ["make a random passphrase", "put wrappers", "stop the server", "turn data checksums on", "encrypt", "write what opens",
         "start the server", "check that"]
STEPS_BACK = ["stop the server", "decrypt", "remove what opens", "remove the wrappers", "start the server"]


class Enable(Machine):
    """Clusters are made in the order of the tests, and each test ends with plain ones."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run(["bash", "-euc", INSTALL], cwd=ROOT, check=True)

    def create(self, name, *options):
        """A running plain cluster with a table. Returns its data directory."""
        self.run_as_root(["pg_createcluster", "--start", "15", name, *options])
        self.psql(FILL, self.port(name))
        self.psql("CHECKPOINT", self.port(name))
        return Path(self.run_as_root(["pg_conftool", "-s", "15", name, "show", "data_directory"]).stdout.strip())

    def drop(self, name):
        self.run_as_root(["pg_dropcluster", "--stop", "15", name])

    def port(self, name):
        return self.run_as_root(["pg_conftool", "-s", "15", name, "show", "port"]).stdout.strip()

    def pid(self, data):
        return (data / "postmaster.pid").read_text().split()[0]

    def pgseal(self, *words, code=0):
        done = self.run_as_root(["pgseal", *words], check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def assert_sealed(self, name, data):
        self.assert_runs_sealed(str(data))
        port = self.port(name)
        self.assertEqual(self.psql(SUM, port), FILLED)
        self.assertEqual(self.psql("SHOW data_checksums", port), "on")
        self.psql("CHECKPOINT", port)
        self.assertEqual(self.found(WORD, str(data)), [])
        text = (data / "SEALED.README").read_text()
        self.assertIn("Do not run pg_resetwal", text)
        self.assertNotIn("SEALED.README", self.psql("SELECT pg_ls_dir('.')", port).split())

    def assert_plain(self, name, data):
        status = self.status(str(data))
        self.assertEqual(status["sealed"], "no")
        self.assertRegex(status["server"], r"^running \(process \d+\)$")
        self.assertEqual(self.psql(SUM, self.port(name)), FILLED)
        for own in ["SEALED.README", "pg_encryption", "pg_encryption.old"]:
            self.assertFalse((data / own).exists(), own)
        self.assertNotIn("PGSEAL", self.environment(name))

    def environment(self, name):
        return Path(f"/etc/postgresql/15/{name}/environment").read_text()

    def test_1_what_is_refused(self):
        data = self.create("main")
        pid = self.pid(data)
        for words, code, sentence in [
                (["enable", "15", "none"], 2, "pgseal: there is no cluster 15/none: pg_lsclusters lists those of this machine\n"),
                (["enable", "15", "../main"], 2, "pgseal: there is no cluster 15/../main: .*"),
                (["enable"], 2, "pgseal: .*"), (["enable", "15"], 2, "pgseal: .*"),
                (["enable", "--pgdata", data], 2, "pgseal: .*"), (["enable", "15", "main", "--unit", "x"], 2, "pgseal: .*"),
                (["enable", "15", "main", "--key-passphrase-file=/etc/none"], 6, "pgseal: /etc/none does not open for .*"),
                (["enable", "15", "main", "--key-wrap-command=false", "--key-unwrap-command=cat"], 6, "pgseal: .*"),
                (["enable", "15", "main", "--data-encryption=100"], 2, "pgseal: .*"),
                (["disable", "15", "main"], 4, "pgseal: 15/main is not sealed, and nothing is to be taken back\n"),
                (["enable", "15", "main", "--undo"], 4, "pgseal: 15/main is not sealed, .*")]:
            with self.subTest(words=words):
                self.assertRegex(self.pgseal(*words, code=code).stderr, f"^{sentence}")
        by_user = self.run_as_root(as_postgres(["pgseal", "enable", "15", "main"]), check=False)
        self.assertEqual((by_user.returncode, by_user.stderr),
                         (2, "pgseal: this changes settings and programs of the machine: run it as root\n"))
        self.assertEqual(self.pid(data), pid)
        self.assert_nothing_is_set_up()

    def assert_nothing_is_set_up(self):
        self.assertFalse(STOCK.exists())
        self.assertEqual(self.run_as_root(["dpkg", "--verify", "postgresql-15"]).stdout, "")
        self.assertFalse(Path("/etc/pgseal").exists())

    def test_2_check_changes_nothing(self):
        data = Path("/var/lib/postgresql/15/main")
        pid = self.pid(data)
        shown = self.run_block(CHECK).stdout
        expected = (r"^15/main: PostgreSQL 15 in /var/lib/postgresql/15/main, user postgres, [\d.]+ MiB, running\n"
                    + r".*\n".join(rf" +{number + 1}\. {step}" for number, step in enumerate(STEPS)) + r".*\n"
                    r"The server is down from step 3 to step 7 for at least [\d.]+ s, .*\n"
                    r"The passphrase is a file of this machine: (?s:.*)$")
        self.assertRegex(shown, expected)
        self.assertEqual(self.pid(data), pid)
        self.assert_plain("main", data)
        self.assert_nothing_is_set_up()

    def test_3_no_space(self):
        """It is seen while the server runs, which is not stopped."""
        disk = Path("/var/lib/postgresql/15/disk")
        disk.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=160m,mode=755", "none", disk)
        data = self.create("small", "-d", f"{disk}/data")
        pid = self.pid(data)
        with open(disk / "filler", "wb", buffering=0) as filler:
            while shutil.disk_usage(disk).free > 1 << 20:
                filler.write(bytes(65536))
        done = self.pgseal("enable", "15", "small", "--check", code=1)
        self.assertRegex(done.stdout, r"\nblocker: .* bytes free, and \d+ are needed for copies: make room")
        done = self.pgseal("enable", "15", "small", code=1)
        self.assertRegex(done.stderr, r"^pgseal: 15/small: .* bytes free, and \d+ are needed")
        self.assertEqual(self.pid(data), pid)
        (disk / "filler").unlink()
        self.assert_plain("small", data)
        self.drop("small")
        run("umount", disk)
        self.assert_nothing_is_set_up()

    def test_4_a_failure_before_anything_is_encrypted_starts_the_server_again(self):
        """A relation that was cut: pg_checksums cannot read its page. Once stopped and once more the server comes back."""
        data = Path("/var/lib/postgresql/15/main")
        oid = self.psql("SELECT oid FROM pg_database WHERE datname = 'postgres'")
        cut = data / f"base/{oid}/999999"
        cut.write_bytes(bytes(100))
        os.chown(cut, *(lambda user: (user.pw_uid, user.pw_gid))(pwd.getpwnam("postgres")))
        pid = self.pid(data)
        done = self.pgseal("enable", "15", "main", code=3)
        self.assertRegex(done.stderr, r"\npgseal: `pg_checksums --enable` failed with exit code 1: what it printed says why; "
                                      "the plain server was started again, and nothing is encrypted\n$")
        self.assertNotEqual(self.pid(data), pid)
        self.assert_plain("main", data)
        cut.unlink()

    def test_4b_a_person_says_no(self):
        data = Path("/var/lib/postgresql/15/main")
        pid = self.pid(data)
        ours, its = pty.openpty()
        process = subprocess.Popen(["pgseal", "enable", "15", "main"], stdin=its, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        os.close(its)
        os.write(ours, b"n\n")
        shown, said = process.communicate(timeout=300)
        os.close(ours)
        self.assertTrue(shown.endswith("Go on? [y/N] "), shown)
        self.assertEqual((process.returncode, said), (1, "pgseal: nothing was changed, because the answer was not yes\n"))
        self.assertEqual(self.pid(data), pid)

    def test_4c_no_program_of_roots_has_variables_of_the_servers_user(self):
        """The loader writes a file for each program that has these, as that program's user."""
        data = Path("/var/lib/postgresql/15/main")
        environment = Path("/etc/postgresql/15/main/environment")
        text = environment.read_text()
        trace = Path("/var/lib/postgresql/trace")
        environment.write_text(text + f"LD_DEBUG = 'libs'\nLD_DEBUG_OUTPUT = '{trace}'\nMORE = 'it''s'\n")
        self.pgseal("enable", "15", "main", "--check")
        files = list(trace.parent.glob("trace.*"))
        self.assertGreater(len(files), 0)
        self.assertEqual({file.owner() for file in files}, {"postgres"})
        for file in files:
            file.unlink()
        environment.write_text(text)
        self.assert_plain("main", data)

    def test_5_as_the_page_says(self):
        data = Path("/var/lib/postgresql/15/main")
        environment = self.environment("main")
        self.assertNotEqual(self.found(WORD, str(data)), [])
        shown = self.run_block(ENABLE).stdout
        self.assert_sealed("main", data)
        self.assertIn("\npgseal doctor finds nothing wrong\n", shown)
        self.assertIn("15/main is sealed, and its server runs. This checks the result:\n", shown)
        self.assertIn("\nDo this now:\n - Keep a copy of /etc/pgseal/15-main.passphrase", shown)
        said = shown.split("checks the result:\n")[1].split("Do this now")[0]
        for block in (DOCTOR, said):
            self.assertNotRegex(self.run_block(block).stdout, "(?m)^WRONG")
        secret = Path("/etc/pgseal/15-main.passphrase")
        about, text = secret.stat(), secret.read_text()
        self.assertEqual((about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)), (0, pwd.getpwnam("postgres").pw_gid, 0o640))
        self.assertRegex(text, "^[0-9a-f]{64}\n$")
        key = self.status(str(data))["key id"]
        self.assertEqual(self.environment("main"),
                         environment + "# Written by `pgseal enable`; `pgseal disable` removes it.\n"
                         f"PGSEAL_PASSPHRASE_FILE = '{secret}'\nPGSEAL_EXPECT_KEY = '{key}'\n")
        self.assertEqual(Path("/etc/postgresql/15/main/environment").owner(), "postgres")
        pid = self.pid(data)
        again = self.run_block(ENABLE)
        self.assertEqual(again.stdout, "15/main is sealed, and runs as it is set up\n")
        self.assertEqual((self.pid(data), secret.read_text()), (pid, text))
        self.run_as_root(["pg_ctlcluster", "15", "main", "restart"])
        self.assert_sealed("main", data)

    def test_6_a_second_cluster_shares_the_wrappers(self):
        """With checksums of its own, and a passphrase of the administrator's."""
        secret = Path("/etc/pgseal/own")
        secret.write_text("correct horse battery staple\n")
        shutil.chown(secret, "root", "postgres")
        secret.chmod(0o640)
        data = self.create("two", "--", "--data-checksums")
        shown = self.pgseal("enable", "15", "two", f"--key-passphrase-file={secret}", "--data-encryption=128").stdout
        for step in ["passphrase in", "put wrappers", "checksums"]:
            self.assertNotIn(step, shown)
        self.assert_sealed("two", data)
        self.assertFalse(Path("/etc/pgseal/15-two.passphrase").exists())
        self.assertEqual(self.pgseal("enable", "15", "two").stdout, "15/two is sealed, and runs as it is set up\n")
        shown = self.pgseal("enable", "15", "two", "--undo").stdout
        self.assertNotIn("remove the wrappers", shown)
        self.assert_plain("two", data)
        self.assert_sealed("main", Path("/var/lib/postgresql/15/main"))
        self.drop("two")

    def test_6b_wrap_and_unwrap_commands(self):
        """The server needs no setting but the pin, and the way back no option."""
        data = self.create("wrapped")
        cipher = "openssl enc -aes-256-cbc -pbkdf2 -pass file:/etc/pgseal/own"
        key = [f"--key-wrap-command={cipher} -e -out %p", f"--key-unwrap-command={cipher} -d -in %p"]
        self.pgseal("enable", "15", "wrapped", *key)
        self.assert_sealed("wrapped", data)
        self.assertNotIn("PGSEAL_PASSPHRASE_FILE", self.environment("wrapped"))
        self.assertFalse(Path("/etc/pgseal/15-wrapped.passphrase").exists())
        self.assertEqual(self.pgseal("enable", "15", "wrapped").stdout, "15/wrapped is sealed, and runs as it is set up\n")
        self.pgseal("disable", "15", "wrapped")
        self.assert_plain("wrapped", data)
        self.drop("wrapped")

    def test_7_the_way_back(self):
        data = Path("/var/lib/postgresql/15/main")
        key = self.status(str(data))["key id"]
        self.run_block(DISABLE)
        self.assert_plain("main", data)
        self.assertTrue((data / f"key.bin.{key}").exists())
        self.assertTrue(Path("/etc/pgseal/15-main.passphrase").exists())
        self.assertEqual(self.run_as_root(["dpkg", "--verify", "postgresql-15"]).stdout, "")
        self.assertFalse(STOCK.exists())

    def test_8_killed_at_every_step(self):
        """Between the steps, and inside of them; the same command goes on, there and back."""
        data = Path("/var/lib/postgresql/15/main")
        secret = Path("/etc/pgseal/15-main.passphrase")
        for delay in [0, 0.15]:
            with self.subTest(delay=delay):
                pause = functools.partial(time.sleep, delay)
                secret.unlink()
                self.run_as_root(["setpriv", "--reuid=postgres", "--clear-groups", "pg_ctlcluster", "15", "main", "stop"])
                self.run_as_root(as_postgres([BIN / "pg_checksums", "--disable", "-D", data]))
                self.run_as_root(["pg_ctlcluster", "15", "main", "start"])
                killed = [step for step in STEPS if self.killed_at("enable", step, pause)]
                self.assertGreaterEqual(len(killed), 5, killed)
                text = secret.read_text()
                self.pgseal("enable", "15", "main")
                self.assert_sealed("main", data)
                self.assertEqual(secret.read_text(), text)
                killed = [step for step in STEPS_BACK if self.killed_at("disable", step, pause)]
                self.assertGreaterEqual(len(killed), 3, killed)
                # The mark is there until a run has come to its end: with it there may be nothing left but to say so.
                self.pgseal("disable", "15", "main", code=0 if STOP_MARK.exists() else 4)
                self.assert_plain("main", data)
                self.assertEqual(self.run_as_root(["dpkg", "--verify", "postgresql-15"]).stdout, "")

    def killed_at(self, command, step, wait):
        """Runs the command, and kills it and all that it has started, some time after a step began. Did the kill meet it?"""
        process = subprocess.Popen(["pgseal", command, "15", "main"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        for line in process.stdout:
            if line.startswith("step ") and f": {step}" in line:
                wait()
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                break
        process.stdout.close()
        return process.wait() == -signal.SIGKILL

    def test_9_half_sealed_and_taken_back(self):
        data = Path("/var/lib/postgresql/15/main")
        journal = data / "pg_encryption/conversion"
        self.assertTrue(self.killed_at("enable", "encrypt", lambda: eventually(journal.exists)))
        self.assertTrue(journal.exists())
        refused = self.run_as_root(["pg_ctlcluster", "15", "main", "start"], check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.pgseal("enable", "15", "main", "--undo")
        self.assert_plain("main", data)
        self.assertEqual(self.run_as_root(["dpkg", "--verify", "postgresql-15"]).stdout, "")


if __name__ == "__main__":
    main(__file__)
