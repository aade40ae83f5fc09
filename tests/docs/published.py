"""Usage, in tests/docs: python3 -c "import published; published.print_tables()"   (the tables that docs/published.md should have)

What others published beside what we measured. Ours are the cells of `pgseal bench report` on docs/benchmarks. Published rates
are read from the tables of crates/bench, and losses and times are computed from them here. The few figures that were published
in words only are written down below.
"""

import re
from pathlib import Path

from figures import SEALED, Documents, tables

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/published.md"
NONE, UNKNOWN = "not measured", "not published"
PGBENCH = ROOT / "crates/bench/src/published.rs"
COLUMNS = ROOT / "crates/bench/src/recipes/confidential/published.rs"
THREADS = (8, 16, 24, 32)
# Published in words: a load, its loss.
RAMP = [("ramp, 5 to 60 users, 2000 warehouses", "\"very close\""), ("ramp, 60 to 95 users, 2000 warehouses", "2.5 %")]
OTHERS = [("MariaDB", "stated for its encryption", "3 to 5 %"), ("Percona pg_tde, 2026-07", "OLTP", "at most 2 %")]


def percent(stock, own):
    return f"{100 * (1 - own / stock):.1f} %"


def added(clients, stock, own):
    """The time that each of so many clients waits longer for a transaction."""
    microseconds = clients * 1e6 * (1 / own - 1 / stock)
    return f"{microseconds:.1f} µs" if abs(microseconds) < 1000 else f"{microseconds / 1000:.2f} ms"


def numbers(text):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


