#!/usr/bin/env python3
"""pg_rewind of sealed clusters: from a server and a directory, under one key, from a plain source and from another key."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import main  # noqa: E402
from waiting import eventually
from receiving import Receiving  # noqa: E402

OWN_KEY = ("--data-encryption", "--no-key-wrap")


class Rewind(Receiving):
    """Two clusters have parted; the target goes back to what it shares with the source, and follows that."""

    def parted(self, *options, conf="", sealed=True, granted=False, before="SELECT 1"):
        """(the primary, its standby, which was promoted): both have gone on alone, and run. `before` is SQL of before that."""
        primary = self.primary(conf=conf, sealed=sealed)
        standby = self.copy("standby")
        token = {"PGOPTIONS": f"-c pgseal.receiver={primary.token()}"} if granted else {}
        self.base_backup(primary, standby, "-R", *options, environment=token)
        if not sealed:
            standby.environment["PGSEAL_CLEAR_WAL"] = "accept"
        self.start(standby)
        primary.psql(before.replace("{word}", self.canaries["shared"]))
        self.catch_up(primary, standby)
        standby.psql("SELECT pg_promote()")
        for cluster, label in [(primary, "old"), (standby, "new")]:
            word = self.canaries[label]
            cluster.psql(f"CREATE TABLE {label} AS SELECT '{word}' || i AS w FROM generate_series(1, 1000) i; "
                         f"UPDATE t SET w = w WHERE i % 7 = 0; CHECKPOINT")
        return primary, standby

    def rewind(self, target, *options, check=True, **environment):
        """Rewinds; the target's key file must not change, whatever the source has."""
        key = (target.data / "pg_encryption/key.bin").read_bytes()
        done = target.run("pg_rewind", "-D", target.data, *options, check=check, environment=environment)
        self.assertEqual((target.data / "pg_encryption/key.bin").read_bytes(), key)
        return done

    def follow(self, source, target, label, conninfo=""):
        """The rewound target is a standby of source again."""
        target.configure(f"primary_conninfo = 'host={source.home} user=postgres {conninfo}'")
        (target.data / "postgresql.auto.conf").write_text("")
        (target.data / "standby.signal").touch()
        self.start(target)
        self.catch_up(source, target)
        self.assert_rows(target)
        self.assertEqual(target.psql(f"SELECT count(*) FROM {label}"), "1000")
        target.stop()
        self.assert_sealed(target.data)

    def test_from_a_server_of_the_same_key(self):
        primary, standby = self.parted()
        primary.stop()
        self.rewind(primary, f"--source-server=host={standby.home} user=postgres")
        self.assert_sealed(primary.data)
        self.follow(standby, primary, "new")

    def test_from_a_directory(self):
        primary, standby = self.parted()
        primary.stop()
        standby.stop()
        self.rewind(primary, f"--source-pgdata={standby.data}")
        self.assert_sealed(primary.data)
        self.start(standby)
        self.follow(standby, primary, "new")

    def archiving(self):
        """Settings of a cluster that keeps little WAL of its own, and gets the rest back with cp."""
        self.archive = self.directory / "archive"
        self.archive.mkdir()
        return (f"archive_mode = on\narchive_command = 'cp %p {self.archive}/%f'\n"
                f"restore_command = 'cp {self.archive}/%f %p'\n"
                "wal_keep_size = 0\nmax_wal_size = '32MB'\nmin_wal_size = '32MB'")

    def write_on(self, cluster, table):
        """Until what it wrote before is in the archive only."""
        for _ in range(4):
            cluster.psql(f"INSERT INTO {table} SELECT 'x'; SELECT pg_switch_wal()")
            cluster.psql("CHECKPOINT")

    def test_with_the_archive(self):
        primary, standby = self.parted(conf=self.archiving())
        self.write_on(primary, "old")
        primary.stop()
        self.rewind(primary, "-c", f"--source-server=host={standby.home} user=postgres")
        self.follow(standby, primary, "new")
        self.assert_sealed(self.archive)

    def parted_beside_an_archive_in_clear(self):
        """(a plain primary, its sealed standby, which was promoted, the segment with the last checkpoint that they share): the
        standby has that segment no more, and the primary has archived it."""
        before = ("CHECKPOINT; CREATE TABLE shared AS SELECT '{word}' || i AS w FROM generate_series(1, 100) i; "
                  "SELECT pg_switch_wal(); CREATE TABLE behind (a int)")
        primary, standby = self.parted(*OWN_KEY, conf=self.archiving(), sealed=False, before=before)
        self.write_on(standby, "new")
        eventually(lambda: "shared" in self.canaries.found(self.archive))
        [needed] = map(Path, self.canaries.found(self.archive)["shared"])
        self.assertFalse((standby.data / "pg_wal" / needed.name).exists())
        standby.stop()
        return primary, standby, needed

    def test_with_an_archive_in_clear(self):
        """pg_rewind lets a segment be written under its own name, and reads it: if clear WAL is let in, it is sealed before that."""
        primary, standby, needed = self.parted_beside_an_archive_in_clear()
        source = f"--source-server=host={primary.home} user=postgres"
        refused = self.rewind(standby, "-c", source, check=False, PGSEAL_CLEAR_WAL="")
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr.count(f"pgseal: WAL segment {needed.name} came in clear, and is refused, because"), 1)
        self.assertFalse((standby.data / "pg_wal" / needed.name).exists())
        told = self.rewind(standby, "-c", source)
        self.assertIn(f"pgseal: WAL segment {needed.name} came in clear, and is encrypted and replayed, because", told.stderr)
        self.assert_sealed(standby.data)
        standby.configure("recovery_target_timeline = '1'\nrestore_command = ''")
        self.follow(primary, standby, "old")
        self.assertEqual((standby.data / "pg_wal" / needed.name).exists(), False)

    def test_with_an_archive_of_another_key(self):
        """Told in a sentence, and nothing is rewound by it."""
        primary, standby, needed = self.parted_beside_an_archive_in_clear()
        needed.write_bytes(random.Random(1).randbytes(needed.stat().st_size))
        refused = self.rewind(standby, "-c", f"--source-server=host={primary.home} user=postgres", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr.count("pgseal: the WAL segment that restore_command brought is neither clear nor sealed "
                                              "with this cluster's key: look at the archive\n"), 1, refused.stderr)
        (standby.data / "pg_wal" / needed.name).unlink()
        standby.configure("restore_command = ''")
        self.start(standby)
        self.assertEqual(standby.psql("SELECT count(*) FROM new"), "1004")

    def test_from_a_plain_server(self):
        primary, standby = self.parted(*OWN_KEY, sealed=False)
        standby.stop()
        self.rewind(standby, f"--source-server=host={primary.home} user=postgres")
        self.assert_sealed(standby.data)
        self.follow(primary, standby, "old")

    def test_from_a_plain_directory(self):
        primary, standby = self.parted(*OWN_KEY, sealed=False)
        standby.stop()
        primary.stop()
        self.rewind(standby, f"--source-pgdata={primary.data}")
        self.assert_sealed(standby.data)
        primary.start()
        self.follow(primary, standby, "old")

    def test_of_a_plain_target(self):
        """A sealed server gives it stored bytes: it is refused, and stays as it is."""
        primary, standby = self.parted(*OWN_KEY, sealed=False)
        primary.stop()
        control = (primary.data / "global/pg_control").read_bytes()
        refused = primary.run("pg_rewind", "-D", primary.data, f"--source-server=host={standby.home} user=postgres", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("pg_rewind: error: ", refused.stderr)
        self.assertEqual((primary.data / "global/pg_control").read_bytes(), control)
        primary.start()
        self.assertEqual(primary.psql("SELECT count(*) FROM old"), "1000")

    def test_from_another_key(self):
        primary, standby = self.parted(*OWN_KEY, granted=True)
        said = {"PGOPTIONS": f"-c pgseal.receiver={primary.token()}"}
        standby.stop()
        refused = self.rewind(standby, f"--source-server=host={primary.home} user=postgres", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("the receiver token was not made under this cluster's key: take a new one from pgseal receiver grant",
                      refused.stderr)
        self.assertIn("reads sealed files as they are stored", primary.log())
        self.rewind(standby, f"--source-server=host={primary.home} user=postgres", **said)
        self.assert_sealed(standby.data)
        self.follow(primary, standby, "old", f"options=''{said['PGOPTIONS']}''")

    def test_from_a_directory_of_another_key(self):
        """Both key files lie before one program; what it brings is stored anew, under the target's key."""
        primary, standby = self.parted(*OWN_KEY, granted=True)
        table = standby.psql("SELECT pg_relation_filepath('t')")
        for cluster in (standby, primary):
            cluster.stop()
        self.rewind(standby, f"--source-pgdata={primary.data}")
        self.assertNotEqual(standby.master_key(), primary.master_key())
        self.assertNotEqual((standby.data / table).read_bytes()[:8192], (primary.data / table).read_bytes()[:8192])
        self.assert_sealed(standby.data)
        primary.start()
        self.follow(primary, standby, "old", f"options=''-c pgseal.receiver={primary.token()}''")


if __name__ == "__main__":
    main(__file__)
