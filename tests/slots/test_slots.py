#!/usr/bin/env python3
"""Key slots of a real cluster: added, listed, labelled and removed under a running server, and what is noted of them."""

import json
import os
import pwd
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, main, run  # noqa: E402

FIRST, SAFE = "the first passphrase", "the one in the safe"


class Slots(Case):
    def setUp(self):
        super().setUp()
        self.first, self.safe = map(self.file, (FIRST, SAFE))
        self.sealed = self.cluster(key=("--key-passphrase-file", self.first, "--argon2-memory", "64MiB"))
        self.sealed.environment["PGSEAL_PASSPHRASE_FILE"] = str(self.first)
        self.sealed.init()

    def file(self, words):
        path = self.directory / words.replace(" ", "-")
        path.write_text(words + "\n")
        path.chmod(0o600)
        return path

    def key(self, verb, *options, secret=None, check=True):
        """`pgseal key VERB`, with one passphrase or none, and no terminal to ask at."""
        given = ["--passphrase-file", secret] if secret else []
        return run([PGSEAL, "key", verb, "-D", self.sealed.data, *given, *options], check=check, start_new_session=True)

    def listed(self, *options, secret=None):
        return json.loads(self.key("list", "--json", *options, secret=secret).stdout)

    def test_a_timer_replaces_what_is_due(self):
        new = ["--new-passphrase-file", self.safe, "--argon2-memory", "64MiB"]
        self.assertRegex(self.key("rotate", "--older-than", "90d", *new, secret=self.first).stdout,
                         r"^slot 1 stays: it was made at 20\S+Z and is due at 20\S+Z\n$")
        refused = self.key("rotate", "--older-than", "90d", secret=self.first, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("say how the key shall be protected", refused.stderr)
        self.key("check", secret=self.first)
        time.sleep(1)
        self.assertEqual(self.key("rotate", "--older-than", "1s", *new, secret=self.first).stdout,
                         "slot 2 opens the key now, slot 1 is gone\n")
        self.assertNotEqual(self.key("check", secret=self.first, check=False).returncode, 0)
        commands = ["--new-wrap-command", "rev > %p", "--new-unwrap-command", "rev %p"]
        self.assertRegex(self.key("rotate", "--older-than", "1h", *commands, secret=self.safe).stdout, "^slot 2 stays: it was made at")
        self.key("rotate", "--older-than", "0s", *commands, secret=self.safe)
        self.assertRegex(self.key("rotate", "--older-than", "1h", *commands).stdout, "^slot 1 stays: it was made at")
        (self.sealed.data / "pg_encryption/slots.bin").unlink()
        self.assertIn("is gone", self.key("rotate", "--older-than", "1h", *commands).stdout)

    def test_under_a_running_server(self):
        before = int(time.time())
        self.sealed.start()
        self.key("add", "--new-passphrase-file", self.safe, "--label", "in the safe", "--argon2-memory", "64MiB", secret=self.first)
        self.key("label", "--slot", "1", "the server's", secret=self.first)
        found = self.listed()
        self.assertFalse(found["notes_verified"])
        self.assertEqual([(slot["slot"], slot["kind"], slot["label"]) for slot in found["slots"]],
                         [(1, "passphrase", "the server's"), (2, "passphrase", "in the safe")])
        verified = self.listed("--verify", secret=self.safe)
        self.assertEqual(verified, {**found, "notes_verified": True})
        added = found["slots"][1]["created"]
        self.assertEqual(added["uid"], os.getuid())
        made = datetime.fromisoformat(added["time"].replace("Z", "+00:00"))
        self.assertGreaterEqual(made.replace(tzinfo=timezone.utc).timestamp(), before)
        self.assertIsNone(found["slots"][0]["created"]["user"], "it was made with the cluster")
        self.key("remove", "--slot", "1", secret=self.safe)
        self.sealed.environment["PGSEAL_PASSPHRASE_FILE"] = str(self.safe)
        self.sealed.stop()
        self.sealed.start()
        self.assertEqual(self.sealed.psql("SELECT 1"), "1")
        self.assertEqual([slot["slot"] for slot in self.listed()["slots"]], [2])

    def test_a_slot_stays_unless_another_opens(self):
        self.key("add", "--new-passphrase-file", self.safe, "--argon2-memory", "64MiB", secret=self.first)
        refused = self.key("remove", "--slot", "1", secret=self.first, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (7, ""))
        self.assertIn("no other slot opens with what was given", refused.stderr)
        self.key("remove", "--slot", "2", secret=self.first)
        refused = self.key("remove", "--slot", "1", secret=self.first, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("is the only one", refused.stderr)
        self.assertEqual(self.key("check", secret=self.first).returncode, 0)

    def test_a_start_notes_nothing_and_a_check_does(self):
        notes = self.sealed.data / "pg_encryption/slots.bin"
        self.sealed.start()
        self.sealed.stop()
        self.assertFalse(notes.exists())
        self.assertIsNone(self.listed()["slots"][0]["proved"])
        self.key("check", secret=self.first)
        proved = self.listed("--verify", secret=self.first)["slots"][0]["proved"]
        self.assertEqual(proved["uid"], os.getuid())
        names = {pwd.getpwuid(os.getuid()).pw_name, self.login()}
        self.assertIn(proved["user"], names)
        self.assertEqual(notes.stat().st_mode & 0o777, 0o600)
        self.sealed.start()

    @staticmethod
    def login():
        """The name of the user who logged in, from whom the tests' user may have come."""
        number = Path("/proc/self/loginuid").read_text().strip()
        return pwd.getpwuid(int(number)).pw_name if int(number) < 2 ** 32 - 1 else ""

    def test_a_user_who_may_not_write_checks_all_the_same(self):
        directory = self.sealed.data / "pg_encryption"
        directory.chmod(0o500)
        self.addCleanup(directory.chmod, 0o700)
        done = self.key("check", secret=self.first)
        self.assertRegex(done.stderr, r"\Apgseal: warning: that it opens could not be noted [^\n]*: [^\n]*slots.bin cannot be written "
                                      r"\(Permission denied\)[^\n]*\n\Z")

    def test_a_backup_stays_as_its_manifest_lists_it(self):
        self.key("label", "--slot", "1", "the server's", secret=self.first)
        self.sealed.start()
        backup = self.directory / "backup"
        self.sealed.run("pg_basebackup", "-D", backup, "-X", "stream")
        run([PGSEAL, "key", "check", "-D", backup, "--passphrase-file", self.first])
        self.assertFalse((backup / "pg_encryption/slots.bin").exists(), "a base backup has the key file alone")
        found = json.loads(run([PGSEAL, "key", "list", "--verify", "--json", "-D", backup, "--passphrase-file", self.first]).stdout)
        self.assertEqual([slot["slot"] for slot in found["slots"]], [1])
        self.sealed.run("pg_verifybackup", backup)

    def test_a_copy_under_another_key_has_no_notes(self):
        self.key("label", "--slot", "1", "the server's", secret=self.first)
        notes = (self.sealed.data / "pg_encryption/slots.bin").read_bytes()
        other = self.cluster("other").init()
        (other.data / "pg_encryption/slots.bin").write_bytes(notes)
        done = run([PGSEAL, "key", "list", "--verify", "-D", other.data], check=False)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("the server's", done.stdout)
        self.assertIn("slots.bin is of another key", done.stderr)
        run([PGSEAL, "key", "check", "-D", other.data])
        self.assertEqual(run([PGSEAL, "key", "list", "--verify", "-D", other.data]).stderr, "")


if __name__ == "__main__":
    main(__file__)
