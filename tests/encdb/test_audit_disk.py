#!/usr/bin/env python3
"""The disk of the evaluator's audit log fills up: it says so while there is time, and ends when it cannot write."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import TIME_LIMIT  # noqa: E402
from waiting import eventually
from small_disk import fill_up, main, needs_mounts, small_disk  # noqa: E402


@needs_mounts
class AuditDisk(Confidential):
    def told(self, evaluator, words):
        eventually(lambda: words in evaluator.log_file.read_text(), evaluator.log_file.read_text)

    def test_a_disk_that_fills_up(self):
        disk = small_disk(self, self.directory / "disk", 4)
        evaluator = self.evaluator(options=["--log", disk])
        server = self.server(form="isolated", socket=evaluator.socket)
        self.as_owner(server, "SELECT 1;")
        time.sleep(1.5)
        self.assertNotIn("audit log", evaluator.log_file.read_text(), "there is room")
        fill_up(disk, leave=200_000)
        self.as_owner(server, "SELECT 1;")
        self.told(evaluator, "are left for the audit log: make room")
        self.assertIsNone(evaluator.process.poll(), "it goes on")
        fill_up(disk, leave=0)
        # The log's last page has room for some. What cannot be told of is not done: that fails, and so does all else until somebody makes room.
        server.psql(self.opening() * 20, error="the evaluator does not answer")
        self.assertEqual(evaluator.process.wait(TIME_LIMIT), 1)
        self.told(evaluator, "the audit log cannot be written")
        (disk / "filler").unlink()
        evaluator.log_file.write_text("")
        evaluator.start()
        self.assertEqual(self.as_owner(server, "SELECT 1;"), "1")


if __name__ == "__main__":
    main(__file__, TOOLS)
