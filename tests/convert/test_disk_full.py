#!/usr/bin/env python3
"""Real file systems with too little space, of a tablespace and of the data directory: a conversion is refused before anything
is changed, needs no more space than --check says, and goes on when a disk that filled up meanwhile has space again."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from converting import PLAIN_KEY, ConvertCase
from pgseal_test import PGSEAL, Canaries, run
from small_disk import fill_up, main, needs_mounts, remount, small_disk

ROWS = "SELECT count(*), sum(length(b)) FROM t"
TOO_LITTLE = r"\S+ has (\d+) bytes free, and (\d+) are needed for copies: make room, or use fewer --jobs"


@needs_mounts
class DiskFull(ConvertCase):
    def loaded(self, cluster, tablespace="pg_default"):
        """A table of ten megabytes; the server is stopped then."""
        self.canaries = Canaries()
        cluster.psql(f"CREATE TABLE t TABLESPACE {tablespace} AS SELECT '{self.canaries['row']}' || repeat('x', 900) AS b "
                     "FROM generate_series(1, 10000) i")
        self.rows = cluster.psql(ROWS)
        cluster.stop()

    def check(self, cluster, sealed, *places):
        """All rows are there, and in clear only in a plain cluster."""
        cluster.start()
        self.assertEqual(cluster.psql(ROWS), self.rows)
        cluster.stop()
        self.assertEqual(self.canaries.found(cluster.data, *places) == {}, sealed)

    def in_a_tablespace(self):
        cluster = self.cluster(sealed=False).init().start()
        disk = small_disk(self, self.directory / "disk", 16)
        cluster.psql(f"CREATE TABLESPACE small LOCATION '{disk}'")
        self.loaded(cluster, "small")
        return cluster, disk

    def test_tablespace(self):
        """The table does not fit in a second time, in whatever direction it goes."""
        cluster, disk = self.in_a_tablespace()
        for command in ["seal", "rekey", "unseal"]:
            key = [] if command == "unseal" else PLAIN_KEY
            self.refused(command, cluster, 1, TOO_LITTLE, *key)
            remount(disk, 32)
            self.convert(command, cluster, *key)
            self.check(cluster, command != "unseal", disk)
            remount(disk, 16)

    def test_data_directory(self):
        """What --check asks for is enough, with one thread; more of them need more."""
        cluster = self.cluster(sealed=False)
        disk = small_disk(self, cluster.home / "disk", 160)
        cluster.data = disk / "data"
        cluster.init().start()
        self.loaded(cluster)
        outlook = self.convert("seal", cluster, "--check", "--json", "--jobs=1", *PLAIN_KEY).stdout
        needed, = [space["needed"] for space in json.loads(outlook)["space"]]
        fill_up(disk, leave=needed + (1 << 17))
        self.refused("seal", cluster, 1, TOO_LITTLE, "--jobs=8", *PLAIN_KEY)
        self.convert("seal", cluster, "--jobs=1", *PLAIN_KEY)
        (disk / "filler").unlink()
        self.check(cluster, True)

    def test_a_disk_that_fills_up_meanwhile(self):
        """Killed when the gate was shut, so that nothing looks for space again; then the table finds none."""
        cluster, disk = self.in_a_tablespace()
        remount(disk, 32)
        seal = [PGSEAL, "seal", "-D", cluster.data, "--jobs=1", *PLAIN_KEY]
        number = 0
        while (cluster.data / "global/pg_control").exists():
            number += 1
            kill = ["-e", "trace=fsync", "-e", f"inject=fsync:signal=KILL:when={number}"]
            run(["strace", "-qq", "-o", "/dev/null", *kill, *seal], check=False)
        remount(disk, 16)
        done = self.convert("seal", cluster, "--jobs=1", *PLAIN_KEY, code=3)
        self.assertRegex(done.stderr, r"^pgseal: cannot make a copy of pg_tblspc/\S+ \(No space left on device\): nothing is lost; "
                         "fix that and run `pgseal seal` again\n$")
        self.assertEqual(list(disk.rglob("*.part")), [])
        self.assertNotEqual(self.canaries.found(disk), {})
        remount(disk, 32)
        self.convert("seal", cluster, *PLAIN_KEY)
        self.check(cluster, True, disk)


if __name__ == "__main__":
    main(__file__)
