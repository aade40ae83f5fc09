"""Images and pods as Kubernetes has them, without Kubernetes: root file systems of Debian's, and bubblewrap around what runs there.

An image is an overlay over the root of tests/packages/chroot.py. A pod gets what CloudNativePG's specification of one gives it: user 26
and no other, no capability, no new privileges, a read-only root, the filter of system calls of a container runtime, 64 KiB of locked
memory, and only these mounts: the volumes of PGDATA and WAL, one scratch volume as /run and as /controller, /dev/shm, and /projected.
Programs are started in it by a shell, which is where the operator's instance manager is the container's first process.
"""

import errno
import itertools
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/packages"), str(ROOT / "tests/lib")]
from chroot import PACKAGES, base, mount  # noqa: E402
from waiting import eventually  # noqa: E402

UID = 26
LOCKED_BYTES = 65536
RELEASE = "bookworm"
LIBRARIES = "usr/lib/x86_64-linux-gnu"

# What runtimes forbid a container without capabilities, by numbers of x86-64: mounts, namespaces, keyrings, modules, other processes'
# memory, BPF, rings of I/O; and memfd_secret, which is missing in the profiles of older ones.
FORBIDDEN = [155, 165, 166, 167, 168, 169, 175, 176, 246, 248, 249, 250, 272, 298, 303, 304, 308, 310, 311, 313, 321, 323, 425, 426, 427,
             428, 429, 430, 431, 432, 433, 442, 447]
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ | BPF_K; BPF_RET | BPF_K
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

# Of programs that are started in pods, for the files that they leave: two pods may share a scratch volume, one after the other.
NUMBERS = itertools.count(1)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOOP = 'while read -r script; do sh "$script" </dev/null; done'


def unable():
    """Why no pods can be made here; empty if they can."""
    if os.getuid() != 0:
        return "overlays and users without a capability need root"
    if os.uname().machine != "x86_64":
        return "the filter of system calls is for x86-64"
    return next((f"{program} is missing" for program in ("bwrap", "mmdebstrap") if not shutil.which(program)), "")


