#!/usr/bin/python3
"""The commands of docs/operations/archive-and-pitr.md, run as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, STAGE, Canaries, Case, base_environment, main, stage, twins  # noqa: E402

PAGE = "docs/operations/archive-and-pitr.md"
PREPARE = """
initdb -D data -y -k --no-key-wrap -U postgres -A trust -N > initdb.log
printf "listen_addresses = ''\\nunix_socket_directories = '$PWD'\\n" >> data/postgresql.conf
pg_ctl -D data -l log start
psql -c "CREATE TABLE seen AS SELECT '$CANARY' AS word"
"""


class Page(Case):
    def test_the_commands(self):
        blocks = re.findall(r"^```sh\n(.*?)^```$", (STAGE / PAGE).read_text(), re.M | re.S)
        self.assertEqual(len(blocks), 4)
        canary = Canaries()
        path = f"{twins()}:{PGSEAL.parent}:{base_environment()['PATH']}"
        environment = {**base_environment(), "PATH": path, "PGHOST": str(self.directory), "PGUSER": "postgres",
                       "PGDATABASE": "postgres", "CANARY": canary["row"]}
        self.addCleanup(self.end_servers)
        script = PREPARE + "".join(blocks)
        # pg_ctl leaves a server that keeps what it inherits open: output goes to a file, not into a pipe.
        with open(self.directory / "output", "w") as output:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=environment, cwd=self.directory,
                                  stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=300, check=False)
        said = (self.directory / "output").read_text()
        self.assertEqual(done.returncode, 0, said[-3000:] + (self.directory / "log").read_text()[-3000:])
        self.assertRegex(said, r"(?s) i\s+-+\s+1\s+\(1 row\)\s*\Z")
        (self.directory / "output").unlink()
        self.assertEqual(canary.found(self.directory), {})

    def end_servers(self):
        """Those that the commands left running."""
        for pid_file in self.directory.glob("*/postmaster.pid"):
            postmaster = int(pid_file.read_text().split()[0])
            stage.end_processes({postmaster} | stage.descendants(postmaster))


if __name__ == "__main__":
    main(__file__, [PAGE])
