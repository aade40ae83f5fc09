#!/usr/bin/env python3
"""Backups of a key file and what brings a lost one back: copies, recovery sheets and shares, on real clusters."""

import json
import random
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import bech32m  # noqa: E402
from pgseal_test import PGSEAL, Case, base_environment, run  # noqa: E402
from small_disk import fill_up, main, needs_mounts, small_disk  # noqa: E402

FIRST, SAFE, NEW = "the first passphrase", "the one in the safe", "a new passphrase"
KILLS = 4


class Recovery(Case):
    def setUp(self):
        super().setUp()
        self.first, self.safe, self.new = map(self.secret, (FIRST, SAFE, NEW))
        self.place = self.directory / "usb"
        self.place.mkdir()
        self.log = self.directory / "keys.log"

    def secret(self, words):
        path = self.directory / words.replace(" ", "-")
        path.write_text(words + "\n")
        path.chmod(0o600)
        return path

    def made(self, name="main"):
        """A cluster with a passphrase, stopped."""
        cluster = self.cluster(name, key=("--key-passphrase-file", self.first, "--argon2-memory", "64MiB"))
        cluster.environment["PGSEAL_PASSPHRASE_FILE"] = str(self.first)
        return cluster.init()

    def key(self, verb, cluster, *options, secret=None, check=True):
        """`pgseal key VERB`, with one passphrase or none, and no terminal to ask at."""
        given = ["--passphrase-file", secret] if secret else []
        return run([PGSEAL, "key", verb, "-D", cluster.data, *given, *options], {"PGSEAL_AUDIT_LOG": str(self.log)}, check=check,
                   start_new_session=True)

    def refused(self, code, pattern, verb, cluster, *options, secret=None):
        """The command is refused in one sentence like this."""
        done = self.key(verb, cluster, *options, secret=secret, check=False)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Apgseal: [^\n]*{pattern}[^\n]*\n\Z")

    def anew(self, *given):
        """The options of a restore that makes a slot."""
        return [*given, "--new-passphrase-file", self.new, "--argon2-memory", "64MiB"]

    def opens(self, cluster, secret):
        """The server starts with this passphrase, and has its rows."""
        cluster.environment["PGSEAL_PASSPHRASE_FILE"] = str(secret)
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*) FROM pg_class WHERE relname = 'pg_class'"), "1")
        cluster.stop()

    def events(self):
        records = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [record for record in records if record["event"] in ("key copied", "sheet made", "key restored")]

    def names(self):
        """The files of the backup's directory."""
        return sorted(path.name for path in self.place.iterdir())

    def test_a_copy(self):
        cluster, copy = self.made(), self.place / "key.bin"
        key_bin = cluster.data / "pg_encryption/key.bin"
        self.key("add", cluster, "--new-passphrase-file", self.safe, "--argon2-memory", "64MiB", secret=self.first)
        self.refused(7, "no slot opens", "backup", cluster, copy, secret=self.new)
        self.refused(2, "is in the data directory", "backup", cluster, cluster.data / "copy", secret=self.first)
        self.assertEqual(self.names(), [])
        done = self.key("backup", cluster, copy, secret=self.safe)
        self.assertEqual(done.stdout, f"{copy} is a copy of key.bin\nslot 1 (passphrase) was not tried: --all tries every slot\n"
                                      "slot 2 (passphrase) opens the copy\n")
        self.assertEqual((copy.read_bytes(), copy.stat().st_mode & 0o777), (key_bin.read_bytes(), 0o600))
        slots = json.loads(self.key("list", cluster, "--json").stdout)["slots"]
        self.assertEqual([slot["slot"] for slot in slots if slot["proved"]], [1, 2], "adding proved the first, the copy the second")
        self.refused(2, "exists: give another name, or --force", "backup", cluster, copy, secret=self.first)
        all_of_them = ("--all", "--more-passphrase-file", self.safe)
        done = self.key("backup", cluster, copy, "--force", *all_of_them, secret=self.first)
        self.assertIn("slot 1 (passphrase) opens the copy\nslot 2 (passphrase) opens the copy\n", done.stdout)
        self.assertEqual(self.names(), ["key.bin"])

        self.refused(2, "is whole and holds this very key", "restore", cluster, "--from", copy, secret=self.first)
        cluster.start()
        self.refused(9, "a server runs here", "restore", cluster, "--from", copy, "--force", secret=self.first)
        stored = key_bin.read_bytes()
        key_bin.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
        self.refused(7, "no slot opens", "restore", cluster, "--from", copy, secret=self.new)
        self.key("restore", cluster, "--from", copy, secret=self.safe)
        self.assertEqual(key_bin.read_bytes(), stored, "under a running server")
        cluster.stop()
        shutil.rmtree(key_bin.parent)
        done = self.key("restore", cluster, "--from", copy, secret=self.first)
        self.assertRegex(done.stdout, rf"\A{key_bin} was made anew from {copy}: key [0-9a-f]{{32}} opens the cluster\n\Z")
        self.assertEqual((key_bin.stat().st_mode & 0o777, key_bin.parent.stat().st_mode & 0o777), (0o600, 0o700))
        self.assertEqual(self.key("check", cluster, secret=self.first).stderr, "")
        self.opens(cluster, self.safe)
        self.assertEqual([(event["event"], event.get("slot"), event.get("from")) for event in self.events()],
                         [("key copied", 2, None), ("key copied", 1, None), ("key restored", None, "copy"), ("key restored", None, "copy")])

    def test_a_key_in_clear_is_copied_only_if_that_is_said(self):
        cluster, copy = self.cluster().init(), self.place / "key.bin"
        self.refused(2, "slot 1 of key.bin holds the key unencrypted", "backup", cluster, copy)
        self.key("backup", cluster, copy, "--allow-clear")
        self.refused(2, "a copy brings its own slots", "restore", cluster, "--from", copy, "--new-plain")
        (cluster.data / "pg_encryption/key.bin").unlink()
        self.refused(3, "does not exist: give the path of a copy", "restore", cluster, "--from", self.place / "none")
        self.key("restore", cluster, "--from", copy)
        self.key("check", cluster)

    def test_a_sheet(self):
        cluster, sheet, code = self.made(), self.place / "sheet.txt", self.place / "code.svg"
        done = self.key("backup", cluster, "--sheet", sheet, "--qr", code, secret=self.first)
        self.assertEqual(done.stdout, f"slot 1 (passphrase) opens the key\n{sheet}\n{code}\nthese files are the key: print them, keep the "
                                      "paper in safe places, and remove the files\n")
        self.assertEqual([path.stat().st_mode & 0o777 for path in (sheet, code)], [0o600, 0o600])
        page = sheet.read_text()
        status = json.loads(run([PGSEAL, "status", "-D", cluster.data, "--json"]).stdout)
        for identity in (status["cluster_id"], status["key_id"]):
            self.assertIn(identity, page)
        self.assertLessEqual(max(map(len, page.splitlines())), 80)
        whole = bech32m.sheet(page)
        self.assertEqual((whole[:4], whole[13:29].hex()), (b"\x01\0\0\0", status["cluster_id"]))
        drawing = xml.etree.ElementTree.parse(code).getroot()
        self.assertEqual((drawing.tag, len(drawing)), ("{http://www.w3.org/2000/svg}svg", 2))

        shutil.rmtree(cluster.data / "pg_encryption")
        lines = [line for line in page.splitlines() if re.match(r"\d\d: ", line)]
        typed = self.place / "typed"

        def type_in(text, code, pattern):
            typed.write_text(text)
            self.refused(code, pattern, "restore", cluster, *self.anew("--sheet", typed))
            self.assertFalse((cluster.data / "pg_encryption").exists(), "nothing is written")

        wrong = lines[6][:-1] + ("q" if lines[6][-1] != "q" else "p")
        type_in("\n".join([*lines[:6], wrong, *lines[7:]]), 5, "typed is mistyped in line 07: compare that line")
        type_in("\n".join([*lines[:2], *lines[3:]]), 5, "typed lacks line 03")
        type_in("nothing", 5, "typed has no lines of a recovery sheet")
        self.refused(2, "say how the key shall be protected", "restore", cluster, "--sheet", sheet)
        spelled = [f"{at}:{line[3:].upper().replace(' ', '').replace('0', 'O')}" for at, line in enumerate(lines, 1)]
        typed.write_text("\n".join(reversed(spelled)))
        done = self.key("restore", cluster, *self.anew("--sheet", typed, "--label", "from the sheet"))
        self.assertRegex(done.stdout, r"opens the cluster\nslot 1 opens it\n\Z")
        listed = json.loads(self.key("list", cluster, "--verify", "--json", secret=self.new).stdout)["slots"]
        self.assertEqual([(slot["label"], slot["created"]["uid"] is not None) for slot in listed], [("from the sheet", True)])
        self.opens(cluster, self.new)

        other = self.made("other")
        before = (other.data / "pg_encryption/key.bin").read_bytes()
        self.refused(7, f"sheet.txt holds the key of cluster {status['cluster_id']}, which does not open", "restore", other,
                     *self.anew("--sheet", sheet, "--force"))
        self.assertEqual((other.data / "pg_encryption/key.bin").read_bytes(), before)
        plain = self.cluster("plain", sealed=False).init()
        self.refused(4, "is not a sealed cluster", "restore", plain, *self.anew("--sheet", sheet))
        self.refused(2, "is not a data directory", "restore", self.Elsewhere(self.place), *self.anew("--sheet", sheet))
        self.assertEqual([(event["event"], event.get("from")) for event in self.events()], [("sheet made", None), ("key restored", "sheet")])

    class Elsewhere:
        def __init__(self, data):
            self.data = data

    def test_shares(self):
        cluster, name = self.made(), self.place / "share.txt"
        for wrong in ("1/3", "4/3", "2/99", "two"):
            done = self.key("backup", cluster, "--sheet", name, "--shares", wrong, secret=self.first, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("shares are given as K/N", done.stderr)
        self.key("backup", cluster, "--sheet", name, "--shares", "2/3", "--qr", self.place / "share.svg", secret=self.first)
        self.assertEqual(self.names(), [f"share.{at}.{end}" for at in (1, 2, 3) for end in ("svg", "txt")])
        one, two, three = (self.place / f"share.{at}.txt" for at in (1, 2, 3))
        self.assertRegex(two.read_text(), r"\APGSEAL RECOVERY SHARE 2 OF 3\n\nAny 2 of the 3 shares are the key")
        self.key("backup", cluster, "--sheet", self.place / "later.txt", "--shares", "2/3", secret=self.first)
        later = self.place / "later.2.txt"
        whole = self.place / "whole.txt"
        self.key("backup", cluster, "--sheet", whole, secret=self.first)

        key_bin = cluster.data / "pg_encryption/key.bin"
        stored = key_bin.read_bytes()
        key_bin.write_bytes(stored[:12] + b"\2" + stored[13:])
        self.refused(5, "is of format 2, newer than this pgseal knows", "restore", cluster, *self.anew("--sheet", whole, "--force"))
        key_bin.write_bytes(stored[:-1])
        for code, pattern, given in [
            (2, "1 of 2 shares were given", ["--share", one]),
            (2, "share.1.txt is a share that was given before", ["--share", one, "--share", one]),
            (2, "later.2.txt is of another set of shares than [^ ]*share.1.txt", ["--share", one, "--share", later]),
            (2, "share.1.txt is one share of 3, and 2 of them give the key", ["--sheet", one]),
            (2, "whole.txt is a whole sheet and no share", ["--share", whole]),
        ]:
            self.refused(code, pattern, "restore", cluster, *self.anew(*given))
        for pair in [(one, two), (three, one)]:
            self.key("restore", cluster, *self.anew("--share", pair[0], "--share", pair[1], "--force"))
            self.key("check", cluster, secret=self.new)
        self.opens(cluster, self.new)

    def test_a_kill_loses_nothing(self):
        cluster, sheet = self.made(), self.place / "sheet.txt"
        self.key("backup", cluster, "--sheet", sheet, secret=self.first)
        directory = cluster.data / "pg_encryption"
        restore = [PGSEAL, "key", "restore", "-D", cluster.data, *self.anew("--sheet", sheet, "--force")]
        for _ in self.killed(restore):
            opened = [self.key("check", cluster, secret=secret, check=False).returncode for secret in (self.first, self.new)]
            self.assertIn(0, opened)
        again = self.place / "again"
        for _ in self.killed([PGSEAL, "key", "backup", "-D", cluster.data, "--sheet", again, "--passphrase-file", self.new]):
            again.unlink(missing_ok=True)
            self.assertEqual(self.names(), ["sheet.txt"], "a file without a name goes with its process")
        self.key("restore", cluster, *self.anew("--sheet", sheet, "--force"))
        self.assertEqual(sorted(path.name for path in directory.iterdir()), ["key.bin", "pgseal.toml", "slots.bin"])
        self.opens(cluster, self.new)

    def killed(self, command):
        """Kills the command at moments all over the time that it takes, and at none before the first."""
        before = time.monotonic()
        run(command)
        length = time.monotonic() - before
        yield
        for at in range(KILLS):
            running = subprocess.Popen(command, env=base_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(length * (at + random.random()) / KILLS)
            running.kill()
            running.wait()
            yield

    @needs_mounts
    def test_a_full_disk_changes_nothing(self):
        cluster, sheet = self.made(), self.place / "sheet.txt"
        self.key("backup", cluster, "--sheet", sheet, secret=self.first)
        directory = cluster.data / "pg_encryption"
        files = {path.name: path.read_bytes() for path in directory.iterdir()}
        small_disk(self, directory, 1)
        for name, text in files.items():
            (directory / name).write_bytes(text)
        fill_up(directory, leave=0)
        self.refused(3, "key.bin cannot be written", "restore", cluster, *self.anew("--sheet", sheet, "--force"))
        (directory / "filler").unlink()
        self.assertEqual({path.name: path.read_bytes() for path in directory.iterdir()}, files)
        disk = small_disk(self, self.directory / "disk", 1)
        fill_up(disk, leave=0)
        self.refused(3, "sheet.txt cannot be written", "backup", cluster, "--sheet", disk / "sheet.txt", secret=self.first)
        self.assertEqual([path.name for path in disk.iterdir()], ["filler"])


if __name__ == "__main__":
    main(__file__)
