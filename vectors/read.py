#!/usr/bin/env python3
"""An independent reader of pgseal's formats: says whether each vector beside it holds.

Written from docs/format/*.md; calls none of pgseal's code. Needs Debian's packages python3-cryptography
and python3-argon2.
A group of vectors, such as "bytes" in files.json, is checked by the function files_bytes.
"""
import hashlib, json, pathlib, re, struct, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_der_public_key
sys.dont_write_bytecode = True
import encdb
import notes
from key_file import Refused, argon2id, mac, open_key_file, pbkdf2
from sealed_files import File, classify, expand, file_key, info, keystream, mask, xts
from sealing import gcm_open, hpke_receiver, hpke_sender, siphash, siv_open, siv_seal

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

def pbkdf2_cases(v):
    b = {k: bytes.fromhex(x) for k, x in v.items() if isinstance(x, str)}
    kek, nonce = pbkdf2(b["secret"], b["salt"], v["iterations"]), b["wrapped"][-12:]
    wrapped = AESGCM(kek).encrypt(nonce, b["plain"], b["aad"]) + nonce
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

def told(v, reader, *arguments):
    """The result that the vector names, and what was read if it holds."""
    result, found = result_of(reader, *arguments)
    return (result, found) == (v["result"], v.get("read"))

def receiver_list_cases(v):
    return told(v, notes.receiver_list, *unhex(v, "master", "file"))

def receiver_list_ids(v):
    return notes.token_id(v["token"]).hex() == v["id"]

def slot_notes_cases(v):
    return told(v, notes.slot_notes, *unhex(v, "master", "file"))

def recovery_sheet_cases(v):
    result, payload = result_of(notes.recover, ["\n".join(page) for page in v["pages"]])
    return result == v["result"] and (payload is None or payload.decode() == v["payload"])

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

# wal_log_hints, xlog_seg_size, data_checksum_version and the CRC, by pg_control_version.
CONTROL_OFFSETS = {1300: (176, 228, 252, 288), 1700: (176, 228, 252, 288), 1800: (176, 228, 252, 292), 1905: (184, 240, 268, 308)}

def control_error(page):
    version = struct.unpack_from("<I", page, 8)[0]
    at = CONTROL_OFFSETS.get(version, (None,))[-1]
    if at is None:
        return "Version"
    return None if crc32c(page[:at]) == struct.unpack_from("<I", page, at)[0] else "Checksum"

STATES = ("Startup", "ShutDown", "ShutDownInRecovery", "ShuttingDown", "InCrashRecovery", "InArchiveRecovery", "InProduction")

def control_cases(v):
    page = bytes.fromhex(v["page"])
    hints, segment, checksums, _ = CONTROL_OFFSETS[v["version"]]
    fields = sum((struct.unpack_from(form, page, at) for form, at in (("<QII", 0), ("<Q", 32), ("<I", 48), ("<I", segment))), ())
    names = "system_id", "version", "catalog_version", "checkpoint", "timeline", "wal_segment_size"
    state = STATES[struct.unpack_from("<I", page, 16)[0]]
    flags = page[checksums : checksums + 4] != bytes(4), page[hints] != 0
    return (control_error(page) is None and fields == tuple(v[name] for name in names)
            and state == v["state"] and flags == (v["data_checksums"], v["wal_log_hints"]))

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

def unhex(v, *names):
    return [bytes.fromhex(v[name]) for name in names]

def result_of(step, *arguments):
    try:
        return "holds", step(*arguments)
    except Refused as refused:
        return str(refused), None

def primitives_siv(v):
    key, nonce, ad, plain, sealed, tag = unhex(v, "key", "nonce", "ad", "plain", "sealed", "tag")
    return siv_seal(key, nonce, ad, plain) == (tag, sealed) and siv_open(key, nonce, ad, tag, sealed) == plain

def primitives_gcm(v):
    key, nonce, plain, sealed, tag = unhex(v, "key", "nonce", "plain", "sealed", "tag")
    return gcm_open(key, nonce, tag, sealed) == plain

def primitives_signatures(v):
    seed, message = unhex(v, "seed", "message")
    return encdb.public(seed).hex() == v["public"] and encdb.sign(seed, b"", message)[-64:].hex() == v["signature"]

def primitives_exchange(v):
    private, ephemeral, receiver, info, context = unhex(v, "private", "ephemeral", "public", "info", "context")
    encapsulated, sender = hpke_sender(ephemeral, receiver, info, v["aead"])
    other = hpke_receiver(private, encapsulated, info, v["aead"])
    sealed = all(sender.seal(ad, plain) == cipher and other.open(ad, cipher) == plain
                 for ad, plain, cipher in (unhex(m, "ad", "plain", "sealed") for m in v["messages"]))
    exports = {end.export(context).hex() for end in (sender, other)}
    return sealed and encapsulated.hex() == v["encapsulated"] and exports == {v["exported"]}

def primitives_prf(v):
    key, data = unhex(v, "key", "data")
    return f"{siphash(key, data):016x}" == v["hash"]

def primitives_expand(v):
    key, stated, out = unhex(v, "key", "info", "out")
    return expand(key, stated, len(out)) == out

def primitives_digests(v):
    return hashlib.sha384(bytes.fromhex(v["data"])).hexdigest() == v["sha384"]

def primitives_foreign(v):
    """A signature that does not hold raises."""
    key, message, signature = unhex(v, "key", "message", "signature")
    if v["scheme"] == "RsaPss":
        pss = padding.PSS(padding.MGF1(hashes.SHA384()), salt_length=48)
        load_der_public_key(key).verify(signature, message, pss, hashes.SHA384())
        return True
    curve, digest = (ec.SECP256R1(), hashes.SHA256()) if v["scheme"] == "P256" else (ec.SECP384R1(), hashes.SHA384())
    if v["scheme"] == "P384Fixed":
        signature = utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in (signature[:48], signature[48:])))
    ec.EllipticCurvePublicKey.from_encoded_point(curve, key).verify(signature, message, ec.ECDSA(digest))
    return True

