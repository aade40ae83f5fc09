"""What the tests of all key providers do to a cluster: its whole life, and a provider that fails.

A provider's test makes a device or service of its own on loopback, and gives the URI of a key in it.
"""

import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, run  # noqa: E402

ROWS = "SELECT count(*), sum(x) FROM t"
# The whole of one request to a service, with all that it is tried again.
BOUND = 40


class Provider(Case):
    """A test with a provider; `environment` reaches every program that asks it."""

    environment = {}

    def made(self, uri, name="main", **options):
        """A cluster with a table, whose key `uri` protects, and which runs."""
        cluster = self.cluster(name, key=(f"--key-provider={uri}",), environment=self.environment, **options)
        cluster.init().start()
        cluster.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS x")
        return cluster

    def secret(self, name, text):
        """A file that only its owner may read."""
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    @staticmethod
    def query(**settings):
        """The settings of a URI; one that is None is left out."""
        return "&".join(f"{name.replace('_', '-')}={value}" for name, value in settings.items() if value is not None)

    def pgseal(self, *arguments, check=True, environment=None):
        return run([PGSEAL, *arguments], {**self.environment, **(environment or {})}, check=check)

    def assert_fails(self, cluster, pattern, environment=None, bound=BOUND):
        """The key does not open: one sentence like `pattern`, exit status 6, in a bounded time."""
        start = time.monotonic()
        done = self.pgseal("key", "check", "-D", cluster.data, check=False, environment=environment)
        self.assertLess(time.monotonic() - start, bound)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIsNone(re.search("panicked|RUST_BACKTRACE", done.stderr))
        return done
