#!/usr/bin/env python3
"""Extensions that Debian packages, on a sealed cluster and its plain twin: same answers before a kill -9, after it and after a
restart; no canary in the sealed data directory but where docs/operations/extensions.md says so, and every one in the plain.

Each extension has a database of its own in one server, which loads all that want to be loaded."""

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page  # noqa: E402
from pgseal_test import PG, PGSEAL, Canaries, Case, main, run  # noqa: E402
from table import ENTRIES  # noqa: E402

DOCUMENT = "docs/operations/extensions.md"
CONF = """autovacuum = off
max_worker_processes = 30
shared_preload_libraries = '{preload}'
"""
PATIENCE = 100


class Extensions(Case):
    def test_entries(self):
        canaries = Canaries()
        lives = [Life(self, sealed, canaries) for sealed in (True, False)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Life.run, lives))
        sealed, plain = lives
        for entry in ENTRIES:
            with self.subTest(entry.name):
                self.assertEqual(sealed.answers[entry.name], plain.answers[entry.name])
                self.assertTrue(any(plain.answers[entry.name]))
                self.assertNotEqual(plain.where(entry), set(), "the plain twin does not show it: the test is blind")
                shown = {file for file in sealed.where(entry) if not (entry.clear and re.search(entry.clear, file))}
                self.assertEqual(shown, set())
                self.assertEqual(bool(entry.clear), bool(sealed.where(entry)), "is it in clear, as the table says?")
        done = run([PGSEAL, "verify", "-D", sealed.cluster.data])
        self.assertIn("nothing bad found", done.stdout)

    def test_the_page_names_them(self):
        page = Page(DOCUMENT, {})
        self.assertEqual([entry.name for entry in ENTRIES if f"`{entry.name}`" not in page.text], [])


class Life:
    """What one cluster answered, and where the canaries lay, over its life."""

    def __init__(self, case, sealed, canaries):
        preload = [library for entry in ENTRIES for library in re.split(r",\s*", entry.preload) if library]
        conf = CONF.format(preload=", ".join(dict.fromkeys(preload)))
        if "output_plugin_libraries" in run([PG / "postgres", "--describe-config"]).stdout:
            conf += "output_plugin_libraries = 'wal2json, decoderbufs, pglogical_output'\n"
        conf += "\n".join(entry.conf for entry in ENTRIES)
        self.cluster = case.cluster("sealed" if sealed else "plain", sealed=sealed, conf=conf)
        self.canaries = canaries
        self.answers = {entry.name: [] for entry in ENTRIES}
        self.found = []

    def run(self):
        cluster = self.cluster.init().start()
        for entry in ENTRIES:
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
        for entry in ENTRIES:
            self.ask(entry, entry.again)

    def wait(self):
        """For what background workers do in their own time."""
        deadline = time.monotonic() + PATIENCE
        for entry in filter(lambda entry: entry.until, ENTRIES):
            while self.cluster.psql(entry.until, db=entry.name) != "t":
                if time.monotonic() > deadline:
                    raise AssertionError(f"{entry.name} is not done\n{self.cluster.log()[-3000:]}")
                time.sleep(0.5)

    def look(self):
        self.found.append(self.canaries.found(self.cluster.data))

    def where(self, entry):
        """The files of the data directory that showed the entry's canary at some time."""
        return set().union(*(found.get(entry.label, set()) for found in self.found))


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
