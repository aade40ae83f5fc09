#!/usr/bin/env python3
"""Extensions that Debian 12 does not package, built from source: as test_extensions.py for those that it packages, and a load by
pg_bulkload that a crash ends.

PGSEAL_TEST_EXTENSIONS is the directory of programs of a PostgreSQL 15 that has them installed; without it, the one that
scripts/fetch-extensions.sh makes. What is not installed there is skipped, by its name."""

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from copied import wrappers_of_copy  # noqa: E402
from life import compare  # noqa: E402
from page import Page  # noqa: E402
from pgseal_test import PGSEAL, TIME_LIMIT, Canaries, Case, base_environment, main, run  # noqa: E402
from table_built import ENTRIES  # noqa: E402

DOCUMENT = "docs/operations/extensions.md"
CACHE = os.environ.get("PGSEAL_CACHE", "/var/cache/pgseal" if Path("/var/cache/pgseal").exists() else os.path.expanduser("~/.cache/pgseal"))
PG = Path(os.environ.get("PGSEAL_TEST_EXTENSIONS", f"{CACHE}/extensions/15/lib/postgresql/15/bin"))
LOADED, MORE = 1000, 1_000_000
PAGES = 500  # of the load that is cut, when it is cut
LOADER = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_bulkload%' AND pid <> pg_backend_pid()"


def wrappers(pg):
    """Debian's layout, or that of PostgreSQL's own build."""
    return wrappers_of_copy(pg, pg.parents[3] if pg.match("lib/postgresql/*/bin") else pg.parent)


def is_installed(extension):
    share = run([PG / "pg_config", "--sharedir"]).stdout.strip()
    return Path(share, "extension", f"{extension}.control").exists()


class Built(Case):
    def setUp(self):
        super().setUp()
        self.assertTrue((PG / "postgres").exists(), f"{PG} holds no postgres: run scripts/fetch-extensions.sh")

    def test_entries(self):
        compare(self, [entry for entry in ENTRIES if is_installed(entry.name)], PG, wrappers)

    def test_what_is_not_installed(self):
        absent = [name for name in [entry.name for entry in ENTRIES] + ["pg_bulkload"] if not is_installed(name)]
        if absent:
            self.skipTest(f"not installed in {PG}: {', '.join(absent)}")

    def test_the_page_names_them(self):
        page = Page(DOCUMENT, {})
        self.assertEqual([entry.name for entry in ENTRIES if f"`{entry.name}`" not in page.text], [])


class BulkLoad(Case):
    """A load writes pages past shared buffers and WAL; after a crash `pg_bulkload -r` empties those, from outside the server."""

    def setUp(self):
        super().setUp()
        if not (PG / "pg_bulkload").exists():
            self.skipTest(f"pg_bulkload is not installed in {PG}")
        self.canaries = Canaries()

    def test_a_load_that_a_crash_ends(self):
        plain, encrypted = (self.life(self.served(name, sealed=name == "encrypted")) for name in ("plain", "encrypted"))
        self.assertEqual(plain, encrypted)

    def test_files_beside_the_table(self):
        """pg_bulkload's own place for rows that it refuses is in clear: it must be told another."""
        cluster = self.loaded(self.served("main"))
        done = self.load(cluster, self.rows("bad", range(3)), check=False, beside=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("would be in clear, in a directory that PostgreSQL does not have", cluster.log())

    def life(self, cluster):
        self.loaded(cluster)
        answers = [cluster.psql("SELECT count(*), sum(i), min(word) <> '' FROM t")]
        self.cut(cluster)
        shown = self.canaries.found(cluster.data)
        self.assertEqual(shown == {}, cluster.sealed)
        done = cluster.run("pg_bulkload", "-r", "-D", cluster.data)
        self.assertIn("delete loadstatus file", done.stderr + done.stdout)
        cluster.start()
        answers.append(cluster.psql("SELECT count(*), sum(i) FROM t"))
        self.load(cluster, self.rows("again", range(LOADED, 2 * LOADED)))
        answers.append(cluster.psql("SET enable_seqscan = off; SELECT count(*), max(i) FROM t WHERE i > 5"))
        cluster.stop()
        if cluster.sealed:
            self.assertIn("nothing bad found", run([PGSEAL, "verify", "-D", cluster.data]).stdout)
            self.assertEqual(self.canaries.found(cluster.data), {})
        return answers

    def served(self, name, **options):
        """It does not start again by itself."""
        return self.cluster(name, pg=PG, wrappers=wrappers, conf="restart_after_crash = off\n", **options).init().start()

    def loaded(self, cluster):
        cluster.psql("CREATE EXTENSION pg_bulkload; CREATE TABLE t (i int PRIMARY KEY, word text)")
        self.load(cluster, self.rows("first", range(LOADED)))
        return cluster

    def rows(self, label, numbers):
        file = self.directory / f"{label}.csv"
        file.write_text("".join(f"{i},{self.canaries[label]}{i}\n" for i in numbers))
        return file

    def load(self, cluster, file, check=True, beside=True):
        return cluster.run("pg_bulkload", *self.options(cluster, file, beside), check=check)

    def options(self, cluster, file, beside=True):
        places = {"-l": "log", "-P": "refused", "-u": "doubles"} if beside else {}
        places = [option for key, name in places.items() for option in (key, cluster.home / f"bulk-{name}")]
        return ["-d", "postgres", "-i", file, "-O", "t", "-o", "TYPE=CSV", "-o", "WRITER=DIRECT", *places]

    def cut(self, cluster):
        """Kills the server's process in the middle of a load; the server ends with it."""
        relation = cluster.data / cluster.psql("CHECKPOINT; SELECT pg_relation_filepath('t')")
        enough = relation.stat().st_size + PAGES * 8192
        command = [cluster.bindir / "pg_bulkload", *self.options(cluster, self.rows("cut", range(LOADED, LOADED + MORE)))]
        environment = {**base_environment(), **cluster.environment}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as loading:
            while not (loader := cluster.psql(LOADER)):
                self.assertIsNone(loading.poll(), cluster.log()[-2000:])
            while relation.stat().st_size < enough:
                self.assertIsNone(loading.poll(), cluster.log()[-2000:])
            os.kill(int(loader), signal.SIGKILL)
            loading.wait(TIME_LIMIT)
        cluster.server.wait(TIME_LIMIT)
        self.assertEqual(len(list((cluster.data / "pg_bulkload").glob("*.loadstatus"))), 1)


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
