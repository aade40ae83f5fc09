#!/usr/bin/env python3
"""What docs/operations/extensions.md says beside its table: programs, settings, and files that functions write."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page  # noqa: E402
from pgseal_test import PG, Canaries, Case, main, run  # noqa: E402

DOCUMENT = "docs/operations/extensions.md"
ROWS = "CREATE TABLE t AS SELECT i, '{word}' || i AS word FROM generate_series(1, 500) i; ALTER TABLE t ADD PRIMARY KEY (i)"
PYTHON = """DO LANGUAGE plpython3u $$
import sqlite3, subprocess
def attempt(step):
    try:
        return step()
    except Exception as error:
        return error
with open('{place}/python', 'w') as file:
    file.write('{word}' * 3)
with open('{place}/output', 'w') as file:
    subprocess.run(['echo', '{child}'], stdout=file)
same = open('{place}/python').read() == '{word}' * 3
plpy.notice('python', same, 'sqlite', attempt(lambda: sqlite3.connect('{place}/sqlite').execute('CREATE TABLE t (a)') and True))
$$"""
UTL_FILE = """INSERT INTO utl_file.utl_file_dir VALUES ('{place}'); DO $$ DECLARE
    file utl_file.file_type := utl_file.fopen('{place}', 'ora', 'w');
BEGIN
    PERFORM utl_file.put_line(file, '{word}');
    PERFORM utl_file.fclose(file);
    file := utl_file.fopen('{place}', 'ora', 'r');
    RAISE NOTICE 'utl_file %', utl_file.get_line(file) = '{word}';
END $$"""


class PageOfExtensions(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()

    def served(self, conf=""):
        cluster = self.cluster(conf=conf).init().start()
        cluster.psql(ROWS.replace("{word}", self.canaries["rows"]))
        return cluster

    def page(self, cluster):
        return Page(DOCUMENT, {"/usr/local/lib/pgseal/15": str(cluster.bindir), "-h /run/postgresql": f"-h {cluster.home}",
                               "/var/lib/postgresql/15/main": str(cluster.data), "/srv/encrypted/audit": f"{cluster.home}/audit"})

    def do(self, cluster, commands, check=True):
        return run(["bash", "-euo", "pipefail", "-c", commands], cluster.environment, check)

    def test_programs(self):
        cluster = self.served()
        cluster.psql("CREATE EXTENSION pg_repack; CHECKPOINT")
        before = cluster.psql("SELECT pg_relation_filepath('t')")
        commands = self.page(cluster).block("sh")
        done = self.do(cluster, commands)
        self.assertIn('repacking table "public.t"', done.stderr)
        self.assertIn("done (0 inconsistencies, 0 warnings, 0 errors)", done.stderr + done.stdout)
        self.assertRegex(done.stdout, r"Blocks scanned: +[1-9][0-9]{2}")
        self.assertRegex(done.stdout, r"Bad checksums: +0\n")
        self.assertEqual(cluster.psql("SELECT count(*), count(DISTINCT word) FROM t"), "500|500")
        after = cluster.psql("CHECKPOINT; SELECT pg_relation_filepath('t')")
        self.assertNotEqual(after, before)
        self.assertEqual(self.canaries.found(cluster.data), {})
        self.stock_and_damaged(cluster, commands.splitlines()[-1], cluster.data / after)

    def stock_and_damaged(self, cluster, check, relation):
        """pg_checksums_ext without the library, and with it on a page that somebody wrote to."""
        done = self.do(cluster, check.replace(str(cluster.bindir), str(PG)), check=False)
        self.assertEqual((done.returncode, done.stderr), (1, "pg_checksums_ext: error: pg_control CRC value is incorrect\n"))
        cluster.stop()
        with open(relation, "r+b") as file:
            file.seek(4096)
            file.write(bytes(16))
        done = self.do(cluster, check, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"Bad checksums: +1\n")

    def test_settings(self):
        conf = "shared_preload_libraries = 'pgaudit, pgauditlogtofile, pglogical'\nwal_level = logical\n"
        cluster = self.served(conf)
        cluster.configure(self.page(cluster).block("conf"))
        cluster.stop()
        cluster.start()
        self.assertEqual(cluster.psql("SHOW pglogical.temp_directory"), "/run/postgresql")
        cluster.psql(f"CREATE EXTENSION pgaudit; SET pgaudit.log = 'all'; SELECT '{self.canaries['audited']}'")
        self.assertEqual(self.canaries.found(cluster.data), {})
        self.assertEqual(list(self.canaries.found(cluster.home / "audit")), ["audited"])

    def test_files_of_functions(self):
        cluster = self.served()
        cluster.psql("CREATE EXTENSION plpython3u; CREATE EXTENSION orafce")
        self.assertEqual(self.written(cluster, cluster.home / "files"), ["python True", "sqlite True", "utl_file t"])
        python, sqlite, utl_file = self.written(cluster, cluster.data / "pg_stat/files")
        self.assertEqual((python, sqlite), ("python True", "sqlite disk I/O error"))
        self.assertNotEqual(utl_file, "utl_file t")
        self.assertIn("pgseal: a protected file cannot be locked by its user: transfers lock it", cluster.log())
        for said in self.said(cluster, cluster.data / "files"):
            self.assertRegex(said, "ERROR: +(PermissionError: .*Operation not permitted|UTL_FILE_INVALID_OPERATION)")
        found = self.canaries.found(cluster.data)
        shown = {label: {str(Path(file).relative_to(cluster.data)) for file in files} for label, files in found.items()}
        self.assertEqual(shown, {"child": {"pg_stat/files/output"}})

    def written(self, cluster, place):
        """What a function in PL/Python and utl_file say of what they wrote and read again."""
        said = self.said(cluster, place)
        python = re.search(r"\('python', (\w+), 'sqlite', (?:OperationalError\('(.*?)'\)|(\w+))\)", said[0])
        utl_file = re.search(r"(?:NOTICE|ERROR): +(.*)", said[1])
        return [f"python {python[1]}", f"sqlite {python[2] or python[3]}", utl_file[1]]

    def said(self, cluster, place):
        """All that the two say."""
        place.mkdir()
        said = []
        for sql in (PYTHON, UTL_FILE):
            for name, value in {"place": place, "word": self.canaries["written"], "child": self.canaries["child"]}.items():
                sql = sql.replace("{" + name + "}", str(value))
            said.append(self.psql_messages(cluster, sql))
        return said

    def psql_messages(self, cluster, sql):
        done = run([PG / "psql", "-X", "-q"], cluster.environment, input=sql)
        return done.stderr


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
