#!/usr/bin/python3
"""Usage: scripts/test.py [ci|check|world|auto-failover|barman|bench-page|builds|debian|drivers|extensions|fips|keys|kubernetes|packages|patroni|pgbackrest|power|repmgr|telling|tprocc]
(make test, make check, make test-world …)

Runs the tests, shows what they print, and ends with a table and the line
"N passed, N failed, N skipped". The table has a row per step, and one per directory of PostgreSQL's suites. Another table has
what each key provider's cluster went through (lives.py). A failed step does not keep the next from running. Programs of the tree run at once, two more than there are processors.
Exit status: 0 if nothing failed.

ci: the crates' tests, with the same random cases each time, the ring's interleavings, vectors/read.py, every program tests/*/*.py on Debian's PostgreSQL 15, PostgreSQL's own regression,
isolation and TAP suites of 15, and the table of libc calls against what is installed. barman, debian …: the programs of that
directory, which need packages or time of their own. check: the crates' tests, vectors/read.py, canaries on disk and the documents'
commands. keys: tests/keys, with all steps of every provider's life, which ci runs for one of them. world: the crates' tests, the suites of 15, 17 and 18, and the programs on 17 and 18, with
those that take long and a longer crash loop; on 15 those that ci leaves out, and those of
encrypted columns on clusters that are encrypted on disk. power: the long form of tests/power on 15, 17 and 18. Both take 16 and 19, too, where
PGSEAL_POSTGRES_GIT names their source. The suites' PostgreSQL is built once by tests/suites/fetch-build.sh.
"""

import itertools
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/lib"))

import stage  # noqa: E402
from lives import Lives  # noqa: E402

DEBIAN_PG = "/usr/lib/postgresql/15/bin"
SUITES = ROOT / "tests/suites"
WORLD_ONLY = ["tests/bench/test_recipes.py", "tests/file-classes/regression.py"]
# These leave out in ci what takes gigabytes of disk.
LONG = ["tests/archive/test_segment_sizes.py", "tests/tablespaces/test_relations.py"]
# Needs every version, and 13 to come from: once, in the world.
ACROSS_VERSIONS = "tests/upgrade/versions.py"
# Directories whose programs need packages or time of their own: run by their name, and in the world.
BY_NAME = ["apps", "auto-failover", "barman", "bench-page", "builds", "debian", "drivers", "extensions", "fips", "kubernetes", "other-backups", "packages", "patroni", "pgbackrest",
           "repmgr", "shop", "tprocc"]
# Needs a build of its own, so that the world leaves it out.
OWN_BUILD = "fips"
LONG_FORM = {"PGSEAL_TEST_LONG": "1"}
# Little memory, so that pages are read again and again.
BY_IO_URING = {"PGSEAL_INITDB_OPTIONS": "--data-encryption=256 --no-key-wrap -c io_method=io_uring -c shared_buffers=16MB"}
# Its short form is among the tests; its long one has a name.
POWER = {**LONG_FORM, "PGSEAL_POWER_CUTS": "40", "PGSEAL_POWER_SECONDS": "25"}
KINDS = ["ci", "check", "world", "power", "keys", "telling", *BY_NAME]
# Those of them whose packages know no PostgreSQL after Debian's, or that need none.
DEBIAN_ONLY = ["apps", "auto-failover", "barman", "bench-page", "builds", "drivers", "extensions", "kubernetes", "other-backups", "packages", "pgbackrest", "repmgr", "shop"]
# Old minor releases that scripts/fetch-builds.sh fetches. Servers of users are as old, and get encdb as it is built for the newest.
OLD_MINORS = {"15": ["15.0", "15.10"], "16": ["16.1"], "17": ["17.0"], "18": ["18.0"]}
# The one that tests/encdb/test_upgrade.py upgrades to later versions.
UPGRADED_FROM = "15.10"
# Programs of encrypted columns that are run there: those that go through the planner, the executor and the indexes. pg_upgrade takes
# no server of another minor than its own, so that test_life.py is none of them.
ON_OLD_MINORS = [f"tests/encdb/test_{name}.py" for name in ("ahead", "differential", "planner", "random", "range_frames",
                                                           "ranked_sort", "regress", "requests", "tokens", "types")]
