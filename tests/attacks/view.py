#!/usr/bin/env python3
"""The view of a backup tool: `pg_control` of the named data directory in clear, and nothing else of it, for the program and its
children; what is written back there is sealed."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, Canaries, Case, main, run

CONTROL = "global/pg_control"


class View(Case):
    def setUp(self):
        super().setUp()
        self.main = self.cluster().init()
        self.stored = (self.main.data / CONTROL).read_bytes()
        self.clear = self.read([PGSEAL, "exec", "--", "dd"], self.main.data / CONTROL)
        self.assertNotEqual(self.clear, self.stored)

    def view(self, script):
        """Runs a shell script in the view of `main`."""
        return run([PGSEAL, "exec", "--view=backup", "-D", self.main.data, "--", "sh", "-euc", script], cwd=self.main.data)

    def read(self, program, file):
        """The file as `program` reads it."""
        copy = self.directory / "copy"
        run([*program, f"if={file}", f"of={copy}", "status=none"])
        return copy.read_bytes()

    def seen(self, file):
        """The file as a child of a program in the view reads it."""
        copy = self.directory / "copy"
        self.view(f"cat {file} > {copy}")
        return copy.read_bytes()

    def test_pg_control_is_clear_and_nothing_else(self):
        canaries = Canaries()
        self.main.start().psql(f"CREATE TABLE t AS SELECT '{canaries['row']}' AS b; CHECKPOINT")
        self.main.stop()
        self.assertEqual(self.seen(CONTROL), self.read([PGSEAL, "exec", "--", "dd"], self.main.data / CONTROL))
        everything = self.directory / "everything"
        self.view(f"cp -a {self.main.data} {everything}")
        for file in self.main.data.rglob("*"):
            if file.is_file() and str(file.relative_to(self.main.data)) != CONTROL:
                copy = everything / file.relative_to(self.main.data)
                self.assertEqual(copy.read_bytes(), file.read_bytes(), file)
        self.assertEqual(canaries.found(everything), {})

    def test_what_is_stored_and_nothing_else(self):
        """Without any key, and with copies by each of the kernel's ways."""
        self.main.start().psql("CREATE TABLE t AS SELECT 1 AS i; VACUUM t; CHECKPOINT")
        self.main.stop()
        key_bin = self.main.data / "pg_encryption/key.bin"
        key_bin.rename(self.directory / "key.bin")
        for name, copy in [("cp", "cp -a"), ("plain", "cp -a --reflink=never --sparse=always"), ("tar", None)]:
            copied = self.directory / name
            copied.mkdir()
            script = f"{copy} . {copied}" if copy else f"tar -cf - . | tar -C {copied} -xf -"
            done = run([PGSEAL, "exec", "--view=stored", "--", "sh", "-euc", script], cwd=self.main.data)
            self.assertEqual(done.stderr, "")
            for file in self.main.data.rglob("*"):
                if file.is_file():
                    self.assertEqual((copied / file.relative_to(self.main.data)).read_bytes(), file.read_bytes(), file)

    def test_programs_of_postgresql_are_no_viewers(self):
        """A script in a view starts them as any other does: they read in clear, and need the key."""
        for view in ["--view=stored"], ["--view=backup", "-D", self.main.data]:
            command = [PGSEAL, "exec", *view, "--", "sh", "-euc", f"{self.main.pg}/pg_controldata {self.main.data}; cp {CONTROL} {{}}"]
            copy = self.directory / view[0]
            command[-1] = command[-1].format(copy)
            done = run(command, cwd=self.main.data)
            self.assertRegex(done.stdout, r"(?m)^Database cluster state: +shut down$")
            self.assertNotIn("CRC", done.stdout + done.stderr)
            self.assertEqual(copy.read_bytes(), self.stored if view == ["--view=stored"] else self.clear)
        key_bin = self.main.data / "pg_encryption/key.bin"
        key_bin.rename(self.directory / "key.bin")
        self.assertNotEqual(run(command, check=False).returncode, 0)

    def test_what_is_written_there_is_sealed(self):
        self.view(f"cp {CONTROL} {self.directory}/clear; cp {self.directory}/clear {CONTROL}")
        self.assertEqual((self.directory / "clear").read_bytes(), self.clear)
        self.assertEqual((self.main.data / CONTROL).read_bytes(), self.stored)

    def test_a_file_moved_there_is_sealed(self):
        self.view(f"cat {CONTROL} > {CONTROL}.tmp; rm {CONTROL}; mv {CONTROL}.tmp {CONTROL}")
        self.assertEqual((self.main.data / CONTROL).read_bytes(), self.stored)
        self.assertFalse((self.main.data / f"{CONTROL}.tmp").exists())

    def test_another_data_directory_is_not_in_view(self):
        other = self.directory / "other"
        shutil.copytree(self.main.data, other)
        self.assertEqual(self.seen(other / CONTROL), self.stored)

    def test_other_spellings_of_the_directory_are(self):
        link = self.directory / "link"
        link.symlink_to(self.main.data)
        for file in (link / CONTROL, self.main.data / "base/.." / CONTROL):
            self.assertEqual(self.seen(file), self.clear)

    def test_a_server_refuses_pg_control_in_clear(self):
        (self.main.data / CONTROL).write_bytes(self.clear)
        self.assertEqual(self.main.try_start(), 8)
        self.assertIn("pg_control is not encrypted, as a backup tool leaves it: restore again", self.main.log())

    def test_wrong_usage(self):
        for options in ([], ["-D", self.main.data, "--passphrase-file=x"], ["-D", self.main.data, "-K", "x"]):
            done = run([PGSEAL, "exec", "--view=backup", *options, "--", "true"], check=False)
            self.assertEqual(done.returncode, 2, options)
        done = run([PGSEAL, "exec", "--view=backup", "-D", "/a:b", "--", "true"], check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/a:b cannot be in view", done.stderr)


if __name__ == "__main__":
    main(__file__)
