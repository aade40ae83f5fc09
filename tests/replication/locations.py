#!/usr/bin/env python3
"""Tablespaces whose location is in a data directory, or in another tablespace: copies start, have all rows, and show nothing.

PostgreSQL warns of the first and allows both. Where such a file is says nothing about it: the links in pg_tblspc do.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import PGSEAL, main, major_version, run  # noqa: E402
from receiving import Receiving  # noqa: E402


class Locations(Receiving):
    def mapped(self, primary, copy, location, *options):
        """A copy of primary, with its tablespace `one` at location, is sealed and whole, and so are copies of it."""
        self.base_backup(primary, copy, "-T", f"{primary.home / 'one'}={location}", *options)
        self.assert_whole(copy, "t_one", location)

    def assert_whole(self, copy, table, *places):
        """It shows nothing, verifies, and has all rows; so does a copy of it that is taken from its server."""
        self.assert_sealed(copy.data, *places)
        # That the tablespace is there is not in the manifest, of a plain cluster either.
        copy.run("pg_verifybackup", *[f"-i{place.relative_to(copy.data)}" for place in places], copy.data)
        self.start(copy)
        self.assert_rows(copy, table)
        again = self.copy(f"{copy.home.name}again")
        mapping = [f"-T{place}={again.home / place.name}" for place in places]
        self.base_backup(copy, again, *mapping)
        copy.stop()
        self.assertEqual(run([PGSEAL, "verify", "-D", copy.data], check=False).returncode, 0)
        self.start(again)
        self.assert_rows(again, table)
        again.stop()
        self.assert_sealed(again.home, copy.home)

    def test_mapped_into_the_copy_of_a_plain_server(self):
        primary = self.primary(tablespaces=("one",), sealed=False)
        for number, name in enumerate(["one", "pg_ts", "log/ts"]):
            with self.subTest(name=name):
                copy = self.copy(f"copy{number}")
                self.mapped(primary, copy, copy.data / name, "-y", "--no-key-wrap")

    def test_mapped_into_the_copy_of_a_sealed_server(self):
        primary = self.primary(tablespaces=("one",))
        for name in ["one", "pg_ts"]:
            with self.subTest(name=name):
                copy = self.copy(f"copy_{name}")
                self.mapped(primary, copy, copy.data / name)

    def assert_copied(self, places):
        """Tablespaces made at these places, {name: path below a new server's home}, reach a copy of it."""
        primary = self.primary()
        copy, mapping = self.copy("copy"), []
        for name, place in places.items():
            location = primary.home / place
            location.mkdir(parents=True, exist_ok=True)
            primary.psql(f"SET client_min_messages = error; CREATE TABLESPACE {name} LOCATION '{location}'; "
                         f"CREATE TABLE t_{name} TABLESPACE {name} AS TABLE t; CHECKPOINT")
            mapping += ["-T", f"{location}={copy.home / name}"]
        self.base_backup(primary, copy, *mapping)
        self.assert_sealed(copy.home, primary.home)
        copy.run("pg_verifybackup", copy.data)
        self.start(copy)
        for name in places:
            self.assert_rows(copy, f"t_{name}")

    def test_within_the_data_directory_of_the_server(self):
        self.assert_copied({"ts": "data/ts", "other": "data/pg_ts"})

    def test_one_within_another(self):
        """Made from the outside in and from the inside out: directories list their links in some order of their own."""
        self.assert_copied({"a1": "a", "a2": "a/b", "a3": "a/b/b", "c3": "c/d/d", "c2": "c/d", "c1": "c"})

    @unittest.skipIf(major_version() < 17, "PostgreSQL has incremental backups from 17 on")
    def test_combined_into_the_output(self):
        primary = self.primary(tablespaces=("one",))
        full, last, whole = self.copy("full"), self.copy("last"), self.copy("whole")
        origin = primary.home / "one"
        self.base_backup(primary, full, "-T", f"{origin}={full.data / 'one'}")
        primary.psql("UPDATE t_one SET w = w WHERE w LIKE '%7'; CHECKPOINT")
        self.base_backup(primary, last, "-T", f"{origin}={last.home / 'one'}", "-i", full.data / "backup_manifest")
        whole.run("pg_combinebackup", full.data, last.data, "-o", whole.data, "-T", f"{last.home / 'one'}={whole.data / 'one'}")
        self.assert_whole(whole, "t_one", whole.data / "one")

    def test_a_version_directory_that_no_link_leads_to(self):
        """What it holds may be a tablespace's pages, whose key nobody can tell: it is not sent as if it were clear."""
        primary = self.primary()
        stray = primary.data / "old/PG_15_202209061/5/16384"
        stray.parent.mkdir(parents=True)
        stray.write_bytes(bytes(8192))
        refused = self.base_backup(primary, self.copy("copy"), check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn('could not open file "./old/PG_15_202209061/5/16384": Input/output error', refused.stderr)
        stray.unlink()
        self.base_backup(primary, self.copy("next"))


if __name__ == "__main__":
    main(__file__)
