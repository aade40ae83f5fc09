#!/usr/bin/env python3
"""An independent reader of pgseal's formats: says whether each vector beside it holds.

Written from docs/format/*.md; calls none of pgseal's code. Needs Debian's packages python3-cryptography
and python3-argon2.
A group of vectors, such as "bytes" in files.json, is checked by the function files_bytes.
"""
import hashlib, json, pathlib, re, struct, sys
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
sys.dont_write_bytecode = True
from key_file import Refused, argon2id, mac, open_key_file
from sealed_files import File, classify, expand, file_key, info, keystream, mask, xts

HERE = pathlib.Path(__file__).parent

def pattern(length):
    return bytes((31 * i + 7) % 256 for i in range(length))

def identity(v):
    layouts = {1: ">IIBI", 2: ">IIIBI", 3: ">Q"}
    names = "backend", "database", "relation", "fork", "segment", "epoch"
    fields = [v[k] for k in names if k in v]
    return struct.pack(layouts[v["class"]], *fields) if v["class"] < 4 else v["path"].encode()

def content(desc):
    [(kind, value)] = desc.items()
    return {"hex": bytes.fromhex, "pattern": pattern, "zeros": bytes}[kind](value)

def stored_and_clear(v):
    """The image that the case's writes give, its edits done, and what that reads as."""
    file = File(v["path"], v["keybits"], v.get("segment_size"))
    clear, written = bytearray(v["size"]), set()
    for at, desc in v["writes"]:
        data = content(desc)
        clear[at : at + len(data)] = data
        last = (at + len(data) - 1) // file.granule
        written |= set(range(at // file.granule, last + 1))
    stored = bytearray(file.seal(bytes(clear), written))
    for edit in v.get("edits", []):
        at, n = edit.get("at", 0), edit.get("length", 0)
        if edit["do"] == "zero":
            stored[at : at + n] = bytes(n)
        elif edit["do"] == "flip":
            stored[at] ^= edit["bits"]
        elif edit["do"] == "copy":
            stored[edit["to"] : edit["to"] + n] = stored[at : at + n]
        else:  # resize
            stored = stored[:n] + bytes(max(0, n - len(stored)))
    return bytes(stored), file.open(bytes(stored)), bytes(clear)

def check_page_ends(v, stored):
    ends = stored[:32].hex(), stored[-32:].hex(), hashlib.sha256(stored).hexdigest()
    return ends == (v["cipher_first"], v["cipher_last"], v["cipher_sha256"])

def file_of(v, purpose):
    return file_key(bytes.fromhex(v["master"]), purpose, v["keybits"], v["class"], identity(v))

def derive_files(v):
    label = info(v["purpose"], v["keybits"], v["class"], identity(v))
    return label.hex() == v["info"] and file_of(v, v["purpose"]).hex() == v["key"]

def derive_cluster(v):
    label = info(v["purpose"])
    key = expand(bytes.fromhex(v["master"]), label, len(v["key"]) // 2)
    return label.hex() == v["info"] and key.hex() == v["key"]

def xts_standard(v):
    return xts(*(bytes.fromhex(v[k]) for k in ("key", "tweak", "plain"))).hex() == v["cipher"]

def xts_composed(v):
    key, tweak = bytes.fromhex(v["key"]), struct.pack("<QQ", v["unit"], 0)
    return check_page_ends(v, xts(key, tweak, pattern(v["length"])))

def xts_pages(v):
    tweak = struct.pack("<QQ", v["unit"], 0)
    return check_page_ends(v, xts(file_of(v, 1), tweak, pattern(v["length"])))

def tail_cases(v):
    return mask(file_of(v, 2), v["block"], len(v["mask"]) // 2).hex() == v["mask"]

def keystream_cases(v):
    return keystream(file_of(v, 9), v["offset"], len(v["stream"]) // 2).hex() == v["stream"]

def mac_cases(v):
    master, data = bytes.fromhex(v["master"]), bytes.fromhex(v["data"])
    macs = expand(master, info(4), 16), mac(master, 5, data)[:16], mac(master, 6, data)
    return [m.hex() for m in macs] == [v["key_id"], v["bind"], v["key_file"]]

def passphrase_cases(v):
    b = {k: bytes.fromhex(x) for k, x in v.items() if isinstance(x, str)}
    kek = argon2id(b["passphrase"], b["salt"], v["memory_kib"], v["passes"], v["lanes"])
    wrapped = AESGCM(kek).encrypt(bytes(12), b["plain"], b["aad"])
    return (kek, wrapped) == (b["kek"], b["wrapped"])

def keyfile_cases(v):
    try:
        open_key_file(v)
        result = "opens"
    except Refused as refused:
        result = str(refused)
    named = "found" not in v or v["found"] == v.get("key_id", v["found"])
    return result == v["result"] and named

def receiver_result(v):
    spelling = re.fullmatch(r"v1\.(0|[1-9]\d*)\.(.+)\.([0-9a-f]{32})", v["token"], re.A | re.S)
    if not spelling or int(spelling[1]) >= 1 << 64:
        return "malformed"
    expiry, role, tag = int(spelling[1]), spelling[2], bytes.fromhex(spelling[3])
    grant = b"clear-pages\0" + struct.pack(">QQ", v["system_id"], expiry) + role.encode()
    if mac(bytes.fromhex(v["master"]), 7, grant)[:16] != tag:
        return "foreign"
    return "other role" if role != v["role"] else "expired" if v["now"] >= expiry else "holds"

def receiver_cases(v):
    return receiver_result(v) == v["result"]

def files_classes(v):
    c = classify(v["path"], v.get("segment_size"))
    keys = ("class", "root", "layout", "id_class", "id", "first_unit")
    found = dict(zip(keys, c[:4] + (c[4].hex(),) + c[5:] if len(c) > 1 else c))
    return found == {k: v[k] for k in keys if k in v}

def spots(image, wanted):
    return all(image[at : at + len(text) // 2].hex() == text for at, text in wanted)

def files_bytes(v):
    stored, clear, written = stored_and_clear(v)
    same = "edits" in v or clear == written
    return (same and spots(stored, v["stored"]) and spots(clear, v["reads"])
            and hashlib.sha256(stored).hexdigest() == v["stored_sha256"]
            and hashlib.sha256(clear).hexdigest() == v["clear_sha256"])

def control_error(page):
    version = struct.unpack_from("<I", page, 8)[0]
    at = {1300: 288, 1700: 288, 1800: 292}.get(version)
    if at is None:
        return "Version"
    return None if crc32c(page[:at]) == struct.unpack_from("<I", page, at)[0] else "Checksum"

def control_cases(v):
    page = bytes.fromhex(v["page"])
    fields = struct.unpack_from("<QII", page) + struct.unpack_from("<I", page, 228)
    names = "system_id", "version", "catalog_version", "wal_segment_size"
    flags = page[252:256] != bytes(4), page[176] != 0
    return (control_error(page) is None and fields == tuple(v[name] for name in names)
            and flags == (v["data_checksums"], v["wal_log_hints"]))

def control_damaged(v):
    cases = json.loads((HERE / "control.json").read_text())["cases"]
    page = bytearray.fromhex(cases[v["of"]]["page"])
    page[v["at"]] = int(v["byte"], 16)
    return control_error(page) == v["error"]

def control_carried(v):
    cases = json.loads((HERE / "control.json").read_text())["cases"]
    file, clear = File("global/pg_control", v["keybits"]), bytes.fromhex(cases[v["of"]]["page"])
    stored = file.carry(clear, crc32c)
    whole = stored.rstrip(b"\0").hex() == v["stored"] and file.carry(stored, crc32c, True) == clear
    return whole and control_error(stored) is None and stored[:16] == clear[:16]

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

def docs_examples():
    """Hexadecimal numbers of 8 digits and more in docs/format that no vector holds."""
    known = "".join(path.read_text() for path in HERE.glob("*.json"))
    for path in sorted((HERE.parent / "docs" / "format").glob("*.md")):
        for digits in re.findall(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,}\b", path.read_text()):
            if digits not in known:
                yield f"{path.name}: {digits}"

def main():
    passed, wrong = 0, [f"{example} stands in no vector" for example in docs_examples()]
    for path in sorted(HERE.glob("*.json")):
        vectors = json.loads(path.read_text())
        for group in (group for group, cases in vectors.items() if isinstance(cases, list)):
            check = globals()[f"{path.stem}_{group}"]
            for number, v in enumerate(vectors[group]):
                what = v.get("name", v.get("path", ""))
                if check(v):
                    passed += 1
                else:
                    wrong.append(f"{path.name}: {group}[{number}] {what}: wrong")
    for line in wrong:
        print(line)
    print(f"{passed} passed, {len(wrong)} failed")
    return bool(wrong)

if __name__ == "__main__":
    raise SystemExit(main())
