#!/usr/bin/env python3
"""docs/confidential/quick-start.md: every block runs as printed, and the server sees no value of the programs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import HERE, LOG_ALL, Drivers  # noqa: E402
from confidential import TOOLS, programs  # noqa: E402
from inside import SOURCES  # noqa: E402
from pgseal_test import STAGE, TIME_LIMIT, base_environment, main  # noqa: E402

PAGE = "docs/confidential/quick-start.md"
PORT, JAR = "6432", "postgresql.jar"
BUILD_GO = "go build -o customers_pgx .\n"
# A section, the language and the file of its program, and what its run prints.
SECTIONS = [("psql", None, None, "Ada Example | 1990-05-17"),
            ("Python: psycopg", "python", "customers_psycopg.py", "Bruno Example 1991-06-18"),
            ("Python: Django", "python", "customers_django.py", "Clara Example 1992-07-19"),
            ("Python: SQLAlchemy", "python", "customers_sqlalchemy.py", "Dora Example 1993-08-20"),
            ("Go: pgx", "go", "main.go", "Emil Example 1994-09-21"),
            ("Node: pg", "javascript", "customers_pg.js", "Flora Example Sun Oct 22 1995"),
            ("Java: pgjdbc", "java", "CustomersJdbc.java", "Gustav Example 1996-11-23")]


def blocks(text):
    """Pairs of language and content."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


class QuickStart(Drivers):
    def setUp(self):
        super().setUp()
        _, *sections = re.split(r"^## (.*)\n", (STAGE / PAGE).read_text(), flags=re.M)
        self.sections = dict(zip(sections[::2], sections[1::2]))
        self.evaluator_ = self.evaluator(options=("--identity", self.directory / "evaluator.identity"))
        self.cluster_ = self.server("isolated", form="isolated", socket=self.evaluator_.socket, conf=LOG_ALL, extension=False)
        self.cluster_.psql("CREATE ROLE app LOGIN; CREATE DATABASE shop")
        self.port = str(self.reserved_port())
        jars = (self.built("java") / "target/dependency").glob("postgresql-*.jar")
        (self.directory / JAR).symlink_to(next(jars))
        shutil.copy2(self.built("go") / "quick", self.directory / "customers_pgx")
        path = f"{STAGE}/dist/bin:{self.built('python')}/bin:{programs()}:{base_environment()['PATH']}"
        self.environment = {**base_environment(), "PATH": path, "HOME": str(self.directory), "TMPDIR": str(self.directory),
                            "PGHOST": str(self.cluster_.home), "NODE_PATH": str(self.built("node") / "node_modules")}

    def run_lines(self, script):
        """As the reader's shell, which has what the first block exports."""
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=self.environment, cwd=self.directory, text=True,
                              capture_output=True, timeout=TIME_LIMIT, check=False)
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_every_block(self):
        exports = self.prepares()
        wanted = ["Before you start", *(section for section, *_ in SECTIONS), "When something fails"]
        self.assertEqual(list(self.sections), wanted)
        for section, language, file, printed in SECTIONS:
            with self.subTest(section):
                *program, (kind, lines) = blocks(self.sections[section])
                self.assertEqual([kind, *(each for each, _ in program)], ["sh", *([language] if language else [])])
                for _, text in program:
                    (self.directory / file).write_text(text.replace(PORT, self.port))
                lines = lines.replace(PORT, self.port).replace(BUILD_GO, "")
                self.assertIn(printed, self.run_lines(exports + lines))
        self.assertEqual(self.cluster_.psql("SELECT count(*) FROM customers", "shop"), str(len(SECTIONS)))
        self.sees_nothing()

    def prepares(self):
        """Runs what comes first, and returns the line that a shell keeps of it."""
        (sql, statements), (sh, lines) = blocks(self.sections["Before you start"])
        self.assertEqual((sql, sh), ("sql", "sh"))
        self.cluster_.psql(statements, "shop")
        key, = re.findall(r" signed by (\S+)$", self.evaluator_.log_file.read_text(), re.M)
        lines = lines.replace("KEY", key)
        self.run_lines(lines)
        exports = lines.splitlines()[0]
        self.assertTrue(exports.startswith("export "))
        self.run_lines(f"{exports}\npgseal client grant add --allow aggregate,text,compare-derived")
        return exports + "\n"

    def sees_nothing(self):
        log = self.cluster_.log()
        self.assertGreaterEqual(log.count("INSERT INTO customers"), len(SECTIONS))
        self.assertEqual(re.findall(r"[A-Z][a-z]+ Example|\w+@example\.org|199[0-6]-[01]\d-\d\d", log), [])

    def test_the_program_in_go_is_the_one_that_is_built(self):
        (_, text), _ = blocks(self.sections["Go: pgx"])
        self.assertEqual((HERE / "go/quick/main.go").read_text(), text)
        self.assertIn(BUILD_GO, self.sections["Go: pgx"])
        self.assertTrue(os.access(self.built("go") / "quick", os.X_OK))

    def test_lines_are_as_long_as_a_page(self):
        self.assertEqual([line for line in (STAGE / PAGE).read_text().splitlines() if len(line) > 120], [])


if __name__ == "__main__":
    main(__file__, [*TOOLS, *SOURCES, PAGE])
