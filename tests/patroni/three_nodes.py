"""What the scenarios of three nodes under Patroni share: their begin, a load that counts its commits, and what must be true at the end.

    class Failover(ThreeNodes):
        def test_failover(self):
            self.narrate(self.scenario)
"""

import os
import signal
import sys

from nodes import PASSWORD, Patroni
from pgseal_test import Canaries, Case
from takeover import Load, backends, until


class ThreeNodes(Case):
    """A Patroni cluster of this test, whose rows hold a canary."""

    def setUp(self):
        super().setUp()
        self.canaries = Canaries()
        self.loads = []

    def nodes_of(self, **options):
        """Makes the nodes, which are not started yet; `options` are Patroni's."""
        self.patroni = Patroni(self.directory, **options)
        self.addCleanup(self.patroni.close)

    def narrate(self, scenario):
        """Runs a scenario; shows the logs of all nodes if it fails."""
        try:
            scenario()
        except BaseException:
            print(self.patroni.log(), file=sys.stderr)
            raise

    def bootstrap(self, environment):
        """Starts all nodes and makes the table; those that copy a sealed leader expect its key. Returns the environment of these."""
        first, *others = self.patroni.nodes.values()
        first.start(environment)
        until(self.patroni.leader, "a leader")
        if key := first.status().get("key id"):
            environment = {**environment, "PGSEAL_EXPECT_KEY": key}
        for node in others:
            node.start(environment)
        until(self.patroni.is_whole, "three members")
        first.sql("CREATE TABLE t (number bigint PRIMARY KEY, word text)", fetch=False)
        return environment

    def start_loads(self, count=1):
        """Each inserts wherever the leader is."""
        ports = [node.port for node in self.patroni.nodes.values()]
        self.loads = [Load(ports, number * 1_000_000, self.canaries["load"], user="postgres", password=PASSWORD)
                      for number in range(1, count + 1)]
        for load in self.loads:
            load.start()
        self.more()

    def more(self):
        """Until each load had five more commits acknowledged."""
        for load in self.loads:
            load.more()

    def kill_leader(self):
        """Kills the leader when it has a commit that no other node got, so that it must be rewound."""
        old = self.patroni.leader()
        # Patroni gives a standby another slot after a switchover: its receiver connects anew, and the server ends the former
        # sender when it notices.
        until(lambda: len(backends(old.data, "walsender")) == 2, "a sender for each standby")
        for pid in backends(old.data, "walsender"):
            os.kill(pid, signal.SIGSTOP)
        old.sql(f"SET synchronous_commit = local; INSERT INTO t VALUES (-1, '{self.canaries['lost']}'); CHECKPOINT", fetch=False)
        old.kill9()
        until(lambda: self.patroni.leader() not in (None, old), "another leader")
        return old

    def rewinds(self, old, environment):
        """The leader that was killed returns: Patroni rewinds it, and it has what the others have."""
        before = len(old.log.read_text(errors="replace"))  # as a standby it may have asked a leader that was being stopped
        old.start(environment)
        self.assert_rewound(old, before)

    def assert_rewound(self, old, before):
        """The log of Patroni says so behind this many characters."""
        until(self.patroni.is_whole, "the old leader's return")
        log = old.log.read_text(errors="replace")[before:]
        self.assertRegex(log, r"running pg_rewind from")
        self.assertIn("pg_rewind exit code=0", log)
        self.assertNotIn("Exception", log)
        self.assertEqual(old.sql("SELECT count(*) FROM t WHERE number = -1"), [(0,)])

    def check_rows(self):
        """Ends the loads; every commit that was acknowledged is on the leader, and all nodes have the same rows."""
        for load in self.loads:
            load.end()
        acknowledged = {number for load in self.loads for number in load.acknowledged}
        rows = dict(self.patroni.leader().sql("SELECT number, word FROM t"))
        self.assertEqual(acknowledged - rows.keys(), set())
        self.assertEqual({number: word for number, word in rows.items() if word != f"{self.canaries['load']}{number}"}, {})
        for node in self.patroni.nodes.values():
            until(lambda node=node: dict(node.sql("SELECT number, word FROM t")) == rows, f"{node.name} to catch up")
        return acknowledged
