#!/usr/bin/env python3
"""What cannot be converted is refused before anything is changed: one sentence and an exit code each."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from converting import PLAIN_KEY, ConvertCase, become
from pgseal_test import PGSEAL, TIME_LIMIT, base_environment, main
from waiting import eventually

NOT_SHUT_DOWN = "the server was not shut down cleanly: start it, stop it, and try again"


class Refused(ConvertCase):
    def plain(self, *initdb):
        return self.cluster("plain", sealed=False, initdb=initdb).init()

    def sealed(self):
        return self.cluster("sealed").init()

    def test_a_running_server(self):
        for cluster, command in [(self.plain(), "seal"), (self.sealed(), "unseal"), (self.cluster("third").init(), "rekey")]:
            cluster.start()
            sentence = f"a server is running on {cluster.data} \\(process {cluster.server.pid}\\): stop it first"
            key = [] if command == "unseal" else PLAIN_KEY
            for check in [[], ["--check"]]:
                done = self.convert(command, cluster, *key, *check, code=9)
                self.assertRegex(done.stderr, f"^pgseal: {sentence}\n$")
            cluster.stop()

    def test_a_crashed_server(self):
        for cluster, command in [(self.plain(), "seal"), (self.sealed(), "unseal"), (self.cluster("third").init(), "rekey")]:
            cluster.start().kill9()
            self.refused(command, cluster, 1, NOT_SHUT_DOWN, *([] if command == "unseal" else PLAIN_KEY))
            cluster.start().stop()
            self.convert(command, cluster, *([] if command == "unseal" else PLAIN_KEY))

    def test_a_server_that_is_starting(self):
        """It has made its pid file, and not written its number into it."""
        for cluster, command in [(self.plain(), "seal"), (self.sealed(), "unseal"), (self.cluster("third").init(), "rekey")]:
            pid_file = cluster.data / "postmaster.pid"
            pid_file.touch()
            sentence = f"{pid_file} names no process, so a server may be starting, or a crash has left the file: if no server runs, remove it"
            self.refused(command, cluster, 3, sentence, *([] if command == "unseal" else PLAIN_KEY))
            if command == "seal":
                self.assertEqual(cluster.try_start(), 1)
                self.assertIn('FATAL:  lock file "postmaster.pid" is empty', cluster.log())
            pid_file.unlink()
            self.convert(command, cluster, *([] if command == "unseal" else PLAIN_KEY))

    def test_sealed_and_not_sealed(self):
        plain, sealed = self.plain(), self.sealed()
        self.refused("seal", sealed, 2, f"{sealed.data} is sealed already: `pgseal rekey` gives it another key", *PLAIN_KEY)
        for command in ["unseal", "rekey"]:
            sentence = f"{plain.data} is not a sealed cluster: it has no pg_encryption directory; give .*"
            self.refused(command, plain, 4, sentence, *([] if command == "unseal" else PLAIN_KEY))

    def test_a_key_directory_that_is_gone(self):
        cluster = self.sealed()
        shutil.rmtree(cluster.data / "pg_encryption")
        sentence = "incorrect checksum in pg_control: it is damaged, or sealed with another key"
        for check in [[], ["--check"]]:
            done = self.convert("seal", cluster, *PLAIN_KEY, *check, code=1)
            self.assertEqual(done.stderr, f"pgseal: {cluster.data}/global/pg_control: {sentence}\n")

    def test_a_wrong_key(self):
        cluster = self.sealed()
        other = self.cluster("other").init()
        shutil.copy(other.data / "pg_encryption/key.bin", cluster.data / "pg_encryption/key.bin")
        sentence = "incorrect checksum in pg_control: it is damaged, or sealed with another key"
        for command in ["unseal", "rekey"]:
            done = self.convert(command, cluster, *([] if command == "unseal" else PLAIN_KEY), code=1)
            self.assertEqual(done.stderr, f"pgseal: {cluster.data}/global/pg_control: {sentence}\n")
        secret, wrong = self.directory / "secret", self.directory / "wrong"
        secret.write_text("one long secret")
        wrong.write_text("another secret")
        third = self.cluster("third", sealed=False).init()
        self.convert("seal", third, f"--key-passphrase-file={secret}")
        done = self.convert("unseal", third, f"--passphrase-file={wrong}", code=7)
        self.assertEqual(done.stderr.count("\n"), 1)
        done = self.convert("rekey", third, f"--old-passphrase-file={wrong}", *PLAIN_KEY, code=7)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_no_way_to_protect_the_key(self):
        self.refused("seal", self.plain(), 2, "choose how to protect the key: give --key-wrap-command.*")

    def test_without_checksums_and_log_hints(self):
        cluster = self.plain()
        cluster.run("pg_checksums", "--disable", "-D", cluster.data)
        self.refused("seal", cluster, 1, "the cluster has neither data checksums nor wal_log_hints, and a sealed server "
                     "would not start: run pg_checksums --enable", *PLAIN_KEY)
        cluster.configure("wal_log_hints = on")
        cluster.start().stop()
        self.convert("seal", cluster, *PLAIN_KEY)
        cluster.start().stop()

    def test_hard_links(self):
        cluster = self.plain()
        os.link(cluster.data / "base/5/1259", self.directory / "kept")
        self.refused("seal", cluster, 1, "base/5/1259 has another hard link, which would keep .*", *PLAIN_KEY)
        os.link(cluster.data / "PG_VERSION", self.directory / "clear")
        (self.directory / "kept").unlink()
        self.convert("seal", cluster, *PLAIN_KEY)

    def test_odd_names_and_links(self):
        cluster = self.plain()
        data = cluster.data
        for make, sentence in [
            (lambda: (data / "base/5/1").symlink_to("/etc/passwd"), "base/5/1 is not a file, or is a link where PostgreSQL .*"),
            (lambda: os.mkfifo(data / "base/5/1"), "base/5/1 is not a file, or is a link where PostgreSQL makes none: .*"),
            (lambda: (data / "base/5/1.pgseal").touch(), "base/5/1.pgseal has a name that conversions use: move it away"),
            (lambda: (data / "pg_wal/0000000100000000FFFFFFFF").touch(), "pg_wal/0000000100000000FFFFFFFF cannot be conv.*"),
            (lambda: (data / "pg_tblspc/16400").symlink_to("/nonexistent"), "pg_tblspc/16400 is a dangling link: mount .*"),
        ]:
            make()
            self.refused("seal", cluster, 1, sentence, *PLAIN_KEY)
            for name in ["base/5/1", "base/5/1.pgseal", "pg_wal/0000000100000000FFFFFFFF", "pg_tblspc/16400"]:
                (data / name).unlink(missing_ok=True)
        (data / "own.conf").symlink_to("/etc/passwd")
        self.convert("seal", cluster, *PLAIN_KEY)

    def test_what_is_not_mounted(self):
        """An empty directory, or another disk's, where a tablespace or a part of the cluster was."""
        cluster = self.cluster("plain", sealed=False, tablespaces=["space"]).init().start()
        cluster.psql(f"CREATE TABLESPACE space LOCATION '{cluster.home}/space'")
        tablespace = f"pg_tblspc/{cluster.psql('SELECT max(oid) FROM pg_tablespace')}"
        cluster.stop()
        for command in ["seal", "rekey", "unseal"]:
            key = [] if command == "unseal" else PLAIN_KEY
            for name in [tablespace, "pg_wal", "pg_xact"]:
                place = (cluster.data / name).resolve()
                place.rename(self.directory / "away")
                (place / "lost+found").mkdir(parents=True)
                sentence = f"{name} does not contain this cluster's files: mount the right file system"
                self.refused(command, cluster, 1, sentence, *key)
                if command == "rekey" and name == tablespace:
                    bad = self.verify(cluster, 1)["bad"]
                    self.assertEqual([(found["file"], found["reason"]) for found in bad],
                                     [(tablespace, "contains no directory of this cluster: mount the right file system")])
                shutil.rmtree(place)
                (self.directory / "away").rename(place)
            self.convert(command, cluster, *key)

    def test_two_places_that_are_one(self):
        cluster = self.plain()
        (cluster.data / "pg_stat_tmp").rmdir()
        (cluster.data / "pg_stat_tmp").symlink_to("pg_stat")
        self.refused("seal", cluster, 1, "pg_stat and pg_stat_tmp are the same file: remove one of the names", *PLAIN_KEY)

    def test_files_that_are_not_postgresqls(self):
        cluster = self.plain()
        wal = "000000010000000000000001"
        archive = "cannot be converted: an archive of WAL keeps the bytes that it was given: move it out of the data directory"
        clear = "is not encrypted, so no sealed server wrote it: move it out of the data directory"
        foreign = "is not a file of PostgreSQL: move it out of the data directory"
        for command in ["seal", "rekey", "unseal"]:
            key = [] if command == "unseal" else PLAIN_KEY
            for name, said in [(f"pg_wal/archive/{wal}", archive), (f"base/archive/{wal}.partial", archive),
                               ("pg_xlog/note", foreign if command == "seal" else clear)]:
                path = cluster.data / name
                path.parent.mkdir()
                path.write_text("other people's words " * 500)
                done = self.convert(command, cluster, *key, "--check", code=1)
                self.assertIn(f"blocker: {name} {said}\n", done.stdout)
                self.assertEqual(self.convert(command, cluster, *key, code=1).stderr.count("\n"), 1)
                self.assertEqual(path.read_text(), "other people's words " * 500)
                shutil.rmtree(path.parent)
            self.convert(command, cluster, *key)

    def test_what_may_not_be_read_or_written(self):
        cluster = self.plain()
        stray, directory = cluster.data / "base/5/stray", cluster.data / "base/mine"
        stray.touch(mode=0)
        self.refused_unread(cluster, stray, "base/5/stray cannot be read by this user: give it the server's owner and "
                            "mode, or move it away")
        stray.unlink()
        directory.mkdir()
        (directory / "note").write_text("x")
        directory.chmod(0o500)
        self.addCleanup(directory.chmod, 0o700)
        self.refused("seal", cluster, 1, "files in base/mine cannot be replaced by this user: give the directory the "
                     "server's owner and mode, or move it away", *PLAIN_KEY)

    def refused_unread(self, cluster, stray, sentence):
        """As refused(), beside a file that the test cannot read either."""
        before = sorted(path for path in cluster.data.rglob("*"))
        done = self.convert("seal", cluster, *PLAIN_KEY, "--check", code=1)
        self.assertIn(f"blocker: {sentence}\n", done.stdout)
        done = self.convert("seal", cluster, *PLAIN_KEY, code=1)
        self.assertEqual(done.stderr, f"pgseal: {cluster.data}: {sentence}\n")
        self.assertEqual(sorted(path for path in cluster.data.rglob("*")), before)

    def test_key_directories_of_the_operators_own_making(self):
        cluster = self.plain()
        for command in ["seal", "rekey", "unseal"]:
            key = [] if command == "unseal" else PLAIN_KEY
            for name in ["pg_encryption.old", "pg_encryption.new"]:
                own = cluster.data / name
                own.mkdir()
                for file in ["key.bin", "pgseal.toml"]:
                    (own / file).write_text("mine")
                self.refused(command, cluster, 1, f"{own} was not made by a conversion: move it away", *key)
                shutil.rmtree(own)
            self.convert(command, cluster, *key)

    def test_no_data_directory(self):
        cluster = self.cluster("none", sealed=False)
        cluster.data.mkdir()
        done = self.convert("seal", cluster, *PLAIN_KEY, code=2)
        sentence = "is not a data directory: it has no PG_VERSION; give one with -D"
        self.assertEqual(done.stderr, f"pgseal: {cluster.data} {sentence}\n")

    def test_two_at_once(self):
        cluster = self.plain()
        directory = os.open(cluster.data, os.O_RDONLY)
        self.addCleanup(os.close, directory)
        fcntl.flock(directory, fcntl.LOCK_EX)
        for check in [[], ["--check"]]:
            done = self.convert("seal", cluster, *PLAIN_KEY, *check, code=9)
            self.assertEqual(done.stderr, f"pgseal: another pgseal is converting {cluster.data}: wait until it has finished\n")

    def test_a_server_that_starts_meanwhile(self):
        """While a conversion works no server starts, with PostgreSQL's own reason, and pg_ctl does not stop it."""
        cluster = self.plain()
        calls = self.directory / "calls"
        stop = ["strace", "-qq", "-o", calls, "-e", "trace=fsync", "-e", "inject=fsync:signal=STOP:when=4"]
        command = [*stop, PGSEAL, "seal", "-D", cluster.data, "--jobs=1", *PLAIN_KEY]
        sealing = subprocess.Popen(command, env=base_environment(), start_new_session=True)
        self.addCleanup(sealing.wait)
        pid = self.stopped(cluster, calls)
        self.addCleanup(end, pid)
        self.assertEqual(cluster.try_start(), 1)
        self.assertIn('FATAL:  lock file "postmaster.pid" already exists', cluster.log())
        done = cluster.run("pg_ctl", "stop", "-D", cluster.data, check=False)
        self.assertIn("single-user server is running", done.stderr)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(sealing.wait(TIME_LIMIT), 0)
        become(cluster, sealed=True)
        cluster.start().stop()

    def stopped(self, cluster, calls):
        """The process of the conversion, when strace says that it has been stopped."""
        eventually(lambda: calls.exists() and "stopped by SIGSTOP" in calls.read_text(), "the conversion does not come to its fourth fsync")
        return -int((cluster.data / "postmaster.pid").read_text().split()[0])


def end(pid):
    """Ends a process, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main(__file__)
