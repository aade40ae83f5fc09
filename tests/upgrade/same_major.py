#!/usr/bin/env python3
"""pg_upgrade within one major version: how a cluster becomes sealed, plain, or sealed under another key, offline.

Every way of transfer: those that share files work where both clusters have the same key, and are refused with one
sentence where they have not, before pg_upgrade disables the old cluster. (Tablespaces need two versions: versions.py.)
"""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, PGSEAL, STAGE, Reflink, clones, major_version, main, run, twins
from upgrading import LABELS, PASSWORD_HASH, UpgradeCase

VERSION = major_version()
PAGE = "docs/operations/upgrade.md"


class SameKey(UpgradeCase):
    """`initdb --copy-key-from` gives the new cluster the old one's key."""

    def setUp(self):
        super().setUp()
        self.old, self.content = self.old_cluster()
        self.new = self.cluster("new", key=("--copy-key-from", self.old.data / "pg_encryption/key.bin")).init()

    def check(self):
        self.check_nothing_in_clear(self.content, self.old.home, self.new.home)
        self.check_upgraded(self.new, self.content)
        self.check_nothing_in_clear(self.content, self.old.home, self.new.home)

    def test_copy(self):
        self.upgraded(self.old, self.new)
        self.check()

    def test_link(self):
        relation = self.relation("plain_rows")
        stored = (self.old.data / relation).read_bytes()
        self.upgraded(self.old, self.new, "--link")
        self.assertTrue((self.old.data / relation).samefile(self.new.data / relation))
        self.assertEqual((self.old.data / relation).read_bytes(), stored)
        self.assertFalse((self.old.data / "global/pg_control").exists())
        self.check_control_comes_back()
        self.check()

    def relation(self, name):
        self.old.start()
        path = self.old.psql(f"SELECT pg_relation_filepath('{name}')")
        self.old.stop()
        return path

    def check_control_comes_back(self):
        """As pg_upgrade says: without the suffix the old cluster works, until the new one was started."""
        control = self.old.data / "global/pg_control"
        control.with_suffix(".old").rename(control)
        self.assertIn("shut down", self.old.run("pg_controldata", "-D", self.old.data).stdout)
        control.rename(control.with_suffix(".old"))

    @unittest.skipIf(VERSION > 16, "PostgreSQL has no adminpack from 17 on, and no other SQL function renames files")
    def test_a_rename_leaves_the_linked_file_alone(self):
        """A new name means other bytes: they go to a new file, for the old cluster still has the old one."""
        relation = self.relation("plain_rows")
        self.upgraded(self.old, self.new, "--link")
        ours, theirs = self.new.data / relation, self.old.data / relation
        stored = theirs.read_bytes()
        self.new.start()
        self.new.psql("CREATE EXTENSION adminpack")
        renamed = relation.rpartition("/")[0] + "/999999"
        self.new.psql(f"SELECT pg_file_rename('{relation}', '{renamed}')")
        self.assertFalse(ours.exists())
        self.assertEqual(theirs.read_bytes(), stored)
        self.assertEqual(theirs.stat().st_nlink, 1)
        self.assertNotEqual((self.new.data / renamed).read_bytes(), stored)
        self.new.psql(f"SELECT pg_file_rename('{renamed}', '{relation}')")
        self.assertEqual(ours.read_bytes(), stored)
        self.assertEqual(sorted(ours.parent.glob("*.pgseal")), [])
        self.new.stop()
        self.check()

    def test_clone(self):
        """Where the file system clones, and where it does not."""
        if not clones(self.directory):
            says = "could not clone file between old and new data directories: Operation not supported"
            self.check_refused(self.old, self.new, "--clone", sentence=says)
        relation, reflink = self.relation("plain_rows"), Reflink(self.directory)
        self.upgraded(self.old, self.new, "--clone", environment=reflink.environment)
        self.assertGreater(reflink.count(), 20)
        self.assertEqual((self.old.data / relation).read_bytes(), (self.new.data / relation).read_bytes())
        self.check()

    @unittest.skipIf(VERSION < 17, "pg_upgrade has --copy-file-range from 17 on")
    def test_copy_file_range(self):
        self.upgraded(self.old, self.new, "--copy-file-range")
        self.check()

    @unittest.skipIf(VERSION < 18, "pg_upgrade has --swap from 18 on")
    def test_swap(self):
        self.upgraded(self.old, self.new, "--swap")
        self.check()


