#!/usr/bin/python3
"""Usage: fuzz/seeds.py DIR

Writes what the fuzzers begin from into DIR/TARGET: the vectors' key files (without magic, length and MAC, which the target
adds), tokens, pages and paths, cells, grants and messages, some replication commands, some values and requests,
evidence of hardware and policies, traffic of a driver and its server.
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
# A URI of each provider, and a message of KMIP: the examples of its specification in one structure.
PROVIDERS = [
    b"vault://h:8200/transit/k?auth=approle&role-id-file=/r&secret-id-file=%2Fs", b"pkcs11:token=a%3Bb;object=c?pin-source=file:/p",
    b"kmip://h/1-2?ca=/c", b"awskms://alias/db?region=r", b"gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k", b"tpm:?pcrs=0,7",
    b"azurekms://v.vault.azure.net/k/0f", b"tpm:?pin-value=1",
    bytes.fromhex("4200200100000038" "42000405000000040000ff0000000000" "420020070000000b48656c6c6f20576f726c640000000000"
                  "42002008000000030102030000000000"),
]
# The number of a type, then a value of it as bytes or as text; a text and a pattern.
VALUES = [
    bytes([0x0d]) + bytes.fromhex("0003000140000004000122100bb8"), b"\x0d-12345678.9e-3", b"\x0c0x1.8p-1074", b"\x0b1e-45",
    b"\x11Sat Feb 29 2024 12:34:56.789 pm +05:30 BC", b"\x0fy2024m02d29", b"\x10J2451545.25", b"\x12{" + b"0123" * 8 + b"}",
    b"\x13\\x00ff", b"\x39a\\%b|_%\\\\%e", bytes([0x0d, 2, 0x0d]) + bytes(8) + bytes.fromhex("00020000000100000039300a00"),
]


def step(is_driver, *messages):
    """Bytes of one side, as fuzz_targets/relay.rs splits its input."""
    data = b"".join(tag + (len(body) + 4).to_bytes(4, "big") + body for tag, body in messages)
    pieces = [data[at:at + 127] for at in range(0, len(data), 127)]
    return b"".join(bytes([len(piece) << 1 | (not is_driver)]) + piece for piece in pieces)


READY = (b"Z", b"I")
ENC_TEXT = (70001).to_bytes(4, "big")
DESCRIPTION = (b"T", b"\0\1c\0" + bytes(6) + ENC_TEXT + b"\xff\xff" + b"\xff" * 4 + b"\0\0")
TRAFFIC = [
    step(True, (b"Q", b"SELECT c FROM t WHERE c = 'ada' AND n IN (1, 2)\0"))
    + step(False, DESCRIPTION, (b"D", b"\0\1\0\0\0\x08\\x616461"), (b"C", b"SELECT 1\0"), READY),
    step(True, (b"P", b"s\0INSERT INTO t (c, n) VALUES ($1, $2)\0\0\0"), (b"B", b"\0s\0\0\0\0\2\0\0\0\1x\0\0\0\1" b"7\0\0"),
         (b"D", b"P\0"), (b"E", b"\0\0\0\0\0"), (b"C", b"Ss\0"), (b"S", b""))
    + step(False, (b"1", b""), (b"t", b"\0\2" + ENC_TEXT + b"\0\0\0\x17"), (b"n", b""), (b"2", b""), (b"n", b""), (b"C", b"INSERT 0 1\0"),
           (b"3", b""), READY),
    step(True, (b"Q", b"COPY t (x, c, a) FROM STDIN (FORMAT csv)\0")) + step(False, (b"G", b"\0\0\3" + bytes(6)))
    + step(True, (b"d", b'1,"a ""b""",{"x",NULL}\n'), (b"d", b"2,,\n"), (b"c", b"")) + step(False, (b"C", b"COPY 2\0"), READY),
    step(True, (b"Q", b"COPY (SELECT c, 1 FROM t) TO STDOUT\0"))
    + step(False, (b"H", b"\0\0\2" + bytes(4)), (b"d", b"\\\\x616461\t1\n"), (b"c", b""), (b"C", b"COPY 1\0"), READY),
    # The login, and the server's process, which a session asks for first.
    step(False, (b"R", bytes(4)), (b"K", b"\0\0\0\7" + bytes(4)), (b"S", b"TimeZone\0UTC\0"), READY, (b"1", b""), (b"2", b""),
         (b"T", b"\0\1pid\0" + bytes(6) + b"\0\0\0\x17\0\4" + b"\xff" * 4 + b"\0\1"), (b"D", b"\0\1\0\0\0\4\0\0\0\7"),
         (b"C", b"SELECT 1\0"), READY),
    step(True, (b"Q", b"BEGIN\0")) + step(False, (b"C", b"BEGIN\0"), (b"Z", b"T")) + step(True, (b"Q", b"DELETE FROM t WHERE n > 5\0"))
    + step(False, (b"E", b"SERROR\0CPE009\0Mx\0\0"), (b"Z", b"E"), (b"C", b"ROLLBACK\0"), READY),
]


def cases(name, group):
    return json.loads((VECTORS / f"{name}.json").read_text())[group]


def seeds():
    """(target, bytes) of every seed."""
    for case in cases("keyfile", "cases"):
        yield "key_file", bytes.fromhex(case["file"])[MAGIC_AND_LENGTH:-MAC]
    for name in ("receiver_list", "slot_notes"):  # without magic, format, key id and MAC, which the targets add
        for case in cases(name, "cases"):
            yield name, bytes.fromhex(case["file"])[26:-MAC]
    for provider in PROVIDERS:
        yield "providers", provider
    for case in cases("recovery_sheet", "cases"):
        for page in case["pages"]:
            yield "recovery_sheet", "\n".join(page).encode()
    for case in cases("receiver", "cases"):
        yield "records", case["token"].encode()
    for case in cases("control", "cases"):
        yield "records", bytes.fromhex(case["page"])
    for case in cases("files", "classes"):
        yield "names", case["path"].encode()
    for command in COMMANDS:
        yield "replication_command", command.encode()
    for traffic in TRAFFIC:
        yield "relay", traffic
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
