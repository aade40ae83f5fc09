"""A variant's cluster and one measured run of pgbench on it (imported by pgbench_ratio.py only).

CPU of a run is that of the whole server, from the moment before pgbench starts to the server's end. The end is exact:
when the postmaster has been waited for, the kernel has added up every process below it (rusage). The beginning is
read from /proc: the scheduler's nanoseconds for living processes, clock ticks for those that ended during start and
warm-up, which errs by less than 20 ms, without favour. The shutdown checkpoint is inside on purpose: it writes the
pages that these transactions dirtied, and the round began with a checkpoint, so that no round pays for another.
Sessions and the server's end cost some 50 ms beside that; pgbench_ratio.py takes them off. Pages counted by the
library cover the same span.
"""

import os
import re
import resource
import struct
import time
from pathlib import Path

import pgseal_test
import stage
from pgseal_test import Cluster

# The slots that the library maps when PGSEAL_COUNTERS names a file; the first three counters are in use.
COUNTERS = struct.Struct("<8Q")
COUNTER_NAMES = ("opened", "sealed", "files")
TICK = os.sysconf("SC_CLK_TCK")
# Time for the warm-up's backends to end, so that they lie before the run.
SETTLE_S = 0.2

# No checkpoint and no vacuum begins by itself during a run.
SETTINGS = """
fsync = on
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 16GB
min_wal_size = 1GB
"""

# Reads every heap page of the accounts and their index through the ordinary buffers, not through a scan's small ring.
FILL_BUFFERS = """
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SET max_parallel_workers_per_gather = 0;
SELECT sum(abalance) FROM pgbench_accounts WHERE aid > 0;
"""

# What pgbench does before a run unless it is told not to, and the checkpoint that begins a round.
TIDY = "VACUUM pgbench_branches; VACUUM pgbench_tellers; TRUNCATE pgbench_history; CHECKPOINT;"


class Variant(Cluster):
    """`name` is stock, stock2 (the same again: the control), loaded, or sealed-BITS."""

    def __init__(self, home, name, pg, buffers):
        self.name = name
        self.counters = home / "counters"
        sealed = name.startswith("sealed-")
        bits = int(name.rpartition("-")[2]) if sealed else None
        super().__init__(home, sealed=sealed, bits=bits, pg=pg, conf=f"{SETTINGS}shared_buffers = {buffers}\n")

    def share(self, other):
        """Runs on another variant's data directory, whose settings name the place of the socket."""
        self.data = other.data
        self.environment["PGHOST"] = other.environment["PGHOST"]

    def load(self, scale):
        """initdb and pgbench's tables."""
        self.init()
        self.serve()
        self.pgbench("-i", "-q", "-s", scale)
        self.stop()

    def serve(self):
        """Starts the server; the library goes to it only, so that pgbench is the same program in all variants."""
        clients = self.environment
        self.environment = {**clients, "PGSEAL_COUNTERS": str(self.counters)}
        if self.name == "loaded":
            self.environment["LD_PRELOAD"] = str(pgseal_test.STAGE / "dist/lib/libpgseal.so")
        try:
            self.start()
        finally:
            self.environment = clients

    def pgbench(self, *arguments):
        """Stock pgbench, in every variant."""
        return pgseal_test.run([self.pg / "pgbench", *map(str, arguments)], self.environment).stdout

    def measure(self, options, fill_buffers):
        """Start, warm-up, run, stop: the figures of one round."""
        read_files(self.data)
        self.serve()
        self.psql((FILL_BUFFERS if fill_buffers else "") + TIDY)
        time.sleep(SETTLE_S)
        cpu, pages = server_cpu(self.server.pid), self.pages()
        output = self.pgbench(*options)
        ended = ended_children_cpu()
        self.stop()
        cpu = ended_children_cpu() - ended - cpu
        pages = {name: after - pages[name] for name, after in self.pages().items()}
        return {**read_output(output), "cpu_s": cpu, **pages}

    def pages(self):
        """The library's counts so far, summed over the slots; zeros where no library counts."""
        slots = self.counters.read_bytes() if self.counters.exists() else b""
        return {name: sum(slot[i] for slot in COUNTERS.iter_unpack(slots)) for i, name in enumerate(COUNTER_NAMES)}


def read_files(directory):
    """Brings the files into the kernel's cache, where every round finds them then."""
    for file in Path(directory).rglob("*"):
        if file.is_file():
            with open(file, "rb") as opened:
                while opened.read(1 << 20):
                    pass


def server_cpu(postmaster):
    """CPU seconds so far of the postmaster, of its living children, and of those that it has waited for."""
    living = {postmaster, *stage.descendants(postmaster)}
    nanoseconds = sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in living)
    fields = stage.process_fields(Path(f"/proc/{postmaster}"))
    return nanoseconds / 1e9 + (int(fields[13]) + int(fields[14])) / TICK  # cutime, cstime


def ended_children_cpu():
    """CPU seconds of all processes that this one has waited for, and of those below them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def read_output(output):
    """Transactions and their rate from pgbench's report; a run with failed transactions is none."""
    failed = re.search(r"number of failed transactions: (\d+)", output)
    if failed and int(failed[1]):
        raise AssertionError(f"pgbench lost transactions\n{output}")
    transactions = int(re.search(r"transactions actually processed: (\d+)", output)[1])
    return {"transactions": transactions, "tps": float(re.search(r"^tps = ([\d.]+)", output, re.MULTILINE)[1])}
