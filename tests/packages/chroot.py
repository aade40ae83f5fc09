"""A Debian system of its own for packages: a root that mmdebstrap made once, an overlay over it, and namespaces around what runs there.

The root is made from the mirror that this machine takes its own packages from, with what a server needs, and kept in CACHE/roots. Each
test class gets an overlay: nothing that it installs or removes stays. There is no network, and what still runs at the end is ended by
the kernel, with the namespace of processes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
CACHE = Path(os.environ.get("PGSEAL_CACHE", "/var/cache/pgseal"))
PACKAGES = ROOT / "dist/packages"
# Debian's releases, with the version of their PostgreSQL. The glibc of the first, 2.31, is the oldest that a mirror still has.
RELEASES = {"bullseye": "13", "bookworm": "15", "trixie": "17"}
INCLUDED = "postgresql,openssl,zstd,procps,rpm"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child"]
# PID 1 of the namespace takes in orphans, and lives until its input ends.
INIT = 'mount -t proc proc "$1/proc" && exec chroot "$1" /bin/sh -c "echo ready; while read -r _; do :; done"'


def mirror():
    """The mirror of this machine's Debian."""
    command = f". {ROOT}/tests/suites/common.sh; mirror"
    return subprocess.run(["bash", "-c", command], text=True, capture_output=True, check=True).stdout.strip()


def base(release, more=()):
    """The root of a Debian release with `more` packages of it, made if it is missing."""
    made = CACHE / "roots" / "+".join([release, *more])
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        new = made.with_suffix(f".{os.getpid()}")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join([INCLUDED, *more])}", release, str(new), mirror()], check=True)
        new.rename(made)
    return made


def unable():
    """Why no such system can be made here; empty if it can."""
    if os.getuid() != 0:
        return "chroots and mounts need root"
    if not PACKAGES.is_dir():
        return "there are no packages: run make packages"
    return "" if shutil.which("mmdebstrap") else "mmdebstrap is missing"


class System(unittest.TestCase):
    """The tests of a class share one system, and run in the order of their names, until the first that fails."""
    release = "bookworm"
    more = ()

    @classmethod
    def setUpClass(cls):
        if why := unable():
            raise unittest.SkipTest(why)
        cls.version = RELEASES[cls.release]
        cls.place = Path(tempfile.mkdtemp(prefix="pgseal-packages."))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.root = cls.place / "root"
        for name in ("root", "layers"):
            (cls.place / name).mkdir()
        mount("-t", "tmpfs", "tmpfs", cls.place / "layers")
        cls.addClassCleanup(subprocess.run, ["umount", cls.place / "layers"], check=True)
        for name in ("upper", "work"):
            (cls.place / "layers" / name).mkdir()
        layers = cls.place / "layers"
        mount("-t", "overlay", "overlay", "-o", f"lowerdir={base(cls.release, cls.more)},upperdir={layers}/upper,workdir={layers}/work", cls.root)
        cls.addClassCleanup(subprocess.run, ["umount", cls.root], check=True)
        for name in ("null", "zero", "urandom", "random", "tty"):
            cls.device(name)
        shared = cls.root / "dev/shm"
        shared.mkdir(exist_ok=True)
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", shared)
        cls.addClassCleanup(subprocess.run, ["umount", shared], check=True)
        cls.start()

    @classmethod
    def device(cls, name):
        """A device of the host; the root has none, or one that its file system does not let open."""
        target = cls.root / "dev" / name
        target.touch()
        mount("--bind", f"/dev/{name}", target)
        cls.addClassCleanup(subprocess.run, ["umount", target], check=True)

    @classmethod
    def start(cls):
        """PID 1 of the system."""
        # pylint: disable=consider-using-with
        cls.init = subprocess.Popen([*NAMESPACES, "sh", "-c", INIT, "sh", cls.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.stop)
        if cls.init.stdout.readline() != "ready\n":
            raise RuntimeError("the system did not start")
        children = Path(f"/proc/{cls.init.pid}/task/{cls.init.pid}/children").read_text().split()
        cls.enter = ["nsenter", f"--target={children[0]}", "--mount", "--net", "--pid", "--root", "--wd"]

    @classmethod
    def stop(cls):
        cls.init.stdin.close()
        cls.init.wait(60)

    def run_there(self, command, check=True, **variables):
        """Runs a command line of sh as root in the system; returns its result."""
        environment = [f"{name}={value}" for name, value in {"PATH": PATH, "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **variables}.items()]
        done = subprocess.run([*self.enter, "env", "-i", *environment, "sh", "-ec", command], text=True, errors="replace",
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
        if check:
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def out(self, command, **variables):
        """What a command prints."""
        return self.run_there(command, **variables).stdout.strip()

    def psql(self, sql):
        """The rows that SQL gives, by the superuser over the server's socket."""
        return self.out("exec runuser -u postgres -- psql -XAtq -v ON_ERROR_STOP=1 -c \"$SQL\"", SQL=sql)

    def put(self, *files):
        """Copies files of the host into the system; returns their paths there."""
        for file in files:
            shutil.copy(file, self.root / "srv")
        return " ".join(f"/srv/{Path(file).name}" for file in files)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)
