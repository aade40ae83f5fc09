"""What the tests of bad input share: how a refusal looks, and proof that a directory was left as it was."""

import hashlib
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, STAGE, Canaries, Case, read_raw, run  # noqa: E402

LIBRARY = STAGE / "dist/lib/libpgseal.so"
WRONG_CONTROL_FILE = r"FATAL:  incorrect checksum in control file"
SENTENCE = r"pgseal: [^\n]*{}[^\n]*\n"


def contents(directory):
    """{path below the directory: digest of its stored bytes}; directories have none."""
    found = {}
    for place, directories, names in os.walk(directory):
        for name in directories:
            found[os.path.relpath(Path(place, name), directory)] = None
        for name in names:
            path = Path(place, name)
            found[os.path.relpath(path, directory)] = hashlib.sha256(read_raw(path)).hexdigest()
    return found


class BadInput(Case):
    """A test that something is refused, with nothing changed and nothing shown."""

    def assert_refused(self, done, code, pattern):
        """pgseal ended a program's start with this exit code and one sentence, which `pattern` matches."""
        self.assertRegex(done.stderr, rf"\A{SENTENCE.format(pattern)}\Z")
        self.assertEqual(done.returncode, code, done.stderr)

    def assert_ended(self, done, code, *patterns):
        """A program of PostgreSQL ended with this exit code and said these things."""
        for pattern in patterns:
            self.assertRegex(done.stderr, pattern)
        self.assertEqual(done.returncode, code, done.stderr)

    def assert_untouched(self, directory, before):
        """The directory holds what it held: no file more, less or changed."""
        after = contents(directory)
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        self.assertEqual(changed, set())

    def filled(self, name="main", **options):
        """A stopped sealed cluster with a canary in a table; returns it and the canary."""
        cluster = self.cluster(name, **options)
        cluster.init().start()
        canaries = Canaries()
        cluster.psql(f"CREATE TABLE t AS SELECT '{canaries['row']}' || i AS a FROM generate_series(1, 100) i")
        cluster.stop()
        self.assertEqual(canaries.found(cluster.data), {})
        return cluster, canaries

    def assert_readable(self, cluster, canaries):
        """The cluster starts and has its rows."""
        cluster.start()
        self.assertEqual(cluster.psql("SELECT a FROM t LIMIT 1"), canaries["row"] + "1")
        cluster.stop()

    def postgres(self, cluster, *options, program=None, environment=None, **more):
        """Runs the server until it ends. It is not expected to start; if it does, it is stopped after 20 s."""
        limit = ["timeout", "--signal=QUIT", "20"]
        command = [*limit, program or cluster.bindir / "postgres", "-D", cluster.data, *options]
        return run(command, {**cluster.environment, **(environment or {})}, check=False, **more)

    def stop_sound(self, cluster):
        """Stops a server that has found nothing wrong, and asks the other checks. A file may end in half a page, where
        PostgreSQL will write again: then pg_checksums and verify exit with 1. Returns that exit status."""
        self.assertIsNone(re.search("^pgseal: .*|.*invalid page.*", cluster.log(), re.MULTILINE))
        cluster.run("pg_amcheck", "--all", "--heapallindexed", "--install-missing")
        cluster.stop()
        checksums = cluster.run("pg_checksums", "-D", cluster.data, check=False)
        self.assertNotRegex(checksums.stderr, "checksum verification failed")
        if cluster.sealed:
            verify = run([STAGE / "dist/bin/pgseal", "verify", "-D", cluster.data], check=False)
            self.assertEqual(verify.returncode, checksums.returncode, verify.stdout + checksums.stderr)
            findings = re.findall(r"^\S+/\S+: .*$", verify.stdout.partition("  files ")[0], re.MULTILINE)
            self.assertEqual([line for line in findings if "is not a multiple of the page size" not in line], [])
        return checksums.returncode


def sentences(text):
    """The lines of a log that are pgseal's."""
    return re.findall(r"^pgseal: .*$", text, re.MULTILINE)


__all__ = ["LIBRARY", "PG", "STAGE", "WRONG_CONTROL_FILE", "BadInput", "contents", "run", "sentences"]
