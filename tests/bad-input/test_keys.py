"""Keys that are missing, belong to another cluster, or have to be asked for by the library itself.

What a damaged key file and a bad unwrap command do to the commands is tested in crates/pgseal; here are whole
clusters: the server's start, and that nothing in the data directory changes.
"""

import json
import shutil
import signal
from pathlib import Path

from bad_input import LIBRARY, PG, STAGE, BadInput, contents, run, sentences
from pgseal_test import main, read_raw, stage, twins

PGSEAL = STAGE / "dist/bin/pgseal"
NO_CONTROL_FILE = r'could not open file ".*/global/pg_control": Input/output error'
UNDER_COMMAND = ("--key-wrap-command=tr a-z n-za-m >%p", "--key-unwrap-command=tr a-z n-za-m <%p")


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


class MissingPieces(BadInput):
    def setUp(self):
        super().setUp()
        self.sealed, self.canaries = self.filled()
        self.keys = self.sealed.data / "pg_encryption"

    def assert_refused_until_back(self, moved, code, pattern):
        """With `moved` renamed away server and tools are refused; with it back, all is there."""
        away = self.directory / "away"
        moved.rename(away)
        before = contents(self.sealed.data)
        self.assert_refused(self.postgres(self.sealed), code, pattern)
        for tool in ["pg_controldata", "pg_checksums", "pg_resetwal"]:
            done = self.sealed.run(tool, "-D", self.sealed.data, check=False)
            self.assert_refused(done, code, pattern)
        self.assert_untouched(self.sealed.data, before)
        away.rename(moved)
        self.assert_readable(self.sealed, self.canaries)

    def test_key_file_renamed_away(self):
        self.assert_refused_until_back(self.keys / "key.bin", 5, r"pg_encryption/key\.bin .*")

    def test_key_file_renamed_in_place(self):
        away = self.keys / "key.bin.old"
        (self.keys / "key.bin").rename(away)
        self.assert_refused(self.postgres(self.sealed), 5, r"pg_encryption/key\.bin .*")
        away.rename(self.keys / "key.bin")
        self.assert_readable(self.sealed, self.canaries)

    def test_an_unreadable_key_file(self):
        (self.keys / "key.bin").chmod(0)
        self.assert_refused(self.postgres(self.sealed), 3, r"pg_encryption/key\.bin cannot be read \(Permission denied.*")
        (self.keys / "key.bin").chmod(0o600)
        self.assert_readable(self.sealed, self.canaries)

    def test_key_directory_removed(self):
        """Nothing says any more that the cluster is sealed, but its control file cannot be read."""
        away = self.directory / "away"
        self.keys.rename(away)
        before = contents(self.sealed.data)
        self.assert_refused(self.postgres(self.sealed), 5, r"is sealed but has no pg_encryption: restore pg_encryption from .*")
        done = self.sealed.run("pg_checksums", "-D", self.sealed.data, check=False)
        self.assert_ended(done, 1, "pg_control CRC value is incorrect")
        expected = {"PGSEAL_EXPECT_KEY": "0" * 32}
        self.assert_refused(self.postgres(self.sealed, environment=expected), 7, r"is not sealed, but PGSEAL_EXPECT_KEY .*")
        self.assert_untouched(self.sealed.data, before)
        away.rename(self.keys)
        self.assert_readable(self.sealed, self.canaries)

    def test_the_key_file_of_another_cluster(self):
        """A whole key file that opens, but is not this cluster's, leads to a control file that does not open."""
        other, _ = self.filled("other")
        own = (self.keys / "key.bin").read_bytes()
        shutil.copy(other.data / "pg_encryption/key.bin", self.keys / "key.bin")
        before = contents(self.sealed.data)
        pattern = r"global/pg_control is damaged, or the key in .*/pg_encryption is another cluster's: restore .*"
        self.assert_refused(self.postgres(self.sealed), 7, pattern)
        for tool in ["pg_checksums", "pg_resetwal"]:
            self.assertNotEqual(self.sealed.run(tool, "-D", self.sealed.data, check=False).returncode, 0)
        self.assert_untouched(self.sealed.data, before)
        (self.keys / "key.bin").write_bytes(own)
        self.assert_readable(self.sealed, self.canaries)


