#!/usr/bin/env python3
"""WAL: segments of other sizes, crash recovery, archives, timelines, and what two snapshots of one page show."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from control import crc32c
from pgseal_test import PGSEAL, Canaries, Case, base_environment, main, read_raw, run
from waiting import eventually

PAGE = 8192
BALANCES = ("SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), "
            "(SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history), "
            "(SELECT count(*) FROM pgbench_history)")


def record_crc(wal, start):
    """What a WAL record's CRC must be, if one begins here (access/xlogrecord.h): of what follows its header, and the header."""
    length = int.from_bytes(wal[start : start + 4], "little")
    if not 24 <= length <= PAGE:
        return None
    return crc32c(wal[start + 24 : start + length] + wal[start : start + 20]).to_bytes(4, "little")


class Pages(Case):
    def snapshots(self, sealed):
        """XOR of one WAL page before and after it fills, and a word that it was filled with."""
        cluster = self.cluster("page" + str(sealed), sealed=sealed, conf="autovacuum = off\n").init().start()
        word = Canaries()["filled"]
        cluster.psql("CREATE TABLE t (word text); CHECKPOINT; INSERT INTO t VALUES ('first'); SELECT pg_switch_wal(); "
                     "INSERT INTO t VALUES ('second')")
        segment, offset = cluster.psql("SELECT * FROM pg_walfile_name_offset(pg_current_wal_flush_lsn())").split("|")
        page = int(offset) // PAGE * PAGE
        before = self.page(cluster, segment, page)
        cluster.psql(f"INSERT INTO t SELECT '{word}' FROM generate_series(1, 300)")
        after = self.page(cluster, segment, page)
        cluster.stop()
        self.assertNotEqual(before, after)
        return bytes(a ^ b for a, b in zip(before, after)), word.encode()

    def page(self, cluster, segment, offset):
        return read_raw(cluster.data / "pg_wal" / segment)[offset : offset + PAGE]

    def test_two_snapshots_of_a_page_show_nothing(self):
        difference, word = self.snapshots(sealed=False)
        self.assertIn(word, difference)
        difference, word = self.snapshots(sealed=True)
        self.assertNotIn(word, difference)
        # Noise: a changed block of 16 bytes has hardly a zero in it, and none is the other's.
        changed = [block for at in range(0, PAGE, 16) if any(block := difference[at : at + 16])]
        self.assertGreater(len(changed), 100)
        self.assertEqual(len(set(changed)), len(changed))


class SegmentSizes(Case):
    def crash(self, megabytes, conf=""):
        """Fills several segments, crashes, recovers, recycles, and reads all WAL back."""
        cluster = self.cluster(initdb=[f"--wal-segsize={megabytes}"],
                               conf="checkpoint_timeout = 1h\nmax_wal_size = 1GB\n" + conf).init().start()
        rows = 40000 if megabytes == 1 else 500000
        cluster.psql("CREATE TABLE t (i int PRIMARY KEY, word text)")
        start = cluster.psql("SELECT pg_current_wal_lsn()")
        cluster.psql(f"INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, {rows}) i")
        end = cluster.psql("SELECT pg_current_wal_lsn()")
        self.read_back(cluster, start, end, rows)
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), count(DISTINCT word) FROM t"), f"{rows}|{rows}")
        self.recycle(cluster)
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*) FROM t WHERE word <> md5(i::text)"), "0")
        self.assertEqual(cluster.psql("SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'"),
                         str(megabytes << 20))
        cluster.stop()

    def read_back(self, cluster, start, end, rows):
        """pg_waldump finds every insertion into the table."""
        node = cluster.psql("SELECT relfilenode FROM pg_class WHERE relname = 't'")
        dumped = cluster.run("pg_waldump", "-p", cluster.data / "pg_wal", "-s", start, "-e", end, "-r", "Heap")
        inserts = re.findall(rf"desc: INSERT\S* off.*blkref #0: rel \d+/\d+/{node} ", dumped.stdout)
        self.assertEqual(len(inserts), rows)

    def recycle(self, cluster):
        """Old segments get the names of new ones, which a tool without a start segment reads first."""
        before = {file.name for file in (cluster.data / "pg_wal").glob("0*")}
        cluster.psql("CHECKPOINT; SELECT pg_switch_wal(); CHECKPOINT; UPDATE t SET i = -i WHERE i <= 1000")
        lsn = cluster.psql("SELECT pg_current_wal_lsn()")
        cluster.psql("UPDATE t SET i = -i WHERE i < 0; CHECKPOINT")
        after = {file.name for file in (cluster.data / "pg_wal").glob("0*")}
        self.assertNotEqual(after - before, set())
        dumped = cluster.run("pg_waldump", "-p", cluster.data / "pg_wal", "-s", lsn, check=False)
        self.assertIn("CHECKPOINT_ONLINE", dumped.stdout, dumped.stderr)

    def test_1_megabyte(self):
        self.crash(1)

    def test_64_megabytes(self):
        self.crash(64)

    def test_segments_that_begin_as_holes(self):
        """Without wal_init_zero one byte is written at a new segment's end."""
        self.crash(1, "wal_init_zero = off\n")


