#!/usr/bin/python3
"""`pgseal bench`: what it leaves after its rounds, after Ctrl-C, and when a server dies; what it refuses.

The runs are as small as they can be: what they measure is not looked at, that they measure all of it is.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import stage  # noqa: E402
from pgseal_test import PG, PGSEAL, Case, base_environment, main  # noqa: E402
from waiting import eventually
from running import TIME_LIMIT  # noqa: E402
from terminal import Terminal  # noqa: E402

# Another benchmark of this machine is not disturbed by runs that measure nothing.
ENVIRONMENT = {**base_environment(), "TERM": "xterm", "PGSEAL_BENCH_LOCK": f"pgseal-bench-test-{os.getpid()}"}
SMALL = ["--scale=1", "--client=1", "--time=1"]


class Bench(Case):
    """A directory for clusters, which must be empty when a run has ended, and a report beside it."""

    def setUp(self):
        super().setUp()
        self.data = self.directory / "data"
        self.json = self.directory / "report.json"
        self.data.mkdir()

    def command(self, recipe, *options):
        own = [f"--pg={PG}", f"--data={self.data}", f"--json={self.json}", *SMALL]
        return [PGSEAL, "bench", recipe, *own, *options]

    def start(self, recipe, *options, **more):
        """A run in the background; it is ended with the test."""
        run = subprocess.Popen(self.command(recipe, *options), env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                               **{"stderr": subprocess.PIPE, **more})
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        if run.poll() is None:
            stage.end_processes({run.pid} | stage.descendants(run.pid))
        run.communicate()

    def wait_for_a_round(self, run):
        """Until the report on disk has one."""
        eventually(self.json.exists, "no round ended", process=run)

    def report(self):
        return json.loads(self.json.read_text())

    def servers(self, run):
        """Postmasters that take connections."""
        found = set()
        for pid_file in self.data.glob("*/set*/*/data/postmaster.pid"):
            try:
                lines = pid_file.read_text().splitlines()
            except FileNotFoundError:
                continue
            if len(lines) > 7 and lines[7].strip() == "ready":
                found.add(int(lines[0]))
        return found & stage.descendants(run.pid)

    def assert_left_nothing(self, run):
        self.assertEqual(list(self.data.iterdir()), [])
        self.assertEqual(stage.descendants(run.pid), set())


class Rounds(Bench):
    def test_a_run_and_what_is_made_of_it(self):
        page = self.directory / "report.html"
        peer = [f"--peer=again={PG}", "--peer-initdb=again=--data-checksums"]
        run = self.start("readonly", "--rounds=2", "--sets=2", "--seed=7", f"--html={page}", *peer)
        output, errors = run.communicate(timeout=TIME_LIMIT)
        self.assertEqual(run.returncode, 0, errors)
        self.assert_left_nothing(run)
        report = self.report()
        self.check_report(report)
        for variant in report["variants"]:
            self.assertIn(variant["name"], output)
        self.assertIn("</html>", page.read_text())
        self.assertEqual(self.bench("report", self.json).stdout, output)
        self.assertLessEqual(max(map(len, output.splitlines())), 80, output)
        self.assertRegex(self.bench("report", "--wide", self.json).stdout, r"(?m)^\| case +\| variant +\|.*\| verdict +\|")
        self.check_comparisons(report)

    def check_report(self, report):
        names = ["stock", "loaded", "sealed-256", "again"]
        self.assertEqual([variant["name"] for variant in report["variants"]], names)
        self.assertEqual((report["recipe"], report["seed"], report["ended_early"]), ("readonly", 7, None))
        asked = {"quick": False, "rounds": 2, "rounds_per_set": 1, "until_ci": None, "time_limit_s": None}
        self.assertEqual(report["asked"], asked)
        case, = report["cases"]
        self.assertEqual([(round["number"], round["set"]) for round in case["rounds"]], [(0, 0), (1, 1)])
        for samples in (round["samples"] for round in case["rounds"]):
            self.assertEqual(sorted(samples), sorted(names))
            for name, sample in samples.items():
                self.assertGreater(min(sample["value"], sample["work"], sample["user_s"] + sample["system_s"]), 0, sample)
                self.assertEqual(sample["pages"]["opened"] > 0, name == "sealed-256", sample)
        for ns in report["cipher"][0]["open_ns"] + report["cipher"][0]["seal_ns"]:
            self.assertGreater(ns, 0)

    def check_comparisons(self, report):
        """Six rounds like the first; of those of the other report, sealed ran half as fast."""
        case, = report["cases"]
        case["rounds"] = [{**case["rounds"][0], "number": number} for number in range(6)]
        before, after, other = (self.directory / name for name in ("before.json", "after.json", "other.json"))
        before.write_text(json.dumps(report))
        case["rounds"][0]["samples"]["sealed-256"]["value"] /= 2  # the rounds share it
        after.write_text(json.dumps(report))
        other.write_text(json.dumps({**report, "recipe": "tpcb"}))
        same = self.bench("compare", before, before)
        self.assertEqual(same.returncode, 0)
        self.assertRegex(same.stdout, r"(?m)^\| sealed-256, loss \|.*\| no change shown \|$")
        for options, row in [([], r"\| sealed-256, loss"), (["--wide"], r"\| scale 1, 1 connections \| sealed-256 \| loss")]:
            worse = self.bench("compare", *options, before, after)
            self.assertEqual(worse.returncode, 1)
            self.assertRegex(worse.stdout, rf"(?m)^{row} +\|.*\| worse +\|$")
        self.assertEqual(self.bench("compare", after, before).returncode, 0)
        self.assert_refused(self.bench("compare", before, other), 2, "give two reports of one recipe")
        self.assert_refused(self.bench("report", PGSEAL), 2, "is not a report of pgseal bench")

    def bench(self, *arguments):
        return subprocess.run([PGSEAL, "bench", *arguments], env=ENVIRONMENT, text=True, capture_output=True,
                              timeout=TIME_LIMIT, check=False)

    def assert_refused(self, done, code, sentence):
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        self.assertRegex(done.stderr, rf"\Apgseal: [^\n]*{sentence}")


class Turns(Bench):
    def test_one_server_runs_at_a_time(self):
        """All of them are there at once; whose turn it is not is stopped where it is."""
        run = self.start("tpcb", "--rounds=1000", "--sets=1")
        deadline = time.monotonic() + TIME_LIMIT
        had_turns = set()
        while len(had_turns) < 3:
            self.assertIsNone(run.poll(), run.poll() and run.communicate())
            self.assertLess(time.monotonic(), deadline, had_turns)
            servers = self.servers(run)
            awake = [self.awake(servers) for _ in range(3)]
            # A turn may change during a look; through three of them, two servers run only by mistake.
            self.assertLessEqual(len(set.intersection(*awake)), 1, awake)
            if len(servers) == 3:
                had_turns = (had_turns | set.union(*awake)) & servers
            time.sleep(0.01)

    def awake(self, servers):
        """Those of which any process is not stopped."""
        def stopped(pid):
            try:
                return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith(("T", "Z"))
            except (FileNotFoundError, ProcessLookupError):
                return True
        return {server for server in servers if not all(map(stopped, {server} | stage.descendants(server)))}


class Ends(Bench):
    def test_ctrl_c_keeps_the_rounds_done_and_a_second_run_is_refused_meanwhile(self):
        terminal = Terminal()
        run = self.start("tpcb", "--rounds=1000", "--sets=1", **terminal.options())
        terminal.opened()
        self.wait_for_a_round(run)
        second = subprocess.run(self.command("readonly"), env=ENVIRONMENT, text=True, capture_output=True, check=False)
        self.assertEqual((second.returncode, second.stdout), (9, ""))
        self.assertRegex(second.stderr, r"\Apgseal: another pgseal bench runs on this machine[^\n]*\n\Z")
        terminal.press(b"\x03")
        output, _ = run.communicate(timeout=TIME_LIMIT)
        shown = terminal.close()
        self.assertEqual(run.returncode, 130, shown)
        bar = r"\d+/3000 runs +[\dhms]+ left +round \d+, scale 1, 1 connections"
        self.assertRegex(shown, bar)
        self.assertRegex(shown, r"pgseal: interrupted\r\n\Z")
        self.assert_left_nothing(run)
        self.assertIn("sealed-256", output)
        report = self.report()
        self.assertEqual(report["ended_early"], "interrupted")
        self.assertGreaterEqual(len(report["cases"][0]["rounds"]), 1)

    def test_a_server_that_dies_ends_the_run_with_its_log(self):
        run = self.start("tpcb", "--rounds=1000", "--sets=1")
        self.wait_for_a_round(run)
        self.kill_a_server(run)
        output, errors = run.communicate(timeout=TIME_LIMIT)
        self.assertEqual(run.returncode, 3, errors)
        died = r"pgseal: the server of [\w-]+ ended by itself \(signal: 9 \(SIGKILL\)\); its log ends with:\n"
        self.assertRegex(errors, rf"(?s){died}.*ready to accept")
        self.assert_left_nothing(run)
        self.assertIn("sealed-256", output)
        report = self.report()
        self.assertRegex(report["ended_early"], r"^the server of [\w-]+ ended by itself")
        self.assertGreaterEqual(len(report["cases"][0]["rounds"]), 1)

    def kill_a_server(self, run):
        while True:
            try:
                return os.kill(self.postmaster(run), signal.SIGKILL)
            except ProcessLookupError:
                pass  # its turn has just ended; the next one has begun

    def test_killed_it_leaves_no_server(self):
        run = self.start("tpcb", "--rounds=1000", "--sets=1")
        self.wait_for_a_round(run)
        self.postmaster(run)
        below = stage.descendants(run.pid)
        os.kill(run.pid, signal.SIGKILL)
        run.communicate(timeout=TIME_LIMIT)

        def living():
            return [pid for pid in below if stage.is_alive(pid)] + self.of_clusters()

        eventually(lambda: not living(), lambda: str(living()))

    def of_clusters(self):
        """Processes that were started for a cluster of the run, also after it was looked at."""
        found = []
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.data).encode() in command.read_bytes():
                    found.append(int(command.parent.name))
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def postmaster(self, run):
        """Of a server that takes connections."""
        return min(eventually(lambda: self.servers(run), "no server of the run took connections"))


class Progress(Bench):
    COMMAND = [PGSEAL, "bench", "cipher", "--rounds=1"]

    def test_on_a_terminal_from_the_start(self):
        terminal = Terminal()
        run = subprocess.Popen(self.COMMAND, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, **terminal.options())
        self.addCleanup(self.end, run)
        terminal.opened()
        run.communicate(timeout=TIME_LIMIT)
        shown = terminal.close()
        self.assertEqual(run.returncode, 0, shown)
        self.assertRegex(shown, r"\A[^\w]*[\w\[]* *preparing")
        self.assertRegex(shown, r"\d+/21 runs +[\dhms]+ left +round 1, (de|en)crypt, ")

    def test_nothing_elsewhere(self):
        done = subprocess.run(self.COMMAND, env=ENVIRONMENT, text=True, capture_output=True, timeout=TIME_LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class NotInstalled(Bench):
    def test_a_sentence_names_the_program(self):
        alone = self.directory / "pgseal"
        shutil.copy(PGSEAL, alone)
        done = subprocess.run([alone, "bench", "report", self.json], env=ENVIRONMENT, text=True, capture_output=True, check=False)
        sentence = f"pgseal: {alone}-bench is not installed: build it with `make build`, and install it beside pgseal\n"
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", sentence))


class Refused(Bench):
    """Before anything is made."""

    def check(self, options, sentence):
        done = subprocess.run(self.command("readonly", *options), env=ENVIRONMENT, text=True, capture_output=True,
                              timeout=TIME_LIMIT, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, sentence)
        self.assertEqual(list(self.data.iterdir()), [])
        self.assertFalse(self.json.exists())

    def test_too_little_disk(self):
        needs = r"\Apgseal: the run needs \d+\.\d GB of disk, and %s has \d+\.\d GB: [^\n]*--data[^\n]*\n\Z"
        self.check(["--scale=4000000"], needs % re.escape(str(self.data)))

    def test_too_little_memory(self):
        needs = r"\Apgseal: the run needs 3221\.\d GB of memory, and \d+\.\d GB are available: [^\n]*\n\Z"
        self.check(["--shared-buffers=1024000"], needs)

    def test_programs_that_are_missing_are_named(self):
        missing = r"\Apgseal: /usr/share holds no postgres, initdb, psql, pgbench: [^\n]*\n\Z"
        self.check(["--peer=other=/usr/share"], missing)

    def test_a_name_stands_for_one_contender(self):
        self.check([f"--peer=loaded={PG}"], r"\Apgseal: loaded is the name of two contenders: [^\n]*\n\Z")

    def test_root_has_no_servers_but_may_measure_the_cipher(self):
        as_root = ["unshare", "--map-root-user"]
        refused = subprocess.run([*as_root, *self.command("readonly")], env=ENVIRONMENT, text=True, capture_output=True,
                                 timeout=TIME_LIMIT, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertRegex(refused.stderr, r"\Apgseal: PostgreSQL's servers do not run as root: [^\n]*\n\Z")
        done = subprocess.run([*as_root, PGSEAL, "bench", "cipher", "--rounds=1", "--no-progress"], env=ENVIRONMENT, text=True,
                              capture_output=True, timeout=TIME_LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("## Decrypt", done.stdout)

    def test_a_socket_needs_a_short_path(self):
        top, self.data = self.data, self.data / ("x" * 80)
        self.data.mkdir()
        self.check([], rf"\Apgseal: the path {top}/x+ is too long for a server's socket: [^\n]*\n\Z")


if __name__ == "__main__":
    main(__file__)
