"""A stand-in for Vault's HTTP API, as its documentation has it: transit engine, logins, namespaces, TLS. It checks every header and
field, so that a client which departs from the documents fails here. Run by tests; it keeps its keys in memory.
"""

import base64
import json
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.hashes import SHA256


class Vault(ThreadingHTTPServer):
    """One server. `keys` are versions of keys by namespace, mount and name; `tokens` what is allowed."""

    daemon_threads = True

    def __init__(self, certificate=None, authority=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys = {}
        self.tokens = {"root-token"}
        self.logins = {}
        self.requests = []
        self.renewed, self.revoked = [], []
        # What the next requests meet instead of an answer: (status, body), or a function of the handler.
        self.faults = []
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            if authority:
                context.load_verify_locations(authority)
                context.verify_mode = ssl.CERT_OPTIONAL
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add_key(self, name, mount="transit", namespace="", derived=False):
        self.keys[namespace, mount, name] = {"derived": derived, "versions": [os.urandom(32)]}

    def rotate(self, name, mount="transit", namespace=""):
        self.keys[namespace, mount, name]["versions"].append(os.urandom(32))

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that does not trust us ends the handshake: no news."""


class Refusal(Exception):
    def __init__(self, status, *errors):
        self.status, self.errors = status, errors


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def log_message(self, *_):
        pass

    def answer(self, status, body=None, headers=()):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.serve("GET", None)

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length) if length else self.chunked()
        assert self.headers["Content-Type"].startswith("application/json")
        self.serve("POST", json.loads(text))

    def chunked(self):
        text = b""
        while size := int(self.rfile.readline(), 16):
            text += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return text

    def serve(self, method, body):
        server = self.server
        server.requests.append((method, self.path, self.headers))
        if server.faults:
            fault = server.faults.pop(0)
            if callable(fault):
                return fault(self)
            return self.answer(*fault)
        try:
            if self.headers.get("X-Vault-Request") != "true":
                raise Refusal(412, "missing X-Vault-Request header")
            if not self.path.startswith("/v1/"):
                raise Refusal(404)
            self.answer(200, self.route(method, self.path[len("/v1/"):], body))
        except Refusal as refusal:
            self.answer(refusal.status, {"errors": list(refusal.errors)})

    def route(self, method, path, body):
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
