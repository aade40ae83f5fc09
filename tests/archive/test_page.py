#!/usr/bin/python3
"""The commands of docs/operations/archive-and-pitr.md, run as they are printed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page, PageCase  # noqa: E402
from pgseal_test import PGSEAL, Canaries, base_environment, main, twins  # noqa: E402

PAGE = "docs/operations/archive-and-pitr.md"
PREPARE = """
initdb -D data -y -k --no-key-wrap -U postgres -A trust -N $INITDB > initdb.log
printf "listen_addresses = ''\\nunix_socket_directories = '$PWD'\\n" >> data/postgresql.conf
pg_ctl -D data -l log start
psql -c "CREATE TABLE seen AS SELECT '$CANARY' AS word"
"""

# The running server's WAL is where it was when the copy has lost its own. Flushed, because after the switch that ends the
# backup the segment to insert into is made only when something is written to it.
STILL_THERE = """
test -e "$(readlink -f data/pg_wal)/$(psql -Atc "SELECT pg_walfile_name(pg_current_wal_flush_lsn())")"
"""


class Commands(PageCase):
    def test_the_commands(self):
        self.run_page()

    def test_with_wal_elsewhere(self):
        self.run_page(f"--waldir={self.directory}/wal")
        self.assertTrue((self.directory / "data/pg_wal").is_symlink())

    def run_page(self, initdb=""):
        blocks = Page(PAGE, {}).blocks("sh")
        self.assertEqual(len(blocks), 4)
        canary = Canaries()
        path = f"{twins()}:{PGSEAL.parent}:{base_environment()['PATH']}"
        environment = {**base_environment(), "PATH": path, "PGHOST": str(self.directory), "PGUSER": "postgres",
                       "PGDATABASE": "postgres", "CANARY": canary["row"], "INITDB": initdb}
        said = self.run_commands(PREPARE + "".join([*blocks[:2], STILL_THERE, *blocks[2:]]), environment)
        self.assertRegex(said, r"(?s) i\s+-+\s+1\s+\(1 row\)\s*\Z")
        self.assertEqual(canary.found(self.directory), {})


if __name__ == "__main__":
    main(__file__, [PAGE])
