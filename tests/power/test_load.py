"""Power cuts in the middle of a mixed load: no acknowledged commit is lost, and nothing is damaged.

A cluster runs the crash loop's load, and beside it what moves whole files, on a file system that records every write below it.
Then the disk is built as power cuts would have left it, with writes in flight dropped, reordered and torn, and each state must recover to all that clients had been told before that
moment. PGSEAL_POWER_CUTS (9) is the number of cuts of each record and PGSEAL_POWER_SECONDS (8) the length of a record; with PGSEAL_TEST_LONG=1 (make test-power) all
kinds of clusters and file systems are cut, plain ones too.

Two faults of PostgreSQL's own may come up (OWN). They are told from ours by running the state, decrypted, under the stock server: it must say the same.
"""

import os
import random
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "crash"))
import rounds  # noqa: E402
from disk import RecordedDisk, main, needs_disk  # noqa: E402
from load import Load, Told  # noqa: E402
from pgseal_test import PG, PGSEAL, Canaries, Cluster, base_environment, run  # noqa: E402
from rounds import Rounds  # noqa: E402

SEED = int(os.environ.setdefault("PGSEAL_POWER_SEED", "15"))
CUTS = int(os.environ.get("PGSEAL_POWER_CUTS", "9"))
SECONDS = float(os.environ.get("PGSEAL_POWER_SECONDS", "8"))
LONG = os.environ.get("PGSEAL_TEST_LONG") == "1"
only_long = unittest.skipUnless(LONG, "minutes each: make test-power runs them")

# Commits of pgbench are asynchronous, so that writes stay in flight; the clients whose commits are acknowledged set their own.
CONF = rounds.CONF + """
fsync = on
synchronous_commit = off
wal_level = logical
max_replication_slots = 4
track_commit_timestamp = on
shared_preload_libraries = 'pg_stat_statements'
checkpoint_timeout = 30s
min_wal_size = 8MB
max_wal_size = 16MB
"""
# What moves, replaces and removes whole files, and files without full-page images.
CHURN = """
CREATE TABLE moved AS SELECT i, md5(i::text) AS b FROM generate_series(1, 3000) i;
CREATE TABLE counted (i int PRIMARY KEY, b text);
INSERT INTO counted SELECT i, md5(i::text) FROM generate_series(1, 2000) i;
SELECT pg_create_logical_replication_slot('decoding', 'test_decoding');
"""
CHURN_ROUND = """
CREATE DATABASE copied STRATEGY file_copy;
ALTER TABLE moved SET TABLESPACE away;
DROP DATABASE copied;
VACUUM FULL pg_description;
CREATE DATABASE logged STRATEGY wal_log;
ALTER TABLE moved SET TABLESPACE pg_default;
DROP DATABASE logged;
BEGIN; UPDATE counted SET b = md5(b); SAVEPOINT a; SELECT count(*) FROM counted WHERE i < 99 AND b > '' FOR SHARE; ROLLBACK TO a; COMMIT;
SELECT count(*) FROM pg_logical_slot_get_changes('decoding', NULL, 200);
CHECKPOINT;
VACUUM counted;
VACUUM FULL counted;
"""

# What recovery of a sound cluster may say after a cut. A torn page of these forks is zeroed in memory and rebuilt (RBM_ZERO_ON_ERROR), of which
# 18 writes the log twice; and a DROP DATABASE is replayed whose directory had gone (dbase_redo, rmtree).
CONTEXT = r"(?:\n\S+ CONTEXT:  .*)?"
HARMLESS = re.compile(r"^\S+ (?:WARNING|LOG):  page verification failed, calculated .*" + CONTEXT + r"(?:\n\S+ (?:WARNING|LOG):  invalid page in"
                      r" block \d+ of relation \S+_(?:vm|fsm)\"?; zeroing out page" + CONTEXT + r")+$"
                      r'|^\S+ WARNING:  could not open directory "base/\d+": No such file or directory$', re.MULTILINE)
# PostgreSQL's own faults. Logical decoding skips the mappings of a rewritten catalog whose transaction the cut undid, while the relation map was already
# replaced (UpdateLogicalMappings); and redo of a hash index reads a torn bucket page that the record holds no image of (REGBUF_NO_IMAGE).
OWN = [re.compile(r'could not map filenode "\S+" to relation OID'), re.compile(r"invalid page in block \d+ of relation \S+\n.*WAL redo at \S+ for Hash/")]


