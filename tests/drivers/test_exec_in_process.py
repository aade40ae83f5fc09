#!/usr/bin/env python3
"""pgseal client exec --in-process with the drivers of Perl, Ruby and PHP, with psycopg 3, asyncpg and pgbench.

PHP loads its extensions so that they call libc past every library that is preloaded. It finds no server then, and works with a proxy.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "encdb")]
from places import place  # noqa: E402
from confidential import FORMS, TOOLS  # noqa: E402
from executed import ClientExec  # noqa: E402
from pgseal_test import main  # noqa: E402

IN_PROCESS = ["--in-process"]

PERL = """
use DBI;
my $d = DBI->connect("dbi:Pg:", "", "", {RaiseError => 1});
$d->prepare("INSERT INTO person (id, name, age) VALUES (?, ?, ?)")->execute(1, "secretPerl", 7);
my $rows = $d->selectall_arrayref("SELECT name, age FROM person WHERE name = ?", undef, "secretPerl");
print "$rows->[0][0] $rows->[0][1]\\n";
"""
RUBY = """
require 'pg'
c = PG.connect
c.exec_params("INSERT INTO person (id, name, age) VALUES ($1, $2, $3)", [2, "secretRuby", 8])
puts c.exec_params("SELECT name, age FROM person WHERE name = $1", ["secretRuby"]).values.join(" ")
"""
PHP = """<?php
$c = @pg_connect("");
if (!$c) { echo "no server\\n"; exit; }
pg_query_params($c, 'INSERT INTO person (id, name, age) VALUES ($1, $2, $3)', [3, "secretPhp", 9]);
$p = new PDO("pgsql:host=" . getenv("PGHOST") . ";dbname=postgres;user=postgres");
$s = $p->prepare("SELECT name, age FROM person WHERE name = ?");
$s->execute(["secretPhp"]);
echo implode(" ", $s->fetch(PDO::FETCH_NUM)), "\\n";
"""
PYTHON = """
import asyncio, os, asyncpg, psycopg
SQL = "SELECT name, age FROM person WHERE name = {}"
with psycopg.connect() as connection:
    connection.execute("INSERT INTO person (id, name, age) VALUES (4, %s, 10)", ("secretPsycopg",))
    with connection.pipeline():
        print(*connection.execute(SQL.format("%s"), ("secretPsycopg",)).fetchone())
async def main():
    connection = await psycopg.AsyncConnection.connect()
    print(*await (await connection.execute(SQL.format("%s"), ("secretPsycopg",))).fetchone())
    await connection.close()
    connection = await asyncpg.connect(host=os.environ["PGHOST"], user="postgres", database="postgres")
    print(*await connection.fetchrow(SQL.format("$1"), "secretPsycopg"))
    await connection.close()
asyncio.run(main())
"""
PGBENCH = "INSERT INTO person (id, name, age) VALUES (1000 + :client_id, 'secretBench', 1);\n" \
          "SELECT count(*) FROM person WHERE name = 'secretBench';\nDELETE FROM person WHERE id = 1000 + :client_id;\n"


class InProcess(ClientExec):
    def program(self, text, *command, options=IN_PROCESS):
        """What a program of this text prints."""
        script = self.directory / "script"
        script.write_text(text)
        return self.run_with(self.cluster_, *command, script, options=options)

    def check(self, form):
        self.shop(form)
        self.assertEqual(self.program(PERL, "perl"), "secretPerl 7\n")
        self.assertEqual(self.program(RUBY, "ruby"), "secretRuby 8\n")
        self.assertEqual(self.program(PYTHON, place("python") / "bin/python"), "secretPsycopg 10\n" * 3)
        for mode in ("simple", "extended", "prepared"):
            printed = self.program(PGBENCH, "pgbench", "-n", "-M", mode, "-c", "3", "-t", "20", "-f")
            self.assertIn("actually processed: 60/60", printed)
        self.assert_never_in_clear("secret")

    def test_inline(self):
        self.check(FORMS[0])

    def test_isolated(self):
        self.check(FORMS[1])

    def test_php_finds_no_server_and_works_with_a_proxy(self):
        self.shop()
        self.assertEqual(self.program(PHP, "php"), "no server\n")
        self.assertEqual(self.program(PHP, "php", options=()), "secretPhp 9\n")
        self.assert_never_in_clear("secret")


if __name__ == "__main__":
    main(__file__, TOOLS)
