"""A machine with systemd as its PID 1: what runs there is started by units, as on a server.

systemd gets namespaces of its own within the machine's, and a control group of its own. It starts one target and what that wants,
and nothing of what brings up a whole machine, which would clear the real /tmp. Everything that the tests run goes in there
(nsenter), so that a process has one number, and Debian's scripts find systemd.
"""

import os
import subprocess
from pathlib import Path

from machine import INSIDE, ROOT, Machine, run, server_logs
from waiting import eventually

UNITS = Path("/etc/systemd/system")
BOOT = """
echo $$ > "$1/cgroup.procs"
exec unshare --mount --propagation private --pid --uts --ipc --cgroup --fork --kill-child --mount-proc bash -euc '
    mount -t tmpfs -o mode=755 tmpfs /run
    install -d -m 2775 -o postgres -g postgres /run/postgresql
    mount -o remount,bind,ro /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mount --make-rshared /
    exec env -i container=pgseal-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --unit=pgseal-test.target --log-target=console --show-status=no'
"""
SERVICES = "/run/services.log"
EVERY_UNIT = """[Unit]
DefaultDependencies=no
"""
EVERY_SERVICE = f"""{EVERY_UNIT}[Service]
StandardOutput=append:{SERVICES}
StandardError=append:{SERVICES}
"""
# What would clear the real /tmp, whichever unit asks for it.
MASKED = ["systemd-tmpfiles-setup.service", "systemd-tmpfiles-clean.service"]
STATES = ("running", "degraded")


class Managed(Machine):
    """The tests of a class share one machine and its systemd, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        hierarchy = Path(os.environ[INSIDE]) / "cgroup"
        hierarchy.mkdir()
        run("mount", "-t", "cgroup2", "cgroup2", hierarchy)
        for kind, text in (("service", EVERY_SERVICE), ("socket", EVERY_UNIT)):
            (UNITS / f"{kind}.d").mkdir()
            (UNITS / f"{kind}.d/pgseal-test.conf").write_text(text)
        for unit in MASKED:
            (UNITS / unit).symlink_to("/dev/null")
        cls.group = hierarchy / f"pgseal-test-{os.path.basename(os.environ[INSIDE])}"
        cls.boot()
        cls.addClassCleanup(cls.power_off)

    @classmethod
    def boot(cls, wants=()):
        """Starts systemd, and waits until it has started the units that are wanted, or failed to."""
        wanted = "".join(f"Wants={unit}\n" for unit in wants)
        (UNITS / "pgseal-test.target").write_text("[Unit]\nDescription=pgseal's test\n" + wanted)
        cls.group.mkdir()
        cls.console = open(Path(os.environ[INSIDE]) / "console", "a")
        cls.holder = subprocess.Popen(["bash", "-euc", BOOT, "bash", cls.group], stdin=subprocess.DEVNULL, stdout=cls.console,
                                      stderr=cls.console)
        cls.wait_for(lambda: cls.run_inside(["systemctl", "is-system-running"]).stdout.strip() in STATES)

    @classmethod
    def power_off(cls):
        """As if the plug were pulled: the kernel ends all that runs there."""
        cls.holder.kill()
        cls.holder.wait()
        cls.console.close()
        cls.wait_for(cls.group_is_gone)

    @classmethod
    def group_is_gone(cls):
        try:
            for place, _, _ in os.walk(cls.group, topdown=False):
                os.rmdir(place)
        except OSError:
            return False
        return True

    @classmethod
    def wait_for(cls, condition):
        eventually(condition, lambda: Path(cls.console.name).read_text()[-3000:])

    @classmethod
    def inside(cls):
        """What a command begins with that runs beside systemd."""
        children = Path(f"/proc/{cls.holder.pid}/task/{cls.holder.pid}/children").read_text().split()
        return ["nsenter", "-t", children[0], "-m", "-p", "-u", "-i", "-C", f"--wdns={ROOT}", "--"] if children else ["false"]

    @classmethod
    def run_inside(cls, command):
        return subprocess.run([*cls.inside(), *command], text=True, capture_output=True, timeout=300, check=False)

    def run_as_root(self, command, check=True, **variables):
        done = super().run_as_root([*self.inside(), *command], False, **variables)
        if check and done.returncode != 0:
            services = self.run_inside(["cat", SERVICES]).stdout
            told = [done.stdout, done.stderr, Path(self.console.name).read_text(), services, server_logs()]
            self.fail("\n".join([str(command), *(text[-2000:] for text in told)]))
        return done

    def systemctl(self, *arguments):
        """What systemctl says."""
        return self.run_as_root(["systemctl", *arguments]).stdout.strip()

    def shown(self, unit, name):
        """A property of a unit."""
        return self.systemctl("show", unit, "--property", name, "--value")
