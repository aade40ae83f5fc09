"""Programs that `pgseal client exec` runs at a server with encrypted columns (imported by its tests)."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import programs  # noqa: E402
from pgseal_test import TIME_LIMIT, base_environment  # noqa: E402
from proxied import PGSEAL, Proxied  # noqa: E402
from terminal import Terminal  # noqa: E402
from waiting import eventually  # noqa: E402


class ClientExec(Proxied):
    """A server with encrypted columns, and a directory in which sockets are made."""

    def setUp(self):
        super().setUp()
        self.runtime = self.directory / "runtime"
        self.runtime.mkdir(mode=0o700)

    def environment(self, cluster, **variables):
        return {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner"), "PGSEAL_ACCEPT": "software",
                "XDG_RUNTIME_DIR": str(self.runtime), "PATH": f"{programs()}:{base_environment()['PATH']}", **variables}

    def run_with(self, cluster, *command, code=0, options=(), stdin="", **variables):
        """What a program prints that has a proxy of its own; or what it says, if it is to fail."""
        done = subprocess.run([PGSEAL, "client", "exec", *options, "--", *command], env=self.environment(cluster, **variables), input=stdin,
                              text=True, capture_output=True, timeout=TIME_LIMIT, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(list(self.runtime.iterdir()), [])
        return done.stdout if code == 0 else done.stderr

    def start_with(self, cluster, *command, options=(), **popen):
        process = subprocess.Popen([PGSEAL, "client", "exec", *options, "--", *command], env=self.environment(cluster), text=True, **popen)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def bare(self):
        """A server that knows nothing of encdb."""
        cluster = self.server("bare", extension=False)
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        return cluster

    def ctrl_c_ends_a_statement(self, options=()):
        """At the terminal of psql, which goes on."""
        cluster, terminal = self.bare(), Terminal()
        process = self.start_with(cluster, "psql", "-X", options=options, stdout=terminal.its, **terminal.options())
        terminal.opened()
        terminal.press(b"SELECT pg_sleep(600);\n")
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
        eventually(lambda: cluster.psql(asleep) == "1", process=process)
        terminal.press(b"\x03")
        eventually(lambda: b"canceling statement" in terminal.shown, lambda: terminal.shown, process=process)
        terminal.press(b"SELECT 6 * 7 AS answer;\n\\q\n")
        self.assertEqual(process.wait(TIME_LIMIT), 0)
        self.assertRegex(terminal.close(), r"answer[^0-9]*42")
