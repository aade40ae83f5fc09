#!/usr/bin/python3
"""The packages with glibc 2.31, older than the machine that built them: PostgreSQL 15 as npm has it, in a Debian 11 of its own."""

import shutil
import secrets
import subprocess
import unittest

from chroot import CACHE, System
from install import package

POSTGRESQL = CACHE / "builds/15.10.0-beta.15"
WORD = "q" + secrets.token_hex(8)
AS_USER = "runuser -u pg --"
SEALED = "/srv/sealed/bin"


class OldGlibc(System):
    release = "bullseye"

    def test_1_the_programs_start(self):
        self.assertIn("2.31", self.out("ldd --version | head -n 1"))
        self.run_there(f"dpkg -i {self.put(*map(package, ('pgseal', 'pgseal-kms', 'pgseal-client', 'pgseal-evaluator')))}")
        for program in ("pgseal --version", "pgseal proxy --version", "pgseal-evaluator --version", "pgseal bench --version",
                        "/usr/lib/pgseal/current/bin/pgseal-kms --version"):
            self.assertRegex(self.out(program), r"^pgseal\S* \d")

    def test_2_a_server_from_its_making_through_a_crash(self):
        shutil.copytree(POSTGRESQL, self.root / "srv/plain", symlinks=True)
        self.run_there(f"""
            useradd --create-home pg
            mkdir /srv/sealed /srv/data && ln -s /srv/plain/share /srv/plain/lib /srv/sealed/ && chown pg /srv/data
            pgseal bindir --pg /srv/plain/bin --into {SEALED}
            {AS_USER} {SEALED}/initdb -D /srv/data/main --data-encryption --no-key-wrap
            echo "listen_addresses = ''" >> /srv/data/main/postgresql.conf
        """)
        self.single(f"CREATE TABLE t AS SELECT i, '{WORD}' || i AS word FROM generate_series(1, 20000) i;\nCHECKPOINT;")
        self.run_there(f"{AS_USER} {SEALED}/pg_ctl -D /srv/data/main -o '-k /tmp' -l /srv/data/log -w start || (cat /srv/data/log >&2; exit 1)")
        maps = self.out("cat /proc/$(head -n 1 /srv/data/main/postmaster.pid)/maps")
        self.assertIn("/usr/lib/pgseal/", maps)
        self.run_there("pkill -9 postgres; sleep 1; rm -f /srv/data/main/postmaster.pid")
        self.assertIn('"20000"', self.single("SELECT count(*) FROM t;"))
        self.run_there(f"{AS_USER} pgseal verify -D /srv/data/main --no-progress")
        self.run_there(f"{AS_USER} pgseal doctor -D /srv/data/main", check=False)
        found = subprocess.run(["grep", "-rlaF", "--", WORD, self.root / "srv/data"], capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "")

    def single(self, sql):
        """What the server says to SQL without connections: the build has no psql."""
        return self.out(f"cd /srv/data && {AS_USER} {SEALED}/postgres --single -j -D /srv/data/main postgres <<'END'\n{sql}\nEND")


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
