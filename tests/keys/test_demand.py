#!/usr/bin/env python3
"""The library keeps the demand that comes with keys: only functions that FIPS 140-3 approves, from a build that has a FIPS module.

The record of keys is made by `pgseal unlock`, and passed on by a command of the test, once as it is and once with the demand.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, PGSEAL, STAGE, Case, base_environment, main, run  # noqa: E402

DEMAND = 12  # where the byte is in the record: after magic and version
REFUSED = "require_fips refuses this library, which is built without a FIPS module"


class Demand(Case):
    def setUp(self):
        super().setUp()
        self.sealed = self.cluster().init()
        self.record = self.unlocked(self.sealed.data)

    def unlocked(self, data):
        """The record of the cluster's key."""
        fd = os.memfd_create("record", 0)
        run([PGSEAL, "unlock", "--fd", str(fd), "--root", data], self.sealed.environment, pass_fds=[fd])
        with open(fd, "rb") as file:
            file.seek(0)
            return file.read()

    def asked(self, record):
        """The real program, which only has the library, asks a command that gives this record."""
        (self.directory / "record").write_bytes(record)
        command = self.directory / "command"
        command.write_text(f'#!/bin/sh\ncat "{self.directory}/record" >&"$3"\n')
        command.chmod(0o755)
        environment = {**base_environment(), "LD_PRELOAD": str(STAGE / "dist/lib/libpgseal.so"), "PGSEAL_BIN": str(command)}
        return subprocess.run([PG / "postgres", "-D", self.sealed.data, "-C", "data_checksums"], env=environment, text=True,
                              capture_output=True, timeout=60, check=False)

    def test_without_a_demand(self):
        done = self.asked(self.record)
        self.assertEqual((done.returncode, done.stdout), (0, "on\n"), done.stderr)

    def test_with_a_demand(self):
        self.assertEqual(self.record[DEMAND], 0)
        done = self.asked(self.record[:DEMAND] + b"\1" + self.record[DEMAND + 1:])
        if "FIPS" in run([PGSEAL, "--version"]).stdout:
            self.assertEqual((done.returncode, done.stdout), (0, "on\n"), done.stderr)
        else:
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"pgseal: {REFUSED}\n", done.stderr)
            self.assertIn(f"pgseal: could not unlock the cluster at {self.sealed.data}", done.stderr)

    def test_a_demand_of_a_later_version(self):
        done = self.asked(self.record[:DEMAND] + b"\2" + self.record[DEMAND + 1:])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("could not unlock the cluster", done.stderr)


if __name__ == "__main__":
    main(__file__)
