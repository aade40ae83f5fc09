#!/usr/bin/env python3
"""A plain Patroni cluster becomes sealed under load, by the commands of docs/operations/patroni-seal.md, and no commit is lost.

Each test has its own cluster: the whole way with each way back; a sealed leader before its plain replicas have a token, and a
Patroni that left its server behind; a plain leader that was killed and would have to be rewound.
"""

import os
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nodes import run
from pgseal_test import PG, PGSEAL, STAGE, base_environment, main
from takeover import backends, postmaster, until
from three_nodes import ThreeNodes

PAGE = "docs/operations/patroni-seal.md"
REFUSAL = "this cluster is sealed, and the connection does not say what it may receive of it"
# systemd's part is the test's own.
SYSTEMCTL = re.compile(r"^systemctl (daemon-reload|stop patroni|start patroni|restart patroni)$")


def sections():
    """{heading: {language: [block, …]}} of the page."""
    text = (STAGE / PAGE).read_text()
    parts = re.split(r"^## (.*)$", text, flags=re.M)
    found = {}
    for heading, body in zip(parts[1::2], parts[2::2]):
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", body, re.M | re.S):
            found.setdefault(heading, {}).setdefault(language, []).append(block)
    return found


class Seal(ThreeNodes):
    def setUp(self):
        super().setUp()
        self.nodes_of(sealed=False)
        self.page = sections()
        self.key = None
        self.environments = {name: {} for name in self.patroni.nodes}
        (self.directory / "etc").mkdir()

    # The page.

    def placed(self, text, node):
        """A block with this machine's places, for a node."""
        for printed, here in {
            "/var/lib/postgresql/15/node1": str(node.data),
            "/var/lib/postgresql/new": str(self.directory / "new"),
            "/usr/lib/postgresql/15/bin": str(PG),
            "/usr/local/lib/pgseal/15": str(self.directory / "wrappers"),
            "/etc/patroni/config.yml": str(node.config),
            "/etc/pgseal": str(self.directory / "etc"),
            "command: pgseal": f"command: {PGSEAL}",
            "KEYID": self.key or "KEYID",
        }.items():
            text = text.replace(printed, here)
        return text

    def commands(self, heading, node, number=0, replace=()):
        """Runs a block of commands on a node, systemd's by the node's own process; returns what the others printed."""
        block = self.placed(self.page[heading]["sh"][number], node)
        for printed, here in replace:
            self.assertIn(printed, block)
            block = block.replace(printed, here)
        printed, script = "", ""
        for line in [*block.splitlines(), None]:
            ours = SYSTEMCTL.match(line) if line is not None else None
            if line is not None and not ours:
                script += line + "\n"
                continue
            printed += self.shell(script)
            script = ""
            if ours:
                self.systemctl(ours[1].split()[0], node)
        return printed

    def shell(self, script):
        self.assertNotIn("systemctl", script)
        if not script:
            return ""
        path = f"{PGSEAL.parent}:{base_environment()['PATH']}"
        return run(["bash", "-euo", "pipefail", "-c", script], {"PATH": path, "PGSEAL_PASSPHRASE_FILE": str(self.secret)}).stdout

    def systemctl(self, verb, node):
        if verb in ("stop", "restart"):
            node.stop()
        if verb in ("start", "restart"):
            node.start(self.environments[node.name])

    @property
    def secret(self):
        return self.directory / "etc/passphrase"

    # The steps.

    def make_key(self):
        node = self.patroni.nodes["node1"]
        self.key = re.search(r"key id: +([0-9a-f]{32})", self.commands("The key, once", node))[1]
        self.commands("The key, once", node, 1)

    def begin(self):
        """A plain cluster under load."""
        self.bootstrap({})
        for node in self.patroni.nodes.values():
            self.assertEqual(node.status()["sealed"], "no")
        self.start_loads()
        self.make_key()
        self.more()

    def seal(self, node):
        """What a node gets, in place of what it had; its server is a sealed copy then, and follows."""
        block, = self.page["A replica, then the next one"]["ini"]
        self.environments[node.name] = dict(re.findall(r"^Environment=(\w+)=(.*)$", self.placed(block, node), re.M))
        self.assertEqual(self.environments[node.name], {"PGSEAL_PASSPHRASE_FILE": str(self.secret), "PGSEAL_EXPECT_KEY": self.key})
        block, = self.page["A replica, then the next one"]["yaml"]
        node.reconfigure(self.placed(block, node))
        self.replica(node, "stop and move", "start")
        until(lambda: self.streams(node), f"{node.name} to stream")
        self.assertIn("replica has been created using pgseal", node.log.read_text(errors="replace"))
        self.assertRegex(self.replica(node, "status"), r"(?m)^sealed: +yes$")
        status = node.status()
        self.assertEqual((status["key id"], status["server"]), (self.key, f"running sealed (process {postmaster(node.data)})"))
        self.more()
        self.assert_nothing_in_clear(node)

    def replica(self, node, *steps):
        """Steps of the section about a replica, in the page's order; returns what the last one printed."""
        order = ["stop and move", "stop the server", "start", "status", "stop and move back", "start again"]
        self.assertEqual(len(self.page["A replica, then the next one"]["sh"]), len(order))
        return [self.commands("A replica, then the next one", node, order.index(step)) for step in steps][-1]

    def assert_not_moved(self, node):
        """Patroni is killed and leaves its server behind: the page moves nothing below it, and says how the server is stopped."""
        node.process.kill()
        node.process.wait()
        server = postmaster(node.data)
        with self.assertRaisesRegex(AssertionError, "postmaster.pid.* exited with 1\\n"):
            self.replica(node, "stop and move")
        self.assertEqual((postmaster(node.data), Path(f"{node.data}.plain").exists()), (server, False))
        self.assertEqual(node.sql("SELECT pg_is_in_recovery()"), [(True,)])
        self.replica(node, "stop the server")
        self.assertFalse((node.data / "postmaster.pid").exists())

    def unseal(self, node, configuration):
        """A replica's way back."""
        node.config.write_text(configuration)
        self.environments[node.name] = {}
        self.replica(node, "stop and move back", "start again")
        until(lambda: self.streams(node), f"{node.name} to stream again")
        self.assertEqual(node.status()["sealed"], "no")
        self.more()
        run(["rm", "-rf", f"{node.data}.sealed"])

    def give_token(self, old, sealed):
        """The plain leader's Patroni will have the token of a sealed node when it is started again."""
        self.commands("The old leader's token", sealed)
        block, = self.page["The old leader's token"]["ini"]
        file = re.search(r"^EnvironmentFile=(.*)$", self.placed(block, old), re.M)[1]
        self.environments[old.name] = dict([Path(file).read_text().rstrip("\n").split("=", 1)])

    def switch(self, number, printed, old, new):
        """The page's switchover, or its way back."""
        until(lambda: self.both_confirm(old), "two synchronous standbys")
        self.commands("The switchover", old, number, [(f"--candidate {printed}", f"--candidate {new.name}")])
        until(lambda: self.patroni.leader() is new, "the switchover")
        self.more()

    # What holds.

    def streams(self, node):
        """Does the node follow the leader?"""
        leader = self.patroni.leader()
        if leader in (None, node) or not self.members_run():
            return False
        return (node.name,) in leader.sql("SELECT application_name FROM pg_stat_replication WHERE state = 'streaming'")

    def members_run(self):
        """Three members, of which each runs."""
        states = [state for _, state, _ in self.patroni.members().values()]
        return len(states) == 3 and set(states) <= {"running", "streaming"}

    def is_replica(self, node):
        """Does Patroni show it as one that runs? In the middle of a switchover a server may outlive the Patroni that starts it."""
        role, state, _ = self.patroni.members()[node.name]
        return role in ("replica", "sync_standby") and state in ("running", "streaming")

    def both_confirm(self, leader):
        """Does Patroni take both replicas for synchronous, so that either may be the candidate?"""
        roles = [role for name, (role, _, _) in self.patroni.members().items() if name != leader.name]
        return roles == ["sync_standby"] * 2

    def assert_nothing_in_clear(self, node):
        self.patroni.leader().sql("CHECKPOINT", fetch=False)
        self.assertEqual(self.canaries.found(node.data), {})

    def check_end(self):
        """All rows on three sealed nodes, whose bytes show none of them, while the plain directories do."""
        self.assertGreater(len(self.check_rows()), 20)
        nodes = self.patroni.nodes.values()
        for node in nodes:
            self.assert_nothing_in_clear(node)
        self.patroni.close()
        for node in nodes:
            self.assertEqual(self.canaries.found(node.data), {})
            self.assertIn("load", self.canaries.found(Path(f"{node.data}.plain")))
            run([PGSEAL, "verify", "-D", node.data], {"PGSEAL_PASSPHRASE_FILE": str(self.secret)})

    # The scenarios.

    def test_rolling(self):
        self.narrate(self.rolling)

    def rolling(self):
        self.begin()
        old = self.patroni.leader()
        first, second = (node for node in self.patroni.nodes.values() if node is not old)
        plain = first.config.read_text()
        self.seal(first)
        self.unseal(first, plain)
        self.seal(first)
        self.seal(second)
        self.give_token(old, first)
        self.switch(0, "node2", old, second)
        until(lambda: self.is_replica(old), "the old leader to run as a replica")
        self.commands("The switchover", old, 1)
        until(lambda: self.streams(old), "the plain node to follow a sealed leader")
        self.assertEqual(old.status()["sealed"], "no")
        self.switch(2, "node1", second, old)
        until(lambda: self.streams(first) and self.streams(second), "sealed nodes to follow the plain leader")
        self.switch(0, "node2", old, first)
        until(lambda: self.is_replica(old), "the old leader to run as a replica")
        self.seal(old)
        for node in self.patroni.nodes.values():
            self.commands("The old leader", node)
        self.more()
        self.check_end()

    def test_a_plain_node_without_a_token_is_refused(self):
        self.narrate(self.without_token)

    def without_token(self):
        self.begin()
        old = self.patroni.leader()
        first, second = (node for node in self.patroni.nodes.values() if node is not old)
        self.seal(first)
        self.switch(0, "node2", old, first)
        for node in (old, second):
            until(lambda node=node: REFUSAL in node.log.read_text(errors="replace"), f"{node.name} to be refused")
            self.assertFalse(self.streams(node))
        self.more()
        self.assert_not_moved(second)
        self.seal(second)
        self.seal(old)
        self.check_end()

    def test_a_plain_leader_that_cannot_be_rewound(self):
        self.narrate(self.killed)

    def killed(self):
        self.begin()
        old = self.patroni.leader()
        for node in self.patroni.nodes.values():
            if node is not old:
                self.seal(node)
        until(lambda: self.both_confirm(old), "two synchronous standbys")
        for pid in backends(old.data, "walsender"):
            os.kill(pid, signal.SIGSTOP)
        old.sql(f"SET synchronous_commit = local; INSERT INTO t VALUES (-1, '{self.canaries['lost']}'); CHECKPOINT", fetch=False)
        old.kill9()
        until(lambda: self.patroni.leader() not in (None, old), "another leader")
        self.more()
        before = len(old.log.read_text(errors="replace"))
        old.start({})
        until(lambda: "pg_rewind exit code=1" in old.log.read_text(errors="replace")[before:], "pg_rewind to fail")
        until(lambda: self.is_replica(old), "Patroni to start the server all the same")
        old.stop()
        self.assertNotIn("WARNING", run([PG / "pg_controldata", "-D", old.data]).stdout)
        self.assertEqual(old.status()["sealed"], "no")
        self.seal(old)
        self.assertEqual(old.sql("SELECT count(*) FROM t WHERE number = -1"), [(0,)])
        self.check_end()


if __name__ == "__main__":
    main(__file__, [PAGE, "docs/operations/patroni.md"])
