"""Runs a compiled program natively in a plain directory and preloaded in a sealed one.

Needs neither `pgseal` nor PostgreSQL: the key is made here and handed over as the command does it
(crates/tde/format/src/handover.rs), and an empty `pg_encryption/` makes a directory a sealed cluster's.
"""

import fcntl
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from control import crc32c  # noqa: E402

DIRECTORIES = [
    "base/1", "base/5/sub", "base/pgsql_tmp", "global", "pg_wal/archive_status", "pg_xact",
    "pg_multixact/members", "pg_twophase", "pg_stat", "pg_stat_tmp", "pg_logical/mappings",
    "pg_logical/snapshots", "pg_replslot/slot", "pg_tblspc", "pg_dynshmem",
]
VARIANTS = {
    "plain": [],
    "lfs": ["-D_FILE_OFFSET_BITS=64", "-D_LARGEFILE64_SOURCE"],
    "fortified": ["-D_FORTIFY_SOURCE=2"],
    "fortified-lfs": ["-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64", "-D_LARGEFILE64_SOURCE"],
}


def library():
    """The library under test: PGSEAL_TEST_LIBRARY, or what `make build` made."""
    default = HERE.parent.parent / "dist/lib/libpgseal.so"
    return pathlib.Path(os.environ.get("PGSEAL_TEST_LIBRARY", default)).resolve(strict=True)


def compile_program(source, variant, into):
    """Compiles one C file of this directory; returns the program."""
    program = into / f"{source}-{variant}"
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-O2", "-pthread"]
    command = ["cc", *flags, *VARIANTS[variant]]
    libraries = ["-luring"] if source == "ring" else []
    subprocess.run([*command, "-o", program, HERE / f"{source}.c", *libraries], check=True)
    return program


def make_root(path, master=None):
    """A data directory without relations, sealed if there is a key."""
    for name in DIRECTORIES + (["pg_encryption"] if master else []):
        (path / name).mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile() as clear:
        clear.write(control_file())
        clear.flush()
        run("/bin/cp", [clear.name, "global/pg_control"], path, {path: master} if master else None)
    return path


def control_file(segment_size=1 << 20):
    """A pg_control of PostgreSQL 15 that says how long WAL segments are (catalog/pg_control.h)."""
    fields = bytearray(288)
    struct.pack_into("<QII", fields, 0, 0x1122334455667788, 1300, 202209061)
    struct.pack_into("<I", fields, 228, segment_size)
    return bytes(fields) + struct.pack("<I", crc32c(fields)) + bytes(8192 - 292)


def handover(roots, bits=256, key_files=()):
    """A sealed memfd with a master key for each root: {path: 32 bytes}, and the paths of the files that open them."""
    record = struct.pack("<8sIBI", b"PGSEALHO", 4, 0, len(roots))
    for root, master in roots.items():
        path = os.fsencode(root)
        record += struct.pack("<H", len(path)) + path
        record += struct.pack("<BH16s16s32sBH", 1, bits, bytes(16), bytes(16), master, 0, 0)
    record += struct.pack("<I", len(key_files))
    for path in map(os.fsencode, key_files):
        record += struct.pack("<H", len(path)) + path
    fd = os.memfd_create("keys", os.MFD_ALLOW_SEALING)
    os.write(fd, record)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def run(program, arguments, cwd, roots=None, bits=256, acts=True, timeout=300, variables=None,
        key_files=()):
    """Runs `program` in `cwd`, natively if `roots` is None, else preloaded with the keys of these, and with these variables.

    It is one of the programs that the library acts in, or not. Returns stdout and stderr.
    """
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", **(variables or {})}
    keys = handover(roots, bits, key_files) if roots else None
    if roots is not None:
        environment["LD_PRELOAD"] = str(library())
    if roots is not None and acts:
        environment["PGSEAL_PROGRAMS"] = pathlib.Path(program).name
    if keys:
        environment["PGSEAL_KEYS_FD"] = str(keys)
    try:
        done = subprocess.run(
            [program, *arguments], cwd=cwd, env=environment, capture_output=True, text=True,
            timeout=timeout, check=False, pass_fds=[keys] if keys else [],
        )
    finally:
        if keys:
            os.close(keys)
    if done.returncode != 0:
        raise AssertionError(f"{program} exits with {done.returncode}: {done.stdout[-500:]}"
                             f"{done.stderr[-2000:]}")
    return done.stdout, done.stderr


def lines(transcript):
    """The transcript by label; labels are unique."""
    found = {}
    for line in transcript.splitlines():
        label, _, value = line.partition(": ")
        if label in found:
            raise AssertionError(f"two lines are labelled {label}")
        found[label] = value
    return found


def differences(native, sealed):
    """{label: (native, sealed)} of the lines that differ."""
    native, sealed = lines(native), lines(sealed)
    labels = list(native) + [label for label in sealed if label not in native]
    return {label: (native.get(label), sealed.get(label)) for label in labels
            if native.get(label) != sealed.get(label)}
