"""The library on a file system from which no program loads it: nothing is started, and nothing written in clear."""

from bad_input import run
from own_library import OwnLibrary
from small_disk import main, needs_mounts


class Noexec(OwnLibrary):
    @needs_mounts
    def test_a_noexec_mount(self):
        """The loader maps nothing from there, says so, and runs the program."""
        whole = self.library.read_bytes()
        run(["mount", "-t", "tmpfs", "-o", "noexec,size=64m,mode=755", "none", self.library.parent])
        self.addCleanup(run, ["umount", "--lazy", self.library.parent])
        self.library.write_bytes(whole)
        pattern = (r"libpgseal\.so is on a file system that is mounted noexec, so no program can load it: "
                   r"install pgseal elsewhere, or mount that with exec")
        self.assert_nothing_starts(pattern)
        self.assert_said_by_bindir_and_doctor(pattern)


if __name__ == "__main__":
    main(__file__)
