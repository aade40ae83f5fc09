#!/usr/bin/env python3
"""pg_upgrade in copy mode, into a plain and into a sealed cluster, round by round.

    bench/upgrade.py [--rounds N] [--scale S] [--variants stock,loaded,sealed-256] [--old BINDIR] [--new BINDIR]

One plain cluster, filled by pgbench -i (scale 80 is some 1.2 GB), is upgraded once a round by each variant, in random
order, into a new cluster that is made before the clock starts and removed after it stopped. Elapsed time is
pg_upgrade's; CPU that of pg_upgrade and everything that it started, servers too: they come back to this process, which
waits for them. Prints a Markdown table of medians over the rounds, with a bootstrap 95 % interval; a JSON file keeps
every raw round. It needs `make build`.

Variants: stock; loaded (the twins, nothing sealed); sealed-256, sealed-192, sealed-128 (a sealed new cluster).
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/lib"))

import figures  # noqa: E402
import pgseal_test  # noqa: E402
import stage  # noqa: E402
from pgbench_ratio import machine, note, positive, variants  # noqa: E402

# Where the child, who may not write everywhere, leaves its results for its supervisor.
RESULTS = "PGSEAL_BENCH_RESULTS"
TIME_LIMIT = 3600


def arguments():
    parser = argparse.ArgumentParser(description="pg_upgrade in copy mode, into plain and into sealed")
    parser.add_argument("--rounds", type=positive, default=7, help="an interval means little below 6")
    parser.add_argument("--scale", type=positive, default=80, help="pgbench's scale factor of the old cluster")
    parser.add_argument("--variants", type=variants, default="stock,loaded,sealed-256")
    parser.add_argument("--old", type=Path, default=pgseal_test.PG, help="directory of the old version's programs")
    parser.add_argument("--new", type=Path, default=pgseal_test.PG, help="directory of the new version's programs")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the order of the variants")
    parser.add_argument("--json", type=Path, default=ROOT / "target/bench/upgrade.json", help="results")
    return parser.parse_args()


def supervise(args):
    """Runs this file below stage.py, as an unprivileged user on copies of the programs, and keeps its results."""
    args.json.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="pgseal-bench.") as results:
        if os.getuid() == 0:
            os.chown(results.name, stage.test_account().pw_uid, -1)
        os.environ[RESULTS] = results.name
        status = stage.supervise(__file__, [f"bench/{name}.py" for name in ("upgrade", "pgbench_ratio", "server", "figures")])
        if status == 0:
            shutil.copyfile(results.name, args.json)
            print(f"\nraw rounds: {args.json}")
    return status


def bench(args):
    """The old cluster, the rounds, the figures."""
    pgseal_test.TIME_LIMIT = TIME_LIMIT
    stage.adopt_orphans()
    host, old = machine(args.new), old_cluster(args)
    order, rounds = random.Random(args.seed), []
    for number in range(args.rounds):
        for variant in order.sample(args.variants, len(args.variants)):
            entry = {"variant": variant, "round": number, **upgrade(args, old, variant)}
            rounds.append(entry)
            note(f"round {number + 1}/{args.rounds} {variant}: {entry['elapsed_s']:.2f} s, {entry['cpu_s']:.2f} s CPU")
    size = size_of(old.data)
    print(f"pg_upgrade, copy mode, {size / 1e9:.2f} GB, {args.rounds} rounds, seed {args.seed}\n{host['postgres']}, "
          f"{host['cpu']}, {host['cores']} cores, Linux {host['kernel']}, {host['date']}. Medians [95 % interval].\n")
    print(table(args.variants, rounds))
    results = {"seed": args.seed, "scale": args.scale, "bytes": size, "machine": host, "rounds": rounds}
    Path(os.environ[RESULTS]).write_text(json.dumps(results, indent=1))


def old_cluster(args):
    note(f"making the old cluster, scale {args.scale}")
    old = pgseal_test.Cluster(pgseal_test.STAGE / "work/old", sealed=False, pg=args.old, conf="max_wal_size = 4GB\n")
    old.init().start()
    old.run("pgbench", "-i", "-q", "-s", str(args.scale))
    old.stop()
    return old


def upgrade(args, old, variant):
    """One upgrade into a new cluster, which goes again."""
    home = pgseal_test.STAGE / "work/new"
    sealed = variant.startswith("sealed-")
    bits = int(variant.rpartition("-")[2]) if sealed else None
    new = pgseal_test.Cluster(home, sealed=sealed, bits=bits, pg=args.new).init()
    own = args.new if variant == figures.REFERENCE else pgseal_test.twins(args.new)
    command = [own / "pg_upgrade", "-b", args.old, "-B", own, "-d", old.data, "-D", new.data, "-U", "postgres", "-s", home]
    warm(old.data)
    os.sync()
    try:
        return measured(command, home)
    finally:
        shutil.rmtree(home)


def measured(command, directory):
    """Elapsed time of the command, CPU of all that it started."""
    before, start = cpu_of_children(), time.monotonic()
    pgseal_test.run(command, cwd=directory)
    elapsed = time.monotonic() - start
    return {"elapsed_s": elapsed, "cpu_s": cpu_of_children() - before}


def cpu_of_children():
    """Servers were left to us by pg_ctl, and have ended: waiting for them adds them up."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


def warm(directory):
    """The old cluster is in the kernel's cache, if it fits."""
    for file in pgseal_test.files_below(directory):
        with open(file, "rb") as stored:
            while stored.read(1 << 20):
                pass


def size_of(directory):
    return sum(file.stat().st_size for file in pgseal_test.files_below(directory))


def table(names, rounds):
    """Every variant beside stock, compared within each round."""
    stock = figures.rounds_of(rounds, figures.REFERENCE)
    lines = ["| variant | elapsed s | elapsed / stock | CPU s | CPU / stock |", "|---|--:|--:|--:|--:|"]
    for name in names:
        own, cells = figures.rounds_of(rounds, name), []
        for what in ["elapsed_s", "cpu_s"]:
            ratio = figures.with_interval([own[number][what] / stock[number][what] for number in sorted(own)])
            cells += [f"{median(entry[what] for entry in own.values()):.2f}", figures.shown(ratio, 4)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    given = arguments()
    if RESULTS not in os.environ:
        sys.exit(supervise(given))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench(given)
