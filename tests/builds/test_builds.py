#!/usr/bin/env python3
"""PostgreSQL as others build it: old minors, without pg_config, moved after they were built; other versions are refused.

Reads what scripts/fetch-builds.sh has fetched; PGSEAL_TEST_BUILDS names its directory. psql and pgbench are Debian's.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import COMPLAINT, PG, PGSEAL, STAGE, Canaries, Case, main, run  # noqa: E402
from waiting import eventually

BUILDS = Path(os.environ.get("PGSEAL_TEST_BUILDS", "/var/cache/pgseal/builds"))
OLD_MINORS = ["15.0", "15.8", "15.10", "16.1", "16.14", "17.0", "18.0"]
OTHER_MAJORS = ["14.23"]
CONF = "max_wal_size = 48MB\nmin_wal_size = 32MB\nlog_checkpoints = on\n"
REFUSED = (r"this is PostgreSQL {}, and pgseal encrypts clusters of 15, 16, 17, 18 and 19 only: use one of these, and move data there by "
           r"pg_upgrade or pg_dump \(of a sealed cluster after pgseal unseal\)\n")


def build(version):
    """The directory of programs of one build."""
    found = sorted(BUILDS.glob(f"{version}.*/bin"))
    if not found:
        sys.exit(f"{BUILDS} has no PostgreSQL {version}; run scripts/fetch-builds.sh, and set PGSEAL_TEST_BUILDS")
    return found[0]


class Builds(Case):
    def wrappers(self, pg, links=("share", "lib"), name="bin"):
        """Of a build that was moved: PostgreSQL finds its files beside them. Returns the directory and what bindir said."""
        place = self.directory / f"of{pg.parent.name}"
        place.mkdir()
        for link in links:
            (place / link).symlink_to(pg.parent / link)
        done = run([PGSEAL, "bindir", "--pg", pg, "--into", place / name], check=False)
        return place / name, done

    def of_build(self, version, name, **options):
        """A cluster under the wrappers of this build, with the clients of another."""
        cluster = self.cluster(name, conf=CONF, **options)
        cluster.bindir, done = self.wrappers(build(version))
        self.assertEqual(done.returncode, 0, done.stderr)
        return cluster

    def work(self, cluster, canaries):
        """Until segments are made and recycled, and then some when the server is killed."""
        cluster.psql(f"CREATE TABLE t AS SELECT '{canaries['row']}' || i AS word FROM generate_series(1, 1000) i")
        run([PG / "pgbench", "-i", "-q", "-s", "4"], cluster.environment)
        for _ in range(3):
            run([PG / "pgbench", "-n", "-c", "3", "-t", "1500"], cluster.environment)
            cluster.psql("SELECT pg_switch_wal(); CHECKPOINT")
        run([PG / "pgbench", "-n", "-c", "3", "-t", "300"], cluster.environment)
        self.assertRegex(cluster.log(), r"WAL file\(s\) added, \d+ removed, [1-9]\d* recycled")
        cluster.kill9()
        cluster.start()
        self.check(cluster)

    def check(self, cluster):
        self.assertEqual(cluster.psql("SELECT count(*) FROM t"), "1000")
        self.assertEqual(cluster.psql("SELECT sum(abalance) = (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts"), "t")
        self.assertEqual(re.findall(rf"{COMPLAINT}.*|PANIC.*|could not (?!send data to client).*", cluster.log()), [])

    def wait_for_timeline(self, cluster):
        eventually(lambda: cluster.psql("SELECT pg_is_in_recovery()") == "f", lambda: cluster.log()[-2000:])

    def check_stored(self, cluster, canaries):
        cluster.stop()
        self.assertEqual(canaries.found(cluster.data), {})
        run([PGSEAL, "verify", "-D", cluster.data])
        self.assertEqual([path.name for path in (cluster.data / "pg_wal").glob("*temp*")], [])

    def test_old_minors(self):
        """Before 15.11 they install WAL by link and unlink: new segments, recycled ones, and a timeline's history."""
        for version in OLD_MINORS:
            with self.subTest(version):
                canaries = Canaries()
                cluster = self.of_build(version, f"main{version}").init().start()
                self.work(cluster, canaries)
                cluster.stop()
                cluster.configure("restore_command = 'false'")
                (cluster.data / "recovery.signal").touch()
                cluster.start()
                self.wait_for_timeline(cluster)
                cluster.psql("SELECT pg_switch_wal(); CHECKPOINT")
                self.check(cluster)
                self.assertIn("no recovery target specified", (cluster.data / "pg_wal/00000002.history").read_text())
                self.check_stored(cluster, canaries)

    def test_an_old_minor_that_is_sealed_in_place(self):
        canaries = Canaries()
        cluster = self.of_build("15.8", "main", sealed=False)
        wrappers, cluster.bindir = cluster.bindir, build("15.8")
        cluster.init()
        run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap"])
        cluster.bindir = wrappers
        cluster.start()
        self.work(cluster, canaries)
        self.check_stored(cluster, canaries)

    def test_a_build_that_was_moved(self):
        """Without the links, and under another name, its programs would find nothing."""
        pg = build("15.8")
        alone, done = self.wrappers(pg, links=())
        self.assertEqual(done.returncode, 8)
        share = pg.parent / "share/postgresql"
        self.assertEqual(done.stderr, f"pgseal: PostgreSQL was moved after it was built, so from {alone} it looks for its files in "
                                      f"{alone.parent}/share/postgresql: make that a link to {share}\n")
        elsewhere = self.directory / "elsewhere"
        done = run([PGSEAL, "bindir", "--pg", pg, "--into", elsewhere], check=False)
        self.assertEqual(done.returncode, 8)
        self.assertRegex(done.stderr, rf"from {elsewhere} it looks for its files in .*, and they are in {share}: choose a directory "
                                      rf"whose last names are those of {pg}, and make links beside it")
        self.assertFalse(elsewhere.exists() or alone.exists())

    def test_other_versions(self):
        """Refused by bindir, by a wrapper of initdb that is there all the same, and by the library in the server."""
        for version in OTHER_MAJORS:
            with self.subTest(version):
                refused = REFUSED.format(version)
                pg = build(version)
                wrappers, done = self.wrappers(pg)
                self.assertEqual(done.returncode, 8)
                self.assertRegex(done.stderr, refused)
                self.assertFalse(wrappers.exists())
                new = self.directory / f"new{version}"
                command = [STAGE / "dist/bin/pgseal-twin", pg / "initdb", wrappers / "initdb"]
                done = run([*command, "-D", new, "--data-encryption=256", "--no-key-wrap"], check=False)
                self.assertRegex(done.stderr, refused)
                self.assertEqual((done.returncode, new.exists()), (8, False))
                self.check_library(version, pg, refused)

    def test_a_copy_of_another_version(self):
        """Refused before anything is copied."""
        cluster = self.cluster("main", sealed=False)
        cluster.bindir = build("14.23")
        cluster.init().start()
        copy = self.cluster("copy")
        done = copy.run("pg_basebackup", "-h", cluster.home, "-D", copy.data, "--data-encryption", "--no-key-wrap", check=False)
        self.assertRegex(done.stderr, REFUSED.format("14"))
        self.assertEqual((done.returncode, copy.data.exists()), (8, False))

    def check_library(self, version, pg, refused):
        """A cluster that got sealed past all that."""
        cluster = self.cluster(f"main{version}", sealed=False)
        cluster.bindir = pg
        cluster.init()
        version_file = cluster.data / "PG_VERSION"
        major = version_file.read_text()
        version_file.write_text("15\n")
        run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap"])
        version_file.write_text(major)
        command = [PGSEAL, "exec", "-D", cluster.data, "--", pg / "postgres", "-D", cluster.data]
        done = run(["timeout", "--signal=QUIT", "20", *command], check=False)
        self.assertRegex(done.stderr, "pgseal: " + refused)
        self.assertNotEqual(done.returncode, 124)
        self.assertNotIn("ready to accept connections", done.stderr)


if __name__ == "__main__":
    main(__file__)
