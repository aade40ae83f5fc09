#!/usr/bin/env python3
"""What is written for after a restart: prepared transactions, logical slots and what they spill, autoprewarm's list."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from twins import Twins  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402
from waiting import eventually


class Prepared(Twins):
    def test_over_crashes(self):
        self.both(self.scenario, "/pg_twophase/", conf="max_prepared_transactions = 10\n")

    def scenario(self, cluster, canaries):
        """Prepared before a checkpoint (in pg_twophase), and after it (in WAL only): both survive crash after crash."""
        cluster.psql("CREATE TABLE t (i int PRIMARY KEY, word text)")
        self.prepare(cluster, 1, canaries["before"])
        self.prepare(cluster, 2, canaries["both"])
        cluster.psql("CHECKPOINT")
        self.prepare(cluster, 3, canaries["after"])
        for _ in range(2):
            cluster.kill9()
            cluster.start()
            prepared = cluster.psql("SELECT gid FROM pg_prepared_xacts ORDER BY prepared").split()
            self.assertEqual(prepared, [canaries[label] for label in ("before", "both", "after")])
            cluster.psql("SET lock_timeout = '100ms'; INSERT INTO t VALUES (1, 'x')", error="lock timeout")
        cluster.psql(f"COMMIT PREPARED '{canaries['before']}'; ROLLBACK PREPARED '{canaries['after']}'")
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT i, word FROM t"), f"1|{canaries['before']}")
        self.assertEqual(cluster.psql("SELECT gid FROM pg_prepared_xacts"), canaries["both"])

    def prepare(self, cluster, number, word):
        cluster.psql(f"BEGIN; INSERT INTO t VALUES ({number}, '{word}'); SAVEPOINT a; LOCK TABLE t IN ROW SHARE MODE; "
                     f"PREPARE TRANSACTION '{word}'")


class LogicalSlots(Twins):
    CONF = "wal_level = logical\nlogical_decoding_work_mem = 64kB\nmax_replication_slots = 4\n"

    def test_over_stops_and_crashes(self):
        self.both(self.scenario, "/pg_replslot/slow/", conf=self.CONF)

    def scenario(self, cluster, canaries):
        word = canaries["row"]
        cluster.psql("CREATE TABLE t (i int PRIMARY KEY, word text)")
        for slot in ("fast", "slow"):
            cluster.psql(f"SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')")
        self.write(cluster, word, 1)
        cluster.stop()
        cluster.start()
        self.write(cluster, word, 2)
        cluster.kill9()
        cluster.start()
        self.rewrite_catalogs(cluster)
        self.write(cluster, word, 3)
        changes = self.changes(cluster, "get", "fast")
        self.assertEqual(len(re.findall(rf"INSERT: i\[integer\]:\d+ word\[text\]:'{word}\d+'", changes)), 6000)
        self.assertEqual(self.changes(cluster, "get", "fast"), "")
        cluster.kill9()
        cluster.start()
        self.assertEqual(self.changes(cluster, "get", "fast"), "")
        self.assertEqual(self.changes(cluster, "peek", "slow"), changes)
        self.hold_spill(cluster, canaries["spill"])

    def write(self, cluster, word, number):
        """A transaction too large for the slots' memory."""
        first = number * 10000
        cluster.psql(f"INSERT INTO t SELECT i, '{word}' || i FROM generate_series({first}, {first + 1999}) i; CHECKPOINT")

    def rewrite_catalogs(self, cluster):
        """Leaves pg_logical/mappings for what is decoded later."""
        cluster.psql("VACUUM FULL pg_class; VACUUM FULL pg_attribute; CLUSTER pg_class USING pg_class_oid_index")

    def changes(self, cluster, how, slot):
        return cluster.psql(f"SELECT data FROM pg_logical_slot_{how}_changes('{slot}', NULL, NULL, 'include-xids', '0')")

    def hold_spill(self, cluster, word):
        """An open transaction that a session decodes and has spilled: its files are there as long as it waits."""
        session = cluster.session()
        session.stdin.write(f"BEGIN; INSERT INTO t SELECT -i, '{word}' || i FROM generate_series(1, 5000) i; "
                            "SELECT pg_current_xact_id();\n")
        transaction = int(session.stdout.readline())
        cluster.psql("SELECT pg_logical_emit_message(true, 'flush', 'all before')")
        command = [cluster.pg / "pg_recvlogical", "-d", "postgres", "-S", "slow", "--start", "-f", "/dev/null"]
        receiver = subprocess.Popen(command, env={**base_environment(), **cluster.environment}, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        cluster.sessions.append(receiver)
        eventually(lambda: list((cluster.data / "pg_replslot/slow").glob(f"xid-{transaction}-*.spill")), process=receiver)


class Prewarm(Twins):
    CONF = "shared_preload_libraries = 'pg_prewarm'\nshared_buffers = 32MB\n"

    def test_autoprewarm(self):
        self.both(self.scenario, "/data/base/", conf=self.CONF)

    def scenario(self, cluster, canaries):
        cluster.psql("CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache; CREATE TABLE t AS "
                     f"SELECT i, '{canaries['row']}' || i AS word FROM generate_series(1, 50000) i; CREATE INDEX ON t (i)")
        pages = int(cluster.psql("SELECT pg_relation_size('t') / 8192"))
        self.assertGreater(pages, 200)
        self.assertEqual(cluster.psql("CHECKPOINT; SELECT pg_prewarm('t', 'buffer'), pg_prewarm('t', 'read')"),
                         f"{pages}|{pages}")
        cluster.stop()
        cluster.start()
        self.wait_for_log(cluster, r"autoprewarm successfully prewarmed \d+ of \d+ previously-loaded blocks")
        buffers = "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0"
        self.assertEqual(cluster.psql(buffers), str(pages))
        self.assertEqual(cluster.psql("SELECT autoprewarm_dump_now() > 0, count(*), sum(i) FROM t"), "t|50000|1250025000")

    def wait_for_log(self, cluster, pattern):
        eventually(lambda: re.search(pattern, cluster.log()), cluster.log)


if __name__ == "__main__":
    main(__file__)
