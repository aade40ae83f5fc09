#!/usr/bin/env python3
"""Nothing in clear: no canary shows in a stored file of a sealed cluster, at any time of its life.

The same life is led by a plain reference, which must show every canary in the very place where the sealed one has it: else
this test would be blind. Stages: while running (sorts, joins and a slot spilling), after kill -9, after recovery, after
a clean stop.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import Canaries, Case, files_below, main
from waiting import eventually
from workload import CONF, Workload


class NothingInClear(Case):
    def test_no_canary_shows_at_any_time(self):
        canaries = Canaries()
        sealed, plain = self.life(True, canaries), self.life(False, canaries)
        for label, pattern in plain.places:
            with self.subTest(label=label, plain=pattern):
                self.assertTrue(plain.shows(label, pattern), "the plain reference does not show it: the test is blind")
        for label, pattern in sealed.places:
            with self.subTest(label=label, sealed=pattern):
                self.assertTrue(sealed.has_file(pattern), "the sealed cluster never had such a file")
        for stage, found in sealed.found.items():
            with self.subTest(stage=stage):
                self.assertEqual(found, {})
        self.assertGreater(len(plain.dump), 100000)
        self.assertEqual(next(((a, b) for a, b in zip(sealed.dump, plain.dump) if a != b), None), None)
        self.assertEqual(len(sealed.dump), len(plain.dump))

    def life(self, sealed, canaries):
        cluster = self.cluster("sealed" if sealed else "plain", sealed=sealed, conf=CONF, tablespaces=["apart"])
        cluster.init().start()
        workload = Workload(cluster, canaries)
        workload.run()
        life = Life(cluster, workload)
        life.look("running")
        cluster.kill9()
        cluster.end_sessions()
        life.look("after kill -9")
        cluster.start()
        cluster.psql(f"COMMIT PREPARED '{workload.canaries['prepared']}'")
        self.assertEqual(cluster.psql("SELECT count(*) FROM plain_rows"), "201")
        self.assertEqual(cluster.psql("INSERT INTO unlogged VALUES ('again'); SELECT word FROM unlogged"), "again")
        workload.query()
        life.dump = self.dump(cluster)
        life.look("after recovery")
        cluster.stop()
        life.look("after a clean stop")
        return life

    def dump(self, cluster):
        """The lines of pg_dump, without the word that it makes up for each dump."""
        lines = cluster.run("pg_dump").stdout.splitlines()
        return [line for line in lines if not re.match(r"\\(un)?restrict ", line)]

    def test_what_a_subscriber_collects_shows_nothing(self):
        self.assertEqual(self.collected(sealed=True), {})
        self.assertIn("streamed", self.collected(sealed=False))

    def collected(self, sealed):
        """What shows of a transaction that a subscriber keeps in files until it is committed."""
        publisher = self.cluster("from" + str(sealed), conf=CONF).init().start()
        subscriber = self.cluster("to" + str(sealed), sealed=sealed).init().start()
        canaries = Canaries()
        for cluster in (publisher, subscriber):
            cluster.psql("CREATE TABLE t (word text)")
        publisher.psql("CREATE PUBLICATION p FOR TABLE t")
        subscriber.psql(f"CREATE SUBSCRIPTION s CONNECTION 'host={publisher.home} user=postgres dbname=postgres' "
                        "PUBLICATION p WITH (streaming = on)")
        writer = publisher.session()
        writer.stdin.write(f"BEGIN; INSERT INTO t SELECT '{canaries['streamed']}' FROM generate_series(1, 20000);\n")
        eventually(lambda: any(file.stat().st_size >= 8192  # the first of BufFile's blocks
                                    for file in subscriber.data.glob("base/pgsql_tmp/*.fileset/*.changes*")))
        found = canaries.found(subscriber.data)
        writer.stdin.write("COMMIT;\n")
        eventually(lambda: subscriber.psql("SELECT count(*) FROM t") == "20000")
        return found

    def test_a_full_page_image_shows_nothing(self):
        self.assertEqual(self.full_page_image(sealed=True), {})
        self.assertEqual(list(self.full_page_image(sealed=False)), ["image"])

    def full_page_image(self, sealed):
        """What shows in the one WAL segment that holds a row in a page image only."""
        cluster = self.cluster("fpi" + str(sealed), sealed=sealed).init().start()
        canaries = Canaries()
        cluster.psql(f"CREATE TABLE t AS SELECT 1 AS a, '{canaries['image']}' AS b UNION ALL SELECT 2, ''")
        cluster.psql("CHECKPOINT; SELECT pg_switch_wal(); CHECKPOINT")
        cluster.psql("UPDATE t SET a = 3 WHERE a = 2")
        segment = cluster.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        found = canaries.found(cluster.data / "pg_wal" / segment)
        cluster.stop()
        return found

    def test_a_sealed_cluster_is_as_large_as_a_plain_one(self):
        sealed, plain = (self.sizes(sealed) for sealed in (True, False))
        self.assertIn("SEALED.README", sealed)
        sealed = {name: size for name, size in sealed.items() if not name.startswith(("pg_encryption/", "SEALED.README"))}
        self.assertEqual(sealed.keys(), plain.keys())
        self.assertEqual(sum(sealed.values()) // 1024, sum(plain.values()) // 1024)

    def sizes(self, sealed):
        data = self.cluster("size" + str(sealed), sealed=sealed).init().data
        return {str(file.relative_to(data)): os.path.getsize(file) for file in files_below(data)}


class Life:
    """What was seen of one cluster."""

    def __init__(self, cluster, workload):
        self.cluster = cluster
        self.canaries = workload.canaries
        self.places = workload.places()
        self.found = {}
        self.dump = []
        self.files = set()

    def look(self, stage):
        self.files |= {str(file) for file in files_below(self.cluster.data)}
        self.found[stage] = self.canaries.found(self.cluster.data)

    def shows(self, label, pattern):
        hits = [file for found in self.found.values() for file in found.get(label, ())]
        return any(re.search(pattern, file) for file in hits)

    def has_file(self, pattern):
        return any(re.search(pattern, file) for file in self.files)


if __name__ == "__main__":
    main(__file__)
