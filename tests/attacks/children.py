#!/usr/bin/env python3
"""Programs that the server starts: not PostgreSQL's own, they see what is stored, and get no key."""

import base64
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import Case, main


class Children(Case):
    def setUp(self):
        super().setUp()
        self.sealed = self.cluster().init().start()
        self.sealed.psql("CREATE TABLE said (line text); CREATE TABLE t AS SELECT 'clear'; CHECKPOINT")
        self.file = self.sealed.data / self.sealed.psql("SELECT pg_relation_filepath('t')")

    def say(self, command):
        """What a shell command, run by the server, prints."""
        self.sealed.psql(f"TRUNCATE said; COPY said FROM PROGRAM $${command}$$")
        return self.sealed.psql("SELECT line FROM said").splitlines()

    def test_they_read_what_is_stored(self):
        self.assertEqual(base64.b64decode(self.say(f"base64 -w0 {self.file}")[0]), self.file.read_bytes())

    def test_they_write_what_they_are_given(self):
        copy = self.sealed.home / "copy"
        self.say(f"cp {self.file} {copy}; echo done")
        self.assertEqual(copy.read_bytes(), self.file.read_bytes())

    def test_they_inherit_no_key(self):
        self.assertEqual(self.say("ls -l /proc/self/fd | grep -c memfd || true"), ["0"])
        self.assertEqual(self.say("env | grep -c PGSEAL_KEYS_FD= || true"), ["0"])

    def test_postgresqls_own_unlock_by_themselves(self):
        program = self.sealed.pg / "pg_controldata"
        shown = self.say(f"{program} {self.sealed.data} | grep identifier")
        identifier = self.sealed.psql("SELECT system_identifier FROM pg_control_system()")
        self.assertEqual(shown[0].split()[-1], identifier)
        self.assertEqual(self.say(f"{program} {self.sealed.data} | grep -c in.production"), ["1"])


if __name__ == "__main__":
    main(__file__)