# Drivers that ci runs, too: they are installed in seconds.
DRIVERS_IN_CI = ["tests/drivers/test_psycopg2.py", "tests/drivers/test_python.py", "tests/drivers/test_sqlalchemy.py"]
# Programs of encrypted columns that ci runs on clusters that are encrypted on disk, too: what a server goes through, and what roles
# may. tests/encdb/test_handover.py makes both kinds itself; the world runs all of them on both.
ENCRYPTED_IN_CI = ["tests/encdb/test_life.py", "tests/encdb/test_roles.py"]
# `make check`: what shows most in the least time, a cluster's whole life with canaries that are looked for on disk.
IN_CHECK = ["tests/nothing-in-clear/run.py", "tests/docs/test_docs.py"]
# As Makefile's FEATURES: without the client of AWS its tests have nothing to test.
WITH_AWS = os.environ.get("PGSEAL_AWS", "yes") != "no"
FEATURES = ["--features", "pgseal-kms/aws"] if WITH_AWS else []
OF_AWS = "tests/keys/test_aws.py"
# They take minutes and would begin late: neither is to run alone at the end.
FIRST = ["tests/replication/clone.py", "tests/upgrade/same_major.py"]
MOST_AT_ONCE = 4
# Programs that run beside one for each processor: a program of tests mostly waits for servers and disks.
WAITING = 2
# How many of the slowest rows are named below the table.
SLOWEST = 10
WORLD_CRASH_ROUNDS = "300"
WORLD_TORTURE_ROUNDS = "100"

# What makes a module of tests a program; an example in a comment is indented.
IS_PROGRAM = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)

