#!/usr/bin/env python3
"""How often statements ask the evaluator's process: each request is two switches of the processor, so their number counts."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

NUMBERS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE numbers AS SELECT g, encdb.enc_int4_encrypt(g) AS k FROM generate_series(1, 300) g;
"""


class Requests(Confidential):
    def counts(self, server, statements, setup=""):
        """The requests of each of these statements, in one session; SQL in front of a "; " in one is not counted."""
        sql = setup
        for statement in statements:
            before, _, counted = statement.rpartition("; ")
            sql += f"{before};\nSELECT encdb.requests() AS before \\gset\n{counted} \\g /dev/null\n"
            sql += "SELECT 'requests ' || encdb.requests() - :before;\n"
        return [int(count) for count in re.findall(r"^requests (\d+)$", self.as_owner(server, sql), re.M)]

    def isolated(self, conf=""):
        return self.server(form="isolated", socket=self.evaluator().socket, conf=f"max_parallel_workers_per_gather = 0\n{conf}")

    def test_aggregates(self):
        server = self.isolated()
        self.as_owner(server, NUMBERS)
        expected = {
            "SELECT sum(k) FROM numbers WHERE g <= 100": 1,
            "SELECT avg(k) FROM numbers WHERE g <= 128": 1,
            "SELECT sum(k), avg(k) FROM numbers WHERE g <= 128": 2,
            # The last cells come with the question.
            "SELECT sum(k) FROM numbers WHERE g <= 129": 2,
            "SELECT sum(k) FROM numbers": 3,
            "SELECT sum(k) FROM numbers GROUP BY g % 10": 10,
            "SELECT sum(k) FROM numbers WHERE g < 1": 0,
            "SELECT count(k) FROM numbers": 0,
            # A window that is asked once, and one that is asked after each row: its state is made, asked nine times, and dropped.
            "SELECT sum(k) OVER () FROM numbers WHERE g <= 100": 1,
            "SELECT sum(k) OVER (ORDER BY g) FROM numbers WHERE g <= 10": 1 + 1 + 9 + 1,
        }
        self.assertEqual(dict(zip(expected, self.counts(server, expected))), expected)


if __name__ == "__main__":
    main(__file__, TOOLS)