def seccomp_filter():
    """A file with the filter, as bubblewrap takes it."""
    rules = [(LOAD, 0, 0, 0)]
    for at, number in enumerate(FORBIDDEN):
        rules.append((EQUAL, len(FORBIDDEN) - at, 0, number))
    rules += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | errno.EPERM)]
    file = tempfile.TemporaryFile()
    file.write(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    file.flush()
    return file


class Node:
    """A machine: images and volumes below one directory, and a network of its own, in which pods have loopback addresses."""

    def __init__(self, test):
        self.place = Path(tempfile.mkdtemp(prefix="pgseal-kubernetes."))
        test.addClassCleanup(shutil.rmtree, self.place)
        self.layers = self.place / "layers"
        self.layers.mkdir()
        os.chmod(self.place, 0o755)
        mount("-t", "tmpfs", "tmpfs", self.layers)
        test.addClassCleanup(subprocess.run, ["umount", self.layers], check=True)
        self.test = test
        # pylint: disable=consider-using-with
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && read -r _"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        test.addClassCleanup(holder.communicate)
        if holder.stdout.readline() != "up\n":
            raise RuntimeError("no network of its own")
        self.network = f"/proc/{holder.pid}/ns/net"

    def image(self, name):
        """An image that is Debian's root, to be changed by steps."""
        root = self.place / name
        for directory in (root, self.layers / f"{name}-upper", self.layers / f"{name}-work"):
            directory.mkdir()
        options = f"lowerdir={base(RELEASE)},upperdir={self.layers}/{name}-upper,workdir={self.layers}/{name}-work"
        mount("-t", "overlay", "overlay", "-o", options, root)
        self.test.addClassCleanup(subprocess.run, ["umount", root], check=True)
        return Image(root)

    def volume(self, name):
        """A directory of the server's user, as a volume that was just provisioned."""
        volume = self.place / name
        volume.mkdir()
        os.chown(volume, UID, UID)
        return volume

    def projected(self, name, files):
        """A projected volume: files of root's that the pods' group reads, behind the links that the kubelet makes."""
        volume = self.place / name
        real = volume / "..2026_01_01"
        for path, text in files.items():
            file = real / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            os.chown(file, 0, UID)
            os.chmod(file, 0o440)
        for directory in [real, *[path for path in real.rglob("*") if path.is_dir()]]:
            os.chown(directory, 0, UID)
            os.chmod(directory, 0o2755)
        os.chmod(volume, 0o3777)
        (volume / "..data").symlink_to(real.name)
        for top in {path.split("/")[0] for path in files}:
            (volume / top).symlink_to(f"..data/{top}")
        return volume


@dataclass
class Image:
    """The root file system of an image that is being made."""
    root: Path

    def step(self, command, *arguments):
        """Runs a line of sh as root, as a build of the image does, with arguments $1, $2 …; returns what it prints."""
        sandbox = ["bwrap", "--unshare-pid", "--unshare-net", "--die-with-parent", "--bind", self.root, "/", "--proc", "/proc",
                   "--dev", "/dev", "--tmpfs", "/tmp", "--clearenv", "--setenv", "PATH", PATH]
        done = subprocess.run([*sandbox, "sh", "-ec", command, "sh", *arguments], text=True, capture_output=True, timeout=300, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def copy(self, source, target):
        """What COPY does: a file, to a path in the image."""
        there = self.root / str(target).lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, there)

    def install_pgseal(self):
        """The packages if they were built, and else what `make build` made, laid out as the packages lay it out."""
        architecture = subprocess.run(["dpkg", "--print-architecture"], text=True, capture_output=True, check=True).stdout.strip()
        packages = [file for name in ("pgseal", "pgseal-kms") for file in sorted(PACKAGES.glob(f"{name}_*_{architecture}.deb"))]
        if packages:
            for file in packages:
                self.copy(file, f"/opt/{file.name}")
            return self.step("dpkg -i /opt/*.deb; rm /opt/*.deb")
        for file in ("bin/pgseal", "bin/pgseal-twin", "bin/pgseal-kms", "lib/libpgseal.so"):
            self.copy(ROOT / "dist" / file, f"/usr/lib/pgseal/0/{file}")
        return self.step("ln -s 0 /usr/lib/pgseal/current; ln -s ../lib/pgseal/current/bin/pgseal /usr/bin/pgseal; mkdir /etc/pgseal")

    def replace_postgresql(self, version, installed):
        """Puts a PostgreSQL that was built in place of Debian's."""
        self.step("rm -r /usr/lib/postgresql /usr/share/postgresql")
        target = self.root / f"usr/lib/postgresql/{version}"
        for part in ("bin", "lib", "share"):
            shutil.copytree(installed / part, target / part, symlinks=True)
        needed = subprocess.run(["ldd", installed / "bin/postgres"], text=True, capture_output=True, check=True).stdout
        for library in re.findall(r"=> (/\S+)", needed):
            if not (self.root / LIBRARIES / Path(library).name).exists():
                shutil.copy(library, self.root / LIBRARIES)


@dataclass
class Done:
    """How a program in a pod ended."""
    returncode: int
    stdout: str
    stderr: str


class Pod:
    """A container that runs. `environment` is that of its first process, which everything in it inherits."""

    def __init__(self, node, image, mounts, environment, scratch):
        self.node, self.scratch = node, scratch
        (scratch / "exec").mkdir(exist_ok=True)
        os.chown(scratch / "exec", UID, UID)
        sandbox = ["nsenter", f"--net={node.network}", "prlimit", f"--memlock={LOCKED_BYTES}", "bwrap", "--unshare-pid", "--unshare-ipc",
                   "--unshare-uts", "--die-with-parent", "--new-session", "--ro-bind", image.root, "/", "--proc", "/proc", "--dev", "/dev"]
        for source, target, how in mounts:
            (image.root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)  # as a runtime does
            sandbox += [how, source, target]
        sandbox += ["--clearenv", *[word for name, value in environment.items() for word in ("--setenv", name, value)]]
        drop = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        with seccomp_filter() as rules:
            rules.seek(0)
            command = [*sandbox, "--seccomp", str(rules.fileno()), "--chdir", "/", *drop, "sh", "-c", LOOP]
            # pylint: disable=consider-using-with
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, pass_fds=[rules.fileno()])
        node.test.addClassCleanup(self.end)

    def start(self, *command, environment=None, directory="/", background=False, output=None):
        """Starts a program; with `environment`, in that one and no other. Returns the path of what it leaves, without an extension."""
        name = f"exec/{next(NUMBERS)}"
        words = list(command) if environment is None else ["env", "-i", *[f"{key}={value}" for key, value in environment.items()], *command]
        line = " ".join(shlex.quote(str(word)) for word in words)
        files = f">{output or f'/controller/{name}.out'} 2>{output and '&1' or f'/controller/{name}.err'}"
        end = f"echo $? >/controller/{name}.rc.new; mv /controller/{name}.rc.new /controller/{name}.rc"
        text = f"cd {directory}\n{{ {line} {files}; {end}; }}{' &' if background else ''}\n"
        (self.scratch / f"{name}.sh").write_text(text)
        self.process.stdin.write(f"/controller/{name}.sh\n")
        self.process.stdin.flush()
        return self.scratch / name

    def run(self, *command, check=True, **how):
        """Runs a program to its end."""
        started = self.start(*command, **how)
        code = eventually(lambda: self.read(started, "rc"), f"{command} does not end", process=self.process)
        done = Done(int(code), self.read(started, "out"), self.read(started, "err"))
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    @staticmethod
    def read(started, extension):
        """A file that a program left; empty if there is none yet."""
        file = started.with_suffix(f".{extension}")
        return file.read_text(errors="replace") if file.exists() else ""

    def end(self):
        """Ends everything in the pod at once, as the loss of its machine does."""
        if self.process.poll() is None:
            inside = self.first_process()
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)
            eventually(lambda: not Path(f"/proc/{inside}").exists(), "the pod does not end")
        self.process.stdin.close()

    def first_process(self):
        """The process that is number 1 in the pod: with it the kernel ends all others."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])