class Archive(Case):
    COPY = "archive_mode = on\narchive_command = 'cp %p {archive}/%f'\n"
    LIBRARY = "archive_mode = on\narchive_library = 'basic_archive'\nbasic_archive.archive_directory = '{archive}'\n"

    def setUp(self):
        super().setUp()
        self.archive = self.directory / "archive"
        self.archive.mkdir()
        self.canaries = Canaries()

    def test_archive_command(self):
        self.recover_from_archive(self.COPY)

    def test_archive_library(self):
        self.recover_from_archive(self.LIBRARY)

    def test_archive_within_the_data_directory(self):
        """The library writes what is stored wherever the archive is: a second seal would make it nobody's."""
        for number, place in enumerate(["archive", "pg_archive", "pg_wal/archive", "base/archive"]):
            with self.subTest(place=place):
                self.archive = self.directory / f"primary{number}/data" / place
                self.recover_from_archive(self.LIBRARY, number=number)

    def test_archive_in_clear(self):
        """As a plain primary leaves it: where the operator lets it in, it is sealed before it gets a segment's name."""
        self.recover_from_archive(self.COPY, self.unseal_archive, environment={"PGSEAL_CLEAR_WAL": "accept"})

    def test_archive_in_clear_is_its_writers(self):
        """The attacker changes a row, and the CRC of its record, which is under no key. Nobody has let clear WAL in, so it is refused."""
        primary, restored = self.base_and_archive(self.COPY)
        self.unseal_archive(primary)
        segment = self.alter(b"500", b"999")
        told = self.cluster("let_in", environment={"PGSEAL_CLEAR_WAL": "accept"})
        shutil.copytree(restored.data, told.data, symlinks=True)
        for setting in ["", "yes", "1:0/1"]:
            restored.environment["PGSEAL_CLEAR_WAL"] = setting
            self.configure_recovery(restored)
            self.assertEqual(restored.try_start(), 1)
        self.assertEqual(restored.log().count("pgseal: WAL segment "), 3)
        refused = f"pgseal: WAL segment {segment} came in clear, and is refused, because"
        self.assertEqual(restored.log().count(f"{refused} anyone who can write such an archive"), 2)
        self.assertEqual(restored.log().count(f"{refused} PGSEAL_CLEAR_WAL is `yes` and cannot be understood: it must be"), 1)
        self.assertEqual(self.canaries.found(restored.data / "base", *(restored.data / "pg_wal").glob("0*")), {})
        # What the setting gives away.
        self.follow_archive(told, "recovery_target_name = 'here'\nrecovery_target_action = promote\n")
        self.assertEqual(told.psql("SELECT i FROM t WHERE word LIKE '%999' ORDER BY i"), "500\n999")
        self.assertIn(f"pgseal: WAL segment {segment} came in clear, and is encrypted and replayed, because PGSEAL_CLEAR_WAL "
                      "is accept\n", told.log())

    def alter(self, ending, other):
        """Changes the end of a row's word in the one record of the archive that has it; returns the segment's name."""
        old, new = self.canaries["row"].encode() + ending, self.canaries["row"].encode() + other
        [segment] = [file for file in self.archive.glob("0*") if old in file.read_bytes()]
        content = bytearray(segment.read_bytes())
        at = content.index(old)
        start = next(start for start in range(at & ~7, 0, -8) if record_crc(content, start) == content[start + 20 : start + 24])
        content[at : at + len(old)] = new
        content[start + 20 : start + 24] = record_crc(content, start)
        segment.write_bytes(content)
        return segment.name

    def unseal_archive(self, primary):
        for segment in self.archive.glob("0*"):
            name = primary.data / "pg_wal" / segment.name
            shutil.copy(segment, name)
            command = [PGSEAL, "exec", "-D", primary.data, "--", "/usr/bin/dd", f"if={name}", f"of={segment}", "bs=1M"]
            run(command, {**base_environment(), "PGSEAL_PROGRAMS": "dd"})
        self.assertIn("row", self.canaries.found(self.archive))

    def test_archive_of_another_key(self):
        """It stops the recovery with the reason. (PostgreSQL has by then removed its own segment of that name, as ever.)"""
        foreign = self.cluster("foreign", conf=self.COPY.format(archive=self.archive)).init().start()
        foreign.psql("CREATE TABLE t AS SELECT 1 AS i; SELECT pg_switch_wal()")
        foreign.stop()
        restored = self.cluster("restored").init()
        restored.configure(f"restore_command = 'cp {self.archive}/%f %p'\n")
        (restored.data / "recovery.signal").touch()
        self.assertNotEqual(restored.try_start(), None)
        self.assertIn("neither clear nor sealed with this cluster's key", restored.log())

    def test_raw_copy_of_a_busy_cluster(self):
        """What cp takes while pages are written, with the archive, makes a sound cluster."""
        primary = self.cluster("primary", conf=self.COPY.format(archive=self.archive)).init().start()
        primary.run("pgbench", "-i", "-s", "2", "-q")
        restored = self.cluster("restored")
        with subprocess.Popen([primary.pg / "pgbench", "-n", "-c", "4", "-T", "600"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env={**base_environment(), **primary.environment}) as load:
            label = self.copy_raw(primary, restored)
            self.assertIsNone(load.poll())
            load.send_signal(signal.SIGALRM)  # pgbench's own: its time is over, and its transactions end
        self.assertEqual(load.returncode, 0)
        primary.psql("SELECT pg_switch_wal()")
        balance = primary.psql(BALANCES)
        primary.stop()
        (restored.data / "backup_label").write_bytes(label)
        self.follow_archive(restored, "")
        self.assertEqual(restored.psql(BALANCES), balance)
        restored.psql("CREATE EXTENSION amcheck; SELECT bt_index_check(oid, true) FROM pg_class WHERE relkind = 'i' "
                      "AND relname LIKE 'pgbench%'")
        restored.stop()
        self.assertRegex(restored.run("pg_checksums", "-D", restored.data).stdout, r"Bad checksums:\s+0\n")

    def copy_raw(self, primary, restored):
        """An online backup by cp, which may miss files that go meanwhile; returns its label."""
        session = primary.session()
        session.stdin.write("SELECT pg_backup_start('copy', true);\n")
        session.stdout.readline()
        run(["cp", "-a", primary.data, restored.data], check=False)
        session.stdin.write("SELECT encode(labelfile::bytea, 'hex') FROM pg_backup_stop(false);\n")
        label = bytes.fromhex(session.stdout.readline())
        (restored.data / "postmaster.pid").unlink()
        for segment in (restored.data / "pg_wal").glob("0*"):
            segment.unlink()
        return label

    def configure_recovery(self, restored, target=""):
        restored.configure(f"unix_socket_directories = '{restored.home}'\narchive_mode = off\n"
                           f"restore_command = 'cp {self.archive}/%f %p'\n{target}")
        (restored.data / "recovery.signal").touch()

    def follow_archive(self, restored, target):
        """Starts on the archive and waits for the end of the recovery."""
        self.configure_recovery(restored, target)
        restored.start()
        # Ready comes before the end.
        eventually(lambda: restored.psql("SELECT pg_is_in_recovery()") == "f", restored.log)

    def recover_from_archive(self, conf, change_archive=None, number="", **options):
        """A cold copy, an archive that shows nothing, recovery to a point, a new timeline, and a crash on it."""
        primary, restored = self.base_and_archive(conf, number, **options)
        if change_archive:
            change_archive(primary)
        self.restore(restored)
        self.assertEqual(self.canaries.found(restored.data), {})

    def base_and_archive(self, conf, number="", **options):
        """(a stopped primary, a copy of it from before it filled the archive)."""
        primary = self.cluster(f"primary{number}", conf=conf.format(archive=self.archive)).init()
        self.archive.mkdir(parents=True, exist_ok=True)
        primary.start().psql(f"CREATE TABLE t AS SELECT 0 AS i, '{self.canaries['row']}' AS word")
        primary.stop()
        restored = self.cluster(f"restored{number}", **options)
        shutil.copytree(primary.data, restored.data, symlinks=True)
        self.write_archive(primary)
        self.assertEqual(self.canaries.found(self.archive), {})
        return primary, restored

    def write_archive(self, primary):
        """Rows up to a named point, and one more."""
        word = self.canaries["row"]
        primary.start().psql(f"INSERT INTO t SELECT i, '{word}' || i FROM generate_series(1, 1000) i; "
                             "SELECT pg_create_restore_point('here')")
        last = primary.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        primary.psql(f"INSERT INTO t VALUES (-1, '{word}'); SELECT pg_switch_wal()")
        primary.stop()
        self.assertTrue((self.archive / last).exists())
        stored = primary.data / "pg_wal" / last
        if stored.exists():
            self.assertEqual((self.archive / last).read_bytes(), stored.read_bytes())

    def restore(self, restored):
        self.follow_archive(restored, "recovery_target_name = 'here'\nrecovery_target_action = promote\n")
        self.assertEqual(restored.psql("SELECT count(*), sum(i) FROM t"), "1001|500500")
        restored.psql("INSERT INTO t VALUES (7, 'new timeline')")
        restored.kill9()
        restored.start()
        self.assertEqual(restored.psql("SELECT count(*), sum(i) FROM t"), "1002|500507")
        self.check_new_timeline(restored)
        restored.stop()

    def check_new_timeline(self, restored):
        """Its first segment begins with the old one's records, which came through xlogtemp."""
        names = {file.name for file in (restored.data / "pg_wal").iterdir()}
        self.assertIn("00000002.history", names)
        segment = min(name for name in names if re.fullmatch("00000002[0-9A-F]{16}", name))
        dumped = restored.run("pg_waldump", restored.data / "pg_wal" / segment, check=False)
        self.assertIn("RESTORE_POINT here", dumped.stdout)
        self.assertIn("tli 2; prev tli 1", dumped.stdout)


if __name__ == "__main__":
    main(__file__)
