#!/usr/bin/env python3
"""Passphrases that are asked for, mistyped, short, or not given: what is said, and what to do is an option that the command has."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bad_input import STAGE, BadInput, run  # noqa: E402
from pgseal_test import TIME_LIMIT, base_environment, main  # noqa: E402
from waiting import eventually
from terminal import Terminal  # noqa: E402

PGSEAL = STAGE / "dist/bin/pgseal"
# A passphrase is tried more than a hundred times here.
QUICK = "--argon2-memory=64MiB"
FIRST, SECOND = "the first passphrase", "the second passphrase"
NO_TERMINAL = "pgseal: {}no passphrase is set, and there is no terminal to prompt on: {}\n"
VARIABLE = "set PGSEAL_PASSPHRASE_FILE"


class Passphrases(BadInput):
    """A cluster with two slots, each of a passphrase: one for every day, one for a safe."""

    def setUp(self):
        super().setUp()
        self.first, self.second, self.wrong = map(self.file, (FIRST, SECOND, "neither of the two"))
        self.sealed = self.cluster(key=("--key-passphrase-file", self.first, QUICK)).init()
        run([PGSEAL, "key", "wrap", "-D", self.sealed.data, "--passphrase-file", self.first, "--new-passphrase-file", self.second, QUICK])

    def file(self, words):
        path = self.directory / words.replace(" ", "-")
        path.write_text(words + "\n")
        path.chmod(0o600)
        return path

    def check_all(self, *files):
        """What it prints of the slots, its code and its sentence."""
        options = ["--passphrase-file", files[0]] + [part for file in files[1:] for part in ("--more-passphrase-file", file)]
        done = run([PGSEAL, "key", "check", "--all", "-D", self.sealed.data, *options], check=False)
        return done.stdout.splitlines()[1:], done.returncode, done.stderr

    def typed(self, command, answers):
        """Answers one question after another: the exit status, what was printed, and what the terminal showed."""
        terminal = Terminal()
        process = subprocess.Popen(command, env=base_environment(), text=True, stdout=subprocess.PIPE, **terminal.options())
        self.addCleanup(process.kill)
        terminal.opened()
        asked = []
        for question, answer in answers:
            asked.append(question.encode())
            eventually(lambda: terminal.shown.count(asked[-1]) >= asked.count(asked[-1]), lambda: terminal.shown, process=process)
            terminal.press(answer.encode())
        printed = process.communicate(timeout=TIME_LIMIT)[0]
        self.assertTrue(terminal.echoes())
        return process.returncode, printed, terminal.close()

    def test_every_slot_is_tried_with_the_passphrases_that_are_given(self):
        opens = ["slot 1 (passphrase): opens", "slot 2 (passphrase): opens"]
        for files in [(self.first, self.second), (self.second, self.first)]:
            self.assertEqual(self.check_all(*files), (opens, 0, ""))
        untried = "pgseal: the key opens, but slot 2 was not tried: give its passphrase with --more-passphrase-file\n"
        self.assertEqual(self.check_all(self.first), ([opens[0], "slot 2 (passphrase): not tried, no passphrase given"], 1, untried))
        lines, code, sentence = self.check_all(self.first, self.wrong)
        self.assertEqual((code, sentence), (1, "pgseal: the key opens, but not through slot 2: the line of each says why\n"))
        self.assertRegex(lines[1], r"^slot 2 \(passphrase\): wrong passphrase")

    def test_the_option_that_the_command_has(self):
        plain = self.cluster("plain", sealed=False).init()
        for command, cluster, advice in [
            (["key", "unwrap"], self.sealed, f"{VARIABLE}, or name a file with --passphrase-file"),
            (["unseal"], self.sealed, f"{VARIABLE}, or name a file with --passphrase-file"),
            (["rekey", "--key-passphrase"], self.sealed, f"{VARIABLE}, or name a file with --old-passphrase-file"),
            (["seal", "--key-passphrase"], plain, "name a file with --key-passphrase-file"),
        ]:
            with self.subTest(" ".join(command)):
                done = run([PGSEAL, *command, "-D", cluster.data], check=False, start_new_session=True)
                self.assertEqual(done.returncode, 6)
                self.assertTrue(done.stderr.endswith(f"no passphrase is set, and there is no terminal to prompt on: {advice}\n"), done.stderr)
        done = self.sealed.run("pg_controldata", "-D", self.sealed.data, check=False, start_new_session=True)
        copy = self.cluster("copy")
        key = self.sealed.data / "pg_encryption/key.bin"
        copied = copy.run("initdb", "-y", "-D", copy.data, "--copy-key-from", key, check=False, start_new_session=True)
        for refused in [done, copied]:
            self.assertEqual(refused.stderr.count(f"{VARIABLE} to the path of a file that holds it"), 2, refused.stderr)
        wrap = [PGSEAL, "key", "wrap", "--new-passphrase", "--passphrase-file", self.first, "-D", self.sealed.data]
        done = run(wrap, check=False, start_new_session=True)
        self.assertEqual(done.stderr, NO_TERMINAL.format("", "name a file with --new-passphrase-file"))

    def test_a_server_that_runs_already(self):
        """It is said before anybody is asked, in PostgreSQL's words; an old pid file keeps nobody out."""
        sealed, data = self.sealed, self.sealed.data
        sealed.environment["PGSEAL_PASSPHRASE_FILE"] = str(self.first)
        sealed.start()
        del sealed.environment["PGSEAL_PASSPHRASE_FILE"]
        pid = sealed.server.pid
        second = f'lock file "postmaster.pid" already exists: is another postmaster (PID {pid}) running in data directory "{data}"?\n'
        for arguments in [["postgres", "-D", data], ["postgres", "--single", "-D", data, "postgres"], ["pg_ctl", "-D", data, "start"]]:
            done = sealed.run(*arguments, check=False, start_new_session=True)
            self.assertEqual((done.returncode, done.stderr), (1, f"pgseal: {second}"))
        done = sealed.run("pg_resetwal", "-n", "-D", data, check=False, start_new_session=True)
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (1, 'pg_resetwal: error: lock file "postmaster.pid" exists'))
        sealed.kill9()
        done = sealed.run("pg_ctl", "-D", data, "start", check=False, start_new_session=True)
        self.assertEqual(done.returncode, 6, done.stderr)
        sealed.environment["PGSEAL_PASSPHRASE_FILE"] = str(self.first)
        sealed.start().stop()

    def test_what_initdb_refuses(self):
        """It is said before a passphrase is asked for."""
        new = self.cluster("new", key=("--key-passphrase",))
        done = new.run("initdb", "-D", new.data, "-y", "--key-passphrase", "--wal-segsize=3", check=False, start_new_session=True)
        self.assertEqual((done.returncode, new.data.exists()), (1, False))
        self.assertRegex(done.stderr, r"^initdb: error: argument of --wal-segsize must be a power of ")

    def test_a_person_may_mistype(self):
        """Three times for each slot; then the next is asked for."""
        command = [PGSEAL, "key", "check", "-D", self.sealed.data]
        for typed, code in [(["wrong", "wrong again", FIRST], 0), (["wrong"] * 3 + [SECOND], 0), (["wrong"] * 6, 7)]:
            done, printed, shown = self.typed(command, [("Passphrase for ", words + "\n") for words in typed])
            self.assertEqual(done, code, shown)
            self.assertEqual(shown.count("Passphrase for "), len(typed))
            self.assertEqual(shown.count(": try again."), {3: 2, 4: 2, 6: 4}[len(typed)])
            self.assertEqual("opens through" in printed, code == 0)

    def test_a_new_one_is_typed_twice(self):
        command = [PGSEAL, "key", "add", "-D", self.sealed.data, "--passphrase-file", self.first, "--new-passphrase", QUICK]
        first, again = "New passphrase: ", "New passphrase, again: "
        for typed, code, sentence in [
            ([(first, "a third passphrase\n"), (again, "a fourth passphrase\n")], 6, "the two passphrases differ: try again"),
            ([(first, "\x04")], 6, "no passphrase was typed: try again"),
            ([(first, "a third passphrase\n"), (again, "a third passphrase\n")], 0, ""),
        ]:
            with self.subTest(sentence):
                done, printed, shown = self.typed(command, typed)
                self.assertEqual(done, code, shown)
                self.assertIn(sentence, shown)
                self.assertNotIn("third", shown)
                self.assertEqual("slot 3 opens the key as well" in printed, code == 0, printed)

    def test_a_command_has_the_terminal_until_it_ends(self):
        """What asks after it, has it again."""
        command = self.directory / "command"
        command.write_text(f"echo {'a1' * 32}\n")
        run([PGSEAL, "key", "add", "-D", self.sealed.data, "--passphrase-file", self.first, "--new-key-command", f"sh {command}"])
        command.write_text("exec </dev/tty; printf 'PIN: ' >/dev/tty; read pin; echo $pin\n")
        check = [PGSEAL, "key", "check", "-D", self.sealed.data]
        done, printed, shown = self.typed(check, [("PIN: ", "a1" * 32 + "\n")])
        self.assertEqual((done, "opens through slot 3" in printed), (0, True), printed + shown)
        done, printed, shown = self.typed(check, [("PIN: ", "wrong\n"), ("Passphrase for ", FIRST + "\n")])
        self.assertEqual((done, "opens through slot 1" in printed), (0, True), printed + shown)

    def test_a_short_one_is_refused_where_it_is_made(self):
        short = self.file("a")
        command = [PGSEAL, "key", "add", "-D", self.sealed.data, "--passphrase-file", self.first, "--new-passphrase-file", short]
        refused = run(command, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (6, ""))
        self.assertEqual(refused.stderr, "pgseal: the new passphrase has fewer than 8 bytes and can be guessed: give a longer one, or --allow-weak\n")
        run(command + ["--allow-weak", "--argon2-memory", "64MiB"])
        self.assertEqual(run([PGSEAL, "key", "check", "-D", self.sealed.data, "--passphrase-file", short]).stderr, "")

    def test_audit_takes_a_directory_as_the_others_do(self):
        plain = run([PGSEAL, "audit", self.sealed.data]).stdout
        by_option = run([PGSEAL, "audit", "-D", self.sealed.data]).stdout
        self.assertEqual(plain.split(",")[:2], by_option.split(",")[:2])
        self.assertEqual(run([PGSEAL, "audit"], check=False).returncode, 2)


if __name__ == "__main__":
    main(__file__)
