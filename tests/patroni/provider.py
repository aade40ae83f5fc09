#!/usr/bin/env python3
"""Three nodes under Patroni whose keys a provider wraps: bootstrap, replicas, rotation under load, switchover, a new replica, a
provider that is away, and a killed leader that is rewound with the provider's key. The provider is the stand-in of Vault (tests/keys/vault_server.py).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "keys"))

from nodes import run
from certificates import Certificates
from pgseal_test import PGSEAL, main
from takeover import until
from three_nodes import ThreeNodes
from vault_server import Vault


class Provider(ThreeNodes):
    def setUp(self):
        super().setUp()
        certificates = Certificates(self.directory)
        self.vault = Vault(certificates.pair("server"), certificates["ca.crt"], {})
        self.addCleanup(self.vault.close)
        self.vault.add_key("db")
        token = self.directory / "token"
        token.write_text("root-token\n")
        token.chmod(0o600)
        uri = f"vault://localhost:{self.vault.port}/transit/db?ca={certificates['ca.crt']}&token-file={token}"
        self.nodes_of(uri=uri)

    def test_rotation(self):
        self.narrate(self.scenario)

    def scenario(self):
        nodes = self.patroni.nodes.values()
        self.bootstrap({})
        for node in nodes:
            self.assert_wrapped("vault:v1:", node)
        self.start_loads()
        self.vault.rotate("db")
        for node in nodes:
            self.assertRegex(self.rotate(node).stdout, "opens the key now")
            self.assertRegex(self.rotate(node).stdout, "stays: its provider has no newer version")
        files = {(node.data / "pg_encryption/key.bin").read_bytes() for node in nodes}
        self.assertEqual(len(files), 3, "each node has a key file of its own")
        self.more()
        _, old = self.patroni.switch_over()
        self.more()
        self.assert_wrapped("vault:v2:", self.patroni.a_new_replica())
        self.restart(old)
        self.more()
        self.vault.close()
        for node in nodes:
            done = self.rotate(node, check=False)
            self.assertEqual(done.returncode, 6)
            self.assertRegex(done.stderr, "Vault at localhost:[0-9]+ does not answer")
            self.assert_wrapped("vault:v2:", node)
        self.more()
        self.check_rows()
        for node in nodes:
            self.assertEqual(node.status()["sealed"], "yes")

    def test_rewind(self):
        self.narrate(self.rewind)

    def rewind(self):
        """The old leader stays out until the provider gives its key, and loses nothing meanwhile."""
        self.bootstrap({})
        self.start_loads()
        old = self.kill_leader()
        self.more()
        before = len(old.log.read_text(errors="replace"))
        self.vault.tokens.discard("root-token")
        old.start({})
        for sentence in ["permission denied", "system ID is invalid; consider doing reinitialize"]:
            until(lambda sentence=sentence: sentence in old.log.read_text(errors="replace")[before:], f"the old leader to say: {sentence}")
        self.more()
        self.assertNotIn("running pg_rewind", old.log.read_text(errors="replace")[before:])
        self.vault.tokens.add("root-token")
        opened = self.opened()
        self.assert_rewound(old, before)
        self.assertGreater(self.opened(), opened)
        self.assert_wrapped("vault:v1:", old)
        self.more()
        self.check_rows()
        for node in self.patroni.nodes.values():
            self.assertEqual(node.status()["sealed"], "yes")
            node.sql("CHECKPOINT", fetch=False)
            self.assertEqual(self.canaries.found(node.data), {})

    def opened(self):
        """How often the provider was asked to open a key."""
        return sum(path.endswith("/decrypt/db") for _, path, _ in self.vault.requests)

    def rotate(self, node, check=True):
        return run([PGSEAL, "key", "rotate", "-D", node.data, "--older-than", "90d"], check=check)

    def assert_wrapped(self, version, node):
        self.assertIn(version.encode(), (node.data / "pg_encryption/key.bin").read_bytes())

    def restart(self, node):
        """The server gets its key from the new version, and the node is a replica again."""
        asked = len(self.vault.requests)
        self.patroni.ask(node, "restart", {"timeout": "60"})
        until(self.patroni.is_whole, "the node that was restarted")
        self.assertGreater(len(self.vault.requests), asked)


if __name__ == "__main__":
    main(__file__, ["docs/operations/patroni.md"])
