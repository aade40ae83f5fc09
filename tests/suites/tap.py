#!/usr/bin/python3
"""Usage: tests/suites/tap.py [--plain] [--jobs N] [--logs DIR] VERSION [DIR | FILE]…      (nothing named: DIRECTORIES)

Purpose: the TAP suites of PostgreSQL's source tree, and the regression and isolation tests of its contrib and test modules,
run by prove and pg_regress as its makefiles run them, on sealed clusters of the PostgreSQL that fetch-build.sh built.
DIR is a directory of the source tree (src/bin/initdb), FILE one test of it (src/bin/initdb/t/001_initdb.pl; regress and
isolation count as files: contrib/bloom/regress). --plain runs the same on unsealed clusters: the baseline.

Sealed means: PATH leads to twins made by dist/bin/pgseal, and PGSEAL_INITDB_OPTIONS asks every initdb for a key of its own.
While a file runs, its data directories are looked at: one that a server runs on without a key file fails it.

Prints a line per file as it ends, then one per directory: "VERSION DIR: N files, N tests, N failed, N skipped, N s", where
failed counts tests and skipped files. tap-skipped.toml names, with reasons, the files and parts of files that are not run;
a file that skips itself without being named there has failed. Exit status: 0 if nothing failed. --logs keeps the output of
failed files.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))

import stage  # noqa: E402

STAGE = Path(os.environ.get("PGSEAL_TEST_STAGE", "/nonexistent"))
SKIPPED = Path(__file__).with_name("tap-skipped.toml")
KEY_OPTIONS = "--data-encryption=256 --no-key-wrap"
FILE_LIMIT = 1800
# Files that run beside one for each processor: servers wait for each other a third of the time.
WAITING = 2
LOOK_EVERY = 0.1

BIN = ("initdb pg_amcheck pg_basebackup pg_checksums pg_combinebackup pg_controldata pg_ctl pg_dump pg_resetwal pg_rewind "
       "pg_upgrade pg_verifybackup pg_waldump pg_walsummary scripts")
CONTRIB = ("adminpack amcheck basebackup_to_shell basic_archive bloom btree_gin btree_gist cube file_fdw hstore intarray "
           "ltree pageinspect pg_buffercache pg_freespacemap pg_logicalinspect pg_prewarm pg_stat_statements pg_surgery "
           "pg_trgm pg_visibility pg_walinspect pgrowlocks pgstattuple seg test_decoding tsm_system_rows tsm_system_time "
           "vacuumlo")
MODULES = ("brin commit_ts dummy_index_am gin injection_points snapshot_too_old spgist_name_ops test_aio test_custom_rmgrs "
           "test_extensions test_misc test_pg_dump test_shm_mq test_slru test_tidstore unsafe_tests worker_spi "
           "xid_wraparound")
# With those first that take longest. What a version does not have is left out.
DIRECTORIES = ["src/test/recovery", "src/test/subscription", *(f"src/bin/{name}" for name in BIN.split()),
               *(f"contrib/{name}" for name in CONTRIB.split()), *(f"src/test/modules/{name}" for name in MODULES.split())]

# What configure found when fetch-build.sh ran, and which of the tests that are off by default are to run.
SETTINGS = {"TAR": "tar", "GZIP_PROGRAM": "gzip", "LZ4": "lz4", "ZSTD": "zstd", "OPENSSL": "openssl", "with_icu": "yes",
            "with_ssl": "openssl", "with_readline": "yes", "LANG": "C.UTF-8", "PGPORT": "65432", "PGCTLTIMEOUT": "180",
            "PG_TEST_TIMEOUT_DEFAULT": "900",
            "PG_TEST_EXTRA": "xid_wraparound regress_dump_restore"}
# Files that read or write stored pages from Perl: the library acts in their Perl (SealedPerl.pm).
SEALED_PERL = {"contrib/amcheck/t/001_verify_heapam.pl", "contrib/amcheck/t/006_verify_gin.pl",
               "src/bin/pg_amcheck/t/003_check.pl", "src/bin/pg_amcheck/t/004_verify_heapam.pl",
               "src/bin/pg_basebackup/t/010_pg_basebackup.pl", "src/test/recovery/t/016_min_consistency.pl",
               "src/test/recovery/t/039_end_of_wal.pl"}
# Files that type BASE_BACKUP into psql, which shows a token then (GrantedPerl.pm).
GRANTED = {"src/test/recovery/t/001_stream_rep.pl"}
# Files that count on a cluster without data checksums, as initdb made it before 18, or ask for one. A sealed server needs
# wal_log_hints then.
WITHOUT_CHECKSUMS = {"contrib/amcheck/t/001_verify_heapam.pl", "contrib/amcheck/t/006_verify_gin.pl",
                     "src/bin/initdb/t/001_initdb.pl", "src/bin/pg_amcheck/t/003_check.pl",
                     "src/bin/pg_amcheck/t/004_verify_heapam.pl", "src/bin/pg_checksums/t/002_actions.pl"}

# Files that have WAL read out of tars (from 19 on), and the node with the key. PGDATA is taken out of the environment there.
NODES_OF_TARS = {"src/bin/pg_waldump/t/001_basic.pl": "main", "src/bin/pg_verifybackup/t/002_algorithm.pl": "primary",
                 "src/bin/pg_verifybackup/t/003_corruption.pl": "primary", "src/bin/pg_verifybackup/t/007_wal.pl": "primary",
                 "src/bin/pg_verifybackup/t/008_untar.pl": "primary", "src/bin/pg_verifybackup/t/010_client_untar.pl": "primary"}

# Files in which two clusters share files, which needs one key.
ONE_KEY = {"src/bin/pg_upgrade/t/006_transfer_modes.pl"}


@dataclass
class Outcome:
    """How a file ended: ok, FAILED or skipped; `tests` with the failed ones; `note`: why, or what was skipped inside."""
    state: str
    tests: int = 0
    failed: int = 0
    note: str = ""
    seconds: float = 0.0

    def fail(self, note):
        """Something else than its tests says that it failed."""
        self.state, self.failed, self.note = "FAILED", max(1, self.failed), self.note or note
        self.tests = max(self.tests, self.failed)


@dataclass
class Row:
    """A directory of the table."""
    files: int = 0
    tests: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def add(self, outcome):
        """Counts one file."""
        self.files += 1
        self.tests += outcome.tests
        self.failed += outcome.failed
        self.skipped += outcome.state == "skipped"
        self.seconds += outcome.seconds


@dataclass
class Suite:
    """The PostgreSQL of one version and how its tests are run."""
    version: str
    sealed: bool
    cache: Path
    skips: dict = field(default_factory=dict)
    parts: list = field(default_factory=list)

    def __post_init__(self):
        self.source = self.cache / "pg" / self.version / "src"
        self.installed = self.cache / "pg" / self.version / "inst"
        self.bindir = self.installed / "bin"
        if not (self.source.parent / "stamp").exists():
            sys.exit(f"PostgreSQL {self.version} is not built; run tests/suites/fetch-build.sh {self.version}")
        if self.sealed:
            self.bindir = STAGE / "work/sealed" / self.version
            self.bindir.parent.mkdir()
            pgseal = STAGE / "dist/bin/pgseal"
            subprocess.run([pgseal, "bindir", "--pg", self.installed / "bin", "--into", self.bindir], check=True,
                           stdout=subprocess.DEVNULL)
            self.skips = {entry["name"]: entry["reason"] for entry in read_skipped("file", self.version)}
            self.parts = read_skipped("part", self.version)

    def files(self, names):
        """The (directory, file) pairs of directories and files; what this version does not have is left out."""
        for name in names:
            directory, slash, last = name.rpartition("/")
            if last in ("regress", "isolation") and slash:
                yield directory, last
            elif name.endswith(".pl"):
                yield directory.removesuffix("/t"), f"t/{last}"
            else:
                yield from ((name, file) for file in self.files_in(name.rstrip("/")))

    def files_in(self, directory):
        """All files of a directory; what only the makefiles know is asked of make."""
        yield from (f"t/{file.name}" for file in sorted((self.source / directory / "t").glob("*.pl")))
        if not directory.startswith(("src/bin", "src/test/recovery", "src/test/subscription")):
            yield from (kind for kind in ("regress", "isolation") if self.driver_tests(directory, kind))

    def driver_tests(self, directory, kind):
        """What pg_regress or pg_isolation_regress is to run in a directory, as [options, tests]; empty if nothing."""
        if not (self.source / directory / "Makefile").exists():
            return []
        tests, options = {"regress": ("REGRESS", "REGRESS_OPTS"), "isolation": ("ISOLATION", "ISOLATION_OPTS")}[kind]
        rule = f"--eval=pgseal-print:;@echo '$({tests})'; echo '$({options})'"
        command = ["make", "-s", "--no-print-directory", "-C", self.source / directory, rule, "pgseal-print"]
        lines = subprocess.run(command, check=True, text=True, capture_output=True).stdout.splitlines()
        return [*lines[1].split(), *lines[0].split()] if lines[0].strip() else []

    def environment(self, name, work):
        """The variables that the makefiles set, and what seals."""
        tree = {
            "PERL5LIB": f"{self.source}/src/test/perl:{Path(__file__).parent}:{self.source / Path(name).parent}",
            "top_builddir": str(self.source),
            "PG_REGRESS": f"{self.source}/src/test/regress/pg_regress",
            "REGRESS_SHLIB": f"{self.source}/src/test/regress/regress.so",
            "TEST_EXT_LIB": f"{self.source}/src/test/modules/test_extensions/test_ext.so",
            "share_contrib_dir": f"{self.installed}/share/postgresql/extension",
            "enable_injection_points": "yes" if self.has_injection_points() else "no",
        }
        place = {
            "PATH": f"{self.bindir}:{work}:/usr/local/bin:/usr/bin:/bin", "HOME": str(work),
            "TESTDIR": str(work), "TESTDATADIR": f"{work}/tmp_check", "TESTLOGDIR": f"{work}/tmp_check/log",
            "PG_TEST_PORT_DIR": str(STAGE / "work/ports"),
        }
        return tree | place | SETTINGS | (self.sealing(name, work) if self.sealed else {})

    def sealing(self, name, work):
        """The variables that seal the clusters of a file, its Perl, or both."""
        variables = {"PGSEAL_INITDB_OPTIONS": KEY_OPTIONS}
        if name in WITHOUT_CHECKSUMS:
            config = work / "without_checksums.conf"
            config.write_text("wal_log_hints = on\n")
            variables["TEMP_CONFIG"] = str(config)
            if int(self.version) < 18:
                variables["PGSEAL_INITDB_OPTIONS"] += " --no-data-checksums"
        if name in ONE_KEY:
            key = work / "key"
            subprocess.run([self.bindir / "initdb", "-N", *KEY_OPTIONS.split(), key], check=True, capture_output=True)
            variables |= {"PGSEAL_INITDB_OPTIONS": f"--data-encryption --copy-key-from={key}/pg_encryption/key.bin"}
        if name in SEALED_PERL:
            variables |= {"LD_PRELOAD": str(STAGE / "dist/lib/libpgseal.so"), "PGSEAL_BIN": str(STAGE / "dist/bin/pgseal"),
                          "PGSEAL_PROGRAMS": "perl", "PERL5OPT": "-MSealedPerl"}
        if name in NODES_OF_TARS and int(self.version) >= 19:
            variables["PGDATAOLD"] = f"{work}/tmp_check/t_{Path(name).stem}_{NODES_OF_TARS[name]}_data/pgdata"
        if name in GRANTED:
            variables |= {"PGSEAL_BIN": str(STAGE / "dist/bin/pgseal"), "PERL5OPT": "-MGrantedPerl"}
        return variables

    def has_injection_points(self):
        """Whether the server was built with them (17 and later)."""
        headers = self.installed / "include/postgresql/server/pg_config.h"
        return "#define USE_INJECTION_POINTS 1" in headers.read_text()

    def command(self, directory, file, work):
        """The driver's command line for one file."""
        if file.endswith(".pl"):
            return ["prove", "-v", "-I", ".", self.whole_or_part(directory, file, work)]
        instance = [f"--temp-instance={work}/tmp_check", f"--bindir={self.bindir}", "--inputdir=.", f"--outputdir={work}"]
        if int(self.version) >= 16:
            instance.append("--expecteddir=.")
        driver = {"regress": "regress/pg_regress", "isolation": "isolation/pg_isolation_regress"}[file]
        return [self.source / "src/test" / driver, *instance, *self.driver_tests(directory, file)]

    def whole_or_part(self, directory, file, work):
        """The file, or a copy without the parts that are not run."""
        parts = [part for part in self.parts if part["name"] == f"{directory}/{file}"]
        if not parts:
            return file
        lines = (self.source / directory / file).read_text().splitlines(keepends=True)
        for part in parts:
            first = next(at for at, line in enumerate(lines) if part["from"] in line)
            last = next(at for at in range(first, len(lines)) if part["to"] in lines[at])
            lines[first:last + 1] = [part.get("instead", "") + "\n", *["\n"] * (last - first)]
        copy = work / Path(file).name
        copy.write_text("".join(lines))
        return copy


