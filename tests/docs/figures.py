"""The tables of figures in the documents beside what `pgseal bench report` shows of docs/benchmarks, cell by cell.

`differences` names every cell that is not the report's own text, and every table that has figures and is not known
here. Which file and case a row is of is written down below; nothing else decides what a document may say.
"""

import re
import subprocess

SEALED = "sealed-256"
CLEAR = "bytes as long"
FORMS = {"without": "encrypted", "with": "encdb_btree", "none: the same rows in clear, as long as cells": CLEAR}
SCENARIOS = "confidential-{form}"
LOADS = {
    "pgbench read-only, in cache, 2 connections": ("readonly", "2 connections"),
    "pgbench TPC-B, 2 connections": ("tpcb", "2 connections"),
    "pgbench -N, 1 MB shared_buffers, 3 clients, checksums": ("checksums", "data checksums"),
    "the same without checksums, sealed with wal_log_hints": ("checksums", "no checksums (sealed: wal_log_hints)"),
    "TPROC-C (go-tpc), 4 users, 2 warehouses": ("tprocc", "4 virtual users"),
}
TASKS = {
    "CREATE TABLE AS": "CREATE TABLE AS",
    "ALTER TABLE, rewrite": "ALTER TABLE, rewrite",
    "VACUUM FULL": "VACUUM FULL",
    "UPDATE of all rows": "UPDATE of all rows",
    "4 sequential scans out of the kernel's cache": "4 cached sequential scans",
    "32 writers of WAL (throughput)": "WAL, 32 writers",
    "sort with spill": "sort with spill",
    "100 tables made and used": "100 tables, made and used",
    "a new connection for each query (throughput)": "cold connections",
}
SCENARIO_LOADS = ["1 point", "1 range", "1 write", "2 point", "2 range", "2 write", "3 point on k", "3 range on k"]
# `pgseal bench confidential`: its report, and what a statement is in the report's cases.
BY_SYSBENCH = "confidential"
STATEMENTS = SCENARIO_LOADS
AT_A_GLANCE = [row for row in LOADS if not row.startswith("the same")]
# `pgseal bench tpch`: the queries' names, before the two rows of all.
QUERIES_OF_ALL = ["geometric mean", "worst"]
# The documents that have tables of figures, and the first columns of all these tables: no figure is left out.
DOCUMENTS = ["README.md", "docs/figures.md", "docs/confidential/encdb.md"]
ROWS = {
    "load at rest": AT_A_GLANCE,
    "scenario": [load for load in SCENARIO_LOADS for _ in range(3 if load.startswith("2") else 2)],
    "a transaction": STATEMENTS,
    "load": list(LOADS),
    "what moves pages": list(TASKS),
    "pg_upgrade": ["elapsed", "user and system CPU"],
    "a page of 8 kB": ["decrypt", "encrypt"],
    "query": [*(f"Q{number}" for number in range(1, 23)), *QUERIES_OF_ALL],
}
SHARES = ["extra CPU [95 %]", "cipher's own time", "extra / cipher [95 %]"]
NOTHING_MOVES = "no pages move"
A_FIGURE = re.compile(r"\d %|\d \[")


def tables(text):
    """(the heading above, the names of the columns, the rows) of every table."""
    heading, rows = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip().replace("\\", "") for cell in line.strip().strip("|").split("|")])
            continue
        if rows:
            yield heading, rows[0], rows[2:]
            rows = []
        if line.startswith("#"):
            heading = line.strip("# ")


class Shown:
    """A report: the cells of each case and variant, those of the cipher's share too, and the rows of others."""

    def __init__(self, pgseal, path):
        done = subprocess.run([pgseal, "bench", "report", "--wide", path], text=True, capture_output=True, check=True)
        self.cells, self.shares, self.others = {}, {}, {}
        for heading, columns, rows in tables(done.stdout):
            if heading.startswith("The cipher alone"):
                continue
            case = ""
            for row in rows:
                case, of_row = row[0] or case, dict(zip(columns, row))
                if of_row["variant"] in ("published", "run by us"):
                    self.others.setdefault(case, []).append(of_row)
                    self.others.setdefault(f"{heading.lower()}, {case}", []).append(of_row)
                elif heading.startswith("The cipher's share"):
                    self.shares[case, of_row["variant"]] = of_row
                else:
                    self.cells[f"{heading.lower()}, {case}", of_row["variant"]] = of_row
                    self.cells[case, of_row["variant"]] = of_row

    def cell(self, case, variant, column):
        return self.cells[case, variant][column]

    def loss(self, case, variant):
        of_row = self.cells[case, variant]
        return of_row.get("loss [95 %]") or of_row["extra time [95 %]"]

    def share(self, case, column):
        found = [row for (name, variant), row in self.shares.items() if variant == SEALED and name.endswith(case)]
        return found[0][column] if found else NOTHING_MOVES

    def other(self, case, of=""):
        """The first figure of another product; of what we ran the table says so."""
        for row in self.others.get(case, []):
            loss = row.get("loss [95 %]") or row["extra time [95 %]"]
            if row["verdict"].startswith(of):
                return loss if row["variant"] == "published" else f"{loss}, run by us"
        return ""


