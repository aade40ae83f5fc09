#!/usr/bin/python3
"""Usage: fuzz/seeds.py DIR

Writes what the fuzzers begin from into DIR/TARGET: the vectors' key files (without magic, length and MAC, which the target
adds), tokens, pages and paths, cells, grants and messages, some replication commands, some values and requests,
evidence of hardware and policies.
"""

import hashlib
import json
import pathlib
import sys

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "vectors"
MAGIC_AND_LENGTH, MAC = 12, 32
COMMANDS = [
    "START_REPLICATION 0/1000000 TIMELINE 1",
    'START_REPLICATION SLOT "a" PHYSICAL 0/1000000',
    "START_REPLICATION SLOT a LOGICAL 0/0 (proto_version '1')",
    "BASE_BACKUP ( LABEL 'a', VERIFY_CHECKSUMS false, TARGET 'client', MANIFEST 'yes' )",
    "BASE_BACKUP (INCREMENTAL 'false', TARGET \"server\", TARGET_DETAIL '/x')",
    "IDENTIFY_SYSTEM",
]
# The number of a type, then a value of it as bytes or as text; a text and a pattern.
VALUES = [
    bytes([0x0d]) + bytes.fromhex("0003000140000004000122100bb8"), b"\x0d-12345678.9e-3", b"\x0c0x1.8p-1074", b"\x0b1e-45",
    b"\x11Sat Feb 29 2024 12:34:56.789 pm +05:30 BC", b"\x0fy2024m02d29", b"\x10J2451545.25", b"\x12{" + b"0123" * 8 + b"}",
    b"\x13\\x00ff", b"\x39a\\%b|_%\\\\%e", bytes([0x0d, 2, 0x0d]) + bytes(8) + bytes.fromhex("00020000000100000039300a00"),
]


def cases(name, group):
    return json.loads((VECTORS / f"{name}.json").read_text())[group]


def seeds():
    """(target, bytes) of every seed."""
    for case in cases("keyfile", "cases"):
        yield "key_file", bytes.fromhex(case["file"])[MAGIC_AND_LENGTH:-MAC]
    for case in cases("receiver", "cases"):
        yield "records", case["token"].encode()
    for case in cases("control", "cases"):
        yield "records", bytes.fromhex(case["page"])
    for case in cases("files", "classes"):
        yield "names", case["path"].encode()
    for command in COMMANDS:
        yield "replication_command", command.encode()
    for value in VALUES:
        yield "values", value
    for case in cases("cell", "cases"):
        yield "cell", bytes.fromhex(case["cell"])
    for case in cases("datakey", "cases"):
        yield "cell", bytes.fromhex(case["wrapped"])
    for case in cases("grant", "cases"):
        yield "grant", bytes.fromhex(case["grant"])
    for case in cases("grant", "revocations"):
        yield "grant", bytes.fromhex(case["list"])
    for case in cases("message", "sessions"):
        for name in ("hello", "offer", "open"):
            yield "message", bytes.fromhex(case[name])
    folder = VECTORS / "attestation"
    report = (folder / "milan-report.bin").read_bytes() + (folder / "milan-vcek.der").read_bytes()
    yield "evidence", b"\1" + report
    yield "evidence", b"\2" + (folder / "tdx-v4-quote.bin").read_bytes()
    minted = json.loads((folder / "minted.json").read_text())
    yield "evidence", b"\3" + bytes.fromhex(minted["nitro"]["cases"][0]["evidence"])
    for kind in ("snp", "nitro", "tdx"):
        section = minted[kind][0] if kind == "snp" else minted[kind]
        yield "evidence", b"\4" + section["cases"][0]["policy"].encode()
    for opcode in range(0x50):  # what some requests and all kinds of responses look like
        for length in (0, 4, 12, 17, 20):
            yield "request", bytes([opcode] + [0] * length)
    for layout in range(8):  # one write, one cut, one read, of every layout
        yield "sealed_file", bytes([layout, 2, 5, 3, 0, 0, 33, 1, 9, 1, 5, 32, 0, 0, 0, 0, 0, 0, 0, 0, 64, 3, 0])


def main(directory):
    """Every seed is a file named by its hash, as the fuzzer names its own."""
    for target, seed in seeds():
        place = pathlib.Path(directory) / target
        place.mkdir(parents=True, exist_ok=True)
        (place / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main(sys.argv[1])
