#!/usr/bin/env python3
"""Debian's further checkers on a sealed cluster, as docs/verify.md says: pg_checksums_ext by its wrapper, which sees what is really
damaged and nothing else, beside a running server too; pg_catcheck, which asks the server."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PG, PGSEAL, Case, main, run


@unittest.skipUnless((PG / "pg_checksums_ext").exists(), "Debian has these for its own PostgreSQL")
class Checkers(Case):
    def setUp(self):
        super().setUp()
        self.main = self.cluster().init().start()
        self.main.psql("CREATE TABLE t AS SELECT i, 'word ' || i AS word FROM generate_series(1, 20000) i; CHECKPOINT")
        self.relation = self.main.data / self.main.psql("SELECT pg_relation_filepath('t')")

    def checksums(self, *command):
        """Exit status, and the number of bad blocks that it says."""
        done = run([*command, "-D", self.main.data], check=False)
        counts = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("Bad checksums:")]
        return done.returncode, counts, done.stderr

    def damage(self):
        """One bit in the middle of the table's second page."""
        with open(self.relation, "r+b") as file:
            file.seek(8192 + 4096)
            byte, = file.read(1)
            file.seek(8192 + 4096)
            file.write(bytes([byte ^ 1]))

    def test_pg_checksums_ext(self):
        twin, sealed = [self.main.bindir / "pg_checksums_ext"], [PGSEAL, "exec", "--", PG / "pg_checksums_ext"]
        self.assertEqual(self.checksums(*twin), (0, ["0"], ""))
        self.main.stop()
        self.assertEqual(self.checksums(*twin), (0, ["0"], ""))
        self.assertEqual(self.checksums(*sealed), (0, ["0"], ""))
        self.damage()
        for command in [twin, sealed]:
            status, bad, said = self.checksums(*command)
            self.assertEqual((status, bad), (1, ["1"]))
            self.assertRegex(said, f'checksum verification failed in file "{self.relation}", block 1:')
        self.main.start()
        self.assertEqual(self.checksums(*twin)[:2], (1, ["1"]))

    def test_the_stock_program_reads_nothing(self):
        self.main.stop()
        status, bad, said = self.checksums(PG / "pg_checksums_ext")
        self.assertEqual((status, bad, said), (1, [], "pg_checksums_ext: error: pg_control CRC value is incorrect\n"))

    def test_pg_catcheck(self):
        for bindir in [self.main.bindir, PG]:
            done = run([bindir / "pg_catcheck", "postgres"], self.main.environment)
            self.assertIn("done (0 inconsistencies, 0 warnings, 0 errors)", done.stdout)
        self.main.psql("SET allow_system_table_mods = on; DELETE FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum = 2")
        for bindir in [self.main.bindir, PG]:
            done = run([bindir / "pg_catcheck", "postgres"], self.main.environment, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn('relname="t"', done.stdout)


if __name__ == "__main__":
    main(__file__)
