"""Tests that spoil the library: it and the command are a copy of the test's own, with wrappers that run by it."""

import shutil

from bad_input import PG, STAGE, BadInput, contents, run


class OwnLibrary(BadInput):
    def setUp(self):
        super().setUp()
        self.dist = self.directory / "dist"
        shutil.copytree(STAGE / "dist", self.dist)
        self.library = self.dist / "lib/libpgseal.so"
        self.twins = self.directory / "twins"
        run([self.dist / "bin/pgseal", "bindir", "--pg", PG, "--into", self.twins])
        self.sealed, self.canaries = self.filled()

    def assert_nothing_starts(self, pattern):
        """Neither a server on the sealed cluster, nor a tool, nor initdb of a new one."""
        before = contents(self.sealed.data)
        self.assert_refused(self.postgres(self.sealed, program=self.twins / "postgres"), 8, pattern)
        self.assert_refused(self.twin("pg_controldata", self.sealed.data), 8, pattern)
        new = self.directory / "new"
        self.assert_refused(self.twin("initdb", "--data-encryption=256", "--no-key-wrap", "-D", new), 8, pattern)
        self.assertFalse(new.exists())
        done = run([self.dist / "bin/pgseal", "exec", "--", "true"], check=False)
        self.assert_refused(done, 8, pattern)
        self.assert_untouched(self.sealed.data, before)
        self.assert_readable(self.sealed, self.canaries)

    def twin(self, program, *arguments):
        return run([self.twins / program, *arguments], check=False)

    def assert_said_by_bindir_and_doctor(self, pattern):
        into = self.directory / "into"
        self.assert_refused(run([self.dist / "bin/pgseal", "bindir", "--pg", PG, "--into", into], check=False), 8, pattern)
        self.assertFalse(into.exists())
        doctor = run([self.dist / "bin/pgseal", "doctor"], check=False)
        self.assertEqual(doctor.returncode, 1)
        self.assertRegex(doctor.stdout, r"(?m)^WRONG +library: +.*" + pattern)
