"""A real file system on a disk that remembers its writes, and mounts of what power cuts leave of it.

    class Cut(Case):
        def test_it(self):
            disk = RecordedDisk(self, "ext4")
            ...                                          # a cluster below disk.directory runs under load
            disk.end()                                   # when nothing uses it any more
            for cut in disk.cuts(12, seed=1):
                with disk.state(cut) as said:            # mounted at disk.directory again; what clients had been told
                    ...

    if __name__ == "__main__":
        main(__file__)

Mounting needs root, and a server refuses root. So root keeps a *service* in a mount namespace of its own, which records and
mounts, and the test asks it over a socket. Where this cannot be done (no root, no /dev/fuse, no loop device) the tests are skipped.
"""

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import pgseal_test  # noqa: E402
import stage  # noqa: E402
from waiting import eventually  # noqa: E402
from states import MODES, Disk, Log, copy_sparse  # noqa: E402

SERVICE = "PGSEAL_TEST_DISK"
NAMESPACE = ["unshare", "--mount", "--propagation", "private"]
SIZE = 2 << 30
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "xfs": ["mkfs.xfs", "-q", "-f"]}
LIMIT = 120  # seconds for a recorder to end

needs_disk = unittest.skipUnless(SERVICE in os.environ, "a disk whose writes are recorded needs root, /dev/fuse and a loop device")


def main(test_file):
    """Runs the test file with a service beside it, where there can be one."""
    if "PGSEAL_TEST_STAGE" in os.environ or not can_record():
        pgseal_test.main(test_file)
    if "PGSEAL_TEST_NAMESPACE" not in os.environ:
        os.environ["PGSEAL_TEST_NAMESPACE"] = "1"
        os.execvp(NAMESPACE[0], [*NAMESPACE, sys.executable, *sys.argv])
    with Service() as service:
        os.environ[SERVICE] = str(service.path)
        pgseal_test.main(test_file)


def can_record():
    """Is this root, with all that recording needs?"""
    tools = all(shutil.which(name) for name in ["mkfs.ext4", "mkfs.xfs", "losetup", "pkg-config", "cc"])
    devices = Path("/dev/fuse").exists() and Path("/dev/loop-control").exists()
    return os.getuid() == 0 and devices and tools and subprocess.run([*NAMESPACE, "true"], check=False).returncode == 0


@dataclass
class Cut:
    """A power cut: before this record, with this much of what was in flight."""
    record: int
    mode: str
    seed: int
    at_end: bool = False  # everything had been done that the record is about

    def __str__(self):
        return f"record {self.record}, {self.mode}, seed {self.seed}"


class RecordedDisk:
    """The test's side: one file system, recorded until end()."""

    def __init__(self, case, kind):
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.connect(os.environ[SERVICE])
        self.stream = self.connection.makefile("rw")
        case.addCleanup(self.connection.close)
        case.addCleanup(self.stream.close)
        case.addCleanup(self.ask, "drop")
        told = self.ask("record", kind=kind)
        self.directory, self.said = Path(told["mount"]), Path(told["said"])

    def ask(self, what, **options):
        """A request to the service, and its answer."""
        self.stream.write(json.dumps({"what": what, **options}) + "\n")
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        if "failed" in answer:
            raise AssertionError(answer["failed"])
        return answer

    def mark(self):
        """How many records there are by now."""
        return self.ask("count")["records"]

    def settle(self):
        """Everything so far is on the medium: what was written by the test itself is not to be lost. Returns the mark."""
        self.ask("settle")
        return self.mark()

    def end(self):
        """Takes the file system down; nothing may use it any more."""
        self.ask("end")

    def again(self, cut):
        """Goes on from what a cut left: it is mounted, and a new record begins. What clients had been told is forgotten."""
        self.ask("again", record=cut.record, mode=cut.mode, seed=cut.seed)

    def cuts(self, count, seed, first=0, last=None):
        """Cuts between two marks, with every mode in turn."""
        numbers = self.ask("cuts", count=count, seed=seed, first=first, last=last)["records"]
        modes = sorted(MODES, reverse=True)
        return [Cut(number, modes[index % len(modes)], seed) for index, number in enumerate(numbers)]

    @contextlib.contextmanager
    def state(self, cut):
        """The file system as the cut left it, mounted: {file: text} of what clients had been told. None if no kernel mounts it."""
        answer = self.ask("state", record=cut.record, mode=cut.mode, seed=cut.seed)
        try:
            yield {int(name): text for name, text in answer["said"].items()} if answer["mounted"] else None
        finally:
            self.ask("unmount")


