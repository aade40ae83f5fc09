#!/usr/bin/env python3
"""What the evaluator's audit log says of what statements did with cells, the right that every session has too: comparing."""

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import INSTALLED, TOOLS, Confidential  # noqa: E402
from pgseal_test import main, run  # noqa: E402

ROWS = 5000
QUERIES = 100
TABLE = f"""SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE numbers AS SELECT g, encdb.enc_int4_encrypt(g * 7 % {ROWS}) AS k FROM generate_series(1, {ROWS}) g;
"""
KINDS = ["compared", "hashed", "ranked"]


class Audit(Confidential):
    def counted(self, name, setup, statement, conf=""):
        """The log's counts of cells after this statement, in a session that has no grant, and how many rows it gave."""
        records, rows = self.records_of(name, setup, statement, conf)
        counts = Counter()
        for record in records:
            if record["event"] == "cells":
                counts.update({kind: record[kind] for kind in KINDS})
        return [counts[kind] for kind in KINDS], rows

    def records_of(self, name, setup, statement, conf=""):
        """The records of the session without a grant that ran this statement, and what it printed."""
        directory = self.directory / f"{name}.logs"
        directory.mkdir()
        evaluator = self.evaluator(name, ["--log", directory])
        server = self.server(name, form="isolated", socket=evaluator.socket, conf=f"autovacuum = off\n{conf}")
        self.as_owner(server, TABLE + setup)
        rows = self.as_owner(server, statement, operations="none")
        server.stop()
        evaluator.process.terminate()
        self.assertEqual(evaluator.process.wait(), 0)
        records = self.records(directory)
        session = [record["session"] for record in records if record["event"] == "open"][-1]
        records = [record for record in records if record.get("session") == session]
        self.assertEqual([record for record in records if record["event"] == "use"], [], "nothing was granted")
        logs = sorted(directory.glob("evaluator-*.log"))
        self.assertIn("records, head", run([INSTALLED / "pgseal-evaluator", "log", "verify", *logs]).stdout)
        return records, rows.strip()

    def records(self, directory):
        return [json.loads(line) for log in sorted(directory.glob("*.log")) for line in log.read_text().splitlines()]

    def test_a_filter_drops_rows_for_those_behind_it(self):
        (compared, hashed, ranked), rows = self.counted(
            "filter", "CREATE TABLE probe AS SELECT encdb.enc_int4_encrypt(100) AS k;", "SELECT k AS hundred FROM probe \\gset\nSELECT count(*) FROM numbers WHERE k < :'hundred' AND (k <> k OR k = :'hundred');", "max_parallel_workers_per_gather = 0")
        self.assertEqual((rows, hashed, ranked), ("0", 0, 0))
        # Two cells a comparison: each row once, and twice more for the hundred that are left.
        self.assertEqual(compared, 2 * (ROWS + 2 * 100))

    def test_a_sort_counts_every_row(self):
        (compared, hashed, ranked), rows = self.counted(
            "sort", "", "SELECT count(*) FROM (SELECT k FROM numbers ORDER BY k OFFSET 0) s;", "max_parallel_workers_per_gather = 0")
        self.assertEqual((rows, hashed), (str(ROWS), 0))
        # Batches are ranked, cell by cell; their merging compares.
        self.assertGreaterEqual(ranked + compared, ROWS)
        self.assertGreaterEqual(ranked, ROWS)

    def test_a_scan_a_hash_and_an_extreme_count_each_row(self):
        plain = "max_parallel_workers_per_gather = 0\nenable_sort = off"
        statement = """SELECT count(*) FROM (SELECT k FROM numbers GROUP BY k) g;"""
        (_, hashed, ranked), rows = self.counted("hash", "", statement, plain)
        self.assertEqual((rows, hashed, ranked), (str(ROWS), ROWS, 0))
        statement = "SELECT count(*) FROM numbers WHERE k = (SELECT k FROM numbers WHERE g = 1);"
        (compared, hashed, ranked), rows = self.counted("scan", "", statement, plain)
        self.assertEqual((rows, compared, hashed, ranked), ("1", 2 * ROWS, 0, 0))
        (_, hashed, ranked), _ = self.counted("extreme", "", "SELECT max(k) IS NULL FROM numbers;", plain)
        self.assertEqual((hashed, ranked), (0, ROWS))

    def test_parallel_workers_count_for_their_session(self):
        conf = "parallel_setup_cost = 0\nparallel_tuple_cost = 0\nmin_parallel_table_scan_size = 0"
        statement = "SELECT count(*) FROM numbers WHERE k = (SELECT k FROM numbers WHERE g = 1);"
        (compared, _, _), rows = self.counted("workers", "", statement, conf)
        self.assertEqual((rows, compared), ("1", 2 * ROWS))

    def test_parallel_queries_are_one_record_a_second(self):
        """However many workers there are: they are counted with their leader, and no count is lost."""
        conf = "parallel_setup_cost = 0\nparallel_tuple_cost = 0\nmin_parallel_table_scan_size = 0\nparallel_leader_participation = off"
        # 40 pages, so that there is work for several.
        setup = "CREATE TABLE few WITH (fillfactor = 10, parallel_workers = 2) AS SELECT * FROM numbers LIMIT 300;"
        statement = "SELECT count(*) FROM few WHERE k >= k;\n"
        records, _ = self.records_of("many", setup, statement * QUERIES, conf)
        workers = [record for record in records if record["event"] == "worker"]
        cells = [record for record in records if record["event"] == "cells"]
        self.assertEqual(sum(record["compared"] for record in cells), 2 * 300 * QUERIES)
        self.assertGreaterEqual(sum(record["count"] for record in workers), QUERIES)
        end = next(record["record"] for record in records if record["event"] == "close")
        for kind in [workers, cells]:
            # The first has a record at once, and the last at the session's end.
            within = [record["time"] // 1000000 for record in kind if record["record"] < end]
            seconds = Counter(within[1:-1])
            self.assertEqual(set(seconds.values()) - {1}, set(), seconds)

    def test_a_descent_in_kept_pages_is_counted(self):
        setup = "CREATE EXTENSION encdb_btree; CREATE INDEX ON numbers (k);"
        lookup = "SELECT count(*) FROM numbers WHERE k = (SELECT k FROM numbers WHERE g = 1);\n"
        one, _ = self.counted("descent", setup, f"SET enable_seqscan = off;{lookup}")
        four, _ = self.counted("descents", setup, f"SET enable_seqscan = off;{lookup * 4}")
        self.assertGreaterEqual(one[0], 2 * 8)
        self.assertGreaterEqual(four[0], 3 * one[0])
        self.assertLess(four[0], ROWS, "no scan")


if __name__ == "__main__":
    main(__file__, TOOLS)
