#!/usr/bin/env python3
"""Barman with a sealed cluster, by the configuration and the commands of docs/operations/barman.md: backups, recovery to the
end and to a point in time; what Barman keeps, and what it is worth without the key.

`ssh` is a script that runs the command here: everything else is as between two hosts."""

import gzip
import os
import pwd
import re
import shutil
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from page import Page  # noqa: E402
from pgseal_test import PGSEAL, Canaries, Case, main, run  # noqa: E402
from waiting import eventually

DOCUMENT = "docs/operations/barman.md"
RSYNC, TAR, STREAMING = range(3)  # methods, in the order of the page
OPENSSL = "openssl enc {way} -aes-256-cbc -pbkdf2 -iter 10000 -pass file:{secret}"
SSH = """#!/bin/sh
# Options and the host, in any order, then a command line for the shell there.
host=
while [ $# -gt 0 ]; do
    case $1 in
        -o) shift 2 ;;
        '' | -*) shift ;;
        *) [ -z "$host" ] || break; host=$1; shift ;;
    esac
done
exec sh -c "$*"
"""
GLOBAL = """[barman]
barman_user = {user}
barman_home = {home}
configuration_files_directory = {conf}
log_file = {log}
"""


class Barman(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()
        self.secret = self.directory / "secret"
        self.secret.write_text("correct horse\n")
        self.kept = self.directory / "kept"
        self.kept.mkdir()
        self.ssh = self.directory / "ssh"
        self.ssh.write_text(SSH)
        self.ssh.chmod(0o755)

    def configured(self, method=RSYNC, sealed=True):
        """A running cluster with rows, and Barman's configuration for it: that of the page's n-th method."""
        way = OPENSSL.format(way="{way}", secret=self.secret)
        key = (f"--key-wrap-command={way.format(way='-e')} -out \"%p\"",
               f"--key-unwrap-command={way.format(way='-d')} -in \"%p\"")
        environment = {"PATH": f"{self.directory}:/usr/bin:/bin", "HOME": str(self.directory)}
        cluster = self.main = self.cluster("main", sealed=sealed, key=key, environment=environment)
        page = Page(DOCUMENT, {
            "host=pg user=barman": f"host={cluster.home} user=postgres",
            "host=pg user=streaming_barman": f"host={cluster.home} user=postgres",
            "/usr/local/lib/pgseal/15": str(cluster.bindir),
            "/var/lib/postgresql/staging": str(self.directory / "staging"),
            "barman@backup:/var/lib/barman": str(self.kept),
            "/var/lib/postgresql/15/main": str(cluster.data),
        })
        cluster.init()
        if method != STREAMING:
            cluster.configure(page.block("conf"))
        conf = self.directory / "barman.d"
        conf.mkdir()
        (conf / "main.conf").write_text(page.blocks("ini")[method])
        user = pwd.getpwuid(os.getuid()).pw_name
        own = GLOBAL.format(user=user, home=self.kept, conf=conf, log=self.directory / "barman.log")
        (self.directory / ".barman.conf").write_text(own)
        (self.kept / "main/incoming").mkdir(parents=True)
        self.prepare, receive, self.to_the_end, self.to_a_time = page.blocks("sh")
        self.prepare, self.backup = self.prepare.rsplit("\n", 2)[0], self.prepare.splitlines()[-1]
        cluster.start()
        # What Barman's host has to open the key.
        self.key = {"PGDATAKEYUNWRAPCMD": key[1].split("=", 1)[1]} if method == STREAMING and sealed else {}
        if method == STREAMING:
            self.do(receive)
            self.wait_for(lambda: cluster.psql("SELECT state FROM pg_stat_replication") == "streaming")
        cluster.psql(f"CREATE TABLE t (n int, b text); CREATE TABLE big AS SELECT i, '{self.canaries['big']}' || i AS b"
                     " FROM generate_series(1, 20000) i")

    def do(self, commands, check=True, **environment):
        """Runs a block of the page."""
        return run(["bash", "-euo", "pipefail", "-c", commands], {**self.main.environment, **self.key, **environment}, check)

    def insert(self, label):
        """A row, and the time after it. The canary is in it twice: the end of a WAL page may cut one."""
        self.main.psql(f"INSERT INTO t SELECT count(*), repeat('{self.canaries[label]}', 2) FROM t; CHECKPOINT")
        return self.main.psql("SELECT clock_timestamp()")

    def archived(self):
        """Waits until all WAL so far is Barman's."""
        last = self.main.psql("SELECT pg_walfile_name(pg_switch_wal())")
        self.wait_for(lambda: self.do("barman archive-wal main") and (self.kept / "main/wals" / last[:16] / last).exists())

    def wait_for(self, condition):
        eventually(condition, lambda: self.main.log()[-3000:])

    def labels(self):
        """The labels of the rows, in the order of their insertion, from a server that has left recovery."""
        self.wait_for(lambda: self.main.psql("SELECT pg_is_in_recovery()") == "f")
        return re.findall(rf"{self.canaries.mark}_(\w+)_", self.main.psql("SELECT left(b, length(b) / 2) FROM t ORDER BY n"))

    def unpacked(self):
        """A directory with what compressed backups hold."""
        place = self.directory / "unpacked"
        for packed in self.kept.glob("main/base/*/data/*.gz"):
            place.mkdir(exist_ok=True)
            (place / packed.parents[1].name).write_bytes(gzip.decompress(packed.read_bytes()))
        return place

    def assert_clean(self):
        """Nothing in clear, and every page in order."""
        kept = [self.kept, self.unpacked(), self.directory / "barman.log"]
        self.assertEqual(self.canaries.found(*kept, self.main.data), {})
        backups = [place for place in self.kept.glob("main/base/*/data") if (place / "global").exists()]
        self.assertEqual(self.canaries.audit(self.kept, *backups, self.main.data), [])
        self.main.stop()
        run([PGSEAL, "verify", "-D", self.main.data])

    def two_backups(self):
        """With rows before, between and after; returns the time between the last two rows."""
        self.do(self.prepare)
        self.insert("before")
        self.do(self.backup)
        self.insert("between")
        self.do(self.backup)
        target = self.insert("after")
        self.insert("late")
        self.archived()
        return target


class Sealed(Barman):
    def test_rsync(self):
        self.backups_and_recoveries(RSYNC)

    def test_pg_basebackup_in_tar_format(self):
        self.backups_and_recoveries(TAR)
        backup = max(self.kept.glob("main/base/*/data"))
        with tarfile.open(backup / "base.tar.gz") as tar:
            key = tar.extractfile("pg_encryption/key.bin").read()
        self.assertEqual(key, (self.main.data / "pg_encryption/key.bin").read_bytes())

    def test_streaming(self):
        self.backups_and_recoveries(STREAMING)

    def backups_and_recoveries(self, method):
        self.configured(method)
        target = self.two_backups()
        self.assertEqual(len(re.findall("^main .* - Size: ", self.do("barman list-backups main").stdout, re.M)), 2)
        relation = self.main.psql("SELECT pg_relation_filepath('big')")
        self.main.stop("immediate")
        (self.main.data / relation).unlink()
        (self.main.data / "base/1/99999").write_bytes(bytes(8192))
        (self.main.data / "pg_encryption/key.bin").unlink()
        self.make_room(method)
        self.do(self.to_the_end)
        self.assertFalse((self.main.data / "base/1/99999").exists())
        self.main.start()
        self.assertEqual(self.labels(), ["before", "between", "after", "late"])
        self.assertEqual(self.main.psql("SELECT count(*), count(DISTINCT b) FROM big"), "20000|20000")
        self.assert_clean()
        self.make_room(method)
        self.do(self.to_a_time, TARGET=target)
        self.main.start()
        self.assertEqual(self.labels(), ["before", "between", "after"])
        self.assert_clean()

    def make_room(self, method):
        """As the page asks for a backup in tar format."""
        if method == TAR:
            shutil.rmtree(self.main.data)
            self.main.data.mkdir(mode=0o700)

    def test_what_is_kept_is_what_is_stored(self):
        self.configured()
        self.do(self.prepare)
        self.main.psql("VACUUM FREEZE big; CHECKPOINT")
        self.do(self.backup)
        self.archived()
        relation = self.main.psql("SELECT pg_relation_filepath('big')")
        backup, = self.kept.glob("main/base/*/data")
        for name in [relation, "pg_encryption/key.bin", "PG_VERSION"]:
            self.assertEqual((backup / name).read_bytes(), (self.main.data / name).read_bytes(), name)
        last = max(self.kept.glob("main/wals/*/" + "[0-9A-F]" * 24))
        self.assertEqual(last.read_bytes(), (self.main.data / "pg_wal" / last.name).read_bytes())

    def test_without_the_key(self):
        self.configured()
        self.do(self.prepare)
        self.do(self.backup)
        self.archived()
        self.main.stop()
        self.secret.write_text("another\n")
        self.do(self.to_the_end)
        self.assertEqual(self.main.try_start(), 6)
        self.assertIn("key.bin: the unwrap command failed", self.main.log())
        self.assertEqual(self.canaries.found(self.kept, self.main.data), {})


class Plain(Barman):
    def test_rsync(self):
        self.shows_it_all(RSYNC)

    def test_pg_basebackup_in_tar_format(self):
        self.shows_it_all(TAR)

    def test_streaming(self):
        self.shows_it_all(STREAMING)

    def shows_it_all(self, method):
        """Else the searches of the others would mean nothing."""
        self.configured(method, sealed=False)
        self.two_backups()
        for places, labels in [([self.kept / "main/base", self.unpacked()], {"big", "before", "between"}),
                               ([self.kept / "main/wals"], {"between", "after", "late"})]:
            self.assertLessEqual(labels, self.canaries.found(*places).keys())
            self.assertNotEqual(self.canaries.audit(*filter(Path.exists, places)), [])


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
