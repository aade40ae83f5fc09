"""The lines of a recovery sheet as docs/format/recovery-sheet.md says, without pgseal."""

import hashlib

ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
GENERATOR = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3]


def polymod(values):
    """The checksum of BIP 173."""
    checksum = 1
    for value in values:
        top = checksum >> 25
        checksum = (checksum & 0x1ffffff) << 5 ^ value
        for bit in range(5):
            checksum ^= GENERATOR[bit] if top >> bit & 1 else 0
    return checksum


def line(number, text):
    """The 24 bytes of one line."""
    name = f"pgseal{number:02}".encode()
    digits = [ALPHABET.index(letter) for letter in text.replace(" ", "")]
    expanded = [byte >> 5 for byte in name] + [0] + [byte & 31 for byte in name]
    if polymod(expanded + digits) != 0x2bc830a3:
        raise ValueError(f"line {number} is no Bech32m")
    bits = "".join(f"{digit:05b}" for digit in digits[:-6])
    return int(bits[:192], 2).to_bytes(24, "big")


def sheet(page):
    """The 240 bytes of a page."""
    lines = [text.split(": ") for text in page.splitlines() if text[:2].isdigit() and text[2:4] == ": "]
    whole = b"".join(line(int(number), text) for number, text in lines)
    digest = hashlib.sha256(b"pgseal recovery sheet 1\0" + whole[:-3]).digest()
    if len(whole) != 240 or whole[-3:] != digest[:3]:
        raise ValueError("the lines are of no sheet")
    return whole
