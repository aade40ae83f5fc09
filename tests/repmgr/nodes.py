"""Nodes of docs/operations/repmgr.md on one machine: each has the page's configuration and commands, at a port and in a directory
of its own.

Invariant: everything listens on loopback.
"""

import os
import re
import signal
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import stage
import takeover
from page import Page
from pgseal_test import base_environment, run, twins

DOCUMENT = "docs/operations/repmgr.md"
PASSWORD = "second"
SSH = """#!/bin/sh
# Options and the host, in any order, then a command line for the shell there, which has nothing of our environment.
host=
while [ $# -gt 0 ]; do
    case $1 in
        -o) shift 2 ;;
        '' | -*) shift ;;
        *) [ -z "$host" ] || break; host=$1; shift ;;
    esac
done
exec env -i PATH=/usr/bin:/bin HOME={home} sh -c "$*"
"""


class Node:
    """One server with its repmgrd."""

    def __init__(self, place, number):
        self.place, self.number, self.name = place, number, f"node{number}"
        self.home = place / self.name
        self.data = self.home / "data"
        self.config = self.home / "repmgr.conf"
        self.log = place / f"{self.name}.repmgr.log"
        self.port, = takeover.free_ports(1)
        self.home.mkdir()
        # Not in the data directory, whose configuration is copied between the nodes.
        (self.home / "own.conf").write_text(f"port = {self.port}\nunix_socket_directories = '{self.home}'\nfsync = off\n"
                                            "autovacuum = off\n")
        self.config.write_text(self.page(self).block("ini"))
        self.environment = {**base_environment(), "PATH": f"{place}:{twins()}:/usr/bin:/bin", "HOME": str(place),
                            "PGHOST": str(self.home), "PGPORT": str(self.port)}

    def page(self, leader):
        """The page for this node, where the other one that it names is `leader`."""
        return Page(DOCUMENT, {
            "node_id=1": f"node_id={self.number}",
            "node_name='node1'": f"node_name='{self.name}'",
            "host=192.0.2.1 port=5432": f"host=127.0.0.1 port={self.port}",
            "-h 192.0.2.1 -p 5432": f"-h 127.0.0.1 -p {leader.port}",
            "-h 192.0.2.2 -p 5432": f"-h 127.0.0.1 -p {leader.port}",
            "host=192.0.2.2 port=5432": f"host=127.0.0.1 port={leader.port}",
            "192.0.2.0/24": "127.0.0.0/8",
            "local all all peer": "local all all trust",
            "listen_addresses = '*'": "listen_addresses = '127.0.0.1'\ninclude = '../own.conf'",
            "/etc/pgseal/passphrase": str(self.place / "passphrase"),
            "/usr/local/lib/pgseal/15": str(twins()),
            "/etc/postgresql/server": str(self.place / "server"),
            "/etc/repmgr.conf": str(self.config),
            "/var/lib/postgresql/15/main": str(self.data),
            "--config-archive-dir=/var/lib/postgresql/15": f"--config-archive-dir={self.home}",
            "/var/log/postgresql/server.log": str(self.place / f"{self.name}.server.log"),
            "/var/log/postgresql/repmgr.log": str(self.log),
            "/var/run/postgresql": str(self.home),
        })

    def configure(self):
        """The page's lines in a new data directory."""
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(self.page(self).block("conf"))
        (self.data / "pg_hba.conf").write_text(self.page(self).block("hba"))

    def kill9(self):
        """The machine is gone: repmgrd, and the server with all it started."""
        daemon = int((self.home / "repmgrd.pid").read_text())
        os.kill(daemon, signal.SIGKILL)
        stage.end_processes({daemon})
        takeover.kill_server(self.data)

    def repmgr(self, *words, program="repmgr"):
        """What repmgr, or another one, prints, and its exit status."""
        done = run([program, "-f", self.config, *words], self.environment, check=False)
        return done.stdout, done.returncode

    def cluster(self):
        """{number: (may be connected to, is a standby)} as repmgr says it here."""
        rows = re.findall(r"^(\d+),(-?\d+),(-?\d+)$", self.repmgr("cluster", "show", "--csv")[0], re.M)
        return {int(number): (available == "0", recovery == "1") for number, available, recovery in rows}

    def status(self):
        return takeover.status(self.data)

    def sql(self, sql, fetch=True, database="postgres"):
        """The rows, or None from a server that does not answer."""
        try:
            connection = psycopg2.connect(host=str(self.home), port=self.port, dbname=database, connect_timeout=5)
        except psycopg2.OperationalError:
            return None
        return takeover.rows_of(connection, sql, fetch)

    def leads(self):
        return self.sql("SELECT pg_is_in_recovery()") == [(False,)]

    def followers(self):
        """How many standbys stream from here."""
        return self.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")[0][0]
