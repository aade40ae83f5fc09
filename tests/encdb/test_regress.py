#!/usr/bin/env python3
"""The extension's own suite (extension/encdb/test), through pg_regress, with the evaluator inline and isolated."""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import SUITE, TOOLS, VERSION, Confidential, programs  # noqa: E402
from pgseal_test import PG, STAGE, main, run  # noqa: E402

# In this order: the first makes the extension and the owner's keys.
FILES = ["setup", "types", "compare", "index", "operations", "compiled", "convert", "grants", "published", "background"]


class Regress(Confidential):
    def test_inline(self):
        self.suite("inline")

    def test_isolated(self):
        self.suite("isolated", self.evaluator().socket)

    def suite(self, form, socket=""):
        # What VACUUM and REINDEX leave depends on who else has a snapshot.
        server = self.server(form=form, socket=socket, extension=False, conf="autovacuum = off")
        shutil.copytree(STAGE / SUITE, self.directory / "test")
        self.expect_as_since_19()
        output = self.directory / "output"
        output.mkdir()
        library = run([PG / "pg_config", "--pkglibdir"]).stdout.strip()
        command = [f"{library}/pgxs/src/test/regress/pg_regress", "--use-existing", f"--bindir={programs()}",
                   f"--inputdir={self.directory / 'test'}", f"--outputdir={output}", "--dbname=postgres", *FILES]
        done = run(command, server.environment, check=False, cwd=output)
        differences = output / "regression.diffs"
        if done.returncode != 0:
            self.fail(differences.read_text()[-6000:] if differences.exists() else done.stdout + done.stderr)

    def expect_as_since_19(self):
        """PostgreSQL 19 says in two sentences that there is no such function or operator."""
        for file in (self.directory / "test/expected").iterdir() if int(VERSION) >= 19 else ():
            said = re.sub(r"^HINT:  No (function|operator) matches the given name and argument types?\. You might",
                          r"DETAIL:  No \1 of that name accepts the given argument types.\nHINT:  You might", file.read_text(), flags=re.M)
            said = re.sub(r"^HINT:  (Could not choose a best candidate \w+\.) You might", r"DETAIL:  \1\nHINT:  You might", said, flags=re.M)
            file.write_text(said)


if __name__ == "__main__":
    main(__file__, TOOLS)
