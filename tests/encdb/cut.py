"""A relay between a client and a server's socket that loses the connection at a statement (imported by tests)."""

import itertools
import os
import queue
import re
import selectors
import socket
import threading

from waiting import eventually

COUNT = itertools.count()
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


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


class Killer:
    """Finds what a program sends, and kills the program before the server gets it."""

    def __init__(self, pattern):
        self.pattern, self.seen, self.started = re.compile(pattern, re.DOTALL), b"", queue.Queue()

    def __call__(self, data):
        self.seen += data
        if not self.pattern.search(self.seen):
            return False
        process = self.started.get(timeout=60)
        process.kill()
        process.wait()
        return True


def killed_at(case, cluster, pattern, start):
    """Starts a program that connects by the directory that `start` gets, and kills it as soon as it has sent this. The server gets
    that, and nothing else. (A test that waits for the server's log instead kills too late when the machine is busy.)"""
    killer = Killer(pattern)
    cut = Cut.to(cluster, case.directory / f"cut{next(COUNT)}", killer, True)
    process = start(cut.directory)
    killer.started.put(process)
    try:
        process.wait(120)
    finally:
        process.kill()
        cut.close()
    case.assertTrue(cut.was_cut, f"it ended before it was killed: {pattern}")
    eventually(lambda: cluster.psql(OTHERS) == "0")
