"""Runs a program as on a kernel that lacks one system call: `python3 no_system_call.py NUMBER PROGRAM ARGUMENT…`."""

import ctypes
import errno
import os
import struct
import sys

SYS_IO_URING_SETUP, SYS_MEMFD_SECRET = 425, 447
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ | BPF_K; BPF_RET | BPF_K
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


class Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def switch_off(number):
    libc = ctypes.CDLL(None, use_errno=True)
    rules = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | errno.ENOSYS), (RETURN, 0, 0, ALLOW)]
    program = Filter(len(rules), b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    for call in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)]:
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    switch_off(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
