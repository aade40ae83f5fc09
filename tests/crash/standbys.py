#!/usr/bin/env python3
"""kill -9 of a primary, its standby and its pg_receivewal under load, and failover back and forth by pg_rewind.

Segments of 1 MB are recycled all the time, and the standby takes from the archive what the primary has removed. Both archive
(archive_mode = always): a primary that crashes may not have archived its last segments, and pg_rewind needs them when it comes
back. After each round the two hold the same rows, their indexes and heaps are sound, and neither has said that anything is damaged; at the end every
page and all WAL are verified, and the archive and what pg_receivewal has are the same bytes. PGSEAL_STANDBY_ROUNDS (4) is
the number of rounds, PGSEAL_CRASH_SEED repeats their choices.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, TIME_LIMIT, Canaries, Case, base_environment, main, run  # noqa: E402
from waiting import eventually

ROUNDS = int(os.environ.get("PGSEAL_STANDBY_ROUNDS", "4"))
SEED = os.environ.setdefault("PGSEAL_CRASH_SEED", str(time.time_ns() % 1_000_000))

CONF = """
shared_buffers = 4MB
autovacuum_naptime = 1s
checkpoint_timeout = 30s
min_wal_size = 2MB
max_wal_size = 4MB
archive_mode = always
wal_log_hints = on
wal_retrieve_retry_interval = 200ms
max_wal_senders = 8
hot_standby_feedback = on
"""
DAMAGE = re.compile(r"^.*(?:PANIC|invalid page|corrupt(?!ed and you might)|could not re-store|neither clear nor sealed|verification failed"
                    r"|could not (?:write|fsync)|unexpected data beyond EOF).*$", re.MULTILINE)


class Standbys(Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.archive, self.received = self.directory / "archive", self.directory / "received"
        self.archive.mkdir()
        self.received.mkdir()
        self.receiver = None
        self.addCleanup(self.stop_receiver)
        self.canary = Canaries()["row"]
        # wal-put takes the same bytes twice, as a standby that is promoted archives them.
        commands = (f"archive_command = '{PGSEAL} wal-put --to {self.archive} %p %f'\n"
                    f"restore_command = '{PGSEAL} wal-get --from {self.archive} %f %p'\n")
        one = self.cluster("one", initdb=["--wal-segsize=1"], conf=CONF + commands).init().start()
        one.psql(f"CREATE EXTENSION amcheck; CREATE TABLE w AS SELECT i, '{self.canary}' || i AS t FROM generate_series(1, 3000) i;"
                 "CREATE INDEX ON w (t); CREATE INDEX ON w USING hash (i); CREATE INDEX ON w USING brin (i)")
        one.run("pgbench", "-i", "-q", "-s", "1")
        two = self.cluster("two")
        two.run("pg_basebackup", "-c", "fast", "-D", two.data, environment={"PGHOST": str(one.home)})
        two.configure(f"unix_socket_directories = '{two.home}'")
        self.primary, self.standby = one, two
        self.follow()

    def follow(self):
        """The standby follows the primary."""
        (self.standby.data / "postgresql.auto.conf").write_text(f"primary_conninfo = 'host={self.primary.home} user=postgres'\n")
        (self.standby.data / "standby.signal").touch()
        self.standby.start()

    def test_rounds(self):
        kinds = [self.kill_standby, self.kill_primary, self.kill_receiver, self.fail_over]
        for number in range(ROUNDS):
            load = self.load()
            self.receive()
            time.sleep(self.random.uniform(0.5, 3))
            kinds[number % len(kinds)]()
            load.wait(TIME_LIMIT)
            self.check()
        print(f"{ROUNDS} rounds of seed {SEED}", file=sys.stderr)
        self.check_stored()

    def load(self):
        """Rows that change, and WAL of every kind that vacuum, truncation and new relations make."""
        script = self.directory / "script"
        script.write_text("\\set i random(1, 3000)\nUPDATE w SET t = t || 'x' WHERE i = :i;\nBEGIN; SAVEPOINT a;\n"
                          f"INSERT INTO w VALUES (:i + 3000, '{self.canary}'); ROLLBACK TO a; COMMIT;\n"
                          "DELETE FROM w WHERE i > 2990 AND i = :i;\n")
        environment = {**base_environment(), **self.primary.environment}
        load = subprocess.Popen([self.primary.pg / "pgbench", "-n", "-T", "4", "-c", "3", "-b", "tpcb-like@3", "-f", f"{script}@5"],
                                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        return load

    def receive(self):
        """pg_receivewal, from the server that is the primary; it goes on where it was."""
        if self.receiver is None:
            command = [self.primary.bindir / "pg_receivewal", "-D", self.received, "--no-loop"]
            self.receiver = subprocess.Popen(command, env={**base_environment(), **self.primary.environment},
                                             stderr=subprocess.DEVNULL, start_new_session=True)

    def stop_receiver(self, number=signal.SIGKILL):
        if self.receiver is not None:
            self.receiver.send_signal(number)
            self.receiver.wait(TIME_LIMIT)
            self.receiver = None

    def kill_standby(self):
        for _ in range(2):
            self.standby.kill9()
            self.standby.start()
            time.sleep(self.random.uniform(0.1, 1))

    def kill_primary(self):
        self.primary.kill9()
        self.primary.start()
        self.stop_receiver()

    def kill_receiver(self):
        for _ in range(3):
            self.stop_receiver()
            self.receive()
            time.sleep(self.random.uniform(0.1, 0.6))

    def fail_over(self):
        """The primary crashes while it archives nothing; it comes back as the standby of what was its own standby."""
        self.primary.psql("ALTER SYSTEM SET archive_command = 'false'; SELECT pg_reload_conf()")
        time.sleep(self.random.uniform(0.5, 2))
        self.primary.kill9()
        self.stop_receiver()
        self.standby.psql("SELECT pg_promote()")
        self.primary, self.standby = self.standby, self.primary
        self.primary.psql("CHECKPOINT; UPDATE w SET t = t || 'y' WHERE i < 100")
        self.standby.run("pg_rewind", "-c", "-D", self.standby.data, f"--source-server=host={self.primary.home} user=postgres dbname=postgres")
        self.standby.configure(f"unix_socket_directories = '{self.standby.home}'")
        self.follow()

    def check(self):
        primary, standby = self.primary, self.standby
        end = primary.psql("SELECT pg_switch_wal(); SELECT pg_current_wal_lsn()").splitlines()[-1]
        eventually(lambda: standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{end}'") == "t", lambda: standby.log()[-4000:])
        rows = "SELECT count(*), sum(hashtext(w::text)) FROM w; SELECT sum(hashtext(a::text)) FROM pgbench_accounts a; " \
               "SELECT count(*), sum(delta) FROM pgbench_history"
        self.assertEqual(primary.psql(rows), standby.psql(rows))
        sound = "SELECT count(*) FROM pg_class c, verify_heapam(c.oid) WHERE c.relkind = 'r' AND c.relpersistence = 'p';" \
                "SELECT bt_index_check(c.oid, c.relname = 'w_t_idx') FROM pg_class c JOIN pg_am m ON m.oid = relam WHERE amname = 'btree'"
        for cluster in [primary, standby]:
            self.assertEqual(cluster.psql(sound).strip().splitlines()[0], "0")
            self.assertEqual(DAMAGE.findall(cluster.log()), [])

    def check_stored(self):
        self.stop_receiver(signal.SIGINT)
        self.primary.stop()
        self.standby.stop()
        for cluster in [self.primary, self.standby]:
            run([PGSEAL, "verify", "-D", cluster.data])
        places = [self.primary.data, self.standby.data, self.archive, self.received]
        done = run([PGSEAL, "audit", "--canary", self.canary, *places], check=False)
        self.assertNotIn(self.canary, done.stdout)
        both = {path.name for path in self.archive.iterdir()} & {path.name for path in self.received.iterdir()}
        segments = [name for name in both if re.fullmatch("[0-9A-F]{24}", name)]
        self.assertNotEqual(segments, [])
        for name in segments:
            self.assertEqual((self.archive / name).read_bytes(), (self.received / name).read_bytes(), name)


if __name__ == "__main__":
    main(__file__)
