"""The life of a cluster whose key a provider protects: one scenario for all of them.

A provider's test gives what is its own in a Slot. Each step prints a line, from which scripts/test.py makes the table of `make test-keys`.
"""

import contextlib
import os
import time
from dataclasses import dataclass, field

from pgseal_test import PGSEAL
from provider import ROWS, Provider
from waiting import eventually

SHORT = ["initdb", "start", "restart", "rotate", "second slot"]
STEPS = ["initdb", "start", "restart", "standby", "rotate", "promote", "rewind", "lose and recover", "PITR", "second slot"]
LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"
PASSPHRASE = "a recovery passphrase\n"


@dataclass
class Slot:
    """The options of initdb, of pg_basebackup and of `pgseal key rotate`, and the environment of all programs."""

    made: list
    copied: list
    rotated: list
    environment: dict = field(default_factory=dict)

    @staticmethod
    def of(uri):
        return Slot([f"--key-provider={uri}"], [f"--key-provider={uri}"], ["--new-provider", uri])


class Life(Provider):
    """A test of one provider. `called` names its row; `whole` says that it runs all steps in a short run, too."""

    called = ""
    whole = False

    @contextlib.contextmanager
    def step(self, name):
        """One cell of the table."""
        start, result = time.monotonic(), "FAILED"
        try:
            yield
            result = "ok"
        finally:
            print(f"\nlife of {self.called}: {name}: {result} {time.monotonic() - start:.1f} s", flush=True)

    def setUp(self):
        print(f"\nlife of {self.called}: {', '.join(STEPS if self.is_whole() else SHORT)}", flush=True)
        super().setUp()

    def is_whole(self):
        return LONG or self.whole

    def a_life(self, slot):
        """All steps but the last; returns the cluster that runs at the end, and the file with the passphrase of its second slot."""
        self.slot = slot if isinstance(slot, Slot) else Slot.of(slot)
        self.passphrase = self.secret("passphrase", PASSPHRASE)
        primary = self.born()
        if not self.is_whole():
            with self.step("rotate"):
                self.rotate(primary)
            return primary, self.passphrase
        standby = self.a_standby(primary)
        with self.step("rotate"):
            self.rotate(primary)
            self.rotate(standby)
            self.follows(primary, standby)
        self.fail_over(primary, standby)
        with self.step("lose and recover"):
            self.lose_and_recover(standby)
        with self.step("PITR"):
            self.to_a_point(standby)
        return standby, self.passphrase

    def member(self, name):
        return self.cluster(name, key=tuple(self.slot.made), environment={**self.environment, **self.slot.environment},
                            conf="wal_log_hints = on\nwal_keep_size = '256MB'\n")

    def born(self):
        """initdb, start, restart."""
        primary = self.member("main")
        with self.step("initdb"):
            primary.init()
        with self.step("start"):
            primary.start()
            primary.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS x")
        with self.step("restart"):
            self.restart(primary)
            self.assertIn("opens", self.key_of("check", primary).stdout)
        return primary

    def restart(self, cluster):
        """Every row is there after a stop and a start."""
        rows = cluster.psql(ROWS)
        cluster.stop()
        cluster.start()
        self.assertEqual(cluster.psql(ROWS), rows)

    def key_of(self, verb, cluster, *options):
        return self.pgseal("key", verb, "-D", cluster.data, *options, environment=cluster.environment)

    def rotate(self, cluster):
        """A passphrase is added and proved, and the provider's slot is wrapped anew below the running server."""
        self.key_of("wrap", cluster, "--new-passphrase-file", self.passphrase, "--argon2-memory", "64MiB")
        self.key_of("check", cluster, "--all", "--passphrase-file", self.passphrase)
        before = (cluster.data / "pg_encryption/key.bin").read_bytes()
        self.key_of("rotate", cluster, *self.slot.rotated)
        self.assertNotEqual((cluster.data / "pg_encryption/key.bin").read_bytes(), before)
        self.restart(cluster)

    def copied(self, source, name, *options):
        """A base backup, made with the provider's key."""
        copy = self.member(name)
        copy.run("pg_basebackup", "-D", copy.data, "-c", "fast", *self.slot.copied, *options, environment={"PGHOST": str(source.home)})
        copy.configure(f"unix_socket_directories = '{copy.home}'")
        return copy

    def a_standby(self, primary):
        with self.step("standby"):
            standby = self.copied(primary, "standby", "-R")
            standby.start()
            self.follows(primary, standby)
        return standby

    def follows(self, primary, standby):
        """A new row reaches the standby."""
        primary.psql("INSERT INTO t VALUES (0)")
        eventually(lambda: standby.psql(ROWS) == primary.psql(ROWS))

    def fail_over(self, primary, standby):
        """The standby takes over, while the old primary has a row that nobody else got; the old primary comes back by pg_rewind."""
        with self.step("promote"):
            standby.psql("SELECT pg_promote()")
            standby.psql("INSERT INTO t VALUES (1); CHECKPOINT")
            primary.psql("INSERT INTO t VALUES (1000000)")
            self.restart(standby)
        with self.step("rewind"):
            primary.stop()
            primary.run("pg_rewind", "-D", primary.data, f"--source-server=host={standby.home} user=postgres dbname=postgres", "-R")
            primary.configure(f"unix_socket_directories = '{primary.home}'")
            primary.start()
            self.follows(standby, primary)
            primary.stop()

    def lose_and_recover(self, cluster):
        """key.bin is lost; the copy of it that `pgseal key backup` proved opens by the provider."""
        kept = self.directory / "kept.bin"
        self.key_of("backup", cluster, kept)
        cluster.stop()
        (cluster.data / "pg_encryption/key.bin").unlink()
        self.assertIsNotNone(cluster.try_start())
        self.key_of("restore", cluster, "--from", kept)
        cluster.start()
        self.restart(cluster)

    def to_a_point(self, cluster):
        """What came after the named point is not in the recovered copy; segments come back through `pgseal wal-get`."""
        archive = self.directory / "archive"
        archive.mkdir()
        cluster.configure(f"archive_mode = on\narchive_command = '{PGSEAL} wal-put --to {archive} %p %f'")
        self.restart(cluster)
        copy = self.copied(cluster, "recovered")
        cluster.psql("INSERT INTO t VALUES (2); SELECT pg_create_restore_point('here')")
        rows = cluster.psql(ROWS)
        last = cluster.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        cluster.psql("INSERT INTO t VALUES (3); SELECT pg_switch_wal()")
        eventually(lambda: (archive / last).exists())
        copy.configure(f"archive_mode = off\nrestore_command = '{PGSEAL} wal-get --from {archive} %f %p'\n"
                       "recovery_target_name = 'here'\nrecovery_target_action = promote")
        (copy.data / "recovery.signal").touch()
        copy.start()
        eventually(lambda: copy.psql("SELECT pg_is_in_recovery()") == "f")
        self.assertEqual(copy.psql(ROWS), rows)
        self.restart(copy)
        copy.stop()

    def second_slot(self, cluster, passphrase):
        """With the provider gone the passphrase opens the cluster."""
        with self.step("second slot"):
            cluster.environment = {**cluster.environment, "PGSEAL_PASSPHRASE_FILE": str(passphrase)}
            self.restart(cluster)
