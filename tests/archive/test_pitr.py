#!/usr/bin/python3
"""Point-in-time recovery of a sealed cluster from an archive of ciphertext: every kind of target, over three timelines.

Each target is a moment between two rows of a table: the row before it is there after the recovery, the row after it is not.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from archived import CP_ARCHIVE, Archived  # noqa: E402
from pgseal_test import PGSEAL, base_environment, main, run  # noqa: E402
from waiting import eventually


class Targets(Archived):
    def test_every_kind_of_target(self):
        primary = self.primary(conf="checkpoint_timeout = 1h\ntrack_commit_timestamp = on\n")
        self.row(primary, 1)
        base = self.online_copy(primary, "base")
        targets = self.write_targets(primary)
        self.archive_all(primary)
        primary.kill9()
        self.assertEqual(self.canaries.found(self.archive, base.data), {})
        self.assertEqual(self.canaries.audit(self.archive, base.data), [])
        for number, (target, rows) in enumerate(targets):
            with self.subTest(target):
                copy = self.cold_copy(base, f"copy{number}")
                self.recover(copy, target)
                self.assertEqual(copy.psql("SELECT string_agg(id::text, ',' ORDER BY id) FROM moments"), rows)
                self.check_sound(copy)
                self.assertEqual(self.canaries.found(copy.data), {})

    def row(self, primary, number):
        """One row, with what names its moment."""
        primary.psql("CREATE TABLE IF NOT EXISTS moments (id int PRIMARY KEY, word text)")
        return primary.psql(f"BEGIN; INSERT INTO moments VALUES ({number}, '{self.canaries['row']}'); "
                            "SELECT pg_current_xact_id(); COMMIT").split()[-1]

    def write_targets(self, primary):
        """(settings, rows that are there then), one for each kind."""
        targets = [("recovery_target = immediate", "1")]
        self.row(primary, 2)
        time = primary.psql("SELECT clock_timestamp() FROM pg_sleep(0.05)")
        self.row(primary, 3)
        targets.append((f"recovery_target_time = '{time}'", "1,2"))
        lsn = primary.psql("SELECT pg_current_wal_insert_lsn()")
        self.row(primary, 4)
        targets.append((f"recovery_target_lsn = '{lsn}'", "1,2,3"))
        primary.psql("SELECT pg_create_restore_point('a point')")
        xid = self.row(primary, 5)
        targets.append(("recovery_target_name = 'a point'", "1,2,3,4"))
        targets.append((f"recovery_target_xid = '{xid}'", "1,2,3,4,5"))
        targets.append((f"recovery_target_xid = '{xid}'\nrecovery_target_inclusive = off", "1,2,3,4"))
        self.row(primary, 6)
        return targets + [("", "1,2,3,4,5,6")]


class Bases(Archived):
    """The two bases that Targets and Timelines do not use: a busy cluster by cp, and pg_basebackup's."""

    def recover_to_a_point(self, make_base):
        primary = self.primary()
        primary.run("pgbench", "-i", "-q", "-s", "2")
        primary.psql(f"CREATE TABLE t AS SELECT 1 AS i, '{self.canaries['row']}' AS word")
        load = [primary.pg / "pgbench", "-n", "-c", "2", "-T", "60"]
        with subprocess.Popen(load, env={**base_environment(), **primary.environment}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as pgbench:
            base = make_base(primary)
            primary.psql("INSERT INTO t VALUES (2); SELECT pg_create_restore_point('here'); INSERT INTO t VALUES (3)")
            pgbench.terminate()
        self.archive_all(primary)
        primary.kill9()
        self.assertEqual(self.canaries.found(base.data), {})
        self.recover(base, "recovery_target_name = here")
        self.assertEqual(base.psql("SELECT sum(i) FROM t"), "3")
        sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)"
        self.assertEqual(base.psql(sums), "t")
        self.check_sound(base)

    def test_busy_cluster_by_cp(self):
        """Pages are torn while they are copied: recovery restores them from the archive."""
        self.recover_to_a_point(lambda primary: self.online_copy(primary, "base"))

    def test_pg_basebackup(self):
        self.recover_to_a_point(self.base_backup)

    def base_backup(self, primary):
        base = self.cluster("base")
        primary.run("pg_basebackup", "-c", "fast", "-X", "none", "-D", base.data)
        return base


class Timelines(Archived):
    """Each timeline is left at a restore point for the next; all archive to the same place."""

    CONF = CP_ARCHIVE + "checkpoint_timeout = 1h\n"

    def test_three_timelines(self):
        first = self.primary(conf=self.CONF)
        first.psql("CREATE TABLE t (timeline int, word text)")
        first.stop()
        base = self.cold_copy(first, "base")
        first.start()
        second = self.branch(first, base, 1)
        third = self.branch(second, base, 2)
        self.write(third, 3)
        self.archive_all(third)
        third.kill9()
        names = {file.name[:8] for file in self.archive.iterdir() if len(file.name) == 24}
        self.assertEqual(names, {"00000001", "00000002", "00000003"})
        self.assertTrue((self.archive / "00000003.history").read_text().startswith("1\t"))
        self.end_of(base, "latest", "1|1000\n2|1000\n3|1000")
        self.end_of(base, "2", "1|1000\n2|2000")
        self.end_of(base, "1", "1|2000")
        self.assertEqual(self.canaries.found(self.directory), {})
        self.assertEqual(self.canaries.audit(self.archive, third.data), [])

    def write(self, cluster, timeline):
        cluster.psql(f"INSERT INTO t SELECT {timeline}, '{self.canaries['row']}' || i FROM generate_series(1, 1000) i")

    def branch(self, cluster, base, timeline):
        """What the cluster writes up to a point is kept by the new one; what it writes after it is not."""
        self.write(cluster, timeline)
        cluster.psql(f"SELECT pg_create_restore_point('end of {timeline}')")
        self.write(cluster, timeline)
        self.archive_all(cluster)
        cluster.kill9()
        copy = self.cold_copy(base, f"timeline{timeline + 1}")
        conf = self.CONF.format(archive=self.archive)
        target = f"recovery_target_name = 'end of {timeline}'"
        self.recover(copy, f"{target}\nrecovery_target_timeline = {timeline}", conf=conf)
        copy.psql("CHECKPOINT")
        self.assertEqual(copy.psql("SELECT timeline_id FROM pg_control_checkpoint()"), str(timeline + 1))
        eventually((self.archive / f"0000000{timeline + 1}.history").exists)
        return copy

    def end_of(self, base, timeline, rows):
        """All of one timeline, from the one base."""
        copy = self.cold_copy(base, f"end{timeline}")
        self.recover(copy, conf=f"archive_mode = off\nrecovery_target_timeline = '{timeline}'\n")
        self.assertEqual(copy.psql("SELECT timeline, count(*) FROM t GROUP BY 1 ORDER BY 1"), rows)
        self.check_sound(copy)
        run([PGSEAL, "verify", "-D", copy.data])


if __name__ == "__main__":
    main(__file__)
