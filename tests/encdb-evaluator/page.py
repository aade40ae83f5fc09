#!/usr/bin/env python3
"""docs/confidential/evaluator.md and the unit hold: commands run as printed, with users and paths of this place in the
place of the printed ones, and options are those of the program's help.

Runs where it is started, not in the harness's place: as root the evaluator becomes `nobody`, by anybody else it is started
with --unlocked. systemd does not run here: the unit's command is.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "dist/bin/pgseal-evaluator"
PAGE = ROOT / "docs/confidential/evaluator.md"
UNIT = ROOT / "packaging/systemd/pgseal-evaluator.service"


def blocks(text):
    """The lines of the page's shell blocks."""
    return [line for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S) for line in block.splitlines()]


class Page(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="pgseal-evaluator."))
        self.addCleanup(shutil.rmtree, self.directory)
        self.log = self.directory / "log"
        self.log.mkdir()
        self.directory.chmod(0o755)
        self.log.chmod(0o777)

    def here(self, line):
        """The line with what this machine has."""
        line = re.sub(r"--user \S+", "--user nobody" if os.getuid() == 0 else "--unlocked", line)
        line = line.replace("--allow-uid postgres", f"--allow-uid {os.getuid()}")
        line = line.replace("/run/pgseal/evaluator.sock", str(self.directory / "socket"))
        return re.sub(r"^(/usr/local/bin/)?pgseal-evaluator", str(PROGRAM), line).replace(
            "/var/lib/pgseal-evaluator", str(self.log))

    def serve_and_stop(self, line):
        """Starts what the line says, waits until it listens, and ends it as an operator does."""
        command = self.here(line).split()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            key, said = child.stdout.readline(), child.stdout.readline()
            child.send_signal(signal.SIGTERM)
            rest, why = child.communicate(timeout=20)
        self.assertEqual((said, rest, why), (f"pgseal-evaluator: listening at {self.directory}/socket\n", "", ""))
        self.assertEqual(child.returncode, 0)
        return re.fullmatch(r"pgseal-evaluator: evidence is signed by ([0-9a-f]{64})\n", key)[1]

    def test_the_commands_of_the_page(self):
        by_hand, = [line for line in blocks(PAGE.read_text()) if line.startswith("pgseal-evaluator --socket")]
        verify, = [line for line in blocks(PAGE.read_text()) if line.startswith("pgseal-evaluator log")]
        self.assertEqual(self.serve_and_stop(by_hand), self.serve_and_stop(by_hand))
        done = subprocess.run(self.here(verify), shell=True, text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r"^\S+\.log: 2 records, head [0-9a-f]{64}$", done.stdout, re.M)), 2)

    def test_the_unit_runs_what_the_page_says(self):
        unit = UNIT.read_text()
        start, = re.findall(r"^ExecStart=(.*)$", unit, re.M)
        self.serve_and_stop(start + " --user pgseal-evaluator")
        for line in blocks(PAGE.read_text()):
            for source in re.findall(r"(?:dist|packaging)/\S+", line):
                self.assertTrue((ROOT / source).exists(), source)
        default, = re.findall(r"`encdb\.socket` \| `([^`]+)`", (ROOT / "docs/confidential/encdb.md").read_text())
        self.assertIn(f"--socket {default} ", start)
        analyze = shutil.which("systemd-analyze")
        if analyze:
            staged = self.directory / UNIT.name
            staged.write_text(re.sub(r"(?<=ExecStart=)\S+", str(PROGRAM), unit))
            done = subprocess.run([analyze, "verify", staged], text=True, capture_output=True, check=False)
            ours = [line for line in done.stderr.splitlines() if UNIT.name in line]
            self.assertEqual((done.returncode, ours), (0, []))

    def test_the_options_are_those_of_the_help(self):
        done = subprocess.run([PROGRAM, "--help"], text=True, capture_output=True, check=True)
        offered = set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", done.stdout, re.M)) - {"help", "version"}
        listed = set(re.findall(r"^\| `--([\w-]+)", PAGE.read_text(), re.M))
        self.assertEqual(listed, offered)
        for option, default in re.findall(r"^\| `--([\w-]+) [A-Z]+` \| [^|]*\((\d+)[;)]", PAGE.read_text(), re.M):
            self.assertRegex(done.stdout, rf"--{option} <\w+>[^-]*\[default: {default}\]")


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit("dist/bin/pgseal-evaluator is missing; run make build first")
    unittest.main(verbosity=2)
