#!/usr/bin/env python3
"""examples/shop/run.sh runs the shop, and Ctrl-C and --stop leave nothing of it."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("encdb", "drivers", "lib")]
from confidential import TOOLS, VERSION  # noqa: E402
from pgseal_test import STAGE, TIME_LIMIT, Case, base_environment, main, run  # noqa: E402
from places import cache  # noqa: E402
from stage import is_alive  # noqa: E402
from terminal import Terminal  # noqa: E402
from waiting import eventually  # noqa: E402

EXAMPLE = "examples/shop"
RUN = STAGE / EXAMPLE / "run.sh"
PROCESSES = ["serve", "evaluator", "server", "application"]


class Demo(Case):
    def setUp(self):
        super().setUp()
        self.base, self.port = self.directory / "demo", self.reserved_port()
        self.environment = {"PGSEAL_DEMO_DIR": str(self.base), "PGSEAL_SHOP_PORT": str(self.port), "PGSEAL_CACHE": str(cache())}

    def stop(self):
        run([RUN, "--stop"], self.environment)

    def begin(self):
        """The shop on a terminal, and the ids of its processes."""
        self.terminal = Terminal()
        environment = {**base_environment(), **self.environment}
        self.process = subprocess.Popen([RUN], env=environment, stdout=self.terminal.its, **self.terminal.options())
        self.addCleanup(self.process.wait)
        self.addCleanup(self.stop)
        self.terminal.opened()
        eventually(lambda: b"Ctrl-C" in self.terminal.shown, lambda: self.terminal.shown, process=self.process)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=TIME_LIMIT) as answer:
            self.assertIn("Ada Example", answer.read().decode())
        return {name: int((self.base / f"run/{name}.pid").read_text()) for name in PROCESSES}

    def assert_gone(self, pids):
        self.assertEqual([name for name, pid in pids.items() if is_alive(pid)], [])
        self.assertFalse(self.base.exists())

    def test_ctrl_c(self):
        pids = self.begin()
        self.terminal.press(b"\x03")
        self.assertEqual(self.process.wait(TIME_LIMIT), 130)
        shown = self.terminal.close()
        self.assertIn(f"http://127.0.0.1:{self.port}/", shown)
        self.assertNotIn("failed", shown)
        self.assert_gone(pids)

    def test_stop(self):
        pids = self.begin()
        self.assertIn("runs already", run([RUN], self.environment, check=False).stderr)
        self.stop()
        self.assertEqual(self.process.wait(TIME_LIMIT), 143)
        self.terminal.close()
        self.assert_gone(pids)

    def test_stop_after_a_kill(self):
        pids = self.begin()
        os.kill(pids["serve"], signal.SIGKILL)
        self.process.wait(TIME_LIMIT)
        self.assertTrue(is_alive(pids["server"]))
        self.stop()
        self.assert_gone(pids)
        self.terminal.close()

    def test_another_directory_is_kept(self):
        self.base.mkdir()
        said = run([RUN], self.environment, check=False).stderr
        self.assertIn("is no directory of the demo", said)
        self.stop()
        self.assertTrue(self.base.exists())


if __name__ == "__main__":
    if VERSION != "15":
        sys.exit("examples/shop/run.sh is for PostgreSQL 15")
    main(__file__, [*TOOLS, EXAMPLE, "scripts/demo/talk.sh"])