def cell_cases(v):
    key, cell = unhex(v, "key", "cell")
    result, plain = result_of(encdb.open_cell, cell, key)
    return result == v["result"] and (plain is None or plain.hex() == v["plain"])

def cell_sealed(v):
    key, plain = unhex(v, "key", "plain")
    nonce = bytes.fromhex(v["nonce"]) if "nonce" in v else None
    return encdb.seal_cell(key, v["type"], v["mode"], plain, nonce).hex() == v["cell"]

def cell_keyless(v):
    candidates = [i.to_bytes(4, end, signed=True) for i in range(-500, 501) for end in ("little", "big")] + [b""]
    return [c.hex() for c in encdb.keyless(bytes.fromhex(v["cell"]), candidates)][:1] == v["found"]

def cell_hashes(v):
    master, canonical = unhex(v, "master", "canonical")
    return f"{encdb.value_hash(master, v['type'], canonical, v['seed']):016x}" == v["hash"]

def cell_tokens(v):
    return f"{encdb.token(bytes.fromhex(v['master']), v['kind'], v['part']):016x}" == v["token"]

def datakey_cases(v):
    master, owner, wrapped = unhex(v, "master", "owner", "wrapped")
    result, key = result_of(encdb.unwrap, master, owner, v["keyname"], wrapped)
    return result == v["result"] and (key is None or key.hex() == v["key"])

def datakey_owners(v):
    master, signing = unhex(v, "master", "signing")
    owner = encdb.public(signing)
    return (owner.hex(), encdb.owner_id(master, owner).hex()) == (v["owner"], v["id"])

def grant_cases(v):
    owner, grant = unhex(v, "owner", "grant")
    revoked = [bytes.fromhex(serial) for serial in v.get("revoked", [])]
    return result_of(encdb.verify_grant, grant, owner, v["now"], revoked)[0] == v["result"]

def grant_revocations(v):
    owner, listed = unhex(v, "owner", "list")
    result, serials = result_of(encdb.verify_revocations, listed, owner)
    return result == v["result"] and (serials is None or [s.hex() for s in serials] == v["serials"])

def identity_lists(v):
    signer, listed, signature = unhex(v, "signer", "list", "signature")
    result, databases = result_of(encdb.owners_list, signer, listed, signature)
    return result == v["result"] and databases == v.get("databases")

def message_sessions(v):
    b = {k: bytes.fromhex(x) if isinstance(x, str) and k not in ("name", "result") else x for k, x in v.items()}
    report, evidence = encdb.evidence_message(b)
    result, opened = result_of(encdb.open_session, b, evidence, b["open"])
    if (report, evidence, result) != (b["report_data"], b["offer"], v["result"]):
        return False
    if not opened:
        return True
    terms, exchange = opened
    session = encdb.Session(exchange)
    same = session.seal(4, 0, encdb.le(8, v["until"])) == b["opened"]
    handed = [terms[k].hex() for k in ("master", "owner", "client")] == [v[k] for k in ("master", "owner", "client")]
    return same and handed and all(message_command(session, c) for c in v["commands"])

def message_command(session, c):
    result, counter = result_of(session.command, bytes.fromhex(c["message"]))
    reply = None if counter is None else session.reply(counter, bytes.fromhex(c["content"])).hex()
    return (result, reply) == (c["result"], c.get("reply"))

def evidence_reports(v):
    """The report is signed with the certificate's key, and says what the vector says."""
    folder = HERE / "attestation"
    report = (folder / v["report"]).read_bytes()
    key = x509.load_der_x509_certificate((folder / v["certificate"]).read_bytes()).public_key()
    r, s = (int.from_bytes(report[at : at + 72], "little") for at in (0x2A0, 0x2E8))
    key.verify(utils.encode_dss_signature(r, s), report[:0x2A0], ec.ECDSA(hashes.SHA384()))
    said = report[0x50:0x90], report[0x90:0xC0], report[0x1A0:0x1E0], report[0x180:0x188]
    names = "report_data", "measurement", "chip", "tcb"
    return [one.hex() for one in said] == [v[name] for name in names]

def evidence_quotes(v):
    quote = (HERE / "attestation" / v["quote"]).read_bytes()
    registers = [quote[at : at + 48].hex() for at in range(376, 568, 48)]
    said = quote[568:632].hex(), quote[184:232].hex(), registers
    return said == (v["report_data"], v["mrtd"], v["rtmr"])

def audit_log_logs(v):
    """docs/format/audit-log.md: each line ends in a hash over the one before it and its own text."""
    lines = v["lines"][:-1] if v.get("torn") else v["lines"]
    head = bytes(32)
    for number, line in enumerate(lines, 1):
        text, chain = line[: -len(',"chain":""}') - 64], line[-66:-2]
        head = hashlib.sha256(b"pgseal audit log 1\0" + head + text.encode()).digest()
        if json.loads(line)["record"] != number or chain != head.hex():
            return v.get("broken") == number
    return (v.get("records"), v.get("head")) == (len(lines), head.hex())

def docs_examples():
    """Hexadecimal numbers of 8 digits and more in docs/format that no vector holds."""
    known = "".join(path.read_text() for path in HERE.glob("*.json"))
    for path in sorted((HERE.parent / "docs" / "format").glob("*.md")):
        for digits in re.findall(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,}\b", path.read_text()):
            if digits not in known:
                yield f"{path.name}: {digits}"

def main():
    passed, wrong = 0, [f"{example} is in no vector" for example in docs_examples()]
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
