"""Runs a program as on a kernel that has memfd_secret switched off: `python3 no_secretmem.py PROGRAM ARGUMENT…`."""

import ctypes
import errno
import os
import struct
import sys

SYS_MEMFD_SECRET = 447
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ | BPF_K; BPF_RET | BPF_K
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
RULES = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, SYS_MEMFD_SECRET), (RETURN, 0, 0, ERRNO | errno.ENOSYS), (RETURN, 0, 0, ALLOW)]


class Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def switch_off():
    libc = ctypes.CDLL(None, use_errno=True)
    program = Filter(len(RULES), b"".join(struct.pack("=HBBI", *rule) for rule in RULES))
    for call in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)]:
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    switch_off()
    os.execv(sys.argv[1], sys.argv[1:])
