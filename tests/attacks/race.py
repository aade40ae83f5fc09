#!/usr/bin/env python3
"""Reads that race writes at any alignment see blocks of 16 bytes whole: a half-old block would decrypt to noise.

io-paths.md A4 (pages, measured in plain: one torn page in four has a split block at 8 mod 16), A5 (the flush boundary of
WAL). Writer and reader are Python programs in which the library acts, on a sealed cluster's file names.
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

import subprocess

from pgseal_test import PGSEAL, TIME_LIMIT, Case, base_environment, main


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
        deadline = time.monotonic() + TIME_LIMIT / 3
        while not (path.exists() and path.stat().st_size):
            self.assertIsNone(writing.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_pages(self):
        file = self.sealed.data / "base/5/99999"
        self.assertEqual(self.race("write_pages", "read_pages", file), "torn\n")
        self.assertNotIn(b"A" * 16, file.read_bytes())

    def test_growing_wal(self):
        file = self.sealed.data / "pg_wal/000000010000000000000001"
        self.assertEqual(self.race("write_wal", "read_wal", file, self.directory / "steps"), "raced\n")
        self.assertNotIn(b"W" * 16, file.read_bytes())


if __name__ == "__main__":
    main(__file__)