class OtherKey(UpgradeCase):
    """Everything goes through the cipher; nothing can be shared."""

    def setUp(self):
        super().setUp()
        self.old, self.content = self.old_cluster()
        self.new = self.cluster("new").init()

    def test_copy_and_what_is_refused_before(self):
        reflink = Reflink(self.directory)
        for option in ["--link", "--clone"] + (["--swap"] if VERSION >= 18 else []):
            with self.subTest(option):
                self.check_refused(self.old, self.new, option, environment=reflink.environment)
        self.assertEqual(reflink.count(), 0)
        self.assertNotEqual(self.old.master_key(), self.new.master_key())
        self.upgraded(self.old, self.new, environment=self.where_cp_fails())
        self.check_upgraded(self.new, self.content)
        self.check_nothing_in_clear(self.content, self.old.home, self.new.home)

    def where_cp_fails(self):
        """A `cp` would bring the commit log over as it is stored, so none is run."""
        programs = self.directory / "programs"
        programs.mkdir()
        (programs / "cp").write_text("#!/bin/sh\nexit 1\n")
        (programs / "cp").chmod(0o755)
        return {"PATH": f"{programs}:/usr/bin:/bin"}

    @unittest.skipIf(VERSION < 17, "pg_upgrade has --copy-file-range from 17 on")
    def test_copy_file_range(self):
        self.upgraded(self.old, self.new, "--copy-file-range")
        self.check_upgraded(self.new, self.content)
        self.check_nothing_in_clear(self.content, self.old.home, self.new.home)