class Published:
    """The tables of the page."""

    def __init__(self, pgseal):
        self.ours = Documents(pgseal, ROOT)
        self.pgbench, self.columns = PGBENCH.read_text(), COLUMNS.read_text()

    def tables(self):
        return [self.tprocc(), self.upgrade(), self.checksums(), *map(self.of_pgbench, ("READ_ONLY", "TPC_B")), self.tasks(), self.cells()]

    def differences(self):
        """What the page has otherwise."""
        own = [(columns, rows) for _, columns, rows in tables((ROOT / PAGE).read_text())]
        expected = self.tables()
        wrong = [f"{len(own)} tables, and not {len(expected)}"] if len(own) != len(expected) else []
        for (columns, rows), (expected_columns, expected_rows) in zip(own, expected):
            pairs = zip([columns, *rows], [expected_columns, *expected_rows])
            wrong += [f"{row!r}, and not {right!r}" for row, right in pairs if row != right]
            wrong += [f"{len(rows)} rows below {columns[0]}"] if len(rows) != len(expected_rows) else []
        return wrong

    def tprocc(self):
        report = self.ours.report("tprocc")
        loss, cpu = report.loss("4 virtual users", SEALED), report.share("4 virtual users", "extra CPU [95 %]")
        rows = [[load, lost, UNKNOWN, NONE, NONE] for load, lost in RAMP]
        rows += [["75 users, 2000 warehouses, 1 hour", report.other("4 virtual users"), UNKNOWN, NONE, NONE],
                 ["4 users, 2 warehouses", UNKNOWN, UNKNOWN, loss, f"{cpu} of CPU"]]
        return ["TPROC-C", "loss, published", "added to a transaction, published", "loss, ours", "added, ours"], rows

    def upgrade(self):
        report = self.ours.report("upgrade")
        rows = [[what, report.other(what), report.loss(what, SEALED)] for what in ("elapsed", "user and system CPU")]
        return ["pg_upgrade", "longer by, published for 300 GB", "longer by, ours for 3.7 GB"], rows

    def checksums(self):
        report = self.ours.report("checksums")
        table = re.search(r"CHECKSUMS:.*?;\n", self.pgbench, re.S)[0]
        lengths = [numbers(row) for row in re.findall(r"\((\d+, \[[^]]*\])\)", table)]
        (_, *stock), *lengths = lengths
        rows = []
        for column, case in enumerate(("no checksums (sealed: wal_log_hints)", "data checksums")):
            for bits, *tps in lengths:
                ours = [report.loss(case, SEALED), f"{report.share(case, 'extra CPU [95 %]')} of CPU"] if bits == 256 else [NONE, NONE]
                rows.append([f"{'data' if column else 'no'} checksums, {bits:.0f} bits", percent(stock[column], tps[column]),
                             added(3, stock[column], tps[column]), *ours])
        return ["pgbench -N, 1 MB shared_buffers, 3 clients", "loss, published", "added, published", "loss, ours", "added, ours"], rows

    def of_pgbench(self, name):
        report = self.ours.report({"READ_ONLY": "readonly", "TPC_B": "tpcb"}[name])
        load = {"READ_ONLY": "pgbench, read-only", "TPC_B": "pgbench, TPC-B"}[name]
        time = report.cell("2 connections", SEALED, "time added [95 %]")
        rows = [["10", "2", *[UNKNOWN] * 4, report.loss("2 connections", SEALED), time]]
        text = re.search(rf"\b{name}: .*?\n\];\n", self.pgbench, re.S)[0]
        for scale, below in re.findall(r"^        (\d+),\n        &\[\n(.*?)^        \],", text, re.M | re.S):
            for connections, stock, _, on_4, _, on_9 in (numbers(row) for row in re.findall(r"row\((.*?)\),\n", below)):
                published = [cell for on in (on_4, on_9) for cell in (percent(stock, on), added(connections, stock, on))]
                rows.append([scale, f"{connections:.0f}", *published, NONE, NONE])
        return [f"{load}: scale", "connections", "loss, gcc 4.8", "added, gcc 4.8", "loss, gcc 9.3", "added, gcc 9.3", "loss, ours", "added, ours"], rows

    def tasks(self):
        worst, rows = self.ours.report("worst"), []
        for task in ("CREATE TABLE AS", "ALTER TABLE, rewrite", "VACUUM FULL", "UPDATE of all rows", "WAL, 32 writers"):
            for of_row in worst.others[task]:
                loss = of_row.get("loss [95 %]") or of_row["extra time [95 %]"]
                fix = ", before a fix" if "before a fix" in of_row["verdict"] else ""
                rows.append(["Percona pg_tde, 2026-07", task + fix, loss, NONE if fix else worst.loss(task, SEALED)])
        for name, load in (("tpcb", "pgbench, TPC-B"), ("readonly", "pgbench, read-only")):
            report = self.ours.report(name)
            of_row = next(row for row in report.others["2 connections"] if "open_pg_tde" in row["verdict"])
            rows.append(["open_pg_tde", f"{load}, scale 30, in memory", of_row["loss [95 %]"], f"{report.loss('2 connections', SEALED)}, scale 10"])
        return ["product", "load", "loss or longer by, published", "ours"], rows + [[*other, NONE] for other in OTHERS]

    def cells(self):
        report, rows = self.ours.report("confidential"), []
        plain = {name: numbers(row) for name, row in re.findall(r"const (POINT|RANGE|WRITE): Row = \[(.*?)\];", self.columns)}
        body = self.columns.split("fn of(")[1].split("\n}\n")[0]
        for scenario, kind, text in re.findall(r"\((\d|_), (Kind::\w+|_)\) => (rows\(.*?\)|Rows \{.*?\}),\n", body, re.S):
            kind = kind.removeprefix("Kind::") if kind != "_" else "Range"
            scenario = scenario if scenario != "_" else "2"
            rates = [numbers(row) for row in re.findall(r"\[(.*?)\]", text)]
            if not text.startswith("Rows"):
                rates.insert(0, plain[kind.upper()])
            load = f"{scenario} {kind.lower()}" + (" on k" if scenario == "3" else "")
            for variant, own in zip(("", ", with index extension"), rates[1:]):
                for thread, stock, tps in zip(THREADS, rates[0], own):
                    case = f"scenario {load}, 8 threads"
                    has_ours = thread == 8 and (len(rates) == 2 or variant)
                    ours = [report.loss(case, "isolated-in-process"), report.cell(case, "isolated-in-process", "time added [95 %]")]
                    rows.append([load + variant, str(thread), percent(stock, tps), added(thread, stock * 1e3, tps * 1e3),
                                 *(ours if has_ours else [NONE, NONE])])
        rows.sort(key=lambda row: row[0].partition(",")[0])
        return ["encrypted columns, statement", "threads", "loss, published", "added, published", "loss, ours", "added, ours"], rows


def shown(columns, rows):
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def print_tables():
    print("\n".join(shown(*table) for table in Published(ROOT / "dist/bin/pgseal").tables()))
