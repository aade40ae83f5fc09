#!/usr/bin/python3
"""Keys in Vault's transit engine. The server is a stand-in that checks what a client sends against the API's documentation
(vault_server.py): logins, namespaces, key versions, TLS, and answers that a client must survive.
"""

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from certificates import Certificates  # noqa: E402
from faults import Faults  # noqa: E402
from life import Life  # noqa: E402
from pgseal_test import main  # noqa: E402
from provider import Provider  # noqa: E402
from vault_server import Vault  # noqa: E402

TOKEN = "root-token"


class OfVault(Provider):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.directory)
        self.keys = {}
        self.vault = self.service = self.server()
        self.vault.add_key("seal")
        self.environment = {"VAULT_TOKEN": TOKEN}

    def server(self, name="server"):
        vault = Vault(self.certificates.pair(name), self.certificates["ca.crt"], self.keys)
        self.addCleanup(vault.close)
        return vault

    def uri(self, path="transit/seal", port=None, **settings):
        settings = {"ca": self.certificates["ca.crt"], **settings}
        return f"vault://localhost:{port or self.vault.port}/{path}?{self.query(**settings)}"


class Whole(Life, OfVault):
    called = "Vault"

    def test_a_life(self):
        cluster, passphrase = self.a_life(self.uri())
        self.assertIn(TOKEN, self.vault.renewed)
        self.vault.close()
        self.assert_fails(cluster, r"Vault at localhost:\d+ does not answer \(.*\): check its address")
        self.second_slot(cluster, passphrase)


class Slots(OfVault):
    def test_a_timer_wraps_anew_when_there_is_a_newer_version(self):
        cluster = self.made(self.uri())
        rotate = ["key", "rotate", "-D", cluster.data, "--older-than"]
        self.assertRegex(self.pgseal(*rotate, "90d").stdout,
                         r"^slot 1 stays: its provider has no newer version of the key, and it was made at \S+ and is due at \S+\n$")
        self.vault.rotate("seal")
        self.assertEqual(self.pgseal(*rotate, "90d").stdout, "slot 2 opens the key now, slot 1 is gone\n")
        self.assertIn(b"vault:v2:", (cluster.data / "pg_encryption/key.bin").read_bytes())
        self.assertRegex(self.pgseal(*rotate, "90d").stdout, "^slot 2 stays")
        self.assertEqual(self.pgseal(*rotate, "0s").stdout, "slot 1 opens the key now, slot 2 is gone\n")

    def test_a_clone(self):
        """It shares the primary's key, which the provider unwraps, or has a key of its own, which the provider wraps."""
        primary = self.made(self.uri())
        clone = ["clone", "--pg", primary.pg, "-h", primary.home, "-U", "postgres", "--key-provider", self.uri(), "-D"]
        shared, own = (self.cluster(name, environment=self.environment) for name in ("shared", "own"))
        self.pgseal(*clone, shared.data)
        token = self.pgseal("receiver", "grant", "-D", primary.data, "--role", "postgres", "--until", "1h").stdout.strip()
        self.pgseal(*clone, own.data, "--new-key", environment={"PGOPTIONS": f"-c pgseal.receiver={token}"})
        key_bin = [(cluster.data / "pg_encryption/key.bin").read_bytes() for cluster in (primary, shared, own)]
        self.assertEqual(key_bin[0], key_bin[1])
        self.assertNotEqual(key_bin[0], key_bin[2])
        for cluster in shared, own:
            self.assertIn("opens", self.pgseal("key", "check", "-D", cluster.data).stdout)

    def test_namespaces_and_mounts(self):
        self.vault.add_key("k", mount="teams/db/transit", namespace="eu")
        self.made(self.uri("teams/db/transit/k", namespace="eu"))
        self.assertEqual({headers.get("X-Vault-Namespace") for _, _, headers in self.vault.requests}, {"eu"})

    def test_a_derived_key_is_bound_to_the_cluster(self):
        self.vault.add_key("own", derived=True)
        cluster = self.made(self.uri("transit/own", derived="true"))
        done = self.pgseal("key", "check", "-D", cluster.data, "--key-provider", self.uri("transit/own"), check=False)
        self.assertRegex(done.stderr, r"refuses to decrypt \(400\): missing 'context' for key derivation")

    def test_no_token_is_in_an_argument_or_in_the_key_file(self):
        cluster = self.made(self.uri())
        self.assertNotIn(TOKEN.encode(), (cluster.data / "pg_encryption/key.bin").read_bytes())


