"""Files that are cut or emptied by name: no other bytes are lost than those that the caller may cut off.

A server is judged by the file that its name leads to, so its process cuts by a descriptor. A file that cannot be opened, because
descriptors run out, keeps its bytes: PostgreSQL closes another file and tries again.
"""

import os
import pathlib
import shutil
import tempfile
import unittest

import sealed_run
from sealed_run import compile_program, lines, make_root

MASTER = bytes(range(32))
MOST_LEFT = 8
CUT = 1234
WHOLE, EMPTY = "5000 bytes", "0 bytes"
SEGMENT = "pg_wal/000000010000000000000001"


class Emptying(unittest.TestCase):
    """One sealed directory, and a program in it."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name).resolve()
        self.root = make_root(self.scratch / "data", MASTER)
        self.program = compile_program("emptying", "plain", self.scratch)

    def run_here(self, program, *arguments, key_files=()):
        return sealed_run.run(program, arguments, self.root, {self.root: MASTER}, key_files=key_files)[0]


class CutByAServer(Emptying):
    """The library takes a program for a server by its name."""

    def setUp(self):
        super().setUp()
        self.server = self.scratch / "bin/postgres"
        self.server.parent.mkdir()
        shutil.copy(self.program, self.server)
        self.bytes = os.urandom(3 * 8192 + 5)
        self.source = self.scratch / "source"
        self.source.write_bytes(self.bytes)

    def cut(self, path, key_files=()):
        """The answer to a server that cuts what `path` leads to."""
        done = self.run_here(self.server, "cut", path, str(CUT), key_files=key_files)
        return lines(done)["cut/answer"]

    def put(self, path):
        self.run_here("/bin/cp", self.source, path)

    def read(self, path):
        """The clear bytes."""
        self.run_here("/bin/cp", path, self.scratch / "copy")
        return (self.scratch / "copy").read_bytes()

    def test_a_clear_file(self):
        self.put("postgresql.conf")
        self.assertEqual(self.cut("postgresql.conf"), "0")
        self.assertEqual((self.root / "postgresql.conf").read_bytes(), self.bytes[:CUT])

    def test_a_sealed_file_by_its_name_and_by_a_link(self):
        for path in ["base/5/16384", "pg_stat/x.stat"]:
            link = self.scratch / path.rsplit("/")[-1]
            link.symlink_to(self.root / path)
            for name in [path, link]:
                with self.subTest(path, name=name):
                    self.put(path)
                    self.assertEqual(self.cut(name), "0")
                    self.assertEqual(self.read(path), self.bytes[:CUT])

    def test_what_opens_the_key_by_any_name(self):
        """It is in clear, and a name does not tell it from other files."""
        key_file = self.scratch / "passphrase"
        names = [key_file, self.scratch / "link", self.scratch / "other name"]
        key_file.write_bytes(self.bytes)
        names[1].symlink_to(key_file)
        names[2].hardlink_to(key_file)
        for name in names:
            with self.subTest(name.name):
                self.assertEqual(self.cut(name, [key_file]), "-1 EACCES")
                self.assertEqual(key_file.read_bytes(), self.bytes)
        self.assertEqual(self.cut(key_file), "0")

    def test_a_clear_file_where_postgresql_has_none(self):
        """A server opens it for reading only."""
        foreign = self.root / "of_an_extension/file"
        foreign.parent.mkdir()
        foreign.write_bytes(self.bytes)
        self.assertEqual(self.cut(foreign), "-1 EINVAL")
        self.assertEqual(foreign.read_bytes(), self.bytes)


class EmptiedWithoutDescriptors(Emptying):
    """A call that fails leaves the file as it was, whatever the library had opened before."""

    def test_a_file_that_is_not_opened_is_not_emptied(self):
        for path in ["base/5/16384", "pg_stat/x.stat", SEGMENT, "postgresql.conf"]:
            for call in ["open", "creat", "fopen"]:
                with self.subTest(path, call=call):
                    found = lines(self.run_here(self.program, "open", path, call))
                    answers = [found[f"{left} left/answer"] for left in range(MOST_LEFT + 1)]
                    sizes = [found[f"{left} left/contents"].rsplit(" ", 1)[0] for left in range(MOST_LEFT + 1)]
                    self.assertEqual(sizes, [EMPTY if answer == "open" else WHOLE for answer in answers])
                    self.assertEqual((answers[0], answers[-1]), ("EMFILE", "open"))
                    # No other error is told: PostgreSQL tries again after this one alone.
                    self.assertLessEqual(set(answers), {"EMFILE", "open"})

    def test_a_stream_that_replaces_another(self):
        """The policy decides, on the file that the name leads to: a protected one stays as it was."""
        link = self.scratch / "link"
        link.symlink_to(self.root / "base")
        refused = ["base/5/16384", link / "5/16384", SEGMENT]
        expected = {**dict.fromkeys(refused, "EOPNOTSUPP"), "postgresql.conf": "open"}
        for path, answer in expected.items():
            with self.subTest(path):
                found = lines(self.run_here(self.program, "open", path, "freopen"))
                self.assertEqual(found[f"{MOST_LEFT} left/answer"], answer)
                for left in range(MOST_LEFT + 1):
                    size = found[f"{left} left/contents"].rsplit(" ", 1)[0]
                    self.assertEqual(size, EMPTY if found[f"{left} left/answer"] == "open" else WHOLE)

    def test_more_streams_than_can_be_open(self):
        """No stream is left for a protected file, which is not opened then. A clear one needs none."""
        for path, answer in [("base/5/16384", "EMFILE"), ("pg_stat/x.stat", "EMFILE"), ("postgresql.conf", "open")]:
            with self.subTest(path):
                found = lines(self.run_here(self.program, "streams", path, "pg_stat/other.stat"))
                self.assertEqual(found["streams/some are open"], "1")
                self.assertEqual(found["streams/answer"], answer)
                size = found["streams/contents"].rsplit(" ", 1)[0]
                self.assertEqual(size, EMPTY if answer == "open" else WHOLE)


if __name__ == "__main__":
    unittest.main()
