"""kill -9 in the middle of a mixed load, again and again; after each, everything must be there and nothing damaged.

Three clusters take turns: one with the defaults, one with 1 MB WAL segments that are recycled all the time and a 128-bit
key, one with wal_log_hints in place of checksums and a 192-bit key. PGSEAL_CRASH_ROUNDS (30) is the number of rounds of all
together; rounds.py says what a round is, and how to repeat one.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from rounds import SEED, Rounds  # noqa: E402
from pgseal_test import main  # noqa: E402

ROUNDS = int(os.environ.get("PGSEAL_CRASH_ROUNDS", "30"))


class CrashLoop(Rounds):
    def test_defaults(self):
        self.rounds(1, conf="min_wal_size = 32MB\nmax_wal_size = 48MB\n")

    def test_small_segments(self):
        self.rounds(2, bits=128, initdb=["--wal-segsize=1"], conf="min_wal_size = 2MB\nmax_wal_size = 4MB\n")

    def test_hint_bits_without_checksums(self):
        self.rounds(3, bits=192, checksums=False, conf="wal_log_hints = on\nmax_wal_size = 48MB\nmin_wal_size = 32MB\n")

    def rounds(self, index, **options):
        self.prepare(index, **options)
        for number in range(1, (ROUNDS + 3 - index) // 3 + 1):
            self.round(number)
        self.finish()
        done, prepared = sum(self.told.done.values()), len(self.told.prepared)
        print(f"{number} crashes, {done} transactions acknowledged, {prepared} prepared", file=sys.stderr)


if __name__ == "__main__":
    if "PGSEAL_TEST_STAGE" in os.environ:
        print(f"PGSEAL_CRASH_SEED={SEED} PGSEAL_CRASH_ROUNDS={ROUNDS}", flush=True)
    main(__file__)
