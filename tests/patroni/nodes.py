"""Three nodes under Patroni and etcd, configured as docs/operations/patroni.md says; or plain, until a test seals them.

Invariants: everything listens on loopback; Patroni's processes are our children, and its servers become ours when Patroni's
helper that started them ends.
"""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psycopg2
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import takeover
from pgseal_test import PG, STAGE, base_environment, run, twins
from takeover import PATIENCE, free_ports

PASSWORD = "first"


def page_block(language, number=0):
    """The page's first block in this language, or a later one. The page is beside the staged tests."""
    page = (STAGE / "docs/operations/patroni.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)[number]


def merged(settings, more):
    """Settings, with what `more` replaces or adds."""
    both = {name: merged(settings[name], more[name]) if isinstance(settings[name], dict) else more[name] for name in settings.keys() & more}
    return {**settings, **more, **both}


def plain(configuration):
    """The page's, without what makes a cluster sealed."""
    settings = yaml.safe_load(configuration)
    settings["bootstrap"]["initdb"] = [option for option in settings["bootstrap"]["initdb"] if "encoding" in option]
    settings["postgresql"]["bin_dir"] = str(PG)
    return yaml.safe_dump(settings)


def unit_environment(secret):
    """What the page's drop-in puts into Patroni's environment."""
    lines = re.findall(r"^Environment=(\w+)=(.*)$", page_block("ini").replace("/etc/pgseal/passphrase", str(secret)), re.M)
    return dict(lines)


def with_provider(configuration, uri):
    """The page's, with what it says of a provider."""
    printed = "vault://vault.example/transit/db?ca=/etc/pgseal/ca.crt&token-file=/etc/pgseal/token"
    block = page_block("yaml", 1)
    assert block.count(printed) == 2
    return yaml.safe_dump(merged(yaml.safe_load(configuration), yaml.safe_load(block.replace(printed, uri))))


class Node:
    """One Patroni and its server, protected by the passphrase in `secret`, or by the key provider `uri`, or not `sealed`."""

    def __init__(self, name, place, etcd_port, secret, uri=None, sealed=True):
        self.name = name
        self.home = place / name
        self.home.mkdir()
        self.data = self.home / "data"
        self.port, self.rest = free_ports(2)
        self.log = self.home / "log"
        self.config = self.home / "patroni.yml"
        configuration = self._configuration(place, etcd_port, secret)
        if uri:
            configuration = with_provider(configuration, uri)
        self.config.write_text(configuration if sealed else plain(configuration))
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

    def reconfigure(self, block):
        """Replaces, in its configuration, what a block of YAML names; Patroni reads it at its start."""
        self.config.write_text(yaml.safe_dump(merged(yaml.safe_load(self.config.read_text()), yaml.safe_load(block))))

    def start(self, environment):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(["patroni", self.config], env={**base_environment(), **environment}, stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    def kill9(self):
        """The machine is gone: Patroni first, so that it writes nothing into etcd, then the server with all it started."""
        self.process.kill()
        self.process.wait()
        takeover.kill_server(self.data)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def status(self):
        return takeover.status(self.data, {"PGSEAL_PASSPHRASE_FILE": "/dev/null"})

    def sql(self, sql, fetch=True):
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, user="postgres", password=PASSWORD, dbname="postgres",
                                      sslmode="require", connect_timeout=5)
        return takeover.rows_of(connection, sql, fetch)


class Patroni:
    """etcd, and nodes by name."""

    def __init__(self, place, uri=None, sealed=True):
        self.place = place
        self.secret = place / "passphrase"
        self.secret.write_text(run(["openssl", "rand", "-hex", "32"]).stdout)
        takeover.certificate(place)
        self.etcd_port, peer = free_ports(2)
        urls = [f"http://127.0.0.1:{port}" for port in (self.etcd_port, peer)]
        command = ["etcd", "--data-dir", place / "etcd", "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
                   "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--unsafe-no-fsync",
                   "--initial-cluster", f"default={urls[1]}", "--heartbeat-interval", "500", "--election-timeout", "5000"]
        with open(place / "etcd.log", "w") as log:
            self.etcd = subprocess.Popen(command, stdout=log, stderr=log, env=base_environment(), start_new_session=True)
        self.nodes = {name: Node(name, place, self.etcd_port, self.secret, uri, sealed) for name in ("node1", "node2", "node3")}
        takeover.reap({"postgres"})

    def members(self):
        """{name: (role, state, timeline)} as any node that answers says it."""
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

    def switch_over(self):
        """The synchronous standby leads then; returns it, and the old leader."""
        old, new = self.leader(), takeover.until(self.synchronous, "a synchronous standby")
        answer = self.ask(old, "switchover", {"leader": old.name, "candidate": new.name})
        assert "Successfully switched over" in (answer or ""), answer
        takeover.until(lambda: self.leader() is new and self.is_whole(), "the switchover")
        return new, old

    def a_new_replica(self):
        """Makes anew the node that neither leads nor confirms commits; returns it."""
        node = next(node for node in self.nodes.values() if node not in (self.leader(), self.synchronous()))
        created = "replica has been created using basebackup"
        count = node.log.read_text(errors="replace").count(created)
        self.ask(node, "reinitialize", {"force": True})
        takeover.until(lambda: node.log.read_text(errors="replace").count(created) > count, "a new replica")
        takeover.until(self.is_whole, "three members again")
        return node

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
