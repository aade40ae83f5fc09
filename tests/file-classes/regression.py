#!/usr/bin/env python3
"""Every file that exists at any time of PostgreSQL's regression suite is named by a row of the class table.

Part of make test-world: needs what tests/suites/fetch-build.sh built, and takes minutes. The directory is walked again
and again while the suite runs, and once more after a crash and a restart.
"""

import os
import subprocess
import time
from pathlib import Path

from walk import CLASSIFY, Walk  # finds the harness

from pgseal_test import Case, base_environment, main, major_version

CACHE = Path(os.environ.get("PGSEAL_CACHE", "/var/cache/pgseal" if os.path.isdir("/var/cache/pgseal") else
                            Path.home() / ".cache/pgseal"))


class Regression(Case):
    def test_every_file_is_in_the_table(self):
        build = CACHE / "pg" / str(major_version())
        cluster = self.cluster(pg=build / "inst/bin", conf="max_prepared_transactions = 2\n").init().start()
        walk = Walk()
        suite = self.suite(cluster, build)
        while suite.poll() is None:
            walk.look(cluster.data)
            time.sleep(0.5)
        self.assertEqual(suite.returncode, 0, (self.directory / "regress.log").read_text()[-4000:])
        cluster.kill9()
        walk.look(cluster.data)
        cluster.start().stop()
        walk.look(cluster.data)
        self.assertEqual(walk.unknown, set())
        self.assertLessEqual({"base/<oid>/<rel>", "base/<oid>/<temp>", "base/pgsql_tmp/**"}, walk.rows.keys())

    def suite(self, cluster, build):
        """The driver, as `make installcheck` runs it."""
        source = build / "src/src/test/regress"
        command = [source / "pg_regress", f"--inputdir={source}", f"--outputdir={self.directory}", f"--dlpath={source}",
                   f"--bindir={build / 'inst/bin'}", f"--schedule={source / 'parallel_schedule'}", f"--host={cluster.home}",
                   "--max-concurrent-tests=20", "--user=postgres"]
        if major_version() >= 16:
            command.append(f"--expecteddir={source}")
        with open(self.directory / "regress.log", "w") as log:
            return subprocess.Popen(command, cwd=self.directory, env={**base_environment(), **cluster.environment},
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)


if __name__ == "__main__":
    main(__file__, tools=[CLASSIFY])
