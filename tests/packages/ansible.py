#!/usr/bin/python3
"""The Ansible role: ansible-lint, and runs in a Debian system of its own, in check mode, for the first time, again, and back.

What must hold: check mode changes nothing, a second run changes nothing, a passphrase that is there stays, and the settings are those
that docs/operations/fleet.md prints.
"""

import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import unittest

from chroot import CACHE, PACKAGES, ROOT, System

PAGE = ROOT / "docs/operations/fleet.md"
WORD = "q" + secrets.token_hex(8)
DATA = "/var/lib/postgresql/15/main"
SECRET = secrets.token_hex(16)
# The versions that the role was checked with.
LINTERS = ["ansible-core==2.19.14", "ansible-lint==26.10.1"]
INVENTORY = "[postgresql]\nlocalhost ansible_connection=local ansible_become=false ansible_python_interpreter=/usr/bin/python3\n"


def blocks(language):
    """The page's settings, or its commands."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


CHECK, CANARY, ALL = "".join(blocks("sh")).splitlines()
SETTINGS, WAY_BACK = blocks("yaml")


class Lint(unittest.TestCase):
    """Programs from PyPI, kept with what other tests have fetched."""

    @classmethod
    def setUpClass(cls):
        cls.bin = CACHE / "ansible/bin"
        if not (cls.bin / "ansible-lint").exists():
            subprocess.run([sys.executable, "-m", "venv", cls.bin.parent], check=True)
            done = subprocess.run([cls.bin / "pip", "install", "--quiet", *LINTERS], capture_output=True, text=True, check=False)
            if done.returncode:
                raise unittest.SkipTest(f"ansible-lint cannot be had: {done.stderr[-500:]}")

    def check(self, *command):
        home = tempfile.mkdtemp(prefix="pgseal-ansible.")
        self.addCleanup(shutil.rmtree, home)
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8",
                       "ANSIBLE_ROLES_PATH": str(ROOT / "packaging/ansible/roles")}
        done = subprocess.run([self.bin / command[0], *command[1:]], cwd=ROOT / "packaging/ansible", env=environment, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_lint(self):
        self.check("ansible-lint", "--offline", "--profile=production", "--strict", "fleet.yml", "roles")

    def test_syntax(self):
        self.check("ansible-playbook", "-i", "localhost,", "--syntax-check", "fleet.yml")


class Role(System):
    """The tests share one system, in the order of their names."""
    more = ("ansible-core", "python3-apt", "logrotate")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copytree(ROOT / "packaging/ansible", cls.root / "srv/packaging/ansible")
        (cls.root / "srv/packages").mkdir()
        for package in PACKAGES.glob("pgseal_*.deb"):
            shutil.copy(package, cls.root / "srv/packages")
        (cls.root / "srv/inventory").write_text(INVENTORY)

    def ansible(self, line, *settings, check=True):
        """Runs a command of the page with settings of the page, of which the last count."""
        for at, text in enumerate(settings):
            (self.root / f"srv/{at}.yml").write_text(text.replace("{{ vault_pgseal_passphrase }}", SECRET))
            line += f" -e @{at}.yml"
        done = self.run_there(f"cd /srv && {line}", check=check, HOME="/srv",
                              ANSIBLE_ROLES_PATH="/srv/packaging/ansible/roles")
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        return done

    def play(self, line, *changed):
        """The same with these changes of the settings; returns the counts of the recap."""
        self.printed = self.ansible(line, SETTINGS, *changed).stdout
        recap = re.search(r"^localhost +: (.*)$", self.printed, re.M)[1]
        return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", recap)}

    def assert_changed(self, counts, some):
        self.assertEqual(counts["failed"] + counts["unreachable"], 0, self.printed)
        self.assertEqual(counts["changed"] > 0, some, self.printed)

    def sealed(self):
        done = self.run_there(f"pgseal status -D {DATA}", check=False)
        return re.search(r"^sealed: +(\w+)$", done.stdout, re.M)[1]

    def test_1_check_mode_on_a_fresh_host(self):
        self.run_there("pg_ctlcluster 15 main start")
        self.psql(f"CREATE TABLE t AS SELECT i, '{WORD}' || i AS word FROM generate_series(1, 1000) i")
        self.assert_changed(self.play(CHECK), True)
        for place in ("usr/bin/pgseal", "etc/pgseal", "var/log/pgseal", "var/cache/pgseal-packages"):
            self.assertFalse((self.root / place).exists(), place)

    def test_2_the_first_run(self):
        self.assert_changed(self.play(CANARY), True)
        self.assertEqual(self.sealed(), "yes")
        self.assertEqual(self.psql("SELECT count(*), min(word) FROM t"), f"1000|{WORD}1")
        self.assertEqual(self.out("cat /etc/pgseal/15-main.passphrase"), SECRET)
        owners = self.out("stat -c '%U %G %a' /etc/pgseal/15-main.passphrase /var/log/pgseal")
        self.assertEqual(owners, "root postgres 640\npostgres postgres 750")

    def test_3_a_second_run_and_check_mode_change_nothing(self):
        pid = self.out(f"head -n 1 {DATA}/postmaster.pid")
        for line in (ALL, CHECK):
            self.assert_changed(self.play(line), False)
        self.assertEqual(self.out(f"head -n 1 {DATA}/postmaster.pid"), pid)

    def test_4_a_passphrase_that_is_there_stays(self):
        self.run_there("cp -a /etc/pgseal/15-main.passphrase /srv/kept && echo other-passphrase > /etc/pgseal/15-main.passphrase")
        self.ansible(ALL, SETTINGS, check=False)
        self.assertEqual(self.out("cat /etc/pgseal/15-main.passphrase"), "other-passphrase")
        self.run_there("cp -a /srv/kept /etc/pgseal/15-main.passphrase")

    def test_5_the_log_of_keys_is_rotated(self):
        """By the package's rules: each record is in one chain, across a rename and a compressed file."""
        log = "/var/log/pgseal/keys-0.log"
        check = f"pgseal key check -D {DATA} --passphrase-file /etc/pgseal/15-main.passphrase"
        rotate = "logrotate --force --state /srv/logrotate.state /etc/logrotate.d/pgseal"
        self.run_there(f"{check} && logrotate -d /etc/logrotate.d/pgseal")
        for _ in range(2):
            self.run_there(f"{rotate} && test ! -e {log} && {check}")
        self.assertEqual(self.out(f"ls {log}*"), f"{log}\n{log}.1\n{log}.2.gz")
        self.run_there(f"zcat {log}.2.gz > /srv/oldest && pgseal key audit --verify /srv/oldest {log}.1 {log}")
        self.assertNotEqual(self.run_there(f"pgseal key audit --verify /srv/oldest {log}", check=False).returncode, 0)

    def test_6_the_way_back(self):
        self.assert_changed(self.play(CHECK, WAY_BACK), True)
        self.assertEqual(self.sealed(), "yes")
        self.assert_changed(self.play(ALL, WAY_BACK), True)
        self.assertEqual(self.sealed(), "no")
        self.assertEqual(self.psql("SELECT count(*), min(word) FROM t"), f"1000|{WORD}1")
        self.assert_changed(self.play(ALL, WAY_BACK), False)


if __name__ == "__main__":
    unittest.main(verbosity=2)
