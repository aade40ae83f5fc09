#!/usr/bin/env python3
"""PostgreSQL 18 reads sealed clusters by io_uring: the same rows as a plain cluster gives, and nothing in clear on disk.

Shared buffers are small, so that nearly every page comes from a ring, and sessions that read the same table take each
other's answers.
"""

import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import stage  # noqa: E402
import no_system_call  # noqa: E402
from pgseal_test import COMPLAINT, PG, PGSEAL, Canaries, Case, main, run  # noqa: E402
from waiting import TIME_LIMIT, eventually  # noqa: E402

CONF = """
io_method = io_uring
shared_buffers = 2MB
effective_io_concurrency = 64
maintenance_io_concurrency = 64
temp_buffers = 800kB
autovacuum = off
"""
SUM = "SELECT count(*), sum(i), md5(string_agg(md5(word), '' ORDER BY i)) FROM {}"
READS = {
    "in one process": "SET max_parallel_workers_per_gather = 0; " + SUM.format("t"),
    "in several": "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
                  "SET max_parallel_workers_per_gather = 4; " + SUM.format("t"),
    "by a bitmap": "SET enable_seqscan = off; SET enable_indexscan = off; " + SUM.format("t") + " WHERE i % 7 = 3",
    "by an index": "SET enable_seqscan = off; SET enable_bitmapscan = off; " + SUM.format("t") + " WHERE i > 17000",
    "of a temporary table": "CREATE TEMP TABLE own AS SELECT * FROM t; " + SUM.format("own"),
    "of an unlogged table": "CREATE UNLOGGED TABLE IF NOT EXISTS u AS SELECT * FROM t; " + SUM.format("u"),
}
BAD_LOG = re.compile(rf"^.*(?:PANIC|{COMPLAINT}|invalid page|verification failed|could not read).*$", re.MULTILINE)


def has_io_uring():
    asked = ["-C", "io_method", "-D", "/", "-c", "config_file=/dev/null", "-c", "io_method=io_uring"]
    return run([PG / "postgres", *asked], check=False).stdout == "io_uring\n"


