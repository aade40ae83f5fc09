#!/usr/bin/env python3
"""Catalogs through pgseal proxy show encdb's types: to psql, SQLAlchemy's reflection and pgjdbc. Django's inspectdb asks a query."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import PATIENCE, PORT, Drivers  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402
from scenarios import Words, tables  # noqa: E402


class Reflection(Drivers):
    def test_the_catalog_is_shown_as_it_is(self):
        words, directory = Words(), self.shop()
        self.psql(directory, "; ".join(step.sql for step in tables()))
        shown = self.psql(directory, "\\d person\n")
        self.assertIn("name|enc_text|||", shown)
        config = self.directory / "config"
        config.write_text(json.dumps({"host": str(directory), "port": PORT, "mark": words.mark}))
        enc = ("name", "age", "paid", "born")
        unknown = self.reflected("sqlalchemy", config)
        self.assertEqual({unknown["types"][name] for name in enc}, {"NullType"})
        self.assertEqual((unknown["rows"], unknown["warnings"]), ([[1, 36]], 4))
        self.psql(directory, "TRUNCATE person")
        known = self.reflected("registered", config)
        self.assertEqual([known["types"][name] for name in enc], ["Text", "Integer", "Numeric", "Date"])
        self.assertEqual((known["rows"], known["warnings"]), ([[1, 36]], 0))
        django = self.reflected("django", config)
        self.assertEqual([django["types"][name] for name in enc], ["TextField", "IntegerField", "DecimalField", "DateField"])
        catalog = self.catalog_of_pgjdbc()
        self.assertEqual([catalog[name] for name in enc], ["enc_text", "enc_int4", "enc_decimal", "enc_date"])
        self.assertNotIn(words.mark, self.cluster_.log())

    def catalog_of_pgjdbc(self):
        built, config = self.built("java") / "target", self.directory / "tcp"
        config.write_text(json.dumps({"tcp": self.tcp, "inside": None}))
        return self.printed("java", "-cp", f"{built}/classes:{built}/dependency/*", "drivers.Main", "catalog", config)

    def reflected(self, what, config):
        return self.printed(*self.python("reflecting.py", what), config)

    def printed(self, *command):
        done = subprocess.run(command, env=base_environment(), text=True, capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


if __name__ == "__main__":
    main(__file__, TOOLS)
