#!/usr/bin/env python3
"""A sealed monitor and two sealed nodes under pg_auto_failover, by the commands of docs/operations/auto-failover.md: a standby,
a switchover, a killed primary, its return by pg_rewind."""

import os
import pwd
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import stage
import takeover
from nodes import DOCUMENT, Server
from pgseal_test import PG, PGSEAL, Canaries, Case, main, run
from takeover import Load, backends, postmaster, until


class Failover(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()
        (self.directory / "passphrase").write_text(run(["openssl", "rand", "-hex", "32"]).stdout)
        (self.directory / "run").mkdir()
        takeover.reap({"postgres", "pg_autoctl"})
        self.monitor = Server(self.directory, "monitor")
        self.nodes = [Server(self.directory, name, self.monitor, create=1) for name in ("node1", "node2")]
        self.addCleanup(stage.end_descendants)

    def test_failover(self):
        try:
            self.scenario()
        except BaseException:
            for server in [self.monitor, *self.nodes]:
                print(f"--- {server.name}\n{server.log.read_text(errors='replace')[-6000:] if server.log.exists() else ''}",
                      file=sys.stderr)
            raise

    def scenario(self):
        self.bootstrap()
        user = pwd.getpwuid(os.getuid()).pw_name
        load = Load([node.port for node in self.nodes], 1_000_000, self.canaries["load"], user=user)
        load.start()
        load.more()
        old, new = self.nodes
        old.do(2)
        self.await_whole(new)
        load.more()
        self.lost_primary(new, old)
        load.more()
        load.end()
        self.check_rows(load, old)
        self.check_bytes()

    def bootstrap(self):
        self.monitor.create()
        until(lambda: self.monitor.sql("SELECT 1", database="pg_auto_failover"), "the monitor")
        first, second = self.nodes
        first.create()
        self.key = first.status()["key id"]
        self.assertNotEqual(self.monitor.status()["key id"], self.key)
        for node in self.nodes:
            node.environment["PGSEAL_EXPECT_KEY"] = self.key
        until(lambda: self.monitor.states() == {first.name: "single"}, "the first node")
        second.create()
        first.sql("CREATE TABLE t (number bigint PRIMARY KEY, word text)", fetch=False)
        self.await_whole(first)

    def await_whole(self, leader):
        """Both nodes run sealed under the one key, one confirms the other's commits; and so does the monitor, under another."""
        states = {node.name: "primary" if node is leader else "secondary" for node in self.nodes}
        until(lambda: self.monitor.states() == states, f"{leader.name} with a standby")
        self.assertEqual(leader.sql("SELECT sync_state FROM pg_stat_replication"), [("quorum",)])
        for server in [self.monitor, *self.nodes]:
            status = server.status()
            self.assertEqual(status["sealed"], "yes")
            self.assertEqual(status["key id"] == self.key, server is not self.monitor)
            self.assertEqual(status["server"], f"running sealed (process {postmaster(server.data)})")

    def lost_primary(self, old, new):
        """The primary dies with a commit that the other node did not get, so that it must be rewound."""
        sender, = backends(old.data, "walsender")
        os.kill(sender, signal.SIGSTOP)
        old.sql(f"SET synchronous_commit = local; INSERT INTO t VALUES (-1, '{self.canaries['lost']}'); CHECKPOINT", fetch=False)
        old.kill9()
        until(lambda: self.monitor.states().get(new.name) == "wait_primary", "another primary")
        before = old.log.stat().st_size
        old.start()
        self.await_whole(new)
        log = old.log.read_text(errors="replace")[before:]
        self.assertRegex(log, "(?s)/pg_rewind --target-pgdata .*Done!")
        self.assertNotIn("/pg_basebackup ", log)  # which it runs where pg_rewind fails
        self.assertEqual(old.sql("SELECT count(*) FROM t WHERE number = -1"), [(0,)])

    def check_rows(self, load, leader):
        rows = dict(leader.sql("SELECT number, word FROM t"))
        self.assertEqual(set(load.acknowledged) - rows.keys(), set())
        self.assertEqual({number: word for number, word in rows.items() if word != f"{self.canaries['load']}{number}"}, {})
        for node in self.nodes:
            until(lambda node=node: dict(node.sql("SELECT number, word FROM t")) == rows, f"{node.name} to catch up")
        dump = self.directory / "dump.sql"
        run([PG / "pg_dump", "-p", str(leader.port), "-f", dump, "postgres"], leader.environment)
        self.assertIn("load", self.canaries.found(dump))
        dump.unlink()

    def check_bytes(self):
        """Not only in the data directories: pg_autoctl keeps files of its own beside them."""
        for server in [*self.nodes, self.monitor]:
            server.sql("CHECKPOINT", fetch=False)
        self.assertEqual(self.canaries.found(self.directory), {})
        for server in [*self.nodes, self.monitor]:
            server.stop()
        self.assertEqual(self.canaries.found(self.directory), {})
        places = [server.data for server in [*self.nodes, self.monitor]]
        run([PGSEAL, "audit", "--canary", self.canaries.mark, *places])
        for server in [*self.nodes, self.monitor]:
            run([PGSEAL, "verify", "-D", server.data], server.environment)


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
