#!/usr/bin/env python3
"""A conversion is killed, or the disk refuses, at a call that syncs, renames or removes: nothing starts on a half of it,
the same command again ends it, and every byte is there.

The calls are counted and hit by strace: the first and last ones, where journal, gate and key file change, and some between
them; PGSEAL_CONVERT_POINTS says how many of each. The whole range, power loss included, is gone through on a model
(crates/tde/convert/tests/power.rs).
"""

import os
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from converting import PLAIN_KEY
from interrupting import CALLS, InterruptCase
from pgseal_test import PGSEAL, STAGE, main, run

POINTS = int(os.environ.get("PGSEAL_CONVERT_POINTS", "2"))


class Interrupted(InterruptCase):
    # Each interruption converts the cluster three times: a third of its files go through the same states.
    without, database = ("postgres", "template0"), "template1"

    def points(self, command):
        """(call, number) of every interruption."""
        chosen = random.Random(command)
        calls = self.calls(command)
        for call in CALLS:
            total = calls.count(call)
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
                done = self.inject(command, call, number)
                self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                states.add(self.look(command))
                self.end(command)
        return states

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
            for number in [40, 200]:
                self.restore("seal")
                with self.subTest(call=call, number=number):
                    done = self.inject("seal", call, number, f"error={error}")
                    self.assertEqual(done.returncode, 3, done.stderr)
                    sentence = rf"^pgseal: cannot [a-z ]+ [a-z]\S+ \({words}\): nothing is lost; fix that and "
                    sentence += "run `pgseal seal` again\n$"
                    self.assertRegex(done.stderr, sentence)
                    self.assertEqual([name for name in self.names_of_ours() if name.endswith((".part", ".pid"))], [])
                    self.look("seal")
                    self.end("seal")

    def test_the_library_alone(self):
        """A server that is started without its wrapper, with the library in LD_PRELOAD, says the same sentence."""
        self.prepare("seal")
        self.inject("seal", "rename", 100)
        library = {"LD_PRELOAD": str(STAGE / "dist/lib/libpgseal.so")}
        done = run([self.main.pg / "postgres", "-D", self.main.data], library, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{self.main.data} is only partly converted: run `pgseal seal` on it again", done.stderr)
        self.end("seal")

    def test_another_command_and_keys(self):
        """Only the same command goes on, only with the same keys, and in the end with none."""
        self.prepare("seal")
        secret, wrong = self.directory / "secret", self.directory / "wrong"
        secret.write_text("one long secret")
        wrong.write_text("another secret")
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
            self.assertIn("the interrupted conversion would continue", check.stdout)
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
        total = self.calls("seal").count("rename")
        self.restore("seal")
        return when if int(when) < total // 3 else str(total - 20)



if __name__ == "__main__":
    main(__file__)
