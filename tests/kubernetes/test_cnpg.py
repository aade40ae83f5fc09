#!/usr/bin/python3
"""A sealed cluster's life under CloudNativePG: its image, its pods' restrictions, and the command lines of its instance manager.

The tests go through one cluster's life, in the order of their names, until the first that fails. manager.py says what represents what.
PostgreSQL 15 is Debian's; what the cluster is upgraded to is 18, built by tests/suites/fetch-build.sh.
"""

import re
import secrets
import shlex
import subprocess
import sys
import unittest

from manager import OLD, PGDATA, PGWAL, Instance
from pods import ROOT, Node, unable

sys.path.insert(0, str(ROOT / "tests/lib"))
from chroot import CACHE  # noqa: E402
from pgseal_test import Canaries  # noqa: E402
from waiting import eventually  # noqa: E402

NEW = CACHE / "pg/18/inst"
CONTAINERFILE = (ROOT / "packaging/cnpg/Containerfile").read_text()
PASSPHRASE = secrets.token_hex(32)


def settings_of_manifest():
    """The files that packaging/cnpg/base mounts, by their paths below /projected, with a passphrase of ours."""
    text = (ROOT / "packaging/cnpg/base/settings.yaml").read_text()
    blocks = re.findall(r"^  (\w+\.toml): \|\n((?:    .*\n)+)", text, re.M)
    files = {f"pgseal/{name}": re.sub(r"^    ", "", block, flags=re.M) for name, block in blocks}
    return {**files, "pgseal/passphrase": PASSPHRASE + "\n"}


def certificates(place):
    """A CA, the server's certificate, and that of the role that replicates."""
    place.mkdir()
    run = lambda *words: subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)  # noqa: E731
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run(*new, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "2")
    for name in ("server", "streaming_replica"):
        run(*new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.crt",
            "-days", "2")
    for file in ("ca.key", "ca.srl", "server.csr", "streaming_replica.csr"):
        (place / file).unlink()


def image_of_containerfile(node, name, replace=None):
    """The steps of packaging/cnpg/Containerfile, on Debian's PostgreSQL or on another; user 26 is the base image's work."""
    image = node.image(name)
    image.step("usermod -u 26 postgres")
    if replace:
        image.replace_postgresql(*replace)
    image.install_pgseal()
    image.copy(ROOT / "packaging/cnpg/seal-programs", "/opt/pgseal/seal-programs")
    image.step("sh /opt/pgseal/seal-programs; rm -r /opt/pgseal")
    image.variables = dict(word.split("=", 1) for line in re.findall(r"^ENV (.*)$", CONTAINERFILE, re.M) for word in shlex.split(line))
    return image


