"""Stand-ins for Google Cloud on loopback, written from its REST references: Cloud KMS's encrypt and decrypt of a symmetric key,
with their CRC32C sums; the Security Token Service's exchange (RFC 8693); generateAccessToken of IAM credentials; a machine's
metadata. They check each field.
"""

import base64
import json
import os
import time
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import api

KEY = "projects/p/locations/europe-west3/keyRings/r/cryptoKeys/seal"
ACCOUNT = "db@p.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/cloudkms"


def crc32c(data):
    """By its polynomial, bit for bit (RFC 3720)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return str(crc ^ 0xFFFFFFFF)


class Refusal(api.Refusal):
    """An error in Google's form."""

    def __init__(self, code, status, message):
        super().__init__(code, {"error": {"code": code, "status": status, "message": message}})


class Keys:
    """What the service keeps: versions of keys by name, access tokens that are good, and the public key of a service account."""

    def __init__(self):
        self.versions = {KEY: [AESGCM(os.urandom(32))]}
        self.tokens = set()
        self.signer = rsa.generate_private_key(65537, 2048)

    def account_file(self):
        """The file that Google gives out for a service account."""
        pem = self.signer.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return json.dumps({"type": "service_account", "client_email": ACCOUNT, "private_key_id": "k1", "private_key": pem.decode(),
                           "token_uri": "https://nobody.example/token"})

    def token(self):
        token = "ya29." + os.urandom(12).hex()
        self.tokens.add(token)
        return token

    def check(self, header):
        """Is it a token that was given out, or one that the service account signed for this service?"""
        scheme, _, token = (header or "").partition(" ")
        if scheme != "Bearer" or token not in self.tokens and not self.is_signed(token):
            raise Refusal(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")

    def is_signed(self, token):
        try:
            head, claims, signature = (part + "=" * (-len(part) % 4) for part in token.split("."))
            message = token.rpartition(".")[0].encode()
            self.signer.public_key().verify(base64.urlsafe_b64decode(signature), message, padding.PKCS1v15(), hashes.SHA256())
        except (ValueError, InvalidSignature):
            return False
        head, claims = (json.loads(base64.urlsafe_b64decode(part)) for part in (head, claims))
        return (head == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
                and claims["iss"] == claims["sub"] == ACCOUNT and claims["aud"] == "https://cloudkms.googleapis.com/"
                and claims["iat"] <= time.time() < claims["exp"] <= claims["iat"] + 3600)


class CloudKms(api.Api):
    """The key service. `damage` flips a bit of what the next request brings, or of the next answer."""

    def __init__(self, certificate, keys):
        super().__init__(KmsHandler, certificate)
        self.keys = keys
        self.damage = None


class KmsHandler(api.Handler):
    def route(self, method, path, body):
        self.server.keys.check(self.headers.get("Authorization"))
        name, _, verb = path.removeprefix("/v1/").rpartition(":")
        if method != "POST" or verb not in ("encrypt", "decrypt"):
            raise Refusal(404, "NOT_FOUND", "no such method")
        versions = self.server.keys.versions.get(name)
        if versions is None:
            raise Refusal(404, "NOT_FOUND", f"CryptoKey {name} not found.")
        return getattr(self, verb)(name, versions, body)

    def field(self, body, name):
        """A field of bytes, and whether its sum is right. What is not documented is refused."""
        data = base64.b64decode(body.pop(name), validate=True)
        if self.server.damage == name:
            data = bytes([data[0] ^ 1]) + data[1:]
        return data, crc32c(data) == body.pop(name + "Crc32c")

    def encrypt(self, name, versions, body):
        (plain, first), (context, second) = (self.field(body, field) for field in ("plaintext", "additionalAuthenticatedData"))
        assert body == {}, body
        nonce = os.urandom(12)
        made = bytes([len(versions)]) + nonce + versions[-1].encrypt(nonce, plain, context)
        answer = {"name": f"{name}/cryptoKeyVersions/{len(versions)}", **self.shown("ciphertext", made), "protectionLevel": "HSM",
                  "verifiedPlaintextCrc32c": first, "verifiedAdditionalAuthenticatedDataCrc32c": second}
        return {key: value for key, value in answer.items() if value is not False}  # proto3 leaves them out

    def decrypt(self, name, versions, body):
        (made, first), (context, second) = (self.field(body, field) for field in ("ciphertext", "additionalAuthenticatedData"))
        assert body == {}, body
        if not (first and second):
            raise Refusal(400, "INVALID_ARGUMENT", "checksum does not match")
        try:
            plain = versions[made[0] - 1].decrypt(made[1:13], made[13:], context)
        except (IndexError, InvalidTag) as error:
            raise Refusal(400, "INVALID_ARGUMENT", "Decryption failed: the ciphertext is invalid.") from error
        primary = {"usedPrimary": True} if made[0] == len(versions) else {}
        return {**self.shown("plaintext", plain), **primary, "protectionLevel": "HSM"}

    def shown(self, name, data):
        crc = crc32c(data)
        if self.server.damage == "answer":
            data = bytes([data[0] ^ 1]) + data[1:]
        return {name: base64.b64encode(data).decode(), name + "Crc32c": crc}


class Tokens(api.Api):
    """What gives out tokens: a machine's metadata, the exchange, and the impersonation of a service account."""

    def __init__(self, keys, subject="a.platform.token"):
        super().__init__(TokensHandler)
        self.keys, self.subject = keys, subject
        self.federated = set()
        self.url = f"http://127.0.0.1:{self.port}"

    def account_file(self, token_file, **more):
        """The file of a workload: `gcloud iam workload-identity-pools create-cred-config` makes such."""
        return json.dumps({"type": "external_account", "audience": "//iam.googleapis.com/projects/1/x",
                           "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": f"{self.url}/v1/token",
                           "credential_source": {"file": str(token_file), **more.pop("source", {})}, **more})


class TokensHandler(api.Handler):
    def route(self, method, path, body):
        parts = urlsplit(path)
        if method == "GET" and parts.path == "/computeMetadata/v1/instance/service-accounts/default/token":
            if self.headers.get("Metadata-Flavor") != "Google":
                raise api.Refusal(403, None)
            assert parse_qs(parts.query) == {"scopes": [SCOPE]}
            return {"access_token": self.server.keys.token(), "expires_in": 3599, "token_type": "Bearer"}
        if method == "POST" and path == "/v1/token":
            return self.exchange(body)
        assert (method, path) == ("POST", f"/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"), path
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.server.federated:
            raise Refusal(403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied.")
        assert body == {"scope": [SCOPE]}
        return {"accessToken": self.server.keys.token(), "expireTime": "2100-01-01T00:00:00Z"}

    def exchange(self, body):
        if body["subject_token"] != self.server.subject:
            raise api.Refusal(400, {"error": "invalid_grant", "error_description": "The subject token is expired."})
        assert body == {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "audience": "//iam.googleapis.com/projects/1/x",
                        "scope": "https://www.googleapis.com/auth/cloud-platform", "subject_token": self.server.subject,
                        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token"}, body
        token = self.server.keys.token()
        self.server.federated.add(token)
        return {"access_token": token, "token_type": "Bearer", "expires_in": 3600,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
