#!/usr/bin/env python3
"""Base backups under a storm of hint bits, of a cluster without data checksums.

Hint bits change pages while a backup reads them, and PostgreSQL lets a torn page be: each half is of a page that was there.
That must hold block by block of the cipher: whatever the backup got of a page is, 16 bytes by 16 bytes, as the server had it
stored before or after. Both kinds of backup run at once, the sealed one, whose pages come in clear, and the raw one. (That a
read meets a write is rare here: tests/attacks/race.py makes it happen.)
"""

import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import PGSEAL, TIME_LIMIT, base_environment, main, run  # noqa: E402
from waiting import eventually
from receiving import Receiving  # noqa: E402

PAGE, BLOCK = 8192, 16
TABLES, ROWS = 24, 6000
# No checkpoint may come but those of the backups: a page's position in WAL changes once.
CONF = """
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 4GB
shared_buffers = 1MB
wal_keep_size = 1GB
wal_level = replica
wal_log_hints = on
"""
# About as long as the backups take, so that they meet tables that nobody has read yet, and others.
RATE, PAUSE = "--max-rate=16M", 0.15
FILL = """
CREATE TABLE t{{n}} (i int, word text);
INSERT INTO t{{n}} SELECT i, md5(i::text) || repeat('{{n}}', 90) FROM generate_series(1, {rows}) i;
"""
SUMS = "SELECT count(*), sum(i), md5(string_agg(word, ',' ORDER BY i)) FROM t{}"


class HintBits(Receiving):
    def filled(self):
        """A server whose rows nobody has looked at: none has a hint bit, on the disk neither."""
        cluster = self.cluster("primary", conf=CONF)
        cluster.init()
        cluster.run("pg_checksums", "--disable", "-D", cluster.data)
        cluster.start()
        fill = FILL.format(rows=ROWS)
        cluster.psql("".join(fill.replace("{n}", str(n)) for n in range(TABLES)) + "CHECKPOINT;\n")
        self.assertEqual(cluster.psql("SHOW data_checksums"), "off")
        self.files = [cluster.psql(f"SELECT pg_relation_filepath('t{n}')") for n in range(TABLES)]
        return cluster

    def start_backups(self, cluster):
        """{the place: the program that fills it}: a sealed copy and a raw one, both past their checkpoints."""
        sealed, raw = self.copy("sealed"), self.copy("raw")
        common = ["-c", "fast", "-X", "fetch", RATE, "-D"]
        commands = {sealed: ([sealed.bindir / "pg_basebackup", *common, sealed.data], {}),
                    raw: ([cluster.pg / "pg_basebackup", "--no-verify-checksums", *common, raw.data],
                          {"PGOPTIONS": "-c pgseal.receiver=raw"})}
        running = {}
        for copy, (command, said) in commands.items():
            running[copy] = subprocess.Popen(command, env={**base_environment(), **cluster.environment, **said},
                                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.addCleanup(running[copy].stderr.close)
            self.addCleanup(running[copy].wait)
            self.addCleanup(running[copy].kill)
        sending = "SELECT count(*) FROM pg_stat_progress_basebackup WHERE phase = 'streaming database files'"
        eventually(lambda: cluster.psql(sending) == "2")
        return running

    def storm(self, cluster, seed):
        """A session that looks at all tables, in an order of its own."""
        order = random.Random(seed).sample(range(TABLES), TABLES)
        session = cluster.session()
        session.stdin.write("".join(f"SELECT count(*) FROM t{n};\nSELECT pg_sleep({PAUSE});\n" for n in order) + "\\q\n")
        session.stdin.close()
        return session

    def stored(self, cluster):
        return [(cluster.data / file).read_bytes() for file in self.files]

    def backed_up(self, cluster):
        """The copies, and the stored bytes of all tables before and after the storm."""
        before = self.stored(cluster)
        running = self.start_backups(cluster)
        sessions = [self.storm(cluster, seed) for seed in (1, 2)]
        for session in sessions:
            self.assertEqual(session.stdout.read().split(), [str(ROWS)] * TABLES)
            session.wait(TIME_LIMIT)
        for copy, program in running.items():
            self.assertEqual(program.wait(TIME_LIMIT), 0, program.stderr.read())
        cluster.psql("CHECKPOINT")
        return list(running), before, self.stored(cluster)

    def test_a_page_in_a_backup_is_made_of_old_and_new_blocks(self):
        cluster = self.filled()
        copies, before, after = self.backed_up(cluster)
        for copy in copies:
            with self.subTest(copy=copy.home.name):
                pages = self.compared(self.stored(copy), before, after)
                self.assertGreater(min(pages["old"], pages["new"]), 50, pages)
        expected = [cluster.psql(SUMS.format(n)) for n in range(TABLES)]
        cluster.stop()
        for copy in copies:
            with self.subTest(copy=copy.home.name):
                self.check_restored(copy, expected)

    def compared(self, copied, before, after):
        """How many pages are as before, as after, or torn; each block of a torn one is one of the two."""
        pages = {"old": 0, "new": 0, "torn": 0}
        for name, *versions in zip(self.files, copied, before, after):
            self.assertEqual(len({len(stored) for stored in versions}), 1, name)
            for at in range(0, len(versions[0]), PAGE):
                have, old, new = (stored[at:at + PAGE] for stored in versions)
                self.assertNotEqual(old, new, "nothing has touched this page")
                kind = "old" if have == old else "new" if have == new else "torn"
                pages[kind] += 1
                foreign = [block for block in range(0, PAGE, BLOCK) if kind == "torn"
                           and have[block:block + BLOCK] not in (old[block:block + BLOCK], new[block:block + BLOCK])]
                self.assertEqual(foreign, [], f"{name}, page {at // PAGE}")
        return pages

    def check_restored(self, copy, expected):
        """Every row and page is there, and the cluster verifies."""
        self.start(copy)
        self.assertEqual([copy.psql(SUMS.format(n)) for n in range(TABLES)], expected)
        copy.run("pg_amcheck", "--all", "--heapallindexed", "--install-missing")
        copy.stop()
        run([PGSEAL, "verify", "-D", copy.data])


if __name__ == "__main__":
    main(__file__)
