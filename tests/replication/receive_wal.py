#!/usr/bin/env python3
"""pg_receivewal from sealed servers: what arrives is the server's own archive, byte for byte, and restores with cp."""

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import TIME_LIMIT, base_environment, main, run  # noqa: E402
from receiving import Receiving  # noqa: E402


class ReceiveWal(Receiving):
    """A primary that archives with cp, and pg_receivewal beside it."""

    def setUp(self):
        super().setUp()
        self.archive, self.received = self.directory / "archive", self.directory / "received"
        self.archive.mkdir()
        self.received.mkdir()

    def archiving_primary(self, **options):
        """A primary whose archive_command is cp."""
        command = f"archive_mode = on\narchive_command = 'cp %p {self.archive}/%f'\n"
        return self.primary(conf=command, **options)

    def receive(self, primary, *options):
        """A pg_receivewal that runs until the test ends it."""
        command = [primary.bindir / "pg_receivewal", "-D", self.received, "--synchronous", "-n", *options]
        process = subprocess.Popen(command, env={**base_environment(), **primary.environment}, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        """SIGINT, which pg_receivewal takes for its end."""
        process.send_signal(2)
        self.assertEqual(process.wait(TIME_LIMIT), 0, process.stderr.read())

    def wait_for(self, path):
        """Waits until the file is there."""
        deadline = time.monotonic() + TIME_LIMIT / 3
        while not path.exists():
            self.assertLess(time.monotonic(), deadline, f"{path.name} does not come: {list(path.parent.iterdir())}")
            time.sleep(0.05)

    def wait_for_partial(self):
        """Waits until pg_receivewal has begun a segment."""
        deadline = time.monotonic() + TIME_LIMIT / 3
        while not list(self.received.glob("*.partial")):
            self.assertLess(time.monotonic(), deadline, "nothing comes")
            time.sleep(0.05)

    def switch(self, primary):
        """Ends the present segment, and returns its name when the archive has it."""
        name = primary.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        primary.psql("SELECT pg_switch_wal()")
        self.wait_for(self.archive / name)
        return name

    def load(self, primary, table, commits=300):
        """Many small commits, so that flushes end in the middle of cipher blocks."""
        word = self.canaries["commit"]
        primary.psql(f"CREATE TABLE {table} (w text)")
        primary.psql("".join(f"INSERT INTO {table} VALUES ('{word}' || repeat('x', {i % 50}));\n" for i in range(commits)))

    def assert_archive_arrived(self, *segments):
        """The received segments are those that the server archived (io-paths.md A5)."""
        for name in segments:
            self.wait_for(self.received / name)
            self.assertEqual((self.received / name).read_bytes(), (self.archive / name).read_bytes(), name)

    def test_bytes_resumption_and_restore(self):
        primary = self.archiving_primary()
        process = self.receive(primary)
        self.wait_for_partial()
        base = self.copy("base")
        self.base_backup(primary, base, "-X", "none")
        segments = []
        for table in ["a", "b"]:
            self.load(primary, table)
            segments.append(self.switch(primary))
        self.load(primary, "c")
        self.assert_archive_arrived(*segments)
        self.end(process)
        self.assertEqual(len(list(self.received.glob("*.partial"))), 1)
        self.assert_sealed(self.received)
        process = self.receive(primary)
        segments.append(self.switch(primary))
        self.load(primary, "d")
        segments.append(self.switch(primary))
        self.assert_archive_arrived(*segments)
        self.end(process)
        primary.stop()
        self.assert_sealed(self.received)
        base.configure(f"restore_command = 'cp {self.received}/%f %p'\narchive_mode = off")
        (base.data / "recovery.signal").touch()
        self.start(base)
        self.wait_for_log(base, "archive recovery complete")
        self.assert_rows(base)
        for table in "abcd":
            self.assertEqual(base.psql(f"SELECT count(*) FROM {table}"), "300")

    def test_other_segment_sizes(self):
        primary = self.archiving_primary(initdb=["--wal-segsize=1"])
        primary.run("pg_receivewal", "--create-slot", "-S", "receiver")
        process = self.receive(primary, "-S", "receiver")
        self.load(primary, "a")
        segment = self.switch(primary)
        self.assert_archive_arrived(segment)
        self.end(process)
        self.assertEqual((self.received / segment).stat().st_size, 1 << 20)

    def test_many_sessions_commit(self):
        primary = self.archiving_primary(initdb=["--wal-segsize=1"])
        process = self.receive(primary)
        self.wait_for_partial()
        run([primary.pg / "pgbench", "-i", "-q", "-s", "2"], primary.environment)
        run([primary.pg / "pgbench", "-n", "-c", "8", "-T", "8"], primary.environment)
        last = self.switch(primary)
        first = min(path.name for path in self.received.iterdir())
        segments = [path.name for path in self.archive.iterdir() if first <= path.name <= last]
        self.assertGreater(len(segments), 20)
        self.assert_archive_arrived(*segments)
        self.end(process)

    def test_compression_is_refused(self):
        primary = self.archiving_primary()
        done = primary.run("pg_receivewal", "-D", self.received, "-Z", "gzip", "-n", check=False)
        self.assertEqual((done.returncode, list(self.received.iterdir())), (2, []))
        self.assertIn("compressed segments cannot be sealed", done.stderr)

    def test_without_the_twin_nothing_arrives(self):
        primary = self.archiving_primary()
        done = subprocess.run([primary.pg / "pg_receivewal", "-D", self.received, "-n"], text=True, capture_output=True,
                              env={**base_environment(), **primary.environment}, check=False, timeout=TIME_LIMIT)
        self.assertEqual((done.returncode, list(self.received.iterdir())), (1, []))
        self.assertIn("pgseal.receiver", done.stderr)

    def test_of_a_plain_server(self):
        primary = self.archiving_primary(sealed=False)
        primary.bindir = self.copy("twins").bindir
        process = self.receive(primary)
        self.load(primary, "a")
        self.assert_archive_arrived(self.switch(primary))
        self.end(process)
        self.assertNotEqual(self.canaries.found(self.received), {})


if __name__ == "__main__":
    main(__file__)