class Life(unittest.TestCase):
    """The pods of the cluster are class attributes: `one` and `two` as long as they run."""

    @classmethod
    def setUpClass(cls):
        if why := unable():
            raise unittest.SkipTest(why)
        if not (NEW / "bin/postgres").exists():
            raise unittest.SkipTest("there is no PostgreSQL 18: run tests/suites/fetch-build.sh 18")
        cls.canaries = Canaries()
        cls.node = Node(cls)
        certificates(cls.node.place / "certificates")
        cls.settings = cls.node.projected("projected", settings_of_manifest())
        cls.old = image_of_containerfile(cls.node, "image-15")
        cls.new = image_of_containerfile(cls.node, "image-18", ("18", NEW))

    def pod(self, name, address, image=None, scratch=None, settings=True):
        """A new pod of an instance, or of a job on its volumes."""
        return Instance(self.node, image or self.old, name, self.settings if settings else None, address, scratch)

    def assert_nothing_in_clear(self, *more):
        """In any volume that outlives a pod, and in the archive."""
        volumes = [path for path in self.node.place.iterdir() if path.name.endswith(("-data", "-wal", "archive"))]
        self.assertEqual(self.canaries.found(*volumes, *more), {})

    def test_01_the_image(self):
        """pg_config names the wrappers, which run the programs below them, and the manager finds each program by PATH."""
        pod = self.pod("look", "127.0.0.10")
        bindir = pod.exec("pg_config", "--bindir")
        self.assertEqual(bindir, "/usr/lib/postgresql/15/bin")
        self.assertEqual(pod.exec("head", "-n", "1", f"{bindir}/initdb"), "#!/usr/lib/pgseal/current/bin/pgseal-twin stock/initdb")
        for program in ("initdb", "pg_ctl", "postgres", "pg_basebackup", "pg_rewind", "pg_controldata", "pg_upgrade", "pg_isready"):
            self.assertRegex(pod.exec(program, "--version"), r"\(PostgreSQL\) 15\.")
        status = pod.exec("cat", "/proc/self/status")
        self.assertRegex(status, r"CapEff:\s+0{16}\n")
        self.assertRegex(status, r"CapBnd:\s+0{16}\n")
        self.assertRegex(status, r"NoNewPrivs:\s+1\n")
        self.assertRegex(status, r"Seccomp:\s+2\n")
        self.assertRegex(status, r"Uid:\s+26\s+26\s+26\s+26\n")
        self.assertIn("Read-only file system", pod.run("touch", "/etc/file", check=False).stderr)
        pod.end()

    def test_02_without_settings_there_is_no_cluster(self):
        """The volume with the passphrase is missing: initdb makes nothing, least of all a plain cluster."""
        pod = self.pod("none", "127.0.0.10", settings=False)
        done = pod.create_data_directory()
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("pgseal: choose how to protect the key: give ", done.stderr)
        self.assertFalse(pod.path(PGDATA).exists())
        pod.end()

    def test_03_a_plain_cluster_shows_what_leaks(self):
        """The reference: the same commands without pgseal's options, and the canary is in clear."""
        pod = self.pod("plain", "127.0.0.10", settings=False)
        pod.run("env", "PGSEAL_INITDB_OPTIONS=", "initdb", "--username", "postgres", "-D", PGDATA, "--waldir", PGWAL, "-k")
        pod.ensure_includes(PGDATA)
        pod.refresh_configuration(archive_mode="off")
        pod.startup()
        pod.psql(f"CREATE TABLE t AS SELECT '{self.canaries['row']}' AS word")
        pod.shutdown()
        self.assertIn("row", self.canaries.found(pod.volumes["data"]))
        self.assertIn("row", self.canaries.found(pod.volumes["wal"]))
        pod.end()
        for volume in pod.volumes.values():
            subprocess.run(["rm", "-r", volume], check=True)

    def test_04_bootstrap(self):
        """The job of initdb: an application's role and database, and then the server stops."""
        pod = self.pod("sealed-1", "127.0.0.11")
        done = pod.create_data_directory(["-k", "--encoding=UTF8", "--lc-collate=C", "--lc-ctype=C"])
        self.assertEqual(done.returncode, 0, done)
        pod.refresh_configuration()
        pod.startup()
        pod.psql("CREATE ROLE app LOGIN")
        pod.psql("CREATE DATABASE app OWNER app")
        pod.psql(f"CREATE TABLE t AS SELECT i, '{self.canaries['row']}' || i AS word FROM generate_series(1, 10000) i", "app")
        pod.shutdown("smart")
        status = pod.exec("pgseal", "status", "-D", PGDATA)
        type(self).key = re.search(r"key id:\s+(\w{32})", status)[1]
        pod.end()
        self.assert_nothing_in_clear()

    def test_05_the_server_of_a_pod(self):
        pod = type(self).one = self.pod("sealed-1", "127.0.0.11")
        pod.serve()
        pid = int(pod.exec("head", "-n", "1", f"{PGDATA}/postmaster.pid"))
        self.assertEqual(pod.exec("cat", f"/proc/{pid}/comm"), "postgres", "the manager takes another for a stale process")
        self.assertEqual(pod.psql("SHOW pgseal.sealed"), "on")
        self.assertEqual(pod.psql("SELECT pg_read_file('/proc/self/status') ~ 'CapEff:\\s+0{16}\\n'"), "t")
        for statement in ("CREATE USER streaming_replica REPLICATION",
                          *[f"GRANT EXECUTE ON FUNCTION pg_catalog.{function} TO streaming_replica" for function in (
                              "pg_ls_dir(text, boolean, boolean)", "pg_stat_file(text, boolean)", "pg_read_binary_file(text)",
                              "pg_read_binary_file(text, bigint, bigint, boolean)")]):
            pod.psql(statement)
        self.assertEqual(pod.psql("SELECT count(*) FROM t", "app"), "10000")
        pod.psql("SELECT pg_switch_wal()")
        eventually(lambda: list((self.node.place / "archive").glob("0*")), pod.log)
        pod.run("pg_ctl", "-D", PGDATA, "reload")
        seen = pod.path("/controller/log/seen")
        eventually(lambda: "reloading" in seen.read_text(), pod.log)
        self.assert_nothing_in_clear()

    def test_06_a_read_of_pg_control_with_two_variables(self):
        """Variables do not reach this program, so the machine's file has to say it all."""
        done, found = self.one.enforced_parameters()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(found["max_connections setting"], "100")
        self.assertEqual(found["max_worker_processes setting"], "32")

    def test_07_join(self):
        job = self.pod("sealed-2", "127.0.0.12")
        job.join(self.one)
        job.end()
        pod = type(self).two = self.pod("sealed-2", "127.0.0.12")
        pod.serve()
        self.one.psql(f"CREATE TABLE later AS SELECT '{self.canaries['later']}' AS word", "app")
        eventually(lambda: "later" in pod.psql("SELECT word FROM later", "app", check=False) or
                   pod.psql("SELECT count(*) FROM pg_class WHERE relname = 'later'", "app") == "1", pod.log)
        self.assertEqual(self.one.psql("SELECT application_name || state FROM pg_stat_replication"), "sealed-2streaming")
        self.assertIn(self.key, pod.exec("pgseal", "status", "-D", PGDATA))
        self.assert_nothing_in_clear()

    def test_08_a_crash_and_failover(self):
        """The primary's machine is lost. The replica is promoted, and the old primary follows it after pg_rewind."""
        self.one.psql("CREATE TABLE lost AS SELECT 1 AS a", "app")
        self.one.end()
        self.two.promote()
        self.two.psql("CREATE TABLE won AS SELECT 2 AS a", "app")
        self.two.psql("CHECKPOINT")
        pod = self.pod("sealed-1", "127.0.0.11")
        pod.path(f"{PGDATA}/postmaster.pid").unlink()
        pod.rewind(self.two)
        pod.demote(self.two)
        pod.serve()
        type(self).one = pod
        self.two.psql("INSERT INTO won VALUES (3)", "app")
        eventually(lambda: pod.psql("SELECT count(*) FROM won", "app") == "2", pod.log)
        self.assertEqual(pod.psql("SELECT count(*) FROM t", "app"), "10000")
        self.assert_nothing_in_clear()

    def test_09_switchover_and_back(self):
        """The primary stops in order, the replica is promoted, and the old primary is rewound, as the manager always does it."""
        self.two.shutdown()
        self.one.promote()
        self.one.psql("INSERT INTO won VALUES (4)", "app")
        self.two.end()
        pod = self.pod("sealed-2", "127.0.0.12")
        pod.rewind(self.one)
        pod.demote(self.one)
        pod.serve()
        type(self).two = pod
        eventually(lambda: pod.psql("SELECT count(*) FROM won", "app") == "3", pod.log)

    def test_10_a_crash_and_recovery(self):
        self.one.psql(f"INSERT INTO later VALUES ('{self.canaries['crash']}')", "app")
        self.one.end()
        pod = type(self).one = self.pod("sealed-1", "127.0.0.11")
        pod.path(f"{PGDATA}/postmaster.pid").unlink()
        pod.serve()
        self.assertEqual(pod.psql("SELECT count(*) FROM later", "app"), "2")
        self.assert_nothing_in_clear()

    def test_11_a_snapshot_of_volumes(self):
        """A hot snapshot, and the job that makes a cluster of it: a data directory for its configuration, and recovery by backup_label."""
        label = self.snapshot("restored-1")
        pod = self.pod("restored-1", "127.0.0.13")
        pod.write(f"{PGDATA}/backup_label", label)
        pod.path(f"{PGDATA}/postmaster.pid").unlink(missing_ok=True)
        temporary = "/controller/recovery/datadir_1"
        self.assertEqual(pod.create_data_directory(data=temporary, wal=None, temporary=True).returncode, 0)
        self.assertIn(self.key, pod.exec("pgseal", "status", "-D", temporary))
        self.assertEqual(pod.enforced_parameters()[0].returncode, 0)
        pod.refresh_configuration(archive_mode="off")
        pod.override("host=127.0.0.254", "")
        pod.write(f"{PGDATA}/recovery.signal", "")
        pod.startup()
        eventually(lambda: pod.psql("SELECT pg_is_in_recovery()") == "f", pod.log)
        self.assertEqual(pod.psql("SELECT count(*) FROM t", "app"), "10000")
        pod.shutdown()
        pod.end()

    def snapshot(self, name):
        """Copies the primary's volumes between two statements of one session; returns the label."""
        copy = "; ".join(f"cp -a {self.one.volumes[part]} {self.node.place}/{name}-{part}" for part in ("data", "wal"))
        self.one.psql("SELECT pg_create_physical_replication_slot('kept', true)")
        wait = "touch /controller/tmp/begun; while [ -e /controller/tmp/begun ]; do sleep 0.1; done"
        script = f"SELECT pg_backup_start('snapshot', true);\n\\! {wait}\n" \
                 "\\o /controller/tmp/label\nSELECT labelfile FROM pg_backup_stop(true);\n"
        self.one.write("/controller/tmp/script", script)
        session = self.one.start("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-f",
                                 "/controller/tmp/script", background=True)
        begun = self.one.path("/controller/tmp/begun")
        eventually(lambda: begun.exists() or Instance.read(session, "rc"), lambda: Instance.read(session, "err"))
        subprocess.run(["sh", "-ec", copy], check=True)
        begun.unlink()
        eventually(lambda: Instance.read(session, "rc") == "0\n", lambda: Instance.read(session, "err"))
        self.one.psql("SELECT pg_drop_replication_slot('kept')")
        return self.one.path("/controller/tmp/label").read_text()

    def test_12_pg_controldata_needs_the_key(self):
        """What the manager removes a data directory for: pg_controldata that fails. docs/operations/kubernetes.md warns of it."""
        pod = self.pod("restored-1", "127.0.0.13", settings=False)
        done = pod.run("env", f"PGDATA={PGDATA}", "pg_controldata", check=False)
        self.assertEqual(done.returncode, 6, done)
        self.assertIn("no passphrase is set, and there is no terminal", done.stderr)
        pod.end()

    def test_13_major_upgrade(self):
        """15 to 18 in place with --link: the programs of 15 come out of its image as a copy, and run in that of 18."""
        self.two.shutdown()
        self.two.end()
        self.one.shutdown()
        self.one.end()
        prepare = self.pod("sealed-1", "127.0.0.11")
        prepare.upgrade_prepare()
        prepare.end()
        pod = self.pod("sealed-1", "127.0.0.11", self.new, scratch=prepare.scratch)
        self.assertTrue(pod.path(f"{OLD}/bindir.txt").exists())
        done = pod.upgrade_execute()
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertIn("Upgrade Complete", done.stdout)
        pod.end()
        self.assert_nothing_in_clear()

    def test_14_the_new_version_runs(self):
        pod = self.pod("sealed-1", "127.0.0.11", self.new)
        pod.serve()
        self.assertEqual(pod.psql("SHOW server_version_num")[:2], "18")
        self.assertEqual(pod.psql("SHOW pgseal.sealed"), "on")
        self.assertEqual(pod.psql("SELECT count(*) FROM t", "app"), "10000")
        self.assertIn(self.key, pod.exec("pgseal", "status", "-D", PGDATA))
        pod.shutdown()
        pod.run("pgseal", "verify", "-D", PGDATA)
        pod.end()
        self.assert_nothing_in_clear()


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