class ExpectedKey(BadInput):
    """PGSEAL_EXPECT_KEY pins the key that a wrapper accepts."""

    def start(self, cluster, key):
        return self.postgres(cluster, environment={"PGSEAL_EXPECT_KEY": key})

    def test_another_key(self):
        sealed, canaries = self.filled()
        before = contents(sealed.data)
        pattern = rf"has key {key_id(sealed)}, not {'0' * 32} as PGSEAL_EXPECT_KEY demands: .*"
        self.assert_refused(self.start(sealed, "0" * 32), 7, pattern)
        self.assert_untouched(sealed.data, before)
        sealed.environment["PGSEAL_EXPECT_KEY"] = key_id(sealed)
        self.assert_readable(sealed, canaries)

    def test_a_replaced_directory(self):
        """Somebody puts a plain cluster, or one under a key of their own, where the sealed one was."""
        sealed, _ = self.filled()
        expected = key_id(sealed)
        plain = self.cluster("plain", sealed=False).init()
        other = self.cluster("other").init()
        for name, pattern in [("plain", "is not sealed, but"), ("other", "has key .*, not")]:
            with self.subTest(name):
                shutil.rmtree(sealed.data)
                shutil.copytree((plain if name == "plain" else other).data, sealed.data)
                before = contents(sealed.data)
                self.assert_refused(self.start(sealed, expected), 7, rf"{pattern} .*PGSEAL_EXPECT_KEY.*")
                self.assert_untouched(sealed.data, before)

    def test_a_new_cluster(self):
        done = self.initdb("0" * 32)
        self.assert_refused(done, 7, r"initdb would make a new key, but PGSEAL_EXPECT_KEY demands another: .*")
        self.assertFalse((self.directory / "new").exists())

    def test_not_a_key_id(self):
        self.assert_refused(self.initdb("12"), 2, r"PGSEAL_EXPECT_KEY must be a key id of 32 hexadecimal digits.*")
        self.assertFalse((self.directory / "new").exists())

    def initdb(self, key):
        cluster = self.cluster("tools")
        new = ["-D", self.directory / "new", "--data-encryption", "--no-key-wrap"]
        return cluster.run("initdb", *new, check=False, environment={"PGSEAL_EXPECT_KEY": key})


class AskedByTheLibrary(BadInput):
    """The real server with the library preloaded by hand and no handover: the library asks `pgseal unlock`."""

    def setUp(self):
        super().setUp()
        self.sealed, self.canaries = self.filled(key=UNDER_COMMAND)
        self.sealed.bindir = PG
        self.sealed.environment["LD_PRELOAD"] = str(LIBRARY)

    def test_a_good_unwrap_command(self):
        self.sealed.environment["PGDATAKEYUNWRAPCMD"] = "tr a-z n-za-m <%p"
        self.sealed.start()
        self.sealed.psql("INSERT INTO t SELECT a FROM t")
        self.assertNotIn(b"tr a-z n-za-m", Path(f"/proc/{self.sealed.server.pid}/environ").read_bytes())
        for process in stage.descendants(self.sealed.server.pid):
            self.assertNotIn(b"tr a-z n-za-m", read_raw(f"/proc/{process}/environ"))
        self.assertEqual(self.sealed.psql("SELECT count(*) FROM t"), "200")
        self.sealed.stop()
        self.assertEqual(self.canaries.found(self.sealed.data), {})
        self.assertEqual(sentences(self.sealed.log()), [])

    def test_children_that_nobody_waits_for(self):
        """Started by a program that ignores SIGCHLD: the kernel reaps children then, unless one takes care."""
        command = {"PGDATAKEYUNWRAPCMD": "tr a-z n-za-m <%p"}
        for bindir, environment in [(PG, {"LD_PRELOAD": str(LIBRARY)}), (twins(), {})]:
            done = run([bindir / "pg_controldata", self.sealed.data], {**environment, **command}, preexec_fn=ignore_children)
            self.assertIn("Database cluster state", done.stdout)

    def assert_locked(self, command, pattern):
        before = contents(self.sealed.data)
        done = self.postgres(self.sealed, environment={"PGDATAKEYUNWRAPCMD": command})
        self.assert_ended(done, 2, NO_CONTROL_FILE)
        why, then = sentences(done.stderr)  # two lines: one attempt
        self.assertRegex(why, pattern)
        self.assertRegex(then, r"could not unlock the cluster at .*/data: nothing in it is opened")
        self.assert_untouched(self.sealed.data, before)
        self.sealed.environment["PGDATAKEYUNWRAPCMD"] = "tr a-z n-za-m <%p"
        self.assert_readable(self.sealed, self.canaries)

    def test_a_failing_unwrap_command(self):
        self.assert_locked("exit 3", r"unwrap command .*3")

    def test_an_unwrap_command_that_prints_nothing(self):
        self.assert_locked("true", r"unwrap command .*")

    def test_a_wrong_unwrap_command(self):
        self.assert_locked("cat %p", r"key\.bin: .*")

    def test_a_plain_directory_under_the_pin(self):
        plain = self.cluster("plain", sealed=False).init()
        plain.environment["LD_PRELOAD"] = str(LIBRARY)
        before = contents(plain.data)
        done = self.postgres(plain, environment={"PGSEAL_EXPECT_KEY": "0" * 32})
        self.assert_ended(done, 2, NO_CONTROL_FILE)
        self.assertRegex(sentences(done.stderr)[0], r"this cluster is not sealed, but PGSEAL_EXPECT_KEY demands .*")
        self.assert_untouched(plain.data, before)
        plain.start()

    def test_another_key_than_the_pin(self):
        before = contents(self.sealed.data)
        unlock = {"PGSEAL_EXPECT_KEY": "0" * 32, "PGDATAKEYUNWRAPCMD": "tr a-z n-za-m <%p"}
        done = self.postgres(self.sealed, environment=unlock)
        self.assert_ended(done, 2, NO_CONTROL_FILE)
        self.assertRegex(sentences(done.stderr)[0], r"has key .*, not 0+ as PGSEAL_EXPECT_KEY demands: .*")
        self.assert_untouched(self.sealed.data, before)

    def test_no_pgseal_beside_the_library(self):
        self.sealed.environment["PGSEAL_BIN"] = str(self.directory / "missing")
        before = contents(self.sealed.data)
        done = self.postgres(self.sealed)
        self.assert_ended(done, 2, NO_CONTROL_FILE)
        self.assertRegex(sentences(done.stderr)[-1], r"could not unlock the cluster at .*: nothing in it is opened")
        self.assert_untouched(self.sealed.data, before)


