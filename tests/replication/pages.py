#!/usr/bin/env python3
"""The commands of four pages of docs/operations, run as they are printed."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page, PageCase  # noqa: E402
from pgseal_test import PG, PGSEAL, Canaries, base_environment, main, twins  # noqa: E402

PAGES = {name: f"docs/operations/{name}.md" for name in ["base-backup", "replication", "moving", "changing-keys"]}
DEBIAN_PG = "/usr/lib/postgresql/15/bin"
START = """
printf "listen_addresses = ''\\nunix_socket_directories = '$PWD'\\nwal_keep_size = 64\\n" >> data/postgresql.conf
"$BIN/pg_ctl" -D data -l log start
psql -c "CREATE TABLE seen AS SELECT '$CANARY' AS word"
"""


class Pages(PageCase):
    """Each page begins with a running cluster `data`, and leaves nothing readable outside a plain one."""

    def run_page(self, name, sealed=True, blocks=1):
        """Runs the page's blocks in one shell; returns what they printed."""
        bindir = twins() if sealed else PG
        options = "-y --no-key-wrap" if sealed else ""
        init = f"\"$BIN/initdb\" -D data {options} -k -U postgres -A trust -N > initdb.log\n"
        places = {DEBIAN_PG: str(PG)} if name in ("moving", "changing-keys") else {}
        shown = Page(PAGES[name], places).blocks("sh")
        self.assertEqual(len(shown), blocks)
        self.canaries = Canaries()
        environment = {**base_environment(), "PATH": f"{twins()}:{PGSEAL.parent}:{base_environment()['PATH']}",
                       "BIN": str(bindir), "PGHOST": str(self.directory), "PGUSER": "postgres", "PGDATABASE": "postgres",
                       "CANARY": self.canaries["row"]}
        return self.run_commands(init + START + "".join(shown), environment)

    def test_base_backup(self):
        said = self.run_page("base-backup", blocks=4)
        self.assertEqual(said.count("backup successfully verified"), 2)
        self.assertEqual(self.canaries.found(self.directory), {})

    def test_replication(self):
        said = self.run_page("replication", blocks=4)
        self.assertRegex(said, r"(?m)^0{7}1[0-9A-F]{16}(\.partial)?$")
        self.assertEqual(self.canaries.found(self.directory), {})

    def test_moving(self):
        said = self.run_page("moving", sealed=False, blocks=2)
        self.assertRegex(said, r"(?s) a\s+-+\s+1\s+\(1 row\)\s*\Z")
        self.assertNotEqual(self.canaries.found(self.directory / "data"), {})
        self.assertEqual(self.canaries.found(self.directory / "sealed"), {})

    def test_changing_keys(self):
        said = self.run_page("changing-keys", blocks=2)
        keys = re.findall(r"\b[0-9a-f]{32}\b", said.rpartition("(1 row)")[2])
        self.assertGreaterEqual(len(set(keys)), 2)
        self.assertEqual(self.canaries.found(self.directory), {})


if __name__ == "__main__":
    main(__file__, list(PAGES.values()))
