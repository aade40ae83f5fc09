"""The table of `make test-keys`: providers and steps of a cluster's life, from the lines that tests/keys/life.py prints.

A life begins with a line that names its steps, and each step that ends prints a line of its own:

    life of Vault: initdb, start, restart
    life of Vault: initdb: ok 0.7 s

>>> lives = Lives()
>>> for line in ["life of Vault: initdb, start, restart", "life of Vault: initdb: ok 0.7 s", "life of Vault: start: FAILED 9.0 s", "ok"]:
...     lives.line(line)
>>> lives.line("life of Tang: initdb, start")
>>> print(lives.table())
provider initdb   start        restart
Vault    ok 0.7 s FAILED 9.0 s not run
Tang     not run  not run      -
"""

import re

LINE = re.compile(r"life of ([^:]+): (?:(?P<step>[^:]+): (?P<result>(?:ok|FAILED) [\d.]+ s)|(?P<steps>[^:]+))$")


class Lives:
    """Results by provider and step."""

    def __init__(self):
        self.rows = {}

    def line(self, line):
        """Takes one line of a test's output."""
        if not (match := LINE.match(line.rstrip())):
            return
        if match["steps"]:
            self.rows[match[1]] = {step: "not run" for step in match["steps"].split(", ")}
        else:
            self.rows[match[1]][match["step"]] = match["result"]

    def table(self):
        """Lines with a column for each step that any life has."""
        steps = list(dict.fromkeys(step for row in sorted(self.rows.values(), key=len, reverse=True) for step in row))
        lines = [["provider", *steps]]
        lines += [[name, *(row.get(step, "-") for step in steps)] for name, row in self.rows.items()]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join(" ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)
