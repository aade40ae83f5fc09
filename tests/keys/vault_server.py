"""A stand-in for Vault's HTTP API, as its documentation has it: transit engine, logins, namespaces, TLS. It keeps its keys in memory."""

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import api


class Vault(api.Api):
    """One server. `keys` are versions of keys by namespace, mount and name; `tokens` what is allowed."""

    def __init__(self, certificate, authority, keys):
        super().__init__(Handler, certificate, authority)
        self.keys = keys
        self.tokens = {"root-token"}
        self.logins = {}
        self.renewed, self.revoked = [], []

    def add_key(self, name, mount="transit", namespace="", derived=False):
        self.keys[namespace, mount, name] = {"derived": derived, "versions": [os.urandom(32)]}

    def rotate(self, name, mount="transit", namespace=""):
        self.keys[namespace, mount, name]["versions"].append(os.urandom(32))


class Refusal(api.Refusal):
    """An error in Vault's form."""

    def __init__(self, status, *errors):
        super().__init__(status, {"errors": list(errors)})


class Handler(api.Handler):
    def route(self, method, path, body):
        if self.headers.get("X-Vault-Request") != "true":
            raise Refusal(412, "missing X-Vault-Request header")
        if not path.startswith("/v1/"):
            raise Refusal(404)
        return self.of_version_1(method, path[len("/v1/"):], body)

    def of_version_1(self, method, path, body):
        if path.startswith("auth/") and path.endswith("/login"):
            return self.login(path[len("auth/"):-len("/login")], body)
        token = self.headers.get("X-Vault-Token")
        if token not in self.server.tokens:
            raise Refusal(403, "permission denied")
        if path == "auth/token/renew-self":
            self.server.renewed.append(token)
            return {"auth": {"client_token": token, "renewable": True}}
        if path == "auth/token/revoke-self":
            self.server.revoked.append(token)
            self.server.tokens.discard(token)
            return {}
        mount, verb, name = path.rsplit("/", 2)
        key = self.server.keys.get((self.headers.get("X-Vault-Namespace", ""), mount, name))
        if key is None:
            raise Refusal(400, "encryption key not found")
        if (method, verb) == ("GET", "keys"):
            return {"data": {"name": name, "latest_version": len(key["versions"]), "type": "aes256-gcm96"}}
        if method != "POST" or verb not in ("encrypt", "decrypt"):
            raise Refusal(405, "unsupported operation")
        return {"data": self.cipher(key, verb, body)}

    def login(self, method, body):
        """The login of a method: what it must be sent, and whether a client certificate is shown."""
        expected = self.server.logins.get(method)
        shown = self.connection.getpeercert() if hasattr(self.connection, "getpeercert") else None
        if expected is None or body != expected or (method == "cert" and not shown):
            raise Refusal(400, "invalid login")
        token = "s." + os.urandom(12).hex()
        self.server.tokens.add(token)
        return {"auth": {"client_token": token, "lease_duration": 60}}

    @staticmethod
    def secret(key, version, body):
        secret = key["versions"][version - 1]
        context = body.get("context")
        if key["derived"] != (context is not None):
            raise Refusal(400, "missing 'context' for key derivation" if key["derived"] else "context given for a key not derived")
        if context is None:
            return secret
        return HKDF(SHA256(), 32, None, base64.b64decode(context, validate=True)).derive(secret)

    def cipher(self, key, verb, body):
        if verb == "encrypt":
            version = len(key["versions"])
            plain = base64.b64decode(body["plaintext"], validate=True)
            nonce = os.urandom(12)
            made = nonce + AESGCM(self.secret(key, version, body)).encrypt(nonce, plain, None)
            return {"ciphertext": f"vault:v{version}:{base64.b64encode(made).decode()}", "key_version": version}
        _, version, made = body["ciphertext"].split(":")
        made, version = base64.b64decode(made, validate=True), int(version[1:])
        try:
            plain = AESGCM(self.secret(key, version, body)).decrypt(made[:12], made[12:], None)
        except InvalidTag as error:
            raise Refusal(400, "cipher: message authentication failed") from error
        return {"plaintext": base64.b64encode(plain).decode()}
