#!/usr/bin/python3
"""Archive and recovery with every size of WAL segment that matters: a segment's place, and with it its tweak, comes from
its name and its size.

PGSEAL_TEST_LONG=1 adds segments of 1 GB, which cost 4 GB of disk.
"""

import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from archived import Archived  # noqa: E402
from pgseal_test import PGSEAL, main, run  # noqa: E402

LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"


class SegmentSizes(Archived):
    def archive_and_recover(self, megabytes, segments, conf=""):
        primary = self.primary(initdb=[f"--wal-segsize={megabytes}"], conf="checkpoint_timeout = 1h\n" + conf)
        primary.psql("CREATE TABLE t (i int, word text)")
        primary.stop()
        base = self.cold_copy(primary, "base")
        primary.start()
        for number in range(segments):
            word = self.canaries["row"]
            primary.psql(f"INSERT INTO t SELECT {number}, '{word}' || i FROM generate_series(1, 5000) i")
            last = self.archive_all(primary)
        expected = primary.psql("SELECT count(*), sum(i) FROM t")
        primary.kill9()
        self.check_archive(primary, megabytes, last)
        self.recover(base)
        self.assertEqual(base.psql("SELECT count(*), sum(i) FROM t"), expected)
        self.assertIn(f'restored log file "{last}" from archive', base.log())
        self.check_sound(base)
        run([PGSEAL, "verify", "-D", base.data])
        self.assertEqual(self.canaries.found(self.archive, base.data), {})
        self.assertEqual(self.canaries.audit(self.archive, base.data), [])

    def check_archive(self, primary, megabytes, last):
        """Whole segments of this size, which pg_waldump reads where they lie with the cluster's key."""
        sizes = {file.stat().st_size for file in self.archive.iterdir() if re.fullmatch("[0-9A-F]{24}", file.name)}
        self.assertEqual(sizes, {megabytes << 20})
        key = f"--key-file-name={primary.data}/pg_encryption/key.bin"
        dumped = primary.run("pg_waldump", key, self.archive / last, check=False)
        self.assertIn("desc: SWITCH", dumped.stdout, dumped.stderr)

    def test_1_megabyte(self):
        self.archive_and_recover(1, 4)

    def test_16_megabytes(self):
        self.archive_and_recover(16, 2)

    def test_64_megabytes(self):
        self.archive_and_recover(64, 2, "max_wal_size = 256MB\nmin_wal_size = 128MB\nwal_init_zero = off\n")

    def test_segments_of_a_former_size(self):
        """An archive is older than pg_resetwal --wal-segsize: its segments open by their own size, the new ones by theirs."""
        primary = self.primary(initdb=["--wal-segsize=16"])
        primary.psql("CREATE TABLE t AS SELECT i FROM generate_series(1, 5000) i")
        last = self.archive_all(primary)
        primary.stop()
        primary.run("pg_resetwal", "--wal-segsize=1", "-D", primary.data)
        self.check_archive(primary, 16, last)
        primary.start()
        primary.psql("INSERT INTO t SELECT i FROM generate_series(1, 5000) i")
        self.assertEqual(primary.psql("SELECT count(*) FROM t"), "10000")
        primary.stop()
        run([PGSEAL, "verify", "-D", primary.data])

    @unittest.skipUnless(LONG, "4 GB of disk: PGSEAL_TEST_LONG=1 runs it, and make test-world does")
    def test_1024_megabytes(self):
        self.archive_and_recover(1024, 1, "max_wal_size = 4GB\nmin_wal_size = 2GB\nwal_init_zero = off\n")


class CutSegments(Archived):
    """The newest segment lost its end, where no record was. Its name and the cluster's size of segments still tell its place."""

    def crashed(self, name, sealed):
        """A cluster that was killed, with rows in one segment; returns it and the segment."""
        cluster = self.cluster(name, sealed=sealed, conf="autovacuum = off\ncheckpoint_timeout = 1h\n").init().start()
        cluster.psql("CREATE TABLE t (i int); CHECKPOINT; SELECT pg_switch_wal()")
        cluster.psql("CHECKPOINT; INSERT INTO t SELECT i FROM generate_series(1, 10000) i")
        segment = cluster.data / "pg_wal" / cluster.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        offset = int(cluster.psql("SELECT file_offset FROM pg_walfile_name_offset(pg_current_wal_lsn())"))
        self.assertLess(offset, 4 << 20)
        cluster.kill9()
        return cluster, segment

    def test_a_cut_segment_is_recovered(self):
        """Cut to what could be the size of a whole segment, and to what could not."""
        for megabytes in (4, 8, 12):
            for sealed in (False, True):
                with self.subTest(megabytes=megabytes, sealed=sealed):
                    cluster, segment = self.crashed(f"{'sealed' if sealed else 'plain'}{megabytes}", sealed)
                    os.truncate(segment, megabytes << 20)
                    dumped = cluster.run("pg_waldump", segment, check=False)
                    self.assertGreaterEqual(len(re.findall("rmgr: Heap .*desc: INSERT", dumped.stdout)), 10000, dumped.stderr)
                    cluster.start()
                    self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), "10000|50005000")
                    cluster.stop()


if __name__ == "__main__":
    main(__file__)
