#!/usr/bin/env python3
"""The commands of docs/operations/convert.md, run as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, PGSEAL, STAGE, Canaries, Case, base_environment, main, stage

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


class Page(Case):
    def test_the_commands(self):
        blocks = re.findall(r"^```sh\n(.*?)^```$", (STAGE / PAGE).read_text(), re.M | re.S)
        self.assertEqual(len(blocks), 4)
        seal, twins, rekey, unseal = blocks
        canary = Canaries()
        path = f"{PG}:{PGSEAL.parent}:{base_environment()['PATH']}"
        self.environment = {**base_environment(), "PATH": path, "PGHOST": str(self.directory), "PGUSER": "postgres",
                            "PGDATABASE": "postgres", "CANARY": canary["row"]}
        self.addCleanup(self.end_servers)
        self.run_lines(PREPARE + seal + twins)
        self.assertEqual(canary.found(self.directory / "data"), {})
        said = self.run_lines(PREPARE[PREPARE.index("wrap="):] + rekey + "psql -Atc 'TABLE seen'")
        self.assertEqual(said.splitlines()[-1], canary["row"])
        self.assertEqual(canary.found(self.directory / "data"), {})
        said = self.run_lines(unseal + "psql -Atc 'TABLE seen'")
        self.assertEqual(said.splitlines()[-1], canary["row"])
        self.assertEqual(list(canary.found(self.directory / "data/base")), ["row"])

    def run_lines(self, script):
        """Runs a block so that the first failure ends it; pg_ctl's server would keep a pipe open."""
        output = self.directory.parent / f"{self.directory.name}.output"
        self.addCleanup(output.unlink, missing_ok=True)
        with open(output, "w") as file:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=self.environment, cwd=self.directory,
                                  stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=300, check=False)
        log = self.directory / "log"
        self.assertEqual(done.returncode, 0, output.read_text()[-3000:] + (log.read_text()[-3000:] if log.exists() else ""))
        return output.read_text()

    def end_servers(self):
        """Those that the commands left running."""
        for pid_file in self.directory.glob("*/postmaster.pid"):
            postmaster = int(pid_file.read_text().split()[0])
            stage.end_processes({postmaster} | stage.descendants(postmaster))


if __name__ == "__main__":
    main(__file__, [PAGE])