class Logins(OfVault):
    def assert_logs_in(self, method, expected, **settings):
        self.environment = {}
        self.vault.logins[method] = expected
        cluster = self.made(self.uri(auth=settings.pop("auth", method), **settings))
        # Each token that was got for one request is given back.
        self.assertEqual(self.vault.tokens, {TOKEN})
        self.assertGreater(len(self.vault.revoked), 1)
        return cluster

    def test_approle(self):
        files = {"role_id_file": self.secret("role", "r-1"), "secret_id_file": self.secret("id", "s-1")}
        cluster = self.assert_logs_in("approle", {"role_id": "r-1", "secret_id": "s-1"}, **files)
        self.secret("id", "s-2")
        self.assert_fails(cluster, r"refuses to log in \(400\): invalid login")

    def test_kubernetes(self):
        token = self.secret("jwt", "a.b.c")
        self.assert_logs_in("kubernetes", {"role": "db", "jwt": "a.b.c"}, role="db", jwt_file=token)

    def test_jwt_at_another_path(self):
        token = self.secret("jwt", "a.b.c")
        self.assert_logs_in("ci", {"role": "db", "jwt": "a.b.c"}, auth="jwt", role="db", jwt_file=token, auth_path="ci")

    def test_a_certificate(self):
        chain, key = self.certificates.pair("client")
        self.assert_logs_in("cert", {"name": "db"}, role="db", client_cert=chain, client_key=key)

    def test_a_token_in_a_file(self):
        self.environment = {}
        cluster = self.made(self.uri(token_file=self.secret("token", TOKEN)))
        (self.directory / "token").chmod(0o640)
        self.assert_fails(cluster, "token holds a secret, and other users can read it: chmod 600 it")

    def test_a_credential_of_systemd(self):
        self.secret("vault-token", TOKEN)
        self.environment = {"CREDENTIALS_DIRECTORY": str(self.directory)}
        self.made(self.uri())

    def test_no_credential(self):
        cluster = self.made(self.uri())
        self.environment = {}
        self.assert_fails(cluster, "no credential for Vault was found: name a file with token-file=")

    def test_a_token_that_expired(self):
        cluster = self.made(self.uri())
        self.vault.tokens.clear()
        self.assert_fails(cluster, r"refuses to decrypt \(403\): permission denied")
        self.assertTrue(cluster.psql("SELECT 1"))  # the running server does not notice


class Errors(Faults, OfVault):
    called = "Vault"

    def test_other_answers_that_are_none(self):
        wrapped = self.wrap(self.uri())
        for text in [5, "!"]:
            self.vault.faults.append((200, {"data": {"plaintext": text}}))
            self.assert_refused(self.uri(), self.at("gave an answer that is not of its documented form"), wrapped)

    def test_the_words_of_the_service(self):
        wrapped = self.wrap(self.uri())
        self.vault.faults += [(503, {"errors": ["Vault is sealed"]})] * 1000
        self.assert_refused(self.uri(), self.at(r"refuses to decrypt \(503\): Vault is sealed"), wrapped)


class Clusters(OfVault):
    def test_an_answer_that_is_no_key(self):
        cluster = self.made(self.uri())
        self.vault.faults.append((200, {"data": {"plaintext": "AAAA"}}))
        done = self.pgseal("key", "check", "-D", cluster.data, check=False)
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, "what was unwrapped is not a pgseal key")

    def test_an_empty_server_in_its_place(self):
        cluster = self.made(self.uri())
        self.keys.clear()
        self.assert_fails(cluster, r"refuses to decrypt \(400\): encryption key not found")

    def test_the_key_of_another_cluster(self):
        one, other = self.made(self.uri()), self.made(self.uri(), name="other")
        for cluster in [one, other]:
            cluster.stop()
        theirs = (other.data / "pg_encryption/key.bin").read_bytes()
        key_bin = one.data / "pg_encryption/key.bin"
        mine = key_bin.read_bytes()
        key_bin.write_bytes(mine[:70] + theirs[70:-32] + mine[-32:])
        done = self.pgseal("key", "check", "-D", one.data, check=False)
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, "another cluster's key")

    def test_a_slot_with_one_bit_flipped(self):
        cluster = self.made(self.uri())
        cluster.stop()
        key_bin = cluster.data / "pg_encryption/key.bin"
        mine = bytearray(key_bin.read_bytes())
        for at in [mine.index(b"vault://") + 9, mine.index(b"vault:v1") + 20]:
            mine[at] ^= 1
            key_bin.write_bytes(mine)
            done = self.pgseal("key", "check", "-D", cluster.data, check=False)
            self.assertIn(done.returncode, (5, 6), done.stderr)
            mine[at] ^= 1

    def test_two_rotations_at_once(self):
        """One of them wins; the other is told so, or comes after it."""
        cluster = self.made(self.uri())
        results = []

        def rotate():
            results.append(self.pgseal("key", "rotate", "-D", cluster.data, "--new-provider", self.uri(), check=False))

        threads = [threading.Thread(target=rotate) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIn(0, [done.returncode for done in results])
        self.assertTrue(all(done.returncode in (0, 9) for done in results), [done.stderr for done in results])
        self.pgseal("key", "check", "-D", cluster.data)


if __name__ == "__main__":
    main(__file__)
