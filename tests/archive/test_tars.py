#!/usr/bin/python3
"""pg_waldump and pg_verifybackup read WAL out of tars, as they can from PostgreSQL 19 on: sealed segments by the cluster's key.

A tar in another order than that of the segments makes pg_waldump write those that it needs later to files of its own.
"""

import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from archived import Archived  # noqa: E402
from pgseal_test import base_environment, main, major_version, run  # noqa: E402
from waiting import eventually  # noqa: E402

PACKERS = {"wal.tar": [], "wal.tgz": ["-z"], "wal.tar.gz": ["-z"], "wal.tar.lz4": ["-I", "lz4"], "wal.tar.zst": ["-I", "zstd"]}
SEGMENTS = 6


@unittest.skipUnless(major_version() >= 19, "these programs read no tars before PostgreSQL 19")
class Tars(Archived):
    def fill(self, **options):
        """A stopped cluster with rows in the segments of its archive; the names of these, and the range of WAL in them."""
        primary = self.primary(initdb=["--wal-segsize=1"], **options)
        primary.psql("CREATE TABLE t (i int, word text); SELECT pg_switch_wal()")
        start, names = primary.psql("SELECT pg_current_wal_lsn()"), []
        for number in range(SEGMENTS):
            word = self.canaries["row"]
            primary.psql(f"INSERT INTO t SELECT {number}, '{word}' || i FROM generate_series(1, 4000) i")
            names.append(self.archive_all(primary))
        end = primary.psql("SELECT pg_current_wal_lsn()")
        primary.stop()
        self.key = [f"--key-file-name={primary.data}/pg_encryption/key.bin"] if primary.sealed else []
        names = sorted(file.name for file in self.archive.glob("0*") if len(file.name) == 24)
        return primary, names, ["-s", start, "-e", end, "-t", "1"]

    def pack(self, packed, names):
        """A tar of the segments, the last first."""
        tar = self.directory / packed
        run(["tar", *PACKERS[packed], "-cf", tar, "-C", self.archive, *reversed(names)])
        return tar

    def test_every_compression(self):
        primary, names, within = self.fill()
        expected = primary.run("pg_waldump", *self.key, "-p", self.archive, *within).stdout
        self.assertGreaterEqual(expected.count("INSERT"), 4000 * SEGMENTS)
        for packed in PACKERS:
            with self.subTest(packed):
                tar = self.pack(packed, names)
                self.assertEqual(primary.run("pg_waldump", *self.key, "-p", tar, *within).stdout, expected)
                unopened = primary.run("pg_waldump", "-p", tar, *within, check=False)
                self.assertEqual((unopened.returncode, unopened.stdout), (1, ""))
                self.assertIn("invalid WAL segment size in WAL file from archive", unopened.stderr)
                tar.unlink()

    def spilled(self, primary, tar, within):
        """Files that pg_waldump has written to TMPDIR, while nobody takes what it prints."""
        place = self.directory / "tmp"
        place.mkdir(exist_ok=True)
        environment = {**base_environment(), "TMPDIR": str(place)}
        command = [primary.bindir / "pg_waldump", *self.key, "-p", tar, *within]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            eventually(lambda: len(list(place.glob("waldump_tmp-*/0*"))) >= SEGMENTS - 2, seconds=30)
            files = [file for file in place.glob("waldump_tmp-*/0*") if file.stat().st_size == 1 << 20]
            seen = self.canaries.found(place), self.canaries.audit(place), {file.name: file.read_bytes() for file in files}
            out, err = process.communicate()
        self.assertEqual((process.returncode, err), (0, b""))
        self.assertGreaterEqual(out.count(b"INSERT"), 4000 * SEGMENTS)
        self.assertEqual(list(place.iterdir()), [])
        return seen

    def test_what_it_writes_for_later_is_sealed(self):
        """With the cluster that the key is of, and with the key alone, as beside an archive."""
        primary, names, within = self.fill()
        tar = self.pack("wal.tar", names)
        self.assert_spills_sealed(primary, tar, within)
        key = self.directory / "key.bin"
        key.write_bytes((primary.data / "pg_encryption/key.bin").read_bytes())
        key.chmod(0o600)
        self.key = [f"--key-file-name={key}"]
        self.assert_spills_sealed(primary, tar, within)

    def assert_spills_sealed(self, primary, tar, within):
        found, audited, files = self.spilled(primary, tar, within)
        self.assertEqual((found, audited), ({}, []))
        self.assertGreater(len(files), 2)
        for name, stored in files.items():
            self.assertEqual(stored, (self.archive / name).read_bytes(), name)

    def test_a_plain_cluster_shows_its_wal(self):
        primary, names, within = self.fill(sealed=False)
        found, _, _ = self.spilled(primary, self.pack("wal.tar", names), within)
        self.assertNotEqual(found, {})

    def test_base_backups_verify(self):
        """With the key at hand the WAL is read too; without it, only without it.

        Not of -z -X stream: pg_wal.tar.gz begins with an empty part of gzip's there, and pg_waldump, a plain one too, reads no
        further, and does not end (19 before its fourth beta)."""
        primary = self.primary(initdb=["--wal-segsize=1"])
        fetched = ("-X", "fetch")
        ways = [(), ("-Z", "client-lz4"), fetched, ("-z", *fetched), ("-Z", "client-lz4", *fetched), ("-Z", "server-zstd", *fetched)]
        for number, options in enumerate(ways):
            with self.subTest(options):
                tars = self.directory / f"tars{number}"
                primary.run("pg_basebackup", "-D", tars, "-Ft", "-c", "fast", *options)
                verify = ["pg_verifybackup", tars]
                verified = primary.run(*verify, environment={**primary.environment, "PGDATA": str(primary.data)})
                self.assertEqual((verified.stdout, verified.stderr), ("backup successfully verified\n", ""))
                unopened = primary.run(*verify, check=False)
                self.assertEqual(unopened.returncode, 1, unopened.stderr)
                self.assertIn("WAL parsing failed for timeline 1", unopened.stderr)
                primary.run(*verify, "--no-parse-wal")


if __name__ == "__main__":
    main(__file__)
