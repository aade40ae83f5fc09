#!/usr/bin/env python3
"""WAL-G and pg_rman on an encrypted cluster: full backups, archived WAL, restores to a point in time, and what their looks into
pages give (docs/operations/other-backup-tools.md).

Neither is packaged by Debian 12: PGSEAL_TEST_WALG and PGSEAL_TEST_PG_RMAN name the programs. What is not named is skipped."""

import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Canaries, Case, main, run  # noqa: E402
from waiting import eventually

WALG = os.environ.get("PGSEAL_TEST_WALG")
PG_RMAN = os.environ.get("PGSEAL_TEST_PG_RMAN")
ROWS = 20000
PAGES = 3_000_000  # bytes of a table of three times as many


class Tool(Case):
    """A tool's backups of an encrypted and a plain cluster lie in self.directory/NAME.backups."""

    def backups(self, name):
        return self.directory / f"{name}.backups"

    def archiving(self, name, sealed, command, conf=""):
        """A running cluster with rows, whose WAL the command archives."""
        self.canaries = getattr(self, "canaries", None) or Canaries()
        self.backups(name).mkdir()
        cluster = self.cluster(name, sealed=sealed, conf=f"archive_mode = on\narchive_command = '{command}'\nwal_level = replica\n{conf}")
        cluster.init().start()
        cluster.psql("CREATE TABLE t (i int, word text)")
        self.insert(cluster, 0)
        return cluster

    def insert(self, cluster, first):
        word = self.canaries["rows"]
        cluster.psql(f"INSERT INTO t SELECT i, '{word}' || i FROM generate_series({first + 1}, {first + ROWS}) i; CHECKPOINT")

    def archived(self, cluster):
        """Ends a segment and waits until it is in the archive."""
        wanted = cluster.psql("SELECT pg_walfile_name(pg_switch_wal())")
        eventually(lambda: cluster.psql("SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver") >= wanted, lambda: cluster.log()[-3000:])

    def assert_rows(self, cluster, batches):
        count = batches * ROWS
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), f"{count}|{count * (count + 1) // 2}")

    def recover(self, cluster, conf, target):
        """Starts what was restored, up to a restore point or the end of the archive."""
        conf += "\narchive_mode = off\nrecovery_target_action = 'promote'\n"
        cluster.configure(conf + (f"recovery_target_name = '{target}'\n" if target else ""))
        (cluster.data / "recovery.signal").touch()
        cluster.start()
        eventually(lambda: cluster.psql("SELECT pg_is_in_recovery()") == "f", lambda: cluster.log()[-3000:])

    def assert_sound(self, cluster):
        cluster.stop()
        self.assertIn("nothing bad found", run([PGSEAL, "verify", "-D", cluster.data]).stdout)
        self.assertEqual(self.canaries.found(cluster.data), {})


