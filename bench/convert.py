#!/usr/bin/env python3
"""What `pgseal seal`, `rekey` and `unseal` cost, against writing the same files again without a cipher.

    bench/convert.py [--rounds N] [--megabytes M] [--jobs J] [--pg BINDIR]

Each round converts one stopped cluster with M megabytes of relations in it there and back, and, at a random moment
between, stores its files in the way of a conversion but as they are: read and written in runs of 256 kB, synced, renamed.
Prints the medians over the rounds of GB per second of CPU (user and system) and of elapsed time, and of the ratios to the
plain copy within a round, with their intervals. Needs `make build`.
"""

import argparse
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PGSEAL = pathlib.Path(__file__).resolve().parents[1] / "dist/bin/pgseal"
RUN = 256 * 1024
RESAMPLES = 10000
SEGMENT = 128 << 20
COMMANDS = {"seal": ["--no-key-wrap"], "rekey": ["--no-key-wrap"], "unseal": []}


def make(data, pg, megabytes):
    """A cluster whose relations are random bytes; it never starts."""
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    if user:
        shutil.chown(data.parent, "postgres", "postgres")
    subprocess.run([*user, f"{pg}/initdb", "-D", data, "-k", "-N", "-A", "trust"], check=True, stdout=subprocess.DEVNULL)
    if user:
        subprocess.run(["chown", "-R", "root:root", data.parent], check=True)
    for number in range((megabytes << 20) // SEGMENT):
        with open(data / f"base/5/{50000 + number}", "wb") as file:
            for _ in range(SEGMENT // RUN):
                file.write(os.urandom(RUN))


def copy(files):
    """What a conversion does with files, except the cipher."""
    buffer = bytearray(RUN)
    for path in map(pathlib.Path, files):
        aside = path.with_name(path.name + ".aside")
        with open(path, "rb", buffering=0) as source, open(aside, "wb", buffering=0) as target:
            while have := source.readinto(buffer):
                target.write(memoryview(buffer)[:have])
            os.fsync(target.fileno())
            os.posix_fadvise(target.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # as a conversion leaves its files
        os.rename(aside, path)


def copy_all(data, jobs):
    """The large files, on so many processes; small ones are not what is measured."""
    files = sorted(str(path) for path in data.glob("base/5/5????"))
    shares = [files[at::jobs] for at in range(jobs)]
    running = [subprocess.Popen([sys.executable, __file__, "--copy", *share]) for share in shares if share]
    for process in running:
        if process.wait() != 0:
            sys.exit("the plain copy failed")


def measured(work, size):
    """(GB per second of CPU, GB per second) of `work`, whose processes end in it."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    work()
    after, elapsed = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return size / 1e9 / cpu, size / 1e9 / elapsed


def one_round(data, jobs, size):
    """{variant: figures} of all variants; the plain copy comes at a random place."""
    order = list(COMMANDS)
    order.insert(random.randrange(len(order) + 1), "copy")
    taken = {}
    for variant in order:
        command = [PGSEAL, variant, "-D", data, f"--jobs={jobs}", "--no-progress", *COMMANDS.get(variant, [])]
        convert = lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken[variant] = measured((lambda: copy_all(data, jobs)) if variant == "copy" else convert, size)
    return taken


def with_interval(values):
    """(median, low, high): a seeded bootstrap, 95 %."""
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return statistics.median(values), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def shown(estimate):
    return "{:.2f} [{:.2f}, {:.2f}]".format(*estimate)


def main():
    """Runs the rounds and prints a Markdown table."""
    if sys.argv[1:2] == ["--copy"]:
        return copy(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pg", default="/usr/lib/postgresql/15/bin")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = pathlib.Path(name).resolve() / "data"
        make(data, arguments.pg, arguments.megabytes)
        size = arguments.megabytes << 20
        rounds = [one_round(data, arguments.jobs, size) for _ in range(arguments.rounds)]
    print("| variant | GB per CPU second | GB per second | CPU / copy | elapsed / copy |\n| --- | --: | --: | --: | --: |")
    for variant in ["copy", *COMMANDS]:
        cpu, speed = (statistics.median(each[variant][of] for each in rounds) for of in (0, 1))
        ratios = [shown(with_interval([each["copy"][of] / each[variant][of] for each in rounds])) for of in (0, 1)]
        print(f"| {variant} | {cpu:.2f} | {speed:.2f} | {ratios[0]} | {ratios[1]} |")


if __name__ == "__main__":
    main()
