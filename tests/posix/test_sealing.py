"""That a path leads to nothing sealed is never remembered, and never looked up too little.

A process opens a file in clear; then its directory becomes a sealed one's, or a sealed one takes its place, or a link leads
there. The next call is sealed, or refused if the key is not there: with `openat2`, and where a container forbids that.
"""

import pathlib
import tempfile
import unittest

from sealed_run import compile_program, make_root, run

MASTER = bytes(range(32))
CALLS = ["open", "openat", "creat", "fopen"]
LOCKED = ("pgseal: {0}/pg_encryption/key.bin is missing: restore it from a copy\n"
          "pgseal: could not unlock the cluster at {0}: nothing in it is opened\n")


class Sealing(unittest.TestCase):
    """What the second call answers, what it says, and what is on the disk."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name).resolve()
        self.program = compile_program("sealing", "plain", self.scratch)

    def check(self, scene, answer, written):
        """`answer` to the second call in each way; `written`: the files that hold its marker in clear, if any."""
        for call in CALLS:
            for without in ([], ["without-openat2"]):
                with self.subTest(scene, call=call, without=without), tempfile.TemporaryDirectory(dir=self.scratch) as name:
                    home = pathlib.Path(name)
                    make_root(home / "data")
                    sealed = make_root(home / "sealed", MASTER)
                    (sealed / "base/5/7").touch()
                    stdout, stderr = run(self.program, [scene, call, *without], home, {sealed: MASTER})
                    self.assertEqual(stdout, f"{scene}/before: open\n{scene}/after: {answer}\n")
                    self.assertEqual(stderr, LOCKED.format(home / "data") if answer == "EIO" else "")
                    self.assertEqual(self.holding(home, b"clear-after-marker"), written)

    @staticmethod
    def holding(home, marker):
        """Files that hold these bytes."""
        files = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
        return [str(path.relative_to(home)) for path in files if marker in path.read_bytes()]

    def test_created(self):
        """As when `pgseal seal` or an initdb of another process comes to its end."""
        self.check("created", "EIO", [])

    def test_created_where_the_process_stands(self):
        """Relative names, as the server uses them."""
        self.check("created where we stand", "EIO", [])

    def test_created_above(self):
        """A data directory within another: below the outer one its files are nobody's, and stay clear."""
        self.check("created above", "open", ["data/base/5/7"])

    def test_exchanged(self):
        """A sealed directory takes the plain one's name."""
        self.check("exchanged", "EIO", [])

    def test_working_directory_changed(self):
        """The same relative name, elsewhere; the key is there."""
        self.check("changed to", "open", [])

    def test_links(self):
        """A link takes the place of a directory on the way, or of the file."""
        self.check("directory linked", "open", [])
        self.check("file linked", "open", [])

    def test_links_that_hang(self):
        """The file that a link leads to, over another link, is made by the call."""
        self.check("link hangs", "open", [])

    def test_an_open_stays_at_the_top_of_the_stack(self):
        """Every page that it touches is one more for each new process of the server to copy: paths are long."""
        program = compile_program("depth", "plain", self.scratch)
        sealed = make_root(self.scratch / "sealed", MASTER)
        for path in ["base/5/7", "postgresql.conf", self.scratch / "outside"]:
            with self.subTest(path):
                stdout, _ = run(program, [path], sealed, {sealed: MASTER})
                self.assertLess(int(stdout), 4 * 4096)


if __name__ == "__main__":
    unittest.main()
