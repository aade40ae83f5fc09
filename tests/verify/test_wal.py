"""`pgseal verify` and WAL after a power cut: what nobody reads is no finding, what somebody needs is one.

A power cut leaves a sector of a page that was not synced as it was before, here zeros, while later pages reached the disk.
"""

import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, TIME_LIMIT, Case, main, run  # noqa: E402

PAGE = 8192
SECTOR = 512
NO_HEADER = "has no WAL page header: damaged, moved, or encrypted with another key"
ENDS = ("has no WAL page header, and recovery ends before it: after a power cut that may be the end of WAL, otherwise it is "
        "damaged and commits are lost")
SEGMENT = 1 << 20
BLOCKS = SEGMENT // PAGE


class Wal(Case):
    def started(self, **options):
        conf = "autovacuum = off\ncheckpoint_timeout = 1h\nwal_keep_size = 64MB\nhot_standby = on\n" + options.pop("conf", "")
        cluster = self.cluster(conf=conf, initdb=["--wal-segsize=1"], **options).init().start()
        cluster.psql("CREATE TABLE t (i int, t text)")
        return cluster

    @staticmethod
    def write(cluster, kilobytes):
        """So much WAL, about, and where it ends."""
        cluster.psql(f"INSERT INTO t SELECT i, repeat(md5(i::text), 28) FROM generate_series(1, {kilobytes}) i")
        return Wal.lsn(cluster.psql("SELECT pg_current_wal_insert_lsn()"))

    @staticmethod
    def lsn(text):
        high, low = text.split("/")
        return (int(high, 16) << 32) + int(low, 16)

    def control(self, cluster, what):
        return re.search(f"{what}: +(.*)", cluster.run("pg_controldata", "-D", cluster.data).stdout)[1]

    def segment(self, cluster, lsn, timeline=1):
        name = f"{timeline:08X}{lsn >> 32:08X}{lsn % (1 << 32) // SEGMENT:08X}"
        return cluster.data / "pg_wal" / name

    def cut(self, cluster, lsn, timeline=1):
        """The first sector of the page that holds `lsn` did not reach the disk. Returns the finding that it may be."""
        block, path = lsn % SEGMENT // PAGE, self.segment(cluster, lsn, timeline)
        with open(path, "r+b") as file:
            file.seek(block * PAGE)
            self.assertNotEqual(file.read(SECTOR), bytes(SECTOR))
            file.seek(block * PAGE)
            file.write(bytes(SECTOR))
        return f"pg_wal/{path.name}", block

    def verify(self, cluster, *expected):
        """`expected` are (file, block, reason)."""
        done = run([PGSEAL, "verify", "-D", cluster.data, "--json"], check=False)
        found = {(bad["file"], bad.get("block"), bad["reason"]) for bad in json.loads(done.stdout)["bad"]}
        self.assertEqual((found, done.returncode), (set(expected), int(bool(expected))))

    def promoted_after_a_cut(self):
        """A cluster on timeline 2, and where timeline 1 ended and pages 3 and 9 behind that."""
        cluster = self.started()
        self.write(cluster, 300)
        cluster.psql("SELECT pg_switch_wal()")
        end = self.write(cluster, 300)
        cluster.stop("immediate")
        self.cut(cluster, end - 20 * PAGE)
        (cluster.data / "standby.signal").touch()
        cluster.start()
        cluster.psql("SELECT pg_promote()")
        cluster.psql("CHECKPOINT")
        history = (cluster.data / "pg_wal/00000002.history").read_text()
        return cluster, self.lsn(history.split("\t")[1])

    def test_the_segment_in_which_a_promoted_standby_left_its_timeline(self):
        cluster, switch = self.promoted_after_a_cut()
        cluster.stop()
        self.verify(cluster)
        self.cut(cluster, switch + 8 * PAGE)
        self.verify(cluster)
        damaged = self.cut(cluster, switch - 3 * PAGE)
        self.verify(cluster, (*damaged, NO_HEADER))

    def test_the_first_segment_behind_the_switch_point(self):
        cluster, switch = self.promoted_after_a_cut()
        cluster.stop()
        segment = self.segment(cluster, switch)
        behind = self.segment(cluster, switch + SEGMENT)
        content = bytearray(segment.read_bytes())
        content[:PAGE] = bytes(PAGE)
        behind.write_bytes(content)
        self.verify(cluster)

    def test_a_segment_of_the_old_timeline_before_the_switch_point(self):
        cluster, switch = self.promoted_after_a_cut()
        cluster.stop()
        damaged = self.cut(cluster, switch - SEGMENT - switch % SEGMENT + 5 * PAGE)
        self.verify(cluster, (*damaged, NO_HEADER))

    def test_the_new_timeline(self):
        cluster, _ = self.promoted_after_a_cut()
        end = self.write(cluster, 300)
        cluster.stop()
        self.verify(cluster)
        damaged = self.cut(cluster, end - 12 * PAGE, timeline=2)
        self.verify(cluster, (*damaged, NO_HEADER))

    def test_what_a_cut_left_behind_the_end_of_a_primary(self):
        cluster = self.started()
        cluster.psql("SELECT pg_switch_wal()")
        end = self.write(cluster, 400)
        cluster.stop("immediate")
        self.cut(cluster, end - 30 * PAGE)
        self.cut(cluster, end - 20 * PAGE)
        cluster.start().stop()
        self.assertEqual(self.control(cluster, "Database cluster state"), "shut down")
        self.verify(cluster)

    def test_wal_before_the_checkpoint_is_for_standbys_slots_and_archives(self):
        cluster = self.started()
        old = self.write(cluster, 1500)
        for _ in range(3):
            cluster.psql("CHECKPOINT")
        cluster.stop()
        self.verify(cluster)
        damaged = self.cut(cluster, old - SEGMENT)
        self.verify(cluster, (*damaged, NO_HEADER))

    def test_after_a_crash_the_last_segment_may_end_there(self):
        cluster = self.started()
        self.write(cluster, 2500)
        end = self.write(cluster, 300)
        cluster.kill9()
        self.verify(cluster)
        before = self.cut(cluster, end - SEGMENT - 5 * PAGE)
        last = self.cut(cluster, max(end - 10 * PAGE, end - end % SEGMENT + PAGE))
        self.verify(cluster, (*before, NO_HEADER), (*last, ENDS))

    def test_segments_between_the_redo_point_and_its_checkpoint(self):
        """A checkpoint that WAL brought on takes as long as the next WAL needs."""
        cluster = self.started(conf="max_wal_size = 6MB\nmin_wal_size = 2MB\n")
        end_at = time.monotonic() + TIME_LIMIT
        while self.lsn(self.control(cluster, "Latest checkpoint location")) // SEGMENT \
                == self.lsn(self.control(cluster, "Latest checkpoint's REDO location")) // SEGMENT:
            self.assertLess(time.monotonic(), end_at)
            self.write(cluster, 300)
        cluster.kill9()
        redo = self.lsn(self.control(cluster, "Latest checkpoint's REDO location"))
        self.verify(cluster)
        segment = self.segment(cluster, redo)
        segment.rename(self.directory / segment.name)
        reason = "is missing and belongs to the last checkpoint: the server cannot start without it"
        self.verify(cluster, (f"pg_wal/{segment.name}", None, reason))
        (self.directory / segment.name).rename(segment)
        cluster.start().stop()


if __name__ == "__main__":
    main(__file__)
