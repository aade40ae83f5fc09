#!/usr/bin/env python3
"""pgbench, sealed against stock, round by round.

    bench/pgbench_ratio.py readonly|tpcb|evict [--rounds N] [--seconds S] [--variants stock,loaded,sealed-256] …

readonly is pgbench -S on data that lies in shared_buffers, tpcb the default script on the same, and evict -N at scale
50 on 1 MB of shared_buffers with 3 clients, so that pages come and go through the kernel's cache. The plain variants
share one cluster, sealed ones have each their own, made from the same settings with checksums on. Clusters made alike
differ by some per cent: --clusters makes several such sets, and rounds take them in turn. A round runs each variant
once, in random order; figures.py says what is made of the rounds, server.py what a run measures. Prints
Markdown tables; a JSON file keeps every raw round.

Variants: stock; stock2 (stock again: its interval must include 1); loaded (stock with the library preloaded, nothing
sealed); sealed-256, sealed-192, sealed-128. It needs `make build` and cargo, for the cipher's own speed in the same
run.
"""

import argparse
import itertools
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/lib"))

import figures  # noqa: E402
import pgseal_test  # noqa: E402
import stage  # noqa: E402
from server import Variant  # noqa: E402

# Where the child, who may not write everywhere, leaves its results for its supervisor.
RESULTS = "PGSEAL_BENCH_RESULTS"
CIPHER = "target/bench/cipher"
VARIANTS = ("stock", "stock2", "loaded", "sealed-256", "sealed-192", "sealed-128")
# The cipher's own speed: AWS-LC's where it has the mode, ours over its block cipher where it has not.
CIPHER_NAMES = {"sealed-256": "AWS-LC XTS-256", "sealed-192": "FileCipher 192", "sealed-128": "FileCipher 128"}


@dataclass
class Workload:
    script: tuple
    clients: int
    scale: int
    buffers_mb: int | None  # None: room for all the data


WORKLOADS = {
    "readonly": Workload(("-S",), 2, 10, None),
    "tpcb": Workload((), 4, 10, None),
    "evict": Workload(("-N",), 3, 50, 1),
}
FIXED_COST_RUNS = 4  # of each variant
BUFFERS_MB_PER_SCALE = 32  # about twice what tables and indexes take


