"""What the tests of receivers share: a primary full of canaries, copies of it, and standbys (imported, not run)."""


from pgseal_test import Canaries, Case, major_version
from waiting import eventually

ROWS = 2000


class Receiving(Case):
    """A test with a primary, and with clusters that are copied from it instead of made by initdb."""

    def primary(self, conf="", tablespaces=(), **options):
        """A running primary whose tables, indexes and WAL hold canaries."""
        standby = "wal_level = replica\nmax_wal_senders = 8\nwal_keep_size = '64MB'\n"
        summaries = "summarize_wal = on\n" if major_version() >= 17 else ""
        primary = self.cluster("primary", conf=standby + summaries + conf, tablespaces=tablespaces, **options)
        primary.init().start()
        self.canaries = Canaries()
        word = self.canaries["table"]
        primary.psql(f"CREATE TABLE t AS SELECT i, '{word}' || i AS w FROM generate_series(1, {ROWS}) i")
        primary.psql("CREATE INDEX ON t (w)")
        for name in tablespaces:
            primary.psql(f"CREATE TABLESPACE {name} LOCATION '{primary.home / name}'")
            primary.psql(f"CREATE TABLE t_{name} TABLESPACE {name} AS SELECT w FROM t")
        primary.psql("CHECKPOINT")
        return primary

    def archiving_primary(self, **options):
        """A primary whose archive_command is cp. A segment appears in the archive when it is whole."""
        self.archive = self.directory / "archive"
        self.archive.mkdir()
        whole = f"cp %p {self.archive}/%f.part && mv {self.archive}/%f.part {self.archive}/%f"
        return self.primary(conf=f"archive_mode = on\narchive_command = '{whole}'\n", **options)

    def copy(self, name, sealed=True):
        """The place of a cluster that something else than initdb will make."""
        return self.cluster(name, sealed=sealed)

    def base_backup(self, primary, target, *options, check=True, environment=None):
        """Runs the wrapper of pg_basebackup into target's data directory."""
        return target.run("pg_basebackup", "-c", "fast", "-D", target.data, *options, check=check,
                          environment={"PGHOST": str(primary.home), **(environment or {})})

    def start(self, copy):
        """Starts a copy on a socket of its own."""
        return copy.start("-k", str(copy.home))

    def assert_rows(self, cluster, table="t"):
        """All rows of the primary's table are there, and the index finds one."""
        word = self.canaries["table"]
        self.assertEqual(cluster.psql(f"SELECT count(*), count(DISTINCT w) FROM {table}"), f"{ROWS}|{ROWS}")
        self.assertEqual(cluster.psql(f"SELECT w FROM {table} WHERE w = '{word}7'"), f"{word}7")

    def assert_sealed(self, *places):
        """Nothing in these files and directories shows a canary."""
        self.assertEqual(self.canaries.found(*places), {})

    def catch_up(self, primary, standby):
        """Waits until the standby has replayed what the primary has written."""
        target = primary.psql("SELECT pg_current_wal_lsn()")
        eventually(lambda: standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{target}'") == "t",
                   lambda: f"the standby does not follow\n{standby.log()[-3000:]}\n{primary.log()[-3000:]}")

    def wait_for(self, path):
        """Waits until the file is there."""
        eventually(path.exists, lambda: f"{path.name} does not come: {list(path.parent.iterdir())}")

    def wait_for_log(self, cluster, sentence):
        """Waits until the server has written this."""
        eventually(lambda: sentence in cluster.log(), lambda: f"{sentence!r} does not come\n{cluster.log()[-3000:]}")
