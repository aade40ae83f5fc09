#!/usr/bin/env python3
"""Reads that race writes at any alignment see blocks of 16 bytes whole: a half-old block would decrypt to noise.

Pages (measured without the library: one torn page in four has a split block at 8 mod 16), and the flush boundary of WAL. Writer and reader are Python programs in which the library acts, on a sealed cluster's file names.
"""

import os
import sys
import time
from pathlib import Path

PAGE = 8192
# How long at least, and at most where other programs leave the two no processor at one time.
SECONDS, MOST_SECONDS = 4, 60


def write_pages(path):
    """One page, over and over, all A or all B."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    while True:
        os.pwrite(file, b"A" * PAGE, 0)
        os.pwrite(file, b"B" * PAGE, 0)


def read_pages(path):
    """Counts torn pages; prints the first block that is neither old nor new."""
    file = os.open(path, os.O_RDONLY)
    memory = bytearray(PAGE + 64)
    torn, start, whole = 0, time.monotonic(), {b"A" * 16, b"B" * 16}
    while time.monotonic() < start + (SECONDS if torn else MOST_SECONDS):
        for misalignment in (0, 8, 5, 13):
            view = memoryview(memory)[misalignment : misalignment + PAGE]
            assert os.preadv(file, [view], 0) == PAGE
            blocks = {bytes(view[at : at + 16]) for at in range(0, PAGE, 16)}
            if not blocks <= whole:
                print("split", misalignment, (blocks - whole).pop())
                return
            torn += len(blocks) == 2
    print("torn" if torn else "never raced")


def write_letters(path, *letters):
    """One page, over and over, all of one letter and all of the other; or once, of one."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    while True:
        for letter in letters:
            os.pwrite(file, letter.encode() * PAGE, 0)
        if len(letters) == 1:
            return


def split_blocks(stored, first, second):
    """How many blocks are neither the first nor the second, and whether there are some of both."""
    blocks = [(stored[at : at + 16], first[at : at + 16], second[at : at + 16]) for at in range(0, PAGE, 16)]
    olds = sum(block == old for block, old, _ in blocks)
    news = sum(block == new for block, _, new in blocks)
    return PAGE // 16 - olds - news, olds > 0 and news > 0


def read_stored(path, first, second):
    """What is stored, read at any alignment: counts torn pages; prints how many blocks are neither."""
    first, second = Path(first).read_bytes(), Path(second).read_bytes()
    file = os.open(path, os.O_RDONLY)
    memory = bytearray(PAGE + 64)
    torn, start = 0, time.monotonic()
    while time.monotonic() < start + (SECONDS if torn else MOST_SECONDS):
        for misalignment in (8, 5):
            view = memoryview(memory)[misalignment : misalignment + PAGE]
            assert os.preadv(file, [view], 0) == PAGE
            split, both = split_blocks(bytes(view), first, second)
            if split:
                print("split", misalignment, split)
                return
            torn += both
    print("torn" if torn else "never raced")


def write_wal(path, steps_path):
    """Pages that grow by 8 bytes, as WAL is flushed, and begin anew when full; then counts the steps that are durable."""
    file, steps_file = os.open(path, os.O_RDWR), os.open(steps_path, os.O_RDWR | os.O_CREAT)
    steps = 0
    while True:
        steps += 1
        length = steps * 8 % PAGE
        os.pwrite(file, b"W" * length + bytes(PAGE - length), 0)
        os.pwrite(steps_file, steps.to_bytes(8, "little"), 0)


def read_wal(path, steps_path):
    """What was durable before a read must be in it, unless the page has begun anew."""
    file, steps_file = os.open(path, os.O_RDONLY), os.open(steps_path, os.O_RDONLY)
    start, reads = time.monotonic(), 0
    while time.monotonic() < start + (SECONDS if reads > 100 else MOST_SECONDS):
        before = int.from_bytes(os.pread(steps_file, 8, 0), "little")
        length = before * 8 % PAGE
        content = os.pread(file, length, 0)
        after = int.from_bytes(os.pread(steps_file, 8, 0), "little")
        if (after + 1) * 8 // PAGE != before * 8 // PAGE:
            continue
        if content != b"W" * length:
            print("lost", length, len(content.rstrip(b"W")))
            return
        reads += after > before
    print("raced" if reads > 100 else "never raced")


