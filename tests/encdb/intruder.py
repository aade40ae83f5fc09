#!/usr/bin/python3
"""Usage: intruder.py PID

What a program of the server's own user gets out of a backend that has an owner's session: every way that needs no more than
that user, and what came of it, one on a line. Run by the server, for test_handover.py.
"""

import ctypes
import os
import re
import socket
import sys
from contextlib import suppress
from pathlib import Path

PTRACE_ATTACH, PTRACE_DETACH = 16, 17
PIDFD_OPEN, PIDFD_GETFD = 434, 438
CLIENTS = re.compile(r"@(pgseal-encdb-\S+)$", re.M)
libc = ctypes.CDLL(None, use_errno=True)


def files(pid):
    """Memory files among its descriptors, by name; anyone who owns one may change its mode."""
    got = []
    for link in sorted(Path(f"/proc/{pid}/fd").iterdir()):
        if "memfd" in os.readlink(link):
            os.chmod(link, 0o600)
            got.append(f"{len(link.read_bytes())} bytes")
    return got


def memory(pid):
    """Its memory."""
    first = Path(f"/proc/{pid}/maps").read_text().split("-")[0]
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(int(first, 16))
        return [f"{len(memory.read(16))} bytes"]


def trace(pid):
    """The process itself, as a debugger."""
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(pid, 0)
    libc.ptrace(PTRACE_DETACH, pid, None, None)
    return ["traced"]


def descriptors(pid):
    """Copies of its descriptors."""
    process = libc.syscall(PIDFD_OPEN, pid, 0)
    return [f"descriptor {number}" for number in range(64) if libc.syscall(PIDFD_GETFD, process, number, 0) >= 0]


def worker(pid):
    """What a leader passes to its workers, to one who claims to be one. A leader whose session ends in that moment passes nothing."""
    got = []
    for name in CLIENTS.findall(Path("/proc/net/unix").read_text()):
        with socket.socket(socket.AF_UNIX) as client, suppress(ConnectionRefusedError, ConnectionResetError):
            client.settimeout(10)
            client.connect("\0" + name)
            if told := client.recv(65536):
                got += [f"told {len(told)} bytes"]
                client.send(told)
                got += [f"and {len(client.recv(65536))}"]
            got += ["asked a leader"]
    return got


for way in [files, memory, trace, descriptors, worker]:
    try:
        result = ", ".join(sorted(set(way(int(sys.argv[1])))))
    except OSError as error:
        result = error.strerror
    print(f"{way.__name__}: {result or 'nothing'}")
