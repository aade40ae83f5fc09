#!/usr/bin/env python3
"""Three sealed nodes under repmgr, by the configuration and the commands of docs/operations/repmgr.md: clones, a switchover, a
killed primary that repmgrd replaces, its return by pg_rewind, a standby made anew.

`ssh` is a script that runs the command here: the account of the tests has no login, and so no sshd would let it in."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import stage
import takeover
from nodes import DOCUMENT, PASSWORD, SSH, Node
from page import PageCase
from pgseal_test import PG, PGSEAL, Canaries, main, run, twins
from takeover import Load, backends, postmaster, until


class Failover(PageCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_servers)
        self.canaries = Canaries()
        (self.directory / "passphrase").write_text(run(["openssl", "rand", "-hex", "32"]).stdout)
        passwords = self.directory / ".pgpass"
        passwords.write_text(f"*:*:*:repmgr:{PASSWORD}\n")
        passwords.chmod(0o600)
        ssh = self.directory / "ssh"
        ssh.write_text(SSH.replace("{home}", str(self.directory)))
        ssh.chmod(0o755)
        takeover.certificate(self.directory)
        takeover.reap({"postgres", "repmgrd"})
        self.nodes = [Node(self.directory, number) for number in (1, 2, 3)]

    def end_servers(self):
        """All that runs below us: servers, and repmgrd."""
        stage.end_descendants()

    def test_failover(self):
        try:
            self.scenario()
        except BaseException:
            for node in self.nodes:
                print(f"--- {node.name}\n{node.log.read_text(errors='replace')[-6000:] if node.log.exists() else ''}",
                      file=sys.stderr)
            raise

    def scenario(self):
        self.bootstrap()
        ports = [node.port for node in self.nodes]
        loads = [Load(ports, first, self.canaries["load"], user="repmgr", password=PASSWORD)
                 for first in (1_000_000, 2_000_000)]
        for load in loads:
            load.start()
        self.more(loads)
        self.switchover(self.nodes[1])
        self.more(loads)
        self.lost_primary(self.nodes[1], loads)
        self.more(loads)
        self.a_standby_anew()
        self.more(loads)
        self.paused_over_a_restart()
        for load in loads:
            load.end()
        self.check_rows(loads)
        self.check_bytes()

    def do(self, node, block, leader=None, key=False):
        """A block of the page, by its place among those of `sh`, on a node; returns what it printed."""
        blocks = node.page(leader or node).blocks("sh")
        script = blocks[block] if isinstance(block, int) else block(blocks)
        return self.run_commands(blocks[0] + script if key else script, node.environment)

    def bootstrap(self):
        first, *others = self.nodes
        self.do(first, 1, key=True)
        first.configure()
        self.do(first, 2)
        for node in others:
            self.do(node, 3, first, key=True)
        for node in self.nodes:
            self.do(node, 4)
        first.sql("CREATE TABLE t (number bigint PRIMARY KEY, word text)", fetch=False)
        self.key = first.status()["key id"]
        self.await_whole(first)

    def await_whole(self, leader):
        """All nodes run sealed under the one key; two stream from the leader, and repmgr says so."""
        until(lambda: leader.leads() and leader.followers() == 2, f"two standbys of {leader.name}")
        expected = {node.number: (True, node is not leader) for node in self.nodes}
        until(lambda: [node.cluster() for node in self.nodes] == [expected] * 3, "repmgr's view of the cluster")
        for node in self.nodes:
            status = node.status()
            self.assertEqual((status["sealed"], status["key id"]), ("yes", self.key))
            self.assertEqual(status["server"], f"running sealed (process {postmaster(node.data)})")

    def more(self, loads):
        for load in loads:
            load.more()

    def switchover(self, new):
        said = self.do(new, 5)
        self.assertIn("STANDBY SWITCHOVER has completed successfully", said)
        self.await_whole(new)

    def lost_primary(self, old, loads):
        """The primary dies with a commit that no other node got: repmgrd promotes another, and the old one must be rewound."""
        senders = backends(old.data, "walsender")
        self.assertEqual(len(senders), 2)
        for pid in senders:
            os.kill(pid, signal.SIGSTOP)
        old.sql(f"SET synchronous_commit = local; INSERT INTO t VALUES (-1, '{self.canaries['lost']}'); CHECKPOINT", fetch=False)
        old.kill9()
        new = until(lambda: next((node for node in self.nodes if node.leads()), None), "another primary")
        until(lambda: new.followers() == 1, "the other standby follows")
        self.more(loads)
        said = self.do(old, 6, new)
        self.assertIn("pg_rewind", said)
        self.assertIn("NODE REJOIN successful", said)
        self.await_whole(new)
        self.assertEqual(old.sql("SELECT count(*) FROM t WHERE number = -1"), [(0,)])

    def a_standby_anew(self):
        """And what repmgr says of a server that was stopped: the wrapper the truth, the stock program not."""
        leader = next(node for node in self.nodes if node.leads())
        node = next(node for node in self.nodes if node is not leader)
        self.do(node, lambda blocks: blocks[7].split("\n", 1)[0])
        status = ("node", "status", "--is-shutdown-cleanly")
        self.assertRegex(node.repmgr(*status, program=twins() / "repmgr")[0], r"^--state=SHUTDOWN --last-checkpoint-lsn=")
        self.assertEqual(node.repmgr(*status, program=PG / "repmgr")[0], "--state=UNCLEAN_SHUTDOWN\n")
        said = self.do(node, lambda blocks: blocks[7].split("\n", 1)[1], leader, key=True)
        self.assertIn("standby clone (using pg_basebackup) complete", said)
        self.await_whole(leader)

    def paused_over_a_restart(self):
        """What repmgr keeps of that in a file of its own in pg_stat is read by a session."""
        leader = next(node for node in self.nodes if node.leads())
        node = next(node for node in self.nodes if node is not leader)
        self.assertEqual(node.repmgr("service", "pause")[1], 0)
        run([twins() / "pg_ctl", "-D", node.data, "-l", self.directory / f"{node.name}.server.log", "restart"], node.environment)
        self.await_whole(leader)
        until(lambda: node.sql("SELECT repmgr.get_local_node_id()", database="repmgr") == [(node.number,)], "repmgrd to be back")
        self.assertEqual(node.sql("SELECT repmgr.repmgrd_is_paused()", database="repmgr"), [(True,)])
        self.assertEqual(node.repmgr("service", "unpause")[1], 0)
        for node in self.nodes:
            self.assertNotIn("unable to parse repmgrd state file", node.log.read_text(errors="replace"))

    def check_rows(self, loads):
        acknowledged = {number for load in loads for number in load.acknowledged}
        leader = next(node for node in self.nodes if node.leads())
        rows = dict(leader.sql("SELECT number, word FROM t"))
        self.assertEqual(acknowledged - rows.keys(), set())
        self.assertEqual({number: word for number, word in rows.items() if word != f"{self.canaries['load']}{number}"}, {})
        for node in self.nodes:
            until(lambda node=node: dict(node.sql("SELECT number, word FROM t")) == rows, f"{node.name} to catch up")
        dump = self.directory / "dump.sql"
        run([PG / "pg_dump", "-f", dump, "postgres"], leader.environment)
        self.assertIn("load", self.canaries.found(dump))

    def check_bytes(self):
        places = [node.data for node in self.nodes]
        for node in self.nodes:
            node.sql("CHECKPOINT", fetch=False)
        self.assertEqual(self.canaries.found(*places), {})
        self.end_repmgrd()
        for node in self.nodes:
            run([twins() / "pg_ctl", "-D", node.data, "-m", "fast", "stop"], node.environment)
        run([PGSEAL, "audit", "--canary", self.canaries.mark, *places])
        for data in places:
            run([PGSEAL, "verify", "-D", data])

    def end_repmgrd(self):
        daemons = {int((node.home / "repmgrd.pid").read_text()) for node in self.nodes}
        for pid in daemons:
            os.kill(pid, signal.SIGTERM)
        stage.end_processes(daemons, patience=30)


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
