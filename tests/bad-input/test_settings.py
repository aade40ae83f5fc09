"""Settings under which a cluster cannot be sealed are refused with advice that works; O_DIRECT is not one of them."""

import json
import struct
import sys
import unittest

from bad_input import BadInput, contents, sentences
from pgseal_test import PGSEAL, STAGE, main, major_version, run

CONTROL = STAGE / "tests/lib/control.py"
DATA_BLOCK, WAL_BLOCK = (224, 236) if major_version() >= 19 else (216, 224)
BLOCKS = {DATA_BLOCK: ("data", 4096), WAL_BLOCK: ("WAL", 16384)}
OTHER_BLOCKS = (r"this PostgreSQL has {} blocks of {} bytes, and only such of 8192 can be sealed: use one built with "
                r"--with-blocksize=8 and --with-wal-blocksize=8, and move data there by pg_dump .*")

OTHER_VERSION = (r"this is PostgreSQL {}, and pgseal encrypts clusters of 15, 16, 17, 18 and 19 only: use one of these, and move data "
                 r"there by pg_upgrade or pg_dump \(of a sealed cluster after pgseal unseal\)")


class Settings(BadInput):
    def assert_refused_setting(self, cluster, code, advice, *patterns, options=()):
        before = contents(cluster.data)
        done = self.postgres(cluster, *options)
        self.assert_ended(done, code, *patterns)
        self.assertEqual(len(sentences(done.stderr)), 1, done.stderr)
        self.assertRegex(sentences(done.stderr)[0], advice)
        after = contents(cluster.data)
        self.assertEqual({path for path in after if before.get(path) != after[path]} - {"postmaster.opts"}, set())

    def test_blocks_of_other_sizes_of_a_plain_cluster(self):
        """They cannot be sealed. What a server of that build does is not seen here: this one's has blocks of 8 kB."""
        for offset, (kind, size) in BLOCKS.items():
            cluster = self.cluster(f"plain{kind}", sealed=False).init()
            run([sys.executable, CONTROL, cluster.data / "global/pg_control", str(offset), str(size)])
            before = contents(cluster.data)
            done = run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap"], check=False)
            self.assert_refused(done, 1, OTHER_BLOCKS.format(kind, size))
            done = run([PGSEAL, "seal", "--check", "-D", cluster.data, "--no-key-wrap"], check=False)
            self.assertRegex(done.stdout, "(?m)^blocker: " + OTHER_BLOCKS.format(kind, size))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assert_untouched(cluster.data, before)

    def test_blocks_of_other_sizes_of_a_sealed_cluster(self):
        """One that got so past all that: nothing works on it but the way back."""
        cluster, canaries = self.filled()
        control = cluster.data / "global/pg_control"
        change = [PGSEAL, "exec", "-D", cluster.data, "--", sys.executable, CONTROL, control]
        for offset, (kind, size) in BLOCKS.items():
            run([*change, str(offset), str(size)])
            before, sentence = contents(cluster.data), OTHER_BLOCKS.format(kind, size)
            self.assert_refused(self.postgres(cluster), 8, sentence)
            self.assert_refused(run([PGSEAL, "verify", "-D", cluster.data], check=False), 8, sentence)
            done = run([PGSEAL, "rekey", "-D", cluster.data, "--no-key-wrap"], check=False)
            self.assert_refused(done, 1, sentence)
            doctor = run([PGSEAL, "doctor", "--json", "-D", cluster.data], check=False)
            wrong = [found for found in json.loads(doctor.stdout)["findings"] if found["verdict"] == "wrong"]
            self.assertEqual((doctor.returncode, [found["about"] for found in wrong]), (1, ["slots", "blocks"]))
            self.assertRegex(wrong[1]["text"], sentence)
            self.assert_untouched(cluster.data, before)
            run([*change, str(offset), "8192"])
        self.assert_readable(cluster, canaries)
        run([*change, str(DATA_BLOCK), "4096"])
        run([PGSEAL, "unseal", "-D", cluster.data])
        run([sys.executable, CONTROL, control, str(DATA_BLOCK), "8192"])
        self.assertFalse((cluster.data / "pg_encryption").exists())
        self.assertNotEqual(canaries.found(cluster.data), {})

    def test_another_version_of_a_plain_cluster(self):
        for version in ["13", "14", "20"]:
            cluster = self.cluster(f"plain{version}", sealed=False).init()
            (cluster.data / "PG_VERSION").write_text(version + "\n")
            before = contents(cluster.data)
            done = run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap"], check=False)
            self.assert_refused(done, 1, OTHER_VERSION.format(version))
            status = run([PGSEAL, "status", "-D", cluster.data], check=False)
            self.assertRegex(status.stdout, "(?m)^version: +" + OTHER_VERSION.format(version))
            self.assertEqual(status.returncode, 4, status.stderr)
            self.assert_untouched(cluster.data, before)

    def test_another_version_of_a_sealed_cluster(self):
        """Nothing works on it but the way back."""
        cluster, canaries = self.filled()
        version = (cluster.data / "PG_VERSION").read_text()
        (cluster.data / "PG_VERSION").write_text("14\n")
        before, sentence = contents(cluster.data), OTHER_VERSION.format(14)
        self.assert_refused(self.postgres(cluster), 8, sentence)
        self.assert_refused(run([PGSEAL, "rekey", "-D", cluster.data, "--no-key-wrap"], check=False), 1, sentence)
        status = run([PGSEAL, "status", "-D", cluster.data, "--check"], check=False)
        self.assertRegex(status.stdout, "(?m)^unlock test: +failed: " + sentence)
        self.assertEqual(status.returncode, 1, status.stderr)
        doctor = run([PGSEAL, "doctor", "--json", "-D", cluster.data], check=False)
        wrong = [found for found in json.loads(doctor.stdout)["findings"] if found["verdict"] == "wrong"]
        self.assertEqual((doctor.returncode, [found["about"] for found in wrong]), (1, ["version", "slots"]))
        self.assertRegex(wrong[0]["text"], sentence)
        self.assert_untouched(cluster.data, before)
        run([PGSEAL, "unseal", "-D", cluster.data])
        (cluster.data / "PG_VERSION").write_text(version)
        self.assertNotEqual(canaries.found(cluster.data), {})

    def test_a_pg_control_that_is_not_known(self):
        """What cannot be asked of it is not taken for granted."""
        cluster, canaries = self.filled()
        control = cluster.data / "global/pg_control"
        stored = control.read_bytes()
        error = r'could not open file ".*/global/pg_control": Operation not permitted'
        control.write_bytes(stored[:8] + struct.pack("<I", 2001) + stored[12:])
        advice = r"pg_control has version 2001, and pgseal encrypts clusters of PostgreSQL 15, 16, 17, 18 and 19 only: use one of these"
        self.assert_refused_setting(cluster, 2, advice, error)
        control.write_bytes(stored)
        self.assert_readable(cluster, canaries)

    def test_dynamic_shared_memory_in_files(self):
        cluster, canaries = self.filled()
        advice = r"pg_dynshmem/.* cannot be sealed: set dynamic_shared_memory_type to posix or sysv"
        setting = ["-c", "dynamic_shared_memory_type=mmap"]
        error = r'FATAL:  could not open shared memory segment ".*pg_dynshmem/.*"'
        self.assert_refused_setting(cluster, 1, advice, error, options=setting)
        self.assert_readable(cluster, canaries)

    def test_neither_checksums_nor_hint_bits_in_wal(self):
        cluster, canaries = self.filled()
        cluster.run("pg_checksums", "--disable", "-D", cluster.data)
        advice = r"a sealed cluster needs data checksums or wal_log_hints: set wal_log_hints = on in .*"
        for options in [[], ["-c", "wal_log_hints=off"]]:
            with self.subTest(options):
                error = r'could not open file ".*/global/pg_control": Operation not permitted'
                self.assert_refused_setting(cluster, 2, advice, error, options=options)
        cluster.configure("wal_log_hints = on")
        self.assert_readable(cluster, canaries)
        cluster.configure("wal_log_hints = off")
        cluster.run("pg_checksums", "--enable", "-D", cluster.data)
        self.assert_readable(cluster, canaries)

    @unittest.skipUnless(major_version() >= 16, "debug_io_direct came with PostgreSQL 16")
    def test_direct_io_works(self):
        cluster, canaries = self.filled(conf="debug_io_direct = 'data,wal,wal_init'\n")
        cluster.start()
        row = canaries["row"]
        cluster.psql(f"CREATE TABLE u AS SELECT i, '{row}' || i AS b FROM generate_series(1, 30000) i; CHECKPOINT")
        cluster.kill9()
        self.assertEqual(canaries.found(cluster.data), {})
        cluster.start()
        query = f"SELECT count(*) FROM u WHERE b = '{row}' || i"
        self.assertEqual(cluster.psql(query), "30000")
        cluster.stop()
        self.stop_sound(cluster.start())


if __name__ == "__main__":
    main(__file__)
