#!/usr/bin/env python3
"""packaging/container/Dockerfile: its last stage is carried out step by step, and then what the image's entry point runs.

COPY takes from dist/, where the first stage's `make build` puts its results; RUN and ENV do what they say.
"""

import re
import secrets
import subprocess
from pathlib import Path

from machine import ROOT, Machine, as_postgres, blocks, main
from waiting import eventually

DATA = Path("/var/lib/postgresql/data")
STAGE = (ROOT / "packaging/container/Dockerfile").read_text().split("\nFROM ")[-1]
STEPS = re.findall(r"^(COPY|RUN|ENV) (.*)$", STAGE, re.M)
INITIALISE, START = blocks("docs/operations/container.md")
WORD = "q" + secrets.token_hex(8)


class Container(Machine):
    def test_the_image(self):
        environment = self.build()
        Path("/run/secrets").mkdir()
        Path("/run/secrets/pgseal").write_text(secrets.token_hex(32) + "\n")
        self.run_as_root(["chown", "-R", "postgres", "/run"])
        self.container(INITIALISE + START, environment, f"CREATE TABLE t AS SELECT '{WORD}' AS word; CHECKPOINT")
        self.assertEqual(self.found(WORD, DATA), [])
        self.assertIn("\nhost all all all scram-sha-256\n", (DATA / "pg_hba.conf").read_text())
        databases = "SELECT string_agg(datname, ' ' ORDER BY oid DESC) FROM pg_database, t WHERE word <> ''"
        self.assertTrue(self.container(START, environment, databases).startswith("app "))

    def container(self, entry_point, environment, sql):
        """From its start to its stop; what SQL gives in between. The server is the process that the entry point became."""
        command = as_postgres(["bash", "-euo", "pipefail", "-c", entry_point])
        with subprocess.Popen(command, env={**environment, "POSTGRES_PASSWORD": "x"}, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) as server:
            self.until_ready(server)
            rows = self.psql(sql)
            self.assertEqual(self.status(DATA)["server"], f"running sealed (process {server.pid})")
            server.terminate()
            server.stderr.read()
        self.assertEqual(server.returncode, 0)
        return rows

    def build(self):
        """The steps of the last stage, and the environment that they leave."""
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin",
                       "LANG": "C.UTF-8", "PGDATA": str(DATA)}
        for step, text in STEPS:
            if step == "COPY":
                source, target = text.removeprefix("--from=build /src/").split()
                self.run_as_root(["install", "-D", "-m", "755", ROOT / source, target])
            elif step == "RUN":
                self.run_as_root(["sh", "-c", text], **environment)
            else:
                name, _, value = text.partition("=")
                environment[name] = value.strip('"').replace("$PATH", environment["PATH"])
        return environment

    def until_ready(self, server):
        """Until the server is the process that the entry point became, and takes connections."""
        def is_ready():
            try:
                lines = (DATA / "postmaster.pid").read_text().splitlines()
            except FileNotFoundError:  # initdb's and the first server's comes and goes
                return False
            return len(lines) > 7 and lines[0] == str(server.pid) and lines[7].strip() == "ready"

        eventually(is_ready, lambda: server.stderr.read() if server.poll() is not None else "", process=server)


if __name__ == "__main__":
    main(__file__)
