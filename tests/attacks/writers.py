#!/usr/bin/env python3
"""Files that are written at odd offsets, by many processes at once, by appending, or across a crash.

pg_stat_statements' texts are written so by all backends, mappings of logical decoding grow by 36 bytes, and logs use O_APPEND.
"""

import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import Canaries, Case, base_environment, main

STATEMENTS = "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.save = on\nmax_connections = 120\n"


class QueryTexts(Case):
    """Fifty sessions append texts of any length to one file, at offsets that they reserve."""

    def texts(self, session, count):
        """Statements of one session that are kept as they are written."""
        pick = random.Random(session)
        word = "abcdefghijklmnopqrstuvwxyz"
        return [f'UNLISTEN "s{session}n{number}_{"".join(pick.choices(word, k=pick.randrange(1, 50)))}"'
                for number in range(count)]

    def write(self, cluster, sessions, count):
        """Runs the statements of all sessions at once, while another reads them, and returns them."""
        command = [cluster.pg / "psql", "-X", "-q", "-o", "/dev/null"]
        clients, written = [], set()
        for session in range(sessions):
            texts = self.texts(session, count)
            written.update(texts)
            client = subprocess.Popen(command, env={**base_environment(), **cluster.environment}, stdin=subprocess.PIPE)
            client.stdin.write("".join(text + ";\n" for text in texts).encode())
            client.stdin.close()
            clients.append(client)
        while any(client.poll() is None for client in clients):
            self.assertEqual(self.kept(cluster) - written, set())
        self.assertEqual({client.returncode for client in clients}, {0})
        return written

    def kept(self, cluster):
        return set(cluster.psql("SELECT query FROM pg_stat_statements WHERE query LIKE 'UNLISTEN%'").splitlines())

    def assert_same(self, kept, written):
        """Without the long list of a set's difference."""
        self.assertEqual((len(kept - written), len(written - kept)), (0, 0), sorted(kept - written)[:3])

    def test_no_text_is_lost_or_garbled(self):
        cluster = self.cluster(conf=STATEMENTS + "pg_stat_statements.max = 10000\n").init().start()
        cluster.psql("CREATE EXTENSION pg_stat_statements")
        written = self.write(cluster, sessions=50, count=60)
        self.assert_same(self.kept(cluster), written)
        cluster.stop()
        cluster.start()
        self.assert_same(self.kept(cluster), written)

    def test_texts_survive_the_removal_of_others(self):
        """A small table: old texts are dropped and the file is rewritten and cut, again and again."""
        cluster = self.cluster(conf=STATEMENTS + "pg_stat_statements.max = 100\n").init().start()
        cluster.psql("CREATE EXTENSION pg_stat_statements")
        written = self.write(cluster, sessions=50, count=60)
        kept = self.kept(cluster)
        self.assertEqual(kept - written, set())
        self.assertGreater(len(kept), 20)


class Decoding(Case):
    def setUp(self):
        super().setUp()
        self.conf = "wal_level = logical\nlogical_decoding_work_mem = 64kB\nautovacuum = off\n"

    def changes(self, sealed):
        """What a slot says of a transaction that it had to spill, in parts of odd length."""
        cluster = self.cluster("spill" + str(sealed), sealed=sealed, conf=self.conf).init().start()
        cluster.psql("CREATE TABLE t (i int, word text); "
                     "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
        cluster.psql("BEGIN; INSERT INTO t SELECT i, repeat(chr(97 + i % 26), i % 97) FROM generate_series(1, 20000) i; "
                     "SAVEPOINT a; UPDATE t SET word = word || i WHERE i % 3 = 0; RELEASE a; COMMIT")
        rows = cluster.psql("SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0')")
        self.assertEqual(cluster.psql("SELECT spill_txns > 0 FROM pg_stat_replication_slots"), "t")
        cluster.stop()
        return rows.splitlines()

    def test_a_spill_file_opened_for_appending_reads_back(self):
        sealed, plain = self.changes(sealed=True), self.changes(sealed=False)
        self.assertEqual(len(plain), 2 + 20000 + 6666)
        self.assertEqual(sealed, plain)

    def test_catalog_mappings_that_grew_survive_a_crash(self):
        """A slot that must follow rows of pg_class through rewrites, on both sides of a checkpoint and a crash."""
        word = Canaries()["mapped"]
        cluster = self.cluster(conf=self.conf).init().start()
        cluster.psql("CREATE TABLE t (word text); SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
        expected = []
        for number in range(4):
            cluster.psql(f"BEGIN; ALTER TABLE t ADD c{number} int; INSERT INTO t VALUES ('{word}{number}'); COMMIT; "
                         "VACUUM FULL pg_class; VACUUM FULL pg_attribute")
            cluster.psql("CHECKPOINT" if number % 2 else "SELECT 1")
            expected.append(f"{word}{number}")
        mappings = list((cluster.data / "pg_logical/mappings").iterdir())
        cluster.kill9()
        cluster.start()
        rows = cluster.psql("SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL)").splitlines()
        inserts = [row for row in rows if row.startswith("table public.t: INSERT")]
        self.assertEqual([row.split("'")[1] for row in inserts], expected)
        self.assertNotEqual(mappings, [])


if __name__ == "__main__":
    main(__file__)
