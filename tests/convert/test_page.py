#!/usr/bin/env python3
"""The commands of docs/operations/convert.md, run as they are printed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page, PageCase
from pgseal_test import PG, PGSEAL, Canaries, base_environment, main

PAGE = "docs/operations/convert.md"
PREPARE = """
initdb -D data -k -U postgres -A trust -N > initdb.log
printf "listen_addresses = ''\\nunix_socket_directories = '$PWD'\\n" >> data/postgresql.conf
pg_ctl -D data -l log start
psql -c "CREATE TABLE seen AS SELECT '$CANARY' AS word"
echo a passphrase > secret
wrap="openssl enc -aes-256-cbc -pbkdf2 -pass file:$PWD/secret -out '%p'"
unwrap="openssl enc -d -aes-256-cbc -pbkdf2 -pass file:$PWD/secret -in '%p'"
"""


class Commands(PageCase):
    def test_the_commands(self):
        blocks = Page(PAGE, {}).blocks("sh")
        self.assertEqual(len(blocks), 4)
        seal, twins, rekey, unseal = blocks
        canary = Canaries()
        path = f"{PG}:{PGSEAL.parent}:{base_environment()['PATH']}"
        environment = {**base_environment(), "PATH": path, "PGHOST": str(self.directory), "PGUSER": "postgres",
                       "PGDATABASE": "postgres", "CANARY": canary["row"]}
        self.run_commands(PREPARE + seal + twins, environment)
        self.assertEqual(canary.found(self.directory / "data"), {})
        said = self.run_commands(PREPARE[PREPARE.index("wrap="):] + rekey + "psql -Atc 'TABLE seen'", environment)
        self.assertEqual(said.splitlines()[-1], canary["row"])
        self.assertEqual(canary.found(self.directory / "data"), {})
        said = self.run_commands(unseal + "psql -Atc 'TABLE seen'", environment)
        self.assertEqual(said.splitlines()[-1], canary["row"])
        self.assertEqual(list(canary.found(self.directory / "data/base")), ["row"])


if __name__ == "__main__":
    main(__file__, [PAGE])
