"""What the tests of failover managers share: ports, patience, a load that follows the leader, a server's sudden end.

Invariants: everything listens on loopback; servers whose starter ended become our children, and are reaped by a thread: a zombie
would look alive to those who watch it.
"""

import os
import random
import re
import signal
import socket
import threading
import time
from pathlib import Path

import psycopg2

import stage
from pgseal_test import PGSEAL, run
from waiting import eventually

PATIENCE = 240
TAKEN = set()


def free_ports(count):
    """Ports below those that the kernel gives to outgoing connections: a node must get its own again when it returns."""
    found = []
    while len(found) < count:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in TAKEN:
            TAKEN.add(port)
            found.append(port)
    return found


def until(condition, what):
    """Waits, for as long as a failover may take, until `condition()` is true, and returns its value."""
    return eventually(condition, what, seconds=PATIENCE)


def reap(names):
    """Takes in, from now on, processes of these names that ended and became ours; leaves our own children alone."""
    threading.Thread(target=_reap_for_ever, args=(names,), daemon=True).start()


def _reap_for_ever(names):
    while True:
        time.sleep(0.1)
        for entry in Path("/proc").iterdir():
            fields = stage.process_fields(entry) if entry.name.isdigit() else None
            if fields and fields[0] == "Z" and fields[1] == str(os.getpid()) and name_of(entry) in names:
                os.waitpid(int(entry.name), os.WNOHANG)


def name_of(process):
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""


def certificate(place):
    """server.key and server.crt."""
    key = place / "server.key"
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
         "-keyout", key, "-out", place / "server.crt"])
    key.chmod(0o600)


def postmaster(data):
    """The process id of the server of a data directory."""
    return int((data / "postmaster.pid").read_text().split()[0])


def backends(data, kind):
    """The process ids of the server's processes whose title holds this."""
    found = []
    for pid in stage.descendants(postmaster(data)):
        try:
            title = Path("/proc", str(pid), "cmdline").read_bytes()
        except OSError:
            continue
        if kind.encode() in title:
            found.append(pid)
    return found


def kill_server(data):
    """kill -9 of the server and of all that it started."""
    server = postmaster(data)
    os.kill(server, signal.SIGSTOP)
    children = stage.descendants(server)
    os.kill(server, signal.SIGKILL)
    stage.end_processes({server, *children})


def rows_of(connection, sql, fetch=True):
    """What a statement gives on a connection, which is closed after it."""
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows = cursor.fetchall() if fetch else None
    connection.close()
    return rows


def status(data, environment=None):
    """What `pgseal status` says of a data directory, by its words."""
    done = run([PGSEAL, "status", "-D", data], environment, check=False)
    return dict(re.findall(r"^([\w ]+): +(.*)$", done.stdout, re.M))


class Load(threading.Thread):
    """Inserts rows wherever the leader is, and remembers which commits were acknowledged."""

    def __init__(self, ports, first, word, **connection):
        super().__init__(daemon=True)
        self.server = {"host": ",".join("127.0.0.1" for _ in ports), "port": ",".join(map(str, ports)), **connection}
        self.next = first
        self.word = word
        self.acknowledged = []
        self.ended = threading.Event()
        self.connection = None

    def run(self):
        while not self.ended.is_set():
            self.next += 1
            try:
                self._insert(self.next)
                self.acknowledged.append(self.next)
            except psycopg2.Error:
                self.connection = None
                time.sleep(0.2)

    def _insert(self, number):
        if self.connection is None:
            self.connection = psycopg2.connect(**self.server, dbname="postgres", sslmode="require", connect_timeout=3,
                                               target_session_attrs="read-write", tcp_user_timeout=5000)
            self.connection.autocommit = True
        with self.connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (%s, %s)", (number, f"{self.word}{number}"))

    def end(self):
        """No insert is under way when this returns."""
        self.ended.set()
        self.join(PATIENCE)

    def more(self, count=5):
        """Returns when this many more commits were acknowledged."""
        enough = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= enough, "more commits")
