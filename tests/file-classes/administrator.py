#!/usr/bin/env python3
"""Configuration and server logs in directories named pg_*: editors make them, and people read them, of a sealed cluster too."""

import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, TIME_LIMIT, Case, main, major_version, run, twins

CONF = """
include_dir 'pg_conf.d'
logging_collector = on
log_directory = 'pg_logs'
log_destination = 'stderr,csvlog'
log_statement = all
"""
INCLUDED = "local all all trust\n"


class Administrator(Case):
    def make(self, name, **options):
        """A cluster whose work_mem stands in a directory of its administrator's."""
        cluster = self.cluster(name, conf=CONF, **options).init()
        self.edit(cluster, "pg_conf.d/site.conf", "work_mem = 5MB\n")
        return cluster

    def edit(self, cluster, name, text):
        """As an editor does, which knows nothing of keys."""
        file = cluster.data / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def assert_follows_edits(self, cluster):
        """A session that is there, a new one, and the next start go by what the editor wrote; the log can be read."""
        cluster.start()
        session = cluster.session()
        self.assertEqual(self.work_mem(session), "5MB")
        self.edit(cluster, "pg_conf.d/site.conf", "work_mem = 6MB\n")
        cluster.psql("SELECT pg_reload_conf()")
        deadline = time.monotonic() + TIME_LIMIT / 3
        while self.work_mem(session) != "6MB":
            self.assertLess(time.monotonic(), deadline, "the session does not follow")
            time.sleep(0.05)
        self.assertEqual(cluster.psql("SHOW work_mem"), "6MB")
        self.assertEqual(cluster.psql("SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"), "0")
        cluster.end_sessions()
        cluster.stop()
        cluster.start()
        self.assertEqual(cluster.psql("SHOW work_mem"), "6MB")
        cluster.stop()
        for ending in ["log", "csv"]:
            logs = [file.read_bytes() for file in (cluster.data / "pg_logs").glob(f"*.{ending}")]
            self.assertTrue(any(b"SHOW work_mem" in log for log in logs), ending)

    def work_mem(self, session):
        session.stdin.write("SHOW work_mem;\n")
        return session.stdout.readline().strip()

    def test_of_a_cluster_that_was_made_sealed(self):
        self.assert_follows_edits(self.make("sealed"))

    def test_of_a_cluster_that_is_sealed_later(self):
        cluster = self.make("later", sealed=False)
        cluster.start().stop()
        run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap"])
        cluster.bindir = twins(cluster.pg)
        self.assertEqual((cluster.data / "pg_conf.d/site.conf").read_text(), "work_mem = 5MB\n")
        self.assert_follows_edits(cluster)

    @unittest.skipIf(major_version() < 16, "pg_hba.conf includes other files from PostgreSQL 16 on")
    def test_who_may_connect(self):
        cluster = self.cluster().init()
        self.edit(cluster, "pg_hba.d/a.conf", INCLUDED)
        self.edit(cluster, "pg_hba.conf", "include_dir pg_hba.d\n")
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), count(error) FROM pg_hba_file_rules"), "1|0")
        self.edit(cluster, "pg_hba.d/a.conf", INCLUDED * 2)
        self.assertEqual(cluster.psql("SELECT count(*), count(error) FROM pg_hba_file_rules"), "2|0")


if __name__ == "__main__":
    main(__file__)
