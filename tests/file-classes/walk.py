"""Walks a data directory and asks the table of file classes for every file (used by the tests of this directory)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import STAGE, files_below, run

CLASSIFY = "target/debug/examples/classify"


class Walk:
    """What was met so far: unknown paths, and every row with the classes and one path that it named."""

    def __init__(self):
        self.unknown = set()
        self.rows = {}

    def look(self, data):
        paths = "\n".join(sorted(str(file.relative_to(data)) for file in files_below(data)))
        for line in run([STAGE / CLASSIFY], input=paths).stdout.splitlines():
            path, row, _ = line.split("\t")
            if row:
                self.rows.setdefault(row, path)
            else:
                self.unknown.add(path)
