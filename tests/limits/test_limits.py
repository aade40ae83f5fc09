#!/usr/bin/env python3
"""What cannot work is refused with one clear sentence, and nothing is changed by the attempt.

Elsewhere: an archive of another key (tests/archive/test_other_key.py).
"""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Canaries, Case, main, run  # noqa: E402


class Limits(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()
        self.secret = self.directory / "secret"
        self.secret.write_text("the passphrase\n")
        self.primary = self.cluster("primary", key=(f"--key-passphrase-file={self.secret}",),
                                    environment={"PGSEAL_PASSPHRASE_FILE": str(self.secret)}).init().start()
        self.primary.psql(f"CREATE TABLE t AS SELECT '{self.canaries['row']}' AS word")
        self.primary.stop()

    def copy(self, name, **environment):
        """A copy on another machine: another environment."""
        copy = self.cluster(name, environment=environment)
        run(["cp", "-a", self.primary.data, copy.data])
        copy.configure(f"unix_socket_directories = '{copy.home}'")
        return copy

    def refuse(self, cluster, code, sentence):
        """The server does not start, says one sentence, and has changed nothing."""
        before = self.contents(cluster.data)
        start = len(cluster.log()) if cluster.log_file.exists() else 0
        self.assertEqual(cluster.try_start(), code)
        said = cluster.log()[start:]
        self.assertRegex(said, rf"\Apgseal: [^\n]*{sentence}[^\n]*\n\Z")
        self.assertEqual(self.contents(cluster.data), before)

    def contents(self, directory):
        return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}

    def test_a_copy_without_its_key(self):
        """A base backup, or a standby, whose key directory was left out."""
        for signal in ["", "recovery.signal", "standby.signal"]:
            with self.subTest(signal):
                copy = self.copy("copy" + signal[:1])
                shutil.rmtree(copy.data / "pg_encryption")
                if signal:
                    (copy.data / signal).touch()
                self.refuse(copy, 5, r"is sealed but has no pg_encryption: restore pg_encryption from the cluster or backup that")

    def test_a_standby_whose_key_cannot_be_unwrapped(self):
        """It has the key file, but not the passphrase; then it has a wrong one."""
        copy = self.copy("copy", PGSEAL_PASSPHRASE_FILE=str(self.directory / "nothing"))
        (copy.data / "standby.signal").touch()
        self.refuse(copy, 6, r"key.bin: .*/nothing")
        wrong = self.directory / "wrong"
        wrong.write_text("another passphrase\n")
        copy.environment["PGSEAL_PASSPHRASE_FILE"] = str(wrong)
        self.refuse(copy, 7, r"key.bin: .*passphrase")
        copy.environment["PGSEAL_PASSPHRASE_FILE"] = str(self.secret)
        copy.start()
        self.assertEqual(copy.psql("SELECT word FROM t"), self.canaries["row"])

    def test_a_standby_with_a_key_of_its_own_and_the_files_of_its_primary(self):
        """Its key opens, but is not the one that its files are under."""
        copy, other = self.copy("copy"), self.cluster("other").init()
        shutil.rmtree(copy.data / "pg_encryption")
        shutil.copytree(other.data / "pg_encryption", copy.data / "pg_encryption")
        (copy.data / "standby.signal").touch()
        self.refuse(copy, 7, r"pg_control is damaged, or the key in .* is another cluster's: restore this cluster's own")

    def test_a_sealed_copy_under_the_stock_server(self):
        """It stops at the control file, in PostgreSQL's words, before it writes anything."""
        copy = self.copy("copy")
        copy.bindir = copy.pg
        before = self.contents(copy.data)
        self.assertEqual(copy.try_start(), 1)
        self.assertIn("FATAL:  incorrect checksum in control file", copy.log())
        self.assertEqual(self.contents(copy.data), before)

    def test_an_archive_of_another_cluster(self):
        """Of a plain one, whose segments could be read, and of a sealed one. Neither is taken for the end of the archive."""
        for sealed in (False, True):
            with self.subTest(sealed=sealed):
                kind = "sealed" if sealed else "plain"
                archive = self.directory / kind
                archive.mkdir()
                conf = f"archive_mode = on\narchive_command = 'cp %p {archive}/%f'\n"
                other = self.cluster("other" + kind, sealed=sealed, conf=conf).init().start()
                other.psql("CREATE TABLE t AS SELECT 1; SELECT pg_switch_wal()")
                other.stop()
                copy = self.copy("copy" + kind, PGSEAL_PASSPHRASE_FILE=str(self.secret))
                copy.configure(f"restore_command = '{PGSEAL} wal-get --from {archive} %f %p'")
                (copy.data / "recovery.signal").touch()
                self.assertEqual(copy.try_start(), 1)
                sentence = "give the key file of the cluster that archived it with --key-file-name" if sealed else "use this cluster's archive"
                self.assertEqual(len(re.findall(rf"^pgseal: .*{sentence}$", copy.log(), re.M)), 1, copy.log())
                self.assertIn("exit code 207", copy.log())


if __name__ == "__main__":
    main(__file__)
