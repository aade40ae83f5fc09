#!/usr/bin/env python3
"""docs/operations/systemd.md is run as printed, and systemd runs its units: credentials, clear and encrypted, a unit of one's own,
a boot after the plug was pulled."""

import signal
from pathlib import Path

from clusters import CREATE, FILL, FILLED, INSTALL, MAIN, PASSPHRASE, SUM, WORD
from machine import as_postgres, blocks, main, server_logs
from manager import UNITS, Managed

DROP_IN, ENCRYPT = blocks("docs/operations/systemd.md")
OWN_UNIT, FILTER = blocks("docs/operations/systemd.md", "ini")
OWN = "/var/lib/postgresql/15/own"
PACKAGED = "postgresql@15-main.service"
CREDENTIAL = f"/run/credentials/{PACKAGED}/pgseal"
SECRET = Path("/etc/pgseal/passphrase")


class Units(Managed):
    def test_1_the_scripts_go_through_the_packaged_unit(self):
        for block in [INSTALL, PASSPHRASE, CREATE]:
            self.run_block(block)
        self.assertEqual(self.systemctl("is-active", PACKAGED), "active")
        self.psql(FILL)
        self.assert_runs_sealed(MAIN)

    def test_2_its_passphrase_in_a_credential(self):
        self.run_block(DROP_IN)
        self.assertFalse(self.may_read("postgres", SECRET))
        self.assertTrue(self.may_read("postgres", CREDENTIAL))
        self.assertFalse(self.may_read("nobody", CREDENTIAL))
        pid = self.shown(PACKAGED, "MainPID")
        self.assertEqual(self.status(MAIN)["server"], f"running sealed (process {pid})")
        self.systemctl("reload", PACKAGED)
        self.assertEqual(self.psql(SUM), FILLED)
        about = self.run_as_root(["cat", f"/proc/{pid}/limits", f"/proc/{pid}/environ"]).stdout
        self.assertRegex(about, r"Max core file size +0 +0 ")
        self.assertNotIn(SECRET.read_text().strip(), about)

    def test_3_without_systemd_there_is_no_credential(self):
        self.systemctl("stop", PACKAGED)
        self.assertEqual(self.found(WORD, MAIN), [])
        self.assertNotEqual(self.run_as_root(["test", "-e", CREDENTIAL], check=False).returncode, 0)
        by_hand = ["pg_ctlcluster", "--skip-systemctl-redirect", "15", "main", "start"]
        self.assertNotEqual(self.run_as_root(by_hand, check=False).returncode, 0)
        self.assertRegex(server_logs(), rf"pgseal: .*{CREDENTIAL}")

    def test_4_a_credential_that_is_encrypted(self):
        self.run_block(ENCRYPT)
        self.assertFalse(SECRET.exists())
        self.assertEqual(self.psql(SUM), FILLED)
        self.assert_runs_sealed(MAIN)
        stored = SECRET.with_suffix(".cred")
        good = stored.read_text()
        stored.write_text(good[:80] + ("A" if good[80] != "A" else "B") + good[81:])
        self.assertNotEqual(self.run_as_root(["systemctl", "restart", PACKAGED], check=False).returncode, 0)
        stored.write_text(good)
        self.systemctl("restart", PACKAGED)

    def test_5_a_unit_of_ones_own(self):
        self.run_as_root(["systemd-creds", "decrypt", "--name=pgseal", SECRET.with_suffix(".cred"), SECRET])
        self.run_as_root(["install", "-m", "400", "-o", "postgres", SECRET, f"{SECRET}.copy"])
        self.run_as_root(["pgseal", "bindir", "--pg", "/usr/lib/postgresql/15/stock", "--into", "/usr/local/lib/pgseal/15"])
        key = ["--data-encryption", f"--key-passphrase-file={SECRET}.copy"]
        self.run_as_root(as_postgres(["/usr/local/lib/pgseal/15/initdb", "-D", OWN, "-A", "trust", *key]))
        Path(f"{SECRET}.copy").unlink()
        with open(f"{OWN}/postgresql.conf", "a") as conf:
            conf.write("port = 5999\n")
        (UNITS / "sealed.service").write_text(OWN_UNIT)
        self.systemctl("daemon-reload")
        self.systemctl("start", "sealed")
        self.psql(FILL, 5999)
        pid = self.shown("sealed", "MainPID")
        self.assertEqual(self.status(OWN)["server"], f"running sealed (process {pid})")
        self.systemctl("reload", "sealed")
        self.systemctl("restart", "sealed")
        self.assertEqual(self.psql(SUM, 5999), FILLED)

    def test_6_a_filter_of_system_calls(self):
        """As printed the server runs; without the line for the keys' memory it is killed at once."""
        drop_in = UNITS / "sealed.service.d/filter.conf"
        drop_in.parent.mkdir()
        needed = "SystemCallFilter=memfd_secret\n"
        self.assertIn(needed, FILTER)
        drop_in.write_text(FILTER.replace(needed, ""))
        self.systemctl("daemon-reload")
        self.assertNotEqual(self.run_as_root(["systemctl", "restart", "sealed"], check=False).returncode, 0)
        self.assertEqual(self.shown("sealed", "ExecMainStatus"), str(int(signal.SIGSYS)))
        for filter_ in (FILTER.replace(needed, "SystemCallErrorNumber=EPERM\n"), FILTER):
            drop_in.write_text(filter_)
            self.systemctl("daemon-reload")
            self.systemctl("restart", "sealed")
            self.assert_runs_sealed(OWN)
            self.assertEqual(self.psql(SUM, 5999), FILLED)

    def test_7_after_the_plug_was_pulled_both_come_up_by_themselves(self):
        self.psql("CREATE TABLE late AS SELECT 42 AS answer")
        self.power_off()
        self.boot(wants=["postgresql.service", "sealed.service"])
        for unit in (PACKAGED, "sealed.service"):
            self.assertEqual(self.systemctl("is-active", unit), "active")
        self.assertEqual(self.psql("TABLE late"), "42")
        self.assertEqual((self.psql(SUM), self.psql(SUM, 5999)), (FILLED, FILLED))
        self.assertRegex(server_logs(), "database system was not properly shut down")

    def may_read(self, user, path):
        command = ["setpriv", f"--reuid={user}", "--clear-groups", "cat", path]
        return self.run_as_root(command, check=False).returncode == 0


if __name__ == "__main__":
    main(__file__)
