"""What comes out of a key.bin: docs/format/keyfile.md, a second time.

A part of read.py; calls none of pgseal's code.
"""
import hashlib, hmac, re, struct
from argon2.low_level import Type, hash_secret_raw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sealed_files import expand, info

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
    need(max(len(params), len(blob)) <= 60_000)
    need(kind != 0)
    need(kind <= 8, "unknown slot")
    need((kind != 1 or not params) and (kind != 5 or (not blob and params[:1] == b"/")))
    if kind in (3, 4):
        p = Reader(params)
        p.take(32)
        memory, passes, lanes = (p.number(4) for _ in range(3))
        limits = memory <= 4 << 20 and passes <= 64 and lanes <= 16
        need(limits and passes and lanes and memory >= 8 * lanes, "bad passphrase slot")
        need(bool(p.data) == (kind == 4))
    if kind in (7, 8):
        p = Reader(params)
        p.take(32)
        need(1000 <= p.number(4) <= 20_000_000, "bad passphrase slot")
        need(bool(p.data) == (kind == 8))
    command = params if kind in (2, 6) else params[44:] if kind == 4 else params[36:] if kind == 8 else b"x"
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
    need(r.number(8))  # the generation
    count = r.number(1)
    need(1 <= count <= 16)
    slots = {}
    for _ in range(count):
        number, *slot = read_slot(r)
        need(number not in slots)
        slots[number] = slot
    need(not r.data)
    return bound, keybits, key_id, slots

def argon2id(secret, salt, memory, passes, lanes):
    return hash_secret_raw(secret, salt, passes, memory, lanes, 32, Type.ID)

def pbkdf2(secret, salt, iterations):
    return hashlib.pbkdf2_hmac("sha512", secret, salt, iterations, 32)

def unwrap_pbkdf2(secret, aad, params, blob):
    need(len(secret) >= 14 and len(blob) >= 28, "wrong secret")
    kek = pbkdf2(secret, params[:32], *struct.unpack_from("<I", params, 32))
    return AESGCM(kek).decrypt(blob[-12:], blob[:-12], aad)

def unwrap(v, bound, kind, params, blob):
    if kind == 1:
        return blob
    if kind in (2, 5, 6):
        return v["printed"].encode()
    secret, aad = bytes.fromhex(v["secret"]), bound + bytes([kind]) + params
    try:
        if kind in (7, 8):
            return unwrap_pbkdf2(secret, aad, params, blob)
        memory, passes, lanes = struct.unpack("<III", params[32:44])
        return AESGCM(argon2id(secret, params[:32], memory, passes, lanes)).decrypt(bytes(12), blob, aad)
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
    opened = master.hex(), v["found"], keybits
    need(opened == (v["master"], v["key_id"], v["keybits"]), "opens another")
