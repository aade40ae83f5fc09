#!/usr/bin/env python3
"""A conversion is killed, or the disk refuses, at a call that syncs, renames or removes: nothing starts on a half of it,
the same command again ends it, and every byte is there.

The calls are counted and hit by strace: the first and last ones, where journal, gate and key file change, and some between
them; PGSEAL_CONVERT_POINTS says how many of each. The whole range, power loss included, is gone through on a model
(crates/convert/tests/power.rs).
"""

import os
import random
import re
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from converting import PLAIN_KEY, ConvertCase, become, content
from pgseal_test import PGSEAL, STAGE, main, run, twins

CALLS = ["fsync", "rename", "unlink"]
POINTS = int(os.environ.get("PGSEAL_CONVERT_POINTS", "2"))
# What is kept of keys that were in use.
KEPT = r"(?:key\.bin|pgseal\.toml)\.[0-9a-f]{32}$"
# The commands that bring a cluster back to what it was in clear.
BACK = {"seal": ["unseal"], "unseal": [], "rekey": ["unseal"]}


class Interrupted(ConvertCase):
    def setUp(self):
        super().setUp()
        self.main = self.cluster(sealed=False, tablespaces=["space"], initdb=["--wal-segsize=1"])
        self.main.init().start()
        self.main.psql(f"CREATE TABLESPACE space LOCATION '{self.main.home}/space'; CREATE TABLE t TABLESPACE space "
                       "AS SELECT i, i || 'clear' AS word FROM generate_series(1, 1000) i")
        self.main.stop()
        self.places = [self.main.data, self.main.home / "space"]
        self.clear = self.content()

    def content(self):
        """Of all files but pgseal's own."""
        own = re.compile(r"data/(pg_encryption[./]|postmaster\.pid$|" + KEPT + ")")
        return {name: file for name, file in content(*self.places).items() if not own.match(name)}

    def prepare(self, command):
        """Brings the cluster to where `command` begins, and keeps a copy."""
        if command != "seal":
            self.convert("seal", self.main, *PLAIN_KEY)
        self.saved = self.directory / "saved"
        run(["cp", "-a", self.main.home, self.saved])

    def restore(self, command):
        for place in self.places:
            shutil.rmtree(place)
            run(["cp", "-a", self.saved / place.name, place])
        become(self.main, sealed=command != "seal")

    def traced(self, command, *strace):
        """The conversion with one thread, under strace."""
        key = [] if command == "unseal" else PLAIN_KEY
        trace = ["strace", "-qq", *strace]
        return run([*trace, PGSEAL, command, "-D", self.main.data, "--jobs=1", *key], check=False)

    def count(self, command):
        """How often each call is made."""
        log = self.directory / "calls"
        done = self.traced(command, "-o", log, "-e", "trace=" + ",".join(CALLS))
        self.assertEqual(done.returncode, 0, done.stderr)
        text = log.read_text()
        return {call: len(re.findall(rf"\b{call}\(", text)) for call in CALLS}

    def points(self, command):
        """(call, number) of every interruption."""
        chosen = random.Random(command)
        for call, total in self.count(command).items():
            ends = [*range(1, POINTS + 1), *range(total - POINTS + 1, total + 1)]
            between = chosen.sample(range(1, total + 1), min(POINTS, total))
            yield from ((call, number) for number in sorted({*ends, *between}) if 1 <= number <= total)

    def go_through(self, command):
        """Interrupts at every point, and ends what was interrupted."""
        self.prepare(command)
        states = set()
        for call, number in self.points(command):
            self.restore(command)
            with self.subTest(command=command, call=call, number=number):
                inject = f"inject={call}:signal=KILL:when={number}"
                done = self.traced(command, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
                self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                states.add(self.look(command))
                self.end(command)
        return states

    def look(self, command):
        """What is there, and that nothing starts on it but where it may."""
        journal = (self.main.data / "pg_encryption/conversion").exists()
        gate = (self.main.data / "global/pg_control").exists()
        state = (journal, gate)
        if journal:
            again = f"pgseal: {self.main.data} is only partly converted: run `pgseal {command}` on it again, which goes on "
            for program in [[PGSEAL, "verify"], [PGSEAL, "status"], [twins() / "postgres"]]:
                done = run([*program, "-D", self.main.data], check=False)
                self.assertEqual((done.returncode, done.stderr), (9, again + "where it was interrupted\n"))
        if not gate:
            done = run([self.main.pg / "postgres", "-D", self.main.data], check=False)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, 'could not open file ".*/global/pg_control": No such file or directory')
        return state

    def end(self, command):
        """The same command again, unless it had ended, and back to the bytes of the beginning."""
        data = self.main.data
        sealed, plain = (data / "pg_encryption").exists(), not list(data.glob("pg_encryption*"))
        ended = {"seal": sealed, "unseal": plain, "rekey": self.is_rekeyed()}[command]
        if (data / "pg_encryption/conversion").exists() or not ended:
            self.convert(command, self.main, *([] if command == "unseal" else PLAIN_KEY))
        else:
            (data / "postmaster.pid").unlink(missing_ok=True)  # of a process that is gone; a server does the same
        for back in BACK[command]:
            self.convert(back, self.main)
        self.assertEqual(self.names_of_ours(), [])
        self.assert_same_files(self.clear, self.content())

    def is_rekeyed(self):
        old = self.saved / "data/pg_encryption/key.bin"
        new = self.main.data / "pg_encryption/key.bin"
        return old.exists() and new.exists() and old.read_bytes() != new.read_bytes()

    def names_of_ours(self):
        found = [path for place in self.places for path in place.rglob("*")]
        ours = [path.name for path in found if re.search(r"pgseal|pg_encryption|postmaster.pid", path.name)]
        return [name for name in ours if not re.match(KEPT, name)]

    def test_seal(self):
        states = self.go_through("seal")
        self.assertEqual(states, {(False, True), (True, True), (True, False)})

    def test_unseal(self):
        states = self.go_through("unseal")
        self.assertEqual(states, {(False, True), (True, True), (True, False)})

    def test_rekey(self):
        states = self.go_through("rekey")
        self.assertEqual(states, {(False, True), (True, True), (True, False)})

    def test_a_disk_that_refuses(self):
        """Errors end a conversion with exit code 3 and a sentence; space is given back, and it goes on later."""
        self.prepare("seal")
        for call, error, words in [("pwrite64", "ENOSPC", "No space left on device"), ("fsync", "EIO", "I/O error"),
                                   ("rename", "EACCES", "Permission denied"), ("pread64", "EIO", "I/O error")]:
            for number in [40, 400]:
                self.restore("seal")
                with self.subTest(call=call, number=number):
                    inject = f"inject={call}:error={error}:when={number}"
                    done = self.traced("seal", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
                    self.assertEqual(done.returncode, 3, done.stderr)
                    sentence = rf"^pgseal: cannot [a-z ]+ [a-z]\S+ \({words}\): nothing is lost; mend that and "
                    sentence += "run `pgseal seal` again\n$"
                    self.assertRegex(done.stderr, sentence)
                    self.assertEqual([name for name in self.names_of_ours() if name.endswith((".part", ".pid"))], [])
                    self.look("seal")
                    self.end("seal")

    def test_the_library_alone(self):
        """A server that is started without its twin, with the library in LD_PRELOAD, says the same sentence."""
        self.prepare("seal")
        self.traced("seal", "-o", "/dev/null", "-e", "trace=rename", "-e", "inject=rename:signal=KILL:when=100")
        library = {"LD_PRELOAD": str(STAGE / "dist/lib/libpgseal.so")}
        done = run([self.main.pg / "postgres", "-D", self.main.data], library, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{self.main.data} is only partly converted: run `pgseal seal` on it again", done.stderr)
        self.end("seal")

    def test_another_command_and_keys(self):
        """Only the same command goes on, only with the same keys, and in the end with none."""
        self.prepare("seal")
        secret, wrong = self.directory / "secret", self.directory / "wrong"
        secret.write_text("one")
        wrong.write_text("two")
        key = f"--key-passphrase-file={secret}"
        trace = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=rename", "-e", "inject=rename:signal=KILL:when="]
        for when, needs_key in [("100", True), ("1500", False)]:
            self.restore("seal")
            kill = [*trace[:-1], trace[-1] + self.late(when)]
            run([*kill, PGSEAL, "seal", "-D", self.main.data, "--jobs=1", key], check=False)
            for other in ["unseal", "rekey"]:
                done = self.convert(other, self.main, *([] if other == "unseal" else PLAIN_KEY), code=9)
                self.assertIn("run `pgseal seal` on it again", done.stderr)
            check = self.convert("seal", self.main, "--check")
            self.assertIn("an interrupted conversion would go on", check.stdout)
            if needs_key:
                done = self.convert("seal", self.main, f"--key-passphrase-file={wrong}", code=7)
                self.assertEqual(done.stderr.count("\n"), 1)
                self.convert("seal", self.main, key)
            else:
                self.convert("seal", self.main)
            self.convert("unseal", self.main, f"--passphrase-file={secret}")
            self.assert_same_files(self.clear, self.content())

    def late(self, when):
        """The number of a rename in the second phase, for a number that is too large."""
        total = self.count("seal")["rename"]
        self.restore("seal")
        return when if int(when) < total // 3 else str(total - 20)

    def test_a_mount_that_is_missing_afterwards(self):
        """A machine that was started again has not mounted everything: nothing is done until it has, in both phases."""
        space, away = self.main.home / "space", self.directory / "away"
        tablespace = next((self.main.data / "pg_tblspc").iterdir()).name
        unmounted = f"pg_tblspc/{tablespace} does not hold this cluster's files: mount what belongs there"
        nowhere = f"pg_tblspc/{tablespace} leads nowhere: mount what it links to, or remove the link"
        self.prepare("rekey")
        total = self.count("rekey")["rename"]
        for when, phase in [(100, 1), (total - 20, 2)]:
            self.restore("rekey")
            inject = f"inject=rename:signal=KILL:when={when}"
            self.traced("rekey", "-o", "/dev/null", "-e", "trace=rename", "-e", inject)
            self.assertEqual((self.main.data / "pg_encryption/conversion").read_bytes()[11], phase)
            before = content(self.main.data)
            space.rename(away)
            for mount_point, sentence in [(False, nowhere), (True, unmounted)]:
                if mount_point:
                    space.mkdir()
                done = self.convert("rekey", self.main, *PLAIN_KEY, code=1)
                self.assertEqual(done.stderr, f"pgseal: {self.main.data}: {sentence}\n")
                done = self.convert("rekey", self.main, *PLAIN_KEY, "--check", code=1)
                self.assertIn(f"in the way: {sentence}\n", done.stdout)
            space.rmdir()
            away.rename(space)
            self.assert_same_files(before, content(self.main.data))
            self.end("rekey")

    def test_a_plain_server_before_the_gate_was_shut(self):
        """Its work counts: the conversion looks at the cluster again."""
        self.prepare("seal")
        for number in range(1, 20):
            self.restore("seal")
            inject = f"inject=fsync:signal=KILL:when={number}"
            self.traced("seal", "-o", "/dev/null", "-e", "trace=fsync", "-e", inject)
            if self.look("seal") == (True, True):
                break
        become(self.main, sealed=False)
        self.main.start()
        self.main.psql("INSERT INTO t VALUES (0, 'later')")
        self.main.kill9()
        done = self.convert("seal", self.main, *PLAIN_KEY, code=1)
        self.assertIn("the server was not shut down in order", done.stderr)
        become(self.main, sealed=False)
        self.main.start().stop()
        self.convert("seal", self.main, *PLAIN_KEY)
        self.main.start()
        self.assertEqual(self.main.psql("SELECT word FROM t WHERE i = 0"), "later")
        self.main.stop()


if __name__ == "__main__":
    main(__file__)
