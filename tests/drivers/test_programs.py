#!/usr/bin/env python3
"""pgbench and sysbench through pgseal proxy, with their own loads and tables whose values are encrypted."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import PORT, Drivers, Watch  # noqa: E402
from confidential import TOOLS, programs  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402

SYSBENCH = "/usr/bin/sysbench"
# The values of sysbench's columns: groups of eleven digits.
DIGITS = rb"\d{11}-\d{11}-"
ACCOUNTS = """
    CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance enc_int4, filler enc_text);
    CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance enc_int4, filler enc_text);
    CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance enc_int4, filler enc_text);
    CREATE TABLE pgbench_history (tid int, bid int, aid int, delta enc_int4, mtime timestamp, filler enc_text);
"""


class Programs(Drivers):
    def done(self, *command):
        done = subprocess.run(command, env=base_environment(), text=True, capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Pgbench(Programs):
    def pgbench(self, directory, *options):
        return self.done(programs() / "pgbench", "-h", directory, "-p", str(PORT), "-U", "postgres", *options, "postgres")

    def test_accounts(self):
        """The load like TPC-B, in each protocol, on tables that pgbench fills."""
        directory = self.shop("isolated")
        self.psql(directory, ACCOUNTS)
        self.pgbench(directory, "-i", "-I", "G", "-q")
        for mode in ("simple", "extended", "prepared"):
            self.assertIn("processed: 100/100", self.pgbench(directory, "-n", "-c", "2", "-t", "50", "-M", mode))
        sums = self.psql(directory, "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(delta) FROM pgbench_history), "
                         "(SELECT count(*) FROM pgbench_history)")
        self.assertRegex(sums[0], r"\A(-?\d+)\|\1\|300\Z")
        log = self.cluster_.log()
        added = set(re.findall(r"balance = \w+balance \+ (E'..x|\S+)", log))
        self.assertEqual(added, {"$1", "E'\\\\x"})
        parameters = set(re.findall(r"balance \+ \$1[^\n]*\n[^\n]* DETAIL: [^\n]*\$1 = '(..)", log))
        self.assertEqual(parameters, {"\\x"})


class Sysbench(Programs):
    def test_published_loads(self):
        """Its own scripts as they are, prepared and not."""
        directory = self.shop("isolated")
        self.psql(directory, "CREATE TABLE sbtest1 (id int PRIMARY KEY, k enc_int4, c enc_text, pad enc_text)")
        group = "-".join(["12345678901"] * 10)
        rows = ", ".join(f"({id}, {id}, '{group}', '{group[:59]}')" for id in range(1, 101))
        self.psql(directory, f"INSERT INTO sbtest1 (id, k, c, pad) VALUES {rows}; CREATE INDEX ON sbtest1 (k)")
        with Watch(self.cluster_) as watch:
            for load in ("oltp_point_select", "oltp_read_write", "oltp_update_index", "select_random_points", "select_random_ranges"):
                for mode in ("auto", "disable"):
                    with self.subTest(load=load, mode=mode):
                        self.run_load(directory, load, mode)
        self.assertEqual(self.psql(directory, "SELECT count(*) FROM sbtest1"), ["100"])
        found = [name for name, content in self.places(watch.seen, b"sbtest1").items() if re.search(DIGITS, content)]
        self.assertEqual(found, [])

    def run_load(self, directory, load, mode):
        said = self.done(SYSBENCH, load, "--db-driver=pgsql", f"--pgsql-host={directory}", f"--pgsql-port={PORT}", "--pgsql-user=postgres",
                         "--pgsql-password=x", "--pgsql-db=postgres", "--tables=1", "--table-size=100", "--threads=1", "--events=40",
                         "--time=60", f"--db-ps-mode={mode}", "run")
        self.assertRegex(said, r"total number of events: +40\n")


if __name__ == "__main__":
    main(__file__, TOOLS)
