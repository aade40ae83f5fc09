#!/usr/bin/env python3
"""Files in directories that PostgreSQL does not have: editors make them, and people read them, of a sealed cluster too.

They are stored as they are, whatever their names, and a server writes there only what its settings name: an extension that kept
data there would leave it in clear. What is there is named by `doctor`, `audit` and `seal`.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, Case, main, major_version, run, twins
from waiting import eventually

CONF = """
include_dir 'pg_conf.d'
logging_collector = on
log_directory = 'pg_logs'
log_filename = 'postgresql.log.%Y-%m-%d'
log_destination = 'stderr,csvlog'
include 'pg_conf/extra.inc'
external_pid_file = 'pg_run/pid'
log_statement = all
"""
INCLUDED = "local all all trust\n"
OWN = "pg_conf.d/, pg_conf/, pg_lists/, pg_logs/, pg_run/"
REFUSED = "would be in clear, in a directory that PostgreSQL does not have: keep it outside the data directory"


class Administrator(Case):
    def make(self, name, **options):
        """A cluster whose work_mem is in a directory of its administrator's."""
        cluster = self.cluster(name, conf=CONF, **options).init()
        self.edit(cluster, "pg_conf.d/site.conf", "work_mem = 5MB\n")
        self.edit(cluster, "pg_conf/extra.inc", "maintenance_work_mem = 7MB\n")
        self.edit(cluster, "pg_lists/admins", "postgres\nnobody\n")
        self.edit(cluster, "pg_hba.conf", "local all @pg_lists/admins trust\nlocal replication all trust\n")
        (cluster.data / "pg_run").mkdir()
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
        eventually(lambda: self.work_mem(session) == "6MB", "the session does not follow")
        self.assertEqual(cluster.psql("SHOW work_mem"), "6MB")
        self.assertEqual(cluster.psql("SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"), "0")
        cluster.end_sessions()
        cluster.stop()
        cluster.start()
        self.assertEqual(cluster.psql("SHOW work_mem"), "6MB")
        self.assertEqual(cluster.psql("SHOW maintenance_work_mem"), "7MB")
        self.assertEqual((cluster.data / "pg_run/pid").read_text().strip(), str(cluster.server.pid))
        cluster.stop()
        for pattern in ["postgresql.log.*-??", "postgresql.log.*.csv"]:
            logs = [file.read_bytes() for file in (cluster.data / "pg_logs").glob(pattern)]
            self.assertTrue(any(b"SHOW work_mem" in log for log in logs), pattern)

    def work_mem(self, session):
        session.stdin.write("SHOW work_mem;\n")
        return session.stdout.readline().strip()

    def test_of_a_cluster_that_was_made_sealed(self):
        self.assert_follows_edits(self.make("sealed"))

    def test_of_a_cluster_that_is_sealed_later(self):
        cluster = self.make("later", sealed=False)
        cluster.start().stop()
        check = run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap", "--check"])
        self.assertIn(f"not files of PostgreSQL, and not encrypted: {OWN}\n", check.stdout)
        run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap"])
        cluster.bindir = twins(cluster.pg)
        self.assertEqual((cluster.data / "pg_conf.d/site.conf").read_text(), "work_mem = 5MB\n")
        self.assert_follows_edits(cluster)

    def test_after_a_crash(self):
        """Recovery opens every file to sync it: that is no write, and nothing of it is in the log."""
        cluster = self.make("crashed")
        self.edit(cluster, "pg_conf/extra.inc", "fsync = on\n")
        self.edit(cluster, "pg_archive/000000010000000000000001", "noise")
        cluster.start()
        cluster.psql("CREATE TABLE t AS SELECT 1 AS i")
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT i FROM t"), "1")
        log = b"".join(file.read_bytes() for file in (cluster.data / "pg_logs").iterdir()).decode() + cluster.log()
        self.assertNotIn("Operation not permitted", log)
        self.assertNotIn(REFUSED, log)
        self.assertEqual((cluster.data / "pg_archive/000000010000000000000001").read_text(), "noise")

    def test_a_log_in_directories_of_its_name(self):
        cluster = self.cluster("deep", conf=CONF.replace("'postgresql.log", "'deep/er/postgresql.log")).init()
        self.edit(cluster, "pg_conf.d/site.conf", "work_mem = 5MB\n")
        self.edit(cluster, "pg_conf/extra.inc", "")
        (cluster.data / "pg_run").mkdir()
        (cluster.data / "pg_logs/deep/er").mkdir(parents=True)
        cluster.start()
        cluster.psql("SELECT 'shown'")
        cluster.stop()
        self.assertTrue(any(b"shown" in file.read_bytes() for file in (cluster.data / "pg_logs/deep/er").iterdir()))

    def test_a_link_out_of_the_data_directory(self):
        """What is outside is outside, by whatever name."""
        cluster = self.cluster("linked").init().start()
        (self.directory / "outside").mkdir(mode=0o777)
        (cluster.data / "export").symlink_to(self.directory / "outside")
        cluster.psql(f"COPY (SELECT 'row') TO '{cluster.data}/export/rows'")
        self.assertEqual((self.directory / "outside/rows").read_text(), "row\n")

    def test_what_a_server_does_not_write(self):
        """Neither by open nor by fopen, neither new files nor old ones, in no spelling."""
        cluster = self.make("refused").start()
        store = cluster.data / "orioledb_data"
        store.mkdir()
        (store / "old").write_text("as it was")
        (self.directory / "link").symlink_to(store)
        for path in [store / "new", store / "old", cluster.data / "pg_mine/../orioledb_data/new", self.directory / "link/new",
                     cluster.data / "pg_lists/admins"]:
            cluster.psql(f"COPY (SELECT 'row') TO '{path}'", error="Operation not permitted")
        cluster.psql("SELECT lo_from_bytea(77, 'row')")
        for target in [store, cluster.data / "pg_lists"]:
            cluster.psql(f"SELECT lo_export(77, '{target}/object')", error="Operation not permitted")
        self.assertEqual([path.name for path in store.iterdir()], ["old"])
        self.assertEqual((store / "old").read_text(), "as it was")
        self.assertEqual(cluster.psql(f"SELECT pg_read_file('{store}/old')"), "as it was")
        log = b"".join(file.read_bytes() for file in (cluster.data / "pg_logs").iterdir()) + cluster.log().encode()
        self.assertEqual(log.count(REFUSED.encode()), 7)
        cluster.psql(f"COPY (SELECT 'row') TO '{self.directory}/elsewhere'")
        cluster.stop()
        doctor = run([PGSEAL, "doctor", "-D", cluster.data], check=False).stdout
        self.assertIn(f"advice  clear files:     not files of PostgreSQL, and not encrypted: {OWN}: check", doctor)
        self.assertIn("advice  clear files:     OrioleDB keeps tables and indexes in orioledb_data/, not encrypted: store them", doctor)
        audit = run([PGSEAL, "audit", cluster.data]).stdout
        self.assertIn(f"; not files of PostgreSQL, and not encrypted: orioledb_data/, {OWN}\n", audit)

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
