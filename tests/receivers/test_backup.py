#!/usr/bin/env python3
"""Base backups of a sealed server by stock clients: what arrives, and what is refused before its first byte (C7, C8, A10, B4)."""

import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import CHOICES, TCP, Receivers, packed
from pgseal_test import files_below, main, major_version, run

RAW = ["--no-verify-checksums", "-X", "fetch", "-c", "fast"]
CLEAR = ["-X", "fetch", "-c", "fast"]
UNPROVEN = b"does not say what it may receive"
LOST = ("pgseal: pg_encryption/key.bin of the server is missing or empty, and nobody could open the copy without it: restore key.bin from "
        "a copy, or dump the databases before the server stops\n")
# A target of the server's: what the command is given it keeps, in a directory of the test's.
SHELL = "shared_preload_libraries = 'basebackup_to_shell'\nbasebackup_to_shell.command = 'cat > {}/%f'\n"


class Backups(Receivers):
    def backup(self, cluster, *arguments, receiver=None, into="copy", **environment):
        target = self.directory / into
        return target, self.receive(cluster, "pg_basebackup", "-D", target, *arguments, receiver=receiver, **environment)

    def assert_sent_nothing(self, done, target, pattern):
        self.assertRefused(done, pattern)
        self.assertEqual([str(file) for file in files_below(target)], [])

    def server_side(self):
        """--target=server writes where the server runs."""
        return ["-t", f"server:{self.directory}/server"]

    def serve_shell(self):
        """A server that can give backups to a command, and where that puts them."""
        shell = self.directory / "shell"
        shell.mkdir()
        return self.serve(conf=SHELL.format(shell)), shell


class Raw(Backups):
    """What is stored, with its key file."""

    def assert_starts(self, cluster, target):
        self.assertEqual((target / "pg_encryption/key.bin").read_bytes(), (cluster.data / "pg_encryption/key.bin").read_bytes())
        cluster.stop()
        cluster.data = target
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), "20000|200010000")

    def test_it_starts_under_the_twins(self):
        cluster = self.serve()
        target, done = self.backup(cluster, *RAW, receiver="raw", **TCP)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.canaries.found(target), {})
        self.assert_starts(cluster, target)

    def test_a_server_that_lost_its_key_file(self):
        """Nobody could open what it gives; the programs that ask for the key say so too."""
        for tracked in ("on", "off"):
            with self.subTest(track_activities=tracked):
                cluster = self.serve(name=f"lost{tracked}", conf=f"track_activities = {tracked}\n")
                key = cluster.data / "pg_encryption/key.bin"
                key.rename(self.directory / "away")
                target, done = self.backup(cluster, *RAW, receiver="raw", into=f"copy{tracked}")
                self.assertNotEqual(done.returncode, 0)
                if tracked == "on":
                    self.assert_sent_nothing(done, target, "key.bin of this cluster is missing or cannot be read")
                self.assertFalse((target / "backup_manifest").exists())
                for options in [["-D", self.directory / "own"], ["-D", self.directory / "own", "-Ft", "-X", "fetch"]]:
                    done = cluster.run("pg_basebackup", "-h", cluster.home, "-U", "postgres", *options, check=False)
                    self.assertEqual((done.returncode, done.stderr), (3, LOST))
                (self.directory / "away").rename(key)
                target, done = self.backup(cluster, *RAW, receiver="raw", into=f"again{tracked}")
                self.assertEqual((done.returncode, (target / "pg_encryption/key.bin").exists()), (0, True), done.stderr)

    def test_an_unsealed_server_refuses_it(self):
        """Newer servers send a pg_control whose CRC fits; its values must stop anyone who has no key, before anything is written."""
        cluster = self.serve()
        target, done = self.backup(cluster, *RAW, receiver="raw")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        stored = (target / "global/pg_control").read_bytes()
        self.assertEqual(stored[:16], (cluster.data / "global/pg_control").read_bytes()[:16])
        for command in [["postgres", "-D", target], ["pg_resetwal", target], ["pg_checksums", "-e", target]]:
            done = run([cluster.pg / command[0], *command[1:]], check=False)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertEqual((target / "global/pg_control").read_bytes(), stored)
        self.assert_starts(cluster, target)
        cluster.stop()
        self.assertNotEqual((target / "global/pg_control").read_bytes()[4096:], bytes(4096))

    def test_tablespaces(self):
        cluster = self.serve(tablespaces=["apart"])
        apart, mapped = cluster.home / "apart", self.directory / "mapped"
        cluster.psql(f"CREATE TABLESPACE apart LOCATION '{apart}'")
        cluster.psql(f"CREATE TABLE s TABLESPACE apart AS SELECT '{self.canaries['apart']}' AS word; CHECKPOINT")
        target, done = self.backup(cluster, *RAW, "-T", f"{apart}={mapped}", receiver="raw")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(list(files_below(mapped)))
        self.assertEqual(self.canaries.found(target, mapped), {})
        self.assert_starts(cluster, target)
        self.assertEqual(cluster.psql("SELECT word FROM s"), self.canaries["apart"])

    def test_tar_and_compressed_and_through_a_pipe(self):
        cluster = self.serve()
        ways = {"tar": ["-Ft"], "gzip": ["-Ft", "-z"], "server-gzip": ["-Ft", "-Z", "server-gzip"]}
        for name, way in ways.items():
            with self.subTest(way=name):
                target, done = self.backup(cluster, *RAW, *way, receiver="raw", into=name)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                [base] = target.glob("base.tar*")
                self.assertNotIn(self.mark, packed(base.read_bytes()))
                with tarfile.open(base) as tar:
                    self.assertIn("pg_encryption/key.bin", [name.removeprefix("./") for name in tar.getnames()])
        pipe = self.directory / "pipe.tar"
        run(f"{cluster.pg}/pg_basebackup -D - -Ft --no-manifest {' '.join(RAW)} > {pipe}",
            {**cluster.environment, "PGOPTIONS": "-c pgseal.receiver=raw"}, shell=True)
        self.assertGreater(pipe.stat().st_size, 10_000_000)
        self.assertNotIn(self.mark, pipe.read_bytes())

    def test_on_the_server(self):
        cluster = self.serve()
        done = self.receive(cluster, "pg_basebackup", *self.server_side(), *RAW, receiver="raw")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater((self.directory / "server/base.tar").stat().st_size, 10_000_000)
        self.assertEqual(self.canaries.found(self.directory / "server"), {})

    def test_to_a_command_of_the_servers(self):
        cluster, shell = self.serve_shell()
        done = self.receive(cluster, "pg_basebackup", "-t", "shell", *RAW, receiver="raw")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with tarfile.open(shell / "base.tar") as tar:
            self.assertIn("pg_encryption/key.bin", [name.removeprefix("./") for name in tar.getnames()])
        self.assertEqual(self.canaries.found(shell), {})

    def test_what_ciphertext_cannot_be(self):
        cluster = self.serve(conf="summarize_wal = on\n" if major_version() >= 17 else "")
        target, done = self.backup(cluster, "-X", "fetch", receiver="raw")
        self.assert_sent_nothing(done, target, "add VERIFY_CHECKSUMS false")
        target, done = self.backup(cluster, "--no-verify-checksums", "-X", "stream", "-c", "fast", receiver="raw")
        self.assertRefused(done, "a raw session gets no WAL stream")
        self.assertEqual(self.canaries.found(target) if target.exists() else {}, {})

    def test_incremental(self):
        if major_version() < 17:
            self.skipTest("incremental backups came with 17")
        cluster = self.serve(conf="summarize_wal = on\n")
        full, done = self.backup(cluster, *RAW, receiver="raw", into="full")
        self.assertEqual(done.returncode, 0)
        target, done = self.backup(cluster, *RAW, "-i", full / "backup_manifest", receiver="raw")
        self.assert_sent_nothing(done, target, "an incremental backup cannot be raw")


