#!/usr/bin/env python3
"""Temporary files live under a key that is made when the postmaster starts and never stored."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, Canaries, Case, base_environment, main, run
from waiting import eventually

SPILL = ("BEGIN; SET LOCAL work_mem = '64kB'; DECLARE c CURSOR FOR SELECT word FROM (SELECT i || '{}' AS word "
         "FROM generate_series(1, 20000) i OFFSET 0) s ORDER BY word; FETCH 1 FROM c;\n")


class Ephemeral(Case):
    def boot(self, cluster):
        """The stored bytes of one file that two boots fill alike, by name and content."""
        cluster.start()
        cluster.psql("SELECT pg_stat_statements_reset()")
        cluster.psql('SELECT 1 AS "a name of more than sixteen bytes"')
        stored = (cluster.data / "pg_stat_tmp/pgss_query_texts.stat").read_bytes()
        cluster.stop()
        return stored

    def two_boots(self, sealed):
        conf = "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.save = off\n"
        cluster = self.cluster("boots" + str(sealed), sealed=sealed, conf=conf).init().start()
        cluster.psql("CREATE EXTENSION pg_stat_statements")
        cluster.stop()
        return self.boot(cluster), self.boot(cluster)

    def test_two_boots_store_the_same_in_different_bytes(self):
        first, second = self.two_boots(sealed=False)
        self.assertEqual(first, second)
        first, second = self.two_boots(sealed=True)
        self.assertEqual(len(first), len(second))
        self.assertGreater(len(first), 32)
        same = [at for at in range(0, len(first) - 16, 16) if first[at : at + 16] == second[at : at + 16]]
        self.assertEqual(same, [])

    def test_what_a_crash_leaves_is_unreadable_with_the_clusters_key(self):
        cluster = self.cluster().init().start()
        canaries = Canaries()
        cluster.psql(f"CREATE TABLE t AS SELECT '{canaries['row']}'; CHECKPOINT")
        table = cluster.psql("SELECT pg_relation_filepath('t')")
        session = cluster.session()
        session.stdin.write(SPILL.format(canaries["sort"]))
        self.assertIn(canaries["sort"], session.stdout.readline())
        spilled = {file: file.read_bytes() for file in (cluster.data / "base/pgsql_tmp").iterdir()}
        cluster.kill9()
        self.assertIn(canaries.mark, self.read_with_key(cluster, cluster.data / table))
        self.assertNotEqual(spilled, {})
        for file, stored in spilled.items():
            self.assertGreater(len(stored), 8192)
            file.write_bytes(stored)
            self.assertNotIn(canaries.mark, self.read_with_key(cluster, file))

    def test_a_crashed_backend_takes_nothing_with_it(self):
        """The postmaster lives on, and so does its key: texts written before the crash can still be read."""
        conf = "shared_preload_libraries = 'pg_stat_statements'\nremove_temp_files_after_crash = off\n"
        cluster = self.cluster(conf=conf).init().start()
        cluster.psql("CREATE EXTENSION pg_stat_statements; CREATE TABLE t AS SELECT 1 AS i")
        victim = cluster.session()
        victim.stdin.write("SELECT pg_backend_pid();\n" + SPILL.format("x"))
        os.kill(int(victim.stdout.readline()), signal.SIGKILL)
        eventually(lambda: cluster.log().count("database system is ready to accept connections") >= 2)
        session = cluster.session()
        session.stdin.write(SPILL.format("y"))
        self.assertEqual(session.stdout.readline(), "10000y\n")
        self.assertEqual(cluster.psql("SELECT i FROM t; SELECT count(*) > 0 FROM pg_stat_statements"), "1\nt")
        cluster.stop()

    def test_single_user_mode_has_a_key_of_its_own(self):
        cluster = self.cluster().init()
        canaries = Canaries()
        script = f"CREATE TABLE t AS SELECT i || '{canaries['row']}' AS word FROM generate_series(1, 20000) i\n" \
                 "SET work_mem = '64kB'\nSELECT max(word) FROM (SELECT word FROM t ORDER BY word OFFSET 10) s\n"
        done = cluster.run("postgres", "--single", "-D", cluster.data, "postgres", input=script)
        self.assertIn(f'max = "9{canaries["row"]}"', done.stdout)
        self.assertEqual(canaries.found(cluster.data), {})
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*) FROM t"), "20000")
        cluster.stop()

    def read_with_key(self, cluster, path):
        """What a program that is given the cluster's key makes of a file."""
        command = [PGSEAL, "exec", "-D", cluster.data, "--", "/usr/bin/dd", f"if={path}", "status=none"]
        return run(command, {**base_environment(), "PGSEAL_PROGRAMS": "dd"}).stdout


if __name__ == "__main__":
    main(__file__)
