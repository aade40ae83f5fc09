#!/usr/bin/env python3
"""What a statement that touches nothing encrypted costs more inside a process: the program's time of CPU for each statement.

    PGSEAL_FIGURES_STATEMENTS=20000 python3 tests/encdb/plain_figures.py

Without the variable the statements are few: the test is then that all of it works.

pgbench sends one statement in each transaction to a plain table, in a database where another table is encrypted: once by libpq as it
is, once by `pgseal client exec --in-process`. The rounds are interleaved. What a program needs to start is subtracted, by a run with
one statement. Prints a Markdown table of medians in microseconds.
"""

import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, programs  # noqa: E402
from executed import ClientExec  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import PGSEAL  # noqa: E402

STATEMENTS = int(os.environ.get("PGSEAL_FIGURES_STATEMENTS", "50"))
ROUNDS = int(os.environ.get("PGSEAL_FIGURES_ROUNDS", "7"))
MODES = ["simple", "extended", "prepared"]
PAD = "68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-28203206787-41238978918-19503783441"
SHAPES = {"point": "SELECT c FROM plain WHERE id = :id;", "100 rows": "SELECT c FROM plain WHERE id BETWEEN :id AND :id + 99;",
          "write": f"UPDATE plain SET c = '{PAD}' WHERE id = :id;"}


class Figures(ClientExec):
    def test_figures(self):
        self.shop()
        self.process.terminate()
        self.process.wait()
        self.cluster_.psql("ALTER SYSTEM SET log_statement = none")
        self.cluster_.psql("SELECT pg_reload_conf()")
        self.cluster_.psql(f"CREATE TABLE plain (id int PRIMARY KEY, c char(120)); INSERT INTO plain SELECT i, '{PAD}' "
                           "FROM generate_series(1, 10000) i")
        self.cluster_.psql("VACUUM ANALYZE plain")
        lines = ["| statement | protocol | libpq | in the process | more |", "| --- | --- | --: | --: | --: |"]
        for shape, text in SHAPES.items():
            script = self.directory / "script"
            script.write_text("\\set id random(1, 9900)\n" + text)
            for mode in MODES:
                lines.append(f"| {shape} | {mode} | {self.measured(script, mode)} |")
        print("\n".join(lines))

    def measured(self, script, mode):
        command = [programs() / "pgbench", "-n", "-M", mode, "-f", script]
        forms = {"libpq": [], "in the process": [PGSEAL, "client", "exec", "--in-process", "--"]}
        taken = {name: [] for name in forms}
        started = {name: self.cpu([*before, *command], 1) for name, before in forms.items()}
        for _ in range(ROUNDS):
            for name in random.sample(list(forms), len(forms)):
                taken[name].append((self.cpu([*forms[name], *command], STATEMENTS) - started[name]) * 1e6 / STATEMENTS)
        medians = [statistics.median(all_) for all_ in taken.values()]
        more = statistics.median(b - a for a, b in zip(*taken.values()))
        return " | ".join(f"{us:.1f}" for us in [*medians, more])

    def cpu(self, command, statements):
        """Seconds of CPU that a program and those that it waits for take."""
        process = subprocess.Popen([*command, "-t", str(statements)], env=self.environment(self.cluster_), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        self.assertEqual(process.returncode, 0, error)
        return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(__file__, TOOLS)
