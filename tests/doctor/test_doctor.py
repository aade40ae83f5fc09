#!/usr/bin/env python3
"""pgseal doctor on real clusters: what is good, what it advises, and what it calls wrong."""

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, STAGE, Case, main, run  # noqa: E402

LIBRARY = STAGE / "dist/lib/libpgseal.so"


class Doctor(Case):
    def findings(self, cluster, code=0, *options):
        """What is said, by what it is about."""
        done = run([PGSEAL, "doctor", "--json", "-D", cluster.data, *options], cluster.environment, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return {found["about"]: (found["verdict"], found["text"]) for found in json.loads(done.stdout)["findings"]}

    def test_a_cluster_that_is_stopped(self):
        cluster = self.cluster().init()
        found = self.findings(cluster)
        self.assertEqual(found["library"], ("good", str(LIBRARY)))
        self.assertRegex(found["key"][1], r"^[0-9a-f]{32} opens$")
        self.assertEqual(found["key file"][0], "good")
        self.assertEqual(found["blocks"], ("good", "of 8 kB, as all that is sealed"))
        self.assertEqual(found["server"], ("good", "not running"))
        self.assertEqual(found["ways to the key"][0], "advice")
        passphrase = self.directory / "passphrase"
        passphrase.write_text("second")
        run([PGSEAL, "key", "wrap", "-D", cluster.data, "--new-passphrase-file", passphrase])
        self.assertEqual(self.findings(cluster)["ways to the key"][0], "good")

    def test_a_server(self):
        cluster = self.cluster().init().start()
        found = self.findings(cluster)
        self.assertEqual(found["server"], ("good", "runs sealed, with the library that is installed"))
        key = found["key"][1].split()[0]
        self.assertEqual((found["pin"][0], found["pin"][1].rpartition("=")[2]), ("advice", key))
        cluster.stop()
        cluster.environment["PGSEAL_EXPECT_KEY"] = key
        cluster.start()
        self.assertEqual(self.findings(cluster)["pin"][0], "good")

    def test_a_library_that_was_replaced_under_its_server(self):
        cluster = self.cluster().init()
        installed = self.directory / "dist"
        shutil.copytree(STAGE / "dist", installed)
        cluster.bindir = self.directory / "twins"
        run([installed / "bin/pgseal", "bindir", "--pg", cluster.pg, "--into", cluster.bindir])
        cluster.start()
        self.assertEqual(self.findings(cluster)["server"][0], "good")
        library = installed / "lib/libpgseal.so"
        library.unlink()
        shutil.copy(LIBRARY, library)
        self.assertEqual(self.findings(cluster)["server"][0], "advice")

    def test_what_is_wrong(self):
        cluster = self.cluster(key=("--key-passphrase-file", self.passphrase("right"))).init()
        self.assertEqual(self.findings(cluster, 0, "--passphrase-file", self.passphrase("right"))["key"][0], "good")
        found = self.findings(cluster, 1, "--passphrase-file", self.passphrase("wrong"))
        self.assertEqual(found["key"][0], "wrong")
        self.assertIn("passphrase", found["key"][1])
        plain = self.cluster("plain", sealed=False).init().start()
        shutil.copy(plain.data / "postmaster.pid", cluster.data)
        found = self.findings(cluster, 1, "--passphrase-file", self.passphrase("right"))
        self.assertEqual(found["server"][0], "wrong")
        done = run([PGSEAL, "doctor", "-D", plain.data], check=False)
        self.assertEqual((done.returncode, done.stdout), (4, ""))

    def passphrase(self, words):
        path = self.directory / words
        path.write_text(words)
        return path

    def test_the_machine_alone_and_for_people(self):
        done = run([PGSEAL, "doctor"])
        self.assertRegex(done.stdout, r"(?m)^ok +library: +/\S+/libpgseal\.so$")
        self.assertRegex(done.stdout, r"(?m)^(ok|advice) +swap: ")
        self.assertNotIn("key file:", done.stdout)


if __name__ == "__main__":
    main(__file__)