def of_queries(pgseal, path):
    """The columns of each row that the report of `pgseal bench tpch` has, by the query's number or the row's name."""
    done = subprocess.run([pgseal, "bench", "report", "--wide", path], text=True, capture_output=True, check=True)
    return {row[0].split(":")[0]: dict(zip(columns, row)) for heading, columns, rows in tables(done.stdout)
            if heading == "Time of queries" for row in rows}


class Documents:
    """What the documents' tables should hold."""

    def __init__(self, pgseal, root):
        self.pgseal, self.root, self.reports = pgseal, root, {}

    def report(self, name):
        if name not in self.reports:
            self.reports[name] = Shown(self.pgseal, self.root / f"docs/benchmarks/{name}.json")
        return self.reports[name]

    def differences(self):
        known = {"scenario": self.columns_row, "load at rest": self.glance_row, "load": self.load_row,
                 "query": self.query_row, "a transaction": self.sysbench_row, "what moves pages": self.task_row, "pg_upgrade": self.upgrade_row, "a page of 8 kB": self.cipher_row}
        wrong, missing = [], set(ROWS)
        for columns, rows in self.tables():
            kind = next((name for name in known if columns[0].replace("`", "").startswith(name)), None)
            missing.discard(kind)
            if kind and [row[0] for row in rows] != ROWS[kind]:
                wrong.append(f"the rows of {kind} are {[row[0] for row in rows]}")
            for row in rows:
                if kind:
                    wrong += [f"{row[0]}, {column}: {cell!r}, and not {own!r}"
                              for column, cell, own in zip(columns, row, known[kind](row), strict=True) if cell != own]
                else:
                    wrong += [f"a table that is not known has {cell!r}" for cell in row if A_FIGURE.search(cell)]
        return wrong + [f"no table of: {kind}" for kind in sorted(missing)]

    def tables(self):
        """The names of the columns and the rows of every table of these documents."""
        for document in DOCUMENTS:
            yield from ((columns, rows) for _, columns, rows in tables((self.root / document).read_text()))

    def glance_row(self, row):
        """The columns of the longer table that README has."""
        of_row = self.load_row(row)
        return [row[0], of_row[1], of_row[4]]

    def load_row(self, row):
        name, case = LOADS[row[0]]
        report = self.report(name)
        own = [report.cell(case, SEALED, column) for column in ("loss [95 %]", "extra CPU [95 %]", "CPU per transaction")]
        shares = [report.share(case, column) for column in SHARES]
        return [row[0], *own, *shares]

    def task_row(self, row):
        report, case = self.report("worst"), TASKS[row[0]]
        shares = [report.share(case, column) for column in SHARES]
        return [row[0], report.loss(case, SEALED), *shares, report.other(case)]

    def upgrade_row(self, row):
        report = self.report("upgrade")
        return [row[0], report.loss(row[0], SEALED), report.loss(row[0], "loaded"), report.other(row[0])]

    def cipher_row(self, row):
        report, case = self.report("cipher"), f"{row[0]}, 256 bits"
        speeds = [f"{report.cell(case, variant, 'ns/page')} ns, {report.cell(case, variant, 'GB/s')} GB/s"
                  for variant in ("pgseal", "stock", "openssl")]
        return [row[0], *speeds, report.loss(case, "pgseal")]

    def columns_row(self, row):
        load, variant = row[0], FORMS[row[1]]
        own = []
        for form in ("inline", "isolated"):
            report = self.report(SCENARIOS.format(form=form))
            case = f"scenario {load}, {form}"
            own.append(report.loss(case, variant))
        return [load, row[1], *own, report.other(case, variant) or ("" if variant == CLEAR else "not published")]

    def query_row(self, row):
        if "tpch" not in self.reports:
            self.reports["tpch"] = of_queries(self.pgseal, self.root / "docs/benchmarks/tpch.json")
        of_row = self.reports["tpch"][row[0]]
        return [row[0], *(of_row[column] for column in ("stock, ms", "inline, times", "isolated, times", "isolated, requests"))]

    def sysbench_row(self, row):
        report, case = self.report(BY_SYSBENCH), f"scenario {row[0]}, 8 threads"
        own = [report.cell(case, variant, "time added [95 %]") for variant in ("isolated-in-process", "isolated")]
        cpu = report.cell(case, "isolated-in-process", "extra CPU [95 %]")
        return [row[0], *own, cpu, report.others[case][0]["time added [95 %]"]]
