#!/usr/bin/env python3
"""`pgseal receiver list|revoke`: what a server says to a revoked token, and to a list that it cannot use."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import Receivers
from pgseal_test import PGSEAL, main, run


class Revoke(Receivers):
    def receiver(self, cluster, verb, *options, check=True):
        return run([PGSEAL, "receiver", verb, "-D", cluster.data, *options], check=check)

    def grant(self, cluster, role="repl", until="1h"):
        return self.receiver(cluster, "grant", "--role", role, "--until", until).stdout.strip()

    def tokens(self, cluster):
        return json.loads(self.receiver(cluster, "list", "--json").stdout)["tokens"]

    def taken(self, cluster, token, role="repl"):
        done = self.command(cluster, "IDENTIFY_SYSTEM", token, PGUSER=role)
        self.assertEqual(done.returncode, 0, done.stderr)

    def refused(self, cluster, token, reason, role="repl"):
        self.assertRefused(self.command(cluster, "IDENTIFY_SYSTEM", token, PGUSER=role), reason)

    def test_a_revocation_holds_at_the_next_connection(self):
        cluster = self.serve()
        first, second = self.grant(cluster), self.grant(cluster, until="2h")
        listed = self.tokens(cluster)
        self.assertEqual([(token["role"], token["state"]) for token in listed], [("repl", "good")] * 2)
        self.taken(cluster, first)
        done = self.receiver(cluster, "revoke", "--id", listed[0]["id"])
        self.assertEqual(done.stdout, f"token {listed[0]['id']} is revoked\n")
        self.refused(cluster, first, f"the receiver token {listed[0]['id']} is revoked")
        self.taken(cluster, second)
        self.assertEqual([token["state"] for token in self.tokens(cluster)], ["revoked", "good"])
        self.receiver(cluster, "revoke", "--role", "repl")
        self.refused(cluster, second, "is revoked")
        # A key holder makes its own tokens, which no list names. One of the same role and second is the same token.
        self.taken(cluster, cluster.token(role="repl", expiry=int(time.time()) + 1800))

    def test_a_session_with_a_revoked_token_reads_what_is_stored(self):
        cluster = self.serve()
        token = self.grant(cluster, "postgres")
        self.receiver(cluster, "revoke", "--role", "postgres")
        said = cluster.psql("SELECT 1; SELECT no_such_column", receiver=token, error="is revoked")
        self.assertIn("The session goes on without it", said)

    def test_a_token_that_no_list_names(self):
        cluster = self.serve()
        token = cluster.token(role="repl", expiry=4000000000)
        file = self.directory / "token"
        file.write_text(token + "\n")
        self.receiver(cluster, "revoke", "--token-file", file)
        self.refused(cluster, token, "is revoked")
        for options, code, reason in [(("--id", "0123456789abcdef"), 2, "no token 0123456789abcdef"), (("--id", "xyz"), 2, "16 hexadecimal"),
                                      (("--role", "nobody"), 2, "no token of role nobody"), ((), 2, "required")]:
            done = self.receiver(cluster, "revoke", *options, check=False)
            self.assertEqual((done.returncode, done.stdout), (code, ""), options)
            self.assertIn(reason, done.stderr)
        file.write_text(token[:-1] + ("0" if token[-1] != "0" else "1"))
        self.assertEqual(self.receiver(cluster, "revoke", "--token-file", file, check=False).returncode, 2)

    def test_a_list_that_cannot_be_used_admits_nobody(self):
        cluster = self.serve()
        token = self.grant(cluster)
        path = cluster.data / "pg_encryption/receivers.bin"
        good = path.read_bytes()
        self.taken(cluster, token)
        for bad, reason in [(good[:-1], "is damaged|was altered"), (b"", "is damaged"), (good[:40] + bytes([good[40] ^ 1]) + good[41:], "damaged|altered"),
                            (good[:12] + bytes([good[12] ^ 1]) + good[13:], "was altered")]:
            path.write_bytes(bad)
            self.refused(cluster, token, "no token counts")
            self.refused(cluster, cluster.token(role="repl"), "no token counts")
            for verb in [("list",), ("grant", "--role", "repl", "--until", "3h"), ("revoke", "--role", "repl")]:
                done = self.receiver(cluster, *verb, check=False)
                self.assertEqual((done.returncode, done.stdout), (5, ""), verb)
                self.assertRegex(done.stderr, reason)
        path.unlink()
        path.mkdir()
        self.refused(cluster, token, "cannot be read, so no token counts")
        path.rmdir()
        self.taken(cluster, token)

    def test_a_list_of_another_key_is_none(self):
        cluster = self.serve()
        other = self.cluster("other").init()
        self.receiver(other, "grant", "--role", "repl", "--until", "1h")
        token = self.grant(cluster)
        (cluster.data / "pg_encryption/receivers.bin").write_bytes((other.data / "pg_encryption/receivers.bin").read_bytes())
        self.taken(cluster, token)
        self.assertEqual(self.tokens(cluster), [])


if __name__ == "__main__":
    main(__file__)