class NamedByConfiguration(BadInput):
    """A server that is given a directory of configuration, which names the data: its wrapper cannot know which key it needs."""

    def setUp(self):
        super().setUp()
        gate = self.directory / "gate"
        gate.touch()
        stored = f"--key-unwrap-command=test -e {gate} && tr a-z n-za-m <%p"
        self.sealed, self.canaries = self.filled(key=(UNDER_COMMAND[0], stored))
        gate.unlink()
        self.etc = self.directory / "etc"
        self.etc.mkdir()
        for name in ["postgresql.conf", "pg_hba.conf", "pg_ident.conf"]:
            (self.sealed.data / name).rename(self.etc / name)
        with open(self.etc / "postgresql.conf", "a") as conf:
            conf.write(f"data_directory = '{self.sealed.data}'\n")

    def test_the_unwrap_command_of_the_environment(self):
        command = "tr a-z n-za-m <%p"
        self.sealed.environment["PGDATAKEYUNWRAPCMD"] = command
        self.sealed.start(data=self.etc)
        self.assertEqual(self.sealed.psql("SELECT a FROM t LIMIT 1"), self.canaries["row"] + "1")
        for process in [self.sealed.server.pid, *stage.descendants(self.sealed.server.pid)]:
            self.assertNotIn(command.encode(), read_raw(f"/proc/{process}/environ"))

    def test_the_key_of_another_cluster_is_handed_over(self):
        """As by pg_upgradecluster, whose pg_ctl names a log in the new cluster."""
        other = self.cluster("other").init()
        self.sealed.environment["PGDATA"] = str(other.data)
        (self.directory / "gate").touch()
        self.sealed.start(data=self.etc)
        self.assertEqual(self.sealed.psql("SELECT a FROM t LIMIT 1"), self.canaries["row"] + "1")

    def test_a_command_that_is_no_text(self):
        sentence = "PGDATAKEYUNWRAPCMD is not UTF-8: write it so, or give the option that it replaces"
        done = self.sealed.run("pg_controldata", "-D", self.sealed.data, check=False,
                               environment={"PGDATAKEYUNWRAPCMD": b"tr a-z n-za-m <%p\xff"})
        self.assert_refused(done, 2, sentence)
        self.sealed.run("pg_resetwal", "-n", "--key-unwrap-command=tr a-z n-za-m <%p", "-D", self.sealed.data,
                        environment={"PGDATAKEYUNWRAPCMD": b"tr a-z n-za-m <%p\xff"})


