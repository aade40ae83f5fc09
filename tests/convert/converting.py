"""What the tests of `pgseal seal`, `unseal` and `rekey` share."""

import hashlib
import json
import os
import re
import stat
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, files_below, run, twins

PLAIN_KEY = ["--no-key-wrap"]


class ConvertCase(Case):
    """A test of conversions."""

    def convert(self, command, cluster, *options, code=0, environment=None):
        """Runs a conversion, which must end with `code`. Returns what it printed."""
        done = run([PGSEAL, command, "-D", cluster.data, *options], environment, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if command != "unseal" and code == 0 and "--check" not in options:
            become(cluster, sealed=True)
        elif command == "unseal" and code == 0 and "--check" not in options:
            become(cluster, sealed=False)
        return done

    def refused(self, command, cluster, code, sentence, *options):
        """The conversion must end with `code` and this one sentence (a pattern), and change nothing."""
        before = content(cluster.data)
        for check in [(), ("--check",)] if code != 2 else [()]:
            done = self.convert(command, cluster, *options, *check, code=code)
            said = done.stderr if done.stderr else "\n".join(re.findall("^blocker: (.*)$", done.stdout, re.M))
            self.assertRegex(said, f"^(pgseal: )?({re.escape(str(cluster.data))}: )?{sentence}\n?$")
        self.assertEqual(content(cluster.data), before)

    def verify(self, cluster, code=0):
        """The report of `pgseal verify --json`."""
        done = run([PGSEAL, "verify", "-D", cluster.data, "--json"], check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def assert_same_files(self, before, after):
        """Two results of content() are equal; the difference is told by names."""
        different = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        self.assertEqual(different, [])

    def amcheck(self, cluster):
        """Every table and index is sound."""
        cluster.psql("CREATE EXTENSION IF NOT EXISTS amcheck")
        cluster.run("pg_amcheck", "--heapallindexed", "-d", "postgres")


def become(cluster, sealed):
    """The cluster's programs from now on."""
    cluster.sealed = sealed
    cluster.bindir = twins(cluster.pg) if sealed else cluster.pg


def content(*places):
    """{path below the place: (sha256, size, mode)} of all files, links followed."""
    found = {}
    for place in places:
        for file in files_below(place):
            name = f"{Path(place).name}/{file.relative_to(place)}"
            mode = stat.S_IMODE(os.stat(file).st_mode)
            found[name] = (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_size, mode)
    return found


def dump(cluster, db="postgres"):
    """The lines of pg_dump, without the word that it makes up for each dump."""
    lines = cluster.run("pg_dump", "-d", db).stdout.splitlines()
    return [line for line in lines if not re.match(r"\\(un)?restrict ", line)]
