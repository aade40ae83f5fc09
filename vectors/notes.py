"""Files beside key.bin, and sheets of paper: docs/format/receiver.md, slot-notes.md and recovery-sheet.md, a second time.

A part of read.py; calls none of pgseal's code.
"""
import hashlib, re
from key_file import Reader, argon2id, expand, info, mac, need
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.exceptions import InvalidTag

ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

def token_id(token):
    return hashlib.sha256(b"pgseal receiver id 1\0" + token.encode()).digest()[:8]

def begin(data, magic, longest):
    """(key id, how often written, the rest without the MAC)"""
    need(len(data) <= longest and data[:8] == magic)
    need(len(data) >= 8 + 2 + 32)
    r = Reader(data[8:-32])
    version = r.number(2)
    need(version <= 1, "newer")
    need(version == 1)
    key_id, written = r.take(16), r.number(8)
    need(0 < written < (1 << 64) - 1)
    return key_id, written, r

def receiver_list(master, data):
    key_id, _, r = begin(data, b"PGSEALRL", 1_100_000)
    count, tokens = r.number(2), []
    for _ in range(count):
        token = {"id": r.take(8).hex(), "expiry": r.number(8), "granted": r.number(8), "revoked": r.number(8)}
        role = r.take(r.number(2))
        need(len(role) <= 1000 and token["id"] not in [other["id"] for other in tokens])
        tokens.append({**token, "role": role.decode()})
    need(count <= 1000 and not r.data)
    own = expand(master, info(4), 16)
    whole = mac(master, 11, data[:10] + own + data[26:-32]) == data[-32:]
    need(whole or key_id == own, "other key")
    need(whole and key_id == own, "altered")
    return tokens

def text(r):
    part = r.take(r.number(2))
    try:
        word = part.decode()
    except UnicodeDecodeError:
        need(False)
    need(len(part) <= 200 and word == word.strip() and not re.search("[\0-\x1f\x7f-\x9f]", word))
    return word

def stamp(r):
    time, uid, user = r.number(8), r.number(4), text(r)
    need(time or not (uid or user))
    return {"time": time, "uid": uid, "user": user} if time else None

def slot_notes(master, data):
    key_id, _, r = begin(data, b"PGSEALSN", 16 << 10)
    count, notes = r.number(1), []
    for _ in range(count):
        note = {"slot": r.number(1), "fingerprint": r.take(16).hex(), "made": stamp(r), "proved": stamp(r), "label": text(r)}
        need(1 <= note["slot"] <= 16 and note["slot"] not in [other["slot"] for other in notes])
        notes.append(note)
    need(count <= 16 and not r.data)
    need(key_id == expand(master, info(4), 16), "other key")
    need(mac(master, 10, data[:-32]) == data[-32:], "altered")
    return notes

def polymod(values):
    """BIP 350."""
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, constant in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= constant if top >> bit & 1 else 0
    return check

def line(number, letters):
    """The 24 bytes of a line."""
    part = f"pgseal{number:02}"
    need(len(letters) == 45 and not set(letters) - set(ALPHABET), "mistyped")
    values = [ALPHABET.index(letter) for letter in letters]
    expanded = [ord(c) >> 5 for c in part] + [0] + [ord(c) & 31 for c in part]
    need(polymod(expanded + values) == 0x2BC830A3, "mistyped")
    bits = "".join(f"{value:05b}" for value in values[:-6])
    need(not int(bits[192:], 2), "mistyped")
    return int(bits[:192], 2).to_bytes(24, "big")

def sheet(page):
    """The 240 bytes of a page's ten lines."""
    lines = {}
    for found in re.finditer(r"^[ \t]*(\d\d?)[ \t]*:(.*)$", page, re.M):
        number = int(found[1])
        letters = re.sub(r"[\s-]", "", found[2]).lower().translate(str.maketrans("oi1", "0ll"))
        need(1 <= number <= 10 and number not in lines, "not one sheet")
        lines[number] = line(number, letters)
    need(len(lines) == 10, "not one sheet")
    return b"".join(lines[number] for number in range(1, 11))

def times(a, b):
    """In GF(256), x^8 + x^4 + x^3 + x^2 + 1."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return product

def inverse(a):
    return next(b for b in range(1, 256) if times(a, b) == 1)

def joined(shares):
    """The secret of {number: share}, by Lagrange's formula at 0."""
    secret = bytearray(32)
    for x, share in shares.items():
        weight = 1
        for other in shares:
            if other != x:
                weight = times(weight, times(other, inverse(other ^ x)))
        for at in range(32):
            secret[at] ^= times(weight, share[at])
    return bytes(secret)

def recover(pages):
    """The payload that these sheets hold: a whole one, or shares."""
    sheets = [sheet(page) for page in pages]
    for one in sheets:
        need(hashlib.sha256(b"pgseal recovery sheet 1\0" + one[:-3]).digest()[:3] == one[-3:], "mistyped")
        need(one[0] == 1, "newer")
    first = sheets[0]
    need(all(one[0] == first[0] and one[2:205] == first[2:205] for one in sheets), "of two sets")
    number, needed, made = first[1:4]
    if not number:
        need(needed == made == 0 and len(sheets) == 1)
        secret = first[205:237]
    else:
        need(2 <= needed <= made <= 32)
        need(all(1 <= one[1] <= made for one in sheets))
        shares = {one[1]: one[205:237] for one in sheets}
        need(len(shares) >= needed, "too few")
        secret = joined(dict(list(shares.items())[:needed]))
    header, salt, wrapped = first[4:53], first[53:85], first[85:205]
    params = salt + b"".join(n.to_bytes(4, "little") for n in (64 << 10, 3, 4))
    try:
        return AESGCM(argon2id(secret, salt, 64 << 10, 3, 4)).decrypt(bytes(12), wrapped, header + b"\4" + params)
    except InvalidTag:
        need(False, "wrong secret")