class Service:
    """Root's side: serves one connection after the other, in a thread."""

    def __init__(self):
        self.home = Path(tempfile.mkdtemp(prefix="pgseal-power."))
        os.chmod(self.home, 0o755)
        self.path = self.home / "socket"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o666)
        self.listener.listen()
        self.program = self.home / "recorder"
        build(self.program)
        self.owner = stage.test_account()
        self.recorder = self.log = self.disk = None
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.do_drop()
        shutil.rmtree(self.home, ignore_errors=True)

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rw") as stream:
                for line in stream:
                    request = json.loads(line)
                    try:
                        answer = getattr(self, "do_" + request.pop("what"))(**request) or {}
                    except Exception as error:  # the test is told, whatever it is
                        answer = {"failed": f"{type(error).__name__}: {error}"}
                    stream.write(json.dumps(answer) + "\n")
                    stream.flush()

    def do_record(self, kind):
        """A new file system on a new disk."""
        self.mount, self.fuse, self.store = (self.home / name for name in ["mount", "fuse", "store"])
        for directory in [self.mount, self.fuse, self.store]:
            directory.mkdir()
        self.first = None
        self.mount_recorded(MAKE[kind])
        os.chown(self.mount, self.owner.pw_uid, self.owner.pw_gid)
        call("sync", "-f", self.mount)
        return {"mount": str(self.mount), "said": str(self.fuse)}

    def do_again(self, record, mode, seed):
        state = self.disk.build(record, mode, seed)
        self.first = self.store / "first"
        state.replace(self.first)
        copy_sparse(self.first, self.store / "disk")
        self.mount_recorded()

    def mount_recorded(self, make=None):
        """The file system on the recorder's disk, made first if so wished."""
        self.recorder = subprocess.Popen([self.program, self.fuse, self.store, str(SIZE)])
        eventually(lambda: (self.fuse / "disk").exists(), "the recorder's file")
        device = attach(self.fuse / "disk")
        if make:
            call(*make, device)
        call("mount", device, self.mount)
        call("losetup", "--detach", device)  # when it is unmounted

    def do_count(self):
        return {"records": len(Log(self.store / "log").records)}

    def do_settle(self):
        call("sync", "-f", self.mount)

    def do_end(self):
        call("umount", self.mount)
        self.stop_recorder()
        self.log = Log(self.store / "log")
        self.disk = Disk(self.log, self.store, SIZE, self.first)

    def stop_recorder(self):
        """The loop device lets go of its file a moment after the file system is gone."""
        eventually(lambda: subprocess.run(["umount", self.fuse], capture_output=True, check=False).returncode == 0,
                 "the end of the recorder's mount")
        self.recorder.wait(LIMIT)
        self.recorder = None

    def do_cuts(self, count, seed, first, last):
        last = len(self.log.records) if last is None else last
        return {"records": self.log.cuts(first, last, count, random.Random(seed))}

    def do_state(self, record, mode, seed):
        device = attach(self.disk.build(record, mode, seed))
        mounted = subprocess.run(["mount", device, self.mount], capture_output=True, check=False).returncode == 0
        call("losetup", "--detach", device)
        said = {number: text.decode(errors="replace") for number, text in self.log.said(record).items()}
        return {"mounted": mounted, "said": said}

    def do_unmount(self):
        subprocess.run(["umount", self.mount], capture_output=True, check=False)

    def do_drop(self):
        """Everything of one disk goes."""
        if self.recorder is not None:
            subprocess.run(["umount", "--lazy", self.mount], capture_output=True, check=False)
            subprocess.run(["umount", "--lazy", self.fuse], capture_output=True, check=False)
            self.recorder.terminate()
            self.recorder.wait(LIMIT)
            self.recorder = None
        for name in ["mount", "fuse", "store"]:
            shutil.rmtree(self.home / name, ignore_errors=True)


def build(program):
    """Compiles the recorder."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], text=True, capture_output=True, check=True).stdout.split()
    source = Path(__file__).with_name("recorder.c")
    call("cc", "-O2", "-Wall", "-Werror", "-o", program, source, *flags)


def attach(file):
    """A loop device for the file, which passes each write on before it answers."""
    done = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", file], text=True, capture_output=True, check=True)
    return done.stdout.strip()


def call(*command):
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{[str(word) for word in command]} exited with {done.returncode}: {done.stdout}{done.stderr}")
