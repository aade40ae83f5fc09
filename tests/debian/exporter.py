#!/usr/bin/env python3
"""docs/operations/monitoring.md under systemd: the exporter's unit finds Debian's clusters and shows that their servers are encrypted,
with few rights. The timer of docs/keys/providers.md is accepted."""

import urllib.request
from pathlib import Path

from clusters import CREATE, INSTALL, MAIN, PASSPHRASE
from machine import blocks, main
from manager import Managed

SERVICE, = blocks("docs/operations/monitoring.md", "bash")
TIMER, = blocks("docs/keys/providers.md", "bash")
UNIT = "pgseal-exporter.service"
ROTATE = "pgseal-key-rotate@15-main"
PASSPHRASE_FILE = "/etc/pgseal/passphrase"


class Exporter(Managed):
    def test_1_the_unit_shows_the_cluster(self):
        for block in [INSTALL, PASSPHRASE, CREATE, SERVICE]:
            self.run_block(block)
        self.assertEqual(self.systemctl("is-active", UNIT), "active")
        place = f'data_directory="{MAIN}"'
        for name in ["cluster_readable", "sealed", "server_sealed"]:
            self.assertIn(f"\npgseal_{name}{{{place}}} 1\n", self.scrape())
        for collector in ["status", "library", "doctor"]:
            self.assertIn(f'\npgseal_exporter_collector_ok{{{place},collector="{collector}"}} 1\n', self.scrape())

    def test_2_it_has_few_rights(self):
        pid = self.shown(UNIT, "MainPID")
        status = self.run_as_root(["cat", f"/proc/{pid}/status"]).stdout
        self.assertRegex(status, r"CapEff:\s+0000000000000000\n")
        self.assertRegex(status, r"NoNewPrivs:\s+1\n")
        self.assertRegex(status, r"Seccomp:\s+2\n")
        inside = ["nsenter", "-t", pid, "-m", "-S", "postgres", "cat", PASSPHRASE_FILE]
        self.assertNotEqual(self.run_as_root(inside, check=False).returncode, 0)
        self.assertTrue(Path(PASSPHRASE_FILE).exists())

    def test_3_the_timer_runs(self):
        self.run_block(TIMER)
        self.assertEqual(self.systemctl("is-active", f"{ROTATE}.timer"), "active")
        # Nothing gives it the passphrase of the only slot.
        self.assertNotEqual(self.run_as_root(["systemctl", "start", f"{ROTATE}.service"], check=False).returncode, 0)
        self.assertEqual(self.shown(f"{ROTATE}.service", "ExecMainStatus"), "6")

    def scrape(self):
        with urllib.request.urlopen("http://127.0.0.1:9743/metrics", timeout=60) as answer:
            return answer.read().decode()


if __name__ == "__main__":
    main(__file__)
