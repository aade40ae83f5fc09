#!/usr/bin/env python3
"""pgseal clone: a sealed standby in one command, or nothing that starts."""

import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pgseal_test import PGSEAL, TIME_LIMIT, base_environment, major_version, read_raw, run, stage  # noqa: E402
from waiting import eventually
from receiving import Receiving  # noqa: E402
from small_disk import MAY_MOUNT, main, needs_mounts, remount, small_disk  # noqa: E402
from terminal import run_on_terminal  # noqa: E402

NEW = ("--new-key", "--no-key-wrap")


class Clone(Receiving):
    """From sealed and plain primaries."""

    def command(self, primary, target, *options):
        """The command line of a clone."""
        return [PGSEAL, "clone", "--pg", primary.pg, "-h", primary.home, "-U", "postgres", "-D", target.data, *options]

    def clone(self, primary, target, *options, check=True, **environment):
        """Clones primary into target's data directory."""
        return run(self.command(primary, target, *options), environment, check=check)

    def assert_follows(self, primary, standby):
        """The standby has everything, and what comes later."""
        self.assertEqual(standby.psql("SELECT pg_is_in_recovery()"), "t")
        primary.psql(f"CREATE TABLE later AS SELECT '{self.canaries['later']}' AS w")
        self.catch_up(primary, standby)
        self.assert_rows(standby)
        self.assertEqual(standby.psql("SELECT count(*) FROM later"), "1")

    def test_a_sealed_primary(self):
        primary = self.primary(tablespaces=("one",))
        standby = self.copy("standby")
        done = self.clone(primary, standby, "-T", f"{primary.home / 'one'}={standby.home / 'one'}")
        self.assertEqual(done.stdout, f"{standby.data} is a sealed standby: start it with the wrapper of postgres or pg_ctl\n")
        self.assertEqual(standby.master_key(), primary.master_key())
        self.assert_sealed(standby.home)
        self.start(standby)
        self.assert_follows(primary, standby)
        self.assert_rows(standby, "t_one")

    def test_a_bar_on_a_terminal(self):
        """pg_basebackup's own; elsewhere there is none."""
        primary = self.primary()
        first, second = self.copy("first"), self.copy("second")
        status, printed, shown = run_on_terminal(self.command(primary, first))
        self.assertEqual((status, printed), (0, f"{first.data} is a sealed standby: start it with the wrapper of postgres or pg_ctl\n"), shown)
        self.assertRegex(shown, r"\d+/\d+ kB \(100%\), 1/1 tablespace")
        self.assertEqual(self.clone(primary, second).stderr, "")

    def test_a_plain_primary_then_promoted(self):
        primary = self.primary(sealed=False)
        standby = self.copy("standby")
        refused = self.clone(primary, standby, check=False)
        self.assertEqual((refused.returncode, standby.data.exists()), (4, False))
        self.assertIn("the server is not sealed, so there is no key to share: add --new-key", refused.stderr)
        self.clone(primary, standby, *NEW, "--data-encryption=192")
        self.start(standby)
        self.assert_follows(primary, standby)
        primary.stop()
        standby.psql("SELECT pg_promote()")
        standby.psql("INSERT INTO later VALUES ('x')")
        standby.stop()
        self.assert_sealed(standby.data)

    def test_another_key_without_downtime(self):
        primary = self.primary()
        standby = self.copy("standby")
        refused = self.clone(primary, standby, *NEW, check=False)
        self.assertEqual((refused.returncode, standby.data.exists()), (2, False))
        self.assertIn("pgseal receiver grant", refused.stderr)
        self.clone(primary, standby, *NEW, PGOPTIONS=f"-c pgseal.receiver={primary.token()}")
        self.assertNotEqual(standby.master_key(), primary.master_key())
        self.start(standby)
        self.assert_follows(primary, standby)
        primary.stop()
        standby.psql("SELECT pg_promote()")
        self.assert_rows(standby)
        standby.stop()
        self.assert_sealed(standby.data)

    def test_a_primary_whose_standby_could_not_start(self):
        """It is asked for what a sealed server needs before anything is copied."""
        primary = self.cluster("primary", sealed=False, conf="wal_level = replica")
        primary.init()
        primary.run("pg_checksums", "--disable", "-D", primary.data)
        primary.start()
        standby = self.copy("standby")
        sentence = ("pgseal: the server has neither data checksums nor wal_log_hints, and a sealed copy of it would not start: set "
                    "wal_log_hints = on in its postgresql.conf and restart it, or stop it and run pg_checksums --enable\n")
        refused = self.clone(primary, standby, *NEW, check=False)
        self.assertEqual((refused.returncode, refused.stderr, standby.data.exists()), (8, sentence, False))
        primary.configure("wal_log_hints = on")
        primary.stop()
        primary.start()
        self.clone(primary, standby, *NEW)
        self.start(standby)
        self.assertEqual(standby.psql("SELECT pg_is_in_recovery()"), "t")

    def refused(self, primary, standby, code, sentence, *options, **environment):
        """A clone that is refused before anything is made."""
        done = self.clone(primary, standby, *options, check=False, **environment)
        self.assertEqual((done.returncode, done.stderr, standby.data.exists()), (code, f"pgseal: {sentence}\n", False))

    def test_tablespaces_without_a_place(self):
        """Each is named before the server begins to send, and nobody is asked for a key."""
        primary, standby = self.primary(tablespaces=("one", "two")), self.copy("standby")
        one, two = primary.home / "one", primary.home / "two"
        advice = f"is not empty: give it another directory by `-T {one}=NEW`"
        self.refused(primary, standby, 2, f"{one}, where tablespace one would come to lie, {advice}", PGSEAL_EXPECT_KEY="0" * 32)
        own = standby.home / "own"
        own.mkdir()
        mapped = ["--", "-T", f"{two}={standby.home}/two", "-T", f"{one}={own}"]
        (own / "file").touch()
        self.refused(primary, standby, 2, f"{own}, where tablespace one would come to lie, {advice}", *mapped)
        (own / "file").unlink()
        typed = f"{primary.home}/tow"
        known = f"it has them in {one}, {two}"
        self.refused(primary, standby, 2, f"the server has no tablespace in {typed}, which -T names: {known}",
                     "--", "-T", f"{one}={own}", "-T", f"{typed}={standby.home}/two")
        shut = standby.home / "shut"
        shut.mkdir(mode=0o500)
        denied = f"{shut}/two cannot be used (Permission denied): check its owner and mode, and those of the directory above it; "
        denied += "a tablespace gets another directory by `-T OLD=NEW`"
        self.refused(primary, standby, 3, denied, "--", "-T", f"{one}={own}", "-T", f"{two}={shut}/two")
        done = self.clone(primary, standby, *mapped)
        self.assertEqual(done.stderr, "")
        self.start(standby)
        self.assert_rows(standby, "t_two")

    def test_a_directory_of_wal(self):
        """It is looked at before the server begins to send, and nobody is asked for a key."""
        primary, standby = self.primary(), self.copy("standby")
        wal = standby.home / "wal"
        wal.mkdir()
        (wal / "file").touch()
        refusal = f"{wal}, which --waldir names, is not empty: name another directory, or empty this one"
        self.refused(primary, standby, 2, refusal, "--", "--waldir", wal, PGSEAL_EXPECT_KEY="0" * 32)
        (wal / "file").unlink()
        self.clone(primary, standby, "--", "--waldir", wal)
        self.assertTrue((standby.data / "pg_wal").is_symlink())
        self.start(standby)
        self.assert_follows(primary, standby)

    def test_a_slot(self):
        """It is looked at before anybody is asked for a key; a created one is the standby's."""
        primary, standby = self.primary(), self.copy("standby")
        wrong = {"PGSEAL_EXPECT_KEY": "0" * 32}
        missing = "the server has no replication slot one: add --create-slot, or create it there"
        self.refused(primary, standby, 2, missing, "--slot=one", **wrong)
        rule = "is no name of a replication slot: use lower-case letters, digits and underscores, at most 63 of them"
        self.refused(primary, standby, 2, f"One {rule}", "--slot=One", **wrong)
        primary.psql("SELECT pg_create_physical_replication_slot('one')")
        exists = "the server has a replication slot one already: leave --create-slot out to use it, or choose another name"
        self.refused(primary, standby, 2, exists, "--slot=one", "--create-slot", **wrong)
        self.clone(primary, standby, "--slot", "one")
        self.assertIn("primary_slot_name = 'one'", (standby.data / "postgresql.auto.conf").read_text())
        self.start(standby)
        self.assert_follows(primary, standby)
        self.assertEqual(primary.psql("SELECT active FROM pg_replication_slots"), "t")
        second = self.copy("second")
        self.clone(primary, second, "-S", "two", "-C")
        self.assertEqual(primary.psql("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'two'"), "1")

    def test_a_slot_of_another_kind(self):
        primary, standby = self.primary(conf="wal_level = logical"), self.copy("standby")
        primary.psql("SELECT pg_create_logical_replication_slot('decoded', 'pgoutput')")
        said = "cannot use READ_REPLICATION_SLOT with a logical replication slot"
        self.refused(primary, standby, 2, f"the replication slot decoded cannot be used ({said}): name a physical one", "--slot=decoded")

    def test_a_slot_that_stays(self):
        """A copy that fails has created its slot already: the operator hears of it. Ctrl-C goes to all of its processes."""
        primary, standby = self.primary(), self.copy("standby")
        primary.psql("CREATE TABLE big AS SELECT repeat('x', 900) FROM generate_series(1, 20000); CHECKPOINT")
        command = self.command(primary, standby, "--slot=one", "--create-slot", "--max-rate=2M")
        clone = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=base_environment(), text=True,
                                 start_new_session=True)
        eventually(lambda: (standby.data / "base/1").exists(), process=clone)
        os.killpg(clone.pid, signal.SIGINT)
        said = clone.communicate(timeout=TIME_LIMIT)[1]
        self.assertEqual(clone.returncode, 128 + signal.SIGINT, said)
        self.assertIn("pgseal: the replication slot one stays on the server, which keeps WAL for it: run this again without --create-slot, "
                      "or drop it there by SELECT pg_drop_replication_slot('one')\n", said)
        run(["rm", "-rf", standby.data])
        self.clone(primary, standby, "--slot=one")

    def test_the_rate(self):
        """pg_basebackup keeps to it: 4 MiB at 2 MiB/s take more than a second."""
        primary = self.primary()
        primary.psql("CREATE TABLE big AS SELECT repeat('x', 900) FROM generate_series(1, 4500); CHECKPOINT")
        begun = time.monotonic()
        self.clone(primary, self.copy("slow"), "--max-rate=2M", "--progress")
        self.assertGreater(time.monotonic() - begun, 2)

    def test_a_bar_that_is_asked_for(self):
        primary = self.primary()
        shown = self.clone(primary, self.copy("standby"), "--progress").stderr
        self.assertRegex(shown, r"\d+/\d+ kB \(100%\), 1/1 tablespace")

    def test_settings_that_come_along(self):
        """No sealed server starts with them, so they are named before the copy begins."""
        primary = self.primary(sealed=False, conf="dynamic_shared_memory_type = mmap\n")
        standby = self.copy("standby")
        said = self.clone(primary, standby, *NEW).stderr
        self.assertEqual(said, "pgseal: the server runs with dynamic_shared_memory_type = mmap, with which no sealed server starts: "
                               "set it to posix or sysv in the standby's configuration before you start it\n")
        self.assertNotIn(standby.try_start("-k", str(standby.home)), (None, 0))
        standby.configure("dynamic_shared_memory_type = posix")
        self.start(standby)
        self.assert_follows(primary, standby)

    def test_the_servers_own_key_given_by_a_file(self):
        """One command makes standbys of a plain primary and of its sealed standbys, as a change from plain to sealed needs it."""
        primary = self.primary(sealed=False)
        first, second, third = map(self.copy, ("first", "second", "third"))
        self.clone(primary, first, *NEW)
        self.start(first)
        same = ("--new-key", "--copy-key-from", first.data / "pg_encryption/key.bin")
        self.clone(primary, second, *same)
        self.assertEqual(second.master_key(), first.master_key())
        self.clone(first, third, *same)
        self.assertEqual(third.master_key(), first.master_key())
        self.start(third)
        self.assert_follows(primary, third)
        other = self.cluster("other").init()
        fourth = self.copy("fourth")
        refused = self.clone(first, fourth, "--new-key", "--copy-key-from", other.data / "pg_encryption/key.bin", check=False)
        self.assertEqual((refused.returncode, fourth.data.exists()), (2, False))
        self.assertIn("a standby under a key of its own needs a token from its primary", refused.stderr)

    def test_as_patroni_calls_it(self):
        """Four options are Patroni's own; its connection string has no password, which is in a file."""
        primary, standby = self.primary(), self.copy("standby")
        string = f"dbname=postgres user=postgres host={primary.home}"
        added = [f"--{name}={value}" for name, value in
                 {"scope": "main", "role": "replica", "datadir": standby.data, "connstring": string}.items()]
        run([PGSEAL, "clone", "--pg", primary.pg, "--max-rate=100M", *added])
        self.start(standby)
        self.assert_follows(primary, standby)
        other = [option.replace("=replica", "=leader") for option in added]
        refused = run([PGSEAL, "clone", "--pg", primary.pg, *other], check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("invalid value 'leader' for '--role", refused.stderr)

    @unittest.skipUnless(MAY_MOUNT, "this kernel gives an ordinary user no namespace in which it is root")
    def test_as_root(self):
        """The standby is root's, and a server refuses to run as root."""
        primary, standby = self.primary(), self.copy("standby")
        done = run(["unshare", "--user", "--map-root-user", *self.command(primary, standby)])
        self.assertEqual(done.stdout, f"{standby.data} is a sealed standby, which root owns: give it and its tablespaces to the server's user "
                                      "with `chown -R`, then start it with the wrapper of postgres or pg_ctl\n")

    @needs_mounts
    def test_a_disk_that_is_too_small(self):
        primary, standby = self.primary(tablespaces=("one",)), self.copy("standby")
        one, disk = primary.home / "one", small_disk(self, standby.home / "disk", 1)
        primary.psql("CREATE TABLE big TABLESPACE one AS SELECT repeat('x', 900) FROM generate_series(1, 3000)")
        bytes_of_one = primary.psql("SELECT pg_tablespace_size('one')")
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        sentence = (f"the file system of {disk} has {free} bytes free, and the server's files there are of {bytes_of_one} bytes: make room, "
                    "map tablespaces elsewhere by `-T OLD=NEW`, or add --no-estimate-size after `--` to try it")
        mapped = ["--", "-T", f"{one}={disk}/one"]
        self.refused(primary, standby, 3, sentence, *mapped)
        tried = self.clone(primary, standby, *mapped, "--no-estimate-size", check=False)
        self.assertIn("No space left on device", tried.stderr)
        run(["rm", "-rf", disk / "one", standby.data])
        remount(disk, 64)
        self.clone(primary, standby, *mapped)

    def test_what_the_server_does_not_tell(self):
        """It is said, and the copy is made."""
        primary = self.primary(tablespaces=("one",))
        for statement in ["CREATE ROLE repl REPLICATION LOGIN", "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC"]:
            primary.psql(statement)
        first, second, third = map(self.copy, ("first", "second", "third"))
        said = self.by_role(primary, first)
        self.assertRegex(said, r'^pgseal: the server does not tell its tablespaces \(psql: error: .* permission denied for database "postgres"\): '
                               r"their directories and free space are not looked at\n$")
        primary.psql("GRANT CONNECT ON DATABASE postgres TO repl")
        self.assertEqual(self.by_role(primary, second), "pgseal: the role may not see the size of one, so there may be too little room: grant it pg_read_all_stats\n")
        primary.psql("GRANT pg_read_all_stats TO repl")
        self.assertEqual(self.by_role(primary, third), "")

    def by_role(self, primary, copy):
        """What a clone says that a role for replication makes."""
        return self.clone(primary, copy, "--", "-U", "repl", "-T", f"{primary.home / 'one'}={copy.home / 'one'}").stderr

    def test_programs_of_another_version(self):
        primary, standby = self.primary(), self.copy("standby")
        place = self.directory / "other"
        place.mkdir()
        for name in ("pg_basebackup", "psql"):
            (place / name).write_bytes((primary.pg / name).read_bytes())
            (place / name).chmod(0o755)
        text = (place / "pg_basebackup").read_bytes()
        version = str(major_version(primary.pg)).encode()
        self.assertIn(b"(PostgreSQL) " + version, text)
        (place / "pg_basebackup").write_bytes(text.replace(b"(PostgreSQL) " + version, b"(PostgreSQL) 14"))
        command = [place if part == primary.pg else part for part in self.command(primary, standby)]
        refused = run(command, check=False)
        self.assertEqual((refused.returncode, standby.data.exists()), (2, False))
        self.assertIn(f"{place}/pg_basebackup is of PostgreSQL 14, and the server is of {version.decode()}: ", refused.stderr)

    def test_programs_with_segments_of_another_size(self):
        """A standby that such a postgres cannot start is not copied. The stand-in answers as one that was built with --with-segsize=2."""
        primary, standby = self.primary(), self.copy("standby")
        own = int(run([primary.pg / "postgres", "-C", "segment_size", "-D", "/", "-c", "config_file=/dev/null"]).stdout) * 8192
        place = self.directory / "other"
        place.mkdir()
        for name in ("pg_basebackup", "psql"):
            shutil.copy(primary.pg / name, place / name)
        command = [place if part == primary.pg else part for part in self.command(primary, standby)]
        (place / "postgres").write_text(f"#!/bin/sh\n[ \"$1 $2\" = '-C segment_size' ] && echo {own // 8192 * 2}\n")
        (place / "postgres").chmod(0o755)
        refused = run(command, {"PGSEAL_EXPECT_KEY": "0" * 32}, check=False)
        self.assertEqual((refused.returncode, refused.stderr, standby.data.exists()),
                         (2, f"pgseal: relations of the server are in segments of {own} bytes, and {place}/postgres reads those of {2 * own}: "
                             "give the programs of the server's build with --pg\n", False))
        (place / "postgres").unlink()
        run(command)
        self.start(standby)
        self.assert_follows(primary, standby)

    def test_options_that_make_no_sense(self):
        primary = self.primary()
        standby = self.copy("standby")
        refused = self.clone(primary, standby, "--no-key-wrap", check=False)
        self.assertEqual((refused.returncode, standby.data.exists()), (2, False))
        self.assertIn("add --new-key", refused.stderr)

    def test_protections_of_a_new_key(self):
        """Those of initdb."""
        primary = self.primary(sealed=False)
        secret = self.directory / "secret"
        secret.write_text("short\n")
        new = ("--new-key", f"--key-passphrase-file={secret}", "--argon2-memory=65MiB")
        standby = self.copy("standby")
        refused = self.clone(primary, standby, *new, check=False)
        self.assertEqual((refused.returncode, standby.data.exists()), (6, False), refused.stderr)
        self.assertIn("can be guessed: give a longer one, or --allow-weak", refused.stderr)
        self.clone(primary, standby, *new, "--allow-weak")
        self.assertIn((65 * 1024).to_bytes(4, "little"), read_raw(standby.data / "pg_encryption/key.bin"))
        run([PGSEAL, "key", "check", "-D", standby.data, "--passphrase-file", secret])

    def test_a_key_command_and_the_key_of_another_cluster(self):
        primary = self.primary(sealed=False)
        first, second = self.copy("first"), self.copy("second")
        self.clone(primary, first, "--new-key", "-K", "printf %064d 7")
        run([PGSEAL, "key", "check", "-D", first.data, "-K", "printf %064d 7"])
        other = self.cluster("other").init()
        self.clone(primary, second, "--new-key", "--copy-key-from", other.data / "pg_encryption/key.bin")
        self.assertEqual(second.master_key(), other.master_key())

    def test_nothing_but_a_whole_standby(self):
        """What pg_basebackup would not lay out in the directory would come in clear."""
        primary = self.primary()
        standby, elsewhere = self.copy("standby"), self.directory / "elsewhere"
        for options in [["-Ft"], ["--form=tar"], ["-X", "none", "-D", "-", "-Ft"], ["-D", elsewhere], ["-D", "-"], ["-tserver:/tmp/x"],
                        [f"--target=server:{elsewhere}"], ["--incremental", elsewhere], ["-i", elsewhere]]:
            with self.subTest(options=options):
                refused = self.clone(primary, standby, "--", *options, check=False)
                self.assertEqual((refused.returncode, refused.stdout), (2, ""))
                self.assertIn(f"makes a whole standby in {standby.data}", refused.stderr)
                self.assertFalse(standby.data.exists() or elsewhere.exists())

    def test_by_a_program_of_postgresqls_own(self):
        """The library would not come through a wrapper, and a plain server's copy would be in clear."""
        standby = self.copy("standby")
        for primary in [self.primary(), self.cluster("plain", sealed=False).init().start()]:
            for place in [standby.bindir, self.directory]:
                command = ["clone", "--pg", place, "-h", primary.home, "-U", "postgres", "-D", standby.data, *NEW]
                refused = run([PGSEAL, *command], check=False)
                self.assertEqual((refused.returncode, standby.data.exists()), (2, False))
                self.assertIn(f"{place}/pg_basebackup is missing, or is a wrapper or script", refused.stderr)

    def test_interrupted(self):
        self.interrupted(self.primary(), [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])

    def test_interrupted_while_it_copies_a_plain_primary(self):
        self.interrupted(self.primary(sealed=False), [signal.SIGKILL], *NEW)

    def interrupted(self, primary, ends, *options):
        """What is left starts neither with the wrapper nor with the stock server, and nothing of it is in clear."""
        primary.psql("CREATE TABLE big AS SELECT i, repeat('x', 900) FROM generate_series(1, 20000) i; CHECKPOINT")
        for number, end in enumerate(ends):
            with self.subTest(end=end):
                standby = self.copy(f"standby{number}")
                self.interrupt(primary, standby, end, *options)
                again = self.clone(primary, standby, *options, check=False)
                self.assertEqual(again.returncode, 2)
                self.assertIn("is not empty: if it is what an interrupted copy left, remove it", again.stderr)
                for bindir in (standby.pg, standby.bindir):
                    standby.bindir = bindir
                    self.assertNotIn(standby.try_start("-k", str(standby.home)), (None, 0))
                self.assert_sealed(standby.data)
                run(["rm", "-rf", standby.data])
        self.clone(primary, standby, *options)
        self.start(standby)
        self.assert_follows(primary, standby)

    def interrupt(self, primary, standby, end, *options):
        """Ends a slow clone by a signal to pgseal when it has begun to write, and waits until all of it has ended."""
        clone = subprocess.Popen(self.command(primary, standby, *options, "--", "--max-rate=2M"), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, env=base_environment(), start_new_session=True)
        eventually(lambda: (standby.data / "base/1").exists(), process=clone)
        for process in stage.descendants(clone.pid):
            self.assertNotIn(b"v1.", read_raw(f"/proc/{process}/environ"))
        if end == signal.SIGKILL:
            os.killpg(clone.pid, end)
        else:
            clone.send_signal(end)
        self.assertEqual(abs(clone.wait(TIME_LIMIT)), 128 + end if end != signal.SIGKILL else end)


if __name__ == "__main__":
    main(__file__)
