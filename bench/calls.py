#!/usr/bin/env python3
"""What one libc call costs, preloaded against native.

    bench/calls.py [--rounds N]

Each round runs the same program (calls.c) natively in a plain directory and preloaded in a sealed one, in random
order. Prints the medians over the rounds, and the median of the differences within a round. The aims: 10 ns for a
call on an unprotected descriptor, 2 us for an `open` in the data directory. Needs `make build` and cc.
"""

import argparse
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/posix"))

from sealed_run import make_root, run  # noqa: E402

MASTER = bytes(range(32))


def measured(program, arguments, root, roots):
    """{name: nanoseconds} of one run."""
    stdout, _ = run(program, arguments, root, roots)
    return {name: float(ns) for name, ns in (line.split("\t") for line in stdout.splitlines())}


def main():
    """Runs the rounds and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name).resolve()
        program = scratch / "calls"
        subprocess.run(["cc", "-O2", "-Wall", "-o", program, HERE / "calls.c"], check=True)
        (scratch / "outside.txt").touch()
        plain, sealed = make_root(scratch / "plain"), make_root(scratch / "sealed", MASTER)
        variants = {"native": (plain, None), "sealed": (sealed, {sealed: MASTER})}
        taken = {variant: [] for variant in variants}
        for _ in range(rounds):
            for variant in random.sample(list(variants), len(variants)):
                root, roots = variants[variant]
                taken[variant].append(measured(program, [scratch / "outside.txt"], root, roots))
    print("| call | native ns | preloaded ns | more ns |\n| --- | ---: | ---: | ---: |")
    for call in taken["native"][0]:
        native, preloaded = ([each[call] for each in taken[variant]] for variant in variants)
        more = statistics.median(b - a for a, b in zip(native, preloaded))
        print(f"| {call} | {statistics.median(native):.0f} | {statistics.median(preloaded):.0f} "
              f"| {more:.0f} |")


if __name__ == "__main__":
    main()
