"""pgseal-kms by itself, without a cluster."""

import time
from pathlib import Path

from pgseal_test import STAGE, run
from provider import BOUND

KMS = STAGE / "dist/bin/pgseal-kms"
CLUSTERS = "404142434445464748494a4b4c4d4e4f", "505152535455565758595a5b5c5d5e5f"
PAYLOAD = b"pgsealk1" + b"0" * 96


class Requests:
    """Methods of a test that has a `directory` and an `environment`."""

    def kms(self, request, uri, data, cluster=CLUSTERS[0]):
        """How pgseal-kms ended, and what it printed: bytes, and therefore into a file."""
        source = self.directory / "input"
        source.write_bytes(data)
        done = run(["sh", "-c", '"$@" <"$0" >"$0.out"', source, KMS, request, uri, cluster], self.environment, check=False)
        return done, Path(f"{source}.out").read_bytes()

    def wrap(self, uri):
        done, wrapped = self.kms("wrap", uri, PAYLOAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        return wrapped

    def assert_refused(self, uri, pattern, wrapped, bound=BOUND, **options):
        """The key does not come back: one sentence like `pattern`, exit status 6."""
        start = time.monotonic()
        done, payload = self.kms("unwrap", uri, wrapped, **options)
        self.assertLess(time.monotonic() - start, bound)
        self.assertEqual((done.returncode, payload), (6, b""), done.stderr)
        self.assertRegex(done.stderr, f"\\Apgseal-kms: {pattern}[^\\n]*\\n\\Z")
