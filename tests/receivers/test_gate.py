#!/usr/bin/env python3
"""Who may start physical replication from a sealed server, and what each is sent (DESIGN 1.4, crypto.md 9)."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import Receivers
from pgseal_test import main

NOTHING = "does not say what it may receive"


class Connections(Receivers):
    """What a connection shows decides before it can run a command."""

    def test_who_is_let_in(self):
        cluster = self.serve()
        good = cluster.token()
        altered = good[:-1] + ("0" if good[-1] != "0" else "1")
        refused = {
            "sealed": "no receiver token", "RAW": "no receiver token",
            altered: "not made under this cluster's key",
            cluster.token(expiry=int(time.time()) - 1): "has expired",
            cluster.token(role="repl"): "another role's",
            cluster.token(system_id=cluster.system_id() + 1): "not made under this cluster's key",
            cluster.token(master=bytes(32)): "not made under this cluster's key",
        }
        for receiver, reason in refused.items():
            with self.subTest(receiver=receiver):
                done = self.command(cluster, "IDENTIFY_SYSTEM", receiver)
                self.assertRefused(done)
                self.assertIn(reason, done.stderr)
                self.assertEqual(done.stdout, "")
        for receiver in [None, "", "raw", good]:
            done = self.command(cluster, "IDENTIFY_SYSTEM", receiver, check=True)
            self.assertIn(str(cluster.system_id()), done.stdout)
        self.assertIn(str(cluster.system_id()),
                      self.command(cluster, "IDENTIFY_SYSTEM", cluster.token(role="repl"), PGUSER="repl").stdout)

    def test_what_shows_nothing_may_only_ask(self):
        """Patroni asks for a server's timeline on connections whose options it sets itself."""
        cluster = self.serve()
        for command in ["BASE_BACKUP", "START_REPLICATION 0/1000000", "START_REPLICATION PHYSICAL 0/1000000 TIMELINE 1"]:
            for receiver in [None, ""]:
                with self.subTest(command, receiver=receiver):
                    done = self.command(cluster, command, receiver)
                    self.assertRefused(done)
                    self.assertIn(NOTHING, done.stderr)
                    self.assertEqual(done.stdout, "")

    def test_a_token_needs_a_private_connection(self):
        cluster = self.serve()
        network = {"PGHOST": "127.0.0.1", "PGSSLMODE": "disable"}
        done = self.command(cluster, "IDENTIFY_SYSTEM", cluster.token(), **network)
        self.assertRefused(done)
        self.assertIn("TLS or a local socket", done.stderr)
        self.assertIn(str(cluster.system_id()), self.command(cluster, "IDENTIFY_SYSTEM", "raw", **network).stdout)

    def test_the_twin_of_psql_asks_as_raw(self):
        """It stores no copy; its other connections declare nothing."""
        cluster = self.serve()

        def ask(command, place="replication=1", **options):
            return cluster.run("psql", "-X", "-A", "-t", "-d", f"dbname=postgres {place}", "-c", command, **options)

        for place in ["replication=1", "replication=ON", "replication='true'"]:
            self.assertIn(str(cluster.system_id()), ask("IDENTIFY_SYSTEM", place).stdout)
        self.assertRefused(ask("START_REPLICATION PHYSICAL 0/1000000", check=False), "raw")
        self.assertEqual(ask("SHOW pgseal.receiver").stdout, "raw\n")
        for place in ["replication=database", "replication=off", "application_name=replication"]:
            self.assertEqual(ask("SHOW pgseal.receiver", place).stdout, "\n")

    def test_a_plain_server_gates_nobody(self):
        cluster = self.serve(sealed=False)
        self.assertIn(str(cluster.system_id()), self.command(cluster, "IDENTIFY_SYSTEM").stdout)


if __name__ == "__main__":
    main(__file__)
