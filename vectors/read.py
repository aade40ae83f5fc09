#!/usr/bin/env python3
"""An independent reader of pgseal's formats: says whether each vector beside it holds.

Written from docs/format/*.md; calls none of our code. Needs the `cryptography` package.
Layers as in the documents: keys, cipher, classes of files, stored files, key file.
"""
import hashlib, hmac, json, pathlib, re, struct
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

PAGE, BLOCK, HERE = 8192, 16, pathlib.Path(__file__).parent
FIRST_MASTER = bytes(range(32))

# --- keys.md ---------------------------------------------------------------------------------
def expand(master, info, length):
    return HKDFExpand(SHA256(), length, info).derive(master)

def info(purpose, keybits=0, file_class=0, name=b""):
    suite = 1 if file_class else 0
    return b"pgseal/1" + struct.pack(">BBHBB", purpose, suite, keybits, file_class, len(name)) + name

def key_length(purpose, keybits):
    return {1: keybits // 4, 2: 32, 4: 16, 9: keybits // 8}.get(purpose, 32)

def file_key(master, purpose, keybits, file_class, name):
    label, length = info(purpose, keybits, file_class, name), key_length(purpose, keybits)
    key = expand(master, label, length)
    if purpose == 1 and key[: length // 2] == key[length // 2 :]:
        key = expand(master, label + b"\1", length)
    return key

def identity(v):
    layouts = {1: ">IIBI", 2: ">IIIBI", 3: ">Q"}
    fields = [v[k] for k in ("backend", "database", "relation", "fork", "segment", "epoch") if k in v]
    return struct.pack(layouts[v["class"]], *fields) if v["class"] < 4 else v["path"].encode()

# --- files.md: the cipher ----------------------------------------------------------------------
def aes(key, mode, data):
    run = Cipher(algorithms.AES(key), mode).encryptor()
    return run.update(data)

def xts(key, tweak, data, decrypt=False):
    if len(key) != 48:
        cipher = Cipher(algorithms.AES(key), modes.XTS(tweak))
        return (cipher.decryptor() if decrypt else cipher.encryptor()).update(data)
    cipher = Cipher(algorithms.AES(key[:24]), modes.ECB())  # AES-192: XTS put together
    t, masks = int.from_bytes(aes(key[24:], modes.ECB(), tweak), "little"), b""
    for _ in range(len(data) // BLOCK):
        masks += t.to_bytes(BLOCK, "little")
        t = (t << 1) ^ (0x87 | 1 << 128 if t >> 127 else 0)
    run = cipher.decryptor() if decrypt else cipher.encryptor()
    return xor(run.update(xor(data, masks)), masks)

def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))

def mask(key, block, length):
    return aes(key, modes.ECB(), struct.pack("<QII", block, length, 0))[:length]

def keystream(key, offset, length):
    start = offset // BLOCK
    zeros = bytes(offset % BLOCK + length)
    return aes(key, modes.CTR(start.to_bytes(BLOCK, "big")), zeros)[offset % BLOCK :]

def pattern(length):
    return bytes((31 * i + 7) % 256 for i in range(length))

# --- files.md: classes ---------------------------------------------------------------------------
OID = r"(?:0|[1-9][0-9]*)"
SPC = rf"pg_tblspc/{OID}/PG_{OID}_{OID}/"
DIR = rf"(?:(?:base/|{SPC})(?P<db>{OID})|(?P<shared>global))/"
MOVED = rf"(?:base/|{SPC})moved_for_upgrade/(?P<db>{OID})(?:_old_catalogs)?/"
REL = rf"(?P<rel>{OID})(?:_(?P<fork>fsm|vm|init))?(?:\.(?P<segment>[1-9][0-9]*))?"
SLRU = r"(?:pg_(?:xact|multixact/(?:offsets|members)|subtrans|commit_ts|serial|notify))/[0-9A-F]{4,16}"
CLEAR = (rf"(?:base/|{SPC}){OID}/PG_VERSION|{DIR}pg_(?:filenode\.map(?:\.tmp)?|internal\.init[^/]*)|"
         r"pg_wal/(?:RECOVERYHISTORY|[^/]*\.history|[^/]*\.backup|archive_status/[^/]*)|"
         r"pg_logical/replorigin_checkpoint(?:\.tmp)?|pg_replslot/[^/]*/state(?:\.tmp)?|pg_snapshots/[^/]*|"
         r"(?:pg_log|pg_upgrade_output\.d)/.*")
EPHEMERAL = rf"(?:base|{SPC[:-1]})/pgsql_tmp/.*|pg_replslot/[^/]*/[^/]*"

def classify(path, segment_size=None):
    """(class, root, layout, identity class, identity, first unit)"""
    def sealed(layout, root="cluster", number=5, name=None, unit=0):
        return "sealed", root, layout, number, path.encode() if name is None else name, unit
    def matches(regex):
        return re.fullmatch(regex, path, re.DOTALL)
    if path.startswith("pg_encryption/"):
        return ("key directory",)
    if m := matches(DIR + r"(?:t(?P<backend>" + OID + ")_)?" + REL) or matches(MOVED + REL):
        v = m.groupdict()
        backend = [int(v["backend"])] if v.get("backend") else []
        numbers = [int(v["db"] or 0), int(v["rel"]), [None, "fsm", "vm", "init"].index(v["fork"]), int(v["segment"] or 0)]
        if max(backend + numbers) < 1 << 32 and not (backend and v["shared"]):
            name = struct.pack(">IIIBI" if backend else ">IIBI", *backend, *numbers)
            return sealed("pages", "ephemeral" if backend else "cluster", 2 if backend else 1, name)
    if m := matches(r"pg_wal/[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})(?:\.partial)?"):
        start = (int(m[1], 16) << 32) + int(m[2], 16) * segment_size
        return sealed("wal", number=3, name=struct.pack(">Q", start >> 40), unit=start // PAGE)
    if matches(CLEAR):
        return ("clear",)
    if matches(r"pg_wal/RECOVERYXLOG"):
        return ("restored WAL",)
    if matches(r"pg_wal/xlogtemp\.[^/]*"):
        return sealed("new wal", "ephemeral")
    if matches(r"pg_dynshmem/[^/]*"):
        return ("refused",)
    if matches(r"global/pg_control(\.old)?"):
        return sealed("control", name=b"global/pg_control")
    if matches(SLRU):
        return sealed("pages", number=4)
    if matches(r"pg_logical/mappings/[^/]*"):
        return sealed("keystream")
    if matches(EPHEMERAL):
        return sealed("stream", "ephemeral")
    if matches(r"pg_stat_tmp/.*"):
        return sealed("shared stream", "ephemeral")
    if matches(r"pg_wal/summaries/[^/]*"):
        return sealed("shared stream", name=b"pg_wal/summaries")
    if not matches(r"(?:base|global|pg_[^/]*|PG_[^/]*)/.*") or path in ("pg_hba.conf", "pg_ident.conf"):
        return ("clear",)
    name = re.sub(r"(?:(\.snap)\.\d+)?\.tmp$", r"\1", path)
    return sealed("shared stream", name=b"pg_stat/pgstat.stat" if path == "pg_stat/pgstat.tmp" else name.encode())

# --- files.md: stored files ------------------------------------------------------------------------
class File:
    """Turns the clear image of a file into the stored one and back."""
    def __init__(self, path, keybits, segment_size=None, master=FIRST_MASTER):
        _, _, self.layout, number, name, self.first = classify(path, segment_size)
        self.key, self.tail, self.stream = (file_key(master, p, keybits, number, name) for p in (1, 2, 9))
        self.granule = {"pages": PAGE, "keystream": 1}.get(self.layout, BLOCK)

    def convert(self, image, hole, decrypt):
        if self.layout == "keystream":
            return xor(image, keystream(self.stream, 0, len(image)))
        out, whole = b"", len(image) - len(image) % BLOCK
        for at in range(0, whole, PAGE):
            unit = struct.pack("<QQ", self.first + at // PAGE, 0)
            out += xts(self.key, unit, image[at : min(at + PAGE, whole)], decrypt)
        out += xor(image[whole:], mask(self.tail, whole // BLOCK, len(image) - whole))
        if self.layout == "control" and whole:
            out = image[:BLOCK] + out[BLOCK:]
        for at in range(0, len(image) - self.granule + 1, self.granule):
            if hole(at, image[at : at + self.granule]):
                out = out[:at] + bytes(self.granule) + out[at + self.granule :]
        return out

    def seal(self, clear, written):
        """`written`: numbers of the granules that are no holes."""
        def hole(at, granule):
            return at // self.granule not in written or (self.layout == "new wal" and not any(granule))
        return self.convert(clear, hole, False)

    def open(self, stored):
        return self.convert(stored, lambda _, granule: not any(granule), True)

def content(desc):
    return bytes.fromhex(desc["hex"]) if "hex" in desc else pattern(desc["pattern"]) if "pattern" in desc else bytes(desc["zeros"])

def stored_and_clear(v):
    """The image that the case's writes give, its edits done, and what that reads as."""
    file, clear, written = File(v["path"], v["keybits"], v.get("segment_size")), bytearray(v["size"]), set()
    for at, desc in v["writes"]:
        data = content(desc)
        clear[at : at + len(data)] = data
        written |= set(range(at // file.granule, (at + len(data) - 1) // file.granule + 1))
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

# --- key-file.md ---------------------------------------------------------------------------------------
class Refused(Exception):
    pass

def need(condition, result="damaged"):
    if not condition:
        raise Refused(result)

class Reader:
    def __init__(self, data):
        self.data = data
    def take(self, n):
        need(len(self.data) >= n)
        part, self.data = self.data[:n], self.data[n:]
        return part
    def number(self, n):
        return int.from_bytes(self.take(n), "little")

def read_slot(r):
    number, kind = r.number(1), None
    need(1 <= number <= 16)
    kind = r.number(1)
    params, blob = r.take(r.number(2)), r.take(r.number(2))
    need(kind != 0)
    need(kind <= 5, "unknown slot")
    need((kind != 1 or not params) and (kind != 5 or (not blob and params[:1] == b"/")))
    if kind in (3, 4):
        p = Reader(params)
        p.take(32)
        memory, passes, lanes = (p.number(4) for _ in range(3))
        limits = memory <= 4 << 20 and passes <= 64 and lanes <= 16
        need(limits and passes and lanes and memory >= 8 * lanes, "bad passphrase slot")
        need(bool(p.data) == (kind == 4))
    command = params if kind == 2 else params[44:] if kind == 4 else b"x"
    try:
        need(command.decode() and b"\0" not in command)
    except UnicodeDecodeError:
        raise Refused("damaged") from None
    return number, kind, params, blob

def read_key_file(data):
    """(bound header, keybits, key id, slots)"""
    need(data, "empty")
    need(len(data) <= 256 << 10, "too long")
    need(data[:8] == b"PGSEALKF" or b"PGSEALKF".startswith(data), "raw")
    need(len(data) >= 8 + 4 + 49 + 9 + 32, "truncated")
    length, version = struct.unpack_from("<IH", data, 8)
    need(version <= 1, "newer format")
    need(length >= len(data), "too long")
    need(length <= len(data), "truncated")
    bound, r = data[12:61], Reader(data[61:-32])
    version, suite, keybits, flags, _, key_id, _ = struct.unpack("<HBHI16s16sQ", bound)
    need(version == 1 and suite)
    need(suite == 1, "unknown suite")
    need(keybits in (128, 192, 256) and flags == 0)
    r.take(8)
    count = r.number(1)
    need(1 <= count <= 16)
    slots = {}
    for _ in range(count):
        number, *slot = read_slot(r)
        need(number not in slots)
        slots[number] = slot
    need(not r.data)
    return bound, keybits, key_id, slots

def unwrap(v, bound, kind, params, blob):
    if kind == 1:
        return blob
    if kind in (2, 5):
        return v["printed"].encode()
    memory, passes, lanes = struct.unpack("<III", params[32:44])
    kdf = Argon2id(salt=params[:32], length=32, iterations=passes, lanes=lanes, memory_cost=memory)
    try:
        return AESGCM(kdf.derive(bytes.fromhex(v["secret"]))).decrypt(bytes(12), blob, bound + bytes([kind]) + params)
    except InvalidTag:
        raise Refused("wrong secret") from None

def mac(master, purpose, data):
    return hmac.digest(expand(master, info(purpose), 32), data, "sha256")

def open_key_file(v):
    data = bytes.fromhex(v["file"]) + bytes(v.get("zeros_after", 0))
    bound, keybits, key_id, slots = read_key_file(data)
    payload = unwrap(v, bound, *slots[v["slot"]]).rstrip(b" \t\r\n\f")
    found = re.fullmatch(rb"pgsealk1([0-9a-f]{64})([0-9a-f]{32})", payload)
    need(found, "not a key")
    master, bind = bytes.fromhex(found[1].decode()), bytes.fromhex(found[2].decode())
    v["found"] = expand(master, info(4), 16).hex()
    need(v["found"] == key_id.hex(), "other key")
    need(mac(master, 5, bound)[:16] == bind, "header altered")
    need(mac(master, 6, data[:-32]) == data[-32:], "altered")
    need((master.hex(), v["found"], keybits) == (v["master"], v["key_id"], v["keybits"]), "opens another")

# --- the vectors -----------------------------------------------------------------------------------------
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
    return label.hex() == v["info"] and expand(bytes.fromhex(v["master"]), label, len(v["key"]) // 2).hex() == v["key"]

def xts_standard(v):
    return xts(*(bytes.fromhex(v[k]) for k in ("key", "tweak", "plain"))).hex() == v["cipher"]

def xts_composed(v):
    return check_page_ends(v, xts(bytes.fromhex(v["key"]), struct.pack("<QQ", v["unit"], 0), pattern(v["length"])))

def xts_pages(v):
    return check_page_ends(v, xts(file_of(v, 1), struct.pack("<QQ", v["unit"], 0), pattern(v["length"])))

def tail_cases(v):
    return mask(file_of(v, 2), v["block"], len(v["mask"]) // 2).hex() == v["mask"]

def keystream_cases(v):
    return keystream(file_of(v, 9), v["offset"], len(v["stream"]) // 2).hex() == v["stream"]

def mac_cases(v):
    master, data = bytes.fromhex(v["master"]), bytes.fromhex(v["data"])
    macs = expand(master, info(4), 16).hex(), mac(master, 5, data)[:16].hex(), mac(master, 6, data).hex()
    return macs == (v["key_id"], v["bind"], v["key_file"])

def passphrase_cases(v):
    b = {k: bytes.fromhex(x) for k, x in v.items() if isinstance(x, str)}
    kdf = Argon2id(salt=b["salt"], length=32, iterations=v["passes"], lanes=v["lanes"], memory_cost=v["memory_kib"])
    kek = kdf.derive(b["passphrase"])
    return kek == b["kek"] and AESGCM(kek).encrypt(bytes(12), b["plain"], b["aad"]) == b["wrapped"]

def keyfile_cases(v):
    try:
        open_key_file(v)
        result = "opens"
    except Refused as refused:
        result = str(refused)
    return result == v["result"] and v.get("found", v.get("key_id")) == v.get("key_id", v.get("found"))

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

def control_cases(v):
    page, version = bytes.fromhex(v["page"]), v["version"]
    at = 292 if version == 1800 else 288
    fields = struct.unpack_from("<QII", page) + struct.unpack_from("<I", page, 228)
    flags = page[252:256] != bytes(4), page[176] != 0
    return (crc32c(page[:at]) == struct.unpack_from("<I", page, at)[0] and flags == (v["data_checksums"], v["wal_log_hints"])
            and fields == (v["system_id"], version, v["catalog_version"], v["wal_segment_size"]))

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

def main():
    passed = failed = 0
    for path in sorted(HERE.glob("*.json")):
        vectors = json.loads(path.read_text())
        for group in (g for g, cases in vectors.items() if isinstance(cases, list)):
            check = globals().get(f"{path.stem}_{group}")
            if check is None:
                continue
            for number, v in enumerate(vectors[group]):
                ok = check(v)
                passed, failed = passed + ok, failed + (not ok)
                if not ok:
                    print(f"{path.name}: {group}[{number}] {v.get('name', v.get('path', ''))}: wrong")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0

if __name__ == "__main__":
    raise SystemExit(main())
