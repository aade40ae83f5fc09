#!/usr/bin/python3
"""Usage: scripts/test.py [ci|world]      (make test, make test-world)

Runs the tests one after the other, shows what they print, and ends with a table of steps and the line
"N passed, N failed, N skipped". A failed step does not keep the next from running. Exit status: 0 if nothing failed.

ci: the crates' tests, vectors/read.py, every program tests/*/*.py on Debian's PostgreSQL 15, PostgreSQL's own regression and
isolation suites of 15, and the table of libc calls against what is installed. world: the suites of 15, 17 and 18, and the programs on 17 and 18, with those that take long and
a longer crash loop. The suites' PostgreSQL is built once by tests/suites/fetch-build.sh.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEBIAN_PG = "/usr/lib/postgresql/15/bin"
SUITES = ROOT / "tests/suites"
WORLD_ONLY = {"tests/file-classes/regression.py"}
WORLD_CRASH_ROUNDS = "300"

# How runners tell their results: cargo, vectors/read.py, tests/suites/run.sh.
CARGO = re.compile(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored")
READER = re.compile(r"(?P<passed>\d+) passed, (?P<failed>\d+) failed$")
SUITE = re.compile(r"\d+ \w+: \d+ tests, (?P<passed>\d+) passed, (?P<failed>\d+) failed, (?P<skipped>\d+) skipped")


@dataclass
class Step:
    """One command, the variables that it gets beside the environment, and whether it runs tests."""
    name: str
    command: list
    environment: dict = field(default_factory=dict)
    tests: bool = True


@dataclass
class Outcome:
    """What a step counted."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0


class Tally:
    """Counts results from the lines of a step's output."""

    def __init__(self):
        self.outcome = Outcome()
        self.ran = 0

    def line(self, line):
        """Takes one line."""
        if match := CARGO.match(line) or SUITE.match(line) or READER.match(line.rstrip()):
            for name, count in match.groupdict().items():
                setattr(self.outcome, name, getattr(self.outcome, name) + int(count))
        elif match := re.match(r"Ran (\d+) tests? in ", line):
            self.ran = int(match[1])
        elif self.ran and (line.startswith("OK") or line.startswith("FAILED (")):
            self.unittest(dict(re.findall(r"(\w+)=(\d+)", line)))

    def unittest(self, counts):
        """The closing line of Python's unittest."""
        failed = int(counts.get("failures", 0)) + int(counts.get("errors", 0))
        skipped = int(counts.get("skipped", 0))
        self.outcome.passed += max(0, self.ran - failed - skipped)
        self.outcome.failed += failed
        self.outcome.skipped += skipped
        self.ran = 0

    def close(self, status, tests):
        """The outcome. A failure that was not counted counts as one, and so do tests that told no result."""
        outcome = self.outcome
        if outcome.failed == 0 and (status != 0 or tests and outcome == Outcome()):
            outcome.failed = 1
        return outcome


# Last, because it looks at every PostgreSQL that is there.
SURFACE = Step("cargo xtask surface", ["cargo", "xtask", "surface"], tests=False)


def programs():
    """The test programs of the tree; tests/lib holds none, and other modules do not run by themselves."""
    files = [file for file in sorted(ROOT.glob("tests/*/*.py")) if file.parent.name != "lib"]
    return [str(file.relative_to(ROOT)) for file in files if 'if __name__ == "__main__":' in file.read_text()]


def python_tests(pg, names, label="", environment=None):
    """The programs of these names, on the PostgreSQL in `pg`."""
    variables = {"PGSEAL_TEST_PG": pg, **(environment or {})}
    return [Step(name + label, [sys.executable, name], variables) for name in names]


def suites(version):
    """PostgreSQL's own suites of one version."""
    build = Step(f"build PostgreSQL {version}", [str(SUITES / "fetch-build.sh"), version], tests=False)
    return [build, Step(f"suites of {version}", [str(SUITES / "run.sh"), version])]


def built(version):
    """Where fetch-build.sh installs the programs of a version."""
    cache = "/var/cache/pgseal" if os.getuid() == 0 else os.path.expanduser("~/.cache/pgseal")
    return f"{os.environ.get('PGSEAL_CACHE', cache)}/pg/{version}/inst/bin"


def steps_of(which):
    """The steps of ci or world."""
    if which == "ci":
        crates = Step("crates", ["cargo", "test", "--workspace", "--locked", "--no-fail-fast"])
        vectors = Step("vectors/read.py", [sys.executable, "vectors/read.py"])
        chosen = [name for name in programs() if name not in WORLD_ONLY]
        return [crates, vectors, *python_tests(DEBIAN_PG, chosen), *suites("15"), SURFACE]
    helper = Step("programs that tests use", ["cargo", "build", "--workspace", "--examples", "--locked"], tests=False)
    steps = [helper, *suites("15"), *suites("17"), *suites("18"), SURFACE]
    for version in ["17", "18"]:
        environment = {"PGSEAL_CRASH_ROUNDS": WORLD_CRASH_ROUNDS}
        steps += python_tests(built(version), programs(), f" on {version}", environment)
    return steps


def run(step):
    """Runs a step, shows its output, and returns its outcome and the seconds it took."""
    print(f"\n=== {step.name}", flush=True)
    start = time.monotonic()
    tally = Tally()
    with subprocess.Popen(step.command, cwd=ROOT, env={**os.environ, **step.environment}, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            tally.line(line)
    return tally.close(child.returncode, step.tests), time.monotonic() - start


def main():
    """Runs all steps of the chosen kind."""
    which = sys.argv[1] if len(sys.argv) > 1 else "ci"
    if which not in ("ci", "world") or len(sys.argv) > 2:
        sys.exit("usage: scripts/test.py [ci|world]")
    results = [(step, *run(step)) for step in steps_of(which)]
    width = max(len(step.name) for step, *_ in results)
    print(f"\n{'':{width}} {'passed':>8} {'failed':>8} {'skipped':>8} {'seconds':>8}")
    total = Outcome()
    for step, outcome, seconds in results:
        print(f"{step.name:{width}} {outcome.passed:8} {outcome.failed:8} {outcome.skipped:8} {seconds:8.0f}")
        total.passed += outcome.passed
        total.failed += outcome.failed
        total.skipped += outcome.skipped
    print(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    sys.exit(total.failed > 0)


if __name__ == "__main__":
    main()
