"""File systems of a few megabytes for tests of a full disk: a tmpfs in a mount namespace of the test's own.

    @needs_mounts
    class DiskFull(Case):
        def test_it(self):
            disk = small_disk(self, self.directory / "disk", 4)

    if __name__ == "__main__":
        main(__file__)

An ordinary user may mount one where the kernel allows user namespaces; elsewhere the tests are skipped.
"""

import os
import subprocess
import sys
import unittest

import pgseal_test
from pgseal_test import run

NAMESPACE = ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"]
MAY_MOUNT = subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
needs_mounts = unittest.skipUnless(MAY_MOUNT, "this kernel does not let an ordinary user mount a tmpfs in a namespace of their own")


def main(test_file, *tools):
    """Runs the test file in a namespace where it may mount."""
    if MAY_MOUNT and "PGSEAL_TEST_STAGE" in os.environ and "PGSEAL_TEST_NAMESPACE" not in os.environ:
        os.environ["PGSEAL_TEST_NAMESPACE"] = "1"
        os.execvp(NAMESPACE[0], [*NAMESPACE, sys.executable, *sys.argv])
    pgseal_test.main(test_file, *tools)


def small_disk(case, place, megabytes):
    """A tmpfs at `place` until the test ends."""
    place.mkdir(exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "none", place])
    case.addCleanup(run, ["umount", "--lazy", place])
    return place


def remount(disk, megabytes):
    """Gives it another size, which must hold what is there."""
    run(["mount", "-o", f"remount,size={megabytes}m", disk])


def fill_up(disk, leave=20480):
    """Takes all space but two pages and a half, or what is to be left, with the file `filler`."""
    with open(disk / "filler", "wb", buffering=0) as filler:
        try:
            while filler.write(bytes(65536)) == 65536:
                pass
        except OSError:
            pass
        filler.truncate(max(0, filler.tell() - leave))
