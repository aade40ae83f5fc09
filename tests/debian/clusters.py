#!/usr/bin/env python3
"""docs/operations/debian.md is run as printed: Debian's scripts make, start, stop and upgrade sealed clusters.

The new version of the upgrades is 17 if PGSEAL_TEST_PG leads to one; on 15 alone the new cluster is another one of 15, which
pg_upgradecluster and pg_upgrade treat alike. So it is where Debian's 15 is of a later release than the new version: PostgreSQL
cannot upgrade then, plain clusters neither. 15.20 gives columns the option pg_attver, which 17.11 and 18.6 refuse.
"""

import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from machine import Machine, blocks, main, server_logs

INSTALL, PASSPHRASE, CREATE, EXISTING, UPGRADE, LINK, DUMP, PRELOAD = blocks("docs/operations/debian.md")
STOCK_PG = Path(os.environ.get("PGSEAL_TEST_PG", "/usr/lib/postgresql/15/bin"))
MAIN = "/var/lib/postgresql/15/main"
WORD = "q" + secrets.token_hex(8)
FILL = f"CREATE TABLE t AS SELECT i, '{WORD}' || i AS word FROM generate_series(1, 1000) i"
SUM = "SELECT count(*), sum(i), min(word) FROM t"
FILLED = f"1000|500500|{WORD}1"


def new_version():
    """17 for PostgreSQL's own build of 17 …; 15 if there is no other that can take over from Debian's 15."""
    option = b"pg_attver\0"
    if option in Path("/usr/lib/postgresql/15/bin/postgres").read_bytes() and \
            option not in (STOCK_PG / "postgres").read_bytes():
        print("PostgreSQL's 15 here is of a later release than", STOCK_PG, file=sys.stderr)
        return "15"
    output = subprocess.run([STOCK_PG / "pg_config", "--version"], text=True, capture_output=True, check=True).stdout
    return re.search(r"\d+", output)[0]


NEW = new_version()
BIN, STOCK = Path("/usr/lib/postgresql/15/bin"), Path("/usr/lib/postgresql/15/stock")
DIVERT = "packaging/debian/pgseal-divert"
NEEDED = "pgseal-divert: these encrypted clusters would not start any more: {}; decrypt them first with pgseal unseal, or give --force\n"
# As dpkg does it: each file is removed by the name that it has.
PURGE = f"""
for file in $(dpkg -L postgresql-15 | grep ^{BIN}/); do rm "$(dpkg-divert --truename "$file")"; done
rmdir --ignore-fail-on-non-empty {STOCK}
"""
FAILING_LATE = f"""#!/bin/sh
case $* in *{BIN}) echo "no space" >&2; exit 3 ;; esac
exec /usr/local/bin/pgseal "$@"
"""