class Clear(Backups):
    """With a token, so that the tests of the others could fail."""

    def test_plain_format(self):
        cluster = self.serve()
        target, done = self.backup(cluster, *CLEAR, receiver=cluster.token())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("row", self.canaries.found(target))
        self.assertFalse((target / "pg_encryption").exists())

    def test_streamed_wal(self):
        cluster = self.serve()
        target, done = self.backup(cluster, "-X", "stream", "-c", "fast", receiver=cluster.token())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("row", self.canaries.found(target))

    def test_not_on_the_server(self):
        cluster, shell = self.serve_shell()
        for target in [self.server_side(), ["-t", "blackhole"], ["-t", "shell"]]:
            done = self.receive(cluster, "pg_basebackup", *target, *CLEAR, receiver=cluster.token())
            self.assertRefused(done, "to the client only")
        self.assertFalse((self.directory / "server").exists())
        self.assertEqual(list(shell.iterdir()), [])


class Unproven(Backups):
    def test_stock_clients(self):
        cluster, shell = self.serve_shell()
        ways = [[], ["-Ft"], ["-Ft", "-z"], ["-Z", "server-gzip"], ["-Z", "client-lz4", "-Ft"], ["-Z", "server-zstd"],
                ["-Ft", "-X", "none"], ["-Ft", "-X", "fetch", "-D", "-"], [*self.server_side(), "-X", "fetch"],
                ["-t", "shell", "-X", "fetch"]]
        for way in ways:
            with self.subTest(way=way):
                place = [] if {"-t", "-D"} & set(way) else ["-D", self.directory / "copy"]
                done = self.receive(cluster, "pg_basebackup", *place, *way, **TCP)
                self.assert_sent_nothing(done, self.directory / "copy", CHOICES)
                self.assertEqual(done.stdout, "")
        self.assertFalse((self.directory / "server").exists())
        self.assertEqual(list(shell.iterdir()), [])

    def test_by_a_walsender_for_a_database(self):
        cluster, shell = self.serve_shell()
        for conf in ["track_activities = on", "track_activities = off"]:
            cluster.configure(conf)
            cluster.stop()
            cluster.start()
            for command in ["BASE_BACKUP", "BASE_BACKUP (LABEL 'x', CHECKPOINT 'fast', WAL)",
                            "BASE_BACKUP (TARGET 'shell', CHECKPOINT 'fast')",
                            f"BASE_BACKUP (TARGET 'server', TARGET_DETAIL '{self.directory}/server', CHECKPOINT 'fast')"]:
                arrived = self.bytes_of(cluster, command, replication="database")
                self.assertNotIn(self.mark, arrived)
                self.assertLess(len(arrived), 2000)
                self.assertEqual(UNPROVEN in arrived, conf.endswith("on"), command)
        self.assertIn(UNPROVEN.decode(), cluster.log())
        self.assertEqual(self.canaries.found(*filter(Path.exists, [self.directory / "server", shell])), {})


if __name__ == "__main__":
    main(__file__)
