"""A machine of our own, for programs whose directories are built in (Debian's scripts, units, a container's steps).

The test program runs itself in namespaces of its own (mounts, network, processes). /etc, /usr/local, /usr/lib/postgresql and /var/lib are
overlays there, and the directories of data, logs and sockets are empty ones: nothing of the machine changes, its clusters are not
seen, and what is still running at the end is ended by the kernel. Servers run as Debian's own user `postgres`.

Needs root and the right to mount, as Debian's scripts need root: without them there is nothing to run, and the test says so.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
INSIDE = "PGSEAL_TEST_MACHINE"
OVERLAYS = ["/etc", "/usr/local", "/usr/lib/postgresql", "/var/lib"]
EMPTIED = {"/var/lib/postgresql": 0o755, "/var/log/postgresql": 0o1775, "/run": 0o755}
# PID 1 of the namespace must take in orphans, or pg_ctl would wait for ever for a postmaster that nobody reaps.
REAPER = ["/bin/bash", "-c", '"$@"; exit $?', "bash"]
# Without a network of its own a server elsewhere may have the port that a new cluster gets.
NAMESPACES = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def main(test_file):
    """Runs the test file on a machine of its own."""
    if not (ROOT / "dist/bin/pgseal").exists():
        sys.exit("dist/bin/pgseal is missing; run make build first")
    if INSIDE not in os.environ:
        sys.exit(run_inside(test_file))
    unittest.main(module="__main__", verbosity=2, failfast=True)


def run_inside(test_file):
    with tempfile.TemporaryDirectory(prefix="pgseal-machine.") as place:
        os.chmod(place, 0o755)
        environment = {**os.environ, INSIDE: place}
        command = [sys.executable, test_file, *sys.argv[1:]]
        if can_mount():
            command = [*NAMESPACES, *REAPER, *command]
        return subprocess.run(command, env=environment, check=False).returncode


def can_mount():
    """Is this root, with the right to make namespaces and overlays?"""
    return os.getuid() == 0 and subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


class Machine(unittest.TestCase):
    """The tests of a class share one machine, and run in the order of their names, until the first that fails."""

    @classmethod
    def setUpClass(cls):
        if not can_mount():
            raise unittest.SkipTest("Debian's scripts run as root on directories of their own: needs root and mount namespaces")
        furnish(Path(os.environ[INSIDE]))

    def run_block(self, block, replace=(), **variables):
        """Runs a block of a page as printed (except the replacements) as root, in the tree."""
        for old, new in replace:
            self.assertIn(old, block)
            block = block.replace(old, new)
        return self.run_as_root(["bash", "-euo", "pipefail", "-c", block], **variables)

    def run_as_root(self, command, check=True, **variables):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **variables}
        done = subprocess.run(command, cwd=ROOT, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=300, check=False)
        if check:
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{server_logs()}")
        return done

    def psql(self, sql, port=5432, check=True):
        """The rows that SQL gives, by the superuser over the server's socket."""
        command = ["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "/run/postgresql", "-p", str(port), "-c", sql]
        done = self.run_as_root(as_postgres(command), check)
        return done.stdout.strip() if check else done

    def status(self, data):
        """What `pgseal status` says of a data directory, by name."""
        text = self.run_as_root(["pgseal", "status", "-D", data], check=False).stdout
        return dict(re.findall(r"^([\w ]+): +(.*)$", text, re.M))

    def assert_runs_sealed(self, data):
        status = self.status(data)
        self.assertEqual(status["sealed"], "yes")
        self.assertRegex(status["server"], r"^running sealed \(process \d+\)$")

    def found(self, word, *places):
        """The files below the places that hold the word in clear."""
        done = subprocess.run(["grep", "-rlaF", "--", word, *places], text=True, capture_output=True, check=False)
        return done.stdout.split()


def furnish(place):
    """Mounts it all, and puts this machine's clusters out of sight."""
    for directory in OVERLAYS:
        layers = place / directory.strip("/").replace("/", "_")
        run("mkdir", "-p", layers)
        run("mount", "-t", "tmpfs", "tmpfs", layers)
        run("mkdir", layers / "upper", layers / "work")
        run("mount", "-t", "overlay", "overlay", "-o",
            f"lowerdir={directory},upperdir={layers}/upper,workdir={layers}/work", directory)
    owner = pwd.getpwnam("postgres")
    for directory, mode in EMPTIED.items():
        own = place / directory.strip("/").replace("/", "_")
        own.mkdir(mode=mode)
        own.chmod(mode)
        if directory.endswith("postgresql"):
            os.chown(own, owner.pw_uid, owner.pw_gid)
        run("mount", "--bind", own, directory)
    run("install", "-d", "-m", "2775", "-o", "postgres", "-g", "postgres", "/run/postgresql")
    shutil.rmtree("/etc/postgresql")
    Path("/etc/postgresql").mkdir()
    shutil.rmtree("/etc/pgseal", ignore_errors=True)


def run(*command):
    subprocess.run(command, check=True)


def as_postgres(command):
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--", *command]


def server_logs():
    return "\n".join(path.read_text(errors="replace")[-2000:] for path in Path("/var/log/postgresql").glob("*.log"))


def blocks(document, language="sh"):
    """The fenced blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(), re.M | re.S)
