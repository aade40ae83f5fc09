#!/usr/bin/python3
"""Keys in AWS KMS. moto's server takes the place of the service; it binds what it encrypts to the encryption context, as AWS does."""

import base64
import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from certificates import Certificates  # noqa: E402
from impostor import Impostor  # noqa: E402
from moto_server import REGION, Moto  # noqa: E402
from life import Life  # noqa: E402
from pgseal_test import main  # noqa: E402
from provider import Provider  # noqa: E402
from requests_of_kms import CLUSTERS, PAYLOAD, Requests  # noqa: E402

# No test may find the metadata of the machine that it runs on.
NOTHING = {"AWS_EC2_METADATA_DISABLED": "true"}
STATIC = {**NOTHING, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a-secret"}


class OfAws(Requests, Provider):
    environment = STATIC

    def setUp(self):
        super().setUp()
        self.moto = Moto(self.directory)
        self.addCleanup(self.moto.close)
        self.key = self.moto.create()

    def uri(self, key=None, **settings):
        settings = {"region": REGION, "endpoint": self.moto.url, **settings}
        query = "&".join(f"{name}={value}" for name, value in settings.items())
        return f"awskms://{key or self.key['KeyId']}?{query}"


class Whole(Life, OfAws):
    called = "AWS KMS"

    def test_a_life(self):
        cluster, passphrase = self.a_life(self.uri())
        self.assertNotIn(b"AKIDEXAMPLE", (cluster.data / "pg_encryption/key.bin").read_bytes())
        self.moto.close()
        self.assert_fails(cluster, r"AWS KMS at http://127.0.0.1:\d+ does not answer \(.*Connection refused\): check its address")
        self.second_slot(cluster, passphrase)


class Slots(OfAws):
    def test_the_key_of_another_cluster(self):
        """The encryption context is the cluster's own, so the service does not decrypt it."""
        one, other = self.made(self.uri()), self.made(self.uri(), name="other")
        for cluster in [one, other]:
            cluster.stop()
        theirs = (other.data / "pg_encryption/key.bin").read_bytes()
        key_bin = one.data / "pg_encryption/key.bin"
        mine = key_bin.read_bytes()
        key_bin.write_bytes(mine[:70] + theirs[70:-32] + mine[-32:])
        self.assert_fails(one, r"refuses to decrypt \(InvalidCiphertextException\)")


class Errors(OfAws):
    """What needs no cluster."""

    def assert_opens(self, uri, wrapped):
        done, payload = self.kms("unwrap", uri, wrapped)
        self.assertEqual((done.stderr, payload), ("", PAYLOAD))

    def test_names_of_a_key(self):
        self.moto.call("CreateAlias", AliasName="alias/db", TargetKeyId=self.key["KeyId"])
        wrapped = self.wrap(self.uri())
        self.assertNotIn(b"pgsealk1", wrapped)
        for key in ["alias/db", self.key["Arn"], self.key["Arn"].replace(":", "%3A").replace("/", "%2F")]:
            self.assert_opens(self.uri(key), wrapped)
        self.assert_opens(f"awskms://{self.key['Arn']}?endpoint={self.moto.url}", wrapped)
        self.assertEqual(self.kms("age", self.uri(), wrapped)[1], b"current\n")

    def test_the_encryption_context_names_the_cluster(self):
        wrapped = self.wrap(self.uri())
        self.assert_refused(self.uri(), r"AWS KMS at http://127.0.0.1:\d+ refuses to decrypt \(InvalidCiphertextException\): ", wrapped,
                            cluster=CLUSTERS[1])
        context = {"pgseal:cluster": CLUSTERS[0]}
        blob = base64.b64encode(wrapped).decode()
        self.assertIn("Plaintext", self.moto.call("Decrypt", CiphertextBlob=blob, EncryptionContext=context))

    def test_the_service_answers_with_an_error(self):
        wrapped = self.wrap(self.uri())
        self.assert_refused(self.uri(), r"AWS KMS at .* refuses to decrypt \(\w+Exception\): ", wrapped[:-1] + b"?")
        absent = self.uri("11111111-2222-3333-4444-555555555555")
        self.assert_refused(absent, r"AWS KMS at .* refuses to decrypt \(NotFoundException\): .*11111111", wrapped)
        self.assert_refused(self.uri(self.moto.create()["KeyId"]), r"AWS KMS at .* refuses to decrypt \(\w+Exception\): ", wrapped)

    def test_credentials(self):
        wrapped = self.wrap(self.uri())
        self.environment = NOTHING
        self.assert_refused(self.uri(), "no credential for AWS KMS was found: give the server's user a role", wrapped)
        files = self.directory / "credentials"
        files.write_text("[seal]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = a-secret\n")
        self.environment = {**NOTHING, "AWS_SHARED_CREDENTIALS_FILE": str(files), "AWS_CONFIG_FILE": "/nonexistent"}
        self.assert_opens(self.uri(profile="seal"), wrapped)
        self.assert_refused(self.uri(profile="absent"), "(no credential for AWS KMS|the chain of AWS credentials cannot give one)", wrapped)

    def test_a_web_identity(self):
        wrapped = self.wrap(self.uri())
        token = self.directory / "token"
        token.write_text("a.web.token")
        self.environment = {**NOTHING, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/db",
                            "AWS_ENDPOINT_URL_STS": self.moto.url}
        self.assert_opens(self.uri(), wrapped)
        os.unlink(token)
        self.assert_refused(self.uri(), "the chain of AWS credentials cannot give one: .*No such file", wrapped)

    def test_settings_that_are_refused(self):
        for uri, pattern in [
            (self.uri(endpoint="http://kms.example"), "endpoint in the key provider's URI must be https://"),
            (f"awskms://{self.key['KeyId']}", "the key provider's URI does not say region"),
            (self.uri(password="x"), "the key provider's URI must not contain a secret, and password is one"),
        ]:
            self.assert_refused(uri, pattern, b"x")

    def test_services_that_are_none(self):
        certificates = Certificates(self.directory)
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        self.assert_refused(self.uri(endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}"), "AWS KMS at .* does not answer .*time", b"x")
        garbage = Impostor(certificates, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 1\r\n\r\n{", tls=False)
        self.addCleanup(garbage.close)
        self.assert_refused(self.uri(endpoint=f"http://127.0.0.1:{garbage.port}"), "AWS KMS at .* not of its documented form", b"x")
        stranger = Impostor(certificates, b"")
        self.addCleanup(stranger.close)
        self.assert_refused(self.uri(endpoint=f"https://localhost:{stranger.port}"), "AWS KMS at .* is not trusted .*certificate", b"x")


if __name__ == "__main__":
    main(__file__)
