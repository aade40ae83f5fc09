"""What the crash loops share: a cluster under a mixed load, three ways to crash it, and what must hold after its recovery.

Users: loop.py (crashes in the middle of a load) and torture.py (and of backups, clones and key changes). PGSEAL_CRASH_SEED
repeats the choices, though not the timing, of an earlier run; PGSEAL_CRASH_PLAIN=1 does the same to plain clusters: what
fails there too is PostgreSQL's own.

A crash is one of three: of the postmaster, whose children then end by themselves; of all processes at once; of one
backend, whereupon the postmaster restarts the rest with the ephemeral key that it has.
"""

import os
import random
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from load import LOAD, SCALE, SCHEMA, Load, Told  # noqa: E402
from pgseal_test import COMPLAINT, PGSEAL, Canaries, Case, major_version, run, stage  # noqa: E402
from waiting import eventually

PLAIN = os.environ.get("PGSEAL_CRASH_PLAIN") == "1"
SEED = os.environ.setdefault("PGSEAL_CRASH_SEED", str(time.time_ns() % 1_000_000))

CONF = """
log_line_prefix = '%e '
max_prepared_transactions = 2000
shared_buffers = 8MB
max_connections = 20
autovacuum_naptime = 1s
checkpoint_timeout = 30s
"""
# What recovery never says of a sound cluster, and SQLSTATEs of damage, I/O errors and bugs (log_line_prefix). PostgreSQL 17
# takes a transaction that was prepared after the last checkpoint for one of the epoch before (AdjustToFullTransactionId),
# and then warns that it finds no file of that name.
BAD_LOG = re.compile(rf"^(?!.*pg_twophase/FFFFFFFF.*No such file).*(?:PANIC|{COMPLAINT}|invalid page|corrupt"
                     r"|could not (?:read|open|access|write|fsync)|verification failed|^XX|^58).*$", re.MULTILINE)
# What it loses and says so: a checkpoint writes the file of a prepared transaction and meets a crash. Recovery takes the file
# for one of the future, does not find it in the epoch before to remove it (AdjustToFullTransactionId), replays the record,
# finds the file, and takes the record for a duplicate (PrepareRedoAdd). The next recovery reads the file. 17 and 18, and
# plain clusters too.
LEFT = re.compile(r'could not remove file "pg_twophase/FFFFFFFF([0-9A-F]{8})": No such file or directory$', re.MULTILINE)
SKIPPED = re.compile(r"could not recover two-phase state file for transaction (\d+)\n.*already been restored from disk\.\n"
                     r".*PREPARE: gid (\w+): ", re.MULTILINE)
# What a rolled back savepoint may do to a neighbour in 15, 16, 17 and 18, plain clusters too: it is aborted in pg_xact a moment
# before it leaves the list of those that run (RecordTransactionAbort). In between an UPDATE of a row that it had updated, and
# that others hold FOR KEY SHARE, need not wait for it (DoesMultiXactIdConflict) and finds it running (MultiXactIdExpand).
RACE = re.compile(r"^XX000 ERROR:  new multixact has more than one updating member: .*\n(?:XX000 (?:CONTEXT|STATEMENT): .*\n(?:\t.*\n)*)*",
                  re.MULTILINE)
RECOVERED = re.compile(r"redo done at|redo is not required|automatic recovery in progress")