class NotSealed(BadInput):
    def test_commands_on_a_plain_directory(self):
        plain = self.cluster(sealed=False).init()
        before = contents(plain.data)
        for command in [["verify"], ["key", "check"], ["key", "unwrap"], ["key", "rotate", "--new-plain"]]:
            with self.subTest(" ".join(command)):
                done = run([PGSEAL, *command, "-D", plain.data], check=False)
                self.assert_refused(done, 4, r"data is not a sealed cluster: it has no pg_encryption directory; give .*")
        done = run([PGSEAL, "status", "-D", plain.data], check=False)
        self.assertEqual((done.returncode, done.stderr), (4, ""))
        self.assertRegex(done.stdout, r"sealed: +no\n")
        self.assert_untouched(plain.data, before)

    def test_a_plain_cluster_under_wrappers(self):
        """They put the library into every server, which seals nothing here."""
        plain = self.cluster(sealed=False).init()
        plain.bindir = twins()
        plain.start()
        done = run([PGSEAL, "status", "-D", plain.data], check=False)
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stdout, r"(?m)^sealed: +no\nserver: +running \(process \d+\)$")
        said = json.loads(run([PGSEAL, "status", "--json", "-D", plain.data], check=False).stdout)
        self.assertEqual((said["sealed"], said["server"]["state"]), (False, "running_plain"))


LOOKING = [["status"], ["status", "--check"], ["status", "--json"], ["doctor"], ["verify"], ["key", "check"]]


class Unknown(BadInput):
    """"Not sealed" is said of what was seen to be a plain cluster, and of nothing else."""

    def setUp(self):
        super().setUp()
        self.sealed, _ = self.filled()

    def test_what_may_not_be_read(self):
        """As a monitor of another user sees it."""
        self.sealed.start()
        self.sealed.data.chmod(0o000)
        self.addCleanup(self.sealed.data.chmod, 0o700)
        self.assert_all_refuse(self.sealed.data, 3, r"/data cannot be read \(Permission denied\): run this as the server's user or root")

    def test_what_lies_where_nobody_may_look(self):
        self.sealed.home.chmod(0o000)
        self.addCleanup(self.sealed.home.chmod, 0o700)
        self.assert_all_refuse(self.sealed.data, 3, r"/data cannot be read \(Permission denied\): run this as the server's user or root")

    def test_what_does_not_exist(self):
        self.assert_all_refuse(self.directory / "nodir", 3, r"/nodir does not exist: give the data directory with -D")

    def test_what_is_no_data_directory(self):
        sentence = r" is not a data directory: it has no global/pg_control; give the data directory with -D"
        self.assert_all_refuse(self.directory, 2, sentence)

    def test_a_sealed_cluster_without_its_key_directory(self):
        (self.sealed.data / "pg_encryption").rename(self.directory / "away")
        sentence = r"is sealed but has no pg_encryption: restore pg_encryption from the cluster or backup that this one was .*"
        self.assert_all_refuse(self.sealed.data, 5, sentence)

    def test_a_pid_file_that_may_not_be_read(self):
        pid_file = self.sealed.data / "postmaster.pid"
        pid_file.write_text("1\n")
        pid_file.chmod(0o000)
        sentence = r"postmaster.pid cannot be read \(Permission denied\), which says whether a server runs: run this as .*"
        for command in LOOKING[:-1]:
            with self.subTest(command):
                self.assert_refused(run([PGSEAL, *command, "-D", self.sealed.data], check=False), 3, sentence)

    def test_a_pid_file_that_names_no_process(self):
        """A server that starts makes the file, and then writes into it."""
        for text in ["", "17", "x\n"]:
            (self.sealed.data / "postmaster.pid").write_text(text)
            sentence = r"postmaster.pid names no process, so a server may be starting, or a crash has left the file: if no .*"
            for command in LOOKING[:-1]:
                with self.subTest(f"{command} {text!r}"):
                    self.assert_refused(run([PGSEAL, *command, "-D", self.sealed.data], check=False), 3, sentence)

    def assert_all_refuse(self, directory, code, sentence):
        for command in LOOKING:
            with self.subTest(" ".join(command)):
                done = run([PGSEAL, *command, "-D", directory], check=False)
                self.assert_refused(done, code, sentence)
                self.assertEqual(done.stdout, "")


def key_id(cluster):
    """The key id, as status shows it."""
    status = run([PGSEAL, "status", "--json", "-D", cluster.data]).stdout
    return status.split('"key_id":')[1].split('"')[1]


if __name__ == "__main__":
    main(__file__)
