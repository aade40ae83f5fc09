#!/usr/bin/env python3
"""pg_basebackup from sealed and plain servers: the copy starts, has all rows, and shows nothing on the disk."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import Reflink, base_environment, clones, main, major_version, run  # noqa: E402
from receiving import Receiving  # noqa: E402


class Plain(Receiving):
    """-Fp: laid out in a directory."""

    def check(self, primary, *options, places=()):
        """A copy with these options is sealed, verifies, and starts."""
        copy = self.copy("copy")
        self.base_backup(primary, copy, *options)
        self.assert_sealed(copy.data, *places)
        self.assertEqual((copy.data / "pg_encryption/key.bin").read_bytes(),
                         (primary.data / "pg_encryption/key.bin").read_bytes())
        verify = ["-n"] if "none" in options else []
        copy.run("pg_verifybackup", *verify, copy.data)
        return copy

    def test_every_way_to_take_the_wal_along(self):
        primary = self.primary()
        for method in ["stream", "fetch"]:
            copy = self.check(primary, "-X", method)
            self.start(copy)
            self.assert_rows(copy)
            copy.stop()
            self.assert_sealed(copy.data)
            run(["rm", "-rf", copy.home])
        copy = self.check(primary, "-X", "none")
        self.assertEqual(list((copy.data / "pg_wal").glob("0*")), [])

    def test_without_fsync_compressed_and_verbose(self):
        primary = self.primary()
        for way in ["server-gzip:3", "server-lz4", "server-zstd:2"]:
            with self.subTest(way=way):
                copy = self.check(primary, "-N", "-Z", way, "-P", "-v", "-X", "fetch")
                self.start(copy)
                self.assert_rows(copy)
                copy.stop()
                run(["rm", "-rf", copy.home])

    def test_tablespaces_and_the_wal_elsewhere(self):
        primary = self.primary(tablespaces=("one", "two"))
        places = [self.directory / name for name in ("one", "two", "wal")]
        mapping = [option for name in ("one", "two") for option in ("-T", f"{primary.home / name}={self.directory / name}")]
        copy = self.check(primary, *mapping, f"--waldir={places[2]}", places=places)
        self.assertTrue((copy.data / "pg_wal").is_symlink())
        self.start(copy)
        for table in ["t", "t_one", "t_two"]:
            self.assert_rows(copy, table)
        copy.stop()
        self.assert_sealed(copy.data, *places)

    def test_segment_sizes(self):
        for size in [1, 64]:
            with self.subTest(size=size):
                primary = self.cluster(f"p{size}", initdb=[f"--wal-segsize={size}"], conf="wal_level = replica")
                primary.init().start()
                primary.psql("CREATE TABLE t AS SELECT 1 AS a")
                copy = self.copy(f"c{size}")
                self.base_backup(primary, copy)
                self.start(copy)
                self.assertEqual(copy.psql("SELECT a FROM t"), "1")
                copy.stop()
                primary.stop()

    def test_connection_strings_and_relative_directories(self):
        primary = self.primary()
        copy = self.copy("copy")
        command = [copy.bindir / "pg_basebackup", "-d", f"postgresql:///?host={primary.home}&user=postgres", "-D", "x"]
        run(command, cwd=copy.home)
        self.assert_sealed(copy.home)
        (copy.home / "x").rename(copy.data)
        self.start(copy)
        self.assert_rows(copy)

    def test_the_client_is_no_target(self):
        primary = self.primary()
        for number, options in enumerate([[], ["-X", "fetch"], ["-t", "client"]]):
            copy = self.copy(f"copy{number}")
            self.base_backup(primary, copy, "--target", "client", *options)
            self.assert_sealed(copy.data)
            self.start(copy)
            self.assert_rows(copy)
            copy.stop()
        tars = self.copy("tars")
        self.base_backup(primary, tars, "--target=client", "-Ft")
        self.assertTrue((tars.data / "pg_wal.tar").exists())
        self.assert_sealed(tars.data)
        command = ["pg_basebackup", "--target=client", "-Ft", "-D", "-", "-c", "fast"]
        out = tars.run(*command, environment={"PGHOST": str(primary.home)})
        self.assertIn("base/1/PG_VERSION", out.stdout)

    def test_a_plain_server_gives_a_plain_copy(self):
        primary = self.primary(sealed=False)
        copy = self.copy("copy", sealed=True)
        self.base_backup(primary, copy)
        self.assertFalse((copy.data / "pg_encryption").exists())
        self.assertNotEqual(self.canaries.found(copy.data), {})
        self.start(copy)
        self.assert_rows(copy)


class Keys(Receiving):
    """Whose key a copy is sealed under."""

    def test_a_new_key_of_a_sealed_server(self):
        primary = self.primary()
        copy = self.copy("copy")
        self.base_backup(primary, copy, "--data-encryption=128", "--no-key-wrap")
        self.assertNotEqual(copy.master_key(), primary.master_key())
        self.assert_sealed(copy.data)
        self.start(copy)
        self.assert_rows(copy)

    def test_a_new_key_of_a_plain_server(self):
        primary = self.primary(sealed=False)
        copy = self.copy("copy")
        self.base_backup(primary, copy, "-y", "--no-key-wrap")
        self.assert_sealed(copy.data)
        self.start(copy)
        self.assert_rows(copy)

    def test_a_wrapped_key(self):
        wrap = ("--key-wrap-command=openssl enc -aes-256-cbc -pbkdf2 -pass pass:p -out %p",
                "--key-unwrap-command=openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:p -in %p")
        primary = self.primary(key=wrap)
        copy = self.copy("copy")
        refused = self.base_backup(primary, copy, check=False)
        self.assertEqual((refused.returncode, list(copy.home.iterdir())), (6, []))
        self.assertIn("the policy of this machine runs no command", refused.stderr)
        self.base_backup(primary, copy, wrap[1])
        self.start(copy)
        self.assert_rows(copy)

    def test_options_that_make_no_sense(self):
        primary = self.primary()
        copy = self.copy("copy")
        for options, sentence in [
            (["--no-key-wrap"], "--no-key-wrap is for a sealed cluster: add --data-encryption"),
            (["-Ft", "-y", "--no-key-wrap"], "leave --data-encryption out, or use the plain format"),
        ]:
            refused = self.base_backup(primary, copy, *options, check=False)
            self.assertEqual((refused.returncode, list(copy.home.iterdir())), (2, []), options)
            self.assertIn(sentence, refused.stderr)

    def test_the_expected_key(self):
        primary = self.primary()
        plain = self.cluster("plain", sealed=False)
        plain.init().start()
        copy = self.copy("copy")
        other = {"PGSEAL_EXPECT_KEY": "07c3ae1ad793c43def72e2be8064c70a"}
        for server, sentence in [(primary, "as PGSEAL_EXPECT_KEY demands"), (plain, "the server is not sealed, but")]:
            refused = self.base_backup(server, copy, check=False, environment=other)
            self.assertEqual((refused.returncode, list(copy.home.iterdir())), (7, []))
            self.assertIn(sentence, refused.stderr)

    def test_no_server(self):
        copy = self.copy("copy")
        refused = copy.run("pg_basebackup", "-D", copy.data, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("pg_basebackup: error: connection to server", refused.stderr)
        refused = copy.run("pg_basebackup", "-D", copy.data, "-y", "--no-key-wrap", check=False)
        self.assertEqual(refused.returncode, 3)
        self.assertIn("the server cannot be asked for its key", refused.stderr)


class Incremental(Receiving):
    """--incremental, and pg_combinebackup."""

    @unittest.skipIf(major_version() < 17, "PostgreSQL has incremental backups from 17 on")
    def test_a_chain(self):
        primary = self.primary(tablespaces=("one",))
        chain = [self.copy(name) for name in ("full", "second", "third")]
        before = []
        for number, copy in enumerate(chain):
            mapping = ["-T", f"{primary.home / 'one'}={copy.home / 'one'}"]
            self.base_backup(primary, copy, *mapping, *before)
            before = ["-i", copy.data / "backup_manifest"]
            self.assert_sealed(copy.data, copy.home)
            copy.run("pg_verifybackup", copy.data)
            word = self.canaries["increment"]
            primary.psql(f"CREATE TABLE i{number} TABLESPACE one AS SELECT '{word}' || i AS w FROM generate_series(1, 100) i")
            primary.psql(f"UPDATE t SET w = w WHERE i = {number + 1}; UPDATE t_one SET w = w")
        self.assertGreater(len(list(chain[2].data.rglob("INCREMENTAL.*"))), 10)
        self.assertGreater(len(list((chain[2].home / "one").rglob("INCREMENTAL.*"))), 0)
        self.combine(primary, chain)

    def combine(self, primary, chain):
        """Every way of copying gives a sealed cluster that starts."""
        methods = ["--copy", "--copy-file-range", "--clone"] + (["--link"] if major_version() >= 18 else [])
        inputs, reflink = [copy.data for copy in chain], Reflink(self.directory)
        for method in methods:
            whole = self.copy("whole" + method.strip("-"))
            mapping = f"{chain[-1].home / 'one'}={whole.home / 'one'}"
            command = ["pg_combinebackup", *inputs, "-o", whole.data, "-T", mapping, method]
            if method == "--clone" and not clones(self.directory):
                self.cannot_clone(whole, command)
            before = reflink.count()
            whole.run(*command, environment=reflink.environment)
            self.assertEqual(reflink.count() - before > 100, method == "--clone")
            whole.run("pg_verifybackup", whole.data)
            self.assert_sealed(whole.data, whole.home)
            self.assertEqual(whole.master_key(), primary.master_key())
            if method != "--link":
                self.start(whole)
                self.assert_rows(whole)
                self.assert_rows(whole, "t_one")
                self.assertEqual(whole.psql("SELECT count(*) FROM i1"), "100")
                whole.stop()

    def cannot_clone(self, whole, command):
        """As in a plain cluster: the file system says so, and nothing is left."""
        done = whole.run(*command, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, 'error while cloning file ".*" to ".*": Operation not supported')
        self.assertEqual(list(whole.home.iterdir()), [])

    @unittest.skipIf(major_version() < 17, "PostgreSQL has incremental backups from 17 on")
    def test_a_chain_under_two_keys(self):
        """Copies go through the cipher; what shares stored bytes is refused before anything is written."""
        primary = self.primary()
        full, plain, last = self.copy("full"), self.cluster("plain"), self.copy("last")
        self.base_backup(primary, full, "--data-encryption", "--no-key-wrap")
        self.base_backup(primary, last, "-i", full.data / "backup_manifest")
        self.assertNotEqual(full.master_key(), last.master_key())
        plain.data.mkdir()
        for first, option in [(full, "link"), (full, "clone")]:
            if option == "link" and major_version() < 18:
                continue
            done = last.run("pg_combinebackup", first.data, last.data, "-o", self.directory / "x", f"--{option}", check=False)
            self.assertEqual((done.returncode, (self.directory / "x").exists()), (2, False))
            self.assertEqual(done.stderr, f"pgseal: {first.data} is not sealed under the key of the last backup, so the "
                             f"result cannot share files with it: leave --{option} out\n")
        done = last.run("pg_combinebackup", plain.data, last.data, "-o", self.directory / "x", check=False)
        self.assertEqual((done.returncode, (self.directory / "x").exists()), (2, False))
        self.assertEqual(done.stderr, f"pgseal: {plain.data} is not sealed, and what it holds would be, though anybody can have "
                         "written it: take a full backup of the sealed cluster, and begin the chain with that\n")
        for options in [["--copy-file-range"], ["--clone", "--copy"]]:
            whole = self.copy("whole" + options[0].strip("-"))
            whole.run("pg_combinebackup", full.data, last.data, "-o", whole.data, *options)
            self.assertEqual(whole.master_key(), primary.master_key())
            self.assert_sealed(whole.data)
            self.start(whole)
            self.assert_rows(whole)
            whole.stop()

    @unittest.skipIf(major_version() < 17, "PostgreSQL has incremental backups from 17 on")
    def test_wal_before_pg_control(self):
        """Files are copied in the order in which the directory lists them: in a tmpfs, by age."""
        primary = self.primary()
        full = self.copy("full")
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            full.data = Path(memory, "data")
            self.base_backup(primary, full)
            for youngest in ["pg_wal", "global"]:
                (full.data / youngest).rename(full.data / "aside")
                (full.data / "aside").rename(full.data / youngest)
                whole = self.copy(youngest)
                whole.run("pg_combinebackup", full.data, "-o", whole.data)
                self.start(whole)
                self.assert_rows(whole)
                whole.stop()

    @unittest.skipIf(major_version() < 17, "PostgreSQL has incremental backups from 17 on")
    def test_what_cannot_be_combined(self):
        primary = self.primary()
        full = self.copy("full")
        self.base_backup(primary, full)
        done = full.run("pg_combinebackup", "-n", full.data, "-o", full.home / "x")
        self.assertFalse((full.home / "x").exists(), done.stderr)
        (full.home / "x/pg_encryption").mkdir(parents=True)
        done = full.run("pg_combinebackup", full.data, "-o", full.home / "x", check=False)
        self.assertEqual(done.returncode, 2)
        raw = self.base_backup(primary, self.copy("raw"), "-Ft", "-i", full.data / "backup_manifest", check=False)
        self.assertEqual(raw.returncode, 2)
        self.assertIn("can only be laid out in a directory", raw.stderr)


class Raw(Receiving):
    """-Ft, -D -, --target: what the server stores, with its key file."""

    def unpack(self, archive, target):
        """A tar of a base backup becomes a data directory."""
        target.data.mkdir(mode=0o700)
        unpacker = ["-I", "lz4"] if archive.suffix == ".lz4" else []
        run(["tar", *unpacker, "-x", "-f", archive, "-C", target.data])
        return target

    def test_tar_in_every_compression(self):
        primary = self.primary()
        for options, name in [((), "base.tar"), (("-z",), "base.tar.gz"), (("-Z", "server-gzip"), "base.tar.gz"),
                              (("-Z", "client-lz4"), "base.tar.lz4"), (("-Z", "server-lz4"), "base.tar.lz4"),
                              (("-Z", "client-zstd"), "base.tar.zst"), (("-Z", "server-zstd"), "base.tar.zst"),
                              (("-X", "fetch"), "base.tar"), (("--no-verify-checksums",), "base.tar")]:
            with self.subTest(options=options):
                copy = self.copy("copy" + "".join(options))
                self.base_backup(primary, copy, "-Ft", *options)
                self.assert_sealed(copy.data)
                copy.data.rename(copy.home / "tar")
                self.unpack(copy.home / "tar" / name, copy)
                for wal in (copy.home / "tar").glob("pg_wal.tar*"):
                    run(["tar", "-x", "-f", wal, "-C", copy.data / "pg_wal"])
                self.assert_sealed(copy.data)
                self.start(copy)
                self.assert_rows(copy)
                copy.stop()

    @unittest.skipIf(major_version() < 18, "pg_verifybackup reads tar files from PostgreSQL 18 on")
    def test_tar_verified_without_the_key(self):
        primary = self.primary()
        copy = self.copy("copy")
        self.base_backup(primary, copy, "-Ft")
        copy.run("pg_verifybackup", "-n", copy.data)
        with open(copy.data / "base.tar", "r+b") as file:
            file.seek(1 << 20)
            file.write(b"spoilt")
        spoilt = copy.run("pg_verifybackup", "-n", copy.data, check=False)
        self.assertEqual(spoilt.returncode, 1)
        self.assertIn("checksum mismatch", spoilt.stderr)

    def test_standard_output_and_the_server(self):
        primary = self.primary()
        copy = self.copy("copy")
        command = [copy.bindir / "pg_basebackup", "-c", "fast", "-Ft", "-D", "-"]
        with open(copy.home / "out.tar", "wb") as out:
            subprocess.run(command, env={**base_environment(), **primary.environment}, stdout=out, check=True, timeout=180)
        self.unpack(copy.home / "out.tar", copy)
        self.assert_sealed(copy.home)
        self.start(copy)
        self.assert_rows(copy)
        server = self.directory / "server"
        options = ["-c", "fast", "-X", "fetch", f"--target=server:{server}"]
        copy.run("pg_basebackup", *options, environment={"PGHOST": str(primary.home)})
        self.assertTrue((server / "base.tar").exists())
        self.assert_sealed(server)

    def test_verified_without_the_key(self):
        primary = self.primary()
        copy = self.copy("copy")
        raw = {"PGHOST": str(primary.home), "PGOPTIONS": "-c pgseal.receiver=raw"}
        stock = [primary.pg / "pg_basebackup", "-c", "fast", "-X", "fetch", "--no-verify-checksums", "-D", copy.data]
        unfinished = primary.data / "pg_encryption/key.bin.new"
        unfinished.write_text("what a change of the key was about to write when it was killed")
        run(stock, {**primary.environment, **raw})
        self.assertNotIn(unfinished.name, os.listdir(copy.data / "pg_encryption"))
        self.assertIn("key.bin", os.listdir(copy.data / "pg_encryption"))
        copy.run("pg_verifybackup", copy.data)
        self.assert_sealed(copy.data)
        table = copy.data / primary.psql("SELECT pg_relation_filepath('t')")
        with open(table, "r+b") as file:
            file.seek(5000)
            file.write(b"spoilt")
        spoilt = copy.run("pg_verifybackup", copy.data, check=False)
        self.assertEqual(spoilt.returncode, 1)
        self.assertIn("checksum mismatch", spoilt.stderr)


if __name__ == "__main__":
    main(__file__)
