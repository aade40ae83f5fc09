#!/usr/bin/env python3
"""pg_receivewal from sealed servers: what arrives is the server's own archive, byte for byte, and restores with cp."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import STAGE, TIME_LIMIT, base_environment, main, run  # noqa: E402
from waiting import eventually
from receiving import Receiving  # noqa: E402


class ReceiveWal(Receiving):
    """A primary that archives with cp, and pg_receivewal beside it."""

    def setUp(self):
        super().setUp()
        self.received = self.directory / "received"
        self.received.mkdir()

    def receive(self, primary, *options):
        """A pg_receivewal that runs until the test ends it."""
        options = options or ["--synchronous"]
        command = [primary.bindir / "pg_receivewal", "-D", self.received, "-n", *options]
        process = subprocess.Popen(command, env={**base_environment(), **primary.environment}, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        """SIGINT, which pg_receivewal takes for its end."""
        process.send_signal(2)
        self.assertEqual(process.wait(TIME_LIMIT), 0, process.stderr.read())

    def wait_for_partial(self):
        """Waits until pg_receivewal has begun a segment."""
        eventually(lambda: list(self.received.glob("*.partial")), "nothing comes")

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
        """The received segments are those that the server archived."""
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
        self.wait_for_partial()
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
        process = self.receive(primary, "--synchronous", "-S", "receiver")
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

    def unpacked(self, path):
        """What a compressed segment holds."""
        command = ["lz4", "-d", "-c"] if ".lz4" in path.name else ["gzip", "-d", "-c"]
        return subprocess.run(command, input=path.read_bytes(), check=True, capture_output=True, timeout=TIME_LIMIT).stdout

    def interrupted(self, primary, how, end):
        """Receives until within a segment; the blocks of that so far."""
        process = self.receive(primary, "-Z", how, "-s", "1")
        self.wait_for_partial()
        self.load(primary, f"{end}_before")
        done = self.switch(primary)
        self.wait_for(self.received / f"{done}.{end}")
        self.load(primary, f"{end}_within", 20)
        place = primary.psql("SELECT pg_current_wal_flush_lsn()")
        written = f"SELECT count(*) FROM pg_stat_replication WHERE application_name = 'pg_receivewal' AND write_lsn >= '{place}'"
        eventually(lambda: primary.psql(written) == "1")
        self.end(process)
        [partial] = self.received.glob(f"*.{end}.partial")
        blocks = self.unpacked(partial)
        self.assertEqual((len(blocks) % 16, len(blocks) > 0), (0, True))
        return done, blocks

    def check_compressed(self, primary, how, end):
        """Compressed segments are the archive's own, compressed: over an end within a segment, and a new start there."""
        self.received = self.directory / end
        self.received.mkdir()
        done, blocks = self.interrupted(primary, how, end)
        process = self.receive(primary, "-Z", how)
        self.load(primary, f"{end}_after")
        last = self.switch(primary)
        self.wait_for(self.received / f"{last}.{end}")
        self.end(process)
        for name in [done, last]:
            self.assertEqual(self.unpacked(self.received / f"{name}.{end}"), (self.archive / name).read_bytes(), name)
        self.assertEqual(blocks[:-16], (self.archive / last).read_bytes()[:len(blocks) - 16])

    def test_compressed_segments(self):
        primary = self.archiving_primary()
        for how, end in [("gzip:1", "gz"), ("lz4", "lz4")]:
            with self.subTest(how):
                self.check_compressed(primary, how, end)
        self.assert_sealed(self.archive)

    def test_compressed_segments_are_not_flushed_at_commits(self):
        primary = self.archiving_primary()
        done = primary.run("pg_receivewal", "-D", self.received, "-Z", "gzip", "--synchronous", "-n", check=False)
        self.assertEqual((done.returncode, list(self.received.iterdir())), (2, []))
        self.assertIn("leave --compress or --synchronous out", done.stderr)

    def test_what_compresses_unseen_writes_nothing(self):
        """dd, under the name of pg_receivewal, represents one whose zlib or LZ4 is built in."""
        program = self.directory / "pg_receivewal"
        shutil.copy("/bin/dd", program)
        told = {"LD_PRELOAD": str(STAGE / "dist/lib/libpgseal.so"), "PGSEAL_WAL_SEGMENT_SIZE": str(16 << 20)}
        for end in ["gz", "gz.partial", "lz4.partial"]:
            name = self.received / f"000000010000000000000001.{end}"
            done = run([program, "if=/dev/zero", f"of={name}", "count=1"], told, check=False)
            self.assertEqual((done.returncode, list(self.received.iterdir())), (1, []))
            self.assertIn("this program compresses WAL before it can be sealed", done.stderr)

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
        self.wait_for_partial()  # it begins with the segment that is the server's when it connects
        self.load(primary, "a")
        self.assert_archive_arrived(self.switch(primary))
        self.end(process)
        self.assertNotEqual(self.canaries.found(self.received), {})


if __name__ == "__main__":
    main(__file__)
