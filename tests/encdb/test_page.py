#!/usr/bin/env python3
"""docs/confidential/encdb.md: its SQL runs as printed, in a session as it says, and gives what it should."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import STAGE, main  # noqa: E402

PAGE = "docs/confidential/encdb.md"


class Page(Confidential):
    def test_statements(self):
        blocks = re.findall(r"^```sql\n(.*?)^```$", (STAGE / PAGE).read_text(), re.M | re.S)
        self.assertEqual(len(blocks), 12)
        for form in FORMS:
            with self.subTest(form):
                server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "",
                                     extension=False)
                server.psql(blocks[0])
                self.assertEqual(self.as_owner(server, blocks[1]).splitlines()[-1], "10|577.50")
                self.as_owner(server, blocks[2])
                self.assertEqual(server.psql("SELECT note FROM plain WHERE id = 7"), "secret 7")
                self.assertEqual(self.as_owner(server, blocks[3]).splitlines()[-1], "blue|7")
                self.assertEqual(self.as_owner(server, blocks[4]).splitlines(), ["A-1|1.01", "A-2|2.010", "A-3|3.02"])
                self.assertEqual(self.as_owner(server, blocks[5]).splitlines(), ["07:30:00|08:00:00"] * 4 + ["32:00:00"])
                self.assertEqual(self.as_owner(server, blocks[6]), "530.25|owner 1")
                self.assertEqual(self.as_owner(server, blocks[7]).splitlines(), ["63.00", "63.00", "63.00", "1", "2", "3", "3"])
                self.assertEqual(self.as_owner(server, blocks[8]).splitlines(), ["1", "1"])
                self.as_owner(server, blocks[9])
                self.assertEqual(self.as_owner(server, blocks[10]).splitlines(), ["100", "0", "100"])
                self.assertEqual(self.as_owner(server, blocks[11]).splitlines()[-4:], ["id|-1", "owner|-1", "balance|-1", "opened|1"])

    def test_settings(self):
        """The table names every setting, with its default."""
        server = self.server(form="isolated")
        settings = server.psql("LOAD 'encdb'; SELECT name, boot_val FROM pg_settings WHERE name LIKE 'encdb.%' ORDER BY 1")
        page = (STAGE / PAGE).read_text()
        rows = dict(re.findall(r"^\| `(encdb\.\w+)` \| `([\w/.]+)`", page, re.M))
        self.assertEqual(rows, dict(line.split("|") for line in settings.splitlines()))


if __name__ == "__main__":
    main(__file__, [*TOOLS, PAGE])
