#!/usr/bin/env python3
"""Three sealed nodes under Patroni: bootstrap, replicas, switchover, another passphrase, a killed leader, its return."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nodes import page_block, run, unit_environment
from pgseal_test import PG, PGSEAL, main
from takeover import postmaster
from three_nodes import ThreeNodes


class Failover(ThreeNodes):
    def setUp(self):
        super().setUp()
        self.nodes_of()
        self.environment = unit_environment(self.patroni.secret)
        self.assertEqual(self.environment, {"PGSEAL_PASSPHRASE_FILE": str(self.patroni.secret), "PGSEAL_EXPECT_KEY": ""})

    def test_failover(self):
        self.narrate(self.scenario)

    def scenario(self):
        self.environment = self.bootstrap(self.environment)
        self.key = self.environment["PGSEAL_EXPECT_KEY"]
        self.assert_sealed()
        self.start_loads(2)
        self.patroni.switch_over()
        self.more()
        self.another_passphrase()
        self.more()
        old = self.kill_leader()
        self.more()
        self.old_leader_returns(old)
        self.more()
        self.a_new_replica()
        self.check_rows()
        self.check_dump()
        self.check_bytes()

    def assert_sealed(self):
        """Every node runs sealed under the one key."""
        for node in self.patroni.nodes.values():
            status = node.status()
            self.assertEqual((status["sealed"], status["key id"]), ("yes", self.key))
            self.assertEqual(status["server"], f"running sealed (process {postmaster(node.data)})")

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

    def old_leader_returns(self, old):
        self.rewinds(old, self.environment)
        self.assert_sealed()

    def a_new_replica(self):
        """A replica that is made now copies a key file that the new passphrase opens."""
        self.patroni.a_new_replica()
        self.assert_sealed()

    def check_dump(self):
        """A dump shows the canary that no file of the nodes may show."""
        dump = self.directory / "dump.sql"
        run([PG / "pg_dump", "-h", "127.0.0.1", "-p", str(self.patroni.leader().port), "-U", "postgres", "-f", dump, "postgres"],
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
