#!/usr/bin/env python3
"""The volume is taken out of sight under a running server (umount --lazy): what it goes on to write is not in clear.

Then the working directory has no path, and no name below it says what cluster it belongs to.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import TIME_LIMIT, Canaries, Case, run  # noqa: E402
from small_disk import main, needs_mounts  # noqa: E402


@needs_mounts
class Unmounted(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()

    def served_from_a_volume(self, name, sealed):
        """(server, a handle on its data directory, a session that has all it needs in its caches)"""
        cluster = self.cluster(name, sealed=sealed, initdb=["--wal-segsize=1"],
                               conf="min_wal_size = 2MB\nmax_wal_size = 300MB\nwal_recycle = off\nautovacuum = off\n")
        cluster.data.mkdir()
        run(["mount", "-t", "tmpfs", "-o", "size=300m,mode=700", "none", cluster.data])
        cluster.init().start()
        handle = os.open(cluster.data, os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, handle)
        session = cluster.session()
        session.stdin.write("CREATE TABLE t (w text); INSERT INTO t SELECT 'warm' || i FROM generate_series(1, 20000) i;\n"
                            "SELECT count(*) FROM t;\n")
        self.assertEqual(session.stdout.readline(), "20000\n")
        run(["umount", "--lazy", cluster.data])
        return cluster, handle, session

    def written(self, handle, session):
        """What the session says to 30,000 rows more, and the canaries on the volume."""
        said, _ = session.communicate(f"INSERT INTO t SELECT '{self.canaries['row']}' || i FROM generate_series(1, 30000) i;\n"
                                      "SELECT 'done';\n", TIME_LIMIT)
        return said, self.canaries.found(Path(f"/proc/self/fd/{handle}"))

    def test_nothing_is_in_clear(self):
        _, handle, session = self.served_from_a_volume("sealed", sealed=True)
        said, found = self.written(handle, session)
        self.assertEqual(found, {})
        self.assertRegex(said, "ERROR|PANIC|server closed the connection")
        self.assertNotIn("done", said)

    def test_a_plain_server_goes_on(self):
        _, handle, session = self.served_from_a_volume("plain", sealed=False)
        said, found = self.written(handle, session)
        self.assertEqual(said, "done\n")
        self.assertIn("row", found)


if __name__ == "__main__":
    main(__file__)