if len(sys.argv) > 2 and sys.argv[1] == "--role":
    globals()[sys.argv[2]](*sys.argv[3:])
    sys.exit()

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import io
import subprocess
import tarfile

from pgseal_test import PGSEAL, Case, base_environment, main
from waiting import eventually


class Race(Case):
    def setUp(self):
        super().setUp()
        self.sealed = self.cluster().init()

    def role(self, name, *arguments):
        environment = {**base_environment(), "PGSEAL_PROGRAMS": os.path.basename(os.path.realpath(sys.executable))}
        command = [PGSEAL, "exec", "-D", self.sealed.data, "--", sys.executable, __file__, "--role", name, *arguments]
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE)

    def race(self, writer, reader, *arguments):
        writing = self.role(writer, *arguments)
        self.wait_for_bytes(arguments[-1], writing)
        reading = self.role(reader, *arguments)
        answer = reading.communicate()[0]
        writing.kill()
        writing.communicate()
        return answer

    def wait_for_bytes(self, path, writing):
        """The file that the writer makes last has something in it."""
        eventually(lambda: path.exists() and path.stat().st_size, process=writing)

    def test_pages(self):
        file = self.sealed.data / "base/5/99999"
        self.assertEqual(self.race("write_pages", "read_pages", file), "torn\n")
        self.assertNotIn(b"A" * 16, file.read_bytes())

    def stored_forms(self, name):
        """A file of this name, once all A and once all B, and files with what is stored then."""
        path, forms = self.sealed.data / name, []
        for letter in "AB":
            self.role("write_letters", path, letter).communicate()
            forms.append(self.directory / letter)
            forms[-1].write_bytes(path.read_bytes())
        return path, forms

    def test_pages_without_images_in_a_copy_of_what_is_stored(self):
        """In the views of programs that copy files."""
        views = [("pg_xact/0400", "--view=stored"), ("base/5/99998_vm", f"--view=backup -D {self.sealed.data}")]
        for name, view in views:
            path, forms = self.stored_forms(name)
            writing = self.role("write_letters", path, "A", "B")
            command = [PGSEAL, "exec", *view.split(), "--", sys.executable, __file__, "--role", "read_stored", path, *forms]
            answer = subprocess.run(command, env=base_environment(), text=True, stdout=subprocess.PIPE).stdout
            writing.kill()
            writing.communicate()
            self.assertEqual(answer, "torn\n", name)

    def test_pages_without_images_in_a_raw_base_backup(self):
        path, forms = self.stored_forms("pg_xact/0400")
        first, second = (form.read_bytes() for form in forms)
        names = [f"pg_xact/04{i:02X}" for i in range(64)]
        for name in names[1:]:
            (self.sealed.data / name).hardlink_to(path)
        self.sealed.start()
        writing = self.role("write_letters", path, "A", "B")
        raw = [self.sealed.pg / "pg_basebackup", "-D", "-", "-F", "tar", "-X", "none", "-c", "fast", "--no-verify-checksums",
               "--no-manifest", "-d", f"host={self.sealed.home} user=postgres options='-c pgseal.receiver=raw'"]
        torn, start = 0, time.monotonic()
        while time.monotonic() < start + (3 * SECONDS if torn else MOST_SECONDS):
            done = subprocess.run(raw, env=base_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 0, done.stderr)
            with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
                found = [split_blocks(tar.extractfile(name).read(), first, second) for name in names]
            self.assertEqual(sum(split for split, _ in found), 0)
            torn += sum(both for _, both in found)
        writing.kill()
        writing.communicate()
        self.assertGreater(torn, 0)

    def test_growing_wal(self):
        file = self.sealed.data / "pg_wal/000000010000000000000001"
        self.assertEqual(self.race("write_wal", "read_wal", file, self.directory / "steps"), "raced\n")
        self.assertNotIn(b"W" * 16, file.read_bytes())


if __name__ == "__main__":
    main(__file__)
