"""How files are named, keyed and stored: docs/format/keys.md and files.md, a second time.

A part of read.py; calls none of pgseal's code.
"""
import re, struct
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

PAGE, BLOCK, SECTOR, HEADER = 8192, 16, 512, 24

# --- keys
def expand(master, info, length):
    return HKDFExpand(SHA256(), length, info).derive(master)

def info(purpose, keybits=0, file_class=0, name=b""):
    suite = 1 if file_class else 0
    numbers = struct.pack(">BBHBB", purpose, suite, keybits, file_class, len(name))
    return b"pgseal/1" + numbers + name

def key_length(purpose, keybits):
    return {1: keybits // 4, 2: 32, 4: 16, 9: keybits // 8}.get(purpose, 32)

def file_key(master, purpose, keybits, file_class, name):
    label, length = info(purpose, keybits, file_class, name), key_length(purpose, keybits)
    key = expand(master, label, length)
    if purpose == 1 and key[: length // 2] == key[length // 2 :]:
        key = expand(master, label + b"\1", length)
    return key

# --- cipher
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

# --- classes
OID = r"(?:0|[1-9][0-9]*)"
SPC = rf"pg_tblspc/{OID}/PG_{OID}_{OID}/"
DIR = rf"(?:(?:base/|{SPC})(?P<db>{OID})|(?P<shared>global))/"
MOVED = rf"(?:base/|{SPC})moved_for_upgrade/(?P<db>{OID})(?:_old_catalogs)?/"
REL = rf"(?P<rel>{OID})(?:_(?P<fork>fsm|vm|init))?(?:\.(?P<segment>[1-9][0-9]*))?"
SLRU = r"pg_(?:xact|multixact/(?:offsets|members)|subtrans|commit_ts|serial|notify)/[0-9A-F]{4,16}"
OWN = (r"(?:base|global|PG_[^/]*|pg_(?:clog|commit_ts|dynshmem|logical|multixact|notify|replslot|serial|snapshots|stat|stat_tmp|"
       r"subtrans|tblspc|twophase|upgrade_output\.d|wal|xact|xlog))")
CLEAR = (rf"(?:base/|{SPC}){OID}/PG_VERSION|"
         rf"{DIR}pg_(?:filenode\.map(?:\.tmp)?|internal\.init[^/]*)|"
         rf"(?:base/|{SPC})moved_for_upgrade/[^/]*/(?:PG_VERSION|pg_filenode\.map[^/]*|pg_internal\.init[^/]*)|"
         r"pg_wal/(?:RECOVERYHISTORY|[^/]*\.history|[^/]*\.backup|archive_status/[^/]*)|"
         r"pg_logical/replorigin_checkpoint(?:\.tmp)?|pg_replslot/[^/]*/state(?:\.tmp)?|"
         r"pg_stat/repmgrd_state\.txt|"
         r"pg_snapshots/[^/]*|pg_log/.*|pg_upgrade_output\.d/(?![^/]*/dump/[^/]*$).*|pg_(?:hba|ident)\.conf")
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
        fork = [None, "fsm", "vm", "init"].index(v["fork"])
        numbers = [int(v["db"] or 0), int(v["rel"]), fork, int(v["segment"] or 0)]
        if max(backend + numbers) < 1 << 32 and not (backend and v["shared"]):
            name = struct.pack(">IIIBI" if backend else ">IIBI", *backend, *numbers)
            return sealed("pages", *(("ephemeral", 2) if backend else ("cluster", 1)), name)
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
    if not matches(rf"{OWN}/.*"):
        return ("clear",)
    name = "pg_stat/pgstat.stat" if path == "pg_stat/pgstat.tmp" else path
    name = re.sub(r"(?:(\.snap)\.[0-9]+)?\.tmp$", r"\1", name)
    name = re.sub(r"^pg_tblspc/[^/]*/", "", name)
    return sealed("shared stream", name=name.encode())

# --- stored files
def torn(stored, clear):
    """A page; if it is empty behind its header except sectors of stored zeros, these are zeros in clear, too."""
    sectors = [slice(at, at + SECTOR) for at in range(0, PAGE, SECTOR)]
    rest = b"".join(clear[sector] if any(stored[sector]) else bytes(SECTOR) for sector in sectors)
    return clear if any(rest[HEADER:]) else rest

class File:
    """Turns the clear image of a file into the stored one and back."""
    def __init__(self, path, keybits, segment_size=None, master=bytes(range(32))):
        _, _, self.layout, number, name, self.first = classify(path, segment_size)
        keys = (file_key(master, purpose, keybits, number, name) for purpose in (1, 2, 9))
        self.key, self.tail, self.stream = keys
        self.granule = {"pages": PAGE, "keystream": 1}.get(self.layout, BLOCK)

    def convert(self, image, hole, decrypt):
        if self.layout == "keystream":
            return xor(image, keystream(self.stream, 0, len(image)))
        out, whole = b"", len(image) - len(image) % BLOCK
        for at in range(0, whole, PAGE):
            unit = struct.pack("<QQ", self.first + at // PAGE, 0)
            out += xts(self.key, unit, image[at : min(at + PAGE, whole)], decrypt)
        tail = image[whole:]
        out += xor(tail, mask(self.tail, whole // BLOCK, len(tail)))
        if self.layout == "control" and whole:
            out = image[:BLOCK] + out[BLOCK:]
        for at in range(0, len(image) - self.granule + 1, self.granule):
            if hole(at, image[at : at + self.granule]):
                out = out[:at] + bytes(self.granule) + out[at + self.granule :]
        return out

    def seal(self, clear, written):
        """`written`: numbers of the granules that are no holes."""
        def hole(at, granule):
            kept = self.layout == "new wal" and not any(granule)
            return kept or at // self.granule not in written
        return self.convert(clear, hole, False)

    def open(self, stored):
        clear = self.convert(stored, lambda _, granule: not any(granule), True)
        for at in range(0, len(stored) - PAGE + 1, PAGE) if self.layout == "pages" else ():
            clear = clear[:at] + torn(stored[at : at + PAGE], clear[at : at + PAGE]) + clear[at + PAGE :]
        return clear

    def carry(self, page, crc32c, decrypt=False):
        """pg_control between its clear page and the one that a raw base backup carries."""
        end = {1300: 288, 1700: 288, 1800: 292, 1905: 308}[struct.unpack_from("<I", page, 8)[0]]
        fields = self.convert(page[:end], lambda *_: False, decrypt)
        return (fields + struct.pack("<I", crc32c(fields))).ljust(len(page), b"\0")
