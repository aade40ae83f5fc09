"""An HTTP API on loopback that takes the place of a key service: what the stand-ins of all services share.

A stand-in is written from the service's own documentation, and checks each header and field, so that a client which departs from it
fails here.
"""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl


class Refusal(Exception):
    """An answer that is an error: its status and its JSON."""

    def __init__(self, status, body):
        super().__init__(status)
        self.status, self.body = status, body


class Api(ThreadingHTTPServer):
    """A server, with TLS if it gets a certificate; an `authority` may then sign certificates of clients."""

    daemon_threads = True

    def __init__(self, handler, certificate=None, authority=None):
        super().__init__(("127.0.0.1", 0), handler)
        # (method, path, headers) of each.
        self.requests = []
        # What the next requests meet instead of an answer: (status, body[, headers]), or a function of the handler.
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

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that does not trust us ends the handshake: no news."""


class Handler(BaseHTTPRequestHandler):
    """Reads a request and answers what `route(method, path, body)` returns: an object for JSON. A form comes as a dict, too."""

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
        if self.headers["Content-Type"].startswith("application/x-www-form-urlencoded"):
            self.serve("POST", dict(parse_qsl(text.decode(), strict_parsing=True)))
        else:
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
            self.answer(200, self.route(method, self.path, body))
        except Refusal as refusal:
            self.answer(refusal.status, refusal.body)
