#!/usr/bin/python3
"""Rotation of a provider's slot: killed at every call that changes a file, in the middle of a base backup, and beside a standby.

The provider is the stand-in of Vault; what is tested is the key file, which is the same for all providers.
"""

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from certificates import Certificates  # noqa: E402
from pgseal_test import PGSEAL, base_environment, main, run  # noqa: E402
from provider import ROWS, Provider  # noqa: E402
from vault_server import Vault  # noqa: E402
from waiting import TIME_LIMIT, eventually  # noqa: E402

# Those by which a rotation changes files, and those by which it waits for the disk or for others.
CALLS = ["openat", "write", "pwrite64", "ftruncate", "fchmod", "fchown", "fsync", "fdatasync", "rename", "renameat2", "unlink", "flock"]


class Rotation(Provider):
    def setUp(self):
        super().setUp()
        certificates = Certificates(self.directory)
        self.vault = Vault(certificates.pair("server"), certificates["ca.crt"], {})
        self.addCleanup(self.vault.close)
        self.vault.add_key("seal")
        self.environment = {"VAULT_TOKEN": "root-token"}
        self.uri = f"vault://localhost:{self.vault.port}/transit/seal?ca={certificates['ca.crt']}"

    def rotate(self, cluster, check=True):
        return self.pgseal("key", "rotate", "-D", cluster.data, check=check)

    def key_bin(self, cluster):
        return (cluster.data / "pg_encryption/key.bin").read_bytes()

    def test_killed_at_every_call(self):
        """The old slot opens, or the new one, or both; the next rotation ends, and leaves no other file."""
        cluster = self.made(self.uri)
        cluster.stop()
        self.rotate(cluster)
        names = {path.name for path in (cluster.data / "pg_encryption").iterdir()}
        log = self.directory / "calls"
        trace = ["strace", "-f", "-qq", "-o", log, "-e", "trace=" + ",".join(CALLS)]
        self.strace(trace, cluster, 0)
        # Those of the first process alone: the provider's program changes no file.
        first = log.read_text().split(None, 1)[0]
        calls = [match[2] for match in re.finditer(r"^(\d+) +(\w+)\(", log.read_text(), re.MULTILINE) if match[1] == first]
        points = [(call, number) for call in sorted(set(calls)) for number in range(1, calls.count(call) + 1) if call != "openat"]
        self.assertGreater(len(points), 5, calls)
        saved = self.directory / "saved"
        run(["cp", "-a", cluster.data / "pg_encryption", saved])
        for call, number in points:
            with self.subTest(call=call, number=number):
                run(["rm", "-r", cluster.data / "pg_encryption"])
                run(["cp", "-a", saved, cluster.data / "pg_encryption"])
                inject = f"inject={call}:signal=KILL:when={number}"
                self.strace(["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject], cluster, -signal.SIGKILL)
                self.pgseal("key", "check", "-D", cluster.data)
                # Between the new slot and the end of the old one both are there.
                before = self.key_bin(cluster).count(b"vault://")
                self.assertIn(before, (1, 2))
                self.rotate(cluster)
                self.pgseal("key", "check", "-D", cluster.data, "--all")
                self.assertEqual(self.key_bin(cluster).count(b"vault://"), before)
                self.assertEqual({path.name for path in (cluster.data / "pg_encryption").iterdir()} - names, set())
        cluster.start()

    def strace(self, trace, cluster, status):
        done = run([*trace, PGSEAL, "key", "rotate", "-D", cluster.data], self.environment, check=False)
        self.assertEqual(done.returncode, status, done.stderr)

    def test_during_a_base_backup(self):
        """The copy has the key file of one moment, whole; whichever slot is in it opens."""
        cluster = self.made(self.uri)
        cluster.psql("CREATE TABLE much AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
        rows = cluster.psql(ROWS)
        copy = self.cluster("copy", environment=self.environment)
        command = [copy.bindir / "pg_basebackup", "-D", copy.data, "-c", "fast", "--max-rate=8M", f"--key-provider={self.uri}"]
        backup = subprocess.Popen(command, env={**base_environment(), **cluster.environment}, text=True, stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL)
        eventually(lambda: (copy.data / "base").exists() or backup.poll() is not None)
        rotations = 0
        while backup.poll() is None:
            self.rotate(cluster)
            rotations += 1
        _, said = backup.communicate(timeout=TIME_LIMIT)
        self.assertEqual(backup.returncode, 0, said)
        self.assertGreater(rotations, 1)
        self.assertEqual(cluster.psql(ROWS), rows)
        cluster.stop()
        copy.configure(f"unix_socket_directories = '{copy.home}'\n")
        copy.start()
        self.assertEqual(copy.psql(ROWS), rows)

    def test_a_primary_and_its_standby(self):
        """Each has a key file of its own, so a rotation of one is none of the other; both follow and start again."""
        primary = self.made(self.uri)
        standby = self.cluster("standby", environment=self.environment)
        refused = standby.run("pg_basebackup", "-D", standby.data, "-R", environment=primary.environment, check=False)
        self.assertEqual(refused.returncode, 6)
        self.assertRegex(refused.stderr, "asks no provider that only a data directory names: .* give it with --key-provider\n$")
        standby.run("pg_basebackup", "-D", standby.data, "-c", "fast", "-R", f"--key-provider={self.uri}", environment=primary.environment)
        standby.configure(f"unix_socket_directories = '{standby.home}'\n")
        standby.start()
        theirs = self.key_bin(primary)
        self.vault.rotate("seal")
        rotation = threading.Thread(target=self.rotate, args=(standby,))
        rotation.start()
        primary.psql("INSERT INTO t VALUES (0)")
        rotation.join()
        self.assertIn(b"vault:v2:", self.key_bin(standby))
        self.assertEqual(self.key_bin(primary), theirs)
        eventually(lambda: standby.psql("SELECT count(*) FROM t") == "1001")
        standby.stop()
        standby.start()
        self.rotate(primary)
        primary.psql("INSERT INTO t VALUES (0)")
        eventually(lambda: standby.psql("SELECT count(*) FROM t") == "1002")
        standby.psql("SELECT pg_promote()")
        standby.psql("INSERT INTO t VALUES (0)")
        self.assertEqual(standby.psql("SELECT count(*) FROM t"), "1003")


if __name__ == "__main__":
    main(__file__)
