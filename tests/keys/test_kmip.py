#!/usr/bin/python3
"""Keys in a KMIP server: PyKMIP's, started on loopback with certificates of this test."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from certificates import Certificates  # noqa: E402
from impostor import Impostor  # noqa: E402
from kmip_server import Kmip  # noqa: E402
from life import Life  # noqa: E402
from pgseal_test import main  # noqa: E402
from provider import Provider  # noqa: E402
from requests_of_kms import CLUSTERS, PAYLOAD, Requests  # noqa: E402


class OfKmip(Requests, Provider):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.directory)
        self.kmip = self.server()
        self.key = self.kmip.create()

    def server(self, name="server"):
        kmip = Kmip(self.certificates, self.directory / f"of-{name}", name)
        self.addCleanup(kmip.close)
        return kmip

    def uri(self, key=None, port=None, client="client", **settings):
        chain, secret = self.certificates.pair(client)
        settings = {"ca": self.certificates["ca.crt"], "client_cert": chain, "client_key": secret, **settings}
        query = "&".join(f"{name.replace('_', '-')}={value}" for name, value in settings.items())
        return f"kmip://localhost:{port or self.kmip.port}/{key or self.key}?{query}"


class Whole(Life, OfKmip):
    called = "KMIP"

    def test_a_life(self):
        cluster, passphrase = self.a_life(self.uri())
        self.kmip.close()
        self.assert_fails(cluster, r"the KMIP server at localhost:\d+ does not answer \(Connection refused\): check its address")
        self.second_slot(cluster, passphrase)


class Slots(OfKmip):
    def test_cbc_of_version_2_leaves_the_check_to_the_payload(self):
        """CBC binds nothing, so another cluster's key comes back; the payload says whose it is."""
        uri = self.uri(version="2.0", cipher="cbc")
        one, other = self.made(uri), self.made(uri, name="other")
        for cluster in [one, other]:
            cluster.stop()
        theirs = (other.data / "pg_encryption/key.bin").read_bytes()
        key_bin = one.data / "pg_encryption/key.bin"
        mine = key_bin.read_bytes()
        key_bin.write_bytes(mine[:70] + theirs[70:-32] + mine[-32:])
        done = self.pgseal("key", "check", "-D", one.data, check=False)
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, "another cluster's key")


class Errors(OfKmip):
    """What needs no cluster."""

    def test_versions_and_ciphers(self):
        for version in ["1.4", "2.0"]:
            for cipher in ["gcm", "cbc"]:
                uri = self.uri(version=version, cipher=cipher)
                wrapped = self.wrap(uri)
                self.assertNotIn(b"pgsealk1", wrapped)
                done, payload = self.kms("unwrap", self.uri(), wrapped)
                self.assertEqual((done.stderr, payload), ("", PAYLOAD))
                self.assertNotEqual(self.wrap(uri), wrapped)
                self.assertEqual(self.kms("age", uri, wrapped)[1], b"current\n")

    def test_gcm_is_bound_to_the_cluster(self):
        wrapped = self.wrap(self.uri())
        self.assert_refused(self.uri(), r"the KMIP server at localhost:\d+ refuses to decrypt \(", wrapped, cluster=CLUSTERS[1])

    def test_what_was_wrapped_is_damaged(self):
        wrapped = bytearray(self.wrap(self.uri()))
        self.assert_refused(self.uri(), "the wrapped key is not one that a KMIP server made: restore key.bin", b"vault:v1:AAAA")
        wrapped[-1] ^= 1
        self.assert_refused(self.uri(), "the KMIP server at .* refuses to decrypt", bytes(wrapped))

    def test_the_server_answers_with_an_error(self):
        wrapped = self.wrap(self.uri())
        inactive = self.uri(self.kmip.create(activate=False))
        self.assert_refused(inactive, r"the KMIP server at .* refuses to decrypt \(permission denied\): The .*key must be in the Active state",
                            wrapped)
        self.assert_refused(self.uri("4711"), r".* refuses to decrypt \(item not found\): Could not locate object: 4711", wrapped)

    def test_names_and_certificates(self):
        wrapped = self.wrap(self.uri())
        stranger = self.server("stranger")
        self.assert_refused(self.uri(port=stranger.port), "the KMIP server at .* is not trusted .*certificate not valid for name", wrapped)
        self.assert_refused(self.uri(ca=self.certificates["other-ca.crt"]), "the KMIP server at .* is not trusted .*UnknownIssuer", wrapped)
        self.assert_refused(self.uri(client="impostor"), r"the KMIP server at .* refuses to talk to this client \(TLS alert UnknownCA\): "
                            "check client-cert", wrapped)
        os.chmod(self.certificates["client.key"], 0o644)
        self.assert_refused(self.uri(), ".*client.key holds a secret, and other users can read it: chmod 600 it", wrapped)

    def test_a_user_name_and_a_password(self):
        """PyKMIP reads them, and goes by the certificate; what is sent is seen by another server."""
        password = self.directory / "password"
        password.write_text("secret\n")
        self.assert_refused(self.uri(username="db", password_file=password), ".*password holds a secret, and other", b"\x02" + b"0" * 32)
        password.chmod(0o600)
        wrapped = self.wrap(self.uri(username="db", password_file=password))
        impostor = Impostor(self.certificates, b"HTTP/1.1")
        self.addCleanup(impostor.close)
        self.assert_refused(self.uri(port=impostor.port, username="db", password_file=password), ".*not of its documented form", wrapped)
        sent = bytes.fromhex("42009907 00000002") + b"db" + bytes(6) + bytes.fromhex("4200a107 00000006") + b"secret" + bytes(2)
        self.assertIn(sent, impostor.requests[0])

    def test_answers_that_are_none(self):
        wrapped = self.wrap(self.uri())
        message = bytes.fromhex("42007b01")
        for answer, pattern in [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not of its documented form"),
            (message + b"\xff\xff\xff\xff", "not of its documented form"),
            (message + b"\0\0\0\x08" + b"\0" * 8, "not of its documented form"),
            (message + b"\0\0\0\x18" + bytes.fromhex("42000f0100000010 42007f0500000004 0000000000000000"), "not of its documented form"),
            (message + b"\0\0\0\x08", "does not answer"),
        ]:
            impostor = Impostor(self.certificates, answer)
            self.addCleanup(impostor.close)
            self.assert_refused(self.uri(port=impostor.port), f".*{pattern}", wrapped)


if __name__ == "__main__":
    main(__file__)
