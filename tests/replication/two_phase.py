#!/usr/bin/env python3
"""Files of pg_twophase have their names only when they are whole: a base backup never takes an empty or a cut one along.

PostgreSQL sees to that itself from 15.20 on: it writes them under a name that ends with .tmp. For older ones the library does, so
what is tested of that is run by those only."""

import os
import re
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import PGSEAL, STAGE, main, major_version, run  # noqa: E402
from receiving import Receiving  # noqa: E402

CONF = "max_prepared_transactions = 200\n"
CHECKPOINTS = 30
TRANSACTIONS = 150
REFUSED = r'ERROR:  could not close file "pg_twophase/[0-9A-F]+": Operation not permitted'


class Watcher:
    """Looks at a directory all the time: the sizes that each file was seen with under the name that recovery looks for."""

    def __init__(self, directory):
        self.directory = directory
        self.sizes = {}
        self.ends = False
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()

    def watch(self):
        while not self.ends:
            for entry in os.scandir(self.directory):
                if not entry.name.endswith(".tmp"):
                    self.look(entry)

    def look(self, entry):
        try:
            size = entry.stat().st_size
        except FileNotFoundError:
            return
        self.sizes.setdefault(entry.name, set()).add(size)


class TwoPhase(Receiving):
    def running(self, **options):
        cluster = self.cluster(conf=CONF, **options).init()
        self.states = cluster.data / "pg_twophase"
        cluster.start()
        cluster.psql("CREATE TABLE t (a int)")
        return cluster

    def prepare(self, cluster, count):
        cluster.psql("".join(f"BEGIN; INSERT INTO t VALUES ({i}); PREPARE TRANSACTION 'p{i}';" for i in range(count)))

    def commit(self, cluster, count):
        cluster.psql("".join(f"COMMIT PREPARED 'p{i}';" for i in range(count)))

    def test_no_file_is_seen_before_it_is_whole(self):
        cluster = self.running()
        with Watcher(self.states) as watcher:
            for _ in range(CHECKPOINTS):
                self.prepare(cluster, TRANSACTIONS)
                cluster.psql("CHECKPOINT")
                self.commit(cluster, TRANSACTIONS)
        self.assertGreater(len(watcher.sizes), CHECKPOINTS)
        self.assertEqual({name: sizes for name, sizes in watcher.sizes.items() if len(sizes) != 1}, {})
        self.assertNotIn({0}, watcher.sizes.values())

    def test_a_crash_leaves_whole_files_only(self):
        cluster = self.running()
        self.prepare(cluster, 3)
        cluster.psql("CHECKPOINT")
        self.assertEqual([file.stat().st_nlink for file in self.states.iterdir()], [1, 1, 1])
        cluster.kill9()
        cluster.start()
        self.commit(cluster, 3)
        self.assertEqual(cluster.psql("SELECT count(*) FROM t"), "3")

    def test_a_name_that_is_taken(self):
        """As PostgreSQL does, the file that is there is written anew."""
        cluster = self.running()
        self.prepare(cluster, 1)
        left = self.states / self.name(cluster)
        left.write_bytes(b"x" * 5000)
        cluster.psql("CHECKPOINT")
        self.assertLess(left.stat().st_size, 5000)
        self.survives(cluster)

    def test_a_file_that_a_crash_left_unfinished(self):
        """Under the name that servers write it by from 15.20 on: nobody takes it for damage, and it is written anew."""
        cluster = self.running()
        self.prepare(cluster, 1)
        left = self.states / f"{self.name(cluster)}.tmp"
        left.write_bytes(os.urandom(77))
        cluster.kill9()
        self.assert_sound(cluster)
        cluster.start()
        cluster.psql("CHECKPOINT")
        self.survives(cluster)

    def test_a_file_system_without_nameless_files(self):
        cluster = self.running(environment=self.refusing("open"))
        self.prepare(cluster, 1)
        cluster.psql("CHECKPOINT")
        self.survives(cluster)

    def test_a_name_that_is_refused(self):
        """A checkpoint fails, and the next makes the file under its name. A server that links none has nothing refused."""
        cluster = self.running(environment=self.refusing("link"))
        self.prepare(cluster, 1)
        done = cluster.run("psql", "-X", "-c", "CHECKPOINT", check=False)
        refused = self.told.exists()
        self.assertEqual((done.returncode, "checkpoint request failed" in done.stderr), (int(refused), refused))
        self.assertEqual(bool(re.search(REFUSED, cluster.log())), refused)
        self.assertEqual((self.states / self.name(cluster)).exists(), not refused)
        cluster.psql("CHECKPOINT")
        self.survives(cluster)

    def survives(self, cluster):
        self.assertTrue((self.states / self.name(cluster)).exists())
        cluster.kill9()
        self.assert_sound(cluster)
        cluster.start()
        self.commit(cluster, 1)
        self.assertEqual(cluster.psql("SELECT count(*) FROM t"), "1")

    def assert_sound(self, cluster):
        self.assertIn("nothing bad found", run([PGSEAL, "verify", "-D", cluster.data]).stdout)

    def name(self, cluster):
        transaction = int(cluster.psql("SELECT transaction FROM pg_prepared_xacts"))
        return f"{transaction:0{16 if major_version() >= 17 else 8}X}"

    def refusing(self, call):
        library = self.directory / "no_nameless.so"
        run(["cc", "-O2", "-shared", "-fPIC", "-o", library, STAGE / "tests/replication/no_nameless.c", "-ldl"])
        self.told = self.directory / "refused"
        return {"LD_PRELOAD": str(library), "PGSEAL_TEST_REFUSES": call, "PGSEAL_TEST_REFUSED": str(self.told)}


if __name__ == "__main__":
    main(__file__)
