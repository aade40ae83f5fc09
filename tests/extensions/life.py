"""A cluster's life with extensions: made and used, killed, used again, restarted, used again (imported, not run)."""

import re
from concurrent.futures import ThreadPoolExecutor

from pgseal_test import PG, PGSEAL, Canaries, run
from waiting import eventually

CONF = """autovacuum = off
max_worker_processes = 30
shared_preload_libraries = '{preload}'
"""
PATIENCE = 100


class Life:
    """What one cluster answered, and where the canaries lay, over its life."""

    def __init__(self, case, sealed, canaries, entries, pg=PG, wrappers=None):
        self.entries = entries
        preload = [library for entry in entries for library in re.split(r",\s*", entry.preload) if library]
        conf = CONF.format(preload=", ".join(dict.fromkeys(preload)))
        if "output_plugin_libraries" in run([pg / "postgres", "--describe-config"]).stdout:
            conf += "output_plugin_libraries = 'wal2json, decoderbufs, pglogical_output, pg_squeeze'\n"
        conf += "\n".join(entry.conf for entry in entries)
        self.cluster = case.cluster("sealed" if sealed else "plain", sealed=sealed, conf=conf, pg=pg, wrappers=wrappers)
        self.canaries = canaries
        self.answers = {entry.name: [] for entry in entries}
        self.found = []

    def run(self):
        cluster = self.cluster.init().start()
        for entry in self.entries:
            cluster.psql(f"CREATE DATABASE {entry.name}")
            cluster.psql("".join(f"CREATE EXTENSION {extension};" for extension in entry.create), db=entry.name)
            self.ask(entry, entry.use)
        self.wait()
        cluster.psql("CHECKPOINT")
        self.look()
        cluster.kill9()
        self.look()
        cluster.start()
        self.ask_again()
        cluster.stop()
        self.look()
        cluster.start()
        self.ask_again()
        cluster.stop()

    def ask(self, entry, sql):
        answer = self.cluster.psql(entry.filled(sql, self.canaries, self.cluster), db=entry.name)
        self.answers[entry.name].append(answer.replace(str(self.cluster.home), "HOME"))

    def ask_again(self):
        for entry in self.entries:
            self.ask(entry, entry.again)

    def wait(self):
        """For what background workers do in their own time."""
        for entry in filter(lambda entry: entry.until, self.entries):
            eventually(lambda entry=entry: self.cluster.psql(entry.until, db=entry.name) == "t",
                       lambda entry=entry: f"{entry.name} is not done\n{self.cluster.log()[-3000:]}")

    def look(self):
        self.found.append(self.canaries.found(self.cluster.data))

    def check(self, case, plain):
        """Compares this encrypted cluster with the plain one that lived the same."""
        for entry in self.entries:
            with case.subTest(entry.name):
                case.assertEqual(self.answers[entry.name], plain.answers[entry.name])
                case.assertTrue(any(plain.answers[entry.name]))
                case.assertNotEqual(plain.where(entry), set(), "the plain cluster does not show it: the test is blind")
                shown = {file for file in self.where(entry) if not (entry.clear and re.search(entry.clear, file))}
                case.assertEqual(shown, set())
                case.assertEqual(bool(entry.clear), bool(self.where(entry)), "is it in clear, as the table says?")
        done = run([PGSEAL, "verify", "-D", self.cluster.data])
        case.assertIn("nothing bad found", done.stdout)

    def where(self, entry):
        """The files of the data directory that showed the entry's canary at some time."""
        return set().union(*(found.get(entry.label, set()) for found in self.found))


def compare(case, entries, pg=PG, wrappers=None):
    """Two clusters, one of them encrypted, live with the same extensions and answer the same."""
    canaries = Canaries()
    lives = [Life(case, sealed, canaries, entries, pg, wrappers) for sealed in (True, False)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(Life.run, lives))
    sealed, plain = lives
    sealed.check(case, plain)
