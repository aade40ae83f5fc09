#!/usr/bin/python3
"""Keys in Azure Key Vault. The services are stand-ins that check what a client sends against the REST references (azure_server.py)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from azure_server import CLIENT, RESOURCE, SECRET, TENANT, Keys, KeyVault, Tokens  # noqa: E402
from certificates import Certificates  # noqa: E402
from faults import Faults  # noqa: E402
from life import Life  # noqa: E402
from pgseal_test import main  # noqa: E402
from provider import Provider  # noqa: E402
from requests_of_kms import PAYLOAD, Requests  # noqa: E402


class OfAzure(Provider):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.directory)
        self.keys = Keys()
        self.service = self.server("server")
        self.machine = self.tokens()
        self.environment = {"AZURE_POD_IDENTITY_AUTHORITY_HOST": self.machine.url}

    def server(self, certificate):
        service = KeyVault(self.certificates.pair(certificate), self.keys)
        self.addCleanup(service.close)
        return service

    def tokens(self, proof=None):
        tokens = Tokens(self.keys, proof)
        self.addCleanup(tokens.close)
        return tokens

    def uri(self, key="seal", port=None, **settings):
        settings = {"ca": self.certificates["ca.crt"], **settings}
        return f"azurekms://localhost:{port or self.service.port}/{key}?{self.query(**settings)}"


class Whole(Life, OfAzure):
    called = "Azure Key Vault"

    def test_a_life(self):
        cluster, passphrase = self.a_life(self.uri())
        self.service.close()
        self.assert_fails(cluster, r"Azure Key Vault at localhost:\d+ does not answer \(.*\): check its address")
        self.second_slot(cluster, passphrase)


class Slots(OfAzure):
    def test_a_timer_wraps_anew_when_there_is_a_newer_version(self):
        cluster = self.made(self.uri())
        rotate = ["key", "rotate", "-D", cluster.data, "--older-than", "90d"]
        self.assertRegex(self.pgseal(*rotate).stdout, "^slot 1 stays: its provider has no newer version of the key")
        self.keys.rotate("seal")
        self.assertEqual(self.pgseal(*rotate).stdout, "slot 2 opens the key now, slot 1 is gone\n")


class Errors(Faults, OfAzure):
    called = "Azure Key Vault"

    def test_versions_of_a_key(self):
        """A wrapped key names the version that wrapped it, which unwraps it after a rotation."""
        wrapped = self.wrap(self.uri())
        first = list(self.keys.versions["seal"])[0]
        self.assertTrue(wrapped.startswith(f"azurekms:{first}:".encode()))
        self.assertEqual(self.kms("age", self.uri(), wrapped)[1], b"current\n")
        self.keys.rotate("seal")
        self.assertEqual(self.kms("age", self.uri(), wrapped)[1], b"older\n")
        self.assertEqual(self.kms("age", self.uri(f"seal/{first}"), wrapped)[1], b"current\n")
        self.assertEqual(self.kms("unwrap", self.uri(), wrapped)[1], PAYLOAD)
        self.assertTrue(self.wrap(self.uri(f"seal/{first}")).startswith(f"azurekms:{first}:".encode()))

    def test_the_service_answers_with_an_error(self):
        wrapped = self.wrap(self.uri())
        self.assert_refused(self.uri("absent"), self.at(r"refuses to unwrap \(KeyNotFound\): A key with"), wrapped)
        # Another letter of base64url, in a bit that counts.
        damaged = wrapped[:-9] + (b"A" if wrapped[-9:-8] != b"A" else b"B") + wrapped[-8:]
        self.assert_refused(self.uri(), self.at(r"refuses to unwrap \(BadParameter\): The parameter is incorrect"), damaged)
        for other in [b"", b"vault:v1:AAAA", b"azurekms:../x:AAAA"]:
            self.assert_refused(self.uri(), "the wrapped key is not one that Azure Key Vault made", other)


class Logins(Requests, OfAzure):
    """What needs no cluster: whose token goes to the service."""

    def assert_opens(self, environment, **settings):
        self.environment = environment
        done, payload = self.kms("unwrap", self.uri(**settings), self.wrap(self.uri(**settings)))
        self.assertEqual((done.stderr, payload), ("", PAYLOAD))

    def assert_no_token(self, pattern, environment, **settings):
        self.environment = environment
        self.assert_refused(self.uri(**settings), pattern, b"azurekms:0f:AAAA")

    def test_a_machine(self):
        machine = self.environment
        self.assert_opens({**machine, "AZURE_CLIENT_ID": CLIENT})
        self.assert_opens(machine, client_id=CLIENT)
        self.assert_no_token(r"the managed identity at .* refuses to give a token \(invalid_request\): Identity not found", machine,
                             client_id="another")
        self.machine.close()
        self.assert_no_token("no credential for Azure Key Vault was found: this machine has no managed identity", machine)

    def test_an_application_by_its_secret(self):
        url = self.tokens({"client_secret": SECRET}).url
        names = {"AZURE_CLIENT_ID": CLIENT, "AZURE_TENANT_ID": TENANT, "AZURE_AUTHORITY_HOST": url + "/"}
        self.assert_opens({**names, "AZURE_CLIENT_SECRET": SECRET})
        path = self.secret("azure-client-secret", SECRET)
        self.assert_opens({}, client_id=CLIENT, tenant_id=TENANT, authority=url, client_secret_file=path)
        self.assert_opens({**names, "CREDENTIALS_DIRECTORY": str(self.directory)}, auth="secret")
        self.secret("azure-client-secret", "wrong")
        pattern = r"Microsoft Entra ID at .* refuses to give a token \(invalid_client\): AADSTS7000215: Invalid client secret"
        self.assert_no_token(pattern, names, client_secret_file=path)
        self.assert_no_token("no credential for Azure Key Vault was found: name a file with client-secret-file=", names, auth="secret")
        self.assert_no_token("no credential for Azure Key Vault was found: set tenant-id=", {"AZURE_CLIENT_SECRET": SECRET},
                             client_id=CLIENT)

    def test_a_workload(self):
        """As in Kubernetes, whose webhook sets these variables."""
        proof = {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": "a.platform.token"}
        path = self.secret("token", "a.platform.token")
        names = {"AZURE_CLIENT_ID": CLIENT, "AZURE_TENANT_ID": TENANT, "AZURE_AUTHORITY_HOST": self.tokens(proof).url,
                 "AZURE_FEDERATED_TOKEN_FILE": str(path)}
        self.assert_opens(names)
        self.assert_opens({**self.environment, **names}, auth="workload", resource=RESOURCE)
        path.unlink()
        self.assert_no_token(".*/token cannot be read", names)


if __name__ == "__main__":
    main(__file__)
