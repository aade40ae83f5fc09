#!/usr/bin/env python3
"""file_extend_method, which minors since February 2026 have: relations that grow by posix_fallocate, and by zeros that are written.

What is allocated is a hole, which reads as zeros; zeros that are written are encrypted. Either is a new page to the server, also after
a crash that leaves such pages at the end of a relation.
"""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import COMPLAINT, PG, PGSEAL, Canaries, Case, main, run  # noqa: E402

PAGE = 8192
ROWS = 40_000


def has_setting():
    asked = ["-C", "file_extend_method", "-D", "/", "-c", "config_file=/dev/null"]
    return run([PG / "postgres", *asked], check=False).returncode == 0


@unittest.skipUnless(has_setting(), "this PostgreSQL has no file_extend_method")
class FileExtendMethod(Case):
    def test_posix_fallocate(self):
        self.assertGreater(self.zero_pages("posix_fallocate"), 0)

    def test_write_zeros(self):
        """None of the pages is stored zeros, so nobody who zeroes one hides among them."""
        self.assertEqual(self.zero_pages("write_zeros"), 0)

    def zero_pages(self, method):
        """Fills a table by COPY, which makes up to 64 pages at once; returns how many are stored zeros after a crash."""
        canaries = Canaries()
        conf = f"file_extend_method = {method}\nautovacuum = off\n"
        cluster = self.cluster(conf=conf).init().start()
        rows = "".join(f"{i}\t{canaries['row']}{i}\n" for i in range(ROWS))
        cluster.psql("CREATE TABLE t (i int, word text); CREATE UNLOGGED TABLE u (i int, word text);")
        for _ in range(2):
            cluster.psql(f"COPY t FROM STDIN;\n{rows}\\.\nCOPY u FROM STDIN;\n{rows}\\.\n")
        file = cluster.data / cluster.psql("SELECT pg_relation_filepath('t')")
        empty = int(cluster.psql("CREATE EXTENSION pageinspect; SELECT count(*) FROM generate_series(0, "
                                 f"{file.stat().st_size // PAGE - 1}) AS n WHERE page_header(get_raw_page('t', n::int)) = "
                                 "page_header(decode(repeat('00', 8192), 'hex'))"))
        self.assertGreater(empty, 0, "COPY has filled all pages that it made, so that none is new")
        cluster.kill9()
        crashed = self.verified(cluster)
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), count(DISTINCT word) FROM t"), f"{2 * ROWS}|{ROWS}")
        self.assertEqual(cluster.psql("SELECT count(*) FROM u"), "0")
        cluster.psql(f"COPY t FROM STDIN;\n{rows}\\.\n")
        cluster.run("pg_amcheck", "--install-missing", "--all")
        cluster.stop()
        self.verified(cluster)
        self.assertEqual(canaries.found(cluster.data), {})
        self.assertNotRegex(cluster.log(), rf"{COMPLAINT}|invalid page|PANIC")
        return crashed["relations"]["zero_pages"]

    def verified(self, cluster):
        done = run([PGSEAL, "verify", "-D", cluster.data, "--json"])
        report = json.loads(done.stdout)
        self.assertEqual(report["bad"], [])
        return report


if __name__ == "__main__":
    main(__file__)