class Rounds(Case):
    def prepare(self, index, checksums=True, conf="", **options):
        """Makes the cluster number `index` of a run, with its data."""
        self.random = random.Random(f"{SEED} {index}")
        self.canaries, self.told = Canaries(), Told()
        self.cluster = self.cluster(conf=CONF + conf, tablespaces=["away"], sealed=not PLAIN, **options)
        self.make(checksums)

    def make(self, checksums):
        self.cluster.init()
        if not checksums:
            self.cluster.run("pg_checksums", "--disable", "-D", self.cluster.data)
        self.cluster.start()
        self.cluster.psql(f"CREATE TABLESPACE away LOCATION '{self.cluster.home / 'away'}'")
        self.cluster.psql("CREATE EXTENSION amcheck")
        self.cluster.psql(SCHEMA.format(mark=self.canaries["row"]))
        self.cluster.run("pgbench", "-i", "-q", "-s", str(SCALE))

    def round(self, number):
        load = Load(self.cluster, number, self.random, self.canaries["row"], self.told)
        log = len(self.cluster.log())
        load.start()
        self.meanwhile(number)
        time.sleep(self.random.uniform(0.3, 2.5))
        crash = self.random.choice([self.kill_postmaster, self.kill_all, self.kill_backend])
        crash()
        load.finish()
        if self.cluster.server is None:
            self.cluster.start()
        self.check_log(self.cluster.log()[log:])
        self.check_data()

    def meanwhile(self, number):
        """What else is to run when the crash comes."""

    def kill_postmaster(self):
        self.cluster.kill9()

    def kill_all(self):
        postmaster = self.cluster.server.pid
        os.kill(postmaster, signal.SIGSTOP)  # or it would start new ones, which nobody kills
        for pid in stage.descendants(postmaster):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # a backend that has just ended
        self.cluster.kill9()

    def kill_backend(self):
        """One that a client of the load uses. The server is back when it says so."""
        log = len(self.cluster.log())
        query = f"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = '{LOAD}'"
        os.kill(self.random.choice([int(pid) for pid in self.cluster.psql(query).split()]), signal.SIGKILL)
        eventually(lambda: "ready to accept connections" in self.cluster.log()[log:], lambda: self.cluster.log()[log:], process=self.cluster.server)

    def check_log(self, log):
        self.assertEqual(BAD_LOG.findall(RACE.sub("", log)), [])
        self.assertRegex(log, RECOVERED)

    def check_data(self):
        self.cluster.run("pg_amcheck", "--heapallindexed", "-d", "postgres")
        sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers)," \
               " (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)"
        self.assertEqual(len(set(self.cluster.psql(sums).split("|"))), 1, "pgbench's balances differ")
        self.assertEqual(self.cluster.psql("SELECT id FROM toasted WHERE digest <> md5(body)"), "")
        self.assertEqual(self.cluster.psql("SELECT count(*) FROM unlogged"), "0")
        self.check_acknowledged()
        self.check_prepared()

    def check_acknowledged(self):
        rows = self.cluster.psql("SELECT client, max(number) FROM acknowledged GROUP BY 1")
        kept = {int(client): int(number) for client, number in (row.split("|") for row in rows.splitlines())}
        for client, told in self.told.done.items():
            self.assertIn(kept.get(client), [told, told + 1], f"client {client} was told {told}")

    def check_prepared(self):
        """What was prepared and not being finished still is; what was being finished is prepared or committed."""
        waiting = set(self.cluster.psql("SELECT gid FROM pg_prepared_xacts").split())
        committed = set(self.cluster.psql("SELECT gid FROM two_phase").split())
        waiting -= self.roll_back_what_was_lost(waiting)
        self.assertEqual(self.told.prepared - self.told.finishing - waiting, set(), "prepared transactions are gone")
        self.assertEqual(self.told.prepared - waiting - committed, set(), "prepared transactions are gone")
        self.assertEqual(waiting & committed, set())
        some = sorted(waiting)[::2]
        self.cluster.psql("".join(f"COMMIT PREPARED '{gid}';\n" for gid in some))
        self.told.finishing |= set(some)

    def roll_back_what_was_lost(self, waiting):
        """Forgets what PostgreSQL says that it lost, and ends what a later recovery found again; returns that. The files that
        it meant to remove go: one whose writing the crash cut short would keep the recovery after the next from starting."""
        log = self.cluster.log() if major_version() >= 17 else ""
        left = {int(transaction, 16) for transaction in LEFT.findall(log)}
        lost = {gid for transaction, gid in SKIPPED.findall(log) if int(transaction) in left}
        self.told.prepared -= lost
        found = lost & waiting
        self.cluster.psql("".join(f"ROLLBACK PREPARED '{gid}';\n" for gid in sorted(found)) + "SELECT 1")
        for transaction in left:
            (self.cluster.data / f"pg_twophase/{transaction:016X}").unlink(missing_ok=True)
        return found

    def finish(self):
        """A clean end: every page of every database is sound."""
        self.cluster.run("pg_amcheck", "--all", "--heapallindexed", "--install-missing")
        self.cluster.stop()
        self.check_stored()

    def check_stored(self):
        """The stopped cluster: nothing shows, and every page decrypts. What is plain shows it, or this would be blind."""
        self.cluster.run("pg_controldata", "-D", self.cluster.data)
        found = self.canaries.found(self.cluster.data, self.cluster.home / "away")
        if not self.cluster.sealed:
            self.assertNotEqual(found, {})
            return
        self.assertEqual(found, {})
        verify = run([PGSEAL, "verify", "-D", self.cluster.data], check=False)
        self.assertEqual(verify.returncode, 0, verify.stdout + verify.stderr)
