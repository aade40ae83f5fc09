#!/usr/bin/env python3
"""A plain cluster is sealed, gets another key, and is unsealed, each in place: rows and bytes.

The cluster holds a canary in every kind of file, has a tablespace and its WAL elsewhere.
"""

import json
import os
import re
import shutil
import stat
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from converting import PLAIN_KEY, ConvertCase, become, content, dump
from pgseal_test import PGSEAL, Canaries, main, run
from terminal import run_on_terminal
from workload import CONF, Workload

# Files that a crash leaves: no server reads them after a restart.
LEFTOVERS = ["base/pgsql_tmp/pgsql_tmp4711.0", "base/5/t3_16400", "pg_wal/xlogtemp.4711", "pg_stat_tmp/of_an_extension",
             "pg_replslot/spilling/xid-700-lsn-0-1.spill", "pg_wal/RECOVERYXLOG", "pg_dynshmem/mmap.4711"]


def openssl(directory, word):
    """Wrap and unwrap command with a passphrase in a file."""
    file = directory / f"secret-{word}"
    file.write_text(word)
    cipher = f"openssl enc -aes-256-cbc -pbkdf2 -pass file:{file}"
    return ["--key-wrap-command", f"{cipher} -out '%p'", "--key-unwrap-command", f"{cipher} -d -in '%p'"]


