#!/usr/bin/env python3
"""`pgseal enable` where systemd runs the server: the packaged unit of a Debian cluster, and a unit of the kind that EL has, as
docs/operations/enable.md says."""

import subprocess
from pathlib import Path

from enable import FILL, FILLED, INSTALL, SUM, WORD
from machine import ROOT, as_postgres, blocks, main
from manager import UNITS, Managed

CHECK, ENABLE, _, DISABLE, UNIT_ENABLE, UNIT_DISABLE = blocks("docs/operations/enable.md")
MAIN = "/var/lib/postgresql/15/main"
PACKAGED = "postgresql@15-main.service"
EL_DATA, EL_PORT = "/var/lib/pgsql/15/data", 5999
EL_UNIT = f"""[Unit]
Description=PostgreSQL 15 database server

[Service]
Type=notify
User=postgres
Group=postgres
Environment=PGDATA={EL_DATA}/
ExecStart=/usr/lib/postgresql/15/bin/postgres -D ${{PGDATA}}
ExecReload=/bin/kill -HUP $MAINPID
KillMode=mixed
KillSignal=SIGINT
TimeoutSec=0
"""
WRAPPERS = Path("/usr/local/lib/pgseal/postgresql-15")
DROP_IN = UNITS / "postgresql-15.service.d/pgseal-enable.conf"


class EnableUnits(Managed):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run(["bash", "-euc", INSTALL], cwd=ROOT, check=True)

    def assert_sealed(self, unit, data, port):
        self.assertEqual(self.systemctl("is-active", unit), "active")
        self.assert_runs_sealed(data)
        self.assertEqual(self.status(data)["server"], f"running sealed (process {self.shown(unit, 'MainPID')})")
        self.assertEqual(self.psql(SUM, port), FILLED)
        self.psql("CHECKPOINT", port)
        self.assertEqual(self.found(WORD, data), [])

    def assert_plain(self, unit, data, port):
        self.assertEqual(self.systemctl("is-active", unit), "active")
        self.assertEqual(self.status(data)["sealed"], "no")
        self.assertEqual(self.psql(SUM, port), FILLED)

    def test_1_the_packaged_unit(self):
        self.run_as_root(["pg_createcluster", "--start", "15", "main"])
        self.psql(FILL)
        self.run_block(ENABLE)
        self.assert_sealed(PACKAGED, MAIN, 5432)
        self.systemctl("restart", PACKAGED)
        self.assert_sealed(PACKAGED, MAIN, 5432)
        self.run_block(DISABLE)
        self.assert_plain(PACKAGED, MAIN, 5432)

    def test_2_a_unit_as_el_has(self):
        self.run_as_root(["install", "-d", "-m", "700", "-o", "postgres", "-g", "postgres", "/var/lib/pgsql/15", EL_DATA])
        self.run_as_root(as_postgres(["/usr/lib/postgresql/15/bin/initdb", "-D", EL_DATA, "-A", "trust"]))
        with open(f"{EL_DATA}/postgresql.conf", "a") as conf:
            conf.write(f"port = {EL_PORT}\n")
        (UNITS / "postgresql-15.service").write_text(EL_UNIT)
        self.systemctl("daemon-reload")
        self.systemctl("start", "postgresql-15")
        self.psql(FILL, EL_PORT)
        for words, sentence in [(["--unit=none"], "there is no unit none.service: .*"),
                                (["--unit=pgseal-test.target"], "there is no unit pgseal-test.target.service: .*"),
                                (["--unit", PACKAGED], f"{PACKAGED} does not run as postgres, .*")]:
            done = self.run_as_root(["pgseal", "enable", "--pgdata", EL_DATA, *words], check=False)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"^pgseal: {sentence}\n$")
        shown = self.run_block(UNIT_ENABLE).stdout
        self.assertIn(f"put wrappers into {WRAPPERS}\n", shown)
        self.assert_sealed("postgresql-15", EL_DATA, EL_PORT)
        self.assertEqual(self.psql("SHOW data_checksums", EL_PORT), "on")
        key = self.status(EL_DATA)["key id"]
        self.assertEqual(DROP_IN.read_text(), "# Written by `pgseal enable`; `pgseal disable` removes it.\n"
                         "[Service]\nExecStart=\n"
                         f"ExecStart={WRAPPERS}/postgres -D ${{PGDATA}}\n"
                         "Environment=PGSEAL_PASSPHRASE_FILE=/etc/pgseal/postgresql-15.passphrase\n"
                         f"Environment=PGSEAL_EXPECT_KEY={key}\nLimitCORE=0\n")

    def test_3_it_goes_on_from_every_state(self):
        """Without the drop-in, without wrappers, stopped: each is put back, and the data are not touched."""
        before = self.status(EL_DATA)["key id"]
        self.systemctl("stop", "postgresql-15")
        DROP_IN.unlink()
        for wrapper in WRAPPERS.iterdir():
            wrapper.unlink()
        self.systemctl("daemon-reload")
        shown = self.run_as_root(["pgseal", "enable", "--pgdata", EL_DATA, "--unit", "postgresql-15"]).stdout
        self.assertNotIn("encrypt", shown.split("The server is down")[0])
        self.assert_sealed("postgresql-15", EL_DATA, EL_PORT)
        self.assertEqual(self.status(EL_DATA)["key id"], before)
        again = self.run_as_root(["pgseal", "enable", "--pgdata", EL_DATA, "--unit", "postgresql-15"]).stdout
        self.assertEqual(again, "postgresql-15.service is sealed, and runs as it is set up\n")

    def test_4_after_the_plug_was_pulled_it_comes_up_sealed(self):
        self.power_off()
        self.boot(wants=["postgresql-15.service"])
        self.assert_sealed("postgresql-15", EL_DATA, EL_PORT)

    def test_5_the_way_back(self):
        self.run_block(UNIT_DISABLE)
        self.assert_plain("postgresql-15", EL_DATA, EL_PORT)
        self.assertFalse(DROP_IN.parent.exists())
        self.assertFalse(WRAPPERS.exists())
        self.assertTrue(Path("/etc/pgseal/postgresql-15.passphrase").exists())
        self.assertEqual(self.shown("postgresql-15", "DropInPaths"), self.shown(PACKAGED, "DropInPaths"))


if __name__ == "__main__":
    main(__file__)
