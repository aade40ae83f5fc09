"""EIO and short transfers in the middle of everything: a sealed server must answer as a plain one, and lose nothing.

faults.c, built here, is between the server (or libpgseal in it) and libc and makes one chosen call fail. After each
fault the server must come back by itself, have its rows, and survive a kill -9 that follows at once.
"""

import errno
import re
import struct
import subprocess
import time

from bad_input import STAGE, BadInput
from pgseal_test import Canaries, main

READ, WRITE, SYNC = 0, 1, 2
EIO, ENOSPC = errno.EIO, errno.ENOSPC
CONF = """
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = on
log_line_prefix = '%e '
max_prepared_transactions = 10
max_wal_size = 1GB
shared_buffers = 1MB
wal_writer_delay = 10s
work_mem = 64kB
"""
MORE = "INSERT INTO t SELECT i, repeat('{mark}', 30) FROM generate_series({next}, {next} + 99) i"
SORT = "SELECT count(*) FROM (SELECT i, '{mark}' || i AS b FROM generate_series(1, 100000) i ORDER BY b) s"
CHANGE = "UPDATE t SET b = b WHERE a IN (1, 4001)"

# Name, call, files, error, statements, log. The error is an errno, or (length of a short transfer, errno of those after
# it, number of calls).
FAULTS = [
    ("heap read", READ, "{t}", EIO, ["SELECT count(b) FROM t"], "ERROR:  could not read block"),
    ("heap write at checkpoint", WRITE, "{t}", EIO, [CHANGE, "CHECKPOINT"], "ERROR:  could not write block"),
    ("heap extension", WRITE, "{t}", EIO, [MORE], "could not (extend|write)"),
    ("index read", READ, "{i}", EIO, ["SET enable_seqscan = off; SELECT b FROM t WHERE a = 17"], "could not read block"),
    ("WAL write", WRITE, "*/pg_wal/0*", EIO, [MORE], "PANIC:  could not write to log file"),
    ("WAL flush", SYNC, "*/pg_wal/0*", EIO, [MORE], "PANIC:  could not f(data)?sync file"),
    ("WAL write, short in a block", WRITE, "*/pg_wal/0*", (5000, 0, 1), [MORE], ""),
    ("WAL write, short at a block", WRITE, "*/pg_wal/0*", (4096, 0, 1), [MORE], ""),
    ("heap flush", SYNC, "{t}", EIO, [CHANGE, "CHECKPOINT"], "PANIC:  could not f(data)?sync file"),
    ("commit status write", WRITE, "*/pg_xact/0*", EIO, [CHANGE, "CHECKPOINT"], "ERROR:  could not access status"),
    ("commit status write, short", WRITE, "*/pg_xact/0*", (4100, ENOSPC, 2), [CHANGE, "CHECKPOINT"], "ERROR:  could not access status"),
    ("control file write", WRITE, "*/global/pg_control", EIO, ["CHECKPOINT"], "PANIC:  could not write file"),
    ("control file write, short", WRITE, "*/global/pg_control", (4096, ENOSPC, 2), ["CHECKPOINT"], "PANIC:  could not write file"),
    ("two-phase write", WRITE, "*/pg_twophase/*", EIO,
     ["BEGIN; " + CHANGE + "; PREPARE TRANSACTION 'p'", "CHECKPOINT", "CHECKPOINT", "COMMIT PREPARED 'p'"],
     "ERROR:  could not write file"),
    ("two-phase write, short", WRITE, "*/pg_twophase/*", (33, ENOSPC, 2),
     ["BEGIN; " + CHANGE + "; PREPARE TRANSACTION 'p'", "CHECKPOINT", "CHECKPOINT", "COMMIT PREPARED 'p'"], "could not write file"),
    ("temporary file write", WRITE, "*/pgsql_tmp/*", EIO, [SORT], "ERROR:  could not write"),
    ("temporary file read", READ, "*/pgsql_tmp/*", EIO, [SORT], "ERROR:  could not read"),
]
# A page that is written in part: cut inside a cipher block, or between two. The rest is tried again, by libpgseal and
# by PostgreSQL from 17 on, and refused.
PAGES = [
    ("heap write, short in a block", WRITE, "{t}", (4100, ENOSPC, 3), [CHANGE, "CHECKPOINT"], ""),
    ("heap write, short at a block", WRITE, "{t}", (4096, ENOSPC, 3), [CHANGE, "CHECKPOINT"], ""),
    ("heap extension, short in a block", WRITE, "{t}", (4100, ENOSPC, 3), [MORE], ""),
    ("heap extension, short at a block", WRITE, "{t}", (4096, ENOSPC, 3), [MORE], ""),
]


class Plan:
    """The struct plan of faults.c."""

    FORMAT = "5i236s"

    def __init__(self, path):
        self.path = path
        self.write(0)

    def write(self, left, call=0, error=0, part=0, files=""):
        self.left = left
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack(self.FORMAT, left, call, 0, error, part, files.encode()))

    def struck(self):
        return struct.unpack(self.FORMAT, self.path.read_bytes())[0] < self.left