class Clusters(Machine):
    def test_0_what_cannot_be_finished_is_not_begun_or_taken_back(self):
        """First the library is missing, then the disk is full once the programs have been moved."""
        self.run_as_root(["install", "-m", "755", "dist/bin/pgseal", "dist/bin/pgseal-twin", "/usr/local/bin/"])
        Path("/usr/local/lib/libpgseal.so").unlink(missing_ok=True)
        before = self.installed()
        refused = self.run_as_root(["bash", DIVERT, "add", "15"], check=False)
        self.assertEqual(refused.returncode, 8)
        self.assertRegex(refused.stderr, r"^pgseal: libpgseal\.so is not beside pgseal")
        self.assertEqual(self.installed(), before)
        self.run_as_root(["install", "-m", "644", "dist/lib/libpgseal.so", "/usr/local/lib/libpgseal.so"])
        late = Path("/usr/local/late")
        late.mkdir()
        (late / "pgseal").write_text(FAILING_LATE)
        (late / "pgseal").chmod(0o755)
        refused = self.run_as_root(["bash", DIVERT, "add", "15"], check=False, PATH=f"{late}:/usr/local/bin:/usr/sbin:/usr/bin:/bin")
        self.assertEqual((refused.returncode, refused.stderr), (3, "no space\n"))
        self.assertEqual(self.installed(), before)

    def installed(self):
        """What the package's directory holds, and what dpkg says of it."""
        about = ((path, path.lstat()) for path in BIN.parent.rglob("*") if not path.is_dir())
        return (sorted((str(path), stat.st_mode, stat.st_size) for path, stat in about),
                self.run_as_root(["dpkg-divert", "--list", f"{BIN.parent}/*"]).stdout)

    def test_1_a_sealed_cluster(self):
        """Though root's umask lets nobody else in."""
        self.run_block("umask 077\n" + INSTALL)
        self.assertEqual(self.run_as_root(["dpkg-divert", "--truename", "/usr/lib/postgresql/15/bin/postgres"]).stdout,
                         "/usr/lib/postgresql/15/stock/postgres\n")
        self.run_block(PASSPHRASE)
        listed = self.run_block(CREATE).stdout
        self.assertRegex(listed, r"15 +main +5432 +online +postgres +/var/lib/postgresql/15/main ")
        self.assert_runs_sealed(MAIN)
        self.psql(FILL)
        self.assertEqual(self.psql("SHOW data_checksums"), "on")

    def test_2_scripts_on_it(self):
        for action in ["restart", "reload", "status", "stop", "start"]:
            self.run_as_root(["pg_ctlcluster", "15", "main", action])
        self.assertEqual(self.psql(SUM), FILLED)
        self.psql("CHECKPOINT")
        self.assertEqual(self.found(WORD, MAIN), [])

    def test_2b_each_start_derives_the_key_once(self):
        """So often the passphrase is read; all else asks for none."""
        calls = Path("/tmp/pgseal-test.calls")
        actions = ["stop", "start", "status", "reload", "restart", "stop"]
        script = "; ".join(f"pg_ctlcluster 15 main {action}" for action in actions)
        self.run_as_root(["strace", "-f", "-qq", "-e", "trace=openat", "-o", calls, "bash", "-e", "-c", script])
        reads = calls.read_text().count('"/etc/pgseal/passphrase"')
        calls.unlink()
        self.assertEqual(reads, 2)
        self.run_as_root(["pg_ctlcluster", "15", "main", "start"])

    def test_3_the_pin(self):
        """Somebody puts a plain cluster in the place of the sealed one."""
        self.run_as_root(["pg_ctlcluster", "15", "main", "stop"])
        away = Path(MAIN).rename(MAIN + ".away")
        stock = "/usr/lib/postgresql/15/stock/initdb"
        self.run_as_root(["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", stock, "-D", MAIN])
        refused = self.run_as_root(["pg_ctlcluster", "15", "main", "start"], check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(server_logs(), r"pgseal: /\S+/15/main is not sealed, but PGSEAL_EXPECT_KEY demands a sealed cluster")
        shutil.rmtree(MAIN)
        away.rename(MAIN)

    def test_3b_a_cluster_that_is_there_already(self):
        made_sealed = [Path(f"/etc/postgresql-common/{name}") for name in ["createcluster.d/pgseal.conf", "environment"]]
        for file in made_sealed:
            file.rename(f"{file}.away")
        self.run_as_root(["pg_createcluster", "--start", "15", "before"])
        for file in made_sealed:
            Path(f"{file}.away").rename(file)
        port = self.run_as_root(["pg_conftool", "-s", "15", "before", "show", "port"]).stdout.strip()
        self.psql(FILL, port)
        data = "/var/lib/postgresql/15/before"
        self.run_block(EXISTING, [("15 main", "15 before"), ("15/main", "15/before")])
        self.assert_runs_sealed(data)
        self.assertEqual(self.psql(SUM, port), FILLED)
        self.run_as_root(["pg_ctlcluster", "15", "before", "restart"])
        self.assertEqual(self.found(WORD, data), [])
        self.run_as_root(["pg_dropcluster", "--stop", "15", "before"])

    def test_4_pg_upgradecluster(self):
        self.run_as_root(["pg_ctlcluster", "15", "main", "start"])
        if NEW != "15":
            shutil.copytree(STOCK_PG.parent, f"/usr/lib/postgresql/{NEW}", symlinks=True)
        self.run_block(UPGRADE, self.version("15 main", "--rename upgraded 15 main"))
        self.upgraded("main" if NEW != "15" else "upgraded")

    def version(self, old, new):
        """What to write into a page that says 17, where NEW is another."""
        return [("divert add 17", f"divert add {NEW}"), ("-v 17", f"-v {NEW}")] + [(old, new)] * (NEW == "15")

    def upgraded(self, name):
        data = f"/var/lib/postgresql/{NEW}/{name}"
        self.assert_runs_sealed(data)
        self.assertEqual(self.psql(SUM), FILLED)
        self.psql("CHECKPOINT")
        self.assertEqual(self.found(WORD, data, "/var/log/postgresql"), [])
        self.run_as_root(["pg_ctlcluster", NEW, name, "stop"])
        return data

    def test_5_by_a_dump(self):
        self.start_again("main" if NEW != "15" else "upgraded", "5500")
        before = self.status(MAIN)["key id"]
        self.run_block(DUMP, [("-v 17", f"-v {NEW}")])
        data = self.upgraded("dumped")
        self.assertNotEqual(self.status(data)["key id"], before)

    def start_again(self, upgraded, port):
        """The old cluster, on the port that the upgrade gave to the new one."""
        self.run_as_root(["pg_conftool", "15", "main", "set", "port", "5432"])
        self.run_as_root(["pg_conftool", NEW, upgraded, "set", "port", port])
        self.run_as_root(["pg_ctlcluster", "15", "main", "start"])

    def test_6_by_links(self):
        self.start_again("dumped", "5501")
        before = self.status(MAIN)["key id"]
        self.run_block(LINK, [("-v 17", f"-v {NEW}")])
        data = self.upgraded("linked")
        self.assertEqual(self.status(data)["key id"], before)

    def test_7_everything_is_taken_back(self):
        """Not while there are clusters that would no longer start, unless it is meant so; one that preloads the library by itself
        would."""
        sealed = ["main"] + (["dumped", "linked", "upgraded"] if NEW == "15" else [])
        named = ", ".join(f"15/{name} (/var/lib/postgresql/15/{name})" for name in sorted(sealed))
        before = self.installed()
        refused = self.run_as_root(["pgseal-divert", "remove", "15"], check=False)
        self.assertEqual((refused.returncode, refused.stderr), (1, NEEDED.format(named)))
        self.assertEqual(self.installed(), before)
        with open("/etc/postgresql/15/main/environment", "a") as environment:
            environment.write("LD_PRELOAD = '/usr/local/lib/libpgseal.so'\n")
        refused = self.run_as_root(["pgseal-divert", "remove", "15"], check=False)
        self.assertEqual(refused.returncode, 1 if len(sealed) > 1 else 0)
        self.assertNotIn("15/main", refused.stderr)
        self.run_as_root(["pgseal-divert", "remove", "--force", "15"])
        self.run_as_root(["pgseal-divert", "remove", "15"])
        self.assertEqual(self.run_as_root(["dpkg", "--verify", "postgresql-15"]).stdout, "")
        self.assertNotIn("/stock/", self.run_as_root(["dpkg-divert", "--list", "/usr/lib/postgresql/15/*"]).stdout)
        self.assertFalse(Path("/usr/lib/postgresql/15/stock").exists())

    def test_8_one_cluster_by_its_environment_file(self):
        self.run_as_root(["rm", "/etc/postgresql-common/environment", "/etc/postgresql-common/createcluster.d/pgseal.conf"])
        self.run_block(PRELOAD)
        data = "/var/lib/postgresql/15/one"
        port = self.run_as_root(["pg_conftool", "-s", "15", "one", "show", "port"]).stdout.strip()
        self.assert_runs_sealed(data)
        self.psql(FILL, port)
        self.run_as_root(["pg_ctlcluster", "15", "one", "restart"])
        self.assertEqual(self.psql(SUM, port), FILLED)
        self.run_as_root(["pg_ctlcluster", "15", "one", "stop"])
        self.assertEqual(self.found(WORD, data), [])
        Path("/usr/local/lib/libpgseal.so").unlink()
        self.assertNotEqual(self.run_as_root(["pg_ctlcluster", "15", "one", "start"], check=False).returncode, 0)
        self.assertIn("FATAL:  incorrect checksum in control file", server_logs())

    def test_9_after_a_purge(self):
        """Nothing of the package is left; neither may the diversions be, nor twins that lead nowhere."""
        self.run_block(INSTALL)
        self.run_block(PURGE)
        refused = self.run_as_root(["pgseal-divert", "add", "15"], check=False)
        purged = "pgseal-divert: postgresql-15 was purged; run pgseal-divert remove 15 first, or install it\n"
        self.assertEqual((refused.returncode, refused.stderr), (1, purged))
        self.run_as_root(["pgseal-divert", "remove", "15"])
        self.assertNotIn("/stock/", self.run_as_root(["dpkg-divert", "--list", f"{BIN}/*"]).stdout)
        self.assertEqual([name for name in os.listdir(BIN) if "pgseal-twin" in (BIN / name).read_text(errors="replace")], [])
        self.assertFalse((BIN / "postgres").exists())


if __name__ == "__main__":
    main(__file__)
