"""A sealed data directory in the hands of programs that know no key: PostgreSQL's own, without the library.

They stop at the control file's checksum, or say that it is wrong; not one byte changes, and no canary shows.
"""

import signal

from bad_input import LIBRARY, PG, WRONG_CONTROL_FILE, BadInput, contents, run
from pgseal_test import main, major_version


class WithoutLibrary(BadInput):
    def setUp(self):
        super().setUp()
        self.sealed, self.canaries = self.filled()
        self.before = contents(self.sealed.data)

    def after(self):
        self.assert_untouched(self.sealed.data, self.before)
        self.assert_readable(self.sealed, self.canaries)

    def stock(self, program, *arguments):
        return run([PG / program, *arguments, "-D", self.sealed.data], {"LC_ALL": "C"}, check=False)

    def test_the_server_stops_at_the_control_file(self):
        self.assert_ended(self.stock("postgres"), 1, WRONG_CONTROL_FILE)
        self.after()

    def test_single_user_mode_stops_at_the_control_file(self):
        done = run([PG / "postgres", "--single", "-D", self.sealed.data, "postgres"], check=False, input="SELECT 1\n")
        self.assert_ended(done, 1, WRONG_CONTROL_FILE)
        self.after()

    def test_pg_ctl_reports_that_the_server_did_not_start(self):
        log = self.sealed.home / "stock.log"
        done = self.stock("pg_ctl", "start", "-w", "-l", log)
        if major_version() < 18:
            self.assert_ended(done, 1, "could not start server")
            self.assertRegex(log.read_text(), WRONG_CONTROL_FILE)
        else:
            self.assert_ended(done, 1, "pg_ctl: control file appears to be corrupt")
        self.after()

    def test_pg_checksums_stops_at_the_control_file(self):
        for mode in ["--check", "--enable", "--disable"]:
            with self.subTest(mode):
                self.assert_ended(self.stock("pg_checksums", mode), 1, "pg_control CRC value is incorrect")
        self.after()

    def test_pg_controldata_warns(self):
        done = self.stock("pg_controldata")
        crc = r"(?i)warning: calculated CRC checksum does not match value stored in (control )?file"
        self.assertRegex(done.stdout + done.stderr, crc)
        self.assertEqual(done.returncode, 0)
        self.after()

    def test_pg_resetwal_only_guesses(self):
        done = self.stock("pg_resetwal", "--dry-run")
        self.assertRegex(done.stdout, "Guessed pg_control values:")
        self.assertEqual(done.returncode, 0)
        done = self.stock("pg_resetwal")
        self.assertRegex(done.stdout + done.stderr, r"use (-f|-f/--force|--force) to (force|proceed)|-f")
        self.assertEqual(done.returncode, 1)
        self.after()

    def test_pg_waldump_finds_no_wal(self):
        done = run([PG / "pg_waldump", "-p", self.sealed.data / "pg_wal", "-s", "0/1000028"], check=False)
        self.assert_ended(done, 1, r"pg_waldump: error: ")
        self.assertEqual(done.stdout, "")
        self.after()

    def test_a_library_that_the_loader_drops_leaves_a_server_without_keys(self):
        """ld.so only warns when it cannot load a preload; set by hand, nothing else is before the server."""
        library = LIBRARY.read_bytes()
        for name, content, mode in [("missing", None, 0), ("no_elf", b"hello", 0o644), ("unreadable", library, 0)]:
            with self.subTest(name):
                done = self.preloaded_by_hand(name, content, mode)
                self.assert_ended(done, 1, r"from LD_PRELOAD cannot be preloaded", WRONG_CONTROL_FILE)
        self.after()

    def test_the_loader_dies_of_a_cut_library(self):
        done = self.preloaded_by_hand("cut", LIBRARY.read_bytes()[:65536], 0o644)
        self.assertIn(done.returncode, [-signal.SIGBUS, -signal.SIGSEGV])
        self.after()

    def preloaded_by_hand(self, name, content, mode):
        """Runs the real server with a file of this content in LD_PRELOAD."""
        path = self.directory / f"{name}.so"
        if content is not None:
            path.write_bytes(content)
            path.chmod(mode)
        return self.postgres(self.sealed, program=PG / "postgres", environment={"LD_PRELOAD": str(path)})


if __name__ == "__main__":
    main(__file__)
