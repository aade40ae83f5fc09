"""initdb that is refused, fails, or is killed: never a directory that starts unsealed, and advice that works."""

import os
import random
import signal
import subprocess
import time

from bad_input import BadInput, contents
from pgseal_test import base_environment, main, stage

SEALED = ("--data-encryption=256", "--no-key-wrap")


class Refused(BadInput):
    def initdb(self, data, *options, environment=None):
        return self.cluster(f"tools{time.monotonic_ns()}").run("initdb", "-D", data, *options, check=False,
                                                               environment=environment or {})

    def test_lengths_that_no_cipher_has(self):
        new = self.directory / "new"
        for length in ["0", "64", "127", "129", "512", "65664"]:
            with self.subTest(length):
                done = self.initdb(new, f"--data-encryption={length}", "--no-key-wrap")
                self.assert_refused(done, 2, r"128, 192 (or|and) 256")
                self.assertFalse(new.exists())

    def test_lengths_that_are_no_numbers(self):
        new = self.directory / "new"
        for length in ["", "aes", "-128", "256 ", "0x80", "256bit"]:
            with self.subTest(length):
                done = self.initdb(new, f"--data-encryption={length}", "--no-key-wrap")
                self.assert_refused(done, 2, r"is not a key length: use 128, 192 or 256")
                self.assertFalse(new.exists())

    def test_a_directory_that_is_not_empty(self):
        new = self.directory / "new"
        new.mkdir()
        (new / "letter").write_text("dear")
        before = contents(new)
        done = self.initdb(new, *SEALED)
        self.assert_ended(done, 1, r"initdb: error: directory \".*/new\" exists but is not empty", "hint: .*remove")
        self.assert_untouched(new, before)

    def test_a_sealed_cluster(self):
        sealed, canaries = self.filled()
        before = contents(sealed.data)
        done = self.initdb(sealed.data, *SEALED)
        self.assert_refused(done, 2, r"pg_encryption exists, and initdb never overwrites a key: choose an empty directory")
        self.assert_untouched(sealed.data, before)
        self.assert_ended(self.initdb(sealed.data), 1, r"initdb: error: directory \".*/data\" exists but is not empty")
        self.assert_untouched(sealed.data, before)
        self.assert_readable(sealed, canaries)

    def test_beside_sealed_directories_that_are_called_as_words_of_command_lines(self):
        """initdb starts a server with the word template1, and pg_ctl takes the word start: neither is a data directory here."""
        place = self.directory / "place"
        place.mkdir()
        for name in ["template1", "start", "postgres"]:
            self.cluster(f"of-{name}").run("initdb", "-D", place / name, "-U", "postgres", "-N", *SEALED)
        tools = self.cluster("tools")
        tools.run("initdb", "-D", "new", "-U", "postgres", "-N", *SEALED, cwd=place)
        options = f"-c listen_addresses='' -c unix_socket_directories={place}"
        tools.run("pg_ctl", "start", "-D", "new", "-w", "-l", "log", "-o", options, cwd=place)
        tools.run("pg_ctl", "stop", "-D", "new", "-w", cwd=place)

    def test_a_plain_cluster(self):
        plain = self.cluster("plain", sealed=False).init()
        before = contents(plain.data)
        self.assert_ended(self.initdb(plain.data, *SEALED), 1, r"exists but is not empty")
        self.assert_untouched(plain.data, before)

    def test_a_plain_cluster_that_is_only_synced(self):
        """15 takes --sync for --sync-only and ends with 0; by later versions' options it might mean two things."""
        plain = self.cluster("plain", sealed=False).init()
        before = contents(plain.data)
        for options in ["--sync", "--sync-only", "-S"]:
            with self.subTest(options):
                self.initdb(plain.data, *SEALED, options)
                self.assert_untouched(plain.data, before)
                default = {"PGSEAL_INITDB_OPTIONS": " ".join([*SEALED, options])}
                self.initdb(plain.data, environment=default)
                self.assert_untouched(plain.data, before)

    def test_a_sealed_cluster_whose_key_is_away(self):
        sealed, canaries = self.filled()
        key = (sealed.data / "pg_encryption").rename(self.directory / "away")
        before = contents(sealed.data)
        for options in [[], ["--sync"], ["-S"]]:
            with self.subTest(options):
                self.initdb(sealed.data, *SEALED, *options)
                self.assert_untouched(sealed.data, before)
        key.rename(sealed.data / "pg_encryption")
        self.assert_readable(sealed, canaries)

    def test_a_wrap_command_that_fails(self):
        self.assert_no_directory("exit 3", "cat %p", 6, r"the wrap command .*3")

    def test_a_wrap_command_that_is_missing(self):
        new = self.directory / "new"
        commands = ["--key-wrap-command=/nonexistent/wrap %p", "--key-unwrap-command=cat %p"]
        done = self.initdb(new, "--data-encryption", *commands)
        self.assert_ended(done, 6, r"\npgseal: the wrap command was not found: check its spelling and PATH\n\Z")
        self.assertFalse(new.exists())

    def test_a_wrap_command_that_writes_nothing(self):
        self.assert_no_directory("true", "cat %p", 6, r"the wrap command ")

    def test_an_unwrap_command_that_gives_another_key(self):
        self.assert_no_directory("cat >%p", "tr 0-9 9876543210 <%p", 7, r"cannot be unwrapped again")

    def assert_no_directory(self, wrap, unwrap, code, pattern):
        new = self.directory / "new"
        commands = [f"--key-wrap-command={wrap}", f"--key-unwrap-command={unwrap}"]
        self.assert_refused(self.initdb(new, "--data-encryption", *commands), code, pattern)
        self.assertFalse(new.exists())
        new.mkdir()
        self.assert_refused(self.initdb(new, "--data-encryption", *commands), code, pattern)
        self.assertEqual(contents(new), {})

    def test_an_initdb_that_fails_leaves_nothing(self):
        """The real initdb fails after it made the directory, cleans up, and its exit code is passed on."""
        new = self.directory / "new"
        done = self.initdb(new, *SEALED, "--locale=xx_XX")
        self.assert_ended(done, 1, "invalid locale name")
        self.assertFalse(new.exists() and any(new.iterdir()))


