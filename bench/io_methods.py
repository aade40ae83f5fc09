#!/usr/bin/env python3
"""What PostgreSQL's io_method costs a sequential scan, of a plain and of a sealed cluster.

    bench/io_methods.py --pg BINDIR [--rounds N] [--megabytes M] [--scans S] [--cold]

BINDIR holds a PostgreSQL 18 or later that is built with liburing. A plain and a sealed cluster, each with a table of some M
megabytes and 16 MB of shared buffers, are started with each method in every round, in random order. After a scan that is
not measured, S scans are: with the file in the kernel's cache, or with --cold evicted from it before each. Prints the
medians over the rounds of elapsed time and of CPU (user and system, of the whole server, the kernel's workers for rings
included) per scan, and of two ratios within a round, with their intervals: to the plain cluster with io_uring, and to the
same cluster with it. Needs `make build`. As root, the servers run as another user.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "bench")]

import stage  # noqa: E402
from convert import shown, with_interval  # noqa: E402
from pgseal_test import STAGE, Cluster  # noqa: E402

CPUCLOCK_SCHED = 2  # of a process by its number, as clock_getcpuclockid(3) makes it
METHODS = ["io_uring", "worker", "sync"]
CONF = """
shared_buffers = 16MB
max_parallel_workers_per_gather = 0
effective_io_concurrency = 32
autovacuum = off
max_wal_size = 4GB
"""
SCAN = "SELECT count(*) FROM t"


def filled(name, sealed, pg, megabytes):
    """A stopped cluster with the table; a row takes some 1 kB."""
    cluster = Cluster(Path(tempfile.mkdtemp(dir=STAGE / "work")) / name, sealed=sealed, pg=pg, conf=CONF)
    cluster.init().start("-c", "io_method=sync")
    cluster.psql(f"CREATE TABLE t AS SELECT i, repeat(md5(i::text), 31) AS filler FROM generate_series(1, {megabytes * 1000}) i; "
                 "VACUUM ANALYZE t; CHECKPOINT")
    cluster.stop()
    return cluster


def files(cluster):
    """The files of the database."""
    return [path for path in (cluster.data / "base/5").iterdir() if path.is_file()]


def evict(cluster):
    """Takes the clean pages of the database's files out of the kernel's cache."""
    for path in files(cluster):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def cpu(cluster):
    """Seconds that the server's processes have computed, all of which live as long as the session; the kernel counts its
    workers for a process's ring as that process's threads."""
    clocks = (~pid << 3 | CPUCLOCK_SCHED for pid in [cluster.server.pid, *stage.descendants(cluster.server.pid)])
    return sum(map(time.clock_gettime, clocks))


def measured(cluster, method, scans, cold):
    """(seconds, CPU seconds) of one scan."""
    cluster.start("-c", f"io_method={method}")
    session = cluster.session()

    def scan():
        session.stdin.write(SCAN + ";\n")
        session.stdout.readline()

    scan()
    elapsed, used = 0, 0
    for _ in range(scans):
        if cold:
            evict(cluster)
        before, start = cpu(cluster), time.monotonic()
        scan()
        elapsed, used = elapsed + time.monotonic() - start, used + cpu(cluster) - before
    cluster.end_sessions()
    cluster.stop()
    return elapsed / scans, used / scans


def main():
    """Runs the rounds and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pg", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--scans", type=int, default=4)
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()
    if "PGSEAL_TEST_STAGE" not in os.environ:
        sys.exit(stage.supervise(__file__, ["bench/io_methods.py", "bench/convert.py"]))
    clusters = {name: filled(name, name == "sealed", arguments.pg, arguments.megabytes) for name in ["plain", "sealed"]}
    variants = [(name, method) for method in METHODS for name in clusters]
    rounds = []
    for _ in range(arguments.rounds):
        order = random.sample(variants, len(variants))
        rounds.append({(name, method): measured(clusters[name], method, arguments.scans, arguments.cold) for name, method in order})
    print("| cluster | io_method | ms per scan | CPU ms per scan | elapsed / plain io_uring | CPU / plain io_uring "
          "| elapsed / its io_uring | CPU / its io_uring |\n| --- | --- | --: | --: | --: | --: | --: | --: |")
    for variant in variants:
        milliseconds = [f"{1000 * with_interval([each[variant][of] for each in rounds])[0]:.0f}" for of in (0, 1)]
        ratios = [shown(with_interval([each[variant][of] / each[name, "io_uring"][of] for each in rounds]))
                  for name in ("plain", variant[0]) for of in (0, 1)]
        print("| " + " | ".join([*variant, *milliseconds, *ratios]) + " |")


if __name__ == "__main__":
    main()