@needs_disk
class PowerCuts(Rounds):
    def test_sealed(self):
        self.cut("ext4")

    @only_long
    def test_sealed_without_checksums(self):
        self.cut("ext4", checksums=False, conf="wal_log_hints = on\n")

    @only_long
    def test_minimal_wal(self):
        self.cut("ext4", conf="wal_level = minimal\nwal_skip_threshold = 0\nmax_wal_senders = 0\n", slot=False)

    @only_long
    def test_sealed_on_xfs(self):
        self.cut("xfs")

    @only_long
    def test_plain(self):
        self.cut("ext4", sealed=False)

    @only_long
    def test_plain_without_checksums(self):
        self.cut("ext4", sealed=False, checksums=False, conf="wal_log_hints = on\n")

    @only_long
    def test_plain_on_xfs(self):
        self.cut("xfs", sealed=False)

    def cut(self, kind, sealed=True, checksums=True, conf="", slot=True):
        """Records a load, cuts it, and checks every state."""
        self.slot = slot
        disk = self.record(kind, sealed, checksums, conf)
        cuts = disk.cuts(CUTS, SEED, self.begin, self.end)
        outcomes = {"sound": 0, "PostgreSQL's own": 0, "not mounted": 0}
        for cut in cuts:
            with self.subTest(cut=str(cut)), disk.state(cut) as said:
                outcomes[self.outcome(cut, said)] += 1
        print(f"{kind}, {'sealed' if sealed else 'plain'}: {self.end} records, {len(cuts)} cuts: {outcomes}", file=sys.stderr)
        self.assertLessEqual(outcomes["not mounted"], 0 if kind == "ext4" else len(cuts) // 3)

    def record(self, kind, sealed, checksums, conf):
        disk = RecordedDisk(self, kind)
        self.random, self.canaries = random.Random(SEED), Canaries()
        self.cluster = Cluster(disk.directory / "home", sealed=sealed, conf=CONF + conf, tablespaces=["away"], initdb=["--wal-segsize=1"])
        self.addCleanup(self.cluster.close)
        self.make(checksums)
        self.cluster.psql(CHURN if self.slot else CHURN.rpartition("SELECT")[0])
        self.begin = disk.settle()
        load = Load(self.cluster, 1, self.random, self.canaries["row"], Told(), outputs=disk.said)
        load.start()
        churn = self.churn()
        self.rotate_keys(SECONDS)
        self.end = disk.mark()
        self.cluster.kill9()
        load.wait()
        churn.wait(60)
        disk.end()
        return disk

    def churn(self):
        """A session that does it all again and again, until the server is gone."""
        script = self.directory / "churn.sql"
        text = CHURN_ROUND if self.slot else re.sub("SELECT .*get_changes.*\n", "", CHURN_ROUND)
        script.write_text(text * 200)
        command = [self.cluster.pg / "psql", "-X", "-q", "-f", script]
        environment = {**base_environment(), **self.cluster.environment}
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def rotate_keys(self, seconds):
        """Lets the load run; the key file of a sealed cluster is replaced meanwhile, twice a second."""
        deadline = rounds.time.monotonic() + seconds
        while rounds.time.monotonic() < deadline:
            if self.cluster.sealed:
                run([PGSEAL, "key", "rotate", "-D", self.cluster.data, "--new-plain"])
            rounds.time.sleep(0.5)

    def outcome(self, cut, said):
        """What became of a state: sound, or one of PostgreSQL's own faults. Everything else fails."""
        if said is None:
            return "not mounted"
        self.told = Told()
        for client, text in said.items():
            self.told.read(client, text.splitlines()[:None if text.endswith("\n") else -1])
        self.cluster.log_file.unlink(missing_ok=True)
        (self.cluster.data / "postmaster.pid").unlink(missing_ok=True)  # its number may be in use here, after a boot it is not
        try:
            return self.recover(cut)
        finally:
            self.cluster.close()

    def recover(self, cut):
        status = self.cluster.try_start()
        if status is not None:
            return self.not_ours(self.cluster.log())
        self.check_log(self.cluster.log())
        self.check_data()
        if self.slot and (error := self.decode(self.cluster)):
            return self.not_ours(error)
        self.cluster.run("pg_amcheck", "--all", "--heapallindexed", "--install-missing")
        self.cluster.psql("VACUUM FREEZE")
        self.cluster.stop()
        self.check_stored()
        return "sound"

    def check_log(self, log):
        super().check_log(HARMLESS.sub("", log))

    def decode(self, cluster):
        """What decoding from the slot says, if it fails."""
        query = "SELECT count(*) FROM pg_logical_slot_get_changes('decoding', NULL, NULL)"
        done = run([PG / "psql", "-X", "-A", "-t", "-c", query], cluster.environment, check=False)
        return done.stderr if done.returncode else None

    def not_ours(self, message):
        """The fault is PostgreSQL's own: one that is known, and that stock PostgreSQL shows on the same bytes in clear."""
        known = [pattern for pattern in OWN if pattern.search(message)]
        self.assertEqual(len(known), 1, message[-3000:])
        if self.cluster.sealed:
            self.assertRegex(self.under_stock(), known[0])
        return "PostgreSQL's own"

    def under_stock(self):
        """What the stock server says of this state, decrypted."""
        self.cluster.close()
        plain = self.decrypted()
        self.addCleanup(plain.close)
        if plain.try_start() is not None:
            return plain.log()
        return self.decode(plain) or ""

    def decrypted(self):
        """The cluster's files in clear, tablespace included, as a plain cluster at another place."""
        plain = Cluster(self.directory / f"plain{len(os.listdir(self.directory))}", sealed=False)
        run([PGSEAL, "exec", "-D", self.cluster.data, "--", "cp", "-a", self.cluster.data, plain.data])
        run([PGSEAL, "exec", "-D", self.cluster.data, "--", "cp", "-a", self.cluster.home / "away", plain.home / "away"])
        for link in (plain.data / "pg_tblspc").iterdir():
            link.unlink()
            link.symlink_to(plain.home / "away")
        run(["rm", "-rf", plain.data / "pg_encryption", plain.data / "postmaster.pid"])
        plain.configure(f"unix_socket_directories = '{plain.home}'")
        return plain


if __name__ == "__main__":
    if "PGSEAL_TEST_STAGE" in os.environ:
        print(f"PGSEAL_POWER_SEED={SEED} PGSEAL_POWER_CUTS={CUTS} PGSEAL_POWER_SECONDS={SECONDS}", flush=True)
    main(__file__)
