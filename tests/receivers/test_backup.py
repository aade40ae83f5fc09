#!/usr/bin/env python3
"""Stock pg_basebackup and pg_receivewal against a sealed server: what arrives, byte by byte."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import Receivers
from pgseal_test import main

RAW = ["--no-verify-checksums", "-X", "fetch", "-c", "fast"]


class Backups(Receivers):
    def backup(self, cluster, *arguments, receiver=None, into="copy", **environment):
        target = self.directory / into
        return target, self.receive(cluster, "pg_basebackup", "-D", target, *arguments, receiver=receiver, **environment)

    def test_a_raw_backup_starts_under_the_twins(self):
        cluster = self.serve()
        target, done = self.backup(cluster, *RAW, receiver="raw")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.canaries.found(target), {})
        self.assertEqual((target / "pg_encryption/key.bin").read_bytes(), (cluster.data / "pg_encryption/key.bin").read_bytes())
        cluster.stop()
        cluster.data = target
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), "20000|200010000")

    def test_a_good_token_gives_clear_bytes(self):
        cluster = self.serve()
        target, done = self.backup(cluster, "-X", "fetch", "-c", "fast", receiver=cluster.token())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("row", self.canaries.found(target))
        self.assertFalse((target / "pg_encryption").exists())


if __name__ == "__main__":
    main(__file__)
