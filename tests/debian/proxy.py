#!/usr/bin/env python3
"""docs/confidential/proxy.md under systemd: the units start the proxy with few rights and with a socket that its group alone reaches, it
reads its files anew, and a connection waits while it restarts. The server is the copy with encdb that the tests of tests/encdb use."""

import os
import re
import signal
import subprocess
from pathlib import Path

from machine import ROOT, as_postgres, blocks, main
from manager import Managed

*_, SERVICE = blocks("docs/confidential/proxy.md")
CONFIG, = blocks("docs/confidential/proxy.md", "toml")
UNIT = "pgseal-proxy.service"
PG = os.environ.get("PGSEAL_TEST_PG", "/usr/lib/postgresql/15/bin")
SERVER = ROOT / "target/encdb" / re.search(r"\d+", subprocess.check_output([f"{PG}/pg_config", "--version"], text=True))[0]
DATA = "/var/lib/postgresql/proxy"
IDENTITY = "/var/lib/pgseal-proxy/owner.identity"
CONFIGURED = f"""server = "host=/run/postgresql"
[[database]]
identity = "{IDENTITY}"
accept = ["software"]
"""


class Proxy(Managed):
    def test_1_the_units_start_it_with_few_rights(self):
        self.run_as_root(["adduser", "--system", "--group", "--no-create-home", "--home", "/nonexistent", "pgseal-proxy"])
        bindir = SERVER / (SERVER / "bindir").read_text().strip()
        self.run_as_root(as_postgres([bindir / "initdb", "-D", DATA, "-A", "trust", "--no-sync"]))
        with open(f"{DATA}/postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write("encdb.evaluator = inline\nunix_socket_directories = '/run/postgresql'\nlisten_addresses = ''\n")
        self.run_as_root(as_postgres([bindir / "pg_ctl", "-w", "-D", DATA, "-l", f"{DATA}/log", "start"]))
        self.psql("CREATE EXTENSION encdb; CREATE TABLE t (id int, c enc_text)")
        self.run_as_root(["install", "-d", "-o", "pgseal-proxy", "-m", "700", Path(IDENTITY).parent])
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"], ["column", "add", "--all"]):
            self.run_as_root([ROOT / "dist/bin/pgseal", "client", *command], PGHOST="/run/postgresql", PGUSER="postgres",
                             PGSEAL_IDENTITY=IDENTITY, PGSEAL_ACCEPT="software")
        self.run_as_root(["chown", "pgseal-proxy:", IDENTITY])
        Path("/etc/pgseal").mkdir()
        Path("/etc/pgseal/proxy.toml").write_text(CONFIGURED, encoding="utf-8")
        self.run_block(SERVICE)
        self.assertEqual(self.systemctl("is-active", UNIT), "active")
        status = self.run_as_root(["cat", f"/proc/{self.shown(UNIT, 'MainPID')}/status"]).stdout
        self.assertRegex(status, r"CapEff:\s+0000000000000000\n")
        self.assertRegex(status, r"NoNewPrivs:\s+1\n")
        self.assertRegex(status, r"Seccomp:\s+2\n")

    def test_2_its_group_alone_reaches_it(self):
        self.assertEqual(self.ask("INSERT INTO t (id, c) VALUES (1, 'ada') RETURNING c").stdout, "ada\n")
        self.assertNotEqual(self.psql("SELECT c FROM t"), "ada")
        self.assertIn("Permission denied", self.ask("SELECT 1", groups="--clear-groups").stderr)

    def test_3_client_exec_has_a_socket_that_no_other_user_reaches(self):
        """Beside the service, as a user of its own."""
        identity = "/var/lib/postgresql/own.identity"
        self.run_as_root(["install", "-m", "600", "-o", "postgres", IDENTITY, identity])
        others = "setpriv --reuid=nobody --regid=nogroup --clear-groups psql -XAtc 'SELECT 1' -U postgres postgres || echo refused"
        script = "psql -XAtc 'SELECT c FROM t' && echo $PGHOST > /run/postgresql/where && touch /run/postgresql/go && sleep 30"
        command = as_postgres([ROOT / "dist/bin/pgseal", "client", "exec", "-d", "host=/run/postgresql", "-i", identity, "--", "sh", "-c",
                               script])
        variables = {"PATH": "/usr/bin:/bin", "PGSEAL_ACCEPT": "software", "XDG_RUNTIME_DIR": "/run/postgresql"}
        program = subprocess.Popen([*self.inside(), *command], env=variables, cwd=ROOT, text=True, stdout=subprocess.PIPE)
        try:
            self.wait_for(lambda: self.run_as_root(["test", "-e", "/run/postgresql/go"], check=False).returncode == 0)
            host = self.run_as_root(["cat", "/run/postgresql/where"]).stdout.strip()
            said = self.run_as_root(["sh", "-c", others], PGHOST=host)
            self.assertIn("Permission denied", said.stderr)
            self.assertEqual(said.stdout, "refused\n")
        finally:
            program.send_signal(signal.SIGTERM)
            printed, _ = program.communicate(timeout=60)
        self.assertEqual(printed, "ada\n")

    def test_4_files_are_read_anew(self):
        Path("/etc/pgseal/proxy.toml").write_text(CONFIGURED.replace("identity =", 'name = "other"\nidentity ='), encoding="utf-8")
        before = self.shown(UNIT, "MainPID")
        self.systemctl("reload", UNIT)
        self.wait_for(lambda: "no identity for this database" in self.ask("SELECT 1").stderr)
        Path("/etc/pgseal/proxy.toml").write_text(CONFIGURED, encoding="utf-8")
        self.systemctl("reload", UNIT)
        self.wait_for(lambda: self.ask("SELECT c FROM t").stdout == "ada\n")
        self.assertEqual(self.shown(UNIT, "MainPID"), before)

    def test_5_it_comes_back_and_connections_wait_for_it(self):
        self.run_as_root(["kill", f"-{signal.SIGKILL.value}", self.shown(UNIT, "MainPID")])
        self.assertEqual(self.ask("SELECT c FROM t").stdout, "ada\n")
        self.assertEqual(self.shown(UNIT, "NRestarts"), "1")

    def test_6_it_ends_in_peace(self):
        self.systemctl("stop", "pgseal-proxy.socket", UNIT)
        self.assertEqual((self.shown(UNIT, "Result"), self.shown(UNIT, "ExecMainStatus")), ("success", "0"))

    def test_7_the_printed_configuration_names_every_setting(self):
        Path("/etc/pgseal/proxy.toml").write_text(CONFIG, encoding="utf-8")
        done = self.run_as_root(["/usr/local/bin/pgseal", "proxy", "--config", "/etc/pgseal/proxy.toml"], check=False)
        self.assertRegex(done.stderr, r"\Apgseal: /etc/pgseal/proxy.toml, line 5: /etc/pgseal/clients.crt cannot be read: ")

    def ask(self, sql, groups="--groups=pgseal-proxy"):
        """psql at the proxy's socket, as a user of this group."""
        command = ["setpriv", "--reuid=nobody", "--regid=nogroup", groups, "psql", "-XAtqc", sql, "-h", "/run/pgseal-proxy", "-U",
                   "postgres", "postgres"]
        return self.run_as_root(command, check=False)


if __name__ == "__main__":
    main(__file__)