class ThereAndBack(ConvertCase):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()

    def loaded(self):
        """A plain cluster with everything in it, stopped, and its dump."""
        wal = self.directory / "wal"
        cluster = self.cluster(sealed=False, conf=CONF, tablespaces=["apart"], initdb=["-X", str(wal)])
        cluster.init().start()
        workload = Workload(cluster, self.canaries)
        workload.run()
        cluster.end_sessions()
        rows = dump(cluster)
        cluster.stop()
        for spilled in cluster.data.glob("pg_replslot/spilling/*.spill"):
            spilled.unlink()  # there or not, by the order in which the server's processes ended
        for name in LEFTOVERS:
            path = cluster.data / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.canaries["leftover"] * 1000)
        return cluster, rows

    def found(self, cluster):
        return set(self.canaries.found(cluster.data))

    def alive(self, cluster, rows):
        """The server starts, has the rows, and its tables are sound."""
        cluster.start()
        self.assertEqual(dump(cluster), rows)
        self.amcheck(cluster)
        cluster.psql("DROP EXTENSION amcheck")
        cluster.stop()

    def test_rows_and_canaries(self):
        cluster, rows = self.loaded()
        clear = self.found(cluster)
        self.assertGreater(len(clear), 20)

        report = json.loads(self.convert("seal", cluster, *openssl(self.directory, "one"), "--json").stdout)
        self.assertEqual((report["command"], report["deleted_files"]), ("seal", len(LEFTOVERS)))
        self.assertEqual(self.found(cluster), set())
        run([PGSEAL, "audit", cluster.data, "--canary", self.canaries.mark])
        self.assertEqual(self.verify(cluster)["bad"], [])
        self.alive(cluster, rows)
        self.assertEqual(self.found(cluster), set())

        old_key, old_id = (cluster.data / "pg_encryption/key.bin").read_bytes(), self.key_id(cluster)
        self.convert("rekey", cluster, *openssl(self.directory, "two"), "--data-encryption=128")
        status = run([PGSEAL, "status", "-D", cluster.data, "--json"])
        self.assertEqual(json.loads(status.stdout)["key_length"], 128)
        self.assertEqual(self.verify(cluster)["bad"], [])
        self.assertEqual(self.found(cluster), set())
        self.assertEqual((cluster.data / f"pg_encryption/key.bin.{old_id}").read_bytes(), old_key)
        self.refuses_key(cluster, old_key)
        self.alive(cluster, rows)

        ids = {old_id, self.key_id(cluster)}
        self.convert("unseal", cluster)
        self.assertFalse((cluster.data / "pg_encryption").exists())
        self.assertEqual({file.name for file in cluster.data.glob("key.bin*")}, {f"key.bin.{key}" for key in ids})
        self.assertEqual((cluster.data / f"key.bin.{old_id}").read_bytes(), old_key)
        self.assertEqual(self.found(cluster), clear - {"leftover", "notify"})  # a start empties the queue
        cluster.run("pg_checksums", "--check", "-D", cluster.data)
        self.alive(cluster, rows)

    def test_a_key_that_came_again(self):
        """Files of a backup, with their key, over those of the next key: each key file of that key may be all that opens an
        archive of its time. The last one has the name."""
        cluster = self.cluster().init()
        secret = self.directory / "passphrase"
        secret.write_text("a passphrase")
        key_bin, old_id = cluster.data / "pg_encryption/key.bin", self.key_id(cluster)
        backup = self.directory / "backup"
        shutil.copytree(cluster.data, backup)
        files = []
        for _ in range(3):
            shutil.copytree(backup, cluster.data, dirs_exist_ok=True)
            run([PGSEAL, "key", "wrap", "-D", cluster.data, "--new-passphrase-file", secret])  # with a salt of its own
            files.append(key_bin.read_bytes())
            said = self.convert("rekey", cluster, *PLAIN_KEY).stdout
            self.assertIn(f"{key_bin}.{old_id}: keep it", said)
        ends = ["", ".2", ".3"]
        kept = {end: (cluster.data / f"pg_encryption/key.bin.{old_id}{end}").read_bytes() for end in ends}
        self.assertEqual(kept, {"": files[2], ".2": files[0], ".3": files[1]})
        shutil.copytree(backup, cluster.data, dirs_exist_ok=True)
        last = key_bin.read_bytes()
        self.convert("unseal", cluster)
        kept = {path.name.removeprefix(f"key.bin.{old_id}"): path.read_bytes() for path in cluster.data.glob(f"key.bin.{old_id}*")}
        self.assertEqual(kept.pop(""), last)
        self.assertEqual(sorted(kept), [".2", ".3", ".4"])
        self.assertEqual(sorted(kept.values()), sorted(files))
        cluster.start().stop()

    def key_id(self, cluster):
        return json.loads(run([PGSEAL, "status", "-D", cluster.data, "--json"]).stdout)["key_id"]

    def refuses_key(self, cluster, old_key):
        """The old key opens key.bin, and not the cluster."""
        path = cluster.data / "pg_encryption/key.bin"
        new_key = path.read_bytes()
        path.write_bytes(old_key)
        self.assertNotEqual(cluster.try_start(), None)
        verified = run([PGSEAL, "verify", "-D", cluster.data], check=False)
        self.assertEqual((verified.returncode, verified.stdout), (7, ""))
        for said in (cluster.log(), verified.stderr):
            self.assertRegex(said, "pg_control is damaged, or the key in .* is another cluster.s")
        path.write_bytes(new_key)

    def test_bytes(self):
        """There and back without a server in between: every file has its bytes, its size and its mode again."""
        cluster, _ = self.loaded()
        sparse = cluster.data / "base/5/99999.1"
        with open(sparse, "wb") as file:
            file.seek(8192 * 100)
            file.write(os.urandom(8192) + bytes(3 * 8192) + os.urandom(100))
            file.truncate(64 << 20)
        blocks = sparse.stat().st_blocks
        os.chmod(cluster.data / "base/5/1259", 0o640)
        places = [cluster.data, self.directory / "wal"]
        before = stored = content(*places)
        for command in ["seal", "rekey", "unseal"]:
            times = (cluster.data / "base/5/1259").stat().st_mtime_ns
            outlook = json.loads(self.convert(command, cluster, "--check", "--json", *self.key(command)).stdout)
            self.assertEqual((outlook["command"], outlook["obstacles"]), (command, []))
            self.assert_same_files(stored, content(*places))
            done = json.loads(self.convert(command, cluster, "--json", "--jobs=3", *self.key(command)).stdout)
            self.assertEqual((outlook["files"], outlook["bytes"]), (done["files"], done["bytes"]))
            self.assertNotEqual((cluster.data / "base/5/1259").stat().st_mtime_ns, times)
            self.assertLessEqual(sparse.stat().st_blocks, blocks + 16)
            stored = content(*places)
        gone = {place + name for name in LEFTOVERS for place in ["data/", "wal/"]}
        gone |= {name.replace("/pg_wal/", "/") for name in gone}
        kept = re.compile(r"data/(key\.bin|pgseal\.toml)\.[0-9a-f]{32}$")
        stored = {name: file for name, file in stored.items() if not kept.match(name)}
        self.assert_same_files({name: file for name, file in before.items() if name not in gone}, stored)

    @staticmethod
    def key(command):
        return [] if command == "unseal" else PLAIN_KEY

    def test_a_bar_on_a_terminal(self):
        """It goes when the work is done; elsewhere, and where it is not wanted, there is none."""
        cluster = self.cluster(sealed=False).init()
        bar = r"\d+%  [\d.]+ [KM]iB of [\d.]+ MiB  [\d.]+ [KM]iB/s  \S+ left"
        for command, options, wanted in [("seal", [], True), ("rekey", ["--no-progress"], False), ("rekey", [], True),
                                         ("unseal", [], True)]:
            with self.subTest(command=command, options=options):
                line = [PGSEAL, command, "-D", cluster.data, *options, *self.key(command)]
                status, printed, shown = run_on_terminal(line)
                self.assertEqual((status, shown == ""), (0, not wanted), shown)
                self.assertRegex(printed, rf"(?m)^{command}: \d+ files, ")
                if wanted:
                    self.assertRegex(shown, bar)
                    self.assertRegex(shown.replace("\r", "\n"), r"\n\x1b\[2?K[^\n]*\Z")
        self.assertEqual(self.convert("seal", cluster, *PLAIN_KEY).stderr, "")

    def test_a_standby_that_was_shut_down(self):
        primary = self.cluster("primary", sealed=False).init().start()
        standby = self.cluster("standby", sealed=False)
        primary.run("pg_basebackup", "-D", standby.data, "-c", "fast", "-R")
        standby.configure(f"unix_socket_directories = '{standby.home}'")
        os.chmod(standby.data, 0o700)
        primary.psql(f"CREATE TABLE t AS SELECT '{self.canaries['row']}' || i AS a FROM generate_series(1, 1000) i")
        position = primary.psql("SELECT pg_current_wal_lsn()")
        standby.start()
        while standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") != "t":
            pass
        standby.stop()
        primary.stop()
        (standby.data / "standby.signal").unlink()
        self.convert("seal", standby, *PLAIN_KEY)
        self.assertEqual(self.found(standby), set())
        standby.start()
        self.assertEqual(standby.psql("SELECT count(*) FROM t"), "1000")
        standby.stop()

    def test_ways_of_protecting_the_key(self):
        """What initdb takes, seal and rekey take; the present key opens by the options with old- in their names."""
        cluster = self.cluster(sealed=False).init()
        secret = self.directory / "passphrase"
        secret.write_text("a passphrase")
        aes = self.directory / "aes"
        aes.write_text("0f" * 24)
        self.convert("seal", cluster, f"--key-passphrase-file={secret}", "-y", "192")
        self.convert("rekey", cluster, "-K", f"cat {aes}", f"--old-passphrase-file={secret}")
        status = json.loads(run([PGSEAL, "status", "-D", cluster.data, "--check", "--json"]).stdout)
        self.assertEqual((status["key_length"], status["key_check"]["result"]), (192, "opens"))
        key_file = self.directory / "key"
        self.convert("rekey", cluster, f"--key-file={key_file}")
        self.assertTrue(key_file.exists())
        shutil.move(key_file, self.directory / "elsewhere")
        self.convert("unseal", cluster, code=6)
        shutil.move(self.directory / "elsewhere", key_file)
        become(cluster, sealed=True)
        cluster.start().stop()
        self.convert("unseal", cluster)
        cluster.start().stop()

    def test_a_key_directory_on_another_file_system(self):
        """Its files cannot get second names in the data directory: unseal copies them there."""
        elsewhere = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, elsewhere)
        cluster = self.cluster().init()
        if elsewhere.stat().st_dev == cluster.data.stat().st_dev:
            self.skipTest("/dev/shm is the file system of the test's directory")
        self.convert("rekey", cluster, *PLAIN_KEY)
        shutil.move(cluster.data / "pg_encryption", elsewhere / "keys")
        (cluster.data / "pg_encryption").symlink_to(elsewhere / "keys")
        names = ["key.bin", "pgseal.toml"]
        files = {name: (elsewhere / "keys" / name).read_bytes() for name in names}
        (old,) = (path for path in (elsewhere / "keys").glob("key.bin.*"))
        files[old.name], mode = old.read_bytes(), stat.S_IMODE(old.stat().st_mode)
        copy = self.cluster("copy")
        shutil.copytree(cluster.data, copy.data, symlinks=True)
        said = self.convert("unseal", cluster)
        self.assertFalse((elsewhere / "keys/conversion").exists())
        key = re.search("the old key file is (.*): keep it", said.stdout)[1]
        kept = Path(key).name.removeprefix("key.bin.")
        self.assertEqual({name: (cluster.data / f"{name}.{kept}").read_bytes() for name in names},
                         {name: files[name] for name in names})
        self.assertEqual((cluster.data / old.name).read_bytes(), files[old.name])
        self.assertEqual(stat.S_IMODE((cluster.data / old.name).stat().st_mode), mode)
        self.assertEqual([path.name for path in cluster.data.glob("*.new")], [])
        self.assertFalse((cluster.data / "pg_encryption").is_symlink())
        cluster.start().stop()
        copy.start().stop()  # taken before, with a link to the same keys: nothing shows it that it is in clear
        self.convert("unseal", copy)

    def test_a_file_system_without_second_names(self):
        """As FUSE's and SMB's: the old key file is copied."""
        cluster = self.cluster().init()
        for command in [["rekey", *PLAIN_KEY], ["unseal"]]:
            traced = ["strace", "-f", "-o", "/dev/null", "-e", "trace=?link,linkat", "-e", "inject=?link,linkat:error=EPERM"]
            run([*traced, PGSEAL, *command, "-D", cluster.data])
        self.assertEqual(len(list(cluster.data.glob("key.bin.*"))), 2)
        self.assertEqual(list(cluster.data.glob("*.new")), [])
        cluster.start().stop()


if __name__ == "__main__":
    main(__file__)
