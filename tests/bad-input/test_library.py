"""Sealed execution that cannot be guaranteed: the twins refuse to start anything, with exit code 8 and one sentence."""

import shutil

from bad_input import STAGE, WRONG_CONTROL_FILE, BadInput, contents, run
from own_library import OwnLibrary
from pgseal_test import main


class SpoiltLibrary(OwnLibrary):
    def test_missing(self):
        self.library.unlink()
        self.assert_nothing_starts(r"libpgseal\.so is not beside pgseal .*: install it in \.\./lib, or set PGSEAL_LIBRARY")

    def test_a_link_to_nothing(self):
        self.library.unlink()
        self.library.symlink_to("gone.so")
        self.assert_nothing_starts(r"libpgseal\.so is not beside pgseal .*: install it in \.\./lib, or set PGSEAL_LIBRARY")

    def test_mode_000(self):
        self.library.chmod(0)
        self.assert_nothing_starts(r"libpgseal\.so cannot be read \(Permission denied.*\): check its owner and mode")

    def test_empty(self):
        self.library.write_bytes(b"")
        self.assert_nothing_starts(r"libpgseal\.so is not a shared library of this machine: install pgseal again")

    def test_not_elf(self):
        self.library.write_text("#!/bin/sh\nexit 0\n")
        self.assert_nothing_starts(r"libpgseal\.so is not a shared library of this machine: install pgseal again")

    def test_another_machine(self):
        elf = bytearray(self.library.read_bytes())
        elf[18:20] = (40).to_bytes(2, "little")  # e_machine: 32-bit ARM
        self.library.write_bytes(elf)
        self.assert_nothing_starts(r"libpgseal\.so is not a shared library of this machine: install pgseal again")

    def test_cut(self):
        whole = self.library.read_bytes()
        for size in [64, 4096, len(whole) // 2, len(whole) - 1]:
            with self.subTest(size=size):
                self.library.write_bytes(whole[:size])
                self.assert_nothing_starts(r"libpgseal\.so is not a shared library of this machine: install pgseal again")

    def test_a_directory(self):
        self.library.unlink()
        self.library.mkdir()
        self.assert_nothing_starts(r"libpgseal\.so (cannot be read|is not a shared library)")

    def test_what_the_loader_drops(self):
        """For whatever reason: here for a kind of system that it does not know. What makes a cluster is asked before it
        writes anything; a server finds nothing that it can read."""
        elf = bytearray(self.library.read_bytes())
        elf[7] = 200  # e_ident[EI_OSABI]
        self.library.write_bytes(elf)
        dropped = r"{} runs without libpgseal\.so, so it would write in clear \(ERROR: ld\.so: .* ignored\.\): see that this .*"
        new = self.directory / "new"
        done = self.twin("initdb", "--data-encryption=256", "--no-key-wrap", "-D", new)
        self.assert_refused(done, 8, dropped.format("initdb"))
        self.assertFalse(new.exists())
        self.assert_said_by_bindir_and_doctor(dropped.format("(postgres|pgseal)"))
        before = contents(self.sealed.data)
        self.assert_ended(self.postgres(self.sealed, program=self.twins / "postgres"), 1, WRONG_CONTROL_FILE)
        self.assert_untouched(self.sealed.data, before)

    def test_a_place_that_ld_preload_cannot_name(self):
        spaced = self.directory / "a b"
        shutil.move(self.dist, spaced)
        self.assert_refused(run([spaced / "bin/pgseal", "exec", "--", "true"], check=False), 8,
                            r"contains a space or colon, which LD_PRELOAD cannot contain: install pgseal elsewhere")


class UnfitProgram(BadInput):
    def test_a_set_uid_program(self):
        program = self.directory / "copy"
        shutil.copy("/bin/true", program)
        program.chmod(0o4755)
        done = run([STAGE / "dist/bin/pgseal", "exec", "--", program], check=False)
        self.assert_refused(done, 8, r"copy is set-uid or set-gid, so the library is not loaded: use a copy without these bits")


if __name__ == "__main__":
    main(__file__)
