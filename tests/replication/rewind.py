#!/usr/bin/env python3
"""pg_rewind of sealed clusters: from a server and a directory, under one key, from a plain source and from another key."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import main  # noqa: E402
from receiving import Receiving  # noqa: E402

OWN_KEY = ("--data-encryption", "--no-key-wrap")


class Rewind(Receiving):
    """Two clusters have parted; the target goes back to what it shares with the source, and follows that."""

    def parted(self, *options, conf="", sealed=True, granted=False):
        """(the primary, its standby, which was promoted): both have gone on alone, and run."""
        primary = self.primary(conf=conf, sealed=sealed)
        standby = self.copy("standby")
        token = {"PGOPTIONS": f"-c pgseal.receiver={primary.token()}"} if granted else {}
        self.base_backup(primary, standby, "-R", *options, environment=token)
        self.start(standby)
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

    def test_with_the_archive(self):
        archive = self.directory / "archive"
        archive.mkdir()
        conf = (f"archive_mode = on\narchive_command = 'cp %p {archive}/%f'\nrestore_command = 'cp {archive}/%f %p'\n"
                "wal_keep_size = 0\nmax_wal_size = '32MB'\nmin_wal_size = '32MB'")
        primary, standby = self.parted(conf=conf)
        for _ in range(4):
            primary.psql("INSERT INTO old SELECT 'x'; SELECT pg_switch_wal()")
            primary.psql("CHECKPOINT")
        primary.stop()
        self.rewind(primary, "-c", f"--source-server=host={standby.home} user=postgres")
        self.follow(standby, primary, "new")
        self.assert_sealed(archive)

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


if __name__ == "__main__":
    main(__file__)