def read_skipped(kind, version):
    """The entries of one kind, file or part, in tap-skipped.toml that are for a version."""
    entries = tomllib.loads(SKIPPED.read_text()).get(kind, [])
    return [entry for entry in entries if version in entry["versions"]]


class Job:
    """One file that runs, in a process of ours that adopts its orphans, so that no ended server stays a zombie: for
    PostgreSQL, a zombie's postmaster.pid is that of a living server."""

    def __init__(self, suite, directory, file):
        self.directory, self.file = directory, file
        self.name = f"{directory}/{file}"
        self.work = STAGE / "work" / re.sub(r"\W+", "_", self.name)
        self.log = self.work / "output"
        self.suite = suite
        (self.work / "tmp_check").mkdir(parents=True)
        self.start = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                status = self.run()
            finally:
                os._exit(status)

    def run(self):
        """In the child: runs the driver, notes the data directories that servers ran on, ends what is left behind."""
        stage.adopt_orphans()
        with open(self.log, "w") as log:
            command = self.suite.command(self.directory, self.file, self.work)
            environment = self.suite.environment(self.name, self.work)
            driver = subprocess.Popen(command, cwd=self.suite.source / self.directory, env=environment,
                                      start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        seen, status, deadline = {}, None, time.monotonic() + FILE_LIMIT
        while status is None and time.monotonic() < deadline:
            self.look(seen)
            time.sleep(LOOK_EVERY)
            status = reap(driver.pid)
        stage.end_descendants()
        (self.work / "seen").write_text(json.dumps(seen))
        return 1 if status is None else status

    def look(self, seen):
        """Which clusters have a server now, and whether they are sealed."""
        tmp = self.work / "tmp_check"
        try:
            servers = [*tmp.glob("*/pgdata/postmaster.opts"), *tmp.glob("data/postmaster.opts")]
        except FileNotFoundError:
            return  # pg_regress removes the directory and makes it anew; a server runs later
        for started in servers:
            data = started.parent
            seen[str(data)] = seen.get(str(data), False) or (data / "pg_encryption/key.bin").exists()

    def outcome(self, status):
        """Reads the driver's output."""
        text = self.log.read_text(errors="replace")
        outcome = tap_outcome(text) if self.file.endswith(".pl") else driver_outcome(text)
        seen = json.loads((self.work / "seen").read_text()) if (self.work / "seen").exists() else {}
        plain = [data for data, sealed in seen.items() if not sealed]
        if status != 0 or outcome.state == "FAILED":
            outcome.fail(f"exit status {status}")
        elif self.suite.sealed and plain:
            outcome.fail("not sealed: " + " ".join(os.path.relpath(data, self.work) for data in plain))
        elif self.suite.sealed and outcome.state == "skipped":
            outcome.fail("not in tap-skipped.toml")
        outcome.seconds = time.monotonic() - self.start
        return outcome

    def close(self, outcome, logs):
        """Removes what the file left, except the logs of a failure."""
        if outcome.state == "FAILED" and logs:
            keep = logs / self.work.name
            shutil.rmtree(keep, ignore_errors=True)
            keep.mkdir(parents=True)
            patterns = ("output", "tmp_check/log/*", "log/*", "regression.diffs")
            for log in (log for pattern in patterns for log in self.work.glob(pattern) if log.is_file()):
                shutil.copy(log, keep)
        if outcome.state != "FAILED" or os.environ.get("PGSEAL_TEST_KEEP") != "1":
            shutil.rmtree(self.work, ignore_errors=True)


def reap(pid):
    """Waits for whatever has ended; the exit status of `pid` if it is among them."""
    status = None
    while True:
        try:
            ended, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:
            return status
        if ended == pid:
            status = 1 if os.waitstatus_to_exitcode(code) else 0


def tap_outcome(text):
    """From prove's output."""
    tests = int(match[1]) if (match := re.search(r"^Files=1, Tests=(\d+)", text, re.M)) else 0
    if match := re.search(r"\.+ skipped: (.*)", text):
        return Outcome("skipped", note=match[1])
    if re.search(r"^Result: PASS", text, re.M):
        inside = re.findall(r"^ok \d+ # skip (.*)", text, re.M)
        return Outcome("ok", tests, note=f"{len(inside)} skipped: {'; '.join(sorted(set(inside)))}" if inside else "")
    failed = re.findall(r"^not ok (\d+ .*)", text, re.M)
    return Outcome("FAILED", tests, len(failed), failed[0] if failed else last_line(text))


def driver_outcome(text):
    """From the summary of pg_regress, in the forms of 15 and of later versions."""
    text = re.sub(r"^# ", "", text, flags=re.M).replace("=", "")
    if match := re.search(r"^\s*All (\d+) tests passed", text, re.M):
        return Outcome("ok", int(match[1]))
    if match := re.search(r"^\s*(\d+) of (\d+) tests failed", text, re.M):
        return Outcome("FAILED", int(match[2]), int(match[1]), match[0].strip())
    return Outcome("FAILED", note=last_line(text))


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def run_all(suite, files, jobs, logs):
    """Runs the files, `jobs` at a time, and returns the table: {directory: Row}."""
    table, running, waiting = {}, {}, files.copy()
    while waiting or running:
        while waiting and len(running) < jobs:
            directory, file = waiting.pop(0)
            if reason := suite.skips.get(f"{directory}/{file}"):
                show(table, suite, f"{directory}/{file}", directory, Outcome("skipped", note=reason))
                continue
            job = Job(suite, directory, file)
            running[job.pid] = job
        if running:
            pid, status = os.wait()
            if job := running.pop(pid, None):
                outcome = job.outcome(os.waitstatus_to_exitcode(status))
                show(table, suite, job.name, job.directory, outcome)
                job.close(outcome, logs)
    return table


def show(table, suite, name, directory, outcome):
    """Counts and prints one file."""
    table.setdefault(directory, Row()).add(outcome)
    note = f": {outcome.note}" if outcome.note else ""
    print(f"{outcome.state:7} {suite.version} {name}, {outcome.tests} tests, {outcome.seconds:.0f} s{note}", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.partition("\n")[0])
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() + WAITING)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("version", choices=["15", "16", "17", "18", "19"])
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if "PGSEAL_TEST_STAGE" not in os.environ:
        sys.exit(stage.supervise(__file__, ()))
    cache = Path(os.environ.get("PGSEAL_CACHE", "/var/cache/pgseal"))
    suite = Suite(arguments.version, not arguments.plain, cache)
    (STAGE / "work/ports").mkdir()
    files = list(suite.files(arguments.names or DIRECTORIES))
    if not files:
        sys.exit(f"PostgreSQL {suite.version} has no such tests")
    table = run_all(suite, files, arguments.jobs, arguments.logs)
    print()
    for part in (part for part in suite.parts if part["name"] in [f"{directory}/{file}" for directory, file in files]):
        print(f"{suite.version} {part['name']} without {part['from']!r}: {part['reason']}")
    for directory, row in table.items():
        print(f"{suite.version} {directory}: {row.files} files, {row.tests} tests, {row.failed} failed, "
              f"{row.skipped} skipped, {row.seconds:.0f} s")
    sys.exit(any(row.failed for row in table.values()))


if __name__ == "__main__":
    main()