def arguments():
    parser = argparse.ArgumentParser(description="pgbench, sealed against stock, round by round")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--rounds", type=positive, default=9, help="an interval means little below 6")
    parser.add_argument("--clusters", type=positive, default=1, help="sets of clusters, which rounds take in turn")
    parser.add_argument("--seconds", type=positive, default=10, help="length of each run of pgbench")
    parser.add_argument("--variants", type=variants, default="stock,loaded,sealed-256,sealed-128,sealed-192")
    parser.add_argument("--pg", type=Path, default=pgseal_test.PG, help="directory of PostgreSQL's programs")
    parser.add_argument("--scale", type=positive, help="pgbench's scale factor, instead of the workload's own")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the order of the variants")
    parser.add_argument("--json", type=Path, help="results (default: target/bench/WORKLOAD.json)")
    return parser.parse_args()


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def variants(text):
    names = text.split(",")
    unknown = set(names) - set(VARIANTS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no variant is called {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
    if figures.REFERENCE not in names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"name each variant once, and {figures.REFERENCE} among them")
    return names


def supervise(args):
    """Runs this file below stage.py, as an unprivileged user on copies of the programs, and keeps its results."""
    os.umask(0o022)
    target = args.json or ROOT / "target/bench" / f"{args.workload}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    tools = [f"bench/{name}.py" for name in ("pgbench_ratio", "server", "figures")]
    with tempfile.NamedTemporaryFile(prefix="pgseal-bench.") as results:
        if os.getuid() == 0:
            os.chown(results.name, stage.test_account().pw_uid, -1)
        os.environ[RESULTS] = results.name
        status = stage.supervise(__file__, [*tools, build_cipher()])
        if status == 0:
            shutil.copyfile(results.name, target)
            print(f"\nraw rounds: {target}")
    return status


def build_cipher():
    """Builds the cipher's benchmark and puts it where the stage can take it from."""
    command = ["cargo", "bench", "-q", "-p", "pgseal-crypto", "--bench", "cipher", "--no-run", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    messages = [json.loads(line) for line in built.splitlines()]
    path = next(m["executable"] for m in messages if m.get("target", {}).get("name") == "cipher" and m["executable"])
    (ROOT / CIPHER).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, ROOT / CIPHER)
    return CIPHER


def cipher_speed():
    """{variant: (ns to open a page, ns to seal a page)}, by the cipher's own benchmark, on one thread."""
    report = pgseal_test.run([pgseal_test.STAGE / CIPHER, "--bench"]).stdout
    ns = dict(re.findall(r"^(.+?) +(\d+) +[\d.]+", report, re.MULTILINE))
    return {variant: (int(ns[f"{name} open"]), int(ns[f"{name} seal"])) for variant, name in CIPHER_NAMES.items()}


def bench(args):
    """The clusters, the rounds, the figures."""
    workload, host = WORKLOADS[args.workload], machine(args.pg)
    scale = args.scale or workload.scale
    buffers_mb = workload.buffers_mb or scale * BUFFERS_MB_PER_SCALE
    homes = [pgseal_test.STAGE / f"work/set{i}" for i in range(args.clusters)]
    sets = [make_clusters(args, home, scale, buffers_mb) for home in homes]
    try:
        before = cipher_speed()
        fixed_s = fixed_cpu(workload, sets[0])
        rounds = run_rounds(args, workload, sets, fixed_s)
        after = cipher_speed()
    finally:
        for cluster in itertools.chain(*sets):
            cluster.close()
    page_ns = {v: tuple((a + b) / 2 for a, b in zip(before[v], after[v])) for v in before}
    summaries = figures.summarise(args.variants, rounds, page_ns)
    print(heading(args, workload, scale, host), page_costs(args, page_ns), figures.markdown(summaries), sep="\n\n")
    results = {"workload": args.workload, "seed": args.seed, "scale": scale, "clients": workload.clients,
               "seconds": args.seconds, "clusters": args.clusters, "machine": host,
               "settings": sets[0][0].conf.split("\n")[1:-1],
               "page_ns": {"before": before, "after": after}, "fixed_cpu_s": fixed_s,
               "summary": summaries, "rounds": rounds}
    Path(os.environ[RESULTS]).write_text(json.dumps(results, indent=1))


def make_clusters(args, home, scale, buffers_mb):
    """Plain variants run on one data directory in turn: clusters made alike differ by some per cent."""
    home.mkdir()
    clusters = {name: Variant(home / name, name, args.pg, f"{buffers_mb}MB") for name in args.variants}
    stock = clusters[figures.REFERENCE]
    for name, cluster in clusters.items():
        if cluster.sealed or cluster is stock:
            note(f"making the cluster of {name}, scale {scale}")
            cluster.load(scale)
        else:
            cluster.share(stock)
    os.sync()
    return list(clusters.values())


def fixed_cpu(workload, clusters):
    """CPU seconds that a run costs beside its transactions: sessions, and the server's end. The variants differ by less
    than the clock's ticks, so the median over all of them is taken off every run, or slow runs would look dearer."""
    runs = [cluster.measure([*script(workload), "-t", 1], workload.buffers_mb is None)["cpu_s"]
            for _ in range(FIXED_COST_RUNS) for cluster in clusters]
    note(f"a run of one transaction per client costs {1e3 * median(runs):.0f} ms CPU")
    return median(runs)


def script(workload):
    return [*workload.script, "-n", "-M", "prepared", "-c", workload.clients, "-j", workload.clients]


def run_rounds(args, workload, sets, fixed_s):
    order = random.Random(args.seed)
    rounds = []
    for number in range(args.rounds):
        # One seed for pgbench in a round: its variants see the same rows in the same order.
        options = [*script(workload), "-T", args.seconds, f"--random-seed={order.randrange(2**31)}"]
        clusters = sets[number % len(sets)]
        for cluster in order.sample(clusters, len(clusters)):
            entry = cluster.measure(options, fill_buffers=workload.buffers_mb is None)
            entry["cpu_s"] -= fixed_s
            rounds.append({"variant": cluster.name, "round": number, "set": number % len(sets), **entry})
            note(f"round {number + 1}/{args.rounds} {cluster.name}: {entry['tps']:.1f} tps, "
                 f"{figures.cpu_us(entry):.2f} us CPU per transaction")
    return rounds


def heading(args, workload, scale, host):
    return (f"{args.workload}: {args.rounds} rounds of {args.seconds} s, {args.clusters} sets of clusters, scale {scale}, "
            f"{workload.clients} clients, seed {args.seed}\n"
            f"{host['postgres']}, {host['cpu']}, {host['cores']} cores, Linux {host['kernel']}, "
            f"{host['date']}. Medians over the rounds [95 % interval].")


def page_costs(args, page_ns):
    """The cipher's own time for a page, of the sealed variants that take part."""
    costs = ["{}: {:.0f} ns to open a page, {:.0f} ns to seal one".format(CIPHER_NAMES[name], *page_ns[name])
             for name in args.variants if name in page_ns]
    return "; ".join(costs) or "No variant is sealed"


def machine(pg):
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {"cpu": model[1] if model else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
            "postgres": pgseal_test.run([pg / "postgres", "--version"]).stdout.strip(),
            "date": time.strftime("%Y-%m-%d"), "load": os.getloadavg()}


def note(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    given = arguments()
    if RESULTS not in os.environ:
        sys.exit(supervise(given))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench(given)
