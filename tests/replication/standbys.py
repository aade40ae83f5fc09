#!/usr/bin/env python3
"""Standbys: sealed under the primary's key or their own, behind another standby, and of a plain primary."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import main, major_version  # noqa: E402
from waiting import eventually
from receiving import Receiving  # noqa: E402


class Standbys(Receiving):
    """Rows follow, and nothing of them is readable where they arrive."""

    def standby(self, primary, name, *options, **more):
        """A running standby of primary, made by pg_basebackup -R."""
        standby = self.copy(name)
        self.base_backup(primary, standby, "-R", *options, **more)
        return self.start(standby)

    def assert_follows(self, primary, *standbys):
        """What is written now is on every standby soon, sealed."""
        word = self.canaries["later"]
        primary.psql(f"CREATE TABLE later AS SELECT '{word}' || i AS w FROM generate_series(1, 1000) i")
        for standby in standbys:
            self.catch_up(primary, standby)
            self.assert_rows(standby)
            self.assertEqual(standby.psql("SELECT count(*) FROM later"), "1000")
            standby.psql("CHECKPOINT")
        self.assert_sealed(*(standby.data for standby in standbys))

    def test_of_the_same_key_and_behind_another(self):
        primary = self.primary()
        first = self.standby(primary, "first")
        self.assertNotIn("pgseal.receiver", (first.data / "postgresql.auto.conf").read_text())
        self.assertNotIn("pgseal.receiver", first.psql("SELECT conninfo FROM pg_stat_wal_receiver"))
        second = self.standby(first, "second")
        self.assert_follows(primary, first, second)
        primary.stop()
        first.psql("SELECT pg_promote()")
        first.psql("INSERT INTO later SELECT 'x'")
        self.catch_up(first, second)
        self.assertEqual(second.psql("SELECT count(*) FROM later"), "1001")

    def test_a_new_token_at_each_connection(self):
        primary = self.primary()
        standby = self.standby(primary, "standby")
        self.catch_up(primary, standby)
        primary.stop()
        primary.start()
        self.assert_follows(primary, standby)

    def test_under_its_own_key_with_a_granted_token(self):
        primary = self.primary()
        primary.psql("CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
        granted = {"PGOPTIONS": f"-c pgseal.receiver={primary.token()}"}
        own = ("--data-encryption", "--no-key-wrap")
        standby = self.standby(primary, "standby", *own, environment=granted)
        self.assertIn("pgseal.receiver=v1.", (standby.data / "postgresql.auto.conf").read_text())
        self.assertNotEqual(standby.master_key(), primary.master_key())
        self.assert_follows(primary, standby)
        self.assert_hidden(standby)

    def test_a_granted_token_in_a_service_file(self):
        """Monitors read primary_conninfo, but not this."""
        primary = self.primary()
        primary.psql("CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
        own = ("--data-encryption", "--no-key-wrap")
        granted = {"PGOPTIONS": f"-c pgseal.receiver={primary.token()}"}
        standby = self.copy("standby")
        self.base_backup(primary, standby, *own, environment=granted)
        services = self.directory / "services"
        services.write_text(f"[primary]\nhost={primary.home}\nuser=postgres\noptions={granted['PGOPTIONS']}\n")
        standby.configure("primary_conninfo = 'service=primary'")
        (standby.data / "standby.signal").touch()
        standby.environment["PGSERVICEFILE"] = str(services)
        self.start(standby)
        self.assert_follows(primary, standby)
        self.assert_hidden(standby)
        self.assertEqual(standby.psql("SHOW primary_conninfo", user="monitor"), "service=primary")

    def assert_hidden(self, standby):
        """What a monitor is shown of the connection has no token in it, and is the rest of it."""
        primary = "SELECT conninfo ~ 'user=postgres', conninfo ~ 'pgseal.receiver|v1[.][0-9]{9}' FROM pg_stat_wal_receiver"
        self.assertEqual(standby.psql(primary, user="monitor"), "t|f")

    def test_under_its_own_key_without_one(self):
        primary = self.primary()
        standby = self.copy("standby")
        self.base_backup(primary, standby, "-R", "--data-encryption", "--no-key-wrap")
        self.start(standby)
        primary.psql("CREATE TABLE later (a int)")
        self.wait_for_log(standby, "was not made under this cluster's key")
        self.assertEqual(standby.psql("SELECT to_regclass('later') IS NULL"), "t")

    def test_of_a_plain_primary_then_promoted(self):
        primary = self.primary(sealed=False)
        standby = self.standby(primary, "standby", "--data-encryption", "--no-key-wrap")
        self.assert_follows(primary, standby)
        primary.stop()
        standby.psql("SELECT pg_promote()")
        standby.psql("INSERT INTO later SELECT 'x'")
        standby.psql("CHECKPOINT")
        standby.kill9()
        self.start(standby)
        self.assertEqual(standby.psql("SELECT count(*) FROM later"), "1001")
        standby.stop()
        self.assert_sealed(standby.data)

    def test_roles_that_need_quotes(self):
        primary = self.primary()
        role = r"a \ 'b'.c"
        quoted = role.replace("'", "''")
        primary.psql(f"DO $$ BEGIN EXECUTE format('CREATE ROLE %I REPLICATION LOGIN', '{quoted}'); END $$")
        standby = self.standby(primary, "standby", "-U", role)
        self.assert_follows(primary, standby)
        self.assertEqual(primary.psql("SELECT usename FROM pg_stat_replication"), role)

    @unittest.skipIf(major_version() < 17, "PostgreSQL has pg_createsubscriber from 17 on")
    def test_a_standby_becomes_a_subscriber(self):
        primary = self.primary(conf="wal_level = logical\nmax_replication_slots = 8")
        standby = self.standby(primary, "standby")
        self.catch_up(primary, standby)
        standby.stop()
        publisher = f"host={primary.home} user=postgres dbname=postgres"
        standby.run("pg_createsubscriber", "-D", standby.data, "-P", publisher, "-d", "postgres", "-s", standby.home)
        self.start(standby)
        self.assert_rows(standby)
        primary.psql(f"INSERT INTO t VALUES (0, '{self.canaries['logical']}')")
        eventually(lambda: standby.psql("SELECT count(*) FROM t WHERE i = 0") == "1", lambda: standby.log()[-2000:])
        standby.stop()
        self.assert_sealed(standby.data)

    def test_without_its_key(self):
        primary = self.primary()
        standby = self.copy("standby")
        self.base_backup(primary, standby, "-R")
        key = standby.data / "pg_encryption/key.bin"
        kept = key.read_bytes()
        key.unlink()
        self.assertEqual(standby.try_start("-k", str(standby.home)), 5)
        self.assertIn("key.bin is missing: restore it from a copy", standby.log())
        other = self.cluster("other")
        other.init()
        key.write_bytes((other.data / "pg_encryption/key.bin").read_bytes())
        self.assertEqual(standby.try_start("-k", str(standby.home)), 7)
        self.assertIn("is another cluster's: restore this cluster's own pg_encryption", standby.log())
        key.write_bytes(kept)
        self.start(standby)
        self.assert_follows(primary, standby)


if __name__ == "__main__":
    main(__file__)
