#!/usr/bin/python3
"""Usage: fuzz/seeds.py DIR

Writes what the fuzzers begin from into DIR/TARGET: the vectors' key files (without magic, length and MAC, which the target
adds), tokens, pages and paths, and some replication commands.
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