class Faults(BadInput):
    @classmethod
    def setUpClass(cls):
        cls.library = STAGE / "work/faults.so"
        source = STAGE / "tests/bad-input/faults.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", cls.library, source, "-ldl"], check=True)

    def test_errors_and_short_transfers(self):
        self.both(FAULTS)

    def test_short_transfers_of_pages(self):
        self.both(PAGES)

    def test_a_two_phase_state_that_is_cut(self):
        """Sealed only: PostgreSQL before 15.20 leaves it under its name, and after a crash does not start with it."""
        sealed = self.made(True)
        sealed.psql(f"BEGIN; {CHANGE}; PREPARE TRANSACTION 'p'")
        sealed.plan.write(2, WRITE, ENOSPC, 33, "*/pg_twophase/*")
        self.assertIsNotNone(self.ends(sealed, "CHECKPOINT"))
        self.assertTrue(sealed.plan.struck(), "the fault did not strike")
        self.assertEqual([file.name for file in (sealed.data / "pg_twophase").iterdir() if file.suffix != ".tmp"], [])
        sealed.kill9()
        sealed.start()
        sealed.psql("COMMIT PREPARED 'p'")

    def test_statistics_at_shutdown(self):
        """Sealed only: the server writes this file through stdio, whose calls inside libc no preload library sees."""
        sealed = self.made(True)
        rows = self.rows(sealed)
        sealed.plan.write(1, WRITE, EIO, 0, "*/pg_stat/pgstat.tmp")
        sealed.stop()
        self.assertTrue(sealed.plan.struck(), "the fault did not strike")
        self.assertRegex(sealed.log(), r'could not write temporary statistics file "pg_stat/pgstat.tmp": Input/output error')
        self.assertFalse((sealed.data / "pg_stat/pgstat.tmp").exists())
        sealed.start()
        self.assertEqual(self.rows(sealed), rows)
        self.stop_sound(sealed)

    def both(self, faults):
        """Each fault on a sealed and on a plain cluster: the same outcome."""
        plain, sealed = self.made(False), self.made(True)
        for number, (name, *fault) in enumerate(faults):
            with self.subTest(name):
                outcomes = [self.strike(cluster, number, *fault) for cluster in (plain, sealed)]
                self.assertEqual(*outcomes)
        self.assertEqual(self.canaries.found(sealed.data), {})
        self.assertEqual(self.stop_sound(sealed), self.stop_sound(plain))

    def made(self, sealed):
        self.canaries = Canaries()
        cluster = self.cluster("sealed" if sealed else "plain", sealed=sealed, conf=CONF)
        cluster.init()
        cluster.plan = Plan(cluster.home / "plan")
        cluster.mark = self.canaries["row"]
        cluster.environment |= {"LD_PRELOAD": str(self.library), "PGSEAL_TEST_FAULTS": str(cluster.plan.path)}
        cluster.start()
        cluster.psql(f"CREATE TABLE t (a int PRIMARY KEY, b text);"
                     f" INSERT INTO t SELECT i, repeat('{cluster.mark}', 30) FROM generate_series(1, 10000) i; CHECKPOINT")
        return cluster

    def strike(self, cluster, number, call, files, how, statements, logged):
        """SQLSTATEs that the statements end with, and what the table holds then and after a kill -9. A new server, because
        the first that flushes WAL is struck: not walwriter, which sleeps then, or follows what bgwriter logs each 15 s."""
        cluster.stop()
        cluster.start()
        paths = {name: cluster.psql(f"SELECT '*/' || pg_relation_filepath('{relation}')")
                 for name, relation in [("t", "t"), ("i", "t_pkey")]}
        cluster.psql("CHECKPOINT")
        log = len(cluster.log())
        part, error, calls = how if isinstance(how, tuple) else (0, how, 1)
        cluster.plan.write(calls, call, error, part, files.format(**paths))
        states = []
        for statement in statements:
            states.append(self.ends(cluster, statement.format(mark=cluster.mark, next=100000 + 100 * number)))
            if cluster.plan.struck():
                cluster.plan.write(0)
        self.assertEqual(cluster.plan.left, 0, "the fault did not strike")
        self.come_back(cluster)
        self.assertIsNotNone(re.search(logged, cluster.log()[log:]), cluster.log()[log:])
        rows = self.rows(cluster)
        cluster.kill9()
        cluster.start()
        self.assertEqual(self.rows(cluster), rows)
        return states, rows

    def ends(self, cluster, statement):
        """The SQLSTATE of a statement, "lost" if the server went away, None if it succeeded."""
        options = ["-X", "-q", "-A", "-t", "-v", "VERBOSITY=sqlstate", "-c", statement]
        done = cluster.run("psql", *options, check=False)
        if "connection" in done.stderr:
            self.come_back(cluster)
            return "lost"
        error = re.search(r"^ERROR:  (\w{5})$", done.stderr, re.MULTILINE)
        return error[1] if error else None

    def come_back(self, cluster):
        """Waits until the server takes connections, which may be restarting after a PANIC, or has ended. The plain 18
        was seen to stay in its restart for ever; then it is killed and started."""
        deadline = time.monotonic() + 30
        while cluster.run("psql", "-X", "-c", "SELECT 1", check=False).returncode != 0:
            if time.monotonic() > deadline or cluster.server.poll() is not None:
                cluster.kill9()
                cluster.start()
            time.sleep(0.05)

    def rows(self, cluster):
        wrong = cluster.psql(f"SELECT count(*) FROM t WHERE b <> repeat('{cluster.mark}', 30)")
        return wrong, cluster.psql("SELECT count(*), sum(a) FROM t"), cluster.psql("SELECT count(*) FROM pg_prepared_xacts")


if __name__ == "__main__":
    main(__file__)
