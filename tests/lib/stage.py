"""Runs a test file in a place of its own (imported by pgseal_test.py only).

Purpose: a test needs a user who may run PostgreSQL (not root), and programs that nobody rebuilds meanwhile.
The supervisor copies dist/ and tests/ into a temporary directory, runs the test there as its child (as root: as the
system user pgseal-test, made if it does not exist), and removes everything when the child has ended.

Invariants:
1. Every process that the test left behind is ended, by its id: the supervisor adopts orphans (subreaper).
2. Where a namespace can be had (root), the System V shared memory of servers that were killed goes with it: nobody else
   frees it, and a machine has 4096 pieces.
3. The directory goes, unless the test failed and PGSEAL_TEST_KEEP=1; then its path is printed.
"""

import ctypes
import functools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

USER = "pgseal-test"
SYSTEM_PYTHON = "/usr/bin/python3"
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWIPC = 0x08000000


def supervise(test_file, tools):
    """Runs the test file and returns its exit status. `tools` are further programs of the tree that it needs, or directories."""
    root = Path(__file__).resolve().parents[2]
    for program in ["dist/bin/pgseal", "dist/bin/pgseal-twin", "dist/lib/libpgseal.so", *tools]:
        if not (root / program).exists():
            sys.exit(f"{program} is missing; make test builds all that the tests need")
    adopt_orphans()
    ctypes.CDLL(None).unshare(CLONE_NEWIPC)
    stage = Path(tempfile.mkdtemp(prefix="pgseal-test."))
    status = 1
    try:
        fill(stage, root, tools)
        status = run(stage, Path(test_file).resolve().relative_to(root))
    finally:
        end_descendants()
        if status != 0 and os.environ.get("PGSEAL_TEST_KEEP") == "1":
            print(f"kept: {stage}", file=sys.stderr)
        else:
            shutil.rmtree(stage)
    return status


def fill(stage, root, tools):
    os.chmod(stage, 0o755)
    shutil.copytree(root / "tests", stage / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for tool in ["dist", *tools]:
        (stage / tool).parent.mkdir(parents=True, exist_ok=True)
        copy = functools.partial(shutil.copytree, symlinks=True, copy_function=link) if (root / tool).is_dir() else link
        copy(root / tool, stage / tool)
    (stage / "work").mkdir()
    # ext4 does not give a removed file's number out for minutes, and looks at each such number whenever a file is made nearby. Tests
    # make and remove thousands of files, so each of their directories shall be elsewhere on the disk.
    subprocess.run(["chattr", "+T", stage / "work"], stderr=subprocess.DEVNULL, check=False)
    if os.getuid() == 0:
        account = test_account()
        os.chown(stage / "work", account.pw_uid, account.pw_gid)
        subprocess.run(["chmod", "-R", "a+rX", stage / "dist", stage / "tests"], check=True)


def link(source, target):
    """Gives a file of hundreds of megabytes another name, where the file system can: no test writes into what was built."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)


def test_account():
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        shell = ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
        subprocess.run(["useradd", "--system", "--user-group", *shell, USER], check=True)
        return pwd.getpwnam(USER)


def run(stage, test_file):
    """The test as a child, in its own session, so that a signal for us reaches it through us alone."""
    account, python = {}, sys.executable
    if os.getuid() == 0:
        entry = test_account()
        python = SYSTEM_PYTHON  # root's own may lie in a home that others cannot enter
        account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    environment = {**os.environ, "PGSEAL_TEST_STAGE": str(stage), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(stage)}
    command = [python, stage / test_file, *sys.argv[1:]]
    child = subprocess.Popen(command, cwd=stage / "work", env=environment, start_new_session=True, **account)
    for number in [signal.SIGINT, signal.SIGTERM]:
        signal.signal(number, lambda *_: child.terminate())
    return child.wait()


def adopt_orphans():
    """Makes this process the parent of its descendants' orphans, so that it can wait for them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid):
    """Every living process below `pid`."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = process_fields(entry)
            if fields and fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def process_fields(entry):
    """State, parent and so on; the program's name before them may hold anything."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid):
    fields = process_fields(Path("/proc") / str(pid))
    return fields is not None and fields[0] != "Z"


def end_descendants(patience=0.0):
    """Ends every process below this one. A list of them is old when it is read: one on it may fork before it dies."""
    deadline = time.monotonic() + patience
    while pids := descendants(os.getpid()):
        end_processes(pids, deadline - time.monotonic())


def end_processes(pids, patience=0.0):
    """Waits until all have ended, with SIGKILL after `patience` seconds; reaps those that became our children."""
    deadline = time.monotonic() + patience
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() >= deadline:
            for pid in filter(is_alive, pids):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        time.sleep(0.01)
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
