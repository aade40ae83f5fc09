#!/usr/bin/python3
"""PostgreSQL gives one number to two relations of a database, in two tablespaces, when its counter of object ids comes round: they
have one key, which docs/threat-model.md says and `pgseal verify` says.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, main, run

ROWS = "SELECT i, md5(i::text) AS word FROM generate_series(1, 1000) i"


class OneKey(Case):
    def file(self, cluster, table):
        return cluster.psql(f"SELECT pg_relation_filepath('{table}')")

    def shared(self, cluster):
        """What `pgseal verify` warns of; the cluster is good."""
        report = json.loads(run([PGSEAL, "verify", "-D", cluster.data, "--json"]).stdout)
        self.assertEqual(report["bad"], [])
        return report["shared"]

    def test_one_number_in_two_tablespaces(self):
        cluster = self.cluster(tablespaces=["space"]).init().start()
        cluster.psql(f"CREATE TABLESPACE space LOCATION '{cluster.home}/space'")
        cluster.psql(f"CREATE TABLE one AS {ROWS}")
        cluster.psql(f"TRUNCATE one; INSERT INTO one {ROWS}")  # a number that is no relation's object id
        one = self.file(cluster, "one")
        cluster.stop()
        self.assertEqual(self.shared(cluster), [])
        number = one.rsplit("/", 1)[1]
        cluster.run("pg_resetwal", "-D", cluster.data, "-o", number)  # as after four billion more
        cluster.start().psql(f"CREATE TABLE two TABLESPACE space AS {ROWS}; CHECKPOINT")
        two = self.file(cluster, "two")
        cluster.stop()
        self.assertEqual(two.rsplit("/", 1)[1], number)
        self.assertEqual([shared["files"] for shared in self.shared(cluster)], [[one, two]])
        said = run([PGSEAL, "verify", "-D", cluster.data]).stdout
        self.assertIn(f"warning: {one} and {two}: one key, so a copy shows where they are equal", said)
        self.assertGreater(self.equal_blocks(cluster, one, two), 100)
        cluster.start().psql("VACUUM FULL two; CHECKPOINT")
        two = self.file(cluster, "two")
        cluster.stop()
        self.assertEqual(self.shared(cluster), [])
        self.assertEqual(self.equal_blocks(cluster, one, two), 0)

    def equal_blocks(self, cluster, *files):
        """How many stored blocks of 16 bytes two files have in common, at equal places."""
        one, two = ((cluster.data / file).read_bytes() for file in files)
        return sum(one[at : at + 16] == two[at : at + 16] for at in range(0, min(len(one), len(two)), 16))


if __name__ == "__main__":
    main(__file__)
