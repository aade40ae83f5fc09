"""Encrypted columns a second time: cells, data keys, grants, messages, from docs/format/.

A part of read.py; calls none of pgseal's code.
"""
import hashlib, hmac, struct
from functools import reduce
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from key_file import Reader, Refused, need
from sealed_files import expand
from sealing import gcm_open, hpke_receiver, siphash, siv_open, siv_seal, x25519_public

FIXED = {0x09: 4, 0x0A: 8, 0x0B: 4, 0x0C: 8, 0x0D: None, 0x0E: 1, 0x0F: 4, 0x10: 8, 0x11: 8, 0x12: 16, 0x13: None, 0x14: 16, 0x39: None}

def xor(data):
    return reduce(lambda a, b: a ^ b, data, 0)

def le(n, number):
    return number.to_bytes(n, "little")

def open_siv(key, nonce, ad, tag, sealed, result="not authentic"):
    try:
        return siv_open(key, nonce, ad, tag, sealed)
    except InvalidTag:
        raise Refused(result) from None

# Cells

def data_key_id(key):
    return expand(key, b"pgseal/cell/1 id\0", 4) if len(key) == 32 else hashlib.sha256(b"pgseal/cell/0 id\0" + key).digest()[:4]

def parse_cell(cell):
    """(type, form, bytes before the nonce, nonce, tag, ciphertext)"""
    need(len(cell) >= 3, "wrong length")
    ty, version, algorithm = cell[1], cell[2] >> 4, cell[2] & 15
    need(version <= 1, "unknown version")
    need(algorithm in ((1, 2, 3) if version else (0,)), "unknown algorithm")
    need(not version or len(cell) >= 7, "wrong length")
    need(ty in (FIXED if version else (0x09, 0x39)), "unknown type")
    at = 7 if version else 3
    plain = len(cell) - at - 28 - (0 if version else 1)
    need(plain >= 0 and FIXED[ty] in (None, plain), "wrong length")
    need(xor(cell) == 0, "malformed")
    return ty, cell[2], cell[:at], cell[at : at + 12], cell[at + 12 : at + 28], cell[at + 28 :]

def cell_ad(ty, form, key_id):
    return b"pgseal/cell/1\0" + bytes([ty, form]) + key_id

def open_cell(cell, key):
    ty, form, head, nonce, tag, sealed = parse_cell(cell)
    need((form >> 4 == 1) == (len(key) == 32), "not authentic")
    if form >> 4 == 1:
        need(head[3:] == data_key_id(key), "not authentic")
        return open_siv(expand(key, b"pgseal/cell/1 seal\0", 32), nonce, cell_ad(ty, form, head[3:]), tag, sealed)
    try:
        plain = gcm_open(key, nonce, tag, sealed)
    except InvalidTag:
        raise Refused("not authentic") from None
    need(xor(plain) == 0, "malformed")
    return plain[-2::-1] if ty == 0x09 else plain[:-1]

def seal_cell(key, ty, mode, plain, nonce=None):
    form, key_id = 0x10 | mode, data_key_id(key)
    ad = cell_ad(ty, form, key_id)
    nonce = nonce or hmac.digest(expand(key, b"pgseal/cell/1 nonce\0", 32), ad + plain, "sha256")[:12]
    tag, sealed = siv_seal(expand(key, b"pgseal/cell/1 seal\0", 32), nonce, ad, plain)
    body = bytes([ty, form]) + key_id + nonce + tag + sealed
    return bytes([xor(body)]) + body

def keyless(cell, candidates):
    """The candidates whose unkeyed hash is the nonce: the weakness of deterministic cells of version 0."""
    _, _, _, nonce, _, _ = parse_cell(cell)
    return [c for c in candidates if hashlib.sha256(c + bytes([xor(c)])).digest()[:12] == nonce]

def token(master, kind, part):
    return siphash(expand(master, b"pgseal/owner/1 tokens\0", 32)[:16], bytes([kind]) + part.encode())

def value_hash(master, ty, canonical, seed):
    return siphash(expand(master, b"pgseal/owner/1 hash\0", 32)[:16], struct.pack("<QB", seed, ty) + canonical)

# Data keys

def owner_id(master, owner):
    return expand(master, b"pgseal/owner/1 id\0" + owner, 16)

