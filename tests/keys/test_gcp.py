#!/usr/bin/python3
"""Keys in Google Cloud KMS. The services are stand-ins that check what a client sends against the REST references
(google_server.py).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from certificates import Certificates  # noqa: E402
from faults import Faults  # noqa: E402
from google_server import ACCOUNT, KEY, CloudKms, Keys, Tokens  # noqa: E402
from life import Life  # noqa: E402
from pgseal_test import main  # noqa: E402
from provider import Provider  # noqa: E402
from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: E402
from requests_of_kms import CLUSTERS, PAYLOAD, Requests  # noqa: E402


class OfGoogle(Provider):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.directory)
        self.keys = Keys()
        self.service = self.server("server")
        self.secret("account.json", self.keys.account_file())
        self.environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(self.directory / "account.json"), "HOME": "/nonexistent"}

    def server(self, certificate):
        service = CloudKms(self.certificates.pair(certificate), self.keys)
        self.addCleanup(service.close)
        return service

    def tokens(self, **options):
        tokens = Tokens(self.keys, **options)
        self.addCleanup(tokens.close)
        return tokens

    def uri(self, key=KEY, port=None, **settings):
        settings = {"ca": self.certificates["ca.crt"], "endpoint": f"https://localhost:{port or self.service.port}", **settings}
        return f"gcpkms://{key}?{self.query(**settings)}"


class Whole(Life, OfGoogle):
    called = "Google Cloud KMS"

    def test_a_life(self):
        cluster, passphrase = self.a_life(self.uri())
        self.assertNotIn(b"PRIVATE KEY", (cluster.data / "pg_encryption/key.bin").read_bytes())
        self.service.close()
        self.assert_fails(cluster, r"Google Cloud KMS at localhost:\d+ does not answer \(.*\): check its address")
        self.second_slot(cluster, passphrase)


class Slots(OfGoogle):
    def test_a_timer_wraps_anew_when_there_is_a_newer_version(self):
        cluster = self.made(self.uri())
        rotate = ["key", "rotate", "-D", cluster.data, "--older-than", "90d"]
        self.assertRegex(self.pgseal(*rotate).stdout, "^slot 1 stays: its provider has no newer version of the key")
        self.keys.versions[KEY].append(AESGCM(AESGCM.generate_key(256)))
        self.assertEqual(self.pgseal(*rotate).stdout, "slot 2 opens the key now, slot 1 is gone\n")


class Errors(Faults, OfGoogle):
    called = "Google Cloud KMS"

    def test_the_wrapping_is_bound_to_the_cluster(self):
        wrapped = self.wrap(self.uri())
        self.assertNotIn(b"pgsealk1", wrapped)
        self.assert_refused(self.uri(), self.at(r"refuses to decrypt \(INVALID_ARGUMENT\): Decryption failed"), wrapped,
                            cluster=CLUSTERS[1])

    def test_another_key(self):
        self.assert_refused(self.uri(key=KEY + "2"), self.at(r"refuses to decrypt \(NOT_FOUND\): CryptoKey .*seal2"), self.wrap(self.uri()))

    def test_damage_on_the_way(self):
        """Each sum is looked at: of what is sent, by the service, and of what comes back."""
        wrapped = self.wrap(self.uri())
        for damage in ["plaintext", "additionalAuthenticatedData", "answer"]:
            self.service.damage = damage
            done, made = self.kms("wrap", self.uri(), PAYLOAD)
            self.assertEqual((done.returncode, made), (6, b""))
            self.assertRegex(done.stderr, "what was sent to Google Cloud KMS at .* was damaged on its way")
        for damage, pattern in [("ciphertext", r"Google Cloud KMS at .* refuses to decrypt \(INVALID_ARGUMENT\): checksum"),
                                ("answer", "what was sent to Google Cloud KMS at .* or came back was damaged")]:
            self.service.damage = damage
            self.assert_refused(self.uri(), pattern, wrapped)


class Logins(Requests, OfGoogle):
    """What needs no cluster: whose token goes to the service."""

    def assert_opens(self, environment=None, **settings):
        if environment is not None:
            self.environment = {"HOME": "/nonexistent", **environment}
        done, payload = self.kms("unwrap", self.uri(**settings), self.wrap(self.uri(**settings)))
        self.assertEqual((done.stderr, payload), ("", PAYLOAD))

    def assert_no_token(self, pattern, environment, **settings):
        self.environment = {"HOME": "/nonexistent", **environment}
        self.assert_refused(self.uri(**settings), pattern, b"x" * 64)

    def test_a_service_account(self):
        account = str(self.directory / "account.json")
        self.assert_opens()
        self.assert_opens({}, credentials=account)
        systemd = self.directory / "systemd"
        systemd.mkdir()
        (self.directory / "account.json").rename(systemd / "google-credentials")
        self.assert_opens({"CREDENTIALS_DIRECTORY": str(systemd)})
        home = self.directory / "home/.config/gcloud"
        home.mkdir(parents=True)
        (systemd / "google-credentials").rename(home / "application_default_credentials.json")
        self.assert_opens({"HOME": str(self.directory / "home")})

    def test_another_account(self):
        other = self.secret("other.json", Keys().account_file())
        self.assert_no_token(r"Google Cloud KMS at .* refuses to decrypt \(UNAUTHENTICATED\): Request had invalid", {}, credentials=other)

    def test_a_machine(self):
        tokens = self.tokens()
        self.assert_opens({"GCE_METADATA_HOST": f"127.0.0.1:{tokens.port}"})
        tokens.close()
        self.assert_no_token("no credential for Google Cloud KMS was found: name a file", {"GCE_METADATA_HOST": f"127.0.0.1:{tokens.port}"})

    def test_a_workload(self):
        tokens = self.tokens()
        subject = self.secret("subject", "a.platform.token\n")
        workload = self.secret("workload.json", tokens.account_file(subject))
        self.assert_opens({}, credentials=workload)
        self.secret("subject", '{"token": "a.platform.token"}')
        source = {"format": {"type": "json", "subject_token_field_name": "token"}}
        self.secret("workload.json", tokens.account_file(subject, source=source))
        self.assert_opens({}, credentials=workload)
        url = f"{tokens.url}/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"
        self.secret("workload.json", tokens.account_file(subject, source=source, service_account_impersonation_url=url))
        self.assert_opens({}, credentials=workload)
        self.secret("subject", '{"token": "old"}')
        pattern = r"Google Cloud KMS at 127.0.0.1:\d+ refuses to give a token \(invalid_grant\): The subject token is expired"
        self.assert_no_token(pattern, {}, credentials=workload)

    def test_files_that_are_of_no_use(self):
        token = self.secret("token", "x")
        for text, pattern in [
            ("{", "has no JSON"),
            ('{"type": "authorized_user"}', "has no type service_account or external_account"),
            ('{"type": "service_account"}', "has no client_email"),
            ('{"type": "service_account", "client_email": "a", "private_key_id": "k", "private_key": "x"}', "has no private_key of RSA"),
            ('{"type": "external_account"}', "has no credential_source with a file"),
            (self.tokens().account_file(token, token_url="http://sts.example/v1/token"), "has no addresses that begin with https://"),
        ]:
            self.assert_no_token(f".*bad.json {pattern}", {}, credentials=self.secret("bad.json", text))
        (self.directory / "bad.json").chmod(0o644)
        self.assert_no_token(".*bad.json holds a secret, and other users can read it", {}, credentials=self.directory / "bad.json")
        self.assert_no_token(".*absent.json cannot be read", {}, credentials=self.directory / "absent.json")


if __name__ == "__main__":
    main(__file__)
