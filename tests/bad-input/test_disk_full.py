"""A full disk: sealed and plain servers give the same errors, and nothing is damaged when there is space again.

`filler` takes what is left of the disk and gives it back.
"""

import re

from bad_input import BadInput
from pgseal_test import Canaries
from small_disk import fill_up, main, needs_mounts, remount, small_disk

FULL = "53100"
CONF = "autovacuum = off\nmax_prepared_transactions = 10\nwork_mem = 64kB\nlog_line_prefix = '%e '\nbgwriter_lru_maxpages = 0\n"

# What a server whose data directory is full is asked. Each fails by itself or not at all.
STATEMENTS = [
    "SELECT count(a) FROM t",
    "INSERT INTO t SELECT i, '{mark}' || repeat('x', 500) FROM generate_series(1, 20000) i",
    "CREATE TABLE u AS SELECT * FROM t",
    "CREATE INDEX i ON t (b)",
    "SELECT count(*) FROM (SELECT i, '{mark}' || i AS b FROM generate_series(1, 100000) i ORDER BY b) s",
    "UPDATE t SET a = a + 1",
    "VACUUM FULL t",
    "VACUUM t",
    "COPY t TO '{home}/disk/copy'",
    "SELECT lo_from_bytea(0, convert_to(repeat('{mark}', 300000), 'UTF8'))",
    "CREATE DATABASE d STRATEGY file_copy",
    "CREATE DATABASE d STRATEGY wal_log",
    "SELECT sum(a) FROM t",
]


@needs_mounts
class DiskFull(BadInput):
    def disk(self, cluster, megabytes):
        """A tmpfs at home/disk."""
        return small_disk(self, cluster.home / "disk", megabytes)

    def both(self, test):
        """Runs `test` on a sealed cluster and on a plain one: it must return the same."""
        outcomes = []
        for sealed in [False, True]:
            canaries = Canaries()
            cluster = self.cluster("sealed" if sealed else "plain", sealed=sealed, conf=CONF)
            outcomes.append((test(cluster, canaries["row"]), self.stop_sound(cluster)))
            if sealed:
                self.assertEqual(canaries.found(cluster.data, cluster.home / "disk"), {})
        self.assertEqual(*outcomes)
        return outcomes[0][0]

    def test_tablespace(self):
        def fill(cluster, mark):
            cluster.init().start()
            disk = self.disk(cluster, 4)
            cluster.psql(f"CREATE TABLESPACE small LOCATION '{disk}'")
            cluster.psql("CREATE TABLE t (a int PRIMARY KEY USING INDEX TABLESPACE small, b text) TABLESPACE small;"
                         " ALTER TABLE t ALTER b SET STORAGE PLAIN")
            more = f"INSERT INTO t SELECT coalesce(max(a), 0) + 1, '{mark}' || repeat('x', 3000) FROM t;"
            error = fails(cluster, more * 2000)
            rows = cluster.psql("SELECT count(*), sum(length(b)), pg_relation_size('t') FROM t")
            again = fails(cluster, more * 100)
            remount(disk, 64)
            cluster.psql(more * 100)
            self.assertEqual(cluster.psql("SELECT count(*) FROM t"), str(int(rows.split("|")[0]) + 100))
            self.assertEqual(cluster.psql(f"SELECT count(*) FROM t WHERE b <> '{mark}' || repeat('x', 3000)"), "0")
            return error, rows, again

        error, _, again = self.both(fill)
        self.assertEqual(error, FULL)
        self.assertEqual(again, FULL)

    def test_temporary_files(self):
        def fill(cluster, mark):
            cluster.init().start()
            disk = self.disk(cluster, 1)
            cluster.psql(f"CREATE TABLESPACE small LOCATION '{disk}'")
            sort = f"SELECT count(*) FROM (SELECT i, '{mark}' || i AS b FROM generate_series(1, {{}}) i ORDER BY b) s;"
            errors = [fails(cluster, "SET temp_tablespaces = small;" + sort.format(100000)) for _ in range(3)]
            self.assertEqual(cluster.psql("SET temp_tablespaces = small;" + sort.format(1000)), "1000")
            remount(disk, 64)
            self.assertEqual(cluster.psql("SET temp_tablespaces = small;" + sort.format(100000)), "100000")
            return errors

        self.assertEqual(self.both(fill), [FULL] * 3)

    def test_data_directory(self):
        def fill(cluster, mark):
            disk = self.disk(cluster, 512)
            cluster.data = disk / "data"
            cluster.initdb += ["--waldir", cluster.home / "wal"]
            cluster.init().start()
            cluster.psql(f"CREATE TABLE t AS SELECT i AS a, '{mark}' || i AS b FROM generate_series(1, 3000) i; CHECKPOINT")
            outcomes = []
            for statement in STATEMENTS:
                fill_up(disk)
                outcomes.append((statement, fails(cluster, statement.format(mark=mark, home=cluster.home))))
                (disk / "filler").unlink()
            (disk / "copy").unlink()
            rows = cluster.psql("SELECT count(*), sum(length(b)) FROM t")
            cluster.psql("CHECKPOINT")
            cluster.kill9()
            cluster.start()
            self.assertEqual(cluster.psql("SELECT count(*), sum(length(b)) FROM t"), rows)
            return outcomes, rows

        outcomes, _ = self.both(fill)
        self.assertIn(FULL, dict(outcomes).values())
        self.assertEqual(set(dict(outcomes).values()) - {None, FULL}, set())

    def test_wal(self):
        """The server stops with a PANIC, as every PostgreSQL does; what it had acknowledged is there afterwards."""
        def fill(cluster, mark):
            disk = self.disk(cluster, 48)
            cluster.initdb += ["--waldir", disk / "wal"]
            cluster.conf += "max_wal_size = 1GB\nrestart_after_crash = off\n"
            cluster.init().start()
            cluster.psql("CREATE TABLE t (a serial, b text); ALTER TABLE t ALTER b SET STORAGE PLAIN")
            insert = f"INSERT INTO t (b) VALUES (repeat('{mark}', 300)) RETURNING 'done ' || a;\n"
            told = cluster.run("psql", "-X", "-q", "-A", "-t", check=False, input=insert * 9000)
            self.assertRegex(told.stderr, "server closed the connection|terminating connection")
            last = int(told.stdout.split()[-1])
            self.assertNotEqual(cluster.server.wait(60), 0)
            self.assertRegex(cluster.log(), f'(?m)^{FULL} PANIC:  could not write to file "pg_wal/xlogtemp')
            cluster.server = None
            status = cluster.try_start()
            if status is None:
                cluster.stop("immediate")
            remount(disk, 256)
            cluster.start()
            count = int(cluster.psql("SELECT count(*) FROM t"))
            self.assertIn(count, [last, last + 1])
            self.assertEqual(cluster.psql(f"SELECT count(*) FROM t WHERE b <> repeat('{mark}', 300)"), "0")
            return status

        self.both(fill)


def fails(cluster, sql):
    """The SQLSTATE that the statements end with; None if they succeed."""
    done = cluster.run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate",
                       check=False, input=sql)
    error = re.search(r"^(?:ERROR|FATAL|PANIC):  (\w{5})$", done.stderr, re.MULTILINE)
    return error[1] if error else None


if __name__ == "__main__":
    main(__file__)
