"""A scenario runs twice: on a sealed cluster, which must show nothing, and on a plain one, which must show the canary in
every place that the scenario names. So a test that looks in the wrong place fails.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Canaries, Case, run  # noqa: E402


class Twins(Case):
    def both(self, scenario, *places, conf="", **options):
        """Runs scenario(cluster, canaries), which leaves the cluster running, on both; all canaries' files end below
        cluster.home. `places` are parts of paths where the plain reference shows a canary while it runs."""
        for sealed in (False, True):
            canaries = Canaries()
            name = "sealed" if sealed else "plain"
            cluster = self.cluster(name, sealed=sealed, conf="autovacuum = off\n" + conf, **options).init().start()
            scenario(cluster, canaries)
            cluster.psql("CHECKPOINT")
            files = {file for found in canaries.found(cluster.data, cluster.home).values() for file in found}
            cluster.end_sessions()
            cluster.run("pg_amcheck", "--all", "--heapallindexed", "--install-missing")
            cluster.stop()
            if sealed:
                self.assertEqual(files, set())
                self.assertEqual(canaries.found(cluster.home), {})
                self.assert_verifies(cluster)
            else:
                for place in places:
                    self.assertTrue(any(place in file for file in files), f"{place} is not among {sorted(files)}")

    def assert_verifies(self, cluster):
        """Every page has its checksum and decrypts."""
        done = run([PGSEAL, "verify", "-D", cluster.data], check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(cluster.run("pg_checksums", "-D", cluster.data).stdout, r"Bad checksums:\s+0\n")
