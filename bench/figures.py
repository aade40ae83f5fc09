"""From raw rounds to figures (imported by pgbench_ratio.py only; pure).

An entry is {"variant", "round", "tps", "transactions", "cpu_s", "opened", "sealed", …}; each round has one of every
variant. Everything is compared within a round, where variants shared the state of the machine: a figure is the median
over the rounds of a ratio to stock (or a difference from it), with a 95 % interval by bootstrap over the rounds.
"""

import random
from statistics import median

RESAMPLES = 10000
REFERENCE = "stock"
# Below this, a transaction moves next to no pages, and dividing by the cipher's time would only scale up noise.
PAGES_THAT_COUNT = 0.01


def summarise(variants, rounds, cipher):
    """One summary per variant; `cipher` is {variant: (ns to open a page, ns to seal a page)} for the sealed ones."""
    stock = rounds_of(rounds, REFERENCE)
    return [summary_of(variant, rounds_of(rounds, variant), stock, cipher.get(variant)) for variant in variants]


def rounds_of(rounds, variant):
    return {entry["round"]: entry for entry in rounds if entry["variant"] == variant}


def summary_of(variant, own, stock, page_ns):
    pairs = [(own[number], stock[number]) for number in sorted(own)]
    summary = {
        "variant": variant,
        "tps": median(entry["tps"] for entry in own.values()),
        "cpu_us": median(cpu_us(entry) for entry in own.values()),
        "tps_ratio": with_interval([a["tps"] / b["tps"] for a, b in pairs]),
        "cpu_ratio": with_interval([cpu_us(a) / cpu_us(b) for a, b in pairs]),
        "extra_us": with_interval([cpu_us(a) - cpu_us(b) for a, b in pairs]),
    }
    if page_ns:
        summary.update(cipher_share(pairs, page_ns))
    return summary


def cipher_share(pairs, page_ns):
    """The cipher's own time for the pages that moved, and how many times that the extra CPU is."""
    opened = median(entry["opened"] / entry["transactions"] for entry, _ in pairs)
    sealed = median(entry["sealed"] / entry["transactions"] for entry, _ in pairs)
    share = {"opened": opened, "sealed": sealed, "cipher_us": median(cipher_us(entry, page_ns) for entry, _ in pairs)}
    if opened + sealed >= PAGES_THAT_COUNT:
        extra = [(cpu_us(entry) - cpu_us(base)) / cipher_us(entry, page_ns) for entry, base in pairs]
        share["extra_per_cipher"] = with_interval(extra)
    return share


def cpu_us(entry):
    """CPU microseconds of the whole server per transaction."""
    return entry["cpu_s"] * 1e6 / entry["transactions"]


def cipher_us(entry, page_ns):
    open_ns, seal_ns = page_ns
    return (entry["opened"] * open_ns + entry["sealed"] * seal_ns) / 1e3 / entry["transactions"]


def with_interval(values):
    """(median, low, high). The resampling is seeded: the same rounds give the same interval."""
    source = random.Random(0)
    medians = sorted(median(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return median(values), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def markdown(summaries):
    """Two tables: every variant beside stock, and what of the extra CPU is the cipher."""
    lines = ["| variant | tps | tps / stock | CPU us/tx | CPU / stock | extra CPU us/tx |", "|---|--:|--:|--:|--:|--:|"]
    for s in summaries:
        lines.append(f"| {s['variant']} | {s['tps']:.1f} | {shown(s['tps_ratio'], 4)} | {s['cpu_us']:.2f} "
                     f"| {shown(s['cpu_ratio'], 4)} | {shown(s['extra_us'], 2)} |")
    sealed = [s for s in summaries if "cipher_us" in s]
    if sealed:
        lines += ["", "| variant | pages opened/tx | sealed/tx | extra CPU us/tx | cipher us/tx | extra / cipher |",
                  "|---|--:|--:|--:|--:|--:|"]
    for s in sealed:
        ratio = shown(s["extra_per_cipher"], 2) if "extra_per_cipher" in s else "no pages moved"
        lines.append(f"| {s['variant']} | {s['opened']:.4f} | {s['sealed']:.4f} | {shown(s['extra_us'], 2)} "
                     f"| {s['cipher_us']:.3f} | {ratio} |")
    return "\n".join(lines)


def shown(estimate, digits):
    middle, low, high = estimate
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
