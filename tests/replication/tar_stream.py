#!/usr/bin/env python3
"""pg_basebackup -Ft -X stream: pg_wal.tar, which the WAL comes into in clear, holds the segments as the server stores them."""

import sys
import tarfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import PGSEAL, main, run  # noqa: E402
from receiving import Receiving  # noqa: E402

SMALL = ["--wal-segsize=1"]
KEY = ("--key-wrap-command=openssl enc -aes-256-cbc -pbkdf2 -pass pass:p -out %p",
       "--key-unwrap-command=openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:p -in %p")


class TarStream(Receiving):
    """A primary that archives with cp, and tars of it that are taken while it works."""

    def take(self, server, name, *options, load=None, **more):
        """The directory of the tars of `server`, to which `load`, SQL, was sent meanwhile."""
        copy = self.copy(name)
        worker = threading.Thread(target=lambda: load and server.psql(load))
        worker.start()
        self.base_backup(server, copy, "-Ft", *options, **more)
        worker.join()
        tars = copy.home / "tars"
        copy.data.rename(tars)
        return tars

    def commits(self, count=9000):
        """Many small commits, so that flushes end in the middle of cipher blocks; some end a segment."""
        word, switch = self.canaries["commit"], "SELECT pg_switch_wal();\n"
        return "CREATE TABLE IF NOT EXISTS c (w text);\n" + "".join(
            f"INSERT INTO c VALUES ('{word}' || repeat('x', {i % 600}));\n{switch if i % 300 == 299 else ''}" for i in range(count))

    def segments(self, tars):
        """{name: bytes} of the members of pg_wal.tar that are segments, and the names of the others."""
        [wal] = tars.glob("pg_wal.tar*")
        with tarfile.open(wal) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}
        segments = {name: bytes for name, bytes in members.items() if len(name) == 24}
        return segments, sorted(set(members) - set(segments))

    def unpacked(self, tars, name):
        """A cluster from all that the tars hold."""
        copy = self.copy(name)
        copy.data.mkdir(mode=0o700)
        [base], [wal] = tars.glob("base.tar*"), tars.glob("pg_wal.tar*")
        run(["tar", "-x", "-f", base, "-C", copy.data])
        run(["tar", "-x", "-f", wal, "-C", copy.data / "pg_wal"])
        copy.configure("archive_mode = off")
        return copy

    def assert_restores(self, tars, name):
        """The tars show nothing, unpacked neither; the cluster in them starts, has all rows, and is whole."""
        copy = self.unpacked(tars, name)
        self.assert_sealed(tars, copy.data)
        self.start(copy)
        self.assert_rows(copy)
        copy.stop()
        self.assert_sealed(copy.data)
        verified = run([PGSEAL, "verify", "-D", copy.data], check=False)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_segments_are_the_archives_own(self):
        primary = self.archiving_primary(initdb=SMALL)
        compared = 0
        for number, options in enumerate([(), ("-X", "stream", "-z"), ("--wal-method=s", "-Z", "client-gzip:9", "-N"),
                                          ("-Z", "server-gzip")]):
            with self.subTest(options=options):
                tars = self.take(primary, f"c{number}", "-r", "8M", *options, load=self.commits())
                packed = "client-gzip:9" in options or "-z" in options
                self.assertTrue((tars / ("pg_wal.tar.gz" if packed else "pg_wal.tar")).exists())
                segments, others = self.segments(tars)
                whole = [name for name in sorted(segments) if f"archive_status/{name}.done" in others]
                self.assertIn(sorted(segments), [whole, [*whole, max(segments)]])  # the stream may end within the last
                for name in whole:
                    self.wait_for(self.archive / name)
                    self.assertEqual(segments[name], (self.archive / name).read_bytes(), name)
                    compared += 1
                self.assert_restores(tars, f"r{number}")
        self.assertGreater(compared, 4)

    def test_a_plain_server_shows_its_wal(self):
        primary = self.archiving_primary(sealed=False, initdb=SMALL)
        tars = self.take(primary, "copy", "-z", "-r", "8M", load=self.commits())
        restored = self.unpacked(tars, "restored")
        self.assertIn("commit", self.canaries.found(restored.data / "pg_wal"))

    def test_a_tablespace_and_segments_of_the_usual_size(self):
        primary = self.primary(tablespaces=("one",))
        tars = self.take(primary, "copy", "-z", load=self.commits(300))
        self.assertEqual(len(list(tars.glob("[0-9]*.tar.gz"))), 1)
        self.assert_sealed(tars)
        segments, _ = self.segments(tars)
        self.assertEqual({len(stored) for stored in segments.values()}, {16 << 20})

    def test_of_an_idle_standby_and_after_its_promotion(self):
        primary = self.archiving_primary(initdb=SMALL)
        standby = self.copy("standby")
        self.base_backup(primary, standby, "-R")
        self.start(standby)
        primary.psql(self.commits(301))
        self.catch_up(primary, standby)
        for name, options in [("plain", ()), ("packed", ("-z",))]:
            self.assert_restores(self.take(standby, name, *options), f"{name}_restored")
        primary.stop()
        standby.psql("SELECT pg_promote()")
        tars = self.take(standby, "promoted", "-z", load=self.commits(100))
        segments, others = self.segments(tars)
        self.assertIn("00000002.history", others)
        self.assertEqual({name[:8] for name in segments}, {"00000002"})
        self.assert_restores(tars, "promoted_restored")

    def test_the_stream_needs_the_key_and_fetch_does_not(self):
        primary = self.primary(key=KEY)
        copy = self.copy("copy")
        refused = self.base_backup(primary, copy, "-Ft", check=False)
        self.assertEqual((refused.returncode, list(copy.home.iterdir())), (6, []))
        self.assertIn("needs no key if it takes its WAL along by -X fetch", refused.stderr)
        self.assert_sealed(self.take(primary, "fetched", "-X", "fetch"))
        tars = self.take(primary, "streamed", KEY[1], load=self.commits(300))
        self.assert_sealed(tars)
        self.assertEqual({len(stored) for stored in self.segments(tars)[0].values()}, {16 << 20})

    def test_a_declared_token_does_not_open_the_tars(self):
        primary = self.archiving_primary(initdb=SMALL)
        granted = {"PGOPTIONS": f"-c pgseal.receiver={primary.token()}"}
        tars = self.take(primary, "copy", environment=granted, load=self.commits(300))
        self.assert_restores(tars, "restored")
        self.assert_sealed(self.take(primary, "fetched", "-X", "fetch", environment=granted))


if __name__ == "__main__":
    main(__file__)
