"""A relay between a client and a server's socket that loses the connection at a statement (imported by tests)."""

import os
import selectors
import socket
import threading


def before_commit_of(statement):
    """What finds the COMMIT after this statement."""
    seen = []

    def at(data):
        seen.append(data)
        return b"COMMIT\0" in data and statement in b"".join(seen)
    return at


class Cut:
    """Listens below a directory as the server does. The first message to the server that has these bytes ends the connection:
    before it is forwarded, or after the server has answered it."""

    def __init__(self, directory, server, at, forwards):
        directory.mkdir()
        self.directory, self.server, self.at, self.forwards = directory, server, at, forwards
        self.was_cut = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.fspath(directory / server.name))
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @classmethod
    def to(cls, cluster, directory, at, forwards):
        """A relay to a cluster's server."""
        path = cluster.home / f".s.PGSQL.{cluster.psql('SHOW port')}"
        return cls(directory, path, at, forwards)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, socket.socket(socket.AF_UNIX) as server:
                server.connect(os.fspath(self.server))
                self.relay(client, server)

    def relay(self, client, server):
        with selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(1 << 16)
                    is_cut = key.fileobj is client and self.at(data)
                    if is_cut and self.forwards:
                        server.sendall(data)
                        server.recv(1 << 16)
                    if is_cut or not data:
                        self.was_cut |= is_cut
                        return
                    key.data.sendall(data)
