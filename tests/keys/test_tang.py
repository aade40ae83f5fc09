#!/usr/bin/python3
"""A key that opens only where a Tang server is in reach: Clevis as the commands of a slot, as docs/keys/tang.md has it."""

import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from life import Life, Slot  # noqa: E402
from pgseal_test import STAGE, main  # noqa: E402
from provider import PGSEAL, run  # noqa: E402
from service import Service  # noqa: E402

TANG = "/usr/libexec/tangd"
PAGE = STAGE / "docs/keys/tang.md"


class Tang(Life):
    called = "Tang"

    def setUp(self):
        super().setUp()
        self.keys = self.directory / "tang"
        self.keys.mkdir()
        run(["/usr/libexec/tangd-keygen", self.keys])
        self.serve()
        self.thumbprint = run(["tang-show-keys", str(self.server.port)]).stdout.strip()
        self.url = f"http://127.0.0.1:{self.server.port}"

    def serve(self):
        command = ["socat", "TCP-LISTEN:{},bind=127.0.0.1,reuseaddr,fork", f"EXEC:{TANG} {self.keys}"]
        self.server = Service(command, self.directory / "tang.log")
        self.addCleanup(self.server.close)

    def commands(self):
        """The page's, with this server's address and thumbprint."""
        block = re.search(r"```\n(pgseal key wrap .*?)```", PAGE.read_text(), re.DOTALL)[1]
        words = shlex.split(block)
        wrap, unwrap = (words[words.index(f"--new-{name}-command") + 1] for name in ["wrap", "unwrap"])
        return wrap.replace("http://tang.example", self.url).replace("THUMBPRINT", self.thumbprint), unwrap

    def test_a_life(self):
        wrap, unwrap = self.commands()
        slot = Slot([f"--key-wrap-command={wrap}", f"--key-unwrap-command={unwrap}"], [f"--key-unwrap-command={unwrap}"],
                    ["--new-wrap-command", wrap, "--new-unwrap-command", unwrap], {"PGSEAL_KEY_UNWRAP_COMMAND": unwrap})
        cluster, passphrase = self.a_life(slot)
        self.assertNotIn(b"pgsealk1", (cluster.data / "pg_encryption/key.bin").read_bytes())
        self.server.close()
        done = run([PGSEAL, "key", "check", "-D", cluster.data, "--key-unwrap-command", unwrap], check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "unwrap command")
        self.second_slot(cluster, passphrase)


if __name__ == "__main__":
    main(__file__, ["docs/keys"])