@unittest.skipUnless(WALG, "PGSEAL_TEST_WALG names no wal-g")
class WalG(Tool):
    more = {}

    def settings(self, name):
        return {"WALG_FILE_PREFIX": str(self.backups(name)), "WALG_DELTA_MAX_STEPS": "2", **self.more}

    def shown(self, name):
        """The canaries in what WAL-G has stored."""
        place = self.directory / f"{name}.unpacked"
        place.mkdir()
        packed = list(self.backups(name).rglob("*.lz4"))
        self.assertNotEqual(packed, [])
        for number, file in enumerate(packed):
            run(["lz4", "-q", "-d", file, place / str(number)])
        return self.canaries.found(place)

    def walg(self, name, cluster, *arguments):
        """Stock, as any program that is not PostgreSQL's."""
        return run([WALG, *arguments], {**cluster.environment, "PGDATA": str(cluster.data), **self.settings(name)})

    def command(self, name, *arguments):
        """For a setting of the server."""
        return " ".join(["env", *(f"{key}={value}" for key, value in self.settings(name).items()), WALG, *arguments])

    def made(self, name, sealed):
        cluster = self.archiving(name, sealed, self.command(name, "wal-push", "%p"))
        self.walg(name, cluster, "backup-push", "--full", cluster.data)
        self.insert(cluster, ROWS)
        cluster.psql("SELECT pg_create_restore_point('between')")
        self.insert(cluster, 2 * ROWS)
        self.archived(cluster)
        return cluster

    def restored(self, name, source, backup, target):
        """A restore by WAL-G, running."""
        cluster = self.cluster(f"{name}-{backup}-{target}".lower(), sealed=source.sealed)
        cluster.data.mkdir(mode=0o700)
        self.walg(name, cluster, "backup-fetch", cluster.data, backup)
        conf = f"unix_socket_directories = '{cluster.home}'\nrestore_command = '{self.command(name, 'wal-fetch', '%f', '%p')}'"
        self.recover(cluster, conf, target)
        return cluster

    def details(self, name, cluster):
        return json.loads(self.walg(name, cluster, "backup-list", "--json", "--detail").stdout)

    def test_backup_and_point_in_time(self):
        source = self.made("encrypted", True)
        self.assertEqual(self.shown("encrypted"), {})
        for target, batches in [("between", 2), ("", 3)]:
            with self.subTest(target=target):
                cluster = self.restored("encrypted", source, "LATEST", target)
                self.assert_rows(cluster, batches)
                self.assert_sound(cluster)

    def test_a_plain_repository_shows_it_all(self):
        source = self.made("plain", False)
        self.assertNotEqual(self.shown("plain"), {})
        self.assert_rows(self.restored("plain", source, "LATEST", "between"), 2)

    def test_deltas(self):
        """Of a file that changed they hold, of the plain cluster, the pages that changed, of the encrypted one all. Both restore."""
        plain, encrypted = self.delta("plain"), self.delta("encrypted")
        self.assertLess(plain, PAGES // 10)
        self.assertGreater(encrypted, PAGES)

    def test_deltas_by_wal(self):
        """Encrypted WAL does not say which pages changed, so WAL-G looks at the pages."""
        self.assertGreater(self.delta("encrypted", WALG_USE_WAL_DELTA="true"), PAGES)

    def delta(self, name, **settings):
        """How many bytes of the table a delta backup holds after one row has changed; the rows were restored from it."""
        self.more = settings
        source = self.made(name, name == "encrypted")
        source.psql("VACUUM t; CHECKPOINT")  # for hint bits change pages, too
        self.walg(name, source, "backup-push", "--full", source.data)
        self.archived(source)
        source.psql("UPDATE t SET word = 'changed' WHERE i = 1; CHECKPOINT")
        self.archived(source)
        self.walg(name, source, "backup-push", source.data)
        delta = max(self.details(name, source), key=lambda backup: backup["time"])
        self.assertIn("_D_", delta["backup_name"])
        self.archived(source)
        cluster = self.restored(name, source, "LATEST", "")
        self.assert_rows(cluster, 3)
        self.assertEqual(cluster.psql("SELECT i FROM t WHERE word = 'changed'"), "1")
        if name == "encrypted":
            self.assert_sound(cluster)
        return delta["uncompressed_size"]

    def test_page_checks(self):
        """They take every page for damaged."""
        source = self.made("encrypted", True)
        done = self.walg("encrypted", source, "backup-push", "--full", "--verify", source.data)
        self.assertIn(f"Invalid page header encountered: blockNo 0, path {source.data}/base/", done.stderr)


@unittest.skipUnless(PG_RMAN, "PGSEAL_TEST_PG_RMAN names no pg_rman")
class PgRman(Tool):
    def archive(self, name):
        return self.directory / f"{name}.archive"

    def rman(self, name, cluster, *arguments, view=True, check=True):
        """In a view of pg_control, if the cluster is encrypted."""
        places = ["-D", cluster.data, "-A", self.archive(name), "-B", self.backups(name)]
        viewed = [PGSEAL, "exec", "--view=backup", "-D", cluster.data, "--"] if cluster.sealed and view else []
        environment = {**cluster.environment, "PATH": f"{cluster.bindir}:/usr/bin:/bin"}
        return run([*viewed, PG_RMAN, *arguments, *places], environment, check=check)

    def made(self, name, sealed):
        self.archive(name).mkdir()
        cluster = self.archiving(name, sealed, f"cp %p {self.archive(name)}/%f")
        self.rman(name, cluster, "init")
        self.rman(name, cluster, "backup", "--backup-mode=full")
        self.rman(name, cluster, "validate")
        self.insert(cluster, ROWS)
        cluster.psql("SELECT pg_create_restore_point('between')")
        return cluster

    def restored(self, name, source, target, view=True):
        """The cluster itself, as pg_rman restores it, running."""
        source.stop()
        self.rman(name, source, "restore", view=view)
        self.recover(source, "", target)

    def test_backup_and_point_in_time(self):
        """Full and incremental backups of both clusters."""
        for name in ("plain", "encrypted"):
            with self.subTest(name):
                source = self.made(name, name == "encrypted")
                self.insert(source, 2 * ROWS)
                self.archived(source)
                self.assertEqual(self.canaries.found(self.backups(name)) == {}, source.sealed)
                self.restored(name, source, "between")
                self.assert_rows(source, 2)
                if source.sealed:
                    self.assert_sound(source)

    def test_incremental_backups(self):
        """Of a file that changed they hold, of the plain cluster, the pages that changed, of the encrypted one all. Both restore."""
        plain, encrypted = self.incremental("plain"), self.incremental("encrypted")
        self.assertLess(plain, PAGES // 10)
        self.assertGreater(encrypted, PAGES)

    def incremental(self, name):
        """How many bytes of the table an incremental backup holds after one row has changed; the rows were restored from it."""
        source = self.made(name, name == "encrypted")
        self.insert(source, 2 * ROWS)
        source.psql("VACUUM t; CHECKPOINT")  # for hint bits change pages, too
        self.rman(name, source, "backup", "--backup-mode=full")
        self.rman(name, source, "validate")
        source.psql("UPDATE t SET word = 'changed' WHERE i = 1; CHECKPOINT")
        self.rman(name, source, "backup", "--backup-mode=incremental")
        self.rman(name, source, "validate")
        table = source.psql("SELECT pg_relation_filepath('t')")
        size = max(self.backups(name).glob(f"*/*/database/{table}")).stat().st_size
        self.archived(source)
        self.restored(name, source, "")
        self.assert_rows(source, 3)
        self.assertEqual(source.psql("SELECT i FROM t WHERE word = 'changed'"), "1")
        return size

    def test_without_the_view(self):
        """It warns, takes the cluster for one without checksums, and goes on; what it copies is good all the same."""
        source = self.made("encrypted", True)
        done = self.rman("encrypted", source, "backup", "--backup-mode=full", view=False)
        self.assertIn("WARNING: control file appears to be corrupt", done.stderr)
        self.rman("encrypted", source, "validate")
        self.archived(source)
        self.restored("encrypted", source, "", view=False)
        self.assert_rows(source, 2)
        self.assert_sound(source)


if __name__ == "__main__":
    main(__file__)
