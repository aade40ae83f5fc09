"""`pg_encryption/pgseal.toml`, damaged: said by every command that looks at the key, and written anew by those that change it.

It is needed the day that somebody rotates by hand, which makes key.bin raw. Nothing else reads it.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, main, run

ANEW = "so a key.bin that is rotated by hand would not open: `pgseal key rotate` or `pgseal key wrap` writes it anew"


def overwrite(path, at, content):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


class HeaderCopy(Case):
    def setUp(self):
        super().setUp()
        self.sealed = self.cluster().init()
        self.copy = self.sealed.data / "pg_encryption/pgseal.toml"

    def damages(self):
        """What becomes of the file: (name, what it is then)."""
        good = self.copy.read_bytes()
        digits = good.index(b'"') + 1
        for name, damage in [
            ("a flipped bit", lambda: overwrite(self.copy, digits + 40, bytes([good[digits + 40] ^ 1]))),
            ("16 bytes of zeros", lambda: overwrite(self.copy, 112, bytes(16))),
            ("512 bytes of zeros", lambda: overwrite(self.copy, 0, bytes(512))),
            ("4096 bytes of noise", lambda: overwrite(self.copy, 0, bytes(i * i % 251 for i in range(4096)))),
            ("emptied", lambda: self.copy.write_bytes(b"")),
            ("deleted", self.copy.unlink),
        ]:
            damage()
            yield name, "is missing" if name == "deleted" else None
            self.copy.write_bytes(good)

    def ask(self, code, *command):
        done = run([PGSEAL, *command, "-D", self.sealed.data], check=False)
        self.assertEqual(done.returncode, code, (command, done.stdout, done.stderr))
        return done

    def said(self):
        """What each command says about the file: None if nothing."""
        verify = json.loads(self.ask_any("verify", "--json").stdout)["bad"]
        found = {bad["file"]: (bad["reason"], bad["remedy"]) for bad in verify}
        doctor = json.loads(self.ask_any("doctor", "--json").stdout)["findings"]
        check = self.ask_any("key", "check")
        return {
            "verify": found.get("pg_encryption/pgseal.toml"),
            "doctor": next((f["verdict"], f["text"]) for f in doctor if f["about"] == "pgseal.toml"),
            "status": json.loads(self.ask(0, "status", "--json").stdout)["pgseal_toml"],
            "key check": (check.returncode, check.stderr),
        }

    def ask_any(self, *command):
        return run([PGSEAL, *command, "-D", self.sealed.data], check=False)

    def test_every_command_that_looks_at_the_key_says_it(self):
        good = {"verify": None, "doctor": ("good", "says the key's header"), "status": None, "key check": (0, "")}
        self.assertEqual(self.said(), good)
        for name, what in self.damages():
            with self.subTest(name):
                said = self.said()
                text = said["status"]
                self.assertTrue(text and text.endswith(ANEW), text)
                self.assertTrue(what is None or text.startswith(what), text)
                self.assertEqual(said, {
                    "verify": (text, "as_said"), "doctor": ("wrong", text), "status": text,
                    "key check": (1, f"pgseal: the key opens, but pg_encryption/pgseal.toml {text}\n"),
                })
                self.assertIn("key ", self.ask(1, "key", "check").stdout)
        self.assertEqual(self.said(), good)

    def test_a_server_starts_all_the_same(self):
        self.copy.unlink()
        self.sealed.start().stop()

    def test_a_change_of_the_key_writes_it_anew_and_a_rotation_by_hand_opens(self):
        for name, _ in self.damages():
            with self.subTest(name):
                self.ask(0, "key", "rotate", "--new-plain")
                self.ask(0, "key", "check")
        self.copy.unlink()
        self.ask(0, "key", "wrap", "--new-plain")
        key_bin = self.sealed.data / "pg_encryption/key.bin"
        key_bin.write_bytes(run([PGSEAL, "key", "unwrap", "-D", self.sealed.data]).stdout.strip()[::-1].encode())
        self.ask(0, "key", "check", "--key-unwrap-command", 'rev "%p"')
        self.ask(0, "status", "--check", "--key-unwrap-command", 'rev "%p"')


if __name__ == "__main__":
    main(__file__)
