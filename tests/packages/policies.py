#!/usr/bin/python3
"""The AppArmor abstraction and the SELinux module: both compile, with the compilers of the distribution and its own policy.

No kernel here enforces either, so what they allow is looked at in the compiled forms.
"""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEVELOPMENT = Path("/usr/share/selinux/devel/Makefile")
# As a site would write it: one that confines the server, which is started by a unit.
PROFILE = """
include <tunables/global>
profile postgresql /usr/lib/postgresql/15/bin/postgres {{
  include <abstractions/base>
  {}
  /usr/lib/postgresql/15/bin/* mrix,
  owner /var/lib/postgresql/** rwlk,
}}
"""


class AppArmor(unittest.TestCase):
    def parser(self, profile, *options):
        """The parser on a profile, with the abstraction where it is installed; nothing is loaded into a kernel."""
        with tempfile.TemporaryDirectory() as directory:
            base = Path(directory)
            shutil.copytree("/etc/apparmor.d/abstractions", base / "abstractions")
            shutil.copytree("/etc/apparmor.d/tunables", base / "tunables")
            shutil.copytree("/etc/apparmor.d/abi", base / "abi")
            shutil.copy(ROOT / "packaging/apparmor/pgseal", base / "abstractions/pgseal")
            (base / "profile").write_text(profile)
            command = ["apparmor_parser", "--skip-kernel-load", "--skip-cache", "--base", str(base), *options, str(base / "profile")]
            return subprocess.run(command, text=True, capture_output=True, check=False)

    def test_a_profile_with_it_compiles(self):
        done = self.parser(PROFILE.format("include <abstractions/pgseal>"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("error", done.stderr.lower())

    def test_a_profile_with_an_error_does_not(self):
        broken = PROFILE.format("include <abstractions/pgseal>").replace("mrix,", "mrqx,")
        self.assertNotEqual(self.parser(broken).returncode, 0)

    def test_no_program_leaves_the_profile_with_another_environment(self):
        rules = re.findall(r"^\s+\S+ (\w+),$", (ROOT / "packaging/apparmor/pgseal").read_text(), re.M)
        self.assertTrue(any("ix" in rule for rule in rules))
        self.assertEqual([rule for rule in rules if re.search("[PCU]x", rule)], [])


@unittest.skipUnless(DEVELOPMENT.exists(), "selinux-policy-dev is not installed")
class Selinux(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)
        for file in (ROOT / "packaging/selinux").iterdir():
            shutil.copy(file, self.place)

    def make(self):
        return subprocess.run(["make", "-f", DEVELOPMENT, "pgseal.pp"], cwd=self.place, text=True, capture_output=True, check=False)

    def test_the_module_compiles(self):
        done = self.make()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater((self.place / "pgseal.pp").stat().st_size, 1000)

    def test_a_module_with_an_error_does_not(self):
        with (self.place / "pgseal.te").open("a") as file:
            file.write("allow postgresql_t no_such_type_t:file read;\n")
        self.assertNotEqual(self.make().returncode, 0)

    def test_wrappers_are_entry_points_of_the_server_and_the_library_can_be_mapped(self):
        contexts = (self.place / "pgseal.fc").read_text()
        expected = {"/usr/lib/pgseal/0.1.0/bin/pgseal-twin": "postgresql_exec_t", "/usr/lib/pgseal/dist/bin/pgseal-twin": "postgresql_exec_t",
                    "/usr/local/lib/pgseal/postgresql-17/postgres": "postgresql_exec_t", "/usr/lib/pgseal/0.1.0/lib/libpgseal.so": "lib_t"}
        rules = re.findall(r"^(\S+)\t--\tgen_context\(system_u:object_r:(\w+),s0\)$", contexts, re.M)
        for path, kind in expected.items():
            found = [label for pattern, label in rules if re.fullmatch(pattern, path)]
            self.assertEqual(found, [kind], path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
