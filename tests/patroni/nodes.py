"""Three nodes under Patroni and etcd, configured as docs/operations/patroni.md says.

Invariants: everything listens on loopback; Patroni's processes are our children, and its servers become ours when Patroni's
helper that started them ends, so a thread reaps them: a zombie would look alive to Patroni.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import stage
from pgseal_test import PG, PGSEAL, STAGE, base_environment, run, twins

PATIENCE = 240
PASSWORD = "first"
TAKEN = set()


def page_block(language):
    """The one block of the page in this language. The page lies beside the staged tests."""
    page = (STAGE / "docs/operations/patroni.md").read_text()
    block, = re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)
    return block


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


def until(condition, what, patience=PATIENCE):
    """Waits for a true value and returns it."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.5)
    return value


def reap_servers():
    """Takes in servers that ended and whose Patroni is not their parent; leaves our own children alone."""
    while True:
        time.sleep(0.1)
        for entry in Path("/proc").iterdir():
            fields = stage.process_fields(entry) if entry.name.isdigit() else None
            if fields and fields[0] == "Z" and fields[1] == str(os.getpid()) and name_of(entry) == "postgres":
                os.waitpid(int(entry.name), os.WNOHANG)


def name_of(process):
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""


class Node:
    """One Patroni and its server."""

    def __init__(self, name, place, etcd_port, secret):
        self.name = name
        self.home = place / name
        self.home.mkdir()
        self.data = self.home / "data"
        self.port, self.rest = free_ports(2)
        self.log = self.home / "log"
        self.config = self.home / "patroni.yml"
        self.config.write_text(self._configuration(place, etcd_port, secret))
        self.process = None

    def _configuration(self, place, etcd_port, secret):
        """The page's, with this machine's addresses and directories."""
        text = page_block("yaml")
        for printed, here in {
            "node1\n": f"{self.name}\n",
            "192.0.2.1:8008": f"127.0.0.1:{self.rest}",
            "192.0.2.9:2379": f"127.0.0.1:{etcd_port}",
            "192.0.2.1:5432": f"127.0.0.1:{self.port}",
            "/etc/pgseal/passphrase": str(secret),
            "data_dir: /var/lib/postgresql/15/" + self.name: f"data_dir: {self.data}",
            "/usr/local/lib/pgseal/15": str(twins()),
            "/var/lib/postgresql/node1.pgpass": str(self.home / "pgpass"),
            "/var/run/postgresql": str(self.home),
            "/etc/postgresql/server": str(place / "server"),
        }.items():
            assert printed in text, printed
            text = text.replace(printed, here)
        return text

    def start(self, environment):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(["patroni", self.config], env={**base_environment(), **environment}, stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    def kill9(self):
        """The machine is gone: Patroni first, so that it writes nothing into etcd, then the server with all it started."""
        self.process.kill()
        self.process.wait()
        postmaster = self.postmaster()
        os.kill(postmaster, signal.SIGSTOP)
        server = stage.descendants(postmaster)
        os.kill(postmaster, signal.SIGKILL)
        stage.end_processes({postmaster, *server})

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def postmaster(self):
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def backends(self, kind):
        """The process ids of the server's processes whose title holds this."""
        found = []
        for pid in stage.descendants(self.postmaster()):
            try:
                title = Path("/proc", str(pid), "cmdline").read_bytes()
            except OSError:
                continue
            if kind.encode() in title:
                found.append(pid)
        return found

    def status(self):
        done = run([PGSEAL, "status", "-D", self.data], {"PGSEAL_PASSPHRASE_FILE": "/dev/null"}, check=False)
        return dict(re.findall(r"^([\w ]+): +(.*)$", done.stdout, re.M))

    def sql(self, sql, fetch=True):
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, user="postgres", password=PASSWORD, dbname="postgres",
                                      sslmode="require", connect_timeout=5)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)
            rows = cursor.fetchall() if fetch else None
        connection.close()
        return rows


class Patroni:
    """etcd, and nodes by name."""

    def __init__(self, place):
        self.place = place
        self.secret = place / "passphrase"
        self.secret.write_text(run(["openssl", "rand", "-hex", "32"]).stdout)
        self._certificate()
        self.etcd_port, peer = free_ports(2)
        urls = [f"http://127.0.0.1:{port}" for port in (self.etcd_port, peer)]
        command = ["etcd", "--data-dir", place / "etcd", "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
                   "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--unsafe-no-fsync",
                   "--initial-cluster", f"default={urls[1]}", "--heartbeat-interval", "500", "--election-timeout", "5000"]
        with open(place / "etcd.log", "w") as log:
            self.etcd = subprocess.Popen(command, stdout=log, stderr=log, env=base_environment(), start_new_session=True)
        self.nodes = {name: Node(name, place, self.etcd_port, self.secret) for name in ("node1", "node2", "node3")}
        threading.Thread(target=reap_servers, daemon=True).start()

    def _certificate(self):
        key, certificate = self.place / "server.key", self.place / "server.crt"
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
             "-keyout", key, "-out", certificate])
        key.chmod(0o600)

    def members(self):
        """{name: (role, state, timeline)} as any node that answers tells it."""
        for node in self.nodes.values():
            if answer := self.ask(node, "cluster"):
                return {one["name"]: (one["role"], one["state"], one.get("timeline")) for one in answer["members"]}
        return {}

    def ask(self, node, path, body=None):
        """What a node's REST interface answers, or None."""
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"http://127.0.0.1:{node.rest}/{path}", data=data)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read().decode()
                return json.loads(text) if text.startswith("{") else text
        except (urllib.error.URLError, OSError):
            return None

    def leader(self):
        """The node that leads."""
        for name, (role, state, _) in self.members().items():
            if role == "leader" and state == "running":
                return self.nodes[name]
        return None

    def synchronous(self):
        """The node whose confirmation commits wait for."""
        for name, (role, state, _) in self.members().items():
            if role == "sync_standby" and state in ("running", "streaming"):
                return self.nodes[name]
        return None

    def is_whole(self):
        """Three members that run, one leads, one confirms commits, and all are on one timeline."""
        members = self.members().values()
        roles = sorted(role for role, state, _ in members if state in ("running", "streaming"))
        return roles == ["leader", "replica", "sync_standby"] and len({timeline for *_, timeline in members}) == 1

    def log(self):
        """The last lines of every log."""
        return "\n".join(f"--- {node.name}\n{node.log.read_text(errors='replace')[-6000:]}" for node in self.nodes.values()
                         if node.log.exists())

    def close(self):
        for node in self.nodes.values():
            node.stop()
        self.etcd.terminate()
        self.etcd.wait(30)


class Load(threading.Thread):
    """Inserts rows wherever the leader is, and remembers which commits were acknowledged."""

    def __init__(self, nodes, first, word):
        super().__init__(daemon=True)
        self.ports = ",".join(str(node.port) for node in nodes)
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
            host = ",".join(["127.0.0.1"] * 3)
            self.connection = psycopg2.connect(host=host, port=self.ports, user="postgres", password=PASSWORD, dbname="postgres",
                                               sslmode="require", target_session_attrs="read-write", connect_timeout=3,
                                               tcp_user_timeout=5000)
            self.connection.autocommit = True
        with self.connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (%s, %s)", (number, f"{self.word}{number}"))

    def end(self):
        """No insert is under way when this returns."""
        self.ended.set()
        self.join(PATIENCE)