# How runners tell their results: cargo, vectors/read.py, tests/suites/run.sh, tests/suites/tap.py.
CARGO = re.compile(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored")
READER = re.compile(r"(?P<passed>\d+) passed, (?P<failed>\d+) failed$")
SUITE = re.compile(r"(\d+) (\w+): \d+ tests, (\d+) passed, (\d+) failed, (\d+) skipped")
TAP = re.compile(r"(\d+) (\S+): (\d+) files, (\d+) tests, (\d+) failed, (\d+) skipped, (\d+) s$")


@dataclass
class Step:
    """One command, the variables that it gets beside the environment, whether it runs tests, and needs the machine alone."""
    name: str
    command: list
    environment: dict = field(default_factory=dict)
    tests: bool = True
    version: str = "15"
    alone: bool = True


@dataclass
class Row:
    """What a step or one of PostgreSQL's suites counted; `skipped` counts files in those that tell their number."""
    suite: str
    version: str
    files: int = 1
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def add(self, passed, failed, skipped):
        """Counts tests."""
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def cells(self):
        """As the table shows it."""
        tests = self.passed + self.failed
        return (self.suite, self.version, self.files, tests, self.failed, self.skipped, round(self.seconds))


class Tally:
    """Counts results from the lines of a step's output: rows of suites, and what else there is in `own`."""

    def __init__(self, step, lives):
        self.own = Row(step.name, step.version)
        self.suites = []
        self.lives = lives
        self.ran = 0

    def line(self, line):
        """Takes one line."""
        self.lives.line(line)
        if match := CARGO.match(line) or READER.match(line.rstrip()):
            self.own.add(**{name: int(count) for name, count in {"skipped": 0, **match.groupdict()}.items()})
        elif match := SUITE.match(line):
            self.suites.append(Row(match[2], match[1], 1, *map(int, match.groups()[2:])))
        elif match := TAP.match(line):
            files, tests, failed, skipped, seconds = map(int, match.groups()[2:])
            self.suites.append(Row(match[2], match[1], files, tests - failed, failed, skipped, seconds))
        elif match := re.match(r"Ran (\d+) tests? in ", line):
            self.ran = int(match[1])
        elif self.ran and (line.startswith("OK") or line.startswith("FAILED (")):
            self.unittest(dict(re.findall(r"(\w+)=(\d+)", line)))

    def unittest(self, counts):
        """The closing line of Python's unittest."""
        failed = int(counts.get("failures", 0)) + int(counts.get("errors", 0))
        skipped = int(counts.get("skipped", 0))
        self.own.add(max(0, self.ran - failed - skipped), failed, skipped)
        self.ran = 0

    def close(self, status, tests, seconds):
        """The rows. A failure that was not counted counts as one, and so do tests that told no result."""
        rows = self.suites or [self.own]
        if len(rows) == 1:
            rows[0].seconds = seconds
        counted = any(row.passed or row.failed or row.skipped for row in rows)
        if not any(row.failed for row in rows) and (status != 0 or tests and not counted):
            rows[0].failed += 1
        return rows


# The driver of tests/tprocc.
GO_TPC = Step("build go-tpc", ["scripts/fetch-go-tpc.sh"], tests=False, version="")
# What tests/builds runs.
BUILDS = Step("fetch builds", ["scripts/fetch-builds.sh"], tests=False, version="")
# What tests/packages installs: for this machine's processor, with the extensions for the PostgreSQL of its Debian.
DEBS = Step("build packages", ["scripts/packages.sh", "--arch", os.uname().machine, "--major", "15"], tests=False, version="")
# What tests/extensions builds from source.
EXTENSIONS = Step("build extensions", ["scripts/fetch-extensions.sh"], tests=False, version="15")
# The versions whose source is here: no release of Debian has that of 16 or of 19.
GIT = "PGSEAL_POSTGRES_GIT" in os.environ
VERSIONS = ["15", *(["16"] if GIT else []), "17", "18", *(["19"] if GIT else [])]
# What tests/drivers runs: those of Python alone, and all.
DRIVERS_OF_PYTHON = Step("fetch drivers", ["scripts/fetch-drivers.sh", "python"], tests=False, version="")
DRIVERS = Step("fetch drivers", ["scripts/fetch-drivers.sh"], tests=False, version="")
# The packages of bindings/ that tests/drivers runs, beside that of Python.
PACKAGES = [Step(f"build {name}", [f"scripts/{name}.sh"], tests=False, version="") for name in ("jar", "npm")]
# The service indicator of the FIPS module, for each service that is used. In a target directory of its own: Makefile says why. For
# release, as the build before it: the module takes minutes to build.
INDICATOR = Step("crypto, FIPS", ["cargo", "test", "--release", "-p", "pgseal-crypto", "--features", "fips", "--target-dir", "target/fips", "--locked"],
                 version="")
# What tests/keys runs in place of AWS.
MOTO = Step("fetch moto", ["scripts/fetch-drivers.sh", "moto"], tests=False, version="")
APPLICATIONS = Step("fetch applications", ["scripts/fetch-drivers.sh", "miniflux", "oscar"], tests=False, version="")
# What tests/kubernetes compares with.
KUBERNETES = Step("fetch for Kubernetes", ["scripts/fetch-kubernetes.sh"], tests=False, version="")
# The table of tests/keys, from lines of an example.
LIVES = Step("lives.py", [sys.executable, "-m", "doctest", "scripts/lives.py"], tests=False, version="")
# The ring of shared memory in a model checker, whose atomics are not the processor's.
LOOM = Step("interleavings of the ring",
            ["cargo", "test", "--manifest-path", "crates/encdb/evaluator-proto/loom/Cargo.toml", "--target-dir", "target/loom", "--locked"],
            {"RUSTFLAGS": "--cfg loom"}, version="")
# Last, because it looks at every PostgreSQL that is there.
SURFACE = Step("cargo xtask surface", ["cargo", "xtask", "surface"], tests=False, version="")


# What cases a random number chooses is the same in every run of ci, which judges a change and not its luck; the world takes
# others each time, and names them where they fail.
SAME_CASES = {"PROPTEST_RNG_SEED": "15", "PGSEAL_SEED": "15"}


def crates(environment):
    """The crates' own tests."""
    return Step("crates", ["cargo", "test", "--workspace", *FEATURES, "--locked", "--no-fail-fast"], environment, version="")


def programs(directories=None, without=()):
    """The test programs of the tree; tests/lib holds none, and other modules do not run by themselves."""
    without = ("lib", "suites", *without)
    files = [file for file in sorted(ROOT.glob("tests/*/*.py")) if file.parent.name not in without]
    if directories is not None:
        files = [file for file in files if file.parent.name in directories]
    names = [str(file.relative_to(ROOT)) for file in files if IS_PROGRAM.search(file.read_text())]
    return [name for name in names if name != ACROSS_VERSIONS]


def python_tests(version, pg, names, environment=None):
    """The programs of these names, on the PostgreSQL in `pg`."""
    variables = {"PGSEAL_TEST_PG": pg, **(environment or {})}
    alone = [name.split("/")[1] in BY_NAME and name not in DRIVERS_IN_CI for name in names]
    return [Step(name, [sys.executable, name], variables, True, version, one) for name, one in zip(names, alone)]


def encrypted(version, pg, names, environment=None):
    """The programs of encrypted columns of these names, on clusters that are encrypted on disk."""
    steps = python_tests(version, pg, names, {"PGSEAL_TEST_SEALED": "1", **(environment or {})})
    for step in steps:
        step.name += ", encrypted on disk"
    return steps


def build(version):
    """An unmodified PostgreSQL."""
    return Step("build PostgreSQL", [str(SUITES / "fetch-build.sh"), version], tests=False, version=version)


def confidential(version, pg):
    """The server that tests/encdb runs: a copy of the one whose programs are in `pg`, with the extensions."""
    command = ["scripts/encdb-server.sh", pg, f"target/encdb/{version}"]
    return Step("build encdb", command, tests=False, version=version)


def old_minor(version, minor):
    """The server of an old minor with the extensions, which those of `version` have been built with."""
    command = ["scripts/other-minor.sh", f"target/encdb/{version}", minor, f"target/encdb/{minor}"]
    return Step("encdb in an old minor", command, tests=False, version=minor)


def on_old_minors(version, pg):
    """Programs of encrypted columns on old minors of a version, whose newest has its programs in `pg` and the extensions."""
    steps = []
    for minor in OLD_MINORS.get(version, []):
        tests = python_tests(version, pg, ON_OLD_MINORS, {"PGSEAL_TEST_ENCDB": f"target/encdb/{minor}"})
        for step in tests:
            step.version = minor
        steps += [old_minor(version, minor), *tests]
    return steps


def suites(version):
    """PostgreSQL's own suites of one version."""
    steps = [build(version), Step("regression suites", [str(SUITES / "run.sh"), version], version=version)]
    if int(version) >= 18:
        steps.append(Step("regression suite by io_uring", [str(SUITES / "run.sh"), version, "regress"], BY_IO_URING, version=version))
    return [*steps, Step("TAP suites", [sys.executable, str(SUITES / "tap.py"), version], version=version)]


def built(version):
    """Where fetch-build.sh installs the programs of a version."""
    cache = "/var/cache/pgseal" if os.getuid() == 0 else os.path.expanduser("~/.cache/pgseal")
    return f"{os.environ.get('PGSEAL_CACHE', cache)}/pg/{version}/inst/bin"


def steps_of(which):
    """The steps of ci, of world, or of one directory of tests."""
    vectors = Step("vectors/read.py", [sys.executable, "vectors/read.py"], version="")
    if which == "check":
        return [crates(SAME_CASES), vectors, *python_tests("15", DEBIAN_PG, IN_CHECK, SAME_CASES)]
    if which == "ci":
        left_out = WORLD_ONLY if WITH_AWS else [*WORLD_ONLY, OF_AWS]
        chosen = [name for name in programs(without=BY_NAME) if name not in left_out] + DRIVERS_IN_CI
        chosen.sort(key=lambda name: name not in FIRST)
        server = confidential("15", DEBIAN_PG)
        building, *suites_of_15 = suites("15")  # tests/encdb reads PostgreSQL's sources
        tests = python_tests("15", DEBIAN_PG, chosen, SAME_CASES) + encrypted("15", DEBIAN_PG, ENCRYPTED_IN_CI, SAME_CASES)
        fetched = [DRIVERS_OF_PYTHON, MOTO] if WITH_AWS else [DRIVERS_OF_PYTHON]
        return [crates(SAME_CASES), LOOM, vectors, building, server, *fetched, *tests, *suites_of_15, SURFACE]
    if which == "drivers":
        first, names = [confidential("15", DEBIAN_PG), DRIVERS, *PACKAGES], programs(["drivers"])
        return first + python_tests("15", DEBIAN_PG, names, LONG_FORM) + encrypted("15", DEBIAN_PG, names)
    if which == "shop":
        first = [confidential("15", DEBIAN_PG), DRIVERS_OF_PYTHON]
        return first + python_tests("15", DEBIAN_PG, programs(["shop"])) + encrypted("15", DEBIAN_PG, ["tests/shop/shop.py"])
    if which == "apps":
        first = [confidential("15", DEBIAN_PG), APPLICATIONS]
        return first + python_tests("15", DEBIAN_PG, programs(["apps"])) + encrypted("15", DEBIAN_PG, programs(["apps"]))
    if which == "keys":
        names = [name for name in programs(["keys"]) if WITH_AWS or name != OF_AWS]
        return [LIVES] + ([MOTO] if WITH_AWS else []) + python_tests("15", DEBIAN_PG, names, LONG_FORM)
    if which == "telling":
        return python_tests("15", DEBIAN_PG, programs(["telling"]))
    if which == "fips":
        return [INDICATOR, *python_tests("15", DEBIAN_PG, [*programs(["fips"]), "tests/keys/test_demand.py"])]
    if which == "builds":
        server = confidential("15", DEBIAN_PG)
        return [BUILDS, *python_tests("15", DEBIAN_PG, programs(["builds"])), server, *on_old_minors("15", DEBIAN_PG)]
    if which in BY_NAME:
        first = {"tprocc": [GO_TPC], "extensions": [EXTENSIONS], "debian": [confidential("15", DEBIAN_PG)],
                 "kubernetes": [build("18"), KUBERNETES], "packages": [BUILDS, DEBS]}.get(which, [])
        return first + python_tests("15", DEBIAN_PG, programs([which]))
    if which == "power":
        versions = [[build(version), *python_tests(version, built(version), programs(["power"]), POWER)] for version in VERSIONS]
        return list(itertools.chain(*versions))
    helper = Step("programs that tests use", ["cargo", "build", "--workspace", *FEATURES, "--examples", "--locked"], tests=False,
                  version="")
    steps = [helper, crates({}), GO_TPC, BUILDS, DEBS, EXTENSIONS, KUBERNETES, DRIVERS, *PACKAGES, *itertools.chain(*map(suites, VERSIONS)), SURFACE]
    steps += [build("13"), *python_tests("13-18", built("15"), [ACROSS_VERSIONS])]
    steps += python_tests("15", built("15"), WORLD_ONLY + LONG, LONG_FORM)
    steps += [confidential("15", DEBIAN_PG), old_minor("15", UPGRADED_FROM)]
    for version in VERSIONS[1:]:
        environment = {"PGSEAL_CRASH_ROUNDS": WORLD_CRASH_ROUNDS, "PGSEAL_TEST_LONG": "1",
                       "PGSEAL_CONVERT_POINTS": "12", "PGSEAL_TORTURE_ROUNDS": WORLD_TORTURE_ROUNDS}
        steps.append(confidential(version, built(version)))
        steps += python_tests(version, built(version), programs(without=[*DEBIAN_ONLY, OWN_BUILD]), environment)
        steps += encrypted(version, built(version), programs(["encdb"]), environment)
        steps += on_old_minors(version, built(version))
    steps += [confidential("15", DEBIAN_PG), *encrypted("15", DEBIAN_PG, programs(["encdb"])), *on_old_minors("15", DEBIAN_PG)]
    return steps + python_tests("15", DEBIAN_PG, programs(DEBIAN_ONLY))


def run_all(steps, lives):
    """One after the other; steps that need no machine for themselves, several at once."""
    rows = []
    for alone, group in itertools.groupby(steps, key=lambda step: step.alone):
        with ThreadPoolExecutor(1 if alone else min(os.cpu_count() + WAITING, MOST_AT_ONCE)) as pool:
            rows += itertools.chain.from_iterable(pool.map(lambda step: run(step, lives), group))
    return rows


def run(step, lives):
    """Runs a step, shows its output, at its end if others run beside it, and returns its rows; `lives` gets those of key providers."""
    show_line = Lines(step)
    start = time.monotonic()
    tally = Tally(step, lives)
    with subprocess.Popen(step.command, cwd=ROOT, env={**os.environ, **step.environment}, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        for line in child.stdout:
            show_line(line)
            tally.line(line)
    show_line.end()
    return tally.close(child.returncode, step.tests, time.monotonic() - start)


class Lines:
    """Shows a step's output."""

    def __init__(self, step):
        self.title, self.alone, self.kept = f"\n=== {step.name}\n", step.alone, []
        if self.alone:
            print(self.title, end="", flush=True)

    def __call__(self, line):
        if self.alone:
            print(line, end="", flush=True)
        else:
            self.kept.append(line)

    def end(self):
        """What was kept, in one piece."""
        if self.kept:
            print(self.title + "".join(self.kept), end="", flush=True)


def main():
    """Runs all steps of the chosen kind."""
    which = sys.argv[1] if len(sys.argv) > 1 else "ci"
    if which not in KINDS or len(sys.argv) > 2:
        sys.exit(f"usage: scripts/test.py [{'|'.join(KINDS)}]")
    if os.getuid() == 0:
        stage.test_account()  # before two programs make it at once
    lives = Lives()
    rows = run_all(steps_of(which), lives)
    if lives.rows:
        print(f"\n{lives.table()}")
    show(rows)
    sys.exit(any(row.failed for row in rows))


def show(rows):
    """The table and the sums."""
    header = ("suite", "version", "files", "tests", "failed", "skipped", "seconds")
    width = max(len(row.suite) for row in rows)
    print()
    for cells in [header, *(row.cells() for row in rows)]:
        print(f"{cells[0]:{width}}" + "".join(f" {cell:>8}" for cell in cells[1:]))
    slowest = sorted(rows, key=lambda row: row.seconds, reverse=True)[:SLOWEST]
    print("\nslowest: " + ", ".join(f"{row.suite} {row.version} {row.seconds:.0f} s".replace("  ", " ") for row in slowest))
    sums = [sum(getattr(row, name) for row in rows) for name in ("passed", "failed", "skipped")]
    print("\n{} passed, {} failed, {} skipped".format(*sums))


if __name__ == "__main__":
    main()
