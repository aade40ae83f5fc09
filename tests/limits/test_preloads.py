#!/usr/bin/env python3
"""A server with a second preloaded library, before and behind pgseal's: allocators (jemalloc, tcmalloc) and libfaketime.

The wrapper puts pgseal's first. The other order is that of a server which is started without a wrapper, as by Debian's `environment` file.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Canaries, Case, main  # noqa: E402

LIBRARIES = pathlib.Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
OTHERS = [LIBRARIES / name for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "faketime/libfaketime.so.1")]


class Preloads(Case):
    def test_either_order(self):
        for other in OTHERS:
            for name, first in [("pgseal's first", True), ("pgseal's second", False)]:
                with self.subTest(library=other.name, order=name):
                    self.serve(other, first)

    def serve(self, other, first):
        canaries = Canaries()
        cluster = self.cluster(f"{other.name.split('.')[0]}-{first}", environment={"LD_PRELOAD": str(other)}).init()
        if not first:
            ours = pathlib.Path(PGSEAL).parents[1] / "lib/libpgseal.so"
            cluster.environment["LD_PRELOAD"] = f"{other}:{ours}"
            cluster.bindir = cluster.pg
        cluster.start()
        cluster.psql(f"CREATE TABLE t AS SELECT i, '{canaries['row']}' AS word FROM generate_series(1, 20000) i; CREATE INDEX ON t (i); CHECKPOINT")
        self.assertEqual(cluster.psql("SELECT count(*), max(i), min(length(word)) > 0 FROM t"), "20000|20000|t")
        maps = pathlib.Path(f"/proc/{cluster.server.pid}/maps").read_text()
        self.assertTrue(other.name in maps and "libpgseal.so" in maps)
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT sum(i) FROM t"), "200010000")
        cluster.stop()
        self.assertEqual(canaries.found(cluster.data), {})


if __name__ == "__main__":
    main(__file__)
