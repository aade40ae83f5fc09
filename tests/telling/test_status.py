#!/usr/bin/python3
"""`pgseal status` for monitors: what it says without a secret, in each of its forms, with which exit code."""

import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, main, run


def metrics(text):
    """{name: value} of the text format, labels left out; each has its HELP and TYPE before it."""
    names = re.findall(r"^# TYPE (\S+) gauge$", text, re.M)
    found = dict(re.findall(r"^(\w+)\{data_directory=\"[^\"]*\".*\} (\d+)$", text, re.M))
    assert sorted(set(names)) == sorted(found) and len(names) == text.count("# HELP"), text
    return {name.removeprefix("pgseal_"): int(value) for name, value in found.items()}


class Status(Case):
    def status(self, cluster, *options, code=0):
        done = run([PGSEAL, "status", "-D", cluster.data, *options], check=False, stdin=-3)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def with_passphrase(self):
        secret = self.directory / "passphrase"
        secret.write_text("correct horse battery staple\n")
        environment = {"PGSEAL_PASSPHRASE_FILE": str(secret)}
        return self.cluster(key=("--key-passphrase",), environment=environment).init()

    def test_a_sealed_server_without_its_passphrase(self):
        before = int(time.time()) - 1
        cluster = self.with_passphrase().start()
        text = self.status(cluster)
        self.assertRegex(text, r"(?m)^key created: +20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(text, r"(?m)^server since: +20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(text, r"(?m)^unlock test: +not run \(--check\)$")
        said = json.loads(self.status(cluster, "--format", "json"))
        self.assertEqual(said, json.loads(self.status(cluster, "--json")))
        self.assertEqual((said["sealed"], said["server"]["state"]), (True, "running_sealed"))
        self.assertTrue(before <= said["created"] <= said["server_since"] <= time.time())
        found = metrics(self.status(cluster, "--format", "prometheus"))
        self.assertEqual(found.pop("key_created_timestamp_seconds"), said["created"])
        self.assertEqual(found.pop("key_slot_created_timestamp_seconds"), said["created"])
        self.assertEqual(found.pop("server_start_timestamp_seconds"), said["server_since"])
        self.assertEqual(found, {"status_ok": 1, "sealed": 1, "key_info": 1, "key_slots": 1,
                                 "key_slot_proved_timestamp_seconds": 0, "key_slot_notes_ok": 1, "server_running": 1, "server_sealed": 1,
                                 "server_needs_restart": 0})
        self.assertRegex(self.status(cluster, "--format", "nagios"),
                         rf"^PGSEAL OK - sealed, key id {said['key_id']}, server running sealed .*\|slots=1 key_age=\d+s\n$")

    def test_a_key_that_does_not_open_is_told_if_it_is_asked(self):
        cluster = self.with_passphrase()
        self.assertEqual(metrics(self.status(cluster, "--check", "--format", "prometheus", code=1))["key_opens"], 0)
        self.assertRegex(self.status(cluster, "--check", "--format", "nagios", code=2), "^PGSEAL CRITICAL - the key does not open: ")
        self.status(cluster, "--format", "nagios")

    def test_a_plain_cluster(self):
        cluster = self.cluster(sealed=False).init()
        cluster.bindir = self.cluster("other").bindir
        cluster.start()
        found = metrics(self.status(cluster, "--format", "prometheus", code=4))
        self.assertEqual({name: found[name] for name in ["status_ok", "sealed", "server_sealed"]},
                         {"status_ok": 1, "sealed": 0, "server_sealed": 0})
        self.assertRegex(self.status(cluster, "--format", "nagios", code=2),
                         r"^PGSEAL CRITICAL - not sealed, server running \(process \d+\)\n$")

    def test_what_may_not_be_read_is_unknown(self):
        cluster = self.cluster().init()
        cluster.data.chmod(0o000)
        self.addCleanup(cluster.data.chmod, 0o700)
        self.assertEqual(metrics(self.status(cluster, "--format", "prometheus", code=3)), {"status_ok": 0})
        self.assertRegex(self.status(cluster, "--format", "nagios", code=3), "^PGSEAL UNKNOWN - .*cannot be read")

    def test_without_its_key_file(self):
        cluster = self.cluster().init()
        (cluster.data / "pg_encryption/key.bin").unlink()
        self.assertRegex(self.status(cluster, "--format", "nagios", code=2), "^PGSEAL CRITICAL - .*key.bin")
        self.assertEqual(metrics(self.status(cluster, "--format", "prometheus", code=5)), {"status_ok": 0})


if __name__ == "__main__":
    main(__file__)
