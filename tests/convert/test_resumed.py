#!/usr/bin/env python3
"""What may happen between a conversion that was interrupted and the same command again: mounts are missing, a plain server
runs, or crashes, pg_resetwal changes the cluster. All of it is seen, and nothing is done over it."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from converting import PLAIN_KEY, become, content
from interrupting import InterruptCase
from pgseal_test import main


class Resumed(InterruptCase):
    def test_a_mount_that_is_missing_afterwards(self):
        """A machine that was started again has not mounted everything: nothing is done until it has, in both phases."""
        space, away = self.main.home / "space", self.directory / "away"
        tablespace = next((self.main.data / "pg_tblspc").iterdir()).name
        unmounted = f"pg_tblspc/{tablespace} does not contain this cluster's files: mount the right file system"
        nowhere = f"pg_tblspc/{tablespace} is a dangling link: mount its target, or remove the link"
        self.prepare("rekey")
        total = self.calls("rekey").count("rename")
        for when, phase in [(100, 1), (total - 20, 2)]:
            self.restore("rekey")
            self.inject("rekey", "rename", when)
            self.assertEqual((self.main.data / "pg_encryption/conversion").read_bytes()[11], phase)
            before = content(self.main.data)
            space.rename(away)
            for mount_point, sentence in [(False, nowhere), (True, unmounted)]:
                if mount_point:
                    space.mkdir()
                done = self.convert("rekey", self.main, *PLAIN_KEY, code=1)
                self.assertEqual(done.stderr, f"pgseal: {self.main.data}: {sentence}\n")
                done = self.convert("rekey", self.main, *PLAIN_KEY, "--check", code=1)
                self.assertIn(f"blocker: {sentence}\n", done.stdout)
            space.rmdir()
            away.rename(space)
            self.assert_same_files(before, content(self.main.data))
            self.end("rekey")

    def test_a_plain_server_before_the_gate_was_shut(self):
        """Its work counts: the conversion looks at the cluster again."""
        self.prepare("seal")
        self.begun("signal=KILL")
        become(self.main, sealed=False)
        self.main.start()
        self.main.psql("INSERT INTO t VALUES (0, 'later')")
        self.main.kill9()
        done = self.convert("seal", self.main, *PLAIN_KEY, code=1)
        self.assertIn("the server was not shut down cleanly", done.stderr)
        become(self.main, sealed=False)
        self.main.start().stop()
        self.convert("seal", self.main, *PLAIN_KEY)
        self.main.start()
        self.assertEqual(self.main.psql("SELECT word FROM t WHERE i = 0"), "later")
        self.main.stop()

    def test_a_plain_server_after_unsealing(self):
        """What unseal left is removed once the server that ran meanwhile was shut down: its pid file may guard what is left of it."""
        self.prepare("unseal")
        calls = self.calls("unseal")
        # The last unlink is that of the pid file.
        placing = "all files are converted, but not all have their names: the interrupted conversion would continue"
        ended = "decrypted: only the rest of its key directory would be removed"
        for call, before, left, stage in [("rename", 0, "pg_encryption/conversion", placing),
                                          ("unlink", 1, "pg_encryption.old/conversion", ended)]:
            with self.subTest(call=call):
                self.restore("unseal")
                self.inject("unseal", call, calls.count(call) - before)
                self.assertTrue((self.main.data / left).exists())
                self.assertEqual(self.stage("unseal"), stage)
                become(self.main, sealed=False)
                self.main.start()
                self.main.psql("INSERT INTO t VALUES (0, 'later')")
                self.main.kill9()
                done = self.convert("unseal", self.main, "--check", code=1)
                self.assertIn("blocker: the server was not shut down cleanly: start it", done.stdout)
                done = self.convert("unseal", self.main, code=1)
                self.assertIn("the server was not shut down cleanly: start it, stop it, and try again", done.stderr)
                self.assertTrue((self.main.data / "postmaster.pid").exists())
                become(self.main, sealed=False)
                self.main.start().stop()
                check = json.loads(self.convert("unseal", self.main, "--check", "--json").stdout)
                self.assertEqual((check["resumes"], check["files"], check["obstacles"]), (True, 0, []))
                done = json.loads(self.convert("unseal", self.main, "--json").stdout)
                self.assertEqual((done["command"], done["files"], done["bytes"]), ("unseal", 0, 0))
                self.assertEqual(self.names_of_ours(), [])
                self.main.start()
                self.assertEqual(self.main.psql("SELECT word FROM t WHERE i = 0"), "later")
                self.main.stop()

    def stage(self, command):
        """What state the cluster is in, by --check, which ends with the blockers."""
        told = self.convert(command, self.main, "--check").stdout.splitlines()
        self.assertEqual(told[-1], "nothing blocks it")
        return told[0].removeprefix(f"{self.main.data}: ")

    def test_what_check_says_of_the_state(self):
        """Of each command, before it has begun, half way, and when it has ended."""
        for command in ["seal", "rekey", "unseal"]:
            if command == "seal":
                self.prepare(command)
            key = [] if command == "unseal" else PLAIN_KEY
            outlook = self.convert(command, self.main, *key, "--check", "--json")
            self.assertEqual(json.loads(outlook.stdout)["stage"], "new")
            self.inject(command, "rename", 100)
            self.assertEqual(self.stage(command), "partly converted: the interrupted conversion would continue")
            self.convert(command, self.main, *key)
            if command == "seal":
                done = self.convert("seal", self.main, *key, "--check", code=2)
                self.assertIn("is sealed already: ", done.stderr)
        done = self.convert("unseal", self.main, "--check", code=4)
        self.assertIn("is not a sealed cluster: it has no pg_encryption directory", done.stderr)

    def test_pg_resetwal_before_the_gate_was_shut(self):
        """Segments of another size: what the journal said of the cluster counts no more."""
        self.prepare("seal")
        self.begun("signal=KILL")
        self.assertEqual(self.stage("seal"), "nothing is converted yet: the interrupted conversion would continue")
        (self.main.data / "postmaster.pid").unlink()
        self.main.run("pg_resetwal", "--wal-segsize=2", "-D", self.main.data)
        self.convert("seal", self.main, *PLAIN_KEY)
        self.verify(self.main)
        self.main.start()
        self.assertEqual(self.main.psql("SHOW wal_segment_size"), "2MB")
        self.main.psql("INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 20000) i")
        self.main.stop()
        segments = [file for file in (self.main.data / "pg_wal").iterdir() if file.is_file()]
        self.assertEqual({file.stat().st_size for file in segments if len(file.name) == 24}, {2 << 20})

    def test_the_last_sync_of_the_beginning_fails(self):
        """The journal counts by then, and so does the key: its file stays, whatever is said of the sync."""
        key = self.directory / "key"
        self.key = [f"--key-file={key}"]
        self.prepare("seal")
        done = self.begun("error=EIO", key)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, "^pgseal: pg_encryption of .* cannot be written .*: fix that and try again\\n$")
        self.convert("seal", self.main, *self.key)
        self.verify(self.main)

    def begun(self, how, *made):
        """Ends a seal at its first sync after the rename by which it begins, `how` it is told. `made` are files that it makes."""
        calls = self.calls("seal")
        for file in made:
            file.unlink()
        before = calls[:calls.index("rename")]
        self.restore("seal")
        done = self.inject("seal", "fsync", before.count("fsync") + 1, how)
        self.assertEqual(self.look("seal"), (True, True))
        return done


if __name__ == "__main__":
    main(__file__)
