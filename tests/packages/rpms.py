#!/usr/bin/python3
"""The .rpm packages by rpm itself, in a root of its own that is no EL: what rpm does with files and scripts is the same there.

Dependencies are not asked for: the packages' names are those of EL. What does not run here is a server of PGDG's own packages.
"""

import re
import subprocess
import unittest

from chroot import PACKAGES, System

RPM = "rpm --force-debian --nodeps --nosignature"
DATA = "/var/lib/pgsql/17/data"


def package(name):
    """The package of this machine's processor."""
    machine = subprocess.run(["uname", "-m"], text=True, capture_output=True, check=True).stdout.strip()
    found = sorted(file for file in PACKAGES.glob(f"{name}-*.{machine}.rpm") if re.fullmatch(rf"{name}-\d[^-]*-\d+\.{machine}\.rpm", file.name))
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


class Rpms(System):
    def test_1_install(self):
        self.run_there(f"{RPM} -i {self.put(package('pgseal'))}")
        version = self.out("cat /usr/lib/pgseal/dist/VERSION")
        self.assertEqual(self.out("readlink /usr/lib/pgseal/current"), version)
        self.assertRegex(self.out("pgseal --version"), r"^pgseal \d")
        self.assertEqual(self.out("rpm --force-debian -V --nodeps pgseal"), "")

    def test_2_the_parts(self):
        names = ["pgseal-kms", "pgseal-client", "pgseal-evaluator", "postgresql-15-encdb", "postgresql-15-pgseal"]
        self.run_there(f"{RPM} -i {self.put(*map(package, names))}")
        self.assertIn("--listen", self.out("pgseal proxy --help"))
        self.assertIn("pgseal-evaluator", self.out("getent passwd pgseal-evaluator"))
        files = self.out("rpm --force-debian -ql postgresql-15-encdb")
        self.assertIn("/usr/pgsql-15/lib/encdb.so", files)
        self.assertIn("/usr/pgsql-15/share/extension/encdb.control", files)

    def test_3_an_upgrade_keeps_the_version_that_is_mapped(self):
        """rpm runs the new package's script first, and the old one's with the number of those that are left."""
        version = self.out("cat /usr/lib/pgseal/dist/VERSION")
        self.run_there(f"(exec env LD_PRELOAD=/usr/lib/pgseal/{version}/lib/libpgseal.so sleep 600) >/dev/null 2>&1 & sleep 1")
        self.run_there("echo 1.other > /usr/lib/pgseal/dist/VERSION; /usr/lib/pgseal/versions sync")
        self.assertTrue((self.root / "usr/lib/pgseal" / version / "lib/libpgseal.so").exists())
        self.run_there("pkill sleep; sleep 1; /usr/lib/pgseal/versions prune")
        self.assertFalse((self.root / "usr/lib/pgseal" / version).exists())
        self.run_there(f"{RPM} -U --replacepkgs {self.put(package('pgseal'))}")
        self.assertEqual(self.out("readlink /usr/lib/pgseal/current"), version)
        self.assertFalse((self.root / "usr/lib/pgseal/1.other").exists())

    def test_4_a_removal_that_would_strand_a_cluster_is_refused(self):
        self.run_there(f"mkdir -p {DATA}/pg_encryption && echo 17 > {DATA}/PG_VERSION")
        refused = self.run_there("rpm --force-debian --nodeps -e pgseal", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"these encrypted clusters could not start any more: {DATA}.", refused.stderr)
        self.run_there("rpm --force-debian -q pgseal && pgseal --version")
        self.run_there(f"rm -r {DATA}; rpm --force-debian -e pgseal-kms pgseal-client; rpm --force-debian -e pgseal")
        self.assertEqual(list((self.root / "usr/lib").glob("pgseal*")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