class Sealing(UpgradeCase):
    """From plain to sealed with the published command line, and back."""

    def test_plain_to_sealed(self):
        old, content = self.old_cluster(sealed=False)
        new, reflink = self.cluster("new").init(), Reflink(self.directory)
        for option in ["--link", "--clone"]:
            self.check_refused(old, new, option, environment=reflink.environment)
        self.assertEqual(reflink.count(), 0)
        key_file = new.data / "pg_encryption/key.bin"
        self.upgraded(old, new, "--copy-by-block", "--key-unwrap-command", f"cat {key_file}", "--retain")
        self.assertLessEqual(LABELS, set(content.canaries.found(old.data)))
        self.check_dumps(new, content)
        self.check_upgraded(new, content)
        self.check_nothing_in_clear(content, new.home, but=["name"])

    def check_dumps(self, new, content):
        """They lie in the new data directory, sealed; the logs beside them name objects."""
        dumps = sorted((new.data / "pg_upgrade_output.d").glob("*/dump/*"))
        self.assertGreaterEqual(len(dumps), 4)
        self.check_nothing_in_clear(content, new.data, but=["name"])
        clear = b"".join(self.clear_bytes(new, dump) for dump in dumps)
        self.assertIn(PASSWORD_HASH.encode(), clear)
        self.assertIn(content.canaries["name"].encode(), clear)
        self.check_listed(new, [dump for dump in dumps if dump.suffix == ".custom"])

    def check_listed(self, new, dumps):
        """As the page says that a dump is read."""
        command, = re.findall(r"`pgseal exec -D new -- (pg_restore --list) FILE`", (STAGE / PAGE).read_text())
        program, option = command.split()
        listed = [run([PGSEAL, "exec", "-D", new.data, "--", new.pg / program, option, dump]).stdout for dump in dumps]
        self.assertIn("TABLE public plain_rows postgres", "".join(listed))

    def test_sealed_to_plain(self):
        old, content = self.old_cluster()
        new, reflink = self.cluster("new", sealed=False).init(), Reflink(self.directory)
        for option in ["--link", "--clone"]:
            self.check_refused(old, new, option, environment=reflink.environment)
        self.assertEqual(reflink.count(), 0)
        self.upgraded(old, new)
        self.check_upgraded(new, content)
        self.check_nothing_in_clear(content, old.home)
        self.assertLessEqual(LABELS, set(content.canaries.found(new.data)))

    def test_a_wrapped_key_for_each(self):
        """Two keys under one pair of commands, which pg_upgrade and all that it runs take from the environment."""
        environment = {"PGDATAKEYWRAPCMD": "base64 >'%p'", "PGDATAKEYUNWRAPCMD": "base64 -d '%p'"}
        old, content = self.old_cluster(key=(), environment=environment)
        new = self.cluster("new", key=(), environment=environment).init()
        self.pg_upgrade(old, new, environment=environment)
        self.check_upgraded(new, content)
        self.check_nothing_in_clear(content, old.home, new.home)

    def published(self, old, new, *more):
        """The published command line with nothing else in it, from inside another sealed cluster, with relative names."""
        here = self.cluster("here" + new.home.name).init()
        names = [f"../../{cluster.home.name}/data" for cluster in (old, new)]
        command = [twins() / "pg_upgrade", "-d", names[0], "-D", names[1], "-b", old.bindir, "-B", new.bindir, "--copy-by-block"]
        run([*command, *more], {"PGUSER": "postgres"}, cwd=here.data)
        run([PGSEAL, "verify", "-D", here.data])

    def test_the_published_commands(self):
        """Into an unencrypted cluster and into an encrypted one."""
        old, content = self.old_cluster(sealed=False)
        plain = self.cluster("plain", sealed=False).init()
        self.published(old, plain)
        self.check_upgraded(plain, content)
        sealed = self.cluster("sealed").init()
        self.published(old, sealed, "--key-unwrap-command", f"cat {sealed.data}/pg_encryption/key.bin")
        self.check_upgraded(sealed, content)
        self.assertLessEqual(LABELS, set(content.canaries.found(plain.data)))
        self.check_nothing_in_clear(content, sealed.home)

    def test_two_ways_of_transfer(self):
        old, new = self.cluster("old"), self.cluster("new")
        done = self.pg_upgrade(old, new, "--copy-by-block", "--link", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--copy-by-block and --link are two ways of transfer", done.stderr)


class Documented(UpgradeCase):
    """The commands of docs/operations/upgrade.md, as printed, with both versions the one under test."""

    def setUp(self):
        super().setUp()
        self.page = self.directory / "page"
        self.page.mkdir()
        self.old, self.content = self.old_cluster(sealed=False)
        (self.page / "old").symlink_to(self.old.data)

    def test_the_commands_of_the_page(self):
        self.old.run("pg_checksums", "--disable", "-D", self.old.data)
        blocks = re.findall(r"^```sh\n(.*?)^```$", (STAGE / PAGE).read_text(), re.M | re.S)
        first, start, second = (re.sub(r"/usr/lib/postgresql/1[57]/bin", str(PG), block) for block in blocks)
        self.exports = "".join(re.findall(r"^export .*\n", first, re.M))
        self.run_block(first)
        self.start_and_stop(start)
        (self.page / "old").unlink()
        (self.page / "new").rename(self.page / "old")
        self.run_block(second)
        self.start_and_stop(start)
        self.check_nothing_in_clear(self.content, self.page / "old/base", self.page / "new")

    def run_block(self, block):
        """As a user who has pgseal on the path."""
        environment = {**self.old.environment, "PATH": f"{STAGE}/dist/bin:/usr/bin:/bin"}
        run(["bash", "-euo", "pipefail", "-c", self.exports + block], environment, cwd=self.page)

    def start_and_stop(self, block):
        """The new cluster takes the place of the old one at its socket."""
        with open(self.page / "new/postgresql.conf", "a") as conf:
            conf.write(f"listen_addresses = ''\nunix_socket_directories = '{self.old.home}'\n")
        self.run_block(block)
        self.check_rows(self.old, self.content)
        self.run_block("sealed/17/pg_ctl -D new stop")


if __name__ == "__main__":
    main(__file__, tools=[PAGE])
