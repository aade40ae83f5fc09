#!/usr/bin/python3
"""The .deb packages in a Debian system of their own: install, upgrade under a running server, downgrade, remove, purge.

PGSEAL_TEST_RELEASE names another Debian release than bookworm; the extensions' packages must then be there for its PostgreSQL.

What must hold: a server keeps the library and the programs that it was started with, under their paths, through an upgrade; a new
start takes the new ones; the old ones go when nobody has them mapped; a removal that would strand a cluster is refused; keys stay.
"""

import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from chroot import PACKAGES, RELEASES, System

RELEASE = os.environ.get("PGSEAL_TEST_RELEASE", "bookworm")
V = RELEASES[RELEASE]
DATA = f"/var/lib/postgresql/{V}/main"
WORD = "q" + secrets.token_hex(8)
PASSPHRASE = f"/etc/pgseal/{V}-main.passphrase"
LATER = "9.0.0"
LIBRARY = "/usr/lib/pgseal/{}/lib/libpgseal.so"


def package(name):
    """The package of this machine's processor."""
    architecture = subprocess.run(["dpkg", "--print-architecture"], text=True, capture_output=True, check=True).stdout.strip()
    found = sorted(PACKAGES.glob(f"{name}_*_{architecture}.deb"))
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


def later(file, place, version=LATER):
    """The same package as of another version, with another library."""
    tree = Path(tempfile.mkdtemp(dir=place))
    subprocess.run(["dpkg-deb", "-R", file, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^(Version:|Depends:.*pgseal \(=) [^)\n]*", rf"\1 {version}", control.read_text(), flags=re.M))
    (tree / "usr/lib/pgseal/dist/VERSION").write_text(version + "\n")
    library = tree / "usr/lib/pgseal/dist/lib/libpgseal.so"
    note = tree / "note"
    note.write_text(version)
    subprocess.run(["objcopy", "--add-section", f".other={note}", library], check=True)
    note.unlink()
    sums = tree / "DEBIAN/md5sums"
    sums.unlink(missing_ok=True)
    built = Path(place) / f"pgseal_{version}.deb"
    subprocess.run(["dpkg-deb", "-b", "--root-owner-group", tree, built], check=True, capture_output=True)
    shutil.rmtree(tree)
    return built


class Install(System):
    release = RELEASE

    def test_01_install(self):
        self.run_there(f"dpkg -i {self.put(package('pgseal'))}")
        version = self.installed_version()
        self.assertEqual(self.out("readlink /usr/lib/pgseal/current"), version)
        self.assertRegex(self.out("pgseal --version"), r"^pgseal \d")
        self.assertEqual(self.out("dpkg -V pgseal"), "")
        self.assertEqual(self.out("find /usr/lib/pgseal ! -user root -o -perm /022 ! -type l"), "")
        for page in ("man1/pgseal-key-rotate.1.gz", "man1/pgseal-bench-tpcb.1.gz", "man7/pgseal-exit-codes.7.gz"):
            self.assertTrue((self.root / "usr/share/man" / page).exists(), page)

    def test_02_one_command_encrypts_a_cluster(self):
        """The second of the two commands, on the cluster that Debian's package has made, while it runs."""
        self.run_there(f"pg_ctlcluster {V} main start")
        self.psql(f"CREATE TABLE t AS SELECT i, '{WORD}' || i AS word FROM generate_series(1, 1000) i")
        begun = time.monotonic()
        self.run_there(f"pgseal enable {V} main --yes")
        self.assertLess(time.monotonic() - begun, 60)
        first = self.out(f"head -n 1 /usr/lib/postgresql/{V}/bin/postgres")
        self.assertEqual(first, f"#!/usr/lib/pgseal/current/bin/pgseal-twin /usr/lib/postgresql/{V}/stock/postgres")
        self.assertEqual(self.psql("SELECT count(*), min(word) FROM t"), f"1000|{WORD}1")
        self.assertEqual(self.mapped(), [LIBRARY.format(self.installed_version())])
        found = subprocess.run(["grep", "-rlaF", "--", WORD, self.root / DATA[1:]], capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "")

    def test_03_an_upgrade_leaves_the_running_server_its_library(self):
        old, pid = self.installed_version(), self.postmaster()
        inode = (self.root / LIBRARY.format(old)[1:]).stat().st_ino
        self.run_there(f"dpkg -i {self.put(later(package('pgseal'), self.place))}")
        self.assertEqual(self.out("readlink /usr/lib/pgseal/current"), LATER)
        self.assertEqual((self.postmaster(), self.mapped()), (pid, [LIBRARY.format(old)]))
        self.assertEqual((self.root / LIBRARY.format(old)[1:]).stat().st_ino, inode)
        self.run_there("/usr/lib/pgseal/versions prune")
        # A new session, and what the server starts: a program that reads a file of the cluster as the server does.
        self.assertEqual(self.psql("SELECT count(*), min(word) FROM t"), f"1000|{WORD}1")
        self.psql("COPY (SELECT 1) TO PROGRAM 'cat /proc/self/maps > /tmp/maps'")
        self.assertEqual(self.libraries((self.root / "tmp/maps").read_text()), [LIBRARY.format(old)])
        doctor = self.run_there(f"pgseal doctor -D {DATA}", check=False, PGSEAL_PASSPHRASE_FILE=PASSPHRASE).stdout
        self.assertIn("a library that was replaced since: restart it to load the new one", doctor)

    def test_04_a_restart_takes_the_new_one_and_the_old_one_goes(self):
        old = self.mapped()[0].split("/")[4]
        self.run_there(f"pg_ctlcluster {V} main restart")
        self.assertEqual(self.mapped(), [LIBRARY.format(LATER)])
        self.run_there("/usr/lib/pgseal/versions prune")
        self.assertFalse((self.root / "usr/lib/pgseal" / old).exists())
        self.assertEqual(self.psql("SELECT count(*), min(word) FROM t"), f"1000|{WORD}1")

    def test_05_a_downgrade(self):
        self.run_there(f"dpkg -i {self.put(package('pgseal'))}")
        self.assertEqual(self.mapped(), [LIBRARY.format(LATER)])
        self.run_there(f"pg_ctlcluster {V} main restart && /usr/lib/pgseal/versions prune")
        self.assertEqual(self.mapped(), [LIBRARY.format(self.installed_version())])
        self.assertFalse((self.root / "usr/lib/pgseal" / LATER).exists())

    def test_06_the_same_version_again_writes_to_no_file_that_is_mapped(self):
        inode = (self.root / self.mapped()[0][1:]).stat().st_ino
        self.run_there(f"dpkg -i {self.put(package('pgseal'))}")
        self.assertEqual((self.root / self.mapped()[0][1:]).stat().st_ino, inode)
        self.assertEqual(self.psql("SELECT count(*) FROM t"), "1000")

    def test_07_a_change_of_postgresql_makes_its_wrappers_anew(self):
        """As dpkg does after a package has written below /usr/lib/postgresql."""
        self.run_there(f"rm /usr/lib/postgresql/{V}/bin/pg_controldata")
        self.run_there(f"dpkg-trigger --by-package=postgresql-{V} /usr/lib/postgresql && dpkg --configure --pending")
        self.assertIn("pgseal-twin", self.out(f"head -n 1 /usr/lib/postgresql/{V}/bin/pg_controldata"))

    def test_08_parts_beside_it(self):
        for name, program in {"pgseal-kms": "pgseal-kms", "pgseal-client": "pgseal-proxy"}.items():
            self.run_there(f"dpkg -i {self.put(package(name))}")
            self.assertTrue((self.root / "usr/lib/pgseal" / self.installed_version() / "bin" / program).exists())
        self.run_there(f"dpkg -i {self.put(package('libpgseal-client0'))} && ldconfig -p | grep libpgseal_client.so.0")
        self.assertIn("--listen", self.out("pgseal proxy --help"))
        self.assertIn("pgseal-proxy", self.out("getent passwd pgseal-proxy"))
        self.run_there("dpkg -r pgseal-kms")
        self.assertFalse((self.root / "usr/lib/pgseal" / self.installed_version() / "bin/pgseal-kms").exists())

    def test_09_extensions(self):
        names = ["pgseal-evaluator", f"postgresql-{self.version}-encdb", f"postgresql-{self.version}-pgseal"]
        self.run_there(f"dpkg -i {self.put(*map(package, names))}")
        self.assertIn("pgseal-evaluator", self.out("getent passwd pgseal-evaluator && pgseal-evaluator --version"))
        self.psql("CREATE EXTENSION encdb")
        self.psql("CREATE EXTENSION encdb_btree")
        self.psql("CREATE EXTENSION pgseal")
        self.assertEqual(self.psql("SELECT sealed FROM pgseal_status"), "t")

    def test_10_a_removal_that_would_strand_a_cluster_is_refused(self):
        for running in (True, False):
            refused = self.run_there("dpkg -r pgseal-client pgseal", check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(f"pgseal: these encrypted clusters could not start any more: {DATA}.", refused.stderr)
            self.assertEqual(self.out("dpkg-query -W -f '${db:Status-Status}' pgseal"), "installed")
            if running:
                self.run_there(f"pg_ctlcluster {V} main stop")
        self.run_there(f"pg_ctlcluster {V} main start")
        self.assertEqual(self.psql("SELECT count(*) FROM t"), "1000")

    def test_11_decrypted_it_can_go_and_keys_stay(self):
        self.run_there(f"pgseal disable {V} main --yes")
        self.assertEqual((self.psql("SELECT count(*), min(word) FROM t"), self.mapped()), (f"1000|{WORD}1", []))
        self.run_there("dpkg -r pgseal-client pgseal && dpkg -P pgseal")
        self.assertTrue((self.root / PASSPHRASE[1:]).exists())
        self.assertEqual(list((self.root / "usr/lib").glob("pgseal*")), [])
        self.run_there(f"pg_ctlcluster {V} main restart")
        self.assertEqual(self.psql("SELECT count(*), min(word) FROM t"), f"1000|{WORD}1")

    def installed_version(self):
        return self.out("cat /usr/lib/pgseal/dist/VERSION")

    def postmaster(self):
        return self.out(f"head -n 1 {DATA}/postmaster.pid")

    def mapped(self):
        """The libraries that the postmaster has mapped."""
        return self.libraries(self.out(f"cat /proc/{self.postmaster()}/maps"))

    @staticmethod
    def libraries(maps):
        return sorted(set(re.findall(r"\S*/libpgseal\.so.*", maps)))


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