def wrap(master, owner, keyname, group, deterministic, key, nonce):
    bound = bytes([1, len(key) == 32, deterministic]) + le(4, group) + data_key_id(key) + owner_id(master, owner)
    ad = b"pgseal/datakey/1\0" + bound + keyname.encode()
    tag, sealed = siv_seal(expand(master, b"pgseal/owner/1 wrap\0", 32), nonce, ad, key)
    return bound + nonce + tag + sealed

def unwrap(master, owner, keyname, wrapped):
    need(wrapped and wrapped[0] != 0, "malformed")
    need(wrapped[0] == 1, "unknown")
    need(len(wrapped) >= 2, "malformed")
    need(wrapped[1] <= 1, "unknown")
    need(len(wrapped) == 55 + (32 if wrapped[1] else 16) and wrapped[2] <= 1, "malformed")
    need(wrapped[11:27] == owner_id(master, owner), "other owner")
    ad = b"pgseal/datakey/1\0" + wrapped[:27] + keyname.encode()
    key = open_siv(expand(master, b"pgseal/owner/1 wrap\0", 32), wrapped[27:39], ad, wrapped[39:55], wrapped[55:])
    need(data_key_id(key) == wrapped[7:11], "not authentic")
    return key

# Grants

def public(seed):
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

def sign(seed, label, body):
    return body + Ed25519PrivateKey.from_private_bytes(seed).sign(label + body)

def signed_by(key, label, body, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, label + body)
        return True
    except (InvalidSignature, ValueError):
        return False

def begin(data, magic):
    need(data[:8] == magic and data[8:9] not in (b"", b"\0"), "malformed")
    need(data[8] == 1, "unknown")
    return Reader(data[9:])

def fits(read, *arguments):
    """What `read` gives; cut short is malformed."""
    try:
        return read(*arguments)
    except Refused:
        raise Refused("malformed") from None

def grant_fields(r):
    g = {"subject": r.number(1), "serial": r.take(16), "owner": r.take(32), "client": r.take(32), "placed": r.number(1),
         "database": r.take(16), "operations": r.number(4), "not_before": r.number(8), "not_after": r.number(8), "scope": r.number(1)}
    g["keys"] = [r.number(4) for _ in range(r.number(2))]
    g["signature"] = r.take(64)
    need(not r.data and g["subject"] <= 2 and g["placed"] <= 1 and g["scope"] <= 2 and g["operations"] < 1 << 15)
    need((g["subject"] == 1 or not any(g["client"])) and (g["placed"] or not any(g["database"])))
    need(g["keys"] == sorted(set(g["keys"])) and (g["scope"] or not g["keys"]))
    return g

def verify_grant(data, owner, now, revoked=()):
    g = fits(grant_fields, begin(data, b"PGSEALGR"))
    need(g["owner"] == owner and signed_by(owner, b"pgseal/grant/1\0", data[:-64], g["signature"]), "foreign")
    need(g["subject"] != 2 or g["operations"] <= 3, "too wide")
    need(now >= g["not_before"], "early")
    need(now < g["not_after"], "expired")
    need(g["serial"] not in revoked, "revoked")
    return g

def revocation_fields(r):
    owner, sequence = r.take(32), r.number(8)
    serials = [r.take(16) for _ in range(r.number(4))]
    signature = r.take(64)
    need(not r.data and serials == sorted(set(serials)))
    return owner, sequence, serials, signature

def verify_revocations(data, owner):
    claimed, _, serials, signature = fits(revocation_fields, begin(data, b"PGSEALRV"))
    need(claimed == owner and signed_by(owner, b"pgseal/revocations/1\0", data[:-64], signature), "foreign")
    return serials

# Messages

def counted(data):
    return le(4, len(data)) + data

def evidence_message(v):
    """(report data, message) of what an evaluator offers"""
    client = v["hello"][2:]
    fixed = bytes([v["backend"]]), x25519_public(v["private"]), v["policy"], client, v["session_nonce"], le(8, v["expires"])
    report = hashlib.sha512(b"pgseal/evidence/1\0" + b"".join(fixed)).digest()
    message = b"\2\1" + fixed[0] + fixed[5] + v["session_nonce"] + fixed[1] + v["policy"] + counted(v["evidence"])
    return report, message

def transcript(hello, evidence):
    return hashlib.sha256(b"pgseal/transcript/1\0" + hello + evidence).digest()

def open_signed(info, encapsulated, master, owner, expires):
    return b"pgseal/open/1\0" + info + encapsulated + owner_id(master, owner) + le(8, expires)

