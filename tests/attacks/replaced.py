#!/usr/bin/env python3
"""A package is upgraded under a running server: its program is another file, or gone, and what it is called then is no name of
PostgreSQL's. It goes on as a sealed server: files, connections, backups, a crash, commands that ask about it.
"""

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PG, PGSEAL, Canaries, Case, main, run
from waiting import eventually


class Replaced(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()
        self.programs = self.directory / "programs"
        shutil.copytree(PG, self.programs)
        self.main = self.cluster(pg=self.programs, conf="wal_level = replica\n").init().start()

    def replace(self):
        """As dpkg does: the new file takes the name of the old one."""
        for name in ["postgres", "pg_ctl"]:
            shutil.copy2(self.programs / name, self.programs / f"{name}.dpkg-new")
            (self.programs / f"{name}.dpkg-new").rename(self.programs / name)

    def upgraded(self):
        postmaster = Path(f"/proc/{self.main.server.pid}/exe")
        self.assertEqual(os.readlink(postmaster), str(self.programs / "postgres"))
        self.replace()
        self.assertEqual(os.readlink(postmaster), f"{self.programs / 'postgres'} (deleted)")

    def write(self, table):
        word = self.canaries[table]
        self.main.psql(f"CREATE TABLE {table} AS SELECT i, '{word}' || i AS word FROM generate_series(1, 20000) i; CHECKPOINT; "
                          f"UPDATE {table} SET i = -i; SET work_mem = '64kB'; CREATE INDEX ON {table} (word)")

    def check(self, cluster, *tables):
        for table in tables:
            self.assertEqual(cluster.psql(f"SELECT count(*), sum(i) FROM {table}"), "20000|-200010000")

    def test_it_goes_on_sealed(self):
        self.write("before")
        self.upgraded()
        self.write("after")
        self.assertIn("running sealed", run([PGSEAL, "status", "-D", self.main.data]).stdout)
        copy = self.backup()
        self.crash_of_a_backend()
        self.check(self.main, "before", "after")
        self.main.stop()
        self.assertEqual(self.canaries.found(self.main.data, copy.data), {})
        run([PGSEAL, "verify", "-D", self.main.data])
        self.main.start()
        self.check(self.main, "before", "after")

    def backup(self):
        """Stock clients are refused as ever, and the wrapper's copy is sealed and whole."""
        stock = run([PG / "pg_basebackup", "-D", self.directory / "stock"], self.main.environment, check=False)
        self.assertIn("does not say what it may receive", stock.stderr)
        copy = self.cluster("copy")
        self.main.run("pg_basebackup", "-c", "fast", "-D", copy.data)
        copy.start("-k", str(copy.home))
        self.check(copy, "before", "after")
        copy.stop()
        return copy

    def crash_of_a_backend(self):
        """The postmaster starts the others anew, without a program of that name."""
        log = len(self.main.log())
        backend = self.main.session()
        backend.stdin.write("SELECT pg_backend_pid();\n")
        os.kill(int(backend.stdout.readline()), 9)
        eventually(lambda: "ready to accept connections" in self.main.log()[log:], lambda: self.main.log()[log:])


if __name__ == "__main__":
    main(__file__)
