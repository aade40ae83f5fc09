#!/usr/bin/env python3
"""docs/operations/systemd.md is run as printed, and what the units say is run as systemd would run it.

No systemd manages this machine: `systemd-analyze verify` reads the units, and the test is the manager. It keeps to what the unit
says: the user, the limit of core files, an environment of the unit's own variables only, and the credential as a file that this
user alone reads, which is there while the service runs.
"""

import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from clusters import CREATE, FILL, FILLED, INSTALL, MAIN, PASSPHRASE, SUM, WORD
from machine import Machine, as_postgres, blocks, main, server_logs

DROP_IN, = blocks("docs/operations/systemd.md")
OWN_UNIT, = blocks("docs/operations/systemd.md", "ini")
PACKAGED = Path("/lib/systemd/system/postgresql@.service")
OWN = Path("/etc/systemd/system/sealed.service")
DROP_IN_FILE = Path("/etc/systemd/system/postgresql@15-main.service.d/pgseal.conf")
SECRET = Path("/etc/pgseal/passphrase")


class Unit:
    """The settings of an instance's [Service] section, in order, with specifiers expanded."""

    def __init__(self, name, *files):
        instance = name.partition("@")[2].removesuffix(".service")
        self.credentials = Path("/run/credentials") / name
        specifiers = {"i": instance, "I": instance.replace("-", "/"), "d": str(self.credentials)}
        self.settings = []
        for line in "\n".join(file.read_text() for file in files).splitlines():
            if match := re.match(r"(\w+)=(.*)", line):
                value = re.sub(r"%([iId])", lambda found: specifiers[found[1]], match[2])
                self.settings.append((match[1], value))

    def all(self, key):
        return [value for name, value in self.settings if name == key]

    def command(self, key):
        """The command of an Exec line, for the unit's user; a leading - means that failure is no failure."""
        line, = self.all(key)
        return ["prlimit", "--core=" + self.all("LimitCORE")[-1], *as_postgres(line.lstrip("-").split())]

    def environment(self):
        return dict(setting.split("=", 1) for setting in self.all("Environment"))

    def load_credential(self):
        """What systemd does before the first command."""
        setting, = self.all("LoadCredential")
        name, _, source = setting.partition(":")
        owner = pwd.getpwnam(self.all("User")[-1])
        self.credentials.mkdir(parents=True, mode=0o500)
        shutil.chown(self.credentials, owner.pw_uid, owner.pw_gid)
        target = self.credentials / name
        shutil.copyfile(source, target)
        target.chmod(0o400)
        shutil.chown(target, owner.pw_uid, owner.pw_gid)

    def unload(self):
        shutil.rmtree(self.credentials)


class Units(Machine):
    def test_1_the_packaged_unit(self):
        for block in [INSTALL, PASSPHRASE, CREATE]:
            self.run_block(block)
        self.psql(FILL)
        self.run_as_root(["pg_ctlcluster", "15", "main", "stop"])
        self.run_block(DROP_IN)
        self.assertNotEqual(self.run_as_root(as_postgres(["cat", SECRET]), check=False).returncode, 0)
        self.verify("postgresql@15-main.service")
        unit = Unit("postgresql@15-main.service", PACKAGED, DROP_IN_FILE)
        unit.load_credential()
        self.run_unit(unit, "ExecStart")
        pid = Path(*unit.all("PIDFile")).read_text().strip()
        self.assertEqual(pid, Path(MAIN, "postmaster.pid").read_text().split()[0])
        self.run_unit(unit, "ExecReload")
        self.assertEqual(self.psql(SUM), FILLED)
        self.assertEqual(self.status(MAIN)["server"], f"running sealed (process {pid})")
        limits = Path("/proc", pid, "limits").read_text()
        self.assertRegex(limits, r"Max core file size +0 +0 ")
        self.assertNotIn(SECRET.read_text().strip().encode(), Path("/proc", pid, "environ").read_bytes())
        self.run_unit(unit, "ExecStop")
        self.assertEqual(self.found(WORD, MAIN), [])
        unit.unload()
        self.run_unit(unit, "ExecStart")
        self.assertRegex(server_logs(), r"pgseal: .*/run/credentials/postgresql@15-main.service/pgseal")
        self.assertFalse(Path(MAIN, "postmaster.pid").exists())

    def test_2_a_unit_of_ones_own(self):
        data = "/var/lib/postgresql/15/own"
        key = ["--data-encryption", f"--key-passphrase-file={SECRET}.copy"]
        self.run_as_root(["install", "-m", "400", "-o", "postgres", SECRET, f"{SECRET}.copy"])
        self.run_as_root(["pgseal", "bindir", "--pg", "/usr/lib/postgresql/15/stock", "--into", "/usr/local/lib/pgseal/15"])
        self.run_as_root(as_postgres(["/usr/local/lib/pgseal/15/initdb", "-D", data, "-A", "trust", *key]))
        Path(f"{SECRET}.copy").unlink()
        OWN.write_text(OWN_UNIT)
        self.verify("sealed.service")
        needed = self.run_as_root(["ldd", "/usr/lib/postgresql/15/stock/postgres"]).stdout
        self.assertIn("libsystemd", needed)  # or Type=notify would wait for ever
        unit = Unit("sealed.service", OWN)
        unit.load_credential()
        with subprocess.Popen(unit.command("ExecStart"), env=unit.environment(), stderr=subprocess.PIPE, text=True) as server:
            self.until_ready(server, Path(data, "postmaster.pid"))
            self.assertEqual(self.psql("SHOW data_directory"), data)
            self.assertEqual(self.status(data)["server"], f"running sealed (process {server.pid})")
            server.send_signal(signal.Signals[unit.all("KillSignal")[-1]])
            self.assertEqual(server.wait(60), 0, server.stderr.read())

    def verify(self, name):
        done = self.run_as_root(["systemd-analyze", "verify", name], check=False)
        about = [line for line in done.stderr.splitlines() if name.split("@")[0] in line or "pgseal" in line]
        self.assertEqual(about, [], done.stderr)

    def run_unit(self, unit, key):
        self.run_as_root(unit.command(key), check=not unit.all(key)[0].startswith("-"))

    def until_ready(self, server, pid_file):
        """Until postmaster.pid says so, and names the process that the service started."""
        for _ in range(1200):
            self.assertIsNone(server.poll(), "the server ended")
            lines = pid_file.read_text().splitlines() if pid_file.exists() else []
            if len(lines) > 7 and lines[7].strip() == "ready":
                self.assertEqual(lines[0], str(server.pid))
                return
            time.sleep(0.05)
        self.fail("the server is not ready")


if __name__ == "__main__":
    main(__file__)
