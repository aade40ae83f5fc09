"""kill -9 at random moments of load, checkpoint, base backup, clone, key rotation and rekey.

Each round has the crash loop's load, and beside it one of the tools, which is killed as well, shortly before or after the
server or together with it. After each round: recovery, amcheck, balances, what was acknowledged and prepared; then the
server is stopped, and `pgseal verify` reads every page. What the tool left is either nothing that starts, or, where it
had come to its end in time, a sound copy. `pgseal rekey` works on a stopped cluster: it is killed, and started again, after a
round.

PGSEAL_TORTURE_ROUNDS (6) is the number of rounds; make test-world runs 100. rounds.py says how to repeat a run.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from rounds import SEED, Rounds  # noqa: E402
from pgseal_test import PGSEAL, base_environment, main, run, stage  # noqa: E402

ROUNDS = int(os.environ.get("PGSEAL_TORTURE_ROUNDS", "6"))


class Torture(Rounds):
    def test_rounds(self):
        self.prepare(1, conf="min_wal_size = 32MB\nmax_wal_size = 48MB\nwal_keep_size = 64MB\nmax_wal_senders = 8\n")
        self.finished = dict.fromkeys(["checkpoints", "base_backup", "clone", "clone_with_a_key", "rotations", "rekey"], 0)
        kinds = list(self.finished)
        for number in range(1, ROUNDS + 1):
            self.kind = kinds[number % len(kinds)]
            self.round(number)
            self.after_tool()
            self.cluster.stop()
            self.check_stored()
            if self.kind == "rekey":
                self.interrupt_rekey()
            self.cluster.start()
        self.finish()
        print(f"{ROUNDS} rounds; came to their end before the crash: {self.finished}", file=sys.stderr)

    def meanwhile(self, number):
        """Starts the tool. It is killed before the server, or loses the server, or may come to its end first."""
        self.copy = None
        self.tool_log = self.directory / "tool.log"
        with open(self.tool_log, "w") as log:
            self.tool = getattr(self, self.kind)(number, log)
        fate = self.random.choice(["killed", "deserted", "awaited"])
        if fate == "killed":
            time.sleep(self.random.uniform(0.1, 3))
            self.kill_tool()
        elif fate == "awaited":
            deadline = time.monotonic() + 20
            while self.copy is not None and self.tool.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertIn(self.tool.poll(), [None, 0], self.tool_log.read_text())

    def checkpoints(self, number, log):
        script = "while :; do psql -Xqc CHECKPOINT || exit; done"
        return self.start_tool(["sh", "-c", script], log, {"PATH": f"{self.cluster.pg}:/usr/bin:/bin"})

    def base_backup(self, number, log):
        """Its WAL from before there is the stream's slot is kept by wal_keep_size: PostgreSQL removes it with the second
        checkpoint after the backup's own, and these come fast here."""
        copy = self.new_copy(number)
        return self.start_tool([copy.bindir / "pg_basebackup", "-D", copy.data, "-X", "stream", "-c", "fast",
                                *self.mapping(copy)], log)

    def clone(self, number, log, *options, environment=None):
        copy = self.new_copy(number)
        command = [PGSEAL, "clone", "--pg", copy.pg, "-D", copy.data, *options, "--", *self.mapping(copy)]
        return self.start_tool(command, log, environment)

    def clone_with_a_key(self, number, log):
        token = {"PGOPTIONS": f"-c pgseal.receiver={self.cluster.token()}"}
        return self.clone(number, log, "--new-key", "--no-key-wrap", environment=token)

    def rotations(self, number, log):
        """The key file is replaced as fast as it can be."""
        script = 'while :; do "$0" key rotate -D "$1" --new-plain || exit; done'
        return self.start_tool(["sh", "-c", script, PGSEAL, self.cluster.data], log)

    def rekey(self, number, log):
        """What comes after the crash; until then checkpoints."""
        return self.checkpoints(number, log)

    def interrupt_rekey(self):
        """Up to three kills, and the same command to its end."""
        key = self.cluster.master_key()
        command = [PGSEAL, "rekey", "-D", self.cluster.data, "--no-key-wrap"]
        for _ in range(3):
            with open(self.tool_log, "w") as log:
                self.tool = self.start_tool(command, log)
            time.sleep(self.random.uniform(0, 1))
            self.kill_tool()
            if self.tool.returncode == 0:
                break
        else:
            run(command, self.cluster.environment)
        self.assertNotEqual(self.cluster.master_key(), key)
        self.check_stored()

    def new_copy(self, number):
        self.copy = self.cluster_of(f"copy{number}")
        return self.copy

    def cluster_of(self, name):
        return super().cluster(name, tablespaces=["away"])

    def mapping(self, copy):
        return ["-T", f"{self.cluster.home / 'away'}={copy.home / 'away'}"]

    def start_tool(self, command, log, environment=None):
        environment = {**base_environment(), **self.cluster.environment, **(environment or {})}
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                                start_new_session=True)

    def kill_tool(self):
        """kill -9 of the tool and of whatever it started."""
        if self.tool.poll() is None:
            children = stage.descendants(self.tool.pid)
            os.killpg(self.tool.pid, signal.SIGKILL)
            stage.end_processes(children)
        self.tool.wait()

    def after_tool(self):
        """The server has recovered. What the tool left is sound, or does not start."""
        self.kill_tool()
        self.assertIn("opens", run([PGSEAL, "key", "check", "-D", self.cluster.data]).stdout)
        whole = self.tool.returncode == 0
        self.finished[self.kind] += whole
        if self.copy is not None:
            # The key file comes last: with it the copy is whole, even if the tool was killed after that.
            if whole or (self.copy.data / "pg_encryption/key.bin").exists():
                self.check_copy(self.copy)
            elif (self.copy.data / "PG_VERSION").exists():
                self.assertIsNotNone(self.copy.try_start("-k", str(self.copy.home)), self.tool_log.read_text())
            self.assertEqual(self.canaries.found(self.copy.home / "away", self.copy.data), {})
            self.copy.close()
            shutil.rmtree(self.copy.home)

    def check_copy(self, copy):
        """It recovers to a moment at which the balances were equal."""
        (copy.data / "standby.signal").unlink(missing_ok=True)
        copy.start("-k", str(copy.home))
        copy.run("pg_amcheck", "--heapallindexed", "-d", "postgres")
        sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)"
        self.assertEqual(copy.psql(sums), "t")
        copy.stop()
        run([PGSEAL, "verify", "-D", copy.data])


if __name__ == "__main__":
    if "PGSEAL_TEST_STAGE" in os.environ:
        print(f"PGSEAL_CRASH_SEED={SEED} PGSEAL_TORTURE_ROUNDS={ROUNDS}", flush=True)
    main(__file__)