@unittest.skipUnless(has_io_uring(), "this PostgreSQL has no io_method=io_uring")
class IoUring(Case):
    """A sealed cluster beside a plain one."""

    def filled(self, name="main", sealed=True, conf=""):
        """A running cluster with a table of some 16 MB."""
        canaries = Canaries()
        cluster = self.cluster(name, sealed=sealed, conf=CONF + conf).init().start()
        cluster.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' || repeat(md5(i::text), 20) AS word "
                     "FROM generate_series(1, 20000) i; CREATE INDEX ON t (i); CREATE INDEX ON t ((i % 7)); VACUUM ANALYZE t; CHECKPOINT")
        return cluster, canaries

    def expected(self, canaries):
        """What a table made of the same words gives, from a server that reads it as libc does."""
        plain = self.cluster("plain", sealed=False, conf="autovacuum = off").init().start()
        plain.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' || repeat(md5(i::text), 20) AS word "
                   "FROM generate_series(1, 20000) i")
        rows = {name: plain.psql(sql) for name, sql in READS.items()}
        plain.stop()
        return rows

    def assert_sound(self, cluster, canaries, expected):
        """The rows are those, the log is quiet, and the disk says nothing."""
        for name, sql in READS.items():
            with self.subTest(name):
                self.assertEqual(cluster.psql(sql), expected[name])
        cluster.stop()
        self.assertEqual(BAD_LOG.findall(cluster.log()), [])
        self.assertEqual(canaries.found(cluster.data), {})
        run([PGSEAL, "verify", "-D", cluster.data])

    def test_all_ways_of_reading(self):
        cluster, canaries = self.filled()
        self.assertEqual(cluster.psql("SHOW io_method"), "io_uring")
        cluster.psql("CREATE EXTENSION amcheck; CREATE EXTENSION pg_prewarm; SELECT pg_prewarm('t', 'prefetch')")
        expected = self.expected(canaries)
        cluster.run("pg_amcheck", "--all", "--heapallindexed")
        self.assert_sound(cluster, canaries, expected)

    def test_large_runs_and_deep_queues(self):
        cluster, canaries = self.filled(conf="io_combine_limit = 128\nio_max_combine_limit = 128\nio_max_concurrency = 256\n")
        self.assert_sound(cluster, canaries, self.expected(canaries))

    def test_one_request_at_a_time(self):
        cluster, canaries = self.filled(conf="io_max_concurrency = 1\nio_combine_limit = 1\n")
        self.assert_sound(cluster, canaries, self.expected(canaries))

    def test_direct_io(self):
        cluster, canaries = self.filled(conf="debug_io_direct = 'data'\n")
        self.assert_sound(cluster, canaries, self.expected(canaries))

    def test_other_shared_memory(self):
        """Where the server's memory is not what mmap gave last, pages are read when they are asked for."""
        cluster, canaries = self.filled(conf="shared_memory_type = sysv\n")
        self.assert_sound(cluster, canaries, self.expected(canaries))

    def test_sessions_that_take_each_others_answers(self):
        """They scan one table at once, each with a temporary table of its own between."""
        cluster, canaries = self.filled(conf="max_connections = 40\n")
        total = cluster.psql(SUM.format("t"))
        sessions = [cluster.session() for _ in range(12)]
        for n, session in enumerate(sessions):
            session.stdin.write(f"CREATE TEMP TABLE own AS SELECT * FROM t WHERE i % 12 = {n};\n")
            for _ in range(6):
                session.stdin.write(f"{SUM.format('t')};\nSELECT count(*), min(length(word)) FROM own;\n")
            session.stdin.close()
        length = cluster.psql("SELECT min(length(word)) FROM t")
        for n, session in enumerate(sessions):
            own = f"{len(range(n or 12, 20001, 12))}|{length}"
            self.assertEqual(session.stdout.read().split("\n")[:-1], [total, own] * 6)
            self.assertEqual(session.wait(TIME_LIMIT), 0)
        cluster.stop()
        self.assertEqual(BAD_LOG.findall(cluster.log()), [])

    def test_the_kernel_reads(self):
        """Pages of tables come by the ring, and are not read twice."""
        cluster, _ = self.filled()
        session = cluster.session()
        session.stdin.write("SET max_parallel_workers_per_gather = 0; SELECT pg_backend_pid();\n")
        pid, trace = session.stdout.readline().strip(), self.directory / "trace"
        tracer = subprocess.Popen(["strace", "-qq", "-p", pid, "-o", trace, "-e", "trace=pread64,preadv,io_uring_enter"],
                                  stderr=subprocess.PIPE)
        self.addCleanup(tracer.stderr.close)
        self.addCleanup(tracer.wait)
        self.addCleanup(tracer.terminate)
        eventually(lambda: "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text())
        session.stdin.write("SELECT count(*) FROM t WHERE length(word) > 9;\n")
        self.assertEqual(session.stdout.readline().strip(), "20000")
        tracer.terminate()
        tracer.wait()
        calls = re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE)
        self.assertGreater(calls.count("io_uring_enter"), 500)
        self.assertLess(calls.count("pread64") + calls.count("preadv"), 100)  # catalogs

    def test_crashes(self):
        """kill -9 of all, and of one backend at a time: then the postmaster makes new rings, in the memory of the old ones."""
        cluster, canaries = self.filled(conf="restart_after_crash = on\n")
        expected = self.expected(canaries)
        cluster.kill9()
        cluster.start()

        def tables():
            maps = Path(f"/proc/{cluster.server.pid}/maps").read_text()
            return len(re.findall(r"^[0-9a-f-]+ rw-s .*/dev/zero \(deleted\)$", maps, re.MULTILINE))

        before = tables()
        for n in range(3):
            session = cluster.session()
            session.stdin.write("SELECT pg_backend_pid();\n")
            pid = int(session.stdout.readline())
            session.stdin.write(f"{SUM.format('t')};\n" * 50)
            stage.os.kill(pid, signal.SIGKILL)
            eventually(lambda n=n: cluster.log().count("all server processes terminated; reinitializing") == n + 1)
            eventually(lambda: run([cluster.pg / "pg_isready"], cluster.environment, check=False).returncode == 0)
            self.assertEqual(cluster.psql(READS["in one process"]), expected["in one process"])
        self.assertEqual(tables(), before)
        cluster.end_sessions()
        self.assert_sound(cluster, canaries, expected)

    def test_a_standby(self):
        primary, canaries = self.filled("primary", conf="wal_level = replica\n")
        standby = self.cluster("standby")
        primary.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast", "-h", primary.home, "-U", "postgres")
        standby.configure(f"unix_socket_directories = '{standby.home}'")
        standby.start()
        primary.psql("UPDATE t SET word = word || 'x' WHERE i % 3 = 0; CHECKPOINT")
        eventually(lambda: standby.psql("SELECT pg_last_wal_replay_lsn()") >= primary.psql("SELECT pg_current_wal_lsn()"))
        for name in ["in one process", "in several", "by an index"]:
            self.assertEqual(standby.psql(READS[name]), primary.psql(READS[name]))
        self.assertEqual(standby.psql("SHOW io_method"), "io_uring")
        standby.stop()
        primary.stop()
        for cluster in [primary, standby]:
            self.assertEqual(BAD_LOG.findall(cluster.log()), [])
            self.assertEqual(canaries.found(cluster.data), {})

    def test_a_load(self):
        """pgbench beside reads of all pages; after a crash nothing is lost."""
        cluster, canaries = self.filled()
        cluster.run("pgbench", "-i", "-q", "-s", "2")
        cluster.run("pgbench", "-n", "-c", "6", "-j", "2", "-T", "5")
        sums = "SELECT sum(abalance) = (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts"
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql(sums), "t")
        self.assert_sound(cluster, canaries, self.expected(canaries))

    def test_a_kernel_without_it(self):
        """PostgreSQL's own message stays."""
        cluster = self.cluster(conf=CONF).init()
        launcher = self.directory / "postgres"
        launcher.write_text(f'#!/bin/sh\nexec {sys.executable} {no_system_call.__file__} {no_system_call.SYS_IO_URING_SETUP} '
                            f'{cluster.bindir}/postgres "$@"\n')
        launcher.chmod(0o755)
        done = run([launcher, "-D", cluster.data], cluster.environment, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "FATAL: +could not setup io_uring queue: ")
        self.assertNotRegex(done.stderr, COMPLAINT)


if __name__ == "__main__":
    main(__file__)
