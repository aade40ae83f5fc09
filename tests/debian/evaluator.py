#!/usr/bin/env python3
"""docs/confidential/evaluator.md under systemd: its unit starts, PostgreSQL's backends find it where they look by default, it comes
back when it was killed, and ends in peace. The server is the copy with encdb that the tests of tests/encdb use."""

import os
import re
import signal
import subprocess

from machine import ROOT, as_postgres, blocks, main
from manager import SERVICES, UNITS, Managed

SERVICE, _, VERIFY = blocks("docs/confidential/evaluator.md")
LOCKS, = blocks("docs/confidential/evaluator.md", "ini")
UNIT = "pgseal-evaluator.service"
PG = os.environ.get("PGSEAL_TEST_PG", "/usr/lib/postgresql/15/bin")
SERVER = ROOT / "target/encdb" / re.search(r"\d+", subprocess.check_output([f"{PG}/pg_config", "--version"], text=True))[0]
DATA = "/var/lib/postgresql/evaluator"
CAP_IPC_LOCK = 14
IDENTITY = "/var/lib/postgresql/owner"


class Evaluator(Managed):
    def test_1_the_unit_starts_it_with_few_rights(self):
        rights = 0
        if self.run_as_root(["prlimit", "--memlock=unlimited", "true"], check=False).returncode != 0:
            drop_in = UNITS / (UNIT + ".d") / "locks.conf"
            drop_in.parent.mkdir()
            drop_in.write_text(LOCKS)
            rights = 1 << CAP_IPC_LOCK
        self.run_block(SERVICE)
        self.assertEqual(self.systemctl("is-active", UNIT), "active")
        self.assertEqual(self.systemctl("is-enabled", UNIT), "enabled")
        status = self.run_as_root(["cat", f"/proc/{self.shown(UNIT, 'MainPID')}/status"]).stdout
        self.assertRegex(status, rf"CapEff:\s+{rights:016x}\n")
        self.assertRegex(status, r"NoNewPrivs:\s+1\n")
        self.assertRegex(status, r"Seccomp:\s+2\n")
        self.assertRegex(status, r"VmLck:\s+[1-9]")

    def test_2_a_server_finds_it(self):
        bindir = SERVER / (SERVER / "bindir").read_text().strip()
        self.run_as_root(as_postgres([bindir / "initdb", "-D", DATA, "-A", "trust", "--no-sync"]))
        with open(f"{DATA}/postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write("encdb.evaluator = isolated\nunix_socket_directories = '/run/postgresql'\nlisten_addresses = ''\n")
        self.run_as_root(as_postgres([bindir / "pg_ctl", "-w", "-D", DATA, "-l", f"{DATA}/log", "start"]))
        self.psql("CREATE EXTENSION encdb")
        self.client("init", IDENTITY)
        self.client("key", "new")
        self.client("grant", "add", "--allow", "all")
        self.client("sql", "--trust-server-types", "CREATE TABLE t (id enc_int4 PRIMARY KEY)")
        self.client("sql", "--trust-server-types", "INSERT INTO t VALUES ($1)", "41")
        self.assertEqual(self.client("sql", "--trust-server-types", "-tA", "SELECT id + $1 FROM t", "1"), "42")
        self.assertEqual(self.shown(UNIT, "NRestarts"), "0")

    def test_3_it_comes_back_when_it_was_killed(self):
        before = self.shown(UNIT, "MainPID")
        self.run_as_root(["kill", f"-{signal.SIGKILL.value}", before])
        self.wait_for(lambda: self.shown(UNIT, "NRestarts") == "1" and self.shown(UNIT, "SubState") == "running")
        self.assertNotEqual(self.shown(UNIT, "MainPID"), before)
        self.assertEqual(self.client("sql", "--trust-server-types", "-tA", "SELECT id FROM t WHERE id > $1", "40"), "41")

    def test_4_it_ends_in_peace_and_its_logs_hang_together(self):
        self.systemctl("stop", UNIT)
        self.assertEqual((self.shown(UNIT, "Result"), self.shown(UNIT, "ExecMainStatus")), ("success", "0"))
        told = self.run_block(VERIFY).stdout
        self.assertEqual(told.count(" records, head "), 2, told)

    def client(self, *arguments):
        key = re.findall(r"signed by ([0-9a-f]{64})\n", self.run_as_root(["cat", SERVICES]).stdout)[0]
        variables = {"PGHOST": "/run/postgresql", "PGUSER": "postgres", "PGDATABASE": "postgres", "PGSEAL_IDENTITY": IDENTITY,
                     "PGSEAL_ACCEPT": f"software:{key}"}
        return self.run_as_root([ROOT / "dist/bin/pgseal", "client", *arguments], **variables).stdout.strip()


if __name__ == "__main__":
    main(__file__)
