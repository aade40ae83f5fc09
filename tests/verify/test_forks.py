"""Torn pages of visibility and free space maps: PostgreSQL rebuilds them, so `pgseal verify` says how and not "restore"."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, main, run  # noqa: E402

PAGE = 8192


class Forks(Case):
    def setUp(self):
        super().setUp()
        self.sealed = self.cluster().init().start()
        self.sealed.psql("""
            CREATE TABLE t WITH (autovacuum_enabled = off) AS SELECT i, repeat('x', 500) FROM generate_series(1, 50000) i;
            CREATE INDEX ON t (i); DELETE FROM t WHERE i % 7 = 0; VACUUM t;""")
        self.path = self.sealed.psql("SELECT pg_relation_filepath('t')")

    def tear(self, name):
        with open(self.sealed.data / name, "r+b") as file:
            for byte in (24, 300, 2048, 8000):
                file.seek(byte)
                file.write(bytes([1]) * 16)

    def verify(self):
        """The last line, and the findings: file, block, remedy."""
        done = run([PGSEAL, "verify", "-D", self.sealed.data], check=False)
        report = json.loads(run([PGSEAL, "verify", "-D", self.sealed.data, "--json"], check=False).stdout)
        self.assertEqual(done.returncode, int(bool(report["bad"])))
        return done.stdout.splitlines()[-1], [(bad["file"], bad["block"], bad["remedy"]) for bad in report["bad"]]

    def torn(self):
        maps = [f"{self.path}_fsm", f"{self.path}_vm"]
        self.sealed.stop()
        for name in maps:
            self.tear(name)
        sentence = ("2 findings: no row is lost: VACUUM writes these maps of free space and visibility anew, or remove the "
                    "files while the server is stopped")
        self.assertEqual(self.verify(), (sentence, [(name, 0, "vacuum") for name in maps]))
        return maps

    def rows_are_right(self):
        plan = "SET enable_seqscan = off; SET enable_bitmapscan = off; "
        self.assertEqual(self.sealed.psql(plan + "SELECT count(*), count(*) FILTER (WHERE i % 7 = 0) FROM t"), "42858|0")

    def test_vacuum(self):
        self.torn()
        self.sealed.start()
        self.rows_are_right()
        self.sealed.psql("VACUUM t")
        self.rows_are_right()
        self.sealed.stop()
        self.assertEqual(self.verify(), ("nothing bad found", []))

    def test_removal(self):
        for name in self.torn():
            (self.sealed.data / name).unlink()
        self.assertEqual(self.verify(), ("nothing bad found", []))
        self.sealed.start()
        self.rows_are_right()
        self.sealed.psql("VACUUM t")
        self.rows_are_right()
        self.sealed.stop()
        self.assertEqual(self.verify(), ("nothing bad found", []))
        self.assertTrue((self.sealed.data / f"{self.path}_vm").exists())

    def test_with_damage_of_another_kind(self):
        self.torn()
        self.tear(self.path)
        done = run([PGSEAL, "verify", "-D", self.sealed.data], check=False)
        restore, maps = done.stdout.splitlines()[-2:]
        self.assertEqual((restore, maps[:22]), ("1 finding: restore this file from a backup or a standby", "2 findings: no row is "))


if __name__ == "__main__":
    main(__file__)
