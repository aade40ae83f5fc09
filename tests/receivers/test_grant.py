#!/usr/bin/env python3
"""`pgseal receiver grant`: tokens by the command line, and what a server says to them."""

import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import Receivers
from pgseal_test import PGSEAL, main, run


class Grant(Receivers):
    def grant(self, cluster, *options, check=True):
        return run([PGSEAL, "receiver", "grant", "-D", cluster.data, *options], check=check)

    def test_the_server_takes_what_is_granted(self):
        cluster = self.serve()
        token = self.grant(cluster, "--role", "repl", "--until", "1h").stdout.strip()
        expiry = int(token.split(".")[1])
        self.assertAlmostEqual(expiry, time.time() + 3600, delta=60)
        self.assertEqual(token, cluster.token(role="repl", expiry=expiry))
        self.assertEqual(self.command(cluster, "IDENTIFY_SYSTEM", token, PGUSER="repl").returncode, 0)
        self.assertRefused(self.command(cluster, "IDENTIFY_SYSTEM", token), "another role's")

    def test_until_a_moment(self):
        cluster = self.serve()
        moment = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=3)
        token = self.grant(cluster, "--role", "repl", "--until", moment.strftime("%Y-%m-%dT%H:%M:%SZ")).stdout
        self.assertEqual(token, cluster.token(role="repl", expiry=int(moment.timestamp())) + "\n")

    def test_a_token_ends(self):
        cluster = self.serve()
        token = self.grant(cluster, "--role", "postgres", "--until", "20s").stdout.strip()
        self.assertEqual(self.command(cluster, "IDENTIFY_SYSTEM", token).returncode, 0)
        time.sleep(max(0, int(token.split(".")[1]) + 1 - time.time()))
        self.assertRefused(self.command(cluster, "IDENTIFY_SYSTEM", token), "has expired")

    def test_what_cannot_be_granted(self):
        plain = self.serve(sealed=False)
        done = self.grant(plain, "--role", "repl", "--until", "1h", check=False)
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertIn("is not a sealed cluster", done.stderr)
        for options in [("--role", "repl"), ("--until", "1h"), ("--role", "", "--until", "1h"),
                        ("--role", "repl", "--until", "2001-01-01T00:00:00Z"), ("--role", "repl", "--until", "soon")]:
            done = self.grant(plain, *options, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)


if __name__ == "__main__":
    main(__file__)