def open_fields(r):
    o = {"master": r.take(32), "owner": r.take(32), "client": r.take(32), "signature": r.take(64), "until": r.number(8)}
    for name in ("grants", "revocations"):
        o[name] = [r.take(r.number(4)) for _ in range(r.number(4))]
    need(not r.data)
    for grant in o["grants"]:
        grant_fields(begin(grant, b"PGSEALGR"))
    for revocations in o["revocations"]:
        revocation_fields(begin(revocations, b"PGSEALRV"))
    return o

def message_head(data, kind):
    need(len(data) >= 2 and data[0] == kind and data[1] != 0, "malformed")
    need(data[1] == 1, "unknown")
    return Reader(data[2:])

def open_frame(data):
    r = message_head(data, 3)
    frame = r.take(32), r.take(r.number(4))
    need(not r.data)
    return frame

def open_session(v, evidence, data):
    """(what the client handed over, the exchange)"""
    need(v["now"] < v["expires"], "expired")
    message_head(data, 3) if len(data) >= 2 else need(False, "malformed")
    encapsulated, sealed = fits(open_frame, data)
    info = transcript(v["hello"], evidence)
    try:
        exchange = hpke_receiver(v["private"], encapsulated, info)
        plain = exchange.open(b"", sealed)
    except (InvalidTag, ValueError):
        raise Refused("refused") from None
    o = fits(open_fields, Reader(plain))
    message = open_signed(info, encapsulated, o["master"], o["owner"], o["until"])
    need(signed_by(o["client"], b"", message, o["signature"]), "refused")
    return o, exchange

class Session:
    """Both directions of an open session."""
    def __init__(self, exchange):
        self.id = exchange.export(b"pgseal/session/1 id\0")[:16]
        self.keys = [exchange.export(b"pgseal/session/1 " + who + b"\0") for who in (b"client", b"evaluator")]
        self.last = 0

    def seal(self, kind, counter, plain):
        ad = bytes([kind, 1]) + self.id + le(8, counter)
        tag, sealed = siv_seal(self.keys[kind != 5], le(8, counter) + bytes(4), ad, plain)
        return ad + tag + sealed

    def command(self, data):
        r = message_head(data, 5)
        id_, counter, tag = fits(lambda: (r.take(16), r.number(8), r.take(16)))
        need(id_ == self.id, "refused")
        plain = open_siv(self.keys[0], le(8, counter) + bytes(4), data[:26], tag, r.data, "refused")
        need(counter > self.last, "refused")
        self.last = counter
        fits(command_fields, Reader(plain))
        return counter

    def reply(self, counter, plain):
        return self.seal(6, counter, plain)

def command_fields(r):
    kind = r.number(1)
    need(1 <= kind <= 4)
    if kind <= 2:
        r.take(r.number(4))
    elif kind == 3:
        need(r.number(1) <= 1)
        r.number(4)
        r.take(r.number(4)).decode()
    need(not r.data)

def owners_list(signer, listed, signature):
    """docs/format/identity.md: what an owner's client keeps of databases, if its signature holds."""
    try:
        Ed25519PublicKey.from_public_bytes(signer).verify(signature, b"pgseal/owners-list/1\0" + listed)
    except InvalidSignature:
        raise Refused("not signed")
    r = Reader(listed)
    def text():
        return r.take(r.number(2)).decode()
    need(r.take(8) == b"PGSEALOL")
    version = r.number(1)
    need(version in (1, 2, 3))
    def ordered():
        return [[text(), text()], [[text(), r.number(1)] for _ in range(r.number(2))]]
    databases = []
    for _ in range(r.number(2)):
        name = text()
        made, orders = (r.number(1), [ordered() for _ in range(r.number(2))]) if version >= 2 else (0, [])
        need(made < 2 and orders == sorted(orders) and all(flag < 2 for _, placed in orders for _, flag in placed))
        columns = [[text() for _ in range(5)] for _ in range(r.number(2))]
        objects = [[r.number(1), text(), text(), text()] for _ in range(r.number(2))] if version == 3 else []
        need(objects == sorted(objects) and all(kind in (1, 2, 3) and (kind != 2 or not rest) for kind, _, _, rest in objects))
        revocations = r.take(r.number(4))
        revoked = verify_revocations(revocations, signer) if revocations else []
        need(all(any(column[:2] == table for column in columns) for table, _ in orders))
        known = {"name": name, "columns": columns, "revoked": [serial.hex() for serial in revoked]}
        databases.append({**known, "objects": objects} if version == 3 else known)
    need(not r.data and databases == sorted(databases, key=lambda database: database["name"]))
    return databases
