#!/usr/bin/env python3
"""What pgseal client protect costs: rows per second, the lock, what a writer notices, and sizes.

    PGSEAL_FIGURES_ROWS=1000000 tests/encdb/protect_figures.py

Without the variable the rows are few: the test is then that all of it works.

The table has a text column with a unique index, one without, and a bigint key. One application updates random rows all the time, each
in a transaction of its own, and measures how long each takes; it runs in the form --online only, because the other form ends it.
Prints a Markdown table.
"""

import json
import os
import random
import statistics
import sys
import threading
import time
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS  # noqa: E402
import owners_client  # noqa: E402
from pgseal_test import main  # noqa: E402

ROWS = int(os.environ.get("PGSEAL_FIGURES_ROWS", "20000"))
owners_client.TIME_LIMIT = 7200
SIZE = "SELECT pg_total_relation_size('customers') / 1048576"


class Application(threading.Thread):
    """Updates random rows until its connection is ended."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.connection = psycopg2.connect(host=str(cluster.home), user="postgres", dbname="postgres")
        self.connection.autocommit = True
        self.took = []

    def run(self):
        source = random.Random(1)
        try:
            with self.connection.cursor() as cursor:
                while True:
                    began = time.monotonic()
                    cursor.execute("UPDATE customers SET ssn = %s WHERE id = %s", (f"new {source.random()}", source.randint(1, ROWS)))
                    self.took.append(time.monotonic() - began)
                    time.sleep(0.002)
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            self.connection.close()


class Figures(owners_client.OwnersClient):
    def test_figures(self):
        lines = ["| evaluator, form | rows per second | lock, ms | updates | median, ms | 99 of 100, ms | longest, ms | MiB before "
                 "| after | rewritten |", "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |"]
        for form in FORMS:
            for option in ("--online", None):
                lines.append(self.measured(form, option))
        print("\n".join(lines))

    def measured(self, form, option):
        (self.directory / "owner").unlink(missing_ok=True)
        at = self.evaluator(f"{form}{option}").socket if form == "isolated" else ""
        conf = "fsync = on\nshared_buffers = 512MB\nmaintenance_work_mem = 256MB\nmax_wal_size = 4GB"
        cluster = self.server(f"{form}{option}", form=form, socket=at, conf=conf)
        for command in (["init"], ["key", "new"]):
            self.client(cluster, *command)
        cluster.psql(f"CREATE TABLE customers (id bigint PRIMARY KEY, email text UNIQUE, ssn text); "
                     f"INSERT INTO customers SELECT g, 'user' || g || '@example.org', lpad(g::text, 9, '0') "
                     f"FROM generate_series(1, {ROWS}) g")
        cluster.psql("VACUUM ANALYZE customers")
        cluster.psql("CHECKPOINT")
        before = cluster.psql(SIZE)
        application = Application(cluster)
        if option:
            application.start()
        options = ["--disconnect", "--json", *([option] if option else [])]
        report = json.loads(self.client(cluster, "protect", "--table", "customers", "--columns", "email,ssn", *options))
        after = cluster.psql(SIZE)
        self.client(cluster, "sql", "VACUUM FULL customers")
        took, updates = ["-"] * 3, "-"
        if option:
            application.join()
            all_ = sorted(application.took)
            took = [f"{1000 * each:.1f}" for each in (statistics.median(all_), all_[len(all_) * 99 // 100], all_[-1])]
            updates = len(all_)
        lock = f"{1000 * report['lock_seconds']:.0f}" if option else f"{1000 * report['seconds']:.0f}"
        rate = f"{ROWS / report['seconds']:.0f}"
        cells = [f"{form}, {option or 'at once'}", rate, lock, updates, *took, before, after, cluster.psql(SIZE)]
        cluster.stop()
        return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main(__file__, TOOLS)