class Defaults(BadInput):
    def test_they_are_for_new_clusters_only(self):
        """PGSEAL_INITDB_OPTIONS says how to make clusters; initdb --sync-only of 15 would not know some of its options."""
        cluster = self.cluster()
        cluster.environment["PGSEAL_INITDB_OPTIONS"] = " ".join([*SEALED, "--no-data-checksums"])
        cluster.run("initdb", "-D", cluster.data, "-N")
        self.assertTrue((cluster.data / "pg_encryption/key.bin").exists())
        cluster.run("initdb", "--sync-only", cluster.data)
        self.assertIn("Data page checksum version:           0", cluster.run("pg_controldata", cluster.data).stdout)


class Words(BadInput):
    def test_a_value_of_its_own_word_is_no_directory(self):
        cluster = self.cluster()
        cluster.run("initdb", "--username", "postgres", "--text-search-config", "german", "--no-sync", *SEALED, cluster.data,
                    cwd=self.directory)
        self.assertTrue((cluster.data / "pg_encryption/key.bin").exists())
        self.assertEqual([path.name for path in self.directory.iterdir()], [cluster.home.name])


class Killed(BadInput):
    """kill -9 in the middle: of the wrapper alone, and of all. What is left never starts, sealed or not."""

    def test_twin_killed(self):
        self.rounds(lambda twin, children: [twin])

    def test_all_killed(self):
        self.rounds(lambda twin, children: [twin, *children])

    def test_children_killed(self):
        self.rounds(lambda twin, children: children)

    def rounds(self, victims):
        moments, took = random.Random(4), self.time_of_initdb()
        cut = 0
        for number in range(6):
            cluster = self.cluster(f"round{number}")
            with self.subTest(number):
                cut += self.kill(cluster, victims, moments.uniform(0.02, 1.0) * took)
                self.check_what_is_left(cluster)
        self.assertGreater(cut, 2, "the kills came too late")

    def command(self, cluster):
        return [cluster.bindir / "initdb", "-D", cluster.data, "-U", "postgres", "-N", *SEALED]

    def time_of_initdb(self):
        start = time.monotonic()
        cluster = self.cluster("timed")
        cluster.run("initdb", *self.command(cluster)[1:])
        return time.monotonic() - start

    def kill(self, cluster, victims, moment):
        """True if initdb had not finished."""
        initdb = subprocess.Popen(self.command(cluster), env=base_environment(), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(moment)
        children = stage.descendants(initdb.pid)
        for pid in victims(initdb.pid, children):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        ended = initdb.wait() != 0
        stage.end_descendants(patience=60)  # those too that were born meanwhile
        return ended

    def check_what_is_left(self, cluster):
        """A whole cluster, or one that no program opens; then a second initdb says what to do, and that works."""
        if (cluster.data / "pg_encryption/key.bin").exists():
            cluster.environment["PGHOST"] = str(cluster.home)
            cluster.start("-k", cluster.home, "-c", "listen_addresses=").stop()
            return
        if not cluster.data.exists() or not any(cluster.data.iterdir()):
            return
        done = self.postgres(cluster)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"incorrect checksum in control file|does not exist|not a valid data directory"
                                      r"|could not (open|find|access)|No such file|pgseal: ")
        done = cluster.run("initdb", "-D", cluster.data, *SEALED, check=False)
        self.assert_ended(done, 1, r"exists but is not empty", r"either remove or empty the directory")
        subprocess.run(["rm", "-r", cluster.data], check=True)
        cluster.init().start().stop()


if __name__ == "__main__":
    main(__file__)
