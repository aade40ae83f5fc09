#!/usr/bin/env python3
"""pgBackRest with a sealed cluster, by the configuration and the commands of docs/operations/pgbackrest.md: backups of all
types over an asynchronous archive, restore, point-in-time recovery; what is in the repository, and what it is worth
without the key."""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page  # noqa: E402
from pgseal_test import PGSEAL, Canaries, Case, main, run  # noqa: E402
from waiting import eventually

DOCUMENT = "docs/operations/pgbackrest.md"
VIEW = re.compile(r"pgseal exec --view=backup -D \S+ -- pgbackrest")
OPENSSL = "openssl enc {way} -aes-256-cbc -pbkdf2 -iter 10000 -pass file:{secret}"


class PgBackRest(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()
        self.secret = self.directory / "secret"
        self.secret.write_text("correct horse\n")
        self.repository, self.spool, self.logs = (self.made(name) for name in ("repository", "spool", "logs"))

    def made(self, name):
        (self.directory / name).mkdir()
        return self.directory / name

    def stanza(self, name="main", sealed=True, **settings):
        """A running cluster with rows, whose stanza is made and checked: as the page says, without the view if plain."""
        environment = {
            "PATH": f"{PGSEAL.parent}:/usr/bin:/bin",
            "PGBACKREST_CONFIG": str(self.directory / "pgbackrest.conf"),
            "PGBACKREST_LOCK_PATH": str(self.directory / "lock"),
            **settings,
        }
        way = OPENSSL.format(way="{way}", secret=self.secret)
        key = (f"--key-wrap-command={way.format(way='-e')} -out \"%p\"",
               f"--key-unwrap-command={way.format(way='-d')} -in \"%p\"")
        self.sealed = sealed
        cluster = self.main = self.cluster(name, sealed=sealed, key=key, environment=environment)
        self.page = Page(DOCUMENT, {
            "/var/lib/pgbackrest": str(self.repository),
            "/var/spool/pgbackrest": str(self.spool),
            "/var/log/pgbackrest": str(self.logs),
            "/var/lib/postgresql/15/main": str(cluster.data),
        })
        cluster.init()
        cluster.configure(self.viewed(self.page.block("conf")))
        (self.directory / "pgbackrest.conf").write_text(self.viewed(self.page.block("ini")))
        create, self.incremental, self.differential, self.to_the_end, self.to_a_time = self.page.blocks("sh")
        self.create, self.full = create.rsplit("\n", 2)[0], create.splitlines()[-1]
        cluster.start()
        cluster.psql(f"CREATE TABLE t (n int, b text); CREATE TABLE big AS SELECT i, '{self.canaries['big']}' || i AS b"
                     " FROM generate_series(1, 20000) i")
        return cluster

    def viewed(self, text):
        return text if self.sealed else self.stock(text)

    def stock(self, text):
        """Commands and settings without the view."""
        self.assertRegex(text, VIEW)
        return VIEW.sub("pgbackrest", text)

    def do(self, commands, check=True, **environment):
        """Runs a block of the page."""
        return run(["bash", "-euo", "pipefail", "-c", self.viewed(commands)], {**self.main.environment, **environment}, check)

    def insert(self, label):
        """A row, and the time after it."""
        self.main.psql(f"INSERT INTO t SELECT count(*), '{self.canaries[label]}' FROM t; CHECKPOINT")
        return self.main.psql("SELECT clock_timestamp()")

    def backups(self):
        return re.findall(r"^\s+(full|incr|diff) backup: ", run(["pgbackrest", "info"], self.main.environment).stdout, re.M)

    def archived(self):
        """Waits until all WAL so far is in the repository."""
        last = self.main.psql("SELECT pg_walfile_name(pg_switch_wal())")
        eventually(lambda: list(self.repository.glob(f"archive/main/*/*/{last}-*")), lambda: self.main.log()[-3000:])

    def labels(self):
        """The labels of the rows, in the order of their insertion, from a server that has left recovery."""
        eventually(lambda: self.main.psql("SELECT pg_is_in_recovery()") == "f", lambda: self.main.log()[-3000:])
        return re.findall(rf"{self.canaries.mark}_(\w+)_", self.main.psql("SELECT b FROM t ORDER BY n"))

    def damage(self):
        """What a delta restore has to repair: a relation gone, a page overwritten, a file too many, the key directory gone."""
        tables = [Path(self.main.data, name) for name in self.relations]
        tables[0].unlink()
        tables[1].write_bytes(bytes(range(256)) * 32 + tables[1].read_bytes()[8192:])
        (self.main.data / "base/1/99999").write_bytes(bytes(8192))
        shutil.rmtree(self.main.data / "pg_encryption", ignore_errors=True)

    def assert_clean(self):
        """Nothing in clear but what is so by design, and every page in order."""
        self.assertEqual(self.canaries.found(self.repository, self.spool, self.logs, self.main.data), {})
        found = self.canaries.audit(self.repository, self.spool, self.main.data)
        link = f"{self.repository}/backup/main/latest: not read: a link "  # to a backup that is beside it
        self.assertEqual([line for line in found if not line.startswith(link)], [])
        self.main.stop()
        run([PGSEAL, "verify", "-D", self.main.data])

    def all_types(self):
        """Three backups with rows before, between and after; returns the time between the last two rows."""
        self.do(self.create)
        self.insert("before")
        self.do(self.full)
        self.insert("full")
        self.do(self.incremental)
        self.insert("incr")
        self.do(self.differential)
        target = self.insert("diff")
        self.insert("late")
        self.archived()
        self.relations = self.main.psql("SELECT pg_relation_filepath('t'), pg_relation_filepath('big')").split("|")
        return target


class Sealed(PgBackRest):
    def test_backups_of_all_types_and_restores(self):
        self.stanza()
        target = self.all_types()
        self.assertEqual(self.backups(), ["full", "incr", "diff"])
        self.main.stop("immediate")
        self.damage()
        self.do(self.to_the_end)
        self.assertFalse((self.main.data / "base/1/99999").exists())
        self.main.start()
        self.assertEqual(self.labels(), ["before", "full", "incr", "diff", "late"])
        self.assertEqual(self.main.psql("SELECT count(*), count(DISTINCT b) FROM big"), "20000|20000")
        self.assert_clean()
        self.do(self.to_a_time, TARGET=target)
        self.main.start()
        self.assertEqual(self.labels(), ["before", "full", "incr", "diff"])
        self.insert("second")
        self.do(self.incremental)
        self.archived()
        self.assert_clean()

    def test_an_empty_directory_and_bundles(self):
        self.stanza(PGBACKREST_REPO1_BUNDLE="y", PGBACKREST_COMPRESS_TYPE="gz")
        self.all_types()
        self.main.stop()
        shutil.rmtree(self.main.data)
        self.main.data.mkdir(mode=0o700)
        self.do(self.to_the_end.replace("--delta ", ""))
        self.main.start()
        self.assertEqual(self.labels(), ["before", "full", "incr", "diff", "late"])
        self.assert_clean()

    def test_the_repository_holds_what_is_stored(self):
        self.stanza()
        self.do(self.create)
        self.main.psql("VACUUM FREEZE big; CHECKPOINT")
        relation = self.main.psql("SELECT pg_relation_filepath('big')")
        self.do(self.full)
        backup, = self.repository.glob("backup/main/*F/pg_data")
        self.assertEqual((backup / relation).read_bytes(), (self.main.data / relation).read_bytes())
        for name in ["pg_encryption/key.bin", "PG_VERSION"]:
            self.assertEqual((backup / name).read_bytes(), (self.main.data / name).read_bytes())
        # The one file in clear, so that a restore needs the view.
        control = run([self.main.pg / "pg_controldata", backup.parent / "pg_data"], check=False)
        self.assertNotIn("WARNING", control.stdout + control.stderr)
        self.archived()
        segments = [file for file in self.repository.glob("archive/main/*/*/*-*") if "." not in file.name]
        last = max(segments, key=lambda file: file.name)
        self.assertEqual(last.read_bytes(), (self.main.data / "pg_wal" / last.name[:24]).read_bytes())

    def test_without_the_view(self):
        self.stanza()
        stock = self.do(self.stock(self.create), check=False)
        self.assertIn("page size is", stock.stdout + stock.stderr)
        self.do(self.create)
        self.insert("only")
        self.do(self.full)
        self.archived()
        self.main.stop()
        shutil.rmtree(self.main.data)
        self.main.data.mkdir(mode=0o700)
        self.do(self.stock(self.to_the_end.replace("--delta ", "")))
        self.assertEqual(self.main.try_start(), 8)
        self.assertIn("pg_control is not encrypted, as a backup tool leaves it: restore again, through pgseal exec --view=backup",
                      self.main.log())
        self.do(self.to_the_end)
        self.main.start()
        self.assertEqual(self.labels(), ["only"])
        self.assert_clean()

    def test_without_the_key(self):
        self.stanza()
        self.do(self.create)
        self.do(self.full)
        self.main.stop()
        self.secret.write_text("another\n")
        shutil.rmtree(self.main.data)
        self.main.data.mkdir(mode=0o700)
        viewed = self.do(self.to_the_end.replace("--delta ", ""), check=False)
        self.assertNotEqual(viewed.returncode, 0)
        self.assertIn("could not unlock the cluster", viewed.stderr)
        self.assertFalse((self.main.data / "global/pg_control").exists())
        self.do(self.stock(self.to_the_end))
        self.assertEqual(self.main.try_start(), 6)
        self.assertIn("key.bin: the unwrap command failed", self.main.log())
        self.assertEqual(self.canaries.found(self.repository, self.main.data), {})

    def test_the_header_of_wal_is_noise(self):
        self.stanza()
        self.do(self.create)
        self.do(self.full)
        segment = self.main.data / "pg_wal" / self.main.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        for command in ("verify", f"--no-archive-async --archive-header-check archive-push {segment}"):
            told = self.do(self.full.replace("--type=full backup", command), check=False)
            self.assertNotEqual(told.returncode, 0, command)
            self.assertRegex(told.stdout + told.stderr, "long format|unexpected WAL magic")


class Plain(PgBackRest):
    def test_a_plain_repository_shows_it_all(self):
        self.stanza(sealed=False)
        self.all_types()
        self.assertNotEqual(self.canaries.audit(self.repository), [])
        found = self.canaries.found(self.repository)
        in_backups = {label for label, files in found.items() if any("/backup/" in file for file in files)}
        in_archive = {label for label, files in found.items() if any("/archive/" in file for file in files)}
        self.assertEqual(in_backups, {"big", "before", "full", "incr"})
        # A page's header may cut a word in two.
        self.assertEqual(in_archive - {"?"}, {"big", "before", "full", "incr", "diff", "late"})


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
