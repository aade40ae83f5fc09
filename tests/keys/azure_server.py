"""Stand-ins for Azure on loopback, written from its REST references: Key Vault's keys (7.4: get, wrapkey, unwrapkey), Microsoft Entra
ID's tokens by client credentials, and the tokens of a machine's managed identity. They check each field.
"""

import base64
import os
import re
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

import api

TENANT, CLIENT, SECRET = "11111111-aaaa-bbbb-cccc-222222222222", "33333333-aaaa-bbbb-cccc-444444444444", "the~secret.of/it"
RESOURCE = "https://vault.azure.net"
OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)


class Refusal(api.Refusal):
    """An error in Key Vault's form."""

    def __init__(self, status, code, message, inner=None):
        error = {"code": code, "message": message}
        if inner:
            error["innererror"] = {"code": inner}
        super().__init__(status, {"error": error})


class Keys:
    """What the services keep: versions of keys by name, oldest first, and access tokens that are good."""

    def __init__(self):
        self.versions, self.tokens = {}, set()
        self.rotate("seal")

    def rotate(self, name):
        self.versions.setdefault(name, {})[os.urandom(16).hex()] = rsa.generate_private_key(65537, 2048)

    def token(self):
        token = "eyJ0." + os.urandom(12).hex()
        self.tokens.add(token)
        return {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}


class KeyVault(api.Api):
    def __init__(self, certificate, keys):
        super().__init__(VaultHandler, certificate)
        self.keys = keys


class VaultHandler(api.Handler):
    def route(self, method, path, body):
        parts = urlsplit(path)
        assert parts.query == "api-version=7.4", path
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.server.keys.tokens:
            raise Refusal(401, "Unauthorized", "[TokenInvalid] Error validating token.")
        _, keys, name, *rest = parts.path.split("/")
        versions = self.server.keys.versions.get(name)
        if keys != "keys" or versions is None:
            raise Refusal(404, "KeyNotFound", f"A key with (name/id) {name} was not found in this key vault.")
        if method == "GET" and rest == []:
            return {"key": {"kid": self.kid(name, list(versions)[-1]), "kty": "RSA-HSM", "key_ops": ["wrapKey", "unwrapKey"]},
                    "attributes": {"enabled": True}}
        version, verb = rest
        if version not in versions:
            raise Refusal(404, "KeyNotFound", f"A key with (name/id) {name}/{version} was not found in this key vault.")
        assert method == "POST" and set(body) == {"alg", "value"} and body["alg"] == "RSA-OAEP-256", body
        return {"kid": self.kid(name, version), "value": self.value(verb, versions[version], body["value"])}

    def kid(self, name, version):
        return f"https://localhost:{self.server.port}/keys/{name}/{version}"

    def value(self, verb, key, text):
        assert re.fullmatch("[A-Za-z0-9_-]*", text), text
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if verb == "wrapkey":
            made = key.public_key().encrypt(data, OAEP)
        else:
            assert verb == "unwrapkey", verb
            try:
                made = key.decrypt(data, OAEP)
            except ValueError as error:
                raise Refusal(400, "BadParameter", "The parameter is incorrect.\r\n") from error
        return base64.urlsafe_b64encode(made).decode().rstrip("=")


class Tokens(api.Api):
    """Entra ID and the metadata of a machine; `proof` is what an application must send beside its name."""

    def __init__(self, keys, proof=None):
        super().__init__(TokensHandler)
        self.keys, self.proof = keys, proof
        self.url = f"http://127.0.0.1:{self.port}"


class TokensHandler(api.Handler):
    def route(self, method, path, body):
        parts = urlsplit(path)
        if parts.path == "/metadata/identity/oauth2/token":
            query = {name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()}
            identity = query.pop("client_id", CLIENT)
            assert (method, query) == ("GET", {"api-version": "2018-02-01", "resource": RESOURCE}), path
            if self.headers.get("Metadata") != "true":
                raise api.Refusal(400, {"error": "bad_request", "error_description": "Required metadata header not specified"})
            if identity != CLIENT:
                raise api.Refusal(400, {"error": "invalid_request", "error_description": "Identity not found"})
            return self.server.keys.token()
        assert (method, path) == ("POST", f"/{TENANT}/oauth2/v2.0/token"), path
        expected = {"client_id": CLIENT, "scope": f"{RESOURCE}/.default", "grant_type": "client_credentials"}
        proof = {name: value for name, value in body.items() if name not in expected}
        assert body == {**expected, **proof}, body
        if proof != self.server.proof:
            raise api.Refusal(401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."})
        return self.server.keys.token()
