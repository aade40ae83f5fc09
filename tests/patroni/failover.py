#!/usr/bin/env python3
"""Three sealed nodes under Patroni: bootstrap, replicas, switchover, another passphrase, a killed leader, its return."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nodes import PASSWORD, Patroni, page_block, run, unit_environment
from pgseal_test import PG, PGSEAL, Canaries, Case, main
from takeover import Load, backends, postmaster, until


class Failover(Case):
    def setUp(self):
        super().setUp()
        self.patroni = Patroni(self.directory)
        self.addCleanup(self.patroni.close)
        self.canaries = Canaries()
        self.environment = unit_environment(self.patroni.secret)
        self.assertEqual(self.environment, {"PGSEAL_PASSPHRASE_FILE": str(self.patroni.secret), "PGSEAL_EXPECT_KEY": ""})

    def test_failover(self):
        try:
            self.scenario()
        except BaseException:
            print(self.patroni.log(), file=sys.stderr)
            raise

    def scenario(self):
        self.bootstrap()
        ports = [node.port for node in self.patroni.nodes.values()]
        loads = [Load(ports, first, self.canaries["load"], user="postgres", password=PASSWORD)
                 for first in (1_000_000, 2_000_000)]
        for load in loads:
            load.start()
        self.more(loads)
        self.patroni.switch_over()
        self.more(loads)
        self.another_passphrase()
        self.more(loads)
        old = self.kill_leader()
        self.more(loads)
        self.old_leader_returns(old)
        self.more(loads)
        self.a_new_replica()
        for load in loads:
            load.end()
        self.check_rows(loads)
        self.check_bytes()

    def bootstrap(self):
        patroni = self.patroni
        first = patroni.nodes["node1"]
        first.start(self.environment)
        until(patroni.leader, "a leader")
        self.key = first.status()["key id"]
        self.environment["PGSEAL_EXPECT_KEY"] = self.key
        for name in ["node2", "node3"]:
            patroni.nodes[name].start(self.environment)
        until(patroni.is_whole, "three members")
        patroni.leader().sql("CREATE TABLE t (number bigint PRIMARY KEY, word text)", fetch=False)
        self.assert_sealed()

    def assert_sealed(self):
        """Every node runs sealed under the one key."""
        for node in self.patroni.nodes.values():
            status = node.status()
            self.assertEqual((status["sealed"], status["key id"]), ("yes", self.key))
            self.assertEqual(status["server"], f"running sealed (process {postmaster(node.data)})")

    def more(self, loads):
        """Until each load had five more commits acknowledged."""
        for load in loads:
            load.more()

    def another_passphrase(self):
        """The page's commands, for each node; the old passphrase opens none of them afterwards."""
        secret = self.patroni.secret
        old = secret.read_text()
        make, *rotate, move = page_block("sh").splitlines(keepends=True)
        rotate = "".join(rotate)
        commands = make + "".join(rotate.replace("/var/lib/postgresql/15/node1", str(node.data))
                                  for node in self.patroni.nodes.values()) + move
        commands = commands.replace("/etc/pgseal/passphrase", str(secret)).replace("pgseal key", f"{PGSEAL} key")
        run(["bash", "-euo", "pipefail", "-c", commands])
        former = self.directory / "former"
        former.write_text(old)
        for node in self.patroni.nodes.values():
            check = [PGSEAL, "key", "check", "-D", node.data, "--passphrase-file"]
            self.assertEqual(run([*check, former], check=False).returncode, 7)
            run([*check, secret])

    def kill_leader(self):
        """Kills the leader when it has a commit that no other node got, so that it must be rewound."""
        old = self.patroni.leader()
        senders = backends(old.data, "walsender")
        self.assertEqual(len(senders), 2)
        for pid in senders:
            os.kill(pid, signal.SIGSTOP)
        old.sql(f"SET synchronous_commit = local; INSERT INTO t VALUES (-1, '{self.canaries['lost']}'); CHECKPOINT", fetch=False)
        old.kill9()
        until(lambda: self.patroni.leader() not in (None, old), "another leader")
        return old

    def old_leader_returns(self, old):
        before = len(old.log.read_text(errors="replace"))  # as a standby it may have asked a leader that was being stopped
        old.start(self.environment)
        until(self.patroni.is_whole, "the old leader's return")
        log = old.log.read_text(errors="replace")[before:]
        self.assertRegex(log, r"running pg_rewind from")
        self.assertIn("pg_rewind exit code=0", log)
        self.assertNotIn("Exception", log)
        self.assertEqual(old.sql("SELECT count(*) FROM t WHERE number = -1"), [(0,)])
        self.assert_sealed()

    def a_new_replica(self):
        """A replica that is made now copies a key file that the new passphrase opens."""
        self.patroni.a_new_replica()
        self.assert_sealed()

    def check_rows(self, loads):
        acknowledged = {number for load in loads for number in load.acknowledged}
        leader = self.patroni.leader()
        rows = dict(leader.sql("SELECT number, word FROM t"))
        self.assertEqual(acknowledged - rows.keys(), set())
        self.assertEqual({number: word for number, word in rows.items() if word != f"{self.canaries['load']}{number}"}, {})
        for node in self.patroni.nodes.values():
            until(lambda node=node: dict(node.sql("SELECT number, word FROM t")) == rows, f"{node.name} to catch up")
        dump = self.directory / "dump.sql"
        run([PG / "pg_dump", "-h", "127.0.0.1", "-p", str(leader.port), "-U", "postgres", "-f", dump, "postgres"],
            {"PGPASSWORD": "first", "PGSSLMODE": "require"})
        self.assertIn("load", self.canaries.found(dump))

    def check_bytes(self):
        self.patroni.leader().sql("CHECKPOINT", fetch=False)
        self.assert_sealed()
        places = [node.data for node in self.patroni.nodes.values()]
        self.assertEqual(self.canaries.found(*places), {})
        self.patroni.close()
        self.assertEqual(self.canaries.found(*places), {})
        for data in places:
            run([PGSEAL, "verify", "-D", data], {"PGSEAL_PASSPHRASE_FILE": str(self.patroni.secret)})


if __name__ == "__main__":
    main(__file__, ["docs/operations/patroni.md"])
