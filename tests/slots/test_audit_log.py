#!/usr/bin/env python3
"""The audit log of keys: what a real cluster's openings and changes write, and that the chain shows what was taken away."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, main, run  # noqa: E402


class AuditLog(Case):
    def setUp(self):
        super().setUp()
        self.log = self.directory / "keys.log"
        self.sealed = self.cluster(environment={"PGSEAL_AUDIT_LOG": str(self.log)}).init()

    def records(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def events(self):
        return [(record["event"], record.get("slot")) for record in self.records()]

    def pgseal(self, *arguments, check=True, log=None):
        return run([PGSEAL, *arguments], {"PGSEAL_AUDIT_LOG": str(log or self.log)}, check=check)

    def verified(self, *options, check=True):
        return run([PGSEAL, "key", "audit", "--verify", self.log, *options], check=check)

    def test_what_is_done_with_a_key_has_a_record(self):
        data = self.sealed.data
        self.sealed.start()
        self.pgseal("key", "add", "-D", data, "--new-plain")
        self.pgseal("key", "label", "-D", data, "--slot", "2", "second")
        self.pgseal("key", "rotate", "-D", data, "--slot", "2", "--new-plain")
        self.pgseal("key", "remove", "-D", data, "--slot", "3")
        self.pgseal("key", "unwrap", "-D", data)
        self.pgseal("receiver", "grant", "-D", data, "--role", "repl", "--until", "1h")
        self.pgseal("receiver", "revoke", "-D", data, "--role", "repl")
        changes = [event for event in self.events() if event[0] not in ("unlocked", "start")]
        self.assertEqual(changes, [("slot added", 2), ("slot labelled", 2), ("slot rotated", 3), ("slot removed", 3),
                                   ("key exported", None), ("token granted", None), ("token revoked", None)])
        first = self.records()[1]
        self.assertEqual((first["event"], first["slot"], first["uid"], first["data"]), ("unlocked", 1, os.getuid(), str(data)))
        self.assertEqual(first["program"], "postgres", "the wrapper of the server opened it first")
        self.assertEqual(self.log.stat().st_mode & 0o777, 0o600)
        granted, revoked = self.records()[-3]["token"], self.records()[-1]["token"]
        self.assertEqual(granted, revoked)
        self.assertRegex(self.verified().stdout, rf"\A{self.log}: \d+ records, head [0-9a-f]{{64}}\n\Z")

    def test_a_failure_has_a_record_and_a_client_has_none(self):
        self.sealed.start()
        before = len(self.records())
        self.sealed.psql("SELECT 1")
        self.sealed.run("psql", "-c", "SELECT 1")
        self.assertEqual(len(self.records()), before)
        key = self.sealed.data / "pg_encryption/key.bin"
        stored = key.read_bytes()
        key.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
        self.addCleanup(key.write_bytes, stored)
        self.assertEqual(self.pgseal("key", "check", "-D", self.sealed.data, check=False).returncode, 5)
        self.assertEqual((self.records()[-1]["event"], self.records()[-1]["code"]), ("failed", 5))

    def test_what_was_taken_away_or_changed_is_seen(self):
        for _ in range(3):
            self.pgseal("key", "check", "-D", self.sealed.data)
        head = self.verified().stdout.split()[-1]
        self.assertEqual(self.verified("--head", head).returncode, 0)
        lines = self.log.read_text().splitlines(keepends=True)
        for text in [lines[:1] + lines[2:], lines[:1] + [lines[1].replace('"uid":', '"uid":9')] + lines[2:]]:
            self.log.write_text("".join(text))
            done = self.verified(check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"does not hold: line 2 is not what was written")
        self.log.write_text("".join(lines[:-1]))
        self.assertEqual(self.verified().returncode, 0, "nothing in the file itself says that its end is missing")
        self.assertEqual(self.verified("--head", head, check=False).returncode, 1)

    def test_a_log_that_was_rotated_away_goes_on(self):
        self.pgseal("key", "check", "-D", self.sealed.data)
        self.log.rename(f"{self.log}.1")
        self.pgseal("key", "check", "-D", self.sealed.data)
        files = [f"{self.log}.1", self.log]
        self.assertEqual(run([PGSEAL, "key", "audit", "--verify", *files]).returncode, 0)
        done = run([PGSEAL, "key", "audit", "--verify", *reversed(files)], check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not begin where the one before it ended", done.stderr)

    def test_a_log_that_cannot_be_written_is_said_and_stops_nothing(self):
        for path, reason in [(self.directory / "none/keys.log", "No such file"), ("/dev/full", "no regular file"), ("relative", "absolute")]:
            done = self.pgseal("key", "check", "-D", self.sealed.data, log=path)
            self.assertRegex(done.stderr, rf"\Apgseal: warning: the audit log [^\n]*{reason}[^\n]*\n\Z")
        self.sealed.environment["PGSEAL_AUDIT_LOG"] = "/dev/full"
        self.sealed.start()
        self.assertEqual(self.sealed.psql("SELECT 1"), "1")
        self.assertIn("pgseal: warning: the audit log /dev/full", self.sealed.log())


if __name__ == "__main__":
    main(__file__)
