#!/usr/bin/env python3
"""A server as a container without root runs it: an ordinary user, every capability dropped, a read-only root, no network, few locked pages.

bubblewrap makes the sandbox. The data directory and /tmp can be written, /proc is the sandbox's own.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import STAGE, Canaries, Case, main  # noqa: E402
from waiting import eventually  # noqa: E402

LOCKED_BYTES = 65536


class Rootless(Case):
    def test_a_life(self):
        canaries = Canaries()
        cluster = self.cluster()
        sandbox = ["prlimit", f"--memlock={LOCKED_BYTES}", "bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/",
                   "--tmpfs", "/tmp", "--ro-bind", str(STAGE), str(STAGE), "--bind", str(cluster.home), str(cluster.home), "--proc", "/proc", "--dev", "/dev"]
        self.inside(sandbox, [cluster.bindir / "initdb", "-D", cluster.data, "-U", "postgres", "-A", "trust", *cluster.initdb])
        cluster.configure(f"listen_addresses = ''\nunix_socket_directories = '{cluster.home}'\n")
        with subprocess.Popen([*sandbox, cluster.bindir / "postgres", "-D", cluster.data]) as server:
            self.addCleanup(server.kill)
            eventually(lambda: (cluster.data / "postmaster.pid").exists() and "ready" in (cluster.data / "postmaster.pid").read_text())
            cluster.psql(f"CREATE TABLE t AS SELECT '{canaries['row']}' AS word FROM generate_series(1, 1000); CHECKPOINT")
            capabilities = "SELECT pg_read_file('/proc/self/status') ~ 'CapEff:\\s+0{16}'"
            self.assertEqual(cluster.psql(f"SELECT count(*) FROM t; {capabilities}; SHOW pgseal.sealed"), "1000\nt\non")
            self.assertIn("Read-only file system", cluster.psql("COPY t TO '/usr/file'", error="Read-only"))
            server.terminate()
            server.wait(60)
        self.assertEqual(canaries.found(cluster.data), {})

    def inside(self, sandbox, command):
        done = subprocess.run([*sandbox, *command], text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    main(__file__)
